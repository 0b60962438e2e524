//! `straddle bench`: runs a workload at several offsets.

pub(crate) mod real;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValue;
use straddle_drive::FirmwareRange;
use straddle_measure::bench::{
    Arm, ForeignParameter, Host, Modelled, Parameters, Pattern, Reached, Silent, Sweep, Sync, Target, WarmUp,
    Workload, sweep,
};
use straddle_measure::real::Io;
use straddle_units::{ByteCount, parse_size};

use crate::args::{known, named, number, positive_size};
use crate::exit::{Exit, UsageError, usage};
use crate::progress::Bar;
use crate::target::{Drive, TargetSpec, targets};
use crate::view::json::bench::{Bench, BenchReport, PairRange};
use crate::view::json::{Document, SchemaOf};
use crate::view::{svg, text};
use crate::{exit, output, output_file};

const MOST_OFFSETS: usize = 4096;

const EXAMPLES: &str = "\
Examples:
  straddle bench wd10ears                 # random-write on a modelled drive
  straddle bench random-write wd10ears --sync flush   # flush each write
  straddle bench strided-write wd10ears,jumper=on     # offset 7 is aligned
  straddle bench sequential-write dell-6tb-7200-512e --offsets 0,4
  straddle bench random-read drive:./my-drive.toml --queue-depth 32
  straddle bench random-write wd10ears --json --svg ratio.svg
  straddle bench random-write ./scratch --area 64M    # a new, temporary file
  straddle bench random-write /dev/sdb    # unallocated space only
  straddle bench random-write /dev/sdb1 --used --offsets 0,1
                                          # unmounted; contents preserved
  straddle bench random-read /dev/sdb --warmup 2      # 2 warm-up rounds first
  straddle bench random-write disk.img --used         # contents preserved
  straddle bench --restore                # after a crash, restore the contents";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct BenchArguments {
    /// Workload to run [default: random-write, if only TARGET is specified].
    #[arg(value_name = "WORKLOAD", required_unless_present = "restore",
        value_parser = known(Pattern::ALL, |it| PossibleValue::new(it.name).help(it.about)))]
    pub(crate) workload: Option<Pattern>,

    /// Drive to measure: a modelled drive (NAME, NAME,OPTION or drive:FILE.toml; see 'straddle drive list'),
    /// a file, or a block device. A file that does not exist is created for the run and removed afterwards.
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true,
        required_unless_present = "restore")]
    pub(crate) target: Option<TargetSpec>,

    /// Offsets to measure, in logical sectors past --start: an inclusive range (0..7), a list (0,1,7), or both.
    ///
    /// On a modelled drive, each offset is measured on a fresh instance of the drive. On a real drive, the
    /// offsets are measured in short, alternating turns.
    #[arg(long, value_name = "LIST", default_value = "0..7")]
    pub(crate) offsets: Offsets,

    /// Number of requests per run (on a real drive, per turn). By default, sequential-write and
    /// sequential-read are limited by --time, not by --count [default: 1000 for random-write and random-read,
    /// 50000 for random-write on a modelled SSD, 32768 for strided-write, 1024 for dd].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Maximum duration of each run (in virtual time if the drive is modelled) [default: 60 for
    /// sequential-write and sequential-read without --count].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time: Option<f64>,

    /// Size of each request [default: 1 MiB for dd, the indirection unit for random-write on a modelled SSD,
    /// 4 KiB otherwise].
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) size: Option<ByteCount>,

    /// Position on the drive to use as offset 0, such as the start of a partition.
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    pub(crate) start: ByteCount,

    /// For strided-write: distance between the starts of consecutive writes [default: 16 KiB].
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) stride: Option<ByteCount>,

    /// For random-write and random-read: number of blocks to choose from at random [default: 200000000, or
    /// fewer on a smaller drive].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) blocks: Option<u64>,

    /// Seed for the random positions and, on a real drive, for the order of the offsets [default: 1 on a real
    /// drive; on a modelled drive, the offset itself, as in T. Miller's program].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u32>,

    /// For random-write and strided-write: how to make each write durable [default: none].
    #[arg(long, value_name = "HOW", value_parser = named(&[
        ("none", "Data may stay in the drive's cache, as with O_SYNC on disks before Linux 2.6.32", Sync::None),
        ("flush", "Flush the drive's cache after each write, as O_SYNC does today", Sync::Flush),
        ("fua", "Force unit access: each write goes to the medium", Sync::Fua),
    ]))]
    pub(crate) sync: Option<Sync>,

    /// For sequential-write: issue an fsync after every NUMBER writes; 0 means never [default: 1].
    #[arg(long, value_name = "NUMBER")]
    pub(crate) fsync_each: Option<u64>,

    /// Number of outstanding requests (queue depth) [default: 32 for random-write on a modelled SSD,
    /// otherwise 1].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) queue_depth: Option<u32>,

    /// Number of warm-up runs at each offset (on a real drive: number of warm-up rounds). The results of the
    /// warm-up are discarded [default: 0; on a modelled SSD, enough writes to fill its buffer twice].
    ///
    /// On a modelled drive, warm-up runs and measured runs access different positions. On a real drive, each
    /// warm-up round measures every offset twice. --runtime does not include the warm-up or the runs that
    /// determine --count.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=10_000),
        conflicts_with = "restore")]
    pub(crate) warmup: Option<u32>,

    /// Host delay between the completion of one request and the submission of the next.
    #[arg(long, value_name = "MICROSECONDS", default_value = "0", value_parser = overhead)]
    pub(crate) host_overhead: u64,

    /// Also save a bar chart with the result of each offset to this file.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,

    /// Print JSON (see `straddle schema bench`).
    #[arg(long)]
    pub(crate) json: bool,

    // Last: its heading would be that of all options after it.
    #[command(flatten)]
    pub(crate) real: RealArguments,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Real disks and files")]
pub(crate) struct RealArguments {
    /// Maximum duration of the whole run, excluding the warm-up [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) runtime: Option<f64>,

    /// Stop when the 95 % confidence interval of every ratio is within ±PERCENT [default: 5].
    #[arg(long, value_name = "PERCENT", value_parser = number(0.1..=100.0))]
    pub(crate) precision: Option<f64>,

    /// Total size of the regions to measure, or size of the file to create [default: 256 MiB].
    ///
    /// During the run, the original contents of the measured regions are kept in memory and in the journal.
    #[arg(long, value_name = "BYTES", value_parser = positive_size)]
    pub(crate) area: Option<ByteCount>,

    /// Number of regions to measure, spread over the whole target [default: 8, or 1 if the target is a file].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) regions: Option<u32>,

    /// Whether to bypass the page cache [default: direct].
    #[arg(long, value_name = "HOW", value_parser = named(&[
        ("direct", "Bypass the page cache (O_DIRECT), so that the drive receives the requests \
                    unchanged", Io::Direct),
        ("buffered", "Use the page cache", Io::Buffered),
    ]))]
    pub(crate) io: Option<Io>,

    /// Use areas that hold data. The original data is saved, written back unchanged, and verified at the end.
    /// The target must not be in use.
    ///
    /// Without --used, bench writes only to the unallocated space between the partitions of an existing
    /// device or file.
    #[arg(long)]
    pub(crate) used: bool,

    /// Overwrite data on the device, without restoring the data afterwards. Repeat the device name to
    /// confirm.
    #[arg(long, value_name = "DEVICE", conflicts_with = "used")]
    pub(crate) destroy_data: Option<String>,

    /// Write the samples to this new file after each round, as one line of JSON per turn.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) export: Option<PathBuf>,

    /// Directory for the journals, which hold the target's original contents until the end of the run
    /// [default: ~/.local/state/straddle]. The directory must not be on the device being measured.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) journals: Option<PathBuf>,

    /// Restore the contents that interrupted runs of bench and probe have saved, then exit.
    ///
    /// Bytes that have changed since they were saved are listed but not overwritten. If any bytes have
    /// changed, the journal is kept, and the exit status is 4.
    #[arg(long, conflicts_with_all = ["workload", "target"])]
    pub(crate) restore: bool,

    /// With --restore: also overwrite bytes that changed after they were saved.
    #[arg(long, requires = "restore")]
    pub(crate) force: bool,
}

/// Offsets in logical sectors, rising, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offsets(pub(crate) Vec<u64>);

impl FromStr for Offsets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let trimmed = text.trim();
            trimmed.parse::<u64>().map_err(|_| {
                format!(
                    "'{trimmed}' is not a number of sectors; use a range or a list of offsets, such as 0..7 \
                     or 0,1,7"
                )
            })
        };
        let mut offsets = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(format!("the range {first}..{last} is in descending order"));
            }
            if last - first >= MOST_OFFSETS as u64 {
                return Err(format!("at most {MOST_OFFSETS} offsets can be specified"));
            }
            offsets.extend(first..=last);
        }
        offsets.sort_unstable();
        offsets.dedup();
        if offsets.len() > MOST_OFFSETS {
            Err(format!("at most {MOST_OFFSETS} offsets can be specified"))
        } else {
            Ok(Self(offsets))
        }
    }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        Ok(seconds) if (0.001..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.001 to 10000000".to_owned()),
    }
}

fn overhead(text: &str) -> Result<u64, String> {
    let micros = text.parse::<f64>().ok().filter(|micros| (0.0..=1e7).contains(micros));
    let time = micros.and_then(straddle_units::io::Nanos::from_micros);
    time.map(straddle_units::io::Nanos::get)
        .ok_or_else(|| "must be a number of microseconds from 0 to 10000000".to_owned())
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<Exit> {
    if arguments.real.restore {
        return real::restore_all(arguments);
    }
    if let Some(path) = &arguments.svg {
        output_file::check(path, &target(arguments))?;
    }
    // clap requires both, unless --restore is given.
    let (Some(pattern), Some(target)) = (arguments.workload, &arguments.target) else {
        return usage("WORKLOAD and TARGET are required");
    };
    let workload = workload(arguments, pattern, target)?;
    refuse_foreign(arguments, target)?;
    match target {
        TargetSpec::Modelled(drive) => on_model(arguments, drive, &workload),
        TargetSpec::Path(path) => real::run(arguments, path, &workload),
    }
}

fn on_model(arguments: &BenchArguments, drive: &Drive, workload: &Workload) -> Result<Exit> {
    let name = drive.to_string();
    let host = Host { overhead_ns: arguments.host_overhead };
    let fresh = || Modelled::new(&name, &drive.profile);
    let mut bar = Bar::new();
    let usual = || WarmUp::usual(workload, &drive.profile);
    let warm_up = arguments.warmup.map_or_else(usual, WarmUp::Runs);
    let sweep = sweep(fresh, workload, &arguments.offsets.0, host, warm_up, &mut bar)?;
    let firmware = firmware(drive, workload, &sweep, host, warm_up);
    drop(bar);
    let target = fresh();
    let bench = Bench {
        target: target.description(),
        capacity: target.capacity().get(),
        logical_sector: target.logical_sector(),
        workload,
        host,
        warm_up,
        sweep: &sweep,
        firmware,
        turns: None,
    };
    show(&bench, arguments)?;
    Ok(Exit::Success)
}

/// The range of the worst offset's ratio over the firmware that a disk may have or, where the offset does not matter
/// with its own, of the second offset's.
fn firmware(
    drive: &Drive,
    workload: &Workload,
    measured: &Sweep,
    host: Host,
    warm_up: WarmUp,
) -> Option<PairRange> {
    let is_absorbed = |arm: &Arm| arm.samples.reached == Some(Reached::Buffer);
    if !workload.writes() || measured.arms().iter().any(is_absorbed) {
        return None;
    }
    let pair = match measured.arms() {
        _ if measured.differs() => [measured.best(), measured.worst()],
        [first, second, ..] => [first, second],
        _ => return None,
    };
    let offsets @ [relative_to, offset] = pair.map(|arm| arm.offset);
    let range = FirmwareRange::of(&drive.specification, |profile| {
        let fresh = || Modelled::new("", profile);
        let sweep = sweep(fresh, workload, &offsets, host, warm_up, &mut Silent).ok()?;
        let seconds =
            |offset: u64| sweep.arms().iter().find(|arm| arm.offset == offset).map(Arm::seconds_per_request);
        Some(seconds(offset)? / seconds(relative_to)?)
    })?;
    Some(PairRange { offset, relative_to, range })
}

/// Returns the target's path if it is a file or device: output must not overwrite it.
fn target(arguments: &BenchArguments) -> Vec<&Path> {
    arguments.target.iter().filter_map(TargetSpec::path).collect()
}

fn show(bench: &Bench<'_>, arguments: &BenchArguments) -> Result<()> {
    // The figures first: a picture that cannot be written does not cost them.
    if arguments.json {
        Document::of(SchemaOf::Bench, BenchReport::of(bench)).print()?;
    } else {
        output::print(&text::bench::sweep(bench, output::width()))?;
    }
    if let Some(path) = &arguments.svg {
        output_file::write(path, svg::bench(bench).as_bytes(), &target(arguments))?;
    }
    Ok(())
}

/// An option that the workload has no use for is an error, not ignored.
fn workload(arguments: &BenchArguments, pattern: Pattern, target: &TargetSpec) -> Result<Workload> {
    let (modelled, random) = (target.is_modelled(), pattern.is_random);
    let given = Parameters {
        stride: arguments.stride.map(ByteCount::get),
        // The published program's modulus suits disks of its time. On a real target, choose from all blocks.
        blocks: arguments.blocks.or_else(|| (random && !modelled).then_some(u64::MAX)),
        // On a real target the order of turns is random too.
        seed: arguments.seed.filter(|_| random || modelled),
        sync: arguments.sync,
        fsync_each: arguments.fsync_each,
    };
    let foreign = |foreign: ForeignParameter| {
        UsageError(format!("--{} {}", foreign.parameter.replace('_', "-"), foreign.reason()))
    };
    let usual = Workload::from(pattern.with(given).map_err(foreign)?);
    let usual = match target {
        TargetSpec::Modelled(drive) => usual.on(&drive.profile),
        TargetSpec::Path(_) => usual,
    };
    Ok(Workload {
        count: arguments.count.or(usual.count.filter(|_| arguments.time.is_none())),
        seconds: arguments.time,
        size: arguments.size.map_or(usual.size, ByteCount::get),
        start: arguments.start.get(),
        queue_depth: arguments.queue_depth.unwrap_or(usual.queue_depth),
        ..usual
    })
}

fn refuse_foreign(arguments: &BenchArguments, target: &TargetSpec) -> Result<()> {
    let real = &arguments.real;
    let of_real = [
        ("--runtime", real.runtime.is_some()),
        ("--precision", real.precision.is_some()),
        ("--area", real.area.is_some()),
        ("--regions", real.regions.is_some()),
        ("--io", real.io.is_some()),
        ("--used", real.used),
        ("--destroy-data", real.destroy_data.is_some()),
        ("--export", real.export.is_some()),
        ("--journals", real.journals.is_some()),
    ];
    let of_model = [
        ("--time", arguments.time.is_some()),
        ("--start", arguments.start.get() > 0),
        ("--blocks", arguments.blocks.is_some()),
        ("--host-overhead", arguments.host_overhead > 0),
    ];
    let (foreign, what) = if target.is_modelled() {
        (&of_real[..], "real disks and files")
    } else {
        (&of_model[..], "modelled drives")
    };
    match foreign.iter().find(|(_, given)| *given) {
        Some((option, _)) => usage(format!("{option} applies only to {what}, not to {target}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_ranges_and_lists() {
        let offsets = |text: &str| text.parse::<Offsets>().map(|offsets| offsets.0);
        assert_eq!(offsets("0..7").unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(offsets("7, 0,1").unwrap(), [0, 1, 7]);
        assert_eq!(offsets("0..2,1..3,64").unwrap(), [0, 1, 2, 3, 64]);
        for wrong in ["", "7..0", "a", "1..", "0..4096", "-1", "0..18446744073709551615"] {
            assert!(offsets(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_within_reason() {
        assert_eq!(overhead("1.5"), Ok(1500));
        assert!(overhead("-1").is_err() && overhead("NaN").is_err() && overhead("1e9").is_err());
        assert!(seconds("60").is_ok() && seconds("0").is_err() && seconds("inf").is_err());
    }
}
