//! What stands on a disk or a partition as the kernel has it now: arrays, mappings, caches, and who uses them.
//!
//! The law of this module: it asks sysfs, /proc and device mapper, and only reads; what the kernel does not tell, or not
//! to us, is unknown and said to be. Depth and number are limited, so that a captured tree may say what it likes.
//!
//! A captured tree has `sys/block`, and may have `proc/self/mountinfo`, `proc/swaps`, copies of devices in `dev` and, as
//! `dmsetup-table`, what `dmsetup table` printed.

mod array;
mod machine;
mod mapping;
mod runs;
pub mod table;
mod usage;

use std::path::{Path, PathBuf};

use straddle_units::{BlockSize, ByteCount, ByteOffset};

use crate::medium::FileMedium;
pub use array::{Array, Member};
pub use machine::{Machine, sees_all_processes};
pub use mapping::{Mapping, Owner, is_internal, is_part_of_volume};
pub use runs::{Every, Geometry, Located, Run};
pub use usage::{LoopUse, Mount, Usage};

/// Deeper nesting than this is not followed.
pub const MAX_DEPTH: usize = 12;

/// More devices than this over one are not listed; a device that is reached on two ways counts twice.
pub const MAX_DEVICES: usize = 4096;

/// A device, and all that stands on it.
#[derive(Clone, Debug)]
pub struct LiveDevice {
    /// The kernel's name: `sda1`, `dm-0`, `md0`.
    pub name: String,
    /// Its node, `/dev/dm-0`.
    pub node: PathBuf,
    /// Its size.
    pub size: ByteCount,
    /// Its logical block, where the kernel says.
    pub logical: Option<BlockSize>,
    /// What it is.
    pub kind: LiveKind,
    /// The devices directly below. Empty for disks, and for partitions of those.
    pub below: Vec<Lower>,
    /// Who uses it, besides the devices above.
    pub used_by: Usage,
    /// The devices directly above, in order of name.
    pub holders: Vec<LiveDevice>,
    /// What is not known of it, and why.
    pub remarks: Vec<String>,
    /// Where its bytes can be read.
    source: machine::BytesOf,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// A disk, as far as we know.
    Disk,
    /// A partition of this number.
    Partition(u32),
    /// A Linux software RAID.
    Md(Array),
    /// A device-mapper device.
    Dm(Mapping),
    /// A bcache device over a backing device.
    Bcache,
    /// A file as a block device, from this byte of it on.
    Loop(PathBuf, ByteOffset),
}

/// A device below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lower {
    /// Its name, `sda1`.
    pub device: String,
    /// Whether data is on it; `false` for those that only describe, cache or check it. What stands on those is not a way
    /// to the data.
    pub holds_data: bool,
    /// Which bytes lie where on it; empty where that is not known.
    pub runs: Vec<Run>,
}

impl Lower {
    /// Where byte `at` of the device above is on this one.
    pub fn locate(&self, at: ByteOffset) -> Located {
        runs::locate(&self.runs, at)
    }
}

impl LiveDevice {
    /// Its bytes; or why they are not to be had, or not to be asked for.
    pub fn open(&self) -> Result<FileMedium, String> {
        self.source.open(&self.node, self.size)
    }

    /// What it says of the device `name` below it.
    pub fn lower(&self, name: &str) -> Option<&Lower> {
        self.below.iter().find(|lower| lower.device == name)
    }
}

/// What stands on the disk or partition `name`, on this machine or in the captured tree `sysroot`, and what could not be
/// looked at. `None` when there is no such device. For several devices a [`Machine`] is read once.
pub fn live_layers(sysroot: Option<&Path>, name: &str) -> (Option<LiveDevice>, Vec<String>) {
    let machine = Machine::read(sysroot);
    let (device, mut remarks) = machine.layers(name);
    remarks.extend(machine.remarks().iter().cloned());
    (device, remarks)
}

#[cfg(test)]
mod tests;
