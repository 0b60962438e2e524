//! Batches of a table as rows: which of its columns hold what, and what they say.

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use straddle_units::io::Operation;

use super::values::{self, Operations, Units, VolumeIndices, Wrong, as_integers};
use crate::columns::{Column, Columns, TIME_NAMES, VOLUME_NAMES, Values, unit_of};
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

/// Which columns of a table hold what: their numbers among those that are read, and their units.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The columns that are read, in order.
    pub(crate) read: Vec<usize>,
    /// The number of all columns.
    pub(crate) width: usize,
    time: Option<(usize, u32)>,
    op: usize,
    offset: (usize, u64),
    length: (usize, u64),
    volume: Option<usize>,
}

impl Plan {
    /// Finds the columns.
    pub(crate) fn of(schema: &Schema, columns: &Columns, is_timed: bool) -> Result<Self, TableError> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let find = |what: &'static str, given: Option<&Column>, usual: &[&str]| {
            let is = |name: &str| usual.iter().any(|usual| usual.eq_ignore_ascii_case(name));
            let index = match given {
                Some(given) => given.among(&names).filter(|index| *index < names.len()),
                None => {
                    let mut found =
                        names.iter().enumerate().filter(|(_, name)| is(name)).map(|(index, _)| index);
                    let first = found.next();
                    if found.next().is_some() {
                        return Err(TableError::TwoColumns { column: what });
                    }
                    first
                }
            };
            let no_column = || {
                let present: String = names.join(", ").chars().take(200).collect();
                TableError::NoColumn { column: given.map_or_else(|| what.to_owned(), Column::name), present }
            };
            index.ok_or_else(no_column)
        };
        let times = TIME_NAMES.map(|(name, _)| name);
        let given = columns.time.as_ref().map(|(column, _)| column);
        let time = if is_timed { Some(find("time", given, &times)?) } else { None };
        let op = find("op", columns.op.as_ref().map(|(column, _)| column), &["op"])?;
        let offset = find("offset", columns.offset.as_ref().map(|(column, _)| column), &["offset"])?;
        let length = find("length", columns.length.as_ref().map(|(column, _)| column), &["length"])?;
        let volume = match &columns.volume {
            Some(given) => Some(find("volume", Some(given), &[])?),
            None => match find("volume", None, &VOLUME_NAMES) {
                Err(TableError::NoColumn { .. }) => None,
                found => Some(found?),
            },
        };
        let mut read: Vec<usize> =
            [time, Some(op), Some(offset), Some(length), volume].into_iter().flatten().collect();
        read.sort_unstable();
        read.dedup();
        let exponent = |index: usize| {
            let field = schema.field(index);
            let given = columns.time.as_ref().and_then(|(_, unit)| *unit);
            given.or_else(|| values::exponent(field.data_type())).unwrap_or_else(|| unit_of(field.name()))
        };
        let place = |index: usize| read.iter().position(|one| *one == index).unwrap_or(0);
        for index in &read {
            let field = schema.field(*index);
            if field.data_type().is_nested() {
                let (column, kind) = (field.name().clone(), field.data_type().to_string());
                return Err(TableError::Type { column, kind, what: "a number or a name" });
            }
        }
        Ok(Self {
            time: time.map(|index| (place(index), exponent(index))),
            op: place(op),
            offset: (place(offset), columns.offset.as_ref().map_or(1, |(_, unit)| *unit)),
            length: (place(length), columns.length.as_ref().map_or(1, |(_, unit)| *unit)),
            volume: volume.map(place),
            width: names.len(),
            read,
        })
    }

    /// Whether times are read.
    pub(crate) const fn is_timed(&self) -> bool {
        self.time.is_some()
    }

    /// Whether there is a column of the volume.
    pub(crate) const fn has_volumes(&self) -> bool {
        self.volume.is_some()
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
    pub(crate) fn new(plan: Plan, values: Values) -> Self {
        Self {
            plan,
            operations: Operations::new(values),
            volumes: VolumeIndices::default(),
            rows: Rows::default(),
            before: 0,
        }
    }

    /// Returns a converter of the same columns, for the rows after the first `before`.
    pub(crate) fn behind(&self, before: u64) -> Self {
        Self { before, ..Self::new(self.plan.clone(), self.operations.values().clone()) }
    }

    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Makes [`Self::rows`] those of a batch, which has the columns that are read, and no other.
    pub(crate) fn convert(&mut self, batch: &RecordBatch, volumes: &mut Volumes) -> Result<(), Problem> {
        let Self { plan, rows, .. } = self;
        rows.first = self.before + 1;
        self.before += batch.num_rows() as u64;
        let converted = (|| {
            self.operations.read(batch.column(plan.op), &mut rows.operations)?;
            let operation = |row: usize| rows.operations.get(row).copied().flatten();
            let is_request = |row| operation(row).is_some_and(|operation| operation != Operation::Flush);
            let bytes = |what, unit| Units { what, unit, is_time: false };
            let units = bytes("offset", plan.offset.1);
            as_integers(batch.column(plan.offset.0), units, &is_request, &mut rows.offsets)?;
            let units = bytes("length", plan.length.1);
            as_integers(batch.column(plan.length.0), units, &is_request, &mut rows.lengths)?;
            rows.times.clear();
            if let Some((column, exponent)) = plan.time {
                let units = Units { what: "time", unit: 10_u64.pow(exponent), is_time: true };
                let is_any = |row| operation(row).is_some();
                as_integers(batch.column(column), units, &is_any, &mut rows.times)?;
            }
            rows.volumes.clear();
            match plan.volume {
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
