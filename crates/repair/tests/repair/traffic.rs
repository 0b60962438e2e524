//! What a job says that it reads and writes is what it reads and writes; a check reads little.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::io;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::{Arc, Mutex};

use skip::present;
use straddle_audit::examine::{Examiner, Options};
use straddle_device::{Medium, ReadError};
use straddle_repair::relocate::{Disk, Disks, Job, Move, Parts, begin, journal_len};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

/// A disk in memory that counts.
struct Counting {
    bytes: Vec<u8>,
    read: u64,
    written: u64,
}

impl Counting {
    fn new(len: u64) -> Self {
        // Nothing is a hole.
        Self { bytes: vec![1; usize::try_from(len).unwrap()], read: 0, written: 0 }
    }

    fn at(&mut self, at: ByteOffset, len: usize) -> &mut [u8] {
        &mut self.bytes[usize::try_from(at.get()).unwrap()..][..len]
    }
}

impl Disk for Counting {
    fn size(&self) -> ByteCount {
        ByteCount::new(self.bytes.len() as u64)
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        self.read += bytes.len() as u64;
        bytes.copy_from_slice(self.at(at, bytes.len()));
        Ok(())
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.at(at, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check(moves: &[(u64, u64, u64)]) {
    let (size, window) = (4 << 20, 64 << 10);
    let one = |(start, len, to): &(u64, u64, u64)| Move {
        from: Span::new(ByteOffset::new(start * 512), ByteCount::new(len * 512)).unwrap(),
        to: ByteOffset::new(to * 512),
    };
    let job = Job::new(Parts {
        size: ByteCount::new(size),
        blocks: Boundary::multiples_of(ByteCount::new(4096)).unwrap(),
        window: ByteCount::new(window),
        id: [1; 16],
        moves: moves.iter().map(one).collect(),
        payload: Vec::new(),
    })
    .unwrap();
    let traffic = job.traffic();
    let (copied, windows) = job.windows();
    let (mut data, mut journal) = (Counting::new(size), Counting::new(journal_len(&job).unwrap().get()));
    let place = Span::first(journal.size());
    let unfinished = begin(Disks::two(&mut data, &mut journal), place, job).unwrap();
    drop(unfinished);
    let before = journal.written;
    data.read = 0;
    let found = straddle_repair::relocate::open(Disks::two(&mut data, &mut journal), place).unwrap().unwrap();
    let straddle_repair::relocate::Recovered::Unfinished(unfinished) = found else { panic!() };
    let ended = unfinished.resume(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(ended.is_some());
    drop(ended);
    let what = format!("{moves:?}, {copied} of {windows} windows copied");
    assert_eq!(data.read, traffic.read.get(), "read: {what}");
    assert_eq!(data.written, traffic.written.get(), "written: {what}");
    // The record of the end, and its copy.
    assert_eq!(journal.written - before, traffic.journal.get() + 2 * 4096, "journal: {what}");
}

#[test]
fn a_job_reads_and_writes_what_it_says() {
    // Short ones are copied to the journal, long ones are not; ends within physical sectors.
    let shapes: [&[(u64, u64, u64)]; 4] = [
        &[(63, 3000, 64)],
        &[(2049, 3000, 2048)],
        &[(63, 2000, 4096)],
        &[(2063, 1001, 4096), (63, 2000, 1024)],
    ];
    for moves in shapes {
        check(moves);
    }
}

/// A medium, and what was read from it.
struct Noting(Box<dyn Medium>, Arc<Mutex<Vec<(ByteOffset, usize)>>>);

impl Medium for Noting {
    fn len(&self) -> ByteCount {
        self.0.len()
    }

    fn read_at(&self, at: ByteOffset, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.1.lock().unwrap().push((at, bytes.len()));
        self.0.read_at(at, bytes)
    }
}

#[test]
fn a_check_reads_few_ranges_and_each_once() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = "truncate -s 1G disk.img && mkfs.ext4 -q -E offset=1048576 disk.img 290000k &&
        printf 'label: gpt\nstart=2048, size=600000\nstart=604160\n' | sfdisk -q disk.img";
    let made = Command::new("sh").args(["-c", make]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let mut target = straddle_device::open(&folder.path().join("disk.img"), &Default::default()).unwrap();
    let reads = Arc::default();
    target.medium =
        target.medium.map(|medium| Box::new(Noting(medium, Arc::clone(&reads))) as Box<dyn Medium>);
    let options = Options { moves: Some(straddle_repair::moves::of), ..Options::default() };
    let examined = Examiner::new(options).examine_target("disk.img".to_owned(), target).unwrap();
    assert_eq!(examined.stack().partitions.len(), 2);
    let mut reads = std::mem::take(&mut *reads.lock().unwrap());
    let count = reads.len();
    reads.sort_unstable();
    reads.dedup();
    assert!(reads.len() == count && count <= 80, "{count} reads of {} ranges", reads.len());
}
