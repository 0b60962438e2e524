//! `straddle explain` on what is no rule: old tools, and words and numbers of messages.

use std::collections::BTreeSet;
use std::process::Command;

use super::tools::{STRADDLE, output, transcript};
use super::{root, straddle};

#[test]
fn old_tools_words_and_numbers_are_explained() {
    for (words, parts) in [
        (&["fdisk"][..], &["up to 2.17.1", "sector 63", "x for experts, b", "2.18 and later"][..]),
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
        (&["fdisk", "S001", "63"], &["up to 2.17.1", "S001: start", "byte 32256"]),
    ] {
        let run = straddle(&[&["explain"], words].concat());
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{words:?}");
        let said = super::tools::flat(&run.out);
        for part in parts {
            assert!(said.contains(part), "{words:?} lacks {part}: {}", run.out);
        }
        assert!(run.out.lines().any(|line| line == "Sources"), "{words:?}");
    }
    for unknown in [&["qwertz xyzzy"][..], &["xyzzy"], &["fdisk", "S999"], &["--list", "fdisk"]] {
        let run = straddle(&[&["explain"], unknown].concat());
        assert!(run.code == 2 && run.out.is_empty() && !run.err.is_empty(), "{unknown:?}: {}", run.out);
    }
}

#[test]
fn near_misses_are_named() {
    for (asked, meant) in [("fdsik", "'fdisk'"), ("S0001", "'S001'")] {
        let run = straddle(&["explain", asked]);
        assert!(run.code == 2 && run.err.contains(&format!("did you mean {meant}")), "{asked}: {}", run.err);
    }
    assert!(!straddle(&["explain", "xyzzy"]).err.contains("did you mean"));
}

/// What names nothing is searched for in rules, topics and the FAQ at once: the best is explained, the others named.
#[test]
fn any_word_of_rules_topics_and_the_faq_is_found() {
    for (words, best, others) in [
        ("hibernated", "Windows beside Linux", &[][..]),
        ("innodb_doublewrite", "Atomic writes", &["databases"]),
        ("jumper pins", "The jumper", &["S023", "windows-dual-boot"]),
        ("thin pool chunk", "LVM", &[]),
        // Nothing has both of these words.
        ("ssd lifetime", "SSDs", &[]),
    ] {
        let run = straddle(&["explain", words]);
        assert!(run.code == 0 && run.out.starts_with(best), "{words}: {}{}", run.out, run.err);
        for other in others {
            assert!(run.out.contains(&format!("\n  {other} ")), "{words} lacks {other}: {}", run.out);
        }
        let report = straddle(&["explain", "--json", words]).valid("explain");
        let count = |key: &str| report[key].as_array().unwrap().len();
        assert!(count("rules") + count("topics") + count("faq") > others.len(), "{report}");
    }
    for term in [
        "ssd",
        "nvme",
        "raid",
        "qlc",
        "smr",
        "zoned",
        "zfs",
        "cloud",
        "jumper",
        "hybrid mbr",
        "ldm",
        "dasd",
        "npwg",
        "awupf",
        "multipath",
        "indirection unit",
        "atomic write",
        "wd align",
        "volblocksize",
        "writecache",
        "stripe_cache_size",
    ] {
        let run = straddle(&["explain", term]);
        assert!(run.code == 0 && run.out.contains("\nSources\n"), "{term}: {}{}", run.out, run.err);
    }
}

/// What is pasted may be long: work that grew with the square of its length took minutes here.
#[test]
fn a_long_text_is_explained() {
    let words: Vec<String> = (0..60_000).map(|word| format!("w{word}")).collect();
    let explain =
        |words: &[String]| output(Command::new("timeout").args(["60", STRADDLE, "explain"]).args(words), "");
    let run = explain(&words);
    assert_eq!(run.status.code(), Some(2), "{}", transcript(&run));
    assert!(run.stderr.len() < 400, "{}", run.stderr.len());
    let log = words[..10_000].join(" ");
    let run = explain(&[format!("{log} GPT PMBR size mismatch (131071 != 196607) {log}")]);
    assert!(run.status.success() && transcript(&run).contains("65536 sectors"), "{}", transcript(&run));
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
    assert_eq!(at("63s").json()["apart"]["partial_units"], 2);
    assert_eq!(at("64s").out, at("32KiB").out);
    let drawn = straddle(&["explain", "rmw", "--offset", "63s"]).out;
    assert!(drawn.contains("|.......#|#######.|"), "{drawn}");
    for wrong in ["s", "-1s", "63 sectors", "99999999999999999s"] {
        assert_eq!(at(wrong).code, 2, "{wrong}");
    }
}
