#!/bin/bash
# All operations of a file system on a drive, and whether the drive returns the data.

make_file_system ext4 "$PART" -E discard
mount_it ext4 "$PART" discard
cp -r "$INPUT"/. "$MNT"
unmount
drop_caches
mount_it ext4
diff -r -x lost+found "$INPUT" "$MNT"
rm -r "${MNT:?}"/[0-9]
fstrim "$MNT"
unmount
e2fsck -fn "$PART"
blkdiscard "$PART"
cmp -n 1048576 "$PART" /dev/zero
queue=/sys/block/vda/queue
result logical "$(<$queue/logical_block_size)"
result physical "$(<$queue/physical_block_size)"
