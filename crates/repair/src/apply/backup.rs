//! The backup file: the previous contents of every byte that is overwritten.
//!
//! Invariants: a backup is synchronised to its file system before it is reported as stored, it
//! never replaces another file, unless that is a backup that was reverted, and it is used only if its checksum is right. It also records the rest of the
//! table, so that a similar disk is not taken for this one, and how the new partitions began and ended, so that
//! later writes to them are detected.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use sha2::{Digest, Sha256};
use straddle_device::hex::encode as hex;
use straddle_device::{FileId, Medium, ReadError};
use straddle_layout::{Stack, read_stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::ApplyError;
use crate::encode::Step;
use crate::fingerprint::{Structure, bytes_of, structures};
use crate::foresee::{After, lay_over};
use crate::plan::{Change, Plan, Slot, span_of};
use crate::target::{Disk, Identity, Target};

const VERSION: u32 = 5;
/// A power cut leaves each unit of this many bytes either old or new, never mixed.
pub(super) const UNIT: usize = 512;
/// How many bytes of the beginning and of the end of a new partition are watched.
pub(super) const WATCHED: (u64, u64) = (1 << 20, 64 << 10);
/// Upper bound of a backup's size: tables, plus a wipe of 68 KiB for each of 1024 partitions, at two
/// hexadecimal digits per byte, old and new.
const MAX_BACKUP: u64 = 512 << 20;

/// What the steps wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
    /// A table.
    Table,
    /// The marker of a move, over the table of another program.
    Marker,
}

/// Why a backup cannot be stored or used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum BackupError {
    #[error("{}: cannot store the backup; nothing was written to the disk", path.display())]
    Store {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: cannot read the backup", path.display())]
    Load {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{}: not a usable backup: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

straddle_units::error_kind!(BackupError: Failed);

/// A range of bytes in a partition that a plan made or grew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watched {
    pub(super) partition: u32,
    pub(super) at: Span,
    /// SHA-256 of the range, with the bytes that the steps write taken as zero.
    pub(super) sum: String,
}

/// A structure of the table before or after the steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    pub(super) structure: Structure,
    pub(super) at: Span,
    /// SHA-256 of what of it makes up the table, with the bytes that the steps write taken as zero.
    pub(super) sum: String,
}

/// The contents of a backup file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupFile {
    version: u32,
    /// The disk's size in bytes.
    pub(super) size: u64,
    pub(super) serial: Option<String>,
    /// The path of the disk, without links; of a loop device that of its file.
    pub(super) path: Option<String>,
    pub(super) subject: Subject,
    /// SHA-256 of the JSON of everything else.
    sum: String,
    steps: Vec<Step>,
    /// The whole table, of a backup of one.
    pub(super) table: Vec<Beside>,
    pub(super) watched: Vec<Watched>,
    /// Whether an undo has restored what it holds: nothing needs it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reverted: bool,
}

/// A backup loaded from its file: what a plan overwrote, and on which disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Backup(pub(super) BackupFile);

/// For its owner alone: it holds what was on the disk, which not everybody may read.
const MODE: u32 = 0o600;

fn store_named(path: &Path, text: &[u8]) -> io::Result<FileId> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    let made = FileId::of_open(&file)?;
    file.write_all(text).and_then(|()| file.sync_all()).inspect_err(|_| {
        // A partial file would block the next attempt.
        let _ = made.remove(path);
    })?;
    Ok(made)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path as text, different for different paths.
fn shown(path: &Path) -> String {
    path.to_str()
        .map_or_else(|| path.as_os_str().as_encoded_bytes().escape_ascii().to_string(), str::to_owned)
}

/// Returns the contents of `span`, with the bytes that `steps` write taken as zero.
fn without(medium: &dyn Medium, span: Span, steps: &[Step]) -> Result<Vec<u8>, ReadError> {
    let mut bytes = bytes_of(medium, span)?;
    for step in steps {
        if let Step::Write { at, new, .. } = step {
            lay_over(&mut bytes, span.start().get(), &vec![0; new.len()], *at);
        }
    }
    Ok(bytes)
}

/// Returns the SHA-256 of the bytes of `medium` in `span`, with those that `steps` write taken as zero.
pub(super) fn sum_without(medium: &dyn Medium, span: Span, steps: &[Step]) -> Result<String, ReadError> {
    Ok(hex(&Sha256::digest(without(medium, span, steps)?)))
}

/// Returns the SHA-256 of what of `structure` at `span` makes up the table, with the bytes that `steps` write taken
/// as zero.
pub(super) fn sum_beside(
    medium: &dyn Medium,
    structure: Structure,
    span: Span,
    steps: &[Step],
) -> Result<String, ReadError> {
    Ok(hex(&Sha256::digest(structure.table(&without(medium, span, steps)?))))
}

/// Returns the ranges to watch, with the number of the partition: the beginning and the end of the space that each new
/// or growing partition gains.
fn to_watch(plan: &Plan) -> Vec<(u32, Span)> {
    let block = plan.block();
    let mut watched = Vec::new();
    for entry in &plan.table.partitions {
        let Some(span) = span_of(entry, block).filter(|_| entry.slot != Slot::Extended) else { continue };
        let from = match entry.change {
            Change::Kept | Change::Moved { .. } => continue,
            Change::New => span.start().get(),
            Change::Grown { from } => {
                span.start().get().saturating_add(from.get().saturating_mul(block.get()))
            }
        };
        let end = span.end().get();
        let head = (end.saturating_sub(from)).min(WATCHED.0);
        let tail = (end.saturating_sub(from) - head).min(WATCHED.1);
        let ranges = [(from, head), (end - tail, tail)].into_iter().filter(|(_, size)| *size > 0);
        let span = |(start, size)| Span::new(ByteOffset::new(start), ByteCount::new(size));
        watched.extend(ranges.filter_map(span).map(|span| (entry.number, span)));
    }
    watched
}

/// Returns the structures of the table that `stack` was read from, and of the one after `steps`. What is in a partition
/// is none, whatever a damaged header says.
fn structures_of(
    disk: &dyn Medium,
    stack: &Stack,
    block: BlockSize,
    steps: &[Step],
) -> Result<Vec<(Structure, Span)>, ReadError> {
    let mut found = structures(disk, stack, block)?;
    let after = After { medium: disk, steps };
    let stack = read_stack(&after, Some(block), None)?;
    for (structure, span) in structures(&after, &stack, block)? {
        if !found.contains(&(structure, span)) {
            found.push((structure, span));
        }
    }
    let is_of_gpt = |structure| matches!(structure, Structure::GptHeader | Structure::GptEntries);
    let is_in_a_partition = |span| stack.partitions.iter().any(|partition| partition.span.overlaps(span));
    found.retain(|(structure, span)| !(is_of_gpt(*structure) && is_in_a_partition(*span)));
    Ok(found)
}

impl BackupFile {
    /// The backup of what `steps` overwrite on `disk`.
    pub(super) fn of(subject: Subject, steps: &[Step], disk: &dyn Disk) -> Self {
        let Identity { serial, path, .. } = disk.identity();
        Self {
            version: VERSION,
            size: disk.len().get(),
            serial: serial.clone(),
            path: path.as_deref().map(shown),
            subject,
            sum: String::new(),
            steps: steps.to_vec(),
            table: Vec::new(),
            watched: Vec::new(),
            reverted: false,
        }
    }

    /// The same of the steps of `plan`, with checksums of the rest of the table that `stack` was read from, and of what the
    /// partitions that the plan makes or grows hold at first.
    pub(super) fn of_plan(
        plan: &Plan,
        stack: &Stack,
        steps: &[Step],
        disk: &dyn Disk,
    ) -> Result<Self, ReadError> {
        let mut backup = Self::of(Subject::Table, steps, disk);
        for (structure, at) in structures_of(disk, stack, plan.block(), steps)? {
            let sum = sum_beside(disk, structure, at, steps)?;
            backup.table.push(Beside { structure, at, sum });
        }
        for (partition, at) in to_watch(plan) {
            let sum = sum_without(disk, at, steps)?;
            backup.watched.push(Watched { partition, at, sum });
        }
        Ok(backup)
    }

    /// Stores the backup in a new file, or in place of one that was reverted. Returns when the file and its name are
    /// on stable storage. A file that could not be stored completely is removed.
    pub(super) fn store(mut self, path: &Path) -> Result<(), BackupError> {
        self.sum = self.sum_of_rest();
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        let text = serde_json::to_vec(&self).map_err(|error| failed(error.into()))?;
        let folder = folder_of(path);
        if Backup::load(path).is_ok_and(|former| former.is_reverted()) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        store_named(path, &text)
            .and_then(|stored| {
                // The file has its name, but a power cut may lose the name: then the backup does not count as
                // stored.
                File::open(folder).and_then(|folder| folder.sync_all()).inspect_err(|_| {
                    let _ = stored.remove(path);
                })
            })
            .map_err(failed)
    }
}

impl Backup {
    /// Loads a stored backup and checks its version and its checksum, which detects damage.
    ///
    /// The checksum is not a signature: anyone can make a file that has the right one. [`undo`](Self::undo)
    /// accepts such a file if it names the disk's size, and its serial number or its path, if every sector that it
    /// would restore holds one of the two contents that it gives for it, and if the rest of the table is as it says. It can then write any bytes to any place of
    /// that disk, partitions included: undo only from files of a trusted origin.
    pub fn load(path: &Path) -> Result<Self, BackupError> {
        let failed = |source: io::Error| BackupError::Load { path: path.to_owned(), source };
        let damaged = |why: String| BackupError::Damaged { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() || metadata.len() > MAX_BACKUP {
            return Err(damaged("not a regular file, or larger than any backup".to_owned()));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let backup: BackupFile = serde_json::from_slice(&text).map_err(|error| match error.classify() {
            // Nothing of it is one, as of a disk image.
            Category::Syntax if (error.line(), error.column()) <= (1, 1) => {
                damaged("it is not a backup written by straddle apply".to_owned())
            }
            _ => damaged(plan_of(&text).unwrap_or_else(|| error.to_string())),
        })?;
        if backup.version != VERSION {
            return Err(damaged(format!(
                "its version is {}, and this program reads {VERSION}",
                backup.version
            )));
        }
        if backup.sum != backup.sum_of_rest() {
            return Err(damaged("its checksum does not match its contents".to_owned()));
        }
        Ok(Self(backup))
    }

    /// Whether an undo has restored what it holds, so that another backup may take its place.
    pub fn is_reverted(&self) -> bool {
        self.0.reverted
    }

    /// Notes in the file at `path` that what it holds is restored.
    ///
    /// # Errors
    ///
    /// If it is not a backup, or cannot be replaced; it stays as it is then.
    pub fn retire(path: &Path) -> Result<(), BackupError> {
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        let path = &std::fs::canonicalize(path).map_err(failed)?;
        let Self(mut file) = Self::load(path)?;
        file.reverted = true;
        file.sum = file.sum_of_rest();
        let text = serde_json::to_vec(&file);
        let mut beside = path.as_os_str().to_owned();
        beside.push(".reverted");
        let text = text.map_err(|error| failed(error.into()))?;
        // Of an undo that was killed.
        let _ = std::fs::remove_file(&beside);
        let made = store_named(Path::new(&beside), &text).map_err(failed)?;
        std::fs::rename(&beside, path).map_err(|error| {
            let _ = made.remove(Path::new(&beside));
            failed(error)
        })
    }

    /// The path of the disk, if it is not that of `target` and no serial number shows that the two are one.
    pub fn elsewhere(&self, target: &Target<'_>) -> Option<&str> {
        let (path, identity) = (self.0.path.as_deref()?, target.identity());
        let is_known = identity.serial.is_some() && identity.serial == self.0.serial;
        let is_there = identity.path.as_deref().is_none_or(|here| shown(here) == path);
        (!is_known && !is_there).then_some(path)
    }

    /// The backup of a disk that was renamed since: it is not looked for at its path. Refuses another path than the one
    /// it had.
    pub fn renamed_from(mut self, path: &Path) -> Result<Self, ApplyError> {
        // The file may be gone, but not its folder.
        let folder = std::fs::canonicalize(folder_of(path)).ok();
        let here =
            folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name));
        match self.0.path.take() {
            Some(was) if was == shown(&here) || was == shown(path) => Ok(self),
            was => Err(ApplyError::OtherDisk(format!(
                "the backup is of {}, not of {}",
                was.as_deref().unwrap_or("a disk without a path"),
                here.display()
            ))),
        }
    }
}

/// What else the text is, if it is a plan.
fn plan_of(text: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let has = |key: &str| value.get(key).is_some();
    let what = match (has("moves"), has("extents"), has("boundaries")) {
        (true, _, _) => {
            "a move plan. To revert an unfinished move: straddle resume --rollback; a finished move cannot \
             be reverted"
        }
        (_, true, _) => "a copy plan; a copy leaves its source unchanged",
        (_, _, true) => "a plan. The backup is the .undo file that straddle apply wrote next to it",
        _ => return None,
    };
    Some(format!("it is {what}"))
}

impl BackupFile {
    fn sum_of_rest(&self) -> String {
        let Self { version, size, serial, path, subject, sum: _, steps, table, watched, reverted } = self;
        let rest = (version, size, serial, path, subject, steps, table, watched);
        // Only strings and numbers: serialising cannot fail.
        let mut rest = serde_json::to_vec(&rest).unwrap_or_default();
        rest.extend(reverted.then_some(&b"reverted"[..]).unwrap_or_default());
        hex(&Sha256::digest(rest))
    }

    /// The steps that were taken; `None` if the file contradicts itself.
    pub(super) fn steps(&self) -> Option<&[Step]> {
        let fits = |step: &Step| match step {
            Step::Flush => true,
            Step::Write { at, old, new, .. } => {
                let end = u64::try_from(old.len()).ok().and_then(|len| at.checked_add(len));
                old.len() == new.len() && end.is_some_and(|end| end <= self.size)
            }
        };
        self.steps.iter().all(fits).then_some(&self.steps)
    }
}
