//! FIU's traces: `time_ns pid process lba blocks W|R major minor md5`, in blocks of 512 bytes.

use super::cloud::{op, read_or_write};
use super::rows::{Role, Rows};
use super::{Fields, Line, Lines, Quick, Volume, When, is_whole, sectors, time};
use crate::error::LineError;
use crate::histogram::SECTOR;

type Columns<'a> = Fields<'a, 9>;

/// Whether a line has the form of such a trace.
pub(crate) fn is_line(line: &str) -> bool {
    let fields = Columns::of(line.split_ascii_whitespace());
    let numbers = [0, 1, 3, 4, 6, 7].iter().all(|index| fields.get("", *index).is_ok_and(is_whole));
    numbers && fields.get("", 5).is_ok_and(|kind| matches!(kind, "R" | "W"))
}

/// Parses lines, each of which is a request. The volume is the device's two numbers.
#[derive(Debug)]
pub(crate) struct Fiu(Rows);

impl Default for Fiu {
    fn default() -> Self {
        let sizes = [Role::Offset(SECTOR), Role::Length(SECTOR), op(), Role::VolumeAndNext];
        let roles = [Role::Time(0), Role::Skip, Role::Skip].into_iter().chain(sizes);
        Self(Rows::new(b' ', roles.collect()))
    }
}

impl Lines for Fiu {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let fields = Columns::of(line.split_ascii_whitespace());
        let when = When::At(time("time", fields.get("time", 0)?, 1)?);
        let offset = sectors("lba", fields.get("lba", 3)?)?;
        let length = sectors("blocks", fields.get("blocks", 4)?)?;
        let operation = read_or_write(fields.get("type", 5)?)?;
        let volume = Volume(fields.get("major", 6)?, fields.get("minor", 7)?);
        Ok(Some(Line { volume, operation, offset, length, when }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use straddle_units::io::Operation;

    use super::super::Format;
    use super::*;

    #[test]
    fn a_line_is_detected_and_read() {
        let text = "89966104003266 4253 kjournald 508048 8 W 6 0 0c06e6a31e8ec4bb2e96b2aa7e2d4f2b";
        assert_eq!(Format::of_line(text, &crate::how::How::default()), Some(Format::Fiu));
        let line = Fiu::default().line(text).unwrap().unwrap();
        assert_eq!((line.volume, line.operation), (Volume("6", "0"), Operation::Write));
        assert_eq!((line.offset, line.length), (508_048 * 512, 4096));
    }
}
