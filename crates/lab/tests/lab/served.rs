//! A served drive: what the host reads back, and when.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_drive::Profile;
use straddle_lab::media::{Cut, MediaError, Payload, Served, Store, StoreError, Tear};
use straddle_units::io::{Operation, Refusal, Request, Time};
use straddle_units::{ByteCount, ByteOffset};

fn served(name: &str, cut: Option<Cut>) -> Served {
    let profile = Profile::open(name).unwrap();
    let store = Store::memory(profile.claims.capacity).unwrap();
    Served::new(&profile, store, cut)
}

/// Processes all events.
fn settle(served: &mut Served) -> usize {
    let mut done = Vec::new();
    while let Some(next) = served.next_event() {
        served.advance(next, &mut done).unwrap();
    }
    done.len()
}

fn contents(served: &Served, offset: u64) -> u8 {
    let mut sector = [0; 512];
    served.read(offset, &mut sector).unwrap();
    assert!(sector.iter().all(|byte| *byte == sector[0]));
    sector[0]
}

#[test]
fn what_is_written_is_read_before_it_completes() {
    let mut served = served("wd10ears", None);
    let mut done = Vec::new();
    let write = Request::new(1, Operation::Write, ByteOffset::new(63 * 512), ByteCount::new(4096));
    served.submit(Time::ZERO, write, Payload::Bytes(&[7; 4096]), &mut done).unwrap();
    assert_eq!((done.len(), served.outstanding()), (0, 1));
    assert_eq!((contents(&served, 63 * 512), contents(&served, 71 * 512)), (7, 0));
    assert_eq!(settle(&mut served), 1);
    assert!(served.counters().rmw_reads > 0);
    let zeroes = Request::new(2, Operation::Write, ByteOffset::new(64 * 512), ByteCount::new(1024));
    served.submit(served.now(), zeroes, Payload::Zeroes, &mut done).unwrap();
    assert_eq!((contents(&served, 63 * 512), contents(&served, 65 * 512)), (7, 0));
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut served = served("wd10ears", None);
    let mut submit = |request, payload| {
        let result = served.submit(Time::ZERO, request, payload, &mut Vec::new());
        assert_eq!((contents(&served, 0), served.outstanding()), (0, 0));
        result.unwrap_err()
    };
    let part = Request::new(1, Operation::Write, ByteOffset::ZERO, ByteCount::new(100));
    let refusal = submit(part, Payload::Bytes(&[1; 100]));
    assert!(matches!(refusal, MediaError::Refused(Refusal::NotWholeSectors { .. })));
    let short = Request::new(1, Operation::Write, ByteOffset::ZERO, ByteCount::new(1024));
    assert!(matches!(
        submit(short, Payload::Bytes(&[1; 512])),
        MediaError::Payload { brought: 512, wanted: 1024 }
    ));
    let read = Request::new(1, Operation::Read, ByteOffset::ZERO, ByteCount::new(512));
    assert!(matches!(submit(read, Payload::Bytes(&[1; 512])), MediaError::Payload { .. }));
}

#[test]
fn a_cut_loses_what_was_not_flushed_and_keeps_what_was() {
    let mut served = served("wd10ears", None);
    assert!(matches!(served.cut(0, Tear::Garbage), Err(MediaError::NotKept)));
    served.keep_for_cut();
    let mut done = Vec::new();
    let mut write = |served: &mut Served, byte: u8| {
        let request =
            Request::new(u64::from(byte), Operation::Write, ByteOffset::new(8192), ByteCount::new(4096));
        served.submit(served.now(), request, Payload::Bytes(&[byte; 4096]), &mut done).unwrap();
    };
    write(&mut served, 1);
    served.submit(served.now(), Request::flush(99), Payload::None, &mut Vec::new()).unwrap();
    settle(&mut served);
    write(&mut served, 2);
    assert_eq!(contents(&served, 8192), 2);
    served.cut(5, Tear::Nothing).unwrap();
    assert_eq!(contents(&served, 8192), 1);
    assert_eq!((served.outstanding(), served.next_event()), (0, None));
    let read = Request::new(3, Operation::Read, ByteOffset::ZERO, ByteCount::new(512));
    assert!(matches!(
        served.submit(served.now(), read, Payload::None, &mut Vec::new()),
        Err(MediaError::Off)
    ));
}

#[test]
fn a_planned_cut_comes_a_little_after_its_request_and_a_drive_with_protection_loses_nothing() {
    let cut = Cut { after: 2, seed: 11, tear: Tear::Garbage };
    for (name, left) in [("ssd-sata-4k,plp=off", 0), ("ssd-sata-4k", 3)] {
        let mut served = served(name, Some(cut));
        let mut done = Vec::new();
        for offset in [0, 1 << 20] {
            let write = Request::new(offset, Operation::Write, ByteOffset::new(offset), ByteCount::new(512));
            served.submit(Time::ZERO, write, Payload::Bytes(&[3; 512]), &mut done).unwrap();
        }
        assert!(!served.is_cut());
        settle(&mut served);
        assert!(served.is_cut() && served.now() < Time::from_nanos(4_000_000));
        assert_eq!(contents(&served, 0), left, "{name}");
    }
}

#[test]
fn a_discard_reads_as_zeroes_in_whole_units_and_no_cut_brings_it_back() {
    let mut served = served("ssd-sata-4k", None);
    served.keep_for_cut();
    let mut done = Vec::new();
    let write = Request::new(1, Operation::Write, ByteOffset::ZERO, ByteCount::new(16384));
    served.submit(Time::ZERO, write, Payload::Bytes(&[9; 16384]), &mut done).unwrap();
    served.submit(Time::ZERO, Request::flush(2), Payload::None, &mut done).unwrap();
    settle(&mut served);
    let discard = Request::new(3, Operation::Discard, ByteOffset::new(512), ByteCount::new(16384 - 512));
    served.submit(served.now(), discard, Payload::None, &mut done).unwrap();
    assert_eq!([0, 3584, 4096, 12288].map(|offset| contents(&served, offset)), [9, 9, 0, 0]);
    served.cut(1, Tear::Garbage).unwrap();
    assert_eq!([0, 3584, 4096, 12288].map(|offset| contents(&served, offset)), [9, 9, 0, 0]);
}

#[test]
fn a_store_is_kept_and_locked_and_fits_one_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut store = Store::file(&path, 1 << 30).unwrap();
    store.write(4096, b"kept").unwrap();
    assert!(matches!(Store::file(&path, 1 << 30), Err(StoreError::InUse { .. })));
    store.sync().unwrap();
    drop(store);
    assert!(matches!(Store::file(&path, 1 << 20), Err(StoreError::OtherSize { found: 0x4000_0000, .. })));
    let mut store = Store::file(&path, 1 << 30).unwrap();
    let mut back = [0; 4];
    store.read(4096, &mut back).unwrap();
    assert_eq!(&back, b"kept");
    store.zero(4096, 2).unwrap();
    store.read(4096, &mut back).unwrap();
    assert_eq!(&back, b"\0\0pt");
    assert!(store.write((1 << 30) - 1, b"xx").is_err() && store.zero(u64::MAX, 2).is_err());
    assert!(matches!(Store::file(dir.path(), 1 << 20), Err(StoreError::Unusable { .. })));
}
