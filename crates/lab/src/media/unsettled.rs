//! What a power cut would undo: for every sector whose last write is not yet durable, its contents on the medium.
//!
//! The store holds what the host sees. When the host overwrites a sector, its durable contents are saved here until
//! the model says that the new ones are stored. What a write on the medium carries is copied only if the host
//! overwrites it before the write ends.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use straddle_drive::MediaEvent;

use crate::media::store::Store;

const PIECE: u64 = 1 << 20;

type Contents = Option<Box<[u8]>>;

#[derive(Debug)]
struct Sector {
    durable: Contents,
    on_its_way: OnItsWay,
}

/// Of a write on the medium that has begun but not ended.
#[derive(Debug)]
enum OnItsWay {
    Nothing,
    /// What the store holds now.
    Current,
    /// What the store held before the host overwrote it.
    Earlier(Contents),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Old,
    New,
}

/// The sectors that differ from the medium, by number.
#[derive(Debug)]
pub(crate) struct Unsettled {
    sector: u64,
    sectors: BTreeMap<u64, Sector>,
    /// The spans, in bytes, being written to the medium, in the order in which their writes began.
    pub(crate) in_flight: Vec<Range<u64>>,
    scratch: Vec<u8>,
}

impl Unsettled {
    pub(crate) const fn new(sector: u64) -> Self {
        Self { sector, sectors: BTreeMap::new(), in_flight: Vec::new(), scratch: Vec::new() }
    }

    /// To be called before the host overwrites the span.
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

    /// To be called when the span was discarded, so that its old contents need not survive.
    pub(crate) fn discarded(&mut self, offset: u64, length: u64) {
        let numbers = self.numbers(offset, length);
        let settled = self.sectors.range(numbers).map(|(number, _)| *number).collect();
        self.settle(settled);
    }

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
                let mut settled = Vec::new();
                for (number, sector) in self.sectors.range_mut(self.numbers(offset, length)) {
                    match std::mem::replace(&mut sector.on_its_way, OnItsWay::Nothing) {
                        OnItsWay::Nothing => {}
                        OnItsWay::Current => settled.push(*number),
                        OnItsWay::Earlier(contents) => sector.durable = contents,
                    }
                }
                self.settle(settled);
            }
            // Discards take effect when they are submitted; see `Served`.
            MediaEvent::Discarded { .. } => {}
        }
    }

    /// Makes the store hold what the medium holds. For a sector being written, `fate` of its first byte decides.
    pub(crate) fn roll_back(
        &mut self,
        store: &mut Store,
        mut fate: impl FnMut(u64) -> Fate,
    ) -> io::Result<()> {
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

    fn settle(&mut self, numbers: Vec<u64>) {
        for number in numbers {
            self.sectors.remove(&number);
        }
    }
}
