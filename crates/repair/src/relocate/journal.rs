//! What the journal looks like, and what of it can be believed.
//!
//! It fills whole physical sectors (blocks), so that a torn one hits one part only:
//!
//! | blocks | contents |
//! |---|---|
//! | 1 | title: which format it is, and the length and the hash of the body |
//! | some | body: the job and the journal's place, as JSON in sectors with the journal's name and a hash |
//! | 2 | mark and its copy: the job is rolled back |
//! | 2 | mark and its copy: what was in flight when the rollback began is undone |
//! | some | list of what could not be read |
//! | 2 slots | 2 blocks for a record and its copy, the others for the bytes that it describes |
//! | some | body again |
//! | 1 | title again |
//!
//! Titles come last and go first: the body is durable before a title is written, and the records are removed
//! when the titles are durably gone. So a journal with a title is complete, and damaged only if something
//! other than a crash has damaged it. All other sectors but those that the windows save have the journal's name: its place,
//! and the hash of its title. So those of another journal in the same place are none, and what is left of one without
//! titles is distinguished from data.
//!
//! That nothing was recorded is recorded too: both slots begin with a record that says so, and a mark that is not
//! set says so. A crash leaves at least one slot with a record, and one copy of each mark. So a journal without
//! them was overwritten, and is not taken for one that has not begun. No crash damages a title or a body once both
//! are there: if one is, something else has written here, and each record, mark and block of the list must be there.

mod list;
mod part;
mod record;
mod removed;
mod whole;

use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};
use xxhash_rust::xxh3::Xxh3;

use crate::relocate::disk::{Disks, SECTOR};
use crate::relocate::error::{Device, RelocateError};
use crate::relocate::fault::{self, Fault};
use crate::relocate::job::{Job, LARGEST_PAYLOAD, MOST_MOVES, len_in_body};

pub(crate) use part::part_of;
pub(crate) use record::{Direction, Entry, Kind, Mark, Record, Saved};

const HASH: usize = 16;

/// An XXH3 of 128 bits. It detects crashes and faults, not forgery; a processor without instructions for
/// SHA-256 computes that more slowly than a disk reads.
pub(crate) type Hash = [u8; HASH];

const MAGIC: &[u8; 16] = b"straddle-relocat";
/// The format that this version writes and reads.
const FORMAT: u32 = 3;
/// The bytes of a title that mean something.
const TITLE: usize = 16 + 4 + 8 + HASH + HASH;
/// A record or a mark is written twice: a sector that is lost later must not hide it.
pub(crate) const COPIES: u64 = 2;
/// The blocks of the marks.
const MARKS: u64 = 2 * COPIES;
/// What else than a crash has damaged the journal.
const OVERWRITTEN: &str = "part of it was overwritten";
/// No body is longer: a payload and the most moves.
const LONGEST_BODY: u64 = (LARGEST_PAYLOAD * 2 + MOST_MOVES * 128 + 4096) as u64;

/// Hashes bytes that come in pieces.
#[derive(Default)]
pub(crate) struct Hasher(Xxh3);

impl Hasher {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> Hash {
        self.0.digest128().to_le_bytes()
    }
}

pub(crate) fn hash(bytes: &[u8]) -> Hash {
    xxhash_rust::xxh3::xxh3_128(bytes).to_le_bytes()
}

/// The hash of both, one behind the other.
pub(crate) fn hash_both(first: &[u8], second: &[u8]) -> Hash {
    let mut hasher = Hasher::default();
    hasher.add(first);
    hasher.add(second);
    hasher.finish()
}

/// A count of bytes in memory; what does not fit cannot be allocated.
pub(crate) fn in_memory(count: ByteCount) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    start: u64,
    len: u64,
    /// Whether the journal is on the disk whose data move.
    is_inside: bool,
    job: Job,
}

/// Where the parts of a journal are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    place: Span,
    block: u64,
    body: u64,
    /// The blocks of the list.
    list: u64,
    slot: u64,
}

impl Layout {
    fn new(place: Span, job: &Job, body: usize) -> Self {
        let block = job.blocks.size().get();
        let slot = COPIES * block + capacity(job);
        Self {
            place,
            block,
            body: blocks(part::sealed_len(body as u64), block),
            list: list::blocks(job),
            slot,
        }
    }

    fn needed(self) -> u64 {
        2 * (self.block + self.body) + (MARKS + self.list) * self.block + 2 * self.slot
    }

    fn behind_start(self, bytes: u64) -> ByteOffset {
        ByteOffset::new(self.place.start().get() + bytes)
    }

    fn before_end(self, bytes: u64) -> ByteOffset {
        ByteOffset::new(self.place.end().get() - bytes)
    }

    fn titles(self) -> [ByteOffset; 2] {
        [self.behind_start(0), self.before_end(self.block)]
    }

    fn bodies(self) -> [ByteOffset; 2] {
        [self.behind_start(self.block), self.before_end(self.block + self.body)]
    }

    /// Where a mark and its copy are.
    fn mark(self, mark: Mark) -> [ByteOffset; 2] {
        let first = 1 + COPIES * mark.index() as u64;
        [first, first + 1].map(|block| self.behind_start(self.block * block + self.body))
    }

    fn list(self, index: u64) -> ByteOffset {
        self.behind_start(self.block * (1 + MARKS + index) + self.body)
    }

    fn slot(self, slot: u64) -> ByteOffset {
        self.behind_start(self.block * (1 + MARKS + self.list) + self.body + slot * self.slot)
    }
}

/// `bytes` rounded up to whole blocks.
fn blocks(bytes: u64, block: u64) -> u64 {
    bytes.div_ceil(block) * block
}

/// The most bytes that a window of the job copies: two windows if it does not overlap its destination;
/// otherwise it and the distance, rounded out.
fn capacity(job: &Job) -> u64 {
    let (window, block) = (job.window.get(), job.blocks.size().get());
    let distance = |start: u64, to: u64| start.abs_diff(to);
    let farthest = job.moves.iter().map(|one| distance(one.from.start().get(), one.to.get())).max();
    let near = window + 2 * block + farthest.unwrap_or(0);
    blocks((2 * window).min(near), block)
}

/// A journal on its disk.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) job: Job,
    layout: Layout,
    device: Device,
    name: Name,
}

impl Journal {
    /// The number of bytes that the journal of `job` needs.
    ///
    /// `more` is the number of bytes by which the payload will be longer.
    pub(crate) fn needed(job: &Job, more: usize) -> Result<ByteCount, RelocateError> {
        let widest = Span::first(ByteCount::new(u64::MAX));
        let body = Body { start: u64::MAX, len: u64::MAX, is_inside: false, job: job.clone() }.encode()?;
        let len = body.len().saturating_add(len_in_body(more));
        Ok(ByteCount::new(Layout::new(widest, job, len).needed()))
    }

    /// Writes a new journal. There is none before it is complete and durable.
    pub(crate) fn create(disks: &mut Disks<'_>, place: Span, job: Job) -> Result<Self, RelocateError> {
        let device = disks.device_of_journal();
        let size = disks.get(Device::Data).size();
        if size != job.size {
            let why = format!("the disk has {} bytes, but the job is for {}", size.get(), job.size.get());
            return Err(RelocateError::Job(why));
        }
        check_place(disks, place, &job)?;
        let is_inside = disks.is_one();
        let (start, len) = (place.start().get(), place.len().get());
        let body = Body { start, len, is_inside, job: job.clone() }.encode()?;
        let layout = Layout::new(place, &job, body.len());
        disks.settle()?;
        for at in layout.titles() {
            if Title::read(disks, device, at)?.is_some() {
                return Err(RelocateError::Occupied(at));
            }
        }
        let name = name(place, &Title { body: body.len() as u64, hash: hash(&body) }.encode());
        let journal = Self { job, layout, device, name };
        if !fault::on(Fault::StaleRecords) {
            journal.clear(disks)?;
            disks.flush()?;
        }
        journal.complete(disks)?;
        Ok(journal)
    }

    /// Reads the journal at `place`; `None` if there is none. Writes nothing.
    pub(crate) fn read(disks: &mut Disks<'_>, place: Span) -> Result<Option<Self>, RelocateError> {
        let device = disks.device_of_journal();
        let disk = Span::first(disks.get(device).size());
        if !disk.contains(place) || place.len().get() < 2 * SECTOR {
            return Ok(None);
        }
        // A title begins a block. How large that is, the last one does not say; the grid of the smallest
        // blocks has it.
        let mut found: Option<Self> = None;
        let mut damaged = None;
        let mut intact = 0;
        for is_last in [false, true] {
            for block in (9..=20).map(|shift| 1_u64 << shift) {
                if block > place.len().get() || (!is_last && block > SECTOR) {
                    break;
                }
                let at = if is_last { place.end().get() - block } else { place.start().get() };
                // One of them is enough.
                let journal = match Title::read(disks, device, ByteOffset::new(at)) {
                    Ok(None) => continue,
                    Ok(Some(title)) => Self::behind(disks, place, title, is_last.then_some(at)),
                    Err(error) => Err(error),
                };
                match journal {
                    Ok(journal) if found.as_ref().is_some_and(|other| other.name != journal.name) => {
                        return Err(RelocateError::Damaged("its two headers differ".to_owned()));
                    }
                    Ok(journal) => {
                        found = Some(journal);
                        intact += 1;
                    }
                    Err(error) => damaged = Some(error),
                }
            }
        }
        match (found, damaged) {
            (Some(journal), _) if intact < 2 => journal.check_whole(disks).map(|()| Some(journal)),
            (Some(journal), _) => Ok(Some(journal)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    /// The journal that a title belongs to. `last` is where the title is, if it is the one at the end.
    fn behind(
        disks: &mut Disks<'_>,
        place: Span,
        title: Result<Title, u32>,
        last: Option<u64>,
    ) -> Result<Self, RelocateError> {
        let damaged = |what: &str| RelocateError::Damaged(what.to_owned());
        let title = title.map_err(RelocateError::Version)?;
        let device = disks.device_of_journal();
        if title.body > LONGEST_BODY || part::sealed_len(title.body) > place.len().get() {
            return Err(damaged("its header is too long"));
        }
        // The body begins a block behind the first title, or ends where the last one begins; blocks are not
        // known yet, but are what the job says.
        let len = part::sealed_len(title.body);
        let mut found = None;
        let mut block = SECTOR;
        while found.is_none() && block <= (1 << 20).min(place.len().get()) {
            let at = match last {
                None => place.start().get() + block,
                Some(last) => last.saturating_sub(blocks(len, block)),
            };
            let is_there = last.is_none_or(|last| last == place.end().get() - block);
            if at.saturating_add(len) <= place.end().get() {
                let body = title.body_at(disks, ByteOffset::new(at))?;
                found = body.filter(|body| is_there && body.job.blocks.size().get() == block);
            }
            block *= 2;
        }
        let Some(Body { start, len, is_inside, job }) = found else {
            return Err(damaged("its header does not match its hash"));
        };
        if start != place.start().get() || len != place.len().get() || is_inside != disks.is_one() {
            return Err(RelocateError::Foreign(format!("it was made for {len} bytes at byte {start}")));
        }
        let (made, found) = (job.size, disks.get(Device::Data).size());
        if found != made {
            return Err(RelocateError::OtherSize { made, found });
        }
        check_place(disks, place, &job)?;
        let layout = Layout::new(place, &job, in_memory(ByteCount::new(title.body)));
        let name = name(place, &title.encode());
        Ok(Self { job, layout, device, name })
    }

    /// The place that the journal whose first or last title is at `at` names as its own, if its body is intact.
    pub(crate) fn located(disks: &mut Disks<'_>, at: ByteOffset) -> Option<Span> {
        let device = disks.device_of_journal();
        let title = Title::read(disks, device, at).ok()??.ok()?;
        if title.body > LONGEST_BODY {
            return None;
        }
        let len = part::sealed_len(title.body);
        let all = Span::first(disks.get(device).size());
        let is_on_disk = |start: &u64| {
            Span::new(ByteOffset::new(*start), ByteCount::new(len)).is_some_and(|span| all.contains(span))
        };
        for block in (9..=20).map(|shift| 1_u64 << shift) {
            let behind = at.get().checked_add(block);
            let before = at.get().checked_sub(blocks(len, block));
            for start in [behind, before].into_iter().flatten().filter(is_on_disk) {
                let Ok(Some(body)) = title.body_at(disks, ByteOffset::new(start)) else { continue };
                let place = Span::new(ByteOffset::new(body.start), ByteCount::new(body.len))?;
                // Smaller blocks may lead to the same body.
                let last = place.end().get().checked_sub(body.job.blocks.size().get());
                let is_title = place.start() == at || last == Some(at.get());
                return Some(place).filter(|_| is_title);
            }
        }
        None
    }

    fn padded(&self, bytes: &[u8]) -> Vec<u8> {
        let mut block = bytes.to_vec();
        block.resize(self.block(), 0);
        block
    }

    pub(crate) fn block(&self) -> usize {
        usize::try_from(self.layout.block).unwrap_or(usize::MAX)
    }

    /// The bytes that a record and its copy fill.
    pub(crate) fn lead(&self) -> usize {
        self.block() * usize::try_from(COPIES).unwrap_or(usize::MAX)
    }

    /// Writes a record; `bytes` has room for it in its first [`lead`](Self::lead) bytes, and what it
    /// describes behind. Does not flush.
    pub(crate) fn append(
        &self,
        disks: &mut Disks<'_>,
        record: &Record,
        bytes: &mut [u8],
    ) -> Result<(), RelocateError> {
        let block = self.padded(&record.encode(self.name));
        for copy in bytes[..self.lead()].chunks_mut(self.block()) {
            copy.copy_from_slice(&block);
        }
        disks.write(self.device, self.layout.slot(record.slot()), bytes)
    }

    /// Reads back what was written, durably, and decides what comes next: a drive may lose a write without an error.
    fn confirm(&self, disks: &mut Disks<'_>, at: ByteOffset, bytes: &[u8]) -> Result<(), RelocateError> {
        let len = ByteCount::new(bytes.len() as u64);
        Span::new(at, len).into_iter().for_each(|span| disks.get(self.device).drop_cache(span));
        let mut found = vec![0; bytes.len()];
        disks.read(self.device, at, &mut found)?;
        if found == bytes { Ok(()) } else { Err(RelocateError::Changed { at, len }) }
    }

    /// Writes the record of the end, durably, and reads it back.
    pub(crate) fn end(
        &self,
        disks: &mut Disks<'_>,
        direction: Direction,
        count: u64,
    ) -> Result<(), RelocateError> {
        let record = Record { direction, number: count, kind: Kind::End };
        let mut both = vec![0; self.lead()];
        self.append(disks, &record, &mut both)?;
        disks.flush()?;
        self.confirm(disks, self.layout.slot(record.slot()), &both)
    }

    /// The records of `direction`, the last one first. One whose bytes are not what it says has none.
    pub(crate) fn records(
        &self,
        disks: &mut Disks<'_>,
        direction: Direction,
    ) -> Result<Vec<Entry>, RelocateError> {
        let mut entries = Vec::new();
        let mut found = 0;
        for slot in [0, 1] {
            let Some(record) = self.record(disks, slot)? else { continue };
            found += 1;
            let is_here = record.slot() == slot || fault::on(Fault::OneSlot);
            if record.kind == Kind::Start || record.direction != direction || !is_here {
                continue;
            }
            let mut entry = Entry { record, saved: None };
            if let Some(saved) = record.saved() {
                if saved.len > self.layout.slot - COPIES * self.layout.block {
                    return Err(RelocateError::Damaged("a record is too long".to_owned()));
                }
                let mut bytes = vec![0; in_memory(ByteCount::new(saved.len))];
                let at = self.layout.slot(slot).get() + COPIES * self.layout.block;
                disks.read(self.device, ByteOffset::new(at), &mut bytes)?;
                entry.saved = record.matches(&bytes).then_some(bytes);
            }
            entries.push(entry);
        }
        if found == 0 {
            return Err(RelocateError::Damaged(OVERWRITTEN.to_owned()));
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.record.number));
        Ok(entries)
    }

    /// The record in a slot: of two that differ, the later one. `None` if a crash has torn both.
    fn record(&self, disks: &mut Disks<'_>, slot: u64) -> Result<Option<Record>, RelocateError> {
        let at = self.layout.slot(slot).get();
        let copies = [0, 1].map(|copy| ByteOffset::new(at + copy * self.layout.block));
        let found = self.decoded(disks, copies, |sector| Record::decode(sector, self.name))?;
        let order = |record: &Record| {
            (record.direction == Direction::Back, record.kind != Kind::Start, record.number)
        };
        Ok(found.into_iter().max_by_key(order))
    }

    /// What was read of a sector and its copy. An error if one of them cannot be read, and the other is none.
    fn decoded<T>(
        &self,
        disks: &mut Disks<'_>,
        copies: [ByteOffset; 2],
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, RelocateError> {
        let (mut found, mut failed) = (Vec::new(), None);
        for at in copies {
            let mut sector = vec![0; in_memory(ByteCount::new(SECTOR))];
            match disks.read(self.device, at, &mut sector) {
                Ok(()) => found.extend(decode(&sector)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Sets a mark, durably: what comes behind it is based on it. A crash tears one copy at most, as the other one is
    /// there: one that is missing is written first, and one that is set is not written again.
    pub(crate) fn set(&self, disks: &mut Disks<'_>, mark: Mark, done: u64) -> Result<(), RelocateError> {
        let block = self.padded(&mark.encode(Some(done), self.name));
        let copies = self.layout.mark(mark).map(|at| {
            let found = self.decoded(disks, [at, at], |sector| mark.decode(sector, self.name));
            (found.ok().and_then(|found| found.first().copied()), at)
        });
        let mut unset: Vec<_> = copies.into_iter().filter(|(found, _)| *found != Some(Some(done))).collect();
        unset.sort_by_key(|(found, _)| found.is_some());
        for (_, at) in unset {
            disks.write(self.device, at, &block)?;
            disks.flush()?;
            self.confirm(disks, at, &block)?;
        }
        Ok(())
    }

    /// The number of windows that a mark says had been moved; `None` if it is not set.
    pub(crate) fn mark(&self, disks: &mut Disks<'_>, mark: Mark) -> Result<Option<u64>, RelocateError> {
        let copies = self.layout.mark(mark);
        let found = self.decoded(disks, copies, |sector| mark.decode(sector, self.name))?;
        match found.iter().flatten().max() {
            None if found.is_empty() => Err(RelocateError::Damaged(OVERWRITTEN.to_owned())),
            done => Ok(done.copied()),
        }
    }
}

/// Whether a journal for `job` may be at `place`.
fn check_place(disks: &mut Disks<'_>, place: Span, job: &Job) -> Result<(), RelocateError> {
    let refuse = |why: &str| Err(RelocateError::Place(why.to_owned()));
    let device = disks.device_of_journal();
    if !Span::first(disks.get(device).size()).contains(place) {
        return refuse("it reaches beyond the disk");
    }
    // Another disk is taken to have sectors of the same size, from its start on.
    let block = job.blocks.size();
    let blocks = if disks.is_one() { Some(job.blocks) } else { Boundary::multiples_of(block) };
    if !blocks.is_some_and(|blocks| blocks.is_aligned(place.start()) && blocks.is_aligned(place.end())) {
        return refuse("it does not begin and end with a physical sector");
    }
    let needed = Journal::needed(job, 0)?;
    if place.len() < needed {
        let why = format!("it has {} bytes, but {} are needed", place.len().get(), needed.get());
        return Err(RelocateError::Place(why));
    }
    let spans = job.moves.iter().flat_map(|one| [Some(one.from), one.destination()]).flatten();
    if disks.is_one() && spans.into_iter().any(|span| job.round_out(span).overlaps(place)) {
        return refuse("it overlaps a move");
    }
    Ok(())
}

impl Body {
    fn encode(&self) -> Result<Vec<u8>, RelocateError> {
        serde_json::to_vec(self).map_err(|error| RelocateError::Job(error.to_string()))
    }
}

/// What begins a journal and ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Title {
    body: u64,
    hash: Hash,
}

/// Whether a sector begins as the title of a journal does.
pub fn is_title(sector: &[u8]) -> bool {
    sector.starts_with(MAGIC)
}

/// What its parts call a journal by: the start and the length of its place, and the hash of its title.
type Name = [u8; NAME];
const NAME: usize = 8 + 8 + HASH;

fn name(place: Span, title: &[u8]) -> Name {
    let mut name = [0; NAME];
    name[..8].copy_from_slice(&place.start().get().to_le_bytes());
    name[8..16].copy_from_slice(&place.len().get().to_le_bytes());
    name[16..].copy_from_slice(&hash(title));
    name
}

impl Title {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.body.to_le_bytes());
        bytes.extend(self.hash);
        bytes.extend(hash(&bytes));
        bytes
    }

    /// The body at `at`, if it is the one of this title.
    fn body_at(&self, disks: &mut Disks<'_>, at: ByteOffset) -> Result<Option<Body>, RelocateError> {
        let mut bytes = vec![0; in_memory(ByteCount::new(part::sealed_len(self.body)))];
        disks.read(disks.device_of_journal(), at, &mut bytes)?;
        let text = part::unsealed(&bytes, in_memory(ByteCount::new(self.body)));
        Ok((hash(&text) == self.hash).then(|| serde_json::from_slice(&text).ok()).flatten())
    }

    /// The title at `at`, or its format if that is another one; `None` if there is none.
    fn read(
        disks: &mut Disks<'_>,
        device: Device,
        at: ByteOffset,
    ) -> Result<Option<Result<Self, u32>>, RelocateError> {
        let mut sector = vec![0; in_memory(ByteCount::new(SECTOR))];
        disks.read(device, at, &mut sector)?;
        if !is_title(&sector) {
            return Ok(None);
        }
        let mut reader = record::Reader(&sector[16..TITLE]);
        let format = u32::from_le_bytes(reader.take());
        if format != FORMAT {
            return Ok(Some(Err(format)));
        }
        let title = Self { body: u64::from_le_bytes(reader.take()), hash: reader.take() };
        if hash(&sector[..TITLE - HASH]) != reader.take::<HASH>() {
            return Err(RelocateError::Damaged("a title does not match its hash".to_owned()));
        }
        Ok(Some(Ok(title)))
    }
}
