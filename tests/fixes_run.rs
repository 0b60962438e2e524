//! Runs every printed fix: the printed commands have to do what straddle says they do.
//!
//! The commands run on copies of images, in a directory of their own where the image has the name used in the
//! commands. sfdisk has to preserve everything except the size. tests/pasted.rs tests what happens to file systems.

#[path = "fixes_run/realigned.rs"]
mod realigned;
use crate::tools;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use straddle_units::io::SplitMix64;
use tools::{
    Dir, at_once, bytes, check_in, disk_codes, list, number, pasted, present, run, word, write_table,
};

/// An image with something to fix.
struct Case {
    /// The case's name; also the name of the image.
    name: &'static str,
    /// The sector size in which its table counts.
    block: u64,
    /// The table, as a script for sfdisk.
    script: &'static str,
    /// Additional changes to the table by sgdisk.
    sgdisk: &'static [&'static str],
    /// The topology of the assumed disk.
    assume: &'static str,
    /// The partitions that sfdisk makes larger or smaller.
    fixed: &'static [u64],
}

const IMAGE: u64 = 16 << 20;

const CASES: &[Case] = &[
    Case {
        name: "gpt.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000, type=933AC7E1-2EB4-4F13-B844-0E14E2AEF915\n\
                 start=4096, size=1000, name=\"behind a gap of 33\"\nstart=5129, size=3000, name=last, \
                 attrs=\"RequiredPartition LegacyBIOSBootable GUID:48\"\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    // There is a single free sector before the first partition.
    Case {
        name: "gap in the numbers.img",
        block: 512,
        script: "label: gpt\n1 : start=2049, size=1000\n4 : start=4097, size=1000\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "gpt-4096.img",
        block: 4096,
        script: "label: gpt\nfirst-lba: 6\n2 : start=7, size=100, name=\"four Kn\"\n1 : start=257, size=101\n",
        sgdisk: &[],
        assume: "4kn,iu=16KiB",
        fixed: &[],
    },
    Case {
        name: "it's an MBR.img",
        block: 512,
        script: "label: dos\nstart=63, size=1001, type=7\nstart=3000, size=999, bootable\nstart=5000, size=1, type=da\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "-dash.img",
        block: 4096,
        script: "label: dos\nstart=7, size=101, type=7\nstart=257, size=99, bootable\n",
        sgdisk: &[],
        assume: "4kn,iu=16KiB",
        fixed: &[],
    },
    Case {
        name: "logical.img",
        block: 512,
        script: "label: dos\n1 : start=63, size=1000\n2 : start=2048, size=20000, type=5\n\
                 5 : start=2111, size=1500, type=82\n6 : start=3700, size=1500, type=7, bootable\n\
                 7 : start=6145, size=1501\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "wide logical.img",
        block: 512,
        script: "label: dos\n2 : start=2048, size=28000, type=5\n5 : start=2111, size=1500, type=82\n\
                 6 : start=10001, size=1500, type=7\n7 : start=20001, size=1500\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "behind the extended one.img",
        block: 512,
        script: "label: dos\n1 : start=4097, size=1000\n2 : start=8192, size=8192, type=5\n\
                 3 : start=16385, size=1000\n5 : start=10241, size=1000\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    // The layout of old fdisk: each logical partition is 63 sectors after its EBR, and all of them are
    // adjacent.
    Case {
        name: "tracks.img",
        block: 512,
        script: "label: dos\n1 : start=63, size=4032\n2 : start=4095, size=12033, type=f\n\
                 5 : start=4158, size=4011\n6 : start=8232, size=3969\n7 : start=12264, size=3864\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "whole disk from 63.img",
        block: 512,
        script: "label: dos\nstart=63, size=32705, bootable\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "end.img",
        block: 512,
        script: "label: gpt\nstart=2048, size=1001\nstart=3056, size=1003\nstart=4059, size=1\nstart=8192, size=24543\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[2],
    },
    Case {
        name: "tight.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=34, size=3000\nstart=3034, size=3000\nstart=6034, size=26701\n",
        sgdisk: &[],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "iu.img",
        block: 512,
        script: "label: gpt\nstart=2056, size=1000\nstart=4096, size=1000\nstart=8200, size=24535\n",
        sgdisk: &[],
        assume: "512e,iu=16KiB",
        fixed: &[],
    },
    Case {
        name: "stripe.img",
        block: 512,
        script: "label: gpt\nstart=2048, size=2048\nstart=4224, size=2048\nstart=6272, size=2000\n",
        sgdisk: &[],
        assume: "512e,chunk=64KiB,stripe=192KiB",
        fixed: &[],
    },
    Case {
        name: "phase.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000\nstart=2048, size=1000\nstart=4096, size=28639\n",
        sgdisk: &[],
        assume: "physical=4096,offset=3584",
        fixed: &[],
    },
    Case {
        name: "atomic.img",
        block: 512,
        script: "label: gpt\nstart=2056, size=1000\nstart=4097, size=1000\n",
        sgdisk: &[],
        assume: "512e,atomic=64KiB",
        fixed: &[],
    },
    Case {
        name: "names; \"$(date)\" 'and' \\quotes.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\n6 : start=63, size=1000\n5 : start=2049, size=1000\n4 : start=4097, size=1000\n\
                 3 : start=6145, size=1000\n2 : start=8193, size=1000\n1 : start=10241, size=1000\n",
        sgdisk: &[
            "-c1:it's a \"name\"",
            "-c2:back\\slash\\\\es and : colons 2:x",
            "-c3:$HOME `id` größe ☃",
            "-c4:-n",
            "-c5: blanks  ",
            "-c6:'\"'\\'",
        ],
        assume: "512e",
        fixed: &[],
    },
    Case {
        name: "hybrid.img",
        block: 512,
        script: "label: gpt\nfirst-lba: 34\nstart=63, size=1000\nstart=2049, size=1000\n",
        sgdisk: &["-h1"],
        assume: "512e",
        fixed: &[],
    },
];

impl Case {
    /// Makes the image, with distinct bytes in every partition that is large enough.
    fn build(&self, dir: &Dir) -> PathBuf {
        let image = dir.image(self.name, IMAGE);
        write_table(&image, self.block, self.script);
        if !self.sgdisk.is_empty() {
            run(Command::new("sgdisk").args(self.sgdisk).arg(&image), "");
        }
        let file = fs::OpenOptions::new().write(true).open(&image).expect("the image is there");
        for (start, len) in spans(&self.check(dir.path())).values() {
            // Its ends are zeros: commands that change only the table are for partitions that look empty.
            let (front, back) = (64 << 10, 8 << 10);
            if *len > front + back {
                let inner = pattern(*start + front, *len - front - back);
                file.write_all_at(&inner, *start + front).expect("the image can be written");
            }
        }
        image
    }

    fn check(&self, dir: &Path) -> Value {
        check_in(dir, Path::new(self.name), &["--assume", self.assume])
    }

    /// Tries every command of sfdisk that is printed for the case; returns the partitions that they are for.
    fn try_all(&self) -> Vec<u64> {
        let dir = Dir::new("fixes");
        self.build(&dir);
        let report = self.check(dir.path());
        let fixes = fixes(&report);
        for (&partition, fix) in &fixes {
            let line = word(&fix["commands"][0], "line");
            if runs_here(&line) {
                self.try_out(&dir, partition, &line);
            }
            // The caution has to state that data is left behind.
            let grows = word(fix, "summary").starts_with("grow it");
            let leaves_data = word(fix, "risk") != "safe" && !grows;
            assert_eq!(word(fix, "caution").contains("changes only the table"), leaves_data, "{fix}");
        }
        fixes.into_keys().collect()
    }

    /// Runs `line` on a copy of the image in `dir` and checks the effect on partition `fixed`.
    fn try_out(&self, dir: &Dir, fixed: u64, line: &str) {
        let copy = Dir::new("fixed");
        fs::copy(dir.join(self.name), copy.join(self.name)).expect("the image can be copied");
        tools::shell(&pasted(line), copy.path());
        let place = format!("{}, partition {fixed}: {line}", self.name);
        let (before, after) = (self.check(dir.path()), self.check(copy.path()));
        let left = grave(&after, fixed);
        assert!(left.is_empty(), "{place}\nleaves {left:?}");
        let mut expected = disk_codes(&before);
        if self.sgdisk.contains(&"-h1") && fixed == 1 {
            // The caution says to make the hybrid MBR again.
            expected.insert("S038".to_owned());
        }
        assert_eq!(expected, disk_codes(&after), "{place}");
        self.nothing_else_changed(dir, &copy, fixed, &place);
        // All other partitions' bytes must stay in place.
        for (number, (start, len)) in spans(&before) {
            let old = dir.join(self.name);
            let same = bytes(&old, start, len) == bytes(&copy.join(self.name), start, len);
            assert!(same || number == fixed, "{place}\nchanged the bytes of partition {number}");
        }
    }

    /// Asserts that sfdisk changes only the size of one entry.
    fn nothing_else_changed(&self, dir: &Dir, copy: &Dir, fixed: u64, place: &str) {
        let (header, mut before) = tools::table(&dir.join(self.name), self.block);
        let (new_header, after) = tools::table(&copy.join(self.name), self.block);
        let old = before.get_mut(&fixed).expect("it was there");
        let new = after.get(&fixed).unwrap_or_else(|| panic!("{place}\nloses it"));
        assert_ne!(old, new, "{place}\nchanges nothing");
        old["size"] = new["size"].clone();
        assert_eq!((before, header), (after, new_header), "{place}\nchanges more than the size");
    }
}

/// `len` bytes that record for each sector where it was written, from `start` on.
fn pattern(start: u64, len: u64) -> Vec<u8> {
    let sectors = (start / 512)..((start + len) / 512);
    sectors.flat_map(|sector| (sector + 1).to_le_bytes().repeat(64)).collect()
}

/// Start and length of every partition that holds data.
fn spans(report: &Value) -> BTreeMap<u64, (u64, u64)> {
    let holds_data = |p: &&Value| p["role"] != "extended";
    let span = |p: &Value| (number(p, "number"), (number(p, "start_bytes"), number(p, "size_bytes")));
    list(report, "partitions").iter().filter(holds_data).map(span).collect()
}

/// The findings on a partition that are more severe than advice.
fn grave(report: &Value, partition: u64) -> Vec<&Value> {
    let is_grave = |f: &&Value| f["partition"] == partition && f["severity"] != "advice";
    list(report, "findings").iter().filter(is_grave).collect()
}

/// The fixes of a report by sfdisk, by partition.
fn fixes(report: &Value) -> BTreeMap<u64, &Value> {
    let mut fixes = BTreeMap::new();
    for finding in list(report, "findings") {
        let fix = &finding["fix"];
        if fix["commands"][0]["tool"] == "sfdisk" {
            fixes.entry(number(finding, "partition")).or_insert(fix);
        }
    }
    fixes
}

/// Whether this fix is a plan of `straddle realign`.
fn is_realigned(fix: &Value) -> bool {
    let is_plan = |line: &str| line.starts_with("straddle realign") && !line.contains(" --to ");
    fix["commands"][0]["line"].as_str().is_some_and(is_plan)
}

#[test]
fn every_printed_command_fixes() {
    if !present(&["sfdisk", "fdisk", "sgdisk"]) {
        return;
    }
    let others = Mutex::new(Vec::new());
    at_once(CASES, |case| {
        let tried = case.try_all();
        if tried != case.fixed {
            others.lock().expect("no thread panics here").push((case.name, tried));
        }
    });
    let others = others.into_inner().expect("no thread panics here");
    assert!(others.is_empty(), "other partitions: {others:#?}");
}

/// Random tables, the same in every run.
struct Tables(SplitMix64);

impl Tables {
    /// Adds partitions one after another from `at` on, with gaps and sizes of all kinds.
    fn partitions(&mut self, first: u64, count: u64, mut at: u64, lead: u64, script: &mut String) -> u64 {
        for number in first..first + count {
            at += lead + self.0.one_of(&[0, 0, 1, 2, 6, 7, 8, 62, 500, 2047, 2048, 2049, 3000]);
            let size = self.0.one_of(&[1, 7, 8, 9, 63, 500, 1000, 1024, 2047, 2048, 2049, 3001]);
            *script += &format!("{number} : start={at}, size={size}\n");
            at += size;
        }
        at
    }

    /// A table that is unusual in every respect but valid.
    fn script(&mut self) -> String {
        let (first, count) = (self.0.one_of(&[34, 62, 63, 64, 2048, 2049, 2111]), 2 + self.0.below(3));
        if self.0.below(2) == 0 {
            let mut script = "label: gpt\nfirst-lba: 34\n".to_owned();
            self.partitions(1, count, first, 0, &mut script);
            return script;
        }
        let mut script = "label: dos\n".to_owned();
        let end = self.partitions(1, 1, first, 0, &mut script);
        let mut logical = String::new();
        let extended = end + self.0.one_of(&[0, 1, 60, 3000]);
        let end =
            self.partitions(5, count, extended, 1, &mut logical) + self.0.one_of(&[0, 1, 5, 2100, 5000]);
        script += &format!("2 : start={extended}, size={}, type=5\n{logical}", end - extended);
        script
    }

    /// Such a table, on a drive of any of three kinds.
    fn case(&mut self) -> Case {
        let script = self.script().leak();
        let assume = self.0.one_of(&["512e", "512e,iu=16KiB", "physical=4096,offset=3584"]);
        Case { name: "random.img", block: 512, script, sgdisk: &[], assume, fixed: &[] }
    }
}

#[test]
fn every_command_for_random_tables_fixes() {
    if !present(&["sfdisk", "fdisk"]) {
        return;
    }
    let count = std::env::var("STRADDLE_RANDOM_TABLES").map_or(288, |text| text.parse().expect("a number"));
    let mut tables = Tables(SplitMix64::new(2010));
    let cases: Vec<Case> = (0..count).map(|_| tables.case()).collect();
    let tried = AtomicUsize::new(0);
    at_once(cases, |case| {
        // A table that sfdisk itself refuses (a logical partition in a small gap) is skipped.
        let dir = Dir::new("random");
        let scratch = dir.image("scratch.img", IMAGE);
        let sfdisk = &mut Command::new("sfdisk");
        if tools::output(sfdisk.arg("--no-tell-kernel").arg(&scratch), case.script).status.success() {
            println!("{}: {}", case.assume, case.script);
            tried.fetch_add(case.try_all().len(), Ordering::Relaxed);
        }
    });
    let tried = tried.into_inner();
    println!("{tried} commands tried");
    assert!(tried >= 5, "{tried}");
}

/// Whether this machine's sfdisk understands `line`. Debian 12's does not know `--sector-size`, as the
/// caution says; so this prints a skip message, also under CI.
fn runs_here(line: &str) -> bool {
    let runs = !line.contains("sfdisk --sector-size") || tools::sfdisk_knows_sector_size();
    if !runs {
        tools::not_run(&format!("sfdisk is older than 2.41: {line}"));
    }
    runs
}
