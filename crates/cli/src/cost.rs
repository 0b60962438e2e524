//! `check --cost`: where the costs of misaligned starts come from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use straddle_audit::examine::{Cost, CostSource, Price};
use straddle_device::topology::{Figure, Topology};
use straddle_drive::Profile;
use straddle_measure::bench::OffBoundary;
use straddle_units::ByteOffset;

use crate::measured::{Known, Measured};
use crate::target::Drive;

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

/// Parses what is known of a drive, if that includes costs.
pub(crate) fn parse(text: &str) -> Result<Pricing, String> {
    match Known::parse(text)? {
        Known::Model(Drive { specification: name, profile }) => {
            Ok(Pricing::Model { name, profile, known: Arc::default() })
        }
        Known::Probe(measured) if measured.cost.is_some_and(|ratio| ratio.is_finite() && ratio > 0.0) => {
            Ok(Pricing::Probe(measured))
        }
        Known::Probe(_) => Err(format!("{text}: the probe could not measure the cost of a misaligned write")),
    }
}

impl Pricing {
    /// Says that a target is not judged by the unit of this drive, if it is not: a start that is off that unit alone has no
    /// finding, and so no cost.
    pub(crate) fn unjudged(&self, topology: &Topology) -> Option<String> {
        let boundary = match self {
            Self::Model { profile, .. } => profile.boundary()?,
            Self::Probe(measured) => measured.boundary()?,
        };
        let (unit, known) = (boundary.size(), topology.physical_boundary()?);
        let figures = [topology.io_min.as_ref(), topology.indirection_unit.as_ref()];
        let mut sizes = figures.into_iter().flatten().map(Figure::value).chain([known.size()]);
        let is_judged = sizes.any(|size| size == unit) && (known.size() != unit || known == boundary);
        (!is_judged).then(|| match self {
            Self::Model { name, .. } => format!(
                "note: --cost only adds to findings; starts that miss only the unit of {name}, {unit}, are \
                 not findings. To check against it: --assume drive:{name}"
            ),
            Self::Probe(_) => format!(
                "note: --cost only adds to findings; starts that miss only the measured unit, {unit}, are \
                 not findings. To check against it: --measured FILE"
            ),
        })
    }
}

impl Price for Pricing {
    fn price(&self, at: ByteOffset) -> Option<Cost> {
        match self {
            Self::Probe(measured) => {
                let past = measured.boundary()?.past(at).get();
                let random_write = if past == 0 { 1.0 } else { measured.cost? };
                let (drive, size) = (measured.target.clone(), measured.boundary()?.size().get());
                // A whole unit off the boundaries is parts of two, and both are written.
                let wear = (!measured.rotates).then_some(if past == 0 { 1.0 } else { 2.0 });
                Some(Cost {
                    drive,
                    source: CostSource::Measured,
                    past,
                    size,
                    random_write,
                    wear,
                    sequential_write: None,
                })
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
    let OffBoundary { size, random_write, sequential_write, wear } =
        OffBoundary::modelled(name, profile, past)?;
    let drive = name.to_owned();
    Some(Cost { drive, source: CostSource::Modelled, past, size, random_write, wear, sequential_write })
}
