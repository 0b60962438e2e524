//! Power cuts under a real kernel: six file systems on six drives lose power at the same moment, in the
//! middle of their work. Afterwards each must mount, contain every file that was synced, and be consistent
//! according to its own checker.
//!
//! One guest writes, reports what it has synced, and is cut off with the power. A second guest checks what is
//! on the media. The test runs a few seeds; `make cuts` runs a thousand cuts (`CUTS=1000`), and `CUT_SEED=n`
//! repeats one guest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tools::{Dir, STRADDLE, present, text, transcript};

const FILE_SYSTEMS: [&str; 6] = ["ext3", "ext4", "reiserfs", "jfs", "xfs", "btrfs"];
/// A drive for each way to lose unflushed data: read-modify-write of emulated sectors, with a misaligned and
/// an aligned partition; flash; and a disk that writes partial sectors to a media cache first.
const DRIVES: [(&str, &str); 4] =
    [("wd10ears", "34s"), ("dt01aca300", "40s"), ("ssd-sata-4k", "34s"), ("st2000dl003", "34s")];

fn lab(drive: &str, start: &str, dir: &Path, more: &[&str], script: &str) -> Output {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab");
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--start", start, "--size", "330MiB", "--timeout", "10m"]);
    for file_system in FILE_SYSTEMS {
        command.args(["--drive", drive, "--store"]).arg(dir.join(format!("{file_system}.img")));
    }
    command.arg("--input").arg(dir).args(more).arg("--").arg(scripts.join(script)).args(FILE_SYSTEMS);
    command.stdin(Stdio::null()).output().unwrap()
}

/// Cuts the power of six file systems once; returns how many of them were in use, and how many files were
/// checked.
fn cut(seed: u64) -> (u64, u64) {
    let (drive, start) = DRIVES[usize::try_from(seed).unwrap() % DRIVES.len()];
    // Between the last mkfs and long after it, so that most cuts hit files being written. A factor coprime to
    // the range spreads the times.
    let after = 4700 + seed.wrapping_mul(7919) % 5000;
    let dir = Dir::new("cuts");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab");
    fs::copy(scripts.join("cut.pl"), dir.join("cut.pl")).unwrap();
    let (after_text, seed_text) = (after.to_string(), seed.to_string());
    let options = ["--cut-after", &after_text, "--tear", "nothing", "--seed", &seed_text];
    let again = format!(
        "CUT_SEED={seed} cargo test -p straddle --test guest cuts::; {drive} at {start}, cut after {after} requests"
    );

    let written = lab(drive, start, dir.path(), &options, "cut-write.sh");
    // The power was cut, so that the command has no status.
    assert_eq!(written.status.code(), Some(3), "{again}\n{}", transcript(&written));
    let marks = text(&written.stdout);
    // The power may be cut in the middle of a line.
    let whole = marks.rfind('\n').map_or("", |end| &marks[..=end]);
    fs::write(dir.join("marks"), whole).unwrap();
    let checked = lab(drive, start, dir.path(), &[], "cut-check.sh");
    assert_eq!(checked.status.code(), Some(0), "{again}\n{}", transcript(&checked));
    let out = text(&checked.stdout);
    let files = out.lines().find_map(|line| line.strip_prefix("checked ")?.split(' ').next()?.parse().ok());
    let sound = out.lines().filter(|line| line.starts_with("sound ")).count();
    let made = whole.lines().filter(|line| line.starts_with("made ")).count();
    assert_eq!(sound, made, "{again}\n{out}");
    (u64::try_from(sound).unwrap(), files.unwrap())
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    if !present(&["linux.uml", "mkfs.reiserfs", "mkfs.jfs", "mkfs.xfs", "mkfs.btrfs", "perl"]) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    if let Some(seed) = number("CUT_SEED") {
        println!("{:?}", cut(seed));
        return;
    }
    let wanted = number("CUTS").unwrap_or(if tools::skip::is_sampled() { 12 } else { 24 });
    let (next, cuts, files) = (AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(0));
    let guests = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..guests {
            scope.spawn(|| {
                while cuts.load(Ordering::Relaxed) < wanted {
                    let (sound, checked) = cut(next.fetch_add(1, Ordering::Relaxed));
                    cuts.fetch_add(sound, Ordering::Relaxed);
                    files.fetch_add(checked, Ordering::Relaxed);
                }
            });
        }
    });
    let (cuts, files) = (cuts.into_inner(), files.into_inner());
    println!("{cuts} file systems lost power; {files} synced files were looked for, and all were there");
    assert!(files > cuts, "the cuts came before anything was synced: {files} files");
}
