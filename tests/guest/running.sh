#!/bin/bash
# Makes disks that do not show everything by themselves: arrays with a closed or inactive layer, volumes over
# several disks, tables that contradict the disk's other content, and containers that end inside a larger
# sector.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/running.sh
#
# leaves in DIR
#   inner-META-LEVEL-WHAT.{array,all}.json  `check --json` of the array, and of all disks
#   inner-META-LEVEL-WHAT.N.WHEN.json       of its member N, while it runs and when it is stopped
#   s020-NAME.json, s020-NAME.part.json     of all disks, and of the volume with only the misaligned disk
#   s020-NAME.offset                        the kernel's alignment offset of that volume
#   rival-NAME.{used,unused}.json           of a disk whose table contradicts its other content
#   odd.{before,after}.json                 of LUKS2 in a partition that ends inside a sector of 4096 bytes, and after its end
#                                           was cut off; .refused: the exit status of cryptsetup reencrypt
# shellcheck disable=SC2317  # called by name
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

lvm_setup
export IMSM_NO_PLATFORM=1
head -c 32 /dev/urandom >/tmp/key
modprobe -a loop dm-mod dm-crypt btrfs vfat nls_cp437 nls_ascii nls_iso8859-1 2>/dev/null

check() { # NAME TARGET...
	local name=$1
	shift
	"$STRADDLE" check --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
	echo $? >"$OUT/$name.rc"
}

array() { # META LEVEL MEMBERS
	local nodes=("${DISKS[@]/#//dev/}") meta=(--metadata="$1") chunk=(--chunk=64)
	[ "$2" != 1 ] || chunk=()
	if [ "$1" = imsm ]; then
		mdadm --create /dev/md127 --quiet --run --metadata=imsm --raid-devices="$3" "${nodes[@]}" || return
		nodes=(/dev/md127) meta=()
	fi
	mdadm --create /dev/md0 --quiet --run --assume-clean --level="$2" "${chunk[@]}" "${meta[@]}" --raid-devices="$3" "${nodes[@]}"
}
put_luks() { cryptsetup luksFormat -q --type luks1 --align-payload "$1" --key-file /tmp/key --pbkdf-force-iterations 1000 /dev/md0; }
put_pv() {
	pvcreate -qq -y --dataalignment "$1k" /dev/md0 && vgcreate -qq -s 1M vg /dev/md0 &&
		lvcreate -qq -y -Wn -Zn -l 4 -n a vg && vgchange -qq -an vg
}

inner() { # META LEVEL MEMBERS WHAT UNIT
	local name="inner-$1-$2-$4$5" number
	sdbg dev_size_mb=48 physblk_exp=3 add_host="$3" per_host_store=1 && array "$1" "$2" "$3" || return
	# An array whose metadata are maintained by mdmon accepts no write before mdmon runs.
	for _ in {1..100}; do
		"put_$4" "$5" 2>/dev/null && break
		sleep 0.1
	done
	sync
	check "$name.array" /dev/md0
	check "$name.all"
	for ((number = 0; number < $3; number++)); do check "$name.$number.running" "/dev/${DISKS[number]}"; done
	md_stop
	for ((number = 0; number < $3; number++)); do check "$name.$number.stopped" "/dev/${DISKS[number]}"; done
	sdbg_rm
}

part() { # DISK START
	printf 'label: dos\n%s,,8e\n' "$2" | sfdisk -q --no-tell-kernel --wipe always "/dev/$1" && blockdev --rereadpt "/dev/$1"
}
striped() { # NAME : a volume over the first two disks
	vgcreate -qq -s 1M vg "${members[@]}" && lvcreate -qq -y -Wn -Zn -i 2 -I 64k -l 8 -n it vg || return
	local dm
	dm=$(dmk vg-it)
	attr "$dm" alignment_offset >"$OUT/s020-$1.offset"
	check "s020-$1"
	check "s020-$1.part" "/dev/$dm" "/dev/${DISKS[1]}"
	vgchange -qq -an vg && vgremove -qq -y vg
}
volumes() {
	local align members
	for align in 1024 7; do
		sdbg dev_size_mb=48 physblk_exp=3 add_host=2 per_host_store=1 && part "${DISKS[0]}" 2048 && part "${DISKS[1]}" 2048 || return
		members=("/dev/${DISKS[0]}1" "/dev/${DISKS[1]}1")
		pvcreate -qq -y "${members[0]}" && pvcreate -qq -y --dataalignment "${align}k" "${members[1]}" && striped "pv$align"
		sdbg_rm
	done
	for align in 1 0; do
		sdbg dev_size_mb=48 physblk_exp=3 lowest_aligned=7 add_host=2 per_host_store=1 || return
		members=("/dev/${DISKS[0]}" "/dev/${DISKS[1]}")
		pvcreate -qq -y "${members[0]}" &&
			pvcreate -qq -y --config "devices{data_alignment_offset_detection=$align}" "${members[1]}" && striped "whole$align"
		sdbg_rm
	done
}

rivals() {
	sdbg dev_size_mb=64 physblk_exp=3 add_host=2 per_host_store=1 && array 1.2 1 2 && mdadm --quiet --stop /dev/md0 || return
	printf 'label: dos\n63,40000,83\n' | sfdisk -q --no-tell-kernel --wipe never "/dev/$D" && blockdev --rereadpt "/dev/$D"
	check rival-md.unused "/dev/$D"
	cryptsetup open --disable-keyring --type plain --cipher aes-cbc-essiv:sha256 --key-size 256 --key-file /tmp/key "/dev/${D}1" c0 &&
		mkfs.ext4 -q -b 4096 /dev/mapper/c0 && sync && check rival-md.used "/dev/$D"
	cryptsetup close c0
	local part="0 40000 linear /dev/$D 63"
	dmsetup create p1 -u part1-rival --table "$part" && check rival-kpartx.unused "/dev/$D" &&
		mkfs.ext4 -q -b 4096 /dev/mapper/p1 && mount -t ext4 /dev/mapper/p1 /mnt && check rival-kpartx.used "/dev/$D" && umount /mnt
	dmsetup remove p1
	dmsetup create p1 --table "$part" && mount -t ext4 /dev/mapper/p1 /mnt && check rival-mapped "/dev/$D" && umount /mnt
	dmsetup remove p1
	sdbg_rm
	sdbg dev_size_mb=64 physblk_exp=3 && mkfs.vfat -I "/dev/$D" >/dev/null &&
		printf '\200\1\1\0\14\376\377\377\77\0\0\0\0\0\1\0' | dd of="/dev/$D" bs=1 seek=446 conv=notrunc status=none || return
	# The boot code of mkfs.fat leaves room for no other entry.
	dd if=/dev/zero of="/dev/$D" bs=1 seek=462 count=48 conv=notrunc status=none
	sync
	check rival-fat.unused "/dev/$D"
	mount -t vfat "/dev/$D" /mnt && check rival-fat.used "/dev/$D" && umount /mnt
	sdbg_rm
}

whole() { # NAME LABEL [MB] : what fills a disk and is set up, beside a table that leaves it alone
	local name="rival-$1"
	sdbg dev_size_mb="${3:-64}" physblk_exp=3 && "fill_$1" || return
	local first=''
	[ "$2" = dos ] || first='first-lba: 34\n'
	printf 'label: %s\n%b63,40000\n' "$2" "$first" | sfdisk -q --no-reread --no-tell-kernel --wipe never "/dev/$D" && sync
	"use_$1" && check "$name.used" "/dev/$D"
	"leave_$1"
	check "$name.unused" "/dev/$D"
	sdbg_rm
}
fill_ext4() { mkfs.ext4 -q -b 4096 "/dev/$D"; }
use_ext4() { mount -t ext4 "/dev/$D" /mnt; }
leave_ext4() { umount /mnt; }
fill_swap() { mkswap -q "/dev/$D"; }
use_swap() { swapon "/dev/$D"; }
leave_swap() { swapoff "/dev/$D"; }
# A GPT that cannot be read: mkfs has overwritten its entries, and the backup is erased.
broken() {
	sdbg dev_size_mb=64 physblk_exp=3 && printf 'label: gpt\n' | sfdisk -q --no-reread --no-tell-kernel "/dev/$D" || return
	dd if="/dev/$D" of=/tmp/first bs=512 count=2 status=none && mkfs.ext4 -q -F -b 4096 "/dev/$D" &&
		dd if=/tmp/first of="/dev/$D" bs=512 count=2 conv=notrunc status=none && dd if=/dev/zero of="/dev/$D" bs=512 seek=131039 count=33 status=none
	sync
	check rival-broken.unused "/dev/$D"
	mount -t ext4 "/dev/$D" /mnt && check rival-broken.used "/dev/$D" && umount /mnt
	sdbg_rm
}
# A table overwrites unused key slots of a LUKS1 header, and cryptsetup then no longer opens it.
fill_luks() {
	cryptsetup luksFormat -q --type luks1 --align-payload 7 --key-file /tmp/key --pbkdf-force-iterations 1000 "/dev/$D" &&
		cryptsetup open --disable-keyring --key-file /tmp/key "/dev/$D" c0
}
use_luks() { [ -b /dev/mapper/c0 ]; }
leave_luks() { cryptsetup close c0; }
fill_luks2() {
	cryptsetup luksFormat -q --type luks2 --key-file /tmp/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "/dev/$D" &&
		cryptsetup open --disable-keyring --key-file /tmp/key "/dev/$D" c0
}
use_luks2() { use_luks; }
leave_luks2() { leave_luks; }
fill_btrfs() { mkfs.btrfs -q "/dev/$D"; }
use_btrfs() { mount -t btrfs "/dev/$D" /mnt; }
leave_btrfs() { umount /mnt; }
fill_pv() {
	pvcreate -qq -y --dataalignment 7k "/dev/$D" && vgcreate -qq -s 1M vg "/dev/$D" && lvcreate -qq -y -Wn -Zn -l 4 -n a vg
}
# LVM ignores a disk that has a table, even for deactivating its volumes.
use_pv() { [ -b /dev/vg/a ] || [ -b /dev/mapper/vg-a ]; }
leave_pv() { dmsetup remove vg-a; }

odd() {
	local device size
	sdbg dev_size_mb=96 physblk_exp=3 || return
	printf 'label: gpt\nstart=2048, size=190503\n' | sfdisk -q --no-tell-kernel --wipe always "/dev/$D" && blockdev --rereadpt "/dev/$D"
	device=/dev/${D}1 size=$(attr "${D}1" size)
	cryptsetup luksFormat -q --type luks2 --sector-size 512 --key-file /tmp/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$device" || return
	opened() { cryptsetup open --disable-keyring --key-file /tmp/key "$device" c0; }
	reencrypt() {
		cryptsetup reencrypt -q --disable-keyring --key-file /tmp/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
			--sector-size 4096 "$device" >/dev/null 2>&1
		echo $?
	}
	opened && mkfs.ext4 -q -b 4096 /dev/mapper/c0 && sync
	check odd.before "/dev/$D"
	reencrypt >"$OUT/odd.before.refused"
	cryptsetup close c0
	echo "size=$((size / 8 * 8))" | sfdisk -q --no-reread --no-tell-kernel -N 1 "/dev/$D" && blockdev --rereadpt "/dev/$D"
	opened && check odd.after "/dev/$D"
	reencrypt >"$OUT/odd.after.refused"
	cryptsetup close c0
	opened && e2fsck -fn /dev/mapper/c0 >/dev/null 2>&1
	echo $? >"$OUT/odd.files"
	cryptsetup close c0
	sdbg_rm
}

for kind in '1.2 5 3' '1.2 0 2'; do
	for what in 'luks 7' 'pv 7' 'pv 1024'; do
		# shellcheck disable=SC2086  # words
		! taken 2 || inner $kind $what
	done
done
inner 1.0 1 2 luks 7
inner imsm 0 2 luks 7
volumes
rivals
for what in ext4 swap luks pv; do whole "$what" dos; done
whole btrfs gpt 160
whole luks2 gpt
broken
odd
exit 0
