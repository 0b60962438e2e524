//! The directory at the end of a Parquet file.
//!
//! The law of this module: before the library reads a directory, its length, its lists and the depth of its columns are
//! bounded. What a file means is not changed; only an empty list may name the type of its elements in more than one way.

use std::io;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::ParquetError as Error;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::reader::{ChunkReader, Length};

use super::MAGIC;
use super::page::Positioned;
use super::shapes::{self, Shape};
use super::thrift::{Compact, LIST, STRUCTURE, invalid};
use crate::error::ParquetError;

/// The length of the directory, and [`MAGIC`].
const END: u64 = 8;

/// The longest directory. That of a table with 1,000 row groups of 100 columns has 10 MB.
const LONGEST: u64 = 64 << 20;
/// How deep columns may be inside each other: one of a list of structures is three deep.
const DEEPEST: usize = 64;
/// Fields of `FileMetaData` and `SchemaElement` (parquet.thrift).
const SCHEMA: i64 = 2;
const GROUPS: i64 = 4;
const WORDS: i64 = 5;
const CIPHER: i64 = 8;
const KEY: i64 = 9;
const CHILDREN: i64 = 5;

/// Reads the directory.
pub(super) fn read(file: &Positioned) -> Result<ArrowReaderMetadata, ParquetError> {
    let bytes = bytes(file).map_err(ParquetError::Invalid)?;
    bounded(&bytes).map_err(|error| ParquetError::Invalid(Error::General(error.to_string())))?;
    // Of the bytes that were checked: the file may be another one by now.
    let metadata = ParquetMetaDataReader::decode_metadata(&bytes).or_else(|error| {
        let repaired = repaired(bytes).and_then(|bytes| ParquetMetaDataReader::decode_metadata(&bytes).ok());
        repaired.ok_or(error)
    });
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    metadata
        .and_then(|metadata| ArrowReaderMetadata::try_new(metadata.into(), options))
        .map_err(ParquetError::Invalid)
}

/// Returns the directory as it lies in the file.
fn bytes(file: &Positioned) -> Result<Vec<u8>, Error> {
    let no_end = || Error::EOF("the file does not end as one of Parquet".to_owned());
    let end = file.len().checked_sub(END).ok_or_else(no_end)?;
    let last = file.get_bytes(end, 8)?;
    let (length, magic) = last.split_first_chunk().ok_or_else(no_end)?;
    if magic != MAGIC {
        return Err(no_end());
    }
    let length = u64::from(u32::from_le_bytes(*length));
    if length > LONGEST {
        return Err(Error::General(format!(
            "its directory has {length} bytes, and no more than {LONGEST} are read"
        )));
    }
    let start = end.checked_sub(length).ok_or_else(no_end)?;
    Ok(file.get_bytes(start, usize::try_from(length).map_err(|_| no_end())?)?.to_vec())
}

/// The most columns, columns of row groups, and words about a file: the library takes some hundred bytes for each.
const MOST_ELEMENTS: u64 = 1 << 16;
const MOST_CHUNKS: u64 = 1 << 18;

/// Checks that each field has the type of its number and each list the elements that it says, how many there are, and how
/// deep the columns are inside each other: the library makes room for what is said, and goes down as deep.
fn bounded(bytes: &[u8]) -> io::Result<()> {
    let (mut columns, mut groups) = (0, 0);
    shapes::each(shapes::FILE, &mut Compact::up_to(bytes, LONGEST), &mut |input, kind, number| {
        match number {
            SCHEMA => columns = schema(input)?,
            GROUPS => groups = elements(input, &shapes::GROUP)?,
            WORDS => {
                elements(input, &shapes::KEY_VALUE)?;
            }
            CIPHER | KEY => return Err(invalid("it is encrypted")),
            _ => shapes::pass(shapes::FILE, input, (kind, number))?,
        }
        Ok(())
    })?;
    // Each row group has all columns; those that are groups are counted with them.
    if groups.saturating_mul(columns) > MOST_CHUNKS.max(columns) {
        return Err(invalid("it has too many columns of row groups"));
    }
    Ok(())
}

/// Passes over a list; returns how many elements it has.
fn elements(input: &mut Compact<&[u8]>, shape: &Shape) -> io::Result<u64> {
    let (element, count) = input.list()?;
    if count > MOST_ELEMENTS {
        return Err(invalid("a list of it is too long"));
    }
    for _ in 0..count {
        shape.pass(input, element)?;
    }
    Ok(count)
}

fn schema(input: &mut Compact<&[u8]>) -> io::Result<u64> {
    let (element, count) = input.list()?;
    if count > MOST_ELEMENTS {
        return Err(invalid("it has too many columns"));
    }
    // How many are still to come of each group that is not complete.
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..count {
        if element != STRUCTURE {
            return Err(invalid("its columns are not structures"));
        }
        let mut children = 0;
        shapes::each(shapes::ELEMENT, input, &mut |input, kind, number| {
            match number {
                CHILDREN => children = input.number(kind)?,
                _ => shapes::pass(shapes::ELEMENT, input, (kind, number))?,
            }
            Ok(())
        })?;
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if children > count {
            return Err(invalid("a group has more columns than there are"));
        }
        if children > 0 {
            open.push(children);
        }
        if open.len() > DEEPEST {
            return Err(invalid("its columns are too deep inside each other"));
        }
    }
    Ok(count)
}

/// Returns the directory with its empty lists as lists of structures: fastparquet writes that of no row groups as a list
/// of nothing. `None` if there is no such list.
fn repaired(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let lists = empty_lists(&bytes)?;
    for list in &lists {
        // All lists of `FileMetaData` (parquet.thrift) are of structures.
        *bytes.get_mut(*list)? = STRUCTURE;
    }
    (!lists.is_empty()).then_some(bytes)
}

/// Returns where the directory has lists of nothing.
fn empty_lists(bytes: &[u8]) -> Option<Vec<usize>> {
    let mut lists = Vec::new();
    let read = Compact::up_to(bytes, LONGEST).structure(&mut |input, kind, _| {
        let at = usize::try_from(input.read).unwrap_or(usize::MAX);
        if kind == LIST && bytes.get(at) == Some(&0) {
            lists.push(at);
        }
        input.pass(kind, 0)
    });
    read.ok().map(|()| lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of groups inside each other.
    fn nested(depth: usize) -> Vec<u8> {
        let group = [0x48, 1, b'g', 0x15, 2, 0];
        let leaf = [0x48, 1, b'l', 0];
        let count = u8::try_from(depth + 1).unwrap();
        let mut bytes = vec![0x15, 2, 0x19, 0xfc, count];
        (0..depth).for_each(|_| bytes.extend(group));
        bytes.extend(leaf);
        bytes.push(0);
        bytes
    }

    #[test]
    fn columns_are_so_deep_inside_each_other_and_no_deeper() {
        bounded(&nested(DEEPEST)).unwrap();
        let error = bounded(&nested(DEEPEST + 1)).unwrap_err().to_string();
        assert!(error.contains("too deep"), "{error}");
    }

    #[test]
    fn what_is_said_to_be_there_is_there() {
        let mut bytes = nested(3);
        // More children than columns, more columns than bytes, and an end that is missing.
        bytes[9] = 0x7e;
        assert!(bounded(&bytes).unwrap_err().to_string().contains("more columns"), "{bytes:?}");
        let mut bytes = nested(3);
        bytes[4] = 0x7f;
        assert!(bounded(&bytes).is_err());
        let bytes = nested(3);
        assert!((0..bytes.len()).all(|length| bounded(&bytes[..length]).is_err()));
    }

    #[test]
    fn lists_of_nothing_are_found_among_others() {
        // A number; a list of two numbers; a list of nothing; a string; an empty list of structures.
        let bytes = [0x15, 2, 0x19, 0x25, 2, 4, 0x19, 0, 0x18, 1, b'x', 0x19, 0x0c, 0];
        assert_eq!(empty_lists(&bytes), Some(vec![7]));
        assert_eq!(empty_lists(&bytes[..10]), None);
    }
}
