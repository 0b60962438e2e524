//! `straddle check` and `straddle map`: examine each target and print the findings.

mod run;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use straddle_audit::{Code, RULES, Severity};
use straddle_device::Assume;
use straddle_units::{BlockSize, ByteCount, parse_size};

use crate::args::{Completed, block_size, named};
use crate::commands::check::run::Subject;
pub(crate) use crate::commands::check::run::{Form, run};
use crate::measured::Pricing;
use crate::target::Assumed;
use crate::{exit, target};

const CHECK_EXAMPLES: &str = "\
Examples:
  straddle check                          # every disk of this machine
  straddle check sdb vm.img               # a disk and an image
  straddle check images/                  # the images in a directory
  straddle check --assume 512n old.img    # for a drive with 512-byte sectors
  straddle check --assume physical=4096,iu=16KiB cloud.img
  straddle check --assume wd10ears,jumper=on xp.img
  straddle check --cost wd10ears old.img  # also report the slowdown of writes
  straddle check --no-wake                # leave disks in standby asleep
  straddle check --json *.img | jq '.targets[] | select(.status == \"error\")'
  straddle check --output-format junit build/*.img    # for a build server
  straddle check --config ci/straddle.toml build/*.img
  straddle check https://host/vm.qcow2    # a few hundred KiB are fetched
  straddle check s3://bucket/vm.vhd gs://bucket/vm.vmdk az://box/vm.vhdx
  straddle check --domain all             # the disks of all libvirt guests
  straddle check --domain ./web.xml       # the disks of one guest";

const CHECK_STATUSES: &[(u8, &str)] = &[
    (0, "no findings, or only advice (see --fail-on)"),
    (1, "findings were reported"),
    (3, "a target could not be read or checked; takes precedence over 1"),
];

const MAP_EXAMPLES: &str = "\
Examples:
  straddle map                            # every disk of this machine
  straddle map vm.qcow2                   # an image, down to its file systems
  straddle map --assume 4kn disk.img      # for a drive with 4096-byte sectors";

#[derive(Debug, Args)]
#[command(after_help = format!("{MAP_EXAMPLES}\n\n{}", exit::help(CHECK_STATUSES)))]
pub(crate) struct MapArguments {
    #[command(flatten)]
    pub(crate) check: CheckArguments,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = format!("{CHECK_EXAMPLES}\n\n{}", exit::help(CHECK_STATUSES)))]
pub(crate) struct CheckArguments {
    /// Disks, images, directories of images, modelled drives, or URLs of images (https, http, s3, gs, az)
    /// [default: every local disk].
    ///
    /// `sda` stands for /dev/sda, and `wd10ears` for the modelled drive, unless a file of that name exists.
    /// Directories are searched recursively for files with the extension of an image format. Hidden files are
    /// skipped.
    ///
    /// Only the necessary bytes are fetched from a server. --verbose and --json show the number of bytes
    /// fetched. Credentials for buckets are read from the environment (AWS_*, GOOGLE_*, AZURE_*).
    #[arg(value_name = "TARGET", value_hint = clap::ValueHint::FilePath,
        value_parser = PathBufValueParser::new().map(Subject::parse))]
    pub(crate) targets: Vec<Subject>,

    /// Check the disks of a libvirt domain as its guest sees them. NAME is the name of a domain, the path of
    /// its XML file, or `all`. Can be repeated.
    ///
    /// Domains are looked up with virsh. The image format of each disk is taken from the domain's XML. If the
    /// XML has no <blockio>, the guest sees 512-byte sectors. --assume and --measured describe the storage
    /// that holds the disks. Drives with removable media are skipped.
    #[arg(long = "domain", value_name = "NAME", value_hint = clap::ValueHint::FilePath,
        conflicts_with_all = ["targets", "all", "sysroot", "format"])]
    pub(crate) domains: Vec<String>,

    /// If no target is specified, also check loop, ram and zram devices, and drives with removable media.
    #[arg(long)]
    pub(crate) all: bool,

    /// Print JSON (see `straddle schema`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only one line for each finding.
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,

    /// Print the report in a format for other programs.
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "quiet"])]
    pub(crate) output_format: Option<OutputFormat>,

    /// Also show notes, every layer with its offsets, the source of each figure, and the amount of data
    /// fetched from servers.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Assume this drive, whatever a device reports: a sector format (512n, 512e or 4kn), KEY=SIZE pairs,
    /// both (4kn,chunk=512KiB), or a modelled drive.
    ///
    /// The keys are logical, physical, offset, io-min, io-opt, iu, chunk, stripe, erase, atomic and
    /// atomic-boundary. For RAID 5 and 6, also specify the stripe (chunk size times the number of data
    /// disks). TARGET=TOPOLOGY applies only to that target, and can be repeated.
    #[arg(long, value_name = "TOPOLOGY", value_parser = crate::target::topologies(crate::target::assumed),
        hide_possible_values = true)]
    pub(crate) assume: Vec<Assumed>,

    /// Use the measurements in this file, saved by 'straddle probe', instead of the values that a device
    /// reports.
    #[arg(long, value_name = "FILE", conflicts_with = "assume", value_parser = crate::measured::read)]
    pub(crate) measured: Option<Assume>,

    /// Also report what each misalignment costs on a modelled drive, or on the drive measured in a file saved
    /// by 'straddle probe'. Images are checked for use on DRIVE, unless --assume specifies another drive.
    /// With --page, the cost on a modelled drive is that of page-sized writes. On a modelled hard disk, each
    /// page-sized write is followed by a flush. Modelling an SSD takes up to a minute.
    #[arg(long, value_name = "DRIVE", value_parser = crate::measured::pricing)]
    pub(crate) cost: Option<Pricing>,

    /// Look only for partition tables made for this logical sector size [default: detected].
    #[arg(long, value_name = "BYTES", value_parser = block_size)]
    pub(crate) logical: Option<BlockSize>,

    /// Report whether database pages of this size straddle boundaries or can be torn.
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    pub(crate) page: Option<ByteCount>,

    /// Report whether this cloud platform (azure or gce) accepts the format and size of an image.
    #[arg(long = "for", value_name = "PLATFORM")]
    pub(crate) platform: Option<straddle_audit::Platform>,

    /// Read a captured directory tree (DIR/sys, DIR/dev) instead of the running system.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) sysroot: Option<PathBuf>,

    /// Image format: raw, qcow2, vmdk, vhd, vhdx, vdi, qed or parallels [default: detected from the contents].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<straddle_device::image::Format>,

    /// Allow this backing, parent or extent file to be opened if an image refers to it. Can be repeated.
    ///
    /// By default, other files that an image refers to are not opened.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = target::backing_files())]
    pub(crate) allow_backing: Vec<PathBuf>,

    /// Maximum time to wait for a block device or a server. If the limit is exceeded, the check of that
    /// target fails, and the other targets are not delayed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds)]
    pub(crate) time_limit: u64,

    /// Leave disks in standby asleep. Disks in standby are reported as not checked, and do not affect the
    /// exit status.
    ///
    /// The power state of a disk is queried with CHECK POWER MODE (SATA), or with TEST UNIT READY and REQUEST
    /// SENSE (SCSI). Disks in standby are not read, and neither are the devices on top of them. If a disk's
    /// power state cannot be queried, the check of the disk fails.
    #[arg(long)]
    pub(crate) no_wake: bool,

    /// Report only findings with these codes (separated by commas).
    ///
    /// The status of a target and the exit status depend only on the reported findings. Partition verdicts
    /// and unreadable data (S081) are always reported.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code(), hide_possible_values = true)]
    pub(crate) only: Vec<Code>,

    /// Exclude findings with these codes (separated by commas) from the report and the exit status.
    ///
    /// Partition verdicts and unreadable data (S081) are always reported.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule_code(), hide_possible_values = true)]
    pub(crate) ignore: Vec<Code>,

    /// Configuration file that lists findings to ignore, with reasons, and sets defaults for --assume, --page
    /// and --fail-on [default: .straddle.toml in the current directory, if it exists].
    ///
    /// Ignored findings are listed with their reasons, but affect neither the status of a target nor the exit
    /// status. Partition verdicts do not change. S047 and S081 cannot be ignored.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,

    /// Do not read .straddle.toml.
    #[arg(long)]
    pub(crate) no_config: bool,

    /// Accept targets that hold unknown contents, and domain disks that this host cannot read. Without
    /// --allow-unknown, targets with unknown contents and unreadable domain disks cause exit status 3.
    #[arg(long)]
    pub(crate) allow_unknown: bool,

    /// Exit with status 1 if there is a finding of at least this severity [default: warning] or, with
    /// 'blank', if there is nothing to check. Values can be combined: warning,blank.
    ///
    /// There is nothing to check when a target is blank, its table has no partitions, or no disk is found.
    #[arg(long, value_name = "SEVERITY|blank", value_delimiter = ',', value_parser = named(FAIL_ON))]
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

    fn paths(&self) -> Vec<PathBuf> {
        self.targets.iter().filter_map(Subject::path).map(Path::to_owned).collect()
    }

    pub(crate) fn fails_from(&self) -> Severity {
        self.fail_on.iter().flatten().copied().min().unwrap_or(Severity::Warning)
    }

    /// Whether a target that holds nothing to judge counts for the exit status.
    pub(crate) fn fails_blank(&self) -> bool {
        self.fail_on.contains(&None)
    }
}

/// Reports that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, with one suite per target and one test case per finding.
    Junit,
    /// Annotations for a GitHub workflow.
    Github,
    /// Comma-separated values, one line per finding.
    Csv,
    /// Metrics for node_exporter's textfile collector.
    Prometheus,
}

/// What makes the exit status 1: findings from a severity on; `None` for targets with nothing to check.
pub(crate) type FailOn = Option<Severity>;

pub(crate) const FAIL_ON: &[(&str, &str, FailOn)] = &[
    ("advice", "All findings", Some(Severity::Advice)),
    ("warning", "Findings that cost performance on some workloads, and errors", Some(Severity::Warning)),
    ("error", "Findings that always cost performance, or mean damage", Some(Severity::Error)),
    ("blank", "Targets with nothing to check", None),
];

fn seconds(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|seconds| *seconds > 0);
    number.ok_or_else(|| "must be a whole number of seconds, at least 1".to_owned())
}

/// The sizes of a database's page: SQLite's smallest, and more than any has.
const PAGES: std::ops::RangeInclusive<u64> = 512..=1 << 20;

pub(crate) fn page_size(text: &str) -> Result<ByteCount, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?.get();
    if PAGES.contains(&size) && size.is_multiple_of(512) {
        return Ok(ByteCount::new(size));
    }
    let meant = size.checked_mul(1024).filter(|size| PAGES.contains(size));
    let hint = meant.map(|_| format!("; did you mean {size}KiB?")).unwrap_or_default();
    Err(format!("a database page cannot be {size} bytes; use a multiple of 512 bytes, up to 1 MiB{hint}"))
}

fn rule_code() -> impl TypedValueParser<Value = Code> {
    Completed(|| Box::new(RULES.iter().map(|rule| rule.code.as_str()))).try_map(|text| {
        let rule = straddle_audit::rule(&text).map(|rule| rule.code);
        rule.ok_or_else(|| {
            format!("no rule has the code '{text}'; 'straddle explain --list' lists the codes")
        })
    })
}
