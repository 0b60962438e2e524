//! The stack: what a medium holds, from the partition table down.
//!
//! The law of this module: what Linux would take for the table is the table. An MBR that lists partitions and
//! protects no GPT is obeyed, and a GPT beside it is stale; a protective entry announces a GPT; a boot sector
//! that carries the MBR's signature is a file system. Only where Linux would see nothing do we look further,
//! and say so.

use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteOffset, Lba, LbaCount, Span};

use crate::content::{Content, FsKind};
use crate::descend::read_layers;
use crate::gpt::{self, Depth, Found};
use crate::layer::Layer;
use crate::mbr::{Mbr, SIGNATURE_AT};
use crate::reader::Reader;
use crate::view::View;
use crate::watched::Watched;
use crate::{beside, check, sectors, signature};

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

/// What else an entry says, kept so that a cure can write it back.
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

/// What is known beforehand of the block size.
#[derive(Clone, Copy)]
struct Known {
    device: Option<BlockSize>,
    forced: Option<BlockSize>,
}

/// More partitions than this are not looked into: what is in them changes nothing that the table says, and a
/// read or two for each of a thousand would.
const MAX_CONTENTS: usize = 16;

/// Reads what `medium` holds.
///
/// `device_block` is the logical block size that the device has; `None` for an image of which nothing is
/// declared, where it is found from the table. `forced` (the user's word) overrides the search: only a table
/// in that block size is accepted. Only an I/O error on the first block is an error; damage is in
/// [`Stack::problems`].
pub fn read_stack(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    let reader = Reader::open(medium, known.block())?;
    let mut stack = read_checked(&reader, known);
    for partition in looked_into(&mut stack) {
        partition.content = signature::identify(&reader, partition.span);
    }
    stack.is_hybrid_iso = is_hybrid_iso(&reader, &stack);
    Ok(stack)
}

/// Reads the table, and holds its partitions against each other and the medium.
fn read_checked(reader: &Reader<'_>, known: Known) -> Stack {
    let stack = read_table(reader, known);
    match beside::member(reader, &stack) {
        Some(content) => content_stack(content, known),
        None => checked(reader, stack),
    }
}

fn checked(reader: &Reader<'_>, mut stack: Stack) -> Stack {
    let Stack { partitions, problems, .. } = &mut stack;
    problems.extend(check::out_of_range(partitions, reader.end()));
    problems.extend(check::overlaps(partitions));
    stack
}

/// The partitions whose content is looked at.
fn looked_into(stack: &mut Stack) -> impl Iterator<Item = &mut Partition> {
    stack.partitions.iter_mut().filter(|p| p.role != Role::Extended).take(MAX_CONTENTS)
}

/// Reads what `medium` holds as [`read_stack`] does, and every layer on each partition, or on the whole medium where there
/// is no table.
pub fn read_all(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    read_followed(medium, Known { device: device_block, forced }, read_checked)
}

/// The same of a disk whose partitions are in use: its table counts, whatever array marks it as a member.
pub fn read_in_use(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    read_followed(medium, known, |reader, known| checked(reader, read_table(reader, known)))
}

/// The same of a disk that is in use as a whole: what fills it counts, whatever table leaves that alone.
pub fn read_whole_in_use(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    let content = |reader: &Reader<'_>, known| Some(content_stack(whole(reader)?, known));
    read_followed(medium, known, |reader, known| {
        content(reader, known).unwrap_or_else(|| read_checked(reader, known))
    })
}

fn read_followed(
    medium: &dyn Medium,
    known: Known,
    table: impl FnOnce(&Reader<'_>, Known) -> Stack,
) -> Result<Stack, ReadError> {
    let reader = Reader::open(medium, known.block())?;
    let mut stack = table(&reader, known);
    follow(medium, &mut stack);
    stack.is_hybrid_iso = is_hybrid_iso(&reader, &stack);
    Ok(stack)
}

/// The first volume descriptor of ISO 9660 (ECMA-119, 8.1): where its identifier stands, and what it is.
const ISO_DESCRIPTOR: (ByteOffset, &[u8]) = (ByteOffset::new(32 * 1024 + 1), b"CD001");

/// Whether the descriptor of an ISO 9660 file system is in a partition, and belongs to it. One that is left over from
/// before the table was made is in none, or in one that holds something else.
fn is_hybrid_iso(reader: &Reader<'_>, stack: &Stack) -> bool {
    let (at, identifier) = ISO_DESCRIPTOR;
    let holds = |p: &Partition| {
        p.span.start() <= at
            && at < p.span.end()
            && matches!(p.content, None | Some(Content::FileSystem(FsKind::Iso9660)))
    };
    stack.partitions.iter().any(holds)
        && reader.read_up_to(at, identifier.len(), ByteOffset::new(u64::MAX)) == identifier
}

/// Reads the layers on each partition, or on the whole medium where there is no table.
fn follow(medium: &dyn Medium, stack: &mut Stack) {
    let watched = Watched::new(medium);
    let drive = View::of_drive(&watched);
    let block = Some(stack.block);
    let mut unread: Vec<Problem> = Vec::new();
    let mut note = |number: Option<u32>| {
        unread.extend(watched.take().map(|(at, why)| Problem::Unreadable { number, at, why }));
    };
    if matches!(stack.kind, TableKind::Content(_) | TableKind::None) {
        let whole = Span::new(ByteOffset::ZERO, medium.len());
        stack.layer = whole.and_then(|span| read_layers(&drive, span, block));
        note(None);
    }
    for partition in looked_into(stack) {
        partition.layer = read_layers(&drive, partition.span, block);
        partition.content = partition.layer.as_ref().map(|layer| layer.kind);
        note(Some(partition.number));
    }
    stack.problems.append(&mut unread);
}

/// Decides what the medium holds, in the order in which Linux would find it.
fn read_table(reader: &Reader<'_>, known: Known) -> Stack {
    let mbr = Mbr::parse(reader.head());
    let boot_sector = signature::boot_sector(reader);
    if let Some(mbr) = &mbr {
        let is_table = mbr.has_valid_status() && boot_sector.is_none();
        if mbr.protective().is_some() || (is_table && mbr.protective_anywhere().is_some()) {
            return read_protected(reader, mbr, known);
        }
        if is_table && mbr.has_ordinary() {
            return read_mbr(reader, mbr, known);
        }
        if boot_sector.is_some()
            && let Some(stack) = sensible_table(reader, mbr, known).filter(|stack| shows(reader, stack))
        {
            return stack;
        }
        if let Some(name) = boot_sector {
            return content_stack(name, known);
        }
    }
    read_unprotected(reader, mbr.as_ref(), known)
}

/// The table that stands in the boot sector of a file system, where its entries make sense.
fn sensible_table(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Option<Stack> {
    let is_sensible = mbr.has_ordinary() && mbr.is_sensible(known.block(), reader.len());
    is_sensible.then(|| read_mbr(reader, mbr, known))
}

/// Whether something known is in a partition. Nothing else tells a table in a boot sector that is left over from bytes of
/// one that is not, and libblkid takes the file system.
fn shows(reader: &Reader<'_>, stack: &Stack) -> bool {
    let mut listed = stack.partitions.iter().filter(|p| p.role != Role::Extended).take(MAX_CONTENTS);
    listed.any(|partition| signature::identify(reader, partition.span).is_some())
}

/// The table in the boot sector of the file system that a medium is taken for.
pub(crate) fn table_in_boot_sector(reader: &Reader<'_>, block: BlockSize) -> Option<Stack> {
    signature::boot_sector(reader)?;
    let mbr = Mbr::parse(reader.head())?;
    sensible_table(reader, &mbr, Known { device: Some(block), forced: None })
}

/// Reads a medium whose MBR announces a GPT.
fn read_protected(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Stack {
    match gpt::find(reader, &known.groups(), Depth::Both) {
        Found::Table(table) => {
            let mut stack = gpt_stack(&table, known);
            if mbr.has_ordinary() {
                stack.kind = TableKind::HybridMbr;
            }
            if let (None, Some(slot)) = (mbr.protective(), mbr.protective_anywhere()) {
                stack.problems.push(Problem::NoProtectiveMbr { at: Mbr::entry_at(slot) });
            }
            stack
        }
        Found::Unusable { block, at, why } => unusable_stack(block, at, why, known),
        Found::Nothing => {
            let name = whole(reader).filter(|_| !mbr.has_ordinary());
            let mut stack = match name {
                Some(name) => content_stack(name, known),
                None => read_mbr(reader, mbr, known),
            };
            let at = Lba::new(1).to_bytes(stack.block).unwrap_or_default();
            stack.problems.insert(0, Problem::ProtectiveWithoutGpt { at });
            stack
        }
    }
}

/// Reads a medium whose MBR lists nothing, or that has none: Linux would see no table. A good primary GPT is
/// younger than any content that left it alone; a backup is not, for content is seldom written that far.
fn read_unprotected(reader: &Reader<'_>, mbr: Option<&Mbr>, known: Known) -> Stack {
    let groups = known.groups();
    let has_primary = matches!(gpt::find(reader, &groups, Depth::Primary), Found::Table(_));
    if !has_primary && let Some(name) = whole(reader) {
        return content_stack(name, known);
    }
    let mut stack = match gpt::find(reader, &groups, Depth::Both) {
        Found::Table(table) => gpt_stack(&table, known),
        Found::Unusable { block, at, why } => unusable_stack(block, at, why, known),
        Found::Nothing => {
            return match mbr.filter(|mbr| mbr.has_valid_status()) {
                Some(mbr) => read_mbr(reader, mbr, known),
                None => empty_stack(TableKind::None, known),
            };
        }
    };
    let at = match mbr {
        Some(_) => Mbr::entry_at(0),
        None => ByteOffset::new(u64::try_from(SIGNATURE_AT).unwrap_or(0)),
    };
    stack.problems.push(Problem::NoProtectiveMbr { at });
    stack
}

/// What the medium as a whole is known to be.
fn whole(reader: &Reader<'_>) -> Option<Content> {
    signature::identify(reader, Span::new(ByteOffset::ZERO, reader.len())?)
}

/// Reads the partitions of an MBR, in the block size that is known or that its partitions show.
fn read_mbr(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Stack {
    let mut stack = empty_stack(TableKind::Mbr, known);
    stack.disk_id = mbr.disk_id.to_vec();
    let mut shown_at = ByteOffset::ZERO;
    if known.forced.is_none() && mbr.has_ordinary() {
        let assumed = stack.block;
        let of_other =
            || known.others().find_map(|block| Some((block, sectors::other(reader, mbr, block, assumed)?)));
        let shown = mbr.evidence(reader, assumed).map(|at| (assumed, at)).or_else(of_other);
        if let Some((block, at)) = shown {
            (stack.block, shown_at) = (block, at);
            stack.block_found = known.device != Some(block);
        }
    }
    (stack.partitions, stack.problems) = mbr.partitions(reader, stack.block);
    stack.problems.extend(known.other_block(stack.block, shown_at));
    stack
}

/// The stack of a good GPT.
fn gpt_stack(table: &gpt::Table, known: Known) -> Stack {
    let (partitions, problems) = table.partitions();
    let mut stack = empty_stack(TableKind::Gpt, known);
    stack.block = table.block;
    stack.block_found = known.forced.or(known.device) != Some(table.block);
    stack.disk_id = table.disk_guid().to_vec();
    stack.usable = table.usable();
    stack.has_long_entries = table.has_long_entries();
    stack.partitions = partitions;
    stack.problems = table.problems.clone();
    stack.problems.extend(problems);
    stack.problems.extend(known.other_block(table.block, table.at()));
    stack
}

/// The stack of a GPT of which nothing can be used.
fn unusable_stack(block: BlockSize, at: ByteOffset, why: String, known: Known) -> Stack {
    let mut stack = empty_stack(TableKind::Gpt, known);
    stack.block = block;
    stack.block_found = known.forced.or(known.device) != Some(block);
    stack.problems.push(Problem::GptUnusable { at, why });
    stack.problems.extend(known.other_block(block, at));
    stack
}

fn content_stack(content: Content, known: Known) -> Stack {
    let is_table = content.is_foreign_table();
    let kind = if is_table { TableKind::Foreign(content.name()) } else { TableKind::Content(content) };
    empty_stack(kind, known)
}

/// The table at the start of a medium, whatever else stands there: blkid's PTTYPE.
pub(crate) fn table_of(reader: &Reader<'_>, block: BlockSize) -> Option<&'static str> {
    match read_table(reader, Known { device: Some(block), forced: None }).kind {
        TableKind::Gpt | TableKind::HybridMbr => Some("gpt"),
        TableKind::Mbr => Some("dos"),
        TableKind::Foreign(name) => Some(name),
        TableKind::Content(_) => signature::named_table(reader),
        TableKind::None | TableKind::Kernel => None,
    }
}

fn empty_stack(kind: TableKind, known: Known) -> Stack {
    Stack {
        kind,
        block: known.block(),
        block_found: false,
        disk_id: Vec::new(),
        usable: None,
        layer: None,
        partitions: Vec::new(),
        problems: Vec::new(),
        is_hybrid_iso: false,
        has_long_entries: false,
    }
}

impl Known {
    /// The block size where no table shows another.
    fn block(self) -> BlockSize {
        self.forced.or(self.device).unwrap_or(BlockSize::B512)
    }

    /// The sizes to look in besides [`Known::block`], when nothing is forced.
    fn others(self) -> impl Iterator<Item = BlockSize> {
        [BlockSize::B512, BlockSize::B4096].into_iter().filter(move |size| *size != self.block())
    }

    /// The sizes to look for a GPT in: the forced one only, the device's before the others, or all alike.
    fn groups(self) -> Vec<Vec<BlockSize>> {
        match (self.forced, self.device) {
            (Some(forced), _) => vec![vec![forced]],
            (None, Some(device)) => vec![vec![device], self.others().collect()],
            (None, None) => vec![vec![BlockSize::B512, BlockSize::B4096]],
        }
    }

    /// The problem that a table in blocks of `table` bytes is on this device; `at` is what shows its size.
    fn other_block(self, table: BlockSize, at: ByteOffset) -> Option<Problem> {
        let device = self.device.filter(|device| *device != table)?;
        Some(Problem::OtherBlockSize { table, device, at })
    }
}
