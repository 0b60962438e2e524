//! Moves spans of bytes on a disk.

mod disk;
mod engine;
mod error;
mod fault;
mod job;
mod journal;
mod recovery;
mod sequence;

#[cfg(test)]
mod tests;

pub use disk::{Disk, Disks, FileDisk, SECTOR};
pub use engine::{Progress, Verify, Watch};
pub use error::{Device, RelocateError};
pub use job::{Job, LARGEST_PAYLOAD, LARGEST_WINDOW, MOST_MOVES, Move, Parts};
pub use recovery::{
    Back, Ended, Moved, Recovered, State, Turned, Unfinished, begin, inspect, journal_len, open,
};
