//! Files that lie: those whose directory does, and those that damage makes of a good one.

use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use straddle_units::io::SplitMix64;
use tempfile::NamedTempFile;

use super::Plan;
use crate::account::Account;
use crate::columns::Columns;
use crate::error::TraceError;
use crate::format::How;
use crate::reader::{Input, Reader};

fn stored(bytes: &[u8]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// Counts the requests of a file, its row groups at a time and its rows one by one, which are the same.
fn count(bytes: &[u8]) -> Result<u64, String> {
    count_in(&stored(bytes))
}

fn count_in(file: &NamedTempFile) -> Result<u64, String> {
    let how = How { timed: false, ..How::default() };
    let open = || Reader::open(Input::File(file.reopen().unwrap()), "t", &how);
    let shown = |error: TraceError| match &error {
        TraceError::Parquet { source, .. } => source.to_string(),
        error => error.to_string(),
    };
    let whole = open().and_then(|reader| {
        let mut account = Account::new();
        account.read(reader, None)?;
        Ok(account.total().requests())
    });
    let rows = open().and_then(|mut reader| {
        let mut requests = 0;
        while reader.next_record()?.is_some() {
            requests += 1;
        }
        // After the end there is nothing more, and after an error too.
        assert!(reader.next_record()?.is_none());
        Ok(requests)
    });
    let (whole, rows) = (whole.map_err(shown), rows.map_err(shown));
    assert_eq!(whole.is_ok(), rows.is_ok(), "{whole:?} {rows:?}");
    assert_eq!(whole.as_ref().ok(), rows.as_ref().ok());
    whole
}

fn refused(bytes: &[u8], why: &str) {
    let error = count(bytes).unwrap_err();
    assert!(error.contains(why), "{error}: {why}");
}

/// Returns the file with another directory: the bytes before it are the same.
fn with_directory(good: &[u8], change: impl FnOnce(ParquetMetaData) -> ParquetMetaData) -> Vec<u8> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(good)).unwrap();
    let length = good.len() - 8;
    let directory = u32::from_le_bytes(good[length..length + 4].try_into().unwrap());
    let mut bytes = good[..length - usize::try_from(directory).unwrap()].to_vec();
    let changed = change(metadata);
    ParquetMetaDataWriter::new(&mut bytes, &changed).finish().unwrap();
    bytes
}

/// Returns the directory with another size of the first column, and number of rows, of each row group.
fn claiming(metadata: ParquetMetaData, size: i64, rows: Option<i64>) -> ParquetMetaData {
    let group = |group: &RowGroupMetaData| {
        let mut columns = group.columns().to_vec();
        columns[0] = columns[0].clone().into_builder().set_total_uncompressed_size(size).build().unwrap();
        let rows = rows.unwrap_or(group.num_rows());
        group.clone().into_builder().set_column_metadata(columns).set_num_rows(rows).build().unwrap()
    };
    let groups = metadata.row_groups().iter().map(group).collect();
    metadata.into_builder().set_row_groups(groups).build()
}

#[test]
fn what_is_too_large_is_refused_and_what_is_not_there_is_not_counted() {
    let good = written(Compression::SNAPPY, WriterVersion::PARQUET_2_0, None);
    let requests = count(&good).unwrap();
    // The library needs no size that is right.
    assert_eq!(count(&with_directory(&good, |metadata| claiming(metadata, 3 << 30, None))), Ok(requests));
    refused(
        &with_directory(&good, |metadata| claiming(metadata, (4 << 30) + 1, None)),
        "more than the limit of 4294967296",
    );
    refused(&with_directory(&good, |metadata| claiming(metadata, -1, None)), "a negative size");
    refused(
        &with_directory(&good, |metadata| claiming(metadata, 100, Some(1000))),
        "declares 1000 rows, but has",
    );
    let mut long = good.clone();
    let at = long.len() - 8;
    long[at..at + 4].copy_from_slice(&(65_u32 << 20).to_le_bytes());
    refused(&long, "the directory of the file has 68157440 bytes, which is more than the limit of 67108864");
    long[at..at + 4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    assert!(count(&long).is_err());
    refused(&good[..good.len() - 1], "does not end like a Parquet file");
}

/// Returns a small file as writers make them.
fn written(codec: Compression, version: WriterVersion, encodings: Option<[Encoding; 2]>) -> Vec<u8> {
    let mut random = SplitMix64::new(5);
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut numbers =
        |below: u64| column((0..60).map(|_| i64::try_from(random.below(below)).unwrap()).collect());
    let ops: Vec<_> =
        (0..60).map(|at| if at % 9 == 0 { None } else { Some(["R", "W", "F"][at % 3]) }).collect();
    let columns = [
        ("op", Arc::new(StringArray::from(ops)) as ArrayRef, true),
        ("offset", numbers(1 << 40), false),
        ("length", numbers(1 << 20), false),
        ("disk", numbers(3), false),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let mut properties = WriterProperties::builder()
        .set_compression(codec)
        .set_writer_version(version)
        .set_max_row_group_row_count(Some(40))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10);
    if let Some([strings, numbers]) = encodings {
        properties = properties
            .set_dictionary_enabled(false)
            .set_column_encoding("op".into(), strings)
            .set_column_encoding("offset".into(), numbers)
            .set_column_encoding("length".into(), numbers);
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn damage_anywhere_is_an_error_or_none_and_never_a_panic() {
    let (old, new) = (WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0);
    let cases = [
        (Compression::UNCOMPRESSED, old, None),
        (Compression::GZIP(Default::default()), new, None),
        (Compression::GZIP(Default::default()), old, None),
        (Compression::LZ4, old, None),
        (Compression::SNAPPY, new, None),
        (Compression::UNCOMPRESSED, new, Some([Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_BINARY_PACKED])),
        (
            Compression::UNCOMPRESSED,
            old,
            Some([Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT]),
        ),
    ];
    let mut random = SplitMix64::new(11);
    let mut seen = String::new();
    for (codec, version, encodings) in cases {
        let good = written(codec, version, encodings);
        let requests = count(&good).unwrap();
        assert!(requests > 20, "{codec:?} {requests}");
        let file = stored(&good);
        for (at, byte) in good.iter().enumerate().skip(4).step_by(13) {
            let value = [byte ^ 1 << random.below(8), 0xff][random.index(2)];
            file.as_file().write_all_at(&[value], at as u64).unwrap();
            if let Err(error) = count_in(&file) {
                let _ = writeln!(seen, "{codec:?} {version:?} {at} {value:#x}: {error}");
            }
            file.as_file().write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    // The decoders' panics are among them, or this test has no such case.
    assert!(seen.contains("the file is damaged: "), "seed 11");
}

#[test]
fn two_columns_for_one_quantity_are_refused_unless_the_map_chooses() {
    let plan = |names: &[&str], map: &str, is_timed| {
        let field = |name: &&str| Field::new(*name, DataType::Int64, false);
        let schema = Schema::new(names.iter().map(field).collect::<Vec<_>>());
        let columns = if map.is_empty() { Columns::default() } else { map.parse().unwrap() };
        let plan = Plan::of(&schema, &columns, is_timed);
        plan.map(|plan| plan.has_volumes()).map_err(|error| error.to_string())
    };
    let twice = |quantity: &str| Err(format!("two columns match {quantity:?}; choose one with --columns"));
    let times = ["time", "time_ns", "op", "offset", "length"];
    assert_eq!(plan(&times, "", true), twice("time"));
    assert_eq!(plan(&times, "time=time_ns", true), Ok(false));
    // Times that are not read may be any.
    assert_eq!(plan(&times, "", false), Ok(false));
    let volumes = ["op", "offset", "length", "volume", "Device"];
    assert_eq!(plan(&volumes, "", false), twice("volume"));
    assert_eq!(plan(&volumes, "volume=Device", false), Ok(true));
    assert_eq!(plan(&["op", "OP", "offset", "length"], "", false), twice("op"));
}
