//! Every printed cure is run: what straddle tells to type has to do what straddle says it does.
//!
//! The commands run on copies of images, in a directory of their own with the image under the name that the
//! commands give it. sfdisk and sgdisk have to keep everything but the place. parted makes a partition anew: it
//! keeps the number and a GPT's name, and loses the type, the UUID and the flags, as the cure's caution says.

mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tools::{Dir, bytes, check_in, disk_codes, list, number, present, run, sfdisk, word};

/// An image with something to cure.
struct Case {
    /// What it is about; also the name of the image.
    name: &'static str,
    /// The sector size that its table counts in.
    block: u64,
    /// The table, as sfdisk's script.
    script: &'static str,
    /// What sgdisk does to it besides.
    sgdisk: &'static [&'static str],
    /// The topology that it is assumed to be for.
    assume: &'static str,
    /// The partitions that have a cure.
    cured: &'static [u64],
    /// The tools that the cures are for, over all partitions.
    tools: &'static [&'static str],
}

const IMAGE: u64 = 16 << 20;

const ALL_TOOLS: &[&str] = &["parted", "sfdisk", "sgdisk"];

const CASES: &[Case] = &[
    Case {
        name: "gpt.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\n\
                 start=4096, size=1000, name=\"behind a gap of 33\"\nstart=5129, size=3000, name=last, \
                 attrs=\"RequiredPartition LegacyBIOSBootable GUID:48\"\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 3],
        tools: ALL_TOOLS,
    },
    // parted would give the lowest free number, so its command is only printed for the first.
    Case {
        name: "gap in the numbers.img",
        block: 512,
        script: "label: gpt\n1 : start=2049, size=1000\n4 : start=4097, size=1000\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 4],
        tools: ALL_TOOLS,
    },
    Case {
        name: "gpt-4096.img",
        block: 4096,
        script: "label: gpt\nfirst-lba: 6\nstart=7, size=100, name=\"four Kn\"\nstart=257, size=101\n",
        sgdisk: &[],
        assume: "4kn,iu=16KiB",
        cured: &[1, 2],
        tools: &["parted", "sfdisk"],
    },
    Case {
        name: "it's an MBR.img",
        block: 512,
        script: "label: dos\nstart=63, size=1001, type=7\nstart=3000, size=999, bootable\nstart=5000, size=1, type=da\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 2, 3],
        tools: &["parted", "sfdisk"],
    },
    Case {
        name: "-dash.img",
        block: 4096,
        script: "label: dos\nstart=7, size=101, type=7\nstart=257, size=99, bootable\n",
        sgdisk: &[],
        assume: "4kn,iu=16KiB",
        cured: &[1, 2],
        tools: &["parted", "sfdisk"],
    },
    Case {
        name: "logical.img",
        block: 512,
        script: "label: dos\n1 : start=63, size=1000\n2 : start=2048, size=20000, type=5\n\
                 5 : start=2111, size=1500, type=82\n6 : start=3700, size=1500, type=7, bootable\n\
                 7 : start=6145, size=1501\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 5, 6, 7],
        tools: &["parted", "sfdisk"],
    },
    // The habit of old fdisk: each logical partition 63 sectors behind its record, all of them back to back.
    Case {
        name: "tracks.img",
        block: 512,
        script: "label: dos\n1 : start=63, size=4032\n2 : start=4095, size=12033, type=f\n\
                 5 : start=4158, size=4011\n6 : start=8232, size=3969\n7 : start=12264, size=3864\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 5, 6, 7],
        tools: &["parted", "sfdisk"],
    },
    Case {
        name: "whole disk from 63.img",
        block: 512,
        script: "label: dos\nstart=63, size=32705, bootable\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1],
        tools: &["parted", "sfdisk"],
    },
    Case {
        name: "end.img",
        block: 512,
        script: "label: gpt\nstart=2048, size=1001\nstart=3056, size=1003\nstart=4059, size=1\nstart=8192, size=24543\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 2, 3, 4],
        tools: ALL_TOOLS,
    },
    Case {
        name: "tight.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=34, size=3000\nstart=3034, size=3000\nstart=6034, size=26701\n",
        sgdisk: &[],
        assume: "512e",
        cured: &[1, 2, 3],
        tools: ALL_TOOLS,
    },
    Case {
        name: "iu.img",
        block: 512,
        script: "label: gpt\nstart=2056, size=1000\nstart=4096, size=1000\nstart=8200, size=24535\n",
        sgdisk: &[],
        assume: "512e,iu=16KiB",
        cured: &[1, 3],
        tools: ALL_TOOLS,
    },
    Case {
        name: "stripe.img",
        block: 512,
        script: "label: gpt\nstart=2048, size=2048\nstart=4224, size=2048\nstart=6272, size=2000\n",
        sgdisk: &[],
        assume: "512e,chunk=64KiB,stripe=192KiB",
        cured: &[1, 3],
        tools: ALL_TOOLS,
    },
    Case {
        name: "phase.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000\nstart=2048, size=1000\nstart=4096, size=28639\n",
        sgdisk: &[],
        assume: "physical=4096,offset=3584",
        cured: &[2, 3],
        tools: ALL_TOOLS,
    },
    Case {
        name: "atomic.img",
        block: 512,
        script: "label: gpt\nstart=2056, size=1000\nstart=4097, size=1000\n",
        sgdisk: &[],
        assume: "512e,atomic=64KiB",
        cured: &[2],
        tools: ALL_TOOLS,
    },
    Case {
        name: "names; \"$(date)\" 'and' \\quotes.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000\nstart=2049, size=1000\nstart=4097, size=1000\n\
                 start=6145, size=1000\nstart=8193, size=1000\nstart=10241, size=1000\n",
        sgdisk: &[
            "-c1:it's a \"name\"",
            "-c2:back\\slash\\\\es and : colons 2:x",
            "-c3:$HOME `id` größe ☃",
            "-c4:-n",
            "-c5: blanks  ",
            "-c6:'\"'\\'",
        ],
        assume: "512e",
        cured: &[1, 2, 3, 4, 5, 6],
        tools: ALL_TOOLS,
    },
    Case {
        name: "hybrid.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000\nstart=2049, size=1000\n",
        sgdisk: &["-h1"],
        assume: "512e",
        cured: &[1, 2],
        tools: &["sfdisk", "sgdisk"],
    },
];

/// A partition as sfdisk tells it, by number.
type Table = BTreeMap<u64, Value>;

impl Case {
    /// The image, with bytes of their own in every partition.
    fn build(&self, dir: &Dir) -> PathBuf {
        let image = dir.image(self.name, IMAGE);
        sfdisk(&image, self.block, self.script);
        if !self.sgdisk.is_empty() {
            run(Command::new("sgdisk").args(self.sgdisk).arg(&image), "");
        }
        let file = fs::OpenOptions::new().write(true).open(&image).expect("the image is there");
        for (start, len) in spans(&self.check(dir.path())).values() {
            let content: Vec<u8> = (*start..start + len).map(|at| pattern(at / 512, at % 512)).collect();
            file.write_all_at(&content, *start).expect("the image can be written");
        }
        image
    }

    fn check(&self, dir: &Path) -> Value {
        check_in(dir, Path::new(self.name), &["--assume", self.assume])
    }

    /// The table's own fields, and its partitions.
    fn table(&self, dir: &Path) -> (Value, Table) {
        let path = dir.join(self.name);
        let args = ["--json", "--sector-size", &self.block.to_string()];
        let json = run(Command::new("sfdisk").args(args).arg(&path), "");
        let mut table: Value = serde_json::from_str(&json).expect("JSON");
        let table = &mut table["partitiontable"];
        let node = word(table, "device");
        let partitions = table["partitions"].take();
        // What the path is does not matter.
        table["device"] = Value::Null;
        let of = |mut p: Value| {
            let number = word(&p, "node")[node.len()..].trim_start_matches('p').parse().expect("a number");
            p["node"] = Value::Null;
            (number, p)
        };
        (table.take(), partitions.as_array().expect("a list").iter().cloned().map(of).collect())
    }

    /// Runs `line` on a copy of the image in `dir` and judges what it made of partition `cured`.
    fn try_out(&self, dir: &Dir, cured: u64, tool: &str, line: &str) {
        let copy = Dir::new("cured");
        fs::copy(dir.join(self.name), copy.join(self.name)).expect("the image can be copied");
        tools::shell(line, copy.path());
        let place = format!("{}, partition {cured}: {line}", self.name);
        let (before, after) = (self.check(dir.path()), self.check(copy.path()));
        let left = grave(&after, cured);
        assert!(left.is_empty(), "{place}\nleaves {left:?}");
        assert_eq!(disk_codes(&before), disk_codes(&after), "{place}");
        self.nothing_else_changed(dir, &copy, cured, tool, &place);
        // The bytes of all others stay where they were.
        for (number, (start, len)) in spans(&before) {
            let old = dir.join(self.name);
            let same = bytes(&old, start, len) == bytes(&copy.join(self.name), start, len);
            assert!(same || number == cured, "{place}\nchanged the bytes of partition {number}");
        }
    }

    /// sfdisk and sgdisk change the place of one entry and nothing else; parted keeps a number and a GPT's name.
    fn nothing_else_changed(&self, dir: &Dir, copy: &Dir, cured: u64, tool: &str, place: &str) {
        let (header, mut before) = self.table(dir.path());
        let (new_header, mut after) = self.table(copy.path());
        let (old, new) = (before.remove(&cured), after.remove(&cured));
        let (mut old, mut new) =
            (old.expect("it was there"), new.unwrap_or_else(|| panic!("{place}\nloses it")));
        assert_eq!(before, after, "{place}\nchanges another partition");
        assert_ne!(old, new, "{place}\nchanges nothing");
        if tool == "parted" {
            assert_eq!(old["name"], new["name"], "{place}");
            return;
        }
        for field in ["start", "size"] {
            old[field] = Value::Null;
            new[field] = Value::Null;
        }
        assert_eq!(old, new, "{place}\nkeeps not all of the entry");
        assert_eq!(header, new_header, "{place}\nchanges the table");
    }
}

/// A byte that tells where it was written.
fn pattern(sector: u64, at: u64) -> u8 {
    u8::try_from((sector.wrapping_mul(2_654_435_761) >> 7 ^ at) % 251).expect("less than 251")
}

/// The bytes of every partition that holds data.
fn spans(report: &Value) -> BTreeMap<u64, (u64, u64)> {
    let holds_data = |p: &&Value| p["role"] != "extended";
    let span = |p: &Value| (number(p, "number"), (number(p, "start"), number(p, "size")));
    list(report, "partitions").iter().filter(holds_data).map(span).collect()
}

/// The findings on a partition that are more than advice.
fn grave(report: &Value, partition: u64) -> Vec<&Value> {
    let is_grave = |f: &&Value| f["partition"] == partition && f["severity"] != "advice";
    list(report, "findings").iter().filter(is_grave).collect()
}

/// The cures of a report, one for each partition that has one.
fn cures(report: &Value) -> BTreeMap<u64, &Value> {
    let of = |f: &'_ Value| f["partition"].as_u64().filter(|_| f.get("cure").is_some());
    list(report, "findings").iter().filter_map(|f| Some((of(f)?, &f["cure"]))).collect()
}

#[test]
fn every_printed_command_cures() {
    if !present(&["sfdisk", "sgdisk", "parted"]) {
        return;
    }
    let mut tried = 0;
    for case in CASES {
        let dir = Dir::new("cures");
        case.build(&dir);
        let report = case.check(dir.path());
        let cures = cures(&report);
        assert_eq!(cures.keys().copied().collect::<Vec<_>>(), case.cured, "{}: {report:#}", case.name);
        let mut tools = BTreeSet::new();
        for (&partition, cure) in &cures {
            assert!(!grave(&report, partition).is_empty(), "{}: cured without a cause", case.name);
            for command in list(cure, "commands") {
                let tool = word(command, "tool");
                case.try_out(&dir, partition, &tool, &word(command, "line"));
                tools.insert(tool);
                tried += 1;
            }
            if tools.contains("parted") {
                assert!(
                    word(cure, "caution").contains("parted") || !has(cure, "parted"),
                    "{}: {cure}",
                    case.name
                );
            }
        }
        assert_eq!(tools.iter().map(String::as_str).collect::<Vec<_>>(), case.tools, "{}", case.name);
    }
    println!("{tried} commands tried");
    assert!(tried >= 80, "only {tried} commands were tried");
}

/// Whether a cure has a command for `tool`.
fn has(cure: &Value, tool: &str) -> bool {
    list(cure, "commands").iter().any(|command| command["tool"] == tool)
}

#[test]
fn every_printed_move_takes_the_data_along() {
    if !present(&["sfdisk", "sgdisk"]) {
        return;
    }
    let mut tried = 0;
    for case in CASES {
        let dir = Dir::new("moves");
        let image = case.build(&dir);
        let report = case.check(dir.path());
        for (partition, cure) in cures(&report) {
            let Some(moving) = cure.get("moving") else { continue };
            let line = word(moving, "line");
            case.try_out(&dir, partition, "sfdisk", &line);
            let copy = Dir::new("moved");
            fs::copy(&image, copy.join(case.name)).expect("the image can be copied");
            tools::shell(&line, copy.path());
            let (from, len) = spans(&report)[&partition];
            let (to, _) = spans(&case.check(copy.path()))[&partition];
            assert_ne!(from, to, "{}: {line}", case.name);
            assert!(
                bytes(&image, from, len) == bytes(&copy.join(case.name), to, len),
                "{}: {line}",
                case.name
            );
            tried += 1;
        }
    }
    println!("{tried} moves tried");
    assert!(tried >= 10, "only {tried} moves were tried");
}

/// Moves a file system with the printed line and compares its files.
fn move_file_system(script: &str, partition: u64, up: bool) {
    let dir = Dir::new("ext4");
    let image = dir.image("disk.img", 64 << 20);
    sfdisk(&image, 512, script);
    let content: Vec<u8> = (0..3_000_000_u64).map(|at| pattern(at / 512, at % 512)).collect();
    fs::create_dir(dir.join("files")).expect("a directory can be made");
    fs::write(dir.join("files/content"), &content).expect("a file can be written");
    let assume = ["--assume", "512e"];
    let report = tools::check(&image, &assume);
    let (from, len) = spans(&report)[&partition];
    let (from_text, size) = (format!("offset={from}"), format!("{}k", len / 1024));
    let files = dir.join("files");
    let mkfs = &mut Command::new("mkfs.ext4");
    run(mkfs.args(["-q", "-F", "-E", &from_text, "-d"]).arg(&files).arg(&image).arg(size), "");
    let before = bytes(&image, from, len);

    let line = word(&cures(&report)[&partition]["moving"], "line");
    tools::shell(&line, dir.path());
    let after = tools::check(&image, &assume);
    let (to, _) = spans(&after)[&partition];
    assert_eq!(to > from, up, "{line}");
    assert!(grave(&after, partition).is_empty(), "{line}\n{after}");
    let moved = bytes(&image, to, len);
    assert!(before == moved, "{line}\nchanged what it moved");
    let extracted = dir.join("partition.img");
    fs::write(&extracted, moved).expect("a file can be written");
    run(Command::new("e2fsck").arg("-fn").arg(&extracted), "");
    run(
        Command::new("debugfs").args(["-R", "dump /content content"]).arg(&extracted).current_dir(dir.path()),
        "",
    );
    assert!(fs::read(dir.join("content")).expect("it was dumped") == content, "{line}\nchanged a file");
}

#[test]
fn a_file_system_moves_up_and_down() {
    if !present(&["sfdisk", "mkfs.ext4", "e2fsck", "debugfs"]) {
        return;
    }
    // From sector 63 to 1 MiB, over itself; and one sector down, where the next partition is right behind.
    move_file_system("label: dos\nstart=63, size=40000\n", 1, true);
    move_file_system("label: gpt\nfirst-lba: 34\nstart=2049, size=40000\nstart=42049, size=2048\n", 1, false);
}
