//! The patterns of requests: the list from which files, the command line and its help are generated.
//!
//! After adding a pattern to `patterns!`, the compiler reports every place that needs to know it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of requests of the random workloads, with which the published program was run.
const RANDOM_COUNT: u64 = 1000;
/// The number of requests of the strided workload, with which phybs was run.
const STRIDED_COUNT: u64 = 32_768;
/// The number of requests of `dd`.
const DD_COUNT: u64 = 1024;
/// The running time of the sequential workloads in seconds: fio's `runtime` in the published job.
const SEQUENTIAL_SECONDS: f64 = 60.0;
/// The number of blocks of the random workloads: the modulus in the published program.
pub const RANDOM_BLOCKS: u64 = 200_000_000;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Nothing: it may stay in the drive's cache. Up to Linux 2.6.31, O_SYNC on a raw disk did no more.
    #[default]
    None,
    /// A flush of the drive's cache after each write, as by O_SYNC since then.
    Flush,
    /// Force unit access: each write goes to the medium individually.
    Fua,
}

/// Generates the enum, its list and its names from one list. An entry has documentation, the variant with its
/// parameters and their default values, the constant for that, the name in files and on the command line, and
/// the help text.
macro_rules! patterns {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident { $($(#[doc = $of_field:literal])+ $field:ident: $type:ty = $usual:expr,)* }
        as $constant:ident, $name:literal: $about:literal;
    )+) => {
        /// The places of the requests, and further properties besides their size and number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "kind")]
        pub enum Pattern {
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                $variant { $($(#[doc = $of_field])+ $field: $type,)* },
            )+
        }

        impl Pattern {
            $(
                #[doc = concat!("`", $name, "` with its usual parameters.")]
                pub const $constant: Self = Self::$variant { $($field: $usual,)* };
            )+

            /// All patterns, with their default parameters.
            pub const ALL: &'static [Self] = &[$(Self::$constant),+];

            /// Returns the name in files and on the command line.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                }
            }

            /// Returns a one-line description for the help.
            pub const fn about(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $about,)+
                }
            }
        }
    };
}

patterns! {
    /// Writes to random blocks: T. Miller's program of 2010, with its arithmetic. The block is random() %
    /// `blocks`, the byte is `start` + block · `size` + `offset`.
    RandomWrite {
        /// The number of blocks to choose from; fewer if the target is too small.
        blocks: u64 = RANDOM_BLOCKS,
        /// The seed of the generator; by default the offset in logical sectors, as in the published program.
        seed: Option<u32> = None,
        /// What makes each write durable.
        sync: Sync = Sync::None,
    } as RANDOM_WRITE, "random-write":
        "4 KiB writes to random blocks: the program of the 2010 article that first showed the cost";

    /// Writes a fixed distance apart: D. E. Smørgrav's phybs. The byte is `start` + `offset` + index ·
    /// `stride`.
    StridedWrite {
        /// The distance in bytes between the starts of two writes.
        stride: u64 = 16_384,
        /// What makes each write durable.
        sync: Sync = Sync::None,
    } as STRIDED_WRITE, "strided-write": "4 KiB writes a fixed distance apart: phybs";

    /// Consecutive writes, with an fsync after every `fsync_each` of them: fio's `rw=write fsync=1`.
    SequentialWrite {
        /// The number of writes per fsync; zero for no fsync.
        fsync_each: u64 = 1,
    } as SEQUENTIAL_WRITE, "sequential-write":
        "Sequential 4 KiB writes, each followed by an fsync: fio's rw=write fsync=1";

    /// Consecutive writes, and one fsync at the end, whose time counts. The size is that of the requests to
    /// the drive: where a page cache merges dd's blocks first, the size after merging.
    Dd {} as DD, "dd": "Large sequential writes, with one fsync at the end";

    /// Reads of random blocks, chosen as in [`Pattern::RandomWrite`].
    RandomRead {
        /// The number of blocks to choose from; fewer if the target is too small.
        blocks: u64 = RANDOM_BLOCKS,
        /// The seed of the generator; by default the offset in logical sectors.
        seed: Option<u32> = None,
    } as RANDOM_READ, "random-read": "4 KiB reads of random blocks";

    /// Consecutive reads.
    SequentialRead {} as SEQUENTIAL_READ, "sequential-read": "Sequential 4 KiB reads";
}

/// The parameters that only some patterns have. As those of a pattern, `None` means that it has no such
/// parameter, or a seed that is not given. As a request, `None` keeps the default value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parameters {
    /// The distance from the start of one request to the start of the next, in bytes.
    #[serde(rename = "stride_bytes", skip_serializing_if = "Option::is_none")]
    pub stride: Option<u64>,
    /// The number of blocks to choose from; fewer are, if the target is too small.
    #[serde(rename = "blocks_requested", skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// The seed of the generator; by default that of each arm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// What makes each write durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// The number of writes per fsync; 0 for no fsync.
    #[serde(rename = "writes_per_fsync", skip_serializing_if = "Option::is_none")]
    pub fsync_each: Option<u64>,
}

/// A parameter that a pattern does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} {}", self.reason())]
pub struct ForeignParameter {
    /// The parameter's name, as in files.
    pub parameter: &'static str,
    /// The pattern's name.
    pub pattern: &'static str,
}

impl ForeignParameter {
    /// Returns the reason, such as `is for random-write and random-read, not for dd`.
    pub fn reason(&self) -> String {
        let of = Pattern::ALL.iter().filter(|pattern| pattern.has(self.parameter));
        let names: Vec<&str> = of.map(Pattern::name).collect();
        format!("is for {}, not for {}", names.join(" and "), self.pattern)
    }
}

impl Parameters {
    const NONE: Self = Self { stride: None, blocks: None, seed: None, sync: None, fsync_each: None };

    /// The names, as in files, and whether there is a value.
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

impl Pattern {
    /// Returns the pattern with this name, with its default parameters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|pattern| pattern.name() == name)
    }

    /// Returns its parameters.
    pub const fn parameters(self) -> Parameters {
        const NONE: Parameters = Parameters::NONE;
        match self {
            Self::RandomWrite { blocks, seed, sync } => {
                Parameters { blocks: Some(blocks), seed, sync: Some(sync), ..NONE }
            }
            Self::StridedWrite { stride, sync } => {
                Parameters { stride: Some(stride), sync: Some(sync), ..NONE }
            }
            Self::SequentialWrite { fsync_each } => Parameters { fsync_each: Some(fsync_each), ..NONE },
            Self::RandomRead { blocks, seed } => Parameters { blocks: Some(blocks), seed, ..NONE },
            Self::Dd {} | Self::SequentialRead {} => NONE,
        }
    }

    /// Returns the pattern with these parameters. The first parameter that it does not have is an error.
    pub fn with(mut self, given: Parameters) -> Result<Self, ForeignParameter> {
        let pattern = self.name();
        if let Some((parameter, _)) = given.named().into_iter().find(|(name, is)| *is && !self.has(name)) {
            return Err(ForeignParameter { parameter, pattern });
        }
        match &mut self {
            Self::RandomWrite { blocks, seed, sync } => {
                *blocks = given.blocks.unwrap_or(*blocks);
                *seed = given.seed.or(*seed);
                *sync = given.sync.unwrap_or(*sync);
            }
            Self::StridedWrite { stride, sync } => {
                *stride = given.stride.unwrap_or(*stride);
                *sync = given.sync.unwrap_or(*sync);
            }
            Self::SequentialWrite { fsync_each } => *fsync_each = given.fsync_each.unwrap_or(*fsync_each),
            Self::RandomRead { blocks, seed } => {
                *blocks = given.blocks.unwrap_or(*blocks);
                *seed = given.seed.or(*seed);
            }
            Self::Dd {} | Self::SequentialRead {} => {}
        }
        Ok(self)
    }

    /// Whether it has the parameter with this name.
    fn has(self, parameter: &str) -> bool {
        parameter == "seed" && self.is_random() || self.parameters().named().contains(&(parameter, true))
    }

    /// Whether it writes.
    pub const fn writes(&self) -> bool {
        match self {
            Self::RandomWrite { .. }
            | Self::StridedWrite { .. }
            | Self::SequentialWrite { .. }
            | Self::Dd {} => true,
            Self::RandomRead { .. } | Self::SequentialRead {} => false,
        }
    }

    /// Whether its requests are at random places; otherwise each follows the previous one.
    pub const fn is_random(&self) -> bool {
        match self {
            Self::RandomWrite { .. } | Self::RandomRead { .. } => true,
            Self::StridedWrite { .. }
            | Self::SequentialWrite { .. }
            | Self::Dd {}
            | Self::SequentialRead {} => false,
        }
    }

    /// Whether it ends with an fsync whose time counts.
    pub const fn ends_with_fsync(&self) -> bool {
        match self {
            Self::Dd {} => true,
            Self::RandomWrite { .. }
            | Self::StridedWrite { .. }
            | Self::SequentialWrite { .. }
            | Self::RandomRead { .. }
            | Self::SequentialRead {} => false,
        }
    }

    /// Returns the default size of a request in bytes.
    pub const fn usual_size(&self) -> u64 {
        match self {
            Self::Dd {} => 1 << 20,
            Self::RandomWrite { .. }
            | Self::StridedWrite { .. }
            | Self::SequentialWrite { .. }
            | Self::RandomRead { .. }
            | Self::SequentialRead {} => 4096,
        }
    }

    /// Returns the default limits: the number of requests, or the seconds.
    pub const fn usual_limits(&self) -> (Option<u64>, Option<f64>) {
        match self {
            Self::RandomWrite { .. } | Self::RandomRead { .. } => (Some(RANDOM_COUNT), None),
            Self::StridedWrite { .. } => (Some(STRIDED_COUNT), None),
            Self::Dd {} => (Some(DD_COUNT), None),
            Self::SequentialWrite { .. } | Self::SequentialRead {} => (None, Some(SEQUENTIAL_SECONDS)),
        }
    }
}
