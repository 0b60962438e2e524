//! Limits of a probe, and why it may stop.

use crate::bench::TargetError;
use straddle_units::Span;
use straddle_units::io::Nanos;

/// What a probe may use, and where it may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes written.
    pub max_write: u64,
    /// Longest duration, on the target's clock.
    pub max_time: Nanos,
    /// Where it may read and write; `None` for everywhere.
    pub regions: Option<Vec<Span>>,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Budget {
    /// Default of `max_write`: 64 MiB.
    pub const MAX_WRITE: u64 = 64 << 20;
    /// Default of `max_time`: 5 minutes.
    pub const MAX_TIME: Nanos = Nanos::new(300_000_000_000);
    /// Default of `seed`.
    pub const SEED: u64 = 1;
}

impl Default for Budget {
    fn default() -> Self {
        Self { max_write: Self::MAX_WRITE, max_time: Self::MAX_TIME, regions: None, seed: Self::SEED }
    }
}

/// Why a probe fails. A probe that finds nothing has not failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ProbeError {
    #[error("{bytes} bytes are too few to probe: {needed} bytes in pieces of 128 KiB are needed")]
    TooSmall { bytes: u64, needed: u64 },
    #[error("cannot probe a target with {0}-byte logical sectors")]
    Sector(u64),
    #[error("the target failed")]
    Target(#[from] TargetError),
}

straddle_units::error_kind! {
    ProbeError: Usage;
    Self::Target(error) => error.kind(),
}

#[derive(Debug)]
pub(crate) enum Halt {
    Written,
    Time,
    /// The pieces of the regions are too small.
    Room,
    Target(TargetError),
}

impl From<TargetError> for Halt {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

pub(crate) type Step<T> = Result<T, Halt>;

/// Returns the result of a part, or why there is none if it ended early. Only a failing target is an error.
pub(crate) fn within<T>(step: Step<T>) -> Result<Result<T, &'static str>, TargetError> {
    match step {
        Ok(value) => Ok(Ok(value)),
        Err(Halt::Written) => Ok(Err("the limit of written bytes was reached")),
        Err(Halt::Room) => Ok(Err("the free regions are too fragmented")),
        Err(Halt::Time) => Ok(Err("the time limit was reached")),
        // An interrupted probe still reports what is known so far.
        Err(Halt::Target(TargetError::Interrupted)) => Ok(Err("it was interrupted")),
        Err(Halt::Target(error)) => Err(error),
    }
}
