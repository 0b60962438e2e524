//! The command line of `probe`.

use std::path::PathBuf;

use clap::Args;
use straddle_measure::probe::Budget;
use straddle_units::ByteCount;

use super::positive_size;
use crate::exit;
use crate::target::{TargetSpec, targets};

/// Examples for `probe --help`.
const EXAMPLES: &str = "\
Examples:
  straddle probe wd10ears                 # claims 512 bytes: what is it really?
  straddle probe wd10ears,jumper=on --save wd.json
  straddle check --measured wd.json disk.img          # use the result
  straddle probe qlc-64k --max-write 32MiB --time 60
  straddle probe drive:./my-drive.toml --seed 7 --json
  straddle probe /dev/sdb                 # a real disk: free space only
  straddle probe /dev/sdb --used          # unmounted: everywhere, contents kept";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(exit::OF_WORK)))]
pub(crate) struct ProbeArguments {
    /// Drive to probe: a block device or a file, in the free space between its partitions, or a modelled drive (NAME,
    /// NAME,OPTION or drive:FILE.toml; see 'straddle drive list').
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub(crate) target: TargetSpec,

    /// Also probe areas that hold data. The target must not be in use.
    ///
    /// Each write stores the bytes that were read from the same location, as in free space.
    #[arg(long)]
    pub(crate) used: bool,

    /// Directory for the original contents until the end of the run, preferably on another disk
    /// [default: ~/.local/state/straddle]. After a crash, 'straddle bench --restore' restores them.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) journals: Option<PathBuf>,

    /// Maximum number of bytes to write.
    #[arg(long, value_name = "BYTES", value_parser = positive_size, default_value_t = ByteCount::new(Budget::MAX_WRITE))]
    pub(crate) max_write: ByteCount,

    /// Maximum duration, in the drive's own time.
    #[arg(long, value_name = "SECONDS", default_value_t = Budget::MAX_TIME.seconds(), value_parser = super::bench::seconds)]
    pub(crate) time: f64,

    /// Seed of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = Budget::SEED)]
    pub(crate) seed: u64,

    /// Also save the result to this new file, for 'straddle check --measured'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Also show the evidence.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print JSON (see `straddle schema probe`).
    #[arg(long)]
    pub(crate) json: bool,
}
