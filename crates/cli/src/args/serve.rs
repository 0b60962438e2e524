//! The command line of `serve`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::TearName;
use crate::target::{TargetSpec, local_paths, targets};

/// Examples for `serve --help`.
const EXAMPLES: &str = "\
Examples:
  straddle serve drive:wd10ears --nbd unix:/tmp/disk
                                          a modelled disk in real time, contents in memory
  straddle serve drive:wd10ears,jumper=on --nbd localhost:10809 --store disk.img
  straddle serve drive:wd10ears --vhost-user /tmp/vhost --speed 10
                                          for QEMU (see docs/serve.md), at ten times the speed
  straddle serve drive:wd10ears --nbd unix:/tmp/disk --store disk.img --cut-after 1000 --seed 7
                                          power cut after 1000 requests; disk.img then holds what was durable
  straddle serve drive:qlc-16k --nbd unix:/tmp/disk --control unix:/tmp/control --json
  straddle serve drive:qlc-16k --nbd unix:/tmp/disk --record qlc.rec
                                          then straddle trace qlc.rec
  echo stats | nc -U /tmp/control         other commands: 'cut SEED' and 'quit'

Exit status: 0 ended by SIGINT, SIGTERM or quit; 3 the power was cut, or an error occurred; 4 an address is in use, is
a file of another type, or does not belong to this machine.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("address").required(true).multiple(true).args(["nbd", "vhost_user"]))]
#[expect(missing_docs, reason = "clap would print it")]
pub struct ServeArguments {
    /// Modelled drive, with comma-separated options (see 'straddle drive list').
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub target: TargetSpec,

    /// Serve NBD at this address, unix:PATH or HOST:PORT. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<String>,

    /// Serve virtual machines at this socket, by vhost-user-blk. Can be repeated.
    #[arg(long, value_name = "SOCKET", value_hint = clap::ValueHint::FilePath)]
    pub vhost_user: Vec<PathBuf>,

    /// Keep the contents in this file [default: in memory]. It is created sparse if it does not exist, and
    /// used as it is if it has the drive's size.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, value_parser = local_paths())]
    pub store: Option<PathBuf>,

    /// Record every request of the drive to this file, with the times of its issue and completion by the drive's
    /// clock, in blktrace's format (see `straddle trace`).
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub record: Option<PathBuf>,

    /// Run the drive's clock FACTOR times as fast as real time.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,

    /// Send every completion immediately, regardless of the drive's timing.
    #[arg(long, conflicts_with = "speed")]
    pub no_delay: bool,

    /// Cut the power at this request, or some milliseconds later in the drive's time. The contents are then
    /// those that were durable.
    #[arg(long, value_name = "REQUESTS")]
    pub cut_after: Option<u64>,

    /// Seed that determines the exact time of the power cut, and what happens to data being written at that
    /// time.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,

    /// Possible effect of a power cut on the physical sector that a disk is writing.
    #[arg(long, value_enum, default_value_t = TearName::Garbage, value_name = "HOW")]
    pub tear: TearName,

    /// Accept commands (stats, cut SEED, quit) at this socket, unix:PATH; answers are lines of JSON.
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<String>,

    /// Allow connections from other machines. NBD has no access control: any client that reaches the port can read and write the drive.
    #[arg(long)]
    pub allow_remote: bool,

    /// Maximum number of concurrent clients: NBD clients, virtual machines and control connections together.
    ///
    /// At the limit, a new client replaces one that has sent no request yet. If there is none, the new client
    /// is rejected.
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
