//! What is measured, behind a small trait.
//!
//! A target takes requests and has a clock. On a modelled drive the clock is virtual and stands still between calls; on a
//! real device it will be the wall's, and requests may fail.

use std::collections::VecDeque;
use std::io;

use straddle_drive::{Drive, Profile};
use straddle_io::{Completion, Counters, Nanos, Operation, Refusal, Request, Time};

/// What a target is, for people and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The target as it was named: `drive:wd10ears,jumper=on`, `/dev/sdb`.
    pub name: String,
    /// Maker, model, size.
    pub title: String,
    /// Whose time is measured.
    pub clock: Clock,
}

/// Whose time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A model's: every figure is what the model says.
    Virtual,
    /// The wall's: every figure was measured.
    Wall,
}

/// Something that requests can be sent to.
///
/// Request ids are the caller's: unique among those that are outstanding. Requests are taken in the order in which they
/// are submitted and may complete in another.
pub trait Target {
    /// What it is.
    fn description(&self) -> &Description;

    /// Number of addressable bytes.
    fn capacity(&self) -> u64;

    /// The addressable unit, in bytes.
    fn logical_sector(&self) -> u64;

    /// How far the target's time has come.
    fn now(&self) -> Time;

    /// Sends a request now.
    fn submit(&mut self, request: Request) -> Result<(), TargetError>;

    /// Waits for the next completion, which is never earlier than one that was returned before.
    fn wait(&mut self) -> Result<Completion, TargetError>;

    /// Lets time pass in which the host does something else.
    fn pause(&mut self, length: Nanos);

    /// What has happened inside since it was switched on, if it can tell.
    fn counters(&self) -> Option<Counters>;
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No drive of this kind would take it.
    #[error("the drive refuses to {}", phrase(request))]
    Refused {
        /// What was asked.
        request: Request,
        /// Why not.
        source: Refusal,
    },
    /// The device failed.
    #[error("cannot {}", phrase(request))]
    Failed {
        /// What was asked.
        request: Request,
        /// What the device said.
        source: io::Error,
    },
    /// Requests are outstanding, but none will ever complete.
    #[error("{outstanding} requests are outstanding at {now}, and nothing happens inside the drive any more")]
    Stalled {
        /// How many.
        outstanding: usize,
        /// When.
        now: Time,
    },
    /// Nothing is outstanding.
    #[error("there is nothing to wait for")]
    Idle,
    /// Somebody asked for an end.
    #[error("interrupted")]
    Interrupted,
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

/// Sends one request and waits for its completion; nothing else may be outstanding.
pub fn complete(target: &mut dyn Target, request: Request) -> Result<Completion, TargetError> {
    target.submit(request)?;
    target.wait()
}

/// A modelled drive, fresh from power-on. Its time moves only while the host waits or pauses.
#[derive(Clone, Debug)]
pub struct Modelled {
    description: Description,
    drive: Drive,
    /// Completed, and not yet waited for.
    done: VecDeque<Completion>,
    scratch: Vec<Completion>,
}

impl Modelled {
    /// Switches on a drive of this profile, which was asked for as `name`.
    pub fn new(name: &str, profile: &Profile) -> Self {
        let description =
            Description { name: name.to_owned(), title: profile.title.clone(), clock: Clock::Virtual };
        Self { description, drive: Drive::new(profile), done: VecDeque::new(), scratch: Vec::new() }
    }

    /// The drive itself.
    pub const fn drive(&self) -> &Drive {
        &self.drive
    }

    fn collect(&mut self) {
        self.done.extend(self.scratch.drain(..));
    }
}

impl Target for Modelled {
    fn description(&self) -> &Description {
        &self.description
    }

    fn capacity(&self) -> u64 {
        self.drive.claims().capacity
    }

    fn logical_sector(&self) -> u64 {
        self.drive.claims().logical_sector
    }

    fn now(&self) -> Time {
        self.drive.now()
    }

    fn submit(&mut self, request: Request) -> Result<(), TargetError> {
        let taken = self.drive.submit(self.drive.now(), request, &mut self.scratch);
        self.collect();
        taken.map_err(|source| TargetError::Refused { request, source })
    }

    fn wait(&mut self) -> Result<Completion, TargetError> {
        while self.done.is_empty() {
            let outstanding = self.drive.outstanding();
            if outstanding == 0 {
                return Err(TargetError::Idle);
            }
            let Some(event) = self.drive.next_event() else {
                return Err(TargetError::Stalled { outstanding, now: self.drive.now() });
            };
            self.drive.advance(event, &mut self.scratch);
            self.collect();
        }
        self.done.pop_front().ok_or(TargetError::Idle)
    }

    fn pause(&mut self, length: Nanos) {
        self.drive.advance(self.drive.now() + length, &mut self.scratch);
        self.collect();
    }

    fn counters(&self) -> Option<Counters> {
        Some(*self.drive.counters())
    }
}
