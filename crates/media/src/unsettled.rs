//! What a power cut would undo: for every sector whose last write is not yet durable, what the medium holds of it.
//!
//! The store is always as the host sees it. When the host overwrites a sector, what is durable of it is put aside here; when
//! the model says that the sector has been stored, it is forgotten. What a write on the medium carries is what the store held
//! when it began; that is copied only if the host overwrites it before it ends.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use straddle_drive::MediaEvent;

use crate::store::Store;

/// The old contents are read in pieces of at most this size.
const PIECE: u64 = 1 << 20;

/// A sector's contents; nothing stands for zeroes.
type Contents = Option<Box<[u8]>>;

/// A sector that is not as on the medium.
#[derive(Debug)]
pub(crate) struct Sector {
    durable: Contents,
    on_its_way: OnItsWay,
}

/// What a write on the medium that has begun and not ended carries for a sector.
#[derive(Debug)]
enum OnItsWay {
    Nothing,
    /// What the store holds.
    Current,
    /// What the store held before the host overwrote it.
    Earlier(Contents),
}

/// What a cut leaves of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// As on the medium before the write that was in flight.
    Old,
    /// As that write would have left it.
    New,
}

/// The sectors that are not as on the medium, by number.
#[derive(Debug)]
pub(crate) struct Unsettled {
    sector: u64,
    sectors: BTreeMap<u64, Sector>,
    /// Spans that are being written, in the order in which they were begun.
    in_flight: Vec<Range<u64>>,
    scratch: Vec<u8>,
    settled: Vec<u64>,
}

impl Unsettled {
    /// Nothing is unsettled; sectors have `sector` bytes.
    pub(crate) const fn new(sector: u64) -> Self {
        Self {
            sector,
            sectors: BTreeMap::new(),
            in_flight: Vec::new(),
            scratch: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// The spans in bytes that are being written to the medium.
    pub(crate) fn in_flight(&self) -> &[Range<u64>] {
        &self.in_flight
    }

    /// The host is about to overwrite the span.
    pub(crate) fn overwriting(&mut self, store: &Store, offset: u64, length: u64) -> io::Result<()> {
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let piece = (end - at).min(PIECE);
            self.scratch.resize(usize::try_from(piece).unwrap_or_default(), 0);
            store.read(at, &mut self.scratch)?;
            let size = usize::try_from(self.sector).unwrap_or(usize::MAX);
            for (number, held) in (at / self.sector..).zip(self.scratch.chunks(size)) {
                let contents = || held.iter().any(|byte| *byte != 0).then(|| Box::from(held));
                match self.sectors.get_mut(&number) {
                    None => {
                        let sector = Sector { durable: contents(), on_its_way: OnItsWay::Nothing };
                        self.sectors.insert(number, sector);
                    }
                    Some(sector) if matches!(sector.on_its_way, OnItsWay::Current) => {
                        sector.on_its_way = OnItsWay::Earlier(contents());
                    }
                    Some(_) => {}
                }
            }
            at += piece;
        }
        Ok(())
    }

    /// The span was discarded: nobody is owed what was there.
    pub(crate) fn discarded(&mut self, offset: u64, length: u64) {
        let numbers = self.numbers(offset, length);
        self.settled.extend(self.sectors.range(numbers).map(|(number, _)| *number));
        self.settle();
    }

    /// Something has happened on the medium.
    pub(crate) fn happened(&mut self, event: MediaEvent) {
        match event {
            MediaEvent::Storing { offset, length, .. } => {
                for (_, sector) in self.sectors.range_mut(self.numbers(offset, length)) {
                    sector.on_its_way = OnItsWay::Current;
                }
                self.in_flight.push(offset..offset + length);
            }
            MediaEvent::Stored { offset, length, .. } => {
                if let Some(index) = self.in_flight.iter().position(|span| *span == (offset..offset + length))
                {
                    self.in_flight.remove(index);
                }
                for (number, sector) in self.sectors.range_mut(self.numbers(offset, length)) {
                    match std::mem::replace(&mut sector.on_its_way, OnItsWay::Nothing) {
                        OnItsWay::Nothing => {}
                        OnItsWay::Current => self.settled.push(*number),
                        OnItsWay::Earlier(contents) => sector.durable = contents,
                    }
                }
                self.settle();
            }
            // Discards take effect when they are submitted: see `Served`.
            MediaEvent::Discarded { .. } => {}
        }
    }

    /// Makes the store hold what the medium does; `fate` decides, by a sector's first byte, for those that are being written.
    pub(crate) fn roll_back(&mut self, store: &Store, mut fate: impl FnMut(u64) -> Fate) -> io::Result<()> {
        for (number, sector) in &self.sectors {
            let offset = number * self.sector;
            let left = match &sector.on_its_way {
                OnItsWay::Nothing => &sector.durable,
                on_its_way => match (fate(offset), on_its_way) {
                    (Fate::Old, _) => &sector.durable,
                    (Fate::New, OnItsWay::Earlier(contents)) => contents,
                    (Fate::New, _) => continue,
                },
            };
            match left {
                Some(contents) => store.write(offset, contents)?,
                None => store.zero(offset, self.sector)?,
            }
        }
        self.sectors.clear();
        self.in_flight.clear();
        Ok(())
    }

    fn numbers(&self, offset: u64, length: u64) -> Range<u64> {
        offset / self.sector..(offset + length).div_ceil(self.sector)
    }

    fn settle(&mut self) {
        for number in self.settled.drain(..) {
            self.sectors.remove(&number);
        }
    }
}
