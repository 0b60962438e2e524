//! The command line of `reproduce`.

use clap::Args;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use straddle_bench::experiment::Experiment;

use crate::exit;
use crate::modelled;

/// Examples for `reproduce --help`.
const EXAMPLES: &str = "\
Examples:
  straddle reproduce                      every experiment, beside what was published
  straddle reproduce --list               which there are, and what needs the lab
  straddle reproduce miller-2010 afd-2019
  straddle reproduce lulf-2010 --drive wd20ears
                                          on another modelled drive: no verdict, but the same requests
  straddle reproduce ./mine.toml --json   an experiment of your own";

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub(crate) struct ReproduceArguments {
    /// Published experiments, or files in their format; every shipped one when none is given.
    #[arg(value_name = "EXPERIMENT", value_parser = ExperimentNames, hide_possible_values = true)]
    pub(crate) experiments: Vec<String>,

    /// Run on this modelled drive instead of the one that the figures were published of. Nothing is judged then.
    #[arg(long, value_name = "NAME", value_parser = modelled::Names { prefix: "" }, hide_possible_values = true)]
    pub(crate) drive: Option<String>,

    /// List the experiments and run none.
    #[arg(long, conflicts_with = "drive")]
    pub(crate) list: bool,

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
