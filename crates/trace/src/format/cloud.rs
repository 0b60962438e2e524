//! The published traces of servers and clouds, as comma-separated values without a column's names, or with one
//! line of them.
//!
//! | trace | columns | units |
//! |---|---|---|
//! | MSR Cambridge | timestamp, host, disk, type, offset, size, response | 100 ns since 1601; bytes |
//! | Alibaba 2020 | device, opcode, offset, length, timestamp | bytes; microseconds |
//! | Tencent CBS | timestamp, offset, size, type, volume | seconds; sectors of 512 bytes |
//! | SYSTOR '17 | timestamp, response, type, LUN, offset, size | seconds with a point; bytes |

use straddle_units::io::Operation;

use super::rows::{Role, Rows};
use super::{Fields, Line, Lines, Quick, Volume, When, is_whole, sectors, time, whole, wrong};
use crate::columns::Values;
use crate::error::LineError;
use crate::histogram::SECTOR;

/// Nanoseconds per unit of time.
const SECOND: u64 = 1_000_000_000;
const MICRO: u64 = 1000;
const TICK: u64 = 100;

type Columns<'a> = Fields<'a, 8>;

fn columns(line: &str) -> Columns<'_> {
    Columns::of(line.split(',').map(str::trim))
}

fn are_whole(fields: &Columns<'_>, indices: &[usize]) -> bool {
    indices.iter().all(|index| fields.get("", *index).is_ok_and(is_whole))
}

/// Whether a line is of MSR Cambridge.
pub(crate) fn is_msr(line: &str) -> bool {
    let fields = columns(line);
    let kind = fields.get("", 3).is_ok_and(|kind| read_or_write(kind).is_ok());
    fields.count() == 7 && are_whole(&fields, &[0, 2, 4, 5]) && kind
}

/// Whether a line is of Alibaba's traces.
pub(crate) fn is_alibaba(line: &str) -> bool {
    let fields = columns(line);
    let kind = fields.get("", 1).is_ok_and(|kind| matches!(kind, "R" | "W"));
    fields.count() == 5 && are_whole(&fields, &[0, 2, 3, 4]) && kind
}

/// Whether a line is of Tencent's traces.
pub(crate) fn is_tencent(line: &str) -> bool {
    let fields = columns(line);
    let kind = fields.get("", 3).is_ok_and(|kind| matches!(kind, "0" | "1"));
    fields.count() == 5 && are_whole(&fields, &[0, 1, 2, 3, 4]) && kind
}

/// Whether a line is the header of SYSTOR '17's traces.
pub(crate) fn is_systor(line: &str) -> bool {
    line.replace(' ', "").eq_ignore_ascii_case("timestamp,response,iotype,lun,offset,size")
}

/// Parses MSR Cambridge.
#[derive(Debug)]
pub(crate) struct Msr(Rows);

impl Default for Msr {
    fn default() -> Self {
        Self(rows(vec![Role::Time(2), Role::VolumeAndNext, op(), Role::Offset(1), Role::Length(1)]))
    }
}

impl Lines for Msr {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let fields = columns(line);
        let when = When::At(time("timestamp", fields.get("timestamp", 0)?, TICK)?);
        let operation = read_or_write(fields.get("type", 3)?)?;
        let offset = whole("offset", fields.get("offset", 4)?)?;
        let length = whole("size", fields.get("size", 5)?)?;
        let volume = Volume(fields.get("host", 1)?, fields.get("disk", 2)?);
        Ok(Some(Line { volume, operation, offset, length, when }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

/// Parses Alibaba's traces.
#[derive(Debug)]
pub(crate) struct Alibaba(Rows);

impl Default for Alibaba {
    fn default() -> Self {
        Self(rows(vec![Role::Volume, op(), Role::Offset(1), Role::Length(1), Role::Time(3)]))
    }
}

impl Lines for Alibaba {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let fields = columns(line);
        let volume = Volume(fields.get("device", 0)?, "");
        let operation = read_or_write(fields.get("opcode", 1)?)?;
        let offset = whole("offset", fields.get("offset", 2)?)?;
        let length = whole("length", fields.get("length", 3)?)?;
        let when = When::At(time("timestamp", fields.get("timestamp", 4)?, MICRO)?);
        Ok(Some(Line { volume, operation, offset, length, when }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

/// Parses Tencent's traces.
#[derive(Debug)]
pub(crate) struct Tencent(Rows);

impl Default for Tencent {
    fn default() -> Self {
        let own = [("0", Operation::Read), ("1", Operation::Write)];
        let op = Values::Own(own.map(|(name, operation)| (name.to_owned(), operation)).to_vec());
        let sizes = [Role::Offset(SECTOR), Role::Length(SECTOR)];
        let roles = [Role::Time(9)].into_iter().chain(sizes).chain([Role::Op(op.into()), Role::Volume]);
        Self(rows(roles.collect()))
    }
}

impl Lines for Tencent {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let fields = columns(line);
        let when = When::At(time("timestamp", fields.get("timestamp", 0)?, SECOND)?);
        let offset = sectors("offset", fields.get("offset", 1)?)?;
        let length = sectors("size", fields.get("size", 2)?)?;
        let operation = match fields.get("type", 3)? {
            "0" => Operation::Read,
            "1" => Operation::Write,
            other => return Err(wrong("type", other, "must be 0 (read) or 1 (write)")),
        };
        let volume = Volume(fields.get("volume", 4)?, "");
        Ok(Some(Line { volume, operation, offset, length, when }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

/// Parses SYSTOR '17's traces. A request whose type is blank is neither a read nor a write.
#[derive(Debug)]
pub(crate) struct Systor(Rows);

impl Default for Systor {
    fn default() -> Self {
        Self(rows(vec![Role::Time(9), Role::Skip, op(), Role::Volume, Role::Offset(1), Role::Length(1)]))
    }
}

impl Lines for Systor {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        if is_systor(line) {
            return Ok(None);
        }
        let fields = columns(line);
        let when = When::At(time("timestamp", fields.get("timestamp", 0)?, SECOND)?);
        let kind = fields.get("type", 2)?;
        let volume = Volume(fields.get("LUN", 3)?, "");
        let offset = whole("offset", fields.get("offset", 4)?)?;
        let length = whole("size", fields.get("size", 5)?)?;
        if kind.is_empty() {
            return Ok(None);
        }
        let operation = read_or_write(kind)?;
        Ok(Some(Line { volume, operation, offset, length, when }))
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

fn rows(roles: Vec<Role>) -> Rows {
    Rows::new(b',', roles)
}

/// Returns the role of the type of a request.
pub(crate) fn op() -> Role {
    let reads = ["R", "Read", "read"].map(|name| (name.to_owned(), Operation::Read));
    let writes = ["W", "Write", "write"].map(|name| (name.to_owned(), Operation::Write));
    let own = reads.into_iter().zip(writes).flat_map(|(read, write)| [read, write]);
    Role::Op(Values::Own(own.collect()).into())
}

/// Parses the type of a request.
pub(crate) fn read_or_write(name: &str) -> Result<Operation, LineError> {
    match name {
        "R" | "Read" | "read" => Ok(Operation::Read),
        "W" | "Write" | "write" => Ok(Operation::Write),
        other => Err(wrong("type", other, "must be a read or a write")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use crate::how::How;

    fn parsed<'a>(format: Format, lines: &mut dyn Lines, line: &'a str) -> (Volume<'a>, Operation, u64, u64) {
        assert_eq!(Format::of_line(line, &How::default()), Some(format), "{line}");
        let line = lines.line(line).unwrap().unwrap();
        (line.volume, line.operation, line.offset, line.length)
    }

    #[test]
    fn a_line_of_each_is_detected_and_read() {
        let msr =
            parsed(Format::Msr, &mut Msr::default(), "128166372003061629,hm,1,Read,383496192,32768,1331");
        assert_eq!(msr, (Volume("hm", "1"), Operation::Read, 383_496_192, 32_768));
        let alibaba =
            parsed(Format::Alibaba, &mut Alibaba::default(), "419,W,8792731648,16384,1577808144360767");
        assert_eq!(alibaba, (Volume("419", ""), Operation::Write, 8_792_731_648, 16_384));
        let tencent = parsed(Format::Tencent, &mut Tencent::default(), "1538323200,12910952,128,0,1063");
        assert_eq!(tencent, (Volume("1063", ""), Operation::Read, 12_910_952 * 512, 65_536));
    }

    #[test]
    fn systor_begins_with_its_columns_and_may_leave_the_type_blank() {
        assert_eq!(
            Format::of_line("Timestamp,Response,IOType,LUN,Offset,Size", &How::default()),
            Some(Format::Systor)
        );
        let mut lines = Systor::default();
        assert_eq!(lines.line("Timestamp,Response,IOType,LUN,Offset,Size"), Ok(None));
        let line = lines.line("1455592478.084041000,,W,2,38151680,4096").unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("2", ""), 38_151_680, 4096));
        assert_eq!(lines.line("1455592478.084041000,0.1,,2,38151680,4096"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(matches!(
            Msr::default().line("1,a,0,Seek,0,1,2"),
            Err(LineError::Field { column: "type", .. })
        ));
        assert!(matches!(
            Alibaba::default().line("1,W,0"),
            Err(LineError::Missing { column: "length", fields: 3 })
        ));
        assert!(matches!(Tencent::default().line("1,0,1,7,1"), Err(LineError::Field { column: "type", .. })));
        let far = format!("1,{},1,0,1", u64::MAX);
        assert!(matches!(Tencent::default().line(&far), Err(LineError::Field { column: "offset", .. })));
    }
}
