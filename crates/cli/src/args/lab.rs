//! The command line of `lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use straddle_drive::profile::Start;
use straddle_units::{ByteCount, parse_size};

use super::{Action, Arguments, Command, FitArguments, ReproduceArguments, SchemaOf, ServeArguments};
use crate::target::{Drive, drives};

/// Examples for `lab --help`.
const EXAMPLES: &str = "\
Examples:
  straddle lab --drive wd10ears -- lsblk -t           # a shell command
  straddle lab --drive wd10ears --start 34s --size 1GiB -- \\
      'make_file_system ext4; mount_it ext4; measure copy cp -r /etc $MNT'
  straddle lab --drive wd10ears --start 40s -- ./mine.sh ext4   # a script
  straddle lab --drive wd10ears --drive ssd-sata-4k --start 40s -- ./two.sh
  straddle lab --drive qlc-16k --start 1MiB --record lab.rec -- ./writes.sh
  straddle lab --drive qlc-16k --store disk.img --cut-after 500 -- ./writes.sh

Available to scripts in the guest:
  $DISK $PART    the drive and its partition (with --start); $DISK2 $PART2 ...
                 for further drives
  $MNT           an empty directory to mount at
  $INPUT $OUTPUT the directories given with --input and --output
  measure NAME COMMAND..., make_file_system NAME, mount_it NAME, unmount,
  drop_caches    (bash scripts)

The guest sees this machine's own tree. Its writes stay in memory. The manual is
docs/lab.md.

Exit status: that of the command, or
  2  invalid command line
  3  the guest could not run, or --cut-after cut the power first
125  the guest could not be prepared for the command (stderr says why)
130  interrupted (Ctrl-C)";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(missing_docs, reason = "clap would print it")]
pub struct LabArguments {
    /// Modelled drive of the guest (NAME or NAME,OPTION; see 'straddle drive list'), or the path of a profile. Can be
    /// repeated.
    #[arg(long, value_name = "NAME", required_unless_present = "clean", value_parser = drives(), hide_possible_values = true)]
    pub drive: Vec<Drive>,

    /// Start of the drive's only partition, in bytes (20KiB) or logical sectors (40s)
    /// [default: no partition table]. Give it once for all drives, or once for each.
    #[arg(long, value_name = "START", value_parser = start)]
    pub start: Vec<Start>,

    /// Size of the partitions [default: as large as the drives allow].
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "start")]
    pub size: Option<ByteCount>,

    /// Keep the drive's contents in this file, which can be from an earlier run. Give it once for each drive.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub store: Vec<PathBuf>,

    /// Memory size of the guest.
    #[arg(long, value_name = "BYTES", value_parser = memory, default_value = "1GiB")]
    pub mem: ByteCount,

    /// Directory that the guest can read as $INPUT.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub input: Option<PathBuf>,

    /// Directory that the guest can write as $OUTPUT.
    ///
    /// The guest, even its root, can write nothing else on this machine. It cannot create device nodes or
    /// set-user-ID files there.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Run the guest even if neither namespaces nor Landlock can confine it. It can then change whatever you can
    /// change on this machine.
    #[arg(long)]
    pub unconfined: bool,

    /// Write every request to this file, as CSV for `straddle sim`.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Record the issue and completion of every request to this file, in blktrace's format (see `straddle trace`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Write every event of the guest's kernel to this file, one per line.
    ///
    /// Two equal runs write equal files: the first line that differs shows where they diverged (see docs/lab.md).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// Seed of the guest's random numbers, and of the position of the platters at the start.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Multiply the time charged for processor use by FACTOR (see docs/lab.md).
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub cpu: f64,

    /// Cut the power of all drives shortly after this number of requests. --store then holds what was on the medium.
    #[arg(long, value_name = "REQUESTS")]
    pub cut_after: Option<u64>,

    /// Effect of a power cut on the physical sector that a disk is writing, with all its logical sectors.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = TearName::Garbage, requires = "cut_after")]
    pub tear: TearName,

    /// Stop the guest after this real time (10m, 2h).
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    pub timeout: Duration,

    /// Stop the guest after this time of its own.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30d")]
    pub guest_timeout: Duration,

    /// Print JSON (see `straddle schema lab`), including the output of the command.
    #[arg(long)]
    pub json: bool,

    /// Remove the directories that killed runs left behind, and exit. The next run also removes them.
    #[arg(long, exclusive = true)]
    pub clean: bool,

    /// Program to run in the guest: a script with its arguments, a command, or a line of bash.
    #[arg(value_name = "COMMAND", required_unless_present = "clean", last = true, value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// A command that `straddle-lab` runs.
#[derive(Clone, Copy, Debug)]
pub enum OfLab<'a> {
    /// `lab`.
    Lab(&'a LabArguments),
    /// `serve`.
    Serve(&'a ServeArguments),
    /// `reproduce`.
    Reproduce(&'a ReproduceArguments),
    /// `drive fit`.
    Fit(&'a FitArguments),
    /// `schema` of one of these.
    Schema(SchemaOf),
}

impl Arguments {
    /// Returns the command if it is one that `straddle-lab` runs.
    pub fn of_lab(&self) -> Option<OfLab<'_>> {
        match &self.command {
            Command::Lab(lab) => Some(OfLab::Lab(lab)),
            Command::Serve(serve) => Some(OfLab::Serve(serve)),
            Command::Reproduce(reproduce) => Some(OfLab::Reproduce(reproduce)),
            Command::Drive(drive) => match &drive.action {
                Action::Fit(fit) => Some(OfLab::Fit(fit)),
                Action::List { .. } | Action::Show(_) => None,
            },
            Command::Schema { command } if command.is_of_lab() => Some(OfLab::Schema(*command)),
            _ => None,
        }
    }
}

/// The effect of a power cut on a sector that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TearName {
    /// The whole sector may read as noise afterwards.
    Garbage,
    /// The sector reads as before or as after the write.
    Nothing,
}

fn start(text: &str) -> Result<Start, String> {
    let start = match text.strip_suffix('s') {
        Some(sectors) => Start::Sectors(sectors.parse().map_err(|_| "no number of sectors".to_owned())?),
        None => Start::Bytes(parse_size(text).map_err(|error| error.to_string())?.get()),
    };
    match start {
        Start::Bytes(0) | Start::Sectors(0) => Err("the partition table is there".into()),
        start => Ok(start),
    }
}

fn memory(text: &str) -> Result<ByteCount, String> {
    const LEAST: u64 = 64 << 20;
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size.get() < LEAST { Err("Linux needs 64 MiB at least".into()) } else { Ok(size) }
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=1000.0).contains(&factor) { Ok(factor) } else { Err("it must be from 0 to 1000".into()) }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1), ("", 1)];
    let parsed = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match parsed {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err("a whole number of seconds, or with s, m, h or d".into()),
    }
}
