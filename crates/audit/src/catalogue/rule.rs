//! The parts of a rule.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::Code;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Costs nothing by itself.
    Advice,
    /// Costs performance on some workloads, or puts the partition table at risk.
    Warning,
    /// Always costs performance, or means that the partition table is damaged.
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

/// The kind of problem that a rule finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FindingKind")]
pub enum Kind {
    /// A start, an end, or the data of a layer is not on a boundary.
    Alignment,
    /// Data is written in pieces smaller than a unit of the device, whether aligned or not.
    #[serde(rename = "small_writes")]
    Granularity,
    /// A power failure can tear a write, whether aligned or not.
    #[serde(rename = "atomic_writes")]
    Atomicity,
    /// The values that the device reports are impossible, or contradict each other.
    #[serde(rename = "device_claims")]
    Device,
    /// The partition table is damaged, or was made for another disk.
    #[serde(rename = "table_damage")]
    Table,
    /// Two layers, or the kernel and the disk, contradict each other.
    #[serde(rename = "layers_disagree")]
    Layers,
    /// The contents cannot be used with the device's sectors.
    #[serde(rename = "does_not_fit")]
    Fit,
    /// The contents cannot be read.
    Unreadable,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Alignment => "alignment",
            Self::Granularity => "small writes",
            Self::Atomicity => "atomic writes",
            Self::Device => "device claims",
            Self::Table => "table damage",
            Self::Layers => "layers disagree",
            Self::Fit => "does not fit the sectors",
            Self::Unreadable => "cannot be read",
        })
    }
}

/// What a rule examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Device,
    Table,
    /// Where a partition, or the content of a whole disk, starts and ends.
    Placement,
    /// Where the data of a layer lies on this device, and the layer's units.
    Layer,
    /// A file system by itself: the finding is the same by every path that leads to it.
    FileSystem,
    Container,
    Kernel,
    Medium,
}

/// The text of a rule, which `straddle explain` prints.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The finding in a few words.
    pub title: String,
    /// What the problem is.
    pub what: String,
    /// What causes the problem.
    pub why: String,
    /// What the problem costs.
    pub cost: String,
    /// How to fix the problem.
    pub fix: String,
    /// The sources in which the problem is documented.
    pub sources: Vec<String>,
}

/// What defines a rule: its permanent code, and everything that `straddle explain` prints about it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rule {
    /// The code, such as "S001"; never reused.
    pub code: Code,
    /// The usual severity of the rule's findings; a particular finding may have another one.
    pub severity: Severity,
    /// The kind of problem that the rule finds.
    pub kind: Kind,
    /// What it examines.
    #[serde(skip)]
    pub about: About,
    #[serde(flatten, serialize_with = "read")]
    #[schemars(with = "Definition")]
    pub(super) definition: LazyLock<Definition>,
}

/// Reads the text of a rule when it is first needed.
pub(super) fn parsed(text: &str) -> Definition {
    // A test reads every text.
    toml::from_str(text).unwrap_or_default()
}

fn read<S: Serializer>(definition: &LazyLock<Definition>, serializer: S) -> Result<S::Ok, S::Error> {
    definition.serialize(serializer)
}

impl Deref for Rule {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        &self.definition
    }
}

/// Rules are equal if their codes are: each code belongs to a single rule.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Rule {}
