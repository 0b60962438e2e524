//! The text of the kernel's trace file: `process-pid [cpu] flags seconds: block_rq_issue: major,minor rwbs bytes
//! (command) sector + sectors …`. A queued request is `block_bio_queue: major,minor rwbs sector + sectors …`, one
//! that is done `block_rq_complete: major,minor rwbs (command) sector + sectors …`. Other events are passed over.

use straddle_units::io::Operation;

use super::blkparse::operation;
use super::{Fields, Line, Lines, Volume, sectors, time};
use crate::error::LineError;
use crate::format::{Event, How};

const SECOND: u64 = 1_000_000_000;
const EVENTS: [&str; 2] = [": block_rq_", ": block_bio_"];

pub(crate) fn is_line(line: &str) -> bool {
    EVENTS.iter().any(|event| line.contains(event))
}

/// Any event may follow the header of the kernel's trace file.
pub(crate) fn is_head(bytes: &[u8]) -> bool {
    bytes.starts_with(b"# tracer: ")
}

#[derive(Debug)]
pub(crate) struct Tracefs {
    event: &'static str,
}

impl Tracefs {
    pub(crate) const fn of(how: &How) -> Self {
        let event = match how.event {
            Event::Queue => ": block_bio_queue: ",
            Event::Issue => ": block_rq_issue: ",
            Event::Complete => ": block_rq_complete: ",
        };
        Self { event }
    }
}

impl Lines for Tracefs {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let Some((before, event)) = line.split_once(self.event) else { return Ok(None) };
        let at = before.rsplit(' ').next().unwrap_or_default();
        let at = time("time", at, SECOND)?;
        // The command of requests that pass a device's own commands may contain spaces.
        let (head, tail) = event.split_once('(').unwrap_or((event, ""));
        let head = Fields::<5>::of(head.split_ascii_whitespace());
        let command = tail.split_once(')').map(|(_, tail)| tail);
        // A bio has no command.
        let tail = command.unwrap_or_else(|| event.splitn(3, ' ').nth(2).unwrap_or_default());
        let tail = Fields::<3>::of(tail.split_ascii_whitespace());
        let volume = Volume(head.get("device", 0)?, "");
        let Some(operation) = operation(head.get("rwbs", 1)?) else { return Ok(None) };
        let flush = Line { volume, operation: Operation::Flush, offset: 0, length: 0, at };
        if operation == Operation::Flush {
            return Ok(Some(flush));
        }
        let length = sectors("sectors", tail.get("sectors", 2)?)?;
        if length == 0 && head.get("rwbs", 1)?.starts_with('F') {
            // A flush before a write has the write's letters, and any number as its sector.
            return Ok(Some(flush));
        }
        let offset = sectors("sector", tail.get("sector", 0)?)?;
        Ok(Some(Line { volume, operation, offset, length, at }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    fn issued(line: &str) -> Result<Option<Line<'_>>, LineError> {
        Tracefs::of(&How::default()).line(line)
    }

    #[test]
    fn requests_that_are_issued_are_read() {
        let old = "   jbd2/sda1-8-212   [001] ....   87.123456: block_rq_issue: 8,0 WS 4096 () 2099200 + 8 [jbd2/sda1-8]";
        let new = " kworker/1:1H-91   [001] .....  1287.1: block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]";
        assert_eq!(Format::of_line(old, &How::default()), Some(Format::Tracefs));
        let line = issued(old).unwrap().unwrap();
        assert_eq!((line.volume, line.operation), (Volume("8,0", ""), Operation::Write));
        assert_eq!((line.offset, line.length), (2_099_200 * 512, 4096));
        assert_eq!(issued(new).unwrap().unwrap().operation, Operation::Flush);
        let done = "  <idle>-0  [001] ..s.   87.2: block_rq_complete: 8,0 WS () 2099200 + 8 [0]";
        assert_eq!(issued(done), Ok(None));
        let how = |event| How { event, ..How::default() };
        let line = Tracefs::of(&how(Event::Complete)).line(done).unwrap().unwrap();
        assert_eq!((line.offset, line.length), (2_099_200 * 512, 4096));
        let queued = " fio-7  [001] .....  1287.1: block_bio_queue: 253,0 W 63 + 8 [fio]";
        assert_eq!(Format::of_line(queued, &How::default()), Some(Format::Tracefs));
        let line = Tracefs::of(&how(Event::Queue)).line(queued).unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("253,0", ""), 63 * 512, 4096));
        let old = "a-1 [000] d..2 1.5: block_rq_issue: 179,0 FWS 0 () 18446744073709551615 + 0 [mmcqd/0]";
        assert_eq!(issued(old).unwrap().unwrap().operation, Operation::Flush);
        for marks in ["FWS", "FW", "FN", "FF", "F"] {
            let queued = format!(" jb-1 [000] d..1. 100.000003: block_bio_queue: 8,0 {marks} 0 + 0 [kw]");
            let line = Tracefs::of(&how(Event::Queue)).line(&queued).unwrap();
            assert_eq!(line.map(|line| line.operation), Some(Operation::Flush), "{marks}");
        }
        assert!(issued("a-1 [000] .... x: block_rq_issue: 8,0 W 4096 () 1 + 8 [a]").is_err());
        assert!(issued("a-1 [000] .... 1.0: block_rq_issue: 8,0 W").is_err());
    }
}
