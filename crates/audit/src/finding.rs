//! What a rule is, and what it finds.

use std::fmt;

use straddle_units::{Boundary, ByteCount, ByteOffset};

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

/// One rule: its code for life, and everything `straddle explain` tells of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// `S001` and so on; never reused.
    pub code: &'static str,
    /// How much its findings matter.
    pub severity: Severity,
    /// The finding in a few words.
    pub title: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Why it is so.
    pub why: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// What cures it.
    pub cure: &'static str,
    /// Where this is known from.
    pub sources: &'static [&'static str],
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The disk as a whole, or its table.
    Disk,
    /// The partition of this number.
    Partition(u32),
}

/// The boundary that a position misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What the boundary is: "physical sector", "indirection unit", …
    pub name: &'static str,
    /// The boundary.
    pub boundary: Boundary,
    /// How far past it the position lies; never zero.
    pub past: ByteCount,
}

/// One command line that cures a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The tool it is for.
    pub tool: &'static str,
    /// The line, ready for a POSIX shell.
    pub line: String,
}

/// What the commands of a cure do to what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Nothing: what is stored stays, and stays where it is.
    Safe,
    /// What is stored can be lost, or has to be put back: a backup comes first.
    Backup,
    /// All that is stored on what they name is lost.
    Destroys,
}

impl Risk {
    /// What has to be said before the commands, in one sentence.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Safe => None,
            Self::Backup => Some("back up first"),
            Self::Destroys => Some("THIS REFORMATS: EVERYTHING ON DEVICE IS LOST; back up first"),
        }
    }
}

/// How a finding is cured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cure {
    /// What has to be done, in a sentence.
    pub summary: String,
    /// The same as commands: steps, in order. Whoever pastes them all is not worse off.
    pub commands: Vec<Command>,
    /// What they do to what is stored.
    pub risk: Risk,
    /// What to mind before running any of them.
    pub caution: Option<String>,
}

impl Cure {
    /// A cure that no single command is.
    pub(crate) fn advice(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), commands: Vec::new(), risk: Risk::Safe, caution: None }
    }

    /// Leaves only what has to be done: for a target whose name a terminal would obey, quoted or not.
    pub fn without_commands(&mut self) {
        *self = Self::advice(std::mem::take(&mut self.summary));
    }
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Rule,
    /// How much it matters here: the rule's own severity, or less where nothing that is written can suffer.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// The layer that it is about, by its way from the partition up (`partition 1 > PV vg > LV root`); `None` for
    /// findings on the disk, its table, and the placement of partitions.
    pub layer: Option<String>,
    /// The byte on the disk at which it shows.
    pub at: Option<ByteOffset>,
    /// The boundary that is missed, for findings of placement.
    pub miss: Option<Miss>,
    /// The finding in a sentence, with its figures.
    pub message: String,
    /// Its cure, where there is one.
    pub cure: Option<Cure>,
}

impl Finding {
    /// A finding about the disk or its table.
    pub(crate) fn on_disk(rule: &'static Rule, at: Option<ByteOffset>, message: String) -> Self {
        let severity = rule.severity;
        Self { rule, severity, subject: Subject::Disk, layer: None, at, miss: None, message, cure: None }
    }

    /// A finding about a partition.
    pub(crate) fn on_partition(rule: &'static Rule, number: u32, at: ByteOffset, message: String) -> Self {
        Self {
            rule,
            severity: rule.severity,
            subject: Subject::Partition(number),
            layer: None,
            at: Some(at),
            miss: None,
            message,
            cure: None,
        }
    }

    /// The same, cured by `cure`.
    pub(crate) fn cured_by(mut self, cure: Cure) -> Self {
        self.cure = Some(cure);
        self
    }
}
