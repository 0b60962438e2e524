#!/bin/bash
# Makes contents on loop devices with 512-byte sectors, attaches them again with 4096-byte ones, and asks the kernel
# whether it uses them.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/fits.sh
#
# leaves in DIR, for each content NAME
#   NAME.json   `check --json` of what it is on
#   NAME.used   1 if the kernel uses it, 0 if not
#   NAME.view   where check prints losetup for it: 1 if the file in it is read through that, 0 if not
# and for stacks that change the size of sectors on the way STACK.json and, of each member, STACK.N.json.
# shellcheck disable=SC2015,SC2317  # called by name
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

lvm_setup
modprobe -a loop dm-mod dm-crypt dm-integrity dm-verity raid1 bcache xfs vfat f2fs nilfs2 minix udf gfs2 2>/dev/null
printf secret >/tmp/key
pbkdf=(--pbkdf pbkdf2 --pbkdf-force-iterations 1000)

attach() { losetup --find --show --sector-size "$1" "$2"; } # SECTOR FILE
check() { "$STRADDLE" check --json "${@:2}" >"$OUT/$1.json" 2>"$OUT/$1.err"; } # NAME TARGET...
used() { echo "$2" >"$OUT/$1.used"; }                                          # NAME 0|1

# view NAME : runs the losetup command that check prints, and looks for the file
view() {
	local line loop
	line=$(grep -o 'losetup --find[^"]*' "$OUT/$1.json" | head -1)
	[ -n "$line" ] || return
	loop=$($line) || { echo 0 >"$OUT/$1.view"; return; }
	mount "$loop" /mnt && cmp -s /tmp/key /mnt/key && echo 1 >"$OUT/$1.view" || echo 0 >"$OUT/$1.view"
	umount /mnt
	losetup --detach "$loop"
}

file_system() { # NAME MKFS...
	local name=fs-$1 loop
	shift
	taken 2 || return
	rm -f /tmp/disk
	truncate -s 400M /tmp/disk
	"$@" /tmp/disk >/dev/null 2>&1 || { echo "$name: not made"; return; }
	loop=$(attach 512 /tmp/disk)
	mount "$loop" /mnt && cp /tmp/key /mnt/key && umount /mnt || { echo "$name: not filled"; losetup -d "$loop"; return; }
	losetup -d "$loop"
	loop=$(attach 4096 /tmp/disk)
	check "$name" "$loop"
	mount "$loop" /mnt 2>/dev/null && umount /mnt && used "$name" 1 || used "$name" 0
	view "$name"
	losetup -d "$loop"
}

# volume NAME MAKE USE CLOSE : commands with the device as the last word
volume() {
	local name=volume-$1 loop
	taken 2 || return
	rm -f /tmp/disk
	truncate -s "${SIZE:-64M}" /tmp/disk
	loop=$(attach 512 /tmp/disk)
	$2 "$loop" >/dev/null 2>&1 || { echo "$name: not made"; losetup -d "$loop"; return; }
	losetup -d "$loop"
	[ -z "${CUT-}" ] || truncate -s "$CUT" /tmp/disk
	loop=$(attach "${SECTOR:-4096}" /tmp/disk)
	check "$name" "$loop"
	$3 "$loop" >/dev/null 2>&1 && used "$name" 1 || used "$name" 0
	$4 >/dev/null 2>&1
	losetup -d "$loop"
}
luks() { cryptsetup luksFormat -q --key-file /tmp/key "${pbkdf[@]}" "$@"; }
luks_open() { cryptsetup open --disable-keyring --key-file /tmp/key "$1" c0; }
integrity_use() { integritysetup open "$1" i0 && [ "$(attr "$(dmk i0)" queue/logical_block_size)" -ge 4096 ]; }
bcache_use() { echo "$1" >/sys/fs/bcache/register; }
bcache_stop() {
	local device
	for device in /sys/block/bcache*; do echo 1 >"$device/bcache/stop"; done
	sleep 1
}
group() { # EXTENT DEVICE : a volume that begins inside a sector, if extents are small
	pvcreate -qq -y "$2" && vgcreate -qq -y -s "$1" vg "$2" && lvcreate -qq -y -Zn -Wn -l 1 -n a vg &&
		lvcreate -qq -y -Zn -Wn -l 4 -n b vg && vgchange -qq -an vg
}
group_use() { lvchange -ay vg/b; }
group_stop() { vgchange -qq -an vg; }

file_system ext2-1k mkfs.ext2 -q -b 1024
file_system ext4-1k mkfs.ext4 -q -b 1024
file_system ext4-2k mkfs.ext4 -q -b 2048
file_system ext4-4k mkfs.ext4 -q -b 4096
file_system xfs-512 mkfs.xfs -q -s size=512
file_system xfs-4096 mkfs.xfs -q -s size=4096
file_system fat-512 mkfs.fat -F 32 -S 512 -s 8
file_system fat-2048 mkfs.fat -F 32 -S 2048
file_system fat-4096 mkfs.fat -F 32 -S 4096
file_system btrfs mkfs.btrfs -q
file_system f2fs mkfs.f2fs -q
file_system nilfs2-1k mkfs.nilfs2 -q -b 1024
file_system nilfs2-4k mkfs.nilfs2 -q -b 4096
file_system reiserfs-4k mkfs.reiserfs -q -ff -b 4096
file_system jfs mkfs.jfs -q
file_system minix mkfs.minix -3
for size in 512 2048 4096; do file_system "udf-$size" mkudffs -b "$size"; done
file_system gfs2-1k mkfs.gfs2 -O -q -p lock_nolock -J 8 -b 1024
file_system gfs2-4k mkfs.gfs2 -O -q -p lock_nolock -J 8

volume luks1 'luks --type luks1' luks_open 'cryptsetup close c0'
volume luks2-512 'luks --type luks2 --sector-size 512' luks_open 'cryptsetup close c0'
volume luks2-4096 'luks --type luks2 --sector-size 4096' luks_open 'cryptsetup close c0'
for cut in 67108352 67106816 67104768; do
	CUT=$cut SECTOR=512 volume "luks2-4096-of-$cut" 'luks --type luks2 --sector-size 4096' luks_open 'cryptsetup close c0'
done
CUT=67108352 SECTOR=512 volume luks2-512-of-67108352 'luks --type luks2 --sector-size 512' luks_open 'cryptsetup close c0'
for size in 512 1024 4096; do
	volume "integrity-$size" "integritysetup format -q --no-wipe -s $size" integrity_use 'integritysetup close i0'
done
volume bcache-512 'make-bcache -w 512 -B' bcache_use bcache_stop
volume bcache-4096 'make-bcache -w 4096 -B' bcache_use bcache_stop
volume extents-1k 'group 1k' group_use group_stop
volume extents-4m 'group 4m' group_use group_stop

# An array whose second member has 4096-byte sectors, seen from the array and from each member.
rm -f /tmp/disk
for member in 0 1 2; do truncate -s 320M "/tmp/member$member"; done
a=$(attach 512 /tmp/member0) b=$(attach 512 /tmp/member1) c=$(attach 4096 /tmp/member2)
mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --raid-devices=2 "$a" "$b"
mkfs.xfs -q -f /dev/md0
mdadm --quiet /dev/md0 --add "$c"
mdadm --quiet /dev/md0 --fail "$b"
for _ in {1..60}; do grep -q recovery /proc/mdstat && sleep 1 || break; done
mdadm --quiet --stop /dev/md0
mdadm --quiet --assemble /dev/md0 "$a" "$c"
check array /dev/md0
check array.0 "$a"
check array.1 "$c"
check array.all "$a" "$c" /dev/md0
mdadm --quiet --stop /dev/md0
check array.stopped "$c"
check array.apart "$a" "$c"
losetup -d "$a" "$b" "$c"

# A group of two disks: the volume begins on the one with 512-byte sectors, and goes on on the other.
a=$(attach 512 /tmp/member0) c=$(attach 4096 /tmp/member2)
wipefs -aq "$a" "$c"
mixed=(--config 'devices{allow_mixed_block_sizes=1}')
pvcreate -qq -y "$a" "$c" && vgcreate -qq -y "${mixed[@]}" vg "$a" "$c" && lvcreate -qq -y -Wn -Zn -l 76 -n it vg "$a" &&
	mkfs.xfs -q -f /dev/vg/it && lvextend -qq -y "${mixed[@]}" -l +1 vg/it "$c"
check group /dev/vg/it
check group.0 "$a"
vgchange -qq -an vg
check group.apart "$a" "$c"
losetup -d "$a" "$c"

# Backing devices for bcache, and a cache with larger blocks.
c=$(attach 4096 /tmp/member2)
wipefs -aq "$c"
make-bcache -C "$c" >/dev/null && echo "$c" >/sys/fs/bcache/register
set=$(bcache-super-show "$c" | awk '/cset.uuid/ { print $2 }')
for size in 512 4096; do
	a=$(attach 512 /tmp/member0)
	wipefs -aq "$a"
	make-bcache -w "$size" -B "$a" >/dev/null && echo "$a" >/sys/fs/bcache/register
	for ((i = 0; i < 200; i++)); do [ ! -b /dev/bcache0 ] || break; sleep 0.02; done
	echo "$set" >/sys/block/bcache0/bcache/attach
	grep -q 'no cache' /sys/block/bcache0/bcache/state && used "cache-$size" 0 || used "cache-$size" 1
	check "cache-$size" "$a" "$c"
	bcache_stop
	losetup -d "$a"
done
echo 1 >"/sys/fs/bcache/$set/stop"
sleep 1
losetup -d "$c"

# The disk of a virtual machine, with a table in 512-byte sectors, in a volume on a 4096-byte disk.
c=$(attach 4096 /tmp/member2)
wipefs -aq "$c"
pvcreate -qq -ff -y "$c" && vgcreate -qq -y nest "$c" && lvcreate -qq -y -Wn -Zn -L 100M -n vm nest
truncate -s 100M /tmp/vm
printf 'label: gpt\nstart=2048\n' | sfdisk -q /tmp/vm
dd if=/tmp/vm of=/dev/nest/vm bs=1M status=none
check nested /dev/nest/vm
check nested.0 "$c"
vgchange -qq -an nest
check nested.stopped "$c"
losetup -d "$c"

# A container with 4096-byte sectors below a file system that was made for 512.
rm -f /tmp/member*
truncate -s 400M /tmp/disk /tmp/fs
mkfs.xfs -q -s size=512 -d size=350m /tmp/fs
a=$(attach 512 /tmp/disk)
luks --type luks2 --sector-size 4096 "$a" && luks_open "$a"
dd if=/tmp/fs of=/dev/mapper/c0 bs=1M count=350 status=none
check container /dev/mapper/c0
check container.0 "$a"
cryptsetup close c0
losetup -d "$a"
exit 0
