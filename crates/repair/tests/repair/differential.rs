//! Random plans on random disks, read back by sfdisk, sgdisk, parted and fdisk, checked by the audit, and
//! compared with what those tools make of the same script. `PLANS=n` sets the number of seeds; a failing seed
//! is printed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Random, Reading, block_of, random_disk, random_table, seeds, stack_of, target, topology};
use skip::{PATH, present};
use straddle_audit::{Context, Severity};
use straddle_device::image::Format as ImageFormat;
use straddle_repair::apply::{ApplyError, Backup, BackupError, LaterWrites, Prepared};
use straddle_repair::{Entry, Format, Identity, Part, Place, Plan, Request, Seed, Size, Target};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// Returns what a tool prints; it must succeed.
fn tool(name: &str, arguments: &[&str], input: &str, environment: Option<(&str, &str)>) -> String {
    let mut command = Command::new(name);
    command.args(arguments).env("PATH", PATH).env("LC_ALL", "C.UTF-8");
    command.envs(environment).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// A sparse file of `size` bytes.
fn image(dir: &Path, name: &str, size: u64) -> Target<'static> {
    let path = dir.join(name);
    File::create(&path).unwrap().set_len(size).unwrap();
    Target::open(&path, Some(ImageFormat::Raw)).unwrap()
}

/// Number, first sector, count.
type Rows = BTreeSet<(u32, u64, u64)>;

fn rows(plan: &Plan) -> Rows {
    plan.table.partitions.iter().map(|e| (e.number, e.start.get(), e.sectors.get())).collect()
}

fn number_of(node: &str, path: &str) -> u32 {
    node[path.len()..].trim_start_matches('p').parse().unwrap()
}

fn by_sfdisk(plan: &Plan, path: &str) -> Rows {
    let json: serde_json::Value = serde_json::from_str(&tool("sfdisk", &["-J", path], "", None)).unwrap();
    let table = &json["partitiontable"];
    let label = if plan.table.format == Format::Gpt { "gpt" } else { "dos" };
    assert_eq!(table["label"], label);
    let id = table["id"].as_str().unwrap();
    assert_eq!(id.trim_start_matches("0x").to_uppercase(), plan.table.id.to_uppercase());
    let mut rows = Rows::new();
    for found in table["partitions"].as_array().unwrap() {
        let number = number_of(found["node"].as_str().unwrap(), path);
        let entry = plan.table.partitions.iter().find(|entry| entry.number == number).unwrap();
        assert_eq!(found["type"].as_str().unwrap(), entry.kind);
        assert_eq!(found["uuid"].as_str(), entry.uuid.as_deref());
        assert_eq!(found["name"].as_str().unwrap_or_default(), entry.name);
        rows.insert((number, found["start"].as_u64().unwrap(), found["size"].as_u64().unwrap()));
    }
    rows
}

fn by_parted(plan: &Plan, path: &str) -> Rows {
    let sector = plan.block().to_string();
    let text =
        tool("parted", &["-m", "-s", path, "unit", "s", "print"], "", Some(("PARTED_SECTOR_SIZE", &sector)));
    let row = |line: &str| {
        let mut fields = line.split(':');
        let number = fields.next()?.parse().ok()?;
        let mut sector = || fields.next()?.trim_end_matches('s').parse::<u64>().ok();
        let (start, last, count) = (sector()?, sector()?, sector()?);
        assert_eq!(last - start + 1, count);
        Some((number, start, count))
    };
    text.lines().skip(2).filter_map(row).collect()
}

/// The audit's findings on the disk as read back.
fn findings(disk: &Target<'_>, assume: &str) -> Vec<(&'static str, Severity, String)> {
    let (topology, stack) = (topology(assume), stack_of(disk, block_of(assume)));
    let context = Context::of(
        "disk",
        straddle_device::DeviceKind::Image,
        straddle_device::Medium::len(disk),
        &topology,
        &stack,
    );
    let found = straddle_audit::run(&context);
    found.iter().map(|f| (f.rule.code.as_str(), f.severity, f.message.clone())).collect()
}

fn size_of(plan: &Plan, entry: &Entry) -> ByteCount {
    entry.sectors.to_bytes(plan.block()).unwrap()
}

/// Whether a finding is expected: a boundary that the plan itself left out, or a limit of an MBR.
fn is_excused(plan: &Plan, finding: &(&'static str, Severity, String)) -> bool {
    let left_out = plan.considered.iter().any(|c| c.left_out.is_some() && c.size != ByteCount::ZERO);
    let placed = matches!(finding.0, "S003" | "S004" | "S005" | "S006" | "S007" | "S008" | "S009");
    let reach = plan.table.format == Format::Mbr && finding.0.starts_with("S04");
    let unaligned_size = plan.table.partitions.iter().any(|e| !size_of(plan, e).get().is_multiple_of(4096));
    let unaligned_disk = !plan.disk.size.get().is_multiple_of(4096);
    (left_out && placed)
        || reach
        || (finding.0 == "S002" && unaligned_size)
        || (finding.0 == "S072" && unaligned_disk)
}

#[test]
fn what_is_planned_is_what_every_tool_reads() {
    if !present(&["sfdisk", "sgdisk", "parted", "fdisk"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let count = seeds("PLANS", 200);
    let (mut made, mut refused) = (0, 0);
    for seed in 0..count {
        let mut random = Random::new(seed);
        let (assume, size) = random_disk(&mut random, &["512e", "512n", "512e", "4kn"]);
        let request = random_table(&mut random, size);
        let mut disk = image(dir.path(), "ours", size);
        let plan = match common::plan(&disk, &assume, &request) {
            Ok(plan) => plan,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        made += 1;
        let context = || format!("seed {seed}, {assume}, {size} bytes:\n{}", plan.to_json().unwrap());
        assert_eq!(Plan::from_json(&plan.to_json().unwrap()).unwrap(), plan);
        let (_, backup) =
            common::write(&mut disk, &plan).unwrap_or_else(|error| panic!("{error}\n{}", context()));
        judge(&plan, &request, &disk, &assume, &context);
        common::undo(&mut disk, &backup);
        assert_eq!(Reading::of(&disk, block_of(&assume)).partitions, [], "{}", context());
    }
    println!("seeds 0 to {count}: {made} plans, {refused} refused");
    assert!(made * 2 > count);
}

fn judge(plan: &Plan, request: &Request, disk: &Target<'_>, assume: &str, context: &dyn Fn() -> String) {
    let path = disk.path().unwrap().to_str().unwrap();
    assert_eq!(by_parted(plan, path), rows(plan), "parted, {}", context());
    if plan.block() == BlockSize::B512 {
        assert_eq!(by_sfdisk(plan, path), rows(plan), "sfdisk, {}", context());
        if plan.table.format == Format::Gpt {
            let text = tool("sgdisk", &["-v", path], "", None);
            assert!(text.contains("No problems found"), "{text}\n{}", context());
        }
    }
    let text = tool("fdisk", &["-b", &plan.block().to_string(), "-l", path], "", None);
    assert!(!text.contains("does not start on physical sector"), "{text}\n{}", context());
    let bad: Vec<_> = findings(disk, assume).into_iter().filter(|f| !is_excused(plan, f)).collect();
    assert!(bad.is_empty(), "{bad:#?}\n{}", context());
    // Sizes are as requested, or rounded up to the next boundary of an end.
    let asked = request.parts.iter().filter(|p| !p.logical).collect::<Vec<_>>();
    let ours =
        plan.table.partitions.iter().filter(|e| e.slot == straddle_repair::Slot::Primary).collect::<Vec<_>>();
    assert_eq!(asked.len(), ours.len());
    for (part, entry) in asked.iter().zip(ours) {
        let len = size_of(plan, entry).get();
        match part.size {
            Size::Bytes(size) => {
                assert!((size.get()..size.get() + (1 << 20)).contains(&len), "{}", context())
            }
            Size::Sectors(count) => assert_eq!(entry.sectors.get(), count, "{}", context()),
            Size::Percent(_) | Size::Rest => {}
        }
    }
}

/// Each request is refused with a sentence, and no byte of the disk changes.
#[test]
fn bad_requests_are_refused_and_write_nothing() {
    let size = 64_u64 << 20;
    let request = |table: Option<Format>, parts: &[&str]| {
        let mut request = Request::new(Seed(5));
        request.table = table;
        request.parts = parts.iter().map(|part| part.parse::<Part>().unwrap()).collect();
        request
    };
    let (gpt, mbr) = (Some(Format::Gpt), Some(Format::Mbr));
    let mut blank = common::Memory::new(size);
    let cases = [
        (request(gpt, &["65M"]), "does not fit"),
        (request(gpt, &["40M", "40M"]), "does not fit"),
        (request(gpt, &["60%", "50%"]), "add up to 110 %"),
        (request(gpt, &["rest", "rest"]), "only one"),
        (request(gpt, &["0B"]), "empty"),
        (request(gpt, &["1M,type=nonsense"]), "is not a partition type for GPT"),
        (request(mbr, &["1M,type=bios"]), "only in a GPT"),
        (request(mbr, &["1M,type=5"]), "role=logical"),
        (request(mbr, &["1M", "1M", "1M", "1M", "1M"]), "4 primary"),
        (request(mbr, &["1M", "1M", "1M", "1M", "1M,role=logical"]), "4 primary"),
        (request(mbr, &["1M,role=logical", "1M", "1M,role=logical"]), "must be consecutive"),
        (request(mbr, &["1M,name=x"]), "cannot store names"),
        (request(gpt, &["1M,role=logical"]), "no logical"),
        (request(gpt, &["1M,start=34s"]), "--allow-misaligned"),
        (request(gpt, &["1M,start=2049"]), "512-byte logical sector"),
        (request(gpt, &["4M,start=2048s", "1M,start=4096s"]), "inside the partition before it"),
        (request(gpt, &["1M,start=1T"]), "outside"),
        (request(gpt, &["1M,uuid=x"]), "UUID"),
        (request(gpt, &["1M,number=129"]), "no entry"),
        (request(gpt, &["1M,number=1", "1M,number=1"]), "partition 1 already"),
        (request(gpt, &[&format!("1M,name={}", "x".repeat(37))]), "36 UTF-16 units"),
        (request(None, &["1M"]), "no partition table to change"),
        (request(None, &[]), "nothing to do"),
    ];
    for (request, expected) in &cases {
        let before = blank.clone();
        let error = common::plan_and_write(&mut blank, "512e", request).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} lacks '{expected}'");
        assert_eq!(blank, before);
    }
    let mut disk = common::Memory::new(size);
    common::plan_and_write(&mut disk, "512e", &request(gpt, &["8M", "8M", "rest"])).unwrap();
    let change = |change: &dyn Fn(&mut Request)| {
        let mut request = Request::new(Seed(6));
        change(&mut request);
        request
    };
    let cases = [
        (change(&|r| r.parts = vec![Part::new(Size::Bytes(ByteCount::new(8 << 20)))]), "does not fit"),
        (change(&|r| r.delete = vec![9]), "there is no partition 9"),
        (change(&|r| r.grow = vec!["1".parse().unwrap()]), "cannot grow"),
        (change(&|r| r.grow = vec!["3=1M".parse().unwrap()]), "cannot grow"),
        (
            change(&|r| {
                let start = Some(Place::Sector(4096));
                r.parts = vec![Part { start, ..Part::new(Size::Sectors(8)) }];
            }),
            "inside partition 1",
        ),
        (change(&|r| r.disk_id = Some("x".to_owned())), "nothing to do"),
    ];
    for (request, expected) in &cases {
        let before = disk.clone();
        let error = common::plan_and_write(&mut disk, "512e", request).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} lacks '{expected}'");
        assert_eq!(disk, before);
    }
}

/// Returns why `plan` is refused on a disk.
fn refusal(disk: &common::Memory, plan: &Plan, serial: Option<&str>) -> String {
    let mut disk = disk.clone();
    let identity = Identity { serial: serial.map(str::to_owned), ..Identity::default() };
    Prepared::of(&mut Target::simulated(&mut disk, identity), plan).map(|_| ()).unwrap_err().to_string()
}

/// A plan for another disk, and one for a disk that has changed since.
#[test]
fn a_plan_knows_its_disk() {
    let mut disk = common::Memory::new(64 << 20);
    let mut request = Request::new(Seed(1));
    request.table = Some(Format::Gpt);
    request.parts = vec![Part::new(Size::Rest)];
    let plan = common::plan(&disk, "512e", &request).unwrap();
    let refused = |disk: &common::Memory, serial: Option<&str>| refusal(disk, &plan, serial);
    let other = common::Memory::new(65 << 20);
    assert!(refused(&other, None).contains("for a disk of 67108864 bytes"));
    assert!(refused(&disk, Some("S1")).contains("serial number S1"));
    let mut changed = disk.clone();
    changed.put(0, &[1; 512]);
    assert!(refused(&changed, None).contains("plan again"));
    let mut used = disk.clone();
    used.put(1 << 20, &[1; 512]);
    assert!(refused(&used, None).contains("unrecognised data"), "they may be an encrypted volume");
    common::write(&mut target(&mut disk), &plan).unwrap();
    assert!(refused(&disk, None).contains("plan again"), "a plan is for once");
    let blank = common::Memory::new(64 << 20);
    let edited =
        |edit: &dyn Fn(&mut serde_json::Value)| common::edited(&plan, |json| edit(&mut json["table"]));
    let kept = edited(&|table| table["partitions"][0]["change"] = "kept".into()).unwrap();
    assert!(refusal(&blank, &kept, None).contains("is missing"));
    assert!(edited(&|table| table["entries"] = 0.into()).is_err());
    let error =
        edited(&|table| table["partitions"][0]["sectors"] = (1 << 20).into()).unwrap_err().to_string();
    assert!(error.contains("outside"), "{error}");
}

/// An undo trusts neither the backup's bytes nor the disk's.
#[test]
fn an_undo_is_for_what_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = common::Memory::new(64 << 20);
    disk.put(0, &[0xAB; 440 + 72]);
    let before = disk.clone();
    let mut request = Request::new(Seed(1));
    request.table = Some(Format::Gpt);
    request.wipe = true;
    request.parts = vec![Part::new(Size::Rest)];
    let plan = common::plan(&disk, "512e", &request).unwrap();
    let path = dir.path().join("undo");
    Prepared::of(&mut target(&mut disk), &plan).unwrap().back_up(&path).unwrap();
    assert_eq!(disk, before, "a backup alone writes nothing");
    let again = Prepared::of(&mut target(&mut disk), &plan).unwrap().back_up(&path).map(drop);
    assert!(matches!(again, Err(ApplyError::Backup(BackupError::Store { .. }))), "a backup replaces nothing");
    std::fs::remove_file(&path).unwrap();
    Prepared::of(&mut target(&mut disk), &plan).unwrap().back_up(&path).unwrap().write().unwrap();
    let backup = Backup::load(&path).unwrap();
    let mut changed = disk.clone();
    changed.put(512, &[1; 512]);
    let error = backup.undo(&mut target(&mut changed), LaterWrites::Refuse).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("byte 512"));
    common::undo(&mut target(&mut disk), &backup);
    for at in (0..64_u64 << 20).step_by(1 << 20) {
        let read = |disk: &common::Memory| {
            let mut bytes = vec![0; 1 << 20];
            straddle_device::Medium::read_at(disk, ByteOffset::new(at), &mut bytes).unwrap();
            bytes
        };
        assert!(read(&disk) == read(&before), "byte {at} and following");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("abab", "abac", 1)).unwrap();
    assert!(Backup::load(&path).unwrap_err().to_string().contains("the checksum"));
}
