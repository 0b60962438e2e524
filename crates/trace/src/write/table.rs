//! Writes a trace as Parquet.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{StringDictionaryBuilder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::columns::letter;
use crate::error::WriteError;
use crate::record::Record;

const ROWS: usize = 1 << 16;
/// Rows of a group, which is in memory in packed form until it is complete.
const GROUP: usize = 1 << 20;

pub(super) struct TableWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
    times: UInt64Builder,
    volumes: StringDictionaryBuilder<Int32Type>,
    ops: StringDictionaryBuilder<Int32Type>,
    offsets: UInt64Builder,
    lengths: UInt64Builder,
    rows: usize,
}

impl<W: Write + Send> TableWriter<W> {
    pub(super) fn new(out: W) -> Result<Self, WriteError> {
        let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let fields = [
            ("time_ns", DataType::UInt64),
            ("volume", name.clone()),
            ("op", name),
            ("offset", DataType::UInt64),
            ("length", DataType::UInt64),
        ];
        let fields: Vec<Field> =
            fields.into_iter().map(|(name, kind)| Field::new(name, kind, false)).collect();
        let schema = Arc::new(Schema::new(fields));
        // Times mostly rise by little.
        let time = ColumnPath::from("time_ns");
        let properties = WriterProperties::builder()
            .set_created_by(format!("straddle {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_max_row_group_row_count(Some(GROUP))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))?;
        Ok(Self {
            writer,
            schema,
            times: UInt64Builder::new(),
            volumes: StringDictionaryBuilder::new(),
            ops: StringDictionaryBuilder::new(),
            offsets: UInt64Builder::new(),
            lengths: UInt64Builder::new(),
            rows: 0,
        })
    }

    pub(super) fn add(&mut self, record: &Record, volume: &str) -> Result<(), WriteError> {
        self.times.append_value(record.time.get());
        self.volumes.append(volume).map_err(parquet::errors::ParquetError::from)?;
        self.ops.append(letter(record.operation)).map_err(parquet::errors::ParquetError::from)?;
        self.offsets.append_value(record.offset);
        self.lengths.append_value(record.length);
        self.rows += 1;
        if self.rows >= ROWS { self.put() } else { Ok(()) }
    }

    fn put(&mut self) -> Result<(), WriteError> {
        self.rows = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.times.finish()),
            Arc::new(self.volumes.finish()),
            Arc::new(self.ops.finish()),
            Arc::new(self.offsets.finish()),
            Arc::new(self.lengths.finish()),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        self.writer.write(&batch.map_err(parquet::errors::ParquetError::from)?)?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<W, WriteError> {
        self.put()?;
        let mut out = self.writer.into_inner()?;
        out.flush()?;
        Ok(out)
    }
}
