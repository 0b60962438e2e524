//! Files that lie: those that a few bytes make, and those that damage makes of a good one.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use straddle_io::SplitMix64;
use tempfile::NamedTempFile;

use super::Plan;
use crate::account::Account;
use crate::columns::Columns;
use crate::error::TraceError;
use crate::how::How;
use crate::reader::{Input, Reader};

/// A structure in Thrift's compact protocol.
#[derive(Clone, Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

fn unsigned(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [unsigned(text.len() as u64), text.as_bytes().to_vec()].concat()
}

impl Thrift {
    fn field(mut self, number: u8, kind: u8, value: &[u8]) -> Self {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
        self.bytes.extend_from_slice(value);
        self
    }

    fn int(self, number: u8, value: u64) -> Self {
        self.field(number, 5, &unsigned(value << 1))
    }

    fn long(self, number: u8, value: u64) -> Self {
        self.field(number, 6, &unsigned(value << 1))
    }

    fn list(self, number: u8, kind: u8, items: &[Vec<u8>]) -> Self {
        let first = u8::try_from(items.len()).unwrap() << 4 | kind;
        self.field(number, 9, &[vec![first], items.concat()].concat())
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// Returns a page with its header: `kind` is the field of the header inside.
fn page(kind: u8, values: u64, encoding: u64, size: usize, contents: &[u8]) -> Vec<u8> {
    let inner = Thrift::default().int(1, values).int(2, encoding);
    let (number, inner) = if kind == 7 { (2, inner) } else { (0, inner.int(3, 3).int(4, 3)) };
    let header = Thrift::default().int(1, number).int(2, size as u64).int(3, contents.len() as u64);
    [header.field(kind, 12, &inner.end()).end(), contents.to_vec()].concat()
}

fn data(values: u64, encoding: u64, contents: &[u8]) -> Vec<u8> {
    page(5, values, encoding, contents.len(), contents)
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A column: its name, its type, its pages; where the dictionary is among them, and the data.
struct Chunk {
    name: &'static str,
    kind: u64,
    pages: Vec<u8>,
    dictionary: Option<usize>,
    data: usize,
}

/// The rows of [`good`].
const ROWS: u64 = 4;

fn good() -> [Chunk; 3] {
    let chunk = |name, kind, pages| Chunk { name, kind, pages, dictionary: None, data: 0 };
    [
        chunk("op", 6, data(ROWS, 0, &b"\x01\0\0\0W".repeat(4))),
        chunk("offset", 2, data(ROWS, 0, &longs(&[0, 512, 1024, 4096]))),
        chunk("length", 2, data(ROWS, 0, &longs(&[512; 4]))),
    ]
}

/// Returns the file, which says that each of its groups has this number of rows.
fn file(groups: &[(u64, &[Chunk])], codec: u64) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    let mut directory = Vec::new();
    for (rows, chunks) in groups {
        let mut columns = Vec::new();
        for chunk in *chunks {
            let at = bytes.len();
            bytes.extend_from_slice(&chunk.pages);
            let size = chunk.pages.len() as u64;
            let mut about = Thrift::default()
                .int(1, chunk.kind)
                .list(2, 5, &[unsigned(0)])
                .list(3, 8, &[text(chunk.name)])
                .int(4, codec)
                .long(5, *rows)
                .long(6, size)
                .long(7, size)
                .long(9, (at + chunk.data) as u64);
            if let Some(dictionary) = chunk.dictionary {
                about = about.long(11, (at + dictionary) as u64);
            }
            columns.push(Thrift::default().long(2, at as u64).field(3, 12, &about.end()).end());
        }
        directory.push(Thrift::default().list(1, 12, &columns).long(2, 0).long(3, *rows).end());
    }
    let mut schema = vec![Thrift::default().field(4, 8, &text("root")).int(5, 3).end()];
    for chunk in good() {
        let element = Thrift::default().int(1, chunk.kind).int(3, 0).field(4, 8, &text(chunk.name));
        schema.push(if chunk.kind == 6 { element.int(6, 0).end() } else { element.end() });
    }
    let rows = groups.iter().map(|(rows, _)| rows).sum();
    let end = Thrift::default().int(1, 1).list(2, 12, &schema).long(3, rows).list(4, 12, &directory).end();
    bytes.extend_from_slice(&end);
    bytes.extend_from_slice(&u32::try_from(end.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(b"PAR1");
    bytes
}

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

/// Returns the file whose column of offsets has these pages.
fn with_offsets(rows: u64, pages: Vec<u8>, dictionary: Option<usize>, data: usize) -> Vec<u8> {
    let mut chunks = good();
    chunks[1] = Chunk { name: "offset", kind: 2, pages, dictionary, data };
    file(&[(rows, &chunks)], 0)
}

fn refused(bytes: &[u8], why: &str) {
    let error = count(bytes).unwrap_err();
    assert!(error.contains(why), "{error}: {why}");
}

#[test]
fn a_page_has_no_more_values_than_it_has_room_or_rows_for() {
    assert_eq!(count(&file(&[(ROWS, &good())], 0)), Ok(4));
    let indices = data(ROWS, 8, &[2, 8, 1]);
    for values in [2, 3, 1 << 20, (1 << 31) - 1] {
        let dictionary = page(7, values, 0, 16, &[0; 16]);
        let at = dictionary.len();
        let bytes = with_offsets(ROWS, [dictionary, indices.clone()].concat(), Some(0), at);
        match values {
            2 => assert_eq!(count(&bytes), Ok(4)),
            _ => refused(&bytes, "a dictionary has more values than bytes for them"),
        }
    }
    let values = longs(&[0, 512, 1024, 4096]);
    for encoding in [0, 9] {
        for more in [5, (1 << 31) - 1] {
            refused(
                &with_offsets(ROWS, data(more, encoding, &values), None, 0),
                "says that it has 4 rows, and has",
            );
        }
    }
    // Of another number of rows nothing is read.
    for rows in [5, 1 << 31, 1 << 62] {
        refused(&file(&[(rows, &good())], 0), &format!("says that it has {rows} rows, and has 4"));
    }
    refused(&file(&[(3, &good())], 0), "says that it has 3 rows, and has 4");
    refused(
        &with_offsets(ROWS, [data(2, 0, &values), data(1, 0, &values)].concat(), None, 0),
        "4 rows, and has 3",
    );
}

#[test]
fn the_pages_that_are_checked_are_those_that_are_read() {
    let values = data(ROWS, 0, &longs(&[0, 512, 1024, 4096]));
    let large = page(7, 2, 0, 300 << 20, &[0; 16]);
    // Where the directory says that the dictionary is behind the data, the reader begins at the dictionary.
    let pages = [values.clone(), large, values.clone()].concat();
    let bytes = with_offsets(ROWS, pages, Some(values.len()), 0);
    assert!(count(&bytes).is_err());
    let before = page(7, 2, 0, 300 << 20, &[0; 16]);
    let at = before.len();
    refused(&with_offsets(ROWS, [before, values].concat(), Some(0), at), "no more than 268435456 are read");
}

#[test]
fn the_columns_of_a_row_group_share_what_may_be_unpacked() {
    let chunks = |size: usize| {
        let mut chunks = good();
        for (at, contents) in [(1, longs(&[0, 512, 1024, 4096])), (2, longs(&[512; 4]))] {
            chunks[at].pages = page(5, ROWS, 0, size, &contents);
        }
        chunks
    };
    assert_eq!(count(&file(&[(ROWS, &chunks(100 << 20))], 0)), Ok(4));
    refused(&file(&[(ROWS, &chunks(130 << 20))], 0), "no more than 268435456 are read");
    // Pages of few rows each are unpacked for the same batch: 8192 of 40 KiB.
    let mut chunks = good();
    chunks[0].pages = page(5, 1, 0, 40 << 10, b"\x01\0\0\0W").repeat(20_000);
    chunks[1].pages = data(20_000, 0, &longs(&[0; 20_000]));
    chunks[2].pages = data(20_000, 0, &longs(&[512; 20_000]));
    refused(&file(&[(20_000, &chunks)], 0), "are read at a time");
}

#[test]
fn what_is_packed_is_no_larger_than_its_page_says() {
    let values = longs(&[0, 512, 1024, 4096]);
    let packed = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (gzip, lz4) = (2, 5);
    let with = |offsets: &[u8], codec| {
        let ops = b"\x01\0\0\0W".repeat(4);
        let mut chunks = good();
        chunks[0].pages = page(5, ROWS, 0, ops.len(), &packed(&ops));
        chunks[1].pages = page(5, ROWS, 0, values.len(), offsets);
        chunks[2].pages = page(5, ROWS, 0, values.len(), &packed(&longs(&[512; 4])));
        file(&[(ROWS, &chunks)], codec)
    };
    assert_eq!(count(&with(&packed(&values), gzip)), Ok(4));
    // 64 MB of zeros.
    let zeros = packed(&vec![0; 64_000_000]);
    refused(&with(&zeros, gzip), "a page does not unpack to the size it gives");
    let frame = [&0x184d_2204_u32.to_le_bytes()[..], &[0; 30]].concat();
    let mut chunks = good();
    chunks[0].pages = page(5, ROWS, 0, 20, &frame);
    refused(&file(&[(ROWS, &chunks)], lz4), "a page in LZ4 has frames");
}

#[test]
fn what_the_decoders_give_up_on_is_an_error() {
    let cases = [
        // Indices without a dictionary; a number of 40 bytes; values for which there are no bytes.
        (ROWS, data(ROWS, 8, &[2, 8, 1])),
        (ROWS, data(ROWS, 5, &[0xff; 40])),
        (1000, data(1000, 9, &longs(&[0; 4]))),
        (ROWS, data(ROWS, 3, &[0xff; 40])),
        (ROWS, data(ROWS, 8, &[])),
    ];
    for (rows, pages) in cases {
        let error = count(&with_offsets(rows, pages, None, 0)).unwrap_err();
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn strings_in_deltas_are_as_many_as_their_page_says() {
    // Blocks of 128 in 4 parts: lengths of 1, in no bits; then the strings.
    let lengths =
        |count: u64, first: u8| [&[0x80, 1, 4][..], &unsigned(count), &[first, 0, 0, 0, 0, 0]].concat();
    let with = |encoding, contents: Vec<u8>| {
        let mut chunks = good();
        chunks[0].pages = data(ROWS, encoding, &contents);
        file(&[(ROWS, &chunks)], 0)
    };
    assert_eq!(count(&with(6, [lengths(4, 2), b"WWWR".to_vec()].concat())), Ok(4));
    assert_eq!(count(&with(7, [lengths(4, 0), lengths(4, 2), b"WWWR".to_vec()].concat())), Ok(4));
    let wrong = "a page has another number of strings than its header";
    // A part of 2^31 numbers that take no bits: 8 GB of lengths.
    let large = [unsigned(1 << 33), vec![1], unsigned(1 << 31), vec![0, 0, 0]].concat();
    refused(&with(6, large.clone()), wrong);
    refused(&with(7, large.clone()), wrong);
    refused(&with(7, [lengths(4, 0), large].concat()), wrong);
}

#[test]
fn row_groups_without_rows_are_passed_over() {
    let good = good();
    // pyarrow gives the columns of an empty row group a dictionary, of no values, and data at byte 0; others no pages.
    let empty = self::good().map(|chunk| Chunk { pages: Vec::new(), ..chunk });
    let dictionary =
        self::good().map(|chunk| Chunk { pages: page(7, 0, 0, 0, &[]), dictionary: Some(0), ..chunk });
    assert_eq!(count(&file(&[(0, &empty)], 0)), Ok(0));
    assert_eq!(count(&file(&[(0, &empty), (4, &good), (0, &dictionary), (4, &good), (0, &empty)], 0)), Ok(8));
    assert_eq!(count(&file(&[], 0)), Ok(0));
    // fastparquet's list of no row groups is one of nothing.
    let mut bytes = file(&[], 0);
    let list = bytes.windows(2).rposition(|two| two == [0x19, 0x0c]).unwrap();
    bytes[list + 1] = 0;
    assert_eq!(count(&bytes), Ok(0));
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
        (Compression::BROTLI(Default::default()), old, None),
        (Compression::BROTLI(Default::default()), new, None),
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
        for (at, byte) in good.iter().enumerate().skip(4) {
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
    let twice = |quantity: &str| {
        Err(format!(
            "there are two columns for {quantity:?}; the map of columns (--columns) says which one it is"
        ))
    };
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
