//! The argument of `schema`.

use clap::ValueEnum;

/// The commands whose JSON has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// `check --json`.
    Check,
    /// `plan --json`.
    Plan,
    /// `realign --json`.
    Realign,
    /// `realign --to --json`.
    RealignTo,
    /// `explain --json`.
    Explain,
    /// `explain rmw --json`.
    ExplainRmw,
    /// `efficiency --json`.
    Efficiency,
    /// `bench --json`.
    Bench,
    /// `drive list --json` and `drive show --json`.
    Drive,
    /// `drive fit --json`.
    DriveFit,
    /// `trace --json`.
    Trace,
    /// `trace record --json`.
    TraceRecord,
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
    /// `report --json`.
    Report,
}

impl SchemaOf {
    /// Whether `straddle-lab` runs the command.
    pub(super) fn is_of_lab(self) -> bool {
        matches!(self, Self::Serve | Self::Lab | Self::Reproduce | Self::DriveFit)
    }
}
