//! The disks of libvirt's virtual machines. The format of each is the one that the description states, raw without
//! one, and never detected: a guest could write a header that names any file of the host.
//!
//! Sources: libvirt's `formatdomain` and `storageencryption`; QEMU `hw/block/block.c`, `blkconf_blocksizes`.

mod disk;
mod find;
mod read;
mod virsh;

pub use disk::{Disk, Domain, Storage};
pub use find::{FindError, Found, Libvirt};
pub use read::{DomainError, MAX_DOCUMENT};
pub use virsh::VirshError;
