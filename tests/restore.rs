//! A run of `straddle bench` that is killed at any moment, and `--restore` after it.
//!
//! `RESTORES` says how many times (40 if not set; `make restores`: 500), `RESTORE_SEED` where the moments come from.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tools;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tools::{Dir, STRADDLE};

const SIZE: u64 = 6 << 20;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// SplitMix64.
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn bench(target: &Path, journals: &Path) -> Command {
    let mut command = Command::new(STRADDLE);
    command.args(["bench", "random-write"]).arg(target).arg("--journals").arg(journals);
    command.args(["--io", "buffered", "--runtime", "30"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn restored(journals: &Path) -> String {
    let output =
        Command::new(STRADDLE).args(["bench", "--restore", "--journals"]).arg(journals).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_killed_run_leaves_what_was_there() {
    let (count, seed) = (number("RESTORES", 40), number("RESTORE_SEED", 1));
    let dir = Dir::new("restore");
    let (target, journals) = (dir.join("disk.img"), dir.join("journals"));
    let bytes: Vec<u8> = (0..SIZE).map(|at| mixed(at / 8).to_le_bytes()[(at % 8) as usize]).collect();
    fs::write(&target, &bytes).unwrap();
    let (mut before, mut during) = (0, 0);
    for round in 0..count {
        let again = format!("RESTORES={count} RESTORE_SEED={seed}, kill {round}");
        let drawn = mixed(seed ^ (round << 32));
        let mut run = bench(&target, &journals).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(drawn % 250_000));
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(fs::read(&target).unwrap() == bytes, "{again}: it differs before anything was put back");
        let journal = fs::read_dir(&journals).ok().and_then(|mut entries| entries.next());
        // A power cut can tear what was being written: only a complete journal allows for that.
        let complete =
            journal.is_some_and(|entry| fs::read(entry.unwrap().path()).unwrap().ends_with(b"STRADDLE"));
        if complete {
            let file = OpenOptions::new().write(true).open(&target).unwrap();
            let torn = vec![0xEE; 1 + (drawn >> 40) as usize % 70_000];
            let at = (drawn >> 8) % (SIZE - torn.len() as u64);
            file.write_all_at(&torn, at).unwrap();
            // Two journals of one target would not know of each other.
            let refused = bench(&target, &journals).status().unwrap();
            assert_eq!(refused.code(), Some(4), "{again}");
            during += 1;
        } else {
            before += 1;
        }
        let told = restored(&journals);
        assert!(fs::read(&target).unwrap() == bytes, "{again}: {told}");
        assert_eq!(fs::read_dir(&journals).map_or(0, Iterator::count), 0, "{again}: {told}");
    }
    println!("{count} kills: {before} before the journal was complete, {during} after that");
    assert!(during > 0, "no run was killed while it measured");
}
