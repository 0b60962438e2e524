//! What small blocks cost: the same on every unit larger than they are, whatever it is called.

use std::path::Path;
use std::process::Command;

use super::tools::{self, Dir, STRADDLE, at_once, list, present, shell, word};
use super::{gpt, judged, put};

/// The severities of findings of these codes on an image under `assume`, by code.
fn severities(image: &Path, assume: &str, codes: &[&str]) -> Vec<(String, String)> {
    let report = tools::check(image, &["--assume", assume]);
    let findings = list(&report, "findings").iter().filter(|f| codes.contains(&word(f, "code").as_str()));
    findings.map(|f| (word(f, "code"), word(f, "severity"))).collect()
}

/// A block of 4 KiB costs the same on every larger unit, wherever the partition begins and whatever the unit is called;
/// a start that covers one unit more than it needs is a warning. Arithmetic is the judge.
#[test]
fn a_unit_of_more_than_4_kib_costs_the_same_by_either_name() {
    if !present(&["sgdisk", "mkfs.ext4", "mkfs.xfs", "gzip"]) {
        return;
    }
    let units: [u64; 4] = [8 << 10, 16 << 10, 64 << 10, 256 << 10];
    let makes =
        ["mkfs.ext4 -q -F -b 4096 FS", "mkfs.xfs -q -f -s size=4096 FS", "mkfs.xfs -q -f -s size=512 FS"];
    for start in [2048_u64, 2056, 2064, 2176] {
        at_once(makes, |make| {
            let dir = Dir::new("unit");
            let image = gpt(&dir, 400, &["-a1", "-n", &format!("1:{start}:779999")]);
            put(&dir, &image, make, start, 660_000);
            for unit in units {
                let by_name = [
                    ("physical", format!("physical={unit}"), ["S061", "S001"]),
                    ("iu", format!("physical=4096,iu={unit}"), ["S062", "S004"]),
                ];
                for (name, assume, [small, off]) in by_name {
                    let what = format!("{make} at {start}, {unit} as {name}");
                    let found = severities(&image, &assume, &[small, off, "S002"]);
                    let is_off = !(start * 512).is_multiple_of(unit);
                    let starts = is_off.then(|| (off.to_owned(), "warning".to_owned()));
                    let cost = if make.contains("512") { "warning" } else { "advice" };
                    let blocks = (small.to_owned(), cost.to_owned());
                    // With 4096-byte sectors, sectors of 512 are a finding of their own.
                    let own = make.contains("512") && name == "iu";
                    let expected: Vec<_> = starts.into_iter().chain((!own).then_some(blocks)).collect();
                    assert_eq!(found, expected, "{what}");
                }
            }
        });
    }
    let dir = Dir::new("ashift");
    for (ashift, assume, severity) in [
        (9, "physical=4096", Some("warning")),
        (9, "physical=4096,iu=16KiB", Some("warning")),
        (12, "physical=4096", None),
        (12, "physical=8KiB", Some("advice")),
        (12, "physical=16KiB", Some("advice")),
        (12, "physical=4096,iu=16KiB", Some("advice")),
    ] {
        let label = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("crates/layout/tests/zfs/ashift{ashift}.label.gz"));
        shell(&format!("gzip -dc '{}' >zfs.img; truncate -s 128M zfs.img", label.display()), dir.path());
        let found = severities(&dir.join("zfs.img"), assume, &["S065"]);
        let expected: Vec<_> = severity.map(|it| ("S065".to_owned(), it.to_owned())).into_iter().collect();
        assert_eq!(found, expected, "ashift {ashift} on {assume}");
    }
}

/// A start inside a block of 4 KiB, and sectors of 512 bytes, cost the same in a unit by either name, if the drive's logical
/// sector is all that it says besides.
#[test]
fn a_start_and_sectors_off_a_large_unit_cost_the_same_by_either_name() {
    if !present(&["sgdisk", "mkfs.xfs"]) {
        return;
    }
    at_once([63_u64, 2049, 2055, 2063], |start| {
        let dir = Dir::new("unit-off");
        let image = gpt(&dir, 400, &["-a1", "-n", &format!("1:{start}:779999")]);
        put(&dir, &image, "mkfs.xfs -q -f -s size=512 FS", start, 660_000);
        for unit in [8 << 10, 16 << 10, 64 << 10_u64] {
            let by = |assume: String, codes: [&str; 2]| -> Vec<String> {
                severities(&image, &assume, &codes).into_iter().map(|(_, severity)| severity).collect()
            };
            let physical = by(format!("physical={unit}"), ["S001", "S061"]);
            let iu = by(format!("physical=512,iu={unit}"), ["S004", "S062"]);
            assert_eq!((&physical, &iu), (&vec!["warning".to_owned(); 2], &physical), "{start} on {unit}");
        }
    });
}

/// What costs the same in several partitions is said once.
#[test]
fn advice_on_several_file_systems_is_said_once() {
    if !present(&["sgdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("once");
    let image = gpt(&dir, 200, &["-n", "1:0:+50M", "-n", "2:0:+50M", "-n", "3:0:+50M"]);
    for start in [2048, 104_448, 206_848] {
        put(&dir, &image, "mkfs.ext4 -q -F -b 4096 FS", start, 102_400);
    }
    let said = |options: &[&str], target: &str| {
        let output = tools::output(
            Command::new(STRADDLE).arg("check").args(options).arg(target).current_dir(dir.path()),
            "",
        );
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = said(&["--verbose", "--assume", "iu=16KiB"], "disk.img");
    assert_eq!(text.matches("advice S062").count(), 1, "{text}");
    assert!(text.contains("; also partition 2") && text.contains("; also partition 3"), "{text}");
}

/// Small blocks are advice where mke2fs and mkfs.fat make them themselves, and a warning in what is larger.
#[test]
fn small_blocks_of_a_small_ext_or_fat_are_advice() {
    if !present(&["mkfs.ext4", "mkfs.ext2", "mkfs.xfs", "mkfs.fat", "dumpe2fs"]) {
        return;
    }
    let cases = [
        ("mkfs.ext4 -q -F FS", 300, "advice"),
        ("mkfs.ext2 -q -F FS", 64, "advice"),
        ("mkfs.ext4 -q -F -b 2048 FS", 100, "advice"),
        ("mkfs.ext4 -q -F -b 1024 FS", 511, "advice"),
        ("mkfs.ext4 -q -F -b 1024 FS", 512, "warning"),
        ("mkfs.ext4 -q -F -b 2048 FS", 700, "warning"),
        ("mkfs.xfs -q -f -s size=512 FS", 320, "warning"),
        ("mkfs.fat FS", 32, "advice"),
        ("mkfs.fat FS", 64, "advice"),
        ("mkfs.fat -F 32 -s 1 FS", 300, "advice"),
        ("mkfs.fat -F 32 -s 2 FS", 511, "advice"),
        ("mkfs.fat -F 32 -s 2 FS", 513, "warning"),
    ];
    at_once(cases, |(make, mib, severity)| {
        let dir = Dir::new("small");
        let image = dir.image("fs.img", mib << 20);
        shell(&make.replace("FS", "fs.img"), dir.path());
        let default = make.starts_with("mkfs.ext") && !make.contains("-b");
        let said = if default { shell("dumpe2fs -h fs.img 2>&1", dir.path()) } else { String::new() };
        assert!(
            !default || said.lines().any(|line| line.split_whitespace().eq(["Block", "size:", "1024"])),
            "{said}"
        );
        let expected = ("S061".to_owned(), severity.to_owned());
        assert_eq!(severities(&image, "512e", &["S061"]), [expected], "{make} {mib}");
        assert_eq!(judged(&image, "S061").1, i32::from(severity == "warning"), "{make} {mib}");
    });
}
