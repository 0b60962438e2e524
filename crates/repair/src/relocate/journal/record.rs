//! Records and marks: a sector each.

use super::{HASH, Hash, NAME, Name, hash, hash_both};
use crate::relocate::fault::{self, Fault};

pub(super) const RECORD: &[u8; 8] = b"relorec1";
pub(super) const MARKS: [&[u8; 8]; 2] = [b"reloturn", b"reloundo"];

/// Which way the data move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Back,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A window is about to be written; its bytes are intact at their source.
    Direct { moved: Hash },
    /// A window is about to be written; its bytes, and those that it overwrites, are behind the record.
    Copied { moved: Hash, saved: Saved },
    /// All windows have been written and are durable.
    End,
    /// Nothing: both slots have it when the journal is made.
    Start,
}

/// The bytes behind a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// How many there are.
    pub(crate) len: u64,
    /// Where those of the window begin, and how many they are.
    pub(crate) at: u64,
    pub(crate) moved: u64,
    /// The hash of all others.
    pub(crate) rest: Hash,
}

/// A record of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) direction: Direction,
    /// The number of the window, or of all windows at the end.
    pub(crate) number: u64,
    pub(crate) kind: Kind,
}

/// A record that was read, with the bytes behind it if they match it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) saved: Option<Vec<u8>>,
}

/// What is set once in the life of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The job is rolled back.
    Turned,
    /// What was in flight at that time is undone.
    Undone,
}

/// The fields of a sector, in order. There are enough bytes in each.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let (first, rest) = self.0.split_at(N.min(self.0.len()));
        field[..first.len()].copy_from_slice(first);
        self.0 = rest;
        field
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Whether `sector` begins with `len` bytes and their hash; the bytes.
pub(super) fn checked(sector: &[u8], len: usize) -> Option<&[u8]> {
    let (bytes, stored) = (sector.get(..len)?, sector.get(len..len + HASH)?);
    (hash(bytes)[..] == *stored).then_some(bytes)
}

/// Magic, name, whether it is set, and for how many windows.
pub(super) const MARK: usize = 8 + NAME + 8 + 8;

/// Magic, name, direction, kind, number, hash, 3 numbers, hash.
pub(super) const LENGTH: usize = 8 + NAME + 1 + 1 + 8 + HASH + 3 * 8 + HASH;

impl Record {
    /// Records alternate between two slots.
    pub(crate) fn slot(&self) -> u64 {
        if fault::on(Fault::OneSlot) { 0 } else { self.number & 1 }
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

    /// Whether these are the bytes behind the record.
    pub(crate) fn matches(&self, bytes: &[u8]) -> bool {
        let Kind::Copied { moved, saved } = self.kind else { return false };
        let range = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (at, len) = (range(saved.at), range(saved.moved));
        let Some(end) = at.checked_add(len) else { return false };
        let Some(window) = bytes.get(at..end) else { return false };
        hash(window) == moved && hash_both(&bytes[..at], &bytes[end..]) == saved.rest
    }

    pub(super) fn encode(&self, name: Name) -> Vec<u8> {
        let mut bytes = RECORD.to_vec();
        bytes.extend(name);
        bytes.push(u8::from(self.direction == Direction::Back));
        let none = Saved { len: 0, at: 0, moved: 0, rest: [0; HASH] };
        let (kind, moved, saved) = match self.kind {
            Kind::Direct { moved } => (0, moved, none),
            Kind::Copied { moved, saved } => (1, moved, saved),
            Kind::End => (2, [0; HASH], none),
            Kind::Start => (3, [0; HASH], none),
        };
        bytes.push(kind);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(moved);
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
    pub(super) fn index(self) -> usize {
        match self {
            Self::Turned => 0,
            Self::Undone => 1,
        }
    }

    /// The mark, set for this number of windows or not set.
    pub(super) fn encode(self, done: Option<u64>, name: Name) -> Vec<u8> {
        let mut bytes = MARKS[self.index()].to_vec();
        bytes.extend(name);
        bytes.extend(u64::from(done.is_some()).to_le_bytes());
        bytes.extend(done.unwrap_or(0).to_le_bytes());
        bytes.extend(hash(&bytes));
        bytes
    }

    /// What a mark says; `None` if this is none.
    pub(super) fn decode(self, sector: &[u8], name: Name) -> Option<Option<u64>> {
        let mut reader = Reader(checked(sector, MARK)?);
        let is_ours = reader.take() == *MARKS[self.index()] && reader.take() == name;
        let (is_set, done) = (reader.number(), reader.number());
        is_ours.then_some((is_set == 1).then_some(done))
    }
}
