//! Carrying out a move that was prepared, in the initramfs.
//!
//! Invariants: whatever ends a move, the kernel lists the partitions that move where the table has them, or
//! not at all; otherwise the machine reboots. How it ended is recorded.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use straddle_device::shown::with_causes;
use straddle_device::sysfs::{Directory, partitions};
use straddle_device::{Options, ioctl};

use super::hibernation::suspected;
use super::installed::write;
use super::prepare::moving;
use super::{BootError, LOG, System, sysfs_of};
use crate::apply::ApplyError;
use crate::realign::{JournalPlace, Listing, MoveError, Outcome, Realign, Run, Watch};
use crate::{Depth, Present, Target};

const LARGEST_PLAN: u64 = 16 << 20;
/// How often, and with what pauses, the kernel is asked to reread the table.
const REREADS: (u32, Duration) = (20, Duration::from_millis(500));
/// How long the reason for a reboot is shown.
const PAUSE: Duration = Duration::from_secs(5);

/// Receives what a move at boot has to say.
pub struct Console<'c> {
    /// Receives the progress, and may stop the moves at a safe point.
    pub watch: Watch<'c>,
    /// Receives the list of what could not be read.
    pub list: Listing<'c>,
    /// Receives why the machine reboots, before it does.
    pub restart: &'c mut dyn FnMut(&str),
}

/// How a move at boot ended. `unreadable` is the number of areas that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the texts document the variants")]
pub enum Ended {
    AlreadyDone,
    Complete {
        is_resumed: bool,
        unreadable: usize,
    },
    /// A rollback that had begun earlier.
    Back {
        unreadable: usize,
    },
    Paused,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyDone => "the partitions have been moved; --at-boot=cancel removes the hook",
            Self::Complete { is_resumed: false, .. } => "the move is complete",
            Self::Complete { is_resumed: true, .. } => "the move is complete, after an interruption",
            Self::Back { .. } => "the old layout is restored",
            Self::Paused => "interrupted at a safe point: the next boot will resume the move",
        })?;
        match self {
            Self::Complete { unreadable, .. } | Self::Back { unreadable } if *unreadable > 0 => {
                write!(f, "; areas that could not be read: {unreadable}")
            }
            _ => Ok(()),
        }
    }
}

impl System {
    /// Resumes an unfinished move of `disk`, or begins the one that was prepared, whose journal is named
    /// `id`. Reboots if the kernel does not list what the table has then. The error is
    /// [`BootError::NotMoved`] if nothing was written.
    pub fn carry_out(
        &self,
        disk: &Path,
        id: [u8; 16],
        console: &mut Console<'_>,
    ) -> Result<Ended, BootError> {
        let mut begun = None;
        let ended = self.moved(disk, id, console, &mut begun);
        let ended = match begun {
            None => ended.map_err(|error| BootError::NotMoved(Box::new(error))),
            Some(realign) => agree_or_restart(disk, &realign, &ended, console).and(ended),
        };
        let log = format!("{}\n{}\n", disk.display(), described(&ended));
        let recorded = write(&self.path(LOG), log.as_bytes(), 0o644);
        ended.and_then(|ended| recorded.map(|()| ended))
    }

    /// Moves. `begun` is the plan of which something may have been written.
    fn moved(
        &self,
        disk: &Path,
        id: [u8; 16],
        console: &mut Console<'_>,
        begun: &mut Option<Realign>,
    ) -> Result<Ended, BootError> {
        let realign = self.plan()?;
        let mut target = Target::open(disk, None)?;
        match Run::find(&mut target, None) {
            Ok(mut run) => {
                let realign = begun.insert(run.realign().clone()).clone();
                let unfinished = |error: MoveError| BootError::Unfinished(Box::new(error.into()));
                let is_back = run.is_turned().map_err(unfinished)?;
                let outcome = finished(run, is_back, console);
                return ended(outcome, &realign, &target, (true, is_back));
            }
            Err(MoveError::Nothing) => {}
            Err(error) => return Err(error.into()),
        }
        if realign.is_done(&target)? {
            return Ok(Ended::AlreadyDone);
        }
        if let Some(why) = suspected(self) {
            return Err(BootError::Hibernated(why));
        }
        let run = realign.begin(&mut target, JournalPlace::Inside, id)?;
        *begun = Some(realign.clone());
        let outcome = finished(run, false, console);
        ended(outcome, &realign, &target, (false, false))
    }

    fn plan(&self) -> Result<Realign, BootError> {
        let path = self.home().join("plan.json");
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(LARGEST_PLAN).read_to_string(&mut text));
        read.map_err(|source| BootError::File { path, what: "read", source })?;
        Ok(Realign::from_json(&text)?)
    }
}

fn described(ended: &Result<Ended, BootError>) -> String {
    ended.as_ref().map_or_else(|error| with_causes(error), Ended::to_string)
}

fn finished(run: Run<'_>, is_back: bool, console: &mut Console<'_>) -> Result<Outcome, MoveError> {
    match is_back {
        true => run.roll_back_listing(console.watch, console.list),
        false => run.finish_listing(console.watch, console.list),
    }
}

/// How a move ended that was resumed or not, and back or not.
fn ended(
    outcome: Result<Outcome, MoveError>,
    realign: &Realign,
    target: &Target<'_>,
    (is_resumed, is_back): (bool, bool),
) -> Result<Ended, BootError> {
    let complete = |unreadable| match is_back {
        true => Ended::Back { unreadable },
        false => Ended::Complete { is_resumed, unreadable },
    };
    match outcome {
        Ok(Outcome::Complete(bad)) => Ok(complete(bad.len())),
        Ok(Outcome::Paused) => Ok(Ended::Paused),
        // The table is written, and the kernel is asked again later.
        Err(MoveError::Apply(ApplyError::Kernel(_))) => Ok(complete(0)),
        Err(error) => {
            let is_done = matches!(realign.is_done(target), Ok(true));
            let error = Box::new(error.into());
            Err(if is_done { BootError::EndedBadly(error) } else { BootError::Unfinished(error) })
        }
    }
}

/// Reboots if the kernel and the table disagree. `ended` is how the move ended.
fn agree_or_restart(
    disk: &Path,
    realign: &Realign,
    ended: &Result<Ended, BootError>,
    console: &mut Console<'_>,
) -> Result<(), BootError> {
    let Err(error) = agree(disk, realign) else { return Ok(()) };
    (console.restart)(&format!("{}; {}", described(ended), with_causes(&error)));
    std::thread::sleep(PAUSE);
    // A boot would mount partitions that are elsewhere by now.
    fs::write("/proc/sysrq-trigger", "b").map_err(BootError::NoRestart)?;
    Err(error)
}

/// Has the kernel list the partitions that move where the table has them, or not at all if it has none.
fn agree(disk: &Path, realign: &Realign) -> Result<(), BootError> {
    let Some(sys) = sysfs_of(disk) else { return Ok(()) };
    let moving = moving(realign);
    for _ in 0..REREADS.0 {
        let present = Present::to_change(disk, &Options::default(), Depth::Contents)?;
        let table = present.stack().partitions.iter().map(|p| (p.number, p.span.start()));
        let mut table: Vec<_> = table.filter(|(number, _)| moving.contains(number)).collect();
        table.sort_unstable();
        let listed = partitions(&Directory::new(sys.clone()));
        let listed = listed.iter().map(|p| (p.number, p.span.start()));
        if listed.filter(|(number, _)| moving.contains(number)).eq(table) {
            return Ok(());
        }
        if let Ok(file) = File::open(disk) {
            let _ = ioctl::reread_partitions(&file);
        }
        std::thread::sleep(REREADS.1);
    }
    Err(BootError::NotListed)
}
