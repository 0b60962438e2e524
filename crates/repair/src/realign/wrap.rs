//! Plans that give a file system that fills a disk a partition.
//!
//! The law of this module: the file system moves up by 1 MiB, or to the next boundary, as far as it says that
//! it reaches; the bytes behind that hold nothing. Its first [`HEAD`] bytes are not moved but kept in the
//! journal, as the table and the marker take their place, and are written to their new place last of all.

use straddle_layout::format::mbr;
use straddle_layout::layer::Facts;
use straddle_layout::{
    Attributes, Content, FsKind, Partition, PartitionType, Role, Stack, TableKind, Unclaimed, VolumeKind,
    beside,
};
use straddle_relocate::Move;
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, Span};

use super::besides::Look;
use super::payload::wrapped::HEAD;
use super::validate::invalid;
use super::{
    Difference, Journal, MoveError, Realign, RealignError, Reference, Shrink, inner, journal_len, physical,
    refer, room,
};
use crate::grain::Grain;
use crate::guid::Seed;
use crate::plan::{Around, Format, ONLY, Plan, Situation, first_start};
use crate::request::Request;
use crate::target::Disk;

/// The partition ends on a multiple of this where its contents leave room for that.
const EVEN: ByteCount = ByteCount::new(4096);

/// How to put a partition around a file system that fills a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrap {
    /// The format of the new table.
    pub format: Format,
    /// A grain to use instead of 1 MiB.
    pub grain: Option<ByteCount>,
    /// The seed of the new identifiers.
    pub seed: Seed,
    /// Whether what lies behind the contents is given up.
    pub wipe: bool,
}

/// Makes a plan to put a partition around what fills the disk. The situation's stack must have been read with
/// its layers.
///
/// # Errors
///
/// [`RealignError::NotWhole`] if nothing known fills the disk, [`RealignError::MustShrink`] if it leaves no
/// room for the table.
pub fn wrap(situation: &Situation<'_>, wanted: &Wrap) -> Result<Realign, RealignError> {
    let stack = situation.stack;
    refer::check_plannable(stack)?;
    let whole = whole(stack, situation.size(), situation.block())?;
    let others = beside(situation.medium, stack).map_err(crate::error::PlanError::from)?;
    if let Some(other) = others.first() {
        let why = format!("{} is on it as well, and one of the two is left over", other.name());
        return Err(RealignError::NotWhole(why));
    }
    if let Some(cut) = situation.stack.cut_short().next() {
        return Err(RealignError::CutShort(cut.to_string()));
    }
    let mut request = Request::new(wanted.seed);
    (request.table, request.grain) = (Some(wanted.format), wanted.grain);
    let grain = Grain::of(situation.topology, situation.size(), situation.block(), wanted.grain);
    let room = Plan::room(situation, &request, &grain)?;
    let anchor = inner::anchor(&whole, grain.start, situation.block());
    let starts = anchor.as_ref().map_or(grain.start, |anchor| inner::starts(grain.start, anchor.offset));
    let start = first_start(starts, room).ok_or_else(|| invalid("no boundary is in reach"))?;
    let used = refer::used(&whole, situation.block());
    let free = room.end().checked_since(start).unwrap_or_default().floor_to(situation.block().bytes());
    if used > free {
        // A partition that is made for contents of that size ends where 4096 bytes do.
        return Err(no_room(&whole, used, free.floor_to(EVEN)));
    }
    // What writes whole blocks of 4096 bytes then writes none in part at the end.
    let free = Some(free.floor_to(EVEN)).filter(|even| *even >= used).unwrap_or(free);
    if used <= HEAD {
        return Err(RealignError::NotWhole(format!("what is on it has only {} bytes", used.get())));
    }
    let to = Span::new(start, free).ok_or_else(|| invalid("it would end past 2^64"))?;
    let mut why = vec![match &anchor {
        None => format!(
            "its data move from byte 0 to byte {start}, the first boundary of {} behind the new table",
            grain.start.size()
        ),
        Some(anchor) => format!(
            "its data move from byte 0 to byte {start}: its {}, {} bytes behind its start, is then on a boundary of {}",
            anchor.what,
            anchor.offset.get(),
            grain.start.size()
        ),
    }];
    if has_copy_behind(&whole, used) {
        why.push(
            "the copy of its boot sector at the end of the disk stays behind: ntfsfix makes another"
                .to_owned(),
        );
    }
    let around = Around { to, kind: kind_of(&whole, wanted.format), why };
    let plan = Plan::around(situation, &request, &grain, around)?;
    let moved = moved(start, used)?;
    let references = references(&whole, &plan, used);
    let (window, journal) = (room::LARGEST, Journal::Elsewhere { needed: ByteCount::ZERO });
    let blocks = physical(situation)?;
    let anchors = anchor.map(|anchor| (ONLY, anchor.offset)).into_iter().collect();
    let moves = vec![moved];
    let wipes = wanted.wipe;
    let mut realign = Realign { plan, moves, blocks, window, journal, references, anchors, wipes };
    realign.find_journal(situation.medium, Look::Whole)?;
    let realign = realign.checked()?;
    realign.check_besides(situation.medium, None, Look::Ends)?;
    Ok(realign)
}

/// Whether a larger NTFS's copy of its boot sector lies behind what is used.
fn has_copy_behind(whole: &Partition, used: ByteCount) -> bool {
    let Some(Facts::FileSystem(fs)) = whole.layer.as_ref().map(|layer| &layer.facts) else { return false };
    whole.content == Some(Content::FileSystem(FsKind::Ntfs))
        && fs.boot_copies.iter().any(|at| at.get() >= used.get())
}

/// Returns what fills a disk as if a partition had it, with the type of that and how many bytes are used.
pub(crate) fn wrapped_partition(
    situation: &Situation<'_>,
    format: Format,
) -> Result<(Partition, &'static str, ByteCount), RealignError> {
    let whole = whole(situation.stack, situation.size(), situation.block())?;
    let (kind, used) = (kind_of(&whole, format), refer::used(&whole, situation.block()));
    Ok((whole, kind, used))
}

/// The only move: of everything but the head.
fn moved(start: ByteOffset, used: ByteCount) -> Result<Move, RealignError> {
    let from = used.checked_sub(HEAD).and_then(|len| Span::new(ByteOffset::new(HEAD.get()), len));
    let from = from.filter(|from| !from.is_empty()).ok_or_else(|| invalid("it moves nothing"))?;
    let to = start.checked_add(HEAD).ok_or_else(|| invalid("it would end past 2^64"))?;
    Ok(Move { from, to })
}

/// Returns what fills the disk as if a partition had it.
fn whole(stack: &Stack, size: ByteCount, block: BlockSize) -> Result<Partition, RealignError> {
    let refuse = |why: &str| Err(RealignError::NotWhole(why.to_owned()));
    let content = match stack.kind {
        TableKind::Content(content) => content,
        TableKind::None => return refuse("nothing known is on it"),
        _ => return refuse("it has a partition table"),
    };
    if content.is_array_member() {
        return refuse(&format!("it is a member of an array ({content}), which must keep its place"));
    }
    let is_optical = content.is_only_read() || content.is_optical();
    let is_pool = content == Content::FileSystem(FsKind::Zfs);
    if is_optical || is_pool {
        return refuse(&format!("{content} belongs where it is"));
    }
    let count = block.blocks_floor(size);
    Ok(Partition {
        number: ONLY,
        start: Lba::new(0),
        count,
        span: Span::first(count.to_bytes(block).unwrap_or(size)),
        role: Role::Primary,
        kind: PartitionType::Unknown,
        attributes: Attributes::default(),
        content: Some(content),
        layer: stack.layer.clone(),
        unclaimed: Unclaimed::Nothing,
    })
}

fn no_room(whole: &Partition, used: ByteCount, free: ByteCount) -> RealignError {
    let missing = used.saturating_sub(free);
    // fatresize needs a partition.
    let is_fat = whole.content == Some(Content::FileSystem(FsKind::Vfat));
    let layer = whole.layer.as_ref().filter(|_| !is_fat);
    let command = layer.and_then(|layer| straddle_audit::shrinking(layer, free));
    let shrink = Shrink { number: ONLY, by: missing, to: free, content: whole.content, command };
    RealignError::WrapRoom { missing, shrink }
}

/// The type of the partition, as a request names it.
fn kind_of(whole: &Partition, format: Format) -> &'static str {
    let is_mbr = format == Format::Mbr;
    let bits = match whole.layer.as_ref().map(|layer| &layer.facts) {
        Some(Facts::FileSystem(fs)) => fs.fat_bits,
        _ => None,
    };
    match whole.content {
        Some(Content::FileSystem(FsKind::Vfat)) if is_mbr => match bits {
            Some(12) => "1",
            Some(16) => "e",
            _ => "c",
        },
        Some(Content::FileSystem(FsKind::Vfat | FsKind::Ntfs | FsKind::Exfat)) => "msdata",
        Some(Content::FileSystem(FsKind::Swap)) => "swap",
        Some(Content::Volume(VolumeKind::Pv)) => "lvm",
        Some(Content::Volume(VolumeKind::Luks)) => "luks",
        _ => "linux",
    }
}

/// Lists what refers to the old place, which is byte 0. A boot sector that records that is changed too, but
/// for exFAT's, where it means that nothing is recorded.
fn references(whole: &Partition, plan: &Plan, used: ByteCount) -> Vec<(u32, Reference)> {
    let Some((entry, span)) = plan.table().partitions.first().and_then(|e| Some((e, plan.span(e)?))) else {
        return Vec::new();
    };
    let is_changed = |one: &Reference| match one {
        Reference::BootSector { kind, recorded, .. } => *recorded != 0 || kind.boots_from_recorded_start(),
        _ => false,
    };
    let boot = refer::boot_sector(whole, span.start(), None, used).filter(is_changed);
    let mut found = refer::references(whole, entry, plan.table().format, span.start(), plan.block(), None);
    found.retain(|one| !matches!(one, Reference::BootSector { .. }));
    found.extend(boot);
    found.into_iter().map(|reference| (ONLY, reference)).collect()
}

impl Realign {
    /// Whether it gives a partition to a file system that fills the disk.
    pub fn is_wrap(&self) -> bool {
        self.plan.is_fresh()
    }

    /// Checks a plan that was made here.
    pub(super) fn checked_wrap(self) -> Result<Self, RealignError> {
        let plan = &self.plan;
        let entry = plan.table().partitions.first().filter(|_| plan.is_around());
        let entry = entry.ok_or_else(|| invalid("it makes a new table of another kind"))?;
        let place = plan.span(entry).ok_or_else(|| invalid("its partition ends past 2^64"))?;
        let starts = inner::starts(plan.grain(), self.anchor(ONLY));
        if !starts.is_aligned(place.start()) || place.start().get() < HEAD.get() {
            return Err(invalid("its partition would not be aligned"));
        }
        let [one] = self.moves.as_slice() else { return Err(invalid("it makes several moves")) };
        let is_whole = moved(place.start(), ByteCount::new(one.from.end().get()))? == *one;
        let fits = one.destination().is_some_and(|to| place.contains(to));
        if !is_whole || !fits || !plan.movable_space().contains(place) {
            return Err(invalid("its move does not lead to its table"));
        }
        if self.references.iter().any(|(number, _)| *number != ONLY) {
            return Err(invalid("it lists references to a partition that does not exist"));
        }
        self.job([0; 16], Vec::new())?;
        if let Journal::Inside(journal) = self.journal {
            let is_free = self.free_of_wrap().iter().any(|gap| gap.contains(journal));
            let needed = journal_len(&self.job([0; 16], Vec::new())?)?;
            let is_there = self.blocks.is_aligned(journal.start()) && self.blocks.is_aligned(journal.end());
            if !is_free || !is_there || journal.len() < needed {
                return Err(invalid("there is no room for its journal where it says"));
            }
        }
        Ok(self)
    }

    /// The bytes that hold nothing before, while and after the data move, as far as the marker reaches.
    pub(super) fn free_of_wrap(&self) -> Vec<Span> {
        let space = self.plan.movable_space();
        let block = self.plan.block().get();
        let reach = ByteOffset::new(mbr::LBAS.saturating_mul(block)).min(space.end());
        let Some(space) = reach.checked_since(space.start()).and_then(|len| Span::new(space.start(), len))
        else {
            return Vec::new();
        };
        let taken = self.moves.iter().flat_map(|one| [Some(one.from), one.destination()]).flatten();
        let head = self.plan.table().partitions.first().and_then(|entry| self.plan.span(entry));
        let head = head.and_then(|place| Span::new(place.start(), HEAD));
        space.gaps(taken.chain([Span::first(HEAD)]).chain(head))
    }

    /// Checks that the disk still holds what the plan was made for, and that what refers to its place can be
    /// corrected.
    pub(super) fn check_wrapped(&self, disk: &dyn Disk) -> Result<(), MoveError> {
        let block = self.plan.block();
        let stack = straddle_layout::read_all(disk, Some(block), None)?;
        refer::check_awake(&stack)?;
        let differs = |what| MoveError::Differs { number: ONLY, what };
        let whole = whole(&stack, disk.len(), block).map_err(|_| differs(Difference::Place))?;
        let planned = self.moves.first().map(|one| one.from.end().get());
        let kind =
            crate::kinds::resolve(kind_of(&whole, self.plan.table().format), self.plan.table().format)?;
        let is_kind = self.plan.table().partitions.first().is_some_and(|entry| entry.kind == kind);
        let used = refer::used(&whole, block);
        let anchor =
            inner::anchor(&whole, self.plan.grain(), block).map_or(ByteCount::ZERO, |one| one.offset);
        if self.anchor(ONLY) != ByteCount::ZERO && anchor != self.anchor(ONLY) {
            return Err(differs(Difference::Data));
        }
        if planned != Some(used.get()) {
            return Err(differs(Difference::Use));
        }
        if !is_kind {
            return Err(differs(Difference::Contents));
        }
        if references(&whole, &self.plan, used) != self.references {
            return Err(differs(Difference::Records));
        }
        match self.references.iter().find_map(|(_, reference)| super::obstacle(reference)) {
            Some(what) => Err(MoveError::Refers { number: ONLY, what }),
            None => Ok(()),
        }
    }
}
