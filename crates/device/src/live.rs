//! What stands on a disk or a partition: arrays, mappings, caches, and what uses them. Only sysfs, /proc and device
//! mapper are read. Depth and number are limited, because a captured tree may contain anything.
//!
//! A captured tree has `sys/block`. It may have `proc/self/mountinfo`, `proc/swaps`, copies of devices in
//! `dev` and, in `dmsetup-table`, the output of `dmsetup table`.

mod array;
mod machine;
mod mapping;
mod runs;
pub mod table;
mod usage;

use std::path::PathBuf;

use straddle_units::{BlockSize, ByteCount, ByteOffset};

use crate::medium::FileMedium;
pub use array::{Array, Member};
pub use machine::{Holder, Machine, sees_all_processes};
pub use mapping::{Mapping, Owner, is_internal, is_part_of_volume};
pub use runs::{Every, Geometry, Located, Run};
pub use usage::{Mount, Usage};

/// Nesting deeper than this is not followed.
pub const MAX_DEPTH: usize = 12;

/// At most this many devices above one are listed, each once for each path to it.
pub const MAX_DEVICES: usize = 4096;

/// A device and everything that stands on it.
#[derive(Clone, Debug)]
pub struct LiveDevice {
    /// The kernel's name: `sda1`, `dm-0`, `md0`.
    pub name: String,
    /// Its node, such as `/dev/dm-0`.
    pub node: PathBuf,
    /// Its size in bytes.
    pub size: ByteCount,
    /// Its logical sector size, where the kernel reports it.
    pub logical: Option<BlockSize>,
    /// What it is.
    pub kind: LiveKind,
    /// The devices directly below. Empty for a disk, and for a partition of a disk.
    pub below: Vec<Lower>,
    /// What uses it, besides the devices above.
    pub used_by: Usage,
    /// The devices directly above, ordered by name.
    pub holders: Vec<LiveDevice>,
    /// What is not known about it, and why.
    pub remarks: Vec<String>,
    source: machine::BytesOf,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// A disk, as far as is known.
    Disk,
    /// The partition with this number.
    Partition(u32),
    /// A Linux software RAID.
    Md(Array),
    /// A device-mapper device.
    Dm(Mapping),
    /// A bcache device over a backing device.
    Bcache,
    /// A loop device: its backing file, and the offset in it at which the device begins.
    Loop(PathBuf, ByteOffset),
}

/// A device below another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lower {
    /// Its name, such as `sda1`.
    pub device: String,
    /// `false` for a device that only describes, caches or checks data.
    pub holds_data: bool,
    /// Which bytes of the device above lie where on it; empty where that is not known.
    pub runs: Vec<Run>,
}

impl Lower {
    /// Returns where byte `at` of the device above lies on this one.
    pub fn locate(&self, at: ByteOffset) -> Located {
        runs::locate(&self.runs, at)
    }
}

impl LiveDevice {
    /// Opens its bytes, or returns why they cannot or must not be read.
    pub fn open(&self) -> Result<FileMedium, String> {
        self.source.open(&self.node, self.size)
    }

    /// Returns the device `name` among those directly below.
    pub fn lower(&self, name: &str) -> Option<&Lower> {
        self.below.iter().find(|lower| lower.device == name)
    }
}

#[cfg(test)]
mod tests;
