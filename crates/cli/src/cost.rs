//! `check --cost`: what a misalignment costs on a drive, by its model or as measured by a probe.
//!
//! The cost of a finding depends on its byte on the disk: how far that is past a boundary of the drive's own
//! units.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use straddle_audit::{Code, Finding, Severity};
use straddle_bench::{Host, Modelled, Pattern, RANDOM_BLOCKS, Silent, Sync, Workload, sweep};
use straddle_drive::Profile;
use straddle_examine::{Cost, Price};
use straddle_units::{Boundary, ByteCount};

use crate::measured::{self, Measured};
use crate::target::{self, TargetSpec};

/// Writes per workload: enough for two digits, in a few milliseconds.
const COUNT: u64 = 400;
/// The seed of both arms of a comparison, so that they write the same blocks.
const SEED: u32 = 1;

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
    fn price(&self, finding: &Finding) -> Option<Cost> {
        finding.miss?;
        // Only a misaligned start shifts what is written behind it. Advice costs nothing by itself.
        if finding.rule.code == Code::S002 || finding.severity == Severity::Advice {
            return None;
        }
        let at = finding.at?;
        match self {
            Self::Probe(measured) => {
                let past = measured.boundary()?.past(at).get();
                let random_write = if past == 0 { 1.0 } else { measured.cost()? };
                let drive = measured.target().to_owned();
                Some(Cost { drive, measured: true, past, random_write, sequential_write: None })
            }
            Self::Model { name, profile, known } => {
                let past = boundary(profile)?.past(at).get();
                let mut known = known.lock().ok()?;
                known.entry(past).or_insert_with(|| modelled(name, profile, past)).clone()
            }
        }
    }
}

/// Returns the drive's units and where they begin.
fn boundary(profile: &Profile) -> Option<Boundary> {
    Boundary::new(ByteCount::new(profile.sectors.physical), ByteCount::new(profile.first_boundary()))
}

/// Runs both workloads on a boundary and `past` bytes past it.
fn modelled(name: &str, profile: &Profile, past: u64) -> Option<Cost> {
    let random = Pattern::RandomWrite { blocks: RANDOM_BLOCKS, seed: Some(SEED), sync: Sync::None };
    let ratio =
        |pattern: Pattern| ratio(name, profile, &Workload { count: Some(COUNT), ..pattern.into() }, past);
    Some(Cost {
        drive: name.to_owned(),
        measured: false,
        past,
        random_write: ratio(random)?,
        sequential_write: Some(ratio(Pattern::SEQUENTIAL_WRITE)?),
    })
}

fn ratio(name: &str, profile: &Profile, workload: &Workload, past: u64) -> Option<f64> {
    let logical = profile.claims.logical_sector;
    let first = boundary(profile)?.phase().get();
    if !first.is_multiple_of(logical) || !past.is_multiple_of(logical) {
        return None;
    }
    let offsets = [first / logical, (first + past) / logical];
    let fresh = || Modelled::new(name, profile);
    let sweep = sweep(fresh, workload, &offsets, Host::default(), &mut Silent).ok()?;
    let seconds: Vec<f64> = sweep.arms().iter().map(straddle_bench::Arm::seconds_per_request).collect();
    Some(seconds[1] / seconds[0]).filter(|ratio| ratio.is_finite())
}
