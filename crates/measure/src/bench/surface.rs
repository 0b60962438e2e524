//! What a probe requires of a target besides sending requests.

use straddle_units::Span;
use straddle_units::io::{Operation, Request};

use crate::bench::target::{Modelled, Target, TargetError, complete};

/// A target whose contents survive being probed.
///
/// A probe writes only inside spans that it has passed to [`Surface::prepare`] before, and each write must
/// restore exactly the previous contents. So an implementation on a real device has to
/// - read each span from the device in `prepare` and keep the bytes until the probe is over; where spans
///   overlap, the bytes read first are the right ones;
/// - send those bytes with each write, and fail a write outside of them with [`TargetError::Failed`];
/// - send writes, FUA writes and flushes to the drive as such, and report times without its own work.
///
/// The drive's read cache then holds what is about to be written; the probe itself reads elsewhere
/// afterwards.
pub trait Surface: Target {
    /// Reads the spans and keeps their contents. No request is outstanding before or after.
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError>;
}

/// An id that probes do not use for their own requests.
const PREPARING: u64 = 1 << 63;

/// It keeps no contents, but is read as a real drive would be, because that affects its caches.
impl Surface for Modelled {
    fn prepare(&mut self, spans: &[Span]) -> Result<(), TargetError> {
        for span in spans {
            complete(self, Request::new(PREPARING, Operation::Read, span.start(), span.len()))?;
        }
        Ok(())
    }
}
