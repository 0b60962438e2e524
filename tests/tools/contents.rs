//! The contents of large files that are mostly holes, in memory without the holes, and tests of many cases at
//! once.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

const BLOCK: usize = 4096;

/// Every byte of a file, or of a part of it. Blocks of zeros are left out, and holes are not read: a read of a
/// sparse image costs what is in it. Equal values are equal bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    len: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Contents {
    #[track_caller]
    pub(crate) fn of(path: &Path) -> Self {
        let len = path.metadata().expect("the file is there").len();
        Self::part(path, 0, len)
    }

    /// The `len` bytes from `start` on, all of which have to be there.
    #[track_caller]
    pub(crate) fn part(path: &Path, start: u64, len: u64) -> Self {
        let file = File::open(path).expect("the file can be read");
        assert!(start + len <= file.metadata().expect("an open file").len(), "the file is too short");
        let mut blocks = BTreeMap::new();
        let unit = BLOCK as u64;
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < len {
            let data = match rustix::fs::seek(&file, SeekFrom::Data(start + at)) {
                // There is only a hole up to the end.
                Err(Errno::NXIO) => break,
                found => found.expect("the file can be searched"),
            };
            let hole = rustix::fs::seek(&file, SeekFrom::Hole(data)).expect("a hole behind the data");
            // Blocks count from `start`, so equal parts at different places are equal.
            at = at.max((data - start) / unit * unit);
            let end = (hole - start).div_ceil(unit).saturating_mul(unit).min(len);
            while at < end {
                let count = (end - at).min(buffer.len() as u64);
                let piece = &mut buffer[..usize::try_from(count).expect("the buffer's size")];
                file.read_exact_at(piece, start + at).expect("the file can be read");
                for (place, block) in (at..).step_by(BLOCK).zip(piece.chunks(BLOCK)) {
                    if block != &[0; BLOCK][..block.len()] {
                        blocks.insert(place, block.into());
                    }
                }
                at += count;
            }
        }
        Self { len, blocks }
    }

    /// Writes a new file with these bytes.
    #[track_caller]
    pub(crate) fn write(&self, path: &Path) {
        let file = File::create(path).expect("a file can be made");
        file.set_len(self.len).expect("a file can be made");
        for (at, block) in &self.blocks {
            file.write_all_at(block, *at).expect("the file can be written");
        }
    }
}

/// Calls `test` with each case, four at a time: tools wait for disks most of the time, sfdisk sleeps for a
/// quarter of a second and sgdisk for a second after each write.
pub(crate) fn at_once<T>(cases: impl IntoIterator<Item = T, IntoIter: Send>, test: impl Fn(T) + Sync) {
    let cases = Mutex::new(cases.into_iter());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = cases.lock().expect("no thread panics here").next();
                    let Some(case) = next else { break };
                    test(case);
                }
            });
        }
    });
}
