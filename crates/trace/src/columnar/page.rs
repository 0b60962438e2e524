//! The file of a table, and the sizes that its pages claim.
//!
//! The law of this module: before a row group is unpacked, the header of each page that its reader will come to has been
//! read, and none claims more bytes or values than [`MOST`] and the row group's number of rows allow.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError as Error, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::ROWS;
use super::shapes::{self, Shape};
use super::thrift::{self, Compact, FALSE};
use super::unpack::{Codec, Packed};
use crate::error::ParquetError;

/// The most that a row group may unpack to at a time: a dictionary and the pages of a batch, of each column. Writers make
/// pages of about 1 MiB; DuckDB's have up to 100 MB.
pub(super) const MOST: u64 = 256 << 20;
/// The most that the strings of a batch may take where they are written out from shorter ones.
const SPILLED: u64 = 64 << 20;

/// A file of which each read names its place, so that several threads may read it.
#[derive(Clone, Debug)]
pub(super) struct Positioned {
    file: Arc<File>,
    length: u64,
    /// The pages that are given unpacked, by the places of their contents.
    packed: Arc<HashMap<u64, Packed>>,
}

/// Reads on from a place.
pub(super) struct From {
    file: Arc<File>,
    at: u64,
}

impl Positioned {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), length, packed: Arc::default() })
    }

    /// Returns the file with pages that are given unpacked.
    pub(super) fn unpacking(&self, packed: HashMap<u64, Packed>) -> Self {
        Self { packed: Arc::new(packed), ..self.clone() }
    }
}

/// What frames of LZ4 begin with, as numbers: of the format, and of the one before it.
const FRAMES: [u32; 2] = [0x184d_2204, 0x184c_2102];

impl Positioned {
    /// Whether frames of LZ4 begin at this place. The library's decoder falls back to them, and unpacks all there are.
    fn has_frame(&self, at: u64) -> bool {
        let mut first = [0; 4];
        self.file.read_exact_at(&mut first, at).is_ok() && FRAMES.contains(&u32::from_le_bytes(first))
    }
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.length
    }
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(From { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // What a file says of itself does not make it longer.
        let is_inside = start.checked_add(length as u64).is_some_and(|end| end <= self.length);
        if !is_inside {
            return Err(Error::EOF(format!("{length} bytes from byte {start} on are not in the file")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        match self.packed.get(&start) {
            Some(packed) => Ok(packed.unpack(&bytes)?.into()),
            None => Ok(bytes.into()),
        }
    }
}

/// What a row group takes to read.
#[derive(Debug)]
pub(super) struct Needs {
    /// Bytes of memory, at most.
    pub(super) bytes: u64,
    /// Rows to be read at a time.
    pub(super) batch: usize,
    /// Whether strings are in encodings that say in their pages how many there are.
    pub(super) has_counts: bool,
    /// Pages that are to be given unpacked.
    pub(super) packed: HashMap<u64, Packed>,
}

/// Returns the number of rows of a row group.
pub(super) fn rows_of(group: &RowGroupMetaData) -> std::result::Result<u64, ParquetError> {
    u64::try_from(group.num_rows()).map_err(|_| invalid("a row group has a negative number of rows"))
}

/// Reads the headers of the pages of a row group.
pub(super) fn check(
    file: &Positioned,
    metadata: &ParquetMetaData,
    group: usize,
    leaves: &[usize],
) -> std::result::Result<Needs, ParquetError> {
    let mut needs = Needs { bytes: 0, batch: ROWS, has_counts: false, packed: HashMap::new() };
    let Some(group) = metadata.row_groups().get(group) else { return Ok(needs) };
    let rows = rows_of(group)?;
    for chunk in leaves.iter().filter_map(|leaf| group.columns().get(*leaf)) {
        let column = Column::of(file, chunk, rows, &mut needs.packed)?;
        if column.rows != rows {
            return Err(ParquetError::Rows { claimed: rows, found: column.rows });
        }
        needs.bytes = needs.bytes.saturating_add(column.bytes(chunk.column_type()));
        if needs.bytes > MOST {
            return Err(ParquetError::Large { bytes: needs.bytes, most: MOST });
        }
        if chunk.column_type() == Type::BYTE_ARRAY {
            needs.batch = needs.batch.min(column.batch());
            needs.has_counts |= column.has_counts;
        }
    }
    Ok(needs)
}

/// What the pages of a column say of themselves.
#[derive(Default)]
struct Column {
    rows: u64,
    /// Bytes of the largest dictionary.
    dictionary: u64,
    /// Bytes of the pages that a batch may need at a time, at most; and those of the batch that is being counted.
    largest: u64,
    run: (u64, u64),
    /// The largest page of strings that begin as the ones before them do.
    prefixed: u64,
    /// Whether there are values besides those of the dictionary.
    is_mixed: bool,
    has_counts: bool,
}

impl Column {
    fn of(
        file: &Positioned,
        chunk: &ColumnChunkMetaData,
        rows: u64,
        packed: &mut HashMap<u64, Packed>,
    ) -> std::result::Result<Self, ParquetError> {
        // Where the reader begins, whatever stands before it (`ColumnChunkMetaData::byte_range`).
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let (mut at, length) = match (u64::try_from(start), u64::try_from(chunk.compressed_size())) {
            (Ok(start), Ok(length)) => (start, length),
            _ => return Err(invalid("a column is at a negative place")),
        };
        let end = at.checked_add(length).filter(|end| *end <= file.length);
        let end = end.ok_or_else(|| invalid("a column is not in the file"))?;
        let mut column = Self::default();
        while at < end {
            let from = From { file: Arc::clone(&file.file), at };
            let mut input = Compact::new(BufReader::with_capacity(256, from));
            let header = Header::of(&mut input).map_err(|error| invalid(&error.to_string()))?;
            // A page that is not packed is as large as it lies there.
            let bytes = header.unpacked.max(header.packed);
            if bytes > MOST {
                return Err(ParquetError::Large { bytes, most: MOST });
            }
            column.add(&header, bytes, chunk, rows)?;
            at = at.saturating_add(input.read);
            if chunk.compression() == Compression::LZ4 && file.has_frame(at.saturating_add(header.plain)) {
                return Err(invalid("a page in LZ4 has frames, which say nothing of their size"));
            }
            if let Some(codec) = Codec::of(chunk).filter(|_| header.is_packed) {
                packed.insert(at, Packed { codec, unpacked: header.unpacked, plain: header.plain });
            }
            at = at.saturating_add(header.packed);
        }
        Ok(column)
    }

    fn add(
        &mut self,
        header: &Header,
        bytes: u64,
        chunk: &ColumnChunkMetaData,
        rows: u64,
    ) -> std::result::Result<(), ParquetError> {
        let values = header.values;
        match header.kind {
            DICTIONARY => {
                let least = match chunk.column_type() {
                    // Each string has its length before it.
                    Type::BYTE_ARRAY | Type::INT32 | Type::FLOAT => 4,
                    Type::INT64 | Type::DOUBLE => 8,
                    Type::INT96 => 12,
                    Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
                };
                if values > bytes / least {
                    return Err(invalid("a dictionary has more values than bytes for them"));
                }
                self.dictionary = self.dictionary.max(bytes);
            }
            DATA | DATA_2 => {
                self.rows = self.rows.saturating_add(values);
                if self.rows > rows {
                    return Err(ParquetError::Rows { claimed: rows, found: self.rows });
                }
                let has_lengths = header.encodings & (LENGTHS | PREFIXED) != 0;
                // The lengths are unpacked, of 32 bits each: those of the beginnings, and those of the ends.
                let lengths = if has_lengths { values.saturating_mul(8) } else { 0 };
                self.has_counts |= has_lengths;
                self.is_mixed |= header.encodings & !INDICES != 0;
                if header.encodings & PREFIXED != 0 {
                    self.prefixed = self.prefixed.max(bytes);
                }
                let (bytes_before, rows_before) = self.run;
                self.run = (bytes_before.saturating_add(bytes).saturating_add(lengths), rows_before + values);
                self.largest = self.largest.max(self.run.0);
                if self.run.1 >= ROWS as u64 {
                    self.run = (0, 0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the bytes that it takes to read, at most.
    const fn bytes(&self, kind: Type) -> u64 {
        let all = self.dictionary.saturating_add(self.largest);
        // Strings are copied out of their pages.
        if matches!(kind, Type::BYTE_ARRAY) { all.saturating_mul(2) } else { all }
    }

    /// Returns how many strings may be read at a time. One that is long in a dictionary, or begins as the one before,
    /// is written out in each row of a batch that has others too.
    fn batch(&self) -> usize {
        let mixed = if self.is_mixed { self.dictionary } else { 0 };
        let rows = SPILLED / mixed.max(self.prefixed).max(1);
        usize::try_from(rows).unwrap_or(ROWS).clamp(1, ROWS)
    }
}

/// The header of a page: of the headers inside, of which one is right, all encodings, and the largest number of values.
#[derive(Default)]
struct Header {
    kind: u64,
    /// Bytes, unpacked and as they lie in the file.
    unpacked: u64,
    packed: u64,
    /// Values, also those that are missing.
    values: u64,
    /// A bit for each.
    encodings: u32,
    /// Bytes before what is packed.
    plain: u64,
    is_packed: bool,
}

/// Types of pages (parquet.thrift's `PageType`).
const DATA: u64 = 0;
const DICTIONARY: u64 = 2;
const DATA_2: u64 = 3;
/// Encodings (parquet.thrift's `Encoding`): indices into a dictionary, lengths before strings, and strings that begin as
/// the ones before them.
const INDICES: u32 = 1 << 2 | 1 << 8;
const LENGTHS: u32 = 1 << 6;
const PREFIXED: u32 = 1 << 7;

impl Header {
    /// Reads the fields of `PageHeader` (parquet.thrift).
    fn of<R: Read>(input: &mut Compact<R>) -> io::Result<Self> {
        let mut header = Self { is_packed: true, ..Self::default() };
        let (mut has_unpacked, mut has_packed) = (false, false);
        shapes::each(shapes::PAGE, input, &mut |input, kind, number| {
            match number {
                1 => {
                    header.kind = input.number(kind)?;
                    if header.kind > DATA_2 {
                        return Err(thrift::invalid("a page is of an unknown kind"));
                    }
                }
                2 => {
                    header.unpacked = input.number(kind)?;
                    has_unpacked = true;
                }
                3 => {
                    header.packed = input.number(kind)?;
                    has_packed = true;
                }
                5 | 7 | 8 => header.inner(input, number)?,
                _ => shapes::pass(shapes::PAGE, input, (kind, number))?,
            }
            Ok(())
        })?;
        if has_unpacked && has_packed { Ok(header) } else { Err(thrift::invalid("a page has no size")) }
    }

    /// Reads the fields of the header inside for one type of pages, which is this field: `DataPageHeader`,
    /// `DictionaryPageHeader` or `DataPageHeaderV2`.
    fn inner<R: Read>(&mut self, input: &mut Compact<R>, of: i64) -> io::Result<()> {
        let Some(Shape::Structure(fields)) = shapes::of(shapes::PAGE, of) else { return Ok(()) };
        shapes::each(fields, input, &mut |input, kind, number| {
            match (of, number) {
                (_, 1) => self.values = self.values.max(input.number(kind)?),
                (5 | 7, 2) | (8, 4) => {
                    let bit = u32::try_from(input.number(kind)?).ok().and_then(|bit| 1_u32.checked_shl(bit));
                    self.encodings |= bit.ok_or_else(|| thrift::invalid("an encoding is unknown"))?;
                }
                (8, 5 | 6) => self.plain = self.plain.saturating_add(input.number(kind)?),
                (8, 7) => {
                    input.pass(kind, 1)?;
                    self.is_packed = kind != FALSE;
                }
                _ => shapes::pass(fields, input, (kind, number))?,
            }
            Ok(())
        })
    }
}

fn invalid(text: &str) -> ParquetError {
    ParquetError::Invalid(Error::General(text.to_owned()))
}
