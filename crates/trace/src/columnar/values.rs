//! Columns of a table as numbers, operations and volumes. A value that cannot be what its column holds is an error with
//! its row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Float64Type,
    LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, downcast_integer_array, downcast_temporal_array};
use arrow_schema::{DataType, TimeUnit};
use straddle_units::io::Operation;

use super::convert::Problem;
use crate::columns::{Exponent, Names};
use crate::error::{LineError, TableError};
use crate::format::wrong;

/// What a column of numbers holds.
#[derive(Clone, Copy)]
pub(super) struct Units {
    pub(super) what: &'static str,
    /// What the numbers are multiplied by.
    pub(super) unit: u64,
    pub(super) is_time: bool,
}

/// Returns the unit of a column of times, if its type has one: ten to this power nanoseconds.
pub(super) fn exponent(kind: &DataType) -> Option<Exponent> {
    match kind {
        DataType::Timestamp(TimeUnit::Second, _) => Some(9),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(6),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(3),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(0),
        _ => None,
    }
}

/// Reads a column of whole numbers. A value may be missing where `is_needed` is false, and is then zero.
pub(super) fn as_integers(
    column: &ArrayRef,
    units: Units,
    is_needed: &dyn Fn(usize) -> bool,
    out: &mut Vec<u64>,
) -> Result<(), Problem> {
    out.clear();
    downcast_integer_array! {
        column => integers(column, units, is_needed, out),
        DataType::Timestamp(..) if units.is_time => downcast_temporal_array! {
            column => integers(column, units, is_needed, out),
            kind => Err(mistyped(kind.to_string(), units.what)),
        },
        DataType::Float64 if units.is_time => floats(column, units, is_needed, out),
        kind => Err(mistyped(kind.to_string(), units.what)),
    }
}

fn integers<T>(
    array: &PrimitiveArray<T>,
    units: Units,
    is_needed: &dyn Fn(usize) -> bool,
    out: &mut Vec<u64>,
) -> Result<(), Problem>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128> + Copy,
    u64: TryFrom<T::Native>,
{
    let scaled = |value: T::Native| u64::try_from(value).ok().and_then(|value| value.checked_mul(units.unit));
    let mut bad = false;
    out.extend(array.values().iter().map(|value| {
        let scaled = scaled(*value);
        bad |= scaled.is_none();
        scaled.unwrap_or(0)
    }));
    if !bad && array.null_count() == 0 {
        return Ok(());
    }
    for (row, (value, out)) in array.iter().zip(out).enumerate() {
        let (shown, reason) = match value {
            None => {
                *out = 0;
                (String::new(), "there is no value")
            }
            Some(value) if scaled(value).is_none() => {
                let number: i128 = value.into();
                (number.to_string(), "must be a whole number of bytes or nanoseconds below 2^64")
            }
            Some(_) => continue,
        };
        if is_needed(row) {
            return Err(Problem::Row(row as u64, wrong(units.what, &shown, reason)));
        }
    }
    Ok(())
}

/// Reads times with a fraction. They have 53 bits, so nanoseconds of a year are rounded.
fn floats(
    column: &ArrayRef,
    units: Units,
    is_needed: &dyn Fn(usize) -> bool,
    out: &mut Vec<u64>,
) -> Result<(), Problem> {
    for (row, value) in column.as_primitive::<Float64Type>().iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "a power of ten up to 10^9, which is exact")]
        let nanos = value.map(|value| (value * units.unit as f64).round());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
        let nanos = nanos.filter(|nanos| (0.0..1.8e19).contains(nanos)).map(|nanos| nanos as u64);
        if nanos.is_none() && is_needed(row) {
            let shown = value.map_or_else(String::new, |value| value.to_string());
            return Err(Problem::Row(row as u64, wrong(units.what, &shown, "must be a time")));
        }
        out.push(nanos.unwrap_or(0));
    }
    Ok(())
}

/// Reads a column of names: what each value of a dictionary and each number means is found once.
#[derive(Debug)]
pub(super) struct Meanings<T> {
    what: &'static str,
    /// What the values of the last dictionary mean, in its order.
    dictionary: Option<(ArrayRef, Vec<Option<T>>)>,
    /// What numbers mean: small ones by index, and others.
    small: Vec<Option<T>>,
    numbers: HashMap<u64, Option<T>>,
}

/// Numbers below this one are looked up in a table.
const SMALL: usize = 1 << 16;

impl<T: Copy> Meanings<T> {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, dictionary: None, small: Vec::new(), numbers: HashMap::new() }
    }

    /// Reads a column; `find` returns what a value means. A number may be missing if not `is_needed`.
    pub(super) fn read(
        &mut self,
        column: &ArrayRef,
        is_needed: bool,
        out: &mut Vec<T>,
        mut find: impl FnMut(Option<&[u8]>) -> Result<T, LineError>,
    ) -> Result<(), Problem> {
        out.clear();
        let in_row = |row: usize| move |source| Problem::Row(row as u64, source);
        if let Some(text) = texts(column) {
            for row in 0..column.len() {
                out.push(find(text(row)).map_err(in_row(row))?);
            }
        } else if let Some(array) = column.as_any_dictionary_opt() {
            let (values, keys) = (array.values(), array.keys());
            let text = texts(values)
                .ok_or_else(|| mistyped(format!("a dictionary of {}", values.data_type()), self.what))?;
            let known = match &mut self.dictionary {
                Some((known, meanings)) if Arc::ptr_eq(known, values) => meanings,
                other => &mut other.insert((Arc::clone(values), vec![None; values.len()])).1,
            };
            let normalized = if values.is_empty() { vec![0; keys.len()] } else { array.normalized_keys() };
            for (row, key) in normalized.into_iter().enumerate() {
                let slot = known.get_mut(key).filter(|_| !keys.is_null(row));
                out.push(match slot {
                    Some(Some(known)) => *known,
                    Some(slot) => *slot.insert(find(text(key)).map_err(in_row(row))?),
                    None => find(None).map_err(in_row(row))?,
                });
            }
        } else {
            let mut numbers = Vec::new();
            let units = Units { what: self.what, unit: 1, is_time: false };
            as_integers(column, units, &|_| is_needed, &mut numbers)?;
            self.small.resize(SMALL, None);
            for (row, number) in numbers.into_iter().enumerate() {
                let known = match usize::try_from(number).ok().and_then(|number| self.small.get_mut(number)) {
                    Some(small) => small,
                    None => self.numbers.entry(number).or_default(),
                };
                out.push(match known {
                    _ if column.is_null(row) => find(None).map_err(in_row(row))?,
                    Some(known) => *known,
                    unknown => {
                        *unknown.insert(find(Some(number.to_string().as_bytes())).map_err(in_row(row))?)
                    }
                });
            }
        }
        Ok(())
    }
}

/// Reads the column of the operation; `None` for a row that has none.
pub(super) fn operations(
    column: &ArrayRef,
    meanings: &mut Meanings<Option<Operation>>,
    names: &Names,
    out: &mut Vec<Option<Operation>>,
) -> Result<(), Problem> {
    let find = |value: Option<&[u8]>| {
        // A blank is what some traces have for requests that are neither.
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
        let reason = "is not an operation; give the values with --columns op=COLUMN:READ/WRITE";
        let unknown = || wrong("op", &String::from_utf8_lossy(value), reason);
        names.operation(value).map(Some).ok_or_else(unknown)
    };
    if *column.data_type() != DataType::Boolean {
        return meanings.read(column, false, out, find);
    }
    out.clear();
    for (row, value) in column.as_boolean().iter().enumerate() {
        let value = value.map(|value| if value { &b"true"[..] } else { b"false" });
        out.push(find(value).map_err(|source| Problem::Row(row as u64, source))?);
    }
    Ok(())
}

/// Reads a value of a column of text by its row; `None` where there is none.
type Text<'a> = Box<dyn Fn(usize) -> Option<&'a [u8]> + 'a>;

/// Returns what reads a column of strings or bytes by row, in each of Arrow's layouts; `None` for other types.
fn texts(column: &ArrayRef) -> Option<Text<'_>> {
    Some(match column.data_type() {
        DataType::Utf8 => bytes::<Utf8Type>(column),
        DataType::LargeUtf8 => bytes::<LargeUtf8Type>(column),
        DataType::Utf8View => views::<StringViewType>(column),
        DataType::Binary => bytes::<BinaryType>(column),
        DataType::LargeBinary => bytes::<LargeBinaryType>(column),
        DataType::BinaryView => views::<BinaryViewType>(column),
        _ => return None,
    })
}

fn bytes<T: ByteArrayType>(column: &ArrayRef) -> Text<'_> {
    let array = column.as_bytes::<T>();
    Box::new(|row| array.is_valid(row).then(|| array.value(row).as_ref()))
}

fn views<T: ByteViewType>(column: &ArrayRef) -> Text<'_> {
    let array = column.as_byte_view::<T>();
    Box::new(|row| array.is_valid(row).then(|| array.value(row).as_ref()))
}

fn mistyped(kind: String, what: &'static str) -> Problem {
    Problem::Table(TableError::Type { column: what.to_owned(), kind, what })
}
