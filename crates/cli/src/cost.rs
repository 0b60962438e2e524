//! `check --cost`: where the costs of misaligned starts come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use straddle_bench::OffBoundary;
use straddle_drive::Profile;
use straddle_examine::{Cost, Price};
use straddle_units::ByteOffset;

use crate::measured::{self, Measured};
use crate::target::{self, TargetSpec};

/// Where costs come from.
#[derive(Clone, Debug)]
pub(crate) enum Pricing {
    /// A modelled drive.
    Model {
        /// The name as given.
        name: String,
        /// The drive's profile.
        profile: Arc<Profile>,
        /// The results so far, by the distance past a boundary in bytes.
        known: Arc<Mutex<BTreeMap<u64, Option<Cost>>>>,
    },
    /// The measurements of a probe.
    Probe(Measured),
}

/// Parses `drive:NAME`, or the path of a file written by `probe --save`.
pub(crate) fn parse(text: &str) -> Result<Pricing, String> {
    let named = TargetSpec::parse(Path::new(text)).map_err(|error| target::shown(&error))?;
    let TargetSpec::Modelled(drive) = named else {
        let measured = measured::load(text)?;
        if measured.cost().is_none_or(|ratio| !ratio.is_finite() || ratio <= 0.0) {
            return Err(format!("{text}: the probe could not measure what a write off the boundaries costs"));
        }
        return Ok(Pricing::Probe(measured));
    };
    let known = Arc::default();
    Ok(Pricing::Model { name: drive.specification, profile: drive.profile, known })
}

impl Price for Pricing {
    fn price(&self, at: ByteOffset) -> Option<Cost> {
        match self {
            Self::Probe(measured) => {
                let past = measured.boundary()?.past(at).get();
                let random_write = if past == 0 { 1.0 } else { measured.cost()? };
                let drive = measured.target().to_owned();
                Some(Cost { drive, measured: true, past, random_write, sequential_write: None })
            }
            Self::Model { name, profile, known } => {
                let past = profile.boundary()?.past(at).get();
                let mut known = known.lock().ok()?;
                known.entry(past).or_insert_with(|| modelled(name, profile, past)).clone()
            }
        }
    }
}

fn modelled(name: &str, profile: &Profile, past: u64) -> Option<Cost> {
    let OffBoundary { random_write, sequential_write } = OffBoundary::modelled(name, profile, past)?;
    let (drive, sequential_write) = (name.to_owned(), Some(sequential_write));
    Some(Cost { drive, measured: false, past, random_write, sequential_write })
}
