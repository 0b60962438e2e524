//! How to make the contents of a partition smaller.
//!
//! The law of this module: after its command the contents use no more than the given number of bytes. It names
//! no command for contents of which it cannot be seen afterwards how many bytes they use.

use straddle_layout::FsKind;
use straddle_layout::layer::Layer;
use straddle_units::{ByteCount, KIB};

/// The command that makes `layer` use no more than `to` bytes, DEVICE standing for its partition; `None` if
/// there is none.
pub(super) fn command(layer: &Layer, to: ByteCount) -> Option<String> {
    let bytes = to.get();
    match layer.kind.file_system()? {
        FsKind::Vfat => Some(format!("fatresize --size {bytes} DEVICE")),
        FsKind::Swap => Some(format!("mkswap --uuid {} DEVICE {}", hyphened(&layer.uuid)?, bytes / KIB)),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Btrfs | FsKind::Ntfs => {
            straddle_audit::shrinking(layer, to)
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
