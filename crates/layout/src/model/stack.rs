//! The stack: what a medium holds, from the partition table down, and what is wrong with it.

use straddle_units::{BlockSize, ByteOffset, Lba, LbaCount, Span};

use super::content::Content;
use super::layer::Layer;

/// More partitions than this in one table are not listed: no real table has them, and a hostile one could ask
/// for 2^32. Linux itself stops at 256 (`DISK_MAX_PARTS`).
pub const MAX_PARTITIONS: usize = 1024;

/// What stands at the start of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A GUID partition table (UEFI specification, chapter 5).
    Gpt,
    /// A GUID partition table beside an MBR that also lists real partitions.
    HybridMbr,
    /// An MBR ("dos") table.
    Mbr,
    /// No table: a file system or other known content fills the medium.
    Content(Content),
    /// A partition table of a kind that is known by name only: its partitions are not read. The text is its name, as
    /// blkid's PTTYPE.
    Foreign(&'static str),
    /// Neither a table nor anything known.
    None,
    /// The table could not be read; the kernel's own list of partitions stands in.
    Kernel,
}

/// What a partition is for the table that lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An entry of a GPT, a primary MBR partition, or one that the kernel lists.
    Primary,
    /// An MBR extended partition: a container for one-sector structures, not for data.
    Extended,
    /// An MBR logical partition; its EBR is at the given LBA.
    Logical {
        /// Where the extended boot record that lists it stands.
        ebr: Lba,
    },
}

/// The type a table gives a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionType {
    /// A GPT type GUID, in the byte order in which it stands on disk (first three fields little endian).
    Guid([u8; 16]),
    /// An MBR system identifier.
    Mbr(u8),
    /// Not known (the kernel does not export it in sysfs).
    Unknown,
}

/// What else an entry says, kept so that a fix can write it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// GPT attribute bits; 0 elsewhere.
    pub gpt: u64,
    /// The partition's own GUID (GPT), as it stands on disk.
    pub guid: Option<[u8; 16]>,
    /// The partition's name (GPT), decoded from UTF-16, with what cannot be decoded replaced.
    pub name: String,
    /// The MBR "active" flag.
    pub bootable: bool,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as in the device's name: `sda1` is 1, MBR logical partitions begin at 5.
    pub number: u32,
    /// First block, in the table's block size.
    pub start: Lba,
    /// How many blocks.
    pub count: LbaCount,
    /// The same in bytes.
    pub span: Span,
    /// What it is for the table.
    pub role: Role,
    /// What the table says it holds.
    pub kind: PartitionType,
    /// Everything else the entry says.
    pub attributes: Attributes,
    /// What its first bytes are known to be, when they are.
    pub content: Option<Content>,
    /// What stands on it, layer by layer; `None` until it is read, or where nothing is known.
    pub layer: Option<Layer>,
}

/// Damage or oddness in a table, each at its byte. None of them stops the reading of the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The primary GPT is damaged; the backup was used instead.
    #[error("the primary GPT at byte {at} is damaged: {why}; the backup was used")]
    GptPrimaryDamaged {
        /// Where the damaged structure starts.
        at: ByteOffset,
        /// What is wrong with it.
        why: String,
    },
    /// The backup GPT is damaged or missing; the primary is good.
    #[error("the backup GPT at byte {at} is damaged or missing: {why}")]
    GptBackupDamaged {
        /// Where the damaged structure starts, or should.
        at: ByteOffset,
        /// What is wrong with it.
        why: String,
    },
    /// A GPT is announced (header signature or protective MBR), but neither copy can be used.
    #[error("neither copy of the GPT can be used (primary at byte {at}): {why}")]
    GptUnusable {
        /// Where the primary header stands, or should.
        at: ByteOffset,
        /// What is wrong with both.
        why: String,
    },
    /// The backup GPT is good but not in the last block: the disk has grown since.
    #[error("the backup GPT is at byte {at}, not at byte {expected}, the last block: the disk has grown")]
    GptBackupMisplaced {
        /// Where it is.
        at: ByteOffset,
        /// Where it belongs.
        expected: ByteOffset,
    },
    /// The primary GPT says that the backup, or the usable area, lies past the end: the disk has shrunk.
    #[error("the GPT was made for a larger disk, whose last block would be at byte {at}")]
    GptPastEnd {
        /// Where the table thinks the disk's last block starts (the last byte of 2^64, if it is past that).
        at: ByteOffset,
    },
    /// Both copies are good but list different partitions; the primary was used.
    #[error("primary and backup GPT are both intact but differ, first at byte {at}; the primary was used")]
    GptCopiesDiffer {
        /// The first differing byte of the backup's entry array, or the backup's header where only that
        /// differs.
        at: ByteOffset,
    },
    /// The MBR holds a protective entry, but there is no GPT at all.
    #[error("the MBR announces a GPT, but there is none at byte {at} nor at the end")]
    ProtectiveWithoutGpt {
        /// Where the GPT header should be.
        at: ByteOffset,
    },
    /// A GPT is there and was read, but nothing in the MBR protects it: Linux and most tools do not see it.
    #[error("a GPT without a protective MBR entry (byte {at}): the kernel and other tools do not see it")]
    NoProtectiveMbr {
        /// Where the protective entry, or the MBR's own signature, is missing or wrong.
        at: ByteOffset,
    },
    /// The table was written for another logical sector size than the device has.
    #[error(
        "the table (byte {at}) counts in {table}-byte sectors, but here the disk has {device}-byte ones: other tools see no partition table, or a wrong one"
    )]
    OtherBlockSize {
        /// The block size that the table counts in.
        table: BlockSize,
        /// The block size that the device has.
        device: BlockSize,
        /// Which structure shows it.
        at: ByteOffset,
    },
    /// An EBR points to one that was already read.
    #[error(
        "the extended boot record at byte {at} links back to an earlier one; logical partitions behind it are not seen"
    )]
    EbrLoop {
        /// The EBR whose link closes the loop.
        at: ByteOffset,
    },
    /// An EBR links to, or lists, something outside the extended partition or the disk. On the disk it is
    /// followed all the same, as Linux does.
    #[error(
        "the extended boot record at byte {at} points to byte {to}, outside the extended partition or the disk"
    )]
    EbrOutOfRange {
        /// The EBR that says so; byte 0 for the link from the MBR to the first one.
        at: ByteOffset,
        /// Where the link points.
        to: ByteOffset,
    },
    /// A block in the chain of EBRs has no 0x55AA signature, or cannot be read.
    #[error(
        "the block at byte {at} should be an extended boot record, but cannot be read or has no 0x55AA signature; logical partitions behind it are not seen"
    )]
    EbrBadSignature {
        /// The block.
        at: ByteOffset,
    },
    /// The chain of EBRs, or the entry array, is longer than [`MAX_PARTITIONS`]; the rest is not listed.
    #[error("there are more than {MAX_PARTITIONS} partitions; those from byte {at} on are not listed")]
    TooManyPartitions {
        /// The first structure that was not read.
        at: ByteOffset,
    },
    /// Two partitions share blocks.
    #[error("overlaps partition {second} from byte {at} on: writing to one destroys the other")]
    Overlap {
        /// The one that starts first.
        first: u32,
        /// The other.
        second: u32,
        /// First shared byte.
        at: ByteOffset,
    },
    /// A partition lies, or ends, past the end of the disk.
    #[error("reaches past the end of the disk, from byte {at} on")]
    OutOfRange {
        /// Its number.
        number: u32,
        /// Its first byte past the end.
        at: ByteOffset,
    },
    /// The operating system cannot read a part of what would have to be looked at: what is there is not known.
    #[error("cannot read byte {at}: {why}")]
    Unreadable {
        /// The partition that it was looked for in; `None` for the table, or a disk without one.
        number: Option<u32>,
        /// The first byte that cannot be read.
        at: ByteOffset,
        /// What the operating system said.
        why: String,
    },
    /// A GPT entry ends before it starts, or its bytes cannot be counted in 64 bits. It is not listed.
    #[error("entry {number}, at byte {at}, cannot be used: {why}")]
    BadEntry {
        /// Its number.
        number: u32,
        /// Where the entry itself stands.
        at: ByteOffset,
        /// What is wrong with it.
        why: String,
    },
}

/// What a medium holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// What stands at its start.
    pub kind: TableKind,
    /// The block size that the table counts in (512 where there is no table and nothing was declared).
    pub block: BlockSize,
    /// Whether the block size was found on the medium (a GPT's place, or a known signature where an MBR's
    /// partition starts in that size), not declared and not assumed.
    pub block_found: bool,
    /// The disk's own identity in the table: GPT disk GUID as on disk, or the four bytes of the MBR signature.
    pub disk_id: Vec<u8>,
    /// The area that partitions may use, where the table says (GPT).
    pub usable: Option<Span>,
    /// What stands on the medium as a whole, where there is no table.
    pub layer: Option<Layer>,
    /// Every partition, in order of number.
    pub partitions: Vec<Partition>,
    /// What is wrong with the table.
    pub problems: Vec<Problem>,
    /// Whether the medium is an ISO 9660 image that is a disk as well (isohybrid): its partitions are windows on one file
    /// system that nothing writes to, and overlap by design.
    pub is_hybrid_iso: bool,
    /// Whether the entries of the GPT have other than 128 bytes, which the standard allows and sgdisk does not read.
    pub has_long_entries: bool,
}
