//! What is to be moved, as a value that is valid by construction, and what that reads and writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_units::{Boundary, ByteCount, ByteOffset, MIB, Span};

use super::{COPIES, RelocateError, Result, SECTOR, Sequence};
use crate::document::hexadecimal;

/// The most moves of a job.
pub const MOST_MOVES: usize = 1024;
/// The most bytes of a payload.
pub const LARGEST_PAYLOAD: usize = 1 << 20;
/// The largest window.
pub const LARGEST_WINDOW: u64 = 64 * MIB;
const LARGEST_BLOCK: u64 = MIB;
/// Sums of a few offsets stay within 64 bits.
const LARGEST_DISK: u64 = 1 << 62;

/// Bytes that are moved or copied to another position. On the same disk, the two ranges may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The bytes to move or copy.
    pub from: Span,
    /// The new position of the first byte.
    #[serde(rename = "to_bytes")]
    pub to: ByteOffset,
}

impl Move {
    /// Where the bytes go; `None` if that exceeds 64 bits.
    pub fn destination(self) -> Option<Span> {
        Span::new(self.to, self.from.len())
    }

    pub(crate) fn spans(self) -> impl Iterator<Item = Span> {
        [Some(self.from), self.destination()].into_iter().flatten()
    }
}

/// What a [`Job`] is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The size of the disk.
    pub size: ByteCount,
    /// The physical sectors of the disk: every write covers whole ones. 4096 bytes are right for 512n, too.
    pub blocks: Boundary,
    /// How many bytes move at a time: a multiple of the physical sector.
    pub window: ByteCount,
    /// Names the job; another one has another.
    #[serde(with = "hexadecimal")]
    pub id: [u8; 16],
    /// The moves, in the order in which they are made.
    pub moves: Vec<Move>,
    /// Given back on recovery, and not looked at.
    #[serde(with = "base64")]
    pub payload: Vec<u8>,
}

/// Moves that are possible, one after the other, on a disk of a certain size.
///
/// Spans count in 512-byte sectors. What a move is to bring somewhere else is never overwritten by an earlier
/// one, and nothing moves twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Job(Parts);

impl std::ops::Deref for Job {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Job {
    /// Checks the parts.
    pub fn new(parts: Parts) -> Result<Self> {
        let refuse = |why: String| Err(RelocateError::Job(why));
        let (block, window, sector) = (parts.blocks.size(), parts.window, ByteCount::new(SECTOR));
        if !block.is_multiple_of(sector)
            || !block.get().is_power_of_two()
            || !parts.blocks.phase().is_multiple_of(sector)
            || block.get() > LARGEST_BLOCK
        {
            return refuse(format!("the physical sector size ({} bytes) is not valid", block.get()));
        }
        if !window.is_multiple_of(block) || window.get() == 0 || window.get() > LARGEST_WINDOW {
            return refuse(format!("the window size ({} bytes) is not valid", window.get()));
        }
        if parts.size.get() > LARGEST_DISK {
            return refuse(format!("the disk size ({} bytes) is not valid", parts.size.get()));
        }
        let (count, len) = (parts.moves.len(), parts.payload.len());
        if !(1..=MOST_MOVES).contains(&count) {
            return refuse(format!("{count} moves are planned, but only 1 to {MOST_MOVES} are possible"));
        }
        if len > LARGEST_PAYLOAD {
            return refuse(format!(
                "the payload has {len} bytes, but at most {LARGEST_PAYLOAD} are possible"
            ));
        }
        for one in &parts.moves {
            let (from, len, to) = (one.from.start(), one.from.len(), one.to);
            let name = format!("the move from byte {from} to byte {to}");
            let numbers = [from.get(), len.get(), to.get()];
            if !numbers.into_iter().all(|bytes| bytes.is_multiple_of(SECTOR)) {
                return refuse(format!("{name} is not aligned to {SECTOR}-byte sectors"));
            }
            if one.from.is_empty() || from == to {
                return refuse(format!("the move of {len} from byte {from} moves nothing"));
            }
            let disk = Span::first(parts.size);
            if !one.destination().is_some_and(|to| disk.contains(to)) || !disk.contains(one.from) {
                return refuse(format!("{name} extends past the end of the disk"));
            }
        }
        check_order(&parts.moves)?;
        Ok(Self(parts))
    }

    /// Returns the largest window, up to `most`, with which moves over a distance of `shortest` bytes need no
    /// copy in the journal; `most` if the distance is so short that copies are better.
    pub fn window(shortest: ByteCount, block: ByteCount, most: ByteCount) -> ByteCount {
        let half = ByteCount::new(shortest.get() / 2).floor_to(block);
        if half.get() >= MIB.min(most.get()) { half.min(most.floor_to(block)) } else { most.floor_to(block) }
    }

    /// The sum of the lengths of all moves.
    pub fn total(&self) -> ByteCount {
        ByteCount::new(self.moves.iter().fold(0_u64, |sum, one| sum.saturating_add(one.from.len().get())))
    }

    /// The number of windows that are copied to the journal, and of all.
    pub fn windows(&self) -> (u64, u64) {
        let sequence = Sequence::forward(self);
        let copied = (0..sequence.count).filter(|index| !sequence.window(*index).is_direct).count();
        (copied as u64, sequence.count)
    }

    /// What the windows read and write if nothing goes wrong. All is read back.
    pub fn traffic(&self) -> Traffic {
        let sequence = Sequence::forward(self);
        let mut traffic = Traffic::default();
        for index in 0..sequence.count {
            let window = sequence.window(index);
            let len = |span: &Span| span.len().get();
            let read: u64 = window.read_first().iter().map(len).sum();
            let copied = if window.is_direct { 0 } else { read };
            let plus = |sum: ByteCount, more: u64| ByteCount::new(sum.get().saturating_add(more));
            traffic.read = plus(traffic.read, read.saturating_add(len(&window.written)));
            traffic.written = plus(traffic.written, len(&window.written));
            traffic.journal = plus(traffic.journal, COPIES * self.blocks.size().get() + copied);
        }
        traffic
    }

    pub(crate) fn round_out(&self, span: Span) -> Span {
        round_out(self.blocks, self.size, span)
    }
}

/// What a job reads and writes if nothing goes wrong, without the journal's head and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that are read, including those read back.
    pub read: ByteCount,
    /// Bytes that are written to new places.
    pub written: ByteCount,
    /// Bytes that are written to the journal.
    pub journal: ByteCount,
}

pub(crate) fn round_out(blocks: Boundary, size: ByteCount, span: Span) -> Span {
    let start = blocks.floor(span.start()).unwrap_or(ByteOffset::ZERO);
    let end = blocks.ceil(span.end()).map_or(size.get(), |end| end.get().min(size.get()));
    let len = ByteCount::new(end.saturating_sub(start.get()));
    Span::new(start, len).unwrap_or(span)
}

fn check_order(moves: &[Move]) -> Result<()> {
    let refuse = |other: Span| {
        let (from, to) = (other.start(), other.end());
        Err(RelocateError::Job(format!(
            "bytes {from} to {to} would be moved twice, or overwritten while they are still needed"
        )))
    };
    for (index, one) in moves.iter().enumerate() {
        let (earlier, later) = (&moves[..index], &moves[index + 1..]);
        if let Some(other) = later.iter().find(|other| other.from.overlaps(one.from)) {
            return refuse(other.from);
        }
        let needed = later.iter().map(|other| other.from);
        let mut needed = needed.chain(earlier.iter().filter_map(|other| other.destination()));
        if let Some(other) = needed.find(|span| one.destination().is_none_or(|to| to.overlaps(*span))) {
            return refuse(other);
        }
    }
    Ok(())
}

/// Shorter than in hexadecimal digits.
mod base64 {
    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        BASE64.encode(bytes).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(from)?.as_bytes()).map_err(D::Error::custom)
    }
}

pub(crate) fn len_in_body(payload: usize) -> usize {
    payload.div_ceil(3).saturating_mul(4)
}

impl From<Job> for Parts {
    fn from(Job(parts): Job) -> Self {
        parts
    }
}

impl TryFrom<Parts> for Job {
    type Error = RelocateError;

    fn try_from(parts: Parts) -> Result<Self> {
        Self::new(parts)
    }
}
