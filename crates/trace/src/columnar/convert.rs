//! Batches of a table as rows: which of its columns hold what, and what they say.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use straddle_units::io::Operation;

use super::values::{self, Operations, Units, VolumeIndices, Wrong, as_integers};
use crate::columns::{Columns, Places, Values};
use crate::error::{LineError, TableError, TraceError};
use crate::reader::Numbered;
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

/// The columns of a table that are read.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Their indices, in order.
    pub(crate) read: Vec<usize>,
    /// The number of all columns.
    pub(crate) width: usize,
    /// What they hold, by their places in `read`.
    places: Places,
    values: Values,
}

impl Plan {
    /// Finds the columns.
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
                let (column, kind) = (field.name().clone(), field.data_type().to_string());
                return Err(TableError::Type { column, kind, what: "a number or a name" });
            }
        }
        Ok(Self { places, values: columns.values(), width: names.len(), read })
    }

    /// Whether times are read.
    pub(crate) const fn is_timed(&self) -> bool {
        self.places.time.is_some()
    }

    /// Whether there is a column of the volume.
    pub(crate) const fn has_volumes(&self) -> bool {
        self.places.volume.is_some()
    }
}

/// Reads batches of the columns of a plan.
pub(crate) struct Converter {
    plan: Plan,
    operations: Operations,
    volumes: VolumeIndices,
    pub(crate) rows: Rows,
    /// Rows of the batches so far.
    before: u64,
}

/// What is wrong with a batch.
pub(crate) enum Problem {
    /// A row, by its number from 1.
    Row(u64, LineError),
    /// The table.
    Table(TableError),
}

impl Converter {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            operations: Operations::new(plan.values.clone()),
            plan,
            volumes: VolumeIndices::default(),
            rows: Rows::default(),
            before: 0,
        }
    }

    /// Returns a converter of the same columns, for the rows after the first `before`.
    pub(crate) fn behind(&self, before: u64) -> Self {
        Self { before, ..Self::new(self.plan.clone()) }
    }

    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Makes [`Self::rows`] those of a batch, which has the columns that are read, and no other.
    pub(crate) fn convert(&mut self, batch: &RecordBatch, volumes: &mut Volumes) -> Result<(), Problem> {
        let Self { plan, rows, .. } = self;
        let Places { time, op, offset, length, volume } = plan.places;
        rows.first = self.before + 1;
        self.before += batch.num_rows() as u64;
        let converted = (|| {
            self.operations.read(batch.column(op), &mut rows.operations)?;
            let operation = |row: usize| rows.operations.get(row).copied().flatten();
            let is_request = |row| operation(row).is_some_and(|operation| operation != Operation::Flush);
            let bytes = |what, unit| Units { what, unit, is_time: false };
            let units = bytes("offset", offset.1);
            as_integers(batch.column(offset.0), units, &is_request, &mut rows.offsets)?;
            let units = bytes("length", length.1);
            as_integers(batch.column(length.0), units, &is_request, &mut rows.lengths)?;
            rows.times.clear();
            if let Some((column, exponent)) = time {
                let units = Units { what: "time", unit: 10_u64.pow(exponent), is_time: true };
                let is_any = |row| operation(row).is_some();
                as_integers(batch.column(column), units, &is_any, &mut rows.times)?;
            }
            rows.volumes.clear();
            match volume {
                Some(column) => self.volumes.read(batch.column(column), volumes, &mut rows.volumes),
                None => Ok(()),
            }
        })();
        converted.map_err(|wrong| match wrong {
            Wrong::Row { row, source } => Problem::Row(rows.first + row as u64, source),
            Wrong::Column { kind, what } => {
                Problem::Table(TableError::Type { column: what.to_owned(), kind, what })
            }
        })
    }
}

impl Problem {
    /// Returns it as an error of the trace of this name. `of_table` makes one of what is wrong with the table.
    pub(crate) fn of(self, name: &str, of_table: impl FnOnce(TableError) -> TraceError) -> TraceError {
        match self {
            Self::Row(line, source) => {
                TraceError::Line { name: name.to_owned(), place: Numbered::Row, line, byte: None, source }
            }
            Self::Table(source) => of_table(source),
        }
    }
}
