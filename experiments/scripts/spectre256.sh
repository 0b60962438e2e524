#!/bin/bash
# The file-system part of "Fun with 4K sectors": mkfs.ext4, rsync of an old portage tree, rsync of a newer one over it, cp of a file of
# 4.4 GB, umount. SCALE divides that file; $INPUT/$TREE holds the trees `old` and `new`.
copy_large() {
    copy_file /tmp/large "$MNT/large"
}

drop_caches
measure mkfs make_file_system ext4
mount_it ext4
# The article had both trees in memory already.
measure rsync-old rsync -aH "$INPUT/$TREE/old/" "$MNT/portage/"
measure rsync-new rsync -aH "$INPUT/$TREE/new/" "$MNT/portage/"
sparse_file /tmp/large $((4400000000 / SCALE))
measure cp-large copy_large
measure umount unmount
