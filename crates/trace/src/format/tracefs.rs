//! The text of the kernel's trace file: `process-pid [cpu] flags seconds: block_rq_issue: major,minor rwbs bytes
//! (command) sector + sectors …`. Other events are passed over.

use straddle_io::Operation;

use super::blkparse::operation;
use super::{Fields, Line, Lines, Volume, When, sectors, time};
use crate::error::LineError;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;
const EVENT: &str = ": block_rq_";
const ISSUE: &str = ": block_rq_issue: ";

/// Whether a line is an event of a request.
pub(crate) fn is_line(line: &str) -> bool {
    line.contains(EVENT)
}

/// Parses events.
#[derive(Debug)]
pub(crate) struct Tracefs;

impl Lines for Tracefs {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let Some((before, event)) = line.split_once(ISSUE) else { return Ok(None) };
        let at = before.rsplit(' ').next().unwrap_or_default();
        let when = When::At(time("time", at, SECOND)?);
        // The command of requests that pass a device's own commands may contain spaces.
        let (head, tail) = event.split_once('(').unwrap_or((event, ""));
        let head = Fields::<3>::of(head.split_ascii_whitespace());
        let tail = tail.split_once(')').map_or("", |(_, tail)| tail);
        let tail = Fields::<3>::of(tail.split_ascii_whitespace());
        let volume = Volume(head.get("device", 0)?, "");
        let Some(operation) = operation(head.get("rwbs", 1)?) else { return Ok(None) };
        if operation == Operation::Flush {
            return Ok(Some(Line { volume, operation, offset: 0, length: 0, when }));
        }
        let offset = sectors("sector", tail.get("sector", 0)?)?;
        let length = sectors("sectors", tail.get("sectors", 2)?)?;
        Ok(Some(Line { volume, operation, offset, length, when }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    #[test]
    fn requests_that_are_issued_are_read() {
        let old = "   jbd2/sda1-8-212   [001] ....   87.123456: block_rq_issue: 8,0 WS 4096 () 2099200 + 8 [jbd2/sda1-8]";
        let new = " kworker/1:1H-91   [001] .....  1287.1: block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]";
        assert_eq!(Format::of_line(old), Some(Format::Tracefs));
        let line = Tracefs.line(old).unwrap().unwrap();
        assert_eq!((line.volume, line.operation), (Volume("8,0", ""), Operation::Write));
        assert_eq!((line.offset, line.length), (2_099_200 * 512, 4096));
        assert_eq!(Tracefs.line(new).unwrap().unwrap().operation, Operation::Flush);
        let done = "  <idle>-0  [001] ..s.   87.2: block_rq_complete: 8,0 WS () 2099200 + 8 [0]";
        assert_eq!(Tracefs.line(done), Ok(None));
        assert!(Tracefs.line("a-1 [000] .... x: block_rq_issue: 8,0 W 4096 () 1 + 8 [a]").is_err());
        assert!(Tracefs.line("a-1 [000] .... 1.0: block_rq_issue: 8,0 W").is_err());
    }
}
