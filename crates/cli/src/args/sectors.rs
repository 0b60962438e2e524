//! The options that say what the sectors of a target are.

use clap::Args;
use straddle_device::Assume;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SectorArguments {
    /// Drive that the target is for, as for `check`.
    #[arg(long, value_name = "TOPOLOGY", value_parser = crate::target::assume)]
    pub(crate) assume: Option<Assume>,

    /// File saved by 'straddle probe'. Its measurements override what a device reports.
    #[arg(long, value_name = "FILE", conflicts_with = "assume", value_parser = crate::measured::read)]
    pub(crate) measured: Option<Assume>,
}

impl SectorArguments {
    /// The topology that is declared, or was measured.
    pub(crate) fn topology(&self) -> Assume {
        self.assume.clone().or_else(|| self.measured.clone()).unwrap_or_default()
    }
}
