//! The command line of `sim`.

use std::path::PathBuf;

use clap::Args;
use straddle_units::{ByteCount, parse_size};

use super::trace::SourceArguments;
use crate::target::{Drive, drives};

/// Examples for `sim --help`.
const EXAMPLES: &str = "\
Examples:
  straddle sim web.csv --drive wd10ears             replay a trace at its recorded times
  straddle sim web.csv --drive wd10ears --shift 512 as if the partition began one sector late
  straddle sim web.csv --drive wd10ears --compare   both, side by side
  straddle sim web.csv --drive wd10ears --shift 0,512,32256 --json
  straddle sim big.csv --drive wd10ears --closed-loop --queue-depth 32 --wrap
  straddle sim cheetah9LP.trace --format disksim --drive ./my-drive.toml
  straddle sim cloud.parquet --drive qlc-16k            a drive for each volume, on all cores
  straddle sim sda --drive wd10ears                     what blktrace wrote: sda.blktrace.0 and so on

A CSV trace needs a header with the columns time (or time_ms, time_us, time_ns), op (R, W, F, D), offset and
length (bytes); other columns are ignored:
  time_us,op,offset,length
  0,W,1048576,4096
  150.5,R,0,65536";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArguments {
    /// Block trace to replay, also packed with gzip, zstd or xz; `-` for standard input. NAME stands for the files
    /// NAME.blktrace.0, NAME.blktrace.1 and so on, if there is no file of this name.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) trace: PathBuf,

    /// Modelled drive to replay it on, with comma-separated options, or the path of a profile (see 'straddle
    /// drive list').
    #[arg(long, value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: Drive,

    /// Bytes to add to every offset, as for a partition that begins there. Of several values, separated by
    /// commas, each is run on a fresh drive.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size)]
    pub(crate) shift: Vec<ByteCount>,

    /// Also run unshifted, first, and report the ratio. Without --shift, compare with a shift of one logical
    /// sector.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Send each request at its recorded time, whatever the state of the drive [default for CSV].
    #[arg(long, conflicts_with = "closed_loop")]
    pub(crate) open_loop: bool,

    /// Send each request when the previous one completes, immediately or after the delay given by the trace
    /// [default for DiskSim's traces].
    #[arg(long)]
    pub(crate) closed_loop: bool,

    /// Queue depth: maximum number of outstanding requests [default: 32 in the open loop, 1 in the closed
    /// loop].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) queue_depth: Option<u32>,

    /// Wrap requests past the drive's end to its beginning, with the same alignment. Otherwise they are an
    /// error.
    #[arg(long)]
    pub(crate) wrap: bool,

    /// Replay all volumes on one drive. Otherwise each volume has a drive of its own.
    #[arg(long)]
    pub(crate) one_drive: bool,

    #[command(flatten)]
    pub(crate) source: SourceArguments,

    /// Print JSON (see `straddle schema sim`).
    #[arg(long)]
    pub(crate) json: bool,
}
