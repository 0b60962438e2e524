//! `plan`, `apply` and `undo` from the command line: on images, and on loop devices, where the kernel judges.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tools::{Dir, STRADDLE, list, number, output, present, run, text, told, word};

fn straddle(dir: &Dir, arguments: &[&str]) -> Output {
    output(Command::new(STRADDLE).args(arguments).current_dir(dir.path()), "")
}

/// Runs straddle, which has to end with `code`, and returns all that it says.
fn ends(dir: &Dir, code: i32, arguments: &[&str]) -> String {
    let output = straddle(dir, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{}", told(&output));
    assert_eq!(output.stderr.is_empty(), code == 0, "{arguments:?}\n{}", told(&output));
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn json(dir: &Dir, arguments: &[&str]) -> Value {
    let output = straddle(dir, arguments);
    assert!(output.status.success(), "{arguments:?}\n{}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A misaligned image, as a DOS tool would make it.
fn misaligned(dir: &Dir, name: &str) -> PathBuf {
    let image = dir.image(name, 64 << 20);
    tools::write_table(&image, 512, "label: dos\nstart=63, size=65536, type=83\n");
    image
}

#[test]
fn two_commands_take_a_misaligned_image_to_an_aligned_one_and_one_takes_it_back() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("plan");
    let image = misaligned(&dir, "disk.img");
    let before = fs::read(&image).unwrap();
    assert_eq!(straddle(&dir, &["check", "disk.img"]).status.code(), Some(1));
    let parts = ["--part", "8MiB,type=esp,fs=vfat", "--part", "rest,name=root"];
    let save = ["plan", "disk.img", "--table", "gpt", "--save", "p.json", "--explain", "--seed", "7"];
    let said = ends(&dir, 0, &[&save[..], &parts].concat());
    for part in
        ["before [", "after  [", "sgdisk (1.0.9): the same", "straddle apply p.json --write disk.img"]
    {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(fs::read(&image).unwrap() == before, "a plan writes nothing");
    assert_eq!(ends(&dir, 0, &[&save[..], &parts].concat()), said, "the same seed, the same plan");
    let dry = ends(&dir, 0, &["apply", "p.json", "--write", "disk.img", "--dry-run"]);
    assert!(dry.contains("protective MBR") && dry.contains("nothing was written"), "{dry}");
    assert!(fs::read(&image).unwrap() == before && !dir.join("p.json.undo").exists());
    let said = ends(&dir, 0, &["apply", "p.json", "--write", "disk.img"]);
    assert!(said.contains("GPT with 2 partitions written and read back"), "{said}");
    let report = json(&dir, &["check", "--json", "disk.img"]);
    assert_eq!(list(&report["targets"][0], "findings"), [] as [Value; 0]);
    let again = ends(&dir, 4, &["apply", "p.json", "--write", "disk.img"]);
    assert!(again.contains("plan again"), "{again}");
    ends(&dir, 0, &["undo", "p.json.undo", "--write", "disk.img"]);
    assert!(fs::read(&image).unwrap() == before, "an undo brings back every byte");
}

#[test]
fn refusals_have_their_exit_codes_and_write_nothing() {
    if !present(&["sfdisk", "qemu-img", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("refuse");
    let image = misaligned(&dir, "disk.img");
    let other = dir.image("other.img", 65 << 20);
    let content = dir.image("content.img", 64 << 20);
    run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&content), "");
    run(
        Command::new("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(dir.join("q.qcow2")).arg("64M"),
        "",
    );
    ends(&dir, 0, &["plan", "disk.img", "--table", "gpt", "--part", "rest", "--save", "p.json"]);
    let bytes = || [fs::read(&image).unwrap(), fs::read(&other).unwrap(), fs::read(&content).unwrap()];
    let before = bytes();
    let cases: [(i32, &[&str], &str); 13] = [
        (2, &["plan", "disk.img"], "nothing is asked for"),
        (2, &["plan", "disk.img", "--table", "gpt", "--part", "1M,type=what"], "is no GPT type"),
        (2, &["plan", "disk.img", "--table", "gpt", "--part", "60%", "--part", "60%"], "120 %"),
        (2, &["plan", "disk.img", "--table", "gpt", "--part", "x"], "is no size"),
        (3, &["plan", "disk.img", "--table", "gpt", "--part", "1T"], "does not fit"),
        (3, &["plan", "none.img", "--table", "gpt", "--part", "1M"], "none.img"),
        (3, &["plan", "other.img", "--add", "1M"], "no partition table"),
        (4, &["plan", "disk.img", "--table", "gpt", "--part", "1M", "--start", "34s"], "--allow-misaligned"),
        (4, &["plan", "content.img", "--table", "gpt", "--part", "1M"], "ext4 as a whole"),
        (4, &["plan", "q.qcow2", "--table", "gpt", "--part", "1M"], "another format than raw"),
        (4, &["apply", "p.json", "--write", "other.img"], "a disk of 67108864 bytes"),
        (2, &["apply", "disk.img", "--write", "disk.img"], "no plan"),
        (3, &["undo", "p.json", "--write", "disk.img"], "no backup that can be trusted"),
    ];
    for (code, arguments, expected) in cases {
        let said = ends(&dir, code, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said} lacks '{expected}'");
        assert!(bytes() == before, "{arguments:?} wrote something");
    }
    fs::write(dir.join("p.json.undo"), "mine").unwrap();
    let said = ends(&dir, 3, &["apply", "p.json", "--write", "disk.img"]);
    assert!(said.contains("cannot store the backup; nothing was written"), "{said}");
    assert!(bytes() == before && fs::read(dir.join("p.json.undo")).unwrap() == b"mine");
}

#[test]
fn what_an_image_is_meant_for_decides_where_partitions_start() {
    let dir = Dir::new("grain");
    dir.image("disk.img", 8 << 30);
    let starts = |arguments: &[&str]| -> Vec<u64> {
        let parts = ["plan", "disk.img", "--json", "--table", "gpt", "--part", "100MiB", "--part", "rest"];
        let report = json(&dir, &[&parts[..], arguments].concat());
        list(&report["table"], "partitions").iter().map(|p| number(p, "start")).collect()
    };
    let mib = 1 << 20;
    assert_eq!(starts(&[]), [mib, 101 * mib]);
    assert_eq!(starts(&["--assume", "stripe=192KiB"]), [3 * mib, 105 * mib]);
    assert_eq!(starts(&["--assume", "physical=4096,offset=3584"])[0], mib + 3584);
    assert_eq!(starts(&["--assume", "4kn"])[0], mib);
    assert_eq!(starts(&["--assume", "erase=4MiB"])[0], 4 * mib);
    assert_eq!(starts(&["--grain", "64KiB"])[0], 65536);
    assert_eq!(starts(&["--start", "34s", "--allow-misaligned"])[0], 34 * 512);
}

#[test]
fn files_and_scripts_ask_for_the_same() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("scripts");
    dir.image("disk.img", 1 << 30);
    fs::write(
        dir.join("layout.toml"),
        "table = 'gpt'\n[[part]]\nsize = '64MiB'\ntype = 'esp'\nname = 'boot, old'\n[[part]]\nsize = 'rest'\n",
    )
    .unwrap();
    let script = ends(&dir, 0, &["plan", "disk.img", "--file", "layout.toml", "--seed", "1", "--to-sfdisk"]);
    fs::write(dir.join("script"), &script).unwrap();
    let again = ends(&dir, 0, &["plan", "disk.img", "--from-sfdisk", "script", "--to-sfdisk"]);
    assert_eq!(again, script);
    run(Command::new("sfdisk").args(["-q", "disk.img"]).current_dir(dir.path()), &script);
    let dump = run(Command::new("sfdisk").args(["--dump", "disk.img"]).current_dir(dir.path()), "");
    assert_eq!(dump, script);
    ends(&dir, 2, &["plan", "disk.img", "--file", "script"]);
}

#[test]
fn the_json_has_the_published_form() {
    let dir = Dir::new("schema");
    dir.image("disk.img", 1 << 30);
    let kept = fs::read_to_string(project("docs/plan.schema.json")).unwrap();
    assert!(
        kept == ends(&dir, 0, &["schema", "plan"]),
        "docs/plan.schema.json is out of date: run 'make docs'"
    );
    let validator = jsonschema::validator_for(&serde_json::from_str(&kept).unwrap()).unwrap();
    let report = json(
        &dir,
        &["plan", "disk.img", "--json", "--table", "mbr", "--part", "1M", "--part", "1M,role=logical"],
    );
    let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let roles: Vec<String> = list(&report["table"], "partitions").iter().map(|p| word(p, "role")).collect();
    assert_eq!(roles, ["primary", "extended", "logical"]);
}

/// A loop device over an image, with partitions.
struct Loop(String);

impl Loop {
    fn new(image: &Path, sector: &str) -> Self {
        let args = ["--find", "--show", "--partscan", "--sector-size", sector];
        Self(run(Command::new("losetup").args(args).arg(image), "").trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

/// Whether loop devices can be made here.
fn can_loop(dir: &Dir) -> bool {
    let probe = dir.image("probe", 1 << 20);
    let made = output(Command::new("losetup").args(["--find", "--show"]).arg(&probe), "");
    if made.status.success() {
        drop(Loop(text(&made.stdout).trim().to_owned()));
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "no loop devices, and this is CI: {}", told(&made));
    eprintln!("SKIPPED: no loop devices: {}", told(&made));
    false
}

/// What the kernel lists: number, first 512-byte sector, count.
fn kernel(device: &str) -> Vec<(u64, u64, u64)> {
    let name = device.trim_start_matches("/dev/");
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/sys/block/{name}")).unwrap() {
        let path = entry.unwrap().path();
        let read =
            |file: &str| fs::read_to_string(path.join(file)).ok().and_then(|t| t.trim().parse::<u64>().ok());
        if let Some(number) = read("partition") {
            found.push((number, read("start").unwrap(), read("size").unwrap()));
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn the_kernel_takes_the_table_and_a_disk_in_use_is_left_alone() {
    if !present(&["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let dir = Dir::new("kernel");
    if !can_loop(&dir) {
        return;
    }
    for sector in ["512", "4096"] {
        for table in ["gpt", "mbr"] {
            let image = dir.image(&format!("{table}-{sector}.img"), 128 << 20);
            let device = Loop::new(&image, sector);
            let (plan, undo) = (format!("{table}-{sector}.json"), format!("{table}-{sector}.json.undo"));
            let last = if table == "mbr" { "rest,role=logical" } else { "rest" };
            let arguments =
                ["plan", &device.0, "--table", table, "--part", "20MiB", "--part", last, "--save", &plan];
            ends(&dir, 0, &arguments);
            ends(&dir, 0, &["apply", &plan, "--write", &device.0]);
            let report: Value = serde_json::from_str(&fs::read_to_string(dir.join(&plan)).unwrap()).unwrap();
            let scale = sector.parse::<u64>().unwrap() / 512;
            let planned: Vec<(u64, u64)> = list(&report["table"], "partitions")
                .iter()
                .map(|p| (number(p, "number"), number(p, "start") * scale))
                .collect();
            let found: Vec<(u64, u64)> =
                kernel(&device.0).into_iter().map(|(n, start, _)| (n, start)).collect();
            assert_eq!(found, planned, "{table} {sector}");
            ends(&dir, 4, &["apply", &plan, "--write", image.to_str().unwrap()]);
            ends(&dir, 0, &["undo", &undo, "--write", &device.0]);
            assert_eq!(kernel(&device.0), []);
        }
    }
    mounted(&dir);
}

/// A disk with a mounted partition is refused, byte for byte unchanged in its table.
fn mounted(dir: &Dir) {
    let image = dir.image("mounted.img", 128 << 20);
    let device = Loop::new(&image, "512");
    ends(dir, 0, &["plan", &device.0, "--table", "gpt", "--part", "rest", "--save", "m.json"]);
    ends(dir, 0, &["apply", "m.json", "--write", &device.0]);
    ends(dir, 0, &["plan", &device.0, "--delete", "1", "--save", "n.json"]);
    let partition = format!("{}p1", device.0);
    run(Command::new("mkfs.ext4").args(["-q", &partition]), "");
    let point = dir.join("point");
    fs::create_dir(&point).unwrap();
    run(Command::new("mount").arg(&partition).arg(&point), "");
    let table = tools::bytes(&image, 0, 1 << 20);
    let said = straddle(dir, &["apply", "n.json", "--write", &device.0]);
    let undone = straddle(dir, &["undo", "m.json.undo", "--write", &device.0]);
    run(Command::new("umount").arg(&point), "");
    for said in [said, undone] {
        assert_eq!(said.status.code(), Some(4), "{}", told(&said));
        assert!(text(&said.stderr).contains("is mounted at"), "{}", told(&said));
    }
    assert!(tools::bytes(&image, 0, 1 << 20) == table);
    ends(dir, 0, &["apply", "n.json", "--write", &device.0]);
    assert_eq!(kernel(&device.0), []);
}
