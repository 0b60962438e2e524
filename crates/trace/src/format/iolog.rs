//! fio's I/O log: `fio version 2 iolog`, then `file action [offset length]`, in version 3 after the time in
//! milliseconds. The actions `add`, `open`, `close` and `wait` are not requests.

use straddle_units::io::{Nanos, Operation};

use super::{Fields, Line, Lines, Volume, time, whole, wrong};
use crate::error::LineError;

const MILLI: u64 = 1_000_000;
const MICRO: u64 = 1000;

pub(crate) fn is_first(line: &str) -> bool {
    version(line).is_some()
}

fn version(line: &str) -> Option<u8> {
    match line {
        "fio version 2 iolog" => Some(2),
        "fio version 3 iolog" => Some(3),
        _ => None,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Iolog {
    timed: bool,
    /// Version 2 has no times but those that `wait` adds, in microseconds.
    waited: Nanos,
}

impl Lines for Iolog {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        if let Some(version) = version(line) {
            self.timed = version == 3;
            return Ok(None);
        }
        let fields = Fields::<5>::of(line.split_ascii_whitespace());
        let first = usize::from(self.timed);
        let at = match self.timed {
            true => time("time", fields.get("time", 0)?, MILLI)?,
            false => self.waited,
        };
        let volume = Volume(fields.get("file", first)?, "");
        let operation = match fields.get("action", first + 1)? {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "trim" => Operation::Discard,
            "sync" | "datasync" => {
                return Ok(Some(Line { volume, operation: Operation::Flush, offset: 0, length: 0, at }));
            }
            "wait" => {
                let more = time("wait", fields.get("wait", first + 2)?, MICRO)?;
                self.waited = Nanos::new(self.waited.get().saturating_add(more.get()));
                return Ok(None);
            }
            "add" | "open" | "close" => return Ok(None),
            other => return Err(wrong("action", other, "is not an action of fio's log")),
        };
        let offset = whole("offset", fields.get("offset", first + 2)?)?;
        let length = whole("length", fields.get("length", first + 3)?)?;
        Ok(Some(Line { volume, operation, offset, length, at }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(
            Format::of_line("fio version 2 iolog", &crate::format::How::default()),
            Some(Format::Iolog)
        );
        let mut two = Iolog::default();
        for none in ["fio version 2 iolog", "/dev/sdb add", "/dev/sdb open", "/dev/sdb wait 1500 0"] {
            assert_eq!(two.line(none), Ok(None), "{none}");
        }
        let line = two.line("/dev/sdb write 32256 4096").unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("/dev/sdb", ""), 32_256, 4096));
        assert_eq!(line.at, Nanos::new(1_500_000));
        let mut three = Iolog::default();
        assert_eq!(three.line("fio version 3 iolog"), Ok(None));
        let line = three.line("7 /dev/sdb read 0 512").unwrap().unwrap();
        assert_eq!((line.operation, line.at), (Operation::Read, Nanos::new(7_000_000)));
        assert_eq!(three.line("9 /dev/sdb datasync").unwrap().unwrap().operation, Operation::Flush);
        assert!(three.line("9 /dev/sdb jump 0 1").is_err());
        assert!(three.line("9 /dev/sdb").is_err());
    }
}
