//! Pages in gzip and Brotli, which are unpacked here.
//!
//! The law of this module: a page unpacks to the size that its header gives, which [`super::page`] has bounded, and no
//! byte more. The library's decoders of these codecs go on to the end of what is packed, however much that is.

use std::io::{self, Read};
use std::sync::Arc;

use brotli_decompressor::Decompressor;
use flate2::read::MultiGzDecoder;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Bytes that Brotli's decoder reads at a time.
const BUFFER: usize = 4096;

/// How a page is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) codec: Codec,
    /// Bytes, unpacked.
    pub(super) unpacked: u64,
    /// Bytes at its beginning that are not packed.
    pub(super) plain: u64,
}

/// A codec whose pages are unpacked here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Brotli,
}

impl Codec {
    /// Returns the codec of a column, if it is one of these.
    pub(super) fn of(chunk: &ColumnChunkMetaData) -> Option<Self> {
        match chunk.compression() {
            Compression::GZIP(_) => Some(Self::Gzip),
            Compression::BROTLI(_) => Some(Self::Brotli),
            _ => None,
        }
    }
}

impl Packed {
    /// Unpacks the page.
    pub(super) fn unpack(&self, page: &[u8]) -> io::Result<Vec<u8>> {
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, "a page does not unpack to the size it gives");
        let plain = usize::try_from(self.plain).map_err(|_| wrong())?;
        let (plain, packed) = page.split_at_checked(plain).ok_or_else(wrong)?;
        let mut bytes = Vec::with_capacity(usize::try_from(self.unpacked).map_err(|_| wrong())?);
        bytes.extend_from_slice(plain);
        // A page without values may have nothing that is packed.
        if let Some(rest @ 1..) = self.unpacked.checked_sub(self.plain) {
            let read = match self.codec {
                Codec::Gzip => MultiGzDecoder::new(packed).take(rest + 1).read_to_end(&mut bytes),
                Codec::Brotli => Decompressor::new(packed, BUFFER).take(rest + 1).read_to_end(&mut bytes),
            };
            read?;
        }
        if bytes.len() as u64 == self.unpacked { Ok(bytes) } else { Err(wrong()) }
    }
}

/// Returns the directory for a reader that is given the pages of these codecs unpacked: it says of them that they are
/// not packed.
pub(super) fn for_reader(
    metadata: &Arc<ParquetMetaData>,
    options: ArrowReaderOptions,
) -> Result<ArrowReaderMetadata> {
    let groups = metadata.row_groups();
    let is_one = |chunk: &ColumnChunkMetaData| Codec::of(chunk).is_some();
    if !groups.iter().any(|group| group.columns().iter().any(is_one)) {
        return ArrowReaderMetadata::try_new(Arc::clone(metadata), options);
    }
    let chunk = |chunk: &ColumnChunkMetaData| match is_one(chunk) {
        true => chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build(),
        false => Ok(chunk.clone()),
    };
    let groups: Result<Vec<_>> = groups
        .iter()
        .map(|group| {
            let chunks: Result<Vec<_>> = group.columns().iter().map(chunk).collect();
            group.clone().into_builder().set_column_metadata(chunks?).build()
        })
        .collect();
    let metadata = ParquetMetaData::clone(metadata).into_builder().set_row_groups(groups?).build();
    ArrowReaderMetadata::try_new(Arc::new(metadata), options)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_page_unpacks_to_its_size_or_is_wrong() {
        let mut packed = b"ab".to_vec();
        let mut encoder = GzEncoder::new(&mut packed, Compression::default());
        encoder.write_all(&[7; 3000]).unwrap();
        encoder.finish().unwrap();
        let page = |unpacked, plain| Packed { codec: Codec::Gzip, unpacked, plain };
        let unpacked = page(3002, 2).unpack(&packed).unwrap();
        assert!(unpacked.starts_with(b"ab\x07") && unpacked.len() == 3002);
        for wrong in [page(3001, 2), page(3003, 2), page(10, 2), page(3002, 3), page(3002, 1 << 40)] {
            assert!(wrong.unpack(&packed).is_err(), "{wrong:?}");
        }
        assert_eq!(page(2, 2).unpack(b"ab").unwrap(), b"ab");
        assert!(page(1, 2).unpack(b"ab").is_err());
        // Bytes that are not packed are marked by a bit of the last block; Brotli's empty stream is one byte.
        let brotli = Packed { codec: Codec::Brotli, unpacked: 3, plain: 0 };
        assert_eq!(brotli.unpack(b"\x0b\x01\x80abc\x03").unwrap(), b"abc");
        assert!(Packed { unpacked: 2, ..brotli }.unpack(b"\x0b\x01\x80abc\x03").is_err());
    }
}
