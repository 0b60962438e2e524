//! Why there is no plan.

use straddle_device::ReadError;
use straddle_units::ByteCount;

use crate::plan::Format;

/// Why a request makes no plan, each a sentence. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A text of the request cannot be understood.
    #[error("{0}")]
    Syntax(String),
    /// The request's file cannot be understood.
    #[error("the request cannot be read")]
    Toml(#[source] Box<toml::de::Error>),
    /// Nothing to do.
    #[error(
        "nothing is asked for: give --table with --part, or --add, --delete, --grow, --repair, --relocate-backup or --convert-table"
    )]
    Nothing,
    /// Parts that exclude each other.
    #[error("{0}")]
    Contradiction(String),
    /// There is no table to change.
    #[error("there is no partition table to change ({found}): ask for a new one with --table")]
    NoTable {
        /// What is there.
        found: String,
    },
    /// The table that is there cannot be changed.
    #[error("this table cannot be changed: {0}")]
    Unchangeable(String),
    /// The table cannot be said in sectors of the other size.
    #[error("the table cannot be converted: {0}")]
    CannotConvert(String),
    /// A whole-disk content would be destroyed.
    #[error("the disk is {name} as a whole: --wipe allows to overwrite it")]
    WouldDestroy {
        /// blkid's TYPE.
        name: &'static str,
    },
    /// A table of another kind would be destroyed.
    #[error(
        "the disk has a partition table of the kind {name}, which is not read: --wipe allows to overwrite it"
    )]
    WouldReplace {
        /// blkid's PTTYPE.
        name: &'static str,
    },
    /// What fills the disk and a table contradict each other.
    #[error(
        "the disk is {name} as a whole, and has a partition table besides: which of the two is left over, its bytes do not say; clear that one (wipefs) first"
    )]
    TwoOwners {
        /// blkid's TYPE.
        name: &'static str,
    },
    /// The table is that of an array, or from before it.
    #[error(
        "the disk is {name} as a whole: the table on it is the array's, or older than it; assemble the array and name that"
    )]
    NotItsTable {
        /// blkid's TYPE.
        name: &'static str,
    },
    /// Something besides the table would be destroyed.
    #[error("the disk also holds {names}: --wipe allows to overwrite it")]
    WouldHarm {
        /// blkid's TYPEs.
        names: String,
    },
    /// A type that nobody knows.
    #[error(
        "'{text}' is no {format} type{}: use a name (linux, esp, swap, …), {}",
        meant(.text),
        if *.format == Format::Gpt { "or a GUID" } else { "or hexadecimal digits" }
    )]
    UnknownType {
        /// As it was given.
        text: String,
        /// The table's format.
        format: Format,
    },
    /// A type that only a GPT has.
    #[error("a partition of the type '{name}' needs a GPT; an MBR has no such type")]
    GptOnly {
        /// The type's name.
        name: &'static str,
    },
    /// A type that the table's structure needs.
    #[error("type {id:x} stands for a part of the table itself; ask for role=logical instead")]
    ReservedType {
        /// The type.
        id: u8,
    },
    /// A fifth primary partition.
    #[error(
        "an MBR has room for 4 primary partitions (the container of logical ones counts): make some role=logical, or the table GPT"
    )]
    TooManyPrimaries,
    /// More than the array holds.
    #[error("the table has room for {0} partitions")]
    TableFull(u32),
    /// Percents over 100.
    #[error("the sizes in percent add up to {0} %")]
    Percents(u64),
    /// More than one `rest`.
    #[error("only one partition can have the rest")]
    TwoRests,
    /// It does not fit.
    #[error("partition {number} does not fit: it needs {needed} ({} bytes), and {free} ({} bytes) are free", .needed.get(), .free.get())]
    TooBig {
        /// Its number.
        number: u32,
        /// What it needs.
        needed: ByteCount,
        /// What is free, in one piece.
        free: ByteCount,
    },
    /// A size of nothing.
    #[error("partition {0} would be empty")]
    Empty(u32),
    /// A start that is off the grain.
    #[error(
        "partition {number}: byte {start} is {past} bytes past a boundary ({boundaries}); {} on one; --allow-misaligned takes it as it is",
        around(*.before, *.after)
    )]
    Misaligned {
        /// Its number.
        number: u32,
        /// Where it was to start.
        start: u64,
        /// How far past a boundary.
        past: u64,
        /// Which.
        boundaries: String,
        /// The boundary before.
        before: u64,
        /// The boundary after.
        after: u64,
    },
    /// A start that is no sector.
    #[error("partition {number}: byte {at} is no multiple of the {sector}-byte logical sector")]
    NotASector {
        /// Its number.
        number: u32,
        /// The byte.
        at: u64,
        /// The sector.
        sector: u64,
    },
    /// Two things in one place.
    #[error("partition {number} would start at byte {start}, in what {other} occupies (to byte {end})")]
    Overlap {
        /// Its number.
        number: u32,
        /// Where it would start.
        start: u64,
        /// What is there.
        other: String,
        /// Where that ends.
        end: u64,
    },
    /// A start outside.
    #[error("partition {number}: byte {at} is outside the usable space, bytes {first} to {end}")]
    Outside {
        /// Its number.
        number: u32,
        /// The byte.
        at: u64,
        /// First usable byte.
        first: u64,
        /// First byte after.
        end: u64,
    },
    /// No such partition.
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    /// No room to grow.
    #[error("partition {number} cannot grow: {why}")]
    CannotGrow {
        /// Its number.
        number: u32,
        /// What is in the way.
        why: String,
    },
    /// A name that the table cannot hold.
    #[error("partition {number}: {why}")]
    Name {
        /// Its number.
        number: u32,
        /// What is wrong with it.
        why: String,
    },
    /// An MBR change that takes more than one sector.
    #[error(
        "this changes {0} sectors that the present table is made of, and a power cut between them would leave neither table: do it in steps, a plan each"
    )]
    TwoSteps(usize),
    /// The new table would overwrite the old one before it counts.
    #[error(
        "the new table goes where the old one has a record (byte {0}), and a power cut would leave neither: write an empty table first (--table mbr without --part), then plan again"
    )]
    InTheWay(u64),
    /// A plan that contradicts itself or its disk.
    #[error("the plan cannot be used: {0}")]
    Invalid(String),
    /// The disk is too small for a table.
    #[error("the disk ({0}) is too small for this table")]
    DiskTooSmall(ByteCount),
    /// The disk cannot be read.
    #[error("the disk cannot be read")]
    Read(#[from] ReadError),
}

/// The boundaries on both sides of a start. The disk's first byte is no place for a partition.
fn around(before: u64, after: u64) -> String {
    if before == 0 { format!("byte {after} is") } else { format!("byte {before} or {after} is") }
}

/// What is meant by other programs' names for types.
fn meant(text: &str) -> &'static str {
    match text.to_ascii_lowercase().as_str() {
        "efi" | "uefi" | "efi-system" => " (esp is meant?)",
        "ext4" | "xfs" | "btrfs" | "ext3" | "ext2" => " (that is a file system: fs=)",
        "fat32" | "fat" | "vfat" | "ntfs" | "exfat" => " (that is a file system: fs=; its type is msdata)",
        "bios_grub" | "bios-boot" | "grub" => " (bios is meant?)",
        _ => "",
    }
}
