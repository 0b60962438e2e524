//! `straddle lab`: a real Linux on modelled drives. The kernel, the file systems' own tools and fio are the judges.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/runs.rs"]
mod runs;
use crate::tools;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use runs::{gone, guest_seconds, lab, measure, output, well};
use serde_json::{Value, json};
use tools::{Dir, STRADDLE, STRADDLE_LAB, present, text, transcript};

const FILE_SYSTEMS: [&str; 6] = ["ext3", "ext4", "reiserfs", "jfs", "xfs", "btrfs"];

#[test]
fn output_and_status_are_the_commands() {
    if !present(&["linux.uml"]) {
        return;
    }
    let run = lab(&["--drive", "wd10ears", "--", "echo to stdout; echo to stderr >&2; exit 7"]);
    assert_eq!(run.status.code(), Some(7), "{}", transcript(&run));
    assert_eq!(text(&run.stdout), "to stdout\n");
    let errors = text(&run.stderr);
    assert!(errors.starts_with("to stderr\n"), "{errors}");
    assert!(errors.contains("of the guest's time") && errors.contains("charged: 2000 ns"), "{errors}");

    let words = lab(&["--drive", "wd10ears", "--", "printf", "%s|", "two words", "it's", "$HOME"]);
    assert_eq!(text(&words.stdout), "two words|it's|$HOME|", "{}", transcript(&words));
}

#[test]
fn a_power_cut_after_no_request_comes_at_once() {
    if !present(&["linux.uml"]) {
        return;
    }
    let run = lab(&["--drive", "wd10ears", "--cut-after", "0", "--", "echo reached"]);
    assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(3), ""), "{}", transcript(&run));
}

#[test]
fn the_kernel_sees_what_the_drive_claims() {
    if !present(&["linux.uml", "sfdisk"]) {
        return;
    }
    let script = "q=/sys/block/vda; echo $(<$q/size) $(<$q/queue/logical_block_size) \
        $(<$q/queue/physical_block_size) $(<$q/queue/minimum_io_size) $(<$q/queue/optimal_io_size) \
        $(<$q/alignment_offset) $(<$q/vda1/start) $(<$q/vda1/alignment_offset) \
        $(<$q/queue/discard_granularity)";
    for (drive, start) in [("wd20ears", "34s"), ("nearline-4kn-7200", "40s"), ("qlc-16k", "34s")] {
        let show = Command::new(STRADDLE).args(["drive", "show", drive, "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&show.stdout).unwrap();
        let claims = &shown["drives"][0]["claims"];
        let claim = |name: &str| claims[name].as_u64();
        let report = well(&["--drive", drive, "--start", start, "--", script]);
        let seen: Vec<u64> = output(&report).split_whitespace().map(|word| word.parse().unwrap()).collect();
        let logical = claim("logical_sector_bytes").unwrap();
        let physical = claim("physical_sector_bytes").unwrap();
        let byte = start.trim_end_matches('s').parse::<u64>().unwrap() * logical;
        let offset = claim("alignment_offset_bytes").unwrap_or(0);
        assert_eq!(seen[0] * 512, claim("capacity_bytes").unwrap(), "{drive}");
        assert_eq!(seen[1..3], [logical, physical], "{drive}");
        assert_eq!(seen[3], claim("minimum_io_bytes").unwrap_or(physical).max(physical), "{drive}");
        assert_eq!(seen[4], claim("optimal_io_bytes").unwrap_or(0), "{drive}");
        assert_eq!(seen[5..7], [offset, byte / 512], "{drive}");
        let boundary = seen[3];
        assert_eq!(seen[7], (boundary + offset - byte % boundary) % boundary, "{drive}");
    }
}

/// A disturbance of the host during a run; it ends when this is dropped.
struct Load(Vec<std::process::Child>);

impl Load {
    fn none() -> Self {
        Self(Vec::new())
    }

    fn of(count: usize, line: &str) -> Self {
        let start = |_| Command::new("sh").args(["-c", line]).stdout(Stdio::null()).spawn().unwrap();
        Self((0..count).map(start).collect())
    }

    /// Three busy loops.
    fn busy() -> Self {
        Self::of(3, "while :; do :; done")
    }

    /// Half a gigabyte of memory, rewritten again and again.
    fn memory() -> Self {
        Self::of(1, "exec perl -e '$a = \"a\" x (1 << 28); while (1) { my $b = $a; $b =~ tr/a/b/; }'")
    }

    /// The host's files read continually, which displaces its caches.
    fn files() -> Self {
        Self::of(2, "while :; do cat /usr/bin/* >/dev/null 2>&1; done")
    }

    /// One more terminal and, if this is root, one more file in /dev.
    fn devices() -> Self {
        let name = format!("/dev/straddle-test-{}", std::process::id());
        let line = "trap 'rm -f \"$0\"; exit' TERM; : 2>/dev/null >\"$0\"; script -qc 'sleep 1000' /dev/null \
                    </dev/null & read -r line; kill $!; rm -f \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", line, &name]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(vec![shell.spawn().unwrap()])
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            match child.stdin.take() {
                // The script cleans up when its input ends.
                Some(stdin) => drop(stdin),
                None => child.kill().unwrap_or(()),
            }
            let _ = child.wait();
        }
    }
}

/// The first lines in which two records of events differ, with the lines before them.
fn first_difference(one: &Path, other: &Path) -> String {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let (one, other) = (read(one), read(other));
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    let part = |text: &str| text.lines().skip(same.saturating_sub(8)).take(16).collect::<Vec<_>>().join("\n");
    format!("event {same} is the first that differs\n{}\n\nbeside\n{}", part(&one), part(&other))
}

/// Whatever else the host does, whoever runs the lab, and however few files may be open: not one request and
/// not one event of the guest's kernel shifts by a nanosecond.
#[test]
fn equal_runs_are_equal_to_the_nanosecond_whatever_the_load() {
    if !present(&["linux.uml", "mkfs.ext4", "taskset", "setpriv", "perl"]) {
        return;
    }
    let dir = Dir::new("lab-equal");
    let open_to_all = |path: &Path| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    };
    let straddle = dir.join("straddle");
    crate::tools::copy_program(STRADDLE_LAB, &straddle);
    [dir.path(), &straddle].into_iter().for_each(open_to_all);
    let straddle = straddle.to_str().unwrap();
    let script = "make_file_system ext4; mount_it ext4; cp -r /usr/share/perl5 $MNT; measure umount unmount; \
        cat /proc/uptime; cat /proc/sys/kernel/random/boot_id; dd if=/dev/urandom count=1 status=none | \
        md5sum";
    let run = |number: usize, wrapper: &[&str], seed: &str| {
        let events = dir.join(&format!("events{number}"));
        let mut line = wrapper.to_vec();
        line.extend([straddle, "lab", "--json", "--drive", "wd10ears", "--start", "34s", "--size", "300MiB"]);
        line.extend(["--seed", seed, "--events", events.to_str().unwrap(), "--", script]);
        let output = Command::new(line[0]).args(&line[1..]).current_dir("/").output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{wrapper:?}: {error}: {}", transcript(&output)));
        (report, events)
    };
    // Runs as an ordinary user if this is root and such a user can access the directories.
    let nobody = tools::ordinary_user_of_lab(Path::new(straddle));
    let processor = straddle_lab::guest::processors().first().unwrap().to_string();
    let (first, first_events) = run(0, &["env"], "1");
    assert!(first["requests"].as_u64().unwrap() > 200, "{first}");
    assert_eq!((&first["repeatable"], &first["not_repeatable"]), (&json!(true), &json!([])));
    let mut number = 0;
    let mut again = |wrapper: &[&str]| {
        number += 1;
        let (other, events) = run(number, wrapper, "1");
        for field in
            ["fingerprint", "guest_ns", "requests", "measures", "output", "drives", "spent", "repeatable"]
        {
            let difference = || first_difference(&first_events, &events);
            assert!(first[field] == other[field], "{wrapper:?}, {field}: {}", difference());
        }
        fs::remove_file(events).unwrap();
    };
    let few_files = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];
    let loads = [
        (Load::none as fn() -> Load, vec!["env"]),
        (Load::busy, vec!["env"]),
        (Load::busy, nobody.to_vec()),
        (Load::busy, vec!["taskset", "-c", &processor]),
        (Load::memory, vec!["env"]),
        (Load::memory, vec!["taskset", "-c", &processor]),
        (Load::files, vec!["env"]),
        (Load::files, few_files.to_vec()),
        (Load::devices, vec!["env"]),
        (Load::none, vec!["setarch", "-RL"]),
        (Load::none, vec!["sh", "-c", "ulimit -s unlimited; exec \"$@\"", "sh"]),
        (Load::none, vec!["nice", "-n", "19"]),
    ];
    for (load, wrapper) in tools::skip::cases(loads.into_iter(), 4) {
        let load = load();
        again(&wrapper);
        drop(load);
    }
    // Two at a time, so that each disturbs the other.
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| run(99, &["env"], "1").0);
        again(&["env"]);
        assert_eq!(beside.join().unwrap()["spent"], first["spent"]);
    });
    let (seeded, _) = run(100, &["env"], "2");
    assert_ne!(first["fingerprint"], seeded["fingerprint"], "another seed is another run");
}

/// A panic of the guest's kernel is reported as one sentence, without the stack.
#[test]
fn a_panic_of_the_guest_is_a_sentence() {
    if !present(&["linux.uml"]) {
        return;
    }
    let run = lab(&["--drive", "wd10ears", "--", "echo c >/proc/sysrq-trigger"]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{errors}");
    assert!(errors.contains("panicked: sysrq triggered crash") && !errors.contains("[<"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn time_never_goes_back_and_sleeping_costs_nothing() {
    if !present(&["linux.uml", "perl"]) {
        return;
    }
    let script = r#"perl -MTime::HiRes=time,sleep -e '
        my ($last, $back) = (time, 0);
        for (1 .. 3000) { my $now = time; $back++ if $now < $last; $last = $now; sleep 0.001 if $_ % 100 == 0 }
        print "back $back\n"'
        read -r before _ </proc/uptime; sleep 1000; read -r after _ </proc/uptime
        echo "slept $((10#${after/./} - 10#${before/./}))"
        timeout 30 sleep 60 || echo "timeout $?""#;
    let report = well(&["--drive", "wd10ears", "--", script]);
    let lines: Vec<&str> = output(&report).lines().collect();
    assert_eq!(lines[0], "back 0");
    let slept: u64 = lines[1].trim_start_matches("slept ").parse().unwrap();
    assert!((100_000..100_010).contains(&slept), "{slept} hundredths");
    assert_eq!(lines[2], "timeout 124");
    assert!((1030.0..1036.0).contains(&guest_seconds(&report)), "{}", guest_seconds(&report));
    assert_eq!(report["spent"]["late_ticks"], 0, "nothing spun");
}

#[test]
fn who_computes_is_charged_and_does_not_stop_the_rest() {
    if !present(&["linux.uml", "perl"]) {
        return;
    }
    let script =
        "perl -e '1 while 1' & sleep 2; kill $!; perl -e 'for (my $i = 0; $i < 2e7; $i++) {}'; echo done";
    let report = well(&["--drive", "wd10ears", "--", script]);
    assert_eq!(output(&report), "done\n");
    // Two seconds of the first loop, and some of the second; how much depends on the host's speed.
    assert!(report["spent"]["computed_ns"].as_u64().unwrap() > 1_900_000_000, "{}", report["spent"]);
}

#[test]
fn several_drives_keep_what_is_theirs() {
    if !present(&["linux.uml", "blkdiscard"]) {
        return;
    }
    let dir = Dir::new("lab");
    let (one, two) = (dir.join("one.img"), dir.join("two.img"));
    let stores = ["--store", one.to_str().unwrap(), "--store", two.to_str().unwrap()];
    let drives = ["--drive", "wd10ears", "--drive", "ssd-sata-4k"];
    let write = "for d in $DISK $DISK2; do head -c 100000 /dev/zero | tr '\\0' ${d: -1} | dd of=$d bs=64k conv=fsync; done 2>&1
        blkdiscard -o 8192 -l 16384 $DISK2; blkdiscard -o 0 -l 4096 $DISK 2>/dev/null || echo no discard";
    let report = well(&[&drives[..], &stores, &["--", write]].concat());
    assert!(output(&report).ends_with("no discard\n"), "{}", output(&report));
    let start = |path: &Path| {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; 100_001];
        fs::File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let (one, two) = (start(&one), start(&two));
    assert!(one[..100_000].iter().all(|byte| *byte == b'a') && one[100_000] == 0);
    assert!(two[..8192].iter().chain(&two[24_576..100_000]).all(|byte| *byte == b'b') && two[100_000] == 0);
    assert!(two[8192..24_576].iter().all(|byte| *byte == 0), "discarded");

    let read = "cmp -n 4096 $DISK $DISK2 >/dev/null || head -c 1 $DISK; head -c 1 $DISK2";
    assert_eq!(output(&well(&[&drives[..], &stores, &["--", read]].concat())), "ab");
}

#[test]
fn a_misaligned_start_costs_what_the_model_says_and_the_trace_replays() {
    if !present(&["linux.uml", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("lab");
    let trace = dir.join("lab.rec");
    let script = "measure writes dd if=/dev/zero of=$PART bs=4k count=200 oflag=direct,dsync 2>/dev/null";
    let arm = |start: &str| {
        let drive = ["--drive", "dell-6tb-7200-512e", "--start", start, "--record", trace.to_str().unwrap()];
        well(&[&drive[..], &["--", script]].concat())
    };
    let (aligned, misaligned) = (arm("2048s"), arm("2049s"));
    let rmw = |report: &Value| report["drives"][0]["counters"]["rmw_reads"].as_u64().unwrap();
    assert_eq!(rmw(&aligned), 0);
    assert!(rmw(&misaligned) >= 200, "{misaligned}");
    let ratio = measure(&misaligned, "writes") / measure(&aligned, "writes");
    assert!((2.7..3.3).contains(&ratio), "three revolutions for one: {ratio}");

    let sim = Command::new(STRADDLE)
        .args(["sim", trace.to_str().unwrap(), "--drive", "dell-6tb-7200-512e", "--json"])
        .output()
        .unwrap();
    let sim: Value =
        serde_json::from_slice(&sim.stdout).unwrap_or_else(|e| panic!("{e}: {}", transcript(&sim)));
    assert_eq!(sim["runs"][0]["requests"], misaligned["requests"]);
}

#[test]
fn what_a_file_system_has_been_given_it_gives_back() {
    if !present(&["linux.uml", "mkfs.reiserfs", "mkfs.jfs", "mkfs.xfs", "mkfs.btrfs", "fio"]) {
        return;
    }
    let script = format!(
        r#"for fs in {}; do
            wipefs -qa $PART
            make_file_system $fs
            mount_it $fs
            tar -C /usr/share -cf - perl5 | tar -C $MNT -xf -
            unmount; drop_caches; mount_it $fs
            diff -r /usr/share/perl5 $MNT/perl5
            rm -r $MNT/perl5
            fio --name=v --directory=$MNT --size=8m --rw=randwrite --bs=4k --ioengine=psync --fsync=64 --verify=crc32c \
                --clocksource=clock_gettime --randseed=7 --eta=never --output=/dev/null
            unmount
            case $fs in
            ext*) e2fsck -fn $PART ;;
            xfs) xfs_repair -n $PART ;;
            btrfs) btrfs check $PART ;;
            jfs) fsck.jfs -f -n $PART ;;
            reiserfs) reiserfsck --check --yes --quiet $PART ;;
            esac >/tmp/fsck 2>&1 || {{ cat /tmp/fsck; exit 1; }}
            echo sound $fs
        done"#,
        FILE_SYSTEMS.join(" ")
    );
    for (drive, start) in tools::skip::cases([("wd10ears", "34s"), ("qlc-16k", "40s")].into_iter(), 2) {
        let report = well(&["--drive", drive, "--start", start, "--size", "400MiB", "--", &script]);
        let sound: Vec<String> = FILE_SYSTEMS.iter().map(|name| format!("sound {name}")).collect();
        // The tools may print warnings as well: sector 40 is not on a 16 KiB boundary.
        let said = output(&report).lines().filter(|line| line.starts_with("sound "));
        assert_eq!(said.collect::<Vec<_>>(), sound, "{drive}");
    }
}

#[test]
fn a_temporary_folder_that_the_guest_cannot_see_is_no_obstacle() {
    if !present(&["linux.uml"]) {
        return;
    }
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--drive", "wd10ears", "--", "echo made"]).env("TMPDIR", "/dev/shm");
    let output = command.output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout).trim()),
        (Some(0), "made"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_is_missing_is_reported_with_the_fix() {
    let drive = ["lab", "--drive", "wd10ears"];
    let run = |arguments: &[&str]| {
        let mut command = Command::new(STRADDLE);
        command.args(drive).args(arguments).env("LINUX_UML", "/nowhere/linux.uml").output().unwrap()
    };
    let missing = run(&["--", "true"]);
    assert_eq!(missing.status.code(), Some(3));
    let transcript = text(&missing.stderr);
    assert!(
        transcript.contains("/nowhere/linux.uml") && transcript.contains("apt-get install user-mode-linux"),
        "{transcript}"
    );
    assert_eq!(transcript.lines().count(), 1, "{transcript}");

    for (arguments, says) in [
        (&["--start", "0s", "--", "true"][..], "--start"),
        (&["--start", "513", "--", "true"], "is not a multiple of the"),
        (&["--start", "9999999999999s", "--", "true"], "past the end of"),
        (&["--start", "34s", "--start", "40s", "--", "true"], "2 values for 1 drives"),
        (&["--mem", "1MiB", "--", "true"], "64 MiB"),
        (&["--mem", "100TiB", "--", "true"], "this machine has"),
        (&["--events", "a", "--record", "a", "--", "true"], "must name different files"),
        (&["--cpu=-1", "--", "true"], "--cpu"),
        (&["--store", "a", "--store", "b", "--", "true"], "--store"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    let unknown = Command::new(STRADDLE).args(["lab", "--drive", "wd10eers", "--", "true"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    for (option, file) in [("--events", "/nowhere/file"), ("--record", "/nowhere/file"), ("--events", "/")] {
        let refused = lab(&["--drive", "wd10ears", option, file, "--", "true"]);
        assert_eq!(refused.status.code(), Some(3), "{}", tools::transcript(&refused));
        assert!(text(&refused.stderr).contains(file), "{}", tools::transcript(&refused));
    }
    let absent = run(&["--input", "/nowhere", "--", "true"]);
    assert_eq!(absent.status.code(), Some(3));
    assert!(text(&absent.stderr).contains("/nowhere"));
}

#[test]
fn a_hung_guest_is_stopped_and_nothing_is_left() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = Dir::new("lab-hung");
    for (limit, script, whose) in [
        (["--timeout", "8s"], "while :; do :; done", "the host's time"),
        (["--guest-timeout", "10m"], "sleep 100000", "its own time"),
    ] {
        let mut command = Command::new(STRADDLE);
        command.args(["lab", "--drive", "wd10ears"]).args(limit).args(["--", script]);
        let output = command.env("TMPDIR", dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", transcript(&output));
        assert!(text(&output.stderr).contains(whose), "{}", transcript(&output));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a folder is left");
    }
    let mut command = Command::new(STRADDLE);
    command.args([
        "lab",
        "--drive",
        "wd10ears",
        "--mem",
        "123MiB",
        "--",
        "echo up; while :; do sleep 1; done",
    ]);
    let mut child =
        command.env("TMPDIR", dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    tools::signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", transcript(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a folder is left");
    assert!(gone("mem=125952K"), "a process of the guest is left");
}

#[test]
fn a_guest_dies_with_its_lab() {
    if !present(&["linux.uml"]) {
        return;
    }
    let mut command = Command::new(STRADDLE);
    command.args([
        "lab",
        "--drive",
        "wd10ears",
        "--mem",
        "124MiB",
        "--",
        "echo up; while :; do sleep 1; done",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(gone("mem=126976K"), "a process of the guest is left");
}
