//! Which column of a table holds what, and in which unit: CSV and Parquet have the same map,
//! `time=ts:us,op=type:0/1,offset=lba:sectors,…`. A quantity that it leaves out is looked up by its usual names.

use std::str::FromStr;

use straddle_units::io::Operation;
use straddle_units::parse_size;

use crate::error::TableError;
use crate::histogram::SECTOR;

/// Which columns hold what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    pub(crate) time: Option<(Column, Option<Exponent>)>,
    pub(crate) op: Option<(Column, Values)>,
    pub(crate) offset: Option<(Column, u64)>,
    pub(crate) length: Option<(Column, u64)>,
    pub(crate) volume: Option<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// By its name in the header, in any case.
    Name(String),
    /// By its number, from 0.
    Index(usize),
}

/// Ten to this power nanoseconds.
pub(crate) type Exponent = u32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Values {
    /// By letters and words: `R`, `read`, `W` and so on.
    #[default]
    Words,
    Own(Vec<(String, Operation)>),
}

/// A map of columns that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ColumnsError {
    #[error("{part:?} does not have the form QUANTITY=COLUMN or QUANTITY=COLUMN:UNIT")]
    Form { part: String },
    #[error("unknown quantity {name:?}; use time, op, offset, length or volume")]
    Quantity { name: String },
    #[error("{unit:?} is not valid for {quantity}; {known}")]
    Unit { unit: String, quantity: &'static str, known: &'static str },
    #[error("{quantity} is specified twice")]
    Twice { quantity: &'static str },
}

straddle_units::error_kind!(ColumnsError: Usage);

const TIMES: [(&str, Exponent); 5] = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0), ("100ns", 2)];

impl Columns {
    /// Whether a column is given by its number, so that it matters which others a table has.
    pub fn has_numbers(&self) -> bool {
        self.given().any(|column| matches!(column, Column::Index(_)))
    }

    /// Whether a column is given by its name, so that there has to be a header.
    pub(crate) fn has_names(&self) -> bool {
        self.given().any(|column| matches!(column, Column::Name(_)))
    }

    fn given(&self) -> impl Iterator<Item = &Column> {
        let Self { time, op, offset, length, volume } = self;
        let time = time.as_ref().map(|(column, _)| column);
        let op = op.as_ref().map(|(column, _)| column);
        let sizes = [offset, length].map(|size| size.as_ref().map(|(column, _)| column));
        sizes.into_iter().chain([time, op, volume.as_ref()]).flatten()
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Self, ColumnsError> {
        let mut columns = Self::default();
        for part in text.split(',').map(str::trim) {
            let form = || ColumnsError::Form { part: part.to_owned() };
            let (quantity, column) = part.split_once('=').ok_or_else(form)?;
            let (column, unit) = match column.rsplit_once(':') {
                Some((column, unit)) => (column, Some(unit.trim())),
                None => (column, None),
            };
            let column = Column::of(column.trim()).ok_or_else(form)?;
            match quantity.trim() {
                "time" => put(&mut columns.time, "time", (column, unit.map(exponent).transpose()?))?,
                "op" => put(&mut columns.op, "op", (column, values(unit)?))?,
                "offset" => put(&mut columns.offset, "offset", (column, bytes("offset", unit)?))?,
                "length" => put(&mut columns.length, "length", (column, bytes("length", unit)?))?,
                "volume" if unit.is_none() => put(&mut columns.volume, "volume", column)?,
                "volume" => return Err(form()),
                other => return Err(ColumnsError::Quantity { name: other.to_owned() }),
            }
        }
        Ok(columns)
    }
}

fn put<T>(slot: &mut Option<T>, quantity: &'static str, value: T) -> Result<(), ColumnsError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ColumnsError::Twice { quantity }),
    }
}

fn exponent(unit: &str) -> Result<Exponent, ColumnsError> {
    let known = TIMES.iter().find(|(name, _)| *name == unit);
    known.map(|(_, exponent)| *exponent).ok_or_else(|| ColumnsError::Unit {
        unit: unit.to_owned(),
        quantity: "time",
        known: "use s, ms, us, ns or 100ns",
    })
}

fn bytes(quantity: &'static str, unit: Option<&str>) -> Result<u64, ColumnsError> {
    match unit {
        None | Some("bytes") => Ok(1),
        Some("sectors") => Ok(SECTOR),
        Some(unit) => {
            let size = parse_size(unit).ok().map(straddle_units::ByteCount::get).filter(|size| *size > 0);
            let known = "use bytes, sectors (of 512 bytes), or the size of a block, such as 4KiB";
            size.ok_or_else(|| ColumnsError::Unit { unit: unit.to_owned(), quantity, known })
        }
    }
}

/// Of a read, a write, a discard and a flush; the last two may be left out.
fn values(unit: Option<&str>) -> Result<Values, ColumnsError> {
    let Some(unit) = unit else { return Ok(Values::Words) };
    let order = [Operation::Read, Operation::Write, Operation::Discard, Operation::Flush];
    let own: Vec<_> = unit.split('/').map(str::to_owned).zip(order).collect();
    if own.len() < 2 || unit.split('/').count() > order.len() || own.iter().any(|(name, _)| name.is_empty()) {
        let known = "specify the values for read and write, such as 0/1, and optionally those for discard \
                     and flush, such as R/W/D/F";
        return Err(ColumnsError::Unit { unit: unit.to_owned(), quantity: "op", known });
    }
    Ok(Values::Own(own))
}

impl Column {
    fn of(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        match text.parse::<usize>() {
            Ok(number) => number.checked_sub(1).map(Self::Index),
            Err(_) => Some(Self::Name(text.to_owned())),
        }
    }

    fn among(&self, names: &[&str]) -> Option<usize> {
        match self {
            Self::Index(index) => Some(*index),
            Self::Name(name) => names.iter().position(|known| known.eq_ignore_ascii_case(name)),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Index(index) => (index + 1).to_string(),
            Self::Name(name) => name.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) time: Option<(usize, Exponent)>,
    pub(crate) op: usize,
    pub(crate) offset: (usize, u64),
    pub(crate) length: (usize, u64),
    pub(crate) volume: Option<usize>,
}

impl Columns {
    /// Finds columns by their names among the first `most`. `exponent` is the unit of a column of times.
    pub(crate) fn places(
        &self,
        names: &[&str],
        most: usize,
        is_timed: bool,
        exponent: impl Fn(usize) -> Option<Exponent>,
    ) -> Result<Places, TableError> {
        let no_column = |column: String| {
            let present = names.join(", ").chars().take(200).collect();
            TableError::NoColumn { column, present }
        };
        let find = |quantity: &'static str, given: Option<&Column>, usual: &[&str]| {
            if let Some(given) = given {
                let index = given.among(names).filter(|index| *index < most);
                return index.map(Some).ok_or_else(|| no_column(given.name()));
            }
            let is_usual = |name: &str| usual.iter().any(|usual| usual.eq_ignore_ascii_case(name));
            let mut found = (0..).zip(names).filter(|(_, name)| is_usual(name)).map(|(index, _)| index);
            match (found.next(), found.next()) {
                (_, Some(_)) => Err(TableError::TwoColumns { column: quantity }),
                (found, None) => Ok(found),
            }
        };
        let needed = |quantity: &'static str, given: Option<&Column>| {
            find(quantity, given, &[quantity])?.ok_or_else(|| no_column(quantity.to_owned()))
        };
        let size = |quantity, given: &Option<(Column, u64)>| {
            let index = needed(quantity, given.as_ref().map(|(column, _)| column))?;
            Ok((index, given.as_ref().map_or(1, |(_, unit)| *unit)))
        };
        let (column, unit) = self.time.as_ref().map(|(column, unit)| (column, *unit)).unzip();
        let time = match find("time", column, &TIME_NAMES.map(|(name, _)| name)) {
            Ok(None) if is_timed => return Err(no_column("time".to_owned())),
            // Which of two it is does not matter if none is needed.
            Err(_) if !is_timed && column.is_none() => None,
            time => time?,
        };
        let named = |index: usize| names.get(index).map_or(9, |name| unit_of(name));
        let exponent = |index| unit.flatten().or_else(|| exponent(index)).unwrap_or_else(|| named(index));
        Ok(Places {
            time: time.map(|index| (index, exponent(index))),
            op: needed("op", self.op.as_ref().map(|(column, _)| column))?,
            offset: size("offset", &self.offset)?,
            length: size("length", &self.length)?,
            volume: find("volume", self.volume.as_ref(), &VOLUME_NAMES)?,
        })
    }

    pub(crate) fn names(&self) -> Names {
        self.op.as_ref().map(|(_, values)| values.clone()).unwrap_or_default().into()
    }
}

/// The names of the operations, those of one byte in a table.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    letters: Box<[Option<Operation>; 256]>,
    pub(crate) values: Values,
}

impl From<Values> for Names {
    fn from(values: Values) -> Self {
        let letter = |letter| values.operation(&[u8::try_from(letter).unwrap_or(0)]);
        Self { letters: Box::new(std::array::from_fn(letter)), values }
    }
}

impl Names {
    pub(crate) fn operation(&self, value: &[u8]) -> Option<Operation> {
        match value {
            [letter] => self.letter(*letter),
            value => self.values.operation(value),
        }
    }

    #[inline]
    pub(crate) fn letter(&self, letter: u8) -> Option<Operation> {
        self.letters[usize::from(letter)]
    }
}

/// The letters and words of the operations, in any case. `WF` is a write that goes through the cache.
const WORDS: [(&str, Operation); 9] = [
    ("R", Operation::Read),
    ("W", Operation::Write),
    ("F", Operation::Flush),
    ("D", Operation::Discard),
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("WF", Operation::WriteFua),
    ("flush", Operation::Flush),
    ("discard", Operation::Discard),
];

impl Values {
    fn operation(&self, value: &[u8]) -> Option<Operation> {
        match self {
            Self::Words => {
                let known = WORDS.iter().find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(value));
                known.map(|(_, operation)| *operation)
            }
            Self::Own(own) => {
                own.iter().find(|(name, _)| name.as_bytes() == value).map(|(_, operation)| *operation)
            }
        }
    }
}

pub(crate) const fn letter(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "R",
        Operation::Write => "W",
        Operation::WriteFua => "WF",
        Operation::Discard => "D",
        Operation::Flush => "F",
    }
}

/// The usual names of the time column, with the unit; lower case.
pub(crate) const TIME_NAMES: [(&str, Exponent); 5] =
    [("time", 9), ("time_s", 9), ("time_ms", 6), ("time_us", 3), ("time_ns", 0)];

const VOLUME_NAMES: [&str; 5] = ["volume", "device", "drive", "disk", "lun"];

/// Returns the unit of a time column by its name: that of its ending, or seconds.
fn unit_of(name: &str) -> Exponent {
    let ending = name.rsplit_once('_').map_or("", |(_, ending)| ending);
    let known = TIMES.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(ending));
    known.map_or(9, |(_, exponent)| *exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_columns_by_name_and_by_number_with_units() {
        let columns: Columns =
            "time=ts:us, op=Type:0/1,offset=3:sectors,length=len:4KiB,volume=a b".parse().unwrap();
        let name = |name: &str| Column::Name(name.to_owned());
        assert_eq!(columns.time, Some((name("ts"), Some(3))));
        let own = vec![("0".to_owned(), Operation::Read), ("1".to_owned(), Operation::Write)];
        assert_eq!(columns.op, Some((name("Type"), Values::Own(own))));
        assert_eq!(
            (columns.offset, columns.length),
            (Some((Column::Index(2), 512)), Some((name("len"), 4096)))
        );
        assert_eq!(columns.volume, Some(name("a b")));
    }

    #[test]
    fn what_is_wrong_with_a_map_is_named() {
        let wrong = |text: &str| text.parse::<Columns>().unwrap_err().to_string();
        for (text, says) in [
            ("", "not have the form"),
            ("time", "not have the form"),
            ("time=", "not have the form"),
            ("offset=0", "not have the form"),
            ("speed=a", "unknown quantity \"speed\""),
            ("time=a:hours", "not valid for time"),
            ("offset=a:0", "not valid for offset"),
            ("op=a:1", "not valid for op"),
            ("op=a:1/2/3/4/5", "not valid for op"),
            ("volume=a:b", "not have the form"),
            ("op=a,op=b", "op is specified twice"),
        ] {
            assert!(wrong(text).contains(says), "{text}: {}", wrong(text));
        }
    }
}
