//! What blkparse prints: `major,minor cpu sequence time pid action rwbs sector + sectors [process]`.
//!
//! The action that counts is `D`: the request as the driver gets it, after merging. The summary at the end, and
//! events without sectors, are passed over.

use straddle_io::Operation;

use super::{Fields, Line, Lines, Volume, When, is_whole, sectors, time};
use crate::error::LineError;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// The fields up to the number of sectors.
type Columns<'a> = Fields<'a, 10>;

/// Whether a line has the form of such an event.
pub(crate) fn is_line(line: &str) -> bool {
    event(line).is_some()
}

/// Returns the fields of an event, if the line is one.
fn event(line: &str) -> Option<Columns<'_>> {
    let fields = Columns::of(line.split_ascii_whitespace());
    let device = fields.get("", 0).ok()?.split_once(',')?;
    let numbers = is_whole(device.0) && is_whole(device.1);
    let numbers = numbers && [1, 2, 4].iter().all(|index| fields.get("", *index).is_ok_and(is_whole));
    let at = fields.get("", 3).ok()?;
    (numbers && at.contains('.') && time("", at, SECOND).is_ok()).then_some(fields)
}

/// Parses events.
#[derive(Debug)]
pub(crate) struct Blkparse;

impl Lines for Blkparse {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let Some(fields) = event(line).filter(|fields| fields.get("", 5) == Ok("D")) else { return Ok(None) };
        let Some(operation) = operation(fields.get("rwbs", 6)?) else { return Ok(None) };
        let when = When::At(time("time", fields.get("time", 3)?, SECOND)?);
        let volume = Volume(fields.get("device", 0)?, "");
        if fields.get("+", 8) != Ok("+") {
            return Ok((operation == Operation::Flush).then_some(Line {
                volume,
                operation,
                offset: 0,
                length: 0,
                when,
            }));
        }
        let offset = sectors("sector", fields.get("sector", 7)?)?;
        let length = sectors("sectors", fields.get("sectors", 9)?)?;
        Ok(Some(Line { volume, operation, offset, length, when }))
    }
}

/// Parses the kernel's letters of a request: `F` before the others is a flush, `D` a discard, `W` a write, `R` a
/// read; an `F` behind means that a write goes through the cache. `None` for a request without data.
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
        assert_eq!(Format::of_line(text), Some(Format::Blkparse));
        let line = Blkparse.line(text).unwrap().unwrap();
        assert_eq!((line.volume, line.operation), (Volume("8,0", ""), Operation::Write));
        assert_eq!((line.offset, line.length), (223_490 * 512, 4096));
        assert_eq!(line.when, When::At(straddle_io::Nanos::new(9_507_758)));
        for other in [
            "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]",
            "  8,0    3        4     0.000001906   697  P   N [kjournald]",
            "CPU0 (8,0):",
            " Reads Queued:           0,        0KiB\t Writes Queued:          51,    5,172KiB",
        ] {
            assert_eq!(Blkparse.line(other), Ok(None), "{other}");
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
