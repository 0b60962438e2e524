//! Batches of a table as rows. A value that cannot be what its column holds is an error with its row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, Float64Type,
    LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use arrow_array::{
    Array, ArrayRef, PrimitiveArray, RecordBatch, downcast_integer_array, downcast_temporal_array,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use straddle_units::io::Operation;

use crate::columns::{Columns, Exponent, Names, Places};
use crate::error::{LineError, TableError};
use crate::format::wrong;
use crate::record::Volumes;

#[derive(Clone, Copy)]
pub(super) struct Units {
    pub(super) what: &'static str,
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

/// Times have 53 bits here, so nanoseconds of a year are rounded.
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

#[derive(Debug)]
pub(super) struct Meanings<T> {
    what: &'static str,
    /// What the values of the last dictionary mean, in its order.
    dictionary: Option<(ArrayRef, Vec<Option<T>>)>,
    /// What numbers mean: small ones by index, and others.
    small: Vec<Option<T>>,
    numbers: HashMap<u64, Option<T>>,
}

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

pub(super) fn operations(
    column: &ArrayRef,
    meanings: &mut Meanings<Option<Operation>>,
    names: &Names,
    out: &mut Vec<Option<Operation>>,
) -> Result<(), Problem> {
    let find = |value: Option<&[u8]>| {
        // A blank is what some traces have for requests that are neither.
        let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
        let reason = "is not an operation; specify the values with --columns op=COLUMN:READ/WRITE";
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

type Text<'a> = Box<dyn Fn(usize) -> Option<&'a [u8]> + 'a>;

/// In each of Arrow's layouts; `None` for other types.
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

#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) first: u64,
    /// In nanoseconds; empty if times were not asked for.
    pub(crate) times: Vec<u64>,
    /// The indices of the volumes; empty if there is one only.
    pub(crate) volumes: Vec<u32>,
    /// `None` for a row that is not a request.
    pub(crate) operations: Vec<Option<Operation>>,
    /// In bytes.
    pub(crate) offsets: Vec<u64>,
    pub(crate) lengths: Vec<u64>,
}

impl Rows {
    /// Returns the volume, operation, offset and length of a row. The volume is `unnamed` if there is one only.
    #[inline]
    pub(crate) fn request(&self, row: usize, unnamed: usize) -> Option<(usize, Operation, u64, u64)> {
        let operation = self.operations.get(row).copied().flatten()?;
        let volume = self.volumes.get(row).map_or(unnamed, |index| *index as usize);
        let (offset, length) = match operation {
            Operation::Flush => (0, 0),
            _ => (*self.offsets.get(row)?, *self.lengths.get(row)?),
        };
        Some((volume, operation, offset, length))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Their indices, in order.
    pub(crate) read: Vec<usize>,
    pub(crate) width: usize,
    places: Places,
    names: Names,
}

impl Plan {
    pub(crate) fn of(schema: &Schema, columns: &Columns, is_timed: bool) -> Result<Self, TableError> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let exponent = |index: usize| exponent(schema.field(index).data_type());
        let mut places = columns.places(&names, names.len(), is_timed, exponent)?;
        places.time = places.time.filter(|_| is_timed);
        let Places { time, op, offset, length, volume } = &mut places;
        let time = time.as_mut().map(|(index, _)| index);
        let mut indices: Vec<&mut usize> = [op, &mut offset.0, &mut length.0].into();
        indices.extend(time.into_iter().chain(volume));
        let mut read: Vec<usize> = indices.iter().map(|index| **index).collect();
        read.sort_unstable();
        read.dedup();
        for index in indices {
            *index = read.partition_point(|one| one < index);
        }
        for index in &read {
            let field = schema.field(*index);
            if field.data_type().is_nested() {
                return Err(unreadable(field));
            }
        }
        Ok(Self { places, names: columns.names(), width: names.len(), read })
    }

    pub(crate) const fn is_timed(&self) -> bool {
        self.places.time.is_some()
    }

    pub(crate) const fn has_volumes(&self) -> bool {
        self.places.volume.is_some()
    }
}

pub(crate) struct Converter {
    pub(crate) plan: Plan,
    operations: Meanings<Option<Operation>>,
    volumes: Meanings<u32>,
    pub(crate) rows: Rows,
    before: u64,
}

pub(crate) enum Problem {
    /// A row, by its number: in the table from 1, and in a batch from 0.
    Row(u64, LineError),
    Table(TableError),
}

impl Converter {
    /// `before` is the number of rows that others read.
    pub(crate) fn new(plan: Plan, before: u64) -> Self {
        let (operations, volumes) = (Meanings::new("op"), Meanings::new("volume"));
        Self { plan, operations, volumes, rows: Rows::default(), before }
    }

    /// Makes [`Self::rows`] those of a batch, which has only the columns that are read.
    pub(crate) fn convert(&mut self, batch: &RecordBatch, volumes: &mut Volumes) -> Result<(), Problem> {
        self.rows.first = self.before + 1;
        self.before += batch.num_rows() as u64;
        self.columns(batch, volumes).map_err(|problem| match problem {
            Problem::Row(row, source) => Problem::Row(self.rows.first + row, source),
            table @ Problem::Table(_) => table,
        })
    }

    fn columns(&mut self, batch: &RecordBatch, names: &mut Volumes) -> Result<(), Problem> {
        let Self { plan, rows, operations, volumes, .. } = self;
        let Places { time, op, offset, length, volume } = plan.places;
        self::operations(batch.column(op), operations, &plan.names, &mut rows.operations)?;
        let operation = |row: usize| rows.operations.get(row).copied().flatten();
        let is_request = |row| operation(row).is_some_and(|operation| operation != Operation::Flush);
        let bytes = |what, unit| Units { what, unit, is_time: false };
        let units = bytes("offset", offset.1);
        as_integers(batch.column(offset.0), units, &is_request, &mut rows.offsets)?;
        let units = bytes("length", length.1);
        as_integers(batch.column(length.0), units, &is_request, &mut rows.lengths)?;
        if let Some((column, exponent)) = time {
            let units = Units { what: "time", unit: 10_u64.pow(exponent), is_time: true };
            let is_any = |row| operation(row).is_some();
            as_integers(batch.column(column), units, &is_any, &mut rows.times)?;
        }
        if let Some(column) = volume {
            volumes.read(batch.column(column), true, &mut rows.volumes, |name| {
                let index = names.of_name(name.unwrap_or_default())?;
                Ok(u32::try_from(index).unwrap_or(u32::MAX))
            })?;
        }
        Ok(())
    }
}

pub(super) fn unreadable(field: &Field) -> TableError {
    let (column, kind) = (field.name().clone(), field.data_type().to_string());
    TableError::Type { column, kind, what: "a number or a name" }
}
