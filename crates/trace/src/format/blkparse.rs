//! What blkparse prints: `major,minor cpu sequence time pid action rwbs sector + sectors [process]`. The summary at
//! the end, and events without sectors, are passed over.

use straddle_units::io::{Nanos, Operation};

use super::{Fields, Line, Lines, Quick, Request, Token, Volume, is_whole, sectors, time};
use crate::error::LineError;
use crate::format::How;
use crate::histogram::SECTOR;
use crate::scan;

const SECOND: u64 = 1_000_000_000;

type Columns<'a> = Fields<'a, 10>;

pub(crate) fn is_line(line: &str) -> bool {
    event(line).is_some()
}

fn event(line: &str) -> Option<Columns<'_>> {
    let fields = Columns::of(line.split_ascii_whitespace());
    let device = fields.get("", 0).ok()?.split_once(',')?;
    let numbers = is_whole(device.0) && is_whole(device.1);
    let numbers = numbers && [1, 2, 4].iter().all(|index| fields.get("", *index).is_ok_and(is_whole));
    let at = fields.get("", 3).ok()?;
    (numbers && at.contains('.') && time("", at, SECOND).is_ok()).then_some(fields)
}

#[derive(Debug)]
pub(crate) struct Blkparse {
    action: u8,
}

impl Blkparse {
    pub(crate) const fn of(how: &How) -> Self {
        Self { action: how.event.letter() }
    }
}

impl Lines for Blkparse {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let Some(fields) = event(line) else { return Ok(None) };
        if !fields.get("", 5).is_ok_and(|action| action.as_bytes() == [self.action]) {
            return Ok(None);
        }
        let rwbs = fields.get("rwbs", 6)?;
        let Some(operation) = operation(rwbs) else { return Ok(None) };
        let at = time("time", fields.get("time", 3)?, SECOND)?;
        let volume = Volume(fields.get("device", 0)?, "");
        if fields.get("+", 8) != Ok("+") {
            // A flush before a write is an event of its own, and has the write's letters.
            let flush = Line { volume, operation: Operation::Flush, offset: 0, length: 0, at };
            return Ok(rwbs.starts_with('F').then_some(flush));
        }
        let offset = sectors("sector", fields.get("sector", 7)?)?;
        let length = sectors("sectors", fields.get("sectors", 9)?)?;
        Ok(Some(Line { volume, operation, offset, length, at }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], from: usize) -> Option<Quick<'a>> {
        let device = scan::past_blanks(bytes, from);
        let (_, at) = scan::number(bytes, device)?;
        let (_, end) = (bytes.get(at) == Some(&b',')).then(|| scan::number(bytes, at + 1))??;
        let volume = Token { bytes, at: device, length: end - device, second: None };
        let (_, at) = scan::number(bytes, gap(bytes, end)?)?;
        let (_, at) = scan::number(bytes, gap(bytes, at)?)?;
        let clock = gap(bytes, at)?;
        let (time, at) = scan::time(bytes, clock, 9)?;
        let (_, at) = scan::number(bytes, gap(bytes, at)?)?;
        let action = gap(bytes, at)?;
        let end = word_end(bytes, action)?;
        let line = |at| Some(at + memchr::memchr(b'\n', bytes.get(at..)?)? + 1);
        if *bytes.get(action..end)? != [self.action] {
            // Without a decimal point the line is not an event, which makes no difference.
            return Some(Quick { next: line(end)?, request: None });
        }
        let letters = gap(bytes, end)?;
        let end = word_end(bytes, letters)?;
        let operation = operation(std::str::from_utf8(bytes.get(letters..end)?).ok()?)?;
        let (first, at) = scan::number(bytes, gap(bytes, end)?)?;
        let plus = gap(bytes, at)?;
        if bytes.get(plus..plus + 2) != Some(b"+ ") || !bytes.get(clock..action)?.contains(&b'.') {
            return None;
        }
        let (sectors, at) = scan::number(bytes, scan::past_blanks(bytes, plus + 1))?;
        if !matches!(bytes.get(at), Some(b' ' | b'\n')) {
            return None;
        }
        let (offset, length) = (first.checked_mul(SECTOR)?, sectors.checked_mul(SECTOR)?);
        let request = Request { volume, operation, offset, length, time: Nanos::new(time) };
        Some(Quick { next: line(at)?, request: Some(request) })
    }
}

/// If only blanks and line breaks end the word.
#[inline]
fn word_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = scan::field_end(bytes, at, b' ');
    bytes.get(at..end)?.iter().all(|byte| *byte > b' ').then_some(end)
}

#[inline]
fn gap(bytes: &[u8], at: usize) -> Option<usize> {
    let end = scan::past_blanks(bytes, at);
    (end > at).then_some(end)
}

/// Parses the kernel's letters of a request: a leading `F` is a flush, `D` a discard, `W` a write, `R` a read; a later
/// `F` means a write through the cache. `None` for a request without data.
pub(crate) fn operation(rwbs: &str) -> Option<Operation> {
    let rest = rwbs.strip_prefix('F');
    let through = rwbs.get(1..).is_some_and(|rest| rest.contains('F'));
    match rest.unwrap_or(rwbs).chars().next() {
        Some('W') if through => Some(Operation::WriteFua),
        Some('W') => Some(Operation::Write),
        Some('R') => Some(Operation::Read),
        Some('D') => Some(Operation::Discard),
        _ => rest.map(|_| Operation::Flush),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    #[test]
    fn a_request_given_to_the_driver_is_read_and_other_events_are_passed_over() {
        let text = "  8,0    3       11     0.009507758   697  D  WS 223490 + 8 [kjournald]";
        assert_eq!(Format::of_line(text, &How::default()), Some(Format::Blkparse));
        let line = Blkparse::of(&How::default()).line(text).unwrap().unwrap();
        assert_eq!((line.volume, line.operation), (Volume("8,0", ""), Operation::Write));
        assert_eq!((line.offset, line.length), (223_490 * 512, 4096));
        assert_eq!(line.at, straddle_units::io::Nanos::new(9_507_758));
        for other in [
            "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]",
            "  8,0    3        4     0.000001906   697  P   N [kjournald]",
            "CPU0 (8,0):",
            " Reads Queued:           0,        0KiB\t Writes Queued:          51,    5,172KiB",
        ] {
            assert_eq!(Blkparse::of(&How::default()).line(other), Ok(None), "{other}");
        }
    }

    #[test]
    fn letters_name_the_operation() {
        let named = [
            ("R", Some(Operation::Read)),
            ("RA", Some(Operation::Read)),
            ("WS", Some(Operation::Write)),
            ("WFS", Some(Operation::WriteFua)),
            ("FWFS", Some(Operation::WriteFua)),
            ("FWS", Some(Operation::Write)),
            ("FN", Some(Operation::Flush)),
            ("FF", Some(Operation::Flush)),
            ("DS", Some(Operation::Discard)),
            ("N", None),
            ("", None),
        ];
        for (rwbs, expected) in named {
            assert_eq!(operation(rwbs), expected, "{rwbs}");
        }
    }
}
