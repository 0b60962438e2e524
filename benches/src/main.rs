//! Measures straddle next to comparable tools: `cargo run --release -p straddle-benches -- check`.
//!
//! Invariants: whole processes are measured from outside, the arms take turns within each round so
//! that any other load of the machine affects all of them, and a figure is a median with its quartiles.

mod calibration;
mod disksim;
mod drives;
mod images;
mod moves;
mod process;
mod python;
mod real;
mod samples;
mod serve;
mod trace;
mod validate;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::process::Arm;
use crate::samples::Samples;

/// Rounds for one image; a process takes about a millisecond.
const ROUNDS_OF_ONE: usize = 400;

/// Rounds for many images.
const ROUNDS_OF_MANY: usize = 9;

/// The number of images in one call.
const MANY: usize = 10_000;

/// The number of qcow2 images in one call.
const MANY_QCOW2: usize = 2000;

/// The number of images with a table of their own; the others are copies.
const DISTINCT: usize = 250;

const USAGE: &str =
    "usage: straddle-benches check|drives|serve|vhost|real|moves|trace|python|spark [--raw FILE]   (--raw keeps every sample)
       straddle-benches validate --disksim DIR [--steps]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["validate", "--disksim", dir, ref steps @ ..] = words[..]
        && matches!(steps, [] | ["--steps"])
    {
        return done(validate::run(Path::new(dir), !steps.is_empty()));
    }
    let (what, raw) = match words[..] {
        [
            what @ ("check" | "drives" | "serve" | "vhost" | "real" | "moves" | "trace" | "python" | "spark"),
        ] => (what, None),
        [
            what @ ("check" | "drives" | "serve" | "vhost" | "real" | "moves" | "trace" | "python" | "spark"),
            "--raw",
            file,
        ] => (what, Some(PathBuf::from(file))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let measured = match what {
        "drives" => drives::run(),
        "serve" => build().and_then(|straddle| serve::over_nbd(&straddle)),
        "vhost" => build().and_then(|straddle| serve::over_vhost(&straddle)),
        "real" => build().and_then(|straddle| real::beside_fio(&straddle)),
        "moves" => build().and_then(|straddle| moves::run(&straddle)),
        "python" => python::run("tables.py", false),
        "spark" => python::run("cluster.py", true),
        "trace" => build().and_then(|straddle| trace::run(&straddle)),
        _ => check(),
    };
    // Its memory would show in the peaks of programs that are started after it.
    calibration::print();
    done(measured.and_then(|all| keep(&all, raw.as_deref())).map(|()| true))
}

/// The exit code for an outcome.
fn done(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("straddle-benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<Vec<Samples>> {
    let straddle = build()?;
    let dir = images::Dir::new()?;
    let mut all = one_image(&straddle, &dir)?;
    all.extend(many_images(&straddle, &dir)?);
    all.extend(many_qcow2(&straddle, &dir)?);
    // This comes last: the memory needed to make the image would show in the other peaks.
    all.extend(deep_image(&straddle, &dir)?);
    Ok(all)
}

/// Writes every sample to the file `raw`, if it was given.
fn keep(all: &[Samples], raw: Option<&Path>) -> Result<()> {
    let Some(path) = raw else { return Ok(()) };
    let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    for samples in all {
        writeln!(file, "{}", samples.raw())?;
    }
    Ok(())
}

/// Builds straddle in release mode, so that no stale build is measured; returns its path.
fn build() -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "straddle", "--all-features"])
        .status()?;
    if !status.success() {
        bail!("straddle cannot be built");
    }
    let own = std::env::current_exe()?;
    let built = own.with_file_name("straddle");
    if !built.exists() {
        bail!("{} is not there: run this with --release", built.display());
    }
    Ok(built)
}

/// One image and one process: the time that a user at a prompt, or a loop in a script, waits.
fn one_image(straddle: &Path, dir: &images::Dir) -> Result<Vec<Samples>> {
    let image = dir.one_table(0)?;
    let path = image.display().to_string();
    let mut arms = vec![
        Arm::new("straddle check", straddle, &["check", &path]),
        Arm::new("sfdisk -J", Path::new("/usr/sbin/sfdisk"), &["-J", &path]),
        Arm::new("parted print", Path::new("/usr/sbin/parted"), &["-sm", &path, "unit", "s", "print"]),
    ];
    arms.retain(|arm| arm.is_there());
    println!("one image, {ROUNDS_OF_ONE} rounds, the whole process:");
    let samples = process::interleave(&arms, ROUNDS_OF_ONE)?;
    for of_arm in &samples {
        println!("  {:16} {}", of_arm.name, of_arm.summary(1e3, "ms"));
    }
    let faster = samples[1..].iter().min_by(|a, b| a.median().total_cmp(&b.median()));
    if let Some(peer) = faster {
        println!("  straddle takes {} of {}", samples[0].ratio(peer), peer.name);
    }
    Ok(samples)
}

/// An image of five layers, compared with tools that find the first of them.
fn deep_image(straddle: &Path, dir: &images::Dir) -> Result<Vec<Samples>> {
    let path = dir.deep()?.display().to_string();
    let mut arms = vec![
        Arm::new("straddle deep", straddle, &["check", &path]),
        Arm::new("blkid -p", Path::new("/usr/sbin/blkid"), &["-p", &path]),
    ];
    arms.retain(|arm| arm.is_there());
    println!(
        "one image of depth 5 (partition, md, PV, LV, file system), {ROUNDS_OF_ONE} rounds, the whole process:"
    );
    let samples = process::interleave(&arms, ROUNDS_OF_ONE)?;
    for of_arm in &samples {
        println!("  {:16} {}", of_arm.name, of_arm.summary(1e3, "ms"));
    }
    if let [ours, peer] = &samples[..] {
        println!("  straddle takes {} of {}, which sees the first layer only", ours.ratio(peer), peer.name);
    }
    Ok(samples)
}

/// Small qcow2 images in one call.
fn many_qcow2(straddle: &Path, dir: &images::Dir) -> Result<Vec<Samples>> {
    let names = dir.qcow2(MANY_QCOW2)?;
    let mut words = vec!["check"];
    words.extend(names.iter().map(String::as_str));
    let arms = [Arm::new("qcow2", straddle, &words).within(dir.path())];
    println!("{MANY_QCOW2} qcow2 images in one call, {ROUNDS_OF_MANY} rounds:");
    let samples = process::interleave(&arms, ROUNDS_OF_MANY)?;
    for of_arm in &samples {
        println!("  {:16} {}", of_arm.name, of_arm.rate(MANY_QCOW2));
    }
    Ok(samples)
}

/// Ten thousand images in one call: the time of a nightly check of an image store.
fn many_images(straddle: &Path, dir: &images::Dir) -> Result<Vec<Samples>> {
    let names = dir.many(MANY, DISTINCT)?;
    let arm = |name, options: &[&str]| {
        let mut words = vec!["check"];
        words.extend(options);
        words.extend(names.iter().map(String::as_str));
        Arm::new(name, straddle, &words).within(dir.path())
    };
    let arms = [arm("text", &[]), arm("--json", &["--json"]), arm("--quiet", &["--quiet"])];
    println!("{MANY} images ({DISTINCT} different tables) in one call, {ROUNDS_OF_MANY} rounds:");
    let samples = process::interleave(&arms, ROUNDS_OF_MANY)?;
    for of_arm in &samples {
        println!("  {:16} {}", of_arm.name, of_arm.rate(MANY));
    }
    Ok(samples)
}
