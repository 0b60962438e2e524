//! The part of an experiment that needs a kernel: scripts that a guest runs on modelled drives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Host, Measure};
use crate::guest::PartitionTable;

/// Bytes of the logical sector in which starts of partitions are published.
pub const SECTOR: u64 = 512;

/// A script that runs once for each variant and each arm, each time in a new guest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LabStep {
    /// A short name, unique in the experiment.
    pub name: String,
    /// A one-line description of the step.
    pub title: String,
    /// Background on the step, in sentences; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// How the step differs from the publication, one sentence per difference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<String>,
    /// The modelled drive, as after `drive:`.
    #[serde(skip)]
    pub drive: String,
    /// How many such drives the guest has.
    #[serde(skip)]
    pub members: usize,
    /// The text of the script.
    #[serde(skip)]
    pub script: String,
    /// Its arguments, before the variant.
    #[serde(skip)]
    pub arguments: Vec<String>,
    /// The values, such as file systems, that are passed to the script as its last argument, one per run. If
    /// empty, it runs once without that argument.
    pub variants: Vec<String>,
    /// Variables added to the script's environment.
    #[serde(skip)]
    pub environment: Vec<(String, String)>,
    /// What the script finds in its input folder.
    #[serde(skip)]
    pub input: Option<Input>,
    /// The size of the guest's memory in bytes.
    #[serde(rename = "memory_bytes")]
    pub memory: u64,
    /// The settings that make the guest resemble a host of that time.
    #[serde(skip_serializing_if = "Host::is_empty")]
    pub host: Host,
    /// The number of runs of each cell, unless the user requests another number.
    pub runs: u32,
    /// The table that lists the partition.
    #[serde(skip)]
    pub table: PartitionTable,
    /// The divisor by which the script shortens its longest parts: 10 means a tenth of their length.
    #[serde(skip)]
    pub scale: u32,
    /// What the script measures, in the order of the measurements.
    pub measures: Vec<LabMeasure>,
    /// One or more arms; at most one of them is the aligned one.
    #[serde(skip)]
    pub arms: Vec<LabArm>,
    /// The published figures.
    #[serde(skip)]
    pub published: Vec<LabPublished>,
}

/// A quantity that the script measures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabMeasure {
    /// The name that the script uses for the quantity.
    pub name: String,
    /// A one-line description of the quantity.
    pub title: String,
    /// Whether the measured part mostly reads or writes, which decides the chart in which it is drawn.
    #[serde(default)]
    pub direction: Direction,
    /// The unit in which the script's seconds are reported. Ratios of arms always compare the seconds.
    #[serde(default, rename(serialize = "measure"))]
    pub unit: Measure,
    /// Whether `scale` shortens this part of the script. Its time is then reported for the full length.
    #[serde(default)]
    pub scaled: bool,
    /// Whether only ratios of two arms can be compared with the published figures, because the amount of work
    /// is not known.
    #[serde(default)]
    pub ratio_only: bool,
    /// Whether the measured program only writes directly to the disk or partition, so that each read that the
    /// kernel counts during this time is the first half of a read-modify-write by the kernel.
    #[serde(default)]
    pub raw: bool,
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the drive (writes).
    #[default]
    Write,
    /// From the drive (reads).
    Read,
}

/// A position of the partition, or of the writes on a disk without one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabArm {
    /// A short name, unique in the step.
    pub name: String,
    /// Whether the other arms are compared with this one; true for at most one arm per step.
    #[serde(default)]
    pub aligned: bool,
    /// The partition's first sector, in sectors of 512 bytes; absent for a disk without a partition table.
    #[serde(rename(serialize = "start_lba"), skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// The partition's last sector. If neither `end_lba` nor `sectors` is present, the partition takes the
    /// rest of the disk.
    #[serde(rename(serialize = "end_lba"), skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// The partition's length in sectors of 512 bytes, instead of `end_lba`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// The arguments passed to the script after those of the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

/// A published figure: the time of an arm, or the ratio of the misaligned arm to the aligned one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabPublished {
    /// The name of the measure.
    pub measure: String,
    /// The arm, for a time; `None` for a ratio.
    pub arm: Option<String>,
    /// The variant; `None` for all variants.
    pub variant: Option<String>,
    /// Which statistic of the variants' ratios the figure is.
    #[serde(default)]
    pub of: Statistic,
    /// A variant that the statistic leaves out.
    pub without: Option<String>,
    /// The figure, or the middle of the range.
    pub value: f64,
    /// The lower end, if a range was published.
    pub low: Option<f64>,
    /// The upper end, if a range was published.
    pub high: Option<f64>,
    /// Background on this figure.
    pub note: Option<String>,
}

/// A statistic of several ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The mean of the ratios.
    #[default]
    Mean,
    /// The smallest ratio.
    Least,
    /// The largest ratio.
    Greatest,
    /// Each ratio; all of them have to lie in the published range.
    Each,
}

/// Generated data that a script reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Input {
    /// A tarball like that of a kernel's sources; `$TARBALL` is its path in the input folder.
    Tarball {
        /// Approximate size of the tarball, with contents and tar's own structures.
        mebibytes: u32,
        /// Number of files.
        files: u32,
        /// Number of folders.
        folders: u32,
    },
    /// A tree of small files, `old`, and one some days newer, `new`; `$TREE` is the path of their folder there.
    Trees {
        /// Number of files in the old tree.
        files: u32,
        /// Number of folders.
        folders: u32,
        /// Size of the old tree on a disk with blocks of 4 KiB.
        mebibytes: u32,
    },
}

impl LabStep {
    /// Returns the variants, or one without a name if there are none.
    pub fn variants(&self) -> Vec<Option<&str>> {
        if self.variants.is_empty() {
            vec![None]
        } else {
            self.variants.iter().map(|variant| Some(variant.as_str())).collect()
        }
    }

    /// Returns the index of the aligned arm, with which the others are compared.
    pub fn aligned(&self) -> Option<usize> {
        self.arms.iter().position(|arm| arm.aligned)
    }
}

impl LabArm {
    /// Returns the byte at which the partition begins, if there is one.
    pub fn start_byte(&self) -> Option<u64> {
        self.start.map(|start| start * SECTOR)
    }

    /// Returns the partition's length in sectors, unless it takes the rest of the disk.
    pub fn length(&self) -> Option<u64> {
        let to_end = || Some((self.end? + 1).saturating_sub(self.start?));
        self.sectors.or_else(to_end)
    }
}
