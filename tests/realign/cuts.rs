//! Power cuts under the program in the lab: a real kernel moves ext4 and NTFS on a modelled drive, and loses
//! power in the middle, and again in the recovery.
//!
//! `LAB_CUTS=n` sets the number of cuts, `LAB_SEED=n` repeats one case.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use straddle_units::io::SplitMix64;

use super::shell;
use crate::tools::{Dir, STRADDLE, present, text, transcript};

/// A disk that tears 4096-byte sectors, one that also hides them, and flash.
const DRIVES: [&str; 3] = ["dt01aca300", "wd10ears", "ssd-sata-4k"];

/// Two partitions from sector 63 without a gap, each with the same tree.
const MAKE: &str = "\
printf 'label: dos\\nstart=63,size=24001,type=83\\nstart=24064,size=20000,type=7\\n' | sfdisk -q --no-tell-kernel disk.img
mkdir tree; for n in 1 2 3; do head -c $((n * 900001)) /dev/urandom >tree/$n; done
(cd tree; sha256sum * >../sums)
truncate -s $((24001 * 512)) 1; mkfs.ext4 -q -b 4096 -d tree 1
truncate -s $((20000 * 512)) 2; mkfs.ntfs -q -F -f -p 24064 -H 255 -S 63 2 >/dev/null
for n in 1 2 3; do ntfscp -q 2 tree/$n $n; done
dd if=1 of=disk.img bs=64K oflag=seek_bytes seek=$((63 * 512)) conv=notrunc,sparse status=none
dd if=2 of=disk.img bs=64K oflag=seek_bytes seek=$((24064 * 512)) conv=notrunc,sparse status=none
cp --sparse=always disk.img before.img";

fn lab(folder: &Path, drive: &str, more: &[&str], script: &[&str]) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/realign.sh");
    let mut command = Command::new(STRADDLE);
    command.args(["lab", "--drive", drive, "--store"]).arg(folder.join("disk.img"));
    command.arg("--input").arg(folder).args(["--timeout", "20m"]).args(more).arg("--").arg(path);
    command.args(script).stdin(Stdio::null()).output().unwrap()
}

/// What a script of the lab prints; it must succeed.
fn well(folder: &Path, drive: &str, script: &[&str], again: &str) -> String {
    let run = lab(folder, drive, &[], script);
    assert_eq!(run.status.code(), Some(0), "{again}: {}", transcript(&run));
    text(&run.stdout)
}

/// A disk as it was made, and the number of requests of a whole move.
struct Case {
    dir: Dir,
    drive: &'static str,
    requests: u64,
}

impl Case {
    fn new(drive: &'static str) -> Self {
        let dir = Dir::new("realign-cuts");
        // The program may lie in the host's /tmp, which the guest does not see.
        crate::tools::copy_program(STRADDLE, dir.path().join("straddle"));
        let shown = Command::new(STRADDLE).args(["drive", "show", drive, "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let capacity = shown["drives"][0]["claims"]["capacity_bytes"].as_u64().unwrap();
        shell(dir.path(), &format!("truncate -s {capacity} disk.img; {MAKE}"));
        let whole = lab(dir.path(), drive, &["--json"], &["move"]);
        assert_eq!(whole.status.code(), Some(0), "{drive}: {}", transcript(&whole));
        let report: Value =
            serde_json::from_slice(&whole.stdout).unwrap_or_else(|_| panic!("{}", transcript(&whole)));
        let requests = report["requests"].as_u64().unwrap();
        let sound = well(dir.path(), drive, &["check"], "without a cut");
        assert!(
            sound.starts_with("sound ") && !sound.starts_with("sound 63 "),
            "{drive}: {sound}, {}",
            transcript(&whole)
        );
        Self { dir, drive, requests }
    }

    /// Cuts the power once or twice; returns the number of cuts, of which some came before the move or after
    /// it, and whether the layout is the new one.
    fn cut(&self, seed: u64) -> (u64, bool) {
        let (folder, drive) = (self.dir.path(), self.drive);
        let again = format!("LAB_SEED={seed}, {drive}");
        shell(folder, "cp --sparse=always before.img disk.img");
        let number = seed.to_string();
        let mut random = SplitMix64::new(seed);
        let mut options = |of: u64| {
            let after = 1 + random.below(of);
            ["--cut-after".to_owned(), after.to_string(), "--seed".to_owned(), number.clone()]
        };
        let is_cut = |run: &Output| {
            assert!(matches!(run.status.code(), Some(0 | 3)), "{again}: {}", transcript(run));
            u64::from(run.status.code() == Some(3))
        };
        let first = options(self.requests);
        let mut cuts = is_cut(&lab(folder, drive, &first.each_ref().map(String::as_str), &["move"]));
        let script: &[&str] = if seed.is_multiple_of(2) { &["resume"] } else { &["resume", "--rollback"] };
        if seed % 4 < 2 {
            let second = options(self.requests / 2);
            cuts += is_cut(&lab(folder, drive, &second.each_ref().map(String::as_str), script));
        }
        well(folder, drive, script, &again);
        let sound = well(folder, drive, &["check"], &again);
        (cuts, sound.trim() != "sound 63 24064")
    }
}

#[test]
fn ext4_and_ntfs_survive_power_cuts_under_the_program() {
    if !present(&["linux.uml", "sfdisk", "mkfs.ext4", "mkfs.ntfs", "ntfscp", "ntfsfix", "ntfs-3g"]) {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let drive = |seed: u64| DRIVES[usize::try_from(seed).unwrap() / 4 % DRIVES.len()];
    if let Some(seed) = number("LAB_SEED") {
        println!("{:?}", Case::new(drive(seed)).cut(seed));
        return;
    }
    let wanted = number("LAB_CUTS").unwrap_or(4);
    let (mut cuts, mut new, mut seed) = (0, 0, 0);
    let mut case = Case::new(drive(0));
    while cuts < wanted {
        if drive(seed) != case.drive {
            case = Case::new(drive(seed));
        }
        let (cut, is_new) = case.cut(seed);
        (cuts, new, seed) = (cuts + cut, new + u64::from(is_new), seed + 1);
    }
    println!(
        "{seed} moves, {cuts} power cuts: {new} ended with the new layout, {} with the old one",
        seed - new
    );
    assert!(new > 0 && new < seed, "both ways were tried");
}
