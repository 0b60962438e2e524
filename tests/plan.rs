//! `plan`, `apply` and `undo` from the command line: on images, and on loop devices, where the kernel's view
//! is compared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tools::{
    Contents, Dir, Guest, STRADDLE, json_in, list, number, output, present, run, shell, straddle_in, text,
    transcript, valid, word,
};

/// Runs straddle, which has to end with `code`; returns its output on both streams.
fn ends(dir: &Dir, code: i32, arguments: &[&str]) -> String {
    let output = straddle_in(dir, arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{}", transcript(&output));
    assert_eq!(output.stderr.is_empty(), code == 0, "{arguments:?}\n{}", transcript(&output));
    format!("{}{}", text(&output.stdout), text(&output.stderr))
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
    assert_eq!(straddle_in(&dir, &["check", "disk.img"]).status.code(), Some(1));
    let parts = ["--part", "8MiB,type=esp,fs=vfat", "--part", "rest,name=root"];
    let save = ["plan", "disk.img", "--table", "gpt", "--save", "p.json", "--explain", "--seed", "7"];
    let said = ends(&dir, 0, &[&save[..], &parts].concat());
    for part in
        ["before [", "after  [", "is the first multiple of 1 MiB", "straddle apply p.json --write disk.img"]
    {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(fs::read(&image).unwrap() == before, "a plan writes nothing");
    assert_eq!(ends(&dir, 0, &[&save[..], &parts].concat()), said, "the same seed, the same plan");
    let dry = ends(&dir, 0, &["apply", "p.json", "--write", "disk.img", "--dry-run"]);
    assert!(dry.contains("protective MBR") && dry.contains("nothing was written"), "{dry}");
    for options in [["--skip-bad", "bad.map"], ["--from", "other.img"]] {
        let refused = ends(&dir, 2, &[&["apply", "p.json", "--write", "disk.img"][..], &options].concat());
        assert!(refused.contains("straddle realign"), "{refused}");
    }
    assert!(fs::read(&image).unwrap() == before && !dir.join("p.json.undo").exists());
    let said = ends(&dir, 0, &["apply", "p.json", "--write", "disk.img"]);
    assert!(said.contains("GPT with 2 partitions written and read back"), "{said}");
    let report = json_in(&dir, &["check", "--json", "disk.img"]);
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
    let bytes = || [&image, &other, &content].map(|path| Contents::of(path));
    let before = bytes();
    let cases: [(i32, &[&str], &str); 17] = [
        (2, &["plan", "disk.img"], "nothing to do"),
        (
            2,
            &["plan", "disk.img", "--table", "gpt", "--part", "1M,type=what"],
            "is not a partition type for GPT",
        ),
        (2, &["plan", "disk.img", "--table", "gpt", "--part", "60%", "--part", "60%"], "120 %"),
        (2, &["plan", "disk.img", "--table", "gpt", "--part", "x"], "is not a size"),
        (4, &["plan", "disk.img", "--table", "gpt", "--part", "1T"], "does not fit"),
        (4, &["plan", "disk.img", "--add", "1T"], "does not fit"),
        (4, &["plan", "disk.img", "--grow", "1=1T"], "1"),
        (2, &["plan", "disk.img", "--delete", "9"], "no partition 9"),
        (2, &["plan", "disk.img", "--add", "1M", "--start", "1T"], "partition 2"),
        (3, &["plan", "none.img", "--table", "gpt", "--part", "1M"], "none.img"),
        (3, &["plan", "other.img", "--add", "1M"], "no partition table"),
        (4, &["plan", "disk.img", "--table", "gpt", "--part", "1M", "--start", "34s"], "--allow-misaligned"),
        (4, &["plan", "content.img", "--table", "gpt", "--part", "1M"], "the disk holds ext4 directly"),
        (4, &["plan", "q.qcow2", "--table", "gpt", "--part", "1M"], "is not a raw image"),
        (4, &["apply", "p.json", "--write", "other.img"], "a disk of 67108864 bytes"),
        (2, &["apply", "disk.img", "--write", "disk.img"], "not a plan"),
        (3, &["undo", "p.json", "--write", "disk.img"], "cannot be used as a backup"),
    ];
    for (code, arguments, expected) in cases {
        let said = ends(&dir, code, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said} lacks '{expected}'");
        assert!(bytes() == before, "{arguments:?} wrote something");
    }
    fs::write(dir.join("p.json.undo"), "mine").unwrap();
    let said = ends(&dir, 4, &["apply", "p.json", "--write", "disk.img"]);
    assert!(said.contains("nothing was written, because p.json.undo exists"), "{said}");
    assert!(bytes() == before && fs::read(dir.join("p.json.undo")).unwrap() == b"mine");
}

/// If the backup GPT of a disk that has grown is in the way, the refusal names the option that moves it;
/// otherwise it does not.
#[test]
fn a_refusal_to_grow_says_what_makes_room() {
    if !present(&["sfdisk"]) {
        return;
    }
    const MIB: u64 = 1 << 20;
    // (the label, the partition's size in sectors, the disk's final size, the size asked for)
    let cases: [(&str, u64, u64, &str); 7] = [
        ("gpt", 64 * 2048 - 2048 - 33, 96, "1"),
        ("gpt", 62 * 2048, 96, "1"),
        ("gpt", 62 * 2048, 96, "1=80MiB"),
        ("gpt", 62 * 2048, 96, "1=200MiB"),
        ("gpt", 64 * 2048 - 2048 - 33, 64, "1"),
        ("gpt", 40 * 2048, 64, "1=80MiB"),
        ("dos", 40 * 2048, 96, "1=200MiB"),
    ];
    let mut helped = 0;
    for (label, sectors, mib, size) in cases {
        let dir = Dir::new("grow");
        let image = dir.image("disk.img", 64 * MIB);
        tools::write_table(&image, 512, &format!("label: {label}\nstart=2048, size={sectors}\n"));
        fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(mib * MIB).unwrap();
        let plan = |more: &[&str]| straddle_in(&dir, &[&["plan", "disk.img", "--grow", size], more].concat());
        let plain = plan(&[]);
        assert_ne!(plain.status.code(), Some(0), "{label} {sectors} {size}: {}", transcript(&plain));
        let is_named = text(&plain.stderr).contains("--relocate-backup");
        // The option makes room, though the room may still not be enough.
        let has_grown = label == "gpt" && mib > 64;
        assert_eq!(is_named, has_grown, "{label} {sectors} {size}: {}", transcript(&plain));
        helped += usize::from(is_named && plan(&["--relocate-backup"]).status.success());
    }
    assert_eq!(helped, 3);
}

/// A partition that grows as far as it can leaves room for new ones that fit nowhere else, and takes all where
/// they fit elsewhere. sfdisk reads the tables.
#[test]
fn what_grows_leaves_room_for_what_is_added() {
    if !present(&["sfdisk"]) {
        return;
    }
    // (the table, the request, the partitions that sfdisk lists: first MiB and size in MiB)
    let gpt = "label: gpt\nstart=1MiB, size=4MiB\nstart=20MiB, size=8MiB\n";
    let dos = "label: dos\nstart=1MiB, size=63MiB, type=5\nstart=2MiB, size=8MiB\n";
    type Case<'a> = (&'a str, &'a [&'a str], &'a [(u64, u64)]);
    let cases: [Case<'_>; 5] = [
        (gpt, &["--grow", "2", "--add", "10MiB"], &[(1, 4), (20, 43), (5, 10)]),
        (gpt, &["--grow", "2", "--add", "20MiB"], &[(1, 4), (20, 23), (43, 20)]),
        (gpt, &["--grow", "2", "--add", "16MiB", "--add", "8MiB"], &[(1, 4), (20, 27), (47, 16), (5, 8)]),
        (gpt, &["--delete", "2", "--grow", "1", "--add", "10MiB"], &[(1, 52), (53, 10)]),
        (dos, &["--grow", "5", "--add", "10MiB,role=logical"], &[(1, 63), (2, 51), (54, 10)]),
    ];
    for (table, change, expected) in cases {
        let dir = Dir::new("grow-and-add");
        let image = dir.image("disk.img", 64 << 20);
        tools::write_table(&image, 512, table);
        ends(&dir, 0, &[&["plan", "disk.img", "--save", "p.json"], change].concat());
        ends(&dir, 0, &["apply", "p.json", "--write", "disk.img"]);
        let found: Vec<(u64, u64)> = tools::table(&image, 512)
            .1
            .values()
            .map(|it| (number(it, "start") / 2048, number(it, "size") / 2048))
            .collect();
        assert_eq!(found, expected, "{change:?}");
    }
    // What is free is counted before the growth, which would take it.
    let dir = Dir::new("grow-and-add");
    tools::write_table(&dir.image("disk.img", 64 << 20), 512, gpt);
    let said = ends(&dir, 4, &["plan", "disk.img", "--grow", "2", "--add", "40MiB"]);
    let why = "needs 40 MiB (41943040 bytes), but only 36.0 MiB (37731840 bytes) are free";
    assert!(said.contains(why), "{said}");
}

#[test]
fn what_an_image_is_meant_for_decides_where_partitions_start() {
    let dir = Dir::new("grain");
    dir.image("disk.img", 8 << 30);
    let starts = |arguments: &[&str]| -> Vec<u64> {
        let parts = ["plan", "disk.img", "--json", "--table", "gpt", "--part", "100MiB", "--part", "rest"];
        let report = json_in(&dir, &[&parts[..], arguments].concat());
        list(&report["table"], "partitions").iter().map(|p| number(p, "start_lba") * 512).collect()
    };
    let mib = 1 << 20;
    assert_eq!(starts(&[]), [mib, 101 * mib]);
    assert_eq!(starts(&["--assume", "stripe=192KiB"]), [3 * mib, 105 * mib]);
    let said =
        ends(&dir, 0, &["plan", "disk.img", "--assume", "stripe=192KiB", "--table", "gpt", "--part", "rest"]);
    let said = tools::run::flat(&said);
    assert!(
        said.contains("multiples of 3 MiB; this fits the stripe of 192 KiB (--explain shows why)"),
        "{said}"
    );
    assert_eq!(starts(&["--assume", "physical=4096,offset=3584"])[0], mib + 3584);
    assert_eq!(starts(&["--assume", "4kn"])[0], mib / 8);
    assert_eq!(starts(&["--assume", "erase=4MiB"])[0], 4 * mib);
    assert_eq!(starts(&["--grain", "64KiB"])[0], 65536);
    assert_eq!(starts(&["--start", "34s", "--allow-misaligned"])[0], 34 * 512);
}

#[test]
fn the_json_has_the_published_form() {
    let dir = Dir::new("schema");
    dir.image("disk.img", 1 << 30);
    let report = json_in(
        &dir,
        &["plan", "disk.img", "--json", "--table", "mbr", "--part", "1M", "--part", "1M,role=logical"],
    );
    valid(&report, "plan");
    let roles: Vec<&Value> = list(&report["table"], "partitions").iter().map(|p| &p["role"]).collect();
    assert_eq!(roles, [&json!("primary"), &json!("extended"), &json!({"logical": {"ebr_lba": 4096}})]);
}

/// Number, first byte and size of each partition as parted lists them, for sectors of `sector` bytes.
fn parted(image: &Path, sector: u64) -> Vec<String> {
    let mut command = Command::new("parted");
    command.args(["-s", "-m"]).arg(image).args(["unit", "B", "print"]);
    let said = run(command.env("PARTED_SECTOR_SIZE", sector.to_string()), "");
    said.lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| {
            let fields: Vec<&str> = line.split(':').map(|field| field.trim_end_matches('B')).collect();
            format!("{} {} {}", fields[0], fields[1], fields[3])
        })
        .collect()
}

/// Number, first byte and size of each partition as fdisk lists them.
fn fdisk(image: &Path, sector: u64) -> Vec<String> {
    let mut command = Command::new("fdisk");
    command.args(["-b", &sector.to_string(), "-l", "-o", "Device,Start,Sectors"]).arg(image);
    let said = run(&mut command, "");
    let name = image.display().to_string();
    said.lines()
        .filter_map(|line| line.strip_prefix(&name))
        .filter(|line| !line.starts_with(':'))
        .map(|line| {
            let mut words = line.split_whitespace();
            let number = words.next().unwrap_or_default().to_owned();
            let bytes: Vec<String> =
                words.map(|word| (word.parse::<u64>().unwrap() * sector).to_string()).collect();
            format!("{number} {}", bytes.join(" "))
        })
        .collect()
}

#[test]
fn a_table_is_converted_and_back() {
    if !present(&["sfdisk", "sgdisk", "parted", "fdisk"]) {
        return;
    }
    let dir = Dir::new("convert");
    let gpt =
        "label: gpt\nsize=40M, name=\"root, old\", attrs=\"LegacyBIOSBootable\"\nsize=50M,type=S\nsize=+\n";
    let mbr = "label: dos\nsize=40M, bootable\nsize=+,type=5\nsize=50M\nsize=30M,type=82\nsize=+\n";
    for (name, script) in [("gpt.img", gpt), ("mbr.img", mbr)] {
        let image = dir.image(name, 256 << 20);
        tools::write_table(&image, 512, script);
        let before = Contents::of(&image);
        let listed = |sector: u64| {
            let kept = |line: &&String| !(name == "mbr.img" && line.starts_with("2 "));
            (
                fdisk(&image, sector).iter().filter(kept).cloned().collect::<Vec<_>>(),
                parted(&image, sector).iter().filter(kept).cloned().collect::<Vec<_>>(),
                list(&json_in(&dir, &["check", "--json", name])["targets"][0], "partitions")
                    .iter()
                    .map(|p| {
                        format!(
                            "{} {} {}",
                            number(p, "number"),
                            number(p, "start_bytes"),
                            number(p, "size_bytes")
                        )
                    })
                    .filter(|line| kept(&line))
                    .collect::<Vec<_>>(),
            )
        };
        let wanted = listed(512);
        assert_eq!(wanted.0, wanted.1);
        assert_eq!(wanted.0, wanted.2);
        assert!(wanted.0.len() >= 3, "{wanted:?}");
        for (size, sector) in [("4096", 4096), ("512", 512)] {
            let (plan, undo) = (format!("{name}.{size}"), format!("{name}.{size}.undo"));
            ends(&dir, 0, &["plan", name, "--convert-table", size, "--save", &plan]);
            ends(&dir, 0, &["apply", &plan, "--write", name]);
            assert_eq!(listed(sector), wanted);
            let report = json_in(&dir, &["check", "--json", name]);
            assert_eq!(list(&report["targets"][0], "findings"), [] as [Value; 0], "{name} {size}");
            let said = ends(&dir, 4, &["plan", name, "--convert-table", size]);
            assert!(said.contains("already"), "{said}");
            if size == "512" {
                continue;
            }
            let after = Contents::of(&image);
            ends(&dir, 0, &["undo", &undo, "--write", name]);
            assert!(Contents::of(&image) == before);
            after.write(&image);
        }
        if name == "gpt.img" {
            let said = run(Command::new("sgdisk").arg("-v").arg(&image), "");
            assert!(said.contains("No problems found"), "{said}");
            let script = run(Command::new("sfdisk").arg("--dump").arg(&image), "");
            assert!(
                script.contains("name=\"root, old\"") && script.contains("LegacyBIOSBootable"),
                "{script}"
            );
        }
    }
}

/// A partition of 320 MiB at 1 MiB, in sectors of `sector` bytes, with content made by `program`.
fn with_content(dir: &Dir, name: &str, sector: u64, program: &[&str]) -> PathBuf {
    let image = dir.image(name, 400 << 20);
    let sectors = |bytes: u64| bytes / sector;
    let script = format!("label: gpt\nstart={}, size={}\n", sectors(1 << 20), sectors(320 << 20));
    tools::write_table(&image, sector, &script);
    let part = dir.image("part", 320 << 20);
    run(Command::new(program[0]).args(&program[1..]).arg(&part), "secret\n");
    // Zeros stay holes.
    let dd = "dd bs=1M seek=1 conv=notrunc,sparse status=none if=part of=";
    shell(&format!("{dd}{name}; rm part"), dir.path());
    image
}

/// A name, the present sector size, the new one, the command that makes the content, and the reason for a
/// refusal.
type Case<'a> = (&'a str, u64, &'a str, &'a str, Option<&'a str>);

#[test]
fn what_depends_on_its_sectors_is_not_converted() {
    let tools = ["sfdisk", "mkfs.xfs", "mkfs.ext4", "mkfs.ntfs", "mkfs.vfat", "cryptsetup", "mkswap"];
    if !present(&[&tools[..], &["mkfs.minix", "mkudffs"]].concat()) {
        return;
    }
    let dir = Dir::new("depends");
    let cases: [Case<'_>; 14] = [
        ("xfs512", 512, "4096", "mkfs.xfs -q -s size=512", Some("xfs: its 512-byte sectors")),
        ("xfs4096", 512, "4096", "mkfs.xfs -q -s size=4096", None),
        ("xfs4kn", 4096, "512", "mkfs.xfs -q -s size=4096", None),
        ("ext1k", 512, "4096", "mkfs.ext4 -q -F -b 1024", Some("ext4: its 1024-byte blocks")),
        ("ext4k", 512, "4096", "mkfs.ext4 -q -F -b 4096", None),
        ("swap", 512, "4096", "mkswap -q", None),
        ("ntfs", 512, "4096", "mkfs.ntfs -q -F -f -s 512 -p 0", Some("ntfs: its sectors are 512 bytes")),
        ("fat", 512, "4096", "mkfs.vfat -S 512", Some("vfat: its 512-byte sectors")),
        ("fat4kn", 4096, "512", "mkfs.vfat -S 4096", Some("vfat: its sectors are 4096 bytes")),
        ("minix", 512, "4096", "mkfs.minix", Some("minix: its 1024-byte blocks")),
        ("udf", 512, "4096", "mkudffs -b 2048", Some("udf: its 2048-byte blocks")),
        ("luks512", 512, "4096", "LUKS luks2 --sector-size 512", Some("LUKS2 encrypts in 512-byte sectors")),
        ("luks4096", 512, "4096", "LUKS luks2 --sector-size 4096", None),
        ("luks1", 512, "4096", "LUKS luks1", Some("LUKS1 encrypts in 512-byte sectors")),
    ];
    let luks = "cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - --type";
    for (name, sector, to, program, why) in cases {
        let program = program.replace("LUKS", luks);
        let image = with_content(&dir, name, sector, &program.split(' ').collect::<Vec<_>>());
        let before = Contents::of(&image);
        let arguments = ["plan", name, "--convert-table", to, "--save", "p.json"];
        let said = ends(&dir, if why.is_some() { 4 } else { 0 }, &arguments);
        if let Some(why) = why {
            let depends = format!("partition 1 depends on {sector}-byte sectors");
            assert!(said.contains(&depends) && said.contains(why), "{name}: {said}");
        }
        assert_eq!(fs::remove_file(dir.join("p.json")).is_ok(), why.is_none(), "{name}");
        assert!(Contents::of(&image) == before, "{name}: a plan writes nothing");
        // `check` decides alike, but for what neither sees.
        let report = tools::check(&image, &["--assume", &format!("logical={to}")]);
        let has = |code| list(&report, "findings").iter().any(|finding| word(finding, "code") == code);
        let expected = (true, why.is_some_and(|why| !why.contains("encrypts")));
        assert_eq!((has("S030"), has("S069")), expected, "{name}: {report}");
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn what_comes_into_a_partition_after_the_plan_counts_too() {
    if !present(&["sfdisk", "mkswap", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("late");
    let image = with_content(&dir, "late", 512, &["mkswap", "-q"]);
    ends(&dir, 0, &["plan", "late", "--convert-table", "4096", "--save", "late.json"]);
    with_content(&dir, "made", 512, &["mkfs.ext4", "-q", "-F", "-b", "1024"]);
    // The partition's bytes, with its zeros as holes.
    shell("fallocate -p -o 1MiB -l 320MiB late", dir.path());
    shell("dd bs=1M skip=1 seek=1 count=320 conv=notrunc,sparse status=none if=made of=late", dir.path());
    let before = Contents::of(&image);
    let said = ends(&dir, 4, &["apply", "late.json", "--write", "late"]);
    assert!(said.contains("ext4: its 1024-byte blocks are smaller"), "{said}");
    assert!(Contents::of(&image) == before && !dir.join("late.json.undo").exists());
}

/// The script for the guest: a table of each kind, with what the kernel lists, and a disk in use.
const IN_GUEST: &str = r#"
S() { "$INPUT/straddle" "$@"; }
cd /tmp
for table in gpt mbr; do
    last=rest; test $table = gpt || last=rest,role=logical
    S plan /dev/vda --table $table --part 20MiB --part $last --save $table.json > /dev/null
    S apply $table.json --write /dev/vda > /dev/null
    sfdisk -J /dev/vda > sfdisk.json
    for partition in /sys/block/vda/vda*; do
        echo "$table kernel $(cat $partition/partition $partition/start | tr '\n' ' ')"
    done
    jq -r ".partitiontable | .sectorsize as \$s | .partitions[] | \"$table sfdisk \(.node | ltrimstr(\"/dev/vda\")) \(.start * \$s / 512) \"" sfdisk.json
    S undo $table.json.undo --write /dev/vda > /dev/null
    echo "$table left $(find /sys/block/vda/ -mindepth 1 -maxdepth 1 -name 'vda*' | wc -l)"
done
S apply gpt.json --write /dev/vda --backup in-use.undo > /dev/null
mkfs.ext4 -q /dev/vda1
mkdir -p point
mount /dev/vda1 point
S undo in-use.undo --write /dev/vda || echo "refused $?"
echo "still $(find /sys/block/vda/ -mindepth 1 -maxdepth 1 -name 'vda*' | wc -l)"
umount point
S undo in-use.undo --write /dev/vda || echo "written $?"
S undo in-use.undo --write /dev/vda --force > /dev/null
echo "left $(find /sys/block/vda/ -mindepth 1 -maxdepth 1 -name 'vda*' | wc -l)"
"#;

/// The kernel reads both kinds of table with its own code, in both sector sizes.
#[test]
fn the_kernel_takes_the_table_and_a_disk_in_use_is_left_alone() {
    if !present(&["linux.uml", "sfdisk", "jq", "mkfs.ext4"]) {
        return;
    }
    let folder = Path::new(STRADDLE).parent().unwrap();
    for drive in ["wd10ears", "nearline-4kn-7200"] {
        let mut command = Command::new(STRADDLE);
        command.args(["lab", "--json", "--drive", drive, "--input"]).arg(folder).args(["--", IN_GUEST]);
        let done = output(&mut command, "");
        let report: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", transcript(&done)));
        let said = word(&report, "output");
        assert_eq!(report["status"], 0, "{said}");
        for (table, count) in [("gpt", 2), ("mbr", 3)] {
            let listed = |by: &str| -> Vec<String> {
                let start = format!("{table} {by} ");
                said.lines()
                    .filter_map(|line| line.strip_prefix(&start))
                    .map(|line| line.trim().to_owned())
                    .collect()
            };
            assert_eq!(listed("kernel").len(), count, "{said}");
            assert_eq!(listed("kernel"), listed("sfdisk"), "{said}");
            assert_eq!(listed("left"), ["0"], "{said}");
        }
        assert!(said.contains("vda1 is mounted at") && said.contains("refused 4\nstill 2\n"), "{said}");
        assert!(said.contains("lose new data") && said.contains("written 4\nleft 0"), "{said}");
    }
}

/// Number, first byte and size of each partition.
type ByJudge<'a> = BTreeMap<&'a str, Vec<[u64; 3]>>;

/// The geometries of disks in tests/guest/plans.sh.
const GEOMETRIES: usize = 7;

#[test]
fn the_kernel_and_sfdisk_see_what_was_planned_whatever_the_disk_claims() {
    if !present(&["linux.uml", "sfdisk", "jq"]) {
        return;
    }
    let Guest(dir) = Guest::run("plans.sh", "1G");
    let lines = fs::read_to_string(dir.join("listed")).unwrap();
    let mut seen: BTreeMap<(&str, &str), ByJudge<'_>> = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let figures = [3, 4, 5].map(|at| words[at].parse().unwrap());
        seen.entry((words[0], words[1])).or_default().entry(words[2]).or_default().push(figures);
    }
    // Two kinds of table on each, and on two of them also tables converted from sectors of the other size.
    assert_eq!(seen.len(), tools::skip::taken(GEOMETRIES, 2) * 2 + 2 * 2, "{lines}");
    let undone = fs::read_to_string(dir.join("undone")).unwrap();
    for ((config, table), mut judges) in seen {
        let place = format!("{config} {table}");
        judges.values_mut().for_each(|listed| listed.sort_unstable());
        // An extended partition moves when its table is converted, and the kernel shows two sectors of it.
        let without = |listed: &[[u64; 3]]| -> Vec<[u64; 3]> {
            listed.iter().copied().filter(|p| table.starts_with("gpt") || p[0] != 2).collect()
        };
        let wanted = without(&judges["straddle"]);
        assert_eq!(wanted.len(), 3, "{place}");
        assert_eq!(without(&judges["kernel"]), wanted, "the kernel, {place}");
        assert_eq!(without(&judges["sfdisk"]), wanted, "sfdisk, {place}");
        let read = |end: &str| fs::read_to_string(dir.join(&format!("{config}-{table}.{end}"))).unwrap();
        let report: Value = serde_json::from_str(&read("json")).unwrap();
        let of_partitions: BTreeMap<u64, _> = tools::codes(&report["targets"][0]);
        assert!(of_partitions.values().all(|codes| codes.is_empty()), "{place}: {of_partitions:?}");
        assert_eq!(read("rc").trim(), "0", "{place}");
        assert!(undone.lines().any(|line| line == format!("{place} same")), "{place}: {undone}");
        let start = wanted[0][1];
        let topology = fs::read_to_string(dir.join(&format!("{config}.topology"))).unwrap();
        match config {
            "512e-la1" => {
                assert!(topology.contains("align=512") && start == (1 << 20) + 512, "{start} {topology}")
            }
            "512e-la7" => {
                assert!(topology.contains("align=3584") && start == (1 << 20) + 3584, "{start} {topology}")
            }
            "512e-opt1536k" => {
                assert!(topology.contains("opt_io=1572864") && start == 3 << 20, "{start} {topology}")
            }
            "512n-opt65535" => {
                assert!(topology.contains("opt_io=33553920") && start == 1 << 20, "{start} {topology}")
            }
            _ => assert_eq!(start, 1 << 20, "{place}"),
        }
    }
}

/// An undo much later must not destroy what was put into the new partitions.
#[test]
fn what_was_written_since_is_not_undone() {
    if !present(&["mkfs.ext4", "mkfs.vfat"]) {
        return;
    }
    let dir = Dir::new("undo-later");
    let target = dir.image("disk.img", 64 << 20);
    let (path, plan) = (target.to_str().unwrap(), dir.join("p.json"));
    let (plan, undo) = (plan.to_str().unwrap().to_owned(), format!("{}.undo", plan.to_str().unwrap()));
    // (content before the plan, content written afterwards)
    let cases = [
        ("true", "printf raw | dd of=disk.img bs=1 seek=1100000 conv=notrunc"),
        ("true", "mkfs.ext4 -q -F -E offset=1048576 disk.img 32M"),
        ("mkfs.ext4 -q -F -E offset=1048576 disk.img 32M", "mkfs.vfat --offset 2048 disk.img 32768"),
        ("true", "printf raw | dd of=disk.img bs=1 seek=34603000 conv=notrunc"),
    ];
    for (before, after) in cases {
        let sh = |line: &str| drop(tools::shell(&format!("{line} >/dev/null 2>&1"), dir.path()));
        dir.image("disk.img", 64 << 20);
        sh(before);
        let run = |arguments: &[&str]| Command::new(STRADDLE).args(arguments).output().unwrap();
        let former = Contents::of(&target);
        let made = ["plan", path, "--table", "gpt", "--part", "32MiB", "--wipe", "--save", &plan];
        assert!(run(&made).status.success());
        assert!(run(&["apply", &plan, "--write", path]).status.success());
        // An unchanged disk can be reverted, and again after another apply.
        assert!(run(&["undo", &undo, "--write", path]).status.success());
        assert!(Contents::of(&target) == former);
        std::fs::remove_file(&undo).unwrap();
        assert!(run(&["apply", &plan, "--write", path]).status.success());
        sh(after);
        let present = Contents::of(&target);
        let refused = run(&["undo", &undo, "--write", path]);
        let transcript = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(4), "{after}: {transcript}");
        assert!(
            transcript.contains("partition 1 ") && transcript.contains("--force")
                || transcript.contains("so it was changed later"),
            "{after}: {transcript}"
        );
        assert!(Contents::of(&target) == present, "{after}: written to");
        if transcript.contains("--force") {
            assert!(run(&["undo", &undo, "--write", path, "--force"]).status.success());
        }
        std::fs::remove_file(&undo).unwrap();
        std::fs::remove_file(&plan).unwrap();
    }
}
