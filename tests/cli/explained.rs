//! `straddle explain` on what is no rule: old tools, and words and numbers of messages.

use std::collections::BTreeSet;

use super::{root, straddle};

#[test]
fn old_tools_words_and_numbers_are_explained() {
    for (words, parts) in [
        (&["fdisk"][..], &["up to 2.17.1", "sector 63", "x (experts), b", "2.18 and later"][..]),
        (&["parted"], &["before 2.1", "powers of 1000", "--align optimal"]),
        (&["gdisk"], &["before 0.5.2", "0.6.6 and later", "x, l, 2048"]),
        (&["gparted"], &["0.6.1", "Align to"]),
        (&["cfdisk"], &["before 2.25"]),
        (&["Windows XP"], &["sector 63", "multiples of 1 MiB"]),
        (&["windows-10"], &["Vista, 7, 10 and 11"]),
        (&["3072", "bytes"], &["3072 + 1024 = 4096"]),
        (&["3072 bytes"], &["3072 + 1024 = 4096"]),
        (&["/dev/sdb1 alignment is offset by 3072 bytes."], &["3072 + 1024 = 4096"]),
        (&["4Kn", "boot"], &["sg_format", "nvme format", "hdparm --set-sector-size", "DESTROYS"]),
        (&["SMART"], &["read-modify-writes"]),
        (&["reliability"], &["|g|data|ecc|", "4211 bytes"]),
        (&["fdisk", "S001", "63"], &["up to 2.17.1", "S001: start", "Byte 32256"]),
    ] {
        let run = straddle(&[&["explain"], words].concat());
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{words:?}");
        let said = super::tools::flat(&run.out);
        for part in parts {
            assert!(said.contains(part), "{words:?} lacks {part}: {}", run.out);
        }
        assert!(run.out.lines().any(|line| line == "Sources"), "{words:?}");
    }
    for unknown in [&["nothing of the kind"][..], &["fdisk", "S999"], &["--list", "fdisk"]] {
        let run = straddle(&[&["explain"], unknown].concat());
        assert!(run.code == 2 && run.out.is_empty() && !run.err.is_empty(), "{unknown:?}: {}", run.out);
    }
}

/// What other tools print of damaged and misaligned disks: the tools that have to be installed, the command, the
/// beginning of a line of what it prints, and the topic that explains the line.
const SAID: [(&str, &str, &str, &str); 17] = [
    (
        "sfdisk parted",
        "parted -s disk.img mkpart x 50000s 60000s",
        "Warning: The resulting partition",
        "best-performance",
    ),
    ("sfdisk fdisk", "truncate -s 96M disk.img; fdisk -l disk.img", "GPT PMBR size mismatch", "gpt-size"),
    (
        "sfdisk fdisk",
        "truncate -s 96M disk.img; fdisk -l disk.img",
        "The backup GPT table is not on",
        "gpt-size",
    ),
    (
        "sfdisk parted",
        "truncate -s 96M disk.img; parted -s disk.img print",
        "Warning: Not all of the space",
        "gpt-size",
    ),
    (
        "sfdisk sgdisk",
        "truncate -s 96M disk.img; sgdisk -v disk.img",
        "Problem: The secondary header's",
        "gpt-size",
    ),
    ("sfdisk fdisk", "zero 1; fdisk -l disk.img", "The primary GPT table is corrupt", "gpt-corrupt"),
    ("sfdisk fdisk", "zero 131071; fdisk -l disk.img", "The backup GPT table is corrupt", "gpt-corrupt"),
    (
        "sfdisk parted",
        "zero 131071; parted -s disk.img print",
        "Error: The backup GPT table is corrupt",
        "gpt-corrupt",
    ),
    ("sfdisk sgdisk", "zero 1; sgdisk -v disk.img", "Caution: invalid main GPT header", "gpt-corrupt"),
    ("sfdisk sgdisk", "zero 131071; sgdisk -v disk.img", "Caution: invalid backup GPT header", "gpt-corrupt"),
    ("sfdisk sgdisk", "zero 1; sgdisk -v disk.img", "Caution: Found protective or hybrid MBR", "gpt-corrupt"),
    ("sfdisk fdisk", "fdisk -l order.img", "Partition table entries are not", "disk-order"),
    ("sfdisk fdisk", "fdisk -l disk.img", "I/O size (minimum/optimal)", "io-size"),
    ("sfdisk fdisk", "fdisk -l disk.img", "Sector size (logical/physical)", "io-size"),
    ("mkfs.ext4", "mke2fs -F -b 65536 part.img", "Warning: blocksize 65536", "blocks-too-big"),
    ("mkfs.ext4", "mke2fs -F -b 65536 part.img", "Warning: 65536-byte blocks", "blocks-too-big"),
    ("sfdisk sgdisk", "zero 1; sgdisk -v disk.img", "Caution: Partition 1 doesn't end", "sector-boundary"),
];

/// Messages that no tool prints here of an image: those of the kernel, of fdisk on a device, of cryptsetup. They are
/// in the sources and the files of these programs as they stand here.
const WRITTEN: [(&str, &str); 14] = [
    ("1 not aligned: 63s % 2048s != 0s", "best-performance"),
    (
        "Warning: The resulting partition is not properly aligned for best performance: 63s % 2048s != 0s",
        "best-performance",
    ),
    ("Partition 1 does not start on physical sector boundary.", "not-aligned"),
    ("warning: device is not properly aligned /dev/sdb1", "not-aligned"),
    (
        "device-mapper: table: 253:0: adding target device sdb1 caused an alignment inconsistency: physical_block_size=4096",
        "not-aligned",
    ),
    (
        "Caution: Partition 1 doesn't begin on a 8-sector boundary. This may result in degraded performance",
        "sector-boundary",
    ),
    (
        "Caution: Partition 1 doesn't end on a 8-sector boundary. This may result in problems with some disk encryption tools.",
        "sector-boundary",
    ),
    ("[    1.234567] GPT:Primary header thinks Alt. header is not at the end of the disk.", "gpt-size"),
    ("GPT:Alternate GPT header not at the end of the disk.", "gpt-size"),
    ("GPT: Use GNU Parted to correct GPT errors.", "gpt-size"),
    ("Alternate GPT is invalid, using primary GPT.", "gpt-corrupt"),
    ("Primary GPT is invalid, using alternate GPT.", "gpt-corrupt"),
    ("Device size is not aligned to requested sector size.", "device-size"),
    ("/dev/sdb1 alignment is offset by 3072 bytes.", "3072-bytes"),
];

/// Asserts that a message, as one word or as many, is explained by the topic.
fn is_explained(message: &str, topic: &str) {
    let words: Vec<&str> = message.split_whitespace().collect();
    for words in [&[message][..], &words] {
        let run = straddle(&[&["explain", "--json", "--"], words].concat());
        assert_eq!(run.code, 0, "{message}: {}", run.err);
        let report = run.valid("explain");
        let named: Vec<&str> = report["topics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|topic| topic["name"].as_str().unwrap())
            .collect();
        assert_eq!(named, [topic], "{message}");
    }
}

#[test]
fn messages_of_other_tools_are_explained_as_they_are_printed() {
    let dir = super::tools::Dir::new("explained");
    let table = "printf 'label: gpt\\nstart=2048,size=40000\\n' | sfdisk -q --no-tell-kernel";
    let made = format!(
        "truncate -s 64M odd.img order.img part.img; {} odd.img; \
         printf 'label: dos\\nstart=43008,size=2000\\nstart=2048,size=2000\\n' | sfdisk -q --no-tell-kernel --force order.img",
        table.replace("2048", "2049")
    );
    for (needed, command, begins, topic) in SAID {
        if !super::tools::present(&needed.split(' ').collect::<Vec<_>>()) {
            continue;
        }
        let line = format!(
            "zero() {{ dd if=/dev/zero of=disk.img bs=512 seek=$1 count=1 conv=notrunc status=none; }}\n\
             rm -f *.img; truncate -s 64M disk.img; {table} disk.img; {made}\n{{ {command}; }} 2>&1 || true"
        );
        let said = super::tools::shell(&line, dir.path());
        let message = said
            .lines()
            .map(|line| line.trim_start_matches(char::is_control))
            .find(|line| line.starts_with(begins))
            .unwrap_or_else(|| panic!("{command}: {said}"));
        is_explained(message, topic);
    }
    for (message, topic) in WRITTEN {
        is_explained(message, topic);
    }
}

#[test]
fn a_drive_is_shown_and_near_misses_are_named() {
    for name in ["WD10EARS", "wd10ears", "WDC WD10EARS-00Y5B1"] {
        let shown = straddle(&["explain", name]);
        assert!(shown.out.starts_with(&straddle(&["drive", "show", "wd10ears"]).out), "{}", shown.out);
        assert!(shown.out.contains("straddle drive show wd10ears"), "{}", shown.out);
    }
    let json = straddle(&["explain", "WD10EARS", "--json"]);
    assert!(json.code == 2 && json.err.contains("straddle drive show wd10ears --json"), "{}", json.err);
    for (asked, meant) in [("fdsik", "'fdisk'"), ("S0001", "'S001'"), ("wd10eras", "'wd10ears'")] {
        let run = straddle(&["explain", asked]);
        assert!(run.code == 2 && run.err.contains(&format!("did you mean {meant}")), "{asked}: {}", run.err);
    }
    assert!(!straddle(&["explain", "xyzzy"]).err.contains("did you mean"));
}

#[test]
fn all_topics_are_listed_completed_printed_as_json_and_in_the_book() {
    let report = straddle(&["explain", "--json"]).valid("explain");
    let topics = report["topics"].as_array().unwrap();
    let names: BTreeSet<&str> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
    assert!(names.len() >= 12 && topics.len() == names.len(), "{names:?}");
    let (list, short) = (straddle(&["explain", "--list"]), straddle(&["explain"]));
    assert_eq!(list.out, short.out);
    let completions = straddle(&["completions", "bash"]).out;
    let page = std::fs::read_to_string(root().join("docs/topics.md")).unwrap();
    for name in names {
        assert!(list.out.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {}", list.out);
        assert!(completions.contains(&format!(" {name} ")), "{name} is not completed");
        assert!(page.contains(&format!("{{#{name}}}")), "docs/topics.md lacks {name}");
        let one = straddle(&["explain", name, "--json"]).valid("explain");
        assert_eq!((&one["topics"][0]["name"], one["rules"].as_array().unwrap().len()), (&name.into(), 0));
    }
    assert!(completions.contains(" S001 ") && list.out.contains("S001"));
}

#[test]
fn a_write_may_start_at_a_sector() {
    let at = |offset: &str| straddle(&["explain", "rmw", "--offset", offset, "--json"]);
    assert_eq!(at("63s").json()["offset_bytes"], 32_256);
    assert_eq!(at("63s").json()["read_modify_writes"], 2);
    assert_eq!(at("64s").out, at("32KiB").out);
    let drawn = straddle(&["explain", "rmw", "--offset", "63s"]).out;
    assert!(drawn.contains("|.......#|#######.|"), "{drawn}");
    for wrong in ["s", "-1s", "63 sectors", "99999999999999999s"] {
        assert_eq!(at(wrong).code, 2, "{wrong}");
    }
}
