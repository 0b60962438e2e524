//! `straddle probe` from the command line, and how `check` uses its result.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tools::{Dir, STRADDLE, flat, json, straddle};

#[test]
fn a_lying_drive_with_its_jumper_is_seen_through() {
    let report = json("probe", &["probe", "drive:wd10ears,jumper=on", "--json"]);
    assert_eq!(report["unit"]["value"], serde_json::json!({"size_bytes": 4096, "phase_bytes": 3584}));
    assert_eq!(report["claims"]["unit_bytes"], 512);
    assert_eq!(report["misreports"], true);
    assert_eq!(report["write_cache"]["value"], "volatile");
    assert!(report["written_bytes"].as_u64().unwrap() <= 64 << 20);
    let text = straddle(&["probe", "drive:wd10ears,jumper=on"]);
    assert_eq!(text.code, 0);
    assert!(!text.out.contains("\\u{"), "our own drawing is escaped: {}", text.out);
    let verdict = "MISREPORTS: the drive claims 512-byte physical sectors, but they are 4096 bytes long; the \
                   first is at byte 3584. Align partitions to multiples of 4096 bytes plus 3584 (first \
                   aligned LBA: 7). A start at 1 MiB is misaligned, and a start at 512-byte sector 63 is \
                   aligned.";
    assert!(flat(&text.out).starts_with(verdict) && text.out.contains("5400 rpm"), "{}", text.out);
    assert!(text.out.lines().count() <= 18, "more than a screen: {}", text.out);
    let verbose = straddle(&["probe", "drive:wd10ears,jumper=on", "--verbose"]);
    assert!(
        verbose.out.contains("Median time of durable") && verbose.out.lines().count() <= 40,
        "{}",
        verbose.out
    );
}

#[test]
fn the_same_seed_prints_the_same_and_another_finds_the_same() {
    let run = |seed: &str| straddle(&["probe", "drive:wd20ears", "--seed", seed, "--json"]).out;
    assert_eq!(run("7"), run("7"));
    let unit = |text: &str| serde_json::from_str::<Value>(text).unwrap()["unit"]["value"].clone();
    let (one, other) = (run("7"), run("8"));
    assert_ne!(one, other);
    assert_eq!(unit(&one), unit(&other));
}

#[test]
fn what_was_measured_is_used_by_check() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("wd.json");
    let name = file.to_str().unwrap();
    assert_eq!(straddle(&["probe", "drive:wd10ears,jumper=on", "--save", name]).code, 0);
    let checked = straddle(&["check", "--measured", name, "--json", "drive:640gb-512n"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    assert!(checked.out.contains("measured"), "{}", checked.out);
    assert_eq!(report["targets"][0]["device"]["physical_sector_bytes"]["value"], 4096, "{}", checked.out);
    assert_eq!(straddle(&["check", "--measured", name, "--assume", "512n", "drive:wd10ears"]).code, 2);
    for bad in [
        "",
        "{",
        "{\"schema\":1}",
        "{\"schema\":9,\"target\":\"x\",\"logical\":512,\"unit\":4096,\"phase\":0,\"rotates\":true}",
    ] {
        fs::write(&file, bad).unwrap();
        let run = straddle(&["check", "--measured", name, "drive:wd10ears"]);
        assert_eq!(run.code, 2, "{bad}: {}", run.err);
        assert!(run.err.contains("wd.json"), "{}", run.err);
    }
    fs::write(
        &file,
        "{\"schema\":1,\"target\":\"x\",\"logical\":512,\"unit\":4095,\"phase\":0,\"rotates\":true}",
    )
    .unwrap();
    assert_eq!(straddle(&["check", "--measured", name, "drive:wd10ears"]).code, 2);
}

/// A 64 MiB image whose MBR has one partition.
fn image(dir: &TempDir, start: u32) -> String {
    let mut bytes = vec![0_u8; 64 << 20];
    bytes[446 + 4] = 0x83;
    bytes[446 + 8..446 + 12].copy_from_slice(&start.to_le_bytes());
    bytes[446 + 12..446 + 16].copy_from_slice(&40_000_u32.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    let path = dir.path().join(format!("{start}.img"));
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn check_tells_what_a_missed_boundary_costs() {
    let dir = TempDir::new().unwrap();
    let (off, on) = (image(&dir, 2049), image(&dir, 2048));
    let costs = |cost: &str, image: &str| -> Vec<Value> {
        let run = straddle(&["check", "--json", "--cost", cost, image]);
        let value = run.valid("check");
        let findings = value["targets"][0]["findings"].as_array().unwrap().clone();
        findings.into_iter().map(|finding| finding["cost"].clone()).filter(|cost| !cost.is_null()).collect()
    };
    let modelled = costs("drive:wd10ears", &off);
    assert_eq!(modelled.len(), 1, "{modelled:?}");
    assert_eq!(modelled[0]["source"], "modelled");
    assert_eq!(modelled[0]["past_bytes"], 512);
    for workload in ["random_write_ratio", "sequential_write_ratio"] {
        let ratio = modelled[0][workload].as_f64().unwrap();
        assert!((2.5..3.5).contains(&ratio), "{workload}: {ratio}");
    }
    assert!(costs("drive:wd10ears", &on).is_empty());
    // With the jumper, sector 63 is on a boundary, and 2048 is not.
    assert!(costs("drive:wd10ears,jumper=on", &image(&dir, 63)).is_empty());
    assert_eq!(costs("drive:wd10ears,jumper=on", &on)[0]["past_bytes"], 512);
    let file = dir.path().join("wd.json");
    let name = file.to_str().unwrap();
    assert_eq!(straddle(&["probe", "drive:wd10ears", "--save", name]).code, 0);
    let measured = costs(name, &off);
    assert_eq!(measured[0]["source"], "measured");
    assert!(measured[0]["random_write_ratio"].as_f64().unwrap() > 2.0, "{measured:?}");
    let text = flat(&straddle(&["check", "--cost", "drive:wd10ears", &off]).out);
    assert!(text.contains("on wd10ears: random 4 KiB writes take") && text.contains("(modelled)"));
    assert_eq!(straddle(&["check", "--cost", "drive:nope", &off]).code, 2);
    fs::write(&file, "{}").unwrap();
    assert_eq!(straddle(&["check", "--cost", name, &off]).code, 2);
}

#[test]
fn a_budget_that_is_too_small_is_said_to_be() {
    let report = json("probe", &["probe", "drive:640gb-512n", "--max-write", "1MiB", "--json"]);
    assert!(report["unit"].get("value").is_none());
    assert!(report["unit"]["why"].as_str().unwrap().contains("the limit on bytes written was reached"));
    let report = json("probe", &["probe", "drive:640gb-512n", "--time", "1", "--json"]);
    assert!(report["unit"].get("value").is_none());
}

#[test]
fn what_cannot_be_probed_is_a_usage_error() {
    for (target, code) in [("/dev/null", 3), ("image.raw", 3), ("drive:no-such-drive", 2), ("", 2)] {
        let run = straddle(&["probe", target]);
        assert_eq!(run.code, code, "{target}: {}", run.err);
    }
    assert_eq!(straddle(&["probe", "drive:wd10ears", "--used"]).code, 2);
    assert_eq!(straddle(&["probe", "drive:wd10ears", "--max-write", "0"]).code, 2);
    assert_eq!(straddle(&["probe", "drive:wd10ears", "--time", "never"]).code, 2);
}

/// In a guest in virtual time: the same probe on a kernel's block device, which is a modelled drive with
/// false claims.
#[test]
fn in_a_guest_the_drive_is_found_and_not_its_claim() {
    if !tools::present(&["linux.uml", "sfdisk"]) {
        return;
    }
    let dir = tools::Dir::new("probe-guest");
    crate::tools::copy_program(env!("CARGO_BIN_EXE_straddle"), dir.join("straddle"));
    let script = "
        sfdisk -q /dev/vda <<< $'label: gpt\\nstart=2048, size=20480'
        head -c 10M /dev/urandom > /dev/vda1
        before=$(sha256sum < /dev/vda1)
        \"$INPUT/straddle\" probe /dev/vda --json
        [ \"$before\" = \"$(sha256sum < /dev/vda1)\" ] || exit 90
    ";
    let drives =
        [("wd10ears,jumper=on", 4096, 3584, 512), ("wd10ears", 4096, 0, 512), ("qlc-64k", 65536, 0, 4096)];
    for (drive, unit, phase, claimed) in tools::skip::cases(drives.into_iter(), 2) {
        let mut lab = std::process::Command::new(env!("CARGO_BIN_EXE_straddle"));
        lab.args(["lab", "--drive", drive, "--mem", "3GiB", "--input"]).arg(dir.path()).args(["--", script]);
        let output = lab.stdin(std::process::Stdio::null()).output().unwrap();
        let transcript = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{drive}: {transcript}");
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{drive}: {e}: {transcript}"));
        let found =
            (report["unit"]["value"]["size_bytes"].as_u64(), report["unit"]["value"]["phase_bytes"].as_u64());
        assert_eq!(found, (Some(unit), Some(phase)), "{drive}: {report:#}");
        assert_eq!(report["claims"]["unit_bytes"].as_u64(), Some(claimed), "{drive}: {report:#}");
    }
}

#[test]
fn what_is_too_small_or_too_full_is_refused_with_its_own_figures() {
    let dir = Dir::new("small");
    for size in [0_u64, 512, 1 << 20, (2 << 20) - 512] {
        let image = dir.image("small.img", size);
        for arguments in [&["probe"][..], &["bench", "random-write", "--journals", "journals"]] {
            let mut command = Command::new(STRADDLE);
            command.args(arguments).arg(&image).arg("--used").current_dir(dir.path());
            let said = tools::output(&mut command, "");
            let transcript = tools::transcript(&said);
            assert_ne!(said.status.code(), Some(0), "{transcript}");
            assert!(!transcript.contains(&u64::MAX.to_string()), "{transcript}");
            assert!(
                size == 0
                    || transcript.contains(&format!("({size} bytes); at least 2097152 bytes are needed")),
                "{transcript}"
            );
        }
    }
    // A partition that covers the whole image.
    let image = dir.image("full.img", 8 << 20);
    tools::write_table(&image, 512, "label: dos\nstart=2048\n");
    let said = tools::output(Command::new(STRADDLE).args(["probe"]).arg(&image), "");
    let transcript = tools::transcript(&said);
    assert!(
        said.status.code() == Some(4) && transcript.contains("no unallocated area of 2097152 bytes"),
        "{transcript}"
    );
}

/// What may be shared of a drive is written without its name, and finds the drive again.
#[test]
fn a_shared_probe_names_nothing_and_finds_its_drive() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("shared.json");
    let name = file.to_str().unwrap();
    let run = straddle(&["probe", "drive:wd10ears", "--share", name]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let text = fs::read_to_string(&file).unwrap();
    for secret in ["wd10ears", "WD10EARS", "Western", "model", "drive:", "target", "title", name] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let shared: Value = serde_json::from_str(&text).unwrap();
    tools::valid(&shared, "probe-share");
    assert_eq!(shared["capacity_bytes"], 1_000_204_886_016_u64);
    assert_eq!((&shared["claims"]["unit_bytes"], &shared["misreports"]), (&512.into(), &true.into()));
    assert!(shared["cost_ratio"].as_f64().unwrap() > 2.0, "{text}");

    let compared = straddle(&["drive", "compare", name]);
    assert_eq!((compared.code, compared.err.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = compared
        .out
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("DRIVE"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    // The drive of T. Miller is the same model in all but the name.
    let mut nearest = [rows[2][0], rows[3][0]];
    nearest.sort_unstable();
    assert_eq!(
        (nearest, rows[2][1], rows[3][1]),
        (["wd-green-2010", "wd10ears"], "1.00", "1.00"),
        "{rows:?}"
    );
    assert!(rows[4][1].parse::<f64>().unwrap() > 1.0, "{rows:?}");
}

#[test]
fn what_is_no_shared_probe_is_a_usage_error() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("other.json");
    let name = file.to_str().unwrap();
    assert_eq!(straddle(&["drive", "compare", name]).code, 2);
    for bad in ["", "{\"schema\":1}"] {
        fs::write(&file, bad).unwrap();
        let run = straddle(&["drive", "compare", name]);
        assert!(run.code == 2 && run.err.contains("straddle probe --share"), "{bad}: {}", run.err);
    }
    let run = straddle(&["probe", name, "--used", "--share", "-"]);
    assert!(run.code == 2 && run.err.contains("--share requires a drive"), "{}", run.err);
}
