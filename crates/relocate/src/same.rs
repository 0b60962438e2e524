//! Whether data that have moved are still the same in both places.
//!
//! The law of this module: it only reads. A difference is the move's own doing only where a window was written, or may
//! have been, and then by what that window brought.

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::bad::{IN_FLIGHT, Skip, read_rest};
use crate::disk::{Disks, SECTOR};
use crate::error::RelocateError;
use crate::journal::in_memory;
use crate::recovery::Course;
use crate::sequence::{Sequence, Window};
use crate::shape::read;

/// What is compared at a time.
const PIECE: u64 = 1 << 20;

/// Whether data that have moved are the same in their old and new places, as far as the old ones were not
/// overwritten, by the moves or, in the spans `besides`, by the caller. What cannot be read, or could not be once, may
/// be anything. True if there is no journal. Reads all that has moved, and changes nothing.
///
/// [`resume`](crate::Unfinished::resume) goes on without what another program has written to the old places since.
///
/// # Errors
///
/// As [`open`](crate::open).
pub fn is_same(mut disks: Disks<'_>, place: Span, besides: &[Span]) -> Result<bool, RelocateError> {
    let disks = &mut disks;
    let Some(Course { journal, turned, sequence, flight }) = Course::read(disks, place)? else {
        return Ok(true);
    };
    let skip = journal.listed(disks)?;
    let mut flying = flight.brought(&sequence);
    let steps = steps_of(&sequence, flight.durable);
    let (steps, gone) = match turned {
        None => (steps, Vec::new()),
        Some(done) => {
            let forward = Sequence::forward(&journal.job);
            // What was in flight when the rollback began stays where it was written, unless something is to go back
            // there. The records that tell how many windows that were may be gone.
            let last = forward.count().min(done.saturating_add(IN_FLIGHT));
            flying.extend((done..last).map(|index| (forward.window(index), None)));
            let gone = steps_of(&sequence, flight.done).into_iter().map(|step| step.to).collect();
            ([steps_of(&forward, done), steps].concat(), gone)
        }
    };
    let way = Way { steps, flying, gone, besides, skip };
    Ok(way.pairs().into_iter().all(|pair| way.is_same(disks, pair)))
}

/// What was brought from one place to another, durably.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Span,
    to: Span,
}

/// What the first windows of a sequence have brought, in the order of the moves. The rest of the physical sectors is
/// what it was.
fn steps_of(sequence: &Sequence, windows: u64) -> Vec<Step> {
    let sources = sequence.sources(windows).into_iter();
    sources.filter_map(|(from, to)| Some(Step { from, to: Span::new(to, from.len())? })).collect()
}

/// Two places of the same data.
#[derive(Clone, Copy, Debug)]
struct Pair {
    from: Span,
    to: Span,
    /// The first and the last of the steps that have brought them from the one to the other.
    first: usize,
    last: usize,
}

/// How far data are on their way.
struct Way<'w> {
    /// Forward, and then back.
    steps: Vec<Step>,
    /// The windows that may be written or not, with what they bring if their sources may be overwritten.
    flying: Vec<(Window, Option<Vec<u8>>)>,
    /// Where sources of the others may have been overwritten.
    gone: Vec<Span>,
    /// What the caller has written.
    besides: &'w [Span],
    skip: Skip,
}

impl Way<'_> {
    /// The two places of each step, and of several on end: the place between may be overwritten.
    fn pairs(&self) -> Vec<Pair> {
        let (mut pairs, mut live): (Vec<Pair>, Vec<Pair>) = (Vec::new(), Vec::new());
        for (last, Step { from, to }) in self.steps.iter().copied().enumerate() {
            pairs.push(Pair { from, to, first: last, last });
            for one in std::mem::take(&mut live) {
                let Some(moved) = common(one.to, from) else {
                    live.push(one);
                    continue;
                };
                // What was where these bytes are now.
                let part = |place: Span, bytes: Span| shifted(bytes, one.to.start(), place.start());
                live.extend(
                    one.to
                        .gaps([moved])
                        .into_iter()
                        .filter_map(|rest| Some(Pair { from: part(one.from, rest)?, to: rest, ..one })),
                );
                let (origin, now) = (part(one.from, moved), shifted(moved, from.start(), to.start()));
                live.extend(origin.zip(now).map(|(from, to)| Pair { from, to, last, ..one }));
            }
            let is_moved = |one: &&Pair| one.last == last && one.from != one.to;
            pairs.extend(live.iter().filter(is_moved).copied());
            live.push(Pair { from, to, first: last, last });
        }
        pairs
    }

    /// Whether the bytes are the same in both places, as far as no later step has brought something there.
    fn is_same(&self, disks: &mut Disks<'_>, pair: Pair) -> bool {
        let besides = || self.besides.iter().copied();
        let later = |first: usize| self.steps.iter().skip(first).map(|step| step.to);
        let old: Vec<Span> = besides().chain(later(pair.first)).collect();
        let new: Vec<Span> = besides().chain(later(pair.last + 1)).collect();
        let (mut at, end) = (pair.from.start().get(), pair.from.end().get());
        while at < end {
            let one = Span::new(ByteOffset::new(at), ByteCount::new((end - at).min(PIECE)));
            let places = one.and_then(|one| Some((one, shifted(one, pair.from.start(), pair.to.start())?)));
            let Some((one, other)) = places else { return true };
            at = one.end().get();
            if old.iter().any(|span| span.contains(one)) {
                continue;
            }
            let [(bytes, bad), (others, other_bad)] = [one, other].map(|span| {
                let mut bytes = vec![0; in_memory(span.len())];
                let bad = read_rest(disks, span, &mut bytes);
                (bytes, bad)
            });
            let pairs = sectors(one, &bytes).zip(sectors(other, &others));
            for ((one, bytes), (other, others)) in pairs.filter(|(one, other)| one.1 != other.1) {
                let is_free = is_in(&old, one)
                    || is_in(&new, other)
                    || is_in(&bad, one)
                    || is_in(&other_bad, other)
                    || self.skip.touches(one);
                if !is_free && !self.is_brought(disks, one, bytes) && !self.is_brought(disks, other, others) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether a sector is what a window in flight brings there.
    fn is_brought(&self, disks: &mut Disks<'_>, sector: Span, bytes: &[u8]) -> bool {
        self.flying.iter().filter(|(window, _)| window.to.contains(sector)).any(|(window, copy)| {
            if let Some(copy) = copy {
                let offset = sector.start().checked_since(window.to.start()).map_or(usize::MAX, in_memory);
                return copy.get(offset..).is_some_and(|copy| copy.starts_with(bytes));
            }
            let Some(from) = shifted(sector, window.to.start(), window.from.start()) else { return false };
            is_in(&self.gone, from)
                || is_in(self.besides, from)
                || self.skip.touches(from)
                || read(disks, from).map_or(true, |found| found == bytes)
        })
    }
}

/// The bytes that lie behind `to` as `span` lies behind `from`.
fn shifted(span: Span, from: ByteOffset, to: ByteOffset) -> Option<Span> {
    Span::new(to.checked_add(span.start().checked_since(from)?)?, span.len())
}

/// The bytes that both spans have.
fn common(one: Span, other: Span) -> Option<Span> {
    let (start, end) = (one.start().max(other.start()), one.end().min(other.end()));
    Span::new(start, end.checked_since(start)?).filter(|both| !both.is_empty())
}

fn is_in(spans: &[Span], sector: Span) -> bool {
    spans.iter().any(|span| span.overlaps(sector))
}

/// The sectors of a span, with their bytes.
fn sectors(span: Span, bytes: &[u8]) -> impl Iterator<Item = (Span, &[u8])> {
    let starts = (span.start().get()..).step_by(in_memory(ByteCount::new(SECTOR)));
    starts.zip(bytes.chunks(in_memory(ByteCount::new(SECTOR)))).filter_map(|(at, bytes)| {
        Some((Span::new(ByteOffset::new(at), ByteCount::new(bytes.len() as u64))?, bytes))
    })
}
