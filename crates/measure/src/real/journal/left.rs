//! The journals that runs have left in a folder: which files belong to each, and which are missing.
//!
//! Invariants: it reads names and headers, and changes nothing. The user chooses the folder, so
//! it may contain files of other programs with any name. A file's first line decides to which journal it
//! belongs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use straddle_device::FileId;

use super::restore::Lacks;
use super::title::{self, Title};
use super::{DAMAGED, Header, NEW, OVER, PREFIX, SUFFIX, born, is_of_age, named};

/// A journal that a run has left, complete or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    folder: PathBuf,
    stem: String,
    /// The numbers of the complete files.
    pub(super) files: BTreeSet<u64>,
    /// The numbers of the files that were not complete.
    pub(super) new: BTreeSet<u64>,
    /// The files that were set aside as damaged, by number.
    pub(super) damaged: BTreeMap<u64, Vec<PathBuf>>,
    /// Whether the run had seen that its target holds its previous contents.
    pub(super) is_over: bool,
}

/// Returns the journals in `folder` for [`restore`](super::restore()), ordered by name, with those that were
/// just begun. Empty if the folder does not exist; an error if it cannot be read.
pub fn left(folder: &Path) -> io::Result<Vec<Left>> {
    // A journal of which only damaged files remain does not hinder a run.
    let is_there = |left: &Left| left.is_over || !left.files.is_empty() || !left.new.is_empty();
    Ok(found(folder)?.into_values().filter(is_there).collect())
}

/// Every journal with a file in `folder`, by stem.
fn found(folder: &Path) -> io::Result<BTreeMap<String, Left>> {
    let mut found: BTreeMap<String, Left> = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let Some((stem, number, suffix)) = name.to_str().and_then(parsed) else { continue };
        let says_so = |title: Title| title.stem == stem && (title.number == number || suffix == OVER);
        if !Title::read(&path)?.is_some_and(says_so) {
            continue;
        }
        let journal = found.entry(stem.to_owned()).or_insert_with(|| Left {
            folder: folder.to_owned(),
            stem: stem.to_owned(),
            files: BTreeSet::new(),
            new: BTreeSet::new(),
            damaged: BTreeMap::new(),
            is_over: false,
        });
        match suffix {
            SUFFIX => _ = journal.files.insert(number),
            NEW => _ = journal.new.insert(number),
            OVER => journal.is_over = true,
            _ => journal.damaged.entry(number).or_default().push(path),
        }
    }
    Ok(found)
}

/// A journal that must be restored before the next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrestored {
    /// One of its files.
    pub path: PathBuf,
    /// Whether its run, or a process that restores it, is still running.
    pub is_running: bool,
}

/// Finds a journal in `folder` whose target is what `path` names now. Its run did not end, or is still
/// running.
pub fn unrestored(path: &Path, folder: &Path) -> io::Result<Option<Unrestored>> {
    // A missing target is reported when it is opened.
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let (name, id, born) = (path.canonicalize().ok(), FileId::of(&metadata), born(&metadata));
    // A file without a readable header does not say which target it belongs to, and no run is refused for it.
    let is_of_this = |path: &PathBuf| {
        let header = title::open(path).and_then(|file| Header::read(&file)).ok().flatten();
        header.is_some_and(|header| {
            name.as_ref() == Some(&header.target) || id == header.identity && is_of_age(&header, born)
        })
    };
    Ok(left(folder)?.into_iter().filter(|left| !left.is_over).find_map(|left| {
        let path = left.paths().into_iter().find(is_of_this)?;
        Some(Unrestored { path, is_running: left.is_locked() })
    }))
}

impl Left {
    /// The path with which the names of all of its files begin.
    pub fn stem(&self) -> PathBuf {
        self.folder.join(&self.stem)
    }

    /// The path of one of its files.
    pub(super) fn path(&self, number: u64, suffix: &str) -> PathBuf {
        named(&self.folder, &self.stem, number, suffix)
    }

    /// The complete files, in order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|number| self.path(*number, SUFFIX)).collect()
    }

    /// Every file of it except damaged ones, in order of removal. The first file of the journal and the mark
    /// `.over` go late, so that an interrupted removal is still recognised.
    pub(super) fn everything(&self) -> Vec<PathBuf> {
        let new = self.new.iter().rev().map(|number| self.path(*number, NEW));
        self.paths().into_iter().rev().chain(new).chain([self.path(0, OVER)]).collect()
    }

    /// Every file of it that exists now, damaged ones included.
    pub fn present(&self) -> Vec<PathBuf> {
        let now = found(&self.folder).ok().and_then(|mut found| found.remove(&self.stem));
        let now = now.as_ref().unwrap_or(self);
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let whole = now.everything().into_iter().filter(is_there);
        whole.chain(now.damaged.values().flatten().cloned()).collect()
    }

    /// Reads the journal from its folder again. `None` if nothing of it is left.
    pub(super) fn again(&self) -> io::Result<Option<Self>> {
        Ok(left(&self.folder)?.into_iter().find(|left| left.stem == self.stem))
    }

    /// The file that is locked on behalf of the journal: the first one that exists. A run locks file 0.
    pub(super) fn first(&self) -> Option<PathBuf> {
        let file = |files: &BTreeSet<u64>, suffix| files.first().map(|number| self.path(*number, suffix));
        file(&self.files, SUFFIX).or_else(|| file(&self.new, NEW))
    }

    fn is_locked(&self) -> bool {
        let file = self.first().and_then(|path| title::open(&path).ok());
        file.is_some_and(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
        })
    }

    /// The folder, and the stem that is in the title of every file.
    pub(super) fn names(&self) -> (&Path, &str) {
        (&self.folder, &self.stem)
    }

    /// Whether the journal was never used.
    pub(super) fn is_beginning(&self) -> bool {
        self.files.is_empty() && self.damaged.is_empty() && self.new.contains(&0)
    }

    /// The files that are missing or damaged.
    pub(super) fn lacks(&self) -> Lacks {
        let mut gaps = Vec::new();
        let mut next = 0;
        // A damaged file does not count if a good copy is back.
        let damaged = || self.damaged.iter().filter(|(number, _)| !self.files.contains(*number));
        let there: BTreeSet<u64> =
            self.files.iter().chain(damaged().map(|(number, _)| number)).copied().collect();
        for end in there.iter().chain(self.new.first()) {
            if next < *end {
                gaps.push((next, end - 1));
            }
            next = next.max(end.saturating_add(1));
        }
        let missing = gaps
            .into_iter()
            .map(|(first, last)| (self.path(first, SUFFIX), (last > first).then(|| self.path(last, SUFFIX))))
            .collect();
        Lacks {
            missing,
            damaged: damaged().filter_map(|(_, paths)| paths.first().cloned()).collect(),
            has_end: !self.new.is_empty(),
        }
    }
}

/// Splits a file name into stem, number and suffix. A stem is the prefix and three numbers; the number of the
/// file follows, except for file 0.
fn parsed(name: &str) -> Option<(&str, u64, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, suffix) = name.rsplit_once('.')?;
    let (stem, number) = match rest.split_once('.') {
        Some((stem, text)) => (stem, text.parse().ok().filter(|number: &u64| number.to_string() == text)?),
        None => (rest, 0),
    };
    let is_zero = number == 0 && rest != stem;
    let numbers = stem.strip_prefix(PREFIX)?;
    let is_ours = numbers.split('-').count() == 3 && numbers.split('-').all(is_number) && !is_zero;
    let kind = suffix.split('-').next().filter(|kind| *kind == DAMAGED).unwrap_or(suffix);
    (is_ours && [SUFFIX, NEW, OVER, DAMAGED].contains(&kind)).then_some((stem, number, kind))
}
