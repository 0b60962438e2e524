//! What a plan starts from: a target's table, and its contents if the plan depends on them. Only read.

use std::path::Path;

use straddle_audit::examine::{adopt_tables, are_assumed, read_converted};
use straddle_device::{DeviceKind, Medium, OpenError, Options, ReadError, Target};
use straddle_layout::{Stack, TableKind, read_all, read_stack};
use straddle_units::BlockSize;

use crate::{Situation, TargetError, serial_of};

/// A target, with what a plan needs to know of it.
#[non_exhaustive]
pub struct Present {
    target: Target,
    medium: Box<dyn Medium>,
    stack: Stack,
    serial: Option<String>,
}

/// How much of a target is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The table, which is going to be replaced, in the target's sectors.
    OldTable,
    /// The table, which counts in sectors of another size than the target's.
    OtherSectors {
        /// The size of the table's sectors, if it is known.
        former: Option<BlockSize>,
        /// The size of the target's sectors.
        new: BlockSize,
    },
    /// The table, and what is in the partitions.
    Contents,
}

/// Why nothing can be planned for a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ChangeError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the disk cannot be read ({0})")]
    NoBytes(String),
    #[error("this device reports its sector size; --logical applies only to images")]
    OwnSectors,
    #[error(
        "with {0}-byte sectors, nothing is recognised at the start of any partition, so the partition table \
         may use {1}-byte sectors. Specify the sector size with --logical {1} or --logical {0}"
    )]
    InQuestion(BlockSize, BlockSize),
    #[error(
        "the disk has {0}-byte sectors, so a partition table with {1}-byte sectors would not be recognised"
    )]
    Unrecognised(BlockSize, BlockSize),
}

straddle_units::error_kind! {
    ChangeError: Failed;
    Self::Target(error) => error.kind(),
    Self::Open(error) => error.kind(),
    Self::Read(error) => error.kind(),
    Self::OwnSectors => Usage,
    Self::InQuestion(..) | Self::Unrecognised(..) => Refused,
}

impl Present {
    /// Opens a raw image or a whole disk to which a table can be written.
    pub fn to_change(path: &Path, options: &Options, depth: Depth) -> Result<Self, ChangeError> {
        Self::of(crate::examine(path, options)?, options, depth)
    }

    /// Opens a disk, or an image of any format, that is only read.
    pub fn to_copy(path: &Path, options: &Options) -> Result<Self, ChangeError> {
        let target = straddle_device::open(path, options)?;
        if let Some(number) = target.partition {
            return Err(TargetError::Partition(number).into());
        }
        Self::of(target, options, Depth::Contents)
    }

    fn of(mut target: Target, options: &Options, depth: Depth) -> Result<Self, ChangeError> {
        if target.kind != DeviceKind::Image && options.logical.is_some() {
            return Err(ChangeError::OwnSectors);
        }
        let is_assumed = depth == Depth::Contents && are_assumed(&target);
        match depth {
            Depth::Contents => adopt_tables(&mut target, options)?,
            Depth::OldTable => {}
            Depth::OtherSectors { new, .. } => {
                target.topology.adopt_table_block(new);
                let logical = target.topology.logical.value();
                if logical != new {
                    return Err(ChangeError::Unrecognised(logical, new));
                }
            }
        }
        let serial = serial_of(&target);
        let block = Some(target.topology.logical.value());
        let why = target.unread.clone().unwrap_or_default();
        let medium = target.medium.take().ok_or(ChangeError::NoBytes(why))?;
        let mut stack = match depth {
            Depth::Contents => read_all(medium.as_ref(), block, options.logical)?,
            Depth::OtherSectors { former, new } => read_converted(medium.as_ref(), new, former)?,
            Depth::OldTable => read_stack(medium.as_ref(), block, None)?,
        };
        if is_assumed && let Some(other) = straddle_layout::other_sectors(medium.as_ref(), &stack)? {
            return Err(ChangeError::InQuestion(stack.block, other.size));
        }
        if stack.kind == TableKind::None
            && target.kernel_partitions.as_ref().is_some_and(|all| !all.is_empty())
        {
            stack.kind = TableKind::Kernel;
        }
        Ok(Self { target, medium, stack, serial })
    }

    /// What plans start from.
    pub fn situation(&self) -> Situation<'_> {
        Situation {
            medium: self.medium.as_ref(),
            topology: &self.target.topology,
            stack: &self.stack,
            serial: self.serial.as_deref(),
        }
    }

    /// What is known of the target, whose medium is apart.
    pub fn target(&self) -> &Target {
        &self.target
    }
}
