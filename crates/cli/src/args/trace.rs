//! The command line of `trace`.

use std::path::PathBuf;

use clap::Args;
use straddle_trace::{Format, UNITS};
use straddle_units::{ByteCount, parse_size};

use super::place;
use super::sim::formats;

/// Examples for `trace --help`.
const EXAMPLES: &str = "\
Examples:
  straddle trace web.csv.gz                 what its writes do to sectors and units of every size
  straddle trace msr/*.csv.gz --started-at 63s
                                            the same if the partition began at sector 63
  straddle trace sdb.blkparse --best        the start that costs least
  straddle trace tencent/*.tgz.csv --format tencent --json | jq '.total.writes.units'
  blktrace -d /dev/sdb -o - | blkparse -i - | straddle trace -

A write that covers a sector or unit in part makes the drive read it, modify it and write it back. The figures
are of single requests: what the cache of a drive or of the kernel merges costs less, so they are upper bounds.";

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArguments {
    /// Block traces, also packed with gzip, zstd or xz; `-` for standard input. Volumes of the same name in
    /// several files are the same volume.
    #[arg(value_name = "TRACE", required = true, value_hint = clap::ValueHint::FilePath)]
    pub(crate) traces: Vec<PathBuf>,

    /// Units to show, from 512 to 1MiB, separated by commas.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = unit,
          default_value = "4KiB,8KiB,16KiB,32KiB,64KiB,1MiB")]
    pub(crate) unit: Vec<u64>,

    /// Take the offsets as those in a partition that starts here: a byte (31KiB), or a sector of 512 bytes (63s).
    #[arg(long, value_name = "PLACE", value_parser = place, default_value = "0")]
    pub(crate) started_at: ByteCount,

    /// Also find the start that needs the fewest read-modify-writes, for each unit.
    #[arg(long)]
    pub(crate) best: bool,

    /// Trace format [default: detected from the first line].
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) format: Option<Format>,

    /// Print JSON (see `straddle schema trace`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses the size of a unit, and returns it in sectors of 512 bytes.
fn unit(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?.get();
    let sectors = UNITS.into_iter().find(|sectors| sectors * straddle_trace::SECTOR == size);
    sectors.ok_or_else(|| "must be a power of two from 512 to 1MiB".to_owned())
}
