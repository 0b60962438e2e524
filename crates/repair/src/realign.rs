//! Plans to move misaligned partitions to aligned starts.
//!
//! Invariants: planning reads and writes nothing but values; only a [`Run`], made by
//! [`Realign::begin`] or found on a disk by [`Run::find`], writes. A [`Realign`] is always possible: its
//! moves, made in their order, bring every partition to the place that its table lists, and overwrite nothing
//! that is still needed. A partition that does not move keeps every bit of itself and of its entry.
//!
//! Each partition goes to the aligned start that is nearest, before or after, as far as the others leave
//! room. Their order is kept; if there is no room for all between two partitions that stay, one of them goes
//! elsewhere. If the grain of a new table leaves no room, starts are on
//! the boundaries that are more than advice. The tail of a partition is given up only if nothing else makes
//! room on the same grain, and only as far as its contents do not reach.
//!
//! Planning: `chosen` says what moves; `places` and `order` where to and in which order; `refer`, `boot`, `inner` and
//! `logical` what else that concerns; `room` finds a place for the journal; `validate` checks the whole; `unallocated` and
//! `debris` say what is nobody's data. Carrying out: `carry`, with the media in `media`, the journal's payload in
//! `payload`, recorded starts in `recorded`, and torn sectors in `guard`. Unfinished moves: `find`, `survey`, `journals`;
//! `checks`, with `witness`, says whether a journal may be followed, and `space` clears what the move wrote.
//!
//! A plan cannot be changed:
//!
//! ```compile_fail,E0596
//! # use straddle_repair::realign::Realign;
//! fn backwards(mut realign: Realign) -> Realign {
//!     realign.moves.reverse();
//!     realign
//! }
//! ```

mod boot;
mod carry;
mod checks;
mod chosen;
mod debris;
mod error;
mod find;
mod guard;
mod inner;
mod journals;
mod logical;
mod media;
mod move_error;
mod order;
mod payload;
mod places;
mod recorded;
pub(crate) mod refer;
mod room;
mod space;
mod stored;
mod survey;
pub(crate) mod unallocated;
mod validate;
mod witness;

#[cfg(test)]
mod tests;

use straddle_device::topology::USUAL_PHYSICAL;
use straddle_layout::{Content, Stack, Unclaimed};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, Span};

use crate::encode::encode;
use crate::error::PlanError;
use crate::grain::Grain;
use crate::guid::Seed;
use crate::plan::{Base, Entry, Plan, Records, Shifted, Situation, Slot, span_of};
use crate::request::Request;
use boot::Loaders;
pub(crate) use boot::is_empty;
pub(crate) use boot::starts_grub;
pub use carry::Watch;
pub(crate) use carry::{ASLEEP, obstacle};
pub use carry::{Listing, Outcome, Run};
use chosen::{Chosen, chosen};
pub use chosen::{must_move, staying};
pub use error::{RealignError, Shrink};
use inner::Anchor;
pub(crate) use inner::{offset as anchor, starts as anchored};
pub use journals::unmarked;
pub use media::{JournalFile, JournalPlace};
pub use move_error::{Ending, MoveError, NoJournal};
use order::Trip;
use places::{Ground, Item, Passing};
pub(crate) use recorded::{Which, record};
pub use refer::{ELSEWHERE, Reference, hibernated};
pub use room::Journal;
use stored::Stored;
pub use stored::{Estimate, Realign};
pub use survey::{Unplanned, planned, unfinished};
use unallocated::Look;

/// The largest physical sector that moves count in.
const LARGEST_PHYSICAL: ByteCount = ByteCount::new(1 << 20);

/// What to realign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The partitions to align, by number; those that have to move by the audit's account if this is empty.
    pub partitions: Vec<u32>,
    /// Starts to use instead of the nearest ones, by number of the partition.
    pub starts: Vec<(u32, ByteOffset)>,
    /// A grain to use instead of 1 MiB.
    pub grain: Option<ByteCount>,
    /// Whether data that no partition and no known content accounts for are given up, where the moves and their journal
    /// go.
    pub wipe: bool,
}

/// A partition that loses its unused tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The partition's number.
    pub number: u32,
    /// How many bytes it loses.
    pub by: ByteCount,
}

/// Makes a plan to realign a disk. The layers on the partitions of the situation's stack must have been read:
/// what is not known to be unused is kept.
pub fn make(situation: &Situation<'_>, wanted: &Wanted) -> Result<Realign, RealignError> {
    make_looking(situation, wanted, Look::Whole)
}

fn make_looking(situation: &Situation<'_>, wanted: &Wanted, look: Look) -> Result<Realign, RealignError> {
    let given_up = wanted.wipe.then(|| without_unclaimed(situation.stack));
    let situation = &Situation { stack: given_up.as_ref().unwrap_or(situation.stack), ..*situation };
    let mut request = Request::new(Seed(0));
    request.grain = wanted.grain;
    let mut base = Base::of(situation, &request)?;
    let grain = |asked| Grain::of(situation.topology, situation.size(), situation.block(), asked);
    let coarse = grain(wanted.grain);
    let fine = grain(wanted.grain.or(Some(USUAL_PHYSICAL)));
    let chosen = chosen(&mut base, wanted, fine.start)?;
    let is_swap = |one: &&Chosen| {
        let content = base.partition(one.entry.number).and_then(|partition| partition.content);
        content.is_some_and(Content::is_swap)
    };
    let swap: Vec<u32> = chosen.iter().filter(is_swap).map(|one| one.entry.number).collect();
    for number in swap {
        base.note(format!(
            "partition {number} is swap space; it moves too, so that a rollback restores everything, but \
             recreating it is quicker (straddle check prints how)"
        ));
    }
    let is_chosen = |number| chosen.iter().any(|one| one.entry.number == number);
    if let Some((number, why)) = refer::immovable(situation.stack, is_chosen) {
        return Err(RealignError::Immovable { number, why });
    }
    if let Some(number) = hibernated(situation.stack) {
        return Err(RealignError::Immovable { number, why: ASLEEP });
    }
    if wanted.wipe {
        base.note(
            "data outside partitions, or after the recorded end of contents, may be overwritten (--wipe)"
                .to_owned(),
        );
    }
    let attempt =
        |base: &Base<'_>, grain: &Grain| attempt(base, &request, grain, (&chosen, wanted.wipe), look);
    if wanted.starts.iter().any(|(_, start)| !coarse.start.is_aligned(*start)) {
        return attempt(&base, &fine);
    }
    let first = attempt(&base, &coarse);
    let lacks_room = matches!(
        first,
        Err(RealignError::NoRoom { .. }
            | RealignError::MustShrink { .. }
            | RealignError::Blocked { .. }
            | RealignError::Unclaimed { .. }
            | RealignError::Occupied { .. })
    );
    if !lacks_room || fine.start == coarse.start {
        return first;
    }
    let (grain, starts) = (coarse.start.size(), fine.start.size());
    base.note(format!(
        "there is no room to align all partitions to {grain}: new starts are aligned to {starts}"
    ));
    let second = attempt(&base, &fine);
    match (&first, &second) {
        // What is only off the advised grain is fine as it is.
        (_, Err(RealignError::Nothing)) => first,
        // It is data in the way that have to go, not contents that have to be smaller.
        (Err(error), Err(_)) if error.is_given_up_by_wipe() => first,
        _ => second,
    }
}

/// Makes a plan with this grain.
fn attempt(
    base: &Base<'_>,
    request: &Request,
    grain: &Grain,
    (chosen, wipes): (&[Chosen], bool),
    look: Look,
) -> Result<Realign, RealignError> {
    let situation = base.situation();
    let block = situation.block();
    let physical = physical(situation)?;
    let ground = Ground { free: base.usable(), grain: grain.start, block, physical };
    let moving: Vec<(&Chosen, Item)> = chosen.iter().filter_map(|one| item(base, one, &ground)).collect();
    if moving.is_empty() {
        return Err(RealignError::Nothing);
    }
    let fixed = fixed(base, &moving, &ground);
    let places = places(base, &moving, &fixed, &ground)?;
    let records = records(base, &places, &ground)?;
    let trips: Vec<Trip> = (places.iter())
        .filter_map(|(item, to)| {
            let from = Span::new(item.at.start(), to.len())?;
            Some(Trip { number: item.number, from, to: to.start() })
        })
        .collect();
    let moves = order::order(&trips, &fixed, &ground).map_err(|deadlock| {
        let order::Deadlock { numbers, largest, missing } = deadlock;
        RealignError::Blocked { numbers, largest, missing }
    })?;
    let requested = |number: u32| chosen.iter().any(|c| c.entry.number == number && c.start.is_some());
    let anchor = |number: u32| chosen.iter().find(|c| c.entry.number == number)?.anchor.as_ref();
    let shifted: Vec<Shifted> = places
        .iter()
        .map(|(item, to)| shifted(*item, *to, requested(item.number), anchor(item.number), &ground))
        .collect();
    let anchors = places.iter().filter_map(|(item, _)| Some((item.number, anchor(item.number)?.offset)));
    let anchors = anchors.collect();
    let plan = base.plan(request, grain, &shifted, records.as_ref())?;
    if records.is_some() {
        // Its chain must be one that can be written.
        encode(&plan, situation.medium, situation.stack)?;
    }
    let references = references(base, &plan)?;
    let (window, journal) = (room::MAX_WINDOW, Journal::Elsewhere { needed: ByteCount::ZERO });
    let blocks = physical;
    let mut realign =
        Realign(Stored { plan, moves, blocks, window, journal, references, anchors, wipes, estimate: None });
    realign.find_journal(situation.medium, look)?;
    let realign = realign.checked()?;
    realign.check_tails(situation.medium, Look::Ends)?;
    realign.check_unallocated(situation.medium, None, Look::Ends)?;
    Ok(realign)
}

/// The same, as if known contents accounted for all that is in its partitions.
pub(crate) fn without_unclaimed(stack: &Stack) -> Stack {
    let mut stack = stack.clone();
    for partition in &mut stack.partitions {
        partition.unclaimed = Unclaimed::Nothing;
    }
    stack
}

/// The bytes that nothing may move to: those of the partitions that stay.
fn fixed(base: &Base<'_>, moving: &[(&Chosen, Item)], ground: &Ground) -> Vec<Span> {
    let entries = &base.table().partitions;
    let stays = |entry: &&Entry| !moving.iter().any(|(one, _)| one.entry.number == entry.number);
    let kept: Vec<&Entry> = entries.iter().filter(stays).collect();
    if moving.iter().any(|(one, _)| one.entry.slot != Slot::Primary) {
        return logical::fixed(&kept, entries, ground.block);
    }
    kept.iter().filter_map(|entry| span_of(entry, ground.block)).collect()
}

/// Returns the new places, in the order of the present ones.
fn places(
    base: &Base<'_>,
    moving: &[(&Chosen, Item)],
    fixed: &[Span],
    ground: &Ground,
) -> Result<Vec<(Item, Span)>, RealignError> {
    let mut fixed = fixed.to_vec();
    let mut places: Vec<(Item, Span)> = Vec::new();
    for (one, item) in moving {
        let Some(start) = one.start else { continue };
        let span = requested(base, *item, start, (&fixed, &places), moving, ground)?;
        fixed.push(item.taken(span));
        places.push((*item, span));
    }
    let free: Vec<Item> =
        moving.iter().filter(|(one, _)| one.start.is_none()).map(|(_, item)| *item).collect();
    let with = |passing: Passing| -> Result<Vec<(Item, Span)>, places::NoRoom> {
        let found = places::find(&free, &fixed, ground, passing)?;
        let mut all: Vec<(Item, Span)> =
            places.iter().copied().chain(free.iter().copied().zip(found)).collect();
        all.sort_by_key(|(item, _)| item.at.start());
        Ok(all)
    };
    let found = with(Passing::Allowed).map_err(|no_room| crowded(base, &no_room))?;
    // Only logical partitions may be among logical ones, and the first of them begins the chain.
    if records(base, &found, ground).is_ok() {
        return Ok(found);
    }
    with(Passing::Forbidden).map_err(|no_room| crowded(base, &no_room))
}

/// Places for the records of the logical partitions; `None` if none of them moves.
fn records(
    base: &Base<'_>,
    places: &[(Item, Span)],
    ground: &Ground,
) -> Result<Option<Records>, RealignError> {
    let places: Vec<(u32, Span)> = places.iter().map(|(item, to)| (item.number, *to)).collect();
    let chain = logical::Chain::of(&base.table().partitions, &places, *ground);
    chain.map(|chain| chain.records()).transpose()
}

/// The physical sectors in which data move.
fn physical(situation: &Situation<'_>) -> Result<Boundary, RealignError> {
    let size = situation.topology.physical.value().max(USUAL_PHYSICAL);
    let is_usual = size.get().is_power_of_two() && size <= LARGEST_PHYSICAL;
    let size = if is_usual { size } else { USUAL_PHYSICAL };
    let boundary = situation.topology.boundary_of(size).or_else(|| Boundary::multiples_of(size));
    boundary.ok_or_else(|| RealignError::Invalid("no physical sector".to_owned()))
}

/// Returns a partition as one that moves; `None` if it is where it should be.
fn item<'a>(base: &Base<'_>, one: &'a Chosen, ground: &Ground) -> Option<(&'a Chosen, Item)> {
    let at = span_of(&one.entry, ground.block)?;
    let grain = one.grain(ground.grain);
    let is_there = match one.start {
        Some(start) => at.start() == start,
        None => grain.is_aligned(at.start()),
    };
    if is_there {
        return None;
    }
    let number = one.entry.number;
    let partition = base.partition(number);
    let need = partition.map_or(at.len(), |partition| refer::used(partition, ground.block));
    let lead = logical::lead(&one.entry, ground.block);
    Some((one, Item { number, at, need: need.min(at.len()), lead, grain }))
}

/// Returns the place of a partition whose start was requested, besides what is `fixed` and the `places` that others
/// got already.
fn requested(
    base: &Base<'_>,
    item: Item,
    start: ByteOffset,
    (fixed, places): (&[Span], &[(Item, Span)]),
    moving: &[(&Chosen, Item)],
    ground: &Ground,
) -> Result<Span, RealignError> {
    let refuse = |why: String| RealignError::Start { number: item.number, start, why };
    if Lba::from_bytes_exact(start, ground.block).is_none() {
        return Err(refuse(format!("it is not a multiple of the {}-byte sector", ground.block)));
    }
    let gaps = ground.free.gaps(fixed.iter().copied());
    let gap = gaps.iter().find(|gap| gap.start() <= start && start < gap.end());
    let has_lead = |gap: &&Span| start.checked_since(gap.start()).is_some_and(|before| before >= item.lead);
    let gap = gap.filter(has_lead);
    let gap = gap.ok_or_else(|| refuse(obstacle_at(base, item, start, places, ground)))?;
    let others = moving.iter().filter_map(|(one, other)| one.start?.checked_back(other.lead));
    let others = others.filter(|other| *other > start);
    let end = others.chain([gap.end()]).min().unwrap_or(start);
    let room = end.checked_since(start).unwrap_or_default().floor_to(ground.block.bytes());
    if room < item.need {
        let (need, room) = (item.need.get(), room.get());
        let why = format!("its contents need {need} bytes, and only {room} are free there, up to byte {end}");
        return Err(refuse(why));
    }
    Span::new(start, item.at.len().min(room)).ok_or_else(|| refuse("it would end past 2^64 bytes".to_owned()))
}

/// Why a partition cannot start at `start`: what ends or is there.
fn obstacle_at(
    base: &Base<'_>,
    item: Item,
    start: ByteOffset,
    places: &[(Item, Span)],
    ground: &Ground,
) -> String {
    let free = ground.free;
    if start < free.start() {
        return format!("the space for partitions begins at byte {}", free.start());
    }
    if start >= free.end() {
        return format!("the space for partitions ends at byte {}", free.end());
    }
    // A logical partition has its record before it.
    let wanted = start.checked_back(item.lead).unwrap_or_default();
    let wanted = start.checked_add(ground.block.bytes()).and_then(|end| Span::between(wanted, end));
    let is_there = |span: &Span| wanted.is_some_and(|wanted| wanted.overlaps(*span));
    let entries = base.table().partitions.iter().filter(|entry| entry.number != item.number);
    let is_container = |entry: &&Entry| entry.slot == Slot::Extended && item.lead != ByteCount::ZERO;
    let stay = entries
        .filter(|entry| !is_container(entry))
        .filter_map(|entry| Some((entry.number, span_of(entry, ground.block)?)));
    let placed = places.iter().map(|(other, to)| (other.number, *to));
    match placed.chain(stay).find(|(_, span)| is_there(span)) {
        Some((number, span)) => {
            format!("it would overlap partition {number}, from byte {} to byte {}", span.start(), span.end())
        }
        None => {
            "there is a record of the logical partitions, or the end of their extended partition".to_owned()
        }
    }
}

/// Returns the refusal for partitions that have no room, with what is on them.
fn crowded(base: &Base<'_>, no_room: &places::NoRoom) -> RealignError {
    let stack = base.situation().stack;
    let (numbers, missing) = (no_room.numbers.clone(), no_room.missing);
    let has_tail =
        |number: &u32| stack.partitions.iter().any(|p| p.number == *number && p.unclaimed == Unclaimed::Tail);
    if let Some(number) = numbers.iter().copied().find(has_tail) {
        return RealignError::Unclaimed { number };
    }
    let describe = |(number, by): &(u32, ByteCount)| {
        let partition = stack.partitions.iter().find(|p| p.number == *number)?;
        // What is found from its end would not be found again.
        let partition = Some(partition).filter(|partition| !partition.is_found_from_end())?;
        let content = partition.layer.as_ref().map(|layer| layer.kind).or(partition.content);
        let used = refer::used(partition, base.situation().block());
        let least = used.saturating_sub(*by);
        // Contents that end within a physical sector would write parts of it.
        let whole = least.floor_to(base.situation().topology.physical.value());
        let command = partition.layer.as_ref().and_then(|layer| straddle_audit::shrinking(layer, whole));
        let to = if command.is_some() { whole } else { least };
        let command = command.map(|command| command.line);
        Some(Shrink { number: *number, by: used.saturating_sub(to), to, content, command })
    };
    let mut shrink: Vec<Shrink> = no_room.shrink.iter().filter_map(describe).collect();
    shrink.sort_by_key(|one| (one.is_possible() == Some(false), one.by, one.number));
    if shrink.is_empty() {
        return RealignError::NoRoom { numbers, missing };
    }
    RealignError::MustShrink { numbers, missing, shrink }
}

/// Returns the new place of a partition with the reasons for it.
fn shifted(item: Item, to: Span, is_requested: bool, anchor: Option<&Anchor>, ground: &Ground) -> Shifted {
    let (from, start, size) = (item.at.start(), to.start(), ground.grain.size());
    let reason = match (is_requested, anchor) {
        (true, _) => "as requested".to_owned(),
        (false, None) => format!("the nearest {size} boundary that leaves room for all"),
        (false, Some(Anchor { what, .. })) => {
            format!("the nearest start that leaves room for all and has its {what} on a {size} boundary")
        }
    };
    let mut why = vec![format!("its data moves from byte {from} to byte {start}, {reason}")];
    if let Some(less) = item.at.len().checked_sub(to.len()).filter(|less| *less != ByteCount::ZERO) {
        why.push(format!("it loses its last {} bytes, which its contents do not use", less.get()));
    }
    if let Some(Anchor { offset, what, .. }) = anchor {
        let at = offset.get();
        why.push(format!("its {what}, {at} bytes after its start, is aligned instead of the start"));
    }
    Shifted { number: item.number, to, why }
}

/// Lists what refers to the old places of the partitions that move.
fn references(base: &Base<'_>, plan: &Plan) -> Result<Vec<(u32, Reference)>, RealignError> {
    let (stack, format) = (base.situation().stack, plan.table.format);
    let loaders = Loaders::read(base.situation().medium, stack).map_err(PlanError::from)?;
    let mut found = Vec::new();
    for entry in plan.table.partitions.iter().filter(|entry| logical::moves(entry)) {
        let partition = stack.partitions.iter().find(|p| p.number == entry.number);
        let Some((partition, span)) = partition.zip(plan.span(entry)) else { continue };
        let block = base.situation().block();
        let of_it = refer::references(partition, entry, format, span.start(), block, Some(&loaders));
        found.extend(of_it.into_iter().map(|reference| (entry.number, reference)));
    }
    Ok(found)
}
