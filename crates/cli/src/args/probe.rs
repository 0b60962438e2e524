//! The command line of `probe`.

use std::path::PathBuf;

use clap::Args;
use straddle_units::ByteCount;

use super::positive_size;
use crate::target::{TargetSpec, targets};

/// Examples for `probe --help`.
const EXAMPLES: &str = "\
Examples:
  straddle probe drive:wd10ears                        which says 512 bytes: what is it?
  straddle probe drive:wd10ears,jumper=on --save wd.json
  straddle check --measured wd.json disk.img           and what does that mean for this image?
  straddle probe drive:qlc-64k --max-write 32MiB --time 60
  straddle probe drive:./my-drive.toml --seed 7 --json
  straddle probe /dev/sdb                              a real disk, in its free space
  straddle probe /dev/sdb --used                       an unmounted one, everywhere; what it holds stays";

/// Arguments of `probe`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArguments {
    /// What to probe: a block device or a file, in the free space between its partitions; a modelled drive, drive:NAME or
    /// drive:NAME,OPTION or drive:FILE.toml ('straddle drive list' names them).
    #[arg(value_name = "TARGET", value_parser = targets(), hide_possible_values = true)]
    pub(crate) target: TargetSpec,

    /// Probe a block device or file everywhere, also where data are. Nobody else may use it. As in free space, every write puts
    /// back the bytes that were read from its place.
    #[arg(long)]
    pub(crate) used: bool,

    /// Keep what the target held here until the end (usually ~/.local/state/straddle), best on another disk. After a crash,
    /// straddle bench --restore puts it back.
    #[arg(long, value_name = "FOLDER", value_hint = clap::ValueHint::DirPath)]
    pub(crate) journals: Option<PathBuf>,

    /// Most bytes to write.
    #[arg(long, value_name = "BYTES", value_parser = positive_size, default_value = "64MiB")]
    pub(crate) max_write: ByteCount,

    /// Longest time, in the target's own time.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = super::bench::seconds)]
    pub(crate) time: f64,

    /// Seed of every random choice.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Also write what was found to this file, for the option --measured of 'straddle check'.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,

    /// Print JSON (see `straddle schema probe`).
    #[arg(long)]
    pub(crate) json: bool,
}
