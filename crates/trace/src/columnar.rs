//! Traces in Apache Parquet.
//!
//! The law of this module: only the columns that are asked for are read, a batch of rows at a time; what a file says
//! of its sizes is bounded before memory is taken for it. Strings stay numbers of a dictionary.

mod page;
mod values;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use straddle_io::{Nanos, Operation};

use self::page::Positioned;
use self::values::{Operations, Units, VolumeIndices, as_integers};
use crate::columns::{Column, Columns, TIME_NAMES, VOLUME_NAMES, unit_of};
use crate::error::{ParquetError, TraceError};
use crate::format::{Format, When};
use crate::how::How;
use crate::reader::{Place, Source};
use crate::record::Sink;
use crate::volumes::Volumes;

/// The first bytes of a file, and the last.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// Rows read at a time: their columns stay in the processor's second cache.
const ROWS: usize = 8192;

/// Rows as columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The number of the first row in the file, from 1.
    pub(crate) first: u64,
    /// In nanoseconds; empty if times were not asked for.
    pub(crate) times: Vec<u64>,
    /// The indices of the volumes; empty if there is one only.
    pub(crate) volumes: Vec<u32>,
    /// `None` for a row that is no request.
    pub(crate) operations: Vec<Option<Operation>>,
    /// In bytes.
    pub(crate) offsets: Vec<u64>,
    pub(crate) lengths: Vec<u64>,
}

/// A Parquet file that is read.
pub(crate) struct Columnar {
    file: Positioned,
    name: String,
    metadata: ArrowReaderMetadata,
    plan: Plan,
    /// The row group that is read next, and the end of those to be read.
    group: usize,
    end: usize,
    reader: Option<ParquetRecordBatchReader>,
    operations: Operations,
    volumes: VolumeIndices,
    rows: Rows,
    /// Rows of `rows` that were handed on.
    handed: usize,
    /// Rows read before those in `rows`.
    before: u64,
}

/// Which columns of the file hold what: their numbers among those that are read, and their units.
#[derive(Clone, Debug)]
struct Plan {
    mask: ProjectionMask,
    /// The leaves that are read.
    leaves: Vec<usize>,
    time: Option<(usize, u32)>,
    op: usize,
    offset: (usize, u64),
    length: (usize, u64),
    volume: Option<usize>,
}

impl Columnar {
    /// Whether a file is to be read as Parquet.
    pub(crate) fn is_one(file: &mut File, how: &How) -> io::Result<bool> {
        // A pipe cannot be looked at without reading from it.
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        match how.format {
            Some(format) => Ok(format == Format::Parquet),
            None => {
                let mut first = [0; 4];
                let read = file.read_at(&mut first, 0)?;
                Ok(first.get(..read) == Some(MAGIC))
            }
        }
    }

    pub(crate) fn open(file: File, name: &str, how: &How) -> Result<Self, TraceError> {
        let wrong = |source| TraceError::Parquet { name: name.to_owned(), source };
        let file =
            Positioned::new(file).map_err(|source| TraceError::Read { name: name.to_owned(), source })?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let plain =
            ArrowReaderMetadata::load(&file, options).map_err(ParquetError::Invalid).map_err(wrong)?;
        let (plan, schema) = Plan::of(plain.schema(), &how.columns, how.timed).map_err(wrong)?;
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options);
        let metadata = metadata.map_err(ParquetError::Invalid).map_err(wrong)?;
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), plan.leaves.iter().copied());
        let plan = Plan { mask, ..plan };
        let values = how.columns.op.as_ref().map(|(_, values)| values.clone()).unwrap_or_default();
        let end = metadata.metadata().num_row_groups();
        Ok(Self {
            file,
            name: name.to_owned(),
            metadata,
            plan,
            group: 0,
            end,
            reader: None,
            operations: Operations::new(values),
            volumes: VolumeIndices::default(),
            rows: Rows::default(),
            handed: 0,
            before: 0,
        })
    }

    /// Returns the file several times, each with its share of the row groups, to be read at the same time.
    pub(crate) fn shares(&self, count: usize) -> Vec<Self> {
        let groups: Vec<usize> = (self.group..self.end).collect();
        let rows = |group: &usize| {
            let group = self.metadata.metadata().row_groups().get(*group);
            u64::try_from(group.map_or(0, |group| group.num_rows())).unwrap_or(0)
        };
        let mut before = 0;
        let share = |groups: &[usize]| {
            let first = before;
            before += groups.iter().map(rows).sum::<u64>();
            let from = groups.first().copied().unwrap_or(self.end);
            Self {
                file: self.file.clone(),
                name: self.name.clone(),
                metadata: self.metadata.clone(),
                plan: self.plan.clone(),
                group: from,
                end: from + groups.len(),
                reader: None,
                operations: Operations::new(self.operations.values().clone()),
                volumes: VolumeIndices::default(),
                rows: Rows::default(),
                handed: 0,
                before: first,
            }
        };
        groups.chunks(groups.len().div_ceil(count.max(1)).max(1)).map(share).collect()
    }

    /// Whether times are read.
    pub(crate) const fn is_timed(&self) -> bool {
        self.plan.time.is_some()
    }

    /// Whether there is a column of the volume.
    pub(crate) const fn has_volumes(&self) -> bool {
        self.plan.volume.is_some()
    }

    /// Returns the name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next rows; `None` at the end.
    pub(crate) fn next_rows(&mut self, volumes: &mut Volumes) -> Result<Option<&Rows>, TraceError> {
        loop {
            if self.reader.is_none() && !self.next_group()? {
                return Ok(None);
            }
            let batch = self.reader.as_mut().and_then(Iterator::next);
            let Some(batch) = batch else {
                self.reader = None;
                continue;
            };
            let batch = batch.map_err(|error| self.wrong(ParquetError::Invalid(error.into())))?;
            if batch.num_rows() == 0 {
                continue;
            }
            self.rows.first = self.before + 1;
            self.before += batch.num_rows() as u64;
            self.convert(&batch, volumes)?;
            return Ok(Some(&self.rows));
        }
    }

    /// Begins the next row group; false if there is none.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        if self.group >= self.end {
            return Ok(false);
        }
        page::check(&self.file, self.metadata.metadata(), self.group, &self.plan.leaves)
            .map_err(|source| self.wrong(source))?;
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_projection(self.plan.mask.clone())
                .with_row_groups(vec![self.group])
                .with_batch_size(ROWS);
        self.reader = Some(builder.build().map_err(|error| self.wrong(ParquetError::Invalid(error)))?);
        self.group += 1;
        Ok(true)
    }

    fn convert(&mut self, batch: &arrow_array::RecordBatch, volumes: &mut Volumes) -> Result<(), TraceError> {
        let plan = &self.plan;
        let rows = &mut self.rows;
        let converted = (|| {
            self.operations.read(batch.column(plan.op), &mut rows.operations)?;
            let is_request = |row: usize| {
                rows.operations
                    .get(row)
                    .copied()
                    .flatten()
                    .is_some_and(|operation| operation != Operation::Flush)
            };
            let bytes = |what, unit| Units { what, unit, is_time: false };
            as_integers(
                batch.column(plan.offset.0),
                bytes("offset", plan.offset.1),
                &is_request,
                &mut rows.offsets,
            )?;
            as_integers(
                batch.column(plan.length.0),
                bytes("length", plan.length.1),
                &is_request,
                &mut rows.lengths,
            )?;
            rows.times.clear();
            if let Some((column, exponent)) = plan.time {
                let unit = 10_u64.pow(exponent);
                let units = Units { what: "time", unit, is_time: true };
                let is_any = |row: usize| rows.operations.get(row).copied().flatten().is_some();
                as_integers(batch.column(column), units, &is_any, &mut rows.times)?;
            }
            rows.volumes.clear();
            match plan.volume {
                Some(column) => self.volumes.read(batch.column(column), volumes, &mut rows.volumes),
                None => Ok(()),
            }
        })();
        converted.map_err(|wrong| match wrong {
            values::Wrong::Row { row, source } => {
                let line = self.rows.first + row as u64;
                TraceError::Line { name: self.name.clone(), place: Place::Row, line, byte: None, source }
            }
            values::Wrong::Column { kind, what } => {
                self.wrong(ParquetError::Type { column: what.to_owned(), kind, what })
            }
        })
    }

    fn wrong(&self, source: ParquetError) -> TraceError {
        TraceError::Parquet { name: self.name.clone(), source }
    }
}

impl Source for Columnar {
    fn detect(&mut self) -> Result<Option<Format>, TraceError> {
        Ok(Some(Format::Parquet))
    }

    fn batch(&mut self, sink: &mut Sink) -> Result<bool, TraceError> {
        while !sink.is_full() {
            if self.handed >= self.rows.operations.len() {
                self.handed = 0;
                if self.next_rows(&mut sink.volumes)?.is_none() {
                    self.rows.operations.clear();
                    return Ok(false);
                }
            }
            let (row, rows) = (self.handed, &self.rows);
            self.handed += 1;
            let Some(operation) = rows.operations.get(row).copied().flatten() else {
                sink.others += 1;
                continue;
            };
            let at = |column: &[u64]| column.get(row).copied().unwrap_or(0);
            let (offset, length) = match operation {
                Operation::Flush => (0, 0),
                _ => (at(&rows.offsets), at(&rows.lengths)),
            };
            let volume = match rows.volumes.get(row) {
                Some(index) => *index as usize,
                None => sink.volumes.unnamed(),
            };
            let line = rows.first + row as u64;
            let when = When::At(Nanos::new(at(&rows.times)));
            sink.request(line, volume, (operation, offset, length), when).map_err(|source| {
                TraceError::Line { name: self.name.clone(), place: Place::Row, line, byte: None, source }
            })?;
        }
        Ok(true)
    }

    fn place(&self) -> Place {
        Place::Row
    }

    fn columnar(&mut self) -> Option<&mut Columnar> {
        Some(self)
    }
}

impl Plan {
    /// Finds the columns; returns the plan, and the schema to read them with.
    fn of(schema: &SchemaRef, columns: &Columns, is_timed: bool) -> Result<(Self, SchemaRef), ParquetError> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let find = |what: &str, given: Option<&Column>, usual: &[&str]| {
            let index = match given {
                Some(given) => given.among(&names).filter(|index| *index < names.len()),
                None => {
                    names.iter().position(|name| usual.iter().any(|usual| usual.eq_ignore_ascii_case(name)))
                }
            };
            let no_column = || {
                let present: String = names.join(", ").chars().take(200).collect();
                ParquetError::NoColumn {
                    column: given.map_or_else(|| what.to_owned(), Column::name),
                    present,
                }
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
            None => find("volume", None, &VOLUME_NAMES).ok(),
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
                return Err(ParquetError::Type { column, kind, what: "a number or a name" });
            }
        }
        let plan = Self {
            mask: ProjectionMask::all(),
            leaves: leaves(schema, &read),
            time: time.map(|index| (place(index), exponent(index))),
            op: place(op),
            offset: (place(offset), columns.offset.as_ref().map_or(1, |(_, unit)| *unit)),
            length: (place(length), columns.length.as_ref().map_or(1, |(_, unit)| *unit)),
            volume: volume.map(place),
        };
        Ok((plan, with_dictionaries(schema)))
    }
}

/// Returns the leaves of columns that are no structures: those that are have several.
fn leaves(schema: &SchemaRef, columns: &[usize]) -> Vec<usize> {
    let counts: Vec<usize> = schema.fields().iter().map(|field| count(field.data_type())).collect();
    columns.iter().map(|column| counts.iter().take(*column).sum()).collect()
}

fn count(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => fields.iter().map(|field| count(field.data_type())).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => count(field.data_type()),
        _ => 1,
    }
}

/// Returns the schema by which strings stay numbers of a dictionary, as most files have them.
fn with_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| {
        let kind = match field.data_type() {
            kind @ (DataType::Utf8 | DataType::Binary) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(kind.clone()))
            }
            kind => kind.clone(),
        };
        Arc::new(Field::new(field.name(), kind, field.is_nullable()))
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}
