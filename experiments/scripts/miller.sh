#!/bin/bash
# The file-system part of T. Miller's article: mke2fs, cp of one large file, cp -r of small ones. miller.sh PART makes one of them:
# each begins on a new file system. SCALE divides the large file; $TARBALL below $INPUT is the tree of small files. What is timed is
# cp alone, without what the kernel still has to write.
kib=$((18308968 / SCALE))

make() {
    make_file_system ext2
}

case $1 in
mkfs)
    drop_caches
    measure_requests mkfs make
    ;;
large)
    make
    mount_it ext2
    sparse_file /tmp/large $((kib * 1024))
    drop_caches
    measure cp-large copy_file /tmp/large "$MNT/large"
    ;;
small)
    make
    mount_it ext2
    # In memory, as the source was a faster array of disks.
    mkdir /tmp/tree
    tar -xf "$INPUT/$TARBALL" -C /tmp/tree
    drop_caches
    measure cp-small cp -r /tmp/tree "$MNT/tree"
    ;;
*) fail "no part is called '$1': mkfs, large or small" ;;
esac
