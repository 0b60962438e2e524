//! A machine with one or two disks whose writes are lost, kept or torn by a crash.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::io;
use std::rc::Rc;

use straddle_units::io::SplitMix64;
use straddle_units::{ByteCount, ByteOffset, Span};
use xxhash_rust::xxh3::{Xxh3, Xxh3Builder};

use crate::relocate::{Disk, SECTOR};

/// What is on the disks: a number for the contents of each sector. Those of the journal's disk come last.
pub(super) type Image = Vec<u32>;

type Sector = [u8; 512];

/// The contents that sectors may have.
#[derive(Default)]
pub(super) struct Store {
    contents: Vec<Sector>,
    numbers: HashMap<Sector, u32, Xxh3Builder>,
}

impl Store {
    pub(super) fn number(&mut self, sector: &[u8]) -> u32 {
        let sector: Sector = sector.try_into().unwrap();
        *self.numbers.entry(sector).or_insert_with(|| {
            self.contents.push(sector);
            u32::try_from(self.contents.len() - 1).unwrap()
        })
    }

    pub(super) fn of_text(&mut self, text: &str) -> u32 {
        self.number(&text.bytes().cycle().take(512).collect::<Vec<_>>())
    }
}

/// What a crash keeps or loses as a whole: sectors of one physical sector.
#[derive(Clone, Hash)]
pub(super) struct Unit {
    first: usize,
    contents: Vec<u32>,
    /// The physical sector, which comes out as garbage if the write is torn.
    block: (usize, usize),
}

/// Writes that are not durable yet, and what was before them.
#[derive(Clone, Hash)]
pub(super) struct Epoch {
    pub(super) base: Image,
    pub(super) units: Vec<Unit>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Lost,
    Kept,
    Torn,
}

impl Epoch {
    pub(super) fn key(&self) -> u64 {
        key(self)
    }

    pub(super) fn crash(&self, garbage: u32, mut outcome: impl FnMut(usize) -> Outcome) -> Image {
        let mut image = self.base.clone();
        for (index, unit) in self.units.iter().enumerate() {
            match outcome(index) {
                Outcome::Lost => {}
                Outcome::Kept => {
                    image[unit.first..unit.first + unit.contents.len()].copy_from_slice(&unit.contents);
                }
                Outcome::Torn => image[unit.block.0..unit.block.1].fill(garbage),
            }
        }
        image
    }
}

pub(super) fn key(value: &impl Hash) -> u64 {
    let mut hasher = Xxh3::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The ways in which disks fail.
#[derive(Clone, Debug, Default)]
pub(super) struct Failing {
    /// The call, from now on, that fails.
    pub(super) call: Option<u64>,
    /// A sector that cannot be written.
    pub(super) bad: Option<usize>,
    /// A sector that cannot be read.
    pub(super) unreadable: Option<usize>,
    /// A sector whose next write does not reach the medium as it is.
    pub(super) rot: Option<(usize, u32)>,
    pub(super) seed: u64,
}

pub(super) struct Machine {
    pub(super) store: Rc<RefCell<Store>>,
    /// What is read: the caches.
    pub(super) current: Image,
    /// What is durable.
    base: Image,
    pending: Vec<Unit>,
    pub(super) epochs: Vec<Epoch>,
    /// Where the second disk begins.
    split: usize,
    /// The sectors of a physical sector, and the first one's number.
    block: (usize, usize),
    /// Sectors that may change, and what all others have to stay.
    pub(super) may_change: Rc<Vec<bool>>,
    pub(super) original: Rc<Image>,
    pub(super) failing: Failing,
    /// Whether crashes are recorded.
    pub(super) records: bool,
    pub(super) flushes_lost: bool,
    /// Whether everything is said to be a hole.
    pub(super) holes_lie: bool,
    pub(super) punched: usize,
    /// The contents of sectors that cannot be read before they are written.
    pub(super) unreadable: u32,
}

impl Machine {
    pub(super) fn new(
        store: &Rc<RefCell<Store>>,
        image: &Image,
        split: usize,
        block: (usize, usize),
    ) -> Self {
        Self {
            store: Rc::clone(store),
            current: image.clone(),
            base: image.clone(),
            pending: Vec::new(),
            epochs: Vec::new(),
            split,
            block,
            may_change: Rc::new(vec![true; image.len()]),
            original: Rc::new(image.clone()),
            failing: Failing::default(),
            records: true,
            flushes_lost: false,
            holes_lie: false,
            punched: 0,
            unreadable: u32::MAX,
        }
    }

    /// The crashes that are possible since the last flush.
    pub(super) fn note(&mut self) {
        if self.records && !self.pending.is_empty() {
            self.epochs.push(Epoch { base: self.base.clone(), units: self.pending.clone() });
        }
    }

    fn fails(&mut self) -> bool {
        match &mut self.failing.call {
            Some(0) => {
                self.failing.call = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// The physical sector of a sector.
    fn block_of(&self, sector: usize) -> (usize, usize) {
        let (len, phase) = self.block;
        let (start, end, phase) =
            if sector < self.split { (0, self.split, phase) } else { (self.split, self.base.len(), 0) };
        let within = sector - start + len - phase;
        let first = (start + within / len * len + phase).saturating_sub(len).max(start);
        let next = start + (within / len + 1) * len + phase - len;
        (first, next.min(end))
    }

    fn write(&mut self, first: usize, bytes: &[u8]) -> io::Result<()> {
        let count = bytes.len() / 512;
        if self.failing.bad.is_some_and(|bad| (first..first + count).contains(&bad)) {
            return Err(io::Error::other("a bad sector"));
        }
        let mut at = first;
        let mut chunks = bytes.chunks(512).peekable();
        let mut units = Vec::new();
        while chunks.peek().is_some() {
            let block = self.block_of(at);
            let contents: Vec<u32> = chunks
                .by_ref()
                .take(block.1 - at)
                .map(|sector| self.store.borrow_mut().number(sector))
                .collect();
            for (offset, number) in contents.iter().enumerate() {
                let sector = at + offset;
                let is_same = self.original[sector] == *number;
                assert!(self.may_change[sector] || is_same, "sector {sector} must not change");
            }
            units.push(Unit { first: at, contents, block });
            at = block.1;
        }
        let has_failed = self.fails();
        if has_failed {
            let mut random = SplitMix64::new(self.failing.seed);
            units.retain(|_| random.once_in(2));
        }
        for unit in &units {
            self.current[unit.first..unit.first + unit.contents.len()].copy_from_slice(&unit.contents);
        }
        if let Some((rot, garbage)) = self.failing.rot {
            for unit in &mut units {
                if let Some(contents) = rot.checked_sub(unit.first).and_then(|at| unit.contents.get_mut(at)) {
                    *contents = garbage;
                    self.failing.rot = None;
                }
            }
        }
        self.pending.extend(units);
        if has_failed { Err(io::Error::other("a write failed")) } else { Ok(()) }
    }

    fn flush(&mut self, is_second: bool) -> io::Result<()> {
        if self.flushes_lost {
            return Ok(());
        }
        self.note();
        let split = self.split;
        let (ours, others): (Vec<Unit>, Vec<Unit>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|unit| (unit.first >= split) == is_second);
        self.pending = others;
        let has_failed = self.fails();
        let mut random = SplitMix64::new(self.failing.seed);
        for unit in ours {
            // What is not written stays in the cache, and is not pending any more.
            if !has_failed || random.once_in(2) {
                self.base[unit.first..unit.first + unit.contents.len()].copy_from_slice(&unit.contents);
            }
        }
        if has_failed { Err(io::Error::other("a flush failed")) } else { Ok(()) }
    }
}

/// One of the disks of a machine.
pub(super) struct SimDisk {
    pub(super) machine: Rc<RefCell<Machine>>,
    pub(super) is_second: bool,
}

impl SimDisk {
    fn first(&self) -> usize {
        if self.is_second { self.machine.borrow().split } else { 0 }
    }

    fn sector(&self, at: ByteOffset) -> usize {
        assert!(ByteCount::new(at.get()).is_multiple_of(ByteCount::new(SECTOR)));
        self.first() + usize::try_from(at.get() / SECTOR).unwrap()
    }
}

impl Disk for SimDisk {
    fn size(&self) -> ByteCount {
        let machine = self.machine.borrow();
        let sectors = if self.is_second { machine.base.len() - machine.split } else { machine.split };
        ByteCount::new(sectors as u64 * SECTOR)
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        assert!(at.get() + len <= self.size().get());
        let first = self.sector(at);
        let mut machine = self.machine.borrow_mut();
        let bad = machine.failing.unreadable;
        if machine.fails() || bad.is_some_and(|bad| (first..first + bytes.len().div_ceil(512)).contains(&bad))
        {
            return Err(io::Error::other("a read failed"));
        }
        if machine.current[first..first + bytes.len().div_ceil(512)].contains(&machine.unreadable) {
            return Err(io::Error::other("a sector cannot be read"));
        }
        let store = machine.store.borrow();
        for (index, sector) in bytes.chunks_mut(512).enumerate() {
            let contents = &store.contents[usize::try_from(machine.current[first + index]).unwrap()];
            sector.copy_from_slice(&contents[..sector.len()]);
        }
        Ok(())
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        assert!(at.get() + bytes.len() as u64 <= self.size().get() && bytes.len().is_multiple_of(512));
        let first = self.sector(at);
        self.machine.borrow_mut().write(first, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.machine.borrow_mut().flush(self.is_second)
    }

    fn drop_cache(&mut self, span: Span) {
        let (first, last) = (self.sector(span.start()), self.sector(span.end()));
        let mut machine = self.machine.borrow_mut();
        let mut image = machine.base.clone();
        for unit in &machine.pending {
            image[unit.first..unit.first + unit.contents.len()].copy_from_slice(&unit.contents);
        }
        machine.current[first..last].copy_from_slice(&image[first..last]);
    }

    fn holes(&mut self, span: Span) -> Vec<Span> {
        let (first, last) = (self.sector(span.start()), self.sector(span.end()));
        let machine = self.machine.borrow();
        if machine.holes_lie {
            return vec![span];
        }
        let is_zero = |sector: &usize| {
            let number = usize::try_from(machine.current[*sector]).unwrap();
            machine.store.borrow().contents[number] == [0; 512]
        };
        let of = |sector: usize| {
            let at = span.start().get() + (sector - first) as u64 * SECTOR;
            Span::new(ByteOffset::new(at), ByteCount::new(SECTOR)).unwrap()
        };
        let mut holes: Vec<Span> = Vec::new();
        for hole in (first..last).filter(is_zero).map(of) {
            match holes.last_mut().filter(|last| last.end() == hole.start()) {
                Some(last) => *last = crate::relocate::hull(*last, hole).unwrap(),
                None => holes.push(hole),
            }
        }
        holes
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        let (first, len) = (self.sector(span.start()), usize::try_from(span.len().get()).unwrap());
        let mut machine = self.machine.borrow_mut();
        machine.punched += len / 512;
        machine.write(first, &vec![0; len])
    }
}
