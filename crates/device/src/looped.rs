//! Loop devices. A loop device shows a file or another device from some byte on, so its boundaries are those
//! of the device below it.
//!
//! Invariants: the kernel does not pass these boundaries on in a loop device's own limits, so
//! those limits are used only where nothing more is known about the device below.

use std::path::{Path, PathBuf};

use straddle_units::{Boundary, ByteCount, ByteOffset};

use crate::sysfs::{Attributes, Directory, list_names};
use crate::topology::{AlignmentOffset, Source, Topology};

/// Nesting of loop devices is followed to this depth.
const MAX_DEPTH: usize = 8;

/// What a loop device shows.
pub(crate) struct Looped {
    /// The backing file, or the node of the backing device.
    pub(crate) file: PathBuf,
    /// The offset in the backing file at which the loop device begins.
    pub(crate) offset: ByteCount,
    /// The physical sectors of the device below, as seen through the loop device, and where they are from.
    boundary: Option<(Boundary, Source)>,
}

impl Looped {
    /// Reads what the loop device `disk` shows, on this machine or in the captured tree `root`. `None` for
    /// other devices.
    pub(crate) fn of(disk: &Directory, root: Option<&Path>) -> Option<Self> {
        let file = PathBuf::from(disk.text("loop/backing_file")?);
        let offset = ByteCount::new(disk.number("loop/offset").unwrap_or(0));
        let boundary = boundary(disk, &root.unwrap_or(Path::new("/")).join("sys/block"), MAX_DEPTH);
        Some(Self { file, offset, boundary })
    }

    /// Makes the boundaries of the device below those of `topology`.
    pub(crate) fn adopt(&self, topology: &mut Topology) {
        const WHY: &str = "a loop device does not pass on the sectors below it";
        let is_larger = |found: &&(Boundary, Source)| found.0.size() >= topology.physical.value();
        let Some((boundary, source)) = self.boundary.as_ref().filter(is_larger) else { return };
        topology.physical.overrule(boundary.size(), source.clone(), WHY);
        let offset = AlignmentOffset::Bytes(boundary.phase());
        topology.alignment_offset.overrule(offset, source.clone(), WHY);
    }
}

/// The physical sectors of the device below, counted from the loop device's first byte.
fn boundary(disk: &Directory, block: &Path, depth: usize) -> Option<(Boundary, Source)> {
    const BELOW: Source = Source::Derived("the sectors below the loop device, from its offset on");
    let file = PathBuf::from(disk.text("loop/backing_file")?);
    let offset = ByteOffset::new(disk.number("loop/offset").unwrap_or(0));
    let below = file.strip_prefix("/dev").ok().and_then(|name| below(name.to_str()?, block));
    let (found, source) = match below {
        Some((device, _)) if depth > 0 && device.text("loop/backing_file").is_some() => {
            boundary(&device, block, depth - 1)?
        }
        Some((device, disk)) => {
            let physical = ByteCount::new(disk.number("queue/physical_block_size")?);
            (Boundary::new(physical, ByteCount::new(device.number("alignment_offset")?))?, BELOW)
        }
        // Of a file it is known only that it begins on a sector, as of an image that is checked as a file.
        None => (Boundary::multiples_of(Topology::unknown().physical.value())?, Source::Assumed),
    };
    Some((Boundary::new(found.size(), found.to_next(offset))?, source))
}

/// Returns the device `name`, and its disk, which is the device itself unless it is a partition.
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
