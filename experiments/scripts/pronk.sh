#!/bin/bash
# E. Pronk's three writes to ext3, in his order: cp of one large file, dd of 1 GiB in blocks of 1 KiB, cp -a of a tree. SCALE divides
# the large file; $TARBALL below $INPUT is the tree. The times are the programs' own, without what the kernel still has to write;
# each begins when all before it is written.
make_file_system ext3
mount_it ext3
sparse_file /tmp/large $((18 * 1024 * 1024 * 1024 / SCALE))
mkdir /tmp/tree
tar -xf "$INPUT/$TARBALL" -C /tmp/tree
drop_caches
measure cp-large copy_file /tmp/large "$MNT/large"
sync
measure dd dd if=/dev/zero of="$MNT/file" bs=1024 count=1048576 status=none
sync
measure cp-tree cp -a /tmp/tree "$MNT/tree"
