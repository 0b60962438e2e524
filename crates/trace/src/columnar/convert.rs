//! Batches of a table as rows.

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use straddle_units::io::Operation;

use super::values::{self, Meanings, Units, as_integers};
use crate::columns::{Columns, Names, Places};
use crate::error::{LineError, TableError};
use crate::volumes::Volumes;

/// Rows as columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The number of the first row in the table, from 1.
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

/// The columns of a table that are read.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Their indices, in order.
    pub(crate) read: Vec<usize>,
    /// The number of all columns.
    pub(crate) width: usize,
    /// What they hold, by their places in `read`.
    places: Places,
    names: Names,
}

impl Plan {
    pub(crate) fn of(schema: &Schema, columns: &Columns, is_timed: bool) -> Result<Self, TableError> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let exponent = |index: usize| values::exponent(schema.field(index).data_type());
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

/// Reads batches of the columns of a plan.
pub(crate) struct Converter {
    pub(crate) plan: Plan,
    operations: Meanings<Option<Operation>>,
    volumes: Meanings<u32>,
    pub(crate) rows: Rows,
    /// Rows of the batches so far.
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
        values::operations(batch.column(op), operations, &plan.names, &mut rows.operations)?;
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

/// Returns the error for a column of a type that nothing is read from.
pub(super) fn unreadable(field: &Field) -> TableError {
    let (column, kind) = (field.name().clone(), field.data_type().to_string());
    TableError::Type { column, kind, what: "a number or a name" }
}
