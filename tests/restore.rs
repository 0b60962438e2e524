//! Runs of `straddle bench` or `probe` that are killed at any moment, followed by `--restore`.
//!
//! `RESTORES` is the number of kills (40 by default; `make restores`: 500), `RESTORE_SEED` the seed for their
//! moments.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use straddle_device::shown::quote_path;
use straddle_units::io::SplitMix64;
use tools::{Dir, STRADDLE, journals, run};

const SIZE: u64 = 6 << 20;

/// What one write puts back at most.
const PIECE: u64 = 1 << 20;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

fn mixed(seed: u64) -> u64 {
    SplitMix64::new(seed).next()
}

/// Bytes of which no two sectors are alike.
fn contents() -> Vec<u8> {
    (0..SIZE).map(|at| mixed(at / 8).to_le_bytes()[(at % 8) as usize]).collect()
}

fn bench(target: &Path, journals: &Path) -> Command {
    let mut command = Command::new(STRADDLE);
    command.args(["bench", "random-write"]).arg(target).arg("--journals").arg(journals);
    command.args(["--used", "--io", "buffered", "--runtime", "30"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn restored(journals: &Path, options: &[&str], status: i32) -> String {
    let mut command = Command::new(STRADDLE);
    let output =
        command.args(["bench", "--restore", "--journals"]).arg(journals).args(options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

#[test]
fn a_killed_run_leaves_what_was_there_and_what_its_owner_writes_then() {
    let (count, seed) = (number("RESTORES", 40), number("RESTORE_SEED", 1));
    let dir = Dir::new("restore");
    let (target, journals) = (dir.join("disk.img"), dir.join("journals"));
    let bytes = contents();
    fs::write(&target, &bytes).unwrap();
    let (mut before, mut during) = (0, 0);
    for round in 0..count {
        let again = format!("RESTORES={count} RESTORE_SEED={seed}, kill {round}");
        let drawn = mixed(seed ^ (round << 32));
        let mut run = bench(&target, &journals).spawn().unwrap();
        // On any machine, half of the kills come after the journal is complete.
        if round % 2 == 1 {
            has_begun(&mut run, || used(&journals).is_some());
        }
        std::thread::sleep(Duration::from_micros(drawn % 250_000));
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(fs::read(&target).unwrap() == bytes, "{again}: it differs before anything was put back");
        let left = || fs::read_dir(&journals).into_iter().flatten().map(|entry| entry.unwrap().path());
        let Some(journal) = used(&journals) else {
            before += 1;
            restored(&journals, &[], 0);
            assert_eq!(left().count(), 0, "{again}");
            continue;
        };
        during += 1;
        let refused = bench(&target, &journals).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(
            refused.status.code(),
            Some(4),
            "{again}: two journals of one target would not know of each other"
        );
        match drawn % 3 {
            // With the command that the refusal prints, unchanged.
            0 => {
                let said = String::from_utf8(refused.stderr).unwrap();
                let (_, command) = said.trim_end().split_once("; first run straddle ").unwrap();
                let transcript = tools::shell(&format!("'{STRADDLE}' {command}"), dir.path());
                assert!(fs::read(&target).unwrap() == bytes, "{again}: {transcript}");
            }
            1 => owner_writes(&target, &journals, &bytes, drawn, &again),
            _ => journal_is_damaged(&target, &journals, &journal, &bytes, drawn, &again),
        }
        assert_eq!(left().count(), 0, "{again}");
    }
    println!("{count} kills: {before} before the journal was complete, {during} after that");
    assert!(during > 0, "no run was killed while it measured");
}

/// A probe stores the contents of the area that it is about to overwrite, piece by piece.
#[test]
fn a_killed_probe_leaves_what_was_there_and_what_its_owner_writes_then() {
    let (count, seed) = (number("RESTORES", 40) / 2, number("RESTORE_SEED", 1));
    let dir = Dir::new("restore-probe");
    let (target, journals) = (dir.join("disk.img"), dir.join("journals"));
    let bytes = contents();
    let (mut during, mut changed) = (0, 0);
    for round in 0..count {
        let again = format!("RESTORES={} RESTORE_SEED={seed}, kill {round}", 2 * count);
        fs::write(&target, &bytes).unwrap();
        let mut command = Command::new(STRADDLE);
        command.args(["probe", "--used", "--time", "60"]).arg(&target).arg("--journals").arg(&journals);
        command.arg("--seed").arg(round.to_string()).stdin(Stdio::null());
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if round % 2 == 1 {
            has_begun(&mut run, || used(&journals).is_some());
        }
        std::thread::sleep(Duration::from_micros(mixed(seed ^ (round << 40)) % 700_000));
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(fs::read(&target).unwrap() == bytes, "{again}: it differs before anything was put back");
        let left = || fs::read_dir(&journals).into_iter().flatten().map(|entry| entry.unwrap().path());
        let journal = used(&journals);
        if journal.is_some() {
            during += 1;
            let refused = command.status().unwrap();
            assert_eq!(refused.code(), Some(4), "{again}: nothing begins before that is settled");
        }
        if round % 2 == 0 || journal.is_none() {
            let transcript = restored(&journals, &[], 0);
            assert!(fs::read(&target).unwrap() == bytes, "{again}: {transcript}");
        } else {
            let theirs: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            fs::write(&target, &theirs).unwrap();
            let transcript = restored(&journals, &[], 4);
            assert!(fs::read(&target).unwrap() == theirs, "{again}: {transcript}");
            assert_eq!(used(&journals), journal, "{again}: {transcript}");
            restored(&journals, &["--force"], 0);
            changed += 1;
        }
        assert_eq!(left().count(), 0, "{again}");
    }
    println!("{count} kills: {during} with a journal, {changed} changed by the owner");
    assert!(during > 0, "no probe was killed while it measured");
}

/// The owner changes from one to tens of thousands of bytes anywhere: they stay until the user allows
/// otherwise.
fn owner_writes(target: &Path, journals: &Path, bytes: &[u8], drawn: u64, again: &str) {
    let file = OpenOptions::new().write(true).open(target).unwrap();
    let length = if drawn & 8 == 0 { 1 } else { 1 + (drawn >> 40) as usize % 70_000 };
    let at = usize::try_from((drawn >> 8) % (SIZE - length as u64)).unwrap();
    let theirs: Vec<u8> = bytes[at..].iter().take(length).map(|byte| !byte).collect();
    file.write_all_at(&theirs, at as u64).unwrap();
    // A program that still has it open for writing would have to be ended first.
    drop(file);
    let mut changed = bytes.to_vec();
    changed[at..at + length].copy_from_slice(&theirs);
    let transcript = restored(journals, &[], 4);
    assert!(fs::read(target).unwrap() == changed, "{again}: {transcript}");
    assert!(
        transcript.contains("were not restored") && transcript.contains(&(at / 512 * 512).to_string()),
        "{again}: {transcript}"
    );
    let folder = format!("straddle bench --restore --journals {} --force", quote_path(journals));
    assert!(transcript.contains(&folder), "{again}: {transcript}");
    // The other suggested way, tried on a copy of the journal.
    let kept = journals.with_extension("kept");
    run(Command::new("cp").arg("-a").arg(journals).arg(&kept), "");
    let (_, line) = transcript.split_once("remove the journal: ").unwrap();
    tools::shell(line.lines().next().unwrap(), Path::new("/"));
    assert_eq!(fs::read_dir(journals).unwrap().count(), 0, "{again}: {transcript}");
    fs::remove_dir(journals).unwrap();
    fs::rename(&kept, journals).unwrap();
    let transcript = restored(journals, &["--force"], 0);
    assert!(fs::read(target).unwrap() == bytes, "{again}: {transcript}");
}

/// A truncated journal, or one with a flipped bit, is not used, and is renamed.
fn journal_is_damaged(target: &Path, journals: &Path, journal: &Path, bytes: &[u8], drawn: u64, again: &str) {
    let mut whole = fs::read(journal).unwrap();
    // A file that is cut off in its header has no areas; one that does not begin as a journal is none.
    let least = if drawn & 8 == 0 { 16_385 } else { 64 };
    let at = least + (drawn >> 8) as usize % (whole.len() - least);
    match drawn & 8 {
        0 => whole.truncate(at),
        _ => whole[at] ^= 1,
    }
    fs::write(journal, &whole).unwrap();
    let transcript = restored(journals, &["--force"], 3);
    assert!(fs::read(target).unwrap() == bytes, "{again}: {transcript}");
    let renamed = journal.with_extension("damaged");
    assert!(
        transcript.contains(renamed.to_str().unwrap()) && !transcript.contains("removed"),
        "{again}: {transcript}"
    );
    assert!(fs::read(&renamed).unwrap() == whole && !journal.exists(), "{again}: {transcript}");
    fs::remove_file(renamed).unwrap();
}

/// A loop device over a file, detached when dropped.
struct Loop(PathBuf);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// An owner writes during a restore: to areas not yet restored, to restored ones, and beside them. On a file
/// the owner has to wait; on a device, at most what the write in flight covers is lost, which is one piece of
/// the area. In neither case does the run report success.
#[test]
fn whoever_comes_while_it_is_put_back_loses_nothing() {
    if !tools::present(&["strace", "flock", "losetup"]) {
        return;
    }
    let dir = Dir::new("restore-owner");
    let bytes = contents();
    for is_device in [false, true] {
        let (file, journals) = (dir.join("disk.img"), dir.join("journals"));
        fs::write(&file, &bytes).unwrap();
        let device = is_device.then(|| Loop(run(&mut tools::losetup_find(&file), "").trim().into()));
        let target = device.as_ref().map_or(&file, |device| &device.0);
        let opened = || OpenOptions::new().read(true).write(true).open(target).unwrap();
        let area = killed_while_it_measures(target, &journals);
        // Written before the restore: this data may be overwritten, because of --force.
        let spots: Vec<u64> = (0..3).map(|number| area + number * (PIECE / 2 + 16384)).collect();
        let owner = opened();
        spots.iter().for_each(|at| owner.write_all_at(&[b'Y'; 512], *at).unwrap());
        owner.sync_all().unwrap();
        drop(owner);

        let log = dir.join(&format!("log-{is_device}"));
        let mut traced = Command::new("strace");
        traced.args([
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-e",
            "trace=pwrite64",
            "-e",
            "inject=pwrite64:delay_enter=3000000:when=2",
        ]);
        traced.arg("-P").arg(target).arg("-o").arg(&log).arg(STRADDLE);
        traced.args(["bench", "--restore", "--force", "--journals"]).arg(&journals);
        let mut restore = traced.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        has_begun(&mut restore, || fs::read_to_string(&log).is_ok_and(|text| text.contains("pwrite64(")));
        let is_early = restore.try_wait().unwrap().is_none();
        let owner = opened();
        let todays: Vec<u64> = spots.iter().flat_map(|at| [*at, *at + 4096]).collect();
        todays.iter().for_each(|at| owner.write_all_at(&[b'T'; 512], *at).unwrap());
        // A direct write that meets dirty pages makes the kernel report EIO once to each that flushes, although
        // the pages are written.
        owner.sync_all().or_else(|met| if is_device { owner.sync_all() } else { Err(met) }).unwrap();
        let done = restore.wait_with_output().unwrap();
        let transcript =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        let lost = todays.iter().filter(|at| {
            let mut now = [0; 512];
            owner.read_exact_at(&mut now, **at).unwrap();
            now != [b'T'; 512]
        });
        let pieces: BTreeSet<u64> = lost.map(|at| (at - area) / PIECE).collect();
        assert!(pieces.len() <= usize::from(is_device), "{is_device}: {pieces:?}: {transcript}");
        assert!(is_early, "the owner came when all was over");
        if is_device && transcript.contains("cannot flush the restored data; the journal") {
            assert_eq!(done.status.code(), Some(3), "{transcript}");
        } else {
            assert_eq!(done.status.code(), Some(4), "{is_device}: {transcript}");
            assert!(
                transcript.contains("another program opened the target")
                    && transcript.contains("while it was being restored"),
                "{transcript}"
            );
        }
        assert!(fs::read_dir(&journals).unwrap().count() > 0, "{transcript}");
        fs::remove_dir_all(&journals).unwrap();
    }
}

/// Runs the command under strace, with system calls on `only` logged, and failing as in `inject`.
fn traced(command: &Command, log: &Path, only: Option<&Path>, inject: &[String]) -> Output {
    let mut traced = Command::new("strace");
    traced.args(["-f", "--seccomp-bpf", "-qq", "-o"]).arg(log);
    if let Some(only) = only {
        traced.arg("-P").arg(only);
    }
    for inject in inject {
        traced.args(["-e", &format!("inject={inject}")]);
    }
    traced.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null()).output().unwrap()
}

/// Whether each write is flushed before the next one, so that little is on its way when another process comes.
fn each_write_is_flushed(calls: &str) -> bool {
    let is_write = |line: &str| line.contains("pwrite64(");
    let order = calls.lines().filter(|line| is_write(line) || line.contains("sync(")).map(is_write);
    let order: Vec<bool> = order.collect();
    order.windows(2).all(|pair| !(pair[0] && pair[1])) && order.last() == Some(&false)
}

/// After a write or flush that fails the journal is kept, whatever else fails afterwards, and every restore
/// writes all of it again and flushes, until that succeeds.
#[test]
fn a_failed_write_or_flush_is_not_forgotten() {
    if !tools::present(&["strace"]) {
        return;
    }
    let dir = Dir::new("restore-forgotten");
    let (target, journals, log) = (dir.join("disk.img"), dir.join("journals"), dir.join("log"));
    let bytes = contents();
    let traced = |command: &Command, is_ring: bool, inject: &[String]| {
        // The ring is not a file of the target's.
        let only = (!is_ring).then_some(target.as_path());
        traced(command, &log, only, inject)
    };
    let run = |options: &[&str]| {
        let mut run = Command::new(STRADDLE);
        run.args(["bench", "random-write"]).arg(&target).arg("--journals").arg(&journals).args(options);
        run.args([
            "--used",
            "--io",
            "buffered",
            "--runtime",
            "1",
            "--area",
            "1M",
            "--offsets",
            "0",
            "--count",
            "100",
        ]);
        run
    };
    fs::write(&target, &bytes).unwrap();
    assert!(traced(&run(&[]), false, &[]).status.success());
    let calls = fs::read_to_string(&log).unwrap();
    // What is read after the last write is compared.
    let read = |line: &&str| line.contains("pread64(");
    let first = calls.lines().take_while(|line| !line.contains("pwrite64(")).filter(read).count() + 1;
    let write = "pwrite64:error=EIO:when=20";
    let (unreadable, killed) =
        (format!("pread64:error=EIO:when={first}+"), format!("pread64:signal=KILL:when={first}"));
    for (name, options, inject) in [
        ("a write", &[][..], &[write][..]),
        ("a flush", &["--sync", "flush"], &["fdatasync:error=EIO:when=2"]),
        // The first one is before the areas are read.
        ("the last flush", &[], &["fsync:error=EIO:when=2+"]),
        ("a write, and comparing", &[], &[write, &unreadable]),
        ("a write, and killed", &[], &[write, &killed]),
        ("the ring", &["--queue-depth", "8"], &["io_uring_enter:error=EIO:when=30+"]),
    ] {
        let inject: Vec<String> = inject.iter().map(|inject| (*inject).to_owned()).collect();
        let done = traced(&run(options), name == "the ring", &inject);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_ne!(done.status.code(), Some(0), "{name}: {said}");
        let journal = used(&journals).unwrap_or_else(|| panic!("{name}: no journal: {said}"));
        let areas = journals::areas(&fs::read(journal).unwrap());
        // A restore that fails as well changes nothing of that.
        let mut restore = Command::new(STRADDLE);
        restore.args(["bench", "--restore", "--journals"]).arg(&journals);
        for inject in ["pwrite64:error=EIO:when=1+", "fsync:error=EIO:when=1+"] {
            let done = traced(&restore, false, &[inject.to_owned()]);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(3), "{name}, {inject}: {said}");
            assert!(used(&journals).is_some(), "{name}, {inject}");
        }
        let done = traced(&restore, false, &[]);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        let calls = fs::read_to_string(&log).unwrap();
        let written = |line: &str| {
            line.contains("pwrite64(").then(|| line.rsplit("= ").next().unwrap().parse::<u64>().unwrap())
        };
        let written: u64 = calls.lines().filter_map(written).sum();
        assert_eq!(written, areas.iter().map(|area| area.1).sum::<u64>(), "{name}: {calls}");
        assert!(each_write_is_flushed(&calls), "{name}: {calls}");
        assert!(fs::read(&target).unwrap() == bytes && used(&journals).is_none(), "{name}");
    }
}

/// A limit on the size of files is an error like a full disk, and no end without a word.
#[test]
fn a_limit_on_file_sizes_kills_no_run() {
    let dir = Dir::new("restore-limit");
    let target = dir.join("disk.img");
    fs::write(&target, contents()).unwrap();
    for what in [
        "bench random-write disk.img --used --area 1M --runtime 1 --journals journals",
        "bench random-write new.img --area 4M --runtime 1 --journals journals",
    ] {
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(format!("ulimit -f 500; exec \"$0\" {what}"))
            .arg(STRADDLE)
            .current_dir(dir.path());
        let done = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(3), "{what}: {said}");
        assert!(said.contains("File too large"), "{what}: {said}");
        assert!(!dir.join("new.img").exists(), "{what}: {said}");
    }
}

/// A journal whose run may have written.
fn used(folder: &Path) -> Option<PathBuf> {
    journals::used(folder).pop()
}

/// Waits until `is_there` is true while the program runs.
fn has_begun(run: &mut Child, is_there: impl Fn() -> bool) {
    while !is_there() {
        assert!(run.try_wait().unwrap().is_none(), "it ended before that");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills a run that has begun to measure; returns the first byte of one of its areas, which have at least 64
/// KiB.
fn killed_while_it_measures(target: &Path, journals: &Path) -> u64 {
    let mut measured = bench(target, journals).spawn().unwrap();
    has_begun(&mut measured, || used(journals).is_some());
    measured.kill().unwrap();
    measured.wait().unwrap();
    let areas = journals::areas(&fs::read(used(journals).unwrap()).unwrap());
    areas.iter().find(|area| area.1 >= 65_536).unwrap_or_else(|| panic!("{areas:?}")).0
}

/// A backing store that accepts no more writes: the kernel keeps data written to the device above in its
/// cache, as if it were stored. Below a loop device over another one, even O_DIRECT reads that cache. The
/// journal is kept until the store itself has the former contents.
#[test]
fn what_only_the_cache_has_is_not_restored() {
    if !tools::present(&["linux.uml", "losetup", "fallocate"]) {
        return;
    }
    let dir = Dir::new("restore-cache");
    crate::tools::copy_program(STRADDLE, dir.join("straddle"));
    let script = r#"
        export XDG_STATE_HOME=/run/state
        modprobe loop
        mkdir -p /run/store && mount -t tmpfs -o size=12m none /run/store
        # The room for its first MiB is lost.
        full() {
            fallocate --punch-hole --offset 0 --length 1M /run/store/disk
            dd if=/dev/zero of=/run/store/fill bs=64K status=none && exit 91
            return 0
        }
        # It fails as long as there is no room, and then succeeds.
        restore() {
            for number in 1 2 3; do
                "$INPUT/straddle" bench --restore "$@" >&2 && exit 92 || [ $? = 3 ] || exit 93
                ls /run/state/straddle/*.journal > /dev/null || exit 94
            done
            rm /run/store/fill
            "$INPUT/straddle" bench --restore "$@" || exit 95
            sync
            [ "$before" = "$(sha256sum < /run/store/disk)" ] || exit 96
            ls /run/state/straddle/*.journal > /dev/null 2>&1 && exit 97
            return 0
        }
        for layers in 1 2; do
            echo "$layers loop devices"
            head -c 8M /dev/urandom > /run/store/disk
            before=$(sha256sum < /run/store/disk)
            lower=$(losetup --find --show /run/store/disk)
            loop=$lower
            [ $layers = 1 ] || loop=$(losetup --find --show "$lower")

            "$INPUT/straddle" bench random-write "$loop" --used --area 8M --runtime 1000 > /dev/null 2>&1 &
            run=$!
            until grep -qs '"sha256"' /run/state/straddle/*.journal; do kill -0 $run || exit 89; sleep 0.01; done
            kill -KILL $run; wait $run || true
            sync
            [ "$before" = "$(sha256sum < /run/store/disk)" ] || exit 90
            # Its owner writes zeros. A reader keeps the cache.
            dd if=/dev/zero of="$loop" bs=1M count=1 conv=fsync status=none
            exec 9< "$loop"
            full
            restore --force
            exec 9<&-

            # A run that sees at its end that what it wrote is not stored. It reads what the lower device's cache has.
            if [ $layers = 2 ]; then
                dd if="$loop" of=/dev/null bs=1M status=none
                full
                "$INPUT/straddle" bench random-write "$loop" --used --area 8M --runtime 1 >&2 && exit 98 || [ $? = 3 ] || exit 99
                restore
                losetup --detach "$loop"
            fi
            losetup --detach "$lower"
        done
    "#;
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--drive", "wd10ears", "--input"]).arg(dir.path()).args(["--", script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let transcript =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{transcript}");
}
