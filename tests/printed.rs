//! Strings from foreign sources in the output: nothing reaches the terminal that it would obey, that is
//! invisible, or that a shell would run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use straddle_device::shown::is_hidden;
use tools::skip::{cases, is_sampled};
use tools::{Dir, STRADDLE, output, present, run, transcript};

/// A terminal title, colours in one byte and in several, reversed direction, separators, a zero-width space,
/// a tag character, DEL, a line of its own, and a command.
const NASTY: &str = "a\u{1b}]0;t\u{7}\u{1b}[31m\u{9b}1m\u{202e}b\u{2066}\u{2028}c\u{200b}d\u{e0041}\u{7f}\u{feff}\u{ad}\nstatus: ok'$(touch X)`touch X`";

fn straddle(dir: &Dir, arguments: &[&str]) -> Output {
    output(
        Command::new(STRADDLE).args(arguments).current_dir(dir.path()).env("XDG_STATE_HOME", dir.path()),
        "",
    )
}

/// Fails if any such character is printed; colours are allowed if they were requested.
fn clean(what: &str, output: &Output) {
    let coloured = what.contains("--color always");
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {stream}: {error}"));
        let mut rest = text.to_owned();
        if coloured {
            for style in ["0", "1", "2", "31", "32", "33", "36"] {
                // These are straddle's own colours; that of the string would be followed by its next
                // character.
                assert!(!rest.contains("\u{1b}[31m\\u{9b}"), "{what}: {stream}: {text:?}");
                rest = rest.replace(&format!("\u{1b}[{style}m"), "");
            }
        }
        let bad = rest.chars().find(|c| is_hidden(*c) && *c != '\n' && *c != '\t');
        assert!(bad.is_none(), "{what}: {stream} has {bad:?}: {text:?}");
        assert!(!rest.lines().any(|line| line.starts_with("status: ok'")), "{what}: {stream}: {text:?}");
    }
}

/// Runs straddle and checks its output; with --json, also that it is valid JSON.
fn looked_at(dir: &Dir, arguments: &[&str], counts: &mut [usize; 2]) -> Output {
    let output = straddle(dir, arguments);
    let what = arguments.join(" ");
    clean(&what, &output);
    counts[0] += 1;
    if arguments.contains(&"--json") && !output.stdout.is_empty() {
        let json: Result<Value, _> = serde_json::from_slice(&output.stdout);
        assert!(json.is_ok(), "{what}: {}", transcript(&output));
        counts[1] += 1;
    }
    output
}

/// A profile of a modelled drive with such names.
fn profile(dir: &Dir, name: &str) {
    let escaped = serde_json::to_string(NASTY).unwrap().replace('\u{7f}', "\\u007f");
    fs::write(dir.join(name), format!("base = \"wd10ears\"\nname = {escaped}\ntitle = {escaped}\n")).unwrap();
}

#[test]
fn names_of_files_are_printed_and_not_obeyed() {
    let dir = Dir::new("names");
    let image = |name: &str| dir.image(name, 16 << 20);
    image(NASTY);
    image("disk");
    let toml = format!("{NASTY}.toml");
    profile(&dir, &toml);
    fs::write(dir.join(&format!("{NASTY}.csv")), format!("{NASTY}\n")).unwrap();
    fs::write(dir.join(&format!("{NASTY}.gz")), b"\x1f\x8b\x08\0\0\0\0\0\0\0").unwrap();
    let parts = ["--table", "gpt", "--part", "4MiB,start=2049s", "--allow-misaligned", "--part", "rest"];
    let plan = format!("{NASTY}.json");
    let mut counts = [0; 2];
    let mut look = |arguments: &[&str]| looked_at(&dir, arguments, &mut counts);
    let planned = look(&[&["plan", NASTY, "--save", &plan][..], &parts].concat());
    assert_eq!(planned.status.code(), Some(0), "{}", transcript(&planned));
    let line = line_after(&planned, "  Next:\n    ");
    look(&["apply", &plan, "--write", NASTY, "--dry-run"]);
    let applied = by_shell(&dir, &line);
    let undo = line_after(&applied, "to revert: ");
    for more in [&[][..], &["--json"], &["--quiet"], &["--verbose"], &["--color", "always"]] {
        look(&[&["check", NASTY][..], more].concat());
        look(&[&["map", NASTY][..], more].concat());
        look(&[&["check", &format!("{NASTY}.gz")][..], more].concat());
        look(&[&["check", "no such", NASTY, &format!("no {NASTY}")][..], more].concat());
    }
    look(&["apply", &plan, "--write", NASTY]);
    by_shell(&dir, &undo);
    let drive = format!("drive:{toml}");
    for json in [&[][..], &["--json"]] {
        look(&[&["plan", NASTY, "--table", "gpt", "--part", "rest", "--explain"][..], json].concat());
        look(&[&["bench", "random-write", NASTY, "--io", "buffered"][..], json].concat());
        look(
            &[
                &["bench", "random-read", NASTY, "--io", "buffered", "--runtime", "1", "--count", "4"][..],
                json,
            ]
            .concat(),
        );
        look(&[&["bench", "random-write", &drive, "--count", "8", "--offsets", "0,1"][..], json].concat());
        look(&[&["drive", "show", &toml][..], json].concat());
        look(&[&["probe", NASTY][..], json].concat());
        look(&[&["probe", &drive, "--max-write", "1MiB", "--time", "2"][..], json].concat());
        look(&[&["sim", &format!("{NASTY}.csv"), "--drive", "wd10ears"][..], json].concat());
        look(&[&["reproduce", &toml][..], json].concat());
        look(&[&["explain", NASTY][..], json].concat());
        look(&[&["check", &drive][..], json].concat());
    }
    for arguments in [
        &["apply", &toml, "--write", "disk"][..],
        &["apply", &plan, "--write", "no such", "--backup", NASTY],
        &["undo", NASTY, "--write", "disk"],
        &["plan", "disk", "--table", NASTY],
        &["plan", "disk", "--table", "gpt", "--part", NASTY],
        &["bench", "--restore", "--journals", NASTY],
        &["bench", NASTY, "disk"],
        &["check", "--sysroot", NASTY],
        &["check", "--assume", NASTY, "disk"],
        &["check", "--measured", &toml, "disk"],
        &["check", "--cost", &drive, NASTY],
        &["check", &format!("--{NASTY}")],
        &["lab", "--drive", NASTY, "--", "true"],
        &["lab", "--drive", "wd10ears", "--input", &format!("no {NASTY}"), "--", "true"],
        &["serve", NASTY, "--nbd", "unix:socket"],
        &["serve", "drive:wd10ears", "--nbd", NASTY],
        &["report", &toml, NASTY],
        &["drive", "fit", NASTY],
        &["man", NASTY],
        &["schema", NASTY],
        &[NASTY],
    ] {
        look(arguments);
    }
    assert!(!dir.join("X").exists(), "something was run");
    assert!(counts[0] > 60 && counts[1] >= 10, "{counts:?}");
}

/// The text after `words` in the output, up to the end of its line.
fn line_after(output: &Output, words: &str) -> String {
    let said = transcript(output);
    let (_, rest) = said.split_once(words).unwrap_or_else(|| panic!("{said}"));
    rest.lines().next().unwrap_or_default().to_owned()
}

/// Runs a printed command line in a shell.
fn by_shell(dir: &Dir, line: &str) -> Output {
    let folder = Path::new(STRADDLE).parent().unwrap().display();
    let line = format!("PATH='{folder}':$PATH; {line}");
    let output = output(Command::new("bash").args(["-c", &line]).current_dir(dir.path()), "");
    assert_eq!(output.status.code(), Some(0), "{line:?}: {}", transcript(&output));
    clean(&line, &output);
    output
}

/// The plan, its backup and the disk have names that a shell gives back, in the folder of the shell.
#[test]
fn the_commands_that_mend_a_table_work_for_any_name() {
    let dir = Dir::new("mended");
    let long = format!("{}.img", "n".repeat(230));
    for name in ["$(touch X).img", "-x y'.img", "a b;c.img", "é `touch X`.img", "*?.img", long.as_str()] {
        let operand = format!("./{name}");
        dir.image(name, 16 << 20);
        let plan = ["plan", &operand, "--table", "gpt", "--part", "rest", "--save", "first.json"];
        assert!(straddle(&dir, &plan).status.success(), "{name}");
        let applied = straddle(&dir, &["apply", "first.json", "--write", &operand]);
        assert!(applied.status.success(), "{name}: {}", transcript(&applied));
        fs::remove_file(dir.join("first.json.undo")).unwrap();
        let file = fs::OpenOptions::new().write(true).open(dir.join(name)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 512).unwrap();
        drop(file);
        let codes_and_lines = || {
            let out = straddle(&dir, &["check", "--json", "--", &operand]);
            let report: Value = serde_json::from_slice(&out.stdout).unwrap();
            let findings = report["targets"][0]["findings"].as_array().unwrap().clone();
            findings.into_iter().find(|finding| finding["code"] == "S031")
        };
        let finding = codes_and_lines().unwrap_or_else(|| panic!("{name}"));
        for command in finding["fix"]["commands"].as_array().unwrap() {
            by_shell(&dir, command["line"].as_str().unwrap());
        }
        assert!(codes_and_lines().is_none(), "{name}");
        assert!(!dir.join("X").exists(), "something was run: {name}");
    }
}

/// A name that is not UTF-8 is printed as one that another file may have.
#[test]
fn no_command_is_for_another_file() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = Dir::new("other");
    let shown = dir.image("bad\u{fffd}.img", 16 << 20);
    tools::write_table(&shown, 512, "label: dos\nstart=63, size=20000\n");
    let image = dir.path().join(OsStr::from_bytes(b"bad\xff.img"));
    fs::copy(&shown, &image).unwrap();
    let checked = output(Command::new(STRADDLE).arg("check").arg(&image), "");
    let text = transcript(&checked);
    assert!(text.contains("MISALIGNED") && !text.contains("straddle realign"), "{text}");
}

#[test]
fn a_name_of_any_bytes_comes_back_from_a_shell() {
    let dir = Dir::new("bytes");
    for name in [
        &b"$(touch X).img"[..],
        b"-x y'.img",
        b"\xff\xfe\x1b[2J.img",
        "\u{202e}gmi.a".as_bytes(),
        b"!a\\n\n.img",
    ] {
        let (image, plan) = (dir.path().join(OsStr::from_bytes(name)), [name, b".json"].concat());
        let file = fs::File::create(&image).unwrap();
        file.set_len(16 << 20).unwrap();
        drop(file);
        let mut command = Command::new(STRADDLE);
        command
            .args(["plan", "--table", "gpt", "--part", "rest", "--save"])
            .arg(dir.path().join(OsStr::from_bytes(&plan)));
        let planned = output(command.arg(&image), "");
        assert!(planned.status.success(), "{}", transcript(&planned));
        let line = line_after(&planned, "  Next:\n    ");
        // A name that is not UTF-8 is shown with replacement characters, so the real one is passed as an
        // argument.
        let applied = if std::str::from_utf8(name).is_ok() {
            by_shell(&dir, &line)
        } else {
            let plan = dir.path().join(OsStr::from_bytes(&plan));
            output(Command::new(STRADDLE).arg("apply").arg(plan).arg("--write").arg(&image), "")
        };
        by_shell(&dir, &line_after(&applied, "to revert: "));
        assert!(
            fs::read(&image).unwrap().iter().all(|byte| *byte == 0) && !dir.join("X").exists(),
            "{name:?}"
        );
    }
}

/// Makes the disks `ext4`, `swap`, `luks`, `btrfs`, `xfs`, `vfat`, `gpt` and `qcow2`, and a sysfs tree below
/// `root`, with labels and names that contain control characters; returns the partition's name.
fn labelled(dir: &Dir) -> String {
    let label = "\u{1b}[31m\u{202e}\u{200b}x";
    let luks = "cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /dev/zero \
        --keyfile-size 8 --label";
    for (name, mib, line, label) in [
        ("ext4", 16, "mkfs.ext4 -q -L", Some(label)),
        ("swap", 16, "mkswap -L", Some(label)),
        ("luks", 32, luks, Some(label)),
        ("btrfs", 160, "mkfs.btrfs -q -L", Some(label)),
        ("xfs", 320, "mkfs.xfs -q -L", Some("\u{1b}[1m\u{202e}")),
        ("vfat", 16, "mkfs.vfat", None),
    ] {
        dir.image(name, mib << 20);
        let mut words = line.split(' ');
        let mut make = Command::new(words.next().unwrap());
        let made = output(make.args(words).args(label).arg(dir.join(name)), "");
        if !made.status.success() {
            tools::skipped(&format!("{name}: {}", transcript(&made)));
        }
    }
    // The label of a FAT is eleven bytes in the boot sector and in the root directory.
    let mut fat = fs::read(dir.join("vfat")).unwrap();
    fat[43..54].copy_from_slice(b"\x1b[31m\x1b]0;\x07 ");
    fs::write(dir.join("vfat"), fat).unwrap();
    dir.image("gpt", 16 << 20);
    let hex = |text: &str| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    // 36 UTF-16 code units.
    let name = "\u{1b}]0;t\u{7}\u{9b}1m\u{202e}b\u{2028}c\u{200b}\u{7f}\nstatus: ok'$(X)";
    let script = format!("label: gpt\nstart=2049, size=8192, name=\"{}\"\n", hex(name));
    run(Command::new("sfdisk").args(["-q", "--no-reread", "--no-tell-kernel"]).arg(dir.join("gpt")), &script);
    let backing = format!("{label}\u{2028}.raw");
    dir.image(&backing, 16 << 20);
    run(
        Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b", &backing, "qcow2"])
            .current_dir(dir.path()),
        "",
    );
    for (path, text) in [
        ("size", "262144\n"),
        ("dev", "8:0\n"),
        ("queue/logical_block_size", "512\n"),
        ("queue/physical_block_size", "4096\n"),
        ("device/model", &format!("{label} drive\n")),
        ("device/vendor", &format!("{label}\n")),
        ("device/serial", &format!("{label}\n")),
        ("dm/name", &format!("{label}\n")),
    ] {
        let path = dir.join("root/sys/block/sda").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    name.to_owned()
}

#[test]
fn names_on_disks_are_printed_and_not_obeyed() {
    let tools = ["sfdisk", "mkfs.ext4", "mkfs.vfat", "cryptsetup", "qemu-img", "mkswap"];
    if !present(&tools) {
        return;
    }
    let dir = Dir::new("labels");
    let mut counts = [0; 2];
    let name = labelled(&dir);
    for image in cases(["ext4", "swap", "luks", "btrfs", "xfs", "vfat", "gpt", "qcow2"].into_iter(), 3) {
        for more in [&[][..], &["--json"], &["--quiet"], &["--verbose"], &["--color", "always", "--verbose"]]
        {
            looked_at(&dir, &[&["check", image][..], more].concat(), &mut counts);
            looked_at(&dir, &[&["map", image][..], more].concat(), &mut counts);
        }
        for more in [&[][..], &["--json"], &["--explain"]] {
            looked_at(
                &dir,
                &[&["plan", image, "--table", "gpt", "--part", "rest", "--wipe"][..], more].concat(),
                &mut counts,
            );
        }
    }
    for more in [&[][..], &["--json"], &["--verbose"]] {
        looked_at(&dir, &[&["check", "--sysroot", "root", "sda"][..], more].concat(), &mut counts);
    }
    looked_at(&dir, &["plan", "gpt", "--delete", "1", "--save", "plan"], &mut counts);
    looked_at(&dir, &["apply", "plan", "--write", "gpt", "--dry-run"], &mut counts);
    assert!(counts[1] > if is_sampled() { 8 } else { 20 }, "{counts:?}");
    // After JSON unescaping, the string is the original one.
    let report: Value = serde_json::from_slice(&straddle(&dir, &["check", "gpt", "--json"]).stdout).unwrap();
    assert_eq!(report["targets"][0]["partitions"][0]["name"], name);
}

/// Tables leave out columns, or wrap their cells, on a terminal that is narrower than they are.
#[test]
fn tables_fit_a_narrow_terminal() {
    if !present(&["script", "stty", "sfdisk"]) {
        return;
    }
    let dir = Dir::new("narrow");
    tools::write_table(&dir.image("disk", 64 << 20), 512, "label: gpt\nstart=2049, size=8MiB\nstart=32MiB\n");
    let part = "10MiB,name=a-name-of-thirty-six-characters-here,type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7";
    let plan = format!("plan disk --add {part}");
    for command in ["check disk", "map disk", &plan, "probe drive:qlc-16k", "drive list"] {
        for width in [80, 100] {
            let line = format!("stty rows 24 cols {width}; '{STRADDLE}' {command}");
            let output =
                output(Command::new("script").args(["-qc", &line, "/dev/null"]).current_dir(dir.path()), "");
            let printed = tools::text(&output.stdout).replace('\r', "");
            assert!(printed.lines().count() > 5, "{command}: {printed}");
            // A bar is printed over itself.
            let lines = printed.lines().flat_map(|line| line.split("\u{1b}[2K"));
            let widest = lines.map(|line| plain(line).chars().count()).max();
            assert!(widest <= Some(width), "{command} at {width}: {widest:?}\n{printed}");
            // COLUMNS counts where no terminal knows its width. Prose of the same words is as wide.
            let mut piped = Command::new("sh");
            piped.args(["-c", &format!("'{STRADDLE}' {command}")]).env("COLUMNS", width.to_string());
            let said = tools::output(piped.current_dir(dir.path()), "");
            let widest = tools::text(&said.stdout).lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{command} at COLUMNS={width}: {widest:?}");
        }
    }
}

/// A line without the sequences that colour it.
fn plain(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').map_or("", |(_, rest)| rest))
}
