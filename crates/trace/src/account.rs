//! The requests of a trace, by volume and operation.
//!
//! Accounts of the parts of a trace add up to that of the whole, except for what a [`Window`] merges. Memory does not
//! grow with the number of requests.

use std::collections::BTreeMap;

use rayon::prelude::*;
use straddle_units::io::{Nanos, Operation, Time};

use crate::coalesce::{Coalesced, Pools, Window};
use crate::error::{LineError, TraceError};
use crate::format::Format;
use crate::histogram::{self, Histogram};
use crate::origin::About;
use crate::reader::{Reader, Recording};
use crate::record::Record;

/// What a trace asks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Its reads.
    pub reads: Histogram,
    /// Its writes.
    pub writes: Histogram,
    /// Its discards.
    pub discards: Histogram,
    /// The number of its flushes.
    pub flushes: u64,
    /// What its writes do to units of each size of a window; empty without one.
    pub coalesced: Vec<Coalesced>,
}

impl Volume {
    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.discards.merge(&other.discards);
        self.flushes = self.flushes.saturating_add(other.flushes);
        for other in &other.coalesced {
            match self.coalesced.iter_mut().find(|own| own.unit == other.unit) {
                Some(own) => own.merge(other),
                None => self.coalesced.push(*other),
            }
        }
    }

    /// Returns the number of requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.histograms().map(Histogram::requests).iter().sum::<u64>() + self.flushes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.histograms().into_iter().all(Histogram::is_empty) && self.flushes == 0
    }

    pub(crate) const fn histograms(&self) -> [&Histogram; 3] {
        [&self.reads, &self.writes, &self.discards]
    }

    #[inline]
    const fn histogram(&self, operation: Operation) -> Option<&Histogram> {
        match operation {
            Operation::Read => Some(&self.reads),
            Operation::Write | Operation::WriteFua => Some(&self.writes),
            Operation::Discard => Some(&self.discards),
            Operation::Flush => None,
        }
    }

    #[inline]
    fn add(&mut self, operation: Operation, offset: u64, length: u64) -> bool {
        match operation {
            Operation::Read => self.reads.add(offset, length),
            Operation::Write | Operation::WriteFua => self.writes.add(offset, length),
            Operation::Discard => self.discards.add(offset, length),
            Operation::Flush => {
                self.flushes += 1;
                true
            }
        }
    }
}

/// What traces ask of their volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Lines that are not requests.
    pub(crate) others: u64,
    /// From the first request of a file to the last, in the longest file; `None` if a file's times were not read.
    pub(crate) span: Option<Time>,
    /// Requests that were earlier than one before them, if that matters.
    pub(crate) late: u64,
}

/// Takes requests, and the names of their volumes.
pub type Each<'a> = &'a mut dyn FnMut(&[Record], &[String]) -> Result<(), TraceError>;

#[derive(Debug, Default)]
pub(crate) struct PartialAccount {
    volumes: Vec<Volume>,
    times: Option<(Nanos, Nanos)>,
}

impl PartialAccount {
    /// False if the request ends past the last byte that 64 bits can name.
    #[inline]
    pub(crate) fn add(&mut self, volume: usize, operation: Operation, offset: u64, length: u64) -> bool {
        if volume >= self.volumes.len() {
            self.volumes.resize_with(volume + 1, Volume::default);
        }
        self.volumes.get_mut(volume).is_none_or(|volume| volume.add(operation, offset, length))
    }

    /// Whether the histograms are too large for the processor's nearest caches, so that [`Self::touch`] pays.
    pub(crate) const fn is_wide(&self) -> bool {
        const VOLUMES: usize = 8;
        self.volumes.len() > VOLUMES
    }

    pub(crate) fn touch(&self, requests: impl Iterator<Item = (usize, Operation, u64, u64)>) {
        let touched = requests.fold(0, |touched, (volume, operation, offset, length)| {
            let histogram = self.volumes.get(volume).and_then(|volume| volume.histogram(operation));
            touched ^ histogram.map_or(0, |histogram| histogram.touch(offset, length))
        });
        std::hint::black_box(touched);
    }

    fn batch(&mut self, batch: &[Record]) -> Result<(), (u64, LineError)> {
        if self.is_wide() {
            self.touch(batch.iter().map(|it| (it.volume, it.operation, it.offset, it.length)));
        }
        for record in batch {
            let Record { line, volume, operation, offset, length, .. } = *record;
            if !self.add(volume, operation, offset, length) {
                return Err((line, LineError::TooFar { offset, length }));
            }
            let (first, last) = self.times.unwrap_or((record.time, record.time));
            self.times = Some((first.min(record.time), last.max(record.time)));
        }
        Ok(())
    }

    fn span(&self) -> Time {
        let (first, last) = self.times.unwrap_or_default();
        Time::ZERO + last.saturating_sub(first)
    }
}

impl Default for Account {
    fn default() -> Self {
        Self { volumes: BTreeMap::new(), others: 0, span: Some(Time::ZERO), late: 0 }
    }
}

impl Account {
    /// Creates an empty account.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts all requests of a trace, and with a `window` also what is left of its writes. Returns what is known of it.
    pub fn read(&mut self, mut trace: Reader<'_>, window: Option<&Window>) -> Result<About, TraceError> {
        if window.is_none() && self.table(&mut trace)? {
            return About::of(&mut trace);
        }
        self.read_with(trace, window, &mut |_, _| Ok(()))
    }

    #[cfg(not(feature = "parquet"))]
    const fn table(&mut self, _: &mut Reader<'_>) -> Result<bool, TraceError> {
        Ok(false)
    }

    /// Does as [`Self::read`], and calls `each` with some requests at a time, and the names of the volumes so far.
    pub fn read_with(
        &mut self,
        mut trace: Reader<'_>,
        window: Option<&Window>,
        each: Each<'_>,
    ) -> Result<About, TraceError> {
        let (mut part, mut requests) = (PartialAccount::default(), 0);
        let mut pools = window.map(Pools::new);
        while trace.next_batch()? {
            let batch = trace.batch();
            part.batch(batch).map_err(|(line, error)| trace.wrong_at(line, error))?;
            requests += batch.len();
            if let Some(pools) = &mut pools {
                batch.iter().for_each(|record| pools.take(record));
            }
            each(batch, trace.volumes())?;
        }
        if let Some(pools) = pools {
            // In another format all requests may have come at one time.
            let may_have_none = trace.detect()? == Some(Format::Iolog);
            if requests > 1 && part.span() == Time::ZERO && may_have_none {
                return Err(TraceError::NoTimes { name: trace.name().to_owned() });
            }
            self.late += trace.late();
            for (volume, coalesced) in part.volumes.iter_mut().zip(pools.finish()) {
                volume.coalesced = coalesced;
            }
        }
        self.others += trace.others();
        self.span = self.span.map(|span| span.max(part.span()));
        self.add(trace.volumes(), part);
        About::of(&mut trace)
    }

    /// Counts traces, several at a time. Returns what is known of each, too. An error is that of the first wrong trace.
    pub fn of<E: From<TraceError> + Send>(
        traces: &[Recording],
        window: Option<&Window>,
        open: impl Fn(&Recording) -> Result<Reader<'static>, E> + Sync,
    ) -> Result<(Self, Vec<About>), E> {
        let one = |trace: &Recording| {
            let mut account = Self::new();
            let about = account.read(open(trace)?, window)?;
            Ok((account, about))
        };
        let (mut all, mut traces_read) = (Self::new(), Vec::new());
        for some in traces.chunks(rayon::current_num_threads().max(1)) {
            let counted: Vec<Result<_, E>> = some.par_iter().map(one).collect();
            for counted in counted {
                let (account, about) = counted?;
                all.join(account);
                traces_read.push(about);
            }
        }
        Ok((all, traces_read))
    }

    pub(crate) fn add(&mut self, names: &[String], part: PartialAccount) {
        // A volume may be named before its first request, or in lines that are none.
        let asked = names.iter().zip(part.volumes).filter(|(_, volume)| !volume.is_empty());
        asked.for_each(|(name, volume)| self.put(name.clone(), volume));
    }

    fn put(&mut self, name: String, volume: Volume) {
        match self.volumes.get_mut(&name) {
            Some(known) => known.merge(&volume),
            None => drop(self.volumes.insert(name, volume)),
        }
    }

    /// Adds the requests of another account.
    pub fn join(&mut self, other: Self) {
        for (name, volume) in other.volumes {
            self.put(name, volume);
        }
        self.others = self.others.saturating_add(other.others);
        self.late = self.late.saturating_add(other.late);
        self.span = self.span.zip(other.span).map(|(own, other)| own.max(other));
    }

    /// Returns the volumes by name, in order. A trace of one volume may not name it.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &Volume)> {
        self.volumes.iter().map(|(name, volume)| (name.as_str(), volume))
    }

    /// Returns the requests of all volumes together.
    pub fn total(&self) -> Volume {
        let mut total = Volume::default();
        self.volumes.values().for_each(|volume| total.merge(volume));
        total
    }

    /// Returns the number of lines that are not requests: headers, and events of other kinds.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Returns the time from the first request to the last, in the longest file; `None` if times were not read.
    pub const fn span(&self) -> Option<Time> {
        self.span
    }

    /// Returns the number of requests earlier than one before them, which a window counted as of its time.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Returns the bytes that writes in whole units of `unit` sectors write for each byte asked for, if each volume
    /// began where that is least.
    pub fn aligned(&self, unit: u64) -> Option<f64> {
        let best = |(_, volume): (&str, &Volume)| {
            let effects = volume.writes.effects(unit)?;
            let effects = effects.all().iter().min_by_key(|effect| effect.touched).copied();
            effects.filter(|effect| effect.requests > 0)
        };
        self.volumes().filter_map(best).reduce(histogram::Effect::plus)?.amplification()
    }

    /// Returns the writes that cost most on units of `unit` sectors, from a start at sector `start`: those of one
    /// length to one volume, or to all volumes if no volume stands out, that write most sectors besides their own.
    pub fn costliest(&self, unit: u64, start: u64) -> Option<Share<'_>> {
        let mut all = 0;
        let mut by: BTreeMap<(&str, u16), u128> = BTreeMap::new();
        let mut lengths: BTreeMap<u16, u128> = BTreeMap::new();
        for (name, volume) in self.volumes() {
            for (class, count) in volume.writes.unordered() {
                let effect = histogram::of_class(class, count, unit, start);
                let extra = (effect.touched * u128::from(effect.unit)).saturating_sub(effect.sectors);
                all += extra;
                *by.entry((name, class.length)).or_default() += extra;
                *lengths.entry(class.length).or_default() += extra;
            }
        }
        let ((volume, of_one), extra) = by.into_iter().max_by_key(|(_, extra)| *extra)?;
        let (of_all, extra_of_all) = lengths.into_iter().max_by_key(|(_, extra)| *extra)?;
        let (volume, length, extra) = match extra * MUCH >= all {
            true => (Some(volume), of_one, extra),
            false => (None, of_all, extra_of_all),
        };
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let share = extra as f64 / all as f64;
        (all > 0).then(|| Share { volume, sectors: histogram::exact(length), share })
    }
}

/// A volume with less than one part in this many of the cost is not named.
const MUCH: u128 = 10;

/// The writes of one length to one volume, and their share in what all writes cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share<'a> {
    /// The volume's name, empty if the trace does not name it; `None` for all volumes.
    pub volume: Option<&'a str>,
    /// The length in sectors; `None` for lengths from 2 MiB on that leave the same remainder of 1 MiB.
    pub sectors: Option<u64>,
    /// The share, from 0 to 1.
    pub share: f64,
}

#[cfg(test)]
mod tests;
