//! Pages of strings that say themselves how many there are: those in the encodings of deltas (Parquet's Encodings.md).
//!
//! The law of this module: no page of such strings is decoded whose own number of them is larger than its header's,
//! which [`super::page`] has bounded: the decoder takes memory for as many as the page says, whatever the header does.

use std::sync::Arc;

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError as Error;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::page::{Positioned, rows_of};
use super::thrift::Compact;
use crate::error::ParquetError;

/// Unpacks the pages of strings in a row group and compares their numbers with those of their headers.
pub(super) fn check(
    file: &Positioned,
    metadata: &ParquetMetaData,
    group: usize,
    leaves: &[usize],
) -> Result<(), ParquetError> {
    let Some(group) = metadata.row_groups().get(group) else { return Ok(()) };
    let rows = usize::try_from(rows_of(group)?).unwrap_or(usize::MAX);
    let file = Arc::new(file.clone());
    for chunk in leaves.iter().filter_map(|leaf| group.columns().get(*leaf)) {
        if chunk.column_type() != Type::BYTE_ARRAY {
            continue;
        }
        let pages = SerializedPageReader::new(Arc::clone(&file), chunk, rows, None);
        let mut pages = pages.map_err(ParquetError::Invalid)?;
        while let Some(page) = pages.get_next_page().map_err(ParquetError::Invalid)? {
            of_page(&page, chunk).ok_or_else(|| {
                ParquetError::Invalid(Error::General(
                    "a page has another number of strings than its header".into(),
                ))
            })?;
        }
    }
    Ok(())
}

/// Checks a page; `None` if it has more strings than its header says, or is cut off.
fn of_page(page: &Page, chunk: &ColumnChunkMetaData) -> Option<()> {
    let most = u64::from(page.num_values());
    let strings = match page.encoding() {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Some(()),
    };
    let mut bytes = page.buffer().get(levels(page, chunk)?..)?;
    // Beginnings and ends of strings have their lengths each.
    for _ in 0..strings {
        let (count, end) = deltas(bytes)?;
        if count > most {
            return None;
        }
        bytes = bytes.get(end..)?;
    }
    Some(())
}

/// Returns the bytes before the values of a page, which say which of them are missing.
fn levels(page: &Page, chunk: &ColumnChunkMetaData) -> Option<usize> {
    match page {
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            usize::try_from(def_levels_byte_len.checked_add(*rep_levels_byte_len)?).ok()
        }
        Page::DataPage { buf, num_values, def_level_encoding, .. } => {
            let most = chunk.column_descr().max_def_level();
            let bits = i16::BITS - most.leading_zeros();
            match def_level_encoding {
                _ if most == 0 => Some(0),
                Encoding::RLE => {
                    let length = u32::from_le_bytes(*buf.first_chunk()?);
                    usize::try_from(length).ok()?.checked_add(4)
                }
                _ => usize::try_from(u64::from(*num_values).checked_mul(u64::from(bits))?.div_ceil(8)).ok(),
            }
        }
        Page::DictionaryPage { .. } => None,
    }
}

/// Returns the number of numbers in the encoding of deltas, and where they end.
fn deltas(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut rest = bytes;
    let block = unsigned(&mut rest)?;
    let parts = unsigned(&mut rest)?;
    let count = unsigned(&mut rest)?;
    unsigned(&mut rest)?;
    let in_part = block.checked_div(parts)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        unsigned(&mut rest)?;
        let (widths, packed) = rest.split_at_checked(usize::try_from(parts).ok()?)?;
        rest = packed;
        for width in widths {
            // The widths of parts that are not there may be anything.
            if left > 0 {
                let length = u64::from(*width).checked_mul(in_part)? / 8;
                rest = rest.get(usize::try_from(length).ok()?..)?;
                left = left.saturating_sub(in_part);
            }
        }
    }
    Some((count, bytes.len() - rest.len()))
}

fn unsigned(rest: &mut &[u8]) -> Option<u64> {
    Compact::new(rest).unsigned().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_end_behind_their_last_part() {
        // Blocks of 128 in 4 parts; one number needs no block.
        assert_eq!(deltas(&[0x80, 1, 4, 1, 7, 9]), Some((1, 5)));
        // Three numbers: a block of one part of 32 in 2 bits, and the widths of three that are not there.
        let bytes = [&[0x80, 1, 4, 3, 7, 0, 2, 9, 9, 9][..], &[0; 8], b"abc"].concat();
        assert_eq!(deltas(&bytes), Some((3, 18)));
        // 2^31 numbers without a bit each need their blocks.
        assert_eq!(deltas(&[0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 8, 7, 0, 0, 0, 0, 0]), None);
        assert_eq!(deltas(&[0x80, 1, 0, 3, 7]), None);
        assert_eq!(deltas(&[0xff; 20]), None);
    }
}
