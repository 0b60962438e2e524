//! The directory at the end of a Parquet file.
//!
//! The law of this module: what a file means is not changed; only an empty list, which says of what it is, may say so in
//! more than one way.

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::reader::{ChunkReader, Length};

use super::MAGIC;
use super::page::Positioned;
use super::thrift::{Compact, LIST, STRUCTURE};
use crate::error::ParquetError;

/// The length of the directory, and [`MAGIC`].
const END: u64 = 8;

/// Reads the directory.
pub(super) fn read(file: &Positioned) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    ArrowReaderMetadata::load(file, options.clone())
        .or_else(|error| {
            let repaired =
                repaired(file).and_then(|bytes| ParquetMetaDataReader::decode_metadata(&bytes).ok());
            let metadata = repaired.ok_or(error)?;
            ArrowReaderMetadata::try_new(metadata.into(), options)
        })
        .map_err(ParquetError::Invalid)
}

/// Returns the directory with its empty lists as lists of structures: fastparquet writes that of no row groups as a list
/// of nothing. `None` if there is no such list.
fn repaired(file: &Positioned) -> Option<Vec<u8>> {
    let end = file.len().checked_sub(END)?;
    let last = file.get_bytes(end, 8).ok()?;
    let (length, magic) = last.split_first_chunk()?;
    if magic != MAGIC {
        return None;
    }
    let length = u32::from_le_bytes(*length);
    let start = end.checked_sub(u64::from(length))?;
    let mut bytes = file.get_bytes(start, usize::try_from(length).ok()?).ok()?.to_vec();
    let lists = empty_lists(&bytes)?;
    for list in &lists {
        // All lists of `FileMetaData` (parquet.thrift) are of structures.
        *bytes.get_mut(*list)? = STRUCTURE;
    }
    (!lists.is_empty()).then_some(bytes)
}

/// Returns where the directory has lists of nothing.
fn empty_lists(bytes: &[u8]) -> Option<Vec<usize>> {
    let (mut input, mut field, mut lists) = (Compact::new(bytes), 0, Vec::new());
    loop {
        let (kind, number) = input.field(field).ok()?;
        if kind == 0 {
            return Some(lists);
        }
        field = number;
        let at = usize::try_from(input.read).ok()?;
        if kind == LIST && bytes.get(at) == Some(&0) {
            lists.push(at);
        }
        input.pass(kind, 0).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nothing_are_found_among_others() {
        // A number; a list of two numbers; a list of nothing; a string; an empty list of structures.
        let bytes = [0x15, 2, 0x19, 0x25, 2, 4, 0x19, 0, 0x18, 1, b'x', 0x19, 0x0c, 0];
        assert_eq!(empty_lists(&bytes), Some(vec![7]));
        assert_eq!(empty_lists(&bytes[..10]), None);
    }
}
