//! A target after its measurement, to which nothing more is written.

use crate::bench::{Description, Target};
use straddle_units::ByteCount;

use crate::real::open::Opened;
use crate::real::target::Real;

/// A target that was measured. It accepts no more requests, since its journal, if it had one, may have been
/// removed.
pub struct Finished(Real);

impl Finished {
    pub(crate) fn of(real: Real) -> Self {
        Self(real)
    }

    /// The target.
    pub const fn opened(&self) -> &Opened {
        self.0.opened()
    }

    /// Its description.
    pub fn description(&self) -> &Description {
        self.0.description()
    }

    /// Its size.
    pub fn capacity(&self) -> ByteCount {
        self.0.capacity()
    }

    /// Its smallest addressable unit, in bytes.
    pub fn logical_sector(&self) -> u64 {
        self.0.logical_sector()
    }

    /// Requests that were sent.
    pub const fn sent(&self) -> u64 {
        self.0.sent()
    }

    /// Whether every byte that was read beforehand is zero. Such sectors may have been discarded or never
    /// written, and a drive may answer without reading its medium.
    pub fn is_blank(&self) -> bool {
        self.0.is_blank()
    }
}
