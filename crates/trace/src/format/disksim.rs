//! The formats of DiskSim and MQSim.
//!
//! DiskSim's validation traces are of requests sent to a real drive, and how long each took. A line is
//! `R|W Hit|Miss first_block blocks service_us delay_us`, separated by spaces. A block is 512 bytes. The next request arrived `delay_us` after this one completed. The second column is the class that
//! DiskSim's authors gave the request (for writes `Doub` or `Trip`); it is ignored.
//!
//! DiskSim's input has lines of `arrival_ms device first_block blocks flags`; MQSim's input looks the same, with
//! times in whole nanoseconds and the type the other way round.

use straddle_units::io::Operation;

use super::rows::{Role, Rows};
use super::{Fields, Line, Lines, Quick, Volume, When, is_whole, sectors, time, whole, wrong};
use crate::columns::Values;
use crate::error::LineError;
use crate::histogram::SECTOR;

/// Nanoseconds per microsecond.
const MICRO: u64 = 1000;
/// Nanoseconds per millisecond.
const MILLI: u64 = 1_000_000;

/// Whether a line has the form of such a trace.
pub(crate) fn is_line(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    matches!(fields.next(), Some("R" | "W")) && fields.count() == 5
}

/// Parses lines, each of which is a request.
#[derive(Debug)]
pub(crate) struct DiskSim;

impl Lines for DiskSim {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        request(line).map(Some)
    }
}

/// The fields of DiskSim's and MQSim's input.
type Five<'a> = Fields<'a, 5>;

fn five(line: &str) -> Option<Five<'_>> {
    let fields = Five::of(line.split_ascii_whitespace());
    let numbers = (1..5).all(|index| fields.get("", index).is_ok_and(is_whole));
    (fields.count() == 5 && numbers).then_some(fields)
}

/// Whether a line is DiskSim's input: times are in milliseconds, with a point.
pub(crate) fn is_ascii(line: &str) -> bool {
    let at = five(line).and_then(|fields| fields.get("", 0).ok());
    at.is_some_and(|at| at.contains('.') && time("", at, MILLI).is_ok())
}

/// Whether a line is MQSim's input: times are in whole nanoseconds.
pub(crate) fn is_mqsim(line: &str) -> bool {
    five(line).and_then(|fields| fields.get("", 0).ok()).is_some_and(is_whole)
}

/// Parses DiskSim's input.
#[derive(Debug)]
pub(crate) struct Ascii(Rows);

impl Default for Ascii {
    fn default() -> Self {
        // Other flags than these are left to the slow reader.
        Self(rows(6, [("0", Operation::Write), ("1", Operation::Read)]))
    }
}

fn rows(exponent: u32, types: [(&str, Operation); 2]) -> Rows {
    let own = types.map(|(name, operation)| (name.to_owned(), operation)).to_vec();
    let sizes = [Role::Offset(SECTOR), Role::Length(SECTOR), Role::Op(Values::Own(own).into())];
    let roles = [Role::Time(exponent), Role::Volume].into_iter().chain(sizes);
    Rows::new(b' ', roles.collect())
}

impl Lines for Ascii {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let is_read = |flags: &str| whole("flags", flags).map(|flags| flags & 1 == 1);
        input(line, MILLI, is_read).map(Some)
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

/// Parses MQSim's input.
#[derive(Debug)]
pub(crate) struct MqSim(Rows);

impl Default for MqSim {
    fn default() -> Self {
        Self(rows(0, [("0", Operation::Write), ("1", Operation::Read)]))
    }
}

impl Lines for MqSim {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let is_read = |kind: &str| match kind {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(wrong("type", other, "must be 0 (write) or 1 (read)")),
        };
        input(line, 1, is_read).map(Some)
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.0.quick(bytes, at)
    }
}

fn input(
    line: &str,
    unit: u64,
    is_read: impl Fn(&str) -> Result<bool, LineError>,
) -> Result<Line<'_>, LineError> {
    let fields = Five::of(line.split_ascii_whitespace());
    let when = When::At(time("time", fields.get("time", 0)?, unit)?);
    let volume = Volume(fields.get("device", 1)?, "");
    let offset = sectors("first sector", fields.get("first sector", 2)?)?;
    let length = sectors("sectors", fields.get("sectors", 3)?)?;
    let operation = if is_read(fields.get("type", 4)?)? { Operation::Read } else { Operation::Write };
    Ok(Line { volume, operation, offset, length, when })
}

fn request(line: &str) -> Result<Line<'_>, LineError> {
    let fields = Fields::<6>::of(line.split_ascii_whitespace());
    let field = |column, index| fields.get(column, index);
    let operation = match field("operation", 0)? {
        "R" => Operation::Read,
        "W" => Operation::Write,
        other => return Err(wrong("operation", other, "must be R or W")),
    };
    let bytes = |column, index| sectors(column, field(column, index)?);
    let measured = time("service time", field("service time", 4)?, MICRO)?;
    let then = time("delay", field("delay", 5)?, MICRO)?;
    let (offset, length) = (bytes("first block", 2)?, bytes("blocks", 3)?);
    Ok(Line { volume: Volume::default(), operation, offset, length, when: When::Took { measured, then } })
}

#[cfg(test)]
mod tests {
    use straddle_units::io::Nanos;

    use super::*;

    #[test]
    fn a_line_is_read() {
        let when = When::Took { measured: Nanos::new(14_095_370), then: Nanos::new(13_876_270) };
        let expected = Line {
            volume: Volume::default(),
            operation: Operation::Read,
            offset: 564_347 * 512,
            length: 1024,
            when,
        };
        assert_eq!(request("R Miss  564347     2     14095.370     13876.270"), Ok(expected));
        assert_eq!(request("W Doub 1 1 5 6").unwrap().operation, Operation::Write);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(request("R Hit 1 2 3"), Err(LineError::Missing { column: "delay", fields: 5 }));
        assert!(matches!(request("X Hit 1 2 3 4"), Err(LineError::Field { column: "operation", .. })));
        assert!(matches!(
            request("R Hit 99999999999999999 2 3 4"),
            Err(LineError::Field { column: "first block", .. })
        ));
        assert!(matches!(request("R Hit 1 2 3 x"), Err(LineError::Field { column: "delay", .. })));
    }
}
