//! Traces of lines that are fields in a fixed order: those of servers and clouds, and the input of simulators.
//!
//! | trace | columns | units |
//! |---|---|---|
//! | MSR Cambridge | timestamp, host, disk, type, offset, size, response | 100 ns since 1601; bytes |
//! | Alibaba 2020 | device, opcode, offset, length, timestamp | bytes; microseconds |
//! | Tencent CBS | timestamp, offset, size, type, volume | seconds; sectors of 512 bytes |
//! | SYSTOR '17 | a line of the columns' names: timestamp, response, type, LUN, offset, size | seconds with a point; bytes |
//! | FIU | time, pid, process, lba, blocks, type, major, minor, md5 | nanoseconds; blocks of 512 bytes |
//! | DiskSim | time, device, first sector, sectors, flags, of which bit 0 is a read | milliseconds with a point |
//! | MQSim | time, device, first sector, sectors, type, of which 0 is a write | nanoseconds |
//!
//! A request of SYSTOR '17 whose type is blank is neither a read nor a write.

use straddle_units::io::{Nanos, Operation};

use super::rows::{Role, Rows};
use super::{Fields, Line, Lines, Quick, Volume, When, is_whole, scaled, time, wrong};
use crate::columns::Values;
use crate::error::LineError;
use crate::histogram::SECTOR;

/// A format, and its parser.
#[derive(Debug)]
pub(crate) struct Fixed {
    rows: Rows,
    /// What errors call the fields that are read.
    names: &'static [&'static str],
    /// How many fields a line may have.
    counts: &'static [usize],
    /// The fields that are whole numbers.
    whole: &'static [usize],
    /// What the type of a request must be.
    types: &'static str,
    /// Whether it is SYSTOR '17, which has a line of names, and types that are blank.
    is_systor: bool,
}

pub(crate) fn msr() -> Fixed {
    let roles = vec![Role::Time(2), Role::VolumeAndNext, words(), Role::Offset(1), Role::Length(1)];
    Fixed {
        rows: Rows::new(b',', roles),
        names: &["timestamp", "host", "disk", "type", "offset", "size"],
        counts: &[7],
        whole: &[0, 2, 4, 5],
        types: WORDS,
        is_systor: false,
    }
}

pub(crate) fn alibaba() -> Fixed {
    let roles = vec![Role::Volume, words(), Role::Offset(1), Role::Length(1), Role::Time(3)];
    Fixed {
        rows: Rows::new(b',', roles),
        names: &["device", "opcode", "offset", "length", "timestamp"],
        counts: &[5],
        whole: &[0, 2, 3, 4],
        types: WORDS,
        is_systor: false,
    }
}

pub(crate) fn tencent() -> Fixed {
    let op = op(&[("0", Operation::Read), ("1", Operation::Write)]);
    let roles = vec![Role::Time(9), Role::Offset(SECTOR), Role::Length(SECTOR), op, Role::Volume];
    Fixed {
        rows: Rows::new(b',', roles),
        names: &["timestamp", "offset", "size", "type", "volume"],
        counts: &[5],
        whole: &[0, 1, 2, 3, 4],
        types: "must be 0 (read) or 1 (write)",
        is_systor: false,
    }
}

pub(crate) fn systor() -> Fixed {
    let roles = vec![Role::Time(9), Role::Skip, words(), Role::Volume, Role::Offset(1), Role::Length(1)];
    Fixed {
        rows: Rows::new(b',', roles),
        names: &["timestamp", "response", "type", "LUN", "offset", "size"],
        counts: &[],
        whole: &[],
        types: WORDS,
        is_systor: true,
    }
}

pub(crate) fn fiu() -> Fixed {
    let time = [Role::Time(0), Role::Skip, Role::Skip];
    let rest = [Role::Offset(SECTOR), Role::Length(SECTOR), words(), Role::VolumeAndNext];
    Fixed {
        rows: Rows::new(b' ', time.into_iter().chain(rest).collect()),
        names: &["time", "pid", "process", "lba", "blocks", "type", "major", "minor"],
        counts: &[8, 9],
        whole: &[0, 1, 3, 4, 6, 7],
        types: WORDS,
        is_systor: false,
    }
}

pub(crate) fn disksim() -> Fixed {
    let names = &["time", "device", "first sector", "sectors", "flags"];
    let types = "must be a whole number below 2^64";
    simulator(6, Values::LowBit, names, &[1, 2, 3, 4], types)
}

pub(crate) fn mqsim() -> Fixed {
    let own = own(&[("0", Operation::Write), ("1", Operation::Read)]);
    let names = &["time", "device", "first sector", "sectors", "type"];
    simulator(0, own, names, &[0, 1, 2, 3, 4], "must be 0 (write) or 1 (read)")
}

fn simulator(
    exponent: u32,
    values: Values,
    names: &'static [&'static str],
    whole: &'static [usize],
    types: &'static str,
) -> Fixed {
    let sizes = [Role::Offset(SECTOR), Role::Length(SECTOR), Role::Op(values.into())];
    let roles = [Role::Time(exponent), Role::Volume].into_iter().chain(sizes);
    Fixed { rows: Rows::new(b' ', roles.collect()), names, counts: &[5], whole, types, is_systor: false }
}

/// What the type must be where it is a word.
const WORDS: &str = "must be a read or a write";

fn words() -> Role {
    op(&[
        ("R", Operation::Read),
        ("W", Operation::Write),
        ("Read", Operation::Read),
        ("Write", Operation::Write),
        ("read", Operation::Read),
        ("write", Operation::Write),
    ])
}

fn op(names: &[(&str, Operation)]) -> Role {
    Role::Op(own(names).into())
}

fn own(names: &[(&str, Operation)]) -> Values {
    Values::Own(names.iter().map(|(name, operation)| ((*name).to_owned(), *operation)).collect())
}

/// Whether a line is the header of SYSTOR '17's traces.
pub(crate) fn is_systor(line: &str) -> bool {
    line.replace(' ', "").eq_ignore_ascii_case("timestamp,response,iotype,lun,offset,size")
}

impl Fixed {
    /// Whether a line has this format.
    pub(crate) fn shows(&self, line: &str) -> bool {
        let fields = self.fields(line);
        let is_whole = |index: &usize| fields.get("", *index).is_ok_and(is_whole);
        let is_request = matches!(self.request(&fields), Ok(Some(_)));
        is_request && self.counts.contains(&fields.count()) && self.whole.iter().all(is_whole)
    }

    fn fields<'a>(&self, line: &'a str) -> Fields<'a, 9> {
        match self.rows.separator {
            b' ' => Fields::of(line.split_ascii_whitespace()),
            _ => Fields::of(line.split(',').map(str::trim)),
        }
    }

    fn request<'a>(&self, fields: &Fields<'a, 9>) -> Result<Option<Line<'a>>, LineError> {
        let (mut volume, mut operation, mut at) = (Volume::default(), None, Nanos::ZERO);
        let (mut offset, mut length) = (0, 0);
        let mut columns = self.names.iter().enumerate().map(|(index, name)| (*name, fields.get(name, index)));
        for role in &self.rows.roles {
            let Some((name, field)) = columns.next() else { break };
            match role {
                Role::Skip => {}
                Role::Time(exponent) => at = time(name, field?, 10_u64.pow(*exponent))?,
                Role::Offset(unit) => offset = scaled(name, field?, *unit)?,
                Role::Length(unit) => length = scaled(name, field?, *unit)?,
                Role::Volume => volume = Volume(field?, ""),
                Role::VolumeAndNext => {
                    volume = Volume(field?, columns.next().map_or(Ok(""), |(_, second)| second)?);
                }
                Role::Op(names) => {
                    let field = field?;
                    operation = names.values.operation(field.as_bytes());
                    if operation.is_none() && !(self.is_systor && field.is_empty()) {
                        return Err(wrong(name, field, self.types));
                    }
                }
            }
        }
        let request = |operation| Line { volume, operation, offset, length, when: When::At(at) };
        Ok(operation.map(request))
    }
}

impl Lines for Fixed {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        if self.is_systor && is_systor(line) { Ok(None) } else { self.request(&self.fields(line)) }
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.rows.quick(bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use crate::how::How;

    fn parsed<'a>(format: Format, mut lines: Fixed, line: &'a str) -> (Volume<'a>, Operation, u64, u64) {
        assert_eq!(Format::of_line(line, &How::default()), Some(format), "{line}");
        let line = lines.line(line).unwrap().unwrap();
        (line.volume, line.operation, line.offset, line.length)
    }

    #[test]
    fn a_line_of_each_is_detected_and_read() {
        let line = parsed(Format::Msr, msr(), "128166372003061629,hm,1,Read,383496192,32768,1331");
        assert_eq!(line, (Volume("hm", "1"), Operation::Read, 383_496_192, 32_768));
        let line = parsed(Format::Alibaba, alibaba(), "419,W,8792731648,16384,1577808144360767");
        assert_eq!(line, (Volume("419", ""), Operation::Write, 8_792_731_648, 16_384));
        let line = parsed(Format::Tencent, tencent(), "1538323200,12910952,128,0,1063");
        assert_eq!(line, (Volume("1063", ""), Operation::Read, 12_910_952 * 512, 65_536));
        let text = "89966104003266 4253 kjournald 508048 8 W 6 0 0c06e6a31e8ec4bb2e96b2aa7e2d4f2b";
        let line = parsed(Format::Fiu, fiu(), text);
        assert_eq!(line, (Volume("6", "0"), Operation::Write, 508_048 * 512, 4096));
        let line = parsed(Format::DiskSimAscii, disksim(), "1500.25 3 63 8 5");
        assert_eq!(line, (Volume("3", ""), Operation::Read, 63 * 512, 4096));
        let line = parsed(Format::MqSim, mqsim(), "150025 3 63 8 0");
        assert_eq!(line, (Volume("3", ""), Operation::Write, 63 * 512, 4096));
    }

    #[test]
    fn systor_begins_with_its_columns_and_may_leave_the_type_blank() {
        assert_eq!(
            Format::of_line("Timestamp,Response,IOType,LUN,Offset,Size", &How::default()),
            Some(Format::Systor)
        );
        let mut lines = systor();
        assert_eq!(lines.line("Timestamp,Response,IOType,LUN,Offset,Size"), Ok(None));
        let line = lines.line("1455592478.084041000,,W,2,38151680,4096").unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("2", ""), 38_151_680, 4096));
        assert_eq!(lines.line("1455592478.084041000,0.1,,2,38151680,4096"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(matches!(msr().line("1,a,0,Seek,0,1,2"), Err(LineError::Field { column: "type", .. })));
        assert!(matches!(msr().line("1,a,0,,0,1,2"), Err(LineError::Field { column: "type", .. })));
        assert_eq!(alibaba().line("1,W,0"), Err(LineError::Missing { column: "length", fields: 3 }));
        assert!(matches!(tencent().line("1,0,1,7,1"), Err(LineError::Field { column: "type", .. })));
        let far = format!("1,{},1,0,1", u64::MAX);
        assert!(matches!(tencent().line(&far), Err(LineError::Field { column: "offset", .. })));
    }
}
