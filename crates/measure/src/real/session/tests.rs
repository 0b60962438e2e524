use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::real::area::Areas;
use crate::real::claimed::Scope;
use crate::real::journal::{LaterWrites, Restored, left, restore, unrestored};
use crate::real::open::Io;

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

struct Case {
    folder: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
    stop: Arc<AtomicBool>,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let bytes: Vec<u8> =
            (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        Self { folder, path, bytes, stop: Arc::default() }
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("journals")
    }

    fn begin(&self, areas: &[Span]) -> Result<Session, SessionError> {
        let claimed = Claimed::open(&self.path, Scope::Whole, Io::Buffered).unwrap();
        let surveyed = claimed.survey(Areas { regions: 0, bytes: u64::MAX }).unwrap();
        let settings = Settings { depth: 1, largest: 65_536 };
        let (title, stop) = ("a file".into(), Arc::clone(&self.stop));
        let mut session =
            Session::begin(surveyed, title, Saved::AsPrepared, &self.journals(), settings, stop)?;
        session.prepare(areas).unwrap();
        Ok(session)
    }

    fn write(session: &mut Session, at: u64, length: u64) -> Result<(), TargetError> {
        session.submit(Request::new(0, Operation::Write, ByteOffset::new(at), ByteCount::new(length)))?;
        session.wait().map(drop)
    }

    fn read(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }
}

#[test]
fn nothing_is_written_that_no_journal_has() {
    let case = Case::new();
    let mut session = case.begin(&[]).unwrap();
    assert!(Case::write(&mut session, 0, 512).is_err());
    for (number, at) in [(1, 4096), (2, 1 << 20)] {
        session.prepare(&[span(at, 8192), span(at + 1024, 512)]).unwrap();
        // Already prepared.
        session.prepare(&[span(at, 512)]).unwrap();
        assert_eq!(left(&case.journals()).unwrap()[0].paths().len(), number);
        Case::write(&mut session, at + 512, 4096).unwrap();
        assert!(Case::write(&mut session, at + 4096, 8192).is_err());
    }
    let (_, verdict) = session.end().unwrap();
    assert_eq!(verdict.refusal(), None);
    assert!(case.read() == case.bytes && left(&case.journals()).unwrap().is_empty());
}

#[test]
fn only_what_was_surveyed_is_prepared() {
    let case = Case::new();
    let claimed = Claimed::open(&case.path, Scope::Whole, Io::Buffered).unwrap();
    let surveyed = claimed.survey(Areas { regions: 1, bytes: 2 << 20 }).unwrap();
    assert_eq!(surveyed.areas(), [span(0, 2 << 20)]);
    let (settings, stop) = (Settings { depth: 1, largest: 65_536 }, Arc::clone(&case.stop));
    let mut session =
        Session::begin(surveyed, "".into(), Saved::AsPrepared, &case.journals(), settings, stop).unwrap();
    assert!(session.prepare(&[span(0, 4096), span((2 << 20) - 512, 1024)]).is_err());
    // The first of these two was read, and no journal holds it.
    assert!(Case::write(&mut session, 0, 4096).is_err());
    assert!(session.prepare(&[span(3 << 20, 4096)]).is_err());
    assert!(Case::write(&mut session, 3 << 20, 4096).is_err());
    assert!(left(&case.journals()).unwrap().is_empty());
    session.prepare(&[span(0, 4096)]).unwrap();
    assert_eq!(left(&case.journals()).unwrap()[0].paths().len(), 1);
    Case::write(&mut session, 0, 4096).unwrap();
    session.end().unwrap();
    assert!(case.read() == case.bytes);
}

#[test]
fn nothing_is_written_after_its_journal_has_failed() {
    let case = Case::new();
    let mut session = case.begin(&[]).unwrap();
    fs::remove_dir(case.journals()).unwrap();
    for _ in 0..2 {
        assert!(session.prepare(&[span(0, 4096)]).is_err());
        assert!(Case::write(&mut session, 0, 4096).is_err());
    }
    // Again the journal could be written; that it has all files is no longer certain.
    fs::create_dir(case.journals()).unwrap();
    assert!(session.prepare(&[span(0, 4096)]).is_err());
    assert!(Case::write(&mut session, 0, 4096).is_err());
}

/// The second of the files that are added fails: the first one holds 64 areas twice if they are added again.
#[test]
fn nothing_is_written_of_what_a_journal_holds_in_part() {
    let case = Case::new();
    let mut session = case.begin(&[span(0, 4096)]).unwrap();
    let first = left(&case.journals()).unwrap()[0].paths()[0].clone();
    fs::write(first.with_extension("3.new"), "of another program").unwrap();
    let spans: Vec<Span> = (0..100).map(|at| span((1 << 20) + at * 8192, 4096)).collect();
    for _ in 0..2 {
        assert!(session.prepare(&spans).is_err());
        for span in &spans {
            assert!(Case::write(&mut session, span.start().get(), 4096).is_err(), "{span:?}");
        }
    }
    // What it held before can still be written.
    Case::write(&mut session, 0, 4096).unwrap();
    drop(session);
    let journals = left(&case.journals()).unwrap();
    assert_eq!(journals[0].paths().len(), 2);
    assert!(matches!(restore(&journals[0], LaterWrites::Keep).restored, Restored::Whole { bytes: 0, .. }));
    assert!(case.read() == case.bytes);
}

#[test]
fn no_session_begins_over_a_journal_that_is_not_restored() {
    let case = Case::new();
    drop(case.begin(&[span(0, 1 << 20)]).unwrap());
    let error = case.begin(&[span(2 << 20, 4096)]).map(drop).unwrap_err();
    assert!(matches!(error, SessionError::Unrestored { .. }), "{error}");
    assert_eq!(left(&case.journals()).unwrap().len(), 1);
}

#[test]
fn a_session_that_ends_anywhere_is_restored() {
    let case = Case::new();
    let mut session = case.begin(&[span(0, 1 << 20)]).unwrap();
    session.prepare(&[span(3 << 20, 4096)]).unwrap();
    Case::write(&mut session, 3 << 20, 4096).unwrap();
    // The state after a kill.
    drop(session);
    assert!(unrestored(&case.path, &case.journals()).unwrap().is_some());
    for journal in left(&case.journals()).unwrap() {
        assert!(matches!(restore(&journal, LaterWrites::Keep).restored, Restored::Whole { bytes: 0, .. }));
    }
    assert!(case.read() == case.bytes && unrestored(&case.path, &case.journals()).unwrap().is_none());
}

#[test]
fn nothing_of_others_is_lost_where_they_can_be_made_to_wait() {
    for operation in [Operation::Write, Operation::Read] {
        let case = Case::new();
        let mut session = case.begin(&[span(0, 4 << 20)]).unwrap();
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| {
                let file = OpenOptions::new().write(true).open(&case.path).unwrap();
                file.write_all_at(&[0xEE; 65_536], 1 << 20).unwrap();
            });
            // Repeatedly overwrites what the other process is about to write.
            let error = loop {
                let request = Request::new(0, operation, ByteOffset::new(1 << 20), ByteCount::new(65_536));
                if let Err(error) = session.submit(request).and_then(|()| session.wait()) {
                    break error;
                }
            };
            assert!(matches!(error, TargetError::Interrupted), "{error}");
            let (_, verdict) = session.end().unwrap();
            let refusal = verdict.refusal().unwrap();
            assert!(
                refusal.contains("not let in before")
                    && refusal.contains("nothing that others wrote is lost"),
                "{refusal}"
            );
            theirs.join().unwrap();
        });
        assert!(case.read()[1 << 20..][..65_536].iter().all(|byte| *byte == 0xEE));
        assert!(left(&case.journals()).unwrap().is_empty());
    }
}

#[test]
fn who_has_it_open_keeps_a_session_from_beginning() {
    let case = Case::new();
    let _reader = fs::File::open(&case.path).unwrap();
    let error = case.begin(&[span(0, 4 << 20)]).map(drop).unwrap_err();
    assert!(matches!(error, SessionError::InUse { .. }), "{error}");
    assert!(left(&case.journals()).unwrap().is_empty() && !case.stop.load(Ordering::Relaxed));
}

#[test]
fn verdicts_say_since_when_and_how_much() {
    let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let verdict = |disturbed, has_waited, changed: Vec<Span>| Verdict {
        path: "disk.img".into(),
        began: at(10),
        disturbed,
        has_waited,
        journal: (!changed.is_empty()).then(|| "1.journal".into()),
        changed,
        under_way: 8192,
    };
    let came = |seen| Some(Disturbance { since: at(20), noticed: at(21), seen });
    assert_eq!(verdict(None, false, vec![]).refusal(), None);
    let cases = [
        (
            verdict(came(Seen::Opened), true, vec![]),
            &["00:00:21 UTC", "nothing that others wrote is lost"][..],
        ),
        (
            verdict(came(Seen::Opened), false, vec![]),
            &["between", "00:00:20 UTC", "00:00:21 UTC", "at most 8192 bytes"],
        ),
        (
            verdict(came(Seen::Writer), false, vec![]),
            &["since 1970-01-01 00:00:20 UTC may have been overwritten"],
        ),
        (
            verdict(None, false, vec![span(512, 512)]),
            &["bytes 512 to 1023", "since 1970-01-01 00:00:10 UTC", "1.journal"],
        ),
        (
            verdict(came(Seen::Opened), false, vec![span(0, 512)]),
            // The process that wrote there may be another than the one that was noticed.
            &["bytes 0 to 511", "since 1970-01-01 00:00:10 UTC"],
        ),
    ];
    for (verdict, words) in cases {
        let refusal = verdict.refusal().unwrap();
        assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
    }
}

/// What a run has written into the holes of a file, zeroes, is taken back; contents beside them stay.
#[test]
fn a_sparse_file_stays_sparse() {
    use std::os::unix::fs::MetadataExt;
    let allocated = |case: &Case| fs::metadata(&case.path).unwrap().blocks() * 512;
    for data in [vec![], vec![(0, 4096)], vec![(1 << 20, 70_000), (3 << 20, 1 << 20)]] {
        let case = Case::new();
        let file = fs::File::create(&case.path).unwrap();
        file.set_len(4 << 20).unwrap();
        for (at, length) in &data {
            file.write_all_at(&vec![7; *length], *at).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        let (bytes, before) = (case.read(), allocated(&case));
        let mut session = case.begin(&[span(0, 3 << 19), span(1 << 21, 2 << 20)]).unwrap();
        for at in (0..3 << 19).step_by(65_536).chain((1 << 21..1 << 22).step_by(65_536)) {
            Case::write(&mut session, at, 65_536).unwrap();
        }
        session.submit(Request::flush(1)).unwrap();
        let during = allocated(&case);
        let (_, verdict) = session.end().unwrap();
        assert_eq!(verdict.refusal(), None);
        assert!(case.read() == bytes, "{data:?}");
        let after = allocated(&case);
        // The file system may keep some blocks of its own for the file.
        let kept = before + 65_536;
        assert!(during > kept && after <= kept, "{data:?}: {before}, then {during}, then {after}");
    }
}

/// Zeroes that are no hole may be what an owner has allocated, and stay.
#[test]
fn allocated_zeroes_stay_allocated() {
    use std::os::unix::fs::MetadataExt;
    let case = Case::new();
    fs::write(&case.path, vec![0; 4 << 20]).unwrap();
    let before = fs::metadata(&case.path).unwrap().blocks();
    let mut session = case.begin(&[span(0, 4 << 20)]).unwrap();
    Case::write(&mut session, 4096, 65_536).unwrap();
    session.end().unwrap();
    assert_eq!(fs::metadata(&case.path).unwrap().blocks(), before);
}
