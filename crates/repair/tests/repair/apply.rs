//! Failures between a plan and the written disk: each gives its error, and the disk is checked afterwards.
//! Steps that would be read as another table are in `tests/beside.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "apply/clones.rs"]
mod clones;
use crate::tests::common;

use std::io;
use std::path::{Path, PathBuf};

use common::{Memory, target};
use straddle_device::ioctl::IoctlError;
use straddle_device::{Medium, ReadError};
use straddle_repair::apply::{ApplyError, Backup, BackupError, LaterWrites, Prepared, Progress};
use straddle_repair::{Format, Identity, Part, Plan, PlanError, Request, Seed, Simulated, Size, Target};
use straddle_units::{ByteCount, ByteOffset, ErrorKind};

const SIZE: u64 = 64 << 20;

/// A fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Reads fail after the first write.
    Reads,
    /// Writes fail.
    Writes,
    /// Flushes fail.
    Flushes,
    /// Writes succeed but change nothing.
    Forgets,
    /// Another process has a partition open.
    Busy,
    /// The kernel does not read the table after the first write.
    Unread,
}

/// A disk in memory with a fault; it requires the backup at `undo` to exist before the first write.
struct Faulty {
    memory: Memory,
    fault: Fault,
    undo: PathBuf,
    is_written: bool,
}

impl Medium for Faulty {
    fn len(&self) -> ByteCount {
        self.memory.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        match self.fault {
            Fault::Reads if self.is_written => {
                Err(ReadError::Io { at, source: io::Error::other("a bad sector") })
            }
            _ => self.memory.read_at(at, buf),
        }
    }
}

impl Simulated for Faulty {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        Backup::load(&self.undo).expect("the backup is whole before the first write");
        self.is_written = true;
        match self.fault {
            Fault::Writes => return Err(io::Error::other("a bad sector")),
            Fault::Forgets => {}
            _ => self.memory.put(at.get(), bytes),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.fault == Fault::Flushes { Err(io::Error::other("a bad cache")) } else { Ok(()) }
    }

    fn reread_table(&self) -> Option<Result<(), IoctlError>> {
        let error = |kind: io::ErrorKind| IoctlError::Os { what: "BLKRRPART", source: kind.into() };
        Some(match self.fault {
            Fault::Busy => Err(error(io::ErrorKind::ResourceBusy)),
            Fault::Unread if self.is_written => Err(error(io::ErrorKind::InvalidInput)),
            _ => Ok(()),
        })
    }
}

fn plan_of(memory: &Memory) -> Plan {
    let mut request = Request::new(Seed(1));
    request.table = Some(Format::Gpt);
    request.parts = vec![Part::new(Size::Rest)];
    common::plan(memory, "512e", &request).unwrap()
}

/// Applies `plan` to a blank disk of `size` bytes with this fault, and has the kernel read it; returns the
/// disk too.
fn apply(folder: &Path, plan: &Plan, size: u64, fault: Fault) -> (Result<(), ApplyError>, Faulty) {
    let undo = folder.join("undo");
    let mut disk = Faulty { memory: Memory::new(size), fault, undo: undo.clone(), is_written: false };
    let identity = Identity { kernel_name: Some("no-such-disk".to_owned()), ..Identity::default() };
    let done = Prepared::of(&mut Target::simulated(&mut disk, identity), plan)
        .and_then(|prepared| prepared.back_up(&undo)?.write()?.tell_kernel());
    (done, disk)
}

#[test]
fn every_failure_has_its_error() {
    let plan = plan_of(&Memory::new(SIZE));
    let keep = |json: &mut serde_json::Value| json["table"]["partitions"][0]["change"] = "kept".into();
    let kept = common::edited(&plan, keep).unwrap();
    type Is = fn(&ApplyError) -> bool;
    let cases: [(&Plan, u64, Fault, Is, ErrorKind); 9] = [
        (&plan, SIZE * 2, Fault::None, |e| matches!(e, ApplyError::OtherDisk(_)), ErrorKind::Refused),
        (
            &kept,
            SIZE,
            Fault::None,
            |e| matches!(e, ApplyError::Plan(PlanError::Invalid(_))),
            ErrorKind::Failed,
        ),
        (&plan, SIZE, Fault::Reads, |e| matches!(e, ApplyError::Read(_)), ErrorKind::Failed),
        (&plan, SIZE, Fault::Busy, |e| matches!(e, ApplyError::InUse(_)), ErrorKind::Refused),
        (&plan, SIZE, Fault::Writes, |e| matches!(e, ApplyError::Write { .. }), ErrorKind::Failed),
        (&plan, SIZE, Fault::Flushes, |e| matches!(e, ApplyError::Flush { .. }), ErrorKind::Failed),
        (&plan, SIZE, Fault::Forgets, |e| matches!(e, ApplyError::Differs { .. }), ErrorKind::Failed),
        // There is no such disk, so the kernel does not list the table's partition.
        (&plan, SIZE, Fault::None, |e| matches!(e, ApplyError::Kernel(_)), ErrorKind::Failed),
        (&plan, SIZE, Fault::Unread, |e| matches!(e, ApplyError::Kernel(_)), ErrorKind::Failed),
    ];
    for (plan, size, fault, is_it, kind) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (done, disk) = apply(folder.path(), plan, size, fault);
        let error = done.unwrap_err();
        assert!(is_it(&error) && error.kind() == kind, "{fault:?}: {error:?}");
        let before_writing = kind == ErrorKind::Refused || matches!(error, ApplyError::Plan(_));
        assert!(!(before_writing && disk.is_written), "{fault:?}: {error:?} comes before the first write");
        assert_eq!(
            folder.path().join("undo").exists(),
            disk.is_written,
            "{fault:?}: a backup where it is needed"
        );
    }
}

#[test]
fn without_a_backup_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&Memory::new(SIZE));
    std::fs::write(folder.path().join("undo"), "somebody's file").unwrap();
    let (done, disk) = apply(folder.path(), &plan, SIZE, Fault::None);
    assert!(matches!(done, Err(ApplyError::Backup(BackupError::Store { .. }))), "{done:?}");
    assert!(!disk.is_written);
    assert_eq!(disk.memory, Memory::new(SIZE));
    // Nor in place of a backup that says that it was reverted, and whose sum does not.
    std::fs::remove_file(folder.path().join("undo")).unwrap();
    assert!(apply(folder.path(), &plan, SIZE, Fault::None).1.is_written);
    let text = std::fs::read_to_string(folder.path().join("undo")).unwrap();
    let odd = text.strip_suffix('}').unwrap().to_owned() + ",\"reverted\":true}";
    std::fs::write(folder.path().join("undo"), &odd).unwrap();
    let (done, disk) = apply(folder.path(), &plan, SIZE, Fault::None);
    assert!(matches!(done, Err(ApplyError::Backup(BackupError::Store { .. }))), "{done:?}");
    assert!(!disk.is_written && std::fs::read_to_string(folder.path().join("undo")).unwrap() == odd);
    std::fs::write(folder.path().join("undo"), text).unwrap();
    Backup::retire(&folder.path().join("undo")).unwrap();
    assert!(apply(folder.path(), &plan, SIZE, Fault::None).1.is_written);
}

/// An undo starts differently, but then follows the same rules.
#[test]
fn an_undo_is_refused_where_data_would_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&Memory::new(SIZE));
    let (done, mut disk) = apply(folder.path(), &plan, SIZE, Fault::None);
    assert!(
        matches!(done, Err(ApplyError::Kernel(_))),
        "all but the kernel's list of no such disk: {done:?}"
    );
    let backup = Backup::load(&disk.undo).unwrap();
    assert_eq!(backup.progress(&target(&mut disk)).unwrap(), Progress::Whole);
    let start = plan.span(&plan.table.partitions[0]).unwrap().start();
    disk.memory.put(start.get(), &[7; 512]);
    let written = disk.memory.clone();
    let refused =
        |disk: &mut Faulty, later: LaterWrites| backup.undo(&mut target(disk), later).map(drop).unwrap_err();
    let error = refused(&mut disk, LaterWrites::Refuse);
    assert!(matches!(error, ApplyError::WrittenSince { partition: 1, .. }), "{error:?}");
    disk.fault = Fault::Busy;
    let error = refused(&mut disk, LaterWrites::Discard);
    assert!(matches!(error, ApplyError::InUse(_)), "{error:?}");
    assert_eq!(disk.memory, written);
    disk.fault = Fault::None;
    backup.undo(&mut target(&mut disk), LaterWrites::Discard).unwrap().write().unwrap();
    assert_eq!(backup.progress(&target(&mut disk)).unwrap(), Progress::Nothing);
}

/// A program that takes no locks writes between the stages.
#[test]
fn what_changed_since_the_backup_is_not_overwritten() {
    let plan = plan_of(&Memory::new(SIZE));
    for stage in ["prepared", "backed up"] {
        let folder = tempfile::tempdir().unwrap();
        let other = std::sync::Mutex::new(Memory::new(SIZE));
        let mut shared = Shared(&other);
        let mut disk = target(&mut shared);
        let mut prepared = Some(Prepared::of(&mut disk, &plan).unwrap());
        if stage == "prepared" {
            other.lock().unwrap().put(512, &[7; 512]);
        }
        let backed_up = prepared.take().unwrap().back_up(&folder.path().join("undo")).unwrap();
        if stage == "backed up" {
            other.lock().unwrap().put(512, &[7; 512]);
        }
        let before = other.lock().unwrap().clone();
        let refused = backed_up.write().map(drop).unwrap_err();
        assert!(matches!(refused, ApplyError::InUse(_)), "{stage}: {refused}");
        assert_eq!(*other.lock().unwrap(), before, "{stage}");
    }
}

/// A disk that another program writes to as well.
struct Shared<'m>(&'m std::sync::Mutex<Memory>);

impl Medium for Shared<'_> {
    fn len(&self) -> ByteCount {
        self.0.lock().unwrap().len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.lock().unwrap().read_at(at, buf)
    }
}

impl Simulated for Shared<'_> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().put(at.get(), bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
