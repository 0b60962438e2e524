//! Traces as values separated by commas, tabs or semicolons, with a header or with columns by number.

use straddle_units::io::{Nanos, Operation};

use super::fixed::{Role, Rows};
use super::{Fields, Line, Lines, Quick, Volume, scaled, time, wrong};
use crate::columns::{Columns, Names, Places, TIME_NAMES, Values};
use crate::error::LineError;
use crate::format::How;

const SEPARATORS: [char; 3] = [',', '\t', ';'];
const COLUMNS: usize = 64;

#[derive(Debug)]
pub(crate) struct Csv {
    columns: Columns,
    is_timed: bool,
    header: Option<Header>,
}

impl Csv {
    pub(crate) fn of(how: &How) -> Self {
        Self { columns: how.columns.clone(), is_timed: how.timed, header: None }
    }

    /// The first line may be a request itself.
    fn first<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let header = Header::of(line, &self.columns, self.is_timed)?;
        let request = match self.columns.has_names() || self.columns.is_empty() {
            true => None,
            // Columns by number need no header. If there is one, no number is in the column of the offset.
            false => {
                let fields = header.fields(line);
                let offset = unquoted(fields.get("offset", header.places.offset.0)?);
                let has_number = offset.starts_with(|first: char| first.is_ascii_digit());
                has_number.then(|| header.line(line)).transpose()?.flatten()
            }
        };
        self.header = Some(header);
        Ok(request)
    }
}

impl Lines for Csv {
    fn has_others(&self) -> bool {
        false
    }

    fn line<'a>(&mut self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        match &self.header {
            Some(header) => header.line(line),
            None => self.first(line),
        }
    }

    #[inline]
    fn quick<'a>(&mut self, bytes: &'a [u8], at: usize) -> Option<Quick<'a>> {
        self.header.as_ref()?.rows.quick(bytes, at)
    }
}

#[derive(Clone, Debug)]
struct Header {
    separator: char,
    places: Places,
    rows: Rows,
}

/// It names at least two of the required columns.
pub(crate) fn is_header(line: &str) -> bool {
    let known = |name: &&str| {
        TIME_NAMES.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
            || ["op", "offset", "length"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    SEPARATORS.iter().any(|separator| line.split(*separator).map(unquoted).filter(known).count() >= 2)
}

fn unquoted(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(field)
}

impl Header {
    fn of(line: &str, columns: &Columns, is_timed: bool) -> Result<Self, LineError> {
        let separator = SEPARATORS.into_iter().find(|separator| line.contains(*separator)).unwrap_or(' ');
        let names: Vec<&str> = split(line, separator).map(unquoted).collect();
        let places = columns.places(&names, COLUMNS, is_timed, |_| None).map_err(LineError::Columns)?;
        let rows = rows(separator, &places, columns.names());
        Ok(Self { separator, places, rows })
    }

    fn fields<'a>(&self, line: &'a str) -> Fields<'a, COLUMNS> {
        Fields::of(split(line, self.separator))
    }

    fn line<'a>(&self, line: &'a str) -> Result<Option<Line<'a>>, LineError> {
        let fields = self.fields(line);
        let field = |column, index| fields.get(column, index).map(unquoted);
        let Places { time: at, op, offset, length, volume } = self.places;
        let volume = Volume(volume.map_or(Ok(""), |index| field("volume", index))?, "");
        let op = field("op", op)?;
        if op.is_empty() {
            return Ok(None);
        }
        let names = &self.rows.names;
        let operation = names.operation(op.as_bytes()).ok_or_else(|| {
            let reason = match names.values {
                Values::Words => "must be R, W, F or D, or read, write, flush or discard",
                Values::Own(_) => "is not one of the values specified with --columns",
            };
            wrong("op", op, reason)
        })?;
        let at = match at {
            Some((index, exponent)) => time("time", field("time", index)?, 10_u64.pow(exponent))?,
            None => Nanos::ZERO,
        };
        if operation == Operation::Flush {
            // A flush has no offset or length, whatever its fields say.
            return Ok(Some(Line { volume, operation, offset: 0, length: 0, at }));
        }
        let bytes = |column, (index, unit): (usize, u64)| scaled(column, field(column, index)?, unit);
        let (offset, length) = (bytes("offset", offset)?, bytes("length", length)?);
        Ok(Some(Line { volume, operation, offset, length, at }))
    }
}

fn rows(separator: char, places: &Places, names: Names) -> Rows {
    let Places { time, op, offset, length, volume } = *places;
    let mut all =
        vec![(op, Role::Op), (offset.0, Role::Offset(offset.1)), (length.0, Role::Length(length.1))];
    all.extend(time.map(|(index, exponent)| (index, Role::Time(exponent))));
    all.extend(volume.map(|index| (index, Role::Volume)));
    all.sort_by_key(|(index, _)| *index);
    let mut roles = Vec::new();
    // A column that is two things at once is left to the slow reader.
    if all.is_sorted_by(|(one, _), (next, _)| one < next) {
        for (index, role) in all {
            roles.resize(index, Role::Skip);
            roles.push(role);
        }
    }
    Rows { separator: u8::try_from(separator).unwrap_or(b','), roles, names }
}

/// Splits a line at separators outside of quotes, with which a field begins; any number of blanks is one.
fn split(line: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let mut text = rest?;
        if separator == ' ' {
            text = text.trim_start();
        }
        let quoted = text.trim_start_matches(' ').strip_prefix('"');
        let begin = match quoted.and_then(|inner| inner.find('"')) {
            Some(end) => text.len() - quoted.map_or(0, str::len) + end,
            None => 0,
        };
        let end = text.get(begin..).and_then(|behind| behind.find(separator)).map(|end| begin + end);
        let field = end.map_or(text, |at| text.get(..at).unwrap_or_default());
        rest = end.and_then(|at| text.get(at + 1..));
        Some(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TableError;

    fn header(line: &str) -> Result<Header, LineError> {
        Header::of(line, &Columns::default(), true)
    }

    #[test]
    fn columns_stand_in_any_order_among_others() {
        let columns = header("host, Length ,OFFSET,op,time_us,disk").unwrap();
        let line = columns.line("a, 4096 , 512,Write,1.5,x").unwrap();
        let at = Nanos::new(1500);
        assert_eq!(
            line,
            Some(Line {
                volume: Volume("x", ""),
                operation: Operation::Write,
                offset: 512,
                length: 4096,
                at
            })
        );
        let read = |line| columns.line(line).unwrap().unwrap();
        assert_eq!(read("a,,,F,2,x").operation, Operation::Flush);
        assert_eq!(read("\"a,b\",4096,512,\"WF\",2,\"x, y\"").volume, Volume("x, y", ""));
        assert_eq!(columns.line("a,4096,512, ,2,x"), Ok(None), "no operation");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |line| header(line).unwrap_err();
        let missing = |column: &str, present: &str| {
            LineError::Columns(TableError::NoColumn {
                column: column.to_owned(),
                present: present.to_owned(),
            })
        };
        assert_eq!(error("time,op,offset"), missing("length", "time, op, offset"));
        assert_eq!(error("op,offset,length"), missing("time", "op, offset, length"));
        assert!(Header::of("op,offset,length", &Columns::default(), false).is_ok());
        assert_eq!(
            error("time,time_us,op,offset,length"),
            LineError::Columns(TableError::TwoColumns { column: "time" })
        );
        let columns = header("time,op,offset,length").unwrap();
        assert_eq!(columns.line("1,R,0"), Err(LineError::Missing { column: "length", fields: 3 }));
        assert!(matches!(columns.line("1,X,0,1"), Err(LineError::Field { column: "op", .. })));
        assert!(matches!(columns.line("1,R,-1,1"), Err(LineError::Field { column: "offset", .. })));
        assert!(matches!(columns.line("1,R,0,1k"), Err(LineError::Field { column: "length", .. })));
    }

    #[test]
    fn a_map_gives_columns_by_name_or_number_and_their_units() {
        let mut lines =
            Csv::of(&How { columns: "op=type:1/0,offset=lba:sectors".parse().unwrap(), ..How::default() });
        assert_eq!(lines.line("lba;length;type;time_ms"), Ok(None));
        let line = lines.line("63;4096;0;2").unwrap().unwrap();
        assert_eq!((line.operation, line.offset, line.length), (Operation::Write, 32_256, 4096));
        let columns: Columns = "time=1:us,op=3,offset=4:4KiB,length=5:512,volume=2".parse().unwrap();
        let how = How { columns, ..How::default() };
        let (first, second) = ("7 a R 3 8", "9   b W 4 16");
        let mut lines = Csv::of(&how);
        let line = lines.line(first).unwrap().unwrap();
        assert_eq!((line.volume, line.offset, line.length), (Volume("a", ""), 12_288, 4096));
        assert_eq!(lines.line(second).unwrap().unwrap().volume, Volume("b", ""));
        let mut lines = Csv::of(&how);
        assert_eq!(lines.line("t v op block n"), Ok(None));
        assert_eq!(lines.line(first).unwrap().unwrap().operation, Operation::Read);
        let how = How { columns: "op=kind".parse().unwrap(), ..How::default() };
        let (column, present) = ("kind".to_owned(), "time, op, offset, length".to_owned());
        let error = LineError::Columns(TableError::NoColumn { column, present });
        assert_eq!(Csv::of(&how).line("time,op,offset,length"), Err(error));
    }
}
