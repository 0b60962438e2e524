//! What is written on a medium: partition tables, and the signatures of the contents of their partitions.
//!
//! Invariants: it only reads, it trusts no field, and it reports the byte of each structure.
//! Damage is a value ([`Problem`]) beside whatever could still be read, not an error that hides the rest.
//!
//! ```
//! use straddle_device::MemoryMedium;
//! use straddle_units::ByteCount;
//!
//! let mut mbr = vec![0; 512];
//! // The first entry: type 0x83, from sector 63 on, 1024 sectors.
//! mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 4, 0, 0]);
//! mbr[510..].copy_from_slice(&[0x55, 0xAA]);
//! let disk = MemoryMedium::sparse(mbr, ByteCount::new(1 << 20));
//!
//! let stack = straddle_layout::read_all(&disk, None, None)?;
//! assert_eq!(stack.partitions[0].span.start().get(), 63 * 512);
//! # Ok::<(), straddle_device::ReadError>(())
//! ```

mod beside;
mod blank;
mod descend;
mod fs;
pub mod live;
mod model;
mod read;
mod reader;
mod signature;
mod tables;
mod unclaimed;
mod volumes;

#[cfg(test)]
extern crate self as straddle_layout;
#[cfg(test)]
#[path = "../tests/layout/mod.rs"]
mod tests;

pub use beside::{
    Beside, Neighbour, RivalContent, RivalTable, beside, member_marks, optical_extent, rival_content,
    rival_table,
};
pub use blank::{first_written, is_blank, is_erased};
pub use descend::read_layers;
pub use fs::{fat_has_no_files, file_system};
pub use model::content::{Class, Content, FsKind, Named, VolumeKind};
pub use model::stack::{
    Attributes, Damage, LDM, MAX_PARTITIONS, Partition, PartitionType, Problem, Role, Stack, Structure,
    TableKind, Unclaimed,
};
pub use model::{content, layer, types, view};
pub use read::{read_all, read_in_use, read_stack};
pub use signature::{HIBERNATION_REACH, is_hibernation};
pub use tables::format;
pub use tables::free::{boot_area, taken};
pub use tables::gpt::{gpt_copy, is_gpt_header};
pub use tables::kernel::kernel_stack;
pub use tables::marker::{MARKER_GUID, MARKER_MBR, MARKER_TYPE, Marker, is_marker, marker};
pub use tables::sectors::{Evidence, OtherSectors, other_sectors};
