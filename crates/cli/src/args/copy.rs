//! The options of `realign` for copies.

use std::path::PathBuf;

use clap::Args;

use crate::target::{local_paths, local_targets};

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// Copy everything to this other disk or image instead, aligned. The target is opened read-only.
    ///
    /// If the file does not exist, 'straddle apply' creates it as a sparse raw image.
    #[arg(long, value_name = "NEW", value_hint = clap::ValueHint::FilePath, value_parser = local_targets(),
          conflicts_with_all = ["partition", "start", "drive", "at_boot"])]
    pub(crate) to: Option<PathBuf>,

    /// Allow overwriting non-zero data in unallocated space, such as the remains of a deleted partition or a boot
    /// loader. With --to: allow overwriting the contents of the new disk. The data is lost.
    #[arg(long)]
    pub(crate) wipe: bool,

    /// With --to: also open this backing, parent or extent file if an image names it. Can be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath,
        value_parser = local_paths(), requires = "to")]
    pub(crate) allow_backing: Vec<PathBuf>,
}
