//! The patterns of requests: the list that files, the command line and its help are made of.
//!
//! Add a pattern to `patterns!`, and the compiler leads to everything that has to be known of it.

use serde::{Deserialize, Serialize};

/// Requests of the random workloads: what the published program was run with.
pub const RANDOM_COUNT: u64 = 1000;
/// Requests of the strided workload: what phybs was run with.
pub const STRIDED_COUNT: u64 = 32_768;
/// Requests of `dd`.
pub const DD_COUNT: u64 = 1024;
/// How long the sequential workloads run, in seconds: fio's `runtime` in the published job.
pub const SEQUENTIAL_SECONDS: f64 = 60.0;
/// Blocks of the random workloads: the modulus in the published program.
pub const RANDOM_BLOCKS: u64 = 200_000_000;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// Nothing: it may stay in the drive's cache. O_SYNC on a raw disk did no more up to Linux 2.6.31.
    #[default]
    None,
    /// A flush of the drive's cache after each write: O_SYNC later.
    Flush,
    /// Each write goes to the medium by itself (force unit access).
    Fua,
}

/// Makes the enum, its list and its names of one list. An entry: documentation, the variant with its parameters and their
/// usual values, the constant for that, the name in files and on the command line, and the help.
macro_rules! patterns {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident { $($(#[doc = $of_field:literal])+ $field:ident: $type:ty = $usual:expr,)* }
        as $constant:ident, $name:literal: $about:literal;
    )+) => {
        /// Where requests lie, and what else they are besides a size and a number.
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

            /// Each pattern with its usual parameters.
            pub const ALL: &'static [Self] = &[$(Self::$constant),+];

            /// The name, as in files and on the command line.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                }
            }

            /// What it is, in a line of the help.
            pub const fn about(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $about,)+
                }
            }
        }
    };
}

patterns! {
    /// Writes to random blocks: T. Miller's program of 2010, with its arithmetic.
    /// Block = random() % `blocks`, byte = `start` + block · `size` + `offset`.
    RandomWrite {
        /// Blocks to choose from; fewer if the target is too small.
        blocks: u64 = RANDOM_BLOCKS,
        /// Seed of the generator; the offset in logical sectors if not given, as in the published program.
        seed: Option<u32> = None,
        /// What makes each write durable.
        sync: Sync = Sync::None,
    } as RANDOM_WRITE, "random-write":
        "4 KiB writes to random blocks: the program of the 2010 article that first showed the cost";

    /// Writes a fixed distance apart: D. E. Smørgrav's phybs. Byte = `start` + `offset` + index · `stride`.
    StridedWrite {
        /// Bytes from the start of one to the start of the next.
        stride: u64 = 16_384,
        /// What makes each write durable.
        sync: Sync = Sync::None,
    } as STRIDED_WRITE, "strided-write": "4 KiB writes a fixed distance apart: phybs";

    /// Writes one after the other, with an fsync after every `fsync_each` of them: fio's `rw=write fsync=1`.
    SequentialWrite {
        /// Writes from one fsync to the next; none at all if zero.
        fsync_each: u64 = 1,
    } as SEQUENTIAL_WRITE, "sequential-write":
        "4 KiB writes one after the other, each with an fsync: fio's rw=write fsync=1";

    /// Writes one after the other, and one fsync at the end, which counts. The size is what the drive sees: where a page
    /// cache gathers dd's blocks first, what it sends.
    Dd {} as DD, "dd": "Large writes one after the other, and one fsync at the end";

    /// Reads of random blocks, chosen as [`Pattern::RandomWrite`] chooses them.
    RandomRead {
        /// Blocks to choose from; fewer if the target is too small.
        blocks: u64 = RANDOM_BLOCKS,
        /// Seed of the generator; the offset in logical sectors if not given.
        seed: Option<u32> = None,
    } as RANDOM_READ, "random-read": "4 KiB reads of random blocks";

    /// Reads one after the other.
    SequentialRead {} as SEQUENTIAL_READ, "sequential-read": "4 KiB reads one after the other";
}

/// What some patterns have and others have not. Of a pattern: `None` where it has no such parameter; a seed also where it
/// is not given. As a request: `None` where the usual value stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes from the start of a request to the start of the next.
    pub stride: Option<u64>,
    /// Blocks to choose from.
    pub blocks: Option<u64>,
    /// Seed of the generator.
    pub seed: Option<u32>,
    /// What makes each write durable.
    pub sync: Option<Sync>,
    /// Writes from one fsync to the next.
    pub fsync_each: Option<u64>,
}

/// A parameter that a pattern does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} {}", self.reason())]
pub struct ForeignParameter {
    /// Its name, as in files.
    pub parameter: &'static str,
    /// The name of the pattern.
    pub pattern: &'static str,
}

impl ForeignParameter {
    /// `is for random-write and random-read, not for dd`.
    pub fn reason(&self) -> String {
        let of = Pattern::ALL.iter().filter(|pattern| pattern.has(self.parameter));
        let names: Vec<&str> = of.map(Pattern::name).collect();
        format!("is for {}, not for {}", names.join(" and "), self.pattern)
    }
}

/// The parameters that a pattern has, to be set.
#[derive(Default)]
struct Own<'a> {
    stride: Option<&'a mut u64>,
    blocks: Option<&'a mut u64>,
    seed: Option<&'a mut Option<u32>>,
    sync: Option<&'a mut Sync>,
    fsync_each: Option<&'a mut u64>,
}

impl Pattern {
    /// The pattern of this name, with its usual parameters.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|pattern| pattern.name() == name)
    }

    fn own(&mut self) -> Own<'_> {
        match self {
            Self::RandomWrite { blocks, seed, sync } => {
                Own { blocks: Some(blocks), seed: Some(seed), sync: Some(sync), ..Own::default() }
            }
            Self::StridedWrite { stride, sync } => {
                Own { stride: Some(stride), sync: Some(sync), ..Own::default() }
            }
            Self::SequentialWrite { fsync_each } => Own { fsync_each: Some(fsync_each), ..Own::default() },
            Self::RandomRead { blocks, seed } => {
                Own { blocks: Some(blocks), seed: Some(seed), ..Own::default() }
            }
            Self::Dd {} | Self::SequentialRead {} => Own::default(),
        }
    }

    /// Its parameters.
    pub fn parameters(mut self) -> Parameters {
        let Own { stride, blocks, seed, sync, fsync_each } = self.own();
        Parameters {
            stride: stride.copied(),
            blocks: blocks.copied(),
            seed: seed.copied().flatten(),
            sync: sync.copied(),
            fsync_each: fsync_each.copied(),
        }
    }

    /// The same with these parameters; the first that it does not have is an error.
    pub fn with(mut self, given: Parameters) -> Result<Self, ForeignParameter> {
        let Parameters { stride, blocks, seed, sync, fsync_each } = given;
        let pattern = self.name();
        let own = self.own();
        set("stride", own.stride, stride)
            .and_then(|()| set("blocks", own.blocks, blocks))
            .and_then(|()| set("seed", own.seed, seed.map(Some)))
            .and_then(|()| set("sync", own.sync, sync))
            .and_then(|()| set("fsync_each", own.fsync_each, fsync_each))
            .map_err(|parameter| ForeignParameter { parameter, pattern })?;
        Ok(self)
    }

    /// Whether it has the parameter of this name.
    fn has(mut self, parameter: &str) -> bool {
        let Own { stride, blocks, seed, sync, fsync_each } = self.own();
        let all = [
            ("stride", stride.is_some()),
            ("blocks", blocks.is_some()),
            ("seed", seed.is_some()),
            ("sync", sync.is_some()),
            ("fsync_each", fsync_each.is_some()),
        ];
        all.contains(&(parameter, true))
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

    /// Whether the places of its requests are random; else each lies behind the one before.
    pub const fn is_random(&self) -> bool {
        match self {
            Self::RandomWrite { .. } | Self::RandomRead { .. } => true,
            Self::StridedWrite { .. }
            | Self::SequentialWrite { .. }
            | Self::Dd {}
            | Self::SequentialRead {} => false,
        }
    }

    /// Whether an fsync ends it, which counts.
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

    /// Bytes of each request, if not given.
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

    /// The number of requests or the seconds after which it ends, if neither is given.
    pub const fn usual_limits(&self) -> (Option<u64>, Option<f64>) {
        match self {
            Self::RandomWrite { .. } | Self::RandomRead { .. } => (Some(RANDOM_COUNT), None),
            Self::StridedWrite { .. } => (Some(STRIDED_COUNT), None),
            Self::Dd {} => (Some(DD_COUNT), None),
            Self::SequentialWrite { .. } | Self::SequentialRead {} => (None, Some(SEQUENTIAL_SECONDS)),
        }
    }
}

fn set<T>(name: &'static str, own: Option<&mut T>, given: Option<T>) -> Result<(), &'static str> {
    match (own, given) {
        (_, None) => Ok(()),
        (Some(own), Some(given)) => {
            *own = given;
            Ok(())
        }
        (None, Some(_)) => Err(name),
    }
}
