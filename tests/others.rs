//! Commands that write while other programs use the same data: servers, loop devices, owners that write
//! meanwhile, and closed terminals. No data of theirs is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "others/loops.rs"]
mod loops;
use crate::tools;

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use straddle_device::shown::quote_path;
use tools::{Dir, STRADDLE, output, present, transcript};

const SIZE: u64 = 16 << 20;

/// An image full of bytes that no other program writes.
fn image(dir: &Dir, name: &str) -> (PathBuf, Vec<u8>) {
    let path = dir.join(name);
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..SIZE).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect());
    fs::write(&path, &*BYTES).unwrap();
    (path, BYTES.clone())
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

/// Waits until `is_so` returns true, for as long as a slow machine may take.
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(1200), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of journals whose runs may have written.
fn complete(dir: &Dir) -> usize {
    tools::journals::used(&dir.join("journals")).len()
}

/// Waits until the journal of `run` has an area, from when on the run may write.
#[track_caller]
fn begun(mut run: Child, dir: &Dir) -> Child {
    until(|| complete(dir) > 0 || run.try_wait().unwrap().is_some());
    if complete(dir) == 0 {
        panic!("it ended before it began to write: {}", transcript(&run.wait_with_output().unwrap()));
    }
    run
}

/// Starts a run and waits until it may write.
fn running(dir: &Dir, target: &Path) -> Child {
    begun(bench(dir, target, &["--used", "--runtime", "100"]).spawn().unwrap(), dir)
}

fn refused(output: &Output, words: &[&str]) {
    let said = transcript(output);
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
    let uri = format!("nbd+unix:///?socket={}", socket.display().to_string().replace(' ', "%20"));
    let written = output(
        Command::new("qemu-io").args(["-f", "raw", "-c", "write -P 0x5a 1M 256k", "-c", "flush", &uri]),
        "",
    );
    assert!(written.status.success(), "{}", transcript(&written));
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
        assert!(planned.status.success(), "{}", transcript(&planned));
        refused(
            &output(Command::new(STRADDLE).arg("apply").arg(dir.join("plan")).arg("--write").arg(name), ""),
            &["in use"],
        );
    }
    assert!(fs::read(&path).unwrap() == bytes, "it was written to");
    assert!(journals(&dir).is_empty() && !dir.join("plan.undo").exists());
}

/// The store of a modelled drive, and an image that qemu-nbd serves: whichever comes second is refused.
#[test]
fn a_store_and_a_server_of_qemus_keep_each_other_out() {
    if !present(&["qemu-nbd"]) {
        return;
    }
    let dir = Dir::new("store");
    let (store, socket, nbd) = (dir.join("store.img"), dir.join("socket"), dir.join("nbd"));
    let serve = || {
        let mut command = Command::new(STRADDLE);
        command.args(["serve", "drive:wd10ears", "--store"]).arg(&store).arg("--nbd");
        command.arg(format!("unix:{}", nbd.display())).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let qemu = || {
        let mut command = Command::new("qemu-nbd");
        command.args(["-f", "raw", "-t", "-k"]).arg(&socket).arg(&store).stdin(Stdio::null());
        command
    };
    let first = Ends(serve().spawn().unwrap());
    until(|| nbd.exists());
    let second = output(&mut qemu(), "");
    assert!(!second.status.success() && transcript(&second).contains("lock"), "{}", transcript(&second));
    drop(first);
    let _ = fs::remove_file(&nbd);
    // qemu-nbd creates its socket before it opens the image, and sends a greeting only afterwards.
    let _ = fs::remove_file(&socket);
    let _first = Ends(qemu().spawn().unwrap());
    until(|| {
        let greets = |mut stream: UnixStream| stream.read_exact(&mut [0; 8]).is_ok();
        UnixStream::connect(&socket).is_ok_and(greets)
    });
    refused(&output(&mut serve(), ""), &["in use", "locked"]);
    let other = dir.join("other.img");
    fs::hard_link(&store, &other).unwrap();
    let mut named = Command::new(STRADDLE);
    named.args(["serve", "drive:wd10ears", "--store"]).arg(&other).arg("--nbd");
    refused(&output(named.arg(format!("unix:{}", nbd.display())), ""), &["in use", "locked"]);
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
    assert!(read.status.success(), "{}", transcript(&read));
}

/// A file that was created for a run is removed with it, but a file that has taken its place stays.
#[test]
fn what_takes_the_place_of_a_made_file_stays() {
    let dir = Dir::new("made");
    let (path, other) = (dir.join("scratch"), dir.join("precious"));
    fs::write(&other, "theirs").unwrap();
    let mut command = Command::new(STRADDLE);
    command.args(["bench", "random-write"]).arg(&path).args(["--io", "buffered", "--area", "4M"]);
    command
        .args(["--runtime", "1000", "--precision", "0.1", "--offsets", "0,1,2,3"])
        .env("XDG_STATE_HOME", dir.path());
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| {
        assert!(run.try_wait().unwrap().is_none(), "the run has ended by itself");
        fs::metadata(&path).is_ok_and(|made| made.len() == 4 << 20)
    });
    fs::rename(&other, &path).unwrap();
    tools::signal(run.id(), "INT");
    run.wait().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
}

/// Another program writes to a file while it is measured: the kernel makes it wait until the run has stopped.
#[test]
fn nothing_is_lost_of_what_others_write_during_a_run() {
    let dir = Dir::new("meanwhile");
    for (round, name) in (0_u8..16).zip(["bench", "probe"].into_iter().cycle()) {
        let (path, mut wanted) = image(&dir, "disk.img");
        let child = if name == "bench" {
            bench(&dir, &path, &["--used", "--runtime", "100"]).spawn().unwrap()
        } else {
            let mut command = Command::new(STRADDLE);
            command.args(["probe", "--used", "--time", "100"]).arg(&path).arg("--journals");
            command.arg(dir.join("journals")).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut child = begun(child, &dir);
        std::thread::sleep(Duration::from_millis(u64::from(round) * 37 % 200));
        assert!(child.try_wait().unwrap().is_none(), "{name} has ended by itself");
        // In many small pieces, by another name, or by truncating the file.
        let at = usize::from(round) * 4096 * 11;
        match round % 3 {
            0 => {
                let owner = OpenOptions::new().write(true).open(&path).unwrap();
                for piece in (at..at + 200 * 4096).step_by(4096) {
                    owner.write_all_at(&[round; 4096], piece as u64).unwrap();
                }
                wanted[at..at + 200 * 4096].fill(round);
            }
            1 => {
                let other = dir.join("other.img");
                fs::hard_link(&path, &other).unwrap();
                let owner = OpenOptions::new().write(true).open(&other).unwrap();
                owner.write_all_at(b"theirs", at as u64).unwrap();
                wanted[at..at + 6].copy_from_slice(b"theirs");
                fs::remove_file(other).unwrap();
            }
            _ => {
                let shorter = wanted.len() / 2 + at;
                rustix::fs::ftruncate(OpenOptions::new().write(true).open(&path).unwrap(), shorter as u64)
                    .unwrap();
                wanted.truncate(shorter);
            }
        }
        let ended = child.wait_with_output().unwrap();
        refused(
            &ended,
            &["another program opened the target at", "UTC", "no data of other programs was lost"],
        );
        assert!(fs::read(&path).unwrap() == wanted, "{name}, round {round}: {}", transcript(&ended));
        assert!(journals(&dir).is_empty(), "{name}");
    }
}

/// Writes to the file of a run made by `start`, or truncates it, as its owner would. Returns the file and its
/// former contents.
fn owner_writes(dir: &Dir, start: &dyn Fn(&Path) -> Command, cut: bool) -> (PathBuf, Vec<u8>) {
    let (path, bytes) = image(dir, "disk.img");
    // Opened before the run, which therefore does not see the open; the change is found when the descriptor
    // is closed.
    let owner = OpenOptions::new().write(true).open(&path).unwrap();
    let child = begun(start(&path).spawn().unwrap(), dir);
    // Larger than what a run can overwrite before it notices.
    let at: u32 = 1 << 20;
    let theirs = vec![0xEE; 12 << 20];
    if cut {
        owner.set_len(SIZE / 2).unwrap();
    } else {
        owner.write_all_at(&theirs, u64::from(at)).unwrap();
    }
    drop(owner);
    let ended = child.wait_with_output().unwrap();
    refused(
        &ended,
        &[
            "during the run",
            "nothing was restored",
            "since 20",
            "UTC may have been overwritten",
            "are kept in",
        ],
    );
    let now = fs::read(&path).unwrap();
    if cut {
        let half = bytes.len() / 2;
        assert!(now[..half] == bytes[..half]);
        let back = |sector: &usize| now[*sector..*sector + 512] == bytes[*sector..*sector + 512];
        let back = (half..now.len()).step_by(512).filter(back).count();
        assert!(
            back <= 8,
            "{back} sectors that were cut off are back, more than the request that was on its way"
        );
    } else {
        let kept = now[at as usize..].iter().take(theirs.len()).filter(|byte| **byte == 0xEE).count();
        assert!(kept > theirs.len() / 2, "only {kept} bytes of the owner's are left");
        assert!(now[..at as usize] == bytes[..at as usize]);
    }
    (path, bytes)
}

/// Asserts that the journal is kept, and that the target is not measured again until the journal is settled.
fn kept_until_settled(dir: &Dir, path: &Path, bytes: &[u8], cut: bool) {
    let now = fs::read(path).unwrap();
    assert_eq!(complete(dir), 1);
    refused(&bench(dir, path, &["--used"]).output().unwrap(), &["--restore"]);
    let probed = output(
        Command::new(STRADDLE).args(["probe", "--used", "--journals"]).arg(dir.join("journals")).arg(path),
        "",
    );
    refused(&probed, &["--restore"]);
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
    assert_eq!(
        shown.status.code(),
        Some(if now.len() as u64 == SIZE { 4 } else { 3 }),
        "{}",
        transcript(&shown)
    );
    assert!(fs::read(path).unwrap() == now && complete(dir) == 1, "{}", transcript(&shown));
    if !cut {
        assert!(transcript(&shown).contains("The run started writing at 20"), "{}", transcript(&shown));
        let forced = restore(&["--force"]);
        assert_eq!(forced.status.code(), Some(0), "{}", transcript(&forced));
        assert!(fs::read(path).unwrap() == bytes && journals(dir).is_empty());
    }
}

/// The file belongs to another user, whom the kernel does not make wait. Data that the run finds changed at
/// the end stays, and the message says since when other writes may have been lost. A write that is in flight
/// when the file is truncated extends it again, by no more than that write.
#[test]
fn what_the_owner_writes_during_a_run_stays_and_ends_it() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        tools::not_run("only root can become another user");
        return;
    }
    let dir = Dir::new("during");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let straddle = dir.join("straddle");
    crate::tools::copy_program(STRADDLE, &straddle);
    if tools::ordinary_user(&straddle) == ["env"] {
        tools::not_run("TMPDIR is root's alone");
        return;
    }
    let as_nobody = |options: &[&str], path: &Path| {
        let usual = bench(&dir, path, options);
        let mut command = Command::new(&straddle);
        command.args(usual.get_args()).uid(65534).gid(65534);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let (path, bytes) = image(&dir, "disk.img");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    // The only process that has the file open is the run itself.
    for (tool, limit) in [("bench", "--runtime"), ("probe", "--time")] {
        let mut alone = Command::new(&straddle);
        alone
            .arg(tool)
            .args((tool == "bench").then_some("random-write"))
            .arg(&path)
            .args(["--used", limit, "1"]);
        alone.arg("--journals").arg(dir.join("journals")).uid(65534).gid(65534);
        let alone = output(&mut alone, "");
        assert!(alone.status.success(), "{tool}: {}", transcript(&alone));
    }
    // Where /proc does not show it, a reader cannot be distinguished from a writer.
    let child = begun(as_nobody(&["--used", "--runtime", "100"], &path).spawn().unwrap(), &dir);
    drop(fs::File::open(&path).unwrap());
    let ended = child.wait_with_output().unwrap();
    refused(&ended, &["another program opened the target, or had it open for writing, between 20"]);
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
    for cut in [false, true] {
        let (path, bytes) = owner_writes(&dir, &|path| as_nobody(&["--used", "--runtime", "100"], path), cut);
        kept_until_settled(&dir, &path, &bytes, cut);
    }
}

#[test]
fn a_closed_terminal_ends_a_run_like_any_other_end() {
    let dir = Dir::new("closed");
    let (path, bytes) = image(&dir, "disk.img");
    for signal in ["HUP", "TERM", "INT"] {
        let child = running(&dir, &path);
        tools::signal(child.id(), signal);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{signal}: {}", transcript(&ended));
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
    until(|| complete(&dir) > 0);
    tools::signal(child.0.id(), "HUP");
    // It is still running, so it can be interrupted; that gives another status than being killed by SIGHUP.
    tools::signal(child.0.id(), "INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

/// A disk that fails all reads when everything is to be compared: the message says what is kept, where, and
/// how to restore it.
#[test]
fn what_cannot_be_compared_is_kept_and_the_way_back_is_said() {
    if !present(&["strace"]) {
        return;
    }
    let dir = Dir::new("uncompared");
    let (path, bytes) = image(&dir, "disk.img");
    // Counts the reads of the target; the last one is part of the comparison.
    let traced = |command: &Command, inject: Option<usize>| {
        let log = dir.join("log");
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pread64"])
            .arg("-P")
            .arg(&path)
            .arg("-o")
            .arg(&log);
        if let Some(number) = inject {
            traced.args(["-e", &format!("inject=pread64:error=EIO:when={number}+")]);
        }
        traced.arg(command.get_program()).args(command.get_args());
        let done = output(&mut traced, "");
        (done, fs::read_to_string(log).unwrap().lines().filter(|line| line.contains("pread64(")).count())
    };
    let run = bench(&dir, &path, &["--used", "--runtime", "1"]);
    let (done, reads) = traced(&run, None);
    assert!(done.status.success() && reads > 1, "{reads}: {}", transcript(&done));
    let (failed, _) = traced(&run, Some(reads));
    let said = transcript(&failed);
    assert_eq!(failed.status.code(), Some(3), "{said}");
    let journal =
        journals(&dir).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    let command = format!("straddle bench --restore --journals {}", quote_path(&dir.join("journals")));
    let journal = journal.unwrap();
    for word in ["Input/output error", &format!("the journal {} was kept", journal.display()), &command] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Restoring fails too while the disk accepts no writes.
    let mut restore = Command::new(STRADDLE);
    restore.args(["bench", "--restore", "--journals"]).arg(dir.join("journals"));
    let mut broken = Command::new("strace");
    broken
        .args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pread64,pwrite64", "-P"])
        .arg(&path)
        .args(["-o", "/dev/null"]);
    broken.args(["-e", "inject=pread64:error=EIO:when=4+", "-e", "inject=pwrite64:error=EIO"]);
    broken.arg(restore.get_program()).args(restore.get_args());
    let broken = output(&mut broken, "");
    let said = transcript(&broken);
    assert_eq!(broken.status.code(), Some(3), "{said}");
    for word in [
        &format!("{}: cannot restore the target of this journal; the journal was kept", journal.display()),
        &command,
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let restored = output(&mut restore, "");
    assert!(restored.status.success(), "{}", transcript(&restored));
    assert!(fs::read(&path).unwrap() == bytes && journals(&dir).is_empty());
}

/// A drive that fails briefly, at any of the reads of a restore, does not cost the owner's data: a failed
/// read is retried sector by sector, and unreadable sectors next to changed ones are left alone.
#[test]
fn reads_that_fail_for_a_moment_do_not_cost_what_others_wrote() {
    if !present(&["strace"]) {
        return;
    }
    let dir = Dir::new("moment");
    let (path, mut theirs) = image(&dir, "disk.img");
    drop(Ends(running(&dir, &path)));
    // One byte in a page, not in its first sector; the page's other sectors are unchanged.
    let at = (5 << 20) + 70_000;
    theirs[at] ^= 0xFF;
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&theirs[at..=at], at as u64).unwrap();
    let restore = |inject: Option<(usize, usize)>| {
        let log = dir.join("log");
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pread64", "-P"])
            .arg(&path)
            .arg("-o")
            .arg(&log);
        if let Some((first, count)) = inject {
            let last = first + count - 1;
            traced.args(["-e", &format!("inject=pread64:error=EIO:when={first}..{last}")]);
        }
        traced.args([STRADDLE, "bench", "--restore", "--journals"]).arg(dir.join("journals"));
        let done = output(&mut traced, "");
        (done, fs::read_to_string(log).unwrap().lines().filter(|line| line.contains("pread64(")).count())
    };
    let (shown, reads) = restore(None);
    refused(&shown, &["were not restored"]);
    let mut beside = 0;
    for first in 1..=reads {
        // The whole piece, then also a part of it; and finally one sector for good. Unless every case is
        // tried, one of the three for each third read, and all for the last ones, which are of what was
        // written to.
        for (index, count) in [1, 2, 6].into_iter().enumerate() {
            if tools::skip::is_sampled() && first % 9 != 3 * index && first + 1 < reads {
                continue;
            }
            let (done, _) = restore(Some((first, count)));
            assert!(fs::read(&path).unwrap() == theirs, "{first}, {count}: {}", transcript(&done));
            assert!(complete(&dir) > 0, "{first}, {count}: {}", transcript(&done));
            beside += usize::from(transcript(&done).contains("could not be read, and were not restored"));
        }
    }
    assert!(beside > 0, "nothing was unreadable beside what they wrote");
}

#[test]
fn a_target_that_is_open_for_writing_elsewhere_is_in_use() {
    let dir = Dir::new("open");
    let (path, bytes) = image(&dir, "disk.img");
    let file = OpenOptions::new().append(true).open(&path).unwrap();
    let _writer = Ends(Command::new("sleep").arg("1000").stdout(file).spawn().unwrap());
    refused(&bench(&dir, &path, &["--used"]).output().unwrap(), &["(sleep) has it open for writing"]);
    let _reader = File::open(&path).unwrap();
    // Other programs may read as long as none writes.
    assert!(fs::read(&path).unwrap() == bytes);
}
