//! The command line: the one definition that parser, help, man pages and completions come from.

mod bench;
mod columns;
mod copy;
mod drive;
mod efficiency;
mod explain;
mod lab;
mod plan;
mod probe;
mod report;
mod reproduce;
mod schema;
mod sectors;
mod serve;
mod sim;
mod trace;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use straddle_audit::{Code, RULES, Severity};
use straddle_device::Assume;
use straddle_units::{BlockSize, ByteCount, KERNEL_SECTOR, Lba, parse_size};

pub(crate) use self::bench::BenchArguments;
pub(crate) use self::columns::Columns;
pub use self::drive::FitArguments;
pub(crate) use self::drive::{Action, DriveArguments, ShowArguments};
pub(crate) use self::efficiency::EfficiencyArguments;
pub(crate) use self::explain::{ExplainArguments, RmwArguments, Topic};
pub use self::lab::{LabArguments, OfLab, TearName};
pub(crate) use self::plan::{
    ApplyArguments, AtBoot, MoveArguments, PlanArguments, RealignArguments, ResumeArguments, UndoArguments,
};
pub(crate) use self::probe::ProbeArguments;
pub(crate) use self::report::ReportArguments;
pub use self::reproduce::{EXPERIMENTS, ReproduceArguments};
pub use self::schema::SchemaOf;
pub(crate) use self::sectors::SectorArguments;
pub use self::serve::ServeArguments;
pub(crate) use self::sim::SimArguments;
pub(crate) use self::trace::{RecordArguments, TraceAction, TraceArguments};
use crate::cost::Pricing;
use crate::exit;
use crate::target::{self, Assumed, ReadTarget};

/// Examples for `--help`.
const EXAMPLES: &str = "\
Examples:
  straddle check                          # every disk of this machine
  straddle check disk.img                 # an image
  straddle explain S001                   # why a finding matters, and its fix
  straddle realign /dev/sdb               # plan a move; nothing is written
  straddle bench random-write wd10ears    # the cost on a modelled drive";

/// The exit statuses of all commands.
const STATUSES: &[(u8, &str)] = &[
    (0, "success; for check, map and report: no findings above advice"),
    (1, "findings were reported, or sectors could not be read (apply, resume)"),
    (3, "a target could not be read or checked, or a figure not reproduced"),
    (4, "refused for safety"),
];

/// The commands, in the order in which people ask for them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Audit", &["check", "map", "report", "explain"]),
    ("Fix", &["realign", "plan", "apply", "undo", "resume"]),
    ("Measure", &["bench", "probe", "trace", "sim", "drive", "efficiency"]),
    ("Laboratory", &["lab", "serve", "reproduce"]),
    ("Other", &["completions", "man", "schema"]),
];

/// Returns the template of the main help: clap has one list of commands only.
fn template() -> String {
    let all = Command::augment_subcommands(clap::Command::new("straddle"));
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        text += &format!("\n{group}:\n");
        for name in names {
            let about = all.find_subcommand(name).and_then(clap::Command::get_about);
            text += &format!("  {name:<11}  {}\n", about.map(ToString::to_string).unwrap_or_default());
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// Finds, explains and fixes misaligned partitions, down to the byte.
#[derive(Debug, Parser)]
#[command(name = "straddle", version = env!("STRADDLE_VERSION"), arg_required_else_help = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
#[command(help_template = template(), max_term_width = 80, disable_help_subcommand = true)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to colour the output: always, never, or auto (on a terminal, unless NO_COLOR is set).
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN",
        hide_possible_values = true)]
    pub(crate) color: Colour,
}

/// Returns the words of a command line, with `help COMMAND` as `COMMAND --help`, and `bench TARGET` as
/// `bench random-write TARGET`.
pub fn as_options(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    if words.get(1).is_some_and(|word| word == "bench")
        && words.get(2).is_some_and(|word| target::is_target(Path::new(word)))
        && words.get(3).is_none_or(|word| word.to_string_lossy().starts_with('-'))
    {
        words.insert(2, "random-write".into());
    }
    words
}

/// The number of a partition.
fn partition_number(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "not a partition number".to_owned())
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands; the options of one are defined when it is run or described. A doc comment of its arguments would then
/// replace what is said here.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Check the alignment of disks and images.
    Check(Box<CheckArguments>),
    /// Draw the layout of disks and images to scale.
    Map(Box<CheckArguments>),
    /// Merge the audits of many hosts into one report.
    Report(Box<ReportArguments>),
    /// Explain a finding, a term, an old tool or an error message.
    Explain(Box<ExplainArguments>),
    /// Plan an aligned partition table.
    Plan(Box<PlanArguments>),
    /// Plan to move misaligned partitions, with their data.
    Realign(Box<RealignArguments>),
    /// Carry out a plan: write the table, move partitions, or copy.
    Apply(Box<ApplyArguments>),
    /// Complete or roll back an interrupted move.
    Resume(Box<ResumeArguments>),
    /// Restore the table that 'straddle apply' replaced.
    Undo(Box<UndoArguments>),
    /// Compute the share of a track that holds data.
    Efficiency(Box<EfficiencyArguments>),
    /// Measure what misalignment costs on a drive.
    Bench(Box<BenchArguments>),
    /// Find a drive's true sector size and alignment by timing.
    Probe(Box<ProbeArguments>),
    /// List and describe the modelled drives.
    Drive(Box<DriveArguments>),
    /// Count the read-modify-writes of recorded I/O.
    Trace(Box<TraceArguments>),
    /// Replay recorded I/O on a modelled drive, at any shift.
    Sim(Box<SimArguments>),
    /// Serve a modelled drive over NBD or to virtual machines.
    Serve(Box<ServeArguments>),
    /// Run a command in a Linux guest with modelled drives.
    Lab(Box<LabArguments>),
    /// Repeat published experiments on modelled drives.
    Reproduce(Box<ReproduceArguments>),
    /// Print a shell completion script.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell to generate the script for.
        shell: Shell,
    },
    /// Print a man page, or write all of them to a directory.
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// Command whose page to print [default: the main page].
        command: Option<String>,
        /// Write all pages to this directory instead.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the JSON Schema of a command's `--json` output.
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema {
        /// Command whose schema to print.
        #[arg(value_enum, default_value_t = SchemaOf::Check)]
        command: SchemaOf,
    },
}

/// Examples for `completions --help`.
const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(straddle completions bash)     # in ~/.bashrc
  straddle completions zsh > ~/.zfunc/_straddle
  straddle completions fish > ~/.config/fish/completions/straddle.fish";

/// Examples for `man --help`.
const MAN_EXAMPLES: &str = "\
Examples:
  straddle man check | man -l -           # read a page
  straddle man --dir ~/.local/share/man/man1";

/// Examples for `schema --help`.
const SCHEMA_EXAMPLES: &str = "\
Examples:
  straddle schema > check.schema.json
  straddle schema bench | jq .properties";

/// Examples for `check --help`.
const CHECK_EXAMPLES: &str = "\
Examples:
  straddle check                          # every disk of this machine
  straddle check sdb vm.img               # a disk and an image
  straddle check images/                  # the images in a folder
  straddle check --assume 512n old.img    # for a drive with 512-byte sectors
  straddle check --assume physical=4096,iu=16KiB cloud.img
  straddle check --assume wd10ears,jumper=on xp.img
  straddle check --cost wd10ears old.img  # also report the slowdown of writes
  straddle check -o +CODES *.img          # a table with one more column
  straddle check --no-wake                # leave disks in standby asleep
  straddle check --json *.img | jq '.targets[] | select(.status == \"error\")'
  straddle check --output-format junit build/*.img    # for a build server
  straddle check --config ci/straddle.toml build/*.img
  straddle check https://host/vm.qcow2    # a few hundred KiB are fetched
  straddle check s3://bucket/vm.vhd gs://bucket/vm.vmdk az://box/vm.vhdx
  straddle check --domain all             # the disks of all libvirt guests
  straddle check --domain ./web.xml       # those of one guest";

/// The exit statuses of `check` and `map`.
const CHECK_STATUSES: &[(u8, &str)] = &[
    (0, "no findings above advice (see --fail-on)"),
    (1, "findings were reported"),
    (3, "a target could not be read or checked; outweighs 1"),
];

#[derive(Clone, Debug, Args)]
#[command(after_help = format!("{CHECK_EXAMPLES}\n\n{}", exit::help(CHECK_STATUSES)))]
pub(crate) struct CheckArguments {
    /// Disks, images, folders of images, modelled drives, or URLs of images (https, http, s3, gs, az)
    /// [default: every local disk].
    ///
    /// `sda` stands for /dev/sda, and `wd10ears` for the modelled drive, unless a file has that name. Images in a
    /// folder are found by the ends of their names, also in folders below it; hidden files are skipped.
    ///
    /// Only the bytes needed are fetched from a server; --verbose and --json say how many. Credentials for buckets
    /// come from the environment (AWS_*, GOOGLE_*, AZURE_*).
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath, value_parser = target::read_targets())]
    pub(crate) targets: Vec<ReadTarget>,

    /// Check the disks of a libvirt domain as its guest sees them. NAME is a domain, an XML file, or all. Can be
    /// repeated.
    ///
    /// Domains are looked up with virsh or, if it is not installed, in /etc/libvirt/qemu. The XML states the format
    /// of each disk. Without <blockio>, QEMU shows 512-byte sectors. --assume and --measured describe the storage
    /// below the disks. Drives with removable media are skipped.
    #[arg(long = "domain", value_name = "NAME", value_hint = clap::ValueHint::FilePath,
        conflicts_with_all = ["targets", "all", "sysroot", "format"])]
    pub(crate) domains: Vec<String>,

    /// Without a target, also include loop, ram and zram devices, and removable-media drives.
    #[arg(long)]
    pub(crate) all: bool,

    /// Print JSON (see `straddle schema`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only one line per finding.
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print a report for another program.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "quiet", "verbose"])]
    pub(crate) output_format: Option<OutputFormat>,

    /// Print only a table of partitions with these columns, separated by commas. +NAME adds a column to the default
    /// ones.
    ///
    /// The columns are TARGET, STATUS, PARTN, START, START-BYTE, SECTORS, SIZE, SIZE-BYTE, PARTTYPE, TYPE,
    /// PARTLABEL, PARTUUID, CONTENT, VERDICT and CODES. START is in sectors of the table. With --output-format csv,
    /// the columns are those of its header.
    #[arg(long, short = 'o', value_name = "LIST", value_delimiter = ',',
        value_parser = Completed(|| Box::new(crate::view::report::columns())),
        hide_possible_values = true, conflicts_with_all = ["json", "quiet", "verbose"])]
    pub(crate) columns: Vec<String>,

    /// Also show the notes, every layer with its offsets, the source of each figure, and what was fetched.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Drive that the target is for: 512n, 512e, 4kn, key=size[,key=size...], or a modelled drive. Overrides what
    /// a device reports.
    ///
    /// The keys are logical, physical, offset, io-min, io-opt, iu, chunk, stripe, erase, atomic and
    /// atomic-boundary. TARGET=TOPOLOGY applies to one of several targets, and can be repeated.
    #[arg(long, value_name = "TOPOLOGY", value_parser = crate::target::assumed)]
    pub(crate) assume: Vec<Assumed>,

    /// File saved by 'straddle probe'. Its measurements override what a device reports.
    #[arg(long, value_name = "FILE", conflicts_with = "assume", value_parser = crate::measured::read)]
    pub(crate) measured: Option<Assume>,

    /// Also report what each misalignment costs on this drive: a modelled drive, or a file saved by 'straddle
    /// probe'.
    #[arg(long, value_name = "DRIVE", value_parser = crate::cost::parse)]
    pub(crate) cost: Option<Pricing>,

    /// Read partition tables only in this logical sector size [default: detected].
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// Report whether database pages of this size straddle boundaries or can be torn.
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(crate) page: Option<ByteCount>,

    /// Report whether a platform accepts the format and size of an image: azure or gce.
    #[arg(long = "for", value_name = "PLATFORM", value_parser = <straddle_audit::Platform as std::str::FromStr>::from_str)]
    pub(crate) platform: Option<straddle_audit::Platform>,

    /// Read a captured tree (DIR/sys, DIR/dev) instead of the running system.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) sysroot: Option<PathBuf>,

    /// Image format: raw, qcow2, vmdk, vhd, vhdx, vdi, qed or parallels [default: detected from the contents].
    #[arg(long, value_name = "FORMAT", value_parser = <straddle_device::image::Format as std::str::FromStr>::from_str)]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Also open this backing, parent or extent file if an image names it. Can be repeated.
    ///
    /// By default, no other file that an image names is opened.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = target::backing_files())]
    pub(crate) allow_backing: Vec<PathBuf>,

    /// Maximum time to wait for a block device or a server. A target that takes longer fails, without delaying the
    /// others.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds)]
    pub(crate) time_limit: u64,

    /// Leave disks in standby asleep. They are listed as not checked, which does not affect the exit status.
    ///
    /// SATA disks receive CHECK POWER MODE, SCSI disks TEST UNIT READY and REQUEST SENSE. Devices on top of a
    /// sleeping disk are not read either. If the state cannot be queried, the target fails.
    #[arg(long)]
    pub(crate) no_wake: bool,

    /// Report only findings with these codes, separated by commas.
    ///
    /// The status and exit status reflect only the reported findings. Verdicts on partitions and unreadable data
    /// (S081) are always reported.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code(), hide_possible_values = true)]
    pub(crate) only: Vec<Code>,

    /// Omit these findings, separated by commas, from the report and the status.
    ///
    /// Verdicts on partitions and unreadable data (S081) are always reported.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code(), hide_possible_values = true)]
    pub(crate) ignore: Vec<Code>,

    /// File of findings to ignore, with reasons, and of defaults for --assume, --page and --fail-on
    /// [default: .straddle.toml in the current directory, if it exists].
    ///
    /// Ignored findings are listed with their reasons. They do not affect the status or the exit status. Verdicts
    /// on partitions are kept. S047 and S081 cannot be ignored.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,

    /// Do not read .straddle.toml.
    #[arg(long)]
    pub(crate) no_config: bool,

    /// Accept a non-blank target with unknown contents, and a disk of a domain that cannot be read from this host.
    /// Otherwise the exit status is 3.
    #[arg(long)]
    pub(crate) allow_unknown: bool,

    /// Exit with status 1 if there is a finding of at least this severity [default: warning] or, with blank, if there
    /// is nothing to check. Can be combined: warning,blank.
    ///
    /// There is nothing to check on a blank target, in a table without partitions, and where no disk is found.
    #[arg(long, value_enum, value_name = "SEVERITY|blank", value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,
}

impl CheckArguments {
    /// Returns the captured tree to read; `None` for the running system, also where it is named as `/`.
    pub(crate) fn captured(&self) -> Option<&Path> {
        let is_running_system = |root: &Path| root.canonicalize().is_ok_and(|root| root == Path::new("/"));
        self.sysroot.as_deref().filter(|root| !is_running_system(root))
    }

    /// Whether every disk of the running system is audited.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        self.targets.is_empty() && self.domains.is_empty() && self.captured().is_none()
    }

    /// The lowest severity that counts for the exit status.
    pub(crate) fn fails_from(&self) -> Severity {
        self.fail_on.iter().filter_map(|on| on.severity()).min().unwrap_or(Severity::Warning)
    }

    /// Whether a target that holds nothing to judge counts for the exit status.
    pub(crate) fn fails_blank(&self) -> bool {
        self.fail_on.contains(&FailOn::Blank)
    }
}

/// Reports that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// SARIF 2.1.0: code scanning.
    Sarif,
    /// JUnit's XML: a suite for each target, a test case for each finding.
    Junit,
    /// Annotations of a GitHub workflow.
    Github,
    /// Comma-separated values, a line for each finding.
    Csv,
    /// Metrics for node_exporter's textfile collector.
    Prometheus,
}

/// What makes the exit status 1: findings from a severity on, and targets with nothing to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// All findings.
    Advice,
    /// Findings that cost on some workloads, and errors.
    Warning,
    /// Findings that always cost.
    Error,
    /// Targets with nothing to check.
    Blank,
}

impl FailOn {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Advice => Some(Severity::Advice),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
            Self::Blank => None,
        }
    }
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

/// Parses `1MiB`, or `63s` as sectors of 512 bytes.
fn place(text: &str) -> Result<ByteCount, String> {
    let Some(sector) = text.trim().strip_suffix('s').and_then(|sector| sector.parse::<u64>().ok()) else {
        return parse_size(text).map_err(|error| error.to_string());
    };
    let byte = Lba::new(sector).to_bytes(KERNEL_SECTOR);
    byte.map(|byte| ByteCount::new(byte.get())).ok_or_else(|| format!("sector {sector} is past 2^64 bytes"))
}

/// Parses any text, and completes to these names.
#[derive(Clone, Copy, Debug)]
struct Completed(fn() -> Box<dyn Iterator<Item = &'static str>>);

impl TypedValueParser for Completed {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().map(PossibleValue::new)))
    }
}

/// Takes one of these names, which the help describes, for the value beside it.
fn named<T: Clone + Send + Sync>(values: &'static [(&str, &str, T)]) -> impl TypedValueParser<Value = T> {
    let described = values.iter().map(|(name, about, _)| PossibleValue::new(*name).help(*about));
    PossibleValuesParser::new(described).try_map(|name| {
        let known = values.iter().find(|(known, ..)| *known == name);
        known.map(|(.., value)| value.clone()).ok_or("no such value")
    })
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
pub(crate) fn page_size(text: &str) -> Result<ByteCount, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if PAGES.contains(&size.get()) && size.get().is_multiple_of(512) {
        return Ok(size);
    }
    let meant = size.get().checked_mul(1024).filter(|size| PAGES.contains(size));
    let size = size.get();
    let hint = meant.map(|_| format!("; {size}KiB?")).unwrap_or_default();
    Err(format!("no database has pages of {size} bytes: whole sectors of 512 bytes, up to 1 MiB{hint}"))
}

/// A file to draw into: what it is called must not promise another format.
pub(crate) fn svg_file(text: &str) -> Result<PathBuf, String> {
    const OTHERS: [&str; 12] =
        ["gz", "svgz", "png", "jpg", "jpeg", "gif", "webp", "pdf", "ps", "eps", "html", "htm"];
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) if OTHERS.iter().any(|other| extension.eq_ignore_ascii_case(other)) => {
            Err(format!("only SVG is drawn: name it {}", path.with_extension("svg").display()))
        }
        _ => Ok(path),
    }
}

/// Parses the code of a finding, and completes to all of them.
fn rule_code() -> impl TypedValueParser<Value = Code> {
    Completed(|| Box::new(RULES.iter().map(|rule| rule.code.as_str()))).try_map(|text| {
        let rule = straddle_audit::rule(&text).map(|rule| rule.code);
        rule.ok_or_else(|| format!("no finding has the code '{text}'; 'straddle explain' lists them"))
    })
}
