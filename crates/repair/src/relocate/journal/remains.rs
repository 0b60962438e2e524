//! What is left of a journal without titles: one that was cut off while it was written, or removed.
//!
//! Invariants: a sector is recognised by itself, and only as a part of a journal that says nothing, or as one of
//! a run that is a body from its first byte to its last. What may be something else is data.

use data_encoding::HEXLOWER;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::record::{self, Reader};
use super::{Body, HASH, LONGEST_BODY, hash, in_memory, list};
use crate::relocate::disk::{Disk, SECTOR};

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
/// disk, and the run is in the place. It is one only if all of it is what this program writes, to its end or to the end of a
/// sector; `is_payload` says whether bytes are a payload or begin one.
pub fn body_at(
    disk: &mut dyn Disk,
    at: ByteOffset,
    is_payload: &dyn Fn(&[u8]) -> bool,
) -> Option<(Span, Span)> {
    let size = disk.size();
    let mut sector = vec![0; in_memory(ByteCount::new(SECTOR))];
    let mut start = at;
    loop {
        disk.read(start, &mut sector).ok()?;
        text(&sector)?;
        if at.checked_since(start)?.get() > LONGEST_BODY {
            return None;
        }
        if sector.starts_with(START) {
            break;
        }
        start = start.checked_back(ByteCount::new(SECTOR))?;
    }
    let place = named(&sector).filter(|place| Span::first(size).contains(*place) && place.start() < start)?;
    let (mut end, mut body) = (start, Vec::new());
    // Its last sector has zeros at its end.
    while end < place.end() && body.len() as u64 == end.checked_since(start)?.get() {
        disk.read(end, &mut sector).ok()?;
        let Some(text) = text(&sector) else { break };
        if body.len() as u64 > LONGEST_BODY {
            return None;
        }
        body.extend(text);
        end = end.checked_add(ByteCount::new(SECTOR))?;
    }
    let run = Span::new(start, end.checked_since(start)?)?;
    (at < end && is_body(&body, is_payload)).then_some((run, place))
}

/// Whether this is a body, or whole sectors of one that was cut off: with what else is there behind them, they are none.
fn is_body(bytes: &[u8], is_payload: &dyn Fn(&[u8]) -> bool) -> bool {
    match serde_json::from_slice::<Body>(bytes) {
        Ok(body) => body.encode().is_ok_and(|again| again == bytes) && is_payload(body.job.payload()),
        Err(error) => {
            let strings: Vec<&[u8]> = bytes.split(|byte| *byte == b'"').collect();
            // A string that is not closed may be any text: it is a name, or it has the payload's digits.
            let open = strings.last().filter(|_| strings.len().is_multiple_of(2));
            let begins = |digits: &[u8]| {
                let bytes = HEXLOWER.decode(&digits[..digits.len() & !1]);
                bytes.is_ok_and(|bytes| is_payload(&bytes))
            };
            let is_cut = error.is_eof() && (bytes.len() as u64).is_multiple_of(SECTOR);
            is_cut && open.is_none_or(|open| b"payload".starts_with(open) || begins(open))
        }
    }
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

/// The characters of a body in a sector, up to zeros at its end.
fn text(sector: &[u8]) -> Option<&[u8]> {
    let end = sector.iter().rposition(|byte| *byte != 0)? + 1;
    sector[..end].iter().all(u8::is_ascii_graphic).then_some(&sector[..end])
}
