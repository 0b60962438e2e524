//! Loop devices, and partitions that were added by ioctl: whatever lies below or above a device is found.

use super::*;
use crate::tools::{losetup_find, skipped};

/// A plan that gives the whole image to one partition.
fn plan_over(dir: &Dir, image: &Path) -> PathBuf {
    let plan = dir.join("plan");
    let mut command = Command::new(STRADDLE);
    command.args(["plan", "--table", "gpt", "--part", "rest", "--wipe", "--save"]).arg(&plan).arg(image);
    let planned = output(&mut command, "");
    assert!(planned.status.success(), "{}", transcript(&planned));
    plan
}

/// A loop device that is detached when the test ends. Creating one returns `None` if this machine has none for
/// us; the guest has.
struct Loop(PathBuf);

impl Loop {
    fn over(path: &Path) -> Option<Self> {
        let made = output(&mut losetup_find(path), "");
        if !made.status.success() {
            tools::skipped("no loop devices here");
        }
        let device = made.status.success().then(|| Self(PathBuf::from(tools::text(&made.stdout).trim())))?;
        // Partitions that were added to a loop device stay when it is detached; a killed test leaves them.
        device.delete_partition();
        Some(device)
    }

    /// Deletes partition 1 if the kernel lists one, as soon as nobody has it open: other tests check all disks.
    fn delete_partition(&self) {
        let name = format!("{}p1", self.0.file_name().unwrap().to_str().unwrap());
        for _ in 0..200 {
            if !Path::new("/sys/class/block").join(&name).exists() {
                return;
            }
            let _ = Command::new("delpart").arg(&self.0).arg("1").stderr(Stdio::null()).status();
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{name} cannot be deleted");
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A partition added to the kernel, with a device node of its own, because nothing else creates one here.
struct Partition<'a> {
    disk: &'a Loop,
    node: PathBuf,
    is_made: bool,
}

impl<'a> Partition<'a> {
    fn of(disk: &'a Loop) -> Option<Self> {
        Self::at(disk, "2048")
    }

    fn at(disk: &'a Loop, start: &str) -> Option<Self> {
        let added = output(Command::new("addpart").arg(&disk.0).args(["1", start, "12288"]), "");
        assert!(added.status.success(), "{}", transcript(&added));
        let name = format!("{}p1", disk.0.file_name()?.to_str()?);
        let node = Path::new("/dev").join(&name);
        let number = fs::read_to_string(Path::new("/sys/class/block").join(name).join("dev")).ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        let is_made = !node.exists()
            && Command::new("mknod").arg(&node).args(["b", major, minor]).status().unwrap().success();
        Some(Self { disk, node, is_made })
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        self.disk.delete_partition();
        if self.is_made {
            let _ = fs::remove_file(&self.node);
        }
    }
}

/// Opening a device below or above the target for writing is noticed, even if nothing is written.
#[test]
fn whoever_comes_below_a_device_during_a_run_is_noticed() {
    if !present(&["flock", "losetup", "addpart", "mknod"]) {
        return;
    }
    let dir = Dir::new("beneath");
    let (path, bytes) = image(&dir, "disk.img");
    let Some(first) = Loop::over(&path) else { return };
    let second = Loop::over(&first.0).unwrap();
    let third = Loop::over(&second.0).unwrap();
    let run = |target: &Path, theirs: &Path, command: &str| {
        let child = if command == "bench" {
            bench(&dir, target, &["--used", "--runtime", "30"]).spawn().unwrap()
        } else {
            let mut probe = Command::new(STRADDLE);
            probe.args(["probe", "--used", "--time", "30"]).arg(target).arg("--journals");
            probe.arg(dir.join("journals")).stdin(Stdio::null()).stdout(Stdio::null());
            probe.stderr(Stdio::piped()).spawn().unwrap()
        };
        let child = begun(child, &dir);
        // A program that only reads does not end the run.
        drop(File::open(theirs).unwrap());
        let _theirs = OpenOptions::new().write(true).open(theirs).unwrap();
        let ended = child.wait_with_output().unwrap();
        let again = format!("{command} on {}, {} opened", target.display(), theirs.display());
        assert_eq!(ended.status.code(), Some(4), "{again}: {}", transcript(&ended));
        assert!(
            transcript(&ended).contains("opened the target, or had it open for writing, between"),
            "{again}: {}",
            transcript(&ended)
        );
        assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty(), "{again}");
    };
    for (theirs, command) in
        [(&path, "bench"), (&first.0, "bench"), (&second.0, "bench"), (&third.0, "bench"), (&path, "probe")]
    {
        run(&third.0, theirs, command);
    }
    drop(third);
    drop(second);
    let Some(partition) = Partition::of(&first) else {
        return skipped("/sys does not list the partition of a loop device");
    };
    for theirs in [&first.0, &path, &partition.node] {
        run(&partition.node, theirs, "bench");
    }
    run(&first.0, &partition.node, "bench");
}

/// A program that holds a lock on the file below a loop device, and has it open only for reading, is found by
/// the lock alone. A program that comes later is kept out by straddle's own lock.
#[test]
fn the_file_below_a_loop_device_is_locked_with_it() {
    if !present(&["flock", "losetup"]) {
        return;
    }
    let dir = Dir::new("below");
    let (path, bytes) = image(&dir, "disk.img");
    let plan = plan_over(&dir, &path);
    let Some(device) = Loop::over(&path) else { return };
    let theirs = File::open(&path).unwrap();
    rustix::fs::flock(&theirs, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let said = ["in use", "has locked", "disk.img, the file below the target"];
    refused(&bench(&dir, &device.0, &["--used"]).output().unwrap(), &said);
    let written = output(Command::new(STRADDLE).arg("apply").arg(&plan).arg("--write").arg(&device.0), "");
    refused(&written, &said);
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
    drop(theirs);
    let child = Ends(running(&dir, &device.0));
    let late = output(Command::new("flock").arg("-n").arg(&path).arg("true"), "");
    assert!(!late.status.success(), "the file is not locked");
    drop(child);
}

/// The device number is reused for another disk of the same size: the journal does not belong to it, whatever
/// options are given.
#[test]
fn another_disk_at_the_same_number_is_not_written_by_force() {
    if !present(&["flock", "losetup"]) {
        return;
    }
    let dir = Dir::new("number");
    let (path, bytes) = image(&dir, "disk.img");
    let Some(device) = Loop::over(&path) else { return };
    if !Path::new("/sys/block").join(device.0.file_name().unwrap()).join("diskseq").exists() {
        tools::not_run("this kernel does not number its disks (Linux 5.15)");
        return;
    }
    drop(Ends(running(&dir, &device.0)));
    let restore = |options: &[&str]| {
        let mut command = Command::new(STRADDLE);
        output(command.args(["bench", "--restore", "--journals"]).arg(dir.join("journals")).args(options), "")
    };
    let other = dir.join("other.img");
    let theirs: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    fs::write(&other, &theirs).unwrap();
    let mut replaced = Command::new("flock");
    let line = "losetup --detach \"$0\" && losetup \"$0\" \"$1\"";
    let done = output(replaced.args(["/dev/loop-control", "sh", "-c", line]).arg(&device.0).arg(&other), "");
    assert!(done.status.success(), "{}", transcript(&done));
    for options in [&[][..], &["--force"]] {
        let refused = restore(options);
        assert_eq!(refused.status.code(), Some(3), "{}", transcript(&refused));
        assert!(transcript(&refused).contains("the target has been replaced"), "{}", transcript(&refused));
        assert_eq!(complete(&dir), 1);
    }
    drop(device);
    assert!(fs::read(&other).unwrap() == theirs && fs::read(&path).unwrap() == bytes);
}

#[test]
fn what_is_behind_a_loop_device_is_in_use_by_whatever_name_and_depth() {
    if !present(&["flock", "losetup"]) {
        return;
    }
    let dir = Dir::new("loops");
    let (path, _) = image(&dir, "disk.img");
    let other = dir.join("other.img");
    fs::hard_link(&path, &other).unwrap();
    let plan = plan_over(&dir, &path);
    let bytes = fs::read(&path).unwrap();
    let Some(first) = Loop::over(&path) else { return };
    let second = Loop::over(&first.0).unwrap();
    for target in [&path, &other, &first.0] {
        refused(&bench(&dir, target, &["--used"]).output().unwrap(), &["in use", "of /dev/loop"]);
        refused(&bench(&dir, target, &[]).output().unwrap(), &["of /dev/loop"]);
    }
    for target in [&path, &other] {
        let applied = output(Command::new(STRADDLE).arg("apply").arg(&plan).arg("--write").arg(target), "");
        refused(&applied, &["in use", "of /dev/loop"]);
    }
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
    drop(second);
    drop(first);
    let used = bench(&dir, &other, &["--used", "--runtime", "1"]).output().unwrap();
    assert!(used.status.success(), "{}", transcript(&used));
}

/// A loop device that the kernel reads no table from keeps the partitions that somebody has added. Where there are none,
/// nothing is out of date.
#[test]
fn partitions_that_the_kernel_keeps_are_named() {
    if !present(&["losetup", "addpart", "delpart", "mknod", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("kept");
    for is_kept in [false, true] {
        let path = dir.join("disk.img");
        fs::write(&path, vec![0; 24 << 20]).unwrap();
        let made = output(Command::new("sfdisk").arg("-q").arg(&path), "label: dos\nstart=63, size=12288\n");
        assert!(made.status.success(), "{}", transcript(&made));
        let Some(device) = Loop::over(&path) else { return };
        let plan = dir.join(&format!("plan {is_kept}"));
        let mut command = Command::new(STRADDLE);
        let planned = output(command.args(["realign", "--save"]).arg(&plan).arg(&path), "");
        assert!(plan.exists(), "{}", transcript(&planned));
        let partition = if is_kept { Partition::at(&device, "63") } else { None };
        if is_kept && partition.is_none() {
            return skipped("/sys does not list the partition of a loop device");
        }
        let mut command = Command::new(STRADDLE);
        let applied = output(command.arg("apply").arg(&plan).arg("--write").arg(&device.0), "");
        let name = device.0.file_name().unwrap().to_str().unwrap();
        let (status, said) = (applied.status.code(), transcript(&applied));
        assert_eq!(status, Some(if is_kept { 3 } else { 0 }), "{said}");
        let warning = format!("the kernel still lists partitions at their old positions ({name}p1)");
        assert_eq!(said.contains(&warning), is_kept, "{said}");
        assert_eq!(said.contains(&format!("partx -d /dev/{name}")), is_kept, "{said}");
        drop(partition);
        let listed = output(Command::new("sfdisk").args(["-l", "-o", "Start"]).arg(&path), "");
        assert!(transcript(&listed).contains("2048"), "{}", transcript(&listed));
    }
}

/// The script for the guest: each line of its output has the action, its status, and the last line printed.
const IN_GUEST: &str = r#"
S() { "$INPUT/straddle" "$@"; }
reported() { local code=0; S "${@:2}" > said 2>&1 || code=$?; echo "$1: $code: $(tail -n 1 said)"; }
measured() { reported "$1" bench random-write "$2" --runtime 1 --count 4 --offsets 0 --area 4M "${@:3}"; }
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
reported apply apply plan.json --write /dev/vda
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
reported open apply plan.json --write /dev/vda
kill $!
wait $! || true
test ! -e plan.json.undo && echo "backup: none"
S bench random-write /dev/vda --runtime 600 --used --area 4M > disturbed 2>&1 &
sleep 5
echo theirs | dd of=/dev/vda2 bs=512 conv=sync,fsync status=none
wait $! && code=0 || code=$?
echo "disturbed: $code: $(tr '\n' ' ' < disturbed)"
measured unused /dev/vda1 --used
reported written apply plan.json --write /dev/vda
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
    assert_eq!(done.status.code(), Some(0), "{}", transcript(&done));
    let behind = "is the backing device of /dev/loop0";
    for (what, status, words) in [
        ("partition", 4, &["vda1", behind, "loop0 is mounted at"][..]),
        ("disk", 4, &["vda1", behind]),
        ("loop", 4, &["loop0 is mounted at"]),
        ("other", 0, &[]),
        ("apply", 4, &["nothing was written", "vda1", behind]),
        ("below", 4, &["vda", behind]),
        ("free", 4, &["vda", behind]),
        ("open", 4, &["nothing was written", "a partition of the disk is open", "BLKRRPART"]),
        ("disturbed", 4, &["/dev/vda"]),
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

/// A loop device that the kernel does not scan for partitions has none that could be out of date: its table is written, and
/// that is all.
#[test]
fn a_loop_device_that_is_not_scanned_gets_its_table() {
    if !tools::present(&["losetup", "partx"]) {
        return;
    }
    let dir = Dir::new("unscanned");
    let Some(disk) = Loop::over(&dir.image("disk.img", 64 << 20)) else { return };
    let plan = plan_over(&dir, &disk.0);
    let mut command = Command::new(STRADDLE);
    command.arg("apply").arg(&plan).arg("--write").arg(&disk.0).arg("--backup").arg(dir.join("backup"));
    let applied = output(&mut command, "");
    assert!(applied.status.success(), "{}", transcript(&applied));
    let listed = output(Command::new("partx").args(["--show", "--noheadings"]).arg(&disk.0), "");
    assert_eq!(tools::text(&listed.stdout).lines().count(), 1, "{}", transcript(&listed));
}
