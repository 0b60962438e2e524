//! A loop device shows a file or another device from some byte of it on: its boundaries are those of what is below.
//!
//! The law of this module: the kernel says nothing of this in a loop device's own limits, so that they are taken for what they
//! are only where nothing is below that says more.

use std::path::{Path, PathBuf};

use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::sysfs::{Attributes, Directory, list_names};
use crate::topology::{AlignmentOffset, Source, Topology};

/// More loop devices over each other than this are not followed.
const MAX_DEPTH: usize = 8;

/// What a loop device shows.
pub(crate) struct Looped {
    /// The file or the node.
    pub(crate) file: PathBuf,
    /// From this byte of it on.
    pub(crate) offset: ByteCount,
    /// The physical sectors of what is below, as the loop device shows them.
    boundary: Option<Boundary>,
}

impl Looped {
    /// What the loop device `disk` shows, on this machine or in the captured tree `root`; `None` for other devices.
    pub(crate) fn of(disk: &Directory, root: Option<&Path>) -> Option<Self> {
        let file = PathBuf::from(disk.text("loop/backing_file")?);
        let offset = ByteCount::new(disk.number("loop/offset").unwrap_or(0));
        let boundary = boundary(disk, &root.unwrap_or(Path::new("/")).join("sys/block"), MAX_DEPTH);
        Some(Self { file, offset, boundary })
    }

    /// Puts the boundaries of what is below in force.
    pub(crate) fn adopt(&self, topology: &mut Topology) {
        const WHY: &str = "a loop device does not pass on the sectors of what it is over";
        const BELOW: Source =
            Source::Derived("the sectors of what the loop device is over, from its offset on");
        let Some(boundary) = self.boundary.filter(|found| found.size() >= topology.physical.value()) else {
            return;
        };
        topology.physical.overrule(boundary.size(), BELOW, WHY);
        topology.alignment_offset.overrule(AlignmentOffset::Bytes(boundary.phase()), BELOW, WHY);
    }
}

/// The physical sectors below a loop device, counted from its own first byte.
fn boundary(disk: &Directory, block: &Path, depth: usize) -> Option<Boundary> {
    let file = PathBuf::from(disk.text("loop/backing_file")?);
    let offset = ByteOffset::new(disk.number("loop/offset").unwrap_or(0));
    let below = file.strip_prefix("/dev").ok().and_then(|name| below(name.to_str()?, block));
    let found = match below {
        Some((device, _)) if depth > 0 && device.text("loop/backing_file").is_some() => {
            boundary(&device, block, depth - 1)?
        }
        Some((device, disk)) => {
            let physical = ByteCount::new(disk.number("queue/physical_block_size")?);
            Boundary::new(physical, ByteCount::new(device.number("alignment_offset")?))?
        }
        // Of a file only that it begins on a sector is known, and nothing of the device where all of it is shown.
        None if offset == ByteOffset::ZERO => return None,
        None => Boundary::multiples_of(Topology::unknown().physical.value())?,
    };
    Boundary::new(found.size(), found.to_next(offset))
}

/// The device `name`, and the disk that it is or is a partition of.
fn below(name: &str, block: &Path) -> Option<(Directory, Directory)> {
    let name = name.replace('/', "!");
    let disk = block.join(&name);
    if disk.is_dir() {
        return Some((Directory::new(disk.clone()), Directory::new(disk)));
    }
    let is_of = |disk: &String| block.join(disk).join(&name).join("partition").is_file();
    let disk = block.join(list_names(block).into_iter().find(is_of)?);
    Some((Directory::new(disk.join(&name)), Directory::new(disk)))
}
