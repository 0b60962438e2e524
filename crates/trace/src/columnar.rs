//! Traces in Apache Parquet.
//!
//! Invariants: only the columns that are asked for are read, a batch of rows at a time; a directory or row
//! group that is too large is refused; a damaged file is an error, also where the library panics. Strings stay numbers of
//! a dictionary.

mod convert;
mod file;
mod guard;
mod text;
mod values;

use std::fs::File;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use straddle_units::io::{Nanos, Operation};

pub(crate) use self::convert::{Converter, Plan, Problem, Rows};
use self::file::Positioned;
use self::guard::guarded;
use crate::error::{ParquetError, TableError, TraceError};
use crate::format::{Format, When};
use crate::how::How;
use crate::reader::{Numbered, Source};
use crate::record::Sink;
use crate::volumes::Volumes;

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
    reader: Option<Group>,
    /// Rows of the last batch that were handed on.
    handed: usize,
}

/// A row group that is read.
struct Group {
    reader: ParquetRecordBatchReader,
    /// Rows, as the file says and as they were read so far.
    claimed: u64,
    rows: u64,
}

impl Columnar {
    pub(crate) fn open(file: File, name: &str, how: &How) -> Result<Self, TraceError> {
        let wrong = |source| TraceError::Parquet { name: name.to_owned(), source };
        let file = Positioned::new(file).map_err(|source| TraceError::Read {
            name: name.to_owned(),
            byte: None,
            source,
        })?;
        let plain = guarded(|| file::directory(&file)).map_err(wrong)?;
        let schema = plain.schema();
        let plan = Plan::of(schema, &how.columns, how.timed).map_err(ParquetError::Table).map_err(wrong)?;
        let leaves = leaves(schema, &plan.read);
        let metadata = guarded(|| {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(with_dictionaries(schema)));
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options).map_err(ParquetError::Invalid)
        });
        let metadata = metadata.map_err(wrong)?;
        for (leaf, column) in leaves.iter().zip(&plan.read) {
            // Such a value may be 2 GiB long by its type alone, and is neither a number nor a name.
            let is_fixed =
                metadata.parquet_schema().column(*leaf).physical_type() == Type::FIXED_LEN_BYTE_ARRAY;
            if is_fixed {
                let field = schema.field(*column);
                let (column, kind) = (field.name().clone(), field.data_type().to_string());
                let what = "a number or a name";
                return Err(wrong(ParquetError::Table(TableError::Type { column, kind, what })));
            }
        }
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves.iter().copied());
        let end = metadata.metadata().num_row_groups();
        Ok(Self {
            file,
            name: name.to_owned(),
            metadata,
            leaves,
            mask,
            converter: Converter::new(plan),
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
            let Some(group) = self.reader.as_mut() else { continue };
            let batch = guarded(|| {
                let batch = group.reader.next().transpose();
                batch.map_err(|error| ParquetError::Invalid(error.into()))
            });
            let batch = match batch {
                Ok(Some(batch)) => batch,
                Ok(None) => {
                    let (claimed, found) = (group.claimed, group.rows);
                    self.reader = None;
                    if found != claimed {
                        return Err(self.wrong(ParquetError::Rows { claimed, found }));
                    }
                    continue;
                }
                Err(error) => {
                    self.give_up();
                    return Err(self.wrong(error));
                }
            };
            group.rows += batch.num_rows() as u64;
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

    /// Begins the next row group that has rows; false if there is none.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        while self.group < self.end {
            let group = self.group;
            self.group += 1;
            self.reader = match self.begin(group) {
                Ok(reader) => reader,
                Err(error) => {
                    self.give_up();
                    return Err(self.wrong(error));
                }
            };
            if self.reader.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins a row group; `None` if it has no rows. Writers give such a one no pages, or places that are none.
    fn begin(&self, group: usize) -> Result<Option<Group>, ParquetError> {
        let found = self.metadata.metadata().row_groups().get(group);
        let claimed = found.map_or(Ok(0), |found| file::rows_of(found, &self.leaves))?;
        if claimed == 0 {
            return Ok(None);
        }
        guarded(|| {
            let file = self.file.clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(self.mask.clone())
                .with_row_groups(vec![group])
                .with_batch_size(ROWS);
            let reader = builder.build().map_err(ParquetError::Invalid)?;
            Ok(Some(Group { reader, claimed, rows: 0 }))
        })
    }

    /// Reads nothing more: after an error the libraries' readers are as it left them.
    fn give_up(&mut self) {
        self.group = self.end;
        let reader = self.reader.take();
        // What was left half done may not be put away without another panic, which says nothing new.
        let _ = guarded(|| {
            drop(reader);
            Ok(())
        });
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
                TraceError::Line { name: self.name.clone(), place: Numbered::Row, line, byte: None, source }
            })?;
        }
        Ok(true)
    }

    fn place(&self) -> Numbered {
        Numbered::Row
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

#[cfg(test)]
mod tests;
