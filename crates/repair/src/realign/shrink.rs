//! How to make the contents of a partition smaller.
//!
//! The law of this module: after its command the contents use no more than the given number of bytes. It names
//! no command for contents of which it cannot be seen afterwards how many bytes they use.

use straddle_layout::layer::{Facts, Layer};
use straddle_layout::{Content, FsKind, VolumeKind};
use straddle_units::{ByteCount, KIB};

/// The size of a PV is a multiple of this, whatever its disk's sectors are.
const PV_GRAIN: ByteCount = ByteCount::new(4096);

/// The command that makes `layer` use no more than `to` bytes, DEVICE standing for its partition; `None` if
/// there is none.
pub(super) fn command(layer: &Layer, to: ByteCount) -> Option<String> {
    let bytes = to.get();
    if layer.kind == Content::Volume(VolumeKind::Pv) {
        let bytes = to.floor_to(PV_GRAIN).get();
        return Some(format!("pvresize --setphysicalvolumesize {bytes}b DEVICE"));
    }
    match layer.kind.file_system()? {
        FsKind::Vfat => Some(format!("fatresize --size {bytes} DEVICE")),
        FsKind::Swap => Some(format!("mkswap --uuid {} DEVICE {}", hyphened(&layer.uuid)?, bytes / KIB)),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Btrfs => straddle_audit::shrinking(layer, to),
        FsKind::Ntfs => {
            let Facts::FileSystem(fs) = &layer.facts else { return None };
            // ntfsresize leaves the last cluster to the copy of the boot sector, if the size is in clusters.
            Some(format!("ntfsresize --size {} DEVICE", to.floor_to(fs.block).get()))
        }
        // They cannot be shrunk, or nothing shows their size.
        FsKind::Jbd | FsKind::Xfs | FsKind::F2fs | FsKind::Nilfs2 | FsKind::Jfs | FsKind::Reiserfs => None,
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs | FsKind::Exfat | FsKind::Zfs => None,
    }
}

/// A UUID of 32 digits as tools write it.
fn hyphened(digits: &str) -> Option<String> {
    let part = |from: usize, to: usize| digits.get(from..to);
    let parts = [part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?];
    (digits.len() == 32).then(|| parts.join("-"))
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
            let layer = Layer {
                kind: Content::FileSystem(kind),
                name: String::new(),
                uuid: String::new(),
                below: Span::first(ByteCount::new(307_200_000)),
                drive: None,
                facts: Facts::FileSystem(fs),
                space: Vec::new(),
                children: Vec::new(),
                remarks: Vec::new(),
            };
            command(&layer, to)
        };
        let line = of(FsKind::Vfat, FileSystem::default());
        assert_eq!(line.as_deref(), Some("fatresize --size 307199488 DEVICE"));
        let btrfs = FileSystem { devid: Some(2), ..FileSystem::default() };
        let line = "mount DEVICE DIR && btrfs filesystem resize 2:307199488 DIR && umount DIR";
        assert_eq!(of(FsKind::Btrfs, btrfs).as_deref(), Some(line));
        assert_eq!(of(FsKind::Xfs, FileSystem::default()), None);
    }
}
