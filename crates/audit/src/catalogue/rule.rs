//! What a rule is.

use std::fmt;

use super::Code;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; costs nothing by itself.
    Advice,
    /// Costs on some workloads, or puts the table at risk.
    Warning,
    /// Costs for certain, or the table is broken.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Advice => "advice",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data is off a boundary, or is written in pieces smaller than a unit.
    Alignment,
    /// What is written can be torn by a power failure, aligned or not.
    Atomicity,
    /// What the device says of itself cannot be true, or contradicts itself.
    Device,
    /// The partition table is damaged, or made for another disk.
    Table,
    /// Two layers, or the kernel and the disk, say different things.
    Layers,
    /// What is written there cannot be read.
    Unreadable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alignment => "alignment",
            Self::Atomicity => "atomic writes",
            Self::Device => "device claims",
            Self::Table => "table damage",
            Self::Layers => "layers disagree",
            Self::Unreadable => "cannot be read",
        })
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The device.
    Device,
    /// The partition table.
    Table,
    /// Where a partition, or what fills the disk, starts and ends.
    Placement,
    /// Where the data of a layer lies on this device, and its units.
    Layer,
    /// A file system as such, wherever its parts lie: it is the same one on whichever way it is reached.
    FileSystem,
    /// The image format around the disk.
    Container,
    /// The running kernel.
    Kernel,
    /// Whether there are bytes to look at.
    Medium,
}

/// One rule: its code for life, and everything `straddle explain` tells of it.
#[derive(Debug)]
pub struct Rule {
    /// `S001` and so on; never reused.
    pub code: Code,
    /// How much its findings matter.
    pub severity: Severity,
    /// What kind of thing it finds.
    pub kind: Kind,
    /// What it looks at.
    pub about: About,
    /// The finding in a few words.
    pub title: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Why it is so.
    pub why: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// What fixes it.
    pub fix: &'static str,
    /// Where this is known from.
    pub sources: &'static [&'static str],
}

/// A code is one rule's.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Rule {}
