//! `straddle lab`, `serve` and `reproduce`: their arguments, and how the program is started that runs them.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgGroup, Args, ValueEnum};
use straddle_drive::profile::Start;
use straddle_units::{ByteCount, parse_size};

use crate::args::{Arguments, Command, Completed, number};
use crate::commands::drive::{Action, FitArguments};
use crate::exit::{Exit, usage};
use crate::target::{Drive, TargetSpec, drives, local_paths, targets};
use crate::view::json::SchemaOf;
use crate::{exit, target};

const PROGRAM: &str = "straddle-lab";

/// Runs `straddle-lab` in place of this program: the one beside it, or else on the PATH. Returns only if that fails.
pub(crate) fn start() -> Result<Exit> {
    let beside =
        std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.map_or_else(|| PROGRAM.into(), OsString::from);
    let error = process::Command::new(&program).args(std::env::args_os().skip(1)).exec();
    if error.kind() == ErrorKind::NotFound {
        return usage(
            "straddle-lab, which runs this command, is neither installed next to straddle nor found in PATH",
        );
    }
    Err(error).with_context(|| format!("{}: cannot be started", program.display()))
}

const LAB_EXAMPLES: &str = "\
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

The guest sees this machine's file system. The guest's changes to this file
system are kept in memory only. See docs/lab.md.

Exit status: that of the command, or
  2  invalid command line
  3  the guest could not run, or --cut-after cut the power during the run
125  the guest could not be prepared for the command (stderr says why)
130  interrupted (Ctrl-C)";

#[derive(Debug, Args)]
#[command(after_help = LAB_EXAMPLES)]
#[expect(missing_docs, reason = "clap would print it")]
pub struct LabArguments {
    /// Modelled drive to attach to the guest (NAME or NAME,OPTION; see 'straddle drive list'), or the path of a
    /// profile. Can be repeated.
    #[arg(long, value_name = "NAME", required = true, value_parser = drives(), hide_possible_values = true)]
    pub drive: Vec<Drive>,

    /// Start of the single partition on each drive, in bytes (20KiB) or logical sectors (40s) [default: no
    /// partition table]. Specify one start for all drives, or one per drive.
    #[arg(long, value_name = "START", value_parser = partition_start)]
    pub start: Vec<Start>,

    /// Size of each partition [default: as large as its drive allows].
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "start")]
    pub size: Option<ByteCount>,

    /// Keep the drive's contents in this file, which can be from an earlier run. Specify one file per drive.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub store: Vec<PathBuf>,

    /// Memory size of the guest.
    #[arg(long, value_name = "BYTES", value_parser = memory, default_value = "1GiB")]
    pub mem: ByteCount,

    /// Directory that the guest can read, as $INPUT.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub input: Option<PathBuf>,

    /// Directory that the guest can write to, as $OUTPUT.
    ///
    /// The guest, even as root, cannot write to any other directory of this machine. In this directory, the
    /// guest cannot create device nodes or set-user-ID files.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<PathBuf>,

    /// Run the guest even if neither namespaces nor Landlock can confine it. The guest can then change
    /// anything on this machine that you can change.
    #[arg(long)]
    pub unconfined: bool,

    /// Record the issue and completion of every request in this file, in blktrace's format (see
    /// `straddle trace`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Write every event of the guest's kernel to this file, one per line.
    ///
    /// Identical runs write identical files, so the first line that differs shows where two runs diverged (see
    /// docs/lab.md).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// Seed for the guest's random numbers and for the initial position of the drives' platters.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Multiply the processor time charged to the guest by FACTOR (see docs/lab.md).
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = number(0.0..=1000.0))]
    pub cpu: f64,

    /// Cut the power to all drives shortly after this number of requests. The --store file then holds the
    /// data that reached the medium.
    #[arg(long, value_name = "REQUESTS")]
    pub cut_after: Option<u64>,

    /// What a power cut does to the physical sector being written, and thus to every logical sector in it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = TearName::Garbage, requires = "cut_after")]
    pub tear: TearName,

    /// Stop the guest after this much real time (10m, 2h).
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h")]
    pub timeout: Duration,

    /// Stop the guest after this much time on the guest's clock.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30d")]
    pub guest_timeout: Duration,

    /// Print JSON (see `straddle schema lab`), including the output of the command.
    #[arg(long)]
    pub json: bool,

    /// Program to run in the guest: a script with its arguments, a command, or a line of bash.
    #[arg(value_name = "COMMAND", required = true, last = true, value_hint = clap::ValueHint::CommandWithArguments)]
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
                Action::List { .. } | Action::Show(_) | Action::Compare { .. } => None,
            },
            Command::Schema { command } if command.is_of_lab() => Some(OfLab::Schema(*command)),
            _ => None,
        }
    }
}

/// The effect of a power cut on a sector that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TearName {
    /// The whole sector may contain random data afterwards.
    Garbage,
    /// The sector holds either the old or the new data.
    Nothing,
}

fn partition_start(text: &str) -> Result<Start, String> {
    let start = match text.strip_suffix('s') {
        Some(sectors) => {
            Start::Sectors(sectors.parse().map_err(|_| "must be a number of sectors".to_owned())?)
        }
        None => Start::Bytes(parse_size(text).map_err(|error| error.to_string())?.get()),
    };
    match start {
        Start::Bytes(0) | Start::Sectors(0) => Err("must not be 0, where the partition table is".into()),
        start => Ok(start),
    }
}

fn memory(text: &str) -> Result<ByteCount, String> {
    const LEAST: u64 = 64 << 20;
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size.get() < LEAST { Err("the guest needs at least 64 MiB of memory".into()) } else { Ok(size) }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 5] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1), ("", 1)];
    let parsed = UNITS.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    match parsed {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err("must be a whole number, optionally with the unit s, m, h or d".into()),
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  straddle serve wd10ears --nbd unix:/tmp/disk        # contents in memory
  straddle serve wd10ears,jumper=on --nbd localhost:10809 --store disk.img
  straddle serve wd10ears --vhost-user /tmp/vhost --speed 10
                                          # for QEMU (see docs/serve.md)
  straddle serve wd10ears --nbd unix:/tmp/disk --store disk.img --cut-after 1000
                                          # then disk.img holds the durable data
  straddle serve qlc-16k --nbd unix:/tmp/disk --control unix:/tmp/control
  echo stats | nc -U /tmp/control         # or 'cut SEED' or 'quit'
  straddle serve qlc-16k --nbd unix:/tmp/disk --record qlc.rec
                                          # then straddle trace qlc.rec";

const SERVE_STATUSES: &[(u8, &str)] = &[
    (0, "ended by Ctrl-C, SIGTERM or quit"),
    (3, "the power was cut, or an error occurred"),
    (4, "an address is already in use, is not a socket, or is not on this machine"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{SERVE_EXAMPLES}\n\n{}", exit::help(SERVE_STATUSES)))]
#[command(group = ArgGroup::new("address").required(true).multiple(true).args(["nbd", "vhost_user"]))]
#[expect(missing_docs, reason = "clap would print it")]
pub struct ServeArguments {
    /// Modelled drive (NAME or NAME,OPTION; see 'straddle drive list'), or drive:FILE.toml.
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub target: TargetSpec,

    /// Serve NBD at this address (unix:PATH or HOST:PORT). Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<String>,

    /// Serve vhost-user-blk on this socket, for virtual machines. Can be repeated.
    #[arg(long, value_name = "SOCKET", value_hint = clap::ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,

    /// Keep the drive's contents in this file [default: in memory]. The file is created if it does not exist.
    /// An existing file must be as large as the drive.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub store: Option<PathBuf>,

    /// Record the issue and completion of every request in this file, in blktrace's format (see
    /// `straddle trace`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Run the drive FACTOR times as fast as real time.
    // Slower than that, nothing would ever happen; faster, the wall's clock is too coarse.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = number(0.001..=1e6))]
    pub speed: f64,

    /// Complete every request immediately, regardless of the drive's timing.
    #[arg(long, conflicts_with = "speed")]
    pub no_delay: bool,

    /// Cut the power within a few milliseconds after this number of requests. Only durable data survives.
    #[arg(long, value_name = "REQUESTS")]
    pub cut_after: Option<u64>,

    /// Seed for the exact time of the power cut and for its effect on the data being written.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// What a power cut does to the physical sector being written.
    #[arg(long, value_enum, default_value_t = TearName::Garbage, value_name = "HOW")]
    pub tear: TearName,

    /// Accept commands (stats, cut SEED, quit) on this socket (unix:PATH). Each command is answered with a
    /// line of JSON.
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,

    /// Allow connections from other machines. NBD has no access control, so anyone who can reach the port can
    /// read and write the drive.
    #[arg(long)]
    pub allow_remote: bool,

    /// Print the final summary as JSON (see `straddle schema serve`).
    #[arg(long)]
    pub json: bool,
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  straddle reproduce --model-only         # without guests: under a minute
  straddle reproduce desno-2010 --model-only --html desno.html
  straddle reproduce --list               # list the experiments
  straddle reproduce miller-2010 afd-2019 # in Linux guests: minutes
  straddle reproduce smith-2010 --drive wd10ears --html wd10ears.html
                                          # one of three drives, with charts
  straddle reproduce smith-2010 --runs 1  # one run instead of three
  straddle reproduce afd-2019 --bands     # with every plausible policy
  straddle reproduce --joint docs/results/*.json
                                          # which policy fits each drive best
  straddle reproduce lulf-2010 --drive wd20ears
                                          # on another drive: no verdict
  straddle reproduce ./mine.toml --json   # your own experiment";

const REPRODUCE_STATUSES: &[(u8, &str)] = &[
    (0, "every compared figure is within its limit"),
    (3, "a figure is outside its limit, or a guest failed"),
];

/// The shipped experiments: the files of the folder experiments.
pub const EXPERIMENTS: [&str; 8] = [
    "afd-2019",
    "arrays",
    "desno-2010",
    "lulf-2010",
    "miller-2010",
    "pronk-2010",
    "smith-2010",
    "spectre256-2012",
];

#[derive(Debug, Args)]
#[command(after_help = format!("{REPRODUCE_EXAMPLES}\n\n{}", exit::help(REPRODUCE_STATUSES)))]
#[expect(missing_docs, reason = "clap would print it")]
pub struct ReproduceArguments {
    /// Names of published experiments, or paths of experiment files [default: every shipped experiment].
    #[arg(value_name = "EXPERIMENT", value_parser = Completed(|| Box::new(EXPERIMENTS.into_iter())), hide_possible_values = true)]
    pub experiments: Vec<String>,

    /// Run each experiment only on this modelled drive. Experiments that were published only for other drives
    /// get no verdict.
    #[arg(long, value_name = "NAME", value_parser = target::drives(), hide_possible_values = true)]
    pub drive: Option<target::Drive>,

    /// List the experiments without running them.
    #[arg(long, conflicts_with = "drive")]
    pub list: bool,

    /// Run only the parts that need no guest, which takes seconds per experiment instead of minutes.
    #[arg(long)]
    pub model_only: bool,

    /// Run only the parts that need a guest.
    #[arg(long, conflicts_with = "model_only")]
    pub lab_only: bool,

    /// Number of runs of each lab part [default: as in the article]. Each run has its own seed, and the mean
    /// of the runs is reported.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub runs: Option<u32>,

    /// Also run the lab parts with every plausible read-modify-write policy, to find the range of each
    /// figure. With --bands, each guest runs once per policy. Parts that need no guest always report each
    /// figure's range.
    #[arg(long, conflicts_with = "model_only")]
    pub bands: bool,

    /// For each drive, score every read-modify-write policy against all published figures, and choose the
    /// best policy. RESULT is the saved --json output of an earlier run (with --bands for lab parts). Parts
    /// that need no guest are run now, unless a RESULT contains them.
    #[arg(long, value_name = "RESULT", num_args = 0.., value_hint = clap::ValueHint::FilePath,
        conflicts_with_all = ["list", "bands", "html", "lab_only", "model_only"])]
    pub joint: Option<Vec<PathBuf>>,

    /// Run guests even if neither namespaces nor Landlock can confine them (see `straddle lab --help`).
    #[arg(long)]
    pub unconfined: bool,

    /// Seed of the first run of each guest.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run the parts that are normally shortened (those with a `scale`) at full length.
    #[arg(long)]
    pub full: bool,

    /// Number of guests to run at once [default: one per processor, fewer if memory is short].
    #[arg(long, value_name = "N")]
    pub guests: Option<NonZeroUsize>,

    /// Directory for generated inputs [default: $XDG_CACHE_HOME/straddle/inputs or
    /// ~/.cache/straddle/inputs].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// Write an HTML page with charts and tables to this file. The page needs no network.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub html: Option<PathBuf>,

    /// Also show the range of each figure, and the sources, notes and fitted numbers of each experiment.
    #[arg(long, short)]
    pub verbose: bool,

    /// Print JSON (see `straddle schema reproduce`).
    #[arg(long)]
    pub json: bool,
}
