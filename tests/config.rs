//! `.straddle.toml`: what `check` ignores and why, and defaults of its options.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::{Value, json};
use tools::{Dir, flat, list, output, present, run, straddle_in, text, transcript, word};

/// Two misaligned starts.
const STARTS: [u32; 2] = [63, 8063];

/// Ignores both starts in `*.img`, for two reasons.
const BOTH: &str = "\
[[ignore]]
rule = \"S001\"
target = \"*.img\"
partition = 1
reason = \"the boot loader <needs> it, \\\"legacy\\\"\"

[[ignore]]
rule = \"s001\"
partition = 2
reason = \"read-only data\"
";

/// The codes of a misaligned start from sector 63, all on partitions 1 and 2, as `--only` takes them.
const ONLY: [&str; 2] = ["--only", "S001"];

/// A folder with `disk.img`, an MBR disk with two misaligned partitions, and `config` as `.straddle.toml`.
fn folder(config: &str) -> Dir {
    let dir = Dir::new("config");
    let image = dir.image("disk.img", 64 << 20);
    let mut mbr = [0_u8; 512];
    for (index, start) in STARTS.into_iter().enumerate() {
        let entry = &mut mbr[446 + 16 * index..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&start.to_le_bytes());
        entry[12..].copy_from_slice(&8000_u32.to_le_bytes());
    }
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    fs::File::options().write(true).open(image).unwrap().write_all_at(&mbr, 0).unwrap();
    fs::write(dir.join(".straddle.toml"), config).unwrap();
    dir
}

/// The exit status, stdout and stderr of `straddle` with `words` in `dir`.
fn ran(dir: &Dir, words: &[&str]) -> (i32, String, String) {
    let out = straddle_in(dir, words);
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

/// `check disk.img` with `words` and only the findings of misaligned starts.
fn checked(dir: &Dir, words: &[&str]) -> (i32, String, String) {
    ran(dir, &[&["check", "disk.img"][..], &ONLY, words].concat())
}

#[test]
fn what_is_ignored_does_not_count_and_is_shown() {
    let dir = folder(BOTH);
    let (code, shown, complaints) = checked(&dir, &[]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    let lines = [
        "ignored: S001 partition 1: the boot loader <needs> it, \"legacy\" (.straddle.toml:1)",
        "ignored: S001 partition 2: read-only data (.straddle.toml:7)",
    ];
    assert!(lines.iter().all(|line| flat(&shown).contains(line)), "{shown}");
    assert!(shown.contains("  nothing to report"), "{shown}");
    // The verdict on what is there stays.
    assert!(shown.contains("3584 bytes past a physical sector (S001)"), "{shown}");
    assert_eq!(checked(&dir, &["--quiet"]).1, "");
    assert_eq!(checked(&dir, &["--quiet", "--no-config"]).0, 1);
    let (code, drawn, _) = ran(&dir, &["map", "disk.img", "--only", "S001"]);
    assert!(code == 0 && drawn.contains(lines[1]), "{code}: {drawn}");
}

#[test]
fn the_rest_counts_as_before() {
    let dir = folder(BOTH.split_once("\n\n").unwrap().0);
    let (code, shown, _) = checked(&dir, &[]);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("Fix: ") && flat(&shown).contains("ignored: S001 partition 1"), "{shown}");
    // An exception for other names is for no target of this run.
    fs::rename(dir.join("disk.img"), dir.join("disk.raw")).unwrap();
    let (code, shown, complaints) = ran(&dir, &["check", "--verbose", "disk.raw", "--only", "S001"]);
    assert!(code == 1 && shown.contains("error S001 partition 1"), "{shown}");
    assert_eq!(complaints, "");
}

#[test]
fn json_has_the_finding_and_its_reason() {
    let dir = folder(BOTH);
    let (code, shown, _) = ran(&dir, &["check", "--json", "disk.img"]);
    let report: Value = serde_json::from_str(&shown).unwrap();
    tools::valid(&report, "check");
    let target = &report["targets"][0];
    let ignored = list(target, "ignored");
    let row = |one: &Value| [word(one, "code"), word(one, "source"), word(one, "reason")].join("|");
    assert_eq!(
        ignored.iter().map(row).collect::<Vec<_>>(),
        [
            "S001|.straddle.toml:1|the boot loader <needs> it, \"legacy\"",
            "S001|.straddle.toml:7|read-only data"
        ]
    );
    assert!(list(target, "findings").iter().all(|finding| finding["code"] != "S001"), "{target}");
    assert_eq!(list(target, "partitions")[0]["verdict"], "misaligned");
    // What is left is advice on the old start.
    assert_eq!((code, &target["status"]), (0, &json!("advice")), "{target}");
    let (_, shown, _) = ran(&dir, &["check", "--json", "--no-config", "disk.img"]);
    assert!(!shown.contains("\"ignored\""), "{shown}");
}

#[test]
fn every_report_has_the_reason() {
    let dir = folder(BOTH);
    let report = |format: &str| {
        let (code, report, complaints) = checked(&dir, &["--output-format", format]);
        assert_eq!((code, complaints.as_str()), (0, ""), "{report}");
        report
    };
    let sarif: Value = serde_json::from_str(&report("sarif")).unwrap();
    let typed: serde_sarif::sarif::Sarif = serde_json::from_value(sarif.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), sarif);
    let results = list(&sarif["runs"][0], "results");
    assert_eq!(results.len(), 2);
    let suppression = &results[1]["suppressions"][0];
    assert_eq!(suppression["justification"], "read-only data (.straddle.toml:7)");
    assert_eq!(suppression["status"], "accepted");
    let github = report("github");
    let notices = github.lines().filter(|line| line.starts_with("::notice title=ignored%3A S001 partition "));
    assert_eq!((notices.count(), github.lines().count()), (2, 2), "{github}");
    let csv = report("csv");
    assert!(csv.lines().any(|line| line.ends_with(",read-only data (.straddle.toml:7)")), "{csv}");
    let metrics = report("prometheus");
    let sample = "straddle_ignored_findings{target=\"disk.img\",partition=\"2\",code=\"S001\"} 1\n";
    assert!(metrics.contains(sample) && !metrics.contains("straddle_findings{"), "{metrics}");
    let junit = report("junit");
    assert!(junit.contains("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"2\""), "{junit}");
    if present(&["xmllint"]) {
        fs::write(dir.join("report"), &junit).unwrap();
        let path = "string(//testcase[@name='S001 partition 1']/skipped/@message)";
        let message = run(Command::new("xmllint").args(["--xpath", path, "report"]).current_dir(&dir), "");
        assert_eq!(message.trim_end(), "the boot loader <needs> it, \"legacy\" (.straddle.toml:1)");
    }
}

#[test]
fn many_places_of_one_reason_are_one_line() {
    let config = "[[ignore]]\nrule = \"S001\"\nreason = \"old\"\n";
    let dir = folder(config);
    let (code, shown, _) = checked(&dir, &[]);
    assert!(code == 0 && shown.contains("ignored: S001 partition 1, partition 2: old"), "{shown}");
    if !present(&["sfdisk"]) {
        return;
    }
    let rows: String = (0..9).map(|n| format!("start={}, size=1000\n", 63 + n * 2000)).collect();
    let script = format!("label: gpt\nfirst-lba: 34\n{rows}");
    tools::write_table(&dir.join("disk.img"), 512, &script);
    let (code, shown, _) = checked(&dir, &[]);
    assert!(code == 0 && flat(&shown).contains("partition 6, 3 more: old (.straddle.toml:1)"), "{shown}");
    let shown = flat(&checked(&dir, &["--verbose"]).1);
    assert!(shown.contains("partition 8, partition 9: old (.straddle.toml:1)"), "{shown}");
}

#[test]
fn defaults_are_for_what_the_command_line_leaves_out() {
    let dir = folder("assume = \"512n\"\nfail-on = \"advice\"\npage = \"16KiB\"\n");
    let (code, shown, _) = checked(&dir, &[]);
    assert!(code == 0 && shown.contains("512n"), "{shown}");
    let codes = |words: &[&str]| {
        let (code, shown, _) = ran(&dir, &[&["check", "--json", "disk.img"], words].concat());
        let report: Value = serde_json::from_str(&shown).unwrap();
        let found =
            list(&report["targets"][0], "findings").iter().map(|f| word(f, "code")).collect::<Vec<_>>();
        (code, found)
    };
    let (code, found) = codes(&[]);
    assert!(code == 1 && !found.contains(&"S001".to_owned()), "{found:?}");
    // Advice only.
    assert_eq!(codes(&["--fail-on", "warning", "--only", "S008"]).0, 0);
    assert_eq!(codes(&["--only", "S008"]).0, 1);
    assert!(codes(&["--assume", "512e"]).1.contains(&"S001".to_owned()));
    for (on, statuses) in [("warning", [0, 1]), ("error, blank", [1, 1]), ("blank", [1, 1])] {
        let dir = folder(&format!("fail-on = \"{on}\"\n"));
        dir.image("blank.img", 1 << 20);
        let found = ["blank.img", "disk.img"].map(|name| ran(&dir, &["check", name]).0);
        assert_eq!(found, statuses, "{on}");
    }
}

/// Disks of one array may have different sectors.
#[test]
fn a_topology_can_be_that_of_one_target() {
    let dir = folder("assume = \"512n\"\n");
    fs::copy(dir.join("disk.img"), dir.join("a=b.img")).unwrap();
    let physical = |words: &[&str]| {
        let (_, shown, _) = ran(&dir, &[&["check", "--json", "disk.img", "a=b.img"], words].concat());
        let report: Value = serde_json::from_str(&shown).unwrap();
        let of = |target: &Value| target["device"]["physical_sector_bytes"]["value"].as_u64().unwrap();
        list(&report, "targets").iter().map(of).collect::<Vec<_>>()
    };
    for (words, expected) in [
        (&[][..], [512, 512]),
        (&["--assume", "512e"], [4096, 4096]),
        (&["--assume", "disk.img=512e"], [4096, 512]),
        (&["--assume", "a=b.img=physical=8192"], [512, 8192]),
        (&["--assume", "a=b.img=physical=8192", "--assume", "512e"], [4096, 8192]),
        (&["--assume", "disk.img=physical=8192", "--assume", "a=b.img=512e"], [8192, 4096]),
    ] {
        assert_eq!(physical(words), expected, "{words:?}");
    }
    for (words, why) in [
        (&["--assume", "512e", "--assume", "4kn"][..], "more than one topology that applies to all"),
        (&["--assume", "disk.img=512e", "--assume", "disk.img=4kn"], "more than one topology for disk.img"),
        (&["--assume", "other.img=512e"], "other.img, which is not one of the targets"),
        (&["--assume", "disk.img=512z"], "disk.img=512z"),
    ] {
        let (code, _, complaints) = ran(&dir, &[&["check", "disk.img", "a=b.img"], words].concat());
        assert!(code == 2 && complaints.contains(why), "{words:?}: {code}: {complaints}");
    }
}

#[test]
fn another_file_is_read_if_it_is_named() {
    let dir = folder("not TOML");
    fs::create_dir(dir.join("ci")).unwrap();
    fs::write(dir.join("ci/ignored.toml"), BOTH).unwrap();
    let (code, shown, complaints) = checked(&dir, &["--config", "ci/ignored.toml"]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{shown}");
    assert!(shown.contains("(ci/ignored.toml:7)"), "{shown}");
    let piped = output(
        Command::new("bash")
            .args([
                "-c",
                "\"$0\" check disk.img --only S001 --config <(cat ci/ignored.toml)",
                tools::STRADDLE,
            ])
            .current_dir(&dir),
        "",
    );
    assert_eq!(piped.status.code(), Some(0), "{}", transcript(&piped));
    for words in [&["--config", "missing.toml"][..], &["--config", "ci/ignored.toml", "--no-config"]] {
        let (code, shown, _) = checked(&dir, words);
        assert_eq!((code, shown.as_str()), (2, ""), "{words:?}");
    }
}

#[test]
fn a_mistake_is_named_with_its_line() {
    let entry = |lines: &str| format!("\n[[ignore]]\n{lines}\n");
    let right = "rule = \"S001\"\nreason = \"why\"";
    let cases = [
        (entry(&format!("{right}\npartitoin = 2")), 5, "unknown field `partitoin`"),
        ("asume = \"4kn\"\n".to_owned(), 1, "unknown field `asume`"),
        (entry("reason = \"why\"\nrule = \"S999\""), 4, "no rule has the code 'S999'"),
        (entry("rule = \"S001\"\nreason = \"  \""), 4, "the reason must not be empty"),
        (entry("rule = \"S001\""), 2, "missing field `reason`"),
        (entry("reason = \"why\""), 2, "missing field `rule`"),
        (entry(&format!("{right}\ntarget = \"a[.img\"")), 5, "the pattern 'a[.img' is not valid"),
        (entry(&format!("{right}\npartition = 0")), 5, "a partition number must be at least 1"),
        (entry(&format!("{right}\npartition = -1")), 5, "invalid value"),
        (entry("rule = \"S047\"\nreason = \"why\""), 3, "S047 cannot be ignored, because an unfinished move"),
        (entry("rule = \"S081\"\nreason = \"why\""), 3, "S081 cannot be ignored"),
        ("\n\npage = \"3000\"\n".to_owned(), 3, "a database page cannot be 3000 bytes"),
        ("fail-on = \"never\"\n".to_owned(), 1, "fail-on must be \"advice\", \"warning\" or \"error\""),
        ("assume = \"physical=3000\"\n".to_owned(), 1, "physical"),
        ("ignore = \n".to_owned(), 1, ""),
    ];
    for (config, line, what) in cases {
        let dir = folder(&config);
        let (code, shown, complaints) = checked(&dir, &[]);
        assert_eq!((code, shown.as_str()), (2, ""), "{config}");
        let beginning = format!("straddle: .straddle.toml:{line}: ");
        assert!(complaints.starts_with(&beginning) && complaints.contains(what), "{config}: {complaints}");
    }
    // Escapes from a file do not reach the terminal, and a file without an end is not read.
    let dir = folder("\"\\u001b[2J\" = 1\n");
    let (code, _, complaints) = checked(&dir, &[]);
    assert!(code == 2 && !complaints.contains('\u{1b}'), "{complaints:?}");
    let (code, _, complaints) = checked(&dir, &["--config", "/dev/zero"]);
    assert!(
        code == 2 && complaints.contains("the file is larger than the limit of 1048576 bytes"),
        "{complaints}"
    );
}

/// A folder that somebody else has made is not to show what is outside of it, nor to keep `check` waiting.
#[test]
fn a_file_that_is_not_named_leads_nowhere_else() {
    let dir = folder("");
    fs::write(dir.join("mine.toml"), "base = \"wd10ears\"\nname = \"mine\"\n").unwrap();
    let outside = Dir::new("config-outside");
    fs::write(outside.join("secret.toml"), "TOKEN: hunter2\n").unwrap();
    fs::write(outside.join("other.toml"), "base = \"wd10ears\"\n").unwrap();
    let path = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(path("secret.toml"), dir.join("link.toml")).unwrap();
    let assumed =
        |drive: &str| fs::write(dir.join(".straddle.toml"), format!("assume = \"drive:{drive}\"\n")).unwrap();
    assumed("./mine.toml");
    assert_eq!(checked(&dir, &[]).0, 1, "{}", checked(&dir, &[]).2);
    for drive in
        [&path("secret.toml"), &path("other.toml"), "./link.toml", "/proc/self/environ", "/proc/kmsg"]
    {
        assumed(drive);
        let (code, out, err) = checked(&dir, &[]);
        assert!(code == 2 && !(out + &err).contains("hunter2") && !err.contains("PATH="), "{drive}: {err}");
    }
    // Nor is the file itself a link, which could show a part of what it leads to, or a pipe, which could keep
    // it waiting.
    let file = dir.join(".straddle.toml");
    for leads in ["mine.toml", &path("secret.toml"), "/proc/kmsg", "nowhere"] {
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(leads, &file).unwrap();
        let (code, out, err) = checked(&dir, &[]);
        assert!(code == 2 && err.contains("--config") && !(out + &err).contains("hunter2"), "{leads}: {err}");
    }
    fs::remove_file(&file).unwrap();
    tools::shell("mkfifo .straddle.toml", dir.path());
    assert_eq!(checked(&dir, &[]).0, 1);
    fs::remove_file(&file).unwrap();
    // What the user names is read.
    assumed(&path("other.toml"));
    assert_eq!(checked(&dir, &["--config", ".straddle.toml"]).0, 1);
}
