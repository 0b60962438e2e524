//! The command line of `report`.

use std::path::PathBuf;

use clap::Args;

use crate::exit;

/// Examples for `report --help`.
const EXAMPLES: &str = "\
Examples:
  straddle report reports/ --html fleet.html          # one page of all hosts
  straddle report web1.json db1.json                  # a summary of two hosts
  ssh web1 straddle check --json | straddle report - reports/
  straddle report reports/ --json | jq '.hosts[].host'

On each host, run 'straddle check --json > HOST.json'. With '--cost DRIVE', the
report includes what misalignment costs. contrib/ansible has a role that
collects the audits of all hosts.";

/// The exit statuses of `report`.
const STATUSES: &[(u8, &str)] = &[
    (0, "no findings above advice"),
    (1, "findings were reported"),
    (3, "an audit could not be read, or its target was not checked; outweighs 1"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
pub(crate) struct ReportArguments {
    /// Audits (output of 'straddle check --json'), folders with *.json files at any depth, or '-' for standard input.
    ///
    /// The audit names the host; if it does not, the file name does. The last audit of a host is used. A file can
    /// contain several audits. Files that cannot be read are skipped, and the status is 3.
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,

    /// Write an HTML page with sortable tables: a single file that needs no network.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON (see `straddle schema report`).
    #[arg(long)]
    pub(crate) json: bool,
}
