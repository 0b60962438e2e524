//! Targets, which are block devices and images: their bytes, and what is known about their sectors.
//!
//! Every figure of a [`Topology`](topology::Topology) carries the source that reported it, sources that disagree
//! are all kept, and nothing is ever written. All `unsafe` code of this crate is in [`ioctl`].
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("disk.img");
//! # std::fs::write(&path, vec![0; 1 << 20])?;
//! use straddle_device::{Options, open};
//!
//! let target = open(&path, &Options::default())?;
//! let physical = &target.topology.physical;
//! println!("{}, sectors of {} ({:?})", target.size, physical.value(), physical.source());
//! # assert_eq!(physical.value().get(), 4096);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod domain;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(test)]
#[path = "../../../tests/tools/skip.rs"]
mod skip;

pub mod address;
mod assume;
pub mod claim;
pub mod evidence;
pub mod fields;
pub mod hex;
pub mod identify;
pub mod image;
pub mod ioctl;
pub mod live;
mod medium;
mod quirks;
mod remembered;
pub mod shown;
mod standby;
pub mod sysfs;
mod target;
pub mod topology;

#[cfg(test)]
extern crate self as straddle_device;
#[cfg(test)]
#[path = "../tests/device/mod.rs"]
mod tests;

pub use address::{Address, AddressError, Scheme};
pub use assume::{Assume, AssumeError};
pub use claim::FileId;
pub use evidence::Identity;
pub use medium::{FileMedium, Medium, MemoryMedium, ReadError, Watched};
pub use remembered::Remembered;
pub use standby::{Standby, UnknownPower};
pub use sysfs::{DeviceKind, KernelPartition};
pub use target::{
    Discovered, OpenError, Options, Target, Through, Traffic, Zoned, closed, discover, open, open_in,
    open_object,
};
