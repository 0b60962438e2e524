//! `straddle lab`: a real Linux on modelled drives. The kernel, the file systems' own tools and fio are the judges.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tools::{Dir, STRADDLE, present, text, told};

const FILE_SYSTEMS: [&str; 6] = ["ext3", "ext4", "reiserfs", "jfs", "xfs", "btrfs"];

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(STRADDLE);
    command.arg("lab").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a script, and returns what `--json` says of it.
fn json(arguments: &[&str]) -> Value {
    let arguments = [&["--json"], arguments].concat();
    let output = lab(&arguments);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", told(&output)));
    let schema = Command::new(STRADDLE).args(["schema", "lab"]).output().unwrap();
    let validator = jsonschema::validator_for(&serde_json::from_slice(&schema.stdout).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

/// As [`json`], of a script that has to succeed.
fn well(arguments: &[&str]) -> Value {
    let report = json(arguments);
    assert_eq!(report["status"], 0, "{}", report["output"].as_str().unwrap());
    report
}

fn output(report: &Value) -> &str {
    report["output"].as_str().unwrap()
}

fn measure(report: &Value, name: &str) -> f64 {
    let measures = report["measures"].as_array().unwrap();
    let found = measures.iter().find(|measure| measure["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {measures:?}"))["value"].as_f64().unwrap()
}

fn guest_seconds(report: &Value) -> f64 {
    report["guest_ns"].as_f64().unwrap() / 1e9
}

/// No process that has this argument is left, as soon as it has had a moment to go.
fn gone(argument: &str) -> bool {
    let alive = || {
        fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            text(&line).split('\0').any(|word| word == argument)
        })
    };
    (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        !alive()
    })
}

#[test]
fn output_and_status_are_the_commands() {
    if !present(&["linux.uml"]) {
        return;
    }
    let run = lab(&["--drive", "wd10ears", "--", "echo to stdout; echo to stderr >&2; exit 7"]);
    assert_eq!(run.status.code(), Some(7), "{}", told(&run));
    assert_eq!(text(&run.stdout), "to stdout\n");
    let errors = text(&run.stderr);
    assert!(errors.starts_with("to stderr\n"), "{errors}");
    assert!(errors.contains("of the guest's time") && errors.contains("charged: 2000 ns"), "{errors}");

    let words = lab(&["--drive", "wd10ears", "--", "printf", "%s|", "two words", "it's", "$HOME"]);
    assert_eq!(text(&words.stdout), "two words|it's|$HOME|", "{}", told(&words));
}

#[test]
fn the_kernel_sees_what_the_drive_claims() {
    if !present(&["linux.uml", "sfdisk"]) {
        return;
    }
    let script = "q=/sys/block/vda; echo $(<$q/size) $(<$q/queue/logical_block_size) $(<$q/queue/physical_block_size) \
        $(<$q/queue/minimum_io_size) $(<$q/queue/optimal_io_size) $(<$q/alignment_offset) $(<$q/vda1/start) \
        $(<$q/vda1/alignment_offset) $(<$q/queue/discard_granularity)";
    for (drive, start) in [("wd20ears", "34s"), ("nearline-4kn-7200", "40s"), ("qlc-16k", "34s")] {
        let show = Command::new(STRADDLE).args(["drive", "show", drive, "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&show.stdout).unwrap();
        let claims = &shown["drives"][0]["claims"];
        let claim = |name: &str| claims[name].as_u64();
        let report = well(&["--drive", drive, "--start", start, "--", script]);
        let seen: Vec<u64> = output(&report).split_whitespace().map(|word| word.parse().unwrap()).collect();
        let logical = claim("logical_sector").unwrap();
        let physical = claim("physical_sector").unwrap();
        let byte = start.trim_end_matches('s').parse::<u64>().unwrap() * logical;
        let offset = claim("alignment_offset").unwrap_or(0);
        assert_eq!(seen[0] * 512, claim("capacity").unwrap(), "{drive}");
        assert_eq!(seen[1..3], [logical, physical], "{drive}");
        assert_eq!(seen[3], claim("minimum_io").unwrap_or(physical).max(physical), "{drive}");
        assert_eq!(seen[4], claim("optimal_io").unwrap_or(0), "{drive}");
        assert_eq!(seen[5..7], [offset, byte / 512], "{drive}");
        let boundary = seen[3];
        assert_eq!(seen[7], (boundary + offset - byte % boundary) % boundary, "{drive}");
    }
}

#[test]
fn equal_runs_are_equal_to_the_nanosecond() {
    if !present(&["linux.uml", "mkfs.ext4"]) {
        return;
    }
    let arguments = [
        "--drive",
        "wd10ears",
        "--start",
        "34s",
        "--size",
        "300MiB",
        "--",
        "make_file_system ext4; mount_it ext4; cp -r /usr/share/perl5 $MNT; measure umount unmount; cat /proc/uptime",
    ];
    // Beside each other, so that each disturbs the other.
    let (one, other) = std::thread::scope(|scope| {
        let run = || well(&arguments);
        let (one, other) = (scope.spawn(run), scope.spawn(run));
        (one.join().unwrap(), other.join().unwrap())
    });
    for field in ["fingerprint", "guest_ns", "requests", "measures", "output", "drives", "spent"] {
        assert_eq!(one[field], other[field], "{field}");
    }
    assert!(one["requests"].as_u64().unwrap() > 200, "{one}");

    let seeded = well(&[&["--seed", "2"], &arguments[..]].concat());
    assert_ne!(one["fingerprint"], seeded["fingerprint"], "another seed is another run");
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
    // Two seconds of one loop, and some of the other; nobody knows how fast this machine is.
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
    let trace = dir.join("trace.csv");
    let script = "measure writes dd if=/dev/zero of=$PART bs=4k count=200 oflag=direct,dsync 2>/dev/null";
    let arm = |start: &str| {
        let drive = ["--drive", "dell-6tb-7200-512e", "--start", start, "--trace", trace.to_str().unwrap()];
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
    let sim: Value = serde_json::from_slice(&sim.stdout).unwrap_or_else(|e| panic!("{e}: {}", told(&sim)));
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
    for (drive, start) in [("wd10ears", "34s"), ("qlc-16k", "40s")] {
        let report = well(&["--drive", drive, "--start", start, "--size", "400MiB", "--", &script]);
        let sound: Vec<String> = FILE_SYSTEMS.iter().map(|name| format!("sound {name}")).collect();
        // Beside that the tools warn: sector 40 is no boundary of 16 KiB.
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
fn what_is_missing_is_told_with_the_cure() {
    let drive = ["lab", "--drive", "wd10ears"];
    let run = |arguments: &[&str]| {
        let mut command = Command::new(STRADDLE);
        command.args(drive).args(arguments).env("LINUX_UML", "/nowhere/linux.uml").output().unwrap()
    };
    let missing = run(&["--", "true"]);
    assert_eq!(missing.status.code(), Some(3));
    let told = text(&missing.stderr);
    assert!(
        told.contains("/nowhere/linux.uml") && told.contains("apt-get install user-mode-linux"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");

    for (arguments, says) in [
        (&["--start", "0s", "--", "true"][..], "--start"),
        (&["--start", "513", "--", "true"], "inside a logical sector"),
        (&["--start", "9999999999999s", "--", "true"], "ends before"),
        (&["--start", "34s", "--start", "40s", "--", "true"], "2 of them for 1 drives"),
        (&["--mem", "1MiB", "--", "true"], "64 MiB"),
        (&["--cpu=-1", "--", "true"], "--cpu"),
        (&["--store", "a", "--store", "b", "--", "true"], "--store"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    }
    let unknown = Command::new(STRADDLE).args(["lab", "--drive", "wd10eers", "--", "true"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
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
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        assert!(text(&output.stderr).contains(whose), "{}", told(&output));
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
    tools::shell(&format!("kill -INT {}", child.id()), dir.path());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", told(&output));
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
