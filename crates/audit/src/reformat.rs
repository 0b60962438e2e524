//! The commands that recreate a file system with another block size: only those whose result is what was asked for
//! and differs from the present state.

use straddle_layout::FsKind;
use straddle_layout::layer::FileSystem;
use straddle_units::{BlockSize, ByteCount, MIB};

use crate::finding::{Command, Fix, Risk};

/// Every kernel can mount such blocks of ext, NILFS2 and XFS: the page size of x86.
const PAGE: u64 = 4096;

/// Every system can read clusters up to these.
const FAT_CLUSTER: u64 = 64 * 1024;
const NTFS_CLUSTER: u64 = 64 * 1024;
const EXFAT_CLUSTER: u64 = 32 << 20;

/// mkfs.nilfs2 requires 16 segments of 2048 blocks, and a little more.
const NILFS2_LEAST: u64 = 160 * MIB;

/// Below this, mkfs.exfat refuses its own default boundary of 1 MiB.
const EXFAT_SMALL: u64 = 16 * MIB;

/// mkfs.fat does not align the clusters of file systems of up to this many sectors (`align_structures`).
const FAT_UNALIGNED_SECTORS: u64 = 8192;

/// Microsoft's specification, 3.5: the least clusters of FAT16 and FAT32, and the most of FAT32.
const FAT16_LEAST: u64 = 4085;
const FAT32_LEAST: u64 = 65525;
const FAT32_MOST: u64 = 0x0FFF_FFF5;

pub(crate) fn with_block(kind: FsKind, fs: &FileSystem, len: ByteCount, wanted: ByteCount) -> Fix {
    command(kind, fs, len, wanted).map_or_else(
        || {
            Fix::advice(format!(
                "none with {}: a {kind} of this size with {}-byte blocks cannot be {} on every system, but \
                 larger writes help",
                if kind == FsKind::Swap { "mkswap" } else { "mkfs" },
                wanted.get(),
                if kind == FsKind::Swap { "used" } else { "mounted" }
            ))
        },
        remake,
    )
}

fn command(kind: FsKind, fs: &FileSystem, len: ByteCount, wanted: ByteCount) -> Option<Command> {
    let bytes = wanted.get();
    let is_small = [Some(fs.block), fs.sector, fs.log_sector].into_iter().flatten().any(|size| size < wanted);
    if !bytes.is_power_of_two() || !is_small {
        return None;
    }
    let grows = |largest: u64| fs.block < wanted && bytes <= largest;
    let line = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 if grows(PAGE) => ext(kind, fs, bytes),
        FsKind::Xfs if bytes <= PAGE => xfs(fs, bytes),
        FsKind::Nilfs2 if grows(PAGE) && len.get() > NILFS2_LEAST => {
            format!("mkfs.nilfs2 -f -b {bytes} DEVICE")
        }
        FsKind::Vfat if grows(FAT_CLUSTER) => return fat(fs, len, wanted),
        FsKind::Exfat if grows(EXFAT_CLUSTER) => return Some(exfat(len, wanted)),
        FsKind::Ntfs if grows(NTFS_CLUSTER) => format!("mkfs.ntfs -Q -c {bytes} DEVICE"),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Xfs | FsKind::Nilfs2 => return None,
        FsKind::Vfat | FsKind::Exfat | FsKind::Ntfs => return None,
        FsKind::Jbd | FsKind::Btrfs | FsKind::F2fs | FsKind::Jfs | FsKind::Reiserfs => return None,
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs | FsKind::Swap | FsKind::Zfs => return None,
    };
    Some(Command::other("mkfs", line))
}

fn stripes(fs: &FileSystem) -> Option<(u64, u64)> {
    let (unit, width) = (fs.stripe_unit?.get(), fs.stripe_width?.get());
    (unit > 0 && width.is_multiple_of(unit)).then(|| (unit, width / unit))
}

fn ext(kind: FsKind, fs: &FileSystem, block: u64) -> String {
    let stripes = stripes(fs).filter(|(unit, _)| unit.is_multiple_of(block)).map(|(unit, disks)| {
        let stride = unit / block;
        format!("-E stride={stride},stripe_width={} ", stride * disks)
    });
    format!("mkfs.{kind} -b {block} {}DEVICE", stripes.unwrap_or_default())
}

fn xfs(fs: &FileSystem, sector: u64) -> String {
    let block = sector.max(fs.block.get());
    let stripes = stripes(fs).filter(|(unit, _)| unit.is_multiple_of(block));
    let stripes = stripes.map(|(unit, disks)| format!("-d su={unit},sw={disks} ")).unwrap_or_default();
    format!("mkfs.xfs -f -s size={sector} -b size={block} {stripes}DEVICE")
}

/// On `len` bytes, with units smaller than the logical sectors below. Not for exFAT: mkfs.exfat 1.2.0 takes the
/// device's sectors, and an image has none.
pub(crate) fn for_sectors(kind: FsKind, fs: &FileSystem, len: ByteCount, sectors: BlockSize) -> Option<Fix> {
    let bytes = sectors.get();
    let cluster = fs.cluster.unwrap_or(fs.block).max(sectors.bytes());
    let line = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 if bytes <= PAGE => {
            ext(kind, fs, bytes.max(fs.block.get()))
        }
        FsKind::Xfs if bytes <= PAGE => xfs(fs, bytes),
        FsKind::Nilfs2 if bytes <= PAGE && len.get() > NILFS2_LEAST => {
            format!("mkfs.nilfs2 -f -b {bytes} DEVICE")
        }
        FsKind::Vfat => return fat_in(fs, len, bytes, cluster).map(remake),
        FsKind::Ntfs => format!("mkfs.ntfs -Q -s {bytes} -c {} DEVICE", cluster.get()),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Xfs | FsKind::Nilfs2 | FsKind::Exfat => {
            return None;
        }
        FsKind::Jbd | FsKind::Btrfs | FsKind::F2fs | FsKind::Jfs | FsKind::Reiserfs => return None,
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs | FsKind::Swap | FsKind::Zfs => return None,
    };
    Some(remake(Command::other("mkfs", line)))
}

pub(crate) fn fat(fs: &FileSystem, len: ByteCount, cluster: ByteCount) -> Option<Command> {
    fat_in(fs, len, fs.sector.unwrap_or(ByteCount::new(512)).get().max(512), cluster)
}

fn fat_in(fs: &FileSystem, len: ByteCount, sector: u64, cluster: ByteCount) -> Option<Command> {
    let sectors = cluster.get() / sector;
    let aligns = len.get() / sector > FAT_UNALIGNED_SECTORS;
    // Firmware, cameras or DOS may be able to read the present FAT type only.
    let kind = fs.fat_bits.map(|bits| format!("-F {bits} ")).unwrap_or_default();
    let line = format!("mkfs.fat {kind}-S {sector} -s {sectors} DEVICE");
    let fits = fs.fat_bits.is_none_or(|bits| has_clusters(bits, len.get() / cluster.get().max(1)));
    (aligns && fits && (1..=128).contains(&sectors)).then(|| Command::other("mkfs", line))
}

/// About this many: tables and directories take a few.
fn has_clusters(bits: u8, clusters: u64) -> bool {
    let most = if bits == 32 { FAT32_MOST } else { 1 << bits };
    let least = match bits {
        12 => 1,
        16 => FAT16_LEAST,
        _ => FAT32_LEAST,
    };
    (least + least / 8..most).contains(&clusters)
}

/// Clusters are on multiples of 1 MiB or, if small, of their own size.
pub(crate) fn exfat(len: ByteCount, cluster: ByteCount) -> Command {
    let boundary = if len.get() < EXFAT_SMALL { cluster.get() } else { cluster.get().max(MIB) };
    let line = format!("mkfs.exfat -b {boundary} -c {} DEVICE", cluster.get());
    Command::other("mkfs", line)
}

/// Linux 6.16 writes an ext4 cluster of a database's page in one piece.
pub(crate) fn atomic(kind: FsKind, fs: &FileSystem, page: ByteCount) -> Option<Fix> {
    let bytes = page.get();
    let is_cluster = bytes.is_power_of_two() && bytes > PAGE && fs.cluster.unwrap_or(fs.block) < page;
    let command = Command::other("mkfs", format!("mkfs.ext4 -b {PAGE} -O bigalloc -C {bytes} DEVICE"));
    (kind == FsKind::Ext4 && is_cluster).then(|| Fix {
        summary: "recreate it with page-sized clusters (bigalloc), which Linux 6.16 and later write \
                  atomically if the device supports it"
            .to_owned(),
        ..remake(command)
    })
}

pub(crate) fn remake(command: Command) -> Fix {
    Fix {
        summary: "recreate the file system, and restore its contents".to_owned(),
        commands: vec![command],
        risk: Some(Risk::Destroys),
        caution: Some("replace DEVICE with the device that holds it".to_owned()),
    }
}
