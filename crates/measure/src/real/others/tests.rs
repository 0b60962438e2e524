use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

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
    assert!(refused.to_string().contains("the device below the target"), "{refused}");
    drop(other);
    assert!(Opened::open(&second.0, Access::Claim, Io::Buffered).is_ok());
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
