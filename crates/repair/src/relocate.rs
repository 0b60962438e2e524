//! Moves spans of bytes on a disk, so that a crash at any moment loses none of them.
//!
//! Invariants: at every moment the disk and the journal together hold all data, whatever part of the writes
//! since the last flush has become durable. Written are only destinations, the rest of the physical sectors
//! at their ends (with what they hold), the journal, and, on the way back, sources. Tables, file systems and
//! the identity of a disk are not known here: a journal is accepted on any disk of the size that it was made
//! for. The caller must ensure that it is the disk of the job and that nothing else uses it.
//!
//! A [`Job`] is a list of moves that are possible. [`begin`] writes its journal; [`open`] finds it after a crash or
//! an error, in one of four states, whose types say what can be done: [`Unfinished`] is resumed, [`Moved`] and
//! [`Back`] are erased, and all but [`Back`] can be [rolled back](Recovered::rollback); that is all for [`Turned`].
//! With a [`Moved`] the caller writes a new partition table, and erases the journal after that.
//!
//! ```
//! # use std::ops::ControlFlow;
//! # use straddle_repair::relocate::{Disk, Disks, Job, RelocateError, begin};
//! # use straddle_units::Span;
//! fn shift(disk: &mut dyn Disk, place: Span, job: Job) -> Result<(), RelocateError> {
//!     let unfinished = begin(Disks::one(disk), place, job)?;
//!     let moved = unfinished.resume(&mut |_| ControlFlow::Continue(()))?;
//!     let Some(moved) = moved else { return Ok(()) };
//!     // Here the new partition table is written.
//!     moved.erase()
//! }
//! ```
//!
//! A rollback that has begun cannot be turned round:
//!
//! ```compile_fail,E0599
//! # use std::ops::ControlFlow;
//! # use straddle_repair::relocate::{RelocateError, Turned};
//! fn resume(turned: Turned<'_>) -> Result<(), RelocateError> {
//!     turned.resume(&mut |_| ControlFlow::Continue(()))?;
//!     Ok(())
//! }
//! ```
//!
//! Neither is a journal erased that is still needed:
//!
//! ```compile_fail,E0599
//! # use straddle_repair::relocate::{RelocateError, Unfinished};
//! fn erase(unfinished: Unfinished<'_>) -> Result<(), RelocateError> {
//!     unfinished.erase()
//! }
//! ```
//!
//! # Windows
//!
//! Each move is cut into windows, from the end when it goes up and from the start when it goes down. So the
//! destination of a window overlaps only sources of itself and of windows before it in the same move, and, as
//! [`Job::new`] has checked, nothing else that is still needed. All windows of all moves are one sequence.
//! Below, `S(i)` is the source of window `i`, and `W(i)` what is written for it: its destination and the rest
//! of the physical sectors at its ends, which is read first and written back unchanged. So a write covers
//! whole physical sectors, and a torn one damages nothing outside `W(i)`.
//!
//! # The way forward
//!
//! For each window: write the record `R(i)` to slot `i` mod 2; flush everything; write the data `D(i)` to
//! `W(i)`. That is one flush for each window. `R(i)` is *copied* if the slot also gets what `S(i)` and `W(i)`
//! hold, and *direct* if it does not. A window is direct only if `W(i)` is exactly its destination and
//!
//! - `S(i)` overlaps neither `W(i)` nor `W(i+1)`,
//! - `S(i-1)` does not overlap `W(i)`.
//!
//! Within a move this is a distance of two windows or more. It holds across the border of two moves as well:
//! a window whose source the next move overwrites at once is copied.
//!
//! **Claim.** Let `R(i)` be the last complete record that is found. Then `D(0)` to `D(i-2)` are durable, and
//! writing `D(i-1)`, if `R(i-1)` is complete, and then `D(i)` again gives the state in which exactly the
//! windows up to `i` have been written:
//!
//! - The write of `R(i)` began after the flush that followed `R(i-1)`, which made `D(i-2)` durable.
//! - `R(i+1)` is not complete, so its flush is not, and nothing of `D(i+1)` was written. What may be missing
//!   or torn is in `W(i-1)` and `W(i)`.
//! - If `R(i-1)` is not complete any more, the write of `R(i+1)` to its slot had begun, after the flush that
//!   followed `R(i)`, which made `D(i-1)` durable. Otherwise the journal has the bytes of `D(i-1)`, or they
//!   are at `S(i-1)`, which neither `W(i-1)` nor `W(i)` overlaps. Writing them again is right, and harmless
//!   if they were durable: what `D(i)` had changed of it is written again by `D(i)`.
//! - The same goes for `D(i)` and `S(i)`. If `S(i)` is direct and shares a physical sector with the ends of
//!   `W(i-1)`, `D(i-1)` restores that before `S(i)` is read.
//!
//! When that is flushed, window `i+1` is next, and no later source was written to. A crash meanwhile leaves
//! the same records, and so the same claim. A record whose sector is whole but whose copy is not was not
//! flushed: its window has not begun, and its source must match its hash. What does not match is an error.
//!
//! Every `W(i)` is read back after the flush that follows `R(i+1)`, while `D(i+1)` is
//! written, and compared before anything is written to the slot of `R(i+2)`, which is that of `R(i)`. If
//! `D(i+1)` overwrites part of `W(i)`, it waits for that. So when a difference is found the windows in flight
//! are `i` and `i+1` at most, and the way back undoes both.
//!
//! What the next window needs is read ahead by [`Disk::prefetch`], into a cache that later writes change. The
//! engine itself reads `S(i)` after `D(i-1)`.
//!
//! Before the end is recorded, everything is flushed once more, so that the record of the end means that all
//! data are durable. With two disks both are flushed: `R(i)` before `D(i)`, and `D(i)` before `R(i+2)`.
//!
//! # The way back
//!
//! It begins by undoing what is in flight, not by completing it: a sector that cannot be written may be why.
//! A mark makes the decision durable. Then `W(i)` and after it `W(i-1)`, as far as they are in flight and
//! copied, get back what the journal has of them, in the order opposite to the writes. A direct window needs
//! nothing: its source is intact, and by the last rule above it has not overwritten the source before it. The
//! slots stay as they are until a second mark says, durably, that all this is done; so it can be repeated.
//! What is then at its destination moves back like any other job, last window first, with records of its own
//! direction; the forward ones do not count any more.
//!
//! # Holes
//!
//! Where `S(i)` is a hole ([`Disk::holes`]) and reads as zeros, `W(i)` becomes one, in whole physical sectors, by
//! [`Disk::punch`]. That is a write of the same zeros, and so changes nothing above. A window that is written again
//! from the journal keeps the holes of its destination: an interruption costs the space of two windows at most.
//!
//! # What cannot be read
//!
//! It stops the job, and the way back needs only what was read before. Or, if the caller says so
//! (`skip_bad`), the [`filler`] takes its place, and the journal gets a list of it ([`Bad`]):
//!
//! - What `R(i)` describes in place of unreadable bytes is listed, and flushed, before `R(i)` is written. So a
//!   filler is at no destination without its entry. An entry without a filler is harmless: before the window
//!   began the sector was unreadable, and it is read again.
//! - Such a window is copied, whatever the distance, so that it is not read again after a crash: a sector may
//!   be readable one time and not the next. Its source is not compared with the record any more.
//! - Each block of the list is written once. A torn one hides no other, and was not flushed; the next entry
//!   takes its place. Without room in the list an unreadable sector stops the job.
//! - If a direct window cannot be read again after a crash, its destination may have all of it already. If
//!   not, what is missing is listed and the filler written, as above.
//! - The way back writes no filler where the bytes may still be: a physical sector in which something could
//!   not be read is left as it is, if no window up to `done` and none of the two that may be in flight has
//!   `W(i)` there. So it is what it was before the moves. Which sectors these are follows from the list, as
//!   it is when the rollback begins, and from `done`, so every recovery leaves out the same: what is found on
//!   the way back is at a destination, which was written, or shares a physical sector with what was moved and
//!   is not listed as moved.
//!
//! # What it relies on
//!
//! A completed flush makes all earlier writes durable; a write changes no physical sector but those it
//! covers; and nobody else writes to the disk or the journal. After a failed flush a cache may hold what the
//! medium does not: [`open`] flushes, drops the caches ([`Disk::drop_cache`]) and reads again. A file that is
//! made for a journal must be durable in its folder, and is best allocated, before [`begin`].

mod bad;
mod disk;
mod engine;
mod error;
mod fault;
mod flight;
mod job;
mod journal;
mod recovery;
mod window;

#[cfg(test)]
mod tests;

pub use bad::{Bad, filler};
use bad::{Skip, normal, settled, untouched};
pub(crate) use bad::{listed, read_rest};
use disk::SECTOR_LEN;
pub use disk::{Disk, Disks, FileAccess, SECTOR};
use engine::Run;
pub use engine::{Progress, Watch};
use error::Result;
pub use error::{Device, RelocateError};
use fault::Fault;
use flight::Flight;
pub use job::{Job, LARGEST_PAYLOAD, LARGEST_WINDOW, MOST_MOVES, Move, Parts, Traffic};
use job::{len_in_body, round_out};
use journal::{
    COPIES, Direction, Entry, Hash, Hasher, Journal, Kind, Mark, Record, Saved, hash, hash_both, in_memory,
    part_of,
};
pub use journal::{is_title, journal_len, journal_len_with};
pub use recovery::{
    Back, Moved, Recovered, State, Turned, Unfinished, Whereabouts, begin, forget, inspect, is_latest,
    named_within, open, place_around, search,
};
use window::{Sequence, Window, changed, distance, holds, holes, hull, is_cached, read, write_without};
