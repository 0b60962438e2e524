//! `realign --drive`: how long moves take on a modelled drive.
//!
//! The requests of some windows, spread over all of them, are sent to the model one after the other, in pieces
//! as the kernel would send them. Nothing is known of the time that the host takes.

use straddle_drive::Profile;
use straddle_measure::bench::{Modelled, Target, TargetError, complete};
use straddle_repair::realign::{Estimate, Journal, Realign};
use straddle_repair::relocate::{Job, Verify, WindowTraffic};
use straddle_units::io::{Operation, Request, Time};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::measured::Known;
use crate::target::Drive;

/// The largest request.
const PIECE: u64 = 1 << 20;
/// How many windows are sent to a model, in how many runs.
const WINDOWS: u64 = 64;
const RUNS: u64 = 8;

/// What the moves of a plan read and write, and how long that takes if it is known.
///
/// A probe measures no rates.
pub(crate) fn of(realign: &Realign, drive: Option<&Known>) -> Option<Estimate> {
    let job = realign.job([0; 16], Vec::new()).ok()?;
    let traffic = job.traffic(Verify::Read);
    let modelled = drive.and_then(|drive| match drive {
        Known::Model(Drive { specification, profile }) => {
            Some((specification, seconds(specification, profile, &job, realign.journal)?))
        }
        Known::Probe(_) => None,
    });
    Some(Estimate {
        read: traffic.read.get(),
        written: traffic.written.get(),
        journal: traffic.journal.get(),
        flushes: traffic.flushes,
        drive: modelled.as_ref().map(|(name, _)| (*name).clone()),
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time in seconds, saturating"
        )]
        seconds: modelled.map(|(_, seconds)| seconds.ceil() as u64),
    })
}

/// The time that all windows take on the model; `None` if it refuses a request.
fn seconds(name: &str, profile: &Profile, job: &Job, journal: Journal) -> Option<f64> {
    let (_, count) = job.windows();
    let (runs, of_run) = if count <= WINDOWS { (1, count) } else { (RUNS, WINDOWS / RUNS) };
    let mut model = Model { drive: Modelled::new(name, profile), next: 0 };
    let journal = match journal {
        Journal::Inside(place) => Some(place),
        Journal::Elsewhere { .. } => None,
    };
    for run in 0..runs {
        let first = count / runs * run;
        let windows = job.window_traffic(first..first.saturating_add(of_run));
        let mut before = None;
        for window in &windows {
            model.window(window, before.replace(window.written), journal).ok()?;
        }
    }
    let sampled = runs.saturating_mul(of_run).max(1);
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let share = count as f64 / sampled as f64;
    Some(model.drive.now().since(Time::ZERO).seconds() * share)
}

/// A modelled drive that gets the requests of moves.
struct Model {
    drive: Modelled,
    next: u64,
}

impl Model {
    /// Sends the requests of a window, and those that read the one before back.
    fn window(
        &mut self,
        window: &WindowTraffic,
        before: Option<Span>,
        journal: Option<Span>,
    ) -> Result<(), TargetError> {
        for span in &window.read {
            self.send(Operation::Read, *span)?;
        }
        // The two slots of the journal take turns.
        let place = journal.and_then(|place| {
            let half = ByteCount::new(place.len().get() / 2);
            let start = if self.next.is_multiple_of(2) {
                Some(place.start())
            } else {
                place.start().checked_add(half)
            };
            Span::new(start?, window.journal.min(half))
        });
        place.map_or(Ok(()), |place| self.send(Operation::Write, place))?;
        self.complete(Request::flush(self.next))?;
        before.map_or(Ok(()), |before| self.send(Operation::Read, before))?;
        self.send(Operation::Write, window.written)
    }

    /// Sends requests for a span, in whole sectors. What is beyond the model's end wraps around.
    fn send(&mut self, operation: Operation, span: Span) -> Result<(), TargetError> {
        let sector = ByteCount::new(self.drive.logical_sector());
        let capacity = self.drive.capacity().get().max(1);
        let end = span.end().get();
        let mut at = span.start().get();
        while at < end {
            let length = ByteCount::new(PIECE.min(end - at)).floor_to(sector).max(sector);
            let wrapped = ByteCount::new(at % capacity).floor_to(sector).get();
            let room = capacity.saturating_sub(wrapped).min(length.get());
            self.complete(Request::new(
                self.next,
                operation,
                ByteOffset::new(wrapped),
                ByteCount::new(room),
            ))?;
            at = at.saturating_add(length.get());
        }
        Ok(())
    }

    fn complete(&mut self, request: Request) -> Result<(), TargetError> {
        self.next += 1;
        complete(&mut self.drive, request).map(drop)
    }
}

pub(crate) fn words(estimate: &Estimate) -> String {
    let Estimate { read, written, journal, .. } = estimate;
    let bytes = |count: u64| ByteCount::new(count).to_string();
    let time = match (&estimate.drive, estimate.seconds) {
        #[allow(clippy::cast_precision_loss, reason = "shown in minutes")]
        (Some(drive), Some(seconds)) => {
            format!("about {} on the modelled drive {drive}", crate::view::text::duration(seconds as f64))
        }
        _ => "time unknown".to_owned(),
    };
    let (total, read, journal) = (bytes(written.saturating_add(*journal)), bytes(*read), bytes(*journal));
    format!("{read} to read and {total} to write, {journal} of them to the journal: {time}")
}
