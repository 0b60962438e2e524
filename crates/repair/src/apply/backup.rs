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
use straddle_units::ByteOffset;

use super::ApplyError;
use crate::disk::Disk;
use crate::encode::Step;
use crate::error::PlanError;
use crate::fingerprint::hex;
use crate::foresee::lay_over;
use crate::plan::{Change, Plan, Slot, span_of};

/// The version of a backup's form.
const VERSION: u32 = 2;
/// A power cut leaves units of this size whole.
pub(super) const UNIT: usize = 512;
/// How much of the beginning and of the end of a new partition is watched.
const WATCHED: (u64, u64) = (1 << 20, 64 << 10);
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
enum Kept {
    Write { at: u64, what: String, old: String, new: String },
    Flush,
}

/// Bytes of a partition that a plan has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Watched {
    partition: u32,
    start: u64,
    size: u64,
    /// SHA-256 of them, those that the steps write taken for zero.
    sum: String,
}

/// What a plan overwrote on which disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    version: u32,
    /// The disk's size in bytes.
    size: u64,
    /// Its serial number.
    serial: Option<String>,
    /// SHA-256 of the JSON of the steps and of what is watched.
    sum: String,
    steps: Vec<Kept>,
    watched: Vec<Watched>,
}

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
fn sum_without(medium: &dyn Medium, start: u64, size: u64, steps: &[Step]) -> Result<String, ReadError> {
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
fn to_watch(plan: &Plan) -> Result<Vec<(u32, u64, u64)>, PlanError> {
    let block = plan.block()?;
    let mut watched = Vec::new();
    for entry in &plan.table.partitions {
        let Some(span) = span_of(entry, block).filter(|_| entry.slot != Slot::Extended) else { continue };
        let from = match entry.change {
            Change::Kept => continue,
            Change::New => span.start().get(),
            Change::Grown { from } => span.start().get().saturating_add(from.saturating_mul(block.get())),
        };
        let end = span.end().get();
        let head = (end.saturating_sub(from)).min(WATCHED.0);
        let tail = (end.saturating_sub(from) - head).min(WATCHED.1);
        watched.push((entry.number, from, head));
        watched.push((entry.number, end - tail, tail));
    }
    watched.retain(|(_, _, size)| *size > 0);
    Ok(watched)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

impl Backup {
    /// The backup of what `steps` overwrite on a disk.
    pub fn of(steps: &[Step], size: u64, serial: Option<String>) -> Self {
        let kept = |step: &Step| match step {
            Step::Write { at, old, new, what } => {
                Kept::Write { at: *at, what: what.clone(), old: hex(old), new: hex(new) }
            }
            Step::Flush => Kept::Flush,
        };
        let steps: Vec<Kept> = steps.iter().map(kept).collect();
        Self { version: VERSION, size, serial, sum: sum_of(&steps, &[]), steps, watched: Vec::new() }
    }

    /// The same, which also knows what the partitions hold at first that `plan` makes with `steps`.
    pub fn watching(mut self, disk: &dyn Medium, plan: &Plan, steps: &[Step]) -> Result<Self, ApplyError> {
        for (partition, start, size) in to_watch(plan)? {
            let sum = sum_without(disk, start, size, steps)?;
            self.watched.push(Watched { partition, start, size, sum });
        }
        self.sum = sum_of(&self.steps, &self.watched);
        Ok(self)
    }

    /// Refuses a disk on whose new partitions somebody has written since: what is there would be lost with them.
    pub fn check_unwritten(&self, disk: &dyn Medium) -> Result<(), ApplyError> {
        let contradicts = || ApplyError::OtherDisk("the backup contradicts itself".to_owned());
        let steps = self.steps().ok_or_else(contradicts)?;
        for Watched { partition, start, size, sum } in &self.watched {
            let end = start.checked_add(*size).ok_or_else(contradicts)?;
            if *size > WATCHED.0 || end > self.size {
                return Err(contradicts());
            }
            if sum_without(disk, *start, *size, &steps)? != *sum {
                return Err(ApplyError::WrittenSince { partition: *partition, start: *start, size: *size });
            }
        }
        Ok(())
    }

    /// Stores it in a new file, and returns when it is on stable storage: the file and its name. What could not be stored
    /// whole is not left behind.
    pub fn store(&self, path: &Path) -> Result<(), BackupError> {
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        let text = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
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

    /// Reads one that was stored.
    pub fn load(path: &Path) -> Result<Self, BackupError> {
        let failed = |source: io::Error| BackupError::Load { path: path.to_owned(), source };
        let damaged = |why: String| BackupError::Damaged { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(damaged("not a regular file, or larger than any backup".to_owned()));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let backup: Self = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if backup.version != VERSION {
            return Err(damaged(format!(
                "its version is {}, and this program reads {VERSION}",
                backup.version
            )));
        }
        if backup.sum != sum_of(&backup.steps, &backup.watched) {
            return Err(damaged("its sum is not the one of its contents".to_owned()));
        }
        Ok(backup)
    }

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

    /// The steps that put everything back on `disk`: those that were taken, the other way round. Where the disk holds
    /// neither what was there before nor what was written, somebody else has changed it, and it is refused.
    pub fn undoing(&self, disk: &dyn Disk, serial: Option<&str>) -> Result<Vec<Step>, ApplyError> {
        let other = |why: String| ApplyError::OtherDisk(why);
        if disk.len().get() != self.size || self.serial.as_deref() != serial {
            let text = format!("the backup is of another disk ({} bytes)", self.size);
            return Err(other(text));
        }
        let steps = self.steps().ok_or_else(|| other("the backup contradicts itself".to_owned()))?;
        let mut undoing = Vec::new();
        for step in steps.iter().rev() {
            let Step::Write { at, old, new, what } = step else {
                undoing.push(Step::Flush);
                continue;
            };
            let mut found = vec![0; old.len()];
            disk.read_at(ByteOffset::new(*at), &mut found)?;
            let units = found.chunks(UNIT).zip(old.chunks(UNIT).zip(new.chunks(UNIT)));
            if let Some(index) = units.into_iter().position(|(now, (old, new))| now != old && now != new) {
                let byte =
                    u64::try_from(index * UNIT).ok().and_then(|offset| at.checked_add(offset)).unwrap_or(*at);
                return Err(other(format!(
                    "byte {byte} ({what}) holds neither what the backup has nor what was written over it: somebody has changed it since"
                )));
            }
            undoing.push(Step::Write { at: *at, old: found, new: old.clone(), what: what.clone() });
        }
        undoing.push(Step::Flush);
        Ok(undoing)
    }
}
