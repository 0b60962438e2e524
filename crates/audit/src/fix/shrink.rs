//! Fixes that shrink a partition with content: first the content, if it extends past the new end, then the
//! entry, and last the place.
//!
//! The law of this module: the steps are one line joined by `&&`, so that none is done unless those before it
//! succeeded. A line that is pasted with DEVICE in it fails at its first step and changes nothing. A line
//! that is pasted twice does nothing the second time.

use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{FsKind, Partition};
use straddle_units::{ByteCount, Lba, MIB, Span};

use super::entry::Entry;
use super::{Place, room};
use crate::finding::Command;
use crate::{Context, weigh};

/// The caution for such a line.
pub(super) const ORDER: &str = "in this order: what is in it is shrunk first (DEVICE stands for the partition, unmounted), then the \
                                partition; where one step fails none of the others is taken";

/// The caution if the content is shrunk while it is mounted.
pub(super) const ORDER_MOUNTED: &str = "in this order: what is in it is shrunk first (DEVICE stands for the partition, DIR for an \
                                        empty directory to mount it on), then the partition; where one step fails none of the others is taken";

/// The caution if only the partition has to shrink.
pub(super) const UNUSED: &str =
    "what is in it does not use the bytes that are cut off; close or unmount it first";

/// The smallest size to which a Btrfs device can be shrunk (`btrfs_ioctl_resize`, fs/btrfs/ioctl.c).
const BTRFS_LEAST: ByteCount = ByteCount::new(256 * MIB);

/// How many extra physical sectors a partition may be shrunk by, so that sfdisk finds room to move it.
const TRIES: u64 = 3;

/// The line that shrinks the content of `partition` and moves the partition to `place`, or to a slightly
/// shorter one, and that final place. `None` if no tool can do this.
pub(super) fn steps(
    context: &Context<'_>,
    partition: &Partition,
    place: Place,
    free: Span,
) -> Option<(Command, Place)> {
    let physical = context.topology.physical.value();
    let old = partition.span;
    (0..=TRIES).find_map(|tries| {
        let less = ByteCount::new(physical.get().checked_mul(tries)?);
        let len = ByteCount::new(place.len.get().checked_sub(less.get())?);
        let shrunk = Span::new(old.start(), len)?;
        let place = Place { len, ..place };
        let moves = place.start != old.start();
        if len == ByteCount::ZERO || moves && !room::sfdisk_finds_it(context, partition, shrunk, place, free)
        {
            return None;
        }
        let block = context.stack.block;
        let entry = |at| {
            let start = Lba::from_bytes_exact(at, block)?;
            Some(Entry { context, partition, start, count: block.blocks_floor(len) })
        };
        let layer = partition.layer.as_ref()?;
        let mut lines = match weigh::fits(layer, old.len(), len) {
            true => Vec::new(),
            false => vec![shrinking(layer, len)?],
        };
        lines.push(entry(old.start())?.sfdisk_size().line);
        if moves {
            lines.push(entry(place.start)?.sfdisk("--move-data ").line);
        }
        Some((Command { tool: "sfdisk", line: lines.join(" && ") }, place))
    })
}

/// The command that shrinks `layer` to `len` bytes, with DEVICE for what it is on; `None` if there is none.
pub fn shrinking(layer: &Layer, len: ByteCount) -> Option<String> {
    match layer.kind.file_system()? {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => {
            Some(format!("e2fsck -f DEVICE && resize2fs DEVICE {}K", len.get() / 1024))
        }
        FsKind::Btrfs => {
            let Facts::FileSystem(fs) = &layer.facts else { return None };
            let devid = fs.devid.filter(|_| len >= BTRFS_LEAST)?;
            let len = len.get();
            Some(format!("mount DEVICE DIR && btrfs filesystem resize {devid}:{len} DIR && umount DIR"))
        }
        FsKind::Ntfs => Some(format!("ntfsresize --size {} DEVICE", len.get())),
        FsKind::Jbd | FsKind::Xfs | FsKind::F2fs | FsKind::Nilfs2 | FsKind::Jfs | FsKind::Reiserfs => None,
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs | FsKind::Vfat | FsKind::Exfat => None,
        FsKind::Swap | FsKind::Zfs => None,
    }
}
