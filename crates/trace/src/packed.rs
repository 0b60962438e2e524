//! Compressed traces, read as they come.
//!
//! The law of this module: it unpacks as much as is asked for, so a small file that unpacks to a large one costs
//! time and no memory. What a format may ask for its window is bounded.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// How much is read at a time.
const CHUNK: usize = 256 * 1024;
/// The most memory for unpacking xz, in KiB: what its highest preset takes.
const XZ_KIB: u32 = 80 * 1024;

/// Returns the contents of a gzip, zstd or xz file, unpacked, and those of any other file as they are. The first
/// bytes decide.
pub fn unpacked<'a>(file: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut file = BufReader::with_capacity(CHUNK, file);
    let first = file.fill_buf()?;
    if first.starts_with(&[0x1f, 0x8b]) {
        return Ok(buffered(MultiGzDecoder::new(file)));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(buffered(Frames { rest: Some(file), frame: None }));
    }
    if first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(buffered(XzReader::new_mem_limit(file, true, XZ_KIB)));
    }
    Ok(Box::new(file))
}

fn buffered<'a>(unpacked: impl Read + 'a) -> Box<dyn BufRead + 'a> {
    Box::new(BufReader::with_capacity(CHUNK, unpacked))
}

/// The frames of a zstd file, one after another. The decoder stops at the end of each.
struct Frames<R: BufRead> {
    /// What follows the frame; absent while one is being read.
    rest: Option<R>,
    frame: Option<Frame<R>>,
}

type Frame<R> = StreamingDecoder<R, ruzstd::decoding::FrameDecoder>;

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
                self.rest = self.frame.take().map(StreamingDecoder::into_inner);
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = StreamingDecoder::new(rest);
            self.frame = Some(frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?);
        }
    }
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
