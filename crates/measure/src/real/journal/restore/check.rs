//! Checks that the files of a journal are intact and belong to its target.
//!
//! Invariants: nothing of a journal is used before it has passed all checks here. A damaged file
//! is renamed and kept.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use straddle_device::FileId;
use straddle_device::hex::encode as hex;

use super::compare::{Checked, pieces};
use crate::real::journal::disk::Disk;
use crate::real::journal::{DAMAGED, HEADER, Header, JournalError, SavedArea, born, is_of_age, title};
use crate::real::open::{Access, Io, Opened};

/// State of the checks of a journal's files, one after the other.
#[derive(Default)]
pub(super) struct Check {
    /// The target, which all files have in common.
    pub(super) opened: Option<Opened>,
    /// The areas of the files so far: start and length.
    areas: BTreeSet<(u64, u64)>,
}

impl Check {
    /// Checks a file of a journal. Its contents are read last, since a header may claim any length.
    pub(super) fn file(&mut self, path: PathBuf) -> Result<Checked, JournalError> {
        let failed = |source| JournalError::Io { path: path.clone(), what: "read", source };
        let file = title::open(&path).map_err(failed)?;
        let Some(header) = Header::read(&file).map_err(failed)? else {
            return Err(set_aside(&path, "its beginning is damaged, so its target is not known".to_owned()));
        };
        let length = file.metadata().map_err(failed)?.len();
        let wanted = header.length().unwrap_or(u64::MAX);
        let damaged = |what: String| Err(set_aside(&path, format!("{what}; {}", state_of_target(&header))));
        if length != wanted {
            return damaged(format!("it is damaged: {length} bytes long, and was {wanted}"));
        }
        let opened = match self.opened.take() {
            Some(opened) => self.opened.insert(opened),
            None => {
                let open = |source| JournalError::Open { path: path.clone(), source };
                self.opened.insert(Opened::open(&header.target, Access::Claim, Io::Buffered).map_err(open)?)
            }
        };
        if let Some(what) = difference(opened, &header) {
            return Err(JournalError::OtherTarget { path, target: header.target, what });
        }
        for area in &header.areas {
            if !self.areas.insert(area.place()) {
                return damaged(format!(
                    "it is damaged: {} are in another file of the journal as well",
                    describe(area)
                ));
            }
        }
        if let Some(what) = damage(&file, &header).map_err(failed)? {
            return damaged(what);
        }
        let id = FileId::of_open(&file).map_err(failed)?;
        Ok(Checked { path, id, header })
    }
}

/// Renames a damaged file, so that it is kept and does not hinder later runs.
fn set_aside(path: &Path, what: String) -> JournalError {
    let mut renamed = path.with_extension(DAMAGED);
    for count in 1.. {
        if fs::symlink_metadata(&renamed).is_err() {
            break;
        }
        renamed = path.with_extension(format!("{DAMAGED}-{count}"));
    }
    match fs::rename(path, &renamed) {
        Ok(()) => JournalError::Damaged { path: path.to_owned(), what, renamed },
        Err(source) => JournalError::Io { path: path.to_owned(), what: "rename", source },
    }
}

/// Describes an area by its byte range.
fn describe(area: &SavedArea) -> String {
    format!("bytes {} to {}", area.start, area.start + area.length - 1)
}

/// What is wrong with the contents of a file. All of them are checked before any are used.
fn damage(file: &File, header: &Header) -> io::Result<Option<String>> {
    let mut at = HEADER as u64;
    for area in &header.areas {
        if sum(file, at, area.length)? != area.sha256 {
            return Ok(Some(format!("it is damaged: what it holds of {} has another sum", describe(area))));
        }
        at += area.length;
    }
    Ok(None)
}

/// What is known about the target of a damaged file, from the SHA-256 of the areas.
fn state_of_target(header: &Header) -> String {
    let name = header.target.display();
    let opened = match Opened::open(&header.target, Access::Read, Io::Buffered) {
        Ok(opened) => opened,
        Err(error) => return format!("whether its target is unchanged is not known ({error})"),
    };
    if let Some(what) = difference(&opened, header) {
        return format!("{name} is another one now ({what})");
    }
    let is_same = |area: &&SavedArea| {
        sum(&opened.file, area.start, area.length).is_ok_and(|found| found == area.sha256)
    };
    match header.areas.iter().find(|area| !is_same(area)) {
        None => format!("{name} is unchanged"),
        Some(area) => format!("{name} has changed: compare {}", describe(area)),
    }
}

/// How the open target differs from the one that was measured.
fn difference(opened: &Opened, header: &Header) -> Option<String> {
    let born = opened.file.metadata().ok().as_ref().and_then(born);
    let is_other_disk = header.disk.differs(&Disk::of(opened));
    if opened.id != header.identity || !is_of_age(header, born) || is_other_disk {
        return Some("it has been replaced".to_owned());
    }
    (opened.size != header.size).then(|| format!("{} bytes, then {}", opened.size, header.size))
}

fn sum(file: &File, start: u64, length: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    pieces(length, |from, buffer| {
        file.read_exact_at(buffer, start + from)?;
        hash.update(buffer);
        Ok::<(), io::Error>(())
    })?;
    Ok(hex(&hash.finalize()))
}
