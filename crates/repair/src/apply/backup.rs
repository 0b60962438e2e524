//! What was there before: every byte that is overwritten, in a file.
//!
//! The law of this module: a backup is on stable storage before it is said to be stored, it never replaces another file, and
//! it is only believed when its sum is right. It knows how the new partitions began and ended, so that what was written to
//! them since is seen.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::{Medium, ReadError};
use straddle_units::{ByteCount, ByteOffset};

use super::ApplyError;
use crate::encode::Step;
use crate::fingerprint::hex;
use crate::foresee::lay_over;
use crate::plan::{Change, Plan, Slot, span_of};

/// The version of a backup's form.
const VERSION: u32 = 2;
/// A power cut leaves units of this size whole.
pub(super) const UNIT: usize = 512;
/// How much of the beginning and of the end of a new partition is watched.
pub(super) const WATCHED: (u64, u64) = (1 << 20, 64 << 10);
/// No backup is larger: tables and a wipe's 68 KiB for each of 1024 partitions, two digits a byte and twice.
const LARGEST: u64 = 512 << 20;

/// Why a backup is none.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It cannot be written, or is there already.
    #[error("{}: cannot store the backup; nothing was written to the disk", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It cannot be read.
    #[error("{}: cannot read the backup", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It is not what was stored.
    #[error("{}: no backup that can be trusted: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The bytes of one write, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Kept {
    Write { at: u64, what: String, old: String, new: String },
    Flush,
}

/// Bytes of a partition that a plan has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watched {
    pub(super) partition: u32,
    pub(super) start: u64,
    pub(super) size: u64,
    /// SHA-256 of them, those that the steps write taken for zero.
    pub(super) sum: String,
}

/// A backup as its file has it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupFile {
    version: u32,
    /// The disk's size in bytes.
    pub(super) size: u64,
    /// Its serial number.
    pub(super) serial: Option<String>,
    /// SHA-256 of the JSON of the steps and of what is watched.
    sum: String,
    steps: Vec<Kept>,
    pub(super) watched: Vec<Watched>,
}

/// What a plan overwrote on which disk, as it was stored in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Backup(pub(super) BackupFile);

/// What will be stored.
pub(super) struct Unstored(BackupFile);

/// Writes a file that gets its name when it is whole, so that not even a kill leaves a part of it.
fn store_unnamed(folder: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).mode(0o666).custom_flags(flags).open(folder)?;
    file.write_all(text)?;
    file.sync_all()?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, unnamed.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// Whether the file system, or the machine, has no files without a name.
fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::PERM)
    )
}

fn store_named(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text).and_then(|()| file.sync_all()).inspect_err(|_| {
        // What is left of it would be in the way of the next one.
        let _ = std::fs::remove_file(path);
    })
}

fn sum_of(steps: &[Kept], watched: &[Watched]) -> String {
    // Strings and numbers: serialising cannot fail.
    hex(&Sha256::digest(serde_json::to_vec(&(steps, watched)).unwrap_or_default()))
}

/// The sum of `size` bytes of `medium` from `start` on, without what `steps` write.
pub(super) fn sum_without(
    medium: &dyn Medium,
    start: u64,
    size: u64,
    steps: &[Step],
) -> Result<String, ReadError> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    medium.read_at(ByteOffset::new(start), &mut bytes)?;
    for step in steps {
        if let Step::Write { at, new, .. } = step {
            lay_over(&mut bytes, start, &vec![0; new.len()], *at);
        }
    }
    Ok(hex(&Sha256::digest(&bytes)))
}

/// The beginning and the end of what each partition has that `plan` makes or lets grow: the partition, first byte, bytes.
fn to_watch(plan: &Plan) -> Vec<(u32, u64, u64)> {
    let block = plan.block();
    let mut watched = Vec::new();
    for entry in &plan.table().partitions {
        let Some(span) = span_of(entry, block).filter(|_| entry.slot != Slot::Extended) else { continue };
        let from = match entry.change {
            Change::Kept => continue,
            Change::New => span.start().get(),
            Change::Grown { from } => {
                span.start().get().saturating_add(from.get().saturating_mul(block.get()))
            }
        };
        let end = span.end().get();
        let head = (end.saturating_sub(from)).min(WATCHED.0);
        let tail = (end.saturating_sub(from) - head).min(WATCHED.1);
        watched.push((entry.number, from, head));
        watched.push((entry.number, end - tail, tail));
    }
    watched.retain(|(_, _, size)| *size > 0);
    watched
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

impl Unstored {
    /// The backup of what `steps` overwrite on a disk.
    pub(super) fn of(steps: &[Step], size: ByteCount, serial: Option<String>) -> Self {
        let kept = |step: &Step| match step {
            Step::Write { at, old, new, what } => {
                Kept::Write { at: *at, what: what.clone(), old: hex(old), new: hex(new) }
            }
            Step::Flush => Kept::Flush,
        };
        let steps: Vec<Kept> = steps.iter().map(kept).collect();
        let sum = sum_of(&steps, &[]);
        Self(BackupFile { version: VERSION, size: size.get(), serial, sum, steps, watched: Vec::new() })
    }

    /// The same, which also knows what the partitions hold at first that `plan` makes with `steps`.
    pub(super) fn watching(
        mut self,
        disk: &dyn Medium,
        plan: &Plan,
        steps: &[Step],
    ) -> Result<Self, ApplyError> {
        for (partition, start, size) in to_watch(plan) {
            let sum = sum_without(disk, start, size, steps)?;
            self.0.watched.push(Watched { partition, start, size, sum });
        }
        self.0.sum = sum_of(&self.0.steps, &self.0.watched);
        Ok(self)
    }

    /// Stores it in a new file, and returns when it is on stable storage: the file and its name. What could not be stored
    /// whole is not left behind.
    pub(super) fn store(self, path: &Path) -> Result<(), BackupError> {
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        let text = serde_json::to_vec(&self.0).map_err(|error| failed(error.into()))?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match store_unnamed(folder, path, &text) {
            Err(error) if is_unsupported(&error) => store_named(path, &text),
            stored => stored,
        }
        .and_then(|()| {
            // It has its name, and that may be lost: then it is not stored.
            File::open(folder).and_then(|folder| folder.sync_all()).inspect_err(|_| {
                let _ = std::fs::remove_file(path);
            })
        })
        .map_err(failed)
    }
}

impl Backup {
    /// Reads one that was stored.
    pub fn load(path: &Path) -> Result<Self, BackupError> {
        let failed = |source: io::Error| BackupError::Load { path: path.to_owned(), source };
        let damaged = |why: String| BackupError::Damaged { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(damaged("not a regular file, or larger than any backup".to_owned()));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let backup: BackupFile = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if backup.version != VERSION {
            return Err(damaged(format!(
                "its version is {}, and this program reads {VERSION}",
                backup.version
            )));
        }
        if backup.sum != sum_of(&backup.steps, &backup.watched) {
            return Err(damaged("its sum is not the one of its contents".to_owned()));
        }
        Ok(Self(backup))
    }
}

impl BackupFile {
    /// The steps that were taken; `None` when the file contradicts itself.
    pub(super) fn steps(&self) -> Option<Vec<Step>> {
        let step = |kept: &Kept| match kept {
            Kept::Flush => Some(Step::Flush),
            Kept::Write { at, what, old, new } => {
                let (old, new) = (unhex(old)?, unhex(new)?);
                let end = at.checked_add(u64::try_from(old.len()).ok()?)?;
                (old.len() == new.len() && end <= self.size).then(|| Step::Write {
                    at: *at,
                    old,
                    new,
                    what: what.clone(),
                })
            }
        };
        self.steps.iter().map(step).collect()
    }
}
