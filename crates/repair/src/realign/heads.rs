//! The sectors by which file systems, and what else fills partitions, are recognised, where data that move begin and
//! are to begin. They tell the data that move from other contents that were made there since.
//!
//! The law of this module: it only reads. What is at such a sector is known for every moment of the move: what was
//! there before it, and what each of the moves brings there.

use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_layout::TableKind;
use straddle_layout::view::View;
use straddle_relocate::Move;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::payload::wrapped::HEAD;
use super::sample::hash;
use super::{Realign, guard};

/// The sectors, from the start of a partition, that hold the signatures of file systems, swap space, LVM, LUKS and md.
/// Swap space has its own at the end of a page, of 4 or 64 KiB.
const TELLING: [u64; 11] = [0, 1, 2, 4, 7, 8, 16, 32, 64, 127, 128];
const SECTOR: u64 = 512;
/// The digits of a hash.
const DIGITS: usize = 16;
/// In place of a hash: the sector could not be read.
const UNREAD: &str = "................";
/// The bytes of a head as JSON, besides its hashes.
const LONGEST: usize = 64;
/// No more heads are taken: each costs reads, and room in the journal.
const MOST: usize = 512;

/// The start of what moves, in its old place or in a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    at: u64,
    /// The hashes of what each sector may have, one behind the other.
    hashes: String,
}

/// The most bytes that the heads of this plan take in the journal.
pub(super) fn most_bytes(realign: &Realign) -> usize {
    let moves = moves(realign);
    let hashes = |(start, len)| sectors(start, len).map(|at| sources(&moves, at).len()).sum::<usize>();
    starts(&moves).into_iter().map(|start| LONGEST + DIGITS * hashes(start)).sum()
}

/// Takes the heads of what moves. No data have moved yet.
pub(super) fn take(disk: &dyn Medium, realign: &Realign) -> Vec<Head> {
    let (moves, fields) = (moves(realign), guard::fields(realign));
    let hash_at = |at: u64| {
        let mut bytes = [0; 512];
        match disk.read_at(ByteOffset::new(at), &mut bytes) {
            Ok(()) => hash(&bytes, at, &fields),
            Err(_) => UNREAD.to_owned(),
        }
    };
    let head = |(start, len): (ByteOffset, ByteCount)| {
        let found = sectors(start, len).flat_map(|at| sources(&moves, at));
        Head { at: start.get(), hashes: found.map(hash_at).collect() }
    };
    starts(&moves).into_iter().map(head).collect()
}

/// Whether something begins where the data that move did, or are to, and is none of them: it was made since.
pub(super) fn is_taken(disk: &dyn Medium, realign: &Realign, heads: &[Head]) -> bool {
    let moves = moves(realign);
    let block = Some(realign.plan().block());
    let is_filled = |start: ByteOffset, len: ByteCount| {
        let view = View::of_drive(disk).map(len, [(Span::first(len), start)]);
        straddle_layout::read_stack(&view, block, None)
            .is_ok_and(|stack| matches!(stack.kind, TableKind::Content(_)))
    };
    starts(&moves).into_iter().any(|(start, len)| {
        let head = heads.iter().find(|head| head.at == start.get());
        head.is_some_and(|head| is_filled(start, len) && !is_known(disk, realign, head, len))
    })
}

/// Whether each of the sectors has something that a moment of the move has there.
fn is_known(disk: &dyn Medium, realign: &Realign, head: &Head, len: ByteCount) -> bool {
    let (moves, fields) = (moves(realign), guard::fields(realign));
    let mut hashes = head.hashes.as_bytes().chunks(DIGITS);
    sectors(ByteOffset::new(head.at), len).all(|at| {
        let mut bytes = [0; 512];
        let is_read = disk.read_at(ByteOffset::new(at), &mut bytes).is_ok();
        let is_expected = |source: u64, expected: Option<&[u8]>| {
            expected == Some(UNREAD.as_bytes()) || expected == Some(hash(&bytes, source, &fields).as_bytes())
        };
        // Each takes its hash, whether an earlier one fits or not.
        let fitting = sources(&moves, at).into_iter().filter(|source| is_expected(*source, hashes.next()));
        fitting.count() > 0 || !is_read
    })
}

/// The moves, with that of the start of a disk which gets a partition around it.
fn moves(realign: &Realign) -> Vec<Move> {
    let mut moves = realign.moves().to_vec();
    let first = moves.first().filter(|_| realign.is_wrap());
    let head =
        first.and_then(|first| Some(Move { from: Span::first(HEAD), to: first.to.checked_back(HEAD)? }));
    moves.extend(head);
    moves
}

/// Where the data begin and are to begin, and their length.
fn starts(moves: &[Move]) -> Vec<(ByteOffset, ByteCount)> {
    let both = moves.iter().flat_map(|one| [one.from.start(), one.to].map(|at| (at, one.from.len())));
    let mut starts: Vec<_> = both.take(MOST).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The bytes at which the telling sectors begin.
fn sectors(start: ByteOffset, len: ByteCount) -> impl Iterator<Item = u64> {
    let offsets = TELLING.into_iter().map(|sector| sector * SECTOR);
    let fitting = offsets.filter(move |offset| offset + SECTOR <= len.get());
    fitting.filter_map(move |offset| start.get().checked_add(offset))
}

/// Where the bytes are before the moves that the sector at byte `at` has before or after one of them.
fn sources(moves: &[Move], at: u64) -> Vec<u64> {
    let mut found = vec![at];
    for (index, one) in moves.iter().enumerate() {
        let Some(mut source) = before(one, at) else { continue };
        for earlier in moves.iter().take(index).rev() {
            source = before(earlier, source).unwrap_or(source);
        }
        found.push(source);
    }
    found.dedup();
    found
}

/// Where a byte was that a move brings to byte `at`.
fn before(one: &Move, at: u64) -> Option<u64> {
    let offset = at.checked_sub(one.to.get()).filter(|offset| *offset < one.from.len().get())?;
    one.from.start().get().checked_add(offset)
}
