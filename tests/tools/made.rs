//! The formats that Debian's mkfs and partitioning programs make on a whole disk, with libblkid's name for
//! each.
//!
//! A line is for a shell; IMAGE stands for a 64 MiB file in the folder in which the line runs.

/// Name, tool, and command line.
pub(crate) type Made = (&'static str, &'static str, &'static str);

/// Contents of a disk.
pub(crate) const CONTENTS: &[Made] = &[
    ("ext2", "mkfs.ext2", "mkfs.ext2 -q IMAGE"),
    ("ext3", "mkfs.ext3", "mkfs.ext3 -q IMAGE"),
    ("ext4", "mkfs.ext4", "mkfs.ext4 -q IMAGE"),
    ("jbd", "mkfs.ext4", "mkfs.ext4 -q -O journal_dev IMAGE"),
    ("xfs", "mkfs.xfs", "truncate -s 400M IMAGE; mkfs.xfs -q IMAGE"),
    ("xfs_external_log", "mkfs.xfs", "truncate -s 400M x; mkfs.xfs -q -l logdev=IMAGE,size=64m x"),
    ("btrfs", "mkfs.btrfs", "truncate -s 200M IMAGE; mkfs.btrfs -q IMAGE"),
    ("vfat", "mkfs.vfat", "mkfs.vfat IMAGE"),
    ("exfat", "mkfs.exfat", "mkfs.exfat IMAGE"),
    ("ntfs", "mkfs.ntfs", "mkfs.ntfs -qFf IMAGE"),
    ("f2fs", "mkfs.f2fs", "mkfs.f2fs -q IMAGE"),
    ("jfs", "mkfs.jfs", "mkfs.jfs -q IMAGE"),
    ("nilfs2", "mkfs.nilfs2", "truncate -s 200M IMAGE; mkfs.nilfs2 -q IMAGE"),
    ("reiserfs", "mkfs.reiserfs", "mkfs.reiserfs -qff IMAGE"),
    ("reiser4", "mkfs.reiser4", "mkfs.reiser4 -fy IMAGE"),
    ("bfs", "mkfs.bfs", "mkfs.bfs IMAGE"),
    ("minix", "mkfs.minix", "mkfs.minix -1 IMAGE"),
    ("minix", "mkfs.minix", "mkfs.minix -2 IMAGE"),
    ("minix", "mkfs.minix", "mkfs.minix -3 IMAGE"),
    ("cramfs", "mkfs.cramfs", "mkdir d; mkfs.cramfs d c; dd if=c of=IMAGE conv=notrunc status=none"),
    ("romfs", "genromfs", "mkdir d; genromfs -d d -f c; dd if=c of=IMAGE conv=notrunc status=none"),
    ("squashfs", "mksquashfs", "mkdir d; mksquashfs d c -quiet; dd if=c of=IMAGE conv=notrunc status=none"),
    ("erofs", "mkfs.erofs", "mkdir d; mkfs.erofs c d; dd if=c of=IMAGE conv=notrunc status=none"),
    (
        "ubifs",
        "mkfs.ubifs",
        "mkdir d; mkfs.ubifs -r d -m 2048 -e 126976 -c 100 -o c; dd if=c of=IMAGE conv=notrunc status=none",
    ),
    (
        "ubi",
        "ubinize",
        "head -c 126976 /dev/zero > c; \
         printf '[v]\\nmode=ubi\\nimage=c\\nvol_id=0\\nvol_type=dynamic\\nvol_name=v\\nvol_size=4MiB\\n' > ini; \
         ubinize -o u -p 128KiB -m 2048 ini; dd if=u of=IMAGE conv=notrunc status=none",
    ),
    (
        "iso9660",
        "genisoimage",
        "mkdir d; genisoimage -quiet -o c d; dd if=c of=IMAGE conv=notrunc status=none",
    ),
    (
        "udf",
        "genisoimage",
        "mkdir d; genisoimage -quiet -udf -o c d; dd if=c of=IMAGE conv=notrunc status=none",
    ),
    ("udf", "mkudffs", "mkudffs IMAGE"),
    ("hfs", "hformat", "HOME=. hformat IMAGE"),
    ("apfs", "mkapfs", "truncate -s 600M IMAGE; mkapfs IMAGE"),
    ("gfs2", "mkfs.gfs2", "mkfs.gfs2 -O -p lock_nolock IMAGE"),
    ("ocfs2", "mkfs.ocfs2", "mkfs.ocfs2 -M local -F IMAGE"),
    ("bcache", "make-bcache", "make-bcache -B IMAGE"),
    ("swap", "mkswap", "mkswap IMAGE"),
    (
        "crypto_LUKS",
        "cryptsetup",
        "echo x | cryptsetup luksFormat -q --pbkdf-force-iterations 4 --pbkdf-memory 32 IMAGE",
    ),
    ("DM_verity_hash", "veritysetup", "truncate -s 1M data; veritysetup format data IMAGE"),
];

/// Partition tables that are not read.
pub(crate) const TABLES: &[Made] = &[
    ("sun", "fdisk", "printf 's\\nw\\n' | fdisk IMAGE"),
    ("sgi", "fdisk", "printf 'G\\nw\\n' | fdisk IMAGE"),
    ("sun", "parted", "parted -s IMAGE mklabel sun"),
    ("sgi", "parted", "parted -s IMAGE mklabel dvh"),
    ("bsd", "parted", "parted -s IMAGE mklabel bsd"),
    ("mac", "parted", "parted -s IMAGE mklabel mac"),
    ("amiga", "parted", "parted -s IMAGE mklabel amiga"),
    ("atari", "parted", "parted -s IMAGE mklabel atari mkpart primary ext2 1MiB 8MiB"),
    ("pc98", "parted", "parted -s IMAGE mklabel pc98"),
    ("loop", "parted", "parted -s IMAGE mklabel loop"),
];
