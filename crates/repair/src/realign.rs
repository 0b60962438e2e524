//! Plans to move misaligned partitions to aligned starts.
//!
//! Invariants: planning writes nothing; only a [`Run`], made by [`Realign::begin`] or found on a disk by
//! [`Run::find`], writes. A [`Realign`] is always possible: its moves, made in their order, bring every
//! partition to the place that its table lists, and overwrite nothing that is still needed. A partition that
//! does not move keeps every bit of itself and of its entry.
//!
//! Each partition goes to the nearest aligned start that leaves room for the others, in their order; without room for
//! all between two partitions that stay, one goes elsewhere. If the grain of a new table leaves no room, starts are
//! on the boundaries that are more than advice. An unused tail is given up only if nothing else makes room on the
//! same grain.
//!
//! Planning: `chosen` says what moves; `places` where to and in which order; `refer`, `boot` and `logical` what else
//! changes; `room` finds a place for the journal; `stored` checks the whole; `unallocated` decides what is data.
//! Carrying out: `carry`, with `media`, the journal's `payload`, recorded starts in `boot`, and torn sectors in
//! `guard`. Unfinished moves: `find`, and `checks`, which decides whether a journal may be followed.
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
mod error;
mod find;
mod guard;
mod logical;
mod media;
mod payload;
mod places;
pub(crate) mod refer;
mod room;
mod stored;
pub(crate) mod unallocated;

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
pub(crate) use boot::{Which, is_empty, record, starts_grub};
pub(crate) use carry::{ASLEEP, obstacle};
pub use carry::{Listing, Outcome, Run, Watch};
use chosen::{Anchor, Chosen, chosen};
pub(crate) use chosen::{anchor_offset as anchor, starts as anchored};
pub use chosen::{must_move, staying};
pub use error::{Ending, MoveError, NoJournal, RealignError, Shrink};
pub use find::{Unplanned, planned, unfinished, unmarked};
pub(crate) use media::Reading;
pub use media::{JournalFile, JournalPlace};
use places::{Ground, Item, Trip};
pub use refer::{ELSEWHERE, Reference, hibernated};
pub use room::Journal;
pub use stored::Realign;
use stored::Stored;
use unallocated::Look;

const LARGEST_PHYSICAL: ByteCount = ByteCount::new(1 << 20);

/// What to realign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The partitions to align; if empty, those that have to move according to the audit.
    pub partitions: Vec<u32>,
    /// Starts to use instead of the nearest ones, by number of the partition.
    pub starts: Vec<(u32, ByteOffset)>,
    /// A grain to use instead of 1 MiB.
    pub grain: Option<ByteCount>,
    /// Whether the moves and their journal may overwrite data outside partitions and known contents.
    pub wipe: bool,
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
    for number in chosen.iter().map(|one| one.entry.number) {
        let content = base.partition(number).and_then(|partition| partition.content);
        if !content.is_some_and(Content::is_swap) {
            continue;
        }
        base.notes.push(format!(
            "partition {number} is swap space. It is moved as well, so that a rollback can restore \
             everything, but recreating it is quicker ('straddle check' prints the commands)"
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
        base.notes.push(
            "data outside partitions or after the recorded end of contents may be overwritten (--wipe)"
                .to_owned(),
        );
    }
    let attempt =
        |base: &Base<'_>, grain: &Grain| attempt(base, &request, grain, (&chosen, wanted.wipe), look);
    if wanted.starts.iter().any(|(_, start)| !coarse.start.is_aligned(*start)) {
        return attempt(&base, &fine);
    }
    let first = attempt(&base, &coarse);
    let lacks_room = |error: &RealignError| {
        use RealignError::{Blocked, MustShrink, NoRoom};
        matches!(error, NoRoom { .. } | MustShrink { .. } | Blocked { .. }) || error.is_given_up_by_wipe()
    };
    if !first.as_ref().is_err_and(lacks_room) || fine.start == coarse.start {
        return first;
    }
    let (grain, starts) = (coarse.start.size(), fine.start.size());
    base.notes.push(format!(
        "there is not enough room to align all partitions to {grain}, so new starts are aligned to {starts}"
    ));
    let second = attempt(&base, &fine);
    match (&first, &second) {
        // A partition may be off the advised grain.
        (_, Err(RealignError::Nothing)) => first,
        // There are data in the way; contents need not be smaller.
        (Err(error), Err(_)) if error.is_given_up_by_wipe() => first,
        _ => second,
    }
}

fn attempt(
    base: &Base<'_>,
    request: &Request,
    grain: &Grain,
    (chosen, wipes): (&[Chosen], bool),
    look: Look,
) -> Result<Realign, RealignError> {
    let situation = base.situation;
    let (block, physical) = (situation.block(), physical(situation)?);
    let ground = Ground { free: base.usable(), grain: grain.start, block, physical };
    let moving: Vec<(&Chosen, Item)> = chosen.iter().filter_map(|one| item(base, one, &ground)).collect();
    if moving.is_empty() {
        return Err(RealignError::Nothing);
    }
    let search = Search { base, ground, moving };
    let fixed = search.fixed();
    let places = search.places(&fixed)?;
    let records = search.records(&places)?;
    let trip = |(_, item, to): &Placed<'_>| {
        let from = Span::new(item.at.start(), to.len())?;
        Some(Trip { number: item.number, from, to: to.start() })
    };
    let trips: Vec<Trip> = places.iter().filter_map(trip).collect();
    let moves = places::order(&trips)?;
    let shifted: Vec<Shifted> = places.iter().map(|placed| shifted(placed, &ground)).collect();
    let anchor = |(one, item, _): &Placed<'_>| Some((item.number, one.anchor.as_ref()?.offset));
    let anchors = places.iter().filter_map(anchor).collect();
    let plan = base.plan(request, grain, &shifted, records.as_ref())?;
    if records.is_some() {
        // Its chain must be one that can be written.
        encode(&plan, situation.medium, situation.stack)?;
    }
    let references = references(base, &plan)?;
    let (blocks, window) = (physical, room::MAX_WINDOW);
    let journal = Journal::Elsewhere { needed: ByteCount::ZERO };
    let mut realign = Realign(Stored { plan, moves, blocks, window, journal, references, anchors, wipes });
    realign.find_journal(situation.medium, look)?;
    let realign = realign.checked()?;
    realign.check_tails(situation.medium, Look::Ends)?;
    realign.check_unallocated(situation.medium, Look::Ends)?;
    Ok(realign)
}

pub(crate) fn without_unclaimed(stack: &Stack) -> Stack {
    let mut stack = stack.clone();
    for partition in &mut stack.partitions {
        partition.unclaimed = Unclaimed::Nothing;
    }
    stack
}

fn physical(situation: &Situation<'_>) -> Result<Boundary, RealignError> {
    let size = situation.topology.physical.value().max(USUAL_PHYSICAL);
    let is_usual = size.get().is_power_of_two() && size <= LARGEST_PHYSICAL;
    let size = if is_usual { size } else { USUAL_PHYSICAL };
    let boundary = situation.topology.boundary_of(size).or_else(|| Boundary::multiples_of(size));
    boundary.ok_or_else(|| RealignError::Invalid("no physical sector".to_owned()))
}

/// `None` if the partition is where it should be.
fn item<'a>(base: &Base<'_>, one: &'a Chosen, ground: &Ground) -> Option<(&'a Chosen, Item)> {
    let at = span_of(&one.entry, ground.block)?;
    let grain = one.grain(ground.grain);
    if one.start.map_or(grain.is_aligned(at.start()), |start| at.start() == start) {
        return None;
    }
    let number = one.entry.number;
    let partition = base.partition(number);
    let need = partition.map_or(at.len(), |partition| refer::used(partition, ground.block));
    let lead = logical::lead(&one.entry, ground.block);
    Some((one, Item { number, at, need: need.min(at.len()), lead, grain }))
}

type Placed<'c> = (&'c Chosen, Item, Span);

struct Search<'a> {
    base: &'a Base<'a>,
    ground: Ground,
    moving: Vec<(&'a Chosen, Item)>,
}

impl<'a> Search<'a> {
    fn fixed(&self) -> Vec<Span> {
        let entries = &self.base.table.partitions;
        let stays = |entry: &&Entry| !self.moving.iter().any(|(one, _)| one.entry.number == entry.number);
        let kept: Vec<&Entry> = entries.iter().filter(stays).collect();
        if self.moving.iter().any(|(one, _)| one.entry.slot != Slot::Primary) {
            return logical::fixed(&kept, entries, self.ground.block);
        }
        kept.iter().filter_map(|entry| span_of(entry, self.ground.block)).collect()
    }

    /// In the order of the present places.
    fn places(&self, fixed: &[Span]) -> Result<Vec<Placed<'a>>, RealignError> {
        let mut fixed = fixed.to_vec();
        let mut places: Vec<Placed<'a>> = Vec::new();
        for (one, item) in &self.moving {
            let Some(start) = one.start else { continue };
            let span = self.requested(*item, start, &fixed, &places)?;
            fixed.push(item.taken(span));
            places.push((one, *item, span));
        }
        let free = || self.moving.iter().filter(|(one, _)| one.start.is_none());
        let items: Vec<Item> = free().map(|(_, item)| *item).collect();
        let with = |may_pass| {
            let found = places::find(&items, &fixed, &self.ground, may_pass);
            let found = found.map_err(|no_room| self.crowded(&no_room))?;
            let found = free().zip(found).map(|((one, item), to)| (*one, *item, to));
            let mut all: Vec<Placed<'a>> = places.iter().copied().chain(found).collect();
            all.sort_by_key(|(_, item, _)| item.at.start());
            Ok(all)
        };
        let found = with(true)?;
        // Only logical partitions may be among logical ones, and the first of them begins the chain.
        if self.records(&found).is_ok() { Ok(found) } else { with(false) }
    }

    /// `None` if no logical partition moves.
    fn records(&self, places: &[Placed<'_>]) -> Result<Option<Records>, RealignError> {
        let places: Vec<(u32, Span)> = places.iter().map(|(_, item, to)| (item.number, *to)).collect();
        let chain = logical::Chain::of(&self.base.table.partitions, &places, self.ground);
        chain.map(|chain| chain.records()).transpose()
    }

    /// `places` are those found before, in `fixed`.
    fn requested(
        &self,
        item: Item,
        start: ByteOffset,
        fixed: &[Span],
        places: &[Placed<'_>],
    ) -> Result<Span, RealignError> {
        let Ground { free, block, .. } = self.ground;
        let refuse = |why: String| RealignError::Start { number: item.number, start, why };
        if Lba::from_bytes_exact(start, block).is_none() {
            return Err(refuse(format!("the start is not a multiple of the {block}-byte sector")));
        }
        let gaps = free.gaps(fixed.iter().copied());
        let has_lead =
            |gap: &Span| start.checked_since(gap.start()).is_some_and(|before| before >= item.lead);
        let gap = gaps.iter().find(|gap| has_lead(gap) && start < gap.end());
        let gap = gap.ok_or_else(|| refuse(self.obstacle_at(item, start, places)))?;
        let others = self.moving.iter().filter_map(|(one, other)| one.start?.checked_back(other.lead));
        let others = others.filter(|other| *other > start);
        let end = others.chain([gap.end()]).min().unwrap_or(start);
        let room = end.checked_since(start).unwrap_or_default().floor_to(block.bytes());
        if room < item.need {
            let (need, room) = (item.need.get(), room.get());
            let room = format!("but only {room} are free from that start to byte {end}");
            return Err(refuse(format!("the contents need {need} bytes, {room}")));
        }
        let span = Span::new(start, item.at.len().min(room));
        span.ok_or_else(|| refuse("the partition would end beyond byte 2^64".to_owned()))
    }

    fn obstacle_at(&self, item: Item, start: ByteOffset, places: &[Placed<'_>]) -> String {
        let Ground { free, block, .. } = self.ground;
        if start < free.start() {
            return format!("the space for partitions starts at byte {}", free.start());
        }
        if start >= free.end() {
            return format!("the space for partitions ends at byte {}", free.end());
        }
        let wanted = start.checked_back(item.lead).unwrap_or_default();
        let wanted = start.checked_add(block.bytes()).and_then(|end| Span::between(wanted, end));
        let is_there = |span: &Span| wanted.is_some_and(|wanted| wanted.overlaps(*span));
        let is_container = |entry: &Entry| entry.slot == Slot::Extended && item.lead != ByteCount::ZERO;
        let others = self.base.table.partitions.iter().filter(|entry| entry.number != item.number);
        let stay = others.filter(|entry| !is_container(entry));
        let stay = stay.filter_map(|entry| Some((entry.number, span_of(entry, block)?)));
        let placed = places.iter().map(|(_, other, to)| (other.number, *to));
        let Some((number, span)) = placed.chain(stay).find(|(_, span)| is_there(span)) else {
            return "a record of the logical partitions or the end of the extended partition is at that \
                    position"
                .to_owned();
        };
        format!(
            "the partition would overlap partition {number}, from byte {} to byte {}",
            span.start(),
            span.end()
        )
    }

    fn crowded(&self, no_room: &places::NoRoom) -> RealignError {
        let (base, situation) = (self.base, self.base.situation);
        let (numbers, missing) = (no_room.numbers.clone(), no_room.missing);
        let has_tail = |number: &u32| base.partition(*number).is_some_and(|p| p.unclaimed == Unclaimed::Tail);
        if let Some(number) = numbers.iter().copied().find(has_tail) {
            return RealignError::Unclaimed { number };
        }
        let describe = |(number, by): &(u32, ByteCount)| {
            // What is found from its end would not be found again.
            let partition = base.partition(*number).filter(|partition| !partition.is_found_from_end())?;
            let content = partition.layer.as_ref().map(|layer| layer.kind).or(partition.content);
            let used = refer::used(partition, situation.block());
            let least = used.saturating_sub(*by);
            // Contents that end within a physical sector would write parts of it.
            let whole = least.floor_to(situation.topology.physical.value());
            let command = partition.layer.as_ref().and_then(|layer| straddle_audit::shrinking(layer, whole));
            let to = if command.is_some() { whole } else { least };
            let command = command.map(|command| command.line);
            Some(Shrink { number: *number, by: used.saturating_sub(to), to, content, command })
        };
        let mut shrink: Vec<Shrink> = no_room.shrink.iter().filter_map(describe).collect();
        shrink.sort_by_key(|one| (one.is_possible() == Some(false), one.by, one.number));
        match shrink.is_empty() {
            true => RealignError::NoRoom { numbers, missing },
            false => RealignError::MustShrink { numbers, missing, shrink },
        }
    }
}

fn shifted((one, item, to): &Placed<'_>, ground: &Ground) -> Shifted {
    let (from, start, size) = (item.at.start(), to.start(), ground.grain.size());
    let reason = match (one.start, &one.anchor) {
        (Some(_), _) => "as requested".to_owned(),
        (None, None) => format!("the nearest {size} boundary that leaves room for all partitions"),
        (None, Some(Anchor { what, .. })) => {
            format!(
                "the nearest start that leaves room for all partitions and puts its {what} on a {size} \
                 boundary"
            )
        }
    };
    let mut why = vec![format!("its data moves from byte {from} to byte {start}, {reason}")];
    if let Some(less) = item.at.len().checked_sub(to.len()).filter(|less| *less != ByteCount::ZERO) {
        why.push(format!("its last {} bytes, which its contents do not use, are cut off", less.get()));
    }
    if let Some(Anchor { offset, what, .. }) = &one.anchor {
        let at = offset.get();
        why.push(format!("its {what}, {at} bytes after its start, is aligned instead of the start"));
    }
    Shifted { number: item.number, to: *to, why }
}

fn references(base: &Base<'_>, plan: &Plan) -> Result<Vec<(u32, Reference)>, RealignError> {
    let (situation, format) = (base.situation, plan.table.format);
    let loaders = Loaders::read(situation.medium, situation.stack).map_err(PlanError::from)?;
    let block = situation.block();
    let mut found = Vec::new();
    for entry in logical::moving(plan) {
        let Some((partition, span)) = base.partition(entry.number).zip(plan.span(entry)) else { continue };
        let of_it = refer::references(partition, entry, format, span.start(), block, Some(&loaders));
        found.extend(of_it.into_iter().map(|reference| (entry.number, reference)));
    }
    Ok(found)
}
