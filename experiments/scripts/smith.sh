#!/bin/bash
# R. W. Smith's six operations on one file system, in his order: smith.sh FILE-SYSTEM, with $TARBALL below $INPUT.
# After each that writes, the file system is unmounted, and that counts. Each that reads begins with cold caches.
file_system=$1
source=$INPUT/$TARBALL

untar() {
    mkdir "$MNT/tree"
    tar -xf "$source" -C "$MNT/tree"
    unmount
}

copy() {
    cp --reflink=never "$source" "$MNT/tarball"
    unmount
}

remove() {
    rm -rf "$MNT/tree"
    unmount
}

mount_cold() {
    drop_caches
    mount_it "$file_system"
}

drop_caches
measure mkfs make_file_system "$file_system"
mount_cold
measure untar untar
mount_cold
measure copy copy
mount_cold
measure read-files read_files "$MNT/tree"
unmount
mount_cold
measure read-tarball dd if="$MNT/tarball" of=/dev/null bs=1M status=none
unmount
mount_cold
measure delete remove
