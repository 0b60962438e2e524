//! What a probe needs of a target beyond sending requests to it.

use straddle_io::{Operation, Request};
use straddle_units::Span;

use crate::target::{Modelled, Target, TargetError, complete};

/// A target whose contents survive being probed.
///
/// The law: a probe writes only inside spans that it has passed to [`Surface::prepare`] before, and a write must put
/// back exactly what was there. So an implementation on a real device has to
///
/// - read each span from the device in `prepare`, past the page cache, and keep what it read until the probe is over; where
///   spans overlap, or were prepared before, the bytes kept first are the right ones and must not be lost;
/// - send those bytes with each write, and fail a write outside of them with [`TargetError::Failed`];
/// - send writes, FUA writes and flushes to the drive as such, and report times that hold no work of its own: copying is done
///   before the submission;
/// - keep no more than it is asked to: a probe prepares at most `straddle_probe::MOST_PREPARED` bytes.
///
/// Preparing leaves its mark on what is measured: the drive's read cache then holds what is about to be written. The probe
/// reads elsewhere afterwards, so that no implementation needs to.
pub trait Surface: Target {
    /// Reads the spans and keeps their contents; nothing is outstanding before or after.
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError>;
}

/// Ids that no probe uses for its own requests.
const PREPARING: u64 = 1 << 63;

/// A modelled drive keeps no contents; but it is read as a real one would be, for that has an effect on its caches.
impl Surface for Modelled {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        for span in spans {
            let (offset, length) = (span.start().get(), span.len().get());
            complete(self, Request::new(PREPARING, Operation::Read, offset, length))?;
        }
        Ok(())
    }
}
