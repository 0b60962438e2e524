//! The command line of `reproduce`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use straddle_reproduce::experiment::Experiment;

use crate::exit;
use crate::target;

/// Examples for `reproduce --help`.
const EXAMPLES: &str = "\
Examples:
  straddle reproduce --model-only         all that needs no kernel, beside what was published: seconds
  straddle reproduce --list               which experiments there are
  straddle reproduce miller-2010 afd-2019 smith-2010
                                          with their file systems, in Linux guests in virtual time: minutes
  straddle reproduce smith-2010 --drive wd10ears --html wd10ears.html
                                          one of its three drives, with charts
  straddle reproduce smith-2010 --runs 3  three times each, as in the article
  straddle reproduce lulf-2010 --drive wd20ears
                                          on another modelled drive: no verdict, but the same requests
  straddle reproduce ./mine.toml --json   an experiment of your own
  straddle reproduce smith-2010 --on /dev/sdb --destroy-data /dev/sdb
                                          its six operations on a real disk, which loses all it holds";

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub(crate) struct ReproduceArguments {
    /// Published experiments, or files in their format; every shipped one when none is given.
    #[arg(value_name = "EXPERIMENT", value_parser = ExperimentNames, hide_possible_values = true)]
    pub(crate) experiments: Vec<String>,

    /// Run only what was published of this modelled drive. Where nothing was, run on it what was published of others; nothing is
    /// judged then.
    #[arg(long, value_name = "NAME", value_parser = target::drives(), hide_possible_values = true)]
    pub(crate) drive: Option<target::Drive>,

    /// List the experiments and run none.
    #[arg(long, conflicts_with = "drive")]
    pub(crate) list: bool,

    /// Run only what needs no kernel: seconds instead of minutes.
    #[arg(long)]
    pub(crate) model_only: bool,

    /// Run only what needs a kernel.
    #[arg(long, conflicts_with = "model_only")]
    pub(crate) lab_only: bool,

    /// Run each part of the lab so often, each time with another seed; the mean counts.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) runs: u32,

    /// Run guests where neither namespaces nor Landlock can confine them (see `straddle lab --help`).
    #[arg(long)]
    pub(crate) unconfined: bool,

    /// The seed of the guests' first run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Run the lab's scripts on this machine's kernel and this block device instead, in the wall's time, as root. Everything on it
    /// is lost.
    #[arg(long, value_name = "DEVICE", requires = "destroy_data", conflicts_with_all = ["drive", "model_only", "list", "guests"])]
    pub(crate) on: Option<PathBuf>,

    /// The same device again: what it holds is given up.
    #[arg(long, value_name = "DEVICE", requires = "on")]
    pub(crate) destroy_data: Option<PathBuf>,

    /// Run in full length what the lab shortens, such as the copy of a file of 17 GiB.
    #[arg(long)]
    pub(crate) full: bool,

    /// How many guests run at once; by default one for each processor.
    #[arg(long, value_name = "N")]
    pub(crate) guests: Option<NonZeroUsize>,

    /// Read this uncompressed tarball instead of a made-up one.
    #[arg(long, value_name = "FILE")]
    pub(crate) tarball: Option<PathBuf>,

    /// Read the trees `old` and `new` in this folder instead of made-up ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,

    /// Keep made-up inputs here; by default in $XDG_CACHE_HOME/straddle or ~/.cache/straddle.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,

    /// Write a page with charts and tables: one file that needs no network.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON (see `straddle schema reproduce`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes any text, but offers the shipped experiments to completions.
#[derive(Clone, Debug)]
struct ExperimentNames;

impl TypedValueParser for ExperimentNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Experiment::names().map(PossibleValue::new)))
    }
}
