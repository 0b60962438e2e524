//! What is installed and removed, below a folder of the test; and moves on images, judged by the bytes of the
//! partition and of the MBR's entry.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::realign::{Realign, Wanted, make};
use crate::{Depth, Present};
use straddle_device::Options;
use straddle_units::ErrorKind;

use crate::boot::*;

const SECTOR: usize = 512;
/// The sectors of the disk, and those of its partition, from sector 63 on.
const SECTORS: usize = 32 << 11;
const LENGTH: usize = 16 << 11;

/// A folder as a system, and a disk beside it.
struct Machine {
    folder: tempfile::TempDir,
    system: System,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let system = System { root: folder.path().join("root") };
        fs::create_dir(&system.root).unwrap();
        let machine = Self { folder, system };
        let mut disk = vec![0; SECTORS * SECTOR];
        // From sector 63 on, type 0x83.
        disk[440..446].copy_from_slice(&[1, 2, 3, 4, 0, 0]);
        disk[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 0, 0, 0]);
        disk[458..462].copy_from_slice(&u32::try_from(LENGTH).unwrap().to_le_bytes());
        disk[510..512].copy_from_slice(&[0x55, 0xAA]);
        disk[63 * SECTOR..][..LENGTH * SECTOR].copy_from_slice(&contents());
        fs::write(machine.disk(), disk).unwrap();
        machine
    }

    fn disk(&self) -> PathBuf {
        self.folder.path().join("disk.img")
    }

    /// A generator that appends its name and arguments to a file, and ends with this status.
    fn add_generator(&self, name: &str, status: u8) {
        self.add_generator_that(name, &format!("exit {status}"));
    }

    /// The same, which ends as this command does.
    fn add_generator_that(&self, name: &str, ends: &str) {
        let path = self.system.path("/usr/sbin").join(name);
        let calls = self.folder.path().join("calls");
        let script = format!("#!/bin/sh\necho {name} \"$@\" >>{}\n{ends}\n", calls.display());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }

    /// All files of the system, with their modes and contents.
    fn files(&self) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut folders = vec![self.system.root.clone()];
        let mut files = BTreeMap::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&self.system.root).unwrap().display().to_string();
                    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                    files.insert(name, (mode, fs::read(&path).unwrap()));
                }
            }
        }
        files
    }

    fn plan(&self) -> Realign {
        let present = Present::to_change(&self.disk(), &Options::default(), Depth::Contents).unwrap();
        make(&present.situation(), &Wanted::default()).unwrap()
    }

    fn install(&self) -> Result<(), BootError> {
        let program = self.folder.path().join("program");
        fs::write(&program, "the program").unwrap();
        self.system.install(&self.disk(), &self.plan(), &program)
    }

    /// Starts the machine; the power fails after `steps` reports of progress.
    fn start(&self, steps: usize) -> Result<Ended, BootError> {
        let mut left = steps;
        let mut watch = |_| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut list = |_: &[crate::relocate::Bad]| -> io::Result<()> { Ok(()) };
        let mut restart = |why: &str| panic!("it starts again: {why}");
        let mut console = Console { watch: &mut watch, list: &mut list, restart: &mut restart };
        self.system.carry_out(&self.disk(), [7; 16], &mut console)
    }

    /// What the next `check` says of the last start.
    fn last(&self) -> String {
        self.system.last(&[self.disk()]).unwrap()
    }

    /// The start of the partition in sectors, after its contents there were compared.
    fn start_of_partition(&self) -> usize {
        let disk = fs::read(self.disk()).unwrap();
        let start = u32::from_le_bytes(disk[454..458].try_into().unwrap());
        let start = usize::try_from(start).unwrap();
        assert!(disk[start * SECTOR..][..LENGTH * SECTOR] == contents(), "its contents are others");
        start
    }
}

/// Bytes that differ in every sector.
fn contents() -> Vec<u8> {
    (0..LENGTH * SECTOR).map(|at| u8::try_from((at / SECTOR * 31 + at) % 251).unwrap()).collect()
}

const FOREVER: usize = usize::MAX;

#[test]
fn everything_is_installed_and_removed_again() {
    for (name, hooks, call) in [
        (
            "update-initramfs",
            ["etc/initramfs-tools/hooks/straddle", "etc/initramfs-tools/scripts/init-premount/straddle"],
            "update-initramfs -u -k all\n",
        ),
        (
            "dracut",
            [
                "usr/lib/dracut/modules.d/90straddle/module-setup.sh",
                "usr/lib/dracut/modules.d/90straddle/straddle-at-boot.sh",
            ],
            "dracut --force --regenerate-all\n",
        ),
    ] {
        let machine = Machine::new();
        machine.add_generator(name, 0);
        let before = machine.files();
        machine.install().unwrap();
        let mut files = machine.files();
        files.retain(|name, _| !before.contains_key(name));
        for hook in hooks {
            assert_eq!(files.remove(hook).unwrap().0, 0o755, "{hook}");
        }
        let (mode, plan) = files.remove("var/lib/straddle/at-boot/plan.json").unwrap();
        assert_eq!(mode, 0o600);
        assert_eq!(Realign::from_json(std::str::from_utf8(&plan).unwrap()).unwrap(), machine.plan());
        let disk = format!("{}\n", machine.disk().display()).into_bytes();
        assert_eq!(files.remove("var/lib/straddle/at-boot/disk").unwrap(), (0o644, disk));
        let program = (0o755, b"the program".to_vec());
        assert_eq!(files.remove("var/lib/straddle/at-boot/straddle").unwrap(), program);
        assert_eq!(files.keys().collect::<Vec<_>>(), [""; 0]);
        assert_eq!(machine.calls(), call);

        // Again, in the place of the first.
        machine.install().unwrap();
        machine.system.cancel(&machine.disk()).unwrap();
        assert_eq!(machine.files(), before);
        assert!(!machine.system.path("/usr/lib/dracut/modules.d/90straddle").exists());
        assert_eq!(machine.calls(), call.repeat(3));
        assert!(matches!(machine.system.cancel(&machine.disk()), Err(BootError::NotPrepared)));
    }
}

/// An initramfs has the move until one was made without it.
#[test]
fn a_cancel_that_failed_is_made_again() {
    let machine = Machine::new();
    machine.add_generator("update-initramfs", 0);
    let before = machine.files();
    machine.install().unwrap();
    let other = machine.folder.path().join("another");
    assert!(matches!(machine.system.cancel(&other), Err(BootError::AnotherDisk(_))));
    machine.add_generator("update-initramfs", 1);
    for _ in 0..2 {
        assert!(matches!(machine.system.cancel(&machine.disk()), Err(BootError::Generator { .. })));
        assert!(machine.system.home().join("plan.json").exists());
    }
    machine.add_generator("update-initramfs", 0);
    machine.system.cancel(&machine.disk()).unwrap();
    assert_eq!(machine.files(), before);
    assert_eq!(machine.calls(), "update-initramfs -u -k all\n".repeat(4));
}

#[test]
fn what_cannot_be_installed_leaves_nothing() {
    let machine = Machine::new();
    let installed = machine.install();
    let why = "neither initramfs-tools nor dracut is installed";
    assert!(matches!(&installed, Err(BootError::Blocked(said)) if said == why), "{installed:?}");

    // As long as an initramfs may have the move, it can be cancelled.
    machine.add_generator("update-initramfs", 1);
    let before = machine.files();
    let error = machine.install().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert!(matches!(error, BootError::MayMove { .. }), "{error:?}");
    assert!(machine.system.home().join("plan.json").exists());
    machine.add_generator("update-initramfs", 0);
    machine.system.cancel(&machine.disk()).unwrap();
    machine.add_generator("update-initramfs", 1);
    assert_eq!(machine.files(), before);

    // It fails with the move, and not without it.
    let hook = machine.system.path("/etc/initramfs-tools/hooks/straddle");
    machine.add_generator_that("update-initramfs", &format!("test ! -e {}", hook.display()));
    let before = machine.files();
    let error = machine.install().unwrap_err();
    assert!(matches!(error, BootError::Removed(_)), "{error:?}");
    assert_eq!(machine.files(), before);

    // Another program's file, also one that is a link to nowhere, is neither replaced nor removed.
    machine.add_generator("update-initramfs", 0);
    let hook = machine.system.path("/etc/initramfs-tools/scripts/init-premount/straddle");
    fs::write(&hook, "#!/bin/sh\n# another\n").unwrap();
    let before = machine.files();
    let error = machine.install().unwrap_err();
    assert_eq!((error.kind(), machine.files()), (ErrorKind::Refused, before));
    assert!(matches!(error, BootError::Foreign(_)), "{error:?}");
    fs::remove_file(&hook).unwrap();
    std::os::unix::fs::symlink("nowhere", &hook).unwrap();
    assert_eq!(machine.install().unwrap_err().kind(), ErrorKind::Refused);
    assert!(fs::symlink_metadata(&hook).unwrap().is_symlink());
}

#[test]
fn an_image_is_no_disk_that_a_system_starts_from() {
    let machine = Machine::new();
    let present = Present::to_change(&machine.disk(), &Options::default(), Depth::Contents).unwrap();
    let prepared = machine.system.prepare(&machine.disk(), &machine.plan(), &present, Path::new("/bin/sh"));
    let why = "not a whole disk";
    assert!(matches!(&prepared, Err(BootError::Blocked(said)) if said == why), "{prepared:?}");
    assert_eq!(machine.files(), BTreeMap::new());
}

#[test]
fn a_start_moves_what_was_prepared_and_later_ones_find_it_done() {
    let machine = Machine::new();
    machine.add_generator("dracut", 0);
    machine.install().unwrap();
    assert_eq!(machine.start_of_partition(), 63);
    assert_eq!(machine.system.last(&[]), None);
    assert_eq!(machine.start(FOREVER).unwrap(), Ended::Complete { is_resumed: false, unreadable: 0 });
    assert_eq!(machine.start_of_partition(), 2048);
    assert!(machine.last().ends_with("disk.img, at the last boot: the move is complete"));
    assert_eq!(machine.system.last(&[machine.folder.path().join("other")]), None);
    assert_eq!(machine.start(FOREVER).unwrap(), Ended::AlreadyDone);
    assert_eq!(machine.start_of_partition(), 2048);
}

#[test]
fn the_next_start_resumes() {
    for steps in 1..4 {
        let machine = Machine::new();
        machine.add_generator("dracut", 0);
        machine.install().unwrap();
        assert_eq!(machine.start(steps).unwrap(), Ended::Paused);
        // The marker stands alone in the table.
        assert_eq!(fs::read(machine.disk()).unwrap()[450], 0x7F);
        assert!(machine.last().contains("the next boot will resume it"), "{}", machine.last());
        let resumed = machine.start(FOREVER).unwrap();
        assert_eq!(resumed, Ended::Complete { is_resumed: true, unreadable: 0 });
        assert_eq!(machine.start_of_partition(), 2048);
    }
}

#[test]
fn what_fails_before_the_first_write_leaves_the_disk_as_it_was() {
    let machine = Machine::new();
    machine.add_generator("dracut", 0);
    let fails = |kind| {
        let before = fs::read(machine.disk()).unwrap();
        let error = machine.start(FOREVER).unwrap_err();
        assert!(matches!(error, BootError::NotMoved(_)), "{error:?}");
        assert_eq!(error.kind(), kind);
        assert!(fs::read(machine.disk()).unwrap() == before, "something was written");
        assert!(machine.last().contains("the partitions were not moved: "), "{}", machine.last());
        machine.last()
    };
    assert!(fails(ErrorKind::Failed).contains("plan.json: cannot read"), "nothing is prepared");
    machine.install().unwrap();

    let commands = machine.system.path("/proc/cmdline");
    fs::create_dir(commands.parent().unwrap()).unwrap();
    fs::write(&commands, "quiet resume_offset=8\n").unwrap();
    assert!(fails(ErrorKind::Refused).contains("swap file"));
    fs::write(&commands, "resume=UUID=1-2 quiet\n").unwrap();
    assert!(fails(ErrorKind::Refused).contains("UUID=1-2"));
    fs::write(&commands, "resume=UUID=1-2 noresume\n").unwrap();

    // Another disk, by its identifier.
    let good = fs::read(machine.disk()).unwrap();
    let mut other = good.clone();
    other[440] ^= 1;
    fs::write(machine.disk(), other).unwrap();
    fails(ErrorKind::Refused);
    fs::write(machine.disk(), good).unwrap();

    fs::write(machine.system.home().join("plan.json"), "{}").unwrap();
    fails(ErrorKind::Failed);
    machine.install().unwrap();
    assert!(machine.start(FOREVER).is_ok());
    assert_eq!(machine.start_of_partition(), 2048);
}
