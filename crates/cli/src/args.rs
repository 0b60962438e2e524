//! The command line: the one definition that parser, help, man pages and completions come from.

mod bench;
mod drive;
mod lab;
mod plan;
mod probe;
mod reproduce;
mod serve;
mod sim;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use straddle_audit::{Code, Severity};
use straddle_device::Assume;
use straddle_units::{BlockSize, ByteCount, parse_size};

pub(crate) use self::bench::{BenchArguments, Way};
pub(crate) use self::drive::{Action, DriveArguments, FitArguments, ShowArguments};
pub(crate) use self::lab::{LabArguments, Start};
pub(crate) use self::plan::{ApplyArguments, PlanArguments, UndoArguments};
pub(crate) use self::probe::ProbeArguments;
pub(crate) use self::reproduce::ReproduceArguments;
pub(crate) use self::serve::ServeArguments;
pub(crate) use self::sim::SimArguments;
use crate::cost::Pricing;
use crate::exit;

/// Finds, explains and fixes misaligned partitions, down to the byte.
#[derive(Debug, Parser)]
#[command(name = "straddle", version, after_help = exit::HELP, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour the output; `auto` follows the terminal and NO_COLOR.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Audit the alignment of disks and images.
    Check(Box<CheckArguments>),
    /// Draw what is on disks and images: a bar to scale, and every layer with its offsets.
    Map(Box<CheckArguments>),
    /// Tell what a finding means, or count the read-modify-writes of an I/O.
    Explain(ExplainArguments),
    /// Plan a partition table on the right boundaries. Nothing is written.
    Plan(Box<PlanArguments>),
    /// Write a plan, so that a power cut leaves the old table or the new one.
    Apply(ApplyArguments),
    /// Take back what 'straddle apply' wrote.
    Undo(UndoArguments),
    /// Compute how much of a track holds data, for 512-byte and 4096-byte sectors.
    Efficiency(EfficiencyArguments),
    /// Run a workload at aligned and misaligned offsets, and tell what the difference costs.
    Bench(Box<BenchArguments>),
    /// Find out by timing what a drive really is: its sectors, where they begin, its rotation and its caches.
    Probe(ProbeArguments),
    /// List the modelled drives, or show what one claims and what it is.
    Drive(DriveArguments),
    /// Replay a block trace on a modelled drive, and tell what a shift of every offset costs.
    Sim(SimArguments),
    /// Serve a modelled drive in real time, by NBD or to virtual machines.
    Serve(Box<ServeArguments>),
    /// Run a command in a Linux guest, in virtual time, on modelled drives.
    Lab(Box<LabArguments>),
    /// Run published experiments again on modelled drives, beside the published figures.
    Reproduce(ReproduceArguments),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a man page, or write all of them to a folder.
    Man {
        /// The command whose page to print; the main page without it.
        command: Option<String>,
        /// Write every page to this folder instead.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of what a command prints with `--json`.
    Schema {
        /// The command.
        #[arg(value_enum, default_value_t = SchemaOf::Check)]
        command: SchemaOf,
    },
}

/// The commands whose JSON has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// `check --json`.
    Check,
    /// `plan --json`.
    Plan,
    /// `bench --json`.
    Bench,
    /// `drive list --json` and `drive show --json`.
    Drive,
    /// `drive fit --json`.
    DriveFit,
    /// `sim --json`.
    Sim,
    /// `serve --json`.
    Serve,
    /// `lab --json`.
    Lab,
    /// `probe --json`.
    Probe,
    /// `reproduce --json`.
    Reproduce,
}

/// Examples for `check --help`.
const CHECK_EXAMPLES: &str = "\
Examples:
  straddle check                          every disk of this machine
  straddle check /dev/sdb vm.img          a disk and an image
  straddle check --assume 512n old.img    an image for a drive with 512-byte sectors
  straddle check --assume physical=4096,iu=16KiB cloud.img
  straddle check --assume drive:wd10ears,jumper=on xp.img
  straddle check --cost drive:wd10ears old.img    and how many times as long writes take
  straddle check --json *.img | jq '.targets[] | select(.status == \"error\").target'";

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = format!("{CHECK_EXAMPLES}\n\n{}", exit::HELP))]
pub(crate) struct CheckArguments {
    /// Block devices, image files or modelled drives (drive:NAME); every local disk when none is given.
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath)]
    pub(crate) targets: Vec<PathBuf>,

    /// With no target: also loop, ram and zram devices, and drives for removable media.
    #[arg(long)]
    pub(crate) all: bool,

    /// Print JSON (see `straddle schema`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a line for each finding, and nothing else.
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Also draw the layers with their offsets, and tell where every figure comes from.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// The topology a target is meant for: 512n, 512e, 4kn, or key=size with the keys logical, physical, offset,
    /// io-min, io-opt, iu, chunk, stripe, erase, atomic and atomic-boundary; or a modelled drive, drive:NAME. Overrules what a
    /// device says.
    #[arg(long, value_name = "TOPOLOGY", value_parser = crate::drive_target::assume)]
    pub(crate) assume: Option<Assume>,

    /// A file that 'straddle probe' has written: what was measured overrules what a device says.
    #[arg(long, value_name = "FILE", conflicts_with = "assume", value_parser = crate::measured::read)]
    pub(crate) measured: Option<Assume>,

    /// Also tell what each missed boundary costs on this drive: a modelled one (drive:NAME), or a file that 'straddle probe' has
    /// written.
    #[arg(long, value_name = "DRIVE", value_parser = crate::cost::parse)]
    pub(crate) cost: Option<Pricing>,

    /// Read tables in this logical sector size only (images: found from the table otherwise).
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// The page size of a database to be stored on it: reports whether pages straddle or can be torn.
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(crate) page: Option<ByteCount>,

    /// Read a captured tree (DIR/sys, DIR/dev) instead of this machine.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) sysroot: Option<PathBuf>,

    /// The format of the images: raw, qcow2, vmdk, vhd, vhdx, vdi, qed or parallels; found from their bytes without this.
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Open this backing, parent or extent file too, where an image names it. Without this no image has another file
    /// opened. Repeat it for more files.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) allow_backing: Vec<PathBuf>,

    /// Wait this long for a block device; one that does not answer fails, and does not hold up the others.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds)]
    pub(crate) time_limit: u64,

    /// Report these findings only. Status and exit status are those of what is reported; the verdicts on partitions stay, and so
    /// does what cannot be read (S081).
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code)]
    pub(crate) only: Vec<Code>,

    /// Leave these findings out, of the status as well; the verdicts on partitions stay, and so does what cannot be read (S081).
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code)]
    pub(crate) ignore: Vec<Code>,

    /// Pass where nothing is recognised and the target is not blank, instead of exiting with 3.
    #[arg(long)]
    pub(crate) allow_unknown: bool,

    /// Exit with 1 from this severity on.
    #[arg(long, value_enum, default_value_t = FailOn::Warning, value_name = "SEVERITY")]
    pub(crate) fail_on: FailOn,
}

/// The least severity that counts as a finding for the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Everything.
    Advice,
    /// What costs on some workloads, and what costs for certain.
    Warning,
    /// What costs for certain.
    Error,
}

impl FailOn {
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Advice => Severity::Advice,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

/// Examples for `explain --help`.
const EXPLAIN_EXAMPLES: &str = "\
Examples:
  straddle explain                        the list of findings
  straddle explain S001                   what, why, what it costs, the fix, and the sources
  straddle explain rmw --offset 2KiB --io 4KiB --count 2";

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ExplainArguments {
    /// The codes of findings; the list of all when none is given.
    #[arg(value_name = "CODE", value_parser = rule_code)]
    pub(crate) codes: Vec<Code>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// What to explain instead of a finding.
    #[command(subcommand)]
    pub(crate) topic: Option<Topic>,
}

/// What can be explained besides findings.
#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// Count the physical sectors touched and the read-modify-writes that an I/O needs.
    Rmw(RmwArguments),
}

/// Arguments of `explain rmw`.
#[derive(Debug, Args)]
pub(crate) struct RmwArguments {
    /// Where the first write starts on the device.
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    pub(crate) offset: ByteCount,

    /// The size of each write.
    #[arg(long, value_parser = positive_size, default_value = "4KiB", value_name = "BYTES")]
    pub(crate) io: ByteCount,

    /// How many writes, one after the other.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// The physical sector (or indirection unit).
    #[arg(long, value_parser = positive_size, default_value = "4096", value_name = "BYTES")]
    pub(crate) physical: ByteCount,

    /// Where the first physical sector starts (the drive's alignment offset).
    #[arg(long, value_parser = parse_size, default_value = "0", value_name = "BYTES")]
    pub(crate) phase: ByteCount,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `efficiency`.
#[derive(Debug, Args)]
pub(crate) struct EfficiencyArguments {
    /// Bytes of data in a sector; both usual formats when neither this nor the others are given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) data: Option<u32>,

    /// Bytes of gap, synchronisation and address mark.
    #[arg(long)]
    pub(crate) overhead: Option<u32>,

    /// Bytes of error-correcting code.
    #[arg(long)]
    pub(crate) ecc: Option<u32>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A whole number of seconds, one at least.
fn seconds(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|seconds| *seconds > 0);
    number.ok_or_else(|| "give a whole number of seconds, 1 or more".to_owned())
}

fn block_size(text: &str) -> Result<BlockSize, String> {
    let size = parse_size(text).map_err(|e| e.to_string())?;
    BlockSize::new(size.get()).map_err(|e| e.to_string())
}

fn positive_size(text: &str) -> Result<ByteCount, String> {
    match parse_size(text) {
        Ok(ByteCount::ZERO) => Err("it must not be zero".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

/// The sizes of a database's page: SQLite's smallest, and more than any has.
const PAGES: std::ops::RangeInclusive<u64> = 512..=1 << 20;

/// The page of a database: whole sectors.
fn page_size(text: &str) -> Result<ByteCount, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if PAGES.contains(&size.get()) && size.get().is_multiple_of(512) {
        return Ok(size);
    }
    let meant = size.get().checked_mul(1024).filter(|size| PAGES.contains(size));
    let hint = meant.map(|_| format!("; {}KiB?", size.get())).unwrap_or_default();
    Err(format!(
        "no database has pages of {} bytes: whole sectors of 512 bytes, up to 1 MiB{hint}",
        size.get()
    ))
}

/// A file to draw into: what it is called must not promise another format.
pub(crate) fn svg_file(text: &str) -> Result<std::path::PathBuf, String> {
    let path = std::path::PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) if !extension.eq_ignore_ascii_case("svg") => {
            Err(format!("only SVG is drawn: name it {}", path.with_extension("svg").display()))
        }
        _ => Ok(path),
    }
}

fn rule_code(text: &str) -> Result<Code, String> {
    straddle_audit::rule(text)
        .map(|rule| rule.code)
        .ok_or_else(|| format!("no finding has the code '{text}'; 'straddle explain' lists them"))
}
