//! The patterns of requests: the table from which files, the command line and its help are generated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of blocks of the random workloads: the modulus in the published program.
pub const RANDOM_BLOCKS: u64 = 200_000_000;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Nothing: data may stay in the drive's cache, as with O_SYNC on a raw disk up to Linux 2.6.31.
    #[default]
    None,
    /// A flush of the drive's cache after each write, as with O_SYNC since Linux 2.6.32.
    Flush,
    /// Force unit access: each write goes to the medium individually.
    Fua,
}

/// The places of the requests, and further properties besides their size and number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// The name in files and on the command line.
    pub name: &'static str,
    /// A one-line description for the help.
    pub about: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether its requests are at random places; otherwise each follows the previous one.
    pub is_random: bool,
    /// Whether it ends with an fsync whose time counts.
    pub ends_with_fsync: bool,
    /// Its parameters.
    pub parameters: Parameters,
    pub(super) usual_size: u64,
    /// The default limits: the number of requests, or the seconds.
    pub(super) usual_limits: (Option<u64>, Option<f64>),
}

impl Pattern {
    /// Writes to random blocks: T. Miller's program of 2010, with its arithmetic. The block is random() % `blocks`,
    /// the byte is `start` + block · `size` + `offset`.
    pub const RANDOM_WRITE: Self = Self {
        name: "random-write",
        about: "4 KiB writes to random blocks, as in T. Miller's 2010 article",
        writes: true,
        is_random: true,
        usual_limits: (Some(1000), None),
        parameters: Parameters { blocks: Some(RANDOM_BLOCKS), sync: Some(Sync::None), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Writes a fixed distance apart: D. E. Smørgrav's phybs. The byte is `start` + `offset` + index · `stride`.
    pub const STRIDED_WRITE: Self = Self {
        name: "strided-write",
        about: "4 KiB writes at a fixed distance from each other, as in the program phybs",
        writes: true,
        usual_limits: (Some(32_768), None),
        parameters: Parameters { stride: Some(16_384), sync: Some(Sync::None), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive writes, with an fsync after every `fsync_each` of them: fio's `rw=write fsync=1`.
    pub const SEQUENTIAL_WRITE: Self = Self {
        name: "sequential-write",
        about: "Sequential 4 KiB writes, each followed by an fsync, as with fio using rw=write and fsync=1",
        writes: true,
        parameters: Parameters { fsync_each: Some(1), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive writes, and one fsync at the end, whose time counts. The size is that of the drive's requests:
    /// where a page cache merges dd's blocks, the size after merging.
    pub const DD: Self = Self {
        name: "dd",
        about: "Large sequential writes, with one fsync at the end",
        writes: true,
        ends_with_fsync: true,
        usual_size: 1 << 20,
        usual_limits: (Some(1024), None),
        ..Self::SEQUENTIAL_READ
    };

    /// Reads of random blocks, chosen as in [`Self::RANDOM_WRITE`].
    pub const RANDOM_READ: Self = Self {
        name: "random-read",
        about: "4 KiB reads of random blocks",
        is_random: true,
        usual_limits: (Some(1000), None),
        parameters: Parameters { blocks: Some(RANDOM_BLOCKS), ..Parameters::NONE },
        ..Self::SEQUENTIAL_READ
    };

    /// Consecutive reads.
    pub const SEQUENTIAL_READ: Self = Self {
        name: "sequential-read",
        about: "Sequential 4 KiB reads",
        writes: false,
        is_random: false,
        ends_with_fsync: false,
        usual_size: 4096,
        // fio's `runtime` in the published job.
        usual_limits: (None, Some(60.0)),
        parameters: Parameters::NONE,
    };

    /// All patterns, with their default parameters.
    pub const ALL: &'static [Self] = &[
        Self::RANDOM_WRITE,
        Self::STRIDED_WRITE,
        Self::SEQUENTIAL_WRITE,
        Self::DD,
        Self::RANDOM_READ,
        Self::SEQUENTIAL_READ,
    ];

    /// Returns the pattern with this name, with its default parameters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|pattern| pattern.name == name)
    }

    /// Returns the pattern with these parameters. The first parameter that it does not have is an error.
    pub fn with(mut self, given: Parameters) -> Result<Self, ForeignParameter> {
        if let Some((parameter, _)) = given.named().into_iter().find(|(name, is)| *is && !self.has(name)) {
            return Err(ForeignParameter { parameter, pattern: self.name });
        }
        let own = self.parameters;
        self.parameters = Parameters {
            stride: given.stride.or(own.stride),
            blocks: given.blocks.or(own.blocks),
            seed: given.seed.or(own.seed),
            sync: given.sync.or(own.sync),
            fsync_each: given.fsync_each.or(own.fsync_each),
        };
        Ok(self)
    }

    fn has(self, parameter: &str) -> bool {
        parameter == "seed" && self.is_random || self.parameters.named().contains(&(parameter, true))
    }
}

/// The parameters that only some patterns have. In a pattern, `None` means that it has no such parameter, or
/// that no seed was specified. In a request, `None` keeps the default value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parameters {
    /// The distance from the start of one request to the start of the next, in bytes.
    #[serde(rename = "stride_bytes", skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// The requested number of blocks; fewer are used if the target is too small.
    #[serde(rename = "blocks_requested", skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// The seed requested for the random offsets; absent if none was, so that each arm has its own `seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// What makes each write durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The number of writes per fsync; 0 for no fsync.
    #[serde(rename = "writes_per_fsync", skip_serializing_if = "Option::is_none")]
    pub fsync_each: Option<u64>,
}

impl Parameters {
    const NONE: Self = Self { stride: None, blocks: None, seed: None, sync: None, fsync_each: None };

    /// As in files, and whether there is a value.
    const fn named(&self) -> [(&'static str, bool); 5] {
        [
            ("stride", self.stride.is_some()),
            ("blocks", self.blocks.is_some()),
            ("seed", self.seed.is_some()),
            ("sync", self.sync.is_some()),
            ("fsync_each", self.fsync_each.is_some()),
        ]
    }
}

/// A parameter that a pattern does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} {}", self.reason())]
pub struct ForeignParameter {
    /// The parameter's name, as in files.
    pub parameter: &'static str,
    pattern: &'static str,
}

impl ForeignParameter {
    /// Returns the reason, such as `applies only to random-write and random-read, not to dd`.
    pub fn reason(&self) -> String {
        let of = Pattern::ALL.iter().filter(|pattern| pattern.has(self.parameter));
        let names: Vec<&str> = of.map(|pattern| pattern.name).collect();
        format!("applies only to {}, not to {}", names.join(" and "), self.pattern)
    }
}
