//! A probe in progress: the target, what may still be spent on it, and where on it the next request goes.
//!
//! The law of this module: every request of a probe is sent here; nothing is written that was not prepared, nothing outside
//! the regions, and nothing beyond the budget.

use std::collections::BTreeSet;

use straddle_bench::{Progress, Surface, TargetError};
use straddle_io::{Completion, Nanos, Operation, Request, RequestId, SplitMix64, Time};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::budget::{Budget, Halt, Step};

/// The largest unit that is looked for, in bytes.
pub(crate) const LARGEST_UNIT: u64 = 64 << 10;
/// Requests are placed within slots of this size, which begin at its multiples.
pub(crate) const SLOT: u64 = 2 * LARGEST_UNIT;
/// A window of so many slots (1 GiB) keeps the arm's way short, and has room for what a cache may hold.
pub(crate) const WINDOW: u64 = 8192;
/// Slots that are put apart lie over so many (16 GiB).
const SPREAD: u64 = 131_072;
/// With fewer slots than these (4 MiB) every other write would meet an earlier one in the cache.
pub(crate) const LEAST_SLOTS: u64 = 32;
/// Reads elsewhere after each preparation: more than the segments of a drive's read cache.
const DISPLACING: usize = 64;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durable {
    /// A flush of the cache after it.
    Flush,
    /// Force unit access.
    Fua,
}

/// A write to be measured: which of several kinds it is, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) arm: usize,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A probe in progress.
pub(crate) struct Session<'a> {
    surface: &'a mut dyn Surface,
    budget: &'a Budget,
    progress: &'a mut dyn Progress,
    pub(crate) random: SplitMix64,
    pub(crate) logical: u64,
    began: Time,
    written: u64,
    requests: u64,
    /// The whole slots there are: the first byte of each run, and their number.
    runs: Vec<(u64, u64)>,
    /// The window: its slots in order.
    window: Vec<u64>,
    /// Those that are in use, in random order, and which is next.
    slots: Vec<u64>,
    next: usize,
    /// Those after which as much again is prepared.
    followed: Vec<u64>,
    /// All of the window is prepared.
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

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) fn elapsed(&self) -> Nanos {
        self.surface.now().since(self.began)
    }

    pub(crate) fn tell(&mut self, what: &str) {
        self.progress.tell(what);
    }

    /// Bytes that may still be written.
    pub(crate) fn left(&self) -> u64 {
        self.budget.max_write.saturating_sub(self.written)
    }

    /// The first byte of a slot that was not used for long.
    pub(crate) fn slot(&mut self) -> u64 {
        if self.next >= self.slots.len() {
            self.random.shuffle(&mut self.slots);
            self.next = 0;
        }
        self.next += 1;
        self.slots[self.next - 1]
    }

    /// The first byte of a slot after which as much again is prepared, if there is one.
    pub(crate) fn slot_and_next(&mut self) -> Option<u64> {
        let index = usize::try_from(self.random.below(self.followed.len() as u64)).unwrap_or(0);
        self.followed.get(index).copied()
    }

    /// From now on so many neighbouring slots of the window are used; they are prepared once and for all.
    pub(crate) fn narrow(&mut self, count: usize) -> Step<()> {
        let count = count.min(self.window.len());
        let first = self.random.below((self.window.len() - count) as u64 + 1);
        let first = usize::try_from(first).unwrap_or(0);
        self.slots = self.window[first..first + count].to_vec();
        self.settle(SLOT)
    }

    /// Puts the slots of the window apart, over as much as [`SPREAD`] slots, and prepares them once and for all: caches that keep
    /// account of larger pieces than a slot are filled by fewer writes. What follows a slot is prepared with it.
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
            // Single slots with none after them.
            return Err(Halt::Room);
        }
        self.slots = slots;
        self.settle(2 * SLOT)
    }

    /// Prepares `length` bytes of each slot in use.
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

    /// Writes every slot of the window from end to end, and flushes: all of it is then known to the drive.
    pub(crate) fn fill(&mut self) -> Step<()> {
        for slot in self.slots.clone() {
            self.one(Operation::Write, slot, SLOT)?;
        }
        self.one(Operation::Flush, 0, 0)?;
        Ok(())
    }

    /// Sends a request and waits for its end; the seconds it took.
    pub(crate) fn one(&mut self, operation: Operation, offset: u64, length: u64) -> Step<f64> {
        let sent = self.surface.now();
        self.send(operation, offset, length)?;
        Ok(self.wait()?.at.since(sent).seconds())
    }

    /// Sends a request, and tells the id it was given.
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
            _ => Request::new(self.requests, operation, offset, length),
        };
        self.surface.submit(request)?;
        Ok(request.id)
    }

    /// Waits for the next completion.
    pub(crate) fn wait(&mut self) -> Result<Completion, TargetError> {
        self.surface.wait()
    }

    pub(crate) fn now(&self) -> Time {
        self.surface.now()
    }

    pub(crate) fn pause(&mut self, seconds: f64) {
        self.surface.pause(Nanos::from_seconds(seconds).unwrap_or(Nanos::ZERO));
    }

    /// A write that is durable when this returns; the seconds it took.
    pub(crate) fn durable(&mut self, how: Durable, offset: u64, length: u64) -> Step<f64> {
        match how {
            Durable::Fua => self.one(Operation::WriteFua, offset, length),
            Durable::Flush => {
                let write = self.one(Operation::Write, offset, length)?;
                Ok(write + self.one(Operation::Flush, 0, 0)?)
            }
        }
    }

    /// Reads what is going to be written, then elsewhere, so that the drive's read cache holds nothing of it.
    pub(crate) fn prepare(&mut self, spans: &[(u64, u64)]) -> Step<()> {
        if self.prepared {
            return Ok(());
        }
        let spans: Vec<Span> = spans.iter().filter_map(|&(offset, length)| span(offset, length)).collect();
        self.surface.prepare(&spans)?;
        self.displace()
    }

    /// Reads so many places that a read cache has forgotten everything before.
    pub(crate) fn displace(&mut self) -> Step<()> {
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

    /// A random offset within a unit that is a whole number of logical sectors, at one of the unit's boundaries or, with
    /// `aligned` false, at none.
    pub(crate) fn phase(&mut self, unit: Boundary, aligned: bool) -> u64 {
        self.phase_within(unit, aligned, LARGEST_UNIT)
    }

    /// The same, below `range`.
    pub(crate) fn phase_within(&mut self, unit: Boundary, aligned: bool, range: u64) -> u64 {
        let places = (0..range / self.logical).map(|index| index * self.logical);
        let fit: Vec<u64> =
            places.filter(|place| unit.is_aligned(ByteOffset::new(*place)) == aligned).collect();
        let index = usize::try_from(self.random.below(fit.len() as u64)).unwrap_or(0);
        fit.get(index).copied().unwrap_or(0)
    }
}

pub(crate) fn span(offset: u64, length: u64) -> Option<Span> {
    Span::new(ByteOffset::new(offset), ByteCount::new(length))
}

/// The whole slots in the regions: the first byte and the number of each run of them.
fn runs(capacity: u64, budget: &Budget) -> Vec<(u64, u64)> {
    let Some(boundary) = Boundary::multiples_of(ByteCount::new(SLOT)) else { return Vec::new() };
    let regions = match &budget.regions {
        Some(regions) => regions.clone(),
        None => span(0, capacity).into_iter().collect(),
    };
    let whole = |region: &Span| {
        let first = boundary.ceil(region.start())?.get();
        let end = boundary.floor(region.end())?.get().min(capacity);
        (first < end).then(|| (first, (end - first) / SLOT)).filter(|run| run.1 > 0)
    };
    regions.iter().filter_map(whole).collect()
}

/// A window of slots somewhere in the runs, in random order.
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
