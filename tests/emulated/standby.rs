//! `check --no-wake` on disks in standby: stopped ones of scsi_debug, and a SATA disk that the kernel has
//! suspended. QEMU's SATA disks answer CHECK POWER MODE with FFh always, so a drive's own standby is covered by
//! recorded answers only (`crates/device/src/identify/power.rs`).

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tools::{self, Dir, STRADDLE, list, output, present, transcript, word};

const TOOLS: [&str; 6] = ["blockdev", "hdparm", "lsblk", "sfdisk", "sg_start", "sg_turs"];

#[test]
fn disks_in_standby_are_left_asleep() {
    if cfg!(not(target_arch = "x86_64")) || !present(&["qemu-system-x86_64", "busybox"]) || !present(&TOOLS) {
        return;
    }
    let folder = tools::root().join("tests/emulated");
    let fetched = output(Command::new(folder.join("kernel")).arg("6.12"), "");
    if !fetched.status.success() {
        tools::skipped(&format!("kernel 6.12 is missing: {}", transcript(&fetched)));
        return;
    }
    let dir = Dir::new("standby");
    let arguments = "-device\nahci,id=ahci,addr=4\n-drive\n\
        if=none,id=sata,format=raw,cache=unsafe,file={}/disk-sata-64M\n-device\nide-hd,drive=sata,bus=ahci.0\n";
    fs::write(dir.join("arguments"), arguments).unwrap();
    let mut command = Command::new(folder.join("run"));
    command.args(["-t", "1200", "-k", "6.12", "-p", STRADDLE, "-o"]).arg(dir.join("out"));
    command.arg("-a").arg(dir.join("arguments"));
    TOOLS.iter().for_each(|tool| {
        command.args(["-x", tool]);
    });
    let ran = output(command.arg(folder.join("standby.sh")), "");
    assert!(ran.status.success(), "{}", transcript(&ran));
    judge(&dir.join("out"));
}

fn judge(out: &Path) {
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_else(|_| panic!("no {name}"));
    // The status and reason of each target, and the exit status.
    let targets = |name: &str| {
        let report: Value = serde_json::from_str(&read(&format!("{name}.out"))).unwrap();
        let of = |target: &Value| (word(target, "status"), target["reason"].as_str().map(str::to_owned));
        let found: Vec<_> = list(&report, "targets").iter().map(of).collect();
        assert_eq!(read(&format!("{name}.rc")).trim(), "0", "{name}: {}", read(&format!("{name}.err")));
        found
    };
    let disks = read("disks");
    let disks: Vec<&str> = disks.split_whitespace().collect();
    let blank = "nothing to check: no partition table and no contents";
    let blank = ("blank".to_owned(), Some(blank.to_owned()));
    let not_judged = |how: &str| {
        ("not_judged".to_owned(), Some(format!("the disk is in standby, so it was not read ({how})")))
    };

    // QEMU's disk answers CHECK POWER MODE as hdparm shows, and is read.
    assert!(read("hdparm").contains("active/idle"), "{}", read("hdparm"));
    assert_eq!(targets("awake"), [blank.clone(), blank.clone(), blank.clone()]);

    assert_eq!(targets("stopped"), [not_judged("SCSI: stopped"), blank.clone()]);
    assert_eq!((read("before").trim(), read("after").trim()), ("stopped", "stopped"));
    let said = format!(
        "straddle: /dev/{}: not judged: the disk is in standby, so it was not read (SCSI: stopped)\n",
        disks[1]
    );
    assert_eq!((read("text.err"), read("text.rc").trim()), (said, "0"));
    let metric = format!("straddle_target_judged{{target=\"/dev/{}\"}} 0\n", disks[1]);
    assert!(read("metrics.out").contains(&metric), "{}", read("metrics.out"));

    assert_eq!(targets("suspended"), [not_judged("suspended by the kernel")]);
    assert_eq!(read("status").trim(), "suspended");
    assert_eq!(targets("resumed"), [blank]);
    assert_eq!(read("status-resumed").trim(), "active");
}
