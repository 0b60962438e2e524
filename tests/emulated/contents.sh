#!/bin/bash
# contents.sh make|check : makes a tree of files in every kind of contents on the disk of 800 MiB; or checks each
# with its own checker. Mounts it, and prints its name and a checksum of all files, with their names.
# shellcheck disable=SC1091
. "$GUEST/look.sh"
set -eu

# By the number of the partition.
names=('' ext4 xfs btrfs ntfs vfat exfat f2fs swap luks md)
modprobe -a ext4 xfs btrfs ntfs3 vfat exfat f2fs dm-mod dm-crypt md-mod raid1 xts aes_generic sha256_generic nls_cp437 nls_ascii nls_iso8859-1 2>/dev/null || true
disk=/dev/$(of_size 800)
mkdir -p /mnt

# tree : files of many sizes below /mnt, some of them in folders
tree() {
	local n
	mkdir /mnt/folder
	for n in 0 1 2 3 4 5 6 7 8 9; do
		head -c $((n * 7001)) /dev/urandom >"/mnt/file $n"
		head -c $((n * 100)) /dev/urandom >"/mnt/folder/$n"
	done
	head -c 700000 /dev/urandom >/mnt/folder/large
}

# sums : the checksums of all files below /mnt
sums() { (cd /mnt && find . -type f | sort | while read -r file; do sha256sum "$file"; done); }

# opened NAME PART : prints the device that holds the file system of this contents
opened() {
	case $1 in
	luks)
		printf key | cryptsetup open --key-file - "$2" plain >&2
		lvm vgchange -qq -ay straddle >&2
		echo /dev/mapper/straddle-volume
		;;
	md)
		mdadm --quiet --assemble --run /dev/md0 "$2" >&2
		echo /dev/md0
		;;
	*) echo "$2" ;;
	esac
}

closed() {
	case $1 in
	luks) lvm vgchange -qq -an straddle && cryptsetup close plain ;;
	md) mdadm --quiet --stop /dev/md0 ;;
	esac
}

# format NAME PART
format() {
	case $1 in
	ext4 | xfs | f2fs) "mkfs.$1" -q "$2" ;;
	btrfs) mkfs.btrfs -q "$2" ;;
	ntfs) mkfs.ntfs -q -Q -F "$2" ;;
	vfat) mkfs.vfat -F 32 "$2" ;;
	exfat) mkfs.exfat "$2" ;;
	swap) mkswap -q -L straddle "$2" ;;
	luks)
		printf key | cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file - "$2"
		printf key | cryptsetup open --key-file - "$2" plain
		lvm pvcreate -qq /dev/mapper/plain
		lvm vgcreate -qq straddle /dev/mapper/plain
		lvm lvcreate -qq -n volume -l 100%FREE straddle
		mkfs.ext4 -q /dev/mapper/straddle-volume
		closed luks
		;;
	md)
		mdadm --quiet --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 "$2" missing
		mkfs.ext4 -q /dev/md0
		closed md
		;;
	esac >/tmp/said 2>&1 || { cat /tmp/said >&2; echo "$1 cannot be made" >&2; return 1; }
}

# verified NAME DEVICE : the format's own checker
verified() {
	case $1 in
	ext4 | luks | md) e2fsck -fn "$2" ;;
	xfs) xfs_repair -n "$2" ;;
	btrfs) btrfs check "$2" ;;
	ntfs) ntfsfix -n "$2" ;;
	vfat | exfat) "fsck.$1" -n "$2" ;;
	f2fs) fsck.f2fs --dry-run "$2" ;;
	esac >/tmp/said 2>&1 || { cat /tmp/said >&2; echo "$1 on $2 is not sound" >&2; return 1; }
}

type_of() {
	case $1 in
	luks | md) echo ext4 ;;
	ntfs) echo ntfs3 ;;
	*) echo "$1" ;;
	esac
}

for number in {1..10}; do
	name=${names[number]} part=$disk$number
	if [ "$1" = make ]; then
		format "$name" "$part"
	fi
	if [ "$name" = swap ]; then
		swapon "$part"
		grep -q "^$part " /proc/swaps
		swapoff "$part"
		echo "swap $(blkid -o value -s UUID "$part")"
	else
		device=$(opened "$name" "$part")
		[ "$1" = make ] || verified "$name" "$device"
		mount -t "$(type_of "$name")" "$device" /mnt
		[ "$1" = check ] || tree
		echo "$name $(sums | sha256sum)"
		umount /mnt
		closed "$name"
	fi
done
