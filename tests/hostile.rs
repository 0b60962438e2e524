//! The real binary on targets that are broken, endless, unreadable or malicious: it ends with a documented
//! exit code and a message that names the target. It never panics, hangs or fills the memory.
//!
//! A test that cannot run on a machine prints `SKIPPED` there; under CI that is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/process.rs"]
mod process;
#[path = "hostile/tables.rs"]
mod tables;
use crate::tools;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use process::{TICKS, ticks};
use tables::{Gpt, boot_record};
use tempfile::TempDir;
use tools::{PATH, STRADDLE, command, skipped};

/// A run that takes more processor time than this is too slow, on any machine: a usual run takes
/// milliseconds.
const MOST_TICKS: u64 = 20 * TICKS;
/// A run that takes longer than this hangs. This says nothing about speed: on a busy machine a run may take
/// minutes.
const FOR_EVER: Duration = Duration::from_secs(1200);
/// Bytes per block, unless stated otherwise.
const BLOCK: u64 = 512;
const MIB: u64 = 1 << 20;

/// A finished run: what it printed, and its exit code unless a signal ended it.
struct Watched {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Watched {
    /// Asserts that it ended by itself, with one of `codes`, and without a panic.
    #[track_caller]
    fn ended(&self, codes: &[i32]) -> &Self {
        let all = format!("exit {:?}\nstdout: {:.2000}\nstderr: {:.2000}", self.code, self.out, self.err);
        assert!(self.code.is_some_and(|code| codes.contains(&code)), "not one of {codes:?}: {all}");
        assert!(!self.err.contains("panicked") && !self.out.contains("panicked"), "{all}");
        self
    }

    /// Asserts that its output contains `text`, even across lines.
    #[track_caller]
    fn says(&self, text: &str) -> &Self {
        let joined = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = self.out.contains(text) || joined.contains(text) || self.err.contains(text);
        assert!(said, "'{text}' is not in\nstdout: {:.2000}\nstderr: {:.2000}", self.out, self.err);
        self
    }
}

fn check(target: &Path) -> Watched {
    run(command().arg("check").arg(target))
}

fn run(command: &mut Command) -> Watched {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    watch(child)
}

/// Waits for the end of a child, reading all its output, and kills it after [`FOR_EVER`].
fn watch(mut child: Child) -> Watched {
    fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).unwrap();
            }
            bytes
        })
    }
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let used = ticks(child.id());
        if used > MOST_TICKS || begun.elapsed() > FOR_EVER {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs: {} s of processor time in {:?}", used / TICKS, begun.elapsed());
        }
        thread::sleep(Duration::from_millis(1));
    };
    let text = |bytes: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&bytes.join().unwrap()).into_owned();
    Watched { out: text(out), err: text(err), code: status.code() }
}

/// Writes each piece's bytes at its offset into a sparse file of `size` bytes.
fn sparse(path: &Path, size: u64, pieces: &[(u64, &[u8])]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (at, bytes) in pieces {
        file.write_all_at(bytes, *at).unwrap();
    }
}

#[test]
fn what_is_no_disk_is_refused_by_its_name() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    check(dir.path())
        .ended(&[3])
        .says("no file in this directory has the extension of a disk image")
        .says(dir.path().to_str().unwrap());

    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    check(&fifo).ended(&[3]).says("is a FIFO").says(fifo.to_str().unwrap());

    let socket = path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    check(&socket).ended(&[3]).says("is a socket").says(socket.to_str().unwrap());

    for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"] {
        check(Path::new(device)).ended(&[3]).says(&format!("{device}: is a character device"));
    }
    for file in ["/proc/self/mem", "/proc/kmsg", "/proc/self/environ", "/sys/kernel/uevent_seqnum"] {
        check(Path::new(file)).ended(&[0, 1, 3]).says(file);
    }

    let (dangling, looped, chain) = (path("dangling"), path("loop"), path("chain"));
    symlink(path("gone"), &dangling).unwrap();
    symlink(&looped, &looped).unwrap();
    symlink(&fifo, &chain).unwrap();
    check(&dangling).ended(&[3]).says("No such file or directory").says(dangling.to_str().unwrap());
    check(&looped).ended(&[3]).says("Too many levels of symbolic links");
    check(&chain).ended(&[3]).says("is a FIFO");
    check(Path::new("")).ended(&[2, 3]);
    check(&path(&"x".repeat(5000))).ended(&[3]).says("File name too long");
    check(&path("fifo/below")).ended(&[3]).says("Not a directory");

    // One bad target does not stop the others; neither do fifty.
    let image = path("disk.img");
    Gpt::new(&[(2048, 4095)]).write(&image);
    let run = run(command().arg("check").args(vec![&fifo; 50]).arg(&image));
    assert_eq!(run.ended(&[3]).err.matches("is a FIFO").count(), 50);
    run.says("aligned: 1 partition");
}

#[test]
fn names_that_are_no_text() {
    let dir = TempDir::new().unwrap();
    let name = OsStr::from_bytes(b"disk \xff\xfe it's $(reboot) .img");
    let image = dir.path().join(name);
    Gpt::new(&[(2049, 4096)]).write(&image);
    for option in ["-v", "--quiet", "--json"] {
        run(command().args(["check", option]).arg(&image)).ended(&[1]).says("disk \u{fffd}\u{fffd} it");
    }
    fs::remove_file(&image).unwrap();
    check(&image).ended(&[3]).says("disk \u{fffd}\u{fffd} it's $(reboot) .img: cannot open: No such file");
    // A name that looks like an option, after "--" and in the commands of a fix.
    Gpt::new(&[(2049, 4096)]).write(&dir.path().join("-x.img"));
    let dashed = run(command().current_dir(dir.path()).args(["check", "--", "-x.img"]));
    assert!(!dashed.ended(&[1]).says("straddle realign ./-x.img").out.contains(" realign -x.img"));
}

#[test]
fn names_that_a_terminal_would_obey() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("a\u{1b}]0;owned\u{7}\nb: error\u{9b}2J.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    for option in ["-v", "--quiet", "--json", "--color=always"] {
        let run = run(command().args(["check", option]).args([&image, &dir.path().join("\u{1b}c gone")]));
        let text = format!("{}{}", run.ended(&[3]).out, run.err);
        // Colours are the only escape sequences.
        let left = text.replace("\u{1b}[", "");
        assert!(!left.contains(['\u{1b}', '\u{7}']), "{option}: {left:?}");
        // JSON is for programs and contains the name unchanged; JSON itself escapes only what is below
        // U+0020.
        assert!(option == "--json" || !left.contains('\u{9b}'), "{option}: {left:?}");
        assert!(!text.contains("\nb: error"), "{option}: {text:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096); 128]).write(&image);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = || std::io::pipe().unwrap().1;
    let commands: [&[&OsStr]; 6] = [
        &["check".as_ref(), image.as_ref()],
        &["check".as_ref(), "--json".as_ref(), image.as_ref()],
        &["check".as_ref(), "--quiet".as_ref(), image.as_ref()],
        &["schema".as_ref()],
        &["explain".as_ref(), "S001".as_ref()],
        &["efficiency".as_ref()],
    ];
    for arguments in commands {
        let to =
            |out: Stdio| watch(command().args(arguments).stdout(out).stderr(Stdio::piped()).spawn().unwrap());
        to(full().into()).ended(&[3]).says("No space left on device");
        let run = to(gone().into());
        let status = i32::from(arguments[0] == "check");
        assert_eq!(run.ended(&[status]).err, "", "{arguments:?}: a closed pipe is silent");
    }
}

#[test]
fn a_complaint_that_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let gone = || std::io::pipe().unwrap().1;
    let no_file = dir.path().join("gone.img");
    // The exit code still reports the error.
    for err in [Stdio::from(full()), Stdio::from(gone())] {
        let mut command = command();
        command.arg("check").args([&no_file, &image]).stdout(Stdio::piped()).stderr(err);
        watch(command.spawn().unwrap()).ended(&[3]);
    }
    let mut command = command();
    command.arg("check").arg(&no_file).stdout(full()).stderr(full());
    watch(command.spawn().unwrap()).ended(&[3]);
}

#[test]
fn a_file_that_may_not_be_read() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    Gpt::new(&[(2049, 4096)]).write(&image);
    fs::set_permissions(&image, Permissions::from_mode(0o000)).unwrap();
    let mut command = if File::open(&image).is_err() {
        command()
    } else {
        // Root can read everything, so run as `nobody`, with a copy of the binary that `nobody` can reach.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let binary = dir.path().join("straddle");
        crate::tools::copy_program(STRADDLE, &binary);
        fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary).stdin(Stdio::null());
        let works = command.arg("--version").output().is_ok_and(|output| output.status.success());
        if !works {
            return skipped("an unreadable file: this is root, and setpriv does not work");
        }
        let mut again = Command::new("setpriv");
        again.args(command.get_args().filter(|argument| *argument != "--version"));
        again
    };
    run(command.arg("check").arg(&image))
        .ended(&[3])
        .says(&format!("{}: cannot open: Permission denied", image.display()));
}

#[test]
fn sizes_at_the_end_of_what_can_be_counted() {
    // tmpfs supports files of 2^63 - 1 bytes, ext4 of 16 TiB.
    let shm = Path::new("/dev/shm");
    let dir = TempDir::new_in(shm).or_else(|_| TempDir::new()).unwrap();
    let image = dir.path().join("huge.img");
    let sizes =
        [i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs() - 511, 1 << 62, 1 << 50, (1 << 44) - 4096, 1 << 42];
    let file = File::create(&image).unwrap();
    let mut tried = 0;
    for size in sizes.into_iter().filter(|size| file.set_len(*size).is_ok()) {
        file.set_len(0).unwrap();
        file.set_len(size).unwrap();
        tried += 1;
        check(&image).ended(&[0, 1]).says("blank: no table and no contents");
        file.write_all_at(&boot_record(&[(0xee, 1, u32::MAX), (0x83, u32::MAX, u32::MAX)]), 0).unwrap();
        check(&image).ended(&[1]);
        file.write_all_at(&boot_record(&[(0x83, u32::MAX, u32::MAX), (5, 1, u32::MAX)]), 0).unwrap();
        check(&image).ended(&[1]).says("starts at byte 2199023255040");
        let logical = run(command().args(["check", "--logical", "65536"]).arg(&image));
        logical.ended(&[1]);
    }
    if tried < 2 {
        skipped("huge files: no file system here takes them");
    }
}

/// A sysfs tree with a disk `sda` that has these attributes.
fn sysroot(attributes: &[(&str, &[u8])]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, value) in attributes {
        let path = dir.path().join("sys/block/sda").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }
    dir
}

fn check_sysroot(root: &TempDir, target: &str) -> Watched {
    run(command().args(["check", "-v", "--sysroot"]).arg(root.path()).arg(target))
}

#[test]
fn attributes_that_are_garbage() {
    let garbage: [&[u8]; 12] = [
        b"",
        b"\n",
        b"-1\n",
        b"0\n",
        b"1\n",
        b"4294967295\n",
        b"18446744073709551615\n",
        b"99999999999999999999999999\n",
        b"\xff\xfe\x00\x01",
        b"\x1b[2J\x1b]0;owned\x07",
        b"4096 4096\n",
        &[b'9'; 200_000],
    ];
    let names = [
        "alignment_offset",
        "queue/logical_block_size",
        "queue/physical_block_size",
        "queue/minimum_io_size",
        "queue/optimal_io_size",
        "queue/rotational",
        "queue/atomic_write_unit_min_bytes",
        "queue/atomic_write_boundary_bytes",
        "device/vendor",
        "device/model",
        "device/preferred_erase_size",
        "device/vpd_pg89",
        "device/vpd_pgb0",
        "device/vpd_pgb1",
        "sda1/partition",
        "sda1/start",
        "sda1/size",
    ];
    for value in garbage {
        let mut attributes: Vec<(&str, &[u8])> = vec![("size", b"204800\n")];
        attributes.extend(names.map(|name| (name, value)));
        let root = sysroot(&attributes);
        let run = check_sysroot(&root, "/dev/sda");
        // Without a listable partition there is nothing to judge.
        run.ended(&[0, 1, 3]).says("/dev/sda");
        assert!(!run.out.contains('\u{1b}'), "{:?}", run.out);
        // The same attributes, with one valid partition in addition.
        attributes.extend([
            ("sda2/partition", b"2\n".as_slice()),
            ("sda2/start", b"63\n"),
            ("sda2/size", b"99\n"),
        ]);
        check_sysroot(&sysroot(&attributes), "/dev/sda").ended(&[1]).says("starts at byte 32256");
        check_sysroot(&sysroot(&attributes), "/dev/sda2").ended(&[1]).says("starts at byte 32256");
        // The same value as the size of the disk.
        check_sysroot(&sysroot(&[("size", value)]), "/dev/sda").ended(&[0, 1, 3]).says("sda");
    }
    check_sysroot(&sysroot(&[("size", b"many\n")]), "/dev/sda")
        .ended(&[3])
        .says("size is missing or not a number");
    for target in ["/dev/sdb", "..", "/", "../../../etc", "sda/queue"] {
        check_sysroot(&sysroot(&[("size", b"204800\n")]), target).ended(&[3]);
    }
}

#[test]
fn a_tree_in_which_nothing_is_a_file() {
    let root = sysroot(&[("size", b"204800\n"), ("queue/logical_block_size", b"512\n")]);
    let sda = root.path().join("sys/block/sda");
    fs::create_dir_all(sda.join("device/model")).unwrap();
    fs::create_dir_all(sda.join("sda1")).unwrap();
    let fifo = |name: &str| assert!(Command::new("mkfifo").arg(sda.join(name)).status().unwrap().success());
    ["queue/physical_block_size", "alignment_offset", "sda1/partition", "sda1/start", "device/vendor"]
        .into_iter()
        .for_each(fifo);
    symlink("loop", sda.join("loop")).unwrap();
    symlink(".", sda.join("sda2")).unwrap();
    symlink("/dev/zero", sda.join("queue/minimum_io_size")).unwrap();
    fs::create_dir_all(root.path().join("dev")).unwrap();
    check_sysroot(&root, "/dev/sda").ended(&[0, 3]).says("/dev/sda");
    // In place of the copy of the disk.
    for (name, kind) in [("fifo", "-p"), ("zero", "-c")] {
        let copy = root.path().join("dev/sda");
        let _ = fs::remove_file(&copy);
        match kind {
            "-p" => assert!(Command::new("mkfifo").arg(&copy).status().unwrap().success()),
            _ => symlink("/dev/zero", &copy).unwrap(),
        }
        check_sysroot(&root, "/dev/sda").ended(&[0, 3]).says("/dev/sda");
        check_sysroot(&root, &format!("/dev/{name}")).ended(&[3]);
    }
    // Without a target: every disk of the tree, one of which is a regular file and one a symbolic link to
    // itself.
    fs::write(root.path().join("sys/block/sdb"), b"").unwrap();
    symlink("sdc", root.path().join("sys/block/sdc")).unwrap();
    run(command().args(["check", "--all", "--sysroot"]).arg(root.path())).ended(&[0, 1, 3]);
    run(command().args(["check", "--sysroot", "/proc/self/cmdline"])).ended(&[3]);
}

#[test]
fn a_hundred_thousand_partitions() {
    let root = sysroot(&[("size", b"204800\n")]);
    let sda = root.path().join("sys/block/sda");
    // Creating this many directories, or symbolic links, would take long: names of a few hundred serve as well.
    let kinds = 400;
    for number in 1..=kinds {
        let partition = root.path().join(format!("p{number}"));
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("partition"), number.to_string()).unwrap();
        fs::write(partition.join("start"), (number * 63).to_string()).unwrap();
        fs::write(partition.join("size"), "63").unwrap();
        symlink(&partition, partition.with_extension("link")).unwrap();
    }
    // A twentieth of them, unless every case is tried.
    let count = if tools::skip::is_sampled() { 5_000 } else { 100_000 };
    for number in 0..count {
        let link = root.path().join(format!("p{}.link", number % kinds + 1));
        fs::hard_link(link, sda.join(format!("sda{number}"))).unwrap();
    }
    check_sysroot(&root, "/dev/sda").ended(&[1]).says("starts at byte 32256");
    run(command().args(["check", "--json", "--sysroot"]).arg(root.path()).arg("sda7")).ended(&[1]);
}
