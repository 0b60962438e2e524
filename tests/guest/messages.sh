#!/bin/bash
# Messages of the kernel and of tools about sectors, each as it was printed: $OUT/said has a line for each, a word
# before it saying where it comes from.
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

say() { # say NAME COMMAND... : the kernel's and the command's lines
	local name=$1
	shift
	dmesg --clear
	"$@" >"$OUT/log" 2>&1
	{ cat "$OUT/log"; dmesg --notime; } | sed "s/^/$name /" >>"$OUT/said"
}
mnt=/mnt/messages
mkdir -p $mnt

# A disk of 512e with the optimal transfer size of a USB bridge, and one whose partitions are misaligned.
say transfer sdbg dev_size_mb=64 physblk_exp=3 opt_blks=65535
gpt "$D" 40000 2049
say mkswap mkswap "/dev/${D}1"
say mke2fs mke2fs -F -q "/dev/${D}1"
say mkfs-xfs mkfs.xfs "/dev/${D}1"

# A disk of 4Kn, and file systems that count in less.
sdbg dev_size_mb=400 sector_size=4096
truncate -s 400M /tmp/xfs
mkfs.xfs -q -s size=512 /tmp/xfs
dd if=/tmp/xfs of="/dev/$D" bs=1M status=none
say xfs mount -t xfs "/dev/$D" $mnt
truncate -s 64M /tmp/small
mkfs.ext4 -q -b 1024 /tmp/small
dd if=/tmp/small of="/dev/$D" bs=1M status=none
say ext4 mount -t ext4 "/dev/$D" $mnt

mkfs.fat /tmp/small >/dev/null
dd if=/tmp/small of="/dev/$D" bs=1M status=none
say fat mount -t vfat "/dev/$D" $mnt
# The same disk as a loop device shows it: 512-byte sectors, which Linux mounts.
modprobe loop
loop=$(losetup --find --show -b 512 "/dev/$D")
mount -t vfat "$loop" $mnt && echo "view mounted" >>"$OUT/said"
umount $mnt
losetup --detach "$loop"

# A mapping whose sectors do not divide its length, and a request of less than a sector.
say crypt dmsetup create crypt --table "0 4097 crypt aes-xts-plain64 $(printf '0%.0s' {1..128}) 0 /dev/$D 0 1 sector_size:4096"
say fio fio --name=x --filename="/dev/$D" --direct=1 --rw=read --bs=512 --size=4k
exit 0
