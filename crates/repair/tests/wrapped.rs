//! Power cuts while a file system that fills a disk gets a partition: after any of them, and after others
//! during the recovery, the disk is the old one, or has the table with all data, or has the marker.
//!
//! The drive is that of `carry.rs`: any subset of the 512-byte units written since the last flush may be on
//! the medium. `WRAPS=n` sets the number of cuts for each shape.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io;
use std::ops::ControlFlow;

use common::power::Survivor;
use common::{Cut, Memory, Random, stack_of, target, topology};
use straddle_device::{Medium, ReadError};
use straddle_layout::{Content, FsKind, TableKind, read_all};
use straddle_relocate::State;
use straddle_repair::realign::{
    JournalPlace, MoveError, Outcome, Realign, RealignError, Reference, Run, Wanted, Wrap, make, wrap,
};
use straddle_repair::{Format, Request, Seed, Simulated, Situation};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, MIB, Span};

/// What fills the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Swap,
    /// With a copy of the boot sector behind it, and another in the disk's last sector.
    Ntfs,
}

/// The start of swap of so many bytes.
fn swap_head(len: u64) -> Vec<u8> {
    let mut head = vec![0; 4096];
    head[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    head[1028..1032].copy_from_slice(&u32::try_from(len / 4096 - 1).unwrap().to_le_bytes());
    head[4086..].copy_from_slice(b"SWAPSPACE2");
    head
}

/// The boot sector of an NTFS of so many bytes.
fn boot_sector(len: u64) -> Vec<u8> {
    let mut boot = vec![0; 512];
    boot[..3].copy_from_slice(&[0xEB, 0x52, 0x90]);
    boot[3..11].copy_from_slice(b"NTFS    ");
    boot[0x0B..0x0D].copy_from_slice(&512_u16.to_le_bytes());
    boot[0x0D] = 8;
    boot[0x28..0x30].copy_from_slice(&(len / 512).to_le_bytes());
    boot[0x30..0x38].copy_from_slice(&4_u64.to_le_bytes());
    boot[0x38..0x40].copy_from_slice(&20_u64.to_le_bytes());
    boot[0x40] = 0xF6;
    boot[510..].copy_from_slice(&[0x55, 0xAA]);
    boot
}

/// A disk that is filled, and the plan to put a partition around what fills it.
#[derive(Clone)]
struct Shape {
    format: Format,
    before: Memory,
    used: u64,
    realign: Realign,
}

fn realign_of(disk: &Memory, format: Format) -> Result<Realign, RealignError> {
    realign_over(disk, format, false)
}

fn realign_over(disk: &Memory, format: Format, wipe: bool) -> Result<Realign, RealignError> {
    let stack = read_all(disk, Some(BlockSize::B512), None).unwrap();
    let topology = topology("512e");
    let situation = Situation { medium: disk, topology: &topology, stack: &stack, serial: None };
    wrap(&situation, &Wrap { format, grain: None, seed: Seed(7), wipe })
}

fn filled(filling: Filling, disk: u64, len: u64) -> (Memory, u64) {
    let mut before = Memory::new(disk);
    let mut random = Random::new(disk);
    let bytes: Vec<u8> = (0..len / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    before.put(0, &bytes);
    // As after mkfs, there is nothing else at the start that is recognised.
    before.put(0, &vec![0; 72 << 10]);
    before.put(96 << 10, &bytes[..4096]);
    match filling {
        Filling::Swap => {
            before.put(0, &swap_head(len));
            (before, len)
        }
        Filling::Ntfs => {
            let boot = boot_sector(len);
            for at in [0, len, disk - 512] {
                before.put(at, &boot);
            }
            // The record of the volume, which libblkid wants to see.
            let mut record = vec![0; 512];
            record[..4].copy_from_slice(b"FILE");
            before.put(4 * 4096, &record);
            before.put(4 * 4096 + 3 * 1024, &record);
            (before, len + 512)
        }
    }
}

impl Shape {
    fn new(filling: Filling, format: Format, disk: u64, len: u64) -> Self {
        let (before, used) = filled(filling, disk, len);
        let realign = realign_of(&before, format).unwrap();
        Self { format, before, used, realign }
    }

    fn bytes(medium: &Memory, start: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        medium.read_at(ByteOffset::new(start), &mut bytes).unwrap();
        bytes
    }

    /// The contents as they are to be in the partition at 1 MiB: with the start that it records.
    fn contents(&self) -> Vec<u8> {
        let mut bytes = Self::bytes(&self.before, 0, self.used);
        for (_, reference) in self.realign.references() {
            let Reference::BootSector { copies, .. } = reference else { continue };
            for at in copies.iter().map(|at| usize::try_from(at.get()).unwrap()).chain([0]) {
                bytes[at + 28..at + 32].copy_from_slice(&2048_u32.to_le_bytes());
            }
        }
        bytes
    }

    /// While it is marked, nothing on the disk is recognised as a whole, and no partition is.
    fn check_marked(medium: &Memory, what: &str) {
        let stack = stack_of(medium, BlockSize::B512);
        assert_eq!(stack.kind, TableKind::Mbr, "{what}");
        assert_eq!(stack.partitions.len(), 1, "{what}");
        assert_eq!(stack.partitions[0].content, None, "{what}");
    }
}

impl Survivor for Shape {
    fn before(&self) -> &Memory {
        &self.before
    }

    fn realign(&self) -> &Realign {
        &self.realign
    }

    /// Before the marker is there, the journal is found by a search; the disk is as it was.
    fn check_unfinished(&self, medium: &Memory, state: Result<State, MoveError>, what: &str) {
        if matches!(state, Ok(State::Moving { .. } | State::RollingBack)) {
            Self::check_marked(medium, what);
        }
    }

    /// Whether there is a table with the contents in its partition; otherwise the disk must be the old one.
    fn is_new(&self, medium: &Memory, what: &str) -> bool {
        let stack = stack_of(medium, BlockSize::B512);
        if matches!(stack.kind, TableKind::Content(_)) {
            let same = Self::bytes(medium, 0, self.used) == Self::bytes(&self.before, 0, self.used);
            assert!(same, "{what}: the old contents are lost");
            return false;
        }
        let starts: Vec<u64> = stack.partitions.iter().map(|p| p.span.start().get()).collect();
        assert_eq!(starts, [MIB], "{what}: {stack:?}");
        assert!(Self::bytes(medium, MIB, self.used) == self.contents(), "{what}: the contents are lost");
        true
    }

    /// Checks a disk that does not change any more; the old one can be wrapped again.
    fn settled(&self, medium: Memory, what: &str) -> bool {
        let is_new = self.is_new(&medium, what);
        if !is_new {
            // The journal was in bytes that hold nothing, but may count for the disk's fingerprint.
            // A cut may have left data on their way in space that was empty.
            let again = Self { realign: realign_over(&medium, self.format, true).unwrap(), ..self.clone() };
            let mut drive = Cut::new(medium, u64::MAX);
            let done = again.begin_and_finish(&mut drive);
            assert!(matches!(done, Ok(Outcome::Complete(_))), "{what}, again: {done:?}");
            assert!(self.is_new(&drive.seen, what), "{what}, again");
        }
        is_new
    }
}

fn try_shape(filling: Filling, format: Format, disk: u64, len: u64) {
    let shape = Shape::new(filling, format, disk, len);
    shape.try_cuts::<Cut>(&format!("{format} round {filling:?}"), "WRAPS", 16);
}

#[test]
fn a_gpt_round_swap_survives_power_cuts() {
    try_shape(Filling::Swap, Format::Gpt, 12 * MIB, 2 * MIB);
}

#[test]
fn an_mbr_round_ntfs_survives_power_cuts() {
    try_shape(Filling::Ntfs, Format::Mbr, 12 * MIB, 3 * MIB);
}

#[test]
fn a_gpt_round_ntfs_survives_power_cuts() {
    try_shape(Filling::Ntfs, Format::Gpt, 12 * MIB, MIB + 73 * 4096);
}

/// A rollback brings back every byte of the file system, and the bytes behind it that the table takes.
#[test]
fn a_stopped_wrap_goes_back() {
    let shape = Shape::new(Filling::Ntfs, Format::Gpt, 12 * MIB, 3 * MIB);
    let mut drive = Cut::new(shape.before.clone(), u64::MAX);
    {
        let mut disk = target(&mut drive);
        let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [1; 16]).unwrap();
        assert_eq!(run.finish(&mut |_| ControlFlow::Break(())).unwrap(), Outcome::Paused);
    }
    Shape::check_marked(&drive.seen, "stopped");
    let again = shape.begin_and_finish(&mut drive).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Refused, "{again}");
    let mut disk = target(&mut drive);
    let run = Run::find(&mut disk, None).unwrap();
    assert!(matches!(run.roll_back(&mut |_| ControlFlow::Continue(())), Ok(Outcome::Complete(_))));
    drop(disk);
    assert!(!shape.is_new(&drive.seen, "back"));
    let (end, len) = (12 * MIB - 33 * 512, 33 * 512);
    assert!(Shape::bytes(&drive.seen, end, len) == Shape::bytes(&shape.before, end, len));
}

/// The old start over the marker makes it look as if nothing had happened.
#[test]
fn the_old_start_over_a_stopped_wrap_is_noticed() {
    let shape = Shape::new(Filling::Swap, Format::Gpt, 12 * MIB, 3 * MIB);
    for goes_back in [false, true] {
        let mut drive = Cut::new(shape.before.clone(), u64::MAX);
        {
            let mut disk = target(&mut drive);
            let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [1; 16]).unwrap();
            run.finish(&mut |_| ControlFlow::Break(())).unwrap();
        }
        drive.seen.put(0, &Shape::bytes(&shape.before, 0, 4096));
        let stack = stack_of(&drive.seen, BlockSize::B512);
        assert!(straddle_repair::realign::displaced(&drive.seen, &stack).is_some());
        let folder = tempfile::tempdir().unwrap();
        let mut disk = target(&mut drive);
        let mut run = Run::search(&mut disk, None).unwrap();
        assert!(run.restore_table(&folder.path().join("start")).unwrap());
        let on = &mut |_| ControlFlow::Continue(());
        let ended = if goes_back { run.roll_back(on) } else { run.finish(on) };
        assert!(matches!(ended, Ok(Outcome::Complete(_))), "{ended:?}");
        drop(disk);
        assert_eq!(shape.is_new(&drive.seen, "restored"), !goes_back);
    }
}

/// A file system that was mounted while only the marker was written is not overwritten with its older self.
#[test]
fn what_was_written_meanwhile_is_refused() {
    let shape = Shape::new(Filling::Swap, Format::Gpt, 12 * MIB, 2 * MIB);
    let mut drive = Cut::new(shape.before.clone(), u64::MAX);
    {
        let mut disk = target(&mut drive);
        let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [1; 16]).unwrap();
        run.finish(&mut |_| ControlFlow::Break(())).unwrap();
    }
    drive.seen.put(4096, &[1; 512]);
    let before = drive.seen.clone();
    let mut disk = target(&mut drive);
    let refused = Run::find(&mut disk, None).unwrap().finish(&mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(MoveError::Changed(_) | MoveError::OtherTable)), "{refused:?}");
    drop(disk);
    assert_eq!(drive.seen, before);
}

#[test]
fn what_cannot_be_wrapped_is_refused() {
    // No slack: the command shrinks it to what the partition holds, up to a multiple of 4096 bytes.
    let (full, _) = filled(Filling::Swap, 12 * MIB, 12 * MIB);
    let refused = realign_of(&full, Format::Gpt).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    let RealignError::WrapRoom { missing, shrink } = refused else { panic!("{refused}") };
    assert_eq!((missing.get(), shrink.to.get()), (MIB + 5 * 4096, 11 * MIB - 5 * 4096));
    assert_eq!(shrink.content, Some(Content::FileSystem(FsKind::Swap)));
    // One byte less than that is enough, and there is no room for the journal then.
    let (tight, _) = filled(Filling::Swap, 12 * MIB, 11 * MIB - 9 * 4096);
    assert!(matches!(
        realign_of(&tight, Format::Gpt).unwrap().journal(),
        straddle_repair::realign::Journal::Elsewhere { .. }
    ));
    // A disk with nothing on it, and one with a table.
    for format in [None, Some(Format::Gpt)] {
        let mut disk = Memory::new(12 * MIB);
        if let Some(format) = format {
            let mut request = Request::new(Seed(1));
            request.table = Some(format);
            common::plan_and_write(&mut disk, "512e", &request).unwrap();
        }
        assert!(matches!(realign_of(&disk, Format::Gpt), Err(RealignError::NotWhole(_))));
    }
    // What fills a disk is not realigned without being asked.
    let (disk, _) = filled(Filling::Swap, 12 * MIB, 2 * MIB);
    let stack = read_all(&disk, Some(BlockSize::B512), None).unwrap();
    let topology = topology("512e");
    let situation = Situation { medium: &disk, topology: &topology, stack: &stack, serial: None };
    assert!(make(&situation, &Wanted::default()).is_err());
}

/// A stored plan is checked as a new one is.
#[test]
fn a_stored_plan_that_contradicts_itself_is_refused() {
    let shape = Shape::new(Filling::Swap, Format::Gpt, 12 * MIB, 2 * MIB);
    let json = shape.realign.to_json().unwrap();
    assert_eq!(Realign::from_json(&json).unwrap(), shape.realign);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let broken: [(&str, serde_json::Value); 5] = [
        ("/moves/0/2", (2 * MIB).into()),
        ("/moves/0/0", 0.into()),
        ("/plan/table/partitions/0/start", 2049.into()),
        ("/plan/wipe", serde_json::Value::Array(Vec::new())),
        ("/journal/inside/start", MIB.into()),
    ];
    for (path, new) in broken {
        let mut value = value.clone();
        *value.pointer_mut(path).unwrap() = new;
        assert!(Realign::from_json(&value.to_string()).is_err(), "{path}");
    }
    assert!(Span::first(ByteCount::new(shape.before.len)).contains(shape.realign.moves()[0].from));
}

/// The last physical sector of the partition is its own.
#[test]
fn the_partition_ends_on_a_physical_sector() {
    for format in [Format::Gpt, Format::Mbr] {
        let (disk, _) = filled(Filling::Swap, 16 * MIB + 512, 8 * MIB);
        let realign = realign_of(&disk, format).unwrap();
        let entry = &realign.plan().table().partitions[0];
        assert_eq!((entry.start.get() + entry.sectors.get()) % 8, 0, "{format}: {entry:?}");
    }
}

/// A drive whose power fails in a short write to one physical sector, of which nothing is left.
struct Tearing {
    medium: Memory,
    block: u64,
    is_off: bool,
}

impl Medium for Tearing {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.medium.read_at(at, buf)
    }
}

impl Simulated for Tearing {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        let is_block = (self.block..self.block + 4096).contains(&at.get()) && bytes.len() == 512;
        if is_block && !self.is_off {
            self.medium.put(self.block, &[0xDB; 4096]);
            self.is_off = true;
        }
        if self.is_off { Err(io::Error::other("the power is off")) } else { self.medium.write_at(at, bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }
}

#[test]
fn what_is_beside_the_copy_of_a_boot_sector_survives_a_torn_physical_sector() {
    let shape = Shape::new(Filling::Ntfs, Format::Mbr, 12 * MIB, 3 * MIB);
    for goes_back in [false, true] {
        let block = (MIB + shape.used - 512) / 4096 * 4096;
        let mut drive = Tearing { medium: shape.before.clone(), block, is_off: false };
        let mut disk = target(&mut drive);
        let run = shape.realign.begin(&mut disk, JournalPlace::Inside, [9; 16]).unwrap();
        assert!(run.finish(&mut |_| ControlFlow::Continue(())).is_err());
        drop(disk);
        assert!(drive.is_off);
        let mut drive = Cut::new(drive.medium, u64::MAX);
        let mut disk = target(&mut drive);
        let run = Run::find(&mut disk, None).unwrap();
        let watch = &mut |_| ControlFlow::Continue(());
        let ended = if goes_back { run.roll_back(watch) } else { run.finish(watch) };
        assert!(matches!(ended, Ok(Outcome::Complete(_))), "{ended:?}");
        drop(disk);
        assert_eq!(shape.is_new(&drive.seen, "torn"), !goes_back);
    }
}
