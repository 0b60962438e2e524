//! Columns of a table as numbers, operations and volumes.
//!
//! Invariants: a value that cannot be what its column holds is an error with its row; none is guessed.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use straddle_units::io::Operation;

use super::text::{bytes_of, each_text, is_text};
use crate::columns::{Exponent, Values};
use crate::error::LineError;
use crate::format::wrong;
use crate::volumes::Volumes;

/// What is wrong with a column.
pub(super) enum Wrong {
    /// A value.
    Row { row: usize, source: LineError },
    /// Its type.
    Column { kind: String, what: &'static str },
}

/// Reads a column that is a dictionary with keys of any type.
macro_rules! keyed {
    ($self:ident, $key:ident, $column:ident, $what:literal, $($more:expr),+) => {
        match **$key {
            DataType::Int8 => $self.of_dictionary::<Int8Type>($column, $($more),+),
            DataType::Int16 => $self.of_dictionary::<Int16Type>($column, $($more),+),
            DataType::Int32 => $self.of_dictionary::<Int32Type>($column, $($more),+),
            DataType::Int64 => $self.of_dictionary::<Int64Type>($column, $($more),+),
            DataType::UInt8 => $self.of_dictionary::<UInt8Type>($column, $($more),+),
            DataType::UInt16 => $self.of_dictionary::<UInt16Type>($column, $($more),+),
            DataType::UInt32 => $self.of_dictionary::<UInt32Type>($column, $($more),+),
            DataType::UInt64 => $self.of_dictionary::<UInt64Type>($column, $($more),+),
            _ => Err(Wrong::Column { kind: $column.data_type().to_string(), what: $what }),
        }
    };
}

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
) -> Result<(), Wrong> {
    out.clear();
    match column.data_type() {
        DataType::Int64 => primitive::<Int64Type>(column, units, is_needed, out),
        DataType::Int32 => primitive::<Int32Type>(column, units, is_needed, out),
        DataType::Int16 => primitive::<Int16Type>(column, units, is_needed, out),
        DataType::Int8 => primitive::<Int8Type>(column, units, is_needed, out),
        DataType::UInt64 => primitive::<UInt64Type>(column, units, is_needed, out),
        DataType::UInt32 => primitive::<UInt32Type>(column, units, is_needed, out),
        DataType::UInt16 => primitive::<UInt16Type>(column, units, is_needed, out),
        DataType::UInt8 => primitive::<UInt8Type>(column, units, is_needed, out),
        DataType::Timestamp(unit, _) if units.is_time => match unit {
            TimeUnit::Second => primitive::<TimestampSecondType>(column, units, is_needed, out),
            TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(column, units, is_needed, out),
            TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(column, units, is_needed, out),
            TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(column, units, is_needed, out),
        },
        DataType::Float64 if units.is_time => floats(column, units, is_needed, out),
        kind => Err(Wrong::Column { kind: kind.to_string(), what: units.what }),
    }
}

fn primitive<T>(
    column: &ArrayRef,
    units: Units,
    is_needed: &dyn Fn(usize) -> bool,
    out: &mut Vec<u64>,
) -> Result<(), Wrong>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128> + Copy,
    u64: TryFrom<T::Native>,
{
    let array = column.as_primitive::<T>();
    let values = array.values();
    let mut bad = false;
    out.extend(values.iter().map(|value| {
        let number = u64::try_from(*value);
        let scaled = number.as_ref().map_or(0, |number| *number).checked_mul(units.unit);
        bad |= number.is_err() | scaled.is_none();
        scaled.unwrap_or(0)
    }));
    if !bad && array.null_count() == 0 {
        return Ok(());
    }
    for (row, value) in values.iter().enumerate() {
        if array.is_null(row) {
            if is_needed(row) {
                return Err(Wrong::Row { row, source: wrong(units.what, "", "there is no value") });
            }
            if let Some(out) = out.get_mut(row) {
                *out = 0;
            }
            continue;
        }
        let number: i128 = (*value).into();
        if is_needed(row)
            && u64::try_from(*value).ok().and_then(|number| number.checked_mul(units.unit)).is_none()
        {
            let reason = "must be a whole number of bytes or nanoseconds below 2^64";
            return Err(Wrong::Row { row, source: wrong(units.what, &number.to_string(), reason) });
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
) -> Result<(), Wrong> {
    let array = column.as_primitive::<arrow_array::types::Float64Type>();
    for (row, value) in array.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "a power of ten up to 10^9, which is exact")]
        let nanos = value.map(|value| (value * units.unit as f64).round());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
        let nanos = nanos.filter(|nanos| (0.0..1.8e19).contains(nanos)).map(|nanos| nanos as u64);
        if nanos.is_none() && is_needed(row) {
            let shown = value.map_or_else(String::new, |value| value.to_string());
            return Err(Wrong::Row { row, source: wrong(units.what, &shown, "must be a time") });
        }
        out.push(nanos.unwrap_or(0));
    }
    Ok(())
}

/// Reads the column of the operation.
#[derive(Debug)]
pub(super) struct Operations {
    values: Values,
    /// What texts of one byte mean, which most operations are.
    letters: [Option<Operation>; 256],
    /// What the values of the last dictionary mean, in its order.
    dictionary: Option<(ArrayRef, Vec<Option<Operation>>)>,
}

impl Operations {
    pub(super) fn new(values: Values) -> Self {
        let letters = std::array::from_fn(|byte| values.operation(&[u8::try_from(byte).unwrap_or(0)]));
        Self { values, letters, dictionary: None }
    }

    pub(super) fn read(&mut self, column: &ArrayRef, out: &mut Vec<Option<Operation>>) -> Result<(), Wrong> {
        out.clear();
        match column.data_type() {
            DataType::Dictionary(key, _) => keyed!(self, key, column, "op", out),
            kind if is_text(kind) => {
                let (values, letters) = (&self.values, &self.letters);
                each_text(column, |row, text| {
                    let operation = match text {
                        Some([letter]) => letters[usize::from(*letter)],
                        Some(text) => values.operation(text),
                        None => None,
                    };
                    match text {
                        Some(text) if operation.is_none() && !text.is_empty() => {
                            return Err(unknown(row, &String::from_utf8_lossy(text)));
                        }
                        _ => out.push(operation),
                    }
                    Ok(())
                })
            }
            DataType::Boolean => {
                let array = column.as_boolean();
                let named = |value: bool| self.values.operation(if value { b"true" } else { b"false" });
                let (no, yes) = (named(false), named(true));
                for (row, value) in array.iter().enumerate() {
                    match value.map(|value| if value { yes } else { no }) {
                        Some(None) => {
                            return Err(unknown(row, if array.value(row) { "true" } else { "false" }));
                        }
                        operation => out.push(operation.flatten()),
                    }
                }
                Ok(())
            }
            _ => self.of_numbers(column, out),
        }
    }

    fn of_dictionary<K: ArrowDictionaryKeyType>(
        &mut self,
        column: &ArrayRef,
        out: &mut Vec<Option<Operation>>,
    ) -> Result<(), Wrong>
    where
        usize: TryFrom<K::Native>,
    {
        let array = column.as_dictionary::<K>();
        check(array.values(), "op")?;
        let is_known = self.dictionary.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, array.values()));
        if !is_known {
            let meaning =
                |index| bytes_of(array.values(), index).and_then(|value| self.values.operation(value));
            let meanings = (0..array.values().len()).map(meaning).collect();
            self.dictionary = Some((Arc::clone(array.values()), meanings));
        }
        let meanings = self.dictionary.as_ref().map_or(&[][..], |(_, meanings)| meanings);
        let keys = array.keys();
        for (row, key) in keys.values().iter().enumerate() {
            if keys.is_null(row) {
                out.push(None);
                continue;
            }
            let key = usize::try_from(*key).unwrap_or(usize::MAX);
            match meanings.get(key).copied().flatten() {
                Some(operation) => out.push(Some(operation)),
                // A blank is what some traces have for requests that are neither.
                None => match bytes_of(array.values(), key) {
                    None | Some(b"") => out.push(None),
                    Some(value) => return Err(unknown(row, &String::from_utf8_lossy(value))),
                },
            }
        }
        Ok(())
    }

    fn of_numbers(&self, column: &ArrayRef, out: &mut Vec<Option<Operation>>) -> Result<(), Wrong> {
        let mut numbers = Vec::new();
        let units = Units { what: "op", unit: 1, is_time: false };
        as_integers(column, units, &|_| false, &mut numbers)?;
        let (mut last, mut text) = (None, String::new());
        for (row, number) in numbers.iter().enumerate() {
            if column.is_null(row) {
                out.push(None);
                continue;
            }
            let operation = match last {
                Some((known, operation)) if known == *number => operation,
                _ => {
                    text.clear();
                    let _ = write!(text, "{number}");
                    let operation =
                        self.values.operation(text.as_bytes()).ok_or_else(|| unknown(row, &text))?;
                    last = Some((*number, operation));
                    operation
                }
            };
            out.push(Some(operation));
        }
        Ok(())
    }
}

fn unknown(row: usize, value: &str) -> Wrong {
    let reason = "is not an operation; give the values with --columns op=COLUMN:READ/WRITE";
    Wrong::Row { row, source: wrong("op", value, reason) }
}

/// Reads the column of the volume.
#[derive(Debug, Default)]
pub(super) struct VolumeIndices {
    /// The indices of the values of the last dictionary, in its order; those not yet looked up are [`UNKNOWN`].
    dictionary: Option<(ArrayRef, Vec<u32>)>,
    /// The indices of small numbers, and of others.
    small: Vec<u32>,
    numbers: HashMap<u64, u32>,
}

const UNKNOWN: u32 = u32::MAX;
/// Numbers below this one are looked up in a table.
const SMALL: usize = 1 << 16;

impl VolumeIndices {
    pub(super) fn read(
        &mut self,
        column: &ArrayRef,
        volumes: &mut Volumes,
        out: &mut Vec<u32>,
    ) -> Result<(), Wrong> {
        match column.data_type() {
            DataType::Dictionary(key, _) => keyed!(self, key, column, "volume", volumes, out),
            kind if is_text(kind) => each_text(column, |row, name| {
                let index = volumes.of_name(name.unwrap_or_default());
                out.push(index.map(narrow).map_err(|source| Wrong::Row { row, source })?);
                Ok(())
            }),
            _ => self.of_numbers(column, volumes, out),
        }
    }

    fn of_dictionary<K: ArrowDictionaryKeyType>(
        &mut self,
        column: &ArrayRef,
        volumes: &mut Volumes,
        out: &mut Vec<u32>,
    ) -> Result<(), Wrong>
    where
        usize: TryFrom<K::Native>,
    {
        let array = column.as_dictionary::<K>();
        check(array.values(), "volume")?;
        let is_known = self.dictionary.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, array.values()));
        if !is_known {
            self.dictionary = Some((Arc::clone(array.values()), vec![UNKNOWN; array.values().len()]));
        }
        let indices = self.dictionary.as_mut().map_or(&mut [][..], |(_, indices)| indices);
        let keys = array.keys();
        for (row, key) in keys.values().iter().enumerate() {
            let key =
                if keys.is_null(row) { usize::MAX } else { usize::try_from(*key).unwrap_or(usize::MAX) };
            match indices.get_mut(key) {
                Some(index) if *index != UNKNOWN => out.push(*index),
                known => {
                    let name = bytes_of(array.values(), key).unwrap_or_default();
                    let index = volumes.of_name(name).map_err(|source| Wrong::Row { row, source })?;
                    let index = narrow(index);
                    if let Some(known) = known {
                        *known = index;
                    }
                    out.push(index);
                }
            }
        }
        Ok(())
    }

    fn of_numbers(
        &mut self,
        column: &ArrayRef,
        volumes: &mut Volumes,
        out: &mut Vec<u32>,
    ) -> Result<(), Wrong> {
        let mut numbers = Vec::new();
        let units = Units { what: "volume", unit: 1, is_time: false };
        as_integers(column, units, &|_| true, &mut numbers)?;
        self.small.resize(SMALL, UNKNOWN);
        for (row, number) in numbers.iter().enumerate() {
            let small = usize::try_from(*number).ok().and_then(|number| self.small.get(number));
            let index = match small.copied().filter(|index| *index != UNKNOWN) {
                Some(index) => index,
                None => self.number(*number, volumes).map_err(|source| Wrong::Row { row, source })?,
            };
            out.push(index);
        }
        Ok(())
    }

    fn number(&mut self, number: u64, volumes: &mut Volumes) -> Result<u32, LineError> {
        if let Some(index) = self.numbers.get(&number) {
            return Ok(*index);
        }
        let index = narrow(volumes.of_name(number.to_string().as_bytes())?);
        let small = usize::try_from(number).ok().and_then(|number| self.small.get_mut(number));
        match small {
            Some(small) => *small = index,
            None => {
                self.numbers.insert(number, index);
            }
        }
        Ok(index)
    }
}

/// Checks the values of a dictionary, which are read as text.
fn check(values: &ArrayRef, what: &'static str) -> Result<(), Wrong> {
    match values.data_type() {
        kind if is_text(kind) => Ok(()),
        kind => Err(Wrong::Column { kind: format!("a dictionary of {kind}"), what }),
    }
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(UNKNOWN - 1)
}
