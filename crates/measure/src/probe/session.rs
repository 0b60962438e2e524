//! A probe in progress: the target, the remaining budget, and where the next request goes.
//!
//! Every request of a probe is sent here. Nothing is written that was not prepared, nothing outside the regions, and
//! nothing beyond the budget.

use std::collections::BTreeSet;

use straddle_units::io::{Completion, Nanos, Operation, Request, RequestId, SplitMix64, Time};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::bench::{Progress, Surface, TargetError};

/// The largest unit searched for, in bytes.
pub(crate) const LARGEST_UNIT: u64 = 64 << 10;
/// Requests are placed within slots of this size, which begin at its multiples.
pub(crate) const SLOT: u64 = 2 * LARGEST_UNIT;
/// Slots in the window (1 GiB): seeks are short, and there is room for what a cache may hold.
const WINDOW: u64 = 8192;
/// Slots over which spread slots are distributed (16 GiB).
const SPREAD: u64 = 131_072;
/// The fewest slots (4 MiB). With fewer, every other write would meet an earlier one in the cache.
pub(crate) const LEAST_SLOTS: u64 = 32;
/// Reads elsewhere after each preparation: more than a drive's read cache has segments.
const DISPLACING: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    Flush,
    Fua,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) arm: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

pub(crate) struct Session<'a> {
    surface: &'a mut dyn Surface,
    budget: &'a Budget,
    progress: &'a mut dyn Progress,
    pub(crate) random: SplitMix64,
    pub(crate) logical: u64,
    began: Time,
    pub(crate) written: u64,
    pub(crate) requests: u64,
    runs: Vec<(u64, u64)>,
    window: Vec<u64>,
    /// The slots in use, in random order, and the index of the next one.
    slots: Vec<u64>,
    next: usize,
    /// The next 128 KiB after these are prepared too.
    followed: Vec<u64>,
    prepared: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        surface: &'a mut dyn Surface,
        budget: &'a Budget,
        progress: &'a mut dyn Progress,
    ) -> Option<Self> {
        let (logical, began) = (surface.logical_sector(), surface.now());
        let mut random = SplitMix64::new(budget.seed);
        let runs = runs(surface.capacity(), budget);
        let slots = window(&runs, &mut random);
        let mut window = slots.clone();
        window.sort_unstable();
        (slots.len() as u64 >= LEAST_SLOTS).then_some(Self {
            surface,
            budget,
            progress,
            random,
            logical,
            began,
            written: 0,
            requests: 0,
            runs,
            window,
            slots,
            next: 0,
            followed: Vec::new(),
            prepared: false,
        })
    }

    pub(crate) fn elapsed(&self) -> Nanos {
        self.surface.now().since(self.began)
    }

    pub(crate) fn tell(&mut self, what: &str) {
        self.progress.tell(what);
    }

    pub(crate) fn left(&self) -> u64 {
        self.budget.max_write.saturating_sub(self.written)
    }

    /// Returns the first byte of a slot, none twice before all others.
    pub(crate) fn slot(&mut self) -> u64 {
        if self.next >= self.slots.len() {
            self.random.shuffle(&mut self.slots);
            self.next = 0;
        }
        self.next += 1;
        self.slots[self.next - 1]
    }

    /// Returns the first byte of a random slot after which the next 128 KiB are prepared too.
    pub(crate) fn slot_and_next(&mut self) -> Option<u64> {
        let index = usize::try_from(self.random.below(self.followed.len() as u64)).unwrap_or(0);
        self.followed.get(index).copied()
    }

    pub(crate) fn narrow(&mut self, count: usize) -> Step<()> {
        let count = count.min(self.window.len());
        let first = self.random.below((self.window.len() - count) as u64 + 1);
        let first = usize::try_from(first).unwrap_or(0);
        self.slots = self.window[first..first + count].to_vec();
        self.settle(SLOT)
    }

    /// Spreads `count` slots over up to [`SPREAD`], and prepares each with the slot after it. Caches that track
    /// pieces larger than a slot then fill after fewer writes.
    pub(crate) fn spread(&mut self, count: usize) -> Step<()> {
        let all: u64 = self.runs.iter().map(|run| run.1).sum();
        let over = all.min(SPREAD);
        let count = over.min(count as u64);
        let (first, step) = (self.random.below(all - over + 1), over / count);
        let mut slots = Vec::new();
        let mut passed = 0;
        for &(start, length) in &self.runs {
            let inside = |index: &u64| (passed..passed + length - 1).contains(index);
            let indexes = (0..count).map(|index| first + index * step).filter(inside);
            slots.extend(indexes.map(|index| start + (index - passed) * SLOT));
            passed += length;
        }
        if slots.is_empty() {
            // All runs are single slots without a neighbour.
            return Err(Halt::Room);
        }
        self.slots = slots;
        self.settle(2 * SLOT)
    }

    fn settle(&mut self, length: u64) -> Step<()> {
        let spans: Vec<Span> = self.slots.iter().filter_map(|slot| span(*slot, length)).collect();
        self.surface.prepare(&spans)?;
        self.prepared = true;
        self.followed = self.slots.clone();
        let slots: BTreeSet<u64> = self.slots.iter().copied().collect();
        self.followed.retain(|slot| length > SLOT || slots.contains(&(slot + SLOT)));
        self.random.shuffle(&mut self.slots);
        self.next = 0;
        Ok(())
    }

    /// Writes every slot in use from end to end and flushes, so that the drive has mapped all of them.
    pub(crate) fn fill(&mut self) -> Step<()> {
        for slot in self.slots.clone() {
            self.one(Operation::Write, slot, SLOT)?;
        }
        self.one(Operation::Flush, 0, 0)?;
        Ok(())
    }

    pub(crate) fn one(&mut self, operation: Operation, offset: u64, length: u64) -> Step<f64> {
        let sent = self.surface.now();
        self.send(operation, offset, length)?;
        Ok(self.wait()?.at.since(sent).seconds())
    }

    pub(crate) fn send(&mut self, operation: Operation, offset: u64, length: u64) -> Step<RequestId> {
        if operation.is_write() {
            if self.written + length > self.budget.max_write {
                return Err(Halt::Written);
            }
            self.written += length;
        }
        let elapsed = self.elapsed().seconds();
        let limit = self.budget.max_time.seconds();
        if elapsed > limit {
            return Err(Halt::Time);
        }
        self.progress.advance((elapsed / limit).min(1.0));
        self.requests += 1;
        let request = match operation {
            Operation::Flush => Request::flush(self.requests),
            _ => Request::new(self.requests, operation, ByteOffset::new(offset), ByteCount::new(length)),
        };
        self.surface.submit(request)?;
        Ok(request.id)
    }

    pub(crate) fn wait(&mut self) -> Result<Completion, TargetError> {
        self.surface.wait()
    }

    pub(crate) fn now(&self) -> Time {
        self.surface.now()
    }

    pub(crate) fn pause(&mut self, seconds: f64) {
        self.surface.pause(Nanos::from_seconds(seconds).unwrap_or(Nanos::ZERO));
    }

    pub(crate) fn durable(&mut self, how: Durable, offset: u64, length: u64) -> Step<f64> {
        match how {
            Durable::Fua => self.one(Operation::WriteFua, offset, length),
            Durable::Flush => {
                let write = self.one(Operation::Write, offset, length)?;
                Ok(write + self.one(Operation::Flush, 0, 0)?)
            }
        }
    }

    /// Reads what is about to be written, then elsewhere, so that the drive's read cache holds none of it.
    pub(crate) fn prepare(&mut self, spans: &[(u64, u64)]) -> Step<()> {
        if self.prepared {
            return Ok(());
        }
        let spans: Vec<Span> = spans.iter().filter_map(|&(offset, length)| span(offset, length)).collect();
        self.surface.prepare(&spans)?;
        for _ in 0..DISPLACING {
            let slot = self.slot();
            self.one(Operation::Read, slot, self.logical)?;
        }
        Ok(())
    }

    /// Writes all shots durably, in random order; returns the seconds of each with its arm.
    pub(crate) fn shoot(&mut self, how: Durable, mut shots: Vec<Shot>) -> Step<Vec<(usize, f64)>> {
        let bytes: u64 = shots.iter().map(|shot| shot.length).sum();
        if bytes > self.left() {
            return Err(Halt::Written);
        }
        let spans: Vec<(u64, u64)> = shots.iter().map(|shot| (shot.offset, shot.length)).collect();
        self.prepare(&spans)?;
        self.random.shuffle(&mut shots);
        shots
            .into_iter()
            .map(|Shot { arm, offset, length }| Ok((arm, self.durable(how, offset, length)?)))
            .collect()
    }

    /// Returns a random offset below 64 KiB, of whole sectors, on a boundary of `unit` or on none.
    pub(crate) fn phase(&mut self, unit: Boundary, aligned: bool) -> u64 {
        self.phase_within(unit, aligned, LARGEST_UNIT)
    }

    pub(crate) fn phase_within(&mut self, unit: Boundary, aligned: bool, range: u64) -> u64 {
        let places = (0..range / self.logical).map(|index| index * self.logical);
        let fit: Vec<u64> =
            places.filter(|place| unit.is_aligned(ByteOffset::new(*place)) == aligned).collect();
        let index = usize::try_from(self.random.below(fit.len() as u64)).unwrap_or(0);
        fit.get(index).copied().unwrap_or(0)
    }
}

pub(crate) fn boundary(size: u64, phase: u64) -> Boundary {
    Boundary::new(ByteCount::new(size), ByteCount::new(phase)).expect("at least a logical sector")
}

/// All units of two `step`s to `most` bytes, of each size with each phase, in steps.
pub(crate) fn units(step: u64, most: u64) -> impl Iterator<Item = Boundary> {
    let sizes = std::iter::successors(Some(2 * step), |size| Some(size * 2));
    let sizes = sizes.take_while(move |size| *size <= most);
    sizes.flat_map(move |size| (0..size / step).map(move |index| boundary(size, index * step)))
}

fn span(offset: u64, length: u64) -> Option<Span> {
    Span::new(ByteOffset::new(offset), ByteCount::new(length))
}

/// As the first byte and the number of slots of each.
fn runs(capacity: ByteCount, budget: &Budget) -> Vec<(u64, u64)> {
    let regions = match &budget.regions {
        Some(regions) => regions.clone(),
        None => vec![Span::first(capacity)],
    };
    let whole = |region: &Span| {
        let first = boundary(SLOT, 0).ceil(region.start())?.get();
        let end = boundary(SLOT, 0).floor(region.end())?.get().min(capacity.get());
        (first < end).then(|| (first, (end - first) / SLOT)).filter(|run| run.1 > 0)
    };
    regions.iter().filter_map(whole).collect()
}

/// At a random place in the runs, in random order.
fn window(runs: &[(u64, u64)], random: &mut SplitMix64) -> Vec<u64> {
    let all: u64 = runs.iter().map(|run| run.1).sum();
    let count = all.min(WINDOW);
    let mut skip = random.below(all - count + 1);
    let mut slots = Vec::new();
    for &(first, length) in runs {
        let from = skip.min(length);
        skip -= from;
        let wanted = count - slots.len() as u64;
        slots.extend((from..length.min(from + wanted)).map(|index| first + index * SLOT));
    }
    random.shuffle(&mut slots);
    slots
}

/// What a probe may use, and where it may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most bytes written.
    pub max_write: u64,
    /// Longest duration, on the target's clock.
    pub max_time: Nanos,
    /// Where it may read and write; `None` for everywhere.
    pub regions: Option<Vec<Span>>,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Budget {
    /// Default of `max_write`: 64 MiB.
    pub const MAX_WRITE: u64 = 64 << 20;
    /// Default of `max_time`: 5 minutes.
    pub const MAX_TIME: Nanos = Nanos::new(300_000_000_000);
    /// Default of `seed`.
    pub const SEED: u64 = 1;
}

impl Default for Budget {
    fn default() -> Self {
        Self { max_write: Self::MAX_WRITE, max_time: Self::MAX_TIME, regions: None, seed: Self::SEED }
    }
}

/// Why a probe fails. A probe that finds nothing has not failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ProbeError {
    #[error(
        "too little space to probe ({bytes} bytes); at least {needed} bytes are needed, in contiguous areas \
         of 128 KiB or more"
    )]
    TooSmall { bytes: u64, needed: u64 },
    #[error("cannot probe a target with {0}-byte logical sectors")]
    Sector(u64),
    #[error("a request to the target failed")]
    Target(#[from] TargetError),
}

straddle_units::error_kind! {
    ProbeError: Usage;
    Self::Target(error) => error.kind(),
}

#[derive(Debug)]
pub(crate) enum Halt {
    Written,
    Time,
    /// The pieces of the regions are too small.
    Room,
    Target(TargetError),
}

impl From<TargetError> for Halt {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

pub(crate) type Step<T> = Result<T, Halt>;

/// Returns the result of a part, or why there is none if it ended early. Only a failing target is an error.
pub(crate) fn within<T>(step: Step<T>) -> Result<Result<T, &'static str>, TargetError> {
    match step {
        Ok(value) => Ok(Ok(value)),
        Err(Halt::Written) => Ok(Err("the limit on bytes written was reached; --max-write raises it")),
        Err(Halt::Room) => Ok(Err("the free regions are too fragmented")),
        Err(Halt::Time) => Ok(Err("the time limit was reached; --time raises it")),
        // An interrupted probe still reports what is known so far.
        Err(Halt::Target(TargetError::Interrupted)) => Ok(Err("the probe was interrupted")),
        Err(Halt::Target(error)) => Err(error),
    }
}
