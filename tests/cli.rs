//! The command line: options, exit codes, help, man pages, completions and schema agree with each other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cli/another.rs"]
mod another;
#[path = "cli/closed.rs"]
mod closed;
#[path = "cli/explained.rs"]
mod explained;
#[path = "cli/hints.rs"]
mod hints;
#[path = "cli/json_names.rs"]
mod json_names;
#[path = "cli/messages.rs"]
mod messages;
#[path = "tools/process.rs"]
mod process;
#[path = "cli/said.rs"]
mod said;
use crate::tools;
#[path = "cli/written.rs"]
mod written;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tools::skip::cases;
use tools::{PATH, STRADDLE, present, root, straddle};

const COMMANDS: [&str; 19] = [
    "report",
    "probe",
    "lab",
    "check",
    "plan",
    "apply",
    "undo",
    "map",
    "explain",
    "efficiency",
    "bench",
    "drive",
    "reproduce",
    "trace",
    "sim",
    "serve",
    "completions",
    "man",
    "schema",
];

/// A 64 MiB image whose MBR has one Linux partition.
fn image(dir: &TempDir, name: &str, start: u32, sectors: u32) -> String {
    let mut mbr = [0_u8; 512];
    mbr[446 + 4] = 0x83;
    mbr[446 + 8..446 + 12].copy_from_slice(&start.to_le_bytes());
    mbr[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
    mbr[510..].copy_from_slice(&[0x55, 0xAA]);
    let path = dir.path().join(name);
    let mut file = File::create(&path).unwrap();
    file.write_all(&mbr).unwrap();
    file.set_len(64 << 20).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    let dir = TempDir::new().unwrap();
    let (right, wrong) = (image(&dir, "right.img", 2048, 4096), image(&dir, "wrong.img", 63, 4096));
    let grain = image(&dir, "grain.img", 40, 4096);
    assert_eq!(straddle(&["check", &right]).code, 0);
    assert_eq!(straddle(&["check", &wrong]).code, 1);
    assert_eq!(straddle(&["check", &grain]).code, 0, "off the 1 MiB grain is advice");
    assert_eq!(straddle(&["check", "--fail-on", "advice", &grain]).code, 1);
    assert_eq!(straddle(&["check", "--no-such-option"]).code, 2);
    assert_eq!(straddle(&["check", "--assume", "physical=3000", &right]).code, 2);
    assert_eq!(straddle(&["check", "--all", &right]).code, 2);
    assert_eq!(straddle(&["check", "/no/such/file"]).code, 3);
}

#[test]
fn one_failure_does_not_stop_the_others_and_the_worst_counts() {
    let dir = TempDir::new().unwrap();
    let (right, wrong) = (image(&dir, "right.img", 2048, 4096), image(&dir, "wrong.img", 63, 4096));
    let run = straddle(&["check", "--json", &wrong, "/no/such/file", &right]);
    assert_eq!(run.code, 3);
    assert!(run.err.contains("/no/such/file: cannot open: No such file"), "{}", run.err);
    let report = run.json();
    let statuses: Vec<&str> =
        report["targets"].as_array().unwrap().iter().map(|t| t["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["error", "failed", "ok"]);
    assert_eq!(report["summary"]["targets"], 3);
}

#[test]
fn many_targets_keep_their_order() {
    let dir = TempDir::new().unwrap();
    let images: Vec<String> =
        (0..700).map(|i| image(&dir, &format!("{i:03}.img"), 2048 + i % 9, 4096)).collect();
    let mut arguments = vec!["check".to_owned(), "--json".to_owned()];
    arguments.extend(images.iter().cloned());
    let report = straddle(&arguments).json();
    for (target, image) in report["targets"].as_array().unwrap().iter().zip(&images) {
        assert_eq!(target["target"].as_str().unwrap(), image);
    }
    assert_eq!(report["summary"]["targets"], 700);
}

#[test]
fn findings_can_be_chosen_and_left_out() {
    let dir = TempDir::new().unwrap();
    let wrong = image(&dir, "wrong.img", 63, 4096);
    let codes = |arguments: &[&str]| -> Vec<String> {
        let report = straddle(arguments).json();
        let findings = report["targets"][0]["findings"].as_array().unwrap().clone();
        findings.iter().map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes(&["check", "--json", &wrong]), ["S001", "S010"]);
    assert_eq!(codes(&["check", "--json", "--only", "s010", &wrong]), ["S010"]);
    assert_eq!(codes(&["check", "--json", "--ignore", "S001,S010", &wrong]), [] as [&str; 0]);
    assert_eq!(straddle(&["check", "--ignore", "S001", &wrong]).code, 0);
    assert_eq!(straddle(&["check", "--only", "S999", &wrong]).code, 2);
}

#[test]
fn quiet_prints_a_line_a_finding_and_nothing_else() {
    let dir = TempDir::new().unwrap();
    let (right, wrong) = (image(&dir, "right.img", 2048, 4096), image(&dir, "wrong.img", 63, 4096));
    let run = straddle(&["check", "--quiet", &right, &wrong]);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    assert!(run.out.starts_with(&format!("{wrong}: error S001 partition 1: ")), "{}", run.out);
    assert_eq!(straddle(&["check", "-q", &right]).out, "");
}

#[test]
fn the_declared_topology_judges() {
    let dir = TempDir::new().unwrap();
    let wrong = image(&dir, "wrong.img", 63, 4096);
    assert_eq!(straddle(&["check", "--assume", "512n", &wrong]).code, 0);
    assert_eq!(straddle(&["check", "--assume", "physical=4096,offset=3584", &wrong]).code, 0);
    let at_2048 = image(&dir, "at2048.img", 2048, 4096);
    assert_eq!(straddle(&["check", "--assume", "physical=4096,offset=3584", &at_2048]).code, 1);
    assert_eq!(straddle(&["check", "--assume", "iu=64KiB", &at_2048]).code, 0);
    assert_eq!(straddle(&["check", "--assume", "stripe=192KiB", &at_2048]).code, 1);
    assert_eq!(straddle(&["check", "--assume", "erase=4MiB", &at_2048]).code, 0, "advice");
    let atomic =
        straddle(&["check", "--json", "--assume", "atomic=16KiB,atomic-boundary=2MiB", &at_2048]).json();
    assert_eq!(atomic["targets"][0]["findings"][0]["code"], "S009");
}

#[test]
fn colour_follows_the_option_the_environment_and_the_terminal() {
    let dir = TempDir::new().unwrap();
    let wrong = image(&dir, "wrong.img", 63, 4096);
    let escape = "\u{1b}[";
    assert!(!straddle(&["check", &wrong]).out.contains(escape), "a pipe is no terminal");
    assert!(straddle(&["check", "--color", "always", &wrong]).out.contains(escape));
    assert!(!straddle(&["check", "--color", "never", &wrong]).out.contains(escape));
}

#[test]
fn explain_knows_every_code_that_it_lists() {
    let list = straddle(&["explain"]);
    let codes: Vec<&str> = list
        .out
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|word| word.starts_with('S'))
        .collect();
    assert!(codes.len() >= 25, "{codes:?}");
    for code in codes {
        let run = straddle(&["explain", code]);
        assert_eq!(run.code, 0);
        for part in ["What", "Why", "Cost", "Fix", "Sources"] {
            assert!(run.out.lines().any(|line| line == part), "{code} lacks {part}");
        }
        assert!(run.out.lines().all(|line| line.chars().count() <= 130), "{code} has over-long lines");
    }
    assert_eq!(straddle(&["explain", "S999"]).code, 2);
}

#[test]
fn explain_takes_several_codes() {
    let run = straddle(&["explain", "S001", "s002"]);
    let headings: Vec<&str> =
        run.out.lines().filter(|line| line.starts_with('S') && line.contains(": ")).collect();
    assert!(
        headings.len() == 2 && headings[0].starts_with("S001") && headings[1].starts_with("S002"),
        "{headings:?}"
    );
    let report = straddle(&["explain", "--json", "S001", "S002"]).json();
    let rules = &report["rules"];
    assert_eq!((&rules[0]["code"], &rules[1]["code"]), (&"S001".into(), &"S002".into()));
    assert_eq!(straddle(&["explain", "--json", "S001"]).json()["rules"][0]["code"], "S001");
    assert_eq!(straddle(&["explain", "S001", "S999"]).code, 2);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (page, hint) in [("16", "16KiB?"), ("4", "4KiB?"), ("0", ""), ("5000", ""), ("3MiB", "")] {
        let run = straddle(&["check", "--page", page, "/dev/null"]);
        assert!(
            run.code == 2 && run.err.contains("a database page cannot be") && run.err.contains(hint),
            "{}",
            run.err
        );
    }
}

#[test]
fn text_is_as_wide_as_the_terminal() {
    let dir = TempDir::new().unwrap();
    let image = dir.path().join("disk.img");
    if !present(&["sgdisk", "script"]) {
        return;
    }
    let status = Command::new("sh")
        .env("PATH", PATH)
        .args(["-c", "truncate -s 64M \"$0\" && sgdisk -a1 -n 1:63:40000 -n 2:40001:90000 \"$0\""])
        .arg(&image)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    // A first line that is too long, and the longest content and verdict: misaligned LUKS with a finding
    // inside it.
    let luks = "an-image-with-a-name-that-is-too-long-for-the-line.img";
    let line = format!(
        "cp disk.img {luks}; truncate -s 19M fs; printf x | cryptsetup luksFormat -q --pbkdf pbkdf2 \
         --pbkdf-force-iterations 1000 --sector-size 512 fs - && dd if=fs of={luks} bs=64K oflag=seek_bytes \
         seek=$((63 * 512)) conv=notrunc; cp {luks} other.img"
    );
    let _ = Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output();
    let shown = [
        (80, "check disk.img".to_owned()),
        (72, "check disk.img".to_owned()),
        (80, format!("check {luks}")),
        (80, "check other.img".to_owned()),
        (80, "check disk.img.gz".to_owned()),
        (80, "explain S001 S002 S064".to_owned()),
        (80, "explain".to_owned()),
        (60, "explain".to_owned()),
        (60, "explain S068 S060 fdisk windows units reliability".to_owned()),
        (60, "explain rmw --offset 2KiB --io 4KiB --count 9".to_owned()),
        (80, "plan other.img --table gpt --part 1MiB --part rest --wipe --explain".to_owned()),
        (80, "map other.img".to_owned()),
        (80, "drive list".to_owned()),
        (80, "drive show wd20ears-lulf".to_owned()),
    ];
    for (columns, arguments) in cases(shown.into_iter(), 3) {
        let line = format!(
            "gzip -kf disk.img; stty rows 24 cols {columns}; '{}' {arguments} --color never",
            STRADDLE
        );
        let output = Command::new("script")
            .current_dir(dir.path())
            .args(["-qc", &line, "/dev/null"])
            .stdin(Stdio::null())
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(text.lines().count() > 8 || arguments.contains("gz"), "{text}");
        // Commands are not wrapped, because they are meant to be pasted.
        let is_command = |line: &&str| {
            line.starts_with("    ")
                && ["sgdisk", "sfdisk", "parted", "straddle "].iter().any(|tool| line.contains(tool))
        };
        for line in text.lines().filter(|line| !is_command(line)) {
            assert!(line.trim_end().chars().count() <= columns, "{arguments} at {columns}: {line}");
        }
    }
}

#[test]
fn two_writes_on_a_partition_off_by_half_a_sector_need_four() {
    let run = straddle(&[
        "explain",
        "rmw",
        "--offset",
        "2KiB",
        "--io",
        "4KiB",
        "--count",
        "2",
        "--physical",
        "4096",
    ]);
    assert!(
        run.out.contains("2 writes of 4 KiB on 4096-byte sectors: 4 sectors touched, 4 read-modify-writes"),
        "{}",
        run.out
    );
    assert!(run.out.contains("|....####|####....|"), "{}", run.out);
    let report = straddle(&["explain", "rmw", "--json", "--offset", "2KiB", "--count", "2"]).json();
    assert_eq!(report["apart"]["partial_units"], 4);
    assert_eq!(report["merged"]["partial_units"], 2);
}

#[test]
fn efficiency_prints_the_published_figures() {
    let run = straddle(&["efficiency"]);
    assert!(run.out.contains("88.7 %") && run.out.contains("97.3 %"), "{}", run.out);
    let run = straddle(&["efficiency", "--data", "512", "--overhead", "15", "--ecc", "50"]);
    assert!(run.out.contains("88.7 %") && !run.out.contains("97.3 %"), "{}", run.out);
}

#[test]
fn help_man_pages_completions_and_readme_know_every_command() {
    let help = straddle(&["--help"]).out;
    let man = TempDir::new().unwrap();
    assert_eq!(straddle(&["man", "--dir", man.path().to_str().unwrap()]).code, 0);
    let completions = straddle(&["completions", "bash"]).out;
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "help lacks {command}");
        assert!(completions.contains(command), "completions lack {command}");
        assert!(readme.contains(&format!("straddle {command}")), "README lacks {command}");
        let page = fs::read_to_string(man.path().join(format!("straddle-{command}.8"))).unwrap();
        let long_help = straddle(&[command, "--help"]).out;
        let options = long_help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
        for option in options.map(|word| word.trim_end_matches([',', '.', ')', ';', '\'', '`'])) {
            let escaped = option.split('=').next().unwrap().replace('-', "\\-");
            assert!(page.contains(&escaped), "the page of {command} lacks {option}");
        }
    }
    let page = fs::read_to_string(man.path().join("straddle.8")).unwrap();
    assert!(
        page.contains(".SH \"EXIT STATUS\"") && !page.contains("EXTRA"),
        "the man page lacks the exit codes"
    );
    assert_eq!(straddle(&["man", "nonsense"]).code, 2);
}

#[test]
fn the_schemas_in_docs_are_those_in_the_code() {
    let mut count = 0;
    for file in fs::read_dir(root().join("docs")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(command) = name.strip_suffix(".schema.json") {
            let kept = fs::read_to_string(&path).unwrap();
            assert!(kept == straddle(&["schema", command]).out, "{name} is out of date: run 'make docs'");
            count += 1;
        }
    }
    assert!(count >= 10, "{count} schemas in docs");
    assert!(straddle(&["schema"]).out == straddle(&["schema", "check"]).out, "check's where none is named");
}

/// A plan replaces an older plan, or any other file, but neither its target by any name nor a backup.
#[test]
fn a_plan_replaces_neither_its_target_nor_a_backup() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (target, hard, soft) = (path("d.img"), path("hard.img"), path("soft.img"));
    fs::File::create(&target).unwrap().set_len(32 << 20).unwrap();
    let plan = |size: &str, save: &str| {
        straddle(&["plan", &target, "--table", "gpt", "--part", size, "--save", save])
    };
    fs::hard_link(&target, &hard).unwrap();
    std::os::unix::fs::symlink(&target, &soft).unwrap();
    fs::write(path("notes.txt"), "mine\n").unwrap();
    let (kept, undo) = (path("p.json"), path("p.json.undo"));
    assert_eq!(plan("8MiB", &kept).code, 0);
    let first = fs::read(&kept).unwrap();
    assert_eq!(plan("16MiB", &kept).code, 0);
    assert_ne!(fs::read(&kept).unwrap(), first);
    assert_eq!(straddle(&["apply", &kept, "--write", &target]).code, 0);
    let before = [&target, &undo].map(|path| fs::read(path).unwrap());
    for save in [&target, &hard, &soft, &undo] {
        let run = plan("8MiB", save);
        assert_eq!(run.code, 4, "{save}: {}", run.err);
        assert_eq!([&target, &undo].map(|path| fs::read(path).unwrap()), before, "{save}");
    }
    assert_eq!(plan("8MiB", &path("notes.txt")).code, 0);
    assert!(fs::read_to_string(path("notes.txt")).unwrap().starts_with('{'));
    let shown = plan("8MiB", "-").out;
    assert!(shown.contains("\n  \"disk\": {") && !shown.contains("apply ./-"), "{shown}");
}

/// libtest captures stdout and stderr of a test that passes, so every message about a skipped test has to use
/// the helper.
#[test]
fn what_is_skipped_is_said_by_the_one_helper() {
    fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    sources(&root.join("tests"), &mut all);
    sources(&root.join("crates"), &mut all);
    let word = concat!("SKIPPED", ":");
    let says = |path: &&PathBuf| fs::read_to_string(path).unwrap().contains(word);
    let saying: Vec<&PathBuf> = all.iter().filter(says).collect();
    assert_eq!(saying, [&root.join("tests/tools/skip.rs")], "they are to use tests/tools/skip.rs");
}

/// Ctrl-C ends any command: with status 130 or by the signal itself, and without an error message.
#[test]
fn an_interruption_is_no_failure() {
    let dir = TempDir::new().unwrap();
    let lab = present(&["linux.uml"]);
    let endless: &[&[&str]] = &[
        &["reproduce", "afd-2019", "--lab-only", "--cache", "cache"],
        &["lab", "--drive", "wd10ears", "--", "sleep 1000000"],
        &["drive", "fit", "wd20ears-lulf"],
        &["bench", "random-write", "./scratch", "--area", "16M", "--io", "buffered", "--runtime", "600"],
    ];
    for arguments in endless.iter().filter(|arguments| lab || !matches!(arguments[0], "reproduce" | "lab")) {
        let mut command = Command::new(STRADDLE);
        command.args(*arguments).current_dir(dir.path()).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // The command is at work by then; any earlier, the signal would end it before its handler is
        // installed. A command that only waits is given 10 s.
        let begun = std::time::Instant::now();
        while process::ticks(child.id()) < process::TICKS / 5 && begun.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut kill = Command::new("kill");
        // procps' kill does not recognise signal names in a Turkish locale.
        let sent = kill.env("LC_ALL", "C").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{arguments:?}");
        let output = child.wait_with_output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        let blame = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(130) || signal == Some(2),
            "{arguments:?}: {} {blame}",
            output.status
        );
        assert!(!blame.contains("could not") && !blame.contains("cannot"), "{arguments:?}: {blame}");
    }
}

#[test]
fn help_and_version_that_nobody_gets_are_no_success() {
    let commands = [
        "--help",
        "-h",
        "--version",
        "check --help",
        "bench -h",
        "drive show --help",
        "man",
        "schema",
        "explain",
    ];
    for command in commands {
        let line = format!("'{}' {command} > /dev/full", STRADDLE);
        let output = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).output().unwrap();
        let transcript = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{command}: {transcript}");
        assert!(transcript.contains("os error"), "{command}: {transcript}");
        // A reader that closes the pipe early is not an error.
        let line = format!("'{}' {command} | true; exit ${{PIPESTATUS[0]}}", STRADDLE);
        let output = Command::new("bash").args(["-c", &line]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // /dev/null is an open descriptor, so the command succeeds.
    let line = format!("'{}' --version <>/dev/null 1<>/dev/null", STRADDLE);
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

/// A command, the part of its message that states the cause, and its exit code.
#[test]
fn a_cause_is_printed_once_and_keeps_its_lines() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let shipped = fs::read_to_string(root().join("crates/drive/profiles/ssd-sata-4k.toml")).unwrap();
    let line = "indirection_unit_bytes = { value = ";
    let broken = shipped.replace(&format!("{line}4096"), &format!("{line}3000"));
    assert_ne!(broken, shipped);
    let broken = file("broken.toml", &broken);
    let unknown = file("unknown.csv", "time_ms,op,offset,length\n0,X,0,512\n");
    let far = file("far.csv", "time_ms,op,offset,length\n0,W,9000000000000000000,512\n");
    let toml = file("no.toml", "[[[\nstep =\n");
    let missing = dir.path().join("missing.csv").to_str().unwrap().to_owned();
    let cases: [(&[&str], &str, i32, usize); 8] = [
        (&["drive", "show", &broken], "must be a power of two", 2, 1),
        (&["sim", &far, "--drive", &broken], "must be a power of two", 2, 1),
        (&["bench", "random-write", &format!("drive:{broken}")], "must be a power of two", 2, 1),
        (&["check", &format!("drive:{broken}")], "must be a power of two", 3, 1),
        (&["sim", &unknown, "--drive", "wd20ears"], "op = \"X\"", 3, 1),
        (&["sim", &far, "--drive", "wd20ears"], "past the end of the drive", 3, 1),
        (&["sim", &missing, "--drive", "wd20ears"], "No such file", 3, 1),
        (&["reproduce", &toml, "--model-only"], "TOML parse error at line 1", 2, 3),
    ];
    for (words, cause, code, lines) in cases {
        let run = straddle(words);
        assert_eq!((run.code, run.err.matches(cause).count()), (code, 1), "{words:?}: {}", run.err);
        assert!(run.err.lines().count() >= lines && !run.err.contains("\\n"), "{words:?}: {}", run.err);
    }
}
