//! The file of a table, and the limits on its directory and its row groups; all else is the library's to check.
//! Panics of the libraries that unpack and decode become errors, and are not printed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::{ParquetError as Error, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::error::ParquetError;
use crate::reader::MAGIC;

/// The length of the directory, and [`MAGIC`].
const END: u64 = 8;
/// The longest directory. That of a table with 1,000 row groups of 100 columns has 10 MB.
const MAX_DIRECTORY: u64 = 64 << 20;
/// The most bytes of the columns of a row group, unpacked. Writers make row groups of up to about 1 GB.
const MAX_GROUP: u64 = 4 << 30;

/// A file of which each read names its place, so that several threads may read it.
#[derive(Clone, Debug)]
pub(super) struct Positioned {
    file: Arc<File>,
    length: u64,
}

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
        let is_inside = start.checked_add(length as u64).is_some_and(|end| end <= self.length);
        if !is_inside {
            return Err(Error::EOF(format!("the {length} bytes at byte {start} are outside the file")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

pub(super) fn directory(file: &Positioned) -> Result<ArrowReaderMetadata, ParquetError> {
    let no_end = || ParquetError::Invalid(Error::EOF("the file does not end like a Parquet file".to_owned()));
    let end = file.len().checked_sub(END).ok_or_else(no_end)?;
    let last = file.get_bytes(end, 8).map_err(ParquetError::Invalid)?;
    let (length, magic) = last.split_first_chunk().ok_or_else(no_end)?;
    if magic != MAGIC {
        return Err(no_end());
    }
    let bytes = u64::from(u32::from_le_bytes(*length));
    if bytes > MAX_DIRECTORY {
        return Err(ParquetError::Large { what: "the directory of the file", bytes, most: MAX_DIRECTORY });
    }
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ArrowReaderMetadata::load(file, options).map_err(ParquetError::Invalid)
}

pub(super) fn rows_of(group: &RowGroupMetaData, leaves: &[usize]) -> Result<u64, ParquetError> {
    let negative = || ParquetError::Invalid(Error::General("a row group has a negative size".to_owned()));
    let mut bytes = 0_u64;
    for chunk in leaves.iter().filter_map(|leaf| group.columns().get(*leaf)) {
        let column = u64::try_from(chunk.uncompressed_size()).map_err(|_| negative())?;
        bytes = bytes.saturating_add(column);
    }
    if bytes > MAX_GROUP {
        return Err(ParquetError::Large { what: "a row group of these columns", bytes, most: MAX_GROUP });
    }
    u64::try_from(group.num_rows()).map_err(|_| negative())
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `decode`, which reads what a file says. What it was working on must not be used after an error.
pub(super) fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    silence();
    let before = INSIDE.replace(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    INSIDE.set(before);
    decoded.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let why = text.unwrap_or("the data cannot be decoded").lines().next().unwrap_or_default();
        Err(ParquetError::Damaged { why: why.chars().take(200).collect() })
    })
}

fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let earlier = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // A thread that ends has no variables left, and is not inside.
            if !INSIDE.try_with(Cell::get).unwrap_or(false) {
                earlier(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_why() {
        let index = std::hint::black_box(7);
        let panics: [(&str, &dyn Fn()); 2] = [
            ("index out of bounds: the len is 2 but the index is 7", &|| {
                std::hint::black_box([1, 2][std::hint::black_box(index)]);
            }),
            ("no such encoding", &|| panic!("no such encoding\nat line 7")),
        ];
        for (why, panics) in panics {
            let wrong = guarded(|| {
                panics();
                Ok(())
            });
            assert_eq!(wrong.unwrap_err().to_string(), format!("the file is damaged: {why}"));
            assert!(!INSIDE.get());
        }
        let nested = guarded(|| {
            let inner = guarded::<()>(|| panic!("inner"));
            assert!(inner.is_err() && INSIDE.get());
            Ok(7)
        });
        assert_eq!(nested.unwrap(), 7);
        assert!(!INSIDE.get());
    }
}
