//! Moves of a partition's data beside dd(1) and `sfdisk --move-data`, on one file system and with cold caches.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use straddle_units::io::SplitMix64;

use crate::images::Dir;
use crate::process::wait;
use crate::samples::Samples;

/// Rounds; an arm takes seconds.
const ROUNDS: usize = 7;
const MIB: u64 = 1 << 20;
/// The bytes that move.
const LEN: u64 = 512 * MIB;
const SIZE: u64 = 1280 * MIB;
/// How many bytes move at a time.
const WINDOW: u64 = 16 * MIB;

/// One way to move the data.
struct Way {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    /// What the program reads.
    input: &'static str,
}

/// Moves in a file of this machine, and on a modelled disk.
pub(crate) fn run(straddle: &Path) -> Result<Vec<Samples>> {
    let samples = here()?;
    modelled(straddle)?;
    Ok(samples)
}

/// The disk of the moves in virtual time, and their bytes.
const DRIVE: &str = "wd10ears";
const MODELLED_CONTENT: u64 = 1 << 30;

/// Moves a partition on a modelled disk, in a guest's virtual time: nothing here depends on this machine's speed.
fn modelled(straddle: &Path) -> Result<()> {
    let dir = Dir::within(&std::env::temp_dir(), "moves")?;
    fill(&dir.path().join("content"), MODELLED_CONTENT)?;
    // The program may lie in the host's /tmp, which the guest does not see.
    std::fs::copy(straddle, dir.path().join("straddle"))?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/moves.sh");
    let run = Command::new(straddle)
        .args(["lab", "--drive", DRIVE, "--mem", "2GiB", "--input"])
        .arg(dir.path())
        .args(["--", script])
        .output()?;
    if !run.status.success() {
        eprintln!("SKIPPED: the modelled disk: {}", String::from_utf8_lossy(&run.stderr).trim());
        return Ok(());
    }
    println!("On a modelled {DRIVE}, in its virtual time, once:");
    let mut first = None;
    for line in String::from_utf8_lossy(&run.stdout).lines() {
        let mut words = line.rsplitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
        let (Some(nanoseconds), Some(bytes), Some(name)) = (number(), number(), words.next()) else {
            continue;
        };
        let rate = bytes / nanoseconds;
        let dd = *first.get_or_insert(rate);
        println!(
            "  {name:25} {:4.0} MB in {:7.3} s, {:.2} of the rate of dd",
            bytes / 1e6,
            nanoseconds / 1e9,
            rate / dd
        );
    }
    Ok(())
}

fn here() -> Result<Vec<Samples>> {
    let shift = example()?;
    // A file system for temporary files may be memory.
    let dir = Dir::within(shift.parent().context("in a folder")?, "moves")?;
    let image = dir.path().join("disk");
    fill(&image, SIZE)?;
    let path = image.display().to_string();
    let journal = dir.path().join("journal").display().to_string();
    let ours = |name, start: u64, to: u64| {
        let numbers = [start, LEN, to, WINDOW].map(|number| number.to_string());
        let words = [path.clone()].into_iter().chain(numbers).chain([journal.clone()]).collect();
        Way { name, program: shift.clone(), words, input: "" }
    };
    let theirs = |name, program: &str, words: &[String], input| Way {
        name,
        program: program.into(),
        words: words.to_vec(),
        input,
    };
    let dd = ["if=", "of="].map(|word| format!("{word}{path}"));
    let dd: Vec<String> = dd
        .into_iter()
        .chain(["bs=4M", "skip=0", "seek=160", "count=128", "conv=fsync,notrunc"].map(str::to_owned))
        .collect();
    let sfdisk = ["--force", "--no-reread", "--move-data=/dev/null", "--move-use-fsync", "-N1", &path];
    let mut ways = vec![
        theirs("dd conv=fsync", "/bin/dd", &dd, ""),
        ours("apart", 0, 640 * MIB),
        ours("by a sector", 63 * 512, 64 * 512),
        ours("by 1 MiB", MIB, 2 * MIB),
        theirs("sfdisk, by 1 MiB", "/usr/sbin/sfdisk", &sfdisk.map(str::to_owned), "+1M,\n"),
    ];
    ways.retain(|way| {
        let there = way.program.exists();
        if !there {
            eprintln!("SKIPPED: {} is not installed", way.program.display());
        }
        there
    });
    println!("{} MB in a file, windows of {WINDOW} bytes, {ROUNDS} rounds:", LEN / 1_000_000);
    let mut samples: Vec<Samples> = ways.iter().map(|way| Samples::new(way.name)).collect();
    for round in 0..=ROUNDS {
        for turn in 0..ways.len() {
            let index = (round + turn) % ways.len();
            let (took, peak) = once(&ways[index], &image)?;
            if round > 0 {
                samples[index].add(took, peak);
            }
        }
    }
    report(&samples);
    Ok(samples)
}

fn report(samples: &[Samples]) {
    for of_way in samples {
        println!("  {:24} {}", of_way.name, of_way.summary(1.0, "s"));
    }
    if let [dd, ours @ ..] = samples {
        for of_way in ours {
            println!("  {:24} has {:.2} of the rate of dd", of_way.name, of_way.rate_of(dd));
        }
    }
    if let [.., verified, ours, sfdisk] = samples
        && sfdisk.name.starts_with("sfdisk")
    {
        for of_way in [verified, ours] {
            println!("  {:24} has {:.2} of the rate of sfdisk", of_way.name, of_way.rate_of(sfdisk));
        }
    }
}

/// Builds the program that moves with the engine.
fn example() -> Result<PathBuf> {
    let words = ["build", "--release", "-p", "straddle-repair", "--example", "shift"];
    if !Command::new(env!("CARGO")).args(words).status()?.success() {
        bail!("the example cannot be built");
    }
    let built = std::env::current_exe()?.with_file_name("examples").join("shift");
    if !built.exists() {
        bail!("{} is not there: run this with --release", built.display());
    }
    Ok(built)
}

/// No byte of the file is a hole, or equal to another run's.
fn fill(image: &Path, size: u64) -> Result<()> {
    let file = File::create(image)?;
    let mut random = SplitMix64::new(1);
    let mut bytes = vec![0; 4 << 20];
    for at in (0..size).step_by(bytes.len()) {
        random.fill(&mut bytes);
        file.write_all_at(&bytes, at)?;
    }
    Ok(file.sync_all()?)
}

/// Moves once, on a cold cache; returns the time and the peak of memory.
fn once(way: &Way, image: &Path) -> Result<(std::time::Duration, u64)> {
    if !way.input.is_empty() {
        let table = format!("label: dos\nstart={}, size={}, type=83\n", MIB / 512, LEN / 512);
        feed(Command::new(&way.program).args(["--no-reread", "--force"]).arg(image), &table)?;
    }
    let file = File::open(image)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    let begun = Instant::now();
    let peak = feed(Command::new(&way.program).args(&way.words), way.input)?;
    Ok((begun.elapsed(), peak))
}

/// Runs a command with an input; returns the peak of its memory.
fn feed(command: &mut Command, input: &str) -> Result<u64> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut pipe = child.stdin.take().context("piped")?;
    std::io::Write::write_all(&mut pipe, input.as_bytes())?;
    drop(pipe);
    match wait(child.id())? {
        (0, peak) => Ok(peak),
        (code, _) => bail!("{:?} ended with {code}", command.get_program()),
    }
}
