//! Compressed traces, read as they come.
//!
//! The law of this module: it unpacks as much as is asked for, so a small file that unpacks to a large one costs
//! time and no memory. What a format may ask for its window is bounded.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;
/// The most memory for unpacking xz, in KiB: what its highest preset takes.
const XZ_KIB: u32 = 80 * 1024;
/// The largest window of zstd, as a power of two: what its program takes without being asked for more.
const ZSTD_WINDOW: u32 = 27;

/// Returns the contents of a gzip, zstd or xz file, unpacked, and those of any other file as they are. The first
/// bytes decide.
pub fn unpacked<'a>(file: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut file = BufReader::with_capacity(CHUNK, file);
    let first = file.fill_buf()?;
    if first.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(file)));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut unpacked = zstd::Decoder::with_buffer(file)?;
        unpacked.window_log_max(ZSTD_WINDOW)?;
        return Ok(Box::new(unpacked));
    }
    if first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(Box::new(XzReader::new_mem_limit(file, true, XZ_KIB)));
    }
    Ok(Box::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_read_as_they_are() {
        for text in [&b""[..], b"\x1f", b"time,op,offset,length\n"] {
            let mut read = Vec::new();
            unpacked(text).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
