//! The command line of `efficiency`.

use clap::Args;

/// Examples for `efficiency --help`.
const EXAMPLES: &str = "\
Examples:
  straddle efficiency                     # 512-byte and 4096-byte sectors
  straddle efficiency --data 4096 --overhead 15 --ecc 100";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EfficiencyArguments {
    /// Bytes of data per sector [default: 512 and 4096].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) data: Option<u32>,

    /// Bytes of gap, synchronisation and address mark per sector [default: 15].
    #[arg(long)]
    pub(crate) overhead: Option<u32>,

    /// Bytes of error-correcting code per sector [default: 50, or 100 for more than 512 bytes].
    #[arg(long)]
    pub(crate) ecc: Option<u32>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
