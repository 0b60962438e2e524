use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;

use straddle_units::{ByteCount, ByteOffset};

use super::*;
use crate::real::open::{Access, Io};

const fn later(force: bool) -> LaterWrites {
    if force { LaterWrites::Overwrite } else { LaterWrites::Keep }
}

fn span(start: u64, length: u64) -> Span {
    Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
}

fn add(journal: &mut Journal, opened: &Opened, areas: &[Span]) {
    journal.add(opened, Pending::of(opened, areas).unwrap()).unwrap();
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
        let areas = [span(4096, 8192), span(12288, 4096), span(1 << 20, 1 << 20)];
        let mut journal = Journal::new(&self.journals(), &opened).unwrap();
        add(&mut journal, &opened, &areas);
        journal
    }

    /// The path of a journal whose run died.
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

    /// Settles the only journal.
    fn settled(&self, force: bool) -> Settled {
        let left = left(&self.journals()).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        restore(&left[0], later(force))
    }

    /// Settles it, and requires that there was no error.
    fn restored(&self, force: bool) -> Restored {
        let settled = self.settled(force);
        assert!(settled.errors.is_empty() && settled.lacks.missing.is_empty(), "{settled:?}");
        settled.restored
    }

    /// The error of a journal that cannot be used.
    fn refused(&self) -> JournalError {
        let mut settled = self.settled(true);
        assert!(matches!(settled.restored, Restored::Part { bytes: 0, .. }), "{settled:?}");
        settled.errors.pop().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.journals()).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
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
    let Restored::Changed { spans, bytes: 0, .. } = case.restored(false) else { panic!("not shown") };
    assert_eq!(spans, [span(4608, 512), span(11776, 1024), span((2 << 20) - 512, 512)]);
    assert!(case.read() == theirs && path.exists());
    let target = case.target.canonicalize().unwrap();
    assert_eq!(case.restored(true), Restored::Whole { target, bytes: 2048 });
    let mut wanted = case.bytes.clone();
    wanted[20_000..20_006].copy_from_slice(b"theirs");
    assert!(case.read() == wanted && case.names().is_empty());
}

#[test]
fn a_journal_goes_when_the_target_is_as_it_was() {
    let case = Case::new();
    let path = case.dead();
    assert_eq!(left(&case.journals()).unwrap()[0].paths(), [path]);
    let target = case.target.canonicalize().unwrap();
    assert_eq!(case.restored(false), Restored::Whole { target, bytes: 0 });
    assert!(case.read() == case.bytes && case.names().is_empty());
}

#[test]
fn what_compares_equal_is_written_again() {
    let case = Case::new();
    case.dead();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1);
    OpenOptions::new().write(true).open(&case.target).unwrap().set_modified(long_ago).unwrap();
    let restored = case.restored(false);
    let is_written = || fs::metadata(&case.target).unwrap().modified().unwrap() != long_ago;
    assert!(matches!(restored, Restored::Whole { bytes: 0, .. }) && is_written(), "{restored:?}");
    assert!(case.read() == case.bytes);
}

#[test]
fn a_journal_that_is_damaged_anywhere_is_named_kept_and_not_used() {
    let case = Case::new();
    let path = case.dead();
    let (whole, end) = (fs::read(&path).unwrap(), fs::read_dir(case.journals()).unwrap().count());
    assert_eq!(end, 2);
    fs::remove_dir_all(case.journals()).unwrap();
    fs::create_dir(case.journals()).unwrap();
    // Damage after the line that says to which journal the file belongs.
    let title = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let text = title + whole[title..].iter().position(|byte| *byte == b'\n').unwrap();
    let mut damaged: Vec<Vec<u8>> =
        (title..whole.len()).step_by(whole.len() / 48).map(|end| whole[..end].to_vec()).collect();
    damaged.push(whole[..whole.len() - 1].to_vec());
    damaged.push([&whole[..], b"x"].concat());
    for at in
        [title, text / 2, text, text + 5, HEADER - 1, HEADER, HEADER + 8191, HEADER + 8192, whole.len() - 1]
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
            fs::write(&path, bad).unwrap();
            Title::new(path.file_stem().unwrap().to_str().unwrap(), 1)
                .make(&path.with_extension("1.new"))
                .unwrap();
            let error = case.refused();
            assert!(case.read() == before, "{index}: {error}");
            let JournalError::Damaged { renamed, what, .. } = error else { panic!("{index}: {error}") };
            assert!(!path.exists() && fs::read(&renamed).unwrap() == *bad, "{index}");
            // If the header is intact, the sums show the state of the target.
            if bad.len() >= HEADER && bad[..HEADER] == whole[..HEADER] {
                assert_eq!(what.contains("has changed: compare"), changed, "{index}: {what}");
            }
        }
    }
    assert!(case.names().iter().all(|name| name.contains(&format!(".{DAMAGED}"))));
}

#[test]
fn what_never_was_a_journal_goes() {
    let case = Case::new();
    let whole = fs::read(case.dead()).unwrap();
    fs::remove_dir_all(case.journals()).unwrap();
    fs::create_dir(case.journals()).unwrap();
    case.change(5000);
    let before = case.read();
    let title = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let stem = Title::decode(&whole[..title - 1]).unwrap().stem;
    for length in [title, title + 1, HEADER, whole.len()] {
        for has_next in [false, true] {
            fs::write(case.journals().join(format!("{stem}.new")), &whole[..length]).unwrap();
            if has_next {
                Title::new(&stem, 1).make(&case.journals().join(format!("{stem}.1.new"))).unwrap();
            }
            assert_eq!(case.restored(false), Restored::Incomplete);
            assert!(case.read() == before && case.names().is_empty());
        }
    }
}

#[test]
fn a_header_says_when_writing_began_and_of_what() {
    let case = Case::new();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let path = case.dead();
    let header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    assert!((before..=before + 600).contains(&header.began_unix_seconds));
    let metadata = fs::metadata(&case.target).unwrap();
    assert_eq!((header.identity, header.born), (FileId::of(&metadata), born(&metadata)));
    assert_eq!(header.target, case.target.canonicalize().unwrap());
    assert_eq!(left(&case.journals()).unwrap().len(), 1);
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
    let mut header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    let Some(born) = header.born.as_mut() else { return };
    *born += Duration::from_nanos(1);
    let journal = OpenOptions::new().write(true).open(&path).unwrap();
    journal.write_all_at(&header.encode().unwrap(), 0).unwrap();
    assert_eq!(unrestored(&other, &case.journals()).unwrap(), None);
    fs::rename(&other, &case.target).unwrap();
    let refused = case.refused();
    assert!(
        matches!(&refused, JournalError::OtherTarget { what, .. } if what.contains("replaced")),
        "{refused}"
    );
}

#[test]
fn a_running_measurement_keeps_its_journal() {
    let case = Case::new();
    let journal = case.written();
    assert_eq!(case.restored(true), Restored::Running);
    assert!(unrestored(&case.target, &case.journals()).unwrap().unwrap().is_running);
    let path = journal.path().unwrap().to_owned();
    assert!(path.exists());
    journal.remove().unwrap();
    assert!(case.names().is_empty());
}

/// A journal in five files whose run died, and their paths.
fn in_five_files(case: &Case) -> Vec<PathBuf> {
    let opened = Opened::open(&case.target, Access::Claim, Io::Buffered).unwrap();
    let mut journal = Journal::new(&case.journals(), &opened).unwrap();
    let areas: Vec<Span> = (0..256).map(|at| span(at * 4096, 4096)).collect();
    for areas in [&areas[..100], &[], &areas[100..]] {
        add(&mut journal, &opened, areas);
    }
    drop(opened);
    assert_eq!(case.restored(true), Restored::Running);
    drop(journal);
    let files = left(&case.journals()).unwrap()[0].paths();
    assert_eq!(files.len(), 2 + 3);
    files
}

#[test]
fn a_journal_that_was_added_to_goes_as_a_whole() {
    let case = Case::new();
    let files = in_five_files(&case);
    case.change(500_000);
    let Restored::Changed { spans, bytes: 0, .. } = case.restored(false) else { panic!() };
    assert_eq!(spans, [span(499_712, 512)]);
    assert!(files.iter().all(|path| path.exists()));
    let target = case.target.canonicalize().unwrap();
    assert_eq!(case.restored(true), Restored::Whole { target, bytes: 512 });
    assert!(case.read() == case.bytes && case.names().is_empty());
}

/// Every set of lost files, the `.new` at the end included, with the target changed or unchanged.
#[test]
fn a_journal_of_which_files_are_lost_is_not_called_restored() {
    let case = Case::new();
    let files = in_five_files(&case);
    let mut all = files.clone();
    all.push(files[0].with_extension("5.new"));
    let kept: Vec<Vec<u8>> = all.iter().map(|path| fs::read(path).unwrap()).collect();
    for lost in 1_u32..(1 << all.len()) - 1 {
        let is_lost = |index: usize| lost & (1 << index) != 0;
        for (index, (path, bytes)) in all.iter().zip(&kept).enumerate() {
            let _ = fs::remove_file(path);
            if !is_lost(index) {
                fs::write(path, bytes).unwrap();
            }
        }
        let (force, changed) =
            [(false, false), (false, true), (true, true)][(lost.count_ones() + lost) as usize % 3];
        fs::write(&case.target, &case.bytes).unwrap();
        if changed {
            case.change(500_000);
        }
        let before = (case.names(), case.read());
        let settled = case.settled(force);
        let again = format!("{lost:b}, {force}, {changed}: {settled:?}");
        assert!(!settled.lacks.is_nothing() && settled.errors.is_empty(), "{again}");
        // The file with index 2, the second one of 64 areas, holds bytes 409,600 on.
        if changed && !force && !is_lost(2) {
            assert!(matches!(settled.restored, Restored::Changed { .. }), "{again}");
        } else {
            assert!(matches!(settled.restored, Restored::Part { is_kept: true, .. }), "{again}");
        }
        assert_eq!(case.names(), before.0, "{again}");
        if !force {
            assert!(case.read() == before.1, "{again}");
        }
        let lacks = settled.lacks.to_string();
        assert_eq!(lacks.contains("not known"), is_lost(5), "{again}");
        // Files after the last one that exists cannot be noticed as missing by name.
        let reach = (0..6).rev().find(|index| !is_lost(*index)).unwrap();
        let missed = settled.lacks.missing.iter().fold(0, |sum, (first, last)| {
            let number = |path: &PathBuf| all.iter().position(|one| one == path).unwrap();
            sum + 1 + last.as_ref().map_or(0, |last| number(last) - number(first))
        });
        assert_eq!(missed, (0..reach).filter(|index| is_lost(*index)).count(), "{again}");
    }
    for (path, bytes) in all.iter().zip(&kept) {
        fs::write(path, bytes).unwrap();
    }
    fs::write(&case.target, &case.bytes).unwrap();
    assert!(matches!(case.restored(false), Restored::Whole { bytes: 0, .. }));
}

#[test]
fn every_file_of_a_journal_is_named_damaged_ones_beside_good_ones_too() {
    let case = Case::new();
    let path = case.dead();
    for suffix in ["damaged", "damaged-1", "damaged-2"] {
        fs::copy(&path, path.with_extension(suffix)).unwrap();
    }
    let mut present = left(&case.journals()).unwrap()[0].present();
    present.sort();
    let mut all: Vec<PathBuf> = case.names().iter().map(|name| case.journals().join(name)).collect();
    all.sort();
    assert_eq!((present.len(), present), (all.len().max(4), all));
}

#[test]
fn a_journal_with_a_damaged_file_is_not_called_restored() {
    let case = Case::new();
    for bad in 0..5 {
        let files = in_five_files(&case);
        let mut bytes = fs::read(&files[bad]).unwrap();
        bytes[20_000] ^= 1;
        fs::write(&files[bad], &bytes).unwrap();
        let settled = case.settled(false);
        assert!(matches!(settled.restored, Restored::Part { target: Some(_), bytes: 0, is_kept: false }));
        let [JournalError::Damaged { renamed, .. }] = &settled.errors[..] else { panic!("{settled:?}") };
        assert_eq!(settled.lacks.damaged, std::slice::from_ref(renamed));
        assert_eq!(case.names(), [renamed.file_name().unwrap().to_str().unwrap()]);
        assert!(fs::read(renamed).unwrap() == bytes && left(&case.journals()).unwrap().is_empty());
        fs::remove_file(renamed).unwrap();
    }
}

/// If a run is stopped at any point while it removes its journal, no file is reported missing afterwards.
#[test]
fn a_journal_that_was_being_removed_is_not_missed() {
    let case = Case::new();
    for gone in 0..=5 {
        let files = in_five_files(&case);
        fs::rename(files[0].with_extension("5.new"), files[0].with_extension(OVER)).unwrap();
        for path in files.iter().rev().take(gone) {
            fs::remove_file(path).unwrap();
        }
        assert_eq!(unrestored(&case.target, &case.journals()).unwrap(), None);
        assert_eq!(case.restored(false), Restored::Ended);
        assert!(case.names().is_empty() && case.read() == case.bytes);
    }
}

#[test]
fn another_target_in_its_place_is_left_alone() {
    let case = Case::new();
    let path = case.dead();
    // A target that was truncated or extended is not resized.
    for length in [0, 6000, 3 << 20, (4 << 20) - 1, 5 << 20] {
        OpenOptions::new().write(true).open(&case.target).unwrap().set_len(length).unwrap();
        let error = case.refused();
        assert!(
            matches!(error, JournalError::OtherTarget { .. } | JournalError::Open { .. }),
            "{length}: {error}"
        );
        assert_eq!(fs::metadata(&case.target).unwrap().len(), length);
    }
    fs::rename(&case.target, case.folder.path().join("old")).unwrap();
    fs::write(&case.target, vec![7; 4 << 20]).unwrap();
    assert!(matches!(case.refused(), JournalError::OtherTarget { .. }));
    assert!(case.read().iter().all(|byte| *byte == 7) && path.exists());
}

/// The user chooses the folder. Files of other programs in it are left alone, whatever they are called.
#[test]
fn files_of_others_are_neither_taken_for_journals_nor_removed() {
    for changed in [false, true] {
        let case = Case::new();
        let path = case.dead();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let numbers = stem.strip_prefix(PREFIX).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut names: Vec<String> = ["sshd_config.new", "notes.journal", "1-2.new", "1-2-x.journal"]
            .into_iter()
            .map(str::to_owned)
            .collect();
        for stem in [&stem, numbers, "2026-11-23", "straddle-2026-11-23", "straddle-1-2"] {
            for number in ["", ".0", ".01", ".x", ".2", ".18446744073709551615"] {
                for suffix in [SUFFIX, NEW, OVER, DAMAGED] {
                    names.push(format!("{stem}{number}.{suffix}"));
                }
            }
        }
        let theirs: Vec<PathBuf> = names.iter().map(|name| case.journals().join(name)).collect();
        let theirs: Vec<&PathBuf> =
            theirs.iter().filter(|path| fs::symlink_metadata(path).is_err()).collect();
        assert!(theirs.len() > 100);
        let elsewhere = case.folder.path().join("elsewhere");
        fs::write(&elsewhere, &whole).unwrap();
        for (path, kind) in theirs.iter().zip((0..7).cycle()) {
            match kind {
                // The name that the journal needs for its `.over` file.
                _ if path.file_name().unwrap().to_str() == Some(format!("{stem}.{OVER}").as_str()) => {
                    fs::create_dir(path).unwrap();
                }
                0 => fs::write(path, "").unwrap(),
                1 => fs::write(path, "theirs").unwrap(),
                // A journal file under another name.
                2 => fs::write(path, &whole).unwrap(),
                3 => fs::create_dir(path).unwrap(),
                4 => std::os::unix::fs::symlink(&elsewhere, path).unwrap(),
                5 => std::os::unix::fs::symlink("nowhere", path).unwrap(),
                _ => rustix::fs::mknodat(
                    rustix::fs::CWD,
                    path.as_path(),
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::from_raw_mode(0o600),
                    0,
                )
                .unwrap(),
            }
        }
        let kinds = || {
            theirs
                .iter()
                .map(|path| fs::symlink_metadata(path).map(|found| (found.ino(), found.len())).unwrap())
                .collect::<Vec<_>>()
        };
        let before = kinds();
        let found = left(&case.journals()).unwrap();
        assert_eq!(found.iter().flat_map(Left::paths).collect::<Vec<_>>(), std::slice::from_ref(&path));
        assert_eq!(found.len(), 1);
        if changed {
            case.change(5000);
            assert!(matches!(case.restored(false), Restored::Changed { .. }));
        }
        // The file that blocks a name of the journal is reported, and nothing is lost.
        let settled = case.settled(true);
        assert!(matches!(settled.restored, Restored::Whole { .. }), "{settled:?}");
        assert!(case.read() == case.bytes && kinds() == before && fs::read(&elsewhere).unwrap() == whole);
        let [JournalError::Io { path: in_the_way, .. }] = &settled.errors[..] else { panic!("{settled:?}") };
        assert!(in_the_way.extension().unwrap() == OVER && path.exists());
    }
}

/// A file of another journal, or another file of the same one, does not replace the lost file.
#[test]
fn a_copy_of_another_file_is_not_taken_for_one_that_is_lost() {
    let case = Case::new();
    let other = case.dead();
    fs::rename(&other, case.folder.path().join("other")).unwrap();
    fs::remove_dir_all(case.journals()).unwrap();
    let files = in_five_files(&case);
    for (lost, copied) in
        [(1, &files[2]), (0, &files[1]), (4, &files[0]), (2, &case.folder.path().join("other"))]
    {
        let kept = fs::read(&files[lost]).unwrap();
        fs::copy(copied, &files[lost]).unwrap();
        let settled = case.settled(false);
        assert!(matches!(settled.restored, Restored::Part { is_kept: true, bytes: 0, .. }), "{settled:?}");
        assert_eq!(settled.lacks.missing, [(files[lost].clone(), None)], "{settled:?}");
        assert!(settled.lacks.to_string().contains("is not the file that it was"), "{}", settled.lacks);
        fs::write(&files[lost], kept).unwrap();
    }
    // A forged file: it claims to be the lost one, but lists the areas of another.
    let mut header = Header::read(&File::open(&files[2]).unwrap()).unwrap().unwrap();
    header.title.number = 3;
    let mut forged = fs::read(&files[2]).unwrap();
    forged[..HEADER].copy_from_slice(&header.encode().unwrap());
    fs::write(&files[3], forged).unwrap();
    let settled = case.settled(false);
    assert!(
        matches!(&settled.errors[..], [JournalError::Damaged { what, .. }] if what.contains("in another file"))
    );
    assert!(matches!(settled.restored, Restored::Part { .. }), "{settled:?}");
}

/// Files that a run adds before its journal is locked belong to the journal.
#[test]
fn a_journal_is_looked_at_again_when_it_is_locked() {
    let case = Case::new();
    let opened = Opened::open(&case.target, Access::Claim, Io::Buffered).unwrap();
    let mut journal = Journal::new(&case.journals(), &opened).unwrap();
    add(&mut journal, &opened, &[span(0, 4096)]);
    let seen = left(&case.journals()).unwrap();
    add(&mut journal, &opened, &[span(65_536, 4096)]);
    assert_eq!(restore(&seen[0], LaterWrites::Keep).restored, Restored::Running);
    drop((journal, opened));
    case.change(65_536);
    let settled = restore(&seen[0], LaterWrites::Keep);
    let Restored::Changed { spans, .. } = &settled.restored else { panic!("{settled:?}") };
    assert_eq!(*spans, [span(65_536, 512)]);
    assert!(matches!(restore(&seen[0], LaterWrites::Overwrite).restored, Restored::Whole { bytes: 512, .. }));
    assert_eq!(restore(&seen[0], LaterWrites::Keep).restored, Restored::Gone);
}

/// Once a good copy is back, the damaged file does not count. It stays.
#[test]
fn a_good_copy_beside_a_damaged_one_is_whole() {
    let case = Case::new();
    let files = in_five_files(&case);
    let damaged = files[1].with_extension(DAMAGED);
    fs::copy(&files[1], &damaged).unwrap();
    assert!(matches!(case.restored(false), Restored::Whole { bytes: 0, .. }));
    assert_eq!(case.names(), [damaged.file_name().unwrap().to_str().unwrap()]);
}

/// A header may claim a large file, here of a quarter of a TiB. Nothing is read before it is checked against
/// the target.
#[test]
fn a_journal_that_is_longer_than_its_target_is_not_read() {
    let case = Case::new();
    let path = case.dead();
    let mut header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    for (length, size, is_damaged) in
        [(1_u64 << 35, 1_u64 << 40, false), (1 << 38, 1 << 40, true), (1 << 35, header.size, true)]
    {
        header.areas = vec![SavedArea { start: 0, length, sha256: hex(&Sha256::digest([])) }];
        header.size = size;
        let mut text = header.title.line().into_bytes();
        text.extend(serde_json::to_vec(&header).unwrap());
        let sum = hex(&Sha256::digest(&text));
        text.extend(format!("\n{sum}\n").into_bytes());
        text.resize(HEADER, b' ');
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).unwrap();
        file.write_all_at(&text, 0).unwrap();
        file.set_len(HEADER as u64 + length).unwrap();
        let refused = case.refused();
        assert_eq!(matches!(refused, JournalError::OtherTarget { .. }), !is_damaged, "{refused}");
        if let JournalError::Damaged { renamed, .. } = &refused {
            fs::rename(renamed, &path).unwrap();
        }
    }
}

/// Gaps are not counted one by one, even up to the largest number.
#[test]
fn a_name_with_a_large_number_takes_no_time() {
    let case = Case::new();
    let path = case.dead();
    for (suffix, gaps) in [(NEW, 0), (SUFFIX, 1), (DAMAGED, 1)] {
        let far = path.with_extension(format!("{}.{suffix}", u64::MAX));
        let stem = path.file_stem().unwrap().to_str().unwrap();
        drop(Title::new(stem, u64::MAX).make(&far).unwrap());
        assert_eq!(left(&case.journals()).unwrap()[0].lacks().missing.len(), gaps);
        fs::remove_file(far).unwrap();
    }
}

#[test]
fn an_area_of_nothing_is_none() {
    let case = Case::new();
    let path = case.dead();
    let mut header = Header::read(&File::open(&path).unwrap()).unwrap().unwrap();
    header.areas.push(SavedArea { start: 0, length: 0, sha256: hex(&Sha256::digest([])) });
    assert!(Header::decode(&header.encode().unwrap()).is_none());
}
