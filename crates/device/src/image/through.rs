//! Unpacks a compressed file into an unnamed file, which is then the image, within limits on bytes, disk space and
//! the decoder's memory, whatever its headers say.
//!
//! Sources: RFC 1952 (gzip), RFC 8878 (zstd), the .xz file format 1.2.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use straddle_units::{ByteCount, ByteOffset, MIB};
use xxhash_rust::xxh64::Xxh64;

use crate::medium::{FileMedium, Medium};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Members of RFC 1952, one after another.
    Gzip,
    /// Streams of .xz.
    Xz,
    /// Frames of RFC 8878.
    Zstd,
    /// Streams of bzip2.
    Bzip2,
}

impl Packing {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Gzip => ("gzip", "a gzip file"),
            Self::Xz => ("xz", "an xz file"),
            Self::Zstd => ("zstd", "a zstd file"),
            Self::Bzip2 => ("bzip2", "a bzip2 file"),
        }
    }

    /// Returns its name, such as "gzip".
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// Returns the name of such a file, such as "a gzip file".
    pub const fn a_file(self) -> &'static str {
        self.names().1
    }
}

/// Limits on unpacking a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Total bytes.
    pub len: ByteCount,
    /// Bytes in parts of 64 KiB that are not all zero: what is written to the disk with temporary files.
    pub data: ByteCount,
}

impl Default for Limits {
    fn default() -> Self {
        let gib = |count: u64| ByteCount::new(count * 1024 * MIB);
        Self { len: gib(64), data: gib(4) }
    }
}

/// xz -9 and zstd -19 need half of it.
const MEMORY: u64 = 128 * MIB;

/// Parts of this size that are all zero are left out of the unpacked file.
const PART: usize = 64 << 10;

/// Why a compressed file cannot be read through.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum UnpackError {
    #[error("damaged at byte {at} of the file")]
    Damaged {
        at: ByteOffset,
        #[source]
        source: io::Error,
    },
    #[error("the file unpacks to more than {limit} ({} bytes){what}", .limit.get())]
    TooLarge { limit: ByteCount, what: &'static str },
    #[error("cannot unpack the file into {} (to use another directory, set TMPDIR)", folder.display())]
    Scratch {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

straddle_units::error_kind!(UnpackError: Failed);

/// Makes truncated input the same error for all decoders.
fn plain(error: io::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(one) = cause {
        let kind = one.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::UnexpectedEof) {
            return io::Error::new(io::ErrorKind::UnexpectedEof, "the file is truncated");
        }
        cause = one.source();
    }
    error
}

struct Counted<'a> {
    file: BufReader<File>,
    read: &'a AtomicU64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buf)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.read.fetch_add(amount as u64, Ordering::Relaxed);
        self.file.consume(amount);
    }
}

/// As gzip does, it ignores anything else after a member.
struct Members<R: BufRead>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            if let Some(mut rest) = self.0.take().map(GzDecoder::into_inner)
                && rest.fill_buf()?.starts_with(b"\x1f")
            {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Skippable frames are left out. Checksums of frames are compared (RFC 8878, 3.1.1).
pub(super) struct Frames<R: BufRead> {
    source: R,
    decoder: FrameDecoder,
    sum: Option<Xxh64>,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R, window: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(window);
        Self { source, decoder, sum: None }
    }

    fn open(&mut self) -> io::Result<Option<Xxh64>> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(Some(Xxh64::new(0))),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.sum.is_none() {
                self.sum = self.open()?;
            }
            let Some(sum) = &mut self.sum else { return Ok(0) };
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buf)?;
            sum.update(buf.get(..count).unwrap_or_default());
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            let low = self.decoder.get_checksum_from_data();
            if low.is_some_and(|low| u64::from(low) != sum.digest() & 0xffff_ffff) {
                return Err(io::Error::other("the checksum of a zstd frame is wrong"));
            }
            self.sum = None;
        }
    }
}

/// Returns the unpacked contents of `source`. The memory of the decoder is limited.
pub fn unpacked<'a>(source: impl BufRead + Send + 'a, packing: Packing) -> Box<dyn Read + Send + 'a> {
    match packing {
        Packing::Gzip => Box::new(Members(Some(GzDecoder::new(source)))),
        Packing::Xz => {
            let kib = u32::try_from(MEMORY / 1024).unwrap_or(u32::MAX);
            Box::new(lzma_rust2::XzReader::new_mem_limit(source, true, kib))
        }
        Packing::Zstd => Box::new(Frames::new(source, MEMORY)),
        Packing::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
    }
}

/// The file disappears with its last descriptor, however the program ends.
fn scratch() -> Result<File, UnpackError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir();
    let make = || -> io::Result<File> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".straddle-{}-{count}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    };
    // A leftover file of another program may have the name.
    let is_made = |made: &io::Result<File>| {
        made.as_ref().err().is_none_or(|error| error.kind() != io::ErrorKind::AlreadyExists)
    };
    std::iter::repeat_with(make).take(16).find(is_made).unwrap_or_else(make).map_err(no_room)
}

pub(crate) fn unpack(file: File, packing: Packing, limits: Limits) -> Result<Box<dyn Medium>, UnpackError> {
    let (unpacked, len) = sparse(file, packing, limits)?;
    Ok(Box::new(FileMedium::new(unpacked, ByteCount::new(len))))
}

fn no_room(source: io::Error) -> UnpackError {
    UnpackError::Scratch { folder: std::env::temp_dir(), source }
}

fn sparse(file: File, packing: Packing, limits: Limits) -> Result<(File, u64), UnpackError> {
    let read = AtomicU64::new(0);
    let mut bytes = unpacked(Counted { file: BufReader::with_capacity(PART, file), read: &read }, packing);
    let scratch = scratch()?;
    let (mut len, mut data) = (0_u64, 0_u64);
    let mut part = Vec::with_capacity(PART);
    loop {
        part.clear();
        let have = bytes.by_ref().take(PART as u64).read_to_end(&mut part).map_err(|source| {
            UnpackError::Damaged { at: ByteOffset::new(read.load(Ordering::Relaxed)), source: plain(source) }
        })?;
        let end = len.saturating_add(have as u64);
        if end > limits.len.get() {
            return Err(UnpackError::TooLarge { limit: limits.len, what: "" });
        }
        if part.iter().any(|byte| *byte != 0) {
            data = data.saturating_add(have as u64);
            if data > limits.data.get() {
                return Err(UnpackError::TooLarge { limit: limits.data, what: " of nonzero data" });
            }
            scratch.write_all_at(&part, len).map_err(no_room)?;
        }
        len = end;
        if have < PART {
            break;
        }
    }
    scratch.set_len(len).map_err(no_room)?;
    Ok((scratch, len))
}

#[cfg(test)]
mod tests;
