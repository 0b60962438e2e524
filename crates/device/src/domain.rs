//! The disks of libvirt's virtual machines: where each is stored, in which format, and which sectors its guest
//! is shown.
//!
//! Invariants: it reads libvirt's description of a domain and nothing that a guest can write. The
//! format of a disk is the one that the description states; without one it is raw, as for QEMU. A format is
//! never detected from contents, because a guest could write a header there that names any file of the host.
//! No disk is opened. Every number in a description is checked, and an error names its line.
//!
//! Sources: libvirt's `formatdomain` and `storageencryption`; QEMU `hw/block/block.c`, `blkconf_blocksizes`.

mod disk;
mod element;
mod error;
mod find;
mod read;
mod virsh;

pub use disk::{Disk, Domain, Storage};
pub use error::{DomainError, VirshError};
pub use find::{FindError, Found, Libvirt};
pub use read::MAX_DOCUMENT;
pub use virsh::Virsh;
