//! A medium of which each byte is read once. A range that cannot be read is not tried again either, because a failing
//! disk takes seconds for each try, and no hole of a file is read.

use std::collections::{BTreeMap, HashMap};
use std::io::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use straddle_units::{ByteCount, ByteOffset};

use crate::{Medium, ReadError};

/// What searches for signatures read at once.
const MAX_RANGE: usize = 64 << 10;

const MAX_BYTES: usize = 4 << 20;

/// Without its bytes.
const ENTRY: usize = 64;

/// A medium that keeps what was read from it.
pub struct Remembered {
    medium: Box<dyn Medium>,
    reads: Mutex<Reads>,
}

#[derive(Default)]
struct Reads {
    /// By their starts. None is within another.
    ranges: BTreeMap<u64, Kept>,
    failed: HashMap<(ByteOffset, usize), (ByteOffset, i32)>,
    bytes: usize,
}

enum Kept {
    Zeros(u64),
    Bytes(Box<[u8]>),
}

impl Kept {
    fn of(bytes: &[u8]) -> Self {
        const NOTHING: [u8; 512] = [0; 512];
        match bytes.chunks(NOTHING.len()).all(|part| *part == NOTHING[..part.len()]) {
            true => Self::Zeros(bytes.len() as u64),
            false => Self::Bytes(bytes.into()),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Zeros(len) => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Zeros(_) => ENTRY,
            Self::Bytes(bytes) => ENTRY + bytes.len(),
        }
    }
}

impl Reads {
    fn at(&self, at: u64) -> Option<(&Kept, u64)> {
        let (start, kept) = self.ranges.range(..=at).next_back()?;
        Some((kept, at - start)).filter(|(kept, into)| *into < kept.len())
    }

    fn fill(&self, mut at: u64, mut buf: &mut [u8]) -> bool {
        while !buf.is_empty() {
            let Some((kept, into)) = self.at(at) else { return false };
            let have = usize::try_from(kept.len() - into).unwrap_or(usize::MAX).min(buf.len());
            let (part, rest) = buf.split_at_mut(have);
            match (kept, usize::try_from(into)) {
                (Kept::Bytes(bytes), Ok(into)) => part.copy_from_slice(&bytes[into..into + have]),
                _ => part.fill(0),
            }
            at += have as u64;
            buf = rest;
        }
        true
    }

    fn keep(&mut self, at: u64, kept: Kept) {
        let end = at + kept.len();
        let is_within = |(start, kept): &(&u64, &Kept)| **start + kept.len() <= end;
        while let Some((start, _)) = self.ranges.range(at..end).find(is_within) {
            let start = *start;
            self.bytes -= self.ranges.remove(&start).map_or(0, |kept| kept.memory());
        }
        self.bytes += kept.memory();
        self.ranges.insert(at, kept);
    }
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
        let reads = self.reads();
        if let Some((at, errno)) = reads.failed.get(&range) {
            return Err(ReadError::Io { at: *at, source: Error::from_raw_os_error(*errno) });
        }
        if reads.fill(at.get(), buf) {
            return Ok(());
        }
        drop(reads);
        if self.is_hole(at, ByteCount::new(buf.len() as u64)) {
            buf.fill(0);
            return Ok(());
        }
        let read = self.medium.read_at(at, buf);
        let mut reads = self.reads();
        match &read {
            Ok(()) if buf.len() <= MAX_RANGE && reads.bytes + buf.len() <= MAX_BYTES => {
                reads.keep(at.get(), Kept::of(buf));
            }
            Err(ReadError::Io { at, source }) => {
                reads.failed.extend(source.raw_os_error().map(|errno| (range, (*at, errno))));
            }
            _ => {}
        }
        read
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        let mut reads = self.reads();
        match reads.at(at.get()) {
            Some((Kept::Zeros(len), into)) => return ByteCount::new(len - into),
            Some(_) => return ByteCount::ZERO,
            None => {}
        }
        let zeros = self.medium.zeros_from(at);
        if zeros > ByteCount::ZERO && reads.bytes + ENTRY <= MAX_BYTES {
            reads.keep(at.get(), Kept::Zeros(zeros.get()));
        }
        zeros
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

    /// A byte that cannot be read.
    const BAD: u64 = (4 << 20) + 1;

    struct Counted(Arc<AtomicU32>);

    impl Medium for Counted {
        fn len(&self) -> ByteCount {
            ByteCount::new(1 << 30)
        }

        fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            buf.fill(u8::try_from(at.get() >> 20).unwrap());
            match at.get() {
                BAD => Err(ReadError::Io { at, source: Error::from_raw_os_error(5) }),
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
            let failed = medium.read_at(ByteOffset::new(BAD), &mut [0; 512]).unwrap_err();
            assert!(
                matches!(failed, ReadError::Io { at, source } if at.get() == BAD && source.raw_os_error() == Some(5))
            );
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
        medium.forget();
        medium.read_at(ByteOffset::ZERO, &mut [0; 512]).unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_part_of_what_was_read_is_not_read_again() {
        let count = Arc::new(AtomicU32::new(0));
        let medium = Remembered::new(Box::new(Counted(Arc::clone(&count))));
        let read = |at: u64, len: usize| {
            let mut buf = vec![0xFF; len];
            medium.read_at(ByteOffset::new(at), &mut buf).unwrap();
            assert!(buf.iter().all(|byte| *byte == 3), "{at}, {len}");
            count.load(Ordering::Relaxed)
        };
        const AT: u64 = 3 << 20;
        assert_eq!([read(AT, 512), read(AT + 512, 1024), read(AT + 8, 1000), read(AT, 1536)], [1, 2, 2, 2]);
        assert_eq!([read(AT, 1537), read(AT, 1537), read(AT + 1000, 537)], [3, 3, 3]);
    }

    /// Ones behind a hole of 1 MiB.
    struct Sparse(Arc<AtomicU32>);

    impl Medium for Sparse {
        fn len(&self) -> ByteCount {
            ByteCount::new(2 << 20)
        }

        fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            for (byte, at) in buf.iter_mut().zip(at.get()..) {
                *byte = u8::from(at >= 1 << 20);
            }
            Ok(())
        }

        fn zeros_from(&self, at: ByteOffset) -> ByteCount {
            ByteOffset::new(1 << 20).since(at)
        }
    }

    #[test]
    fn a_hole_is_not_read() {
        let count = Arc::new(AtomicU32::new(0));
        let medium = Remembered::new(Box::new(Sparse(Arc::clone(&count))));
        for (at, len, reads) in
            [(4096, 512, 0), (0, 8192, 0), ((1 << 20) - 512, 512, 0), ((1 << 20) - 512, 1024, 1)]
        {
            let mut buf = vec![0xFF; len];
            medium.read_at(ByteOffset::new(at), &mut buf).unwrap();
            assert!(buf.iter().zip(at..).all(|(byte, at)| *byte == u8::from(at >= 1 << 20)), "{at}, {len}");
            assert_eq!(count.load(Ordering::Relaxed), reads, "{at}, {len}");
        }
        let is_hole = |at, len| medium.is_hole(ByteOffset::new(at), ByteCount::new(len));
        assert!(is_hole(0, 1 << 20) && is_hole(4096, 512));
        assert!(!is_hole(0, (1 << 20) + 1) && !is_hole(1 << 20, 1));
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
