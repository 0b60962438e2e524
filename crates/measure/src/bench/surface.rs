//! What a probe requires of a target besides sending requests.

use straddle_units::io::{Operation, Request};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::bench::target::{Modelled, Target, TargetError, complete};

/// A target whose contents survive being probed.
///
/// The law: a probe writes only inside spans that it has passed to [`Surface::prepare`] before, and a write
/// must restore exactly the previous contents. So an implementation on a real device has to
///
/// - read each span from the device in `prepare`, bypassing the page cache, and keep the bytes until the
///   probe is over; where spans overlap or were prepared before, the bytes kept first are the right ones and
///   must not be lost;
/// - send those bytes with each write, and fail a write outside of them with [`TargetError::Failed`];
/// - send writes, FUA writes and flushes to the drive as such, and report times that do not include its own
///   work: copying is done before the submission;
/// - keep no more than it is asked to: a probe prepares 8192 slots of two of its largest units at most.
///
/// Preparing affects what is measured: the drive's read cache then holds what is about to be written. The
/// probe reads elsewhere afterwards, so implementations do not need to.
pub trait Surface: Target {
    /// Reads the spans and keeps their contents. No request is outstanding before or after.
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError>;
}

/// An id that probes do not use for their own requests.
const PREPARING: u64 = 1 << 63;

/// A modelled drive keeps no contents, but it is read as a real one would be, because that affects its
/// caches.
impl Surface for Modelled {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        for span in spans {
            let (offset, length) = (span.start().get(), span.len().get());
            complete(
                self,
                Request::new(PREPARING, Operation::Read, ByteOffset::new(offset), ByteCount::new(length)),
            )?;
        }
        Ok(())
    }
}
