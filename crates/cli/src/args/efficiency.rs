//! The command line of `efficiency`.

use clap::Args;

/// Examples for `efficiency --help`.
const EXAMPLES: &str = "\
Examples:
  straddle efficiency                     both usual formats
  straddle efficiency --data 4096 --overhead 15 --ecc 100";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EfficiencyArguments {
    /// Bytes of data per sector [default: both usual formats, if no other size is given].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) data: Option<u32>,

    /// Bytes of gap, synchronisation and address mark per sector.
    #[arg(long)]
    pub(crate) overhead: Option<u32>,

    /// Bytes of error-correcting code per sector.
    #[arg(long)]
    pub(crate) ecc: Option<u32>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
