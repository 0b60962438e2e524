//! Traces of lines that are fields in a fixed order: those of servers and clouds, and the input of simulators.
//!
//! They are also read quickly: a line that is not plainly written is left to the parser of its format.

use straddle_units::io::{Nanos, Operation};

use super::{Fields, Line, Lines, Quick, Request, Token, Volume, is_whole, scaled, time, wrong};
use crate::columns::{Exponent, Names, Values};
use crate::error::LineError;
use crate::histogram::SECTOR;
use crate::scan;

#[derive(Debug)]
pub(crate) struct Spec {
    separator: u8,
    /// The fields up to the last one that matters, and what errors call them.
    roles: &'static [Role],
    names: &'static [&'static str],
    counts: &'static [usize],
    whole: &'static [usize],
    /// The types of requests; by the low bit if there are none.
    operations: &'static [(&'static str, Operation)],
    types: &'static str,
    /// The line of the columns' names, without blanks, of a trace that has one. Its types may be blank.
    header: Option<&'static str>,
}

pub(crate) const MSR: Spec = Spec {
    separator: b',',
    roles: &[Role::Time(2), Role::Volume, Role::Part, Role::Op, Role::Offset(1), Role::Length(1)],
    names: &["timestamp", "host", "disk", "type", "offset", "size"],
    counts: &[7],
    whole: &[0, 2, 4, 5],
    ..WORDS
};

pub(crate) const ALIBABA: Spec = Spec {
    separator: b',',
    roles: &[Role::Volume, Role::Op, Role::Offset(1), Role::Length(1), Role::Time(3)],
    names: &["device", "opcode", "offset", "length", "timestamp"],
    counts: &[5],
    whole: &[0, 2, 3, 4],
    ..WORDS
};

pub(crate) const TENCENT: Spec = Spec {
    separator: b',',
    roles: &[Role::Time(9), Role::Offset(SECTOR), Role::Length(SECTOR), Role::Op, Role::Volume],
    names: &["timestamp", "offset", "size", "type", "volume"],
    counts: &[5],
    whole: &[0, 1, 2, 3, 4],
    operations: &[("0", Operation::Read), ("1", Operation::Write)],
    types: "must be 0 (read) or 1 (write)",
    header: None,
};

pub(crate) const SYSTOR: Spec = Spec {
    separator: b',',
    roles: &[Role::Time(9), Role::Skip, Role::Op, Role::Volume, Role::Offset(1), Role::Length(1)],
    names: &["timestamp", "response", "type", "LUN", "offset", "size"],
    header: Some("timestamp,response,iotype,lun,offset,size"),
    ..WORDS
};

pub(crate) const FIU: Spec = Spec {
    separator: b' ',
    roles: &[
        Role::Time(0),
        Role::Skip,
        Role::Skip,
        Role::Offset(SECTOR),
        Role::Length(SECTOR),
        Role::Op,
        Role::Volume,
        Role::Part,
    ],
    names: &["time", "pid", "process", "lba", "blocks", "type", "major", "minor"],
    counts: &[8, 9],
    whole: &[0, 1, 3, 4, 6, 7],
    ..WORDS
};

const WORDS: Spec = Spec {
    separator: b',',
    roles: &[],
    names: &[],
    counts: &[],
    whole: &[],
    operations: &[
        ("R", Operation::Read),
        ("W", Operation::Write),
        ("Read", Operation::Read),
        ("Write", Operation::Write),
        ("read", Operation::Read),
        ("write", Operation::Write),
    ],
    types: "must be a read or a write",
    header: None,
};

#[derive(Debug)]
pub(crate) struct Fixed {
    spec: &'static Spec,
    rows: Rows,
}

impl Spec {
    pub(crate) fn shows(&'static self, line: &str) -> bool {
        if let Some(header) = self.header {
            return line.replace(' ', "").eq_ignore_ascii_case(header);
        }
        let fixed = Fixed::of(self);
        let fields = fixed.fields(line);
        let is_whole = |index: &usize| fields.get("", *index).is_ok_and(is_whole);
        let is_request = matches!(fixed.request(&fields), Ok(Some(_)));
        is_request && self.counts.contains(&fields.count()) && self.whole.iter().all(is_whole)
    }
}

impl Fixed {
    pub(crate) fn of(spec: &'static Spec) -> Self {
        let values = spec.operations.iter().map(|(name, operation)| ((*name).to_owned(), *operation));
        let names = Names::from(Values::Own(values.collect()));
        let rows = Rows { separator: spec.separator, roles: spec.roles.to_vec(), names };
        Self { spec, rows }
    }

    fn fields<'a>(&self, line: &'a str) -> Fields<'a, 9> {
        match self.spec.separator {
            b' ' => Fields::of(line.split_ascii_whitespace()),
            _ => Fields::of(line.split(',').map(str::trim)),
        }
    }

    fn request<'a>(&self, fields: &Fields<'a, 9>) -> Result<Option<Line<'a>>, LineError> {
        let (mut volume, mut operation, mut at) = (Volume::default(), None, Nanos::ZERO);
        let (mut offset, mut length) = (0, 0);
        for (index, (role, name)) in self.spec.roles.iter().zip(self.spec.names).enumerate() {
            let field = fields.get(name, index);
            match role {
                Role::Skip => {}
                Role::Time(exponent) => at = time(name, field?, 10_u64.pow(*exponent))?,
                Role::Offset(unit) => offset = scaled(name, field?, *unit)?,
                Role::Length(unit) => length = scaled(name, field?, *unit)?,
                Role::Volume => volume.0 = field?,
                Role::Part => volume.1 = field?,
                Role::Op => {
                    let field = field?;
                    operation = self.rows.names.operation(field.as_bytes());
                    if operation.is_none() && !(self.spec.header.is_some() && field.is_empty()) {
                        return Err(wrong(name, field, self.spec.types));
                    }
                }
            }
        }
        Ok(operation.map(|operation| Line { volume, operation, offset, length, at }))
    }
}

impl Lines for Fixed {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let is_header = self.spec.header.is_some() && self.spec.shows(line);
        if is_header { Ok(None) } else { self.request(&self.fields(line)) }
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.rows.quick(bytes, at)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Skip,
    /// In ten to this power nanoseconds.
    Time(Exponent),
    Op,
    /// In bytes of this number.
    Offset(u64),
    Length(u64),
    Volume,
    /// The second part of the volume, after [`Role::Volume`].
    Part,
}

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// A blank stands for any number of them.
    pub(super) separator: u8,
    pub(super) roles: Vec<Role>,
    pub(super) names: Names,
}

impl Rows {
    #[inline]
    pub(crate) fn quick<'a>(&self, bytes: &'a [u8], from: usize) -> Option<Quick<'a>> {
        let mut at = from;
        let (mut offset, mut length, mut time, mut operation) = (0, 0, 0, None);
        let mut volume = Token { bytes, at, length: 0, second: None };
        let last = self.roles.len().checked_sub(1)?;
        for (index, role) in self.roles.iter().enumerate() {
            if self.separator == b' ' {
                at = scan::past_blanks(bytes, at);
            }
            let from = at;
            match role {
                Role::Time(exponent) => (time, at) = scan::time(bytes, at, *exponent)?,
                Role::Offset(unit) => {
                    let (number, end) = scan::number(bytes, at)?;
                    (offset, at) = (number.checked_mul(*unit)?, end);
                }
                Role::Length(unit) => {
                    let (number, end) = scan::number(bytes, at)?;
                    (length, at) = (number.checked_mul(*unit)?, end);
                }
                Role::Op => {
                    let letter = self.names.letter(*bytes.get(at)?);
                    if letter.is_some() && bytes.get(at + 1) == Some(&self.separator) {
                        (operation, at) = (letter, at + 1);
                    } else {
                        at = self.field(bytes, at)?;
                        operation = Some(self.names.operation(bytes.get(from..at)?)?);
                    }
                }
                Role::Skip => at = self.field(bytes, at)?,
                Role::Volume => {
                    at = self.field(bytes, at)?;
                    volume = Token { bytes, at: from, length: at - from, second: None };
                }
                Role::Part => {
                    // With a separator of one byte between them.
                    if from != volume.at + volume.length + 1 {
                        return None;
                    }
                    at = self.field(bytes, at)?;
                    volume = Token { length: at - volume.at, second: Some(from), ..volume };
                }
            }
            if index < last {
                if bytes.get(at) != Some(&self.separator) {
                    return None;
                }
                at += 1;
            }
        }
        // A flush is one whatever else its line says.
        let operation = operation.filter(|operation| *operation != Operation::Flush)?;
        let next = match scan::past_line(bytes, at) {
            Some(next) => next,
            None if bytes.get(at) == Some(&self.separator) => {
                at + 1 + memchr::memchr(b'\n', bytes.get(at + 1..)?)? + 1
            }
            None => return None,
        };
        let request = Request { volume, operation, offset, length, time: Nanos::new(time) };
        Some(Quick { next, request: Some(request) })
    }

    /// Returns the end of a field that has no quotes, and between blanks no other white space.
    #[inline]
    fn field(&self, bytes: &[u8], at: usize) -> Option<usize> {
        if matches!(bytes.get(at), Some(b'"' | b' ' | b'\t')) {
            return None;
        }
        let end = scan::field_end(bytes, at, self.separator);
        let is_plain = self.separator != b' ' || bytes.get(at..end)?.iter().all(|byte| *byte > b' ');
        is_plain.then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;
    use crate::format::How;

    fn parsed<'a>(format: Format, mut lines: Fixed, line: &'a str) -> (Volume<'a>, Operation, u64, u64) {
        assert_eq!(Format::of_line(line, &How::default()), Some(format), "{line}");
        let line = lines.line(line).unwrap().unwrap();
        (line.volume, line.operation, line.offset, line.length)
    }

    #[test]
    fn a_line_of_each_is_detected_and_read() {
        let line = parsed(Format::Msr, Fixed::of(&MSR), "128166372003061629,hm,1,Read,383496192,32768,1331");
        assert_eq!(line, (Volume("hm", "1"), Operation::Read, 383_496_192, 32_768));
        let line = parsed(Format::Alibaba, Fixed::of(&ALIBABA), "419,W,8792731648,16384,1577808144360767");
        assert_eq!(line, (Volume("419", ""), Operation::Write, 8_792_731_648, 16_384));
        let line = parsed(Format::Tencent, Fixed::of(&TENCENT), "1538323200,12910952,128,0,1063");
        assert_eq!(line, (Volume("1063", ""), Operation::Read, 12_910_952 * 512, 65_536));
        let text = "89966104003266 4253 kjournald 508048 8 W 6 0 0c06e6a31e8ec4bb2e96b2aa7e2d4f2b";
        let line = parsed(Format::Fiu, Fixed::of(&FIU), text);
        assert_eq!(line, (Volume("6", "0"), Operation::Write, 508_048 * 512, 4096));
    }

    #[test]
    fn systor_begins_with_its_columns_and_may_leave_the_type_blank() {
        assert_eq!(
            Format::of_line("Timestamp,Response,IOType,LUN,Offset,Size", &How::default()),
            Some(Format::Systor)
        );
        let mut lines = Fixed::of(&SYSTOR);
        assert_eq!(lines.line("Timestamp,Response,IOType,LUN,Offset,Size"), Ok(None));
        let line = lines.line("1455592478.084041000,,W,2,38151680,4096").unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("2", ""), 38_151_680, 4096));
        assert_eq!(lines.line("1455592478.084041000,0.1,,2,38151680,4096"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(matches!(
            Fixed::of(&MSR).line("1,a,0,Seek,0,1,2"),
            Err(LineError::Field { column: "type", .. })
        ));
        assert!(matches!(Fixed::of(&MSR).line("1,a,0,,0,1,2"), Err(LineError::Field { column: "type", .. })));
        assert_eq!(
            Fixed::of(&ALIBABA).line("1,W,0"),
            Err(LineError::Missing { column: "length", fields: 3 })
        );
        assert!(matches!(
            Fixed::of(&TENCENT).line("1,0,1,7,1"),
            Err(LineError::Field { column: "type", .. })
        ));
        let far = format!("1,{},1,0,1", u64::MAX);
        assert!(matches!(Fixed::of(&TENCENT).line(&far), Err(LineError::Field { column: "offset", .. })));
    }
}
