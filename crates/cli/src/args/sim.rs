//! The command line of `sim`.

use std::path::PathBuf;

use clap::Args;
use straddle_units::ByteCount;

use super::place;
use super::trace::SourceArguments;
use crate::exit;
use crate::target::{Drive, drives};

/// Examples for `sim --help`.
const EXAMPLES: &str = "\
Examples:
  straddle sim web.csv --drive wd10ears             # at the recorded times
  straddle sim web.csv --drive wd10ears --shift 512 # one sector late
  straddle sim web.csv --drive wd10ears --compare   # both, side by side
  straddle sim web.csv --drive wd10ears --started-at 63s --compare
  straddle sim web.csv --drive wd10ears --shift 0,512,32256 --json
  straddle sim big.csv --drive wd10ears --closed-loop --queue-depth 32 --wrap
  straddle sim cheetah9LP.trace --format disksim --drive ./my-drive.toml
  straddle sim cloud.parquet --drive qlc-16k        # a drive for each volume
  straddle sim sda --drive wd10ears                 # sda.blktrace.0 and so on

A CSV trace has a header with the columns time (or time_ms, time_us, time_ns),
op (R, W, F, D), offset and length (bytes). Other columns are ignored:
  time_us,op,offset,length
  0,W,1048576,4096
  150.5,R,0,65536";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(super::trace::STATUSES)))]
pub(crate) struct SimArguments {
    /// Block trace to replay, also compressed (gzip, zstd, xz), or `-` for standard input. If there is no file NAME, it
    /// stands for NAME.blktrace.0, NAME.blktrace.1 and so on.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) trace: PathBuf,

    /// Modelled drive to replay it on (NAME or NAME,OPTION; see 'straddle drive list'), or the path of a profile.
    #[arg(long, value_name = "NAME", value_parser = drives(), hide_possible_values = true)]
    pub(crate) drive: Drive,

    /// Add this to every offset, as in a partition that starts there (--started-at is the same): bytes (31KiB), or
    /// sectors of 512 bytes (63s).
    /// Each of several values, separated by commas, is run on a fresh drive.
    #[arg(long, alias = "started-at", value_name = "PLACE", value_delimiter = ',', value_parser = place)]
    pub(crate) shift: Vec<ByteCount>,

    /// Also run without a shift, and report the ratio. Without --shift, compare with a shift of one logical sector.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Send each request at its recorded time, even if the drive is busy [default for CSV].
    #[arg(long, conflicts_with = "closed_loop")]
    pub(crate) open_loop: bool,

    /// Send each request when the previous one completes, after the delay that the trace gives, if any
    /// [default for DiskSim traces].
    #[arg(long)]
    pub(crate) closed_loop: bool,

    /// Maximum number of outstanding requests [default: 32 with --open-loop, 1 with --closed-loop].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) queue_depth: Option<u32>,

    /// Wrap requests past the end of the drive to its beginning, with the same alignment. Without this option, they
    /// are an error.
    #[arg(long)]
    pub(crate) wrap: bool,

    /// Replay all volumes on one drive instead of one drive per volume.
    #[arg(long)]
    pub(crate) one_drive: bool,

    #[command(flatten)]
    pub(crate) source: SourceArguments,

    /// Print JSON (see `straddle schema sim`).
    #[arg(long)]
    pub(crate) json: bool,
}
