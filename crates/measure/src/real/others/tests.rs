use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::real::open::{Access, Io};
use crate::real::skip::skipped;

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8(done.stdout).unwrap().trim().to_owned())
}

/// A file of `mib` MiB, and its folder, which is removed with the value.
fn file(mib: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![7; mib << 20]).unwrap();
    (folder, path)
}

/// Looking for a free loop device opens those of other tests, so these tests run one at a time.
fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A loop device that is detached after the test.
struct Loop(PathBuf);

impl Loop {
    /// `None` if there are no loop devices here.
    fn over(path: &Path) -> Option<Self> {
        // Under the lock, no other test's losetup opens this device in the belief that it is free.
        let losetup = ["/dev/loop-control", "losetup", "--find", "--show", path.to_str().unwrap()];
        let made = run("flock", &losetup);
        if made.is_none() {
            skipped("no loop devices here");
        }
        made.map(|made| Self(made.into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A partition of a loop device. Nothing else makes its node here.
struct Partition<'a>(&'a Loop, PathBuf, bool);

impl<'a> Partition<'a> {
    fn of(disk: &'a Loop) -> Option<Self> {
        run("addpart", &[disk.0.to_str().unwrap(), "1", "2048", "4096"])?;
        let name = format!("{}p1", disk.0.file_name()?.to_str()?);
        let node = Path::new("/dev").join(&name);
        let number = fs::read_to_string(Path::new("/sys/class/block").join(name).join("dev")).ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        let is_made = !node.exists() && run("mknod", &[node.to_str().unwrap(), "b", major, minor]).is_some();
        Some(Self(disk, node, is_made))
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(&self.0.0).arg("1").status();
        if self.2 {
            let _ = fs::remove_file(&self.1);
        }
    }
}

/// What is detected of a process that opens `theirs` while `target` is claimed: to read, to write, and when
/// it closes it.
fn seen(target: &Path, theirs: &Path) -> [Seen; 3] {
    let opened = Opened::open(target, Access::Claim, Io::Buffered).unwrap();
    let mut others = Others::of(&opened, Access::Claim).unwrap();
    assert_eq!(others.look(), Seen::Nobody);
    drop(File::open(theirs).unwrap());
    let reads = others.look();
    // Only other processes count as users, so the writer is a child process.
    let mut child = Command::new("sleep")
        .arg("1000")
        .stdout(OpenOptions::new().append(true).open(theirs).unwrap())
        .spawn()
        .unwrap();
    let writes = others.look();
    child.kill().unwrap();
    child.wait().unwrap();
    [reads, writes, others.look()]
}

/// Writing to a layer below a device, at any depth, or to a part of it counts as writing to the device.
#[test]
fn whoever_comes_below_or_above_is_seen() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(first) = Loop::over(&path) else { return };
    let second = Loop::over(&first.0).unwrap();
    let third = Loop::over(&second.0).unwrap();
    for theirs in [&path, &first.0, &second.0, &third.0] {
        let [reads, writes, closes] = seen(&third.0, theirs);
        assert_eq!(reads, Seen::Nobody, "{}", theirs.display());
        assert!(
            writes != Seen::Nobody && closes != Seen::Nobody,
            "{}: {writes:?} {closes:?}",
            theirs.display()
        );
    }
    drop((third, second));
    let Some(partition) = Partition::of(&first) else { return };
    // A second loop device over the first shows the bytes of the first one's partitions.
    let over = || Loop::over(&first.0).unwrap();
    for (target, theirs) in
        [(&partition.1, &first.0), (&partition.1, &path), (&first.0, &partition.1), (&first.0, &path)]
    {
        is_seen(target, theirs);
    }
    is_seen(&over().0, &partition.1);
}

fn is_seen(target: &Path, theirs: &Path) {
    let [reads, writes, closes] = seen(target, theirs);
    let again = format!("{} while {} is measured", theirs.display(), target.display());
    assert_eq!(reads, Seen::Nobody, "{again}");
    assert!(writes != Seen::Nobody && closes != Seen::Nobody, "{again}: {writes:?} {closes:?}");
}

/// A process that has `path` open for writing, until it is dropped.
struct Writer(std::process::Child);

impl Writer {
    fn of(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        Self(Command::new("sleep").arg("1000").stdout(file).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A process may open the target between the check for users and the start of the watch.
#[test]
fn whoever_came_before_the_look_out_is_asked_for_again() {
    let (_folder, path) = file(1);
    let opened = Opened::open(&path, Access::Claim, Io::Buffered).unwrap();
    let writer = Writer::of(&path);
    let mut others = Others::of(&opened, Access::Claim).unwrap();
    assert_eq!(others.look(), Seen::Nobody);
    assert!(!others.users().is_empty());
    drop(writer);
    assert!(others.users().is_empty());
}

/// A file that cannot be watched may be written without being noticed.
#[test]
fn a_look_out_that_does_not_see_everything_is_none() {
    let _turn = turn();
    let (_folder, path) = file(1);
    let Some(device) = Loop::over(&path) else { return };
    let opened = Opened::open(&device.0, Access::Claim, Io::Buffered).unwrap();
    assert!(Others::of(&opened, Access::Claim).is_ok());
    fs::remove_file(&path).unwrap();
    assert!(Others::of(&opened, Access::Claim).is_err());
}

/// A process that already has the disk open can make a partition on it without opening anything that is
/// watched.
#[test]
fn a_partition_that_is_made_without_an_open_is_seen() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(device) = Loop::over(&path) else { return };
    for announced in [true, false] {
        let opened = Opened::open(&device.0, Access::Share, Io::Buffered).unwrap();
        let mut others = Others::of(&opened, Access::Share).unwrap();
        assert!(others.check_alone().is_ok());
        let Some(partition) = Partition::of(&device) else { return };
        others.events();
        if !announced {
            others.partitions.announced = None;
            others.partitions.looked = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        }
        assert_eq!(others.look(), Seen::Opened, "{announced}");
        drop(partition);
    }
}

/// Uevents for other devices, or for existing partitions, are frequent. They must not cause a look at the
/// device.
#[test]
fn only_a_new_partition_of_the_target_counts() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(device) = Loop::over(&path) else { return };
    let opened = Opened::open(&device.0, Access::Claim, Io::Buffered).unwrap();
    let others = Others::of(&opened, Access::Claim).unwrap();
    let name = device.0.file_name().unwrap().to_str().unwrap();
    for (action, disk, is_new) in
        [("add", name, true), ("change", name, false), ("remove", name, false), ("add", "loop999", false)]
    {
        let path = format!("/devices/virtual/block/{disk}/{disk}p77");
        let text = format!("{action}@{path}\0ACTION={action}\0DEVPATH={path}\0SUBSYSTEM=block\0");
        assert_eq!(others.partitions.is_new(text.as_bytes()), is_new, "{text}");
    }
}

/// A partition that existed may be announced again on request. It counts as new if it is made again
/// elsewhere.
#[test]
fn a_known_partition_counts_only_where_it_is_made_elsewhere() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(device) = Loop::over(&path) else { return };
    let Some(partition) = Partition::of(&device) else { return };
    let opened = Opened::open(&device.0, Access::Share, Io::Buffered).unwrap();
    let mut others = Others::of(&opened, Access::Share).unwrap();
    let name = device.0.file_name().unwrap().to_str().unwrap();
    fs::write(format!("/sys/block/{name}/{name}p1/uevent"), "add").unwrap();
    let listed = |others: &mut Others| {
        others.partitions.looked = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        others.partitions.has_new()
    };
    assert!(!listed(&mut others));
    drop(partition);
    assert!(!listed(&mut others));
    others.partitions.announced = None;
    let Some(_partition) = Partition::of(&device) else { return };
    assert!(listed(&mut others));
}

/// A loop device does not claim its backing device: the kernel could mount or map that without opening a
/// node.
#[test]
fn what_is_behind_a_loop_device_is_claimed_with_it() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(first) = Loop::over(&path) else { return };
    let second = Loop::over(&first.0).unwrap();
    let claim = || {
        let flags = rustix::fs::OFlags::EXCL.bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(flags).open(&first.0)
    };
    let opened = Opened::open(&second.0, Access::Claim, Io::Buffered).unwrap();
    assert!(claim().is_err());
    drop(opened);
    let other = claim().unwrap();
    let refused = Opened::open(&second.0, Access::Claim, Io::Buffered).map(drop).unwrap_err();
    assert!(refused.to_string().contains("the device below it"), "{refused}");
    drop(other);
    assert!(Opened::open(&second.0, Access::Claim, Io::Buffered).is_ok());
}

/// A partition made during a run is another path to the same bytes.
#[test]
fn a_partition_that_is_made_is_seen() {
    let _turn = turn();
    let (_folder, path) = file(4);
    let Some(device) = Loop::over(&path) else { return };
    let opened = Opened::open(&device.0, Access::Claim, Io::Buffered).unwrap();
    let mut others = Others::of(&opened, Access::Claim).unwrap();
    assert_eq!(others.look(), Seen::Nobody);
    let Some(partition) = Partition::of(&device) else { return };
    assert_eq!(others.look(), Seen::Opened);
    drop(partition);
}

#[test]
fn what_is_mapped_for_writing_is_in_use() {
    // The process maps the file, closes it, and waits.
    const MAPS: &str = "import ctypes, os, sys, time\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n\
        file = os.open(sys.argv[1], os.O_RDWR)\nlibc.mmap(None, ctypes.c_size_t(4096), 3, 1, file, ctypes.c_long(0))\n\
        os.close(file)\nprint(flush=True)\ntime.sleep(1000)";
    let (_folder, path) = file(1);
    let mut python = Command::new("python3");
    python.args(["-c", MAPS]).arg(&path).stdout(std::process::Stdio::piped());
    let mut maps = Writer(python.spawn().unwrap());
    std::io::Read::read_exact(maps.0.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let uses = Machine::read(None).uses(&path);
    assert!(uses.iter().any(|by| by.contains("mapped")), "{uses:?}");
    drop(maps);
    assert!(Machine::read(None).uses(&path).is_empty());
}
