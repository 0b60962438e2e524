//! The command line of `reproduce`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::Completed;
use crate::exit;
use crate::target;
use crate::target::local_targets;

/// Examples for `reproduce --help`.
const EXAMPLES: &str = "\
Examples:
  straddle reproduce --model-only         # all that needs no guest: seconds
  straddle reproduce --list               # list the experiments
  straddle reproduce miller-2010 afd-2019 # in Linux guests: minutes
  straddle reproduce smith-2010 --drive wd10ears --html wd10ears.html
                                          # one of its three drives, with charts
  straddle reproduce smith-2010 --runs 1  # one run instead of three
  straddle reproduce afd-2019 --bands     # with each plausible firmware
  straddle reproduce --policies           # which firmware agrees best
  straddle reproduce lulf-2010 --drive wd20ears
                                          # on another drive, without verdict
  straddle reproduce ./mine.toml --json   # an experiment of your own
  straddle reproduce smith-2010 --on /dev/sdb --destroy-data /dev/sdb
                                          # on a real disk; its data is lost";

/// The exit statuses of `reproduce`.
const STATUSES: &[(u8, &str)] = &[
    (0, "every published figure was reproduced"),
    (3, "a figure was not reproduced, or a guest or disk failed"),
    (4, "refused for safety (--on)"),
];

/// The shipped experiments: the files of the folder experiments.
pub const EXPERIMENTS: [&str; 7] =
    ["afd-2019", "desno-2010", "lulf-2010", "miller-2010", "pronk-2010", "smith-2010", "spectre256-2012"];

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
#[expect(missing_docs, reason = "clap would print it")]
pub struct ReproduceArguments {
    /// Published experiments, or files in their format [default: every shipped experiment].
    #[arg(value_name = "EXPERIMENT", value_parser = Completed(|| Box::new(EXPERIMENTS.into_iter())), hide_possible_values = true)]
    pub experiments: Vec<String>,

    /// Run only what was published for this modelled drive. If nothing was, run the experiments of other drives on
    /// it, without a verdict.
    #[arg(long, value_name = "NAME", value_parser = target::drives(), hide_possible_values = true)]
    pub drive: Option<target::Drive>,

    /// List the experiments without running any.
    #[arg(long, conflicts_with = "drive")]
    pub list: bool,

    /// Run only the parts that need no guest: seconds instead of minutes.
    #[arg(long)]
    pub model_only: bool,

    /// Run only the parts that need a guest.
    #[arg(long, conflicts_with = "model_only")]
    pub lab_only: bool,

    /// Number of runs of each lab part, with different seeds; the mean is reported [default: as in the article].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub runs: Option<u32>,

    /// Also run the lab parts with every plausible policy of read-modify-write, for a range of each figure. This needs
    /// four times the number of guests. The other parts always have the range.
    #[arg(long, conflicts_with_all = ["on", "model_only"])]
    pub bands: bool,

    /// Find the policy of read-modify-write with the smallest maximum error over the published raw figures of each
    /// drive. Runs no guest, and changes nothing.
    #[arg(long, conflicts_with_all = ["on", "list", "bands", "html", "lab_only", "model_only"])]
    pub policies: bool,

    /// Run guests even if neither namespaces nor Landlock can confine them (see `straddle lab --help`).
    #[arg(long)]
    pub unconfined: bool,

    /// Seed of the guests' first run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Run the lab's scripts on this block device with this machine's kernel instead, in real time, as root. All data
    /// on the device is lost.
    #[arg(long, value_name = "DEVICE", value_parser = local_targets(), requires = "destroy_data",
        conflicts_with_all = ["drive", "model_only", "list", "guests"])]
    pub on: Option<PathBuf>,

    /// Repeat the device, to confirm that its data will be lost.
    #[arg(long, value_name = "DEVICE", value_parser = local_targets(), requires = "on")]
    pub destroy_data: Option<PathBuf>,

    /// Run the parts that an experiment shortens (its `scale`) at full length.
    #[arg(long)]
    pub full: bool,

    /// Number of guests to run at once [default: one per processor].
    #[arg(long, value_name = "N")]
    pub guests: Option<NonZeroUsize>,

    /// Read this uncompressed tarball instead of a generated one.
    #[arg(long, value_name = "FILE")]
    pub tarball: Option<PathBuf>,

    /// Read the trees `old` and `new` in this directory instead of generated ones.
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,

    /// Directory for generated inputs [default: $XDG_CACHE_HOME/straddle/inputs or
    /// ~/.cache/straddle/inputs].
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// Write an HTML page with charts and tables: a single file that needs no network.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub html: Option<PathBuf>,

    /// Also show the sources, notes and fitted numbers of each experiment, and ranges.
    #[arg(long, short)]
    pub verbose: bool,

    /// Print JSON (see `straddle schema reproduce`).
    #[arg(long)]
    pub json: bool,
}
