//! A medium of which each small range is read once.
//!
//! Several searches for contents begin at the same places, and each asks for the same few bytes. A range that cannot be
//! read is not tried again either: a failing disk takes seconds for each try.

use std::collections::HashMap;
use std::io::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use straddle_units::{ByteCount, ByteOffset};

use crate::{Medium, ReadError};

/// The longest range that is kept: what searches for signatures read at once.
const MAX_RANGE: usize = 64 << 10;

/// How many bytes are kept of one medium.
const MAX_BYTES: usize = 4 << 20;

/// A medium that keeps what was read from it.
pub struct Remembered {
    medium: Box<dyn Medium>,
    reads: Mutex<Reads>,
}

#[derive(Default)]
struct Reads {
    ranges: HashMap<(ByteOffset, usize), Kept>,
    bytes: usize,
}

enum Kept {
    Bytes(Box<[u8]>),
    Failed(ByteOffset, i32),
}

impl Remembered {
    /// Keeps what is read from `medium` from now on.
    pub fn new(medium: Box<dyn Medium>) -> Self {
        Self { medium, reads: Mutex::default() }
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Medium for Remembered {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let range = (at, buf.len());
        match self.reads().ranges.get(&range) {
            Some(Kept::Bytes(bytes)) => {
                buf.copy_from_slice(bytes);
                return Ok(());
            }
            Some(Kept::Failed(at, errno)) => {
                return Err(ReadError::Io { at: *at, source: Error::from_raw_os_error(*errno) });
            }
            None => {}
        }
        let read = self.medium.read_at(at, buf);
        let mut reads = self.reads();
        if buf.len() > MAX_RANGE || reads.bytes + buf.len() > MAX_BYTES {
            return read;
        }
        let kept = match &read {
            Ok(()) => Some(Kept::Bytes((&*buf).into())),
            Err(ReadError::Io { at, source }) => source.raw_os_error().map(|errno| Kept::Failed(*at, errno)),
            Err(_) => None,
        };
        if let Some(kept) = kept {
            reads.bytes += buf.len();
            reads.ranges.insert(range, kept);
        }
        read
    }

    fn forget(&self) {
        *self.reads() = Reads::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counted(Arc<AtomicU32>);

    impl Medium for Counted {
        fn len(&self) -> ByteCount {
            ByteCount::new(1 << 30)
        }

        fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            buf.fill(u8::try_from(at.get() >> 20).unwrap());
            match at.get() {
                1 => Err(ReadError::Io { at, source: Error::from_raw_os_error(5) }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_range_is_read_once_and_so_is_one_that_fails() {
        let count = Arc::new(AtomicU32::new(0));
        let medium = Remembered::new(Box::new(Counted(Arc::clone(&count))));
        for _ in 0..3 {
            for (at, len) in [(0, 512), (0, 4096), (5 << 20, MAX_RANGE)] {
                let mut buf = vec![0xFF; len];
                medium.read_at(ByteOffset::new(at), &mut buf).unwrap();
                assert!(buf.iter().all(|byte| u64::from(*byte) == at >> 20));
            }
            let failed = medium.read_at(ByteOffset::new(1), &mut [0; 512]).unwrap_err();
            assert!(
                matches!(failed, ReadError::Io { at, source } if at.get() == 1 && source.raw_os_error() == Some(5))
            );
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
        medium.forget();
        medium.read_at(ByteOffset::ZERO, &mut [0; 512]).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let count = Arc::new(AtomicU32::new(0));
        let medium = Remembered::new(Box::new(Counted(Arc::clone(&count))));
        for _ in 0..2 {
            medium.read_at(ByteOffset::ZERO, &mut vec![0; MAX_RANGE + 1]).unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
        for at in 0..200 {
            medium.read_at(ByteOffset::new(at << 20), &mut vec![0; MAX_RANGE]).unwrap();
        }
        assert!(medium.reads().bytes <= MAX_BYTES);
    }
}
