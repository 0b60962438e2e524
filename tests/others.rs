//! Whoever writes meets others: servers, loop devices, owners who write meanwhile, closed terminals. Their data stay theirs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tools::{Dir, STRADDLE, output, present, told};

const SIZE: u64 = 8 << 20;

/// An image full of bytes that nobody else writes.
fn image(dir: &Dir, name: &str) -> (PathBuf, Vec<u8>) {
    let path = dir.join(name);
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

fn bench(dir: &Dir, target: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(STRADDLE);
    command.args(["bench", "random-write"]).arg(target).arg("--journals").arg(dir.join("journals"));
    command
        .args(["--io", "buffered", "--offsets", "0,1", "--count", "200", "--precision", "0.1"])
        .args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn journals(dir: &Dir) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("journals")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Waits until `is_so`, for as long as a slow machine may take.
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(1200), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run that measures: its journal has its name, so that it may write.
fn running(dir: &Dir, target: &Path) -> Child {
    let child = bench(dir, target, &["--used", "--runtime", "100"]).spawn().unwrap();
    until(|| journals(dir).iter().any(|path| path.extension().is_some_and(|end| end == "journal")));
    child
}

fn refused(output: &Output, words: &[&str]) {
    let said = told(output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_image_that_qemu_serves_is_refused_under_each_of_its_names() {
    if !present(&["qemu-nbd", "qemu-io"]) {
        return;
    }
    let dir = Dir::new("served");
    let (path, _) = image(&dir, "disk.img");
    let other = dir.join("other.img");
    fs::hard_link(&path, &other).unwrap();
    let socket = dir.join("socket");
    let mut server = Command::new("qemu-nbd");
    let _server = Ends(server.args(["-f", "raw", "-t", "-k"]).arg(&socket).arg(&path).spawn().unwrap());
    until(|| socket.exists());
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let written = output(
        Command::new("qemu-io").args(["-f", "raw", "-c", "write -P 0x5a 1M 256k", "-c", "flush", &uri]),
        "",
    );
    assert!(written.status.success(), "{}", told(&written));
    let bytes = fs::read(&path).unwrap();
    for name in [&path, &other] {
        for options in [&["--used"][..], &["--destroy-data", name.to_str().unwrap()], &[]] {
            refused(&bench(&dir, name, options).output().unwrap(), &["in use"]);
        }
        let probed = output(Command::new(STRADDLE).arg("probe").arg(name).arg("--used"), "");
        refused(&probed, &["in use"]);
        let planned = output(
            Command::new(STRADDLE)
                .args(["plan", "--table", "gpt", "--part", "rest", "--wipe"])
                .arg(name)
                .arg("--save")
                .arg(dir.join("plan")),
            "",
        );
        assert!(planned.status.success(), "{}", told(&planned));
        refused(
            &output(Command::new(STRADDLE).arg("apply").arg(dir.join("plan")).arg("--write").arg(name), ""),
            &["in use"],
        );
    }
    assert!(fs::read(&path).unwrap() == bytes, "it was written to");
    assert!(journals(&dir).is_empty() && !dir.join("plan.undo").exists());
}

#[test]
fn a_file_that_was_there_is_written_only_where_it_is_given() {
    let dir = Dir::new("given");
    let (path, bytes) = image(&dir, "disk.img");
    refused(&bench(&dir, &path, &[]).output().unwrap(), &["no partition table", "--used"]);
    refused(&output(Command::new(STRADDLE).arg("probe").arg(&path), ""), &["no partition table", "--used"]);
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
    let read = Command::new(STRADDLE)
        .args(["bench", "random-read", "--io", "buffered", "--runtime", "1", "--count", "8"])
        .arg(&path)
        .env("XDG_STATE_HOME", dir.path())
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", told(&read));
}

#[test]
fn what_the_owner_writes_during_a_run_stays_and_ends_it() {
    let dir = Dir::new("during");
    for cut in [false, true] {
        let (path, bytes) = image(&dir, "disk.img");
        let child = running(&dir, &path);
        let owner = OpenOptions::new().write(true).open(&path).unwrap();
        // Larger than what a run can write over before it notices.
        let at: u32 = 1 << 20;
        let theirs = vec![0xEE; 4 << 20];
        if cut {
            owner.set_len(SIZE / 2).unwrap();
        } else {
            owner.write_all_at(&theirs, u64::from(at)).unwrap();
        }
        drop(owner);
        let ended = child.wait_with_output().unwrap();
        refused(&ended, &["changed during the run", "nothing was put back", "is kept in"]);
        let now = fs::read(&path).unwrap();
        if cut {
            assert_eq!(now.len() as u64, SIZE / 2, "a file that was cut short has grown again");
        } else {
            let kept = now[at as usize..].iter().take(theirs.len()).filter(|byte| **byte == 0xEE).count();
            assert!(kept > theirs.len() / 2, "only {kept} bytes of the owner's are left");
            assert!(now[..at as usize] == bytes[..at as usize]);
        }
        // The journal is kept, and the target not measured again before that is settled.
        assert_eq!(journals(&dir).len(), 1);
        refused(&bench(&dir, &path, &["--used"]).output().unwrap(), &["--restore"]);
        let restore = |options: &[&str]| {
            let mut command = Command::new(STRADDLE);
            command
                .args(["bench", "--restore", "--journals"])
                .arg(dir.join("journals"))
                .args(options)
                .output()
                .unwrap()
        };
        let shown = restore(&[]);
        assert_eq!(shown.status.code(), Some(if cut { 3 } else { 4 }), "{}", told(&shown));
        assert!(fs::read(&path).unwrap() == now && journals(&dir).len() == 1, "{}", told(&shown));
        if !cut {
            let forced = restore(&["--force"]);
            assert_eq!(forced.status.code(), Some(0), "{}", told(&forced));
            assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
        }
    }
}

#[test]
fn a_closed_terminal_ends_a_run_like_any_other_end() {
    let dir = Dir::new("closed");
    let (path, bytes) = image(&dir, "disk.img");
    for signal in ["HUP", "TERM", "INT"] {
        let child = running(&dir, &path);
        assert!(
            Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success()
        );
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{signal}: {}", told(&ended));
        assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty(), "{signal}");
    }
}

#[test]
fn nohup_is_heeded() {
    let dir = Dir::new("nohup");
    let (path, _) = image(&dir, "disk.img");
    let mut command = Command::new("nohup");
    command
        .arg(STRADDLE)
        .args(["bench", "random-write"])
        .arg(&path)
        .arg("--journals")
        .arg(dir.join("journals"));
    command.args([
        "--io",
        "buffered",
        "--used",
        "--offsets",
        "0,1",
        "--count",
        "200",
        "--precision",
        "0.1",
        "--runtime",
        "100",
    ]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut child = Ends(child);
    until(|| journals(&dir).iter().any(|path| path.extension().is_some_and(|end| end == "journal")));
    let id = child.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
    // It is still there to be interrupted, which is another status than that of a death by SIGHUP.
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

/// A loop device that goes when the test ends; `None` where this machine gives us none.
struct Loop(PathBuf);

impl Loop {
    fn over(path: &Path) -> Option<Self> {
        let made = output(Command::new("losetup").args(["--find", "--show"]).arg(path), "");
        made.status.success().then(|| Self(PathBuf::from(tools::text(&made.stdout).trim())))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn what_is_behind_a_loop_device_is_in_use_by_whatever_name_and_depth() {
    if !present(&["losetup"]) {
        return;
    }
    let dir = Dir::new("loops");
    let (path, _) = image(&dir, "disk.img");
    let other = dir.join("other.img");
    fs::hard_link(&path, &other).unwrap();
    let plan = dir.join("plan");
    let planned = output(
        Command::new(STRADDLE)
            .args(["plan", "--table", "gpt", "--part", "rest", "--wipe"])
            .arg(&path)
            .arg("--save")
            .arg(&plan),
        "",
    );
    assert!(planned.status.success(), "{}", told(&planned));
    let bytes = fs::read(&path).unwrap();
    let Some(first) = Loop::over(&path) else {
        // The same is tried in a guest.
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "NOT RUN: no loop devices here");
        return;
    };
    let second = Loop::over(&first.0).unwrap();
    for target in [&path, &other, &first.0] {
        refused(&bench(&dir, target, &["--used"]).output().unwrap(), &["in use", "behind /dev/loop"]);
        refused(&bench(&dir, target, &[]).output().unwrap(), &["behind /dev/loop"]);
    }
    for target in [&path, &other] {
        let applied = output(Command::new(STRADDLE).arg("apply").arg(&plan).arg("--write").arg(target), "");
        refused(&applied, &["in use", "behind /dev/loop"]);
    }
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
    drop(second);
    drop(first);
    let used = bench(&dir, &other, &["--used", "--runtime", "1"]).output().unwrap();
    assert!(used.status.success(), "{}", told(&used));
}

/// What runs in the guest: each line says what was done, its status, and the last line of what was said.
const IN_GUEST: &str = r#"
S() { "$INPUT/straddle" "$@"; }
told() { local code=0; S "${@:2}" > said 2>&1 || code=$?; echo "$1: $code: $(tail -n 1 said)"; }
measured() { told "$1" bench random-write "$2" --runtime 1 --count 4 --offsets 0 --area 4M "${@:3}"; }
export XDG_STATE_HOME=/run/state
modprobe loop
cd /tmp
sfdisk -q /dev/vda <<< $'label: gpt\nstart=2048, size=40960\nstart=65536, size=40960\nstart=131072, size=4096'
S plan /dev/vda --delete 3 --save plan.json > /dev/null
partition=$(losetup -f --show /dev/vda1)
mkfs.ext4 -q $partition
mkdir -p point
mount $partition point
head -c 3M /dev/urandom > point/file
sync
before=$(sha256sum < point/file)
measured partition /dev/vda1 --used
measured disk /dev/vda --used
measured loop $partition --used
measured other /dev/vda2 --used
told apply apply plan.json --write /dev/vda
umount point
fsck.ext4 -fn $partition > /dev/null 2>&1 && echo "file system: sound"
mount $partition point
[ "$before" = "$(sha256sum < point/file)" ] && echo "file: same"
umount point
losetup -d $partition
whole=$(losetup -f --show /dev/vda)
measured below /dev/vda2 --used
measured free /dev/vda
losetup -d $whole
sleep 1000 < /dev/vda2 &
told open apply plan.json --write /dev/vda
kill $!
wait $! || true
test ! -e plan.json.undo && echo "backup: none"
measured unused /dev/vda1 --used
told written apply plan.json --write /dev/vda
"#;

#[test]
fn a_loop_device_over_a_partition_or_disk_is_seen_and_so_is_who_has_one_open() {
    if !present(&["linux.uml", "sfdisk", "mkfs.ext4", "losetup"]) {
        return;
    }
    let folder = Path::new(STRADDLE).parent().unwrap();
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--drive", "wd10ears", "--input"]).arg(folder).args(["--", IN_GUEST]);
    let done = output(&mut command, "");
    let said = tools::text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let behind = "is the device behind /dev/loop0";
    for (what, status, words) in [
        ("partition", 4, &["vda1", behind, "loop0 is mounted at"][..]),
        ("disk", 4, &["vda1", behind]),
        ("loop", 4, &["loop0 is mounted at"]),
        ("other", 0, &[]),
        ("apply", 4, &["nothing was written", "vda1", behind]),
        ("below", 4, &["vda", behind]),
        ("free", 4, &["vda", behind]),
        ("open", 4, &["nothing was written", "a partition of it open", "BLKRRPART"]),
        ("unused", 0, &[]),
        ("written", 0, &[]),
    ] {
        let line = said.lines().find(|line| line.starts_with(&format!("{what}: "))).unwrap_or_default();
        assert!(line.starts_with(&format!("{what}: {status}: ")), "{line}\n{said}");
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    }
    for kept in ["file system: sound", "file: same", "backup: none"] {
        assert!(said.contains(kept), "{kept}: {said}");
    }
}

/// A program that takes no lock and comes while a probe is at work: the run stops, and says so.
#[test]
fn a_probe_notices_who_writes_meanwhile() {
    let dir = Dir::new("probed");
    let (path, _) = image(&dir, "disk.img");
    let mut command = Command::new(STRADDLE);
    command.args(["probe", "--used", "--time", "60"]).arg(&path).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[7; 512], 1 << 20).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    refused(&child.wait_with_output().unwrap(), &["open for writing"]);
}

#[test]
fn a_target_that_is_open_for_writing_elsewhere_is_in_use() {
    let dir = Dir::new("open");
    let (path, bytes) = image(&dir, "disk.img");
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let _writer = Ends(Command::new("sleep").arg("1000").stdout(file).spawn().unwrap());
    refused(&bench(&dir, &path, &["--used"]).output().unwrap(), &["(sleep) has it open for writing"]);
    let _reader = File::open(&path).unwrap();
    // As long as nobody writes, others may read.
    assert!(fs::read(&path).unwrap() == bytes);
}
