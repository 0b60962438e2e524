//! Records, marks and bodies: sectors that begin with a magic and the journal's name, and have a hash of that and
//! their contents. The rest is zeros. So no other program's bytes are taken for a part of a journal.
//!
//! The list has what could not be read. Each block is empty at first, and written once after that, so that a torn one
//! hides no other: magic, name, number of entries, entries (where, how much, and where to) and hash.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Disks, Fault, HASH, Hash, Job, Journal, NAME, Name, Result, Skip, hash, hash_both, in_memory};
use crate::relocate::{Bad, SECTOR, SECTOR_LEN, normal};

const RECORD: &[u8; 8] = b"relorec1";
const MARKS: [&[u8; 8]; 2] = [b"reloturn", b"reloundo"];
const BODY: &[u8; 8] = b"relobody";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A window is about to be written; its bytes are intact at their source.
    Direct { moved: Hash },
    /// A window is about to be written; its bytes, and those that it overwrites, follow the record.
    Copied { moved: Hash, saved: Saved },
    /// All windows have been written and are durable.
    End,
    /// Nothing: both slots have it when the journal is made.
    Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) len: u64,
    /// Where the window's bytes begin, and how many they are.
    pub(crate) at: u64,
    pub(crate) moved: u64,
    /// Of all other bytes.
    pub(crate) rest: Hash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) direction: Direction,
    /// The number of all windows at the end.
    pub(crate) number: u64,
    pub(crate) kind: Kind,
}

/// The bytes that follow a record are present if they match it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) saved: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Turned,
    Undone,
}

/// There are enough bytes for each field.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = straddle_device::fields::array(self.0, 0);
        self.0 = self.0.get(N..).unwrap_or_default();
        field
    }

    pub(super) fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

fn checked(sector: &[u8], len: usize) -> Option<&[u8]> {
    let (bytes, stored) = (sector.get(..len)?, sector.get(len..len + HASH)?);
    (hash(bytes)[..] == *stored).then_some(bytes)
}

/// Magic, name, whether it is set, and for how many windows.
const MARK: usize = 8 + NAME + 8 + 8;
/// Magic, name, direction, kind, number, hash, 3 numbers, hash.
const LENGTH: usize = 8 + NAME + 1 + 1 + 8 + HASH + 3 * 8 + HASH;
const LEAD: usize = 8 + NAME;
const TEXT: usize = SECTOR_LEN - LEAD - HASH;

impl Record {
    pub(crate) fn slot(&self) -> u64 {
        if Fault::OneSlot.is_planted() { 0 } else { self.number & 1 }
    }

    pub(crate) fn moved(&self) -> Option<Hash> {
        match self.kind {
            Kind::Direct { moved } | Kind::Copied { moved, .. } => Some(moved),
            Kind::End | Kind::Start => None,
        }
    }

    pub(crate) fn saved(&self) -> Option<Saved> {
        match self.kind {
            Kind::Copied { saved, .. } => Some(saved),
            Kind::Direct { .. } | Kind::End | Kind::Start => None,
        }
    }

    pub(super) fn matches(&self, bytes: &[u8]) -> bool {
        let Kind::Copied { moved, saved } = self.kind else { return false };
        let [at, len] = [saved.at, saved.moved].map(|number| in_memory(ByteCount::new(number)));
        let Some(end) = at.checked_add(len) else { return false };
        let Some(window) = bytes.get(at..end) else { return false };
        hash(window) == moved && hash_both(&bytes[..at], &bytes[end..]) == saved.rest
    }

    pub(super) fn encode(&self, name: Name) -> Vec<u8> {
        let mut bytes = RECORD.to_vec();
        bytes.extend(name);
        bytes.push(u8::from(self.direction == Direction::Back));
        let none = Saved { len: 0, at: 0, moved: 0, rest: [0; HASH] };
        bytes.push(match self.kind {
            Kind::Direct { .. } => 0,
            Kind::Copied { .. } => 1,
            Kind::End => 2,
            Kind::Start => 3,
        });
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.moved().unwrap_or_default());
        let saved = self.saved().unwrap_or(none);
        for number in [saved.len, saved.at, saved.moved] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(saved.rest);
        bytes.extend(hash(&bytes));
        bytes
    }

    pub(super) fn decode(sector: &[u8], name: Name) -> Option<Self> {
        let mut reader = Reader(checked(sector, LENGTH)?);
        if reader.take() != *RECORD || reader.take() != name {
            return None;
        }
        let [direction, kind] = reader.take();
        let (number, moved) = (reader.number(), reader.take());
        let saved =
            Saved { len: reader.number(), at: reader.number(), moved: reader.number(), rest: reader.take() };
        let direction = match direction {
            0 => Direction::Forward,
            1 => Direction::Back,
            _ => return None,
        };
        let kind = match kind {
            0 => Kind::Direct { moved },
            1 => Kind::Copied { moved, saved },
            2 => Kind::End,
            3 => Kind::Start,
            _ => return None,
        };
        Some(Self { direction, number, kind })
    }
}

impl Mark {
    pub(super) const ALL: [Self; 2] = [Self::Turned, Self::Undone];

    pub(super) fn encode(self, done: Option<u64>, name: Name) -> Vec<u8> {
        let mut bytes = MARKS[self as usize].to_vec();
        bytes.extend(name);
        bytes.extend(u64::from(done.is_some()).to_le_bytes());
        bytes.extend(done.unwrap_or(0).to_le_bytes());
        bytes.extend(hash(&bytes));
        bytes
    }

    /// The inner `None`: it is not set.
    pub(super) fn decode(self, sector: &[u8], name: Name) -> Option<Option<u64>> {
        let mut reader = Reader(checked(sector, MARK)?);
        let is_ours = reader.take() == *MARKS[self as usize] && reader.take() == name;
        let (is_set, done) = (reader.number(), reader.number());
        is_ours.then_some((is_set == 1).then_some(done))
    }
}

pub(super) fn sealed_len(text: u64) -> u64 {
    text.div_ceil(TEXT as u64).saturating_mul(SECTOR)
}

pub(super) fn sealed(text: &[u8], name: Name) -> Vec<u8> {
    let mut sectors = Vec::new();
    for text in text.chunks(TEXT) {
        let at = sectors.len();
        sectors.extend_from_slice(BODY);
        sectors.extend_from_slice(&name);
        sectors.extend_from_slice(text);
        sectors.resize(at + LEAD + TEXT, 0);
        let hash = hash(&sectors[at..]);
        sectors.extend_from_slice(&hash);
    }
    sectors
}

pub(super) fn unsealed(sectors: &[u8], len: usize) -> Vec<u8> {
    let sectors = sectors.chunks_exact(SECTOR_LEN);
    sectors.flat_map(|sector| &sector[LEAD..LEAD + TEXT]).take(len).copied().collect()
}

/// The journal that this sector is a part of. Titles, saved bytes and filled lists are not recognised.
pub(crate) fn part_of(sector: &[u8]) -> Option<Span> {
    let magic = sector.first_chunk()?;
    let len = match magic {
        BODY => LEAD + TEXT,
        RECORD => LENGTH,
        LIST_MAGIC => LIST_HEAD,
        magic if MARKS.contains(&magic) => MARK,
        _ => return None,
    };
    let mut reader = Reader(&checked(sector, len)?[magic.len()..]);
    let place = Span::new(ByteOffset::new(reader.number()), ByteCount::new(reader.number()));
    place.filter(|_| sector[len + HASH..].iter().all(|byte| *byte == 0))
}

const LIST_MAGIC: &[u8; 8] = b"relobad1";
/// At most these bytes, or two blocks.
const MAX_LIST: u64 = 4 << 20;
const LIST_HEAD: usize = 8 + NAME + 8;
const ENTRY: usize = 3 * 8;

pub(super) fn blocks(job: &Job) -> u64 {
    let most = (MAX_LIST / job.blocks.size().get()).clamp(2, 1024);
    (job.total().get() / job.window.get()).clamp(2, most)
}

pub(super) fn is_of_list(sector: &[u8], name: Name) -> bool {
    sector.strip_prefix(LIST_MAGIC).is_some_and(|rest| rest.starts_with(&name))
}

impl Journal {
    /// `None` for a block that is torn or overwritten.
    fn blocks(&self, disks: &mut Disks<'_>) -> Result<Vec<Option<Vec<Bad>>>> {
        let mut bytes = vec![0; self.block() * in_memory(ByteCount::new(self.layout.list))];
        disks.read(self.device, self.layout.list(0), &mut bytes)?;
        Ok(bytes.chunks(self.block()).map(|block| self.decode(block)).collect())
    }

    pub(crate) fn listed(&self, disks: &mut Disks<'_>) -> Result<Skip> {
        let mut skip = Skip::default();
        for (index, block) in (1..).zip(self.blocks(disks)?) {
            if let Some(bad) = block.filter(|bad| !bad.is_empty()) {
                skip.list.extend(bad);
                skip.next = index;
            }
        }
        skip.list = normal(skip.list);
        Ok(skip)
    }

    /// Blocks are written in order: each is there up to one without entries.
    pub(super) fn is_list_whole(&self, disks: &mut Disks<'_>) -> Result<bool> {
        let mut blocks = self.blocks(disks)?.into_iter();
        Ok(blocks.find(|found| found.as_ref().is_none_or(Vec::is_empty)).is_none_or(|found| found.is_some()))
    }

    pub(super) fn odd_blocks(&self, disks: &mut Disks<'_>) -> Result<Vec<u64>> {
        let blocks = (0..).zip(self.blocks(disks)?);
        Ok(blocks.filter(|(_, block)| block.is_none()).map(|(index, _)| index).collect())
    }

    pub(super) fn clear_blocks(&self, disks: &mut Disks<'_>, index: u64, count: u64) -> Result<()> {
        let block = self.padded(&self.encoded(&[]));
        let blocks = block.repeat(in_memory(ByteCount::new(count)));
        disks.write(self.device, self.layout.list(index), &blocks)
    }

    fn encoded(&self, entries: &[Bad]) -> Vec<u8> {
        let mut bytes = LIST_MAGIC.to_vec();
        bytes.extend(self.name);
        bytes.extend((entries.len() as u64).to_le_bytes());
        for bad in entries {
            for number in [bad.from.start().get(), bad.from.len().get(), bad.to.get()] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.extend(hash(&bytes));
        bytes
    }

    /// Durably. False if there was no room.
    pub(crate) fn list(&self, disks: &mut Disks<'_>, skip: &mut Skip, bad: &[Bad]) -> Result<bool> {
        let blocks = bad.chunks(((self.block() - LIST_HEAD - HASH) / ENTRY).max(1));
        if skip.next + blocks.len() as u64 > self.layout.list {
            return Ok(false);
        }
        for block in blocks {
            let bytes = self.padded(&self.encoded(block));
            disks.write(self.device, self.layout.list(skip.next), &bytes)?;
            skip.next += 1;
        }
        skip.list = normal(skip.list.iter().chain(bad).copied().collect());
        if !Fault::LateList.is_planted() {
            disks.flush()?;
        }
        Ok(true)
    }

    fn decode(&self, block: &[u8]) -> Option<Vec<Bad>> {
        let mut reader = Reader(block);
        if reader.take() != *LIST_MAGIC || reader.take() != self.name {
            return None;
        }
        let count = usize::try_from(reader.number()).ok()?;
        let len = count.checked_mul(ENTRY)?.checked_add(LIST_HEAD)?;
        if block.get(len..len.checked_add(HASH)?)? != hash(block.get(..len)?) {
            return None;
        }
        let entry = |_| {
            let (start, len) = (ByteOffset::new(reader.number()), ByteCount::new(reader.number()));
            Some(Bad { from: Span::new(start, len)?, to: ByteOffset::new(reader.number()) })
        };
        (0..count).map(entry).collect()
    }
}
