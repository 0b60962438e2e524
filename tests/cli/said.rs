//! What targets mean, and what is said about those that are not what they seem: drives named without
//! `drive:`, folders, files with holes, missing devices, and findings that were left out.

use std::fs;

use tempfile::TempDir;

use super::straddle;
use super::tools::{STRADDLE, present};

#[test]
fn a_drive_named_without_its_prefix_is_recognised_everywhere() {
    for name in ["qlc-16k", "drive:qlc-16k", "WD10EARS,jumper=on"] {
        for (command, code) in [
            (&["check", name][..], 0),
            (&["check", "--assume", name, name], 0),
            (&["map", name], 0),
            (&["probe", name, "--time", "1"], 0),
            (&["serve", name, "--nbd", "unix:no-such-folder/socket"], 3),
            (&["bench", "random-write", name, "--offsets", "0", "--count", "50"], 0),
        ] {
            let run = straddle(command);
            assert_eq!(run.code, code, "{command:?}: {}", run.err);
        }
    }
}

/// A file of the same name is meant rather than the drive.
#[test]
fn a_file_comes_before_a_drive_of_its_name() {
    let dir = TempDir::new().unwrap();
    fs::File::create(dir.path().join("wd10ears")).unwrap().set_len(8 << 20).unwrap();
    let target = |name: &str| {
        let mut command = std::process::Command::new(STRADDLE);
        let output = command.args(["check", "--json", name]).current_dir(dir.path()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["targets"][0]["device"]["size_bytes"].as_u64()
    };
    assert_eq!(target("wd10ears"), Some(8 << 20));
    assert_eq!(target("drive:wd10ears"), Some(1_000_204_886_016));
}

#[test]
fn a_bare_name_is_that_of_a_device() {
    let listed = fs::read_dir("/sys/block").into_iter().flatten();
    let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for name in names.filter(|name| fs::metadata(format!("/dev/{name}")).is_ok()) {
        let report = straddle(&["check", "--json", "--no-wake", &name]).json();
        assert_eq!(report["targets"][0]["target"], format!("/dev/{name}"));
    }
}

#[test]
fn a_folder_stands_for_the_images_below_it() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().to_str().unwrap();
    let empty = straddle(&["check", folder]);
    assert!(
        empty.code == 3 && empty.err.contains("no file in this directory has the extension of a disk image"),
        "{}",
        empty.err
    );
    fs::create_dir_all(dir.path().join("web/.cache")).unwrap();
    for name in ["b.img", "a.QCOW2", "web/disk.raw.gz", "web/.cache/c.img", ".d.img", "notes.txt"] {
        fs::File::create(dir.path().join(name)).unwrap().set_len(8 << 20).unwrap();
    }
    let run = straddle(&["check", folder, "--json"]);
    let report = run.json();
    let found: Vec<&str> =
        report["targets"].as_array().unwrap().iter().map(|it| it["target"].as_str().unwrap()).collect();
    let expected = ["a.QCOW2", "b.img", "web/disk.raw.gz"].map(|name| format!("{folder}/{name}"));
    assert_eq!(found, expected);
    assert!(run.err.contains("3 other files skipped"), "{}", run.err);
}

/// A status of "ok" beside a partition that straddles would be a contradiction.
#[test]
fn the_status_names_what_was_left_out_of_it() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk.img");
    let mut mbr = vec![0; 8 << 20];
    mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 63, 0, 0, 0, 0, 0x10, 0, 0]);
    mbr[510..512].copy_from_slice(&[0x55, 0xAA]);
    fs::write(&path, mbr).unwrap();
    let image = path.to_str().unwrap();
    for (option, code) in [("--only", "S002"), ("--ignore", "S001")] {
        let run = straddle(&["check", image, option, code]);
        assert!(run.out.contains("3584 bytes past a physical sector (S001)"), "{}", run.out);
        assert!(!run.out.contains("  aligned"), "{option} {code}: {}", run.out);
        assert!(run.out.contains(" left out (--only, --ignore)"), "{option} {code}: {}", run.out);
    }
    assert!(!straddle(&["check", image]).out.contains("left out"));
}

#[test]
fn the_root_of_this_system_is_no_captured_tree() {
    let live = straddle(&["check", "--json"]);
    let named = straddle(&["check", "--json", "--sysroot", "/"]);
    assert_eq!((live.out, live.code), (named.out, named.code));
}

#[test]
fn a_probe_of_a_file_with_holes_says_so() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("sparse.img");
    fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let (path, journals) = (path.to_str().unwrap(), dir.path().join("journals"));
    let probe = ["probe", path, "--used", "--time", "1", "--journals", journals.to_str().unwrap()];
    let run = straddle(&[&probe[..], &["--json"]].concat());
    if run.err.contains("does not support direct I/O") {
        eprintln!("skipped: {}", run.err);
        return;
    }
    let notes = run.json()["notes"].to_string();
    assert!(notes.contains("its file system") && notes.contains("holes"), "{notes}");
    let notes = straddle(&["probe", "drive:wd10ears", "--time", "1", "--json"]).json()["notes"].clone();
    assert_eq!(notes, serde_json::json!([]));
}

#[test]
fn an_address_that_is_not_read_names_those_that_are() {
    let run = straddle(&["check", "ftp://host/disk.img"]);
    assert_eq!(run.code, 3, "{}", run.err);
    for scheme in ["https://", "http://", "s3://", "gs://", "az://", "ftp"] {
        assert!(run.err.contains(scheme), "{scheme}: {}", run.err);
    }
    assert!(!straddle(&["check", "no/such.img"]).err.contains("https://"));
}

/// The synopsis of a man page has the value of each option that takes one, as its help has, and no markup of
/// another kind is left.
#[test]
fn man_pages_have_values_and_no_backquotes() {
    for command in ["check", "map", "plan", "apply", "realign", "bench", "trace", "serve"] {
        let page = straddle(&["man", command]).out;
        assert!(!page.contains('`'), "{command}: {page}");
        let synopsis =
            page.split_once(".SH SYNOPSIS").unwrap().1.split_once(".SH ").unwrap().0.replace('\\', "");
        let options = page.split_once(".SH OPTIONS").unwrap().1.replace('\\', "");
        // `fB--write fI<TARGET>`, with or without a short form.
        let mut taking = 0;
        for line in options.lines().filter(|line| line.contains("fB--") && line.contains("fI<")) {
            let name = line.split_once("fB--").unwrap().1.split_once("fR").unwrap().0;
            let Some(at) = synopsis.find(&format!("fB--{name}fR")) else { continue };
            let rest = &synopsis[at + name.len() + 6..];
            assert!(
                rest.trim_start_matches(['[', '=', ' ']).starts_with("fI<"),
                "{command} --{name}: {synopsis}"
            );
            taking += 1;
        }
        assert!(taking > 2, "{command}: {synopsis}");
    }
}

/// The error of a library is not what the user asked for: its temporary file, or the place in its own code.
#[test]
fn errors_are_about_what_was_named() {
    let dir = TempDir::new().unwrap();
    let page = dir.path().join("missing/page.svg");
    let run = straddle(&["bench", "random-write", "drive:wd10ears", "--svg", page.to_str().unwrap()]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.err.contains("missing/page.svg") && !run.err.contains(".straddle-"), "{}", run.err);
    // 1 MiB that cannot be packed much smaller.
    let mut random = straddle_units::io::SplitMix64::new(1);
    let mut noise = vec![0; 1 << 20];
    random.fill(&mut noise);
    let plain = dir.path().join("disk.img");
    fs::write(&plain, noise).unwrap();
    for (program, ending) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")] {
        if !present(&[program]) {
            continue;
        }
        let status = std::process::Command::new(program).args(["-q", "-k"]).arg(&plain).status().unwrap();
        assert!(status.success());
        let packed = dir.path().join(format!("disk.img.{ending}"));
        fs::OpenOptions::new().write(true).open(&packed).unwrap().set_len(300_000).unwrap();
        let run = straddle(&["check", packed.to_str().unwrap()]);
        assert_eq!(run.code, 3, "{}", run.err);
        assert!(run.err.contains("of the file: the file is truncated\n"), "{}", run.err);
    }
}
