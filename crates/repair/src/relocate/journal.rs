//! The format of the journal.
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
//! when the titles are durably gone. So a journal with a title is complete, and only something other than a
//! crash damages it. All other sectors but those that the windows save have the journal's name: its place,
//! and the hash of its title. So no sector of another journal in the same place is taken for one of this.
//!
//! That nothing was recorded or marked is recorded too. A crash leaves at least one slot with a record, and
//! one copy of each mark. So a journal without them was overwritten, and is not taken for one that has not
//! begun. No crash damages a title or a body once both are there: if one is damaged, each record, mark and
//! block of the list must be there.

mod record;
mod whole;

use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Device, Disks, Fault, Job, LARGEST_PAYLOAD, MOST_MOVES, RelocateError, Result, SECTOR, SECTOR_LEN, Skip,
    len_in_body,
};
pub(crate) use record::{Direction, Entry, Kind, Mark, Record, Saved, part_of};
use record::{sealed, sealed_len, unsealed};

const HASH: usize = 16;

/// XXH3 detects crashes and faults, not forgery. SHA-256 without special instructions is slower than a disk.
pub(crate) type Hash = [u8; HASH];

const MAGIC: &[u8; 16] = b"straddle-relocat";
const FORMAT: u32 = 3;
/// Magic, format, length of the body, and two hashes.
const TITLE: usize = 16 + 4 + 8 + HASH + HASH;
/// Records and marks are written twice: a sector that is lost later must not hide one.
pub(crate) const COPIES: u64 = 2;
const MARKS: u64 = 2 * COPIES;
/// The longest body: a payload and the most moves.
const LONGEST_BODY: u64 = (LARGEST_PAYLOAD * 2 + MOST_MOVES * 128 + 4096) as u64;

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

pub(crate) fn hash_both(first: &[u8], second: &[u8]) -> Hash {
    let mut hasher = Hasher::default();
    hasher.add(first);
    hasher.add(second);
    hasher.finish()
}

fn overwritten() -> RelocateError {
    RelocateError::damaged("part of the journal was overwritten")
}

fn block_sizes() -> impl Iterator<Item = u64> {
    (9..=20).map(|shift| 1 << shift)
}

pub(crate) fn in_memory(count: ByteCount) -> usize {
    usize::try_from(count.get()).unwrap_or(usize::MAX)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    start: u64,
    len: u64,
    is_inside: bool,
    job: Job,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    place: Span,
    block: u64,
    body: u64,
    list: u64,
    slot: u64,
}

impl Layout {
    fn new(place: Span, job: &Job, body: usize) -> Self {
        let block = job.blocks.size().get();
        let slot = COPIES * block + capacity(job);
        let body = blocks(sealed_len(body as u64), block);
        Self { place, block, body, list: record::blocks(job), slot }
    }

    fn needed(self) -> u64 {
        2 * (self.block + self.body) + (MARKS + self.list) * self.block + 2 * self.slot
    }

    fn after_start(self, bytes: u64) -> ByteOffset {
        ByteOffset::new(self.place.start().get() + bytes)
    }

    fn before_end(self, bytes: u64) -> ByteOffset {
        ByteOffset::new(self.place.end().get() - bytes)
    }

    fn titles(self) -> [ByteOffset; 2] {
        [self.after_start(0), self.before_end(self.block)]
    }

    fn bodies(self) -> [ByteOffset; 2] {
        [self.after_start(self.block), self.before_end(self.block + self.body)]
    }

    fn mark(self, mark: Mark) -> [ByteOffset; 2] {
        let first = 1 + COPIES * mark as u64;
        [first, first + 1].map(|block| self.after_start(self.block * block + self.body))
    }

    fn list(self, index: u64) -> ByteOffset {
        self.after_start(self.block * (1 + MARKS + index) + self.body)
    }

    fn slot(self, slot: u64) -> ByteOffset {
        self.after_start(self.block * (1 + MARKS + self.list) + self.body + slot * self.slot)
    }

    fn records(self, slot: u64) -> [ByteOffset; 2] {
        [0, 1].map(|copy| ByteOffset::new(self.slot(slot).get() + copy * self.block))
    }

    fn saved(self, slot: u64) -> ByteOffset {
        ByteOffset::new(self.slot(slot).get() + COPIES * self.block)
    }
}

fn blocks(bytes: u64, block: u64) -> u64 {
    bytes.div_ceil(block) * block
}

/// Two windows if one does not overlap its destination; otherwise it and the distance, rounded out.
fn capacity(job: &Job) -> u64 {
    let (window, block) = (job.window.get(), job.blocks.size().get());
    let farthest = job.moves.iter().map(|one| one.from.start().get().abs_diff(one.to.get())).max();
    let near = window + 2 * block + farthest.unwrap_or(0);
    blocks((2 * window).min(near), block)
}

#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) job: Job,
    layout: Layout,
    device: Device,
    name: Name,
}

/// The size of the journal that `job` needs.
pub fn journal_len(job: &Job) -> Result<ByteCount> {
    journal_len_with(job, 0)
}

/// The same for a payload that is longer by `more` bytes.
pub fn journal_len_with(job: &Job, more: usize) -> Result<ByteCount> {
    let widest = Span::first(ByteCount::new(u64::MAX));
    let body = encode_body((u64::MAX, u64::MAX), false, job)?;
    let len = body.len().saturating_add(len_in_body(more));
    Ok(ByteCount::new(Layout::new(widest, job, len).needed()))
}

impl Journal {
    pub(crate) fn create(disks: &mut Disks<'_>, place: Span, job: Job) -> Result<Self> {
        let device = disks.device_of_journal();
        let size = disks.get(Device::Data).size();
        if size != job.size {
            let why = format!(
                "the disk has {} bytes, but the moves are for a disk of {}",
                size.get(),
                job.size.get()
            );
            return Err(RelocateError::Job(why));
        }
        check_place(disks, place, &job)?;
        let body = encode_body((place.start().get(), place.len().get()), disks.is_one(), &job)?;
        let layout = Layout::new(place, &job, body.len());
        disks.settle()?;
        for at in layout.titles() {
            match Title::read(disks, device, at) {
                Ok(None) => {}
                Ok(Some(_)) | Err(RelocateError::Version(_)) => return Err(RelocateError::Occupied(at)),
                Err(error) => return Err(error),
            }
        }
        let name = name(place, &Title::of(&body).encode());
        let journal = Self { job, layout, device, name };
        if !Fault::StaleRecords.is_planted() {
            journal.clear(disks)?;
            disks.flush()?;
        }
        journal.complete(disks)?;
        Ok(journal)
    }

    pub(crate) fn read(disks: &mut Disks<'_>, place: Span) -> Result<Option<Self>> {
        let device = disks.device_of_journal();
        let disk = Span::first(disks.get(device).size());
        if !disk.contains(place) || place.len().get() < 2 * SECTOR {
            return Ok(None);
        }
        // A title begins a block. Where the last one is depends on the size of the blocks.
        let (start, end) = (place.start().get(), place.end().get());
        let lasts = block_sizes().take_while(|block| *block <= place.len().get());
        let (mut found, mut damaged, mut intact) = (None::<Self>, None, 0);
        for (at, block) in [(start, None)].into_iter().chain(lasts.map(|block| (end - block, Some(block)))) {
            // One of them is enough.
            let journal = match Title::read(disks, device, ByteOffset::new(at)) {
                Ok(None) => continue,
                Ok(Some(title)) => Self::of_title(disks, place, title, block),
                Err(error) => Err(error),
            };
            match journal {
                Ok(journal) if found.as_ref().is_some_and(|other| other.name != journal.name) => {
                    return Err(RelocateError::damaged("the two headers of the journal differ"));
                }
                Ok(journal) => {
                    found = Some(journal);
                    intact += 1;
                }
                Err(error) => damaged = Some(error),
            }
        }
        match (found, damaged) {
            (Some(journal), _) if intact < 2 => journal.check_whole(disks).map(|()| Some(journal)),
            (Some(journal), _) => Ok(Some(journal)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    fn of_title(disks: &mut Disks<'_>, place: Span, title: Title, last: Option<u64>) -> Result<Self> {
        let device = disks.device_of_journal();
        if title.body > LONGEST_BODY || sealed_len(title.body) > place.len().get() {
            return Err(RelocateError::damaged("the header of the journal is too long"));
        }
        let (start, end, len) = (place.start().get(), place.end().get(), sealed_len(title.body));
        let bodies: Vec<(u64, u64)> = match last {
            None => block_sizes().map(|block| (block, start + block)).collect(),
            Some(block) => vec![(block, (end - block).saturating_sub(blocks(len, block)))],
        };
        let mut found = None;
        for (block, at) in bodies.into_iter().filter(|(_, at)| at.saturating_add(len) <= end) {
            let body = title.body_at(disks, ByteOffset::new(at))?;
            found = body.filter(|body| body.job.blocks.size().get() == block);
            if found.is_some() {
                break;
            }
        }
        let Some(Body { start, len, is_inside, job }) = found else {
            return Err(RelocateError::damaged("the header of the journal does not match its hash"));
        };
        if start != place.start().get() || len != place.len().get() || is_inside != disks.is_one() {
            return Err(RelocateError::Foreign(format!(
                "the journal was made for {len} bytes at byte {start}"
            )));
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

    /// As the title at `at` names it, if its body is intact.
    pub(crate) fn located(disks: &mut Disks<'_>, at: ByteOffset) -> Option<Span> {
        let device = disks.device_of_journal();
        let title = Title::read(disks, device, at).ok()?.filter(|title| title.body <= LONGEST_BODY)?;
        let len = sealed_len(title.body);
        let all = Span::first(disks.get(device).size());
        let is_on_disk = |start: &u64| {
            Span::new(ByteOffset::new(*start), ByteCount::new(len)).is_some_and(|span| all.contains(span))
        };
        for block in block_sizes() {
            let after = at.get().checked_add(block);
            let before = at.get().checked_sub(blocks(len, block));
            for start in [after, before].into_iter().flatten().filter(is_on_disk) {
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

    pub(crate) fn lead(&self) -> usize {
        self.block() * usize::try_from(COPIES).unwrap_or(usize::MAX)
    }

    /// `bytes` has room for the record in its first [`lead`](Self::lead) bytes. Does not flush.
    pub(crate) fn append(&self, disks: &mut Disks<'_>, record: &Record, bytes: &mut [u8]) -> Result<()> {
        let block = self.padded(&record.encode(self.name));
        for copy in bytes[..self.lead()].chunks_mut(self.block()) {
            copy.copy_from_slice(&block);
        }
        disks.write(self.device, self.layout.slot(record.slot()), bytes)
    }

    /// Reads back what was written, durably: a drive may lose a write without an error.
    fn confirm(&self, disks: &mut Disks<'_>, at: ByteOffset, bytes: &[u8]) -> Result<()> {
        let len = ByteCount::new(bytes.len() as u64);
        Span::new(at, len).into_iter().for_each(|span| disks.get(self.device).drop_cache(span));
        let mut found = vec![0; bytes.len()];
        disks.read(self.device, at, &mut found)?;
        if found == bytes { Ok(()) } else { Err(RelocateError::Changed { at, len }) }
    }

    pub(crate) fn end(&self, disks: &mut Disks<'_>, direction: Direction, count: u64) -> Result<()> {
        let record = Record { direction, number: count, kind: Kind::End };
        let mut both = vec![0; self.lead()];
        self.append(disks, &record, &mut both)?;
        disks.flush()?;
        self.confirm(disks, self.layout.slot(record.slot()), &both)
    }

    /// The last one first. One whose bytes are not what it says has none.
    pub(crate) fn records(&self, disks: &mut Disks<'_>, direction: Direction) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut found = 0;
        for slot in [0, 1] {
            let Some(record) = self.record(disks, slot)? else { continue };
            found += 1;
            let is_here = record.slot() == slot || Fault::OneSlot.is_planted();
            if record.kind == Kind::Start || record.direction != direction || !is_here {
                continue;
            }
            let mut entry = Entry { record, saved: None };
            if let Some(saved) = record.saved() {
                if saved.len > self.layout.slot - COPIES * self.layout.block {
                    return Err(RelocateError::damaged("a record of the journal is too long"));
                }
                let mut bytes = vec![0; in_memory(ByteCount::new(saved.len))];
                disks.read(self.device, self.layout.saved(slot), &mut bytes)?;
                entry.saved = record.matches(&bytes).then_some(bytes);
            }
            entries.push(entry);
        }
        if found == 0 {
            return Err(overwritten());
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.record.number));
        Ok(entries)
    }

    /// Of two that differ, the later one. `None` if a crash has torn both.
    fn record(&self, disks: &mut Disks<'_>, slot: u64) -> Result<Option<Record>> {
        let copies = self.layout.records(slot);
        let found = self.decoded(disks, copies, |sector| Record::decode(sector, self.name))?;
        let order = |record: &Record| {
            (record.direction == Direction::Back, record.kind != Kind::Start, record.number)
        };
        Ok(found.into_iter().max_by_key(order))
    }

    /// An error if one of the two cannot be read, and the other holds nothing.
    fn decoded<T>(
        &self,
        disks: &mut Disks<'_>,
        copies: [ByteOffset; 2],
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let (mut found, mut failed) = (Vec::new(), None);
        for at in copies {
            let mut sector = [0; SECTOR_LEN];
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

    /// A crash tears one copy of a mark at most: a missing one is written first, a set one not again.
    pub(crate) fn set(&self, disks: &mut Disks<'_>, mark: Mark, done: u64) -> Result<()> {
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

    /// How many windows had been moved; `None` if it is not set.
    pub(crate) fn mark(&self, disks: &mut Disks<'_>, mark: Mark) -> Result<Option<u64>> {
        let copies = self.layout.mark(mark);
        let found = self.decoded(disks, copies, |sector| mark.decode(sector, self.name))?;
        match found.iter().flatten().max() {
            None if found.is_empty() => Err(overwritten()),
            done => Ok(done.copied()),
        }
    }
}

fn check_place(disks: &mut Disks<'_>, place: Span, job: &Job) -> Result<()> {
    let refuse = |why: &str| Err(RelocateError::Place(why.to_owned()));
    let device = disks.device_of_journal();
    if !Span::first(disks.get(device).size()).contains(place) {
        return refuse("its space extends past the end of the disk");
    }
    // Another disk is taken to have sectors of the same size, from its start on.
    let block = job.blocks.size();
    let blocks = if disks.is_one() { Some(job.blocks) } else { Boundary::multiples_of(block) };
    if !blocks.is_some_and(|blocks| blocks.is_aligned(place.start()) && blocks.is_aligned(place.end())) {
        return refuse("its space does not begin and end on physical sector boundaries");
    }
    let needed = journal_len(job)?;
    if place.len() < needed {
        let why = format!("its space has {} bytes, but {} are needed", place.len().get(), needed.get());
        return Err(RelocateError::Place(why));
    }
    let mut spans = job.moves.iter().flat_map(|one| one.spans());
    if disks.is_one() && spans.any(|span| job.round_out(span).overlaps(place)) {
        return refuse("its space overlaps a move");
    }
    Ok(())
}

fn encode_body((start, len): (u64, u64), is_inside: bool, job: &Job) -> Result<Vec<u8>> {
    let body = Body { start, len, is_inside, job: job.clone() };
    serde_json::to_vec(&body).map_err(|error| RelocateError::Job(error.to_string()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Title {
    body: u64,
    hash: Hash,
}

/// Whether a sector begins as the title of a journal does.
pub fn is_title(sector: &[u8]) -> bool {
    sector.starts_with(MAGIC)
}

/// The start and the length of its place, and the hash of its title.
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
    fn of(body: &[u8]) -> Self {
        Self { body: body.len() as u64, hash: hash(body) }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(self.body.to_le_bytes());
        bytes.extend(self.hash);
        bytes.extend(hash(&bytes));
        bytes
    }

    fn body_at(&self, disks: &mut Disks<'_>, at: ByteOffset) -> Result<Option<Body>> {
        let mut bytes = vec![0; in_memory(ByteCount::new(sealed_len(self.body)))];
        disks.read(disks.device_of_journal(), at, &mut bytes)?;
        let text = unsealed(&bytes, in_memory(ByteCount::new(self.body)));
        Ok((hash(&text) == self.hash).then(|| serde_json::from_slice(&text).ok()).flatten())
    }

    fn read(disks: &mut Disks<'_>, device: Device, at: ByteOffset) -> Result<Option<Self>> {
        let mut sector = [0; SECTOR_LEN];
        disks.read(device, at, &mut sector)?;
        if !is_title(&sector) {
            return Ok(None);
        }
        let mut reader = record::Reader(&sector[MAGIC.len()..TITLE]);
        let format = u32::from_le_bytes(reader.take());
        if format != FORMAT {
            return Err(RelocateError::Version(format));
        }
        let title = Self { body: reader.number(), hash: reader.take() };
        if hash(&sector[..TITLE - HASH]) != reader.take::<HASH>() {
            return Err(RelocateError::damaged(
                "the first or last block of the journal does not match its hash",
            ));
        }
        Ok(Some(title))
    }
}
