//! Recordings of modelled drives: what is counted of them is what the drives counted themselves.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::server::Setting;
use super::tools::{self, Dir, json, number, output, present, straddle, text, transcript};

/// A drive's own counters of requests, each with the count of a trace.
const COUNTED: [(&str, &str, &str); 5] = [
    ("host_reads", "reads", "requests"),
    ("host_writes", "writes", "requests"),
    ("host_discards", "discards", "requests"),
    ("host_read_bytes", "reads", "bytes"),
    ("host_write_bytes", "writes", "bytes"),
];

/// Compares a drive's counters with those of its volume.
fn same(counters: &Value, volume: &Value) {
    for (counter, operation, field) in COUNTED {
        assert_eq!(counters[counter], volume[operation][field], "{counter}: {counters}\n{volume}");
    }
    assert_eq!(counters["host_flushes"], volume["flushes"]);
}

fn counted(path: &Path, event: &str) -> Value {
    json("trace", &["trace", "--json", "--event", event, path.to_str().unwrap()])
}

fn volume(report: &Value, name: &str) -> Value {
    let volumes = tools::list(report, "volumes");
    let found = volumes.iter().find(|volume| volume["name"] == name);
    found.unwrap_or_else(|| panic!("no volume {name}: {report}")).clone()
}

#[test]
fn a_lab_records_what_its_drives_count() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = Dir::new("recorded-lab");
    let file = dir.join("lab.rec");
    let script = "make_file_system ext4; mount_it ext4; cp -r /etc/init.d $MNT; sync; blkdiscard -o 64M -l 8M $DISK2; \
        dd if=/dev/zero of=$DISK2 bs=512 count=63 oflag=direct; dd if=$DISK2 of=/dev/null bs=12k count=9; unmount";
    let arguments =
        ["--drive", "wd10ears", "--drive", "qlc-16k", "--start", "34s", "--size", "128MiB", "--json"];
    let record = ["--record", file.to_str().unwrap(), "--", script];
    let ended = straddle(&[&["lab"][..], &arguments, &record].concat());
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let report = ended.valid("lab");
    let (issued, completed) = (counted(&file, "issue"), counted(&file, "complete"));
    for (index, name) in ["vda", "vdb"].into_iter().enumerate() {
        let counters = &tools::list(&report, "drives")[index]["counters"];
        assert!(number(counters, "host_writes") > 50 || index == 1, "{report}");
        same(counters, &volume(&issued, name));
        same(counters, &volume(&completed, name));
    }
    // The same run has the same recording, but for the time on the calendar.
    let again = dir.join("again.rec");
    let record = ["--record", again.to_str().unwrap(), "--", script];
    assert_eq!(straddle(&[&["lab"][..], &arguments, &record].concat()).code, 0);
    let repeated = counted(&again, "issue");
    assert_eq!((&issued["total"], &issued["span_ns"]), (&repeated["total"], &repeated["span_ns"]));
}

#[test]
fn a_lab_that_loses_power_records_what_was_done_until_then() {
    if !present(&["linux.uml"]) {
        return;
    }
    let dir = Dir::new("recorded-cut");
    let file = dir.join("cut.rec");
    let drive =
        ["lab", "--drive", "wd10ears", "--start", "34s", "--cut-after", "60", "--seed", "3", "--json"];
    let record = ["--record", file.to_str().unwrap(), "--", "make_file_system ext4"];
    let ended = straddle(&[&drive[..], &record].concat());
    assert_eq!(ended.code, 3, "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    // The drive counts a request before its completion reaches the host, which loses power in between.
    let counters = &tools::list(&report, "drives")[0]["counters"];
    let volumes = ["complete", "issue"].map(|event| volume(&counted(&file, event), "vda"));
    for (counter, operation, field) in COUNTED {
        let [completed, issued] = volumes.each_ref().map(|volume| number(&volume[operation], field));
        let own = number(counters, counter);
        assert!(completed <= own && own <= issued, "{counter}: {completed} {own} {issued}");
    }
    let issued = ["reads", "writes", "discards"].map(|operation| number(&volumes[1][operation], "requests"));
    assert!(issued.iter().sum::<u64>() + number(&volumes[1], "flushes") >= 60, "{report}");
}

#[test]
fn a_served_drive_records_what_it_counts() {
    if !present(&["qemu-io", "blkparse"]) {
        return;
    }
    let setting = Setting::new("recorded-serve");
    let file = setting.dir.join("serve.rec");
    let server = setting.serve(&["--record", file.to_str().unwrap()]);
    let script = "write 0 1M\nwrite -f 512 512\nread 1024 4k\nwrite -z 8k 8k\ndiscard 256k 512M\nflush\nwrite -z 1G 1G\n\
        aio_write 63k 4k\naio_write 95k 4k\naio_read 0 128k\naio_flush\n";
    let ran = output(Command::new("qemu-io").args(["-f", "raw", &setting.uri()]), script);
    assert!(ran.status.success() && !transcript(&ran).contains("failed"), "{}", transcript(&ran));
    let report = super::server::summary(server);
    let (issued, completed) = (counted(&file, "issue"), counted(&file, "complete"));
    same(&report["counters"], &volume(&issued, &setting.drive));
    same(&report["counters"], &volume(&completed, &setting.drive));
    // blkparse reads it, and its times go on.
    let input = std::fs::File::open(&file).unwrap();
    let ran = Command::new("blkparse")
        .args(["-i", "-", "-f", "%a %T.%t %d %S %N\n"])
        .stdin(input)
        .output()
        .unwrap();
    let printed = text(&ran.stdout);
    let events = printed.lines().filter(|line| line.starts_with("D ") || line.starts_with("C "));
    let all: u64 = ["host_reads", "host_writes", "host_discards", "host_flushes"]
        .iter()
        .map(|counter| number(&report["counters"], counter))
        .sum();
    assert_eq!(events.count() as u64, 2 * all, "{printed}");
}

#[test]
fn a_recording_that_cannot_be_written_is_an_error_before_the_drive_runs() {
    let dir = Dir::new("recorded-nowhere");
    let nowhere = dir.join("no folder/x.rec");
    for arguments in [
        vec![
            "serve",
            "drive:ssd-sata-4k",
            "--nbd",
            "unix:/nowhere/socket",
            "--record",
            nowhere.to_str().unwrap(),
        ],
        vec!["trace", "record", "/dev/null", "--to", nowhere.to_str().unwrap()],
    ] {
        let run = straddle(&arguments);
        assert!(run.code > 1 && run.out.is_empty(), "{arguments:?}: {}", run.err);
    }
    // A run that fails before the first request leaves what there was.
    let earlier = dir.join("earlier.rec");
    std::fs::write(&earlier, "earlier").unwrap();
    let earlier = earlier.to_str().unwrap();
    let serve = ["serve", "drive:ssd-sata-4k", "--nbd", "unix:/nowhere/socket", "--record", earlier];
    assert!(straddle(&serve).code > 1);
    assert_eq!(std::fs::read_to_string(earlier).unwrap(), "earlier");
}
