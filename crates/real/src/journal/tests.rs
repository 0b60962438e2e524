use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::open::{Access, Io};

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
            (span(12288, 4096), &self.bytes[12288..16384]),
            (span(1 << 20, 1 << 20), &self.bytes[1 << 20..2 << 20]),
        ];
        let mut journal = Journal::new(&self.journals(), &opened).unwrap();
        journal.add(&opened, &areas).unwrap();
        journal
    }

    /// The path of a journal whose run has ended without a word.
    fn dead(&self) -> PathBuf {
        self.written().path().unwrap().to_owned()
    }

    fn change(&self, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.target).unwrap();
        file.write_all_at(b"theirs", at).unwrap();
    }

    fn read(&self) -> Vec<u8> {
        fs::read(&self.target).unwrap()
    }
}

#[test]
fn what_somebody_else_has_written_since_is_kept_until_it_may_go() {
    let case = Case::new();
    let path = case.dead();
    // In one area, over the border of two, at the end of the last, and outside of all.
    for at in [5000, 12285, (2 << 20) - 6, 20_000] {
        case.change(at);
    }
    let theirs = case.read();
    let Restored::Changed { spans, bytes: 0, .. } = restore(&path, false).unwrap() else {
        panic!("not shown")
    };
    assert_eq!(spans, [span(4608, 512), span(11776, 1024), span((2 << 20) - 512, 512)]);
    assert!(case.read() == theirs && path.exists());
    let restored = restore(&path, true).unwrap();
    let target = case.target.canonicalize().unwrap();
    assert_eq!(restored, Restored::Whole { target, bytes: 2048 });
    let mut wanted = case.bytes.clone();
    wanted[20_000..20_006].copy_from_slice(b"theirs");
    assert!(case.read() == wanted && pending(&case.journals()).is_empty());
}

#[test]
fn a_journal_goes_when_the_target_is_as_it_was() {
    let case = Case::new();
    let path = case.dead();
    assert_eq!(pending(&case.journals()), std::slice::from_ref(&path));
    let target = case.target.canonicalize().unwrap();
    assert_eq!(restore(&path, false).unwrap(), Restored::Whole { target, bytes: 0 });
    assert!(case.read() == case.bytes && pending(&case.journals()).is_empty());
}

#[test]
fn a_journal_that_is_damaged_anywhere_is_named_kept_and_not_used() {
    let case = Case::new();
    let whole = fs::read(case.dead()).unwrap();
    let text = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let mut damaged: Vec<Vec<u8>> =
        (0..whole.len()).step_by(whole.len() / 48).map(|end| whole[..end].to_vec()).collect();
    damaged.push(whole[..whole.len() - 1].to_vec());
    damaged.push([&whole[..], b"x"].concat());
    for at in [0, text / 2, text, text + 5, HEADER - 1, HEADER, HEADER + 8191, HEADER + 8192, whole.len() - 1]
    {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        damaged.push(bad);
    }
    for (index, bad) in damaged.iter().enumerate() {
        for changed in [false, true] {
            fs::write(&case.target, &case.bytes).unwrap();
            if changed {
                case.change(5000);
            }
            let before = case.read();
            let path = case.journals().join(format!("{index}-{changed}.journal"));
            fs::write(&path, bad).unwrap();
            let error = restore(&path, true).unwrap_err();
            assert!(case.read() == before, "{index}: {error}");
            let JournalError::Damaged { renamed, what, .. } = error else { panic!("{index}: {error}") };
            assert!(!path.exists() && fs::read(&renamed).unwrap() == *bad, "{index}");
            // Where the header is whole, the sums tell what became of the target.
            if bad.len() >= HEADER && bad[..HEADER] == whole[..HEADER] {
                assert_eq!(what.contains("does not hold what it held"), changed, "{index}: {what}");
            }
        }
    }
    assert!(pending(&case.journals()).iter().all(|path| path.extension().unwrap() != DAMAGED));
}

#[test]
fn what_never_was_a_journal_goes() {
    let case = Case::new();
    let whole = fs::read(case.dead()).unwrap();
    case.change(5000);
    let before = case.read();
    for length in [0, 1, HEADER, whole.len()] {
        let path = case.journals().join("1-1-1.new");
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(restore(&path, false).unwrap(), Restored::Incomplete);
        assert!(case.read() == before && !path.exists());
    }
}

#[test]
fn a_header_says_when_writing_began_and_of_what() {
    let case = Case::new();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let path = case.dead();
    let header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    assert!((before..=before + 600).contains(&header.began_unix_s));
    let metadata = fs::metadata(&case.target).unwrap();
    assert_eq!((header.identity, header.born), (FileId::of(&metadata), born(&metadata)));
    assert_eq!(header.target, case.target.canonicalize().unwrap());
    assert_eq!(left(&case.journals()).len(), 1);
}

/// A file is known again by its inode, whatever its name; another file that was given the inode later is not it.
#[test]
fn a_target_is_known_under_another_name_and_not_by_a_number_that_is_used_again() {
    let case = Case::new();
    let path = case.dead();
    let other = case.target.with_file_name("renamed");
    fs::rename(&case.target, &other).unwrap();
    assert_eq!(unrestored(&other, &case.journals()), Some(path.clone()));
    let mut header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    let Some(born) = header.born.as_mut() else { return };
    *born += Duration::from_nanos(1);
    let journal = OpenOptions::new().write(true).open(&path).unwrap();
    journal.write_all_at(&header.encode().unwrap(), 0).unwrap();
    assert_eq!(unrestored(&other, &case.journals()), None);
    fs::rename(&other, &case.target).unwrap();
    let refused = restore(&path, true).unwrap_err();
    assert!(
        matches!(&refused, JournalError::OtherTarget { what, .. } if what.contains("replaced")),
        "{refused}"
    );
}

#[test]
fn a_running_measurement_keeps_its_journal() {
    let case = Case::new();
    let journal = case.written();
    assert_eq!(restore(journal.path().unwrap(), true).unwrap(), Restored::Running);
    let path = journal.path().unwrap().to_owned();
    journal.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_journal_that_was_added_to_is_restored_by_file_and_not_while_it_is_in_use() {
    let case = Case::new();
    let opened = Opened::open(&case.target, Access::Claim, Io::Buffered).unwrap();
    let mut journal = Journal::new(&case.journals(), &opened).unwrap();
    let bytes = &case.bytes[..1 << 20];
    let areas: Vec<(Span, &[u8])> =
        bytes.chunks(4096).zip(0..).map(|(piece, at)| (span(at * 4096, 4096), piece)).collect();
    journal.add(&opened, &areas[..100]).unwrap();
    journal.add(&opened, &[]).unwrap();
    journal.add(&opened, &areas[100..]).unwrap();
    drop(opened);
    let files = pending(&case.journals());
    assert_eq!(files.len(), 2 + 3);
    for path in &files {
        assert_eq!(restore(path, true).unwrap(), Restored::Running, "{path:?}");
    }
    drop(journal);
    case.change(500_000);
    let mut changed = 0;
    for path in &files {
        match restore(path, false).unwrap() {
            Restored::Whole { bytes: 0, .. } => {}
            Restored::Changed { spans, bytes: 0, .. } => {
                assert_eq!(spans, [span(499_712, 512)]);
                changed += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((changed, pending(&case.journals()).len()), (1, 1));
    restore(&pending(&case.journals())[0], true).unwrap();
    assert!(case.read() == case.bytes && pending(&case.journals()).is_empty());
}

#[test]
fn another_target_in_its_place_is_left_alone() {
    let case = Case::new();
    let path = case.dead();
    // Cut short or grown, it is not made as long as it was.
    for length in [0, 6000, 3 << 20, (4 << 20) - 1, 5 << 20] {
        OpenOptions::new().write(true).open(&case.target).unwrap().set_len(length).unwrap();
        let error = restore(&path, true).unwrap_err();
        assert!(
            matches!(error, JournalError::OtherTarget { .. } | JournalError::Open { .. }),
            "{length}: {error}"
        );
        assert_eq!(fs::metadata(&case.target).unwrap().len(), length);
    }
    fs::rename(&case.target, case.folder.path().join("old")).unwrap();
    fs::write(&case.target, vec![7; 4 << 20]).unwrap();
    assert!(matches!(restore(&path, true), Err(JournalError::OtherTarget { .. })));
    assert!(case.read().iter().all(|byte| *byte == 7) && path.exists());
}

/// The folder is what somebody named: what others keep there is not ours, whatever it is called.
#[test]
fn files_of_others_are_not_taken_for_journals() {
    let case = Case::new();
    let path = case.dead();
    for name in
        ["sshd_config.new", "notes.journal", "1-2.new", "1-2-x.journal", "-1-2.new", "1-2-3.x.journal"]
    {
        fs::write(case.journals().join(name), "theirs").unwrap();
    }
    assert_eq!(pending(&case.journals()), [path]);
}

#[test]
fn an_area_of_nothing_is_none() {
    let case = Case::new();
    let path = case.dead();
    let mut header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    header.areas.push(Saved { start: 0, length: 0, sha256: hex(&Sha256::digest([])) });
    assert!(Header::decode(&header.encode().unwrap()).is_none());
}
