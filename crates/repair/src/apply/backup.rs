//! The backup file: the previous contents of every byte that is overwritten.
//!
//! Invariants: a backup is synchronised before it is reported as stored, replaces no file but a reverted backup, and
//! is used only if its checksum is right. It also has checksums of the rest of the table, to recognise the disk, and
//! of both ends of new partitions, to detect later writes.

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
use straddle_units::{BlockSize, ByteCount, Span};

use super::ApplyError;
use crate::encode::{Step, writes};
use crate::fingerprint::{Structure, bytes_of, structures};
use crate::foresee::{After, lay_over};
use crate::plan::{Change, Plan, Slot};
use crate::target::{Disk, Identity, Target};

const VERSION: u32 = 5;
/// A power cut leaves each unit of this many bytes either old or new, never mixed.
pub(super) const UNIT: usize = 512;
/// At the beginning and at the end of a new partition.
pub(super) const WATCHED: (ByteCount, ByteCount) = (ByteCount::new(1 << 20), ByteCount::new(64 << 10));
/// Upper bound of a backup's size: tables, plus a wipe of 68 KiB for each of 1024 partitions, at two
/// hexadecimal digits per byte, old and new.
const MAX_BACKUP: u64 = 512 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Subject {
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
    #[error("{}: cannot be used as a backup: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

straddle_units::error_kind!(BackupError: Failed);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watched {
    pub(super) partition: u32,
    pub(super) at: Span,
    /// SHA-256 of the range, with the bytes that the steps write taken as zero.
    pub(super) sum: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    pub(super) structure: Structure,
    pub(super) at: Span,
    /// SHA-256 of the part that makes up the table, with the bytes that the steps write taken as zero.
    pub(super) sum: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupFile {
    version: u32,
    pub(super) size: u64,
    pub(super) serial: Option<String>,
    /// Without links; of a loop device that of its file.
    pub(super) path: Option<String>,
    pub(super) subject: Subject,
    /// SHA-256 of the JSON of everything else.
    sum: String,
    steps: Vec<Step>,
    /// Only in a backup of a table.
    pub(super) table: Vec<Beside>,
    pub(super) watched: Vec<Watched>,
    /// Whether an undo has restored the contents: nothing needs the file any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reverted: bool,
}

/// A backup loaded from its file: what a plan overwrote, and on which disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Backup(pub(super) BackupFile);

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file that only its owner can read, durably with its name, and fills it. A file that could not be
/// filled is removed: it would block the next attempt.
pub(crate) fn create_durably(path: &Path, fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let folder = || File::open(folder_of(path))?.sync_all();
    fill(&file).and_then(|()| file.sync_all()).and_then(|()| folder()).inspect_err(|_| {
        let _ = FileId::remove_open(&file, path);
    })?;
    Ok(file)
}

fn shown(path: &Path) -> String {
    path.to_str()
        .map_or_else(|| path.as_os_str().as_encoded_bytes().escape_ascii().to_string(), str::to_owned)
}

/// The SHA-256 of the bytes in `span`, with those that `steps` write taken as zero; of a `structure`, only
/// the part that makes up the table.
pub(super) fn sum_without(
    medium: &dyn Medium,
    span: Span,
    structure: Option<Structure>,
    steps: &[Step],
) -> Result<String, ReadError> {
    let mut bytes = bytes_of(medium, span)?;
    for (at, _, new, _) in writes(steps) {
        lay_over(&mut bytes, span.start().get(), &vec![0; new.len()], at);
    }
    let summed = structure.map_or(&bytes[..], |structure| structure.table(&bytes));
    Ok(hex(&Sha256::digest(summed)))
}

fn to_watch(plan: &Plan) -> Vec<(u32, Span)> {
    let mut watched = Vec::new();
    for entry in plan.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended) {
        let from = match entry.change {
            Change::Kept | Change::Moved { .. } => continue,
            Change::New => entry.start,
            Change::Grown { from } => entry.start.saturating_add(from),
        };
        let from = from.byte(plan.block());
        let Some(gained) = plan.span(entry).and_then(|span| Span::between(from, span.end())) else {
            continue;
        };
        let head = gained.len().min(WATCHED.0);
        let tail = gained.len().saturating_sub(head).min(WATCHED.1);
        let tail = gained.end().checked_back(tail).and_then(|start| Span::new(start, tail));
        let ranges = Span::new(from, head).into_iter().chain(tail).filter(|range| !range.is_empty());
        watched.extend(ranges.map(|range| (entry.number, range)));
    }
    watched
}

/// Of the present table and of the one after `steps`. A header that puts one in a partition is damaged.
fn structures_of(
    disk: &dyn Medium,
    stack: &Stack,
    block: BlockSize,
    steps: &[Step],
) -> Result<Vec<(Structure, Span)>, ReadError> {
    let mut found = structures(disk, stack, block)?;
    let after = After { medium: disk, steps };
    let stack = read_stack(&after, Some(block), None)?;
    let mut later = structures(&after, &stack, block)?;
    later.retain(|one| !found.contains(one));
    found.append(&mut later);
    let is_of_gpt = |structure| matches!(structure, Structure::GptHeader | Structure::GptEntries);
    let is_in_a_partition = |span| stack.partitions.iter().any(|partition| partition.span.overlaps(span));
    found.retain(|(structure, span)| !(is_of_gpt(*structure) && is_in_a_partition(*span)));
    Ok(found)
}

impl BackupFile {
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

    pub(super) fn of_plan(
        plan: &Plan,
        stack: &Stack,
        steps: &[Step],
        disk: &dyn Disk,
    ) -> Result<Self, ReadError> {
        let mut backup = Self::of(Subject::Table, steps, disk);
        for (structure, at) in structures_of(disk, stack, plan.block(), steps)? {
            let sum = sum_without(disk, at, Some(structure), steps)?;
            backup.table.push(Beside { structure, at, sum });
        }
        for (partition, at) in to_watch(plan) {
            let sum = sum_without(disk, at, None, steps)?;
            backup.watched.push(Watched { partition, at, sum });
        }
        Ok(backup)
    }

    pub(super) fn store(mut self, path: &Path) -> Result<(), BackupError> {
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        if Backup::load(path).is_ok_and(|former| former.is_reverted()) {
            std::fs::remove_file(path).map_err(failed)?;
        }
        self.write_to(path).map_err(failed)
    }

    fn write_to(&mut self, path: &Path) -> io::Result<()> {
        self.sum = self.sum_of_rest();
        let text = serde_json::to_vec(self)?;
        create_durably(path, |mut file| file.write_all(&text)).map(drop)
    }
}

impl Backup {
    /// Loads a stored backup and checks its version and its checksum, which detects damage.
    ///
    /// The checksum is not a signature. [`undo`](Self::undo) accepts a file made by hand if it names the
    /// disk's size, and its serial number or its path, if every sector that it would restore holds one of the
    /// two contents that it gives for it, and if the rest of the table is as it says. It can then write any
    /// bytes to any place of that disk, partitions included: undo only from files of a trusted origin.
    pub fn load(path: &Path) -> Result<Self, BackupError> {
        let failed = |source: io::Error| BackupError::Load { path: path.to_owned(), source };
        let damaged = |why: String| BackupError::Damaged { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() || metadata.len() > MAX_BACKUP {
            return Err(damaged("the file is not a regular file, or is too large to be a backup".to_owned()));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let backup: BackupFile = serde_json::from_slice(&text).map_err(|error| match error.classify() {
            // It has no JSON at all, such as a disk image.
            Category::Syntax if (error.line(), error.column()) <= (1, 1) => {
                damaged("the file is not a backup written by 'straddle apply'".to_owned())
            }
            _ => damaged(plan_of(&text).unwrap_or_else(|| error.to_string())),
        })?;
        if backup.version != VERSION {
            return Err(damaged(format!(
                "the backup has version {}, but this version of straddle reads only version {VERSION}",
                backup.version
            )));
        }
        if backup.sum != backup.sum_of_rest() {
            return Err(damaged("the checksum of the backup does not match its contents".to_owned()));
        }
        Ok(Self(backup))
    }

    /// Whether an undo has restored the contents.
    pub fn is_reverted(&self) -> bool {
        self.0.reverted
    }

    /// Records in the file at `path` that an undo has restored what it holds.
    ///
    /// # Errors
    ///
    /// If it is not a backup, or cannot be replaced; it stays as it is then.
    pub fn retire(path: &Path) -> Result<(), BackupError> {
        let failed = |source: io::Error| BackupError::Store { path: path.to_owned(), source };
        let path = &std::fs::canonicalize(path).map_err(failed)?;
        let Self(mut file) = Self::load(path)?;
        file.reverted = true;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".reverted");
        // Left by an undo that was killed.
        let _ = std::fs::remove_file(&beside);
        file.write_to(beside.as_ref()).and_then(|()| std::fs::rename(&beside, path)).map_err(failed)
    }

    /// The path of the disk, if it differs from that of `target` and no serial number identifies the disk.
    pub fn elsewhere(&self, target: &Target<'_>) -> Option<&str> {
        let (path, identity) = (self.0.path.as_deref()?, target.identity());
        let is_known = identity.serial.is_some() && identity.serial == self.0.serial;
        let is_there = identity.path.as_deref().is_none_or(|here| shown(here) == path);
        (!is_known && !is_there).then_some(path)
    }

    /// The same backup for a disk that was renamed since. Refuses a `path` that it did not have.
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

fn plan_of(text: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let has = |key: &str| value.get(key).is_some();
    let what = match (has("moves"), has("extents"), has("boundaries")) {
        (true, _, _) => {
            "a move plan. To revert an unfinished move, use 'straddle resume --rollback'; a finished move \
             cannot be reverted"
        }
        (_, true, _) => "a copy plan, and a copy leaves its source unchanged",
        (_, _, true) => "a plan. The backup is the .undo file that 'straddle apply' wrote next to the plan",
        _ => return None,
    };
    Some(format!("it is {what}"))
}

pub(super) fn contradicts() -> ApplyError {
    ApplyError::OtherDisk("the backup is inconsistent".to_owned())
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

    /// The steps that were taken; refuses a file that names places outside its disk, or of impossible sizes.
    pub(super) fn steps(&self) -> Result<&[Step], ApplyError> {
        let fits = |(at, old, new, _): (u64, &[u8], &[u8], &str)| {
            let end = at.checked_add(old.len() as u64);
            old.len() == new.len() && end.is_some_and(|end| end <= self.size)
        };
        if writes(&self.steps).all(fits) { Ok(&self.steps) } else { Err(contradicts()) }
    }
}
