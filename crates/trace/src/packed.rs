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
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    fn packed(command: &str, text: &[u8]) -> Option<Vec<u8>> {
        let mut child = Command::new(command)
            .args(["-c", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = child.stdin.take()?;
        let text = text.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&text));
        let output = child.wait_with_output().ok()?;
        writer.join().ok()?.ok()?;
        output.status.success().then_some(output.stdout)
    }

    #[test]
    fn what_the_usual_programs_pack_is_unpacked_also_in_parts() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| format!("{n},W,0,4096,{n}\n").into_bytes()).collect();
        for program in ["gzip", "zstd", "xz"] {
            let Some(mut file) = packed(program, &text) else {
                println!("SKIPPED: {program} is not installed");
                continue;
            };
            // Two packed files, one behind the other, are one packed file.
            let twice = packed(program, b"end\n").unwrap();
            file.extend_from_slice(&twice);
            let mut unpacked_text = Vec::new();
            unpacked(file.as_slice()).unwrap().read_to_end(&mut unpacked_text).unwrap();
            assert!(unpacked_text.starts_with(&text) && unpacked_text.ends_with(b"end\n"), "{program}");
            assert_eq!(unpacked_text.len(), text.len() + 4, "{program}");
            let cut = &file[..file.len() / 2];
            assert!(unpacked(cut).unwrap().read_to_end(&mut Vec::new()).is_err(), "{program}, cut");
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
