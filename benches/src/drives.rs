//! The number of requests per second that the modelled drives serve on one core, in real time.
//!
//! There is no comparison: DiskSim and MQSim are not packaged, so their published figures (15,000 to 40,000
//! I/Os per second, on other machines) cannot be measured in the same run, and no ratio is printed.

use std::time::Instant;

use anyhow::{Context, Result};
use straddle_drive::{Drive, Profile};
use straddle_units::io::{Operation, Request, SplitMix64, Time};
use straddle_units::{ByteCount, ByteOffset};

use crate::samples::Samples;

/// Requests per run.
const REQUESTS: u64 = 2_000_000;
/// Rounds; the loads take turns.
const ROUNDS: usize = 7;
/// Requests in the run that shows the use of memory.
const MANY: u64 = 100_000_000;

/// A kind of request on a kind of drive.
struct Load {
    name: &'static str,
    drive: &'static str,
    replaced: &'static [(&'static str, f64)],
    operation: Operation,
    depth: usize,
}

const LOADS: &[Load] = &[
    Load {
        name: "disk, random 4 KiB reads, queue 1, no cache",
        drive: "wd10ears",
        replaced: &[("read_cache.segments", 0.0)],
        operation: Operation::Read,
        depth: 1,
    },
    Load {
        name: "disk, random 4 KiB reads, queue 32, cache",
        drive: "wd10ears",
        replaced: &[],
        operation: Operation::Read,
        depth: 32,
    },
    Load {
        name: "disk, random 4 KiB writes, queue 32, cache",
        drive: "wd10ears",
        replaced: &[],
        operation: Operation::Write,
        depth: 32,
    },
    Load {
        name: "SSD, random 4 KiB writes, queue 32, collecting",
        drive: "ssd-sata-4k",
        replaced: &[],
        operation: Operation::Write,
        depth: 32,
    },
];

/// Runs every load in turn, and prints the rate that each reaches.
pub(crate) fn run() -> Result<Vec<Samples>> {
    let mut runs = Vec::new();
    for load in LOADS {
        let profile = Profile::open_with(load.drive, load.replaced)?;
        let mut drive = Drive::new(&profile);
        // The first requests fill the caches and, on an SSD, use up the free space; they are not measured.
        let mut work = Work { random: SplitMix64::new(1), next: 0, at: Time::ZERO };
        work.serve(&mut drive, load, REQUESTS)?;
        runs.push((load, drive, work, Samples::new(load.name)));
    }
    println!("modelled drives, {ROUNDS} rounds of {REQUESTS} requests, one core:");
    for _ in 0..ROUNDS {
        for (load, drive, work, samples) in &mut runs {
            let begin = Instant::now();
            work.serve(drive, load, REQUESTS)?;
            samples.add(begin.elapsed(), 0);
        }
    }
    for (_, drive, _, samples) in &runs {
        let amplification = drive.counters().gc_amplification().filter(|_| drive.counters().erases > 0);
        let collecting = amplification.map(|factor| format!(", garbage collection writes {factor:.2} times"));
        println!(
            "  {:48} {}{}",
            samples.name,
            samples.millions(count(REQUESTS)),
            collecting.unwrap_or_default()
        );
    }
    memory()?;
    Ok(runs.into_iter().map(|(_, _, _, samples)| samples).collect())
}

/// Serves 100 million requests, and prints the peak of memory.
fn memory() -> Result<()> {
    let load = &LOADS[1];
    let mut drive = Drive::new(&Profile::open_with(load.drive, load.replaced)?);
    let begin = Instant::now();
    Work { random: SplitMix64::new(1), next: 0, at: Time::ZERO }.serve(&mut drive, load, MANY)?;
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("unknown", str::trim);
    let seconds = begin.elapsed().as_secs_f64();
    println!("  {MANY} requests ({}): {seconds:.0} s, peak memory of the whole run {peak}", load.name);
    Ok(())
}

struct Work {
    random: SplitMix64,
    next: u64,
    at: Time,
}

impl Work {
    fn serve(&mut self, drive: &mut Drive, load: &Load, requests: u64) -> Result<()> {
        let blocks = drive.claims().capacity / 4096;
        let mut done = Vec::new();
        for _ in 0..requests {
            let offset = self.random.below(blocks) * 4096;
            self.next += 1;
            drive.submit(
                self.at,
                Request::new(self.next, load.operation, ByteOffset::new(offset), ByteCount::new(4096)),
                &mut done,
            )?;
            if drive.outstanding() >= load.depth {
                drive.next_completion(&mut done).context("the drive has stopped")?;
                self.at = drive.now();
            }
            done.clear();
        }
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "a number of requests, to divide by")]
fn count(requests: u64) -> f64 {
    requests as f64
}
