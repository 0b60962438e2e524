//! The bytes of a target, read-only, by position.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use straddle_units::{ByteCount, ByteOffset};

use crate::image::ImageError;

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The read would pass the end of the medium.
    #[error("byte {at}: {want} bytes wanted, but the medium ends at byte {len}")]
    PastEnd {
        /// First byte wanted.
        at: ByteOffset,
        /// How many bytes were wanted.
        want: usize,
        /// The medium's length in bytes.
        len: u64,
    },
    /// The bytes exist, but not on this medium: on another disk, or behind a key.
    #[error("byte {at}: not on this medium")]
    Unmapped {
        /// First byte that is not there.
        at: ByteOffset,
    },
    /// An image does not give them: it is damaged, or they are in a file that is not opened.
    #[error("byte {at} of the disk in the image")]
    Image {
        /// First byte wanted, on the disk in the image.
        at: ByteOffset,
        /// What is wrong with the image.
        #[source]
        source: Box<ImageError>,
    },
    /// The operating system refused or failed.
    #[error("byte {at}: cannot read")]
    Io {
        /// First byte wanted.
        at: ByteOffset,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

/// Bytes that can be read at any position. Implementations never block for ever and never write.
pub trait Medium: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> ByteCount;

    /// Fills `buf` from byte `at`, whole or not at all.
    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError>;

    /// Whether there is not a single byte.
    fn is_empty(&self) -> bool {
        self.len() == ByteCount::ZERO
    }
}

/// Refuses a read that would pass the end of a medium of `len` bytes.
pub(crate) fn check_end(at: ByteOffset, want: usize, len: ByteCount) -> Result<(), ReadError> {
    let wanted = u64::try_from(want).ok().and_then(|w| at.get().checked_add(w));
    match wanted {
        Some(end) if end <= len.get() => Ok(()),
        _ => Err(ReadError::PastEnd { at, want, len: len.get() }),
    }
}

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    len: ByteCount,
}

impl FileMedium {
    /// Takes `file` as a medium of `len` bytes (a block device's `stat` size is 0, so the caller says).
    pub fn new(file: File, len: ByteCount) -> Self {
        Self { file, len }
    }

    /// The open file, for ioctls.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Medium for FileMedium {
    fn len(&self) -> ByteCount {
        self.len
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        check_end(at, buf.len(), self.len)?;
        // By hand: an error is of the byte at which it occurs, not of the first one wanted.
        let mut done = 0;
        while done < buf.len() {
            let here = u64::try_from(done).ok().and_then(|done| at.checked_add(ByteCount::new(done)));
            let here = here.unwrap_or(at);
            match self.file.read_at(&mut buf[done..], here.get()) {
                Ok(0) => return Err(ReadError::Io { at: here, source: io::ErrorKind::UnexpectedEof.into() }),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { at: here, source }),
            }
        }
        Ok(())
    }
}

/// Bytes in memory, for tests and fuzzing; bytes past the ones given, up to `len`, read as zero.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    bytes: Vec<u8>,
    len: ByteCount,
}

impl MemoryMedium {
    /// A medium of exactly these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let len = ByteCount::new(bytes.len() as u64);
        Self { bytes, len }
    }

    /// A medium that begins with `bytes` and continues with zeros to `len` bytes.
    pub fn sparse(bytes: Vec<u8>, len: ByteCount) -> Self {
        Self { bytes, len }
    }
}

impl Medium for MemoryMedium {
    fn len(&self) -> ByteCount {
        self.len
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        check_end(at, buf.len(), self.len)?;
        let have = usize::try_from(at.get()).ok().and_then(|a| self.bytes.get(a..)).unwrap_or(&[]);
        let copied = have.len().min(buf.len());
        buf[..copied].copy_from_slice(&have[..copied]);
        buf[copied..].fill(0);
        Ok(())
    }
}
