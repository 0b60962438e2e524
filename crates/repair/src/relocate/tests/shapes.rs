//! Small jobs of every shape, and the machine on which they run.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use super::machine::{Image, Machine, SimDisk, Store};
use crate::relocate::RelocateError;
use crate::relocate::{Bad, Disks, SECTOR, Whereabouts, filler, inspect, is_latest};
use crate::relocate::{Job, Move, Parts};
use crate::relocate::{Moved, Recovered, Unfinished, begin, journal_len, open};

/// A job in sectors.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    /// Start, length and destination.
    pub(super) moves: Vec<[u64; 3]>,
    /// Sectors of a physical sector, and the first that begins one.
    pub(super) block: (u64, u64),
    pub(super) window: u64,
    /// Sectors that are holes in the beginning.
    pub(super) holes: &'static [usize],
    /// Sectors that cannot be read before they are written.
    pub(super) bad: &'static [usize],
    /// Whether the journal is on another disk.
    pub(super) is_two: bool,
    /// The sectors that data are in; behind them the journal has its own, unless it is on another disk.
    pub(super) room: u64,
}

impl Shape {
    /// What fills a sector in the beginning, repeated.
    fn text(&self, sector: u64) -> String {
        let is_in = |list: &[usize]| list.iter().any(|other| *other as u64 == sector);
        if is_in(self.bad) {
            "unreadable;".to_owned()
        } else if is_in(self.holes) {
            "\0".to_owned()
        } else {
            format!("sector {sector};")
        }
    }
}

pub(super) fn sectors(count: u64) -> ByteCount {
    ByteCount::new(count * SECTOR)
}

pub(super) fn span(start: u64, len: u64) -> Span {
    Span::new(ByteOffset::new(start * SECTOR), sectors(len)).unwrap()
}

/// What is done with what a crash has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Resume,
    Rollback,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Final {
    /// There was no journal.
    None,
    Moved,
    Back,
}

pub(super) struct World {
    pub(super) store: Rc<RefCell<Store>>,
    pub(super) job: Job,
    pub(super) place: Span,
    pub(super) is_two: bool,
    pub(super) original: Rc<Image>,
    may_change: Rc<Vec<bool>>,
    pub(super) garbage: u32,
    pub(super) split: usize,
    block: (usize, usize),
    /// Whether the disks ignore flushes.
    pub(super) flushes_lost: bool,
    /// The contents of a sector that cannot be read, and the sectors that have it.
    unreadable: u32,
    pub(super) bad: &'static [usize],
    /// What the last run said could not be read.
    listed: RefCell<Vec<Bad>>,
    /// Where data are when all is moved: sector, and contents.
    pub(super) moved: Vec<(usize, u32)>,
    /// And in the beginning.
    pub(super) data: Vec<(usize, u32)>,
}

fn range(start: u64, len: u64) -> std::ops::Range<usize> {
    usize::try_from(start).unwrap()..usize::try_from(start + len).unwrap()
}

impl World {
    pub(super) fn new(shape: &Shape) -> Self {
        let (block, phase) = shape.block;
        let moves = shape
            .moves
            .iter()
            .map(|[start, len, to]| Move { from: span(*start, *len), to: ByteOffset::new(to * SECTOR) });
        let mut parts = Parts {
            size: sectors(1 << 20),
            blocks: Boundary::new(sectors(block), sectors(phase)).unwrap(),
            window: sectors(shape.window),
            id: *b"0123456789abcdef",
            moves: moves.collect(),
            payload: b"plan".to_vec(),
        };
        let needed = journal_len(&Job::new(parts.clone()).unwrap()).unwrap().get() / SECTOR;
        let start = if shape.is_two { 0 } else { shape.room.next_multiple_of(block) + phase };
        // The last physical sector is not a whole one.
        let split = if shape.is_two { shape.room } else { start + needed };
        let all = if shape.is_two { split + needed } else { split };
        parts.size = sectors(split);
        let job = Job::new(parts).unwrap();
        let store = Rc::new(RefCell::new(Store::default()));
        let original: Image =
            (0..all).map(|sector| store.borrow_mut().of_text(&shape.text(sector))).collect();
        let garbage = store.borrow_mut().of_text("garbage;");
        let unreadable = store.borrow_mut().of_text("unreadable;");
        let mut may_change = vec![false; original.len()];
        let mut now = original.clone();
        let mut live: Vec<usize> = Vec::new();
        let mut data: Vec<usize> = Vec::new();
        for [from, len, to] in &shape.moves {
            let (from, to) = (range(*from, *len), range(*to, *len));
            let mut bytes = now[from.clone()].to_vec();
            for (bytes, sector) in bytes.iter_mut().zip(from.clone()).filter(|(_, at)| shape.bad.contains(at))
            {
                if *bytes == unreadable {
                    let at = ByteOffset::new(sector as u64 * SECTOR);
                    *bytes = store.borrow_mut().number(&filler(at));
                }
            }
            data.extend(from.clone());
            live.retain(|sector| !from.contains(sector));
            live.extend(to.clone());
            now[to.clone()].copy_from_slice(&bytes);
            may_change[from].fill(true);
            may_change[to].fill(true);
        }
        let journal = if shape.is_two { split } else { start };
        may_change[range(journal, needed)].fill(true);
        let small = |number: u64| usize::try_from(number).unwrap();
        Self {
            moved: live.iter().map(|sector| (*sector, now[*sector])).collect(),
            data: data.iter().map(|sector| (*sector, original[*sector])).collect(),
            store,
            job,
            place: span(start, needed),
            is_two: shape.is_two,
            original: Rc::new(original),
            may_change: Rc::new(may_change),
            garbage,
            split: small(split),
            flushes_lost: false,
            unreadable,
            bad: shape.bad,
            listed: RefCell::default(),
            block: (small(block), small(phase)),
        }
    }

    pub(super) fn boot(&self, image: &Image) -> Rc<RefCell<Machine>> {
        let mut machine = Machine::new(&self.store, image, self.split, self.block);
        machine.may_change = Rc::clone(&self.may_change);
        machine.original = Rc::clone(&self.original);
        machine.flushes_lost = self.flushes_lost;
        machine.unreadable = self.unreadable;
        Rc::new(RefCell::new(machine))
    }

    /// Has `act` done with the disks of the machine.
    pub(super) fn with<T>(
        &self,
        machine: &Rc<RefCell<Machine>>,
        act: impl FnOnce(Disks<'_>, Span) -> T,
    ) -> T {
        let mut data = SimDisk { machine: Rc::clone(machine), is_second: false };
        let mut journal = SimDisk { machine: Rc::clone(machine), is_second: true };
        if self.is_two {
            act(Disks::two(&mut data, &mut journal), self.place)
        } else {
            act(Disks::one(&mut data), self.place)
        }
    }

    /// From the beginning to the end.
    pub(super) fn start(&self, machine: &Rc<RefCell<Machine>>) -> Result<Final, RelocateError> {
        self.with(machine, |disks, place| {
            let unfinished = begin(disks, place, self.job.clone())?;
            let ended = self.skipping(unfinished).resume(&mut |_| ControlFlow::Continue(()))?;
            Ok(self.moved(ended))
        })
    }

    fn skipping<'a>(&self, unfinished: Unfinished<'a>) -> Unfinished<'a> {
        if self.bad.is_empty() { unfinished } else { unfinished.skip_bad() }
    }

    fn moved(&self, ended: Option<Moved<'_>>) -> Final {
        let Some(mut moved) = ended else { panic!("{ended:?}") };
        *self.listed.borrow_mut() = moved.bad();
        Final::Moved
    }

    /// Finds what a crash has left, and does what was decided.
    pub(super) fn recover(
        &self,
        machine: &Rc<RefCell<Machine>>,
        decision: Decision,
    ) -> Result<Final, RelocateError> {
        let watch = &mut |_| ControlFlow::Continue(());
        self.with(machine, |disks, place| {
            let Some(found) = open(disks, place)? else { return Ok(Final::None) };
            let ended = match (found, decision) {
                (Recovered::Unfinished(unfinished), Decision::Resume) => {
                    return Ok(self.moved(self.skipping(unfinished).resume(watch)?));
                }
                (Recovered::Moved(moved), Decision::Resume) => return Ok(self.moved(Some(moved))),
                (Recovered::Unfinished(unfinished), Decision::Rollback) => {
                    let found = Recovered::Unfinished(self.skipping(unfinished));
                    found.rollback((&[], false), watch)?
                }
                (found, _) => found.rollback((&[], false), watch)?,
            };
            let Some(back) = ended else { panic!("{ended:?}") };
            *self.listed.borrow_mut() = back.bad().to_vec();
            Ok(Final::Back)
        })
    }

    /// Whether the journal that a crash has left says where the data are, and is not taken for an older one.
    pub(super) fn is_located(&self, image: &Image) -> Result<(), String> {
        if self.flushes_lost {
            return Ok(());
        }
        let machine = self.boot(image);
        let failed = |error: RelocateError| format!("{error:?}");
        if !self.with(&machine, is_latest).map_err(failed)? {
            return Err("the journal is taken for an older one".to_owned());
        }
        if self.with(&machine, inspect).map_err(failed)?.is_none() {
            return Ok(());
        }
        let places = self.with(&machine, Whereabouts::read).map_err(failed)?;
        for (sector, number) in self.data.iter().filter(|(sector, _)| !self.bad.contains(sector)) {
            let Some(at) = places.of(ByteOffset::new(*sector as u64 * SECTOR)) else { continue };
            let found = usize::try_from(at.get() / SECTOR).unwrap();
            if image[found] != *number {
                return Err(format!("sector {sector} is not at {found}"));
            }
        }
        Ok(())
    }

    fn filler(&self, sector: usize) -> u32 {
        let at = ByteOffset::new(sector as u64 * SECTOR);
        self.store.borrow_mut().number(&filler(at))
    }

    /// Whether all data are where they belong after this, what could not be read is listed where its filler is, and
    /// all else is as it was.
    pub(super) fn is_right(&self, image: &Image, end: Final) -> Result<(), String> {
        let data = if end == Final::Moved { &self.moved } else { &self.data };
        let is_filled = |sector: usize| self.bad.contains(&sector) && image[sector] == self.filler(sector);
        let is_lost = |sector: usize, number: u32| {
            image[sector] != number && !(end == Final::Back && is_filled(sector))
        };
        if let Some((sector, _)) = data.iter().find(|(sector, number)| is_lost(*sector, *number)) {
            return Err(format!("{end:?}: sector {sector} is lost"));
        }
        let is_listed = |sector: usize| {
            let span = span(sector as u64, 1);
            self.listed.borrow().iter().any(|bad| bad.from.contains(span))
        };
        for (sector, _) in self.data.iter().filter(|(sector, _)| self.bad.contains(sector)) {
            if (end == Final::Moved || (end == Final::Back && is_filled(*sector))) && !is_listed(*sector) {
                return Err(format!("{end:?}: sector {sector} was not read, and is not listed"));
            }
        }
        let fillers: Vec<u32> = self.bad.iter().map(|sector| self.filler(*sector)).collect();
        for (sector, number) in data.iter().filter(|(sector, _)| fillers.contains(&image[*sector])) {
            let is_here = |bad: &Bad| {
                let sector = *sector as u64 * SECTOR;
                (bad.to.get()..bad.to.get() + bad.from.len().get()).contains(&sector)
            };
            if end == Final::Moved && !self.listed.borrow().iter().any(is_here) {
                return Err(format!("sector {sector} has a filler that is listed elsewhere, for {number}"));
            }
        }
        let others = (0..image.len()).filter(|sector| !self.may_change[*sector]);
        for sector in others {
            if image[sector] != self.original[sector] {
                return Err(format!("{end:?}: sector {sector} of somebody else's has changed"));
            }
        }
        Ok(())
    }
}

fn shape(name: &'static str, moves: &[[u64; 3]], block: (u64, u64), window: u64, room: u64) -> Shape {
    Shape { name, moves: moves.to_vec(), block, window, holes: &[], bad: &[], is_two: false, room }
}

/// Every shape.
pub(super) fn shapes() -> Vec<Shape> {
    let chain2 = [[20, 8, 24], [10, 8, 12]];
    let chain3 = [[20, 6, 23], [12, 6, 15], [4, 6, 6]];
    let mut shapes = vec![
        shape("up 1", &[[3, 8, 4]], (1, 0), 2, 20),
        shape("down 1", &[[4, 8, 3]], (1, 0), 2, 20),
        shape("up 1, window 1", &[[3, 6, 4]], (1, 0), 1, 16),
        shape("up 1, window 4", &[[3, 11, 4]], (1, 0), 4, 20),
        shape("down 1, window 4", &[[5, 11, 4]], (1, 0), 4, 20),
        shape("up 7", &[[3, 12, 10]], (1, 0), 2, 30),
        shape("down 7", &[[10, 12, 3]], (1, 0), 2, 30),
        shape("up 7, window 4", &[[3, 14, 10]], (1, 0), 4, 32),
        shape("up 3 of window 2", &[[3, 10, 6]], (1, 0), 2, 24),
        shape("far up", &[[2, 7, 20]], (1, 0), 2, 30),
        shape("far down", &[[20, 7, 2]], (1, 0), 2, 30),
        shape("to the end", &[[10, 6, 14]], (1, 0), 2, 20),
        shape("to the start", &[[5, 6, 0]], (1, 0), 2, 20),
        shape("chain of 2", &chain2, (1, 0), 2, 34),
        shape("chain of 3", &chain3, (1, 0), 2, 34),
        shape("into a source", &[[4, 4, 20], [14, 4, 4]], (1, 0), 2, 30),
        shape("torn, up 1", &[[3, 9, 4]], (2, 0), 2, 20),
        shape("torn, down 1", &[[4, 9, 3]], (2, 0), 4, 20),
        shape("torn, phase", &[[3, 9, 5]], (4, 3), 4, 20),
        shape("torn, far", &[[3, 9, 17]], (2, 0), 2, 30),
        shape("torn, neighbours", &[[17, 6, 21], [7, 6, 15], [1, 5, 3]], (4, 0), 4, 30),
        shape("torn, chain of 3", &[[20, 6, 23], [12, 6, 15], [4, 6, 6]], (4, 0), 4, 34),
        shape("512e, up 1", &[[63, 20, 64]], (8, 0), 8, 90),
        shape("512e, down 1", &[[65, 20, 64]], (8, 0), 8, 90),
        shape("512e, phase 7", &[[63, 20, 71]], (8, 7), 8, 100),
        shape("512e, two from 63", &[[33, 20, 40], [9, 24, 16]], (8, 0), 16, 66),
        shape("torn, beside the next", &[[2, 7, 4], [11, 8, 12]], (4, 0), 4, 26),
    ];
    for (name, holes) in [
        ("up 1", &[4, 6, 7, 8][..]),
        ("far up", &[3, 4, 5, 8]),
        ("torn, far", &[3, 5, 6, 7, 8]),
        ("torn, neighbours", &[7, 8, 9, 10, 11, 12]),
        ("512e, up 1", &[66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79]),
    ] {
        let one = shapes.iter().find(|shape| shape.name == name).unwrap().clone();
        shapes.push(Shape { holes, ..one });
    }
    for (name, bad) in [
        ("up 1", &[3, 7, 10][..]),
        ("up 1", &[11]),
        ("down 7", &[10, 15, 16, 21]),
        ("far up", &[2, 5, 6]),
        ("chain of 2", &[12, 20]),
        ("torn, up 1", &[6, 7]),
        ("512e, two from 63", &[40, 41, 42, 43, 44, 45, 46, 47]),
        ("torn, beside the next", &[11]),
    ] {
        let one = shapes.iter().find(|shape| shape.name == name).unwrap().clone();
        shapes.push(Shape { bad, ..one });
    }
    for name in ["up 1", "down 7", "far up", "chain of 2", "torn, up 1", "torn, neighbours"] {
        let one = shapes.iter().find(|shape| shape.name == name).unwrap().clone();
        shapes.push(Shape { is_two: true, ..one });
    }
    shapes
}
