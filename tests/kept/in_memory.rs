//! A backup or a journal that a power failure would take with it: which file systems are found to be in memory,
//! and that every command warns of it in the same words.

use std::os::unix::fs::MetadataExt;
use std::process::Output;

use super::*;

/// A backup in memory is lost with the power, a target there too. Each is reported as what it is.
#[test]
fn a_backup_in_memory_is_warned_of_unless_the_target_is_there_too() {
    let dir = Dir::new("volatile");
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return tools::skipped("there is no /dev/shm") };
    // The folder of the tests may be in memory as well.
    let expects = |target: &Path, backup: &Path| {
        tools::file_system(target) != "tmpfs" && tools::file_system(backup) == "tmpfs"
    };
    let is_seen = expects(dir.path(), memory.path());
    dir.image("disk", 64 << 20);
    let there = memory.path().join("disk");
    fs::copy(dir.join("disk"), &there).unwrap();
    done(&dir, &["plan", "disk", "--table", "gpt", "--part", "4MiB", "--save", "plan"]);
    let (there, undo) = (there.to_str().unwrap(), memory.path().join("undo"));
    let kept = dir.join("kept");
    for (target, backup, expected) in
        [("disk", &undo, is_seen), ("disk", &kept, false), (there, &undo, false), (there, &kept, false)]
    {
        let backup = backup.to_str().unwrap();
        for dry in [&["--dry-run"][..], &[]] {
            let apply = [&["apply", "plan", "--write", target, "--backup", backup][..], dry].concat();
            let applied = straddle_in(&dir, &apply);
            assert_eq!(applied.status.code(), Some(0), "{}", transcript(&applied));
            let said = tools::text(&applied.stderr);
            let warned = said.contains(&format!("{backup}: the backup would be in memory only (tmpfs)"));
            assert_eq!(warned, expected, "{apply:?}: {said}");
            assert_eq!(said.is_empty(), !expected, "{apply:?}: {said}");
        }
        done(&dir, &["undo", backup, "--write", target]);
        fs::remove_file(backup).unwrap();
    }
}

/// Mounts, in a namespace of its own, each kind of place that a journal may be in; in `disk` are the target and
/// the plans.
const MOUNTS: &str = r#"set -e
overlay() {
    mkdir -p "$1" "$2" "$3" low
    mount -t overlay overlay -o "lowerdir=$PWD/low,upperdir=$PWD/$2,workdir=$PWD/$3" "$1"
}
cd "$1"
shift
mkdir memory gone layers
mount -t tmpfs tmpfs memory
overlay live memory/upper memory/work
overlay hidden gone/upper gone/work
mount -t tmpfs tmpfs gone
overlay lasting layers/c layers/d
cp disk/image live/image
"#;

/// Places in memory, what they are called, one of which it is not known, and one on a disk.
const PLACES: [(&str, Option<&str>); 4] = [
    ("memory", Some("would be in memory only (tmpfs)")),
    ("live", Some("would be in memory only (overlay on tmpfs)")),
    ("hidden", Some("may be in memory only (an overlay whose upper layer cannot be found)")),
    ("lasting", None),
];

/// A disk with a partition that is misaligned and room for another, a plan for each, and the folders to mount
/// on; `None` if nothing can be mounted here.
fn folders() -> Option<Dir> {
    if !present(&["unshare", "mount", "sfdisk"]) {
        return None;
    }
    let dir = Dir::new("memory");
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || ["tmpfs", "overlayfs"].contains(&tools::file_system(dir.path()).as_str()) {
        tools::skipped("only root can mount, and only on a temporary folder that is on a disk");
        return None;
    }
    fs::create_dir(dir.join("disk")).unwrap();
    tools::write_table(&dir.image("disk/image", 24 << 20), 512, "label: dos\nstart=63, size=4000, type=83\n");
    let content = [0x5A; 4000 * 512];
    let image = OpenOptions::new().write(true).open(dir.join("disk/image")).unwrap();
    image.write_all_at(&content, 63 * 512).unwrap();
    done(&dir, &["plan", "disk/image", "--add", "1MiB", "--save", "disk/table.json"]);
    done(&dir, &["realign", "disk/image", "--save", "disk/moves.json"]);
    fs::copy(dir.join("disk/image"), dir.join("image")).unwrap();
    Some(dir)
}

/// Runs the shell's `line` where everything is mounted, with `arguments`.
fn mounted(dir: &Dir, line: &str, arguments: &[&str]) -> Output {
    fs::copy(dir.join("image"), dir.join("disk/image")).unwrap();
    let mut command = Command::new("unshare");
    let script = format!("{MOUNTS}{line}\n");
    let command = command.args(["--mount", "bash", "-c", &script, "bash"]).arg(dir.path()).args(arguments);
    let ended = output(command, "");
    // Of what was mounted, the empty folders are left.
    for left in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if left.is_dir() && !left.ends_with("disk") {
            fs::remove_dir_all(left).unwrap();
        }
    }
    ended
}

/// Runs straddle where everything is mounted; returns its messages, on one line.
fn said(dir: &Dir, arguments: &[&str]) -> String {
    let ended = mounted(dir, "exec \"$@\"", &[&[STRADDLE], arguments].concat());
    assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {}", transcript(&ended));
    tools::flat(&tools::text(&ended.stderr))
}

/// What is needed after a power failure, by each command: the options, and what is said of which file.
const NEEDS: [(&[&str], &str, &str, &str); 4] = [
    (&["apply", "disk/table.json", "--write"], "--backup", "backup", "a file on a disk with --backup"),
    (&["apply", "disk/moves.json", "--write"], "--journal", "journal", "a file on a disk with --journal"),
    (
        &["bench", "random-write", "--used", "--io", "buffered", "--count", "4", "--runtime", "0.1"],
        "--journals",
        "journal",
        "a directory on a disk with --journals",
    ),
    (&["probe", "--used", "--time", "1"], "--journals", "journal", "a directory on a disk with --journals"),
];

#[test]
fn every_command_says_that_what_a_power_failure_needs_is_in_memory() {
    let Some(dir) = folders() else { return };
    for (index, (words, option, what, instead)) in NEEDS.into_iter().enumerate() {
        for (place, expected) in PLACES {
            // Which places are in memory is the same for all.
            if index > 0 && !["live", "hidden", "lasting"].contains(&place) {
                continue;
            }
            let file = format!("{place}/new");
            let said = said(&dir, &[words, &["disk/image", option, &file]].concat());
            let warnings = said.matches("warning: ").count();
            assert_eq!(warnings, usize::from(expected.is_some()), "{words:?} {place}: {said}");
            if let Some(expected) = expected {
                let begin = format!("warning: {file}: the {what} {expected}");
                let end = format!("), and so could be lost in a power failure or restart; use {instead}");
                assert!(said.contains(&begin) && said.contains(&end), "{words:?} {place}: {said}");
            }
        }
    }
}

/// Nothing is lost that the target, which goes too, would need; nor from free space.
#[test]
fn what_is_lost_with_the_target_or_from_free_space_is_not_warned_of() {
    let Some(dir) = folders() else { return };
    for file in ["live/new", "memory/new"] {
        let apply = ["apply", "disk/table.json", "--write", "live/image", "--backup", file];
        let said = said(&dir, &apply);
        assert!(!said.contains("warning: "), "{apply:?}: {said}");
    }
    let bench =
        ["bench", "random-write", "disk/image", "--io", "buffered", "--count", "4", "--runtime", "0.1"];
    let said = said(&dir, &[&bench[..], &["--journals", "live/new"]].concat());
    assert!(!said.contains("in memory only"), "{said}");
}
