//! What is left of a journal without titles: one that was cut off while it was written, or removed.
//!
//! The law of this module: a sector is recognised by itself, and only as a part of a journal that says nothing, or by the
//! bytes before it that are a body's.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::record::{self, Reader};
use super::{HASH, LONGEST_BODY, hash, in_memory, list};
use crate::disk::{Disk, SECTOR};

/// How a body begins.
const START: &[u8] = b"{\"start\":";
const LEN: &[u8] = b",\"len\":";
const BEHIND: &[u8] = b",\"is_inside\":";

/// Whether a sector is a record, a mark or a block of the list by which nothing has begun: all journals have the same but for
/// their names.
pub fn says_nothing(sector: &[u8]) -> bool {
    record::says_nothing(sector) || is_empty_list(sector)
}

fn is_empty_list(sector: &[u8]) -> bool {
    let (head, end) = (list::HEAD, list::HEAD + HASH);
    let mut reader = Reader(sector);
    let is_one = sector.len() >= end && reader.take() == *list::MAGIC;
    let _: [u8; 16] = reader.take();
    is_one
        && reader.take() == [0; 8]
        && hash(&sector[..head])[..] == sector[head..end]
        && sector[end..].iter().all(|byte| *byte == 0)
}

/// The run of sectors of a body that the one at `at` is in, with the place that the journal names as its own. Both are on the
/// disk, and the run is in the place.
pub fn body_at(disk: &mut dyn Disk, at: ByteOffset) -> Option<(Span, Span)> {
    let size = disk.size();
    let mut sector = vec![0; in_memory(ByteCount::new(SECTOR))];
    let mut start = at;
    loop {
        disk.read(start, &mut sector).ok()?;
        if !is_text(&sector) || at.checked_since(start)?.get() > LONGEST_BODY {
            return None;
        }
        if sector.starts_with(START) {
            break;
        }
        start = start.checked_back(ByteCount::new(SECTOR))?;
    }
    let place = named(&sector).filter(|place| Span::first(size).contains(*place) && place.start() < start)?;
    let mut end = start;
    while end < place.end() && disk.read(end, &mut sector).is_ok() && is_text(&sector) {
        end = end.checked_add(ByteCount::new(SECTOR))?;
    }
    let run = Span::new(start, end.checked_since(start)?)?;
    (at < end).then_some((run, place))
}

/// The place that a body names in its first bytes.
fn named(sector: &[u8]) -> Option<Span> {
    let number = |bytes: &[u8], before: &[u8]| {
        let digits = bytes.strip_prefix(before)?;
        let len = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        let value: u64 = std::str::from_utf8(&digits[..len]).ok()?.parse().ok()?;
        Some((value, before.len() + len))
    };
    let (start, behind) = number(sector, START)?;
    let (len, more) = number(&sector[behind..], LEN)?;
    sector[behind + more..].starts_with(BEHIND).then_some(())?;
    Span::new(ByteOffset::new(start), ByteCount::new(len))
}

/// Whether a sector has the characters of a body, up to zeros at its end.
fn is_text(sector: &[u8]) -> bool {
    let end = sector.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    end > 0 && sector[..end].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}
