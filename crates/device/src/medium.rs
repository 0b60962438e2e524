//! The bytes of a target, read-only, by offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use straddle_units::{ByteCount, ByteOffset};

use crate::image::ImageError;

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ReadError {
    #[error("cannot read {want} bytes from byte {at} on, because the medium ends at byte {len}")]
    PastEnd { at: ByteOffset, want: usize, len: u64 },
    #[error("byte {at} is not on this medium")]
    Unmapped { at: ByteOffset },
    #[error("cannot read byte {at} of the image's virtual disk")]
    Image {
        at: ByteOffset,
        #[source]
        source: Box<ImageError>,
    },
    #[error("cannot fetch byte {at}")]
    Fetch {
        at: ByteOffset,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot read byte {at}")]
    Io {
        at: ByteOffset,
        #[source]
        source: std::io::Error,
    },
}

straddle_units::error_kind!(ReadError: Failed);

/// Bytes that can be read at any offset. Implementations never write, and never block for ever.
pub trait Medium: Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> ByteCount;

    /// Fills all of `buf` from byte `at`. After an error its contents are unspecified.
    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError>;

    /// Returns how many bytes from byte `at` on are known to be zeros without being read, as in a hole of a file.
    fn zeros_from(&self, _at: ByteOffset) -> ByteCount {
        ByteCount::ZERO
    }

    /// Whether `len` bytes from byte `at` on are known to be zeros without being read.
    fn is_hole(&self, mut at: ByteOffset, mut len: ByteCount) -> bool {
        while len > ByteCount::ZERO {
            let zeros = self.zeros_from(at);
            match at.checked_add(zeros).filter(|_| zeros > ByteCount::ZERO) {
                Some(next) => (at, len) = (next, len.saturating_sub(zeros)),
                None => return false,
            }
        }
        true
    }

    /// Returns `len` bytes from byte `at` on; does not read a hole.
    fn bytes_at(&self, at: ByteOffset, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len];
        if !self.is_hole(at, ByteCount::new(len as u64)) {
            self.read_at(at, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Forgets what was kept of earlier reads: what is asked for next is read again.
    fn forget(&self) {}

    /// Whether the medium has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == ByteCount::ZERO
    }
}

impl<M: Medium> Medium for Arc<M> {
    fn len(&self) -> ByteCount {
        (**self).len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        (**self).read_at(at, buf)
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        (**self).zeros_from(at)
    }
}

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
    /// The caller supplies the length, because the `stat` size of a block device is 0.
    pub fn new(file: File, len: ByteCount) -> Self {
        Self { file, len }
    }

    /// Returns the open file, for ioctls.
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
        // An error must name the byte at which it occurred, not the first one wanted.
        let mut done = 0;
        while done < buf.len() {
            let here = at.checked_add(ByteCount::new(done as u64)).unwrap_or(at);
            match self.file.read_at(&mut buf[done..], here.get()) {
                Ok(0) => return Err(ReadError::Io { at: here, source: io::ErrorKind::UnexpectedEof.into() }),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { at: here, source }),
            }
        }
        Ok(())
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        let next = match rustix::fs::seek(&self.file, SeekFrom::Data(at.get())) {
            Ok(next) => ByteOffset::new(next.min(self.len.get())),
            Err(Errno::NXIO) => ByteOffset::new(self.len.get()),
            // A device, or a file system that does not know.
            Err(_) => at,
        };
        next.since(at)
    }
}

/// A medium, and the first of its bytes that the operating system could not read. Readers treat these as absent, but
/// the user must learn of them.
pub struct Watched<'a> {
    medium: &'a dyn Medium,
    first: Mutex<Option<(ByteOffset, io::Error)>>,
}

impl<'a> Watched<'a> {
    /// Watches `medium`.
    pub fn new(medium: &'a dyn Medium) -> Self {
        Self { medium, first: Mutex::new(None) }
    }

    /// Returns the first byte that could not be read since the last call, and the error.
    pub fn take(&self) -> Option<(ByteOffset, io::Error)> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Medium for Watched<'_> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let read = self.medium.read_at(at, buf);
        if let Err(ReadError::Io { at, source }) = &read {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|(before, _)| at < before) {
                *first = Some((*at, io::Error::new(source.kind(), source.to_string())));
            }
        }
        read
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        self.medium.zeros_from(at)
    }
}

/// Bytes in memory, for tests and fuzzing. Bytes past those given read as zero, up to `len`.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    bytes: Vec<u8>,
    len: ByteCount,
}

impl MemoryMedium {
    /// Creates a medium of exactly these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let len = ByteCount::new(bytes.len() as u64);
        Self { bytes, len }
    }

    /// Creates a medium that begins with `bytes` and continues with zeros to `len` bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holes_of_a_file_are_known() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 << 20).unwrap();
        let medium = FileMedium::new(file, ByteCount::new(3 << 20));
        let zeros = |at: u64| medium.zeros_from(ByteOffset::new(at)).get();
        assert_eq!([0, 4096, 3 << 20, 4 << 20].map(zeros), [3 << 20, (3 << 20) - 4096, 0, 0]);
        medium.file().write_all_at(b"x", 1 << 20).unwrap();
        assert!(zeros(0) <= 1 << 20 && zeros(1 << 20) == 0, "{} {}", zeros(0), zeros(1 << 20));
    }
}
