//! The journals that runs have left in a folder: which files are one journal's, and which of them are not there.
//!
//! The law of this module: it reads names and headers, and changes nothing. The folder is what somebody named: files of others
//! may be in it, whatever they are called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use straddle_device::FileId;

use super::restore::Lacks;
use super::{DAMAGED, Header, NEW, OVER, SUFFIX, born, is_of_age, named};

/// A journal that a run has left, whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    folder: PathBuf,
    stem: String,
    /// The numbers of the files that were complete.
    pub(super) files: BTreeSet<u64>,
    /// Of those that were not.
    pub(super) new: BTreeSet<u64>,
    /// Of those that were set aside.
    pub(super) damaged: BTreeMap<u64, PathBuf>,
    /// Whether the run had seen that its target holds what it held.
    pub(super) is_over: bool,
}

/// What is in `folder` for [`restore`](super::restore()), in order of name: journals, and beginnings of such.
pub fn left(folder: &Path) -> Vec<Left> {
    let mut found: BTreeMap<String, Left> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Some((stem, number, suffix)) = name.to_str().and_then(parsed) else { continue };
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
            _ => _ = journal.damaged.insert(number, path),
        }
    }
    // What is damaged is in nobody's way.
    found
        .into_values()
        .filter(|left| left.is_over || !left.files.is_empty() || !left.new.is_empty())
        .collect()
}

/// A journal in `folder` of what `path` names now, which a run has left that did not end: that comes before the next run.
pub fn unrestored(path: &Path, folder: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(path).ok()?;
    let (name, id, born) = (path.canonicalize().ok(), FileId::of(&metadata), born(&metadata));
    // What says of no target can put back none, before a run as little as after it.
    let is_of_this = |path: &PathBuf| {
        let header = open(path).and_then(|file| Header::read(&file)).ok().flatten();
        header.is_some_and(|header| {
            name.as_ref() == Some(&header.target) || id == header.identity && is_of_age(&header, born)
        })
    };
    let left = left(folder).into_iter().filter(|left| !left.is_over);
    left.flat_map(|left| left.paths()).find(is_of_this)
}

impl Left {
    /// The path that all of its files begin with.
    pub fn stem(&self) -> PathBuf {
        self.folder.join(&self.stem)
    }

    /// The path of a file of it.
    pub(super) fn path(&self, number: u64, suffix: &str) -> PathBuf {
        named(&self.folder, &self.stem, number, suffix)
    }

    /// The files that were complete, in order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|number| self.path(*number, SUFFIX)).collect()
    }

    /// What of it was never used.
    pub(super) fn is_beginning(&self) -> bool {
        self.files.is_empty() && self.damaged.is_empty() && self.new.contains(&0)
    }

    /// What it had, and has no longer.
    pub(super) fn lacks(&self) -> Lacks {
        let mut gaps = Vec::new();
        let mut next = 0;
        let there: BTreeSet<u64> = self.files.iter().chain(self.damaged.keys()).copied().collect();
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
        Lacks { missing, damaged: self.damaged.values().cloned().collect(), has_end: !self.new.is_empty() }
    }
}

/// Opens a file that is called as a journal is; a FIFO that is called so holds up nobody.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    Ok(file)
}

/// The journal's name, the number of the file, and its ending: a name is three numbers, and the number of a further file.
fn parsed(name: &str) -> Option<(&str, u64, &str)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, suffix) = name.rsplit_once('.')?;
    let (stem, number) = match rest.split_once('.') {
        Some((stem, text)) => (stem, text.parse().ok().filter(|number: &u64| number.to_string() == text)?),
        None => (rest, 0),
    };
    let is_zero = number == 0 && rest != stem;
    let is_ours = stem.split('-').count() == 3 && stem.split('-').all(is_number) && !is_zero;
    let kind = suffix.split('-').next().filter(|kind| *kind == DAMAGED).unwrap_or(suffix);
    (is_ours && [SUFFIX, NEW, OVER, DAMAGED].contains(&kind)).then_some((stem, number, kind))
}
