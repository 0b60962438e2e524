//! The measured target. A modelled drive has virtual time, which stands still between calls; a real device has the
//! wall clock, and its requests may fail.

use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::{Drive, Profile};
use straddle_units::io::{Completion, Counters, Nanos, Operation, Refusal, Request, Time};
use straddle_units::{ByteCount, Span};

/// The description of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Description {
    /// The target as named on the command line: `drive:wd10ears,jumper=on`, `/dev/sdb`.
    pub name: String,
    /// Manufacturer, model and size.
    pub title: String,
    /// The clock by which all times were measured.
    pub clock: Clock,
}

/// The clock by which a target is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The clock of a modelled drive: every figure was computed by the model.
    Virtual,
    /// The wall clock: every figure was measured.
    Wall,
}

/// A target that requests can be sent to.
///
/// The caller chooses request ids, unique among the outstanding requests. Requests are taken in the order in which
/// they are submitted, and may complete in another order.
pub trait Target {
    /// Returns its description.
    fn description(&self) -> &Description;

    /// Returns the number of addressable bytes.
    fn capacity(&self) -> ByteCount;

    /// Returns the logical sector size in bytes.
    fn logical_sector(&self) -> u64;

    /// Returns the target's current time.
    fn now(&self) -> Time;

    /// Sends a request now.
    fn submit(&mut self, request: Request) -> Result<(), TargetError>;

    /// Waits for the next completion, which is never earlier than one that was returned before.
    fn wait(&mut self) -> Result<Completion, TargetError>;

    /// Lets time pass in which the host does something else.
    fn pause(&mut self, length: Nanos);

    /// Returns the internal counters since power-on, if it has any.
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// Returns the bytes in an SSD's write buffer that flash does not hold yet, if that is known.
    fn buffered(&self) -> Option<ByteCount> {
        None
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum TargetError {
    #[error("the drive refuses to {}", phrase(request))]
    Refused { request: Request, source: Refusal },
    #[error("cannot {}", phrase(request))]
    Failed { request: Request, source: io::Error },
    #[error("the modelled drive stopped at {now} while {outstanding} requests were outstanding")]
    Stalled { outstanding: usize, now: Time },
    #[error("no request is outstanding")]
    Idle,
    #[error("interrupted")]
    Interrupted,
}

straddle_units::error_kind! {
    TargetError: Failed;
    Self::Interrupted => Interrupted,
}

fn phrase(request: &Request) -> String {
    let verb = match request.operation {
        Operation::Read => "read",
        Operation::Write | Operation::WriteFua => "write",
        Operation::Flush => return "flush".to_owned(),
        Operation::Discard => "discard",
    };
    format!("{verb} {} bytes at byte {}", request.length.get(), request.offset.get())
}

/// Sends one request and waits for its completion. No other request may be outstanding.
pub fn complete(target: &mut dyn Target, request: Request) -> Result<Completion, TargetError> {
    target.submit(request)?;
    target.wait()
}

/// A modelled drive, just powered on. Its time moves only while the host waits or pauses.
#[derive(Clone, Debug)]
pub struct Modelled {
    description: Description,
    drive: Drive,
    done: Vec<Completion>,
}

impl Modelled {
    /// Powers on a drive of this profile, which was requested as `name`.
    pub fn new(name: &str, profile: &Profile) -> Self {
        let description =
            Description { name: name.to_owned(), title: profile.title.clone(), clock: Clock::Virtual };
        Self { description, drive: Drive::new(profile), done: Vec::new() }
    }

    /// Returns the drive itself.
    pub const fn drive(&self) -> &Drive {
        &self.drive
    }
}

impl Target for Modelled {
    fn description(&self) -> &Description {
        &self.description
    }

    fn capacity(&self) -> ByteCount {
        ByteCount::new(self.drive.claims().capacity)
    }

    fn logical_sector(&self) -> u64 {
        self.drive.claims().logical_sector
    }

    fn now(&self) -> Time {
        self.drive.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        let taken = self.drive.submit(self.drive.now(), request, &mut self.done);
        taken.map_err(|source| TargetError::Refused { request, source })
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        let next = self.drive.next_completion(&mut self.done);
        next.ok_or_else(|| match self.drive.outstanding() {
            0 => TargetError::Idle,
            outstanding => TargetError::Stalled { outstanding, now: self.drive.now() },
        })
    }

    fn pause(&mut self, length: Nanos) {
        self.drive.advance(self.drive.now() + length, &mut self.done);
    }

    fn counters(&self) -> Option<Counters> {
        Some(*self.drive.counters())
    }

    fn buffered(&self) -> Option<ByteCount> {
        self.drive.buffered().map(ByteCount::new)
    }
}

/// A target whose contents survive being probed.
///
/// A probe writes only inside spans that it has passed to [`Surface::prepare`] before, and each write must
/// restore exactly the previous contents. So an implementation on a real device has to
/// - read each span from the device in `prepare` and keep the bytes until the probe is over; where spans
///   overlap, the bytes read first are the right ones;
/// - send those bytes with each write, and fail a write outside of them with [`TargetError::Failed`];
/// - send writes, FUA writes and flushes to the drive as such, and report times without its own work.
///
/// The drive's read cache then holds what is about to be written; the probe itself reads elsewhere afterwards.
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
