//! Traces in Apache Parquet. Only the columns asked for are read, in batches. A panic of the library is an error.

mod file;
mod values;

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use parquet::file::metadata::RowGroupMetaData;
use straddle_units::io::Nanos;

use self::file::{Positioned, guarded};
pub(crate) use self::values::{Converter, Plan, Problem, Rows};
use crate::error::{ParquetError, TraceError};
use crate::format::{Format, How};
use crate::reader::{Numbered, Source};
use crate::record::{Sink, Volumes};

/// Rows read at a time: their columns stay in the processor's second cache.
pub(crate) const ROWS: usize = 8192;

#[derive(Clone)]
struct Table {
    file: Positioned,
    name: String,
    metadata: ArrowReaderMetadata,
    /// Those of the plan, which may be structures of several.
    leaves: Vec<usize>,
}

pub(crate) struct Columnar {
    table: Table,
    converter: Converter,
    groups: Range<usize>,
    reader: Option<Group>,
    handed: usize,
}

struct Group {
    reader: ParquetRecordBatchReader,
    /// Rows, as the file says and as they were read so far.
    claimed: u64,
    rows: u64,
}

impl Columnar {
    pub(crate) fn open(file: File, name: &str, how: &How) -> Result<Self, TraceError> {
        let name = name.to_owned();
        let file = match Positioned::new(file) {
            Ok(file) => file,
            Err(source) => return Err(TraceError::Read { name, byte: None, source }),
        };
        Self::examined(file, &name, how).map_err(|source| TraceError::Parquet { name, source })
    }

    fn examined(file: Positioned, name: &str, how: &How) -> Result<Self, ParquetError> {
        let plain = guarded(|| file::directory(&file))?;
        let schema = plain.schema();
        let plan = Plan::of(schema, &how.columns, how.timed).map_err(ParquetError::Table)?;
        let leaves = leaves(schema, &plan.read);
        let metadata = guarded(|| {
            let options = ArrowReaderOptions::new().with_schema(Arc::new(with_dictionaries(schema)));
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options).map_err(ParquetError::Invalid)
        })?;
        for (leaf, column) in leaves.iter().zip(&plan.read) {
            // Such a value may be 2 GiB long by its type alone, and is neither a number nor a name.
            let kind = metadata.parquet_schema().column(*leaf).physical_type();
            if kind == Type::FIXED_LEN_BYTE_ARRAY {
                return Err(ParquetError::Table(values::unreadable(schema.field(*column))));
            }
        }
        let groups = 0..metadata.metadata().num_row_groups();
        let table = Table { file, name: name.to_owned(), metadata, leaves };
        Ok(Self::of(table, Converter::new(plan, 0), groups))
    }

    const fn of(table: Table, converter: Converter, groups: Range<usize>) -> Self {
        Self { table, converter, groups, reader: None, handed: 0 }
    }

    /// For reading at the same time, each with its share of the row groups.
    pub(crate) fn shares(&self, count: usize) -> Vec<Self> {
        let row_groups = self.table.metadata.metadata().row_groups();
        let row_groups = row_groups.get(self.groups.clone()).unwrap_or_default();
        let (mut first, mut rows) = (self.groups.start, 0);
        let share = |groups: &[RowGroupMetaData]| {
            let share = first..first + groups.len();
            let converter = Converter::new(self.converter.plan.clone(), rows);
            first = share.end;
            rows += groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum::<u64>();
            Self::of(self.table.clone(), converter, share)
        };
        row_groups.chunks(row_groups.len().div_ceil(count.max(1)).max(1)).map(share).collect()
    }

    pub(crate) const fn plan(&self) -> &Plan {
        &self.converter.plan
    }

    pub(crate) fn name(&self) -> &str {
        &self.table.name
    }

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
            return match self.converter.convert(&batch, volumes) {
                Ok(()) => Ok(Some(&self.converter.rows)),
                Err(Problem::Row(line, source)) => Err(TraceError::row(&self.table.name, line, source)),
                Err(Problem::Table(source)) => Err(self.wrong(ParquetError::Table(source))),
            };
        }
    }

    /// False if no row group with rows is left.
    fn next_group(&mut self) -> Result<bool, TraceError> {
        for group in self.groups.by_ref() {
            match self.table.begin(group) {
                Ok(None) => {}
                Ok(reader) => {
                    self.reader = reader;
                    return Ok(true);
                }
                Err(error) => {
                    self.give_up();
                    return Err(self.wrong(error));
                }
            }
        }
        Ok(false)
    }

    /// After an error the libraries' readers are as it left them.
    fn give_up(&mut self) {
        self.groups = 0..0;
        let reader = self.reader.take();
        // Dropping a reader that a panic left half done may panic again, which says nothing new.
        let _ = guarded(|| {
            drop(reader);
            Ok(())
        });
    }

    fn wrong(&self, source: ParquetError) -> TraceError {
        TraceError::Parquet { name: self.table.name.clone(), source }
    }
}

impl Table {
    /// Begins a row group; `None` if it has no rows. Writers give such a one no pages, or places that are none.
    fn begin(&self, group: usize) -> Result<Option<Group>, ParquetError> {
        let found = self.metadata.metadata().row_groups().get(group);
        let claimed = found.map_or(Ok(0), |found| file::rows_of(found, &self.leaves))?;
        if claimed == 0 {
            return Ok(None);
        }
        guarded(|| {
            let mask = ProjectionMask::leaves(self.metadata.parquet_schema(), self.leaves.iter().copied());
            let metadata = self.metadata.clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), metadata)
                .with_projection(mask)
                .with_row_groups(vec![group])
                .with_batch_size(ROWS);
            let reader = builder.build().map_err(ParquetError::Invalid)?;
            Ok(Some(Group { reader, claimed, rows: 0 }))
        })
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
            let unnamed = if self.converter.plan.has_volumes() { 0 } else { sink.volumes.unnamed() };
            let Some((volume, operation, offset, length)) = rows.request(row, unnamed) else {
                sink.others += 1;
                continue;
            };
            let line = rows.first + row as u64;
            let at = Nanos::new(rows.times.get(row).copied().unwrap_or(0));
            sink.request(line, volume, (operation, offset, length), at)
                .map_err(|source| TraceError::row(&self.table.name, line, source))?;
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

/// Other columns are structures and have several leaves.
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

/// Strings stay keys of a dictionary, as most files have them.
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
