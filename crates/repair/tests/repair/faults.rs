//! Partitions that move on disks with I/O errors: a call that fails, a sector that cannot be read, a sector that
//! cannot be written. Whatever fails, and however often, the end is the new layout or the old one, contents
//! included; what could not be read is listed.
//!
//! Each seed makes a disk of 4 to 32 MiB with a random table. `FAULTS=n` sets the number of seeds, `FAULT_FROM=n`
//! the first; `FAULT_SEED=n` repeats one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;

use std::collections::BTreeMap;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Memory, Random, Reading, plan_and_write, seeds, stack_of, target, topology};
use straddle_device::{Medium, ReadError};
use straddle_repair::apply::ApplyError;
use straddle_repair::realign::{
    Journal, JournalPlace, MoveError, Outcome, Realign, RealignError, Run, Wanted, make,
};
use straddle_repair::relocate::{Bad, filler};
use straddle_repair::{Format, Part, Place, Request, Seed, Simulated, Situation, Size};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Span};

const SECTOR: usize = 512;
/// More errors than this are not injected into one run.
const MOST_ERRORS: u32 = 8;
/// Calls until one fails, if none does.
const NEVER: u64 = u64::MAX;

/// A disk that fails.
struct Disk {
    bytes: Vec<u8>,
    /// What the sectors that are not durable held at the last flush.
    old: BTreeMap<usize, Vec<u8>>,
    /// Calls until one fails.
    left: AtomicU64,
    unreadable: Option<usize>,
    unwritable: Option<usize>,
    random: Random,
}

fn sectors(at: ByteOffset, len: usize) -> Range<usize> {
    let first = usize::try_from(at.get()).unwrap() / SECTOR;
    first..first + len / SECTOR
}

impl Disk {
    fn fails(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let next = if left == NEVER { NEVER } else { left.checked_sub(1).unwrap_or(NEVER) };
        self.left.store(next, Ordering::Relaxed);
        left == 0
    }

    fn put(&mut self, sector: usize, bytes: &[u8]) {
        let place = &mut self.bytes[sector * SECTOR..][..SECTOR];
        self.old.entry(sector).or_insert_with(|| place.to_vec());
        place.copy_from_slice(bytes);
        // The drive puts a sector that was written elsewhere.
        self.unreadable = self.unreadable.filter(|bad| *bad != sector);
    }
}

impl Medium for Disk {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.bytes.len() as u64)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let first = usize::try_from(at.get()).unwrap();
        let Some(bytes) = self.bytes.get(first..first + buf.len()) else {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.bytes.len() as u64 });
        };
        let end = (first + buf.len()).div_ceil(SECTOR);
        if self.unreadable.is_some_and(|bad| (first / SECTOR..end).contains(&bad)) || self.fails() {
            return Err(ReadError::Io { at, source: io::Error::from_raw_os_error(5) });
        }
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

impl Simulated for Disk {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        let all = sectors(at, bytes.len());
        let mut end = self.unwritable.filter(|bad| all.contains(bad)).unwrap_or(all.end);
        if self.fails() {
            let count = end - all.start;
            end = all.start + usize::try_from(self.random.below(count as u64)).unwrap();
        }
        for (sector, bytes) in (all.start..end).zip(bytes.chunks(SECTOR)) {
            self.put(sector, bytes);
        }
        if end == all.end { Ok(()) } else { Err(io::Error::from_raw_os_error(5)) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let old = std::mem::take(&mut self.old);
        if !self.fails() {
            return Ok(());
        }
        // Any of the writes are lost, and the next flush does not report it.
        for (sector, bytes) in old {
            if self.random.chance(50) {
                self.bytes[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
            }
        }
        Err(io::Error::from_raw_os_error(5))
    }
}

/// A disk with misaligned partitions of random bytes, and the plan to align them.
struct Case {
    before: Vec<u8>,
    realign: Realign,
    old: Reading,
}

impl Case {
    /// A random disk; `None` if there is no room to realign it.
    fn new(random: &mut Random) -> Option<Self> {
        let size = 8_192 << random.below(3) | random.below(8_192);
        let format = if random.chance(50) { Format::Gpt } else { Format::Mbr };
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(format), true);
        let count = 1 + random.below(4);
        let mut at = [63, 34 + random.below(30), 2_049][usize::try_from(random.below(3)).unwrap()];
        for _ in 0..count {
            let sectors = 200 + random.below(size * 3 / 4 / count);
            let part = Part::new(Size::Sectors(sectors));
            request.parts.push(Part { start: Some(Place::Sector(at)), ..part });
            at += sectors + if random.chance(30) { random.below(100) } else { 0 };
        }
        let mut table = Memory::new(size * SECTOR as u64);
        plan_and_write(&mut table, "512e", &request).ok()?;
        let mut before = vec![0; usize::try_from(size).unwrap() * SECTOR];
        table.read_at(ByteOffset::ZERO, &mut before).unwrap();
        let stack = stack_of(&table, BlockSize::B512);
        for partition in &stack.partitions {
            let span = sectors(partition.span.start(), usize::try_from(partition.span.len().get()).unwrap());
            for word in before[span.start * SECTOR..span.end * SECTOR].chunks_mut(8) {
                word.copy_from_slice(&random.next().to_le_bytes());
            }
        }
        let topology = topology("512e");
        let situation = Situation { medium: &table, topology: &topology, stack: &stack, serial: None };
        match make(&situation, &Wanted::default()) {
            // There is none for the smallest journal.
            Ok(realign) if matches!(realign.journal, Journal::Elsewhere { .. }) => None,
            Ok(realign) => Some(Self { before, realign, old: Reading::of(&table, BlockSize::B512) }),
            Err(_) => None,
        }
    }

    /// The old and the new place of each partition.
    fn places(&self) -> Vec<(Span, Span)> {
        let plan = &self.realign.plan;
        let is = |number| plan.table.partitions.iter().find(|entry| entry.number == number).unwrap();
        let both = |was| (plan.span(was).unwrap(), plan.span(is(was.number)).unwrap());
        plan.before.iter().map(both).collect()
    }

    /// A sector that cannot be read: of a partition that moves. And one that cannot be written: where a partition
    /// goes, and no data are near.
    fn bad(&self, random: &mut Random) -> (Option<usize>, Option<usize>) {
        let all = |span: &Span| sectors(span.start(), usize::try_from(span.len().get()).unwrap());
        let draw = |random: &mut Random, range: Range<usize>| {
            range.start + usize::try_from(random.below(range.len() as u64)).unwrap()
        };
        let places = self.places();
        let (was, is) = places[usize::try_from(random.below(places.len() as u64)).unwrap()];
        match random.below(4) {
            0 => (Some(draw(random, all(&was))).filter(|_| was != is), None),
            1 => {
                let near = |bad: usize| {
                    places.iter().any(|(was, _)| {
                        let was = all(was);
                        (was.start.saturating_sub(8)..was.end + 8).contains(&bad)
                    })
                };
                (None, Some(draw(random, all(&is))).filter(|bad| !near(*bad)))
            }
            _ => (None, None),
        }
    }

    /// Whether the new table counts. Fails unless the contents of all partitions are there, but for what is
    /// listed.
    ///
    /// If the journal could not be removed any more (`None`), fillers count as listed.
    fn is_new(&self, disk: &Disk, listed: Option<&[Bad]>) -> bool {
        let mut table = Memory::new(disk.bytes.len() as u64);
        for (sector, bytes) in (0..)
            .zip(disk.bytes.chunks(SECTOR))
            .filter(|(sector, _)| *sector < 64 || *sector + 64 > (disk.bytes.len() / SECTOR) as u64)
        {
            table.put(sector * SECTOR as u64, bytes);
        }
        let found = Reading::of(&table, BlockSize::B512);
        let is_new = found.partitions != self.old.partitions;
        for (was, is) in self.places() {
            let place = if is_new { is } else { was };
            assert!(
                found.partitions.iter().any(|(_, start, ..)| *start == place.start().get()),
                "no partition at {place:?}: {found:?}"
            );
            let len = usize::try_from(is.len().get()).unwrap();
            for (now, then) in sectors(place.start(), len).zip(sectors(was.start(), len)) {
                let of = |bytes: &[u8], sector: usize| bytes[sector * SECTOR..][..SECTOR].to_vec();
                let one = |sector: usize| {
                    Span::new(ByteOffset::new((sector * SECTOR) as u64), ByteCount::new(SECTOR as u64))
                        .unwrap()
                };
                let is_listed = || {
                    let is_filler = of(&disk.bytes, now) == filler(one(then).start());
                    listed.map_or(is_filler, |list| list.iter().any(|bad| bad.from.overlaps(one(then))))
                };
                assert!(
                    of(&disk.bytes, now) == of(&self.before, then) || is_listed(),
                    "sector {then} of {was:?} is lost (new table: {is_new})"
                );
            }
        }
        is_new
    }
}

/// What a seed came to.
#[derive(Default)]
struct Ended {
    errors: u32,
    is_new: bool,
    listed: usize,
    persistent: bool,
}

/// The old layout counts, and no data have moved. The copies of a GPT differ (`plan --repair`), or an error has kept an
/// earlier attempt from removing what it left (`--wipe`).
fn is_left_over(error: &MoveError) -> bool {
    matches!(
        error,
        MoveError::Apply(ApplyError::OtherDisk(_)) | MoveError::Plan(RealignError::Occupied { .. })
    )
}

/// Begins or goes on until nothing is left to do.
fn persist(case: &Case, disk: &mut Disk, random: &mut Random) -> Ended {
    let mut ended = Ended::default();
    let (mut goes_back, mut is_over) = (false, false);
    let (mut listed, mut listed_before) = (Vec::new(), Vec::new());
    let on = &mut |_| ControlFlow::Continue(());
    for attempt in 0.. {
        assert!(attempt < 40, "no end");
        // A disk that fails for ever is replaced by a copy in the end.
        if attempt == 20 {
            (disk.unwritable, disk.unreadable) = (None, None);
        }
        let most = 1 << random.below(12);
        let fails = ended.errors < MOST_ERRORS && attempt < 10;
        *disk.left.get_mut() = if fails { random.below(most) } else { NEVER };
        goes_back |= random.chance(15);
        let skips = attempt > 3;
        let mut target = target(disk);
        // The list may be on a disk that is full: then the move is not over.
        let is_full = fails && random.chance(30);
        let mut kept = None;
        let list = &mut |bad: &[Bad]| {
            kept = Some(bad.to_vec());
            if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        };
        let result = match Run::find(&mut target, None) {
            Err(MoveError::Nothing) if is_over => break,
            Err(MoveError::Nothing) => {
                drop(target);
                if fails && *disk.left.get_mut() == NEVER {
                    // A copy of the table could not be read just now.
                    ended.errors += 1;
                    continue;
                }
                if attempt > 0 && case.is_new(disk, None) {
                    break;
                }
                goes_back = false;
                let mut target = common::target(disk);
                match case.realign.begin(&mut target, JournalPlace::Inside, [9; 16]) {
                    Ok(run) if skips => run.skip_bad().finish_listing(on, list),
                    Ok(run) => run.finish_listing(on, list),
                    Err(error) if attempt > 0 && is_left_over(&error) => break,
                    Err(error) => {
                        // It says what it could not make out, and does not begin.
                        let is_right = matches!(error.kind(), ErrorKind::Failed | ErrorKind::Refused);
                        assert!(is_right, "attempt {attempt}: {error:?}");
                        ended.errors += 1;
                        continue;
                    }
                }
            }
            Err(error) => Err(error),
            Ok(run) => {
                let run = if skips { run.skip_bad() } else { run };
                if goes_back { run.roll_back_listing(on, list) } else { run.finish_listing(on, list) }
            }
        };
        match result {
            Ok(Outcome::Complete(list)) => {
                assert_eq!(kept.as_ref(), Some(&list), "attempt {attempt}");
                (is_over, listed) = (true, list);
                listed.append(&mut listed_before);
            }
            Ok(Outcome::Paused) => panic!("nothing stops it"),
            Err(MoveError::Turned) => goes_back = true,
            Err(MoveError::Complete) => goes_back = false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Failed, "attempt {attempt}: {error}: {error:?}");
                ended.errors += 1;
                listed_before.extend(kept.take().filter(|_| !is_full).unwrap_or_default());
            }
        }
    }
    *disk.left.get_mut() = NEVER;
    ended.is_new = case.is_new(disk, is_over.then_some(&listed));
    ended.listed = listed.len();
    ended
}

fn run(seed: u64) -> Option<Ended> {
    let mut random = Random::new(seed);
    let case = Case::new(&mut random)?;
    let (unreadable, unwritable) = case.bad(&mut random);
    let mut disk = Disk {
        bytes: case.before.clone(),
        old: BTreeMap::new(),
        left: AtomicU64::new(NEVER),
        unreadable,
        unwritable,
        random: Random::new(seed ^ 1),
    };
    let ended = persist(&case, &mut disk, &mut random);
    Some(Ended { persistent: unreadable.or(unwritable).is_some(), ..ended })
}

#[test]
fn errors_lose_nothing() {
    if let Ok(seed) = std::env::var("FAULT_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let wanted = seeds("FAULTS", 60);
    let next = AtomicU64::new(seeds("FAULT_FROM", 0));
    let totals: [AtomicU64; 5] = Default::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while totals[0].load(Ordering::Relaxed) < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let Ok(ended) = std::panic::catch_unwind(|| run(seed)) else {
                        panic!("FAULT_SEED={seed} repeats it");
                    };
                    let Some(ended) = ended else { continue };
                    let counts = [
                        1,
                        ended.errors.into(),
                        u64::from(ended.is_new),
                        ended.listed as u64,
                        ended.persistent.into(),
                    ];
                    for (total, count) in totals.iter().zip(counts) {
                        total.fetch_add(count, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let [runs, errors, new, listed, persistent] = totals.map(AtomicU64::into_inner);
    println!(
        "{runs} runs ({persistent} with a bad sector), {errors} errors: {new} ended new, {} old; \
         {listed} spans could not be read and are listed",
        runs - new
    );
    assert!(errors > runs && new > runs / 4 && new < runs && listed > 0);
}
