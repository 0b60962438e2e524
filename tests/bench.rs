//! `straddle bench` and `straddle drive`: modelled drives from the command line.
//!
//! Figures of the shipped drives change when they are fitted again. These tests check what must not change:
//! which offset is the cheap one, that the same command prints the same bytes, and that the JSON matches its
//! schema.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tools::skip::cases;
use tools::{json, root, straddle};

/// The names of the shipped profiles.
fn shipped() -> Vec<String> {
    let files = fs::read_dir(root().join("crates/drive/profiles")).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_sweep_names_the_aligned_offset_and_what_the_worst_costs() {
    let run = straddle(&["bench", "random-write", "drive:wd10ears"]);
    let misspelt = straddle(&["bench", "random-write", "wd10eras"]);
    assert!(misspelt.code == 2 && misspelt.err.contains("did you mean wd10ears?"), "{}", misspelt.err);
    let bare = straddle(&["bench", "WD10EARS"]).out;
    assert_eq!(bare.lines().next(), run.out.lines().next(), "the usual workload, and a drive by its name");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let first = tools::flat(&run.out);
    assert!(first.starts_with("Every offset but 0 costs more, up to 3."), "{first}");
    assert!(first.contains(" times as much as offset 0: ") && first.contains(" s instead of "), "{first}");
    for part in
        ["random-write: 1000 4096-byte writes", "seeded with the offset", "Western Digital", "drive:wd10ears"]
    {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(run.out.split_whitespace().collect::<Vec<_>>().join(" ").contains("modelled, virtual time"));
    assert_eq!(run.out.lines().filter(|line| line.contains('█')).count(), 8, "{}", run.out);
    assert!(run.out.lines().all(|line| line.chars().count() <= 110), "{}", run.out);
    assert!(!run.out.contains('\u{1b}'), "a pipe is no terminal");
}

#[test]
fn the_same_command_prints_the_same_bytes() {
    let arguments = ["bench", "random-write", "drive:wd10ears", "--offsets", "0..3", "--json"];
    assert_eq!(straddle(&arguments).out, straddle(&arguments).out);
}

#[test]
fn the_jumper_makes_offset_7_the_aligned_one() {
    for workload in ["random-write", "strided-write"] {
        let arguments = ["bench", workload, "drive:wd10ears,jumper=on", "--count", "2000", "--json"];
        let report = json("bench", &arguments);
        assert_eq!(report["best_offset_sectors"], 7, "{workload}");
        assert_eq!(report["differs"], true);
        let arms = report["arms"].as_array().unwrap();
        let reads = |arm: &Value| arm["counters"]["rmw_reads"].as_u64().unwrap();
        assert_eq!(arms.iter().position(|arm| reads(arm) == 0), Some(7));
    }
}

#[test]
fn json_tells_the_whole_run() {
    let arguments = [
        "bench",
        "random-write",
        "drive:wd10ears",
        "--offsets",
        "0,1,7",
        "--count",
        "500",
        "--sync",
        "flush",
        "--json",
    ];
    let report = json("bench", &arguments);
    assert_eq!((&report["schema"], &report["target"]["clock"]), (&2.into(), &"virtual".into()));
    assert_eq!(report["workload"]["blocks"], 200_000_000);
    let arms = report["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 3);
    for (arm, offset) in arms.iter().zip([0, 1, 7]) {
        assert_eq!((&arm["offset_sectors"], &arm["seed"]), (&offset.into(), &offset.into()));
        assert_eq!((&arm["requests"], &arm["flushes"]), (&500.into(), &500.into()));
        let latency = |key: &str| arm["latency"][key].as_u64().unwrap();
        let steps = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(latency);
        assert!(steps.is_sorted(), "{steps:?}");
    }
    assert_eq!(report["best_offset_sectors"], 0);
}

#[test]
fn every_workload_runs_and_ends_as_it_should() {
    for (workload, stop) in [
        ("random-write", "count"),
        ("strided-write", "count"),
        ("dd", "count"),
        ("random-read", "count"),
        ("sequential-write", "time"),
        ("sequential-read", "time"),
    ] {
        let mut arguments = vec!["bench", workload, "drive:wd10ears", "--offsets", "0", "--json"];
        let limit = if stop == "count" { ["--count", "200"] } else { ["--time", "0.5"] };
        arguments.extend(limit);
        let arm = &json("bench", &arguments)["arms"][0];
        assert_eq!(arm["stop"], stop, "{workload}");
        assert!(arm["requests"].as_u64().unwrap() >= 10, "{workload}: {arm}");
        let flushes = arm["flushes"].as_u64().unwrap();
        match workload {
            "dd" => assert_eq!(flushes, 1),
            "sequential-write" => assert_eq!(flushes, arm["requests"].as_u64().unwrap()),
            _ => assert_eq!(flushes, 0, "{workload}"),
        }
    }
}

/// In MB/s, it would be 0.
#[test]
fn a_slow_rate_has_its_digits() {
    // 512 bytes with a flush each: some 40 a second.
    let slow =
        ["bench", "random-write", "drive:wd10ears", "--size", "512", "--sync", "flush", "--count", "100"];
    // There is room for all columns.
    let wide = |words: &[&str]| {
        let mut command = Command::new(tools::STRADDLE);
        tools::text(&command.args(words).env("COLUMNS", "110").output().unwrap().stdout)
    };
    let heading = |out: &str| out.lines().find(|line| line.contains("OFFSET")).unwrap().to_owned();
    let run = wide(&[&slow[..], &["--offsets", "1"]].concat());
    assert!(heading(&run).contains("KiB/s") && !heading(&run).contains("MB/s"), "{run}");
    let row = run.lines().find(|line| line.starts_with(' ') && line.trim().starts_with("1 ")).unwrap();
    let numbers: Vec<f64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // 512 bytes are half a KiB: the rate is half of the IOPS.
    let is_half = |rate: &&f64| **rate > 1.0 && numbers.iter().any(|iops| (iops / 2.0 - **rate).abs() < 0.1);
    assert!(numbers.iter().any(|rate| is_half(&rate)), "{row}");
    let fast = wide(&["bench", "sequential-read", "drive:wd10ears", "--offsets", "1", "--time", "1"]);
    assert!(heading(&fast).contains("MB/s"), "{fast}");
}

#[test]
fn runs_that_end_after_a_time_are_compared_by_their_requests() {
    let run = straddle(&["bench", "random-write", "drive:wd10ears", "--offsets", "0,1", "--time", "1"]);
    let out = tools::flat(&run.out);
    let sentence = out.split_once(" OFFSET ").unwrap().0;
    assert!(sentence.starts_with("Offset 1 costs "), "{sentence}");
    assert_eq!(sentence.matches(" ms per request").count(), 2, "{sentence}");
}

#[test]
fn what_makes_no_difference_is_called_so() {
    let run = straddle(&["bench", "random-read", "drive:wd10ears"]);
    assert!(run.out.starts_with("No difference between 8 offsets (a difference above "), "{}", run.out);
    let run = straddle(&["bench", "random-read", "drive:wd10ears", "--count", "10", "--offsets", "0,63"]);
    assert!(run.out.starts_with("Inconclusive: run longer (--count; only differences above "), "{}", run.out);
    let run = straddle(&["bench", "random-write", "drive:wd10ears", "--offsets", "8,16,24", "--seed", "5"]);
    assert!(run.out.contains("No difference between 3 offsets"), "{}", run.out);
    assert!(run.out.contains("seed 5"), "{}", run.out);
}

#[test]
fn fewer_blocks_than_asked_for_are_reported() {
    let many = [
        "bench",
        "random-write",
        "drive:wd10ears",
        "--blocks",
        "900000000",
        "--offsets",
        "0",
        "--count",
        "100",
    ];
    let run = straddle(&many);
    let transcript = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(transcript.contains("244190390 of 900000000 blocks fit on the drive"), "{}", run.out);
}

#[test]
fn what_cannot_be_run_is_the_command_lines_fault() {
    let refused = |arguments: &[&str], said: &str| {
        let run = straddle(&[&["bench"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(said), "{arguments:?}: {}", run.err);
        assert_eq!(run.out, "");
    };
    let drive = "drive:wd10ears";
    refused(
        &["random-write", drive, "--used"],
        "--used applies only to real disks and files, not to drive:wd10ears",
    );
    refused(
        &["random-write", "x.img", "--start", "1MiB"],
        "--start applies only to modelled drives, not to x.img",
    );
    refused(
        &["random-write", "/dev/null", "--destroy-data", "/dev/zero"],
        "must repeat the name of the measured device",
    );
    refused(&["random-write"], "<TARGET>");
    refused(&["random-write", "drive:wd10earz"], "did you mean wd10ears?");
    refused(&["random-write", "drive:wd10ears,jumper=off"], "jumper=on");
    refused(
        &["random-write", drive, "--stride", "4096"],
        "--stride applies only to strided-write, not to random-write",
    );
    refused(&["dd", drive, "--seed", "1"], "--seed applies only to random-write and random-read, not to dd");
    refused(
        &["random-read", drive, "--sync", "flush"],
        "--sync applies only to random-write and strided-write",
    );
    refused(&["random-write", drive, "--size", "1000"], "512-byte logical sector");
    refused(&["random-write", drive, "--start", "2TiB"], "ends at byte 1000204886016");
    refused(&["strided-write", drive, "--stride", "1GiB"], "ends at byte 1000204886016");
    refused(&["random-write", drive, "--offsets", "7..0"], "in descending order");
    refused(
        &["random-write", drive, "--offsets", "1152921504606846976"],
        "past the end of any possible target",
    );
    refused(&["sequential-read", drive, "--time", "0"], "seconds");
    refused(&["no-such-workload", drive], "no-such-workload");
}

#[test]
fn charts_are_whole_files_of_their_own() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let bars = path("bars.svg");
    assert_eq!(straddle(&["bench", "random-write", "drive:wd10ears", "--svg", &bars]).code, 0);
    let drawn = fs::read_to_string(bars).unwrap();
    assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"));
    assert_eq!(drawn.matches("</title></rect>").count(), 8);
    assert!(!drawn.contains("NaN") && !drawn.contains("href"));
    let unwritable = path("no/such/folder.svg");
    let run = straddle(&["bench", "random-write", "drive:wd10ears", "--svg", &unwritable]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("cannot write"), "{}", run.err);
}

#[test]
fn the_list_has_every_shipped_drive_and_each_can_be_shown() {
    let names = shipped();
    let list = straddle(&["drive", "list"]).out;
    let report = json("drive", &["drive", "list", "--json"]);
    let listed: Vec<&str> =
        report["drives"].as_array().unwrap().iter().map(|drive| drive["name"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
    for name in &names {
        assert!(list.lines().any(|line| line.starts_with(&format!(" {name} "))), "{list}");
        let shown = straddle(&["drive", "show", name]);
        assert_eq!(shown.code, 0, "{}", shown.err);
        assert!(shown.out.starts_with(&format!("{name}: ")), "{}", shown.out);
        assert!(!shown.out.contains("\\u{"), "our own drawing is escaped: {}", shown.out);
        assert!(shown.out.contains("CLAIMS") && shown.out.contains("TRUTH") && shown.out.contains("SOURCE"));
        let report = json("drive", &["drive", "show", name, "--json"]);
        let drive = &report["drives"][0];
        let figures = drive["figures"].as_array().unwrap();
        assert!(
            figures.iter().all(|figure| figure["source"].is_string()),
            "{name}: a number without a source"
        );
        for option in drive["variants"].as_array().unwrap() {
            let with = format!("{name},{}", option.as_str().unwrap());
            assert_eq!(straddle(&["drive", "show", &with]).code, 0, "{with}");
        }
    }
}

#[test]
fn a_drive_that_misreports_is_shown_as_one() {
    let plain = straddle(&["drive", "show", "wd10ears"]).out;
    let wrong: Vec<&str> = plain.lines().filter(|line| line.ends_with("<-- misreported")).collect();
    assert_eq!(wrong.len(), 1, "{plain}");
    assert!(wrong[0].contains("physical sector") && wrong[0].contains("512 B") && wrong[0].contains("4 KiB"));
    let jumper = straddle(&["drive", "show", "drive:wd10ears,jumper=on"]).out;
    assert!(jumper.lines().any(|line| line.contains("byte 0") && line.contains("byte 3584")), "{jumper}");
    assert!(plain.contains("seek.average_ms") && plain.contains("spindle.rpm"), "{plain}");
}

#[test]
fn own_profiles_are_read_by_path_and_their_faults_are_reported() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let own = write("own.toml", "base = \"wd10ears\"\nname = \"own\"\ntitle = \"My drive\"\n");
    assert!(straddle(&["drive", "show", &own]).out.starts_with("own: My drive\n"));
    let run =
        straddle(&["bench", "random-write", &format!("drive:{own}"), "--offsets", "0,1", "--count", "50"]);
    assert!(run.out.contains("My drive"), "{}{}", run.out, run.err);
    let broken = write("broken.toml", "name = \"broken\"\ntitle = [\n");
    for arguments in
        [["drive", "show", &broken], ["drive", "show", "/no/such/drive.toml"], ["drive", "show", "wd10earz"]]
    {
        let run = straddle(&arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.err);
        let expected = format!("error: invalid value '{}' for '<NAME>': ", arguments[2]);
        assert!(run.err.starts_with(&expected), "{}", run.err);
    }
    let unclosed = straddle(&["bench", "random-write", &format!("drive:{broken}")]);
    assert!(unclosed.code == 2 && unclosed.err.contains("line 2"), "{}", unclosed.err);
}

#[test]
fn completions_offer_the_shipped_drives() {
    for shell in ["bash", "fish", "zsh"] {
        let script = straddle(&["completions", shell]).out;
        for name in shipped() {
            assert!(script.contains(&name), "{shell} lacks {name}");
        }
    }
}

#[test]
fn the_pages_of_drive_know_every_option() {
    let page = straddle(&["man", "drive-show"]);
    assert_eq!(page.code, 0, "{}", page.err);
    assert!(page.out.contains("\\-\\-json"), "{}", page.out);
}

#[test]
fn warm_up_runs_are_shown_and_do_not_count() {
    let arguments = ["bench", "random-read", "drive:wd10ears", "--offsets", "0,1", "--count", "50"];
    let of = |warmup: &str| json("bench", &[&arguments[..], &["--warmup", warmup, "--json"]].concat());
    let (cold, warm) = (of("0"), of("2"));
    assert_eq!((&cold["warmups"], &warm["warmups"]), (&Value::from(0), &Value::from(2)));
    for place in 0..2 {
        let (cold, warm) = (&cold["arms"][place], &warm["arms"][place]);
        assert_eq!((&cold["requests"], &warm["requests"]), (&Value::from(50), &Value::from(50)));
        // The drive has done something before: its heads and its cache are not those of a new drive.
        assert_ne!(cold["elapsed_ns"], warm["elapsed_ns"]);
    }
    let text = straddle(&[&arguments[..], &["--warmup", "2"]].concat()).out;
    assert!(text.contains("Measured after 2 warm-up runs at each offset."), "{text}");
    assert!(!straddle(&arguments).out.contains("warm"));

    let dir = TempDir::new().unwrap();
    let file = dir.path().join("scratch");
    let on_file = |more: &[&str]| {
        let target = file.to_str().unwrap();
        let all = ["bench", "random-write", target, "--offsets", "0,1", "--io", "buffered", "--area", "8M"];
        let journals = dir.path().join("journals");
        let rest = ["--count", "20", "--runtime", "0.001", "--warmup", "1", "--journals"];
        straddle(&[&all[..], &rest, &[journals.to_str().unwrap()], more].concat())
    };
    // One round that counts, however short the time: the warm-up does not use it up.
    let text = on_file(&[]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("After 1 warm-up round: 1 round with two turns of 20 requests"), "{text}");
    let report: Value = serde_json::from_str(&on_file(&["--json"]).out).unwrap();
    assert_eq!((&report["warmups"], &report["turns"]["rounds"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(report["arms"][0]["requests"], 40);
}

/// The units that a write at `offset` changes, and with them the wear, are arithmetic; `check` and `report` say what
/// `bench` says in the steady state, and `probe` what it says before.
#[test]
fn on_an_ssd_every_command_has_the_same_answer() {
    let dir = TempDir::new().unwrap();
    let drives = [("qlc-16k", 16_384_u64), ("qlc-64k", 65_536), ("ssd-sata-4k", 4096)];
    for (name, unit) in cases(drives.into_iter(), 3) {
        let target = format!("drive:{name}");
        let swept_on = |target: &str, more: &[&str]| {
            json("bench", &[&["bench", "random-write", target, "--offsets", "0,63", "--json"], more].concat())
        };
        let swept = |more: &[&str]| swept_on(&target, more);
        let report = swept(&[]);
        assert_eq!((&report["workload"]["size_bytes"], &report["differs"]), (&unit.into(), &true.into()));
        let number = |of: &Value| of.as_f64().unwrap();
        for (arm, units) in report["arms"].as_array().unwrap().iter().zip([1.0, 2.0]) {
            assert_eq!(arm["reached"]["state"], "steady", "{name}");
            let wear = number(&arm["write_amplification"]);
            assert!((wear / units - 1.0).abs() < 0.03, "{name}: {wear}");
        }
        let time = number(&report["arms"][1]["ratio"]);
        assert!(time > 1.8, "{name}: {time}");
        let alike = |other: f64, what: &str, within: f64| {
            assert!((other / time - 1.0).abs() < within, "{name}, {what}: {other}, not {time}");
        };
        let said = swept(&["--size", &unit.to_string(), "--queue-depth", "32", "--count", "20000"]);
        alike(number(&said["arms"][1]["ratio"]), "fewer writes", 0.1);

        let image = dir.path().join(format!("{name}.img"));
        let mut bytes = vec![0_u8; 64 << 20];
        bytes[446 + 4] = 0x83;
        bytes[446 + 8..446 + 12].copy_from_slice(&63_u32.to_le_bytes());
        bytes[446 + 12..446 + 16].copy_from_slice(&40_000_u32.to_le_bytes());
        bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
        fs::write(&image, bytes).unwrap();
        let image = image.to_str().unwrap();
        let audit = straddle(&["check", "--json", "--cost", &target, image]).valid("check");
        let cost = &audit["targets"][0]["findings"][0]["cost"];
        assert_eq!((&cost["size_bytes"], cost.get("sequential_write_ratio")), (&unit.into(), None));
        let steady = number(&swept_on(&format!("{target},steady=on"), &[])["arms"][1]["ratio"]);
        let ratio = number(&cost["random_write_ratio"]);
        assert!((ratio / steady - 1.0).abs() < 0.02, "{name}: {ratio}, not {steady}");
        assert!((number(&cost["wear_ratio"]) - 2.0).abs() < 0.05, "{cost}");

        let file = dir.path().join("audit.json");
        fs::write(&file, audit.to_string()).unwrap();
        let fleet = straddle(&["report", "--json", file.to_str().unwrap()]).valid("report");
        let worst = &fleet["costs"][0];
        assert_eq!(worst["worst_random_write_ratio"], cost["random_write_ratio"]);
        assert_eq!(worst["worst_wear_ratio"], cost["wear_ratio"]);

        let saved = dir.path().join("probe.json");
        let saved = saved.to_str().unwrap();
        assert_eq!(straddle(&["probe", &target, "--save", saved]).code, 0);
        let audit = straddle(&["check", "--json", "--cost", saved, image]).valid("check");
        let cost = &audit["targets"][0]["findings"][0]["cost"];
        assert_eq!((&cost["source"], &cost["wear_ratio"]), (&"measured".into(), &2.0.into()));
        alike(number(&cost["random_write_ratio"]), "probe", 0.15);
        fs::remove_file(saved).unwrap();
    }
}

#[test]
fn a_run_that_stays_in_the_buffer_is_no_verdict_on_the_medium() {
    let said = |more: &[&str]| {
        let run =
            straddle(&[&["bench", "random-write", "drive:qlc-16k", "--offsets", "0,63"], more].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        run.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for cold in [&["--size", "4096", "--queue-depth", "1"][..], &["--size", "512"], &[]] {
        let text = said(&[cold, &["--count", "1000", "--warmup", "0"]].concat());
        assert!(
            text.contains("Inconclusive: the drive's buffer absorbed the writes at offsets 0 and 63."),
            "{text}"
        );
        assert!(!text.contains("No difference") && !text.contains(" costs "), "{text}");
    }
    // The host is slower than flash: no difference in time is none in wear.
    let text = said(&["--queue-depth", "1"]);
    assert!(
        text.contains("Wear: at offset 63, 2.00 times as many bytes are written to flash as at offset 0"),
        "{text}"
    );
    let text = said(&["--count", "20000", "--warmup", "0"]);
    assert!(text.contains("Not a steady state"), "{text}");
    let text = said(&[]);
    assert!(
        text.contains(
            "The drive was fresh: no flash was garbage-collected. For the cost of long random writes"
        ),
        "{text}"
    );
    assert!(text.contains("fill the drive's buffer"), "{text}");
    // A disk says nothing of wear.
    let disk = straddle(&["bench", "random-write", "drive:wd10ears", "--offsets", "0,1"]).out;
    assert!(!disk.contains("Wear") && !disk.contains("steady"), "{disk}");
}

/// An image is checked for the drive whose costs are shown, unless another one is assumed.
#[test]
fn images_are_checked_for_the_priced_drive() {
    if !tools::present(&["sfdisk"]) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let [aligned, off] = [2048, 2056].map(|start| {
        let image = dir.path().join(format!("{start}.img"));
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        tools::write_table(&image, 512, &format!("label: gpt\nstart={start}\n"));
        image.to_str().unwrap().to_owned()
    });
    let one = straddle(&["check", "--cost", "qlc-16k", &aligned]);
    assert!(one.err.contains("no finding has a cost"), "{}", one.err);
    let priced = straddle(&["check", "--cost", "qlc-16k", &off]);
    assert_eq!(priced.code, 1);
    assert!(
        tools::flat(&priced.out).contains("on qlc-16k: random 16 KiB writes write 2.00 times"),
        "{}",
        priced.out
    );
    let assumed = straddle(&["check", "--cost", "qlc-16k", "--assume", "512e", &aligned, &off]);
    assert!(assumed.err.contains("use --assume DRIVE"), "{}", assumed.err);
}
