//! Compressed traces. Only as much is unpacked as is asked for, and the windows of the formats are bounded.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use xxhash_rust::xxh64::Xxh64;

const CHUNK: usize = 256 * 1024;
/// The most memory for unpacking xz, in KiB: what its highest preset takes.
const XZ_KIB: u32 = 80 * 1024;
/// The largest window of zstd: what its program takes without being asked for more.
const ZSTD_WINDOW: u64 = 1 << 27;

/// Returns the contents of a gzip, zstd or xz file, unpacked, and those of any other file as they are. The first
/// bytes decide.
pub fn unpacked<'a>(file: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut file = BufReader::with_capacity(CHUNK, file);
    let first = file.fill_buf()?;
    if first.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(MultiGzDecoder::new(file)));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Box::new(Zstd { file, frame: None }));
    }
    if first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        return Ok(Box::new(XzReader::new_mem_limit(file, true, XZ_KIB)));
    }
    Ok(Box::new(file))
}

struct Zstd<R: BufRead> {
    file: R,
    /// The present frame, and the sum of what it held so far.
    frame: Option<(Box<FrameDecoder>, Xxh64)>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let (frame, sum) = match &mut self.frame {
                Some(frame) => frame,
                None if self.file.fill_buf()?.is_empty() => return Ok(0),
                None => match begin(&mut self.file)? {
                    Some(frame) => self.frame.insert((frame, Xxh64::new(0))),
                    None => continue,
                },
            };
            while frame.can_collect() == 0 && !frame.is_finished() {
                frame.decode_blocks(&mut self.file, BlockDecodingStrategy::UptoBlocks(1)).map_err(broken)?;
            }
            let read = frame.read(buffer)?;
            sum.update(buffer.get(..read).unwrap_or_default());
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            // The low half of the sum, where the frame has one (RFC 8878, 3.1.1).
            if frame.get_checksum_from_data().is_some_and(|low| u64::from(low) != sum.digest() & 0xffff_ffff)
            {
                return Err(broken("the checksum of a zstd frame is wrong"));
            }
            self.frame = None;
        }
    }
}

/// Begins a frame; `None` after one that is to be skipped (RFC 8878, 3.1.2).
fn begin(file: &mut impl BufRead) -> io::Result<Option<Box<FrameDecoder>>> {
    let mut frame = Box::new(FrameDecoder::new());
    frame.set_max_window_size(ZSTD_WINDOW);
    match frame.reset(&mut *file) {
        Ok(()) => Ok(Some(frame)),
        Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
            let skipped = io::copy(&mut file.take(length.into()), &mut io::sink())?;
            if skipped == u64::from(length) { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
        }
        Err(error) => Err(broken(error)),
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames of zstd with their sums, and one that is skipped between them: what `printf` and `zstd` make.
    #[test]
    fn frames_are_read_one_after_the_other_and_their_sums_checked() {
        let frame = |text: &[u8]| {
            // A window of 1 KiB, with a sum; one raw block, which is the last.
            let header = (u32::try_from(text.len()).unwrap() << 3 | 1).to_le_bytes();
            let sum = u32::try_from(xxhash_rust::xxh64::xxh64(text, 0) & 0xffff_ffff).unwrap().to_le_bytes();
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0][..], &header[..3], text, &sum].concat()
        };
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let file = [frame(b"time,op\n"), skipped.to_vec(), frame(b"1,W\n")].concat();
        let mut read = String::new();
        unpacked(&file[..]).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "time,op\n1,W\n");
        for at in [9, file.len() - 1] {
            let mut wrong = file.clone();
            wrong[at] ^= 1;
            assert!(unpacked(&wrong[..]).unwrap().read_to_end(&mut Vec::new()).is_err(), "byte {at}");
        }
        for length in 4..file.len() - 1 {
            let ended = unpacked(&file[..length]).unwrap().read_to_end(&mut Vec::new());
            // Behind the first frame, and the one that is skipped, the file may end.
            let is_whole = [21, 32].contains(&length);
            assert_eq!(ended.is_ok(), is_whole, "{length} bytes");
        }
    }

    #[test]
    fn other_files_are_read_as_they_are() {
        for text in [&b""[..], b"\x1f", b"time,op,offset,length\n"] {
            let mut read = Vec::new();
            unpacked(text).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
    }
}
