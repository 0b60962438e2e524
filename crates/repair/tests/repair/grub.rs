//! GRUB whose core image is in a partition that moves: real images of GRUB, which QEMU boots before and after
//! the move. The power is cut after every write, and the move is resumed or rolled back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use common::{Memory, plan_and_write, stack_of, target, topology};
use skip::{PATH, present, skipped};
use straddle_device::{Medium, ReadError};
use straddle_repair::realign::{
    Journal, JournalPlace, MoveError, Outcome, Realign, Reference, Run, Wanted, make,
};
use straddle_repair::{Format, Part, Place, Request, Seed, Simulated, Situation, Size};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind};

const IMAGES: &str = "/usr/lib/grub/i386-pc";
const SECTOR: usize = 512;
/// The disk's size in sectors.
const SECTORS: u64 = 16 * 2048;
/// What the core image prints.
const SAYS: &str = "STRADDLE-CORE-RAN";

/// GRUB's boot image, and a core image that prints [`SAYS`] and turns the machine off.
struct Images {
    boot: Vec<u8>,
    core: Vec<u8>,
}

impl Images {
    fn new(folder: &Path) -> Option<Self> {
        if !present(&["grub-mkimage", "timeout", "qemu-system-x86_64"]) {
            return None;
        }
        let Ok(boot) = fs::read(Path::new(IMAGES).join("boot.img")) else {
            skipped("grub-pc-bin is not installed");
            return None;
        };
        let (config, core) = (folder.join("early.cfg"), folder.join("core.img"));
        fs::write(&config, format!("serial\nterminal_output serial\necho {SAYS}\nhalt\n")).unwrap();
        let mut mkimage = Command::new("grub-mkimage");
        mkimage.args(["-O", "i386-pc", "-p", "/boot", "-c"]).arg(config).arg("-o").arg(&core);
        mkimage.args(["serial", "terminal", "echo", "halt", "biosdisk"]).env("PATH", PATH);
        assert!(mkimage.status().unwrap().success());
        Some(Self { boot, core: fs::read(core).unwrap() })
    }

    /// Installs the images as util/setup.c of GRUB does: the boot image in sector `boot`, and the core image
    /// in pieces of so many sectors (the last of any size), each at a sector.
    fn install(&self, disk: &mut Memory, boot: u64, pieces: &[(u64, usize)]) {
        let mut core = self.core.clone();
        core.resize(core.len().next_multiple_of(SECTOR), 0);
        let mut rest = core.split_off(SECTOR).into_iter();
        let mut segment = 0x820_u16;
        let mut written: Vec<(u64, Vec<u8>)> = Vec::new();
        for (index, (at, sectors)) in pieces.iter().enumerate() {
            let skipped = u64::from(index == 0);
            let bytes: Vec<u8> = rest.by_ref().take(sectors * SECTOR).collect();
            let count = u16::try_from(bytes.len() / SECTOR).unwrap();
            let entry = SECTOR - 12 * (index + 1);
            core[entry..entry + 8].copy_from_slice(&(at + skipped).to_le_bytes());
            core[entry + 8..entry + 10].copy_from_slice(&count.to_le_bytes());
            core[entry + 10..entry + 12].copy_from_slice(&segment.to_le_bytes());
            segment += count * 0x20;
            written.push((at + skipped, bytes));
        }
        assert_eq!(rest.next(), None);
        for (at, bytes) in written {
            disk.put(at * SECTOR as u64, &bytes);
        }
        disk.put(pieces[0].0 * SECTOR as u64, &core);
        let old = read(disk, boot * SECTOR as u64, SECTOR);
        let mut sector = self.boot.clone();
        sector[0x5C..0x64].copy_from_slice(&pieces[0].0.to_le_bytes());
        sector[0x66..0x68].copy_from_slice(&[0x90; 2]);
        sector[0x1B8..].copy_from_slice(&old[0x1B8..]);
        sector[510..].copy_from_slice(&[0x55, 0xAA]);
        disk.put(boot * SECTOR as u64, &sector);
    }
}

fn read(disk: &dyn Medium, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    disk.read_at(ByteOffset::new(at), &mut bytes).unwrap();
    bytes
}

/// Whether GRUB starts from this disk.
fn boots(disk: &Memory, folder: &Path) -> bool {
    let image = folder.join("disk.img");
    fs::write(&image, read(disk, 0, usize::try_from(disk.len).unwrap())).unwrap();
    let mut qemu = Command::new("timeout");
    qemu.args(["-k", "1", "60", "qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-display", "none"]);
    qemu.args(["-nodefaults", "-serial", "stdio", "-no-reboot", "-drive"]);
    qemu.arg(format!("file={},format=raw,if=ide", image.display()));
    let output = qemu.env("PATH", PATH).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(SAYS)
}

/// A disk with partitions of (start, sectors, type).
fn disk(format: Format, parts: &[(u64, u64, &str)]) -> Memory {
    let mut disk = Memory::new(SECTORS * SECTOR as u64);
    let mut request = Request::new(Seed(1));
    (request.table, request.allow_misaligned) = (Some(format), true);
    for (start, sectors, kind) in parts {
        let part = Part::new(Size::Sectors(*sectors));
        let (kind, flag) = kind.split_once(',').unwrap_or((kind, ""));
        request.parts.push(Part {
            start: Some(Place::Sector(*start)),
            kind: Some(kind.to_owned()),
            bootable: flag == "boot",
            ..part
        });
    }
    plan_and_write(&mut disk, "512e", &request).unwrap();
    disk
}

fn planned(disk: &Memory) -> Realign {
    let stack = stack_of(disk, BlockSize::new(512).unwrap());
    let topology = topology("512e");
    // BIOS boot partitions move if they are named.
    let partitions = stack.partitions.iter().map(|partition| partition.number).collect();
    let wanted = Wanted { partitions, ..Wanted::default() };
    make(&Situation { medium: disk, topology: &topology, stack: &stack, serial: None }, &wanted).unwrap()
}

/// What refers to partition 1, without what every partition of an MBR disk has.
fn references(disk: &Memory) -> Vec<Reference> {
    let realign = planned(disk);
    let of_first = realign
        .references
        .iter()
        .filter(|(number, what)| *number == 1 && !matches!(what, Reference::ActivePartition));
    of_first.map(|(_, reference)| reference.clone()).collect()
}

/// A disk whose power is cut after a number of writes and flushes.
struct Drive {
    disk: Memory,
    left: u64,
}

impl Drive {
    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("the power is cut"))?;
        Ok(())
    }
}

impl Medium for Drive {
    fn len(&self) -> ByteCount {
        self.disk.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.disk.read_at(at, buf)
    }
}

impl Simulated for Drive {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.count()?;
        self.disk.write_at(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.count()
    }
}

/// Carries out the plan with so many writes and flushes; returns the disk, and how many it made.
fn carried_out(disk: &Memory, realign: &Realign, writes: u64) -> (Memory, u64, Result<Outcome, MoveError>) {
    let mut drive = Drive { disk: disk.clone(), left: writes };
    let run = |drive: &mut Drive| {
        let mut target = target(drive);
        realign.begin(&mut target, JournalPlace::Inside, [3; 16])?.finish(&mut |_| ControlFlow::Continue(()))
    };
    let ended = run(&mut drive);
    (drive.disk, writes - drive.left, ended)
}

fn resumed(disk: &Memory, goes_back: bool) -> Option<Memory> {
    let mut disk = disk.clone();
    let ended = {
        let mut target = target(&mut disk);
        let run = match Run::find(&mut target, None) {
            Err(MoveError::Nothing) => return None,
            found => found.unwrap(),
        };
        let on = &mut |_| ControlFlow::Continue(());
        if goes_back { run.roll_back(on) } else { run.finish(on) }
    };
    match ended {
        Ok(Outcome::Complete(_)) => Some(disk),
        Err(MoveError::Complete) if goes_back => None,
        ended => panic!("{ended:?}"),
    }
}

/// What counts of a disk: the partition in its place, the boot code and the table.
fn parts_of(disk: &Memory, realign: &Realign, is_new: bool) -> Vec<u8> {
    let one = realign.moves[0];
    let at = if is_new { one.to } else { one.from.start() };
    let mut bytes = read(disk, 0, 512);
    bytes.extend(read(disk, at.get(), usize::try_from(one.from.len().get()).unwrap()));
    bytes
}

/// Moves the partition in which this GRUB is, and boots it; then with a power cut after every write.
fn survives(disk: &Memory, expected: &Reference, folder: &Path) {
    assert!(boots(disk, folder));
    let realign = planned(disk);
    assert_eq!(Realign::from_json(&realign.to_json().unwrap()).unwrap(), realign);
    assert_eq!(references(disk), std::slice::from_ref(expected));
    let (after, writes, ended) = carried_out(disk, &realign, u64::MAX);
    ended.unwrap();
    // The old core image would do as well.
    let one = realign.moves[0];
    let mut clean = after.clone();
    let gone = usize::try_from((one.to.get() - one.from.start().get()).min(one.from.len().get())).unwrap();
    clean.put(one.from.start().get(), &vec![0; gone]);
    assert!(boots(&clean, folder));
    let (new, old) = (parts_of(&after, &realign, true), parts_of(disk, &realign, false));
    let mut back = 0;
    for cut in 0..writes {
        let (broken, _, ended) = carried_out(disk, &realign, cut);
        if ended.is_ok() {
            // Only the space of the journal was not cleared.
            assert!(parts_of(&broken, &realign, true) == new, "cut after {cut}");
            continue;
        }
        let Some(done) = resumed(&broken, false) else { continue };
        assert!(parts_of(&done, &realign, true) == new, "cut after {cut}, resumed");
        if let Some(done) = resumed(&broken, true) {
            assert!(parts_of(&done, &realign, false) == old, "cut after {cut}, rolled back");
            back += 1;
        }
    }
    println!("{writes} writes and flushes, {back} rolled back");
    assert!(back > 10);
}

#[test]
fn grub_in_a_bios_boot_partition_boots_after_it_moved() {
    let folder = tempfile::tempdir().unwrap();
    let Some(images) = Images::new(folder.path()) else { return };
    let mut disk = disk(Format::Gpt, &[(34, 400, "bios"), (4096, 8192, "linux")]);
    images.install(&mut disk, 0, &[(34, 999)]);
    let expected = Reference::Grub {
        in_partition: false,
        core: ByteOffset::ZERO,
        recorded: 34,
        correct: 2048,
        pieces: vec![35],
    };
    survives(&disk, &expected, folder.path());
}

#[test]
fn grub_in_pieces_of_a_file_system_boots_after_it_moved() {
    let folder = tempfile::tempdir().unwrap();
    let Some(images) = Images::new(folder.path()) else { return };
    let mut disk = disk(Format::Mbr, &[(63, 8192, "linux")]);
    images.install(&mut disk, 0, &[(1063, 7), (3000, 40), (563, 11), (4000, 999)]);
    let expected = Reference::Grub {
        in_partition: false,
        core: ByteOffset::new(1000 * 512),
        recorded: 1063,
        correct: 3048,
        pieces: vec![1064, 3000, 563, 4000],
    };
    survives(&disk, &expected, folder.path());
}

/// Boot code of the disk that starts the active partition, as in util/mbr of SYSLINUX and in Windows.
#[test]
fn grub_in_a_partitions_first_sector_moves_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(images) = Images::new(folder.path()) else { return };
    let Ok(mbr) = fs::read("/usr/lib/syslinux/mbr/mbr.bin") else {
        skipped("syslinux-common is not installed");
        return;
    };
    let mut disk = disk(Format::Mbr, &[(63, 8192, "linux,boot")]);
    images.install(&mut disk, 63, &[(563, 999)]);
    let mut sector = read(&disk, 0, SECTOR);
    sector[..mbr.len()].copy_from_slice(&mbr);
    disk.put(0, &sector);
    let expected = Reference::Grub {
        in_partition: true,
        core: ByteOffset::new(500 * 512),
        recorded: 563,
        correct: 2548,
        pieces: vec![564],
    };
    survives(&disk, &expected, folder.path());
}

#[test]
fn grub_before_the_first_partition_stays_and_boots() {
    let folder = tempfile::tempdir().unwrap();
    let Some(images) = Images::new(folder.path()) else { return };
    // The free space in front of the first partition is the only one.
    let mut tight = disk(Format::Mbr, &[(2047, 2048 * 15, "linux")]);
    images.install(&mut tight, 0, &[(1, 999)]);
    let realign = planned(&tight);
    assert!(matches!(realign.journal, Journal::Elsewhere { .. }), "{:?}", realign.journal);
    let mut disk = disk(Format::Mbr, &[(2047, 2048 * 8, "linux")]);
    images.install(&mut disk, 0, &[(1, 999)]);
    assert_eq!(references(&disk), []);
    let (after, _, ended) = carried_out(&disk, &planned(&disk), u64::MAX);
    ended.unwrap();
    let gap = |disk: &Memory| read(disk, 512, 2046 * 512);
    assert_eq!(gap(&after), gap(&disk));
    assert!(boots(&after, folder.path()));
}

/// Changes a byte of the disk.
fn put(disk: &mut Memory, at: u64, bytes: &[u8]) {
    let sector = at / 512 * 512;
    let mut old = read(disk, sector, 1024);
    let from = usize::try_from(at - sector).unwrap();
    old[from..from + bytes.len()].copy_from_slice(bytes);
    disk.put(sector, &old);
}

#[test]
fn boot_code_that_is_not_understood_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(images) = Images::new(folder.path()) else { return };
    let mut good = disk(Format::Gpt, &[(34, 1000, "bios"), (4096, 8192, "linux")]);
    images.install(&mut good, 0, &[(34, 3), (40, 999)]);
    assert!(matches!(references(&good)[..], [Reference::Grub { .. }]));
    let refused = |disk: &Memory| {
        let (after, writes, ended) = carried_out(disk, &planned(disk), u64::MAX);
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(writes == 0 && after == *disk);
    };
    let changed = |at: u64, bytes: &[u8]| {
        let mut disk = good.clone();
        put(&mut disk, at, bytes);
        refused(&disk);
        references(&disk)
    };
    let core = 34 * 512;
    // A message, a segment, the place of a piece, and a list without end.
    for (at, bytes) in [
        (core + 0x11B, &b"X"[..]),
        (core + 510, &[0x21]),
        (core + 488, &9000_u32.to_le_bytes()),
        (core + 0x140, &[1; 512 - 0x140 - 24]),
    ] {
        assert_eq!(changed(at, bytes), [Reference::GrubElsewhere], "{at}");
    }
    // Another disk is booted from, or it is not GRUB.
    assert_eq!(changed(0x64, &[0x80]), [Reference::BiosBoot]);
    assert_eq!(changed(0x180, b"X"), [Reference::BiosBoot]);
    // GRUB Legacy and 1.98 record the same sector elsewhere.
    for (jump, field) in [(0x48, 0x44), (0x4C, 0x5C)] {
        let mut disk = good.clone();
        put(&mut disk, 1, &[jump]);
        put(&mut disk, field, &40_u64.to_le_bytes());
        assert_eq!(references(&disk), [Reference::GrubElsewhere]);
        refused(&disk);
    }
}

#[test]
fn syslinux_is_corrected_and_lilo_is_named() {
    let mut disk = disk(Format::Mbr, &[(63, 4096, "linux")]);
    put(&mut disk, 63 * 512 + 3, b"EXTLINUX");
    put(&mut disk, 63 * 512 + 28, &63_u32.to_le_bytes());
    put(&mut disk, 63 * 512 + 510, &[0x55, 0xAA]);
    assert_eq!(references(&disk), [Reference::Syslinux { recorded: 63, correct: Some(2048) }]);
    let (after, _, ended) = carried_out(&disk, &planned(&disk), u64::MAX);
    ended.unwrap();
    assert_eq!(read(&after, 2048 * 512 + 28, 4), 2048_u32.to_le_bytes());
    // Installed to a loop device, it does not know the start of its partition.
    put(&mut disk, 63 * 512 + 28, &[0; 4]);
    assert_eq!(references(&disk), []);
    put(&mut disk, 0, b"\xFA\xEB\x1F\x90\0\0LILO");
    assert_eq!(references(&disk), [Reference::Lilo]);
    let (_, _, ended) = carried_out(&disk, &planned(&disk), u64::MAX);
    ended.unwrap();
}
