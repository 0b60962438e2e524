use straddle_units::{ByteCount, ByteOffset};

use super::*;

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

struct Case {
    folder: tempfile::TempDir,
    target: PathBuf,
    bytes: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("disk.img");
        let bytes: Vec<u8> =
            (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(&target, &bytes).unwrap();
        Self { folder, target, bytes }
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("state/journals")
    }

    fn written(&self) -> Journal {
        let opened = Opened::open(&self.target, Access::Claim, Io::Buffered).unwrap();
        let areas = [
            (span(4096, 8192), &self.bytes[4096..12288]),
            (span(1 << 20, 1 << 20), &self.bytes[1 << 20..2 << 20]),
        ];
        Journal::write(&self.journals(), &opened, &areas).unwrap()
    }

    fn damage(&self, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.target).unwrap();
        file.write_all_at(b"damage", at).unwrap();
    }
}

#[test]
fn what_was_there_comes_back() {
    let case = Case::new();
    let journal = case.written();
    case.damage(5000);
    case.damage((2 << 20) - 6);
    let path = journal.path().to_owned();
    drop(journal);
    assert_eq!(pending(&case.journals()), std::slice::from_ref(&path));
    let Restored::Whole { target, bytes } = restore(&path).unwrap() else { panic!("incomplete") };
    assert_eq!(target, case.target.canonicalize().unwrap());
    assert!((10..=12).contains(&bytes), "{bytes}");
    assert!(fs::read(&case.target).unwrap() == case.bytes);
    assert!(pending(&case.journals()).is_empty());
}

#[test]
fn a_journal_cut_anywhere_writes_nothing() {
    let case = Case::new();
    let whole = fs::read(case.written().path()).unwrap();
    for length in (0..whole.len()).step_by(whole.len() / 64) {
        let path = case.journals().join("1-1.journal");
        fs::write(&path, &whole[..length]).unwrap();
        case.damage(5000);
        let damaged = fs::read(&case.target).unwrap();
        assert_eq!(restore(&path).unwrap(), Restored::Incomplete, "cut at {length}");
        assert!(fs::read(&case.target).unwrap() == damaged);
        assert!(!path.exists());
    }
}

#[test]
fn a_damaged_journal_is_not_used_and_stays() {
    let case = Case::new();
    let path = case.written().path().to_owned();
    let whole = fs::read(&path).unwrap();
    // Blanks behind the header's text mean nothing.
    let text = whole.iter().position(|byte| *byte == b'}').unwrap();
    for at in [10, text / 2, HEADER, HEADER + 8191, whole.len() - 9] {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        let before = fs::read(&case.target).unwrap();
        let error = restore(&path).unwrap_err();
        assert!(fs::read(&case.target).unwrap() == before, "{at}: {error}");
        assert!(path.exists(), "{at}");
    }
}

#[test]
fn a_running_measurement_keeps_its_journal() {
    let case = Case::new();
    let journal = case.written();
    assert_eq!(restore(journal.path()).unwrap(), Restored::Running);
    assert_eq!(target_of(journal.path()), case.target.canonicalize().ok());
    let path = journal.path().to_owned();
    journal.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn another_file_in_its_place_is_left_alone() {
    let case = Case::new();
    let path = case.written().path().to_owned();
    fs::rename(&case.target, case.folder.path().join("old")).unwrap();
    fs::write(&case.target, vec![7; 4 << 20]).unwrap();
    assert!(matches!(restore(&path), Err(JournalError::OtherTarget { .. })));
    assert!(fs::read(&case.target).unwrap().iter().all(|byte| *byte == 7));
    assert!(path.exists());
}
