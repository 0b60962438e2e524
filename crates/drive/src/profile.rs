//! Profiles: a modelled drive as data, each number with its source.
//!
//! A profile is TOML. Any value may be written plainly or as `{ value = …, source = "…" }`; the shipped ones
//! give every number a source, or `fitted`. `base` names a profile to start from. `[variants."jumper=on"]` holds the
//! changes made by the option in `drive:NAME,jumper=on`. Only this crate makes a [`Profile`], and the code below
//! relies on every figure being possible.
//! crate makes a [`Profile`], and the code below relies on every figure being possible.

mod builtin;
mod file;
mod keys;
mod read;
mod source;

use std::ops::Deref;
use std::path::PathBuf;

pub use crate::interface::{Interface, Sectors};
pub use source::Figure;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::disk::{DiskParameters, Geometry, GeometryError, RmwPolicy, SeekCurve, SeekError};
use crate::ssd::{FlashError, SsdParameters};

/// A drive that can be modelled. Its values have been checked and cannot be set afterwards.
///
/// ```compile_fail,E0594
/// let mut profile = straddle_drive::Profile::open("wd10ears").unwrap();
/// profile.sectors.physical = 0;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    values: Values,
}

/// The values of a [`Profile`].
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The profile's name.
    pub name: String,
    /// Manufacturer, model, size and year.
    pub title: String,
    /// Remarks on the drive, in sentences.
    pub notes: Option<String>,
    /// What the drive reports to the host.
    pub claims: Claims,
    /// Its real sectors.
    pub sectors: Sectors,
    /// The controller and the link to the host.
    pub interface: Interface,
    /// What stores the data.
    pub body: Body,
    /// The fitted parameters, and the experiments they were fitted to.
    pub fit: Option<Fit>,
    /// Every number of the profile with its source, in the order of the file.
    pub figures: Vec<Figure>,
    /// The options that the profile accepts, such as `jumper=on`.
    pub variants: Vec<String>,
    /// The files that it was read from: its own, and those of its bases.
    pub files: Vec<PathBuf>,
}

/// What a drive reports to the host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// The model name.
    pub model: String,
    /// The number of bytes that the host can address.
    #[serde(rename = "capacity_bytes")]
    pub capacity: u64,
    /// The logical sector size.
    #[serde(rename = "logical_sector_bytes")]
    pub logical_sector: u64,
    /// The physical sector size.
    #[serde(rename = "physical_sector_bytes")]
    pub physical_sector: u64,
    /// The offset of the first physical sector boundary.
    #[serde(rename = "alignment_offset_bytes", default)]
    pub alignment_offset: u64,
    /// The minimum I/O size, if any.
    #[serde(rename = "minimum_io_bytes", skip_serializing_if = "Option::is_none")]
    pub minimum_io: Option<u64>,
    /// The optimal I/O size, if any.
    #[serde(rename = "optimal_io_bytes", skip_serializing_if = "Option::is_none")]
    pub optimal_io: Option<u64>,
    /// Whether the drive reports that it rotates.
    pub rotational: bool,
    /// The discard granularity, if the drive has a discard command.
    #[serde(rename = "discard_granularity_bytes", skip_serializing_if = "Option::is_none")]
    pub discard_granularity: Option<u64>,
}

/// What stores the data.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Platters, heads and an arm.
    Disk(Box<DiskParameters>),
    /// Flash behind a mapping table.
    Ssd(Box<SsdParameters>),
}

/// Which parameters were fitted, within which bounds, and to which published figures.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The fitted numbers.
    pub knobs: Vec<Knob>,
    /// The experiments whose figures they were fitted to.
    pub experiments: Vec<String>,
    /// The lab figures, as EXPERIMENT/MEASURE, that a value or the policy was chosen by hand to match.
    #[serde(default)]
    pub chosen: Vec<String>,
}

/// A number that a fit may change.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// Its key in the file, such as `write_cache.setup_us`.
    pub path: String,
    /// The smallest value tried.
    pub low: f64,
    /// The largest value tried.
    pub high: f64,
    /// Whether only whole numbers make sense.
    #[serde(default)]
    pub whole: bool,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ProfileError {
    #[error("there is no modelled drive {name:?}; 'straddle drive list' lists all modelled drives{}", suggested(suggestion.as_deref()))]
    Unknown { name: String, suggestion: Option<String> },
    #[error("cannot read the profile {}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the base {base} is a file, but only a profile in a file can have a file as its base")]
    NotShipped { base: String },
    #[error("{} was not read, because it is outside {}", path.display(), folder.display())]
    Elsewhere { path: PathBuf, folder: PathBuf },
    #[error("profile {name}: {message}")]
    Syntax { name: String, message: String },
    #[error("the drive {name} has no option {option:?}; its options are {}", listed(known))]
    UnknownOption { name: String, option: String, known: Vec<String> },
    #[error("the bases of the profile {name} form a loop")]
    Circular { name: String },
    #[error("profile {name}: {key} = {value} is not valid ({reason})")]
    Impossible { name: String, key: String, value: String, reason: String },
    #[error("profile {name}: the section [{section}] {reason}")]
    Section { name: String, section: String, reason: String },
    #[error("the geometry in the profile {name} is not valid")]
    Geometry { name: String, source: GeometryError },
    #[error("the flash in the profile {name} is not valid")]
    Flash { name: String, source: FlashError },
    #[error("the seek times in the profile {name} are not valid")]
    Seek { name: String, source: SeekError },
}

straddle_units::error_kind!(ProfileError: Usage);

fn suggested(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Deref for Profile {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl Profile {
    /// A profile of values that the caller has checked.
    pub const fn of_checked(values: Values) -> Self {
        Self { values }
    }

    /// The names of the shipped profiles, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::PROFILES.iter().map(|(name, _)| *name)
    }

    /// Whether `specification` is that of a shipped profile, apart from its options.
    pub fn is_shipped(specification: &str) -> bool {
        let (name, _) = parts(specification);
        Self::names().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The first offset, as the host counts, at which a physical sector or indirection unit begins.
    pub fn first_boundary(&self) -> u64 {
        let Sectors { physical, firmware_offset } = self.values.sectors;
        to_next(physical, firmware_offset)
    }

    /// The drive's own units, and where they begin.
    pub fn boundary(&self) -> Option<Boundary> {
        Boundary::new(ByteCount::new(self.sectors.physical), ByteCount::new(self.first_boundary()))
    }

    /// The unit that the drive claims to write in: a disk's physical sector; an SSD's NVMe NPWG.
    pub fn claimed_unit(&self) -> u64 {
        match self.body {
            Body::Disk(_) => self.claims.physical_sector,
            Body::Ssd(_) => self.claims.minimum_io.unwrap_or(self.claims.physical_sector),
        }
    }

    /// Whether the drive's physical sectors are larger than it claims, or begin elsewhere than it claims.
    pub fn misreports(&self) -> bool {
        let phase = to_next(self.claims.physical_sector, self.claims.alignment_offset);
        self.claimed_unit() != self.sectors.physical || phase != self.sectors.firmware_offset
    }
}

fn parts(specification: &str) -> (&str, Vec<&str>) {
    let mut parts = specification.split(',');
    (parts.next().unwrap_or_default(), parts.collect())
}

fn to_next(unit: u64, offset: u64) -> u64 {
    let unit = Boundary::multiples_of(ByteCount::new(unit));
    unit.map_or(0, |unit| unit.to_next(ByteOffset::new(offset)).get())
}

impl Profile {
    /// The geometry and the seek curve, if the drive is a disk.
    pub fn disk(&self) -> Option<(&Geometry, &SeekCurve)> {
        match &self.body {
            Body::Disk(disk) => Some((&disk.geometry, &disk.seek)),
            Body::Ssd(_) => None,
        }
    }

    /// The policies that this drive may follow, each an option `rmw=NAME`: those that published figures suggest, and
    /// its own. Empty where no request can cover a physical sector in part, and where tracks are shingled.
    pub fn plausible_policies(&self) -> Vec<RmwPolicy> {
        let Body::Disk(disk) = &self.values.body else { return Vec::new() };
        let shingled = disk.log.is_some_and(|log| log.band.is_some());
        if shingled || self.sectors.physical <= self.claims.logical_sector {
            return Vec::new();
        }
        let mut policies = RmwPolicy::PLAUSIBLE.to_vec();
        if !policies.contains(&disk.rmw) {
            policies.push(disk.rmw);
        }
        policies
    }

    /// The size of the write buffer in bytes, if the drive is an SSD.
    pub const fn ssd_buffer(&self) -> Option<u64> {
        match &self.values.body {
            Body::Disk(_) => None,
            Body::Ssd(ssd) => Some(ssd.buffer()),
        }
    }

    /// The same drive; if it is an SSD, after random writes for so long that garbage collection is steady.
    #[must_use]
    pub fn steady(mut self) -> Self {
        if let Body::Ssd(ssd) = &mut self.values.body {
            ssd.start_steady();
        }
        self
    }
}

/// A start, in the unit in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// In bytes.
    Bytes(u64),
    /// In logical sectors of the drive.
    Sectors(u64),
}

/// Why no partition can start there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum StartError {
    #[error("byte {byte} is not a multiple of the {sector}-byte logical sector of {drive}")]
    InsideSector { byte: u64, drive: String, sector: u64 },
    #[error("the partition would start past the end of {drive}")]
    PastEnd { drive: String },
}

straddle_units::error_kind!(StartError: Usage);

impl Profile {
    /// Returns the byte of a partition's start: the first of one of the drive's logical sectors.
    pub fn start_byte(&self, start: Start) -> Result<u64, StartError> {
        let (sector, drive) = (self.claims.logical_sector, || self.name.clone());
        let byte = match start {
            Start::Bytes(bytes) => Some(bytes),
            Start::Sectors(sectors) => sectors.checked_mul(sector),
        };
        match byte {
            Some(byte) if byte % sector != 0 => {
                Err(StartError::InsideSector { byte, drive: drive(), sector })
            }
            Some(byte) if byte < self.claims.capacity => Ok(byte),
            _ => Err(StartError::PastEnd { drive: drive() }),
        }
    }
}

/// A range narrower than this, relative to its upper end, is none: no published figure is more exact.
const EQUAL: f64 = 0.01;

/// The range of a ratio over the firmware that a drive may have. It does not include the sampling error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FirmwareRange {
    /// The lowest ratio.
    pub low: f64,
    /// The highest ratio.
    pub high: f64,
}

impl FirmwareRange {
    /// The range of `ratio` over [`Profile::plausible_policies`] but [`RmwPolicy::Logged`], which defers the cost of
    /// a run. `None` if the policy makes no difference or the specification chooses one, or if a ratio is unknown.
    pub fn of(specification: &str, ratio: impl Fn(&Profile) -> Option<f64>) -> Option<Self> {
        if specification.split(',').any(|option| option.starts_with("rmw=")) {
            return None;
        }
        let policies = Profile::open(specification).ok()?.plausible_policies();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for policy in policies.into_iter().filter(|policy| *policy != RmwPolicy::Logged) {
            let ratio = ratio(&Profile::open(&format!("{specification},rmw={}", policy.name())).ok()?)?;
            (low, high) = (low.min(ratio), high.max(ratio));
        }
        (high - low > EQUAL * high).then_some(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plausible_policy_is_asked_unless_one_is_chosen() {
        let numbered = |profile: &Profile| match &profile.body {
            Body::Disk(disk) => {
                assert_ne!(disk.rmw, RmwPolicy::Logged);
                let at = profile.plausible_policies().iter().position(|policy| *policy == disk.rmw)?;
                u8::try_from(at).ok().map(f64::from)
            }
            Body::Ssd(_) => None,
        };
        let policies = Profile::open("wd10ears").unwrap().plausible_policies();
        let last = policies.iter().rposition(|policy| *policy != RmwPolicy::Logged).unwrap();
        let range = FirmwareRange::of("wd10ears", numbered).unwrap();
        assert_eq!((range.low, range.high), (0.0, f64::from(u8::try_from(last).unwrap())));
        assert_eq!(FirmwareRange::of("wd10ears,jumper=on", |_| Some(3.0)), None);
        assert_eq!(FirmwareRange::of("wd10ears,rmw=logged", numbered), None);
        assert_eq!(FirmwareRange::of("qlc-16k", numbered), None);
    }

    #[test]
    fn a_start_is_a_sector_of_the_drive() {
        let drive = Profile::open("wd10ears").unwrap();
        let (sector, capacity) = (drive.claims.logical_sector, drive.claims.capacity);
        assert_eq!(drive.start_byte(Start::Sectors(63)), Ok(63 * sector));
        assert_eq!(drive.start_byte(Start::Bytes(63 * sector)), Ok(63 * sector));
        assert_eq!(drive.start_byte(Start::Bytes(capacity - sector)), Ok(capacity - sector));
        let inside = drive.start_byte(Start::Bytes(sector + 1)).unwrap_err();
        assert!(matches!(inside, StartError::InsideSector { byte, .. } if byte == sector + 1), "{inside}");
        for past in [Start::Bytes(capacity), Start::Sectors(capacity / sector), Start::Sectors(u64::MAX)] {
            assert!(matches!(drive.start_byte(past), Err(StartError::PastEnd { .. })), "{past:?}");
        }
    }
}
