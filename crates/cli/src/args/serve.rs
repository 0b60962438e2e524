//! The command line of `serve`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::TearName;
use crate::exit;
use crate::target::{TargetSpec, local_paths, targets};

/// Examples for `serve --help`.
const EXAMPLES: &str = "\
Examples:
  straddle serve wd10ears --nbd unix:/tmp/disk        # contents in memory
  straddle serve wd10ears,jumper=on --nbd localhost:10809 --store disk.img
  straddle serve wd10ears --vhost-user /tmp/vhost --speed 10
                                          # for QEMU (see docs/serve.md)
  straddle serve wd10ears --nbd unix:/tmp/disk --store disk.img --cut-after 1000
                                          # then disk.img holds the durable data
  straddle serve qlc-16k --nbd unix:/tmp/disk --control unix:/tmp/control
  echo stats | nc -U /tmp/control         # also 'cut SEED' and 'quit'
  straddle serve qlc-16k --nbd unix:/tmp/disk --record qlc.rec
                                          # then straddle trace qlc.rec";

/// The exit statuses of `serve`.
const STATUSES: &[(u8, &str)] = &[
    (0, "ended by Ctrl-C, SIGTERM or quit"),
    (3, "the power was cut, or an error occurred"),
    (4, "an address is in use, another type of file, or of another machine"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
#[command(group = ArgGroup::new("address").required(true).multiple(true).args(["nbd", "vhost_user"]))]
#[expect(missing_docs, reason = "clap would print it")]
pub struct ServeArguments {
    /// Modelled drive (NAME or NAME,OPTION; see 'straddle drive list'), or drive:FILE.toml.
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub target: TargetSpec,

    /// Serve NBD at this address, unix:PATH or HOST:PORT. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<String>,

    /// Serve virtual machines at this socket, by vhost-user-blk. Can be repeated.
    #[arg(long, value_name = "SOCKET", value_hint = clap::ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,

    /// Keep the contents in this file [default: in memory]. It is created if it does not exist. Otherwise it must have
    /// the size of the drive.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub store: Option<PathBuf>,

    /// Record the issue and completion of every request to this file, in blktrace's format (see `straddle trace`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Run the drive FACTOR times as fast as real time.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,

    /// Complete every request immediately, regardless of the drive's timing.
    #[arg(long, conflicts_with = "speed")]
    pub no_delay: bool,

    /// Cut the power at this request or some milliseconds later. The contents are then those that were durable.
    #[arg(long, value_name = "REQUESTS")]
    pub cut_after: Option<u64>,

    /// Seed of the exact time of the power cut, and of its effect on data being written.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Effect of a power cut on the physical sector that a disk is writing.
    #[arg(long, value_enum, default_value_t = TearName::Garbage, value_name = "HOW")]
    pub tear: TearName,

    /// Accept commands (stats, cut SEED, quit) at this socket, unix:PATH. Replies are lines of JSON.
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,

    /// Allow connections from other machines. NBD has no access control: anyone who reaches the port can read and write
    /// the drive.
    #[arg(long)]
    pub allow_remote: bool,

    /// Maximum number of concurrent clients: NBD clients, virtual machines and control connections together.
    ///
    /// At the limit, a new client replaces one that has not sent a request. If all have, it is rejected.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub max_clients: u16,

    /// Print the final summary as JSON (see `straddle schema serve`).
    #[arg(long)]
    pub json: bool,
}

/// Slower than this nothing would ever happen; faster than this the wall's clock is too coarse.
const SPEED: std::ops::RangeInclusive<f64> = 0.001..=1e6;

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if SPEED.contains(&speed) { Ok(speed) } else { Err("not from 0.001 to 1000000".to_owned()) }
}
