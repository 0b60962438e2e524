//! Reading everything on a medium: its table, what its partitions hold, and every layer on them or on the whole.
//!
//! What Linux would take for the table is the table. An MBR that lists partitions and protects no GPT is used, and a
//! GPT beside it is stale. A boot sector with the MBR signature is a file system. Only if Linux would see nothing, a
//! further search follows, whose result is a problem too.

use straddle_device::{Medium, ReadError, Watched};
use straddle_units::{BlockSize, ByteOffset, Lba, Span};

use crate::beside::{member, optical_extent_of};
use crate::descend::read_layers;
use crate::model::content::{Content, FsKind};
use crate::model::layer::Layer;
use crate::model::stack::{Partition, Problem, Role, Stack, TableKind};
use crate::model::view::View;
use crate::reader::Reader;
use crate::signature;
use crate::tables::gpt::{self, Depth, Search};
use crate::tables::mbr::{Mbr, SIGNATURE_AT};
use crate::tables::{bsd, check, sectors};
use crate::unclaimed::unclaimed;

#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) device: Option<BlockSize>,
    pub(crate) forced: Option<BlockSize>,
}

pub(crate) const USUAL: [BlockSize; 2] = [BlockSize::B512, BlockSize::B4096];

/// Magneto-optical and optical media, of which images exist.
pub(crate) fn rare() -> impl Iterator<Item = BlockSize> {
    [1024, 2048].into_iter().filter_map(|size| BlockSize::new(size).ok())
}

/// Each costs a read or two; the table stands without them.
const MAX_CONTENTS: usize = 16;

/// Reads what `medium` holds.
///
/// `device_block` is the device's logical block size; if it is `None`, the size is found from the table. With
/// `forced`, the user's declaration, only a table in that block size is accepted. The only error is an I/O error
/// on the first block; damage is in [`Stack::problems`].
pub fn read_stack(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    Ok(read_stack_of(&Reader::open(medium, known.block())?, known))
}

pub(crate) fn read_stack_of(reader: &Reader<'_>, known: Known) -> Stack {
    let mut stack = read_checked(reader, known);
    for partition in looked_into(&mut stack) {
        partition.content = signature::identify(reader, partition.span);
    }
    stack.hybrid_iso = hybrid_iso(reader, &stack);
    stack
}

/// As [`read_stack`], with every layer on each partition, or on the whole medium if there is no table.
pub fn read_all(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
) -> Result<Stack, ReadError> {
    read_followed(medium, Known { device: device_block, forced }, read_checked)
}

/// As [`read_all`], for a disk in use: as a whole, so that the content that fills it counts, even beside a table, or
/// its partitions, so that its table counts, even beside an array's mark.
pub fn read_in_use(
    medium: &dyn Medium,
    device_block: Option<BlockSize>,
    forced: Option<BlockSize>,
    as_whole: bool,
) -> Result<Stack, ReadError> {
    let known = Known { device: device_block, forced };
    read_followed(medium, known, |reader, known| match reader.whole().filter(|_| as_whole) {
        Some(content) => content_stack(reader, content, known),
        None if as_whole => read_checked(reader, known),
        None => checked(reader, read_table(reader, known)),
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
    stack.hybrid_iso = hybrid_iso(&reader, &stack);
    Ok(stack)
}

fn follow(medium: &dyn Medium, stack: &mut Stack) {
    let watched = Watched::new(medium);
    let drive = View::of_drive(&watched);
    let block = Some(stack.block);
    let mut unread: Vec<Problem> = Vec::new();
    let mut note = |number: Option<u32>| {
        unread.extend(watched.take().map(|(at, why)| Problem::Unreadable {
            number,
            at,
            why: why.to_string(),
        }));
    };
    if matches!(stack.kind, TableKind::Content(_) | TableKind::None) {
        stack.layer = read_layers(&drive, Span::first(medium.len()), block);
        note(None);
    }
    for partition in looked_into(stack) {
        partition.layer = read_layers(&drive, partition.span, block);
        partition.content = partition.layer.as_ref().map(|layer| layer.kind);
        partition.unclaimed = unclaimed(medium, partition);
        note(Some(partition.number));
    }
    stack.problems.append(&mut unread);
    let cut: Vec<Problem> = match &stack.layer {
        Some(layer) => cut_short(&drive, None, layer).into_iter().collect(),
        None => {
            let of_partition =
                |partition: &Partition| cut_short(&drive, Some(partition.number), partition.layer.as_ref()?);
            stack.partitions.iter().filter_map(of_partition).collect()
        }
    };
    stack.problems.extend(cut);
}

fn cut_short(drive: &View<'_>, number: Option<u32>, layer: &Layer) -> Option<Problem> {
    let (start, len) = (layer.drive?, layer.below.len());
    let recorded = match layer.kind {
        Content::Named(named) => crate::fs::recorded_end_of_named(named.name, &drive.slice(start, len)),
        _ => layer.recorded_end(),
    }?;
    let at = start.checked_add(len)?;
    (recorded > len).then_some(Problem::CutShort { number, content: layer.kind, at, recorded, len })
}

fn read_checked(reader: &Reader<'_>, known: Known) -> Stack {
    let stack = read_table(reader, known);
    match member(reader, &stack) {
        Some(content) => content_stack(reader, content, known),
        None => checked(reader, stack),
    }
}

fn checked(reader: &Reader<'_>, mut stack: Stack) -> Stack {
    let Stack { partitions, problems, .. } = &mut stack;
    problems.extend(check::out_of_range(partitions, reader.end()));
    problems.extend(check::overlaps(partitions));
    stack
}

fn looked_into(stack: &mut Stack) -> impl Iterator<Item = &mut Partition> {
    stack.partitions.iter_mut().filter(|p| p.role != Role::Extended).take(MAX_CONTENTS)
}

/// The identifier of the first volume descriptor of ISO 9660 (ECMA-119, 8.1).
const ISO_DESCRIPTOR: ByteOffset = ByteOffset::new(32 * 1024 + 1);

fn has_iso_descriptor(reader: &Reader<'_>) -> bool {
    reader.read_up_to(ISO_DESCRIPTOR, 5, reader.end()) == b"CD001"
}

/// The descriptor must be in a partition without content: no older one.
fn hybrid_iso(reader: &Reader<'_>, stack: &Stack) -> Option<Span> {
    let at = ISO_DESCRIPTOR;
    let holds = |p: &Partition| {
        p.span.start() <= at
            && at < p.span.end()
            && matches!(p.content, None | Some(Content::FileSystem(FsKind::Iso9660)))
    };
    let is_one = stack.partitions.iter().any(holds) && has_iso_descriptor(reader);
    // One that does not record its size may be as long as the medium.
    let extent = || optical_extent_of(reader).filter(|extent| extent.end() > at);
    is_one.then(|| extent().unwrap_or(Span::first(reader.len())))
}

fn read_table(reader: &Reader<'_>, known: Known) -> Stack {
    let mbr = Mbr::parse(reader.head());
    let boot_sector = signature::boot_sector(reader);
    if let Some(mbr) = &mbr {
        let is_table = mbr.has_valid_status() && boot_sector.is_none();
        if mbr.protective().is_some() || (is_table && mbr.protective_anywhere().is_some()) {
            return read_protected(reader, mbr, known);
        }
        if is_table && mbr.has_ordinary() {
            let mut stack = read_mbr(reader, mbr, known);
            stack.problems.extend(unannounced(reader, known));
            return stack;
        }
        if boot_sector.is_some()
            && let Some(stack) = sensible_table(reader, mbr, known).filter(|stack| shows(reader, stack))
        {
            return stack;
        }
        if let Some(name) = boot_sector {
            return content_stack(reader, name, known);
        }
    }
    read_unprotected(reader, mbr.as_ref(), known)
}

/// `None` unless its entries are possible.
fn sensible_table(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Option<Stack> {
    let is_sensible = mbr.has_ordinary() && mbr.is_sensible(known.block(), reader.len());
    is_sensible.then(|| read_mbr(reader, mbr, known))
}

/// A real table in a left-over boot sector. Else libblkid decides.
fn shows(reader: &Reader<'_>, stack: &Stack) -> bool {
    let mut listed = stack.partitions.iter().filter(|p| p.role != Role::Extended).take(MAX_CONTENTS);
    listed.any(|partition| signature::identify(reader, partition.span).is_some())
}

pub(crate) fn table_in_boot_sector(reader: &Reader<'_>, block: BlockSize) -> Option<Stack> {
    signature::boot_sector(reader)?;
    let mbr = Mbr::parse(reader.head())?;
    sensible_table(reader, &mbr, Known { device: Some(block), forced: None })
}

fn read_protected(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Stack {
    match gpt::find(reader, &known.groups(), Depth::Both) {
        Search::Table(table) => {
            let mut stack = gpt_stack(&table, known);
            stack.hybrid = mbr.hybrid(stack.block);
            if !stack.hybrid.is_empty() {
                stack.kind = TableKind::HybridMbr;
                let differing: Vec<Problem> = hybrid_differs(&stack).collect();
                stack.problems.extend(differing);
            }
            if let (None, Some(slot)) = (mbr.protective(), mbr.protective_anywhere()) {
                stack.problems.push(Problem::NoProtectiveMbr { at: Mbr::entry_at(slot) });
            }
            stack
        }
        Search::Unusable { block, at, why } => unusable_stack(block, at, why, known),
        Search::Nothing => {
            let name = reader.whole().filter(|_| !mbr.has_ordinary());
            let mut stack = match name {
                Some(name) => content_stack(reader, name, known),
                None => read_mbr(reader, mbr, known),
            };
            let at = Lba::new(1).to_bytes(stack.block).unwrap_or_default();
            stack.problems.insert(0, Problem::ProtectiveWithoutGpt { at });
            stack
        }
    }
}

fn hybrid_differs(stack: &Stack) -> impl Iterator<Item = Problem> {
    let is_listed = |span| stack.partitions.iter().any(|partition| partition.span == span);
    stack.hybrid.iter().filter(move |(_, span)| !is_listed(*span)).map(|(number, span)| {
        let at = Mbr::entry_at(usize::try_from(*number).unwrap_or(1).saturating_sub(1));
        Problem::HybridDiffers { slot: *number, at, start: span.start(), end: span.end() }
    })
}

/// A GPT with both copies intact beside an MBR that does not announce it. Linux takes the MBR; other programs ask
/// which is meant. Images of optical media have both by design.
fn unannounced(reader: &Reader<'_>, known: Known) -> Option<Problem> {
    if has_iso_descriptor(reader) {
        return None;
    }
    match gpt::find(reader, &known.groups(), Depth::Both) {
        Search::Table(table) if table.problems.is_empty() => {
            Some(Problem::NoProtectiveMbr { at: Mbr::entry_at(0) })
        }
        _ => None,
    }
}

/// Reads a medium without an MBR, or with one that lists nothing: Linux would see no table. A good primary GPT is
/// newer than any content that it survived; a backup need not be, as content is seldom written that far.
fn read_unprotected(reader: &Reader<'_>, mbr: Option<&Mbr>, known: Known) -> Stack {
    let groups = known.groups();
    let has_primary = matches!(gpt::find(reader, &groups, Depth::Primary), Search::Table(_));
    if !has_primary && let Some(name) = reader.whole() {
        return content_stack(reader, name, known);
    }
    let mut stack = match gpt::find(reader, &groups, Depth::Both) {
        Search::Table(table) => gpt_stack(&table, known),
        Search::Unusable { block, at, why } => unusable_stack(block, at, why, known),
        Search::Nothing => {
            return match mbr.filter(|mbr| mbr.has_valid_status()) {
                Some(mbr) => read_mbr(reader, mbr, known),
                None => Stack::empty(TableKind::None, known.block()),
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

/// In the block size that is known or that the partitions' contents show.
fn read_mbr(reader: &Reader<'_>, mbr: &Mbr, known: Known) -> Stack {
    let mut stack = Stack::empty(TableKind::Mbr, known.block());
    stack.disk_id = mbr.disk_id.to_vec();
    let mut shown_at = ByteOffset::ZERO;
    if known.forced.is_none() && mbr.has_ordinary() {
        let assumed = stack.block;
        let of_other = || {
            sectors::others(assumed)
                .find_map(|block| Some((block, sectors::other(reader, mbr, block, assumed)?)))
        };
        let shown = mbr.evidence(reader, assumed).map(|at| (assumed, at)).or_else(of_other);
        let shown = shown.or_else(|| sectors::smaller(reader, mbr, assumed));
        if let Some((block, at)) = shown {
            (stack.block, shown_at) = (block, at);
            stack.block_found = known.device != Some(block);
        }
    }
    (stack.partitions, stack.problems) = mbr.partitions(reader, stack.block);
    stack.problems.extend(known.other_block(stack.block, shown_at));
    stack
}

fn gpt_stack(table: &gpt::GptTable, known: Known) -> Stack {
    let ((partitions, unusable), header) = (table.partitions(), table.header());
    let mut problems = table.problems.clone();
    problems.extend(unusable);
    problems.extend(check::inside(&partitions, table.structures()));
    problems.extend(known.other_block(header.block, header.at));
    Stack {
        block_found: known.forced.or(known.device) != Some(header.block),
        disk_id: header.disk_guid.to_vec(),
        usable: header.usable(),
        partitions,
        problems,
        ..Stack::empty(TableKind::Gpt, header.block)
    }
}

fn unusable_stack(block: BlockSize, at: ByteOffset, why: String, known: Known) -> Stack {
    let problems = std::iter::once(Problem::GptUnusable { at, why }).chain(known.other_block(block, at));
    Stack {
        block_found: known.forced.or(known.device) != Some(block),
        problems: problems.collect(),
        ..Stack::empty(TableKind::Gpt, block)
    }
}

/// Of the tables of other systems, only BSD labels are read.
fn content_stack(reader: &Reader<'_>, content: Content, known: Known) -> Stack {
    if !content.is_foreign_table() {
        return Stack::empty(TableKind::Content(content), known.block());
    }
    let mut stack = Stack::empty(TableKind::Foreign(content.name()), known.block());
    if let Some(label) = bsd::label(reader, ByteOffset::ZERO) {
        (stack.block, stack.partitions) = label;
    }
    stack
}

/// blkid's PTTYPE, whatever else is at the start.
pub(crate) fn table_of(reader: &Reader<'_>, block: BlockSize) -> Option<&'static str> {
    match read_table(reader, Known { device: Some(block), forced: None }).kind {
        TableKind::Gpt | TableKind::HybridMbr => Some("gpt"),
        TableKind::Mbr => Some("dos"),
        TableKind::Foreign(name) => Some(name),
        TableKind::Content(_) => signature::named_table(reader),
        TableKind::None | TableKind::Kernel => None,
    }
}

impl Known {
    pub(crate) fn block(self) -> BlockSize {
        self.forced.or(self.device).unwrap_or(BlockSize::B512)
    }

    fn others(self) -> impl Iterator<Item = BlockSize> {
        USUAL.into_iter().filter(move |size| *size != self.block())
    }

    /// Where to search for a GPT: only the forced size; else the device's before the usual ones, or these as equals,
    /// and at last those of magneto-optical and optical media.
    fn groups(self) -> Vec<Vec<BlockSize>> {
        let mut groups = match (self.forced, self.device) {
            (Some(forced), _) => return vec![vec![forced]],
            (None, Some(device)) => vec![vec![device], self.others().collect()],
            (None, None) => vec![USUAL.to_vec()],
        };
        groups.push(rare().collect());
        groups
    }

    fn other_block(self, table: BlockSize, at: ByteOffset) -> Option<Problem> {
        let device = self.device.filter(|device| *device != table)?;
        Some(Problem::OtherBlockSize { table, device, at })
    }
}
