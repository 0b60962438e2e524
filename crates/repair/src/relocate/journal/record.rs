//! Records, marks and bodies: sectors that begin with a magic and the journal's name, and have a hash of that and
//! their contents. The rest is zeros. So no other program's bytes are taken for a part of a journal.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Fault, HASH, Hash, NAME, Name, hash, hash_both, in_memory};
use crate::relocate::{SECTOR, SECTOR_LEN};

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

/// The journal that this sector is a part of. Titles and saved bytes are not recognised.
pub(crate) fn part_of(sector: &[u8]) -> Option<Span> {
    let magic = sector.first_chunk()?;
    let len = match magic {
        BODY => LEAD + TEXT,
        RECORD => LENGTH,
        magic if MARKS.contains(&magic) => MARK,
        _ => return None,
    };
    let mut reader = Reader(&checked(sector, len)?[magic.len()..]);
    let place = Span::new(ByteOffset::new(reader.number()), ByteCount::new(reader.number()));
    place.filter(|_| sector[len + HASH..].iter().all(|byte| *byte == 0))
}
