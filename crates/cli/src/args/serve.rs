//! The command line of `serve`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use straddle_media::Tear;
use straddle_serve::{Endpoint, MOST_CLIENTS};

use crate::target::{TargetSpec, targets};

/// Examples for `serve --help`.
const EXAMPLES: &str = "\
Examples:
  straddle serve drive:wd10ears --nbd unix:/tmp/disk
                                          a modelled disk in real time, contents in memory
  straddle serve drive:wd10ears,jumper=on --nbd localhost:10809 --store disk.img
  straddle serve drive:wd10ears --vhost-user /tmp/vhost --speed 10
                                          for QEMU (docs/serve.md), ten times as fast
  straddle serve drive:wd10ears --nbd unix:/tmp/disk --store disk.img --cut-after 1000 --seed 7
                                          the power fails after 1000 requests; disk.img then holds what was durable
  straddle serve drive:qlc-16k --nbd unix:/tmp/disk --control unix:/tmp/control --json
  echo stats | nc -U /tmp/control         as do 'cut SEED' and 'quit'

Exit status: 0 ended by SIGINT, SIGTERM or quit; 3 the power was cut, or something failed; 4 an address is in use, is
a file of another kind, or not of this machine.";

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("address").required(true).multiple(true).args(["nbd", "vhost_user"]))]
pub(crate) struct ServeArguments {
    /// The modelled drive, with options behind commas ('straddle drive list' names them).
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub(crate) target: TargetSpec,

    /// Serve NBD at this address, unix:PATH or HOST:PORT. Repeat it for more.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) nbd: Vec<Endpoint>,

    /// Serve virtual machines at this socket, by vhost-user-blk. Repeat it for more.
    #[arg(long, value_name = "SOCKET", value_hint = clap::ValueHint::FilePath)]
    pub(crate) vhost_user: Vec<PathBuf>,

    /// Keep the contents in this file: made sparse if there is none, used as it is if it has the drive's size. Without it
    /// they are in memory.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) store: Option<PathBuf>,

    /// Run the drive's clock FACTOR times as fast as the wall clock.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub(crate) speed: f64,

    /// Send every completion at once, whatever the drive would need.
    #[arg(long, conflicts_with = "speed")]
    pub(crate) no_delay: bool,

    /// Let the power fail at this request, or some milliseconds later in the drive's time. The contents are then those that were
    /// durable.
    #[arg(long, value_name = "REQUESTS")]
    pub(crate) cut_after: Option<u64>,

    /// Decides when exactly the power fails, and what becomes of what is being written then.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,

    /// What may become of a physical sector that a disk is writing when the power fails.
    #[arg(long, value_enum, default_value_t = TearArgument::Garbage, value_name = "HOW")]
    pub(crate) tear: TearArgument,

    /// Take commands (stats, cut SEED, quit) at this socket, unix:PATH; answers are lines of JSON.
    #[arg(long, value_name = "ADDRESS", value_parser = unix_path)]
    pub(crate) control: Option<PathBuf>,

    /// Allow connections from other machines. NBD has no access control: any client that reaches the port can read and write the drive.
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Serve at most NUMBER clients at a time: NBD clients, virtual machines and control connections together. One that has sent no
    /// request yet gives way to the next; with none of these the next is turned away.
    #[arg(long, value_name = "NUMBER", default_value_t = MOST_CLIENTS, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) max_clients: u16,

    /// Print the summary at the end as JSON (see `straddle schema serve`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// What becomes of a torn sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TearArgument {
    /// By seed it is old, new, or noise, its neighbours in the same physical sector with it.
    Garbage,
    /// It is old or new.
    Nothing,
}

impl From<TearArgument> for Tear {
    fn from(tear: TearArgument) -> Self {
        match tear {
            TearArgument::Garbage => Self::Garbage,
            TearArgument::Nothing => Self::Nothing,
        }
    }
}

/// Slower than this nothing would ever happen; faster than this the wall's clock is too coarse.
const SPEED: std::ops::RangeInclusive<f64> = 0.001..=1e6;

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if SPEED.contains(&speed) { Ok(speed) } else { Err("not from 0.001 to 1000000".to_owned()) }
}

fn unix_path(text: &str) -> Result<PathBuf, String> {
    match text.parse()? {
        Endpoint::Unix(path) => Ok(path),
        Endpoint::Tcp(_) => Err("not unix:PATH".to_owned()),
    }
}
