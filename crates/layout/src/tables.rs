//! Partition tables: GPT, MBR, chains of extended boot records, and the kernel's list.

pub(crate) mod bsd;
pub(crate) mod check;
pub mod format;
pub(crate) mod free;
pub(crate) mod gpt;
pub(crate) mod kernel;
pub(crate) mod marker;
pub(crate) mod mbr;
pub(crate) mod sectors;
