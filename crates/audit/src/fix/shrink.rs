//! Fixes that shrink a partition with content: first the content, if it extends past the new end, then the entry.
//!
//! Invariants: the steps are one line joined by `&&`. Pasted with DEVICE in it, it fails at its first step and changes
//! nothing; pasted twice, it does nothing the second time.

use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Content, FsKind, VolumeKind};
use straddle_units::{ByteCount, KIB, MIB};

use super::{Entry, swap};
use crate::finding::Command;

const ORDER: &str = "the contents are shrunk first, then the partition (replace DEVICE with the unmounted \
                     partition); if one step fails, the remaining steps are not run";

const ORDER_MOUNTED: &str = "the contents are shrunk first, then the partition (replace DEVICE with the \
                             partition, and DIR with an empty directory to mount it on); if one step fails, \
                             the remaining steps are not run";

const UNUSED: &str = "the contents do not use the bytes that are cut off; unmount or close them first";

/// The smallest size to which a Btrfs device can be shrunk (`btrfs_ioctl_resize`, fs/btrfs/ioctl.c).
const BTRFS_LEAST: ByteCount = ByteCount::new(256 * MIB);

/// Whatever the disk's sectors are.
const PV_GRAIN: ByteCount = ByteCount::new(4096);

/// `None` without a tool.
pub(super) fn steps(entry: &Entry<'_>) -> Option<(&'static str, Command)> {
    let layer = entry.partition.layer.as_ref()?;
    let len = entry.count.to_bytes(entry.context.stack.block)?;
    let is_unused = layer.used(entry.partition.span.len()).is_some_and(|used| used <= len);
    let (caution, content) = match way(layer.kind) {
        _ if is_unused => (UNUSED, String::new()),
        Way::Btrfs => (ORDER_MOUNTED, shrinking(layer, len)?.line + " && "),
        Way::Resize2fs | Way::Ntfsresize | Way::Mkswap | Way::ResizeReiserfs => {
            (ORDER, shrinking(layer, len)?.line + " && ")
        }
        Way::Fatresize | Way::Pvresize | Way::NilfsResize | Way::Never | Way::Unknown => return None,
    };
    Some((caution, Command::of_table("sfdisk", content + &entry.sfdisk_size())))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Resize2fs,
    Ntfsresize,
    Btrfs,
    Fatresize,
    Mkswap,
    Pvresize,
    ResizeReiserfs,
    NilfsResize,
    Never,
    Unknown,
}

fn way(content: Content) -> Way {
    if let Content::Volume(kind) = content {
        return match kind {
            VolumeKind::Pv => Way::Pvresize,
            // They take all of what they are in, or their arrays do.
            VolumeKind::Md | VolumeKind::Drbd => Way::Never,
            VolumeKind::Luks | VolumeKind::Integrity | VolumeKind::Verity | VolumeKind::Bcache => Way::Never,
        };
    }
    let Some(kind) = content.file_system() else { return Way::Unknown };
    match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => Way::Resize2fs,
        FsKind::Ntfs => Way::Ntfsresize,
        FsKind::Btrfs => Way::Btrfs,
        FsKind::Vfat => Way::Fatresize,
        FsKind::Swap => Way::Mkswap,
        FsKind::Nilfs2 => Way::NilfsResize,
        FsKind::Reiserfs => Way::ResizeReiserfs,
        FsKind::Xfs | FsKind::Jfs | FsKind::Zfs | FsKind::Exfat => Way::Never,
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs => Way::Never,
        FsKind::Jbd | FsKind::F2fs => Way::Unknown,
    }
}

/// Whether such contents can be made smaller; `None` if that is not known.
pub fn can_shrink(content: Content) -> Option<bool> {
    match way(content) {
        Way::Unknown => None,
        way => Some(way != Way::Never),
    }
}

/// The command after which `layer` uses no more than `to` bytes, with DEVICE for what it is on; `None` if there is none.
pub fn shrinking(layer: &Layer, to: ByteCount) -> Option<Command> {
    let bytes = to.get();
    let fs = match &layer.facts {
        Facts::FileSystem(fs) => Some(fs),
        _ => None,
    };
    let (tool, line) = match way(layer.kind) {
        Way::Resize2fs => ("resize2fs", format!("e2fsck -fp DEVICE && resize2fs DEVICE {}K", bytes / KIB)),
        Way::Btrfs => {
            let devid = fs?.devid.filter(|_| to >= BTRFS_LEAST)?;
            (
                "btrfs",
                format!("mount DEVICE DIR && btrfs filesystem resize {devid}:{bytes} DIR && umount DIR"),
            )
        }
        // ntfsresize leaves the last cluster to the copy of the boot sector, if the size is in clusters.
        Way::Ntfsresize => {
            ("ntfsresize", format!("ntfsresize --size {} DEVICE", to.floor_to(fs?.block).get()))
        }
        Way::Fatresize => ("fatresize", format!("fatresize --size {bytes} DEVICE")),
        Way::Mkswap => ("mkswap", format!("mkswap {}DEVICE {}", swap::kept(layer)?, bytes / KIB)),
        // pvresize leaves the judged size in the label as it is, in a volume group (LVM 2.03.16).
        Way::Pvresize if !layer.name.is_empty() => return None,
        Way::Pvresize => {
            let bytes = to.floor_to(PV_GRAIN).get();
            ("pvresize", format!("pvresize --setphysicalvolumesize {bytes}b DEVICE"))
        }
        Way::ResizeReiserfs => {
            ("resize_reiserfs", format!("resize_reiserfs -f -s {} DEVICE", to.floor_to(fs?.block).get()))
        }
        Way::NilfsResize => {
            let bytes = to.floor_to(fs?.block).get();
            ("nilfs-resize", format!("mount DEVICE DIR && nilfs-resize -y DEVICE {bytes} && umount DIR"))
        }
        Way::Never | Way::Unknown => return None,
    };
    Some(Command::other(tool, line))
}

#[cfg(test)]
mod tests {
    use straddle_layout::layer::FileSystem;
    use straddle_units::Span;

    use super::*;

    /// Those that `tests/realign_shapes.rs` cannot run.
    #[test]
    fn the_commands_have_the_number_of_bytes() {
        let to = ByteCount::new(307_199_488);
        let of = |kind: FsKind, fs: FileSystem| {
            let below = Span::first(ByteCount::new(307_200_000));
            shrinking(&Layer::new(kind.into(), Facts::FileSystem(fs), below, None), to)
                .map(|command| command.line)
        };
        let line = of(FsKind::Vfat, FileSystem::default());
        assert_eq!(line.as_deref(), Some("fatresize --size 307199488 DEVICE"));
        let btrfs = FileSystem { devid: Some(2), ..FileSystem::default() };
        let line = "mount DEVICE DIR && btrfs filesystem resize 2:307199488 DIR && umount DIR";
        assert_eq!(of(FsKind::Btrfs, btrfs).as_deref(), Some(line));
        assert_eq!(of(FsKind::Xfs, FileSystem::default()), None);
        assert_eq!(can_shrink(Content::FileSystem(FsKind::Xfs)), Some(false));
        assert_eq!(can_shrink(Content::FileSystem(FsKind::F2fs)), None);
        assert_eq!(can_shrink(Content::Volume(VolumeKind::Luks)), Some(false));
    }
}
