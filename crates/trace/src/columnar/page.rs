//! The file of a table, and the sizes that its pages claim.
//!
//! The law of this module: before a row group is unpacked, the header of each of its pages has been read, and none
//! claims more than [`MOST`] bytes.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError as Error, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::ParquetError;

/// The most that a page may unpack to. Writers make pages of about 1 MiB; DuckDB's have up to 100 MB.
const MOST: u64 = 128 << 20;

/// A file of which each read names its place, so that several threads may read it.
#[derive(Clone, Debug)]
pub(super) struct Positioned {
    file: Arc<File>,
    length: u64,
}

/// Reads on from a place.
pub(super) struct From {
    file: Arc<File>,
    at: u64,
}

impl Positioned {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), length })
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
        Ok(bytes.into())
    }
}

/// Reads the headers of the pages of a row group.
pub(super) fn check(
    file: &Positioned,
    metadata: &ParquetMetaData,
    group: usize,
    leaves: &[usize],
) -> std::result::Result<(), ParquetError> {
    let Some(group) = metadata.row_groups().get(group) else { return Ok(()) };
    for leaf in leaves {
        let Some(chunk) = group.columns().get(*leaf) else { continue };
        let invalid = |text: &str| ParquetError::Invalid(Error::General(text.to_owned()));
        let start = chunk.dictionary_page_offset().unwrap_or(i64::MAX).min(chunk.data_page_offset());
        let (start, length) = match (u64::try_from(start), u64::try_from(chunk.compressed_size())) {
            (Ok(start), Ok(length)) => (start, length),
            _ => return Err(invalid("a column is at a negative place")),
        };
        let end = start.checked_add(length).filter(|end| *end <= file.length);
        let end = end.ok_or_else(|| invalid("a column is not in the file"))?;
        let mut at = start;
        while at < end {
            let mut header = Header {
                input: BufReader::with_capacity(256, From { file: Arc::clone(&file.file), at }),
                read: 0,
            };
            let (unpacked, packed) = header.page().map_err(|error| invalid(&error.to_string()))?;
            if unpacked > MOST {
                return Err(ParquetError::Large { bytes: unpacked, most: MOST });
            }
            at = at.saturating_add(header.read).saturating_add(packed);
        }
    }
    Ok(())
}

/// Reads the header of a page: Thrift's compact protocol, of which a structure is read for two fields and passed over
/// for all others.
struct Header<R> {
    input: R,
    read: u64,
}

/// Fields of `PageHeader` (parquet.thrift).
const UNPACKED: i64 = 2;
const PACKED: i64 = 3;
/// How deep structures may be inside each other.
const DEPTH: u32 = 16;
/// The longest header.
const LONGEST: u64 = 1 << 20;

impl<R: Read> Header<R> {
    /// Returns the size of the page, unpacked and as it lies in the file.
    fn page(&mut self) -> io::Result<(u64, u64)> {
        let (mut unpacked, mut packed, mut field) = (None, None, 0);
        loop {
            let (kind, number) = self.field(field)?;
            field = number;
            match (kind, number) {
                (0, _) => break,
                (5, UNPACKED) => unpacked = u64::try_from(self.signed()?).ok(),
                (5, PACKED) => packed = u64::try_from(self.signed()?).ok(),
                _ => self.pass(kind, 0)?,
            }
        }
        unpacked.zip(packed).ok_or_else(|| invalid("a page has no size"))
    }

    /// Reads the beginning of a field; returns its type, zero at the end of the structure, and its number.
    fn field(&mut self, before: i64) -> io::Result<(u8, i64)> {
        let first = self.byte()?;
        if first == 0 {
            return Ok((0, 0));
        }
        let number = match first >> 4 {
            0 => self.signed()?,
            more => before.wrapping_add(i64::from(more)),
        };
        Ok((first & 0xf, number))
    }

    /// Passes over a value of a type.
    fn pass(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        if depth > DEPTH {
            return Err(invalid("a page's header is too deep"));
        }
        match kind {
            // True and false are their types.
            1 | 2 => {}
            3 => self.bytes(1)?,
            4..=6 => {
                self.unsigned()?;
            }
            7 => self.bytes(8)?,
            8 => {
                let length = self.unsigned()?;
                self.bytes(length)?;
            }
            9 | 10 => {
                let first = self.byte()?;
                let count = if first >> 4 == 15 { self.unsigned()? } else { u64::from(first >> 4) };
                for _ in 0..count {
                    // The elements of a list of truth values have a byte each.
                    let element = first & 0xf;
                    self.pass(if element <= 2 { 3 } else { element }, depth + 1)?;
                }
            }
            12 => {
                let mut field = 0;
                loop {
                    let (kind, number) = self.field(field)?;
                    if kind == 0 {
                        break;
                    }
                    field = number;
                    self.pass(kind, depth + 1)?;
                }
            }
            _ => return Err(invalid("a page's header has a field of an unknown type")),
        }
        Ok(())
    }

    fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        let half = i64::try_from(number >> 1).unwrap_or(0);
        Ok(if number & 1 == 0 { half } else { -half - 1 })
    }

    fn unsigned(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(invalid("a number in a page's header is too long"))
    }

    fn bytes(&mut self, count: u64) -> io::Result<()> {
        if count > LONGEST {
            return Err(invalid("a page's header is too long"));
        }
        for _ in 0..count {
            self.byte()?;
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.read += 1;
        if self.read > LONGEST {
            return Err(invalid("a page's header is too long"));
        }
        let [byte] = byte;
        Ok(byte)
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
