//! Holes of a sparse image stay holes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::support;

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use straddle_repair::relocate::{Disk, Disks, Job, Move, Parts, Recovered, begin, journal_len, open};
use straddle_units::io::SplitMix64;
use straddle_units::{Boundary, ByteCount, ByteOffset, KIB, MIB, Span};
use support::FileDisk;

const SIZE: u64 = 256 * MIB;
/// The partition: data at its start, in the middle and at its end, holes between them.
const LEN: u64 = 64 * MIB;
const DATA: u64 = MIB;

fn span(start: u64, len: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(len)).unwrap()
}

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn islands(start: u64) -> [Span; 3] {
    [start, start + LEN / 2, start + LEN - DATA].map(|at| span(at, DATA))
}

fn read(file: &File, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(span.len().get()).unwrap()];
    file.read_exact_at(&mut bytes, span.start().get()).unwrap();
    bytes
}

fn job(from: u64, to: u64) -> Job {
    Job::new(Parts {
        size: ByteCount::new(SIZE),
        blocks: Boundary::multiples_of(ByteCount::new(4 * KIB)).unwrap(),
        window: ByteCount::new(4 * MIB),
        id: *b"a job with holes",
        moves: vec![Move { from: span(from, LEN), to: ByteOffset::new(to) }],
        payload: Vec::new(),
    })
    .unwrap()
}

#[test]
fn holes_stay_holes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, from, to) in
        [("far", MIB, 128 * MIB), ("by a sector", 63 * 512, 64 * 512), ("down", 8 * MIB, 6 * MIB)]
    {
        let path = folder.path().join(name);
        let image = file(&path);
        image.set_len(SIZE).unwrap();
        // What was at the destination is not left there.
        image.write_all_at(&vec![7; 4 << 20], to + 20 * MIB).unwrap();
        let mut disk = FileDisk::new(file(&path)).unwrap();
        if span(to, LEN).overlaps(span(from, LEN)) {
            disk.punch(span(to + 20 * MIB, 4 * MIB)).unwrap();
        }
        let mut random = SplitMix64::new(1);
        let data = islands(from).map(|island| {
            let mut bytes = vec![0; usize::try_from(DATA).unwrap()];
            random.fill(&mut bytes);
            image.write_all_at(&bytes, island.start().get()).unwrap();
            bytes
        });
        image.sync_all().unwrap();
        let source = image.metadata().unwrap().blocks() * 512;

        let job = job(from, to);
        let len = journal_len(&job).unwrap().get();
        let mut journal = FileDisk::new({
            let file = file(&folder.path().join(format!("{name}.journal")));
            file.set_len(len).unwrap();
            file
        })
        .unwrap();
        // Stopped once in the middle.
        let mut windows = 0;
        let unfinished = begin(Disks::two(&mut disk, &mut journal), span(0, len), job).unwrap();
        let ended = unfinished.resume(&mut |_| {
            windows += 1;
            if windows == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(ended, Ok(None)));
        let found = open(Disks::two(&mut disk, &mut journal), span(0, len)).unwrap();
        let Some(Recovered::Unfinished(unfinished)) = found else { panic!("{found:?}") };
        let ended = unfinished.resume(&mut |_| ControlFlow::Continue(()));
        assert!(matches!(ended, Ok(Some(_))));

        for (island, data) in islands(to).into_iter().zip(&data) {
            assert!(read(&image, island) == *data, "{name}: {island:?}");
        }
        let holes: u64 = disk.holes(span(to, LEN)).iter().map(|hole| hole.len().get()).sum();
        let now = image.metadata().unwrap().blocks() * 512;
        println!("{name}: {source} bytes allocated, then {now}; {holes} bytes of holes");
        // The islands, and some pages at their edges.
        assert!(LEN - holes <= 3 * DATA + 64 * KIB, "{name}: {holes} bytes of holes");
        assert!(now <= source + 3 * DATA + 64 * KIB, "{name}: {source} bytes, {now} now");
        assert!(read(&image, span(to + 20 * MIB, 4 * MIB)).iter().all(|byte| *byte == 0));
    }
}
