//! Traces as comma-separated values, with a header.

use straddle_io::Operation;

use super::{Fields, Line, Lines, Volume, When, time, whole, wrong};
use crate::error::LineError;

/// Parses a header, then requests.
#[derive(Debug, Default)]
pub(crate) struct Csv(Option<Columns>);

impl Lines for Csv {
    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        match self.0 {
            Some(columns) => columns.line(line).map(Some),
            None => {
                self.0 = Some(Columns::of(line)?);
                Ok(None)
            }
        }
    }
}

/// The index of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    time: usize,
    /// Nanoseconds per unit of the time column.
    unit: u64,
    op: usize,
    offset: usize,
    length: usize,
    volume: Option<usize>,
}

/// Accepted names of the column of the volume, which may be absent.
const VOLUMES: [&str; 5] = ["volume", "device", "drive", "disk", "lun"];
/// The most columns of a trace.
const COLUMNS: usize = 32;

/// Accepted names of the time column, with the nanoseconds per unit.
const TIMES: [(&str, u64); 5] = [
    ("time", 1_000_000_000),
    ("time_s", 1_000_000_000),
    ("time_ms", 1_000_000),
    ("time_us", 1000),
    ("time_ns", 1),
];

fn unit(name: &str) -> Option<u64> {
    TIMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit)
}

/// Whether a line looks like a header: it names at least two of the required columns.
pub(crate) fn is_header(line: &str) -> bool {
    let known = |name: &&str| {
        unit(name).is_some()
            || ["op", "offset", "length"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    line.split(',').map(str::trim).filter(known).count() >= 2
}

impl Columns {
    /// Finds the columns in a header.
    fn of(header: &str) -> Result<Self, LineError> {
        let (mut times, mut op, mut offset, mut length, mut volume) = (None, None, None, None, None);
        for (index, name) in header.split(',').map(str::trim).enumerate() {
            let found = |slot: &mut Option<usize>, column| match slot.replace(index) {
                None => Ok(()),
                Some(_) => Err(LineError::TwoColumns { column }),
            };
            match name.to_ascii_lowercase().as_str() {
                "op" => found(&mut op, "op")?,
                "offset" => found(&mut offset, "offset")?,
                "length" => found(&mut length, "length")?,
                name if VOLUMES.contains(&name) => found(&mut volume, "volume")?,
                name => {
                    if let Some(unit) = unit(name)
                        && times.replace((index, unit)).is_some()
                    {
                        return Err(LineError::TwoColumns { column: "time" });
                    }
                }
            }
        }
        let (time, unit) = times.ok_or(LineError::NoColumn { column: "time" })?;
        Ok(Self {
            time,
            unit,
            op: op.ok_or(LineError::NoColumn { column: "op" })?,
            offset: offset.ok_or(LineError::NoColumn { column: "offset" })?,
            length: length.ok_or(LineError::NoColumn { column: "length" })?,
            volume,
        })
    }

    fn line<'a>(&self, line: &'a str) -> Result<Line<'a>, LineError> {
        let fields = Fields::<COLUMNS>::of(line.split(','));
        let field = |column, index| fields.get(column, index).map(str::trim);
        let volume = Volume(self.volume.map_or(Ok(""), |index| field("volume", index))?, "");
        let operation = operation(field("op", self.op)?)?;
        let when = When::At(time("time", field("time", self.time)?, self.unit)?);
        if operation == Operation::Flush {
            // A flush has no offset or length, whatever its fields say.
            return Ok(Line { volume, operation, offset: 0, length: 0, when });
        }
        let offset = whole("offset", field("offset", self.offset)?)?;
        let length = whole("length", field("length", self.length)?)?;
        Ok(Line { volume, operation, offset, length, when })
    }
}

fn operation(name: &str) -> Result<Operation, LineError> {
    const NAMES: [(&str, &str, Operation); 4] = [
        ("R", "read", Operation::Read),
        ("W", "write", Operation::Write),
        ("F", "flush", Operation::Flush),
        ("D", "discard", Operation::Discard),
    ];
    let is = |known: &str| known.eq_ignore_ascii_case(name);
    let known = NAMES.iter().find(|(short, long, _)| is(short) || is(long));
    known
        .map(|(_, _, operation)| *operation)
        .ok_or_else(|| wrong("op", name, "must be R, W, F, D, or read, write, flush, discard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_any_order_among_others() {
        let columns = Columns::of("host, Length ,OFFSET,op,time_us,disk").unwrap();
        let line = columns.line("a, 4096 , 512,Write,1.5,x").unwrap();
        let when = When::At(straddle_io::Nanos::new(1500));
        assert_eq!(
            line,
            Line { volume: Volume("x", ""), operation: Operation::Write, offset: 512, length: 4096, when }
        );
        assert_eq!(columns.line("a,,,F,2,x").unwrap().operation, Operation::Flush);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(Columns::of("time,op,offset"), Err(LineError::NoColumn { column: "length" }));
        assert_eq!(Columns::of("op,offset,length"), Err(LineError::NoColumn { column: "time" }));
        assert_eq!(
            Columns::of("time,time_us,op,offset,length"),
            Err(LineError::TwoColumns { column: "time" })
        );
        let columns = Columns::of("time,op,offset,length").unwrap();
        assert_eq!(columns.line("1,R,0"), Err(LineError::Missing { column: "length", fields: 3 }));
        assert!(matches!(columns.line("1,X,0,1"), Err(LineError::Field { column: "op", .. })));
        assert!(matches!(columns.line("1,R,-1,1"), Err(LineError::Field { column: "offset", .. })));
        assert!(matches!(columns.line("1,R,0,1k"), Err(LineError::Field { column: "length", .. })));
    }
}
