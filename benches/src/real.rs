//! `straddle bench` compared with fio: the same requests to the same file, in the same run, in turn. On a
//! file in memory only the program and the kernel take time: requests per second, and processor time per
//! request. On a modelled disk in a guest the disk takes all the time: the same figures.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::images::Dir;
use crate::process::run_measured;
use crate::samples::Samples;
use crate::serve::{LOADS, Load};

/// Seconds per turn of a program.
const SECONDS: u32 = 3;
/// Turns of each program.
const ROUNDS: usize = 7;
/// Requests by each program on the modelled disk.
const SLOW_COUNT: u32 = 4000;

/// What a program achieved: requests per second, as reported by itself, and seconds of processor time per
/// request.
struct Did {
    iops: f64,
    cpu: f64,
}

/// straddle's name for the load.
const fn workload(load: &Load) -> &'static str {
    if load.write { "random-write" } else { "random-read" }
}

/// fio's name for the load.
const fn rw(load: &Load) -> &'static str {
    if load.write { "randwrite" } else { "randread" }
}

const fn engine(load: &Load) -> &'static str {
    if load.depth > 1 { "io_uring" } else { "psync" }
}

/// Runs both in turn; returns the samples as seconds per request.
pub(crate) fn beside_fio(straddle: &Path) -> Result<Vec<Samples>> {
    let fio = Path::new("/usr/bin/fio");
    if !fio.exists() {
        bail!("fio is not installed");
    }
    let mut all = Vec::new();
    let dir = Dir::within(Path::new("/dev/shm"), "real")?;
    let file = dir.join("disk.img");
    println!("on a file in memory (tmpfs), direct I/O; {ROUNDS} turns of {SECONDS} s each");
    for load in &LOADS {
        let zeroes = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "count=64", "status=none"])
            .arg(format!("of={}", file.display()))
            .status()?;
        if !zeroes.success() {
            bail!("{}: cannot be made", file.display());
        }
        let [mut ours, mut theirs] = ["straddle", "fio"].map(Samples::new);
        let [mut our_cpu, mut their_cpu] = ["straddle, processor", "fio, processor"].map(Samples::new);
        for round in 0..ROUNDS {
            let turns: [bool; 2] = if round % 2 == 0 { [true, false] } else { [false, true] };
            for own in turns {
                let did = if own { by_straddle(straddle, &file, load)? } else { by_fio(fio, &file, load)? };
                let (times, cpu) =
                    if own { (&mut ours, &mut our_cpu) } else { (&mut theirs, &mut their_cpu) };
                times.add(Duration::from_secs_f64(1.0 / did.iops), 0);
                cpu.add(Duration::from_secs_f64(did.cpu), 0);
            }
        }
        println!("  {}", load.name);
        println!(
            "    straddle {:9.0} IOPS, {:5.2} µs of processor time a request",
            1.0 / ours.median(),
            our_cpu.median() * 1e6
        );
        println!(
            "    fio      {:9.0} IOPS, {:5.2} µs of processor time a request",
            1.0 / theirs.median(),
            their_cpu.median() * 1e6
        );
        println!("    a request takes straddle {}", ours.ratio(&theirs));
        println!("    processor: {}", our_cpu.ratio(&their_cpu));
        all.extend([ours, theirs, our_cpu, their_cpu]);
    }
    on_a_disk(straddle)?;
    Ok(all)
}

fn by_straddle(straddle: &Path, file: &Path, load: &Load) -> Result<Did> {
    let mut command = Command::new(straddle);
    command.args(["bench", workload(load)]).arg(file).args(["--offsets", "0", "--json"]);
    // fio does not preserve the contents either.
    command.arg("--destroy-data").arg(file);
    command.args(["--runtime", &SECONDS.to_string(), "--queue-depth", &load.depth.to_string()]);
    let (text, cpu) = run_measured(&mut command)?;
    Ok(Did { iops: number(&text, "\"iops\":")?, cpu: cpu / number(&text, "\"requests\":")? })
}

fn by_fio(fio: &Path, file: &Path, load: &Load) -> Result<Did> {
    let mut command = Command::new(fio);
    command.arg("--name=fio").arg(format!("--filename={}", file.display())).arg(format!("--rw={}", rw(load)));
    command.args(["--bs=4k", "--direct=1", "--norandommap=1", "--time_based=1", "--output-format=json"]);
    command.arg(format!("--ioengine={}", engine(load)));
    command.arg(format!("--iodepth={}", load.depth)).arg(format!("--runtime={SECONDS}"));
    let (text, cpu) = run_measured(&mut command)?;
    // The section for the direction in use.
    let part = text.split(if !load.write { "\"read\" :" } else { "\"write\" :" }).nth(1);
    let part = part.context("fio's answer has no such part")?;
    Ok(Did { iops: number(part, "\"iops\" :")?, cpu: cpu / number(part, "\"total_ios\" :")? })
}

/// The first number after `key`.
fn number(text: &str, key: &str) -> Result<f64> {
    let rest = text.split(key).nth(1).with_context(|| format!("no {key} in {text}"))?.trim_start();
    let end = rest
        .find(|character: char| !matches!(character, '0'..='9' | '.' | 'e' | '-' | '+'))
        .unwrap_or(rest.len());
    rest[..end].parse().with_context(|| format!("{key} is no number"))
}

/// Runs both in a guest in virtual time, on a modelled disk.
fn on_a_disk(straddle: &Path) -> Result<()> {
    let dir = Dir::within(&std::env::temp_dir(), "disk")?;
    std::fs::copy(straddle, dir.join("straddle"))?;
    println!("on drive:wd10ears in a guest in virtual time, {SLOW_COUNT} requests each");
    for load in LOADS.iter().filter(|load| !load.write) {
        let script = format!(
            "export XDG_STATE_HOME=/run/state
             $INPUT/straddle bench {workload} /dev/vda --offsets 0 --json --queue-depth {depth} --count {each} --runtime 100000
             fio --name=fio --filename=/dev/vda --rw={rw} --bs=4k --direct=1 --norandommap=1 --clocksource=clock_gettime --output-format=json \\
                 --ioengine={engine} --iodepth={depth} --number_ios={SLOW_COUNT}",
            workload = workload(load),
            rw = rw(load),
            depth = load.depth,
            each = SLOW_COUNT / 20,
            engine = engine(load),
        );
        let mut command = Command::new(straddle);
        command.args(["lab", "--drive", "wd10ears", "--input"]).arg(dir.path()).args(["--", &script]);
        let output = command.stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("the guest: {}", String::from_utf8_lossy(&output.stderr));
        }
        let (ours, theirs) = text.split_once("\"fio version\"").context("fio printed nothing")?;
        // The mean instead of the median, because fio reports the mean.
        let (requests, elapsed) = (number(ours, "\"requests\":")?, number(ours, "\"elapsed_ns\":")? / 1e9);
        let theirs = number(theirs.split("\"read\" :").nth(1).context("no reads")?, "\"iops\" :")?;
        let ours = requests / elapsed;
        println!(
            "  {}: straddle {ours:.2} IOPS, fio {theirs:.2} IOPS: {:+.2} %",
            load.name,
            (ours / theirs - 1.0) * 100.0
        );
    }
    Ok(())
}
