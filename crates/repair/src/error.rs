//! Why a plan cannot be made.

use straddle_device::ReadError;
use straddle_units::{ByteCount, ByteOffset};

use crate::plan::Format;

pub(crate) const UNFINISHED: &str = "a move of partitions on this disk or a copy to this disk is unfinished; \
                                     complete the move with 'straddle resume TARGET', revert it with \
                                     'straddle resume TARGET --rollback', or repeat the copy with 'straddle \
                                     apply'";

/// Why a request cannot become a plan, each as a sentence. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum PlanError {
    #[error("{0}")]
    Syntax(String),
    #[error(
        "nothing to do; use --table with --part, or --add, --delete, --grow, --repair, --relocate-backup or \
         --convert-table"
    )]
    Nothing,
    #[error("{0}")]
    Contradiction(String),
    #[error("there is no partition table to change ({found}); create one with --table")]
    NoTable { found: String },
    #[error("this table cannot be changed: {0}")]
    Unchangeable(String),
    #[error("{UNFINISHED}")]
    Unfinished,
    #[error("the table cannot be converted: {0}")]
    CannotConvert(String),
    #[error("the disk {0}; to allow overwriting this, use --wipe")]
    WouldDestroy(String),
    #[error(
        "the table would overwrite data at byte {at}, which is outside all partitions (perhaps from a \
         deleted partition or a boot loader). To allow this, use --wipe"
    )]
    Occupied { at: ByteOffset },
    #[error(
        "the new table would overwrite byte {at} of partition {number} ({content}); to allow this, use --wipe"
    )]
    OverPartition { number: u32, content: String, at: ByteOffset },
    #[error(
        "partition {number} would cover {content} at byte {at}, perhaps from a deleted partition; to allow \
         this, use --wipe"
    )]
    Unlisted { number: u32, content: String, at: ByteOffset },
    #[error(
        "'{text}' is not a partition type for {format}{}; use a name (linux, esp, swap, …) {}",
        meant(.text),
        if *.format == Format::Gpt { "or a GUID" } else { "or hexadecimal digits" }
    )]
    UnknownType { text: String, format: Format },
    #[error("the type '{name}' exists only in a GPT, not in an MBR")]
    GptOnly { name: &'static str },
    #[error("type {id:x} is reserved for the table itself; use role=logical instead")]
    ReservedType { id: u8 },
    #[error(
        "an MBR has room for only 4 primary partitions, and an extended partition counts as one; use \
         role=logical for some partitions, or --table gpt"
    )]
    TooManyPrimaries,
    #[error("the table has room for only {0} partitions")]
    TableFull(u32),
    #[error("partition {number} does not fit: it needs {needed} ({} bytes), but only {free} ({} bytes) are \
        free", .needed.get(), .free.get())]
    TooBig { number: u32, needed: ByteCount, free: ByteCount },
    #[error("partition {number} does not fit: it needs {needed} ({} bytes), but only {free} ({} bytes) are \
        free{hint}", .needed.get(), .free.get())]
    BackupInTheWay { number: u32, needed: ByteCount, free: ByteCount, hint: String },
    #[error("partition {0} would be empty")]
    Empty(u32),
    #[error(
        "partition {number}: byte {start} is {past} bytes past a boundary ({boundaries}); {} on a boundary; \
         to accept this start, use --allow-misaligned",
        around(*.before, *.after)
    )]
    Misaligned { number: u32, start: u64, past: u64, boundaries: String, before: u64, after: u64 },
    #[error("partition {number}: byte {at} is not a multiple of the {sector}-byte logical sector")]
    NotASector { number: u32, at: u64, sector: u64 },
    #[error("partition {number} would start at byte {start}, inside {other}, which ends at byte {end}")]
    Overlap { number: u32, start: u64, other: String, end: u64 },
    #[error("partition {number}: byte {at} is outside the usable space (bytes {first} to {end})")]
    Outside { number: u32, at: u64, first: u64, end: u64 },
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    #[error("partition {number} cannot grow: {why}")]
    CannotGrow { number: u32, why: String },
    #[error("partition {number}: {why}")]
    Name { number: u32, why: String },
    #[error(
        "the plan would rewrite {0} sectors of the current table, and a power cut between two writes would \
         leave no valid table. Make the changes one at a time, each with its own plan"
    )]
    TwoSteps(usize),
    #[error(
        "the new table overwrites a record of the old table (byte {0}), so a power cut would leave no valid \
         table. First write an empty table (--table mbr without --part), then plan again"
    )]
    InTheWay(u64),
    #[error("the plan moves the data of partition {0}, so the table can be written only after the move")]
    MovesData(u32),
    #[error("the plan cannot be used: {0}")]
    Invalid(String),
    #[error("the disk ({0}) is too small for this table")]
    DiskTooSmall(ByteCount),
    #[error("cannot read the disk")]
    Read(#[from] ReadError),
}

straddle_units::error_kind! {
    PlanError: Refused;
    Self::Syntax(_)
    | Self::Nothing
    | Self::Contradiction(_)
    | Self::UnknownType { .. }
    | Self::GptOnly { .. }
    | Self::ReservedType { .. }
    | Self::TooManyPrimaries
    | Self::Empty(_)
    | Self::Name { .. }
    | Self::NotASector { .. }
    | Self::Outside { .. }
    | Self::NoSuchPartition(_) => Usage,
    Self::NoTable { .. } | Self::Invalid(_) | Self::Read(_) => Failed,
}

fn around(before: u64, after: u64) -> String {
    if before == 0 { format!("byte {after} is") } else { format!("byte {before} or byte {after} is") }
}

fn meant(text: &str) -> &'static str {
    match text.to_ascii_lowercase().as_str() {
        "efi" | "uefi" | "efi-system" => " (did you mean esp?)",
        "ext4" | "xfs" | "btrfs" | "ext3" | "ext2" => " (that is a file system: use fs=)",
        "fat32" | "fat" | "vfat" | "ntfs" | "exfat" => " (that is a file system: use fs=, with type=msdata)",
        "bios_grub" | "bios-boot" | "grub" => " (did you mean bios?)",
        _ => "",
    }
}
