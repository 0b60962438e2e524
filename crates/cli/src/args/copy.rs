//! The options of `realign` for copies.

use std::path::PathBuf;

use clap::Args;

use crate::target::local_paths;

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// Copy everything to this other disk or image instead, laid out right; the target is opened read-only.
    ///
    /// A file that does not exist is made by 'straddle apply', as a sparse raw image.
    #[arg(long, value_name = "NEW", value_hint = clap::ValueHint::FilePath, value_parser = local_paths(),
          conflicts_with_all = ["partition", "start", "drive", "at_boot"])]
    pub(crate) to: Option<PathBuf>,

    /// Give up data that no partition and no known contents account for, where the moves and their journal write: left
    /// over, or of a deleted partition, a boot loader, a program that keeps them there. With --to: write over what is on
    /// the new disk. What is written over is lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// With --to: also open this backing, parent or extent file if an image names it. Can be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "to")]
    pub(crate) allow_backing: Vec<PathBuf>,
}
