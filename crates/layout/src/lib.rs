//! What is written on a medium: partition tables, and the signatures of what lies in them.
//!
//! The law of this crate: it only reads, it trusts no field, it says at which byte each structure stands, and
//! damage is a value ([`Problem`]) beside whatever could still be read, not an error that hides the rest.

mod beside;
mod blank;
mod check;
pub mod content;
mod descend;
mod fields;
pub mod format;
mod fs;
mod gpt;
mod kernel;
pub mod layer;
pub mod live;
mod mbr;
mod reader;
mod sectors;
mod signature;
mod stack;
pub mod types;
pub mod view;
mod volume;
mod watched;

pub use beside::{
    Beside, Neighbour, RivalContent, RivalTable, beside, member_marks, optical_extent, rival_content,
    rival_table,
};
pub use blank::is_blank;
pub use content::{Class, Content, FsKind, Named, VolumeKind};
pub use descend::read_layers;
pub use fs::file_system;
pub use kernel::kernel_stack;
pub use sectors::other_sectors;
pub use stack::{
    Attributes, MAX_PARTITIONS, Partition, PartitionType, Problem, Role, Stack, TableKind, read_all,
    read_in_use, read_stack, read_whole_in_use,
};
