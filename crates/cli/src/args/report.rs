//! The command line of `report`.

use std::path::PathBuf;

use clap::Args;

use crate::exit;

/// Examples for `report --help`.
const EXAMPLES: &str = "\
Examples:
  straddle report reports/ --html fleet.html    all *.json files below a folder, as one page
  straddle report web1.json db1.json            a summary of two hosts
  ssh web1 straddle check --json | straddle report - reports/
  straddle report reports/ --json | jq '.hosts[] | select(.misaligned_errors > 0).host'

On each host: 'straddle check --json > HOST.json'. With '--cost drive:NAME', the report also has what
misalignment costs. contrib/ansible has a role that collects the audits of all hosts.";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub(crate) struct ReportArguments {
    /// Audits (output of 'straddle check --json'), folders of them (every *.json file below), or '-' for
    /// standard input.
    ///
    /// A host is named by its audit or, if the audit has no name, by the name of the file. Of several audits of
    /// a host the last one counts. A file may contain several audits. What cannot be read is left out, and the
    /// status is 3.
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,

    /// Write an HTML page with tables that can be sorted: a single file that needs no network.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON (see `straddle schema report`).
    #[arg(long)]
    pub(crate) json: bool,
}
