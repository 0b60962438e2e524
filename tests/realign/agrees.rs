//! `check` and `realign` name the same partitions: on random tables, those for which `check` prints a plan of
//! `realign` are those that `realign` moves, and the others that start off 4096 bytes are said to stay.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use straddle_units::io::SplitMix64;

use crate::tools::skip::cases;
use crate::tools::{Dir, check, list, number, present, straddle_in, text, write_table};

/// The seeds.
const DISKS: u64 = 160;

/// The types of partitions: of a GPT, and of an MBR.
const GPT_TYPES: [&str; 7] = [
    "L",
    "E3C9E316-0B5C-4DB8-817D-F92DF00215AE",
    "21686148-6449-6E6F-744E-656564454649",
    "U",
    "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
    "9E1A2D38-C612-4316-AA26-8B49521E5A8B",
    "S",
];
const MBR_TYPES: [&str; 6] = ["83", "7", "ef", "41", "8e", "c"];

/// What a drive may say of itself.
const DRIVES: [&str; 5] = ["512e", "512e", "512n", "512e,iu=16KiB", "512n,atomic=16KiB"];

/// What is put at the start of a partition.
fn contents(random: &mut SplitMix64) -> Option<Vec<u8>> {
    let luks = |payload: u32| {
        let mut header = vec![0; 1024];
        header[..8].copy_from_slice(b"LUKS\xBA\xBE\0\x01");
        header[8..11].copy_from_slice(b"aes");
        header[40..51].copy_from_slice(b"xts-plain64");
        header[72..78].copy_from_slice(b"sha256");
        header[104..108].copy_from_slice(&payload.to_be_bytes());
        header[108..112].copy_from_slice(&64_u32.to_be_bytes());
        header
    };
    match random.below(10) {
        0 => Some(luks(4096)),
        1 => Some(luks(4095)),
        // From sector 63 on, its payload is aligned.
        2 => Some(luks(4041)),
        3 => {
            let mut squashfs = vec![0; 1024];
            squashfs[..4].copy_from_slice(b"hsqs");
            squashfs[28] = 4;
            Some(squashfs)
        }
        4 => Some(vec![0x5A; 4096]),
        _ => None,
    }
}

/// Bytes, and the sector where they are put.
type Put = (u64, Vec<u8>);

/// A random disk: its drive, its table, and what is at which sector.
fn disk(random: &mut SplitMix64) -> (&'static str, u64, String, Vec<Put>) {
    let is_gpt = random.below(2) == 0;
    let sectors = (40 + random.below(100)) * 2048 + random.below(3);
    let mut script = match is_gpt {
        true => "label: gpt\nfirst-lba: 34\n".to_owned(),
        false => "label: dos\n".to_owned(),
    };
    let mut at = random.one_of(&[if is_gpt { 34 } else { 63 }, 63, 64, 2048]);
    let (mut put, end) = (Vec::new(), sectors - 40);
    for _ in 0..=random.below(3) {
        let len = random.one_of(&[1, 7, 2014, 20_000, 65_473, 1 + sectors / 3]);
        let len = if random.below(4) == 0 { end.saturating_sub(at) } else { len };
        if at + len > end || len == 0 {
            break;
        }
        let kind = if is_gpt { random.one_of(&GPT_TYPES) } else { random.one_of(&MBR_TYPES) };
        script += &format!("start={at}, size={len}, type={kind}\n");
        if let Some(bytes) = contents(random).filter(|bytes| bytes.len() as u64 <= len * 512) {
            put.push((at, bytes));
        }
        at += len;
        at = random.one_of(&[at, at, at.next_multiple_of(8), at.next_multiple_of(2048), at + 63]);
    }
    (random.one_of(&DRIVES), sectors, script, put)
}

/// The partitions for which `check` prints a plan of `realign`, and whether the plans are copies.
fn printed(report: &Value) -> (BTreeSet<u64>, bool) {
    let (mut numbers, mut is_copy) = (BTreeSet::new(), false);
    for finding in list(report, "findings") {
        for fix in [&finding["fix"], &finding["alternative"]] {
            let line = fix["commands"][0]["line"].as_str().unwrap_or_default();
            if line.starts_with("straddle realign") {
                numbers.insert(number(finding, "partition"));
                is_copy |= line.contains(" --to ");
            }
        }
    }
    (numbers, is_copy)
}

/// The partitions that a plan moves.
fn moved(report: &Value) -> BTreeSet<u64> {
    let start = |part: &Value| (number(part, "number"), number(part, "start_lba"));
    let before: BTreeSet<(u64, u64)> = list(&report["plan"], "before").iter().map(start).collect();
    let after = list(&report["plan"]["table"], "partitions").iter().map(start);
    after.filter(|place| !before.contains(place)).map(|(number, _)| number).collect()
}

/// Compares the two on an image; returns how it went.
fn agree(folder: &Path, image: &Path, drive: &str, what: &str) -> &'static str {
    // Of an image of any size, S072 wants another size first.
    let report = check(image, &["--assume", drive, "--ignore", "S072"]);
    let (printed, is_copy) = printed(&report);
    let name = image.to_string_lossy();
    let plan = straddle_in(folder, &["realign", &name, "--assume", drive, "--json"]);
    let said = straddle_in(folder, &["realign", &name, "--assume", drive]);
    let words = text(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let refusal = text(&said.stderr);
    let outcome = match plan.status.code() {
        Some(0) if !words.contains("nothing to do") => {
            let json: Value = serde_json::from_slice(&plan.stdout).unwrap();
            assert_eq!(printed, moved(&json), "{what}\n{words}");
            // Boot code that is not understood is not moved.
            assert_eq!(is_copy, words.contains("apply will refuse"), "{what}\n{words}");
            "moved"
        }
        // Swap is made again, not moved.
        Some(4) if printed.is_empty() && report.to_string().contains("mkswap") => "made again",
        Some(4) => {
            assert!(!printed.is_empty() && is_copy, "{what}\n{refusal}\ncheck: {printed:?}");
            assert!(refusal.contains(" --to NEW"), "{what}\n{refusal}");
            "refused"
        }
        _ => {
            assert!(
                words.contains("nothing to do, because no partition has to be moved"),
                "{what}\n{words}\n{refusal}"
            );
            assert!(printed.is_empty(), "{what}: check would move {printed:?}\n{words}");
            "nothing"
        }
    };
    if said.status.code() == Some(0) {
        for partition in list(&report, "partitions") {
            let number = number(partition, "number");
            let is_off = !self::number(partition, "start_lba").is_multiple_of(8);
            let stays = words.contains(&format!("partition {number} is not moved, because "));
            assert!(!(stays && printed.contains(&number)), "{what}\n{words}");
            assert!(stays || printed.contains(&number) || !is_off, "{what}: {number}\n{words}");
        }
    }
    outcome
}

#[test]
fn check_and_realign_name_the_same_partitions() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("agree");
    let mut counts = std::collections::BTreeMap::new();
    for seed in cases(0..DISKS, 4) {
        let mut random = SplitMix64::new(seed);
        let (drive, sectors, script, put) = disk(&mut random);
        if !script.contains("start=") {
            continue;
        }
        let image = dir.image("disk.img", sectors * 512);
        write_table(&image, 512, &script);
        let file = OpenOptions::new().write(true).open(&image).unwrap();
        for (sector, bytes) in &put {
            file.write_all_at(bytes, sector * 512).unwrap();
        }
        let held: Vec<String> = put.iter().map(|(at, bytes)| format!("{at}: {:?}", &bytes[..4])).collect();
        let what = format!("seed {seed}, {drive}, {sectors} sectors, {held:?}\n{script}");
        *counts.entry(agree(dir.path(), &image, drive, &what)).or_insert(0_u32) += 1;
    }
    println!("{counts:?}");
    assert!(
        ["moved", "refused", "nothing"].iter().all(|how| counts.get(how).is_some_and(|n| *n >= 1)),
        "{counts:?}"
    );
}
