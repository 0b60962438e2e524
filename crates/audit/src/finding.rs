//! What a rule finds, and how it is fixed.

use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::catalogue::Code;
pub(crate) use crate::catalogue::{About, Kind, Rule, Severity};
use crate::way::{self, Step};

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

/// One command line that fixes a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The tool it is for.
    pub tool: &'static str,
    /// The line, ready for a POSIX shell.
    pub line: String,
}

/// What the commands of a fix do to what is stored.
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

/// The tools that write tables.
const TABLE_TOOLS: [&str; 4] = ["sfdisk", "sgdisk", "gdisk", "parted"];

/// How a finding is fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What has to be done, in a sentence.
    pub summary: String,
    /// The same as commands: steps, in order. Whoever pastes them all is not worse off.
    pub commands: Vec<Command>,
    /// What they do to what is stored.
    pub risk: Risk,
    /// What to mind before running any of them.
    pub caution: Option<String>,
}

impl Fix {
    /// A fix that no single command is.
    pub(crate) fn advice(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), commands: Vec::new(), risk: Risk::Safe, caution: None }
    }

    /// Whether a command of it is one of a tool that writes partition tables.
    pub fn writes_table(&self) -> bool {
        let is_tool = |word: &str| TABLE_TOOLS.contains(&word);
        self.commands.iter().any(|command| command.line.split_whitespace().any(is_tool))
    }

    /// Leaves only what has to be done: for a target whose name a terminal would obey, quoted or not.
    pub fn without_commands(&mut self) {
        *self = Self::advice(std::mem::take(&mut self.summary));
    }
}

/// Somewhere else where a finding shows, or is reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Another way on the same target, by the partition or the device that it comes from.
    Way(String),
    /// Another target of the run.
    Target(String),
}

/// Where a finding is reported. It is as true wherever that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Among the findings of its target.
    Here,
    /// In a finding about the same thing.
    At(Place),
    /// Nowhere: its rule was not asked for.
    NotAsked,
    /// Nowhere: it is about another partition than the one asked for.
    Outside,
}

/// A finding that others follow from: what it is about, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its rule's code.
    pub code: Code,
    /// What it is about, on its target.
    pub subject: Subject,
    /// Its target, where that is another one of the run.
    pub target: Option<String>,
}

impl Cause {
    /// A finding of the same target as a cause.
    pub(crate) fn of(finding: &Finding) -> Self {
        Self { code: finding.rule.code, subject: finding.subject, target: None }
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
    /// The layer that it is about, by its way from the partition up; empty for findings on the disk, its table, and the
    /// placement of partitions.
    pub layer: Vec<Step>,
    /// The byte on the disk at which it shows.
    pub at: Option<ByteOffset>,
    /// The boundary that is missed, for findings of placement.
    pub miss: Option<Miss>,
    /// The finding in a sentence, with its figures.
    pub message: String,
    /// Its fix, where there is one.
    pub fix: Option<Fix>,
    /// What it only follows from: the fix is given there, and there is none here.
    pub follows: Vec<Cause>,
    /// Where it is reported.
    pub reported: Reported,
    /// Where else it shows, of one that is reported here for several.
    pub also: Vec<Place>,
}

impl Finding {
    /// A finding with nothing but its rule, what it is about, and its sentence.
    pub(crate) fn new(rule: &'static Rule, subject: Subject, message: String) -> Self {
        Self {
            rule,
            severity: rule.severity,
            subject,
            layer: Vec::new(),
            at: None,
            miss: None,
            message,
            fix: None,
            follows: Vec::new(),
            reported: Reported::Here,
            also: Vec::new(),
        }
    }

    /// A finding about the disk or its table.
    pub(crate) fn on_disk(rule: &'static Rule, at: Option<ByteOffset>, message: String) -> Self {
        Self { at, ..Self::new(rule, Subject::Disk, message) }
    }

    /// A finding about a partition.
    pub(crate) fn on_partition(rule: &'static Rule, number: u32, at: ByteOffset, message: String) -> Self {
        Self { at: Some(at), ..Self::new(rule, Subject::Partition(number), message) }
    }

    /// The way to the layer that it is about, as people are shown it (`partition 1 > PV vg > LV vg/root`); `None` where
    /// it is about none.
    pub fn way(&self) -> Option<String> {
        (!self.layer.is_empty()).then(|| way::label(&self.layer))
    }

    /// Its sentence, with where else it shows.
    pub fn sentence(&self) -> String {
        let mut text = self.message.clone();
        let mut targets = Vec::new();
        for place in &self.also {
            match place {
                Place::Way(way) => text.push_str(&format!("; reached from {way} as well")),
                Place::Target(name) => targets.push(name.as_str()),
            }
        }
        if !targets.is_empty() {
            text.push_str(&format!("; the same shows on {}", targets.join(", ")));
        }
        text
    }

    /// The same, fixed by `fix`.
    pub(crate) fn fixed_by(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }
}
