//! Why a plan cannot be made.

use straddle_device::ReadError;
use straddle_units::{ByteCount, ByteOffset};

use crate::plan::Format;

/// What is said of a disk with an unfinished move.
pub(crate) const UNFINISHED: &str = "a move of its partitions, or a copy to it, is not finished: 'straddle check' prints the command that completes it, which for a move is 'straddle resume'";

/// Why a request cannot become a plan, each as a sentence. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A text in the request cannot be parsed.
    #[error("{0}")]
    Syntax(String),
    /// The request file cannot be parsed.
    #[error("the request cannot be read")]
    Toml(#[source] Box<toml::de::Error>),
    /// The request asks for nothing.
    #[error(
        "nothing is asked for: give --table with --part, or --add, --delete, --grow, --repair, --relocate-backup or --convert-table"
    )]
    Nothing,
    /// Parts of the request contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// There is no table to change.
    #[error("there is no partition table to change ({found}): ask for a new one with --table")]
    NoTable {
        /// What the disk holds instead.
        found: String,
    },
    /// The present table cannot be changed.
    #[error("this table cannot be changed: {0}")]
    Unchangeable(String),
    /// Its partitions are being moved.
    #[error("{UNFINISHED}")]
    Unfinished,
    /// The table cannot be expressed in sectors of the other size.
    #[error("the table cannot be converted: {0}")]
    CannotConvert(String),
    /// Something on the disk would be destroyed.
    #[error("the disk {0}: use --wipe to overwrite it")]
    WouldDestroy(String),
    /// The table would go over data that no table accounts for.
    #[error(
        "byte {at} is unallocated and holds data, perhaps those of a deleted partition or a boot loader, where the table would be written: --wipe gives them up"
    )]
    Occupied {
        /// Their first byte.
        at: ByteOffset,
    },
    /// The table would go over what is in a partition that it does not keep.
    #[error(
        "partition {number} ({content}) has byte {at}, where the new table would be written: --wipe gives its contents up"
    )]
    OverPartition {
        /// The partition's number.
        number: u32,
        /// Its contents, in words.
        content: String,
        /// The first byte that would be overwritten.
        at: ByteOffset,
    },
    /// Contents that no partition lists lie where a partition would be.
    #[error(
        "byte {at} is unallocated and begins {content}, perhaps of a deleted partition, over which partition {number} would lie: --wipe gives it up"
    )]
    Unlisted {
        /// The number of the partition that would lie there.
        number: u32,
        /// The contents, in words.
        content: String,
        /// Their first byte.
        at: ByteOffset,
    },
    /// A partition type that is not known.
    #[error(
        "'{text}' is not a {format} type{}: use a name (linux, esp, swap, …), {}",
        meant(.text),
        if *.format == Format::Gpt { "or a GUID" } else { "or hexadecimal digits" }
    )]
    UnknownType {
        /// The type as given.
        text: String,
        /// The table's format.
        format: Format,
    },
    /// A partition type that only a GPT has.
    #[error("a partition of the type '{name}' needs a GPT; an MBR has no such type")]
    GptOnly {
        /// The type's name.
        name: &'static str,
    },
    /// A type reserved for the table's own structure.
    #[error("type {id:x} stands for a part of the table itself; ask for role=logical instead")]
    ReservedType {
        /// The type.
        id: u8,
    },
    /// More than four primary partitions in an MBR.
    #[error(
        "an MBR has room for 4 primary partitions (the container of logical ones counts): make some role=logical, or the table GPT"
    )]
    TooManyPrimaries,
    /// More partitions than the array has entries.
    #[error("the table has room for {0} partitions")]
    TableFull(u32),
    /// The partition does not fit.
    #[error("partition {number} does not fit: it needs {needed} ({} bytes), and {free} ({} bytes) are free", .needed.get(), .free.get())]
    TooBig {
        /// The partition's number.
        number: u32,
        /// The size it needs.
        needed: ByteCount,
        /// The free space, in one piece.
        free: ByteCount,
    },
    /// The partition does not fit before a backup GPT that is not at the end of the disk.
    #[error("partition {number} does not fit: it needs {needed} ({} bytes), and {free} ({} bytes) are free{hint}", .needed.get(), .free.get())]
    BackupInTheWay {
        /// The partition's number.
        number: u32,
        /// The size it needs.
        needed: ByteCount,
        /// The free space, in one piece.
        free: ByteCount,
        /// What makes room.
        hint: String,
    },
    /// A partition of size zero.
    #[error("partition {0} would be empty")]
    Empty(u32),
    /// A start that is not on the grain.
    #[error(
        "partition {number}: byte {start} is {past} bytes past a boundary ({boundaries}); {} on one; --allow-misaligned takes it as it is",
        around(*.before, *.after)
    )]
    Misaligned {
        /// The partition's number.
        number: u32,
        /// The requested start, in bytes.
        start: u64,
        /// Bytes past the preceding boundary.
        past: u64,
        /// The boundaries that make up the grain.
        boundaries: String,
        /// The preceding boundary, in bytes.
        before: u64,
        /// The following boundary, in bytes.
        after: u64,
    },
    /// A start that is not a multiple of the logical sector.
    #[error("partition {number}: byte {at} is not a multiple of the {sector}-byte logical sector")]
    NotASector {
        /// The partition's number.
        number: u32,
        /// The requested start, in bytes.
        at: u64,
        /// The logical sector size in bytes.
        sector: u64,
    },
    /// A start in space that is occupied.
    #[error("partition {number} would start at byte {start}, in what {other} occupies (to byte {end})")]
    Overlap {
        /// The partition's number.
        number: u32,
        /// The requested start, in bytes.
        start: u64,
        /// What occupies the space.
        other: String,
        /// The byte at which that ends.
        end: u64,
    },
    /// A start outside the usable space.
    #[error("partition {number}: byte {at} is outside the usable space, bytes {first} to {end}")]
    Outside {
        /// The partition's number.
        number: u32,
        /// The requested start, in bytes.
        at: u64,
        /// First usable byte.
        first: u64,
        /// The byte just past the usable space.
        end: u64,
    },
    /// The table has no partition with this number.
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    /// The partition cannot grow.
    #[error("partition {number} cannot grow: {why}")]
    CannotGrow {
        /// The partition's number.
        number: u32,
        /// Why not.
        why: String,
    },
    /// A name or another field that the table cannot hold.
    #[error("partition {number}: {why}")]
    Name {
        /// The partition's number.
        number: u32,
        /// What is wrong with it.
        why: String,
    },
    /// A change to an MBR table that needs more than one sector to be replaced.
    #[error(
        "this changes {0} sectors that the present table is made of, and a power cut between them would leave neither table: do it in steps, a plan each"
    )]
    TwoSteps(usize),
    /// The new table would overwrite part of the old one while the old one still counts.
    #[error(
        "the new table goes where the old one has a record (byte {0}), and a power cut would leave neither: write an empty table first (--table mbr without --part), then plan again"
    )]
    InTheWay(u64),
    /// The plan moves data, which writing a table does not.
    #[error("the plan moves the data of partition {0}: its table is written only after them")]
    MovesData(u32),
    /// The plan contradicts itself or its disk.
    #[error("the plan cannot be used: {0}")]
    Invalid(String),
    /// The disk is too small for the table.
    #[error("the disk ({0}) is too small for this table")]
    DiskTooSmall(ByteCount),
    /// The disk cannot be read.
    #[error("the disk cannot be read")]
    Read(#[from] ReadError),
}

straddle_units::error_kind! {
    PlanError: Refused;
    Self::Syntax(_)
    | Self::Toml(_)
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

/// Names the boundaries on both sides of a start. A partition cannot start at byte 0.
fn around(before: u64, after: u64) -> String {
    if before == 0 { format!("byte {after} is") } else { format!("byte {before} or {after} is") }
}

/// A hint at the type or option that is meant by another program's name for a type.
fn meant(text: &str) -> &'static str {
    match text.to_ascii_lowercase().as_str() {
        "efi" | "uefi" | "efi-system" => " (did you mean esp?)",
        "ext4" | "xfs" | "btrfs" | "ext3" | "ext2" => " (that is a file system: fs=)",
        "fat32" | "fat" | "vfat" | "ntfs" | "exfat" => " (that is a file system: fs=; its type is msdata)",
        "bios_grub" | "bios-boot" | "grub" => " (did you mean bios?)",
        _ => "",
    }
}
