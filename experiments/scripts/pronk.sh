#!/bin/bash
# E. Pronk's three writes to ext3: dd of 1 GiB in blocks of 1 KiB, cp of one large file, cp -a of a tree. SCALE divides the large file;
# $TARBALL below $INPUT is the tree. What dd tells is its own time, without what the kernel still has to write; so is ours.
unmounted() {
    "$@"
    unmount
}

make_file_system ext3
mount_it ext3
drop_caches
measure dd dd if=/dev/zero of="$MNT/file" bs=1024 count=1048576 status=none
unmount
mount_it ext3
sparse_file /tmp/large $((18 * 1024 * 1024 * 1024 / SCALE))
measure cp-large unmounted copy_file /tmp/large "$MNT/large"
mount_it ext3
mkdir /tmp/tree
tar -xf "$INPUT/$TARBALL" -C /tmp/tree
measure cp-tree unmounted cp -a /tmp/tree "$MNT/tree"
