//! What is known of a drive, from its model or from the file of `probe --save` (`--measured`): its sectors, and what
//! misalignment costs on it (`check --cost`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use straddle_audit::examine::{Cost, CostSource, Price, assume_drive};
use straddle_device::Assume;
use straddle_device::shown::with_causes;
use straddle_drive::Profile;
use straddle_measure::bench::OffBoundary;
use straddle_measure::probe::{Report, Rotation};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::progress::Bar;
use crate::target::{self, Drive};

const MAX_FILE: u64 = 64 << 10;

const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    schema: u32,
    pub(crate) target: String,
    logical: u64,
    unit: u64,
    phase: u64,
    /// Whether the medium rotates. If so, the unit is a physical sector, otherwise an indirection unit.
    pub(crate) rotates: bool,
    /// How many times as long a durable or sustained write takes between boundaries as on them, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
}

impl Measured {
    pub(crate) fn of(target: &str, report: &Report) -> Option<Self> {
        let unit = report.unit.value?;
        Some(Self {
            schema: SCHEMA,
            target: target.to_owned(),
            logical: report.logical,
            unit: unit.size().get(),
            phase: unit.phase().get(),
            rotates: matches!(report.rotation.value, Some(Rotation::Period(_))),
            cost: report.cost(),
        })
    }

    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    pub(crate) fn boundary(&self) -> Option<Boundary> {
        Boundary::new(ByteCount::new(self.unit), ByteCount::new(self.phase))
    }

    fn assume(&self, path: &str) -> Result<Assume, String> {
        let Self { logical, unit, phase, .. } = self;
        let words = if self.rotates || *phase > 0 {
            format!("logical={logical},physical={unit},offset={phase}")
        } else {
            format!("logical={logical},iu={unit}")
        };
        let assume: Result<Assume, _> = words.parse();
        assume.map(|assume| assume.measured(path)).map_err(|error| format!("{path}: {error}"))
    }
}

pub(crate) fn read(path: &str) -> Result<Assume, String> {
    load(path)?.assume(path)
}

#[derive(Clone, Debug)]
pub(crate) enum Known {
    Model(Drive),
    Probe(Measured),
}

impl Known {
    fn boundary(&self) -> Option<Boundary> {
        match self {
            Self::Model(drive) => drive.profile.boundary(),
            Self::Probe(measured) => measured.boundary(),
        }
    }

    /// A modelled drive, with or without the prefix `drive:`, or the path of a file written by `probe --save`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let is_saved = File::open(text).is_ok_and(|file| {
            let mut first = [0];
            file.metadata().is_ok_and(|file| file.is_file())
                && file.take(1).read_exact(&mut first).is_ok()
                && first == *b"{"
        });
        if is_saved {
            return load(text).map(Self::Probe);
        }
        Drive::open(text).map(Self::Model).map_err(|error| {
            // A path is looked for as a profile, and the error says so.
            let is_path = text.contains('/') || Path::new(text).exists();
            let no_file = if is_path { "" } else { "; there is also no file of that name" };
            format!("{}{no_file}", target::shown(&error))
        })
    }
}

fn missing(path: &str, error: &std::io::Error) -> String {
    let hint = format!("; to name a modelled drive, write {}", target::modelled(path));
    format!("{path}: {error}{}", if Drive::open(path).is_ok() { hint } else { String::new() })
}

pub(crate) fn load(path: &str) -> Result<Measured, String> {
    std::fs::metadata(path).map_err(|error| missing(path, &error))?;
    let measured: Measured = read_written(path, "--save", MAX_FILE)?;
    if measured.schema != SCHEMA {
        return Err(format!(
            "{path}: the file uses schema {}, but this version of straddle reads schema {SCHEMA}",
            measured.schema
        ));
    }
    Ok(measured)
}

/// Reads a file that `straddle probe` wrote for `option`, of at most `limit` bytes.
pub(crate) fn read_written<T: DeserializeOwned>(path: &str, option: &str, limit: u64) -> Result<T, String> {
    let shown = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    // A pipe or a device may have no end.
    if !std::fs::metadata(path).map_err(|error| shown(&error))?.is_file() {
        return Err(shown(&"not a file"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| shown(&error))?;
    file.take(limit).read_to_string(&mut text).map_err(|error| shown(&error))?;
    serde_json::from_str(&text)
        .map_err(|error| shown(&format!("not a file written by 'straddle probe {option}' ({error})")))
}

#[derive(Clone, Debug)]
pub(crate) struct Pricing {
    drive: Known,
    /// Its sectors, for images, which have no drive of their own.
    pub(crate) assume: Assume,
    /// Bytes of each write on a model, if not the usual ones.
    size: Option<u64>,
    /// The results of a model so far, by the distance past a boundary in bytes.
    computed: Arc<Mutex<BTreeMap<u64, Option<Cost>>>>,
}

pub(crate) fn pricing(text: &str) -> Result<Pricing, String> {
    let drive = Known::parse(text)?;
    let assume = match &drive {
        Known::Probe(measured) if !measured.cost.is_some_and(|ratio| ratio.is_finite() && ratio > 0.0) => {
            return Err(format!(
                "{text}: contains no cost of a misaligned write, because the probe could not measure it"
            ));
        }
        Known::Probe(measured) => measured.assume(text)?,
        Known::Model(Drive { profile, .. }) => assume_drive(profile).map_err(|error| with_causes(&error))?,
    };
    Ok(Pricing { drive, assume, size: None, computed: Arc::default() })
}

impl Pricing {
    pub(crate) fn of(self, size: Option<ByteCount>) -> Self {
        Self { size: size.map(ByteCount::get), ..self }
    }
}

impl Price for Pricing {
    fn price(&self, at: ByteOffset) -> Option<Cost> {
        let boundary = self.drive.boundary()?;
        let past = boundary.past(at).get();
        match &self.drive {
            Known::Probe(measured) => {
                let (drive, source) = (measured.target.clone(), CostSource::Measured);
                let (size, random_write) =
                    (boundary.size().get(), if past == 0 { 1.0 } else { measured.cost? });
                // A whole unit between boundaries is parts of two, and both are written.
                let wear = (!measured.rotates).then_some(if past == 0 { 1.0 } else { 2.0 });
                Some(Cost {
                    drive,
                    source,
                    past,
                    size,
                    is_durable: measured.rotates,
                    random_write,
                    firmware: None,
                    wear,
                    sequential_write: None,
                })
            }
            Known::Model(Drive { specification, profile }) => {
                let mut computed = self.computed.lock().ok()?;
                let cost = || modelled(specification, profile, past, self.size);
                computed.entry(past).or_insert_with(cost).clone()
            }
        }
    }
}

fn modelled(name: &str, profile: &Profile, past: u64, page: Option<u64>) -> Option<Cost> {
    let OffBoundary { size, random_write, firmware, sequential_write, wear } =
        OffBoundary::modelled(name, profile, past, page, &mut Bar::new())?;
    let drive = name.to_owned();
    Some(Cost {
        drive,
        source: CostSource::Modelled,
        past,
        size,
        is_durable: page.is_some() && wear.is_none(),
        random_write,
        firmware,
        wear,
        sequential_write,
    })
}
