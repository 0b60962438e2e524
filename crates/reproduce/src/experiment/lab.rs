//! The part of an experiment that needs a kernel: scripts that a guest runs on modelled drives.
//!
//! The law of this module: it says what was done and what came of it when it was published. It runs nothing.

use serde::Deserialize;

use super::Measure;

/// A logical sector, in which starts of partitions are published.
pub const SECTOR: u64 = 512;

/// A script that is run for each variant and each arm, a guest each.
#[derive(Clone, Debug, PartialEq)]
pub struct LabStep {
    /// A short name, unique in the experiment.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// What one should know of it, in sentences.
    pub notes: Option<String>,
    /// The modelled drive, as behind `drive:`.
    pub drive: String,
    /// The text of the script.
    pub script: String,
    /// Its arguments, before the variant.
    pub arguments: Vec<String>,
    /// What the script is given as its last argument, one after the other, such as file systems. Empty: it is run once.
    pub variants: Vec<String>,
    /// Put into the script's environment.
    pub environment: Vec<(String, String)>,
    /// What the script finds in its input folder.
    pub input: Option<Input>,
    /// Bytes of the guest's memory.
    pub memory: u64,
    /// The script runs those of its parts that are too long at this fraction of their length: 10 is a tenth.
    pub scale: u32,
    /// What the script measures, in its order.
    pub measures: Vec<LabMeasure>,
    /// At least one; at most one of them is the aligned one.
    pub arms: Vec<LabArm>,
    /// What was published.
    pub published: Vec<LabPublished>,
}

/// Something that the script measures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabMeasure {
    /// The name that the script calls it by.
    pub name: String,
    /// What it is, in words.
    pub title: String,
    /// Whether it mostly reads or writes: which chart it is in.
    #[serde(default)]
    pub direction: Direction,
    /// How the script's seconds are told. The cost is always the seconds.
    #[serde(default = "elapsed")]
    pub unit: Measure,
    /// Whether [`LabStep::scale`] shortens it; its time is then told for the whole.
    #[serde(default)]
    pub scaled: bool,
    /// Only ratios of two arms can be compared with what was published: it is not known how much work it was.
    #[serde(default)]
    pub ratio_only: bool,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the drive.
    #[default]
    Write,
    /// From it.
    Read,
}

/// Where the partition starts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabArm {
    /// A short name, unique in the step.
    pub name: String,
    /// Whether the others are compared with this one.
    #[serde(default)]
    pub aligned: bool,
    /// The partition's first sector, of 512 bytes.
    pub start: u64,
}

/// A published figure: of an arm its time, else the ratio of the misaligned arm to the aligned one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabPublished {
    /// What was measured, by its name.
    pub measure: String,
    /// Of which arm it is the figure; a ratio otherwise.
    pub arm: Option<String>,
    /// Of which variant; of all, else.
    pub variant: Option<String>,
    /// What of all variants' ratios.
    #[serde(default)]
    pub of: Statistic,
    /// This variant does not count for it.
    pub without: Option<String>,
    /// The figure, or the middle of the range.
    pub value: f64,
    /// The lower end, where a range was published.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// What one should know of it.
    pub note: Option<String>,
}

/// What of several ratios was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Their mean.
    #[default]
    Mean,
    /// The least.
    Least,
    /// The greatest.
    Greatest,
    /// All of them lie in the published range.
    Each,
}

/// Made-up data that a script reads; where it comes from is the lab's business.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Input {
    /// A tarball like that of a kernel's sources; `$TARBALL` is its path in the input folder.
    Tarball {
        /// What the files' contents come to, with the tarball's own structures, about.
        mebibytes: u32,
        /// How many files.
        files: u32,
        /// How many folders.
        folders: u32,
    },
    /// A tree of small files, `old`, and one some days newer, `new`; `$TREE` is the path of their folder in the input folder.
    Trees {
        /// How many files the old one has.
        files: u32,
        /// How many folders.
        folders: u32,
        /// What the old one takes on a disk with blocks of 4 KiB.
        mebibytes: u32,
    },
}

/// The unit of most measures.
const fn elapsed() -> Measure {
    Measure::Elapsed
}

impl LabStep {
    /// The variants, or the one that has no name.
    pub fn variants(&self) -> Vec<Option<&str>> {
        if self.variants.is_empty() {
            vec![None]
        } else {
            self.variants.iter().map(|variant| Some(variant.as_str())).collect()
        }
    }

    /// The arm that the others are compared with.
    pub fn aligned(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.aligned)
    }
}

impl LabArm {
    /// Where the partition begins.
    pub const fn start_byte(&self) -> u64 {
        self.start * SECTOR
    }
}
