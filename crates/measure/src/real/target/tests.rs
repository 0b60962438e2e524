//! Random requests to real files: only the previous contents are written, and only within the areas.
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bench::{Target, TargetError};
use proptest::prelude::*;
use straddle_units::io::{Operation, Request};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Real, Settings, Writes};
use crate::real::journal::{Journal, Pending};
use crate::real::open::{Access, Io, Opened};

const SIZE: u64 = 4 << 20;

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

fn real(path: &Path, io: Io, writes: Writes, depth: u32, stop: &Arc<AtomicBool>) -> Real {
    bare(path, io, depth, stop).with(writes)
}

fn bare(path: &Path, io: Io, depth: u32, stop: &Arc<AtomicBool>) -> Real {
    let opened = Opened::open(path, Access::Claim, io).unwrap();
    let settings = Settings { depth, largest: 65_536 };
    Real::new(opened, "a file".to_owned(), settings, Arc::clone(stop)).unwrap()
}

/// A target of which `areas` are in a journal beside it.
fn keeping(path: &Path, io: Io, areas: &[Span], depth: u32, stop: &Arc<AtomicBool>) -> (Real, Journal) {
    let real = bare(path, io, depth, stop);
    let mut pending = Pending::default();
    areas.iter().for_each(|area| real.read(*area, &mut pending).unwrap());
    let mut journal = Journal::make(&path.with_extension("journals"), &real.opened).unwrap();
    let kept = journal.add(pending).unwrap();
    (real.with(Writes::Kept(kept)), journal)
}

/// Prepares a span.
fn keep(real: &mut Real, journal: &mut Journal, span: Span) {
    let mut pending = Pending::default();
    real.read(span, &mut pending).unwrap();
    real.admit(journal.add(pending).unwrap()).unwrap();
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..SIZE)
        .map(|at| seed.wrapping_add((at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0]))
        .collect()
}

fn depths() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(2), Just(32)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_kept_file_is_the_same_afterwards(
        depth in depths(),
        direct in any::<bool>(),
        requests in prop::collection::vec((0_u64..SIZE / 512, 1_u64..128, 0_u8..4), 1..200),
    ) {
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let path = folder.path().join("disk.img");
        let bytes = pattern(3);
        fs::write(&path, &bytes).unwrap();
        let areas = vec![span(1 << 20, 1 << 20), span(5 << 19, 1 << 19)];
        let io = if direct { Io::Direct } else { Io::Buffered };
        let stop = Arc::new(AtomicBool::new(false));
        let (mut real, _) = keeping(&path, io, &areas, depth, &stop);
        let unit = real.logical_sector();
        let (mut slot, mut outstanding) = (0, 0);
        for (sector, sectors, kind) in requests {
            let (offset, length) = (sector * 512 / unit * unit, (sectors * 512).next_multiple_of(unit));
            let operation = match kind { 0 => Operation::Read, 1 => Operation::WriteFua, 2 => Operation::Flush, _ => Operation::Write };
            let request = match operation {
                Operation::Flush => Request::flush(slot),
                _ => Request::new(slot, operation, ByteOffset::new(offset), ByteCount::new(length)),
            };
            let touched = Span::new(request.offset, request.length).unwrap();
            let allowed = match operation {
                Operation::Flush => true,
                Operation::Read => offset + length <= SIZE,
                _ => areas.iter().any(|area| area.contains(touched)),
            };
            if operation == Operation::Read && !allowed { continue; }
            let sent = real.submit(request);
            prop_assert_eq!(sent.is_ok(), allowed, "{:?}: {:?}", request, sent);
            if sent.is_ok() {
                outstanding += 1;
                slot += 1;
            }
            if outstanding == u64::from(depth) || slot == u64::from(depth) {
                for _ in 0..outstanding { real.wait().unwrap(); }
                (outstanding, slot) = (0, 0);
            }
        }
        for _ in 0..outstanding { real.wait().unwrap(); }
        prop_assert!(matches!(real.wait(), Err(TargetError::Idle)));
        prop_assert_eq!(real.changed().unwrap(), []);
        drop(real);
        prop_assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn what_somebody_else_wrote_is_found_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, pattern(1)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut real, _) = keeping(&path, Io::Buffered, &[span(0, SIZE)], 1, &stop);
    let mut theirs = pattern(1);
    theirs[1_000_000..1_000_100].fill(0xEE);
    theirs[2_000_000] ^= 1;
    fs::write(&path, &theirs).unwrap();
    assert_eq!(real.changed().unwrap(), [span(999_936, 512), span(1_999_872, 512)]);
    assert!(fs::read(&path).unwrap() == theirs);
}

#[test]
fn a_file_that_is_cut_short_is_not_grown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    for (depth, operation) in [(1, Operation::Write), (4, Operation::Write), (1, Operation::WriteFua)] {
        fs::write(&path, pattern(1)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut real, _) = keeping(&path, Io::Buffered, &[span(0, SIZE)], depth, &stop);
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
        for at in [SIZE - 4096, 4096, 65_536] {
            let error = real
                .submit(Request::new(0, operation, ByteOffset::new(at), ByteCount::new(4096)))
                .unwrap_err();
            let TargetError::Failed { source, .. } = error else { panic!("{error}") };
            assert!(source.to_string().contains("truncated"), "{source}");
        }
        assert_eq!(real.changed().unwrap(), [span(8192, SIZE - 8192)]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 8192);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_was_prepared_first_is_what_is_written(
        spans in prop::collection::vec((0_u64..SIZE / 512, 1_u64..400), 1..12),
        spoilt in prop::collection::vec(0_usize..12, 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let bytes = pattern(5);
        fs::write(&path, &bytes).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut real, mut journal) = keeping(&path, Io::Buffered, &[], 1, &stop);
        prop_assert!(real.submit(Request::new(0, Operation::Write, ByteOffset::ZERO, ByteCount::new(512))).is_err());
        let spans: Vec<Span> = spans
            .into_iter()
            .map(|(sector, count)| span(sector * 512, (count * 512).min(SIZE - sector * 512)))
            .collect();
        for (index, prepared) in spans.iter().enumerate() {
            keep(&mut real, &mut journal, *prepared);
            if spoilt.contains(&index) {
                // Another process writes here. The contents that were read first count.
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &[0xEE; 512], prepared.start().get()).unwrap();
            }
        }
        for prepared in &spans {
            real.submit(Request::new(0, Operation::Write, prepared.start(), prepared.len())).unwrap();
            real.wait().unwrap();
        }
        prop_assert_eq!(real.changed().unwrap(), []);
        drop(real);
        prop_assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn a_write_over_areas_that_touch_has_the_bytes_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, pattern(7)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut real, mut journal) = keeping(&path, Io::Buffered, &[], 1, &stop);
    for start in [8192, 4096, 12288, 20480] {
        keep(&mut real, &mut journal, span(start, 4096));
        keep(&mut real, &mut journal, span(start, 512));
    }
    // The file differs from what was kept, so that a wrong byte shows.
    fs::write(&path, vec![0; usize::try_from(SIZE).unwrap()]).unwrap();
    real.submit(Request::new(0, Operation::Write, ByteOffset::new(4608), ByteCount::new(11_264))).unwrap();
    real.wait().unwrap();
    assert!(
        real.submit(Request::new(0, Operation::Write, ByteOffset::new(12_288), ByteCount::new(8192)))
            .is_err(),
        "a gap"
    );
    assert!(
        real.submit(Request::new(0, Operation::Write, ByteOffset::new(3584), ByteCount::new(4096))).is_err(),
        "before the first"
    );
    let (now, then) = (fs::read(&path).unwrap(), pattern(7));
    assert!(now[4608..15_872] == then[4608..15_872]);
    assert!(now[..4608].iter().chain(&now[15_872..]).all(|byte| *byte == 0));
}

#[test]
fn random_contents_stay_in_their_area() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; usize::try_from(SIZE).unwrap()]).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut real = real(&path, Io::Buffered, Writes::Random(vec![span(1 << 20, 1 << 20)], 9), 4, &stop);
    real.submit(Request::new(0, Operation::Write, ByteOffset::new(1 << 20), ByteCount::new(4096))).unwrap();
    assert!(
        real.submit(Request::new(
            1,
            Operation::Write,
            ByteOffset::new((1 << 20) - 512),
            ByteCount::new(4096)
        ))
        .is_err()
    );
    assert!(
        real.submit(Request::new(
            1,
            Operation::Write,
            ByteOffset::new((2 << 20) - 512),
            ByteCount::new(4096)
        ))
        .is_err()
    );
    real.wait().unwrap();
    drop(real);
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[1 << 20..(1 << 20) + 4096].iter().any(|byte| *byte != 0));
    assert!(bytes[..1 << 20].iter().chain(&bytes[(1 << 20) + 4096..]).all(|byte| *byte == 0));
}

/// The check of each write does not depend on the areas.
#[test]
fn no_write_grows_the_file_whatever_its_areas_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    for depth in [1, 4] {
        fs::write(&path, pattern(5)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let areas = vec![span(SIZE - 4096, 8192), span(512 << 20, 1 << 20)];
        let mut real = real(&path, Io::Buffered, Writes::Random(areas, 9), depth, &stop);
        for offset in [512 << 20, SIZE, SIZE - 512] {
            let error = real
                .submit(Request::new(0, Operation::Write, ByteOffset::new(offset), ByteCount::new(4096)))
                .unwrap_err();
            assert!(error.to_string().contains(&offset.to_string()), "{error}");
        }
        assert_eq!((real.sent, fs::metadata(&path).unwrap().len()), (0, SIZE));
        real.submit(Request::new(0, Operation::Write, ByteOffset::new(SIZE - 4096), ByteCount::new(4096)))
            .unwrap();
        real.wait().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), SIZE);
    }
}

#[test]
fn nothing_is_sent_when_it_is_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, pattern(1)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut real = real(&path, Io::Buffered, Writes::Nothing, 8, &stop);
    real.submit(Request::new(0, Operation::Read, ByteOffset::ZERO, ByteCount::new(4096))).unwrap();
    stop.store(true, Ordering::Relaxed);
    assert!(matches!(
        real.submit(Request::new(1, Operation::Read, ByteOffset::ZERO, ByteCount::new(4096))),
        Err(TargetError::Interrupted)
    ));
    assert_eq!(real.sent, 1);
}

#[test]
fn a_file_in_use_and_what_is_no_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, pattern(1)).unwrap();
    let first = Opened::open(&path, Access::Claim, Io::Buffered).unwrap();
    let error = Opened::open(&path, Access::Claim, Io::Buffered).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(first);
    assert!(Opened::open(&path, Access::Claim, Io::Buffered).is_ok());
    assert!(Opened::open(folder.path(), Access::Read, Io::Buffered).is_err());
    assert!(Opened::open(Path::new("/dev/null"), Access::Read, Io::Buffered).is_err());
}

/// An error names the chunk that could not be read, not the rest of the area.
#[test]
fn a_read_that_fails_is_told_by_its_own_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, pattern(1)).unwrap();
    let opened = Opened::open(&path, Access::Read, Io::Buffered).unwrap();
    let error = super::read_area(&opened, span(1 << 20, 6 << 20)).err().unwrap();
    let super::RealError::Read { offset, length, .. } = error else { panic!("{error}") };
    assert_eq!((offset, length), (SIZE, 1 << 20));
}
