//! Plans of copies: as JSON, and for what is before the first partition, with tables by sgdisk and sfdisk.

use super::*;

/// Boot loaders at the sectors where the firmware of boards and BIOS boot code look for them.
const LOADERS: [u64; 4] = [16, 64, 16_384, 24_576];

/// Each is at the same place of the copy, or the plan names it, in text and JSON.
#[test]
fn boot_loaders_stay_where_they_are_found_or_are_named() {
    if !present(&["sgdisk", "sfdisk"]) {
        return;
    }
    // Rockchip; Allwinner, whose first loader is where the table usually is; an MBR; a disk that becomes smaller.
    let cases: [(&str, &[u64], &str, &[u64]); 5] = [
        ("sgdisk -a 1 -n 1:32768:+16M old.img", &[64, 16_384, 24_576], "", &[]),
        ("sgdisk -a 1 -j 2048 -n 1:32769:+16M old.img", &LOADERS, "", &[16]),
        ("echo 32769,32768,83 | sfdisk -q --label dos old.img", &LOADERS, "", &[]),
        ("sgdisk -a 1 -n 1:32768:+16M old.img", &[64, 16_384], "truncate -s 24M new.img", &[16_384]),
        (
            "echo 32768,32768,83 | sfdisk -q --label dos old.img",
            &LOADERS,
            "truncate -s 20M new.img",
            &[16_384],
        ),
    ];
    for (make, loaders, target, named) in cases {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        shell(folder, &format!("truncate -s 64M old.img; {make} >&2; {target}"));
        for sector in loaders {
            let write = format!(
                "printf 'loader {sector} ' | dd of=old.img bs=512 seek={sector} conv=notrunc status=none"
            );
            shell(folder, &write);
        }
        let plan = ["realign", "old.img", "--to", "new.img", "--save", "copy.json"];
        let (status, text) = straddle(folder, &plan);
        assert_eq!(status, 0, "{make}: {text}");
        let (_, json) = straddle(folder, &["realign", "old.img", "--to", "new.img", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [flat, json["plan"]["notes"].to_string()] {
            assert_eq!(said.matches("is not copied").count(), named.len(), "{make}: {said}");
            for sector in named {
                assert!(said.contains(&format!("from byte {} on,", sector * 512)), "{make}: {said}");
            }
        }
        let (status, text) =
            straddle(folder, &["apply", "copy.json", "--from", "old.img", "--write", "new.img"]);
        assert_eq!(status, 0, "{make}: {text}");
        let (old, new) =
            (fs::read(folder.join("old.img")).unwrap(), fs::read(folder.join("new.img")).unwrap());
        // What is behind the first that is named was found with it.
        let last = named.iter().filter(|sector| **sector > 34).min().copied().unwrap_or(u64::MAX);
        for sector in loaders.iter().filter(|sector| !named.contains(sector) && **sector < last) {
            let at = usize::try_from(sector * 512).unwrap();
            assert_eq!(new[at..at + 512], old[at..at + 512], "{make}: sector {sector}");
        }
        // Both tables are as their tools read them.
        shell(folder, "sgdisk -v new.img >&2 || sfdisk -V new.img >&2");
    }
}

/// A plan as JSON is what is saved.
#[test]
fn a_plan_as_json_matches_its_schema() {
    if !is_ready() {
        return;
    }
    let dir = prepared();
    let folder = dir.path();
    let words = ["realign", "xp.img", "--to", "new.img", "--json", "--save", "copy.json"];
    let report = tools::json_in(folder, &words);
    tools::valid(&report, "realign-to");
    let saved = std::fs::read_to_string(folder.join("copy.json")).unwrap();
    assert_eq!(report, serde_json::from_str::<serde_json::Value>(&saved).unwrap());
    for extent in report["extents"].as_array().unwrap() {
        assert!(extent["to_bytes"].as_u64().unwrap().is_multiple_of(4096), "{report:#}");
    }
    let (status, said) = straddle(folder, &["apply", "copy.json", "--from", "xp.img", "--write", "new.img"]);
    assert_eq!(status, 0, "{said}");
    shell(folder, JUDGE);
}

/// A GPT keeps its number of entries: a boot loader lies behind a short one.
#[test]
fn a_short_table_stays_short() {
    if !present(&["sgdisk"]) {
        return;
    }
    for entries in [4_u64, 56, 128, 256] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        shell(
            folder,
            &format!(
                "truncate -s 64M a.img; sgdisk -S {entries} a.img >/dev/null; sgdisk -n 1:2048:40000 a.img >/dev/null
                 [ {entries} != 56 ] || {{ yes loader || true; }} | head -c 24k | dd of=a.img bs=1k seek=8 conv=notrunc status=none"
            ),
        );
        let (status, text) = straddle(folder, &["realign", "a.img", "--to", "n.img", "--save", "c.json"]);
        assert_eq!(status, 0, "{entries}: {text}");
        let (status, text) = straddle(folder, &["apply", "c.json", "--from", "a.img", "--write", "n.img"]);
        assert_eq!(status, 0, "{entries}: {text}");
        shell(folder, &format!("sgdisk -p n.img | grep -q 'holds up to {entries} entries'"));
        shell(folder, "sgdisk -v n.img | grep -q 'No problems found'");
    }
}

/// The container of logical partitions keeps its type, which old systems know it by.
#[test]
fn the_extended_partition_keeps_its_type() {
    if !present(&["sfdisk"]) {
        return;
    }
    for kind in ["5", "f", "85"] {
        let dir = tempfile::tempdir().unwrap();
        let make = format!(
            "truncate -s 64M a.img; printf 'label: dos\nstart=63,size=9000,type=83\nstart=9063,size=60000,type={kind}\nstart=9126,size=9000,type=83\n' | sfdisk -q a.img"
        );
        shell(dir.path(), &make);
        let (status, said) =
            straddle(dir.path(), &["realign", "a.img", "--to", "b.img", "--wipe", "--save", "c.json"]);
        assert_eq!(status, 0, "{said}");
        let (status, said) =
            straddle(dir.path(), &["apply", "c.json", "--from", "a.img", "--write", "b.img"]);
        assert_eq!(status, 0, "{said}");
        let kinds = "sfdisk -d $1 | sed -n 's/.*type=\\([^,]*\\).*/\\1/p' | sort";
        let of = |name: &str| shell(dir.path(), &format!("set -- {name}; {kinds}"));
        assert!(of("b.img") == of("a.img") && of("a.img").contains(kind), "{kind}: {}", of("b.img"));
    }
}
