use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::real::open::{Access, Io};

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

fn header_of(path: &Path) -> Header {
    decoded(&read(&File::open(path).unwrap(), 0, HEADER).unwrap()).unwrap()
}

fn add(journal: &mut Journal, opened: &Opened, areas: &[Span]) {
    let mut pending = Pending::default();
    areas.iter().for_each(|area| pending.read(opened, *area, &[]).unwrap());
    journal.add(pending).unwrap();
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
        let mut journal = Journal::make(&self.journals(), &opened).unwrap();
        add(&mut journal, &opened, &[span(4096, 8192), span(12288, 4096), span(1 << 20, 1 << 20)]);
        journal
    }

    /// The path of a journal whose run died.
    fn dead(&self) -> PathBuf {
        self.written().path.clone()
    }

    fn change(&self, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.target).unwrap();
        file.write_all_at(b"theirs", at).unwrap();
    }

    fn read(&self) -> Vec<u8> {
        fs::read(&self.target).unwrap()
    }

    /// Restores the only journal.
    fn restored(&self, later: LaterWrites) -> Result<Restored, JournalError> {
        let left = left(&self.journals()).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        restore(&left[0], later)
    }

    fn names(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.journals()).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn what_somebody_else_has_written_since_is_kept_until_it_may_go() {
    let case = Case::new();
    let path = case.dead();
    // In one area, across the boundary of two, at the end of the last, and outside of all.
    for at in [5000, 12285, (2 << 20) - 6, 20_000] {
        case.change(at);
    }
    let theirs = case.read();
    let restored = case.restored(LaterWrites::Keep).unwrap();
    let Restored::Changed { spans, bytes: 0, .. } = restored else { panic!("{restored:?}") };
    assert_eq!(spans, [span(4608, 512), span(11776, 1024), span((2 << 20) - 512, 512)]);
    assert!(case.read() == theirs && path.exists());
    let target = case.target.canonicalize().unwrap();
    let restored = case.restored(LaterWrites::Overwrite).unwrap();
    assert_eq!(restored, Restored::Whole { target, bytes: 2048 });
    let mut wanted = case.bytes.clone();
    wanted[20_000..20_006].copy_from_slice(b"theirs");
    assert!(case.read() == wanted && case.names().is_empty());
}

/// What compares equal is written again.
#[test]
fn a_journal_goes_when_the_target_is_as_it_was() {
    let case = Case::new();
    case.dead();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1);
    OpenOptions::new().write(true).open(&case.target).unwrap().set_modified(long_ago).unwrap();
    let target = case.target.canonicalize().unwrap();
    assert_eq!(case.restored(LaterWrites::Keep).unwrap(), Restored::Whole { target, bytes: 0 });
    assert!(fs::metadata(&case.target).unwrap().modified().unwrap() != long_ago);
    assert!(case.read() == case.bytes && case.names().is_empty());
}

#[test]
fn a_journal_that_is_damaged_anywhere_is_named_kept_and_not_used() {
    let case = Case::new();
    let path = case.dead();
    let whole = fs::read(&path).unwrap();
    let (header, line) = (usize::try_from(HEADER).unwrap(), usize::try_from(LINE).unwrap());
    let second = header + line + 8192;
    let mut damaged: Vec<Vec<u8>> =
        (header + 1..whole.len()).step_by(whole.len() / 48).map(|end| whole[..end].to_vec()).collect();
    damaged.push(whole[..whole.len() - 1].to_vec());
    for at in [MAGIC.len(), 80, header, header + line, second, second + line, whole.len() - 1] {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        damaged.push(bad);
    }
    case.change(5000);
    let before = case.read();
    for (index, bad) in damaged.iter().enumerate() {
        fs::write(&path, bad).unwrap();
        let error = case.restored(LaterWrites::Overwrite).unwrap_err();
        let JournalError::Damaged { renamed, .. } = error else { panic!("{index}: {error}") };
        assert!(case.read() == before && !path.exists() && fs::read(&renamed).unwrap() == *bad, "{index}");
        assert_eq!(unrestored(&case.target, &case.journals()).unwrap(), None);
        fs::remove_file(renamed).unwrap();
    }
}

/// A run that was killed before the first area was durable had written nothing.
#[test]
fn what_never_was_a_journal_goes() {
    let case = Case::new();
    let path = case.dead();
    let mut whole = fs::read(&path).unwrap();
    let header = usize::try_from(HEADER).unwrap();
    whole[header..][..512].fill(0);
    case.change(5000);
    let before = case.read();
    for length in [0, MAGIC.len(), 100, header, header + 512, whole.len()] {
        fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(unrestored(&case.target, &case.journals()).unwrap(), None);
        assert_eq!(case.restored(LaterWrites::Overwrite).unwrap(), Restored::Incomplete, "{length}");
        assert!(case.read() == before && case.names().is_empty());
    }
}

/// The power fails while areas are added: contents are cut off, or any of the lines are there. All that was
/// written to the target before is restored. A line without its contents, which only a mistake in the order
/// of the writes could leave, is found.
#[test]
fn a_journal_that_was_being_added_to_has_what_it_had() {
    let case = Case::new();
    let opened = Opened::open(&case.target, Access::Claim, Io::Buffered).unwrap();
    let mut journal = Journal::make(&case.journals(), &opened).unwrap();
    add(&mut journal, &opened, &[span(0, 4096)]);
    let first = usize::try_from(journal.end).unwrap();
    add(&mut journal, &opened, &[span(8192, 4096), span(16384, 4096), span(24576, 4096)]);
    let path = journal.path.clone();
    drop((journal, opened));
    let whole = fs::read(&path).unwrap();
    let at = |index: usize| first + index * (512 + 4096);
    let header = header_of(&path);
    let found = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        areas(&File::open(&path).unwrap(), &header).map(|areas| areas.len())
    };
    for lines in 0..8_usize {
        let mut cut = whole.clone();
        for index in (0..3).filter(|index| lines & (1 << index) == 0) {
            cut[at(index)..][..512].fill(0);
        }
        let kept = (0..3).take_while(|index| lines & (1 << index) != 0).count();
        assert_eq!(found(&cut).unwrap(), 1 + kept, "{lines:b}");
        if kept > 0 {
            cut[at(0) + 512..][..4096].fill(0);
            assert_eq!(found(&cut).unwrap_err().kind(), io::ErrorKind::InvalidData, "{lines:b}");
        }
        if lines == 0 {
            for end in (first..whole.len()).step_by(500) {
                assert_eq!(found(&cut[..end]).unwrap(), 1, "{end}");
            }
        }
    }
    fs::write(&path, &whole).unwrap();
    let restored = case.restored(LaterWrites::Keep).unwrap();
    assert!(matches!(restored, Restored::Whole { bytes: 0, .. }), "{restored:?}");
}

/// After a failed write it is not known what the journal has of that.
#[test]
fn nothing_is_added_after_a_failed_write() {
    let case = Case::new();
    let mut journal = case.written();
    let writable = std::mem::replace(&mut journal.file, Locked(File::open(&case.target).unwrap()));
    let opened = Opened::open(&case.target, Access::Read, Io::Buffered).unwrap();
    let add = |journal: &mut Journal| {
        let mut pending = Pending::default();
        pending.read(&opened, span(0, 4096), &[]).unwrap();
        journal.add(pending).map(drop)
    };
    assert!(add(&mut journal).is_err());
    journal.file = writable;
    assert!(add(&mut journal).is_err());
    drop((journal, opened));
    assert!(matches!(case.restored(LaterWrites::Keep), Ok(Restored::Whole { .. })));
}

/// A file is recognised by its inode, whatever its name. Another file that has the inode later is not the
/// target.
#[test]
fn a_target_is_known_under_another_name_and_not_by_a_number_that_is_used_again() {
    let case = Case::new();
    let path = case.dead();
    let other = case.target.with_file_name("renamed");
    fs::rename(&case.target, &other).unwrap();
    let found = Unrestored { path: path.clone(), is_running: false };
    assert_eq!(unrestored(&other, &case.journals()).unwrap(), Some(found));
    let mut header: Header = header_of(&path);
    let Some(born) = header.born.as_mut() else { return };
    *born += Duration::from_nanos(1);
    let journal = OpenOptions::new().write(true).open(&path).unwrap();
    journal.write_all_at(&encoded(&header, HEADER).unwrap(), 0).unwrap();
    assert_eq!(unrestored(&other, &case.journals()).unwrap(), None);
    fs::rename(&other, &case.target).unwrap();
    let refused = case.restored(LaterWrites::Overwrite).unwrap_err();
    assert!(
        matches!(&refused, JournalError::OtherTarget { what, .. } if what.contains("replaced")),
        "{refused}"
    );
}

#[test]
fn a_running_measurement_keeps_its_journal() {
    let case = Case::new();
    let journal = case.written();
    assert_eq!(case.restored(LaterWrites::Overwrite).unwrap(), Restored::Running);
    assert!(unrestored(&case.target, &case.journals()).unwrap().unwrap().is_running);
    let path = journal.path.clone();
    assert!(path.exists());
    journal.remove().unwrap();
    assert_eq!(restore(&path, LaterWrites::Keep).unwrap(), Restored::Gone);
    assert!(case.names().is_empty());
}

#[test]
fn another_target_in_its_place_is_left_alone() {
    let case = Case::new();
    let path = case.dead();
    // A target that was truncated or extended is not resized.
    for length in [0, 6000, 3 << 20, (4 << 20) - 1, 5 << 20] {
        OpenOptions::new().write(true).open(&case.target).unwrap().set_len(length).unwrap();
        let error = case.restored(LaterWrites::Overwrite).unwrap_err();
        assert!(
            matches!(error, JournalError::OtherTarget { .. } | JournalError::Open { .. }),
            "{length}: {error}"
        );
        assert_eq!(fs::metadata(&case.target).unwrap().len(), length);
    }
    fs::rename(&case.target, case.folder.path().join("old")).unwrap();
    fs::write(&case.target, vec![7; 4 << 20]).unwrap();
    let error = case.restored(LaterWrites::Overwrite).unwrap_err();
    assert!(matches!(error, JournalError::OtherTarget { .. }), "{error}");
    assert!(case.read().iter().all(|byte| *byte == 7) && path.exists());
}

/// The user chooses the folder. Files of other programs in it are left alone, whatever they are called.
#[test]
fn files_of_others_are_neither_taken_for_journals_nor_removed() {
    let case = Case::new();
    let path = case.dead();
    let folder = case.journals();
    let theirs = ["notes.journal", "straddle-notes", "straddle-1.journal", "straddle-2-2.journal"];
    theirs.iter().for_each(|name| fs::write(folder.join(name), "theirs").unwrap());
    fs::create_dir(folder.join("straddle-3.journal")).unwrap();
    std::os::unix::fs::symlink(&path, folder.join("straddle-4.journal")).unwrap();
    assert_eq!(left(&folder).unwrap(), [path]);
    assert!(matches!(case.restored(LaterWrites::Keep), Ok(Restored::Whole { .. })));
    assert_eq!(case.names().len(), theirs.len() + 2);
}

/// An area of nothing, or outside of the target, is none.
#[test]
fn areas_are_of_the_target() {
    let case = Case::new();
    let path = case.dead();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let header: Header = header_of(&path);
    for (start, length) in [(0, 0), (header.size, 512), (u64::MAX, 512), (0, u64::MAX), (0, 1 << 21)] {
        let area = SavedArea { start, length, sha256: String::new() };
        file.write_all_at(&encoded(&area, LINE).unwrap(), HEADER).unwrap();
        let error = areas(&file, &header).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{start}, {length}");
    }
}

#[test]
fn another_disk_is_recognised_by_its_name_or_by_when_it_came() {
    let disk = |name: &str, boot: &str, sequence| Disk {
        name: (!name.is_empty()).then(|| name.to_owned()),
        attached: (!boot.is_empty()).then(|| (boot.to_owned(), sequence)),
    };
    for (one, other, differ) in [
        (disk("a", "x", 1), disk("b", "x", 1), true),
        (disk("", "x", 1), disk("", "x", 2), true),
        (disk("a", "x", 1), disk("a", "y", 2), false),
        (disk("", "x", 1), disk("", "y", 2), false),
        (disk("a", "", 0), disk("", "x", 1), false),
        (Disk::default(), disk("a", "x", 1), false),
    ] {
        assert_eq!(one.differs(&other), differ, "{one:?} {other:?}");
    }
}
