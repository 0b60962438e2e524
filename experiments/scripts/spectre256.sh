#!/bin/bash
# The file-system part of "Fun with 4K sectors": mkfs.ext4, rsync of an old portage tree, rsync of a newer one over it, cp of a file of
# 4.4 GB, umount. SCALE divides that file; $INPUT/$TREE holds the trees `old` and `new`.
#
# The journal has 32768 blocks, as mke2fs 1.42 printed; today's makes one of 1 GiB. The features are those of mke2fs 1.42: neither
# checksums of metadata nor block numbers of 64 bits, but those of groups, without which inode tables cannot be left for later.
make() {
    make_file_system ext4 "$PART" -J size=128 -O '^metadata_csum,^metadata_csum_seed,^64bit,^orphan_file,uninit_bg'
}

drop_caches
measure_requests mkfs make
mount_it ext4
# The article had both trees in memory already.
measure rsync-old rsync -aH "$INPUT/$TREE/old/" "$MNT/portage/"
measure rsync-new rsync -aH "$INPUT/$TREE/new/" "$MNT/portage/"
sparse_file /tmp/large $((4400000000 / SCALE))
measure cp-large copy_file /tmp/large "$MNT/large"
measure umount unmount
