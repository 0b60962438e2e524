use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::real::journal::{LaterWrites, Restored, left, restore, unrestored};
use crate::real::open::Io;
use crate::real::prepared::{Contents, Intent, Prepared, Scope};
use crate::real::target::Settings;

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

struct Case {
    folder: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let bytes: Vec<u8> =
            (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        Self { folder, path, bytes }
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("journals")
    }

    fn open(&self, regions: u32, bytes: u64) -> Result<Prepared, SessionError> {
        let intent = Intent {
            path: &self.path,
            contents: Contents::Preserved(Scope::Whole, Saved::AsPrepared),
            io: Io::Buffered,
            regions: Some(regions),
            bytes,
            seed: 1,
            settings: Settings { depth: 1, largest: 65_536 },
            journals: self.journals(),
        };
        Prepared::open(&intent, &Arc::default())
    }

    fn begin(&self, areas: &[Span]) -> Result<Prepared, SessionError> {
        let mut prepared = self.open(0, u64::MAX)?;
        prepared.surface().prepare(areas).unwrap();
        Ok(prepared)
    }

    fn write(prepared: &mut Prepared, at: u64, length: u64) -> Result<(), TargetError> {
        let request = Request::new(0, Operation::Write, ByteOffset::new(at), ByteCount::new(length));
        prepared.surface().submit(request)?;
        prepared.surface().wait().map(drop)
    }

    /// Ends it, and requires that nobody came and nothing is left.
    fn ends_well(&self, prepared: Prepared) {
        let (_, verdict) = prepared.end().unwrap();
        assert_eq!(verdict.unwrap().refusal(), None);
        assert!(self.read() == self.bytes && left(&self.journals()).unwrap().is_empty());
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
    for at in [4096, 1 << 20] {
        session.surface().prepare(&[span(at, 8192), span(at + 1024, 512)]).unwrap();
        // Already prepared.
        session.surface().prepare(&[span(at, 512)]).unwrap();
        assert!(unrestored(&case.path, &case.journals()).unwrap().unwrap().is_running);
        Case::write(&mut session, at + 512, 4096).unwrap();
        assert!(Case::write(&mut session, at + 4096, 8192).is_err());
    }
    case.ends_well(session);
}

#[test]
fn only_what_was_surveyed_is_prepared() {
    let case = Case::new();
    let mut session = case.open(1, 2 << 20).unwrap();
    assert_eq!(session.regions(), [span(0, 2 << 20)]);
    assert!(session.surface().prepare(&[span(0, 4096), span((2 << 20) - 512, 1024)]).is_err());
    // The first of these two was read, and no journal holds it.
    assert!(Case::write(&mut session, 0, 4096).is_err());
    assert!(session.surface().prepare(&[span(3 << 20, 4096)]).is_err());
    assert!(Case::write(&mut session, 3 << 20, 4096).is_err());
    assert!(unrestored(&case.path, &case.journals()).unwrap().is_none());
    session.surface().prepare(&[span(0, 4096)]).unwrap();
    Case::write(&mut session, 0, 4096).unwrap();
    case.ends_well(session);
}

#[test]
fn a_session_that_ends_anywhere_is_restored_before_the_next() {
    let case = Case::new();
    let mut session = case.begin(&[span(0, 1 << 20)]).unwrap();
    session.surface().prepare(&[span(3 << 20, 4096)]).unwrap();
    Case::write(&mut session, 3 << 20, 4096).unwrap();
    // The state after a kill.
    drop(session);
    let error = case.begin(&[]).map(drop).unwrap_err();
    assert!(matches!(error, SessionError::Unrestored { is_running: false, .. }), "{error}");
    let journals = left(&case.journals()).unwrap();
    assert_eq!(journals.len(), 1);
    let restored = restore(&journals[0], LaterWrites::Keep).unwrap();
    assert!(matches!(restored, Restored::Whole { bytes: 0, .. }), "{restored:?}");
    case.ends_well(case.begin(&[]).unwrap());
}

#[test]
fn who_has_it_open_keeps_a_session_from_beginning() {
    let case = Case::new();
    let _reader = fs::File::open(&case.path).unwrap();
    let error = case.begin(&[span(0, 4 << 20)]).map(drop).unwrap_err();
    assert!(matches!(error, SessionError::Open(OpenError::InUse { .. })), "{error}");
    assert!(left(&case.journals()).unwrap().is_empty());
}

#[test]
fn verdicts_say_since_when_and_how_much() {
    let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let verdict = |disturbed, has_waited, changed: Vec<Span>| Verdict {
        path: "disk.img".into(),
        began: at(10),
        disturbed,
        has_waited,
        journal: "1.journal".into(),
        changed,
        under_way: 8192,
    };
    let came = |seen| Some(Disturbance { since: at(20), noticed: at(21), seen });
    assert_eq!(verdict(None, false, vec![]).refusal(), None);
    let cases = [
        (
            verdict(came(Seen::Opened), true, vec![]),
            &["00:00:21 UTC", "no data of other programs was lost"][..],
        ),
        (
            verdict(came(Seen::Opened), false, vec![]),
            &["between", "00:00:20 UTC", "00:00:21 UTC", "At most 8192 bytes"],
        ),
        (
            verdict(came(Seen::Writer), false, vec![]),
            &["1970-01-01 00:00:20 UTC", "may have been overwritten"],
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
        session.surface().submit(Request::flush(1)).unwrap();
        let during = allocated(&case);
        let (_, verdict) = session.end().unwrap();
        assert_eq!(verdict.unwrap().refusal(), None);
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
