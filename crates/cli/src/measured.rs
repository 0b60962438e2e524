//! The file that passes a probe's findings from `probe --save` to `--measured` of other commands.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use straddle_device::Assume;
use straddle_measure::probe::{Report, Rotation};
use straddle_units::{Boundary, ByteCount};

use crate::target::{self, Drive};

/// The largest file accepted, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// The version of this format.
const SCHEMA: u32 = 1;

/// The contents of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    schema: u32,
    /// The target that was probed.
    pub(crate) target: String,
    /// Bytes per logical sector.
    logical: u64,
    /// Bytes of the unit that can be written without being read first.
    unit: u64,
    /// The first byte at which a unit begins.
    phase: u64,
    /// Whether the medium rotates. If so, the unit is a physical sector, otherwise an indirection unit.
    pub(crate) rotates: bool,
    /// How many times as long a durable or sustained write off the boundaries takes, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
}

impl Measured {
    /// Makes the contents from a report; `None` if the report has no unit.
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

    /// Returns the units and where they begin.
    pub(crate) fn boundary(&self) -> Option<Boundary> {
        Boundary::new(ByteCount::new(self.unit), ByteCount::new(self.phase))
    }

    fn words(&self) -> String {
        let Self { logical, unit, phase, .. } = self;
        if self.rotates || *phase > 0 {
            format!("logical={logical},physical={unit},offset={phase}")
        } else {
            format!("logical={logical},iu={unit}")
        }
    }
}

/// Reads the topology from the file given with `--measured`.
pub(crate) fn read(path: &str) -> Result<Assume, String> {
    let assume: Result<Assume, _> = load(path)?.words().parse();
    assume.map(|assume| assume.measured(path)).map_err(|error| format!("{path}: {error}"))
}

/// A drive of which something is known: a model, or what a probe measured.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// A modelled drive.
    Model(Drive),
    /// The measurements of a probe.
    Probe(Measured),
}

impl Known {
    /// Parses a modelled drive, with or without the prefix `drive:`, or the path of a file written by `probe
    /// --save`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let is_saved = File::open(text).is_ok_and(|file| {
            let mut first = [0];
            file.metadata().is_ok_and(|file| file.is_file())
                && file.take(1).read_exact(&mut first).is_ok()
                && first == *b"{"
        });
        match is_saved {
            true => load(text).map(Self::Probe),
            false => Drive::open(text).map(Self::Model).map_err(|error| {
                // A path is looked for as a profile, and the error says so.
                let is_path = text.contains('/') || Path::new(text).exists();
                let no_file = if is_path { "" } else { "; no file has that name either" };
                format!("{}{no_file}", target::shown(&error))
            }),
        }
    }
}

/// Describes why the file does not exist; the user may have meant a modelled drive.
fn missing(path: &str, error: &std::io::Error) -> String {
    let hint = if Drive::open(path).is_ok() {
        format!("; a modelled drive is named {}", target::modelled(path))
    } else {
        String::new()
    };
    format!("{path}: {error}{hint}")
}

/// Reads a file written by `probe --save`.
pub(crate) fn load(path: &str) -> Result<Measured, String> {
    let shown = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    let path_of = Path::new(path);
    // A pipe or a device may have no end.
    if !std::fs::metadata(path_of).map_err(|error| missing(path, &error))?.is_file() {
        return Err(shown(&"not a file"));
    }
    let mut text = String::new();
    let file = File::open(path_of).map_err(|error| shown(&error))?;
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| shown(&error))?;
    let measured: Measured = serde_json::from_str(&text)
        .map_err(|error| shown(&format!("not a file written by 'straddle probe --save' ({error})")))?;
    if measured.schema != SCHEMA {
        return Err(shown(&format!("schema {}, but this version reads {SCHEMA}", measured.schema)));
    }
    Ok(measured)
}
