//! Traces in Apache Parquet.
//!
//! The law of this module: only the columns that are asked for are read, a batch of rows at a time; what a file says
//! of its sizes is bounded before memory is taken for it. Strings stay numbers of a dictionary.

mod convert;
mod page;
mod text;
mod values;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use straddle_io::{Nanos, Operation};

pub(crate) use self::convert::{Converter, Plan, Problem, Rows};
use self::page::Positioned;
use crate::error::{ParquetError, TraceError};
use crate::format::{Format, When};
use crate::how::How;
use crate::reader::{Place, Source};
use crate::record::Sink;
use crate::volumes::Volumes;

/// The first bytes of a file, and the last.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// Rows read at a time: their columns stay in the processor's second cache.
pub(crate) const ROWS: usize = 8192;

/// A Parquet file that is read.
pub(crate) struct Columnar {
    file: Positioned,
    name: String,
    metadata: ArrowReaderMetadata,
    /// The columns in the file: those of the plan, which may be structures of several.
    leaves: Vec<usize>,
    mask: ProjectionMask,
    converter: Converter,
    /// The row group that is read next, and the end of those to be read.
    group: usize,
    end: usize,
    reader: Option<ParquetRecordBatchReader>,
    /// Rows of the last batch that were handed on.
    handed: usize,
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
        let file = Positioned::new(file).map_err(|source| TraceError::Read {
            name: name.to_owned(),
            byte: None,
            source,
        })?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let plain =
            ArrowReaderMetadata::load(&file, options).map_err(ParquetError::Invalid).map_err(wrong)?;
        let schema = plain.schema();
        let plan = Plan::of(schema, &how.columns, how.timed).map_err(ParquetError::Table).map_err(wrong)?;
        let leaves = leaves(schema, &plan.read);
        let options = ArrowReaderOptions::new().with_schema(Arc::new(with_dictionaries(schema)));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options);
        let metadata = metadata.map_err(ParquetError::Invalid).map_err(wrong)?;
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves.iter().copied());
        let values = how.columns.op.as_ref().map(|(_, values)| values.clone()).unwrap_or_default();
        let end = metadata.metadata().num_row_groups();
        Ok(Self {
            file,
            name: name.to_owned(),
            metadata,
            leaves,
            mask,
            converter: Converter::new(plan, values),
            group: 0,
            end,
            reader: None,
            handed: 0,
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
                leaves: self.leaves.clone(),
                mask: self.mask.clone(),
                converter: self.converter.behind(first),
                group: from,
                end: from + groups.len(),
                reader: None,
                handed: 0,
            }
        };
        groups.chunks(groups.len().div_ceil(count.max(1)).max(1)).map(share).collect()
    }

    /// Whether times are read.
    pub(crate) const fn is_timed(&self) -> bool {
        self.converter.plan().is_timed()
    }

    /// Whether there is a column of the volume.
    pub(crate) const fn has_volumes(&self) -> bool {
        self.converter.plan().has_volumes()
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
            self.converter.convert(&batch, volumes).map_err(|problem| {
                let of_table = |source| self.wrong(ParquetError::Table(source));
                problem.of(&self.name, of_table)
            })?;
            return Ok(Some(&self.converter.rows));
        }
    }

    /// Begins the next row group; false if there is none.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        if self.group >= self.end {
            return Ok(false);
        }
        page::check(&self.file, self.metadata.metadata(), self.group, &self.leaves)
            .map_err(|source| self.wrong(source))?;
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_projection(self.mask.clone())
                .with_row_groups(vec![self.group])
                .with_batch_size(ROWS);
        self.reader = Some(builder.build().map_err(|error| self.wrong(ParquetError::Invalid(error)))?);
        self.group += 1;
        Ok(true)
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
            if self.handed >= self.converter.rows.operations.len() {
                self.handed = 0;
                if self.next_rows(&mut sink.volumes)?.is_none() {
                    self.converter.rows.operations.clear();
                    return Ok(false);
                }
            }
            let (row, rows) = (self.handed, &self.converter.rows);
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

/// Returns the leaves of columns that are not structures: those that are have several.
fn leaves(schema: &Schema, columns: &[usize]) -> Vec<usize> {
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
fn with_dictionaries(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| {
        let kind = match field.data_type() {
            kind @ (DataType::Utf8 | DataType::Binary) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(kind.clone()))
            }
            kind => kind.clone(),
        };
        Arc::new(Field::new(field.name(), kind, field.is_nullable()))
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}
