#!/bin/bash
# Makes stacks with something to fix, each again for every fix that is tried on it.
#
#   tests/guest/run -o DIR -e FIXES=/path/to/fixes tests/guest/fixes.sh [STACK...]
#
# FIXES is the test executable of tests/fixes.rs, which runs a fix and judges the result. DIR/tried lists what
# was tried, one line each: stack, command.
# shellcheck disable=SC2317  # called by name, as stack_NAME
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

printf secret >/tmp/key
modprobe -a loop dm-mod 2>/dev/null

# The stack made by the functions below, and the device that DEVICE stands for.
undo=() device='' stop=:
disk() { # MIB START... : a disk of 4096-byte sectors with a partition at each START
	local mib=$1
	shift
	sdbg dev_size_mb="$mib" physblk_exp=3 && gpt "$D" "$(((mib - 16) * 2048 / $# / 8 * 8))" "$@"
}
spare() { # NUMBER MIB
	truncate -s "$2M" "/tmp/spare$1" && losetup "/dev/loop$1" "/tmp/spare$1" && later losetup -d "/dev/loop$1"
}
raid() { # LEVEL MIB MEMBERS : an array of the first partition and of spares
	local members=("/dev/${D}1") number
	for ((number = 1; number < $3; number++)); do
		spare "$number" "$2" && members+=("/dev/loop$number") || return
	done
	local chunk=(--chunk=64)
	[ "$1" != 1 ] || chunk=()
	mdadm --create /dev/md0 --quiet --run --assume-clean --level="$1" "${chunk[@]}" --raid-devices="$3" "${members[@]}" &&
		later stop_md && stop='mdadm --quiet --stop /dev/md0'
}
stop_md() { # unless the fix has
	[ ! -e /sys/block/md0/md ] || [ "$(cat /sys/block/md0/md/array_state)" = clear ] || mdadm --quiet --stop /dev/md0
}
fill() { # some files, to be there afterwards
	mount "$device" /mnt && head -c 3000000 /dev/urandom >/mnt/a && cp "$0" /mnt/b && umount /mnt
}
luks() { # OPTION...
	cryptsetup luksFormat -q --key-file /tmp/key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" "$device"
}

stack_moved-md() {
	disk 64 2049 && mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --raid-devices=2 "/dev/${D}1" missing &&
		mkfs.ext4 -q -b 4096 /dev/md0 && mdadm --quiet --stop /dev/md0
}
stack_luks1-7() { disk 64 2048 && device=/dev/${D}1 && luks --type luks1 --align-payload 7; }
stack_luks2-512() {
	disk 96 2048 && device=/dev/${D}1 && luks --type luks2 --sector-size 512 &&
		cryptsetup open --disable-keyring --key-file /tmp/key "$device" c0 && later cryptsetup close c0
}
stack_md-luks1-7() { disk 64 2048 && raid 1 48 2 && device=/dev/md0 && luks --type luks1 --align-payload 7; }
stack_ext4-hints() {
	disk 128 2048 && raid 5 112 3 && device=/dev/md0 && mkfs.ext4 -q -E stride=8,stripe_width=24 "$device" && fill
}
stack_xfs-hints() {
	disk 400 2048 && raid 5 384 3 && device=/dev/md0 && mkfs.xfs -q -f -d sunit=128,swidth=384 "$device" && fill
}
# A container in a partition that was enlarged afterwards by less than an encryption sector: it can no longer
# be opened.
stack_luks2-4096-odd() {
	disk 96 2048 && device=/dev/${D}1 && luks --type luks2 --sector-size 4096 && open_luks c1 &&
		mkfs.ext4 -q -b 4096 /dev/mapper/c1 && cryptsetup close c1 &&
		echo "size=$(($(attr "${D}1" size) + 5))" | sfdisk -q --no-reread --no-tell-kernel -N 1 "/dev/$D" &&
		blockdev --rereadpt "/dev/$D" && ! open_luks c1 2>/dev/null && device=''
}
after_luks2-4096-odd() {
	device=/dev/${D}1
	open_luks c1 && e2fsck -fn /dev/mapper/c1 >/dev/null 2>&1
	local status=$?
	cryptsetup close c1 && return "$status"
}
open_luks() { cryptsetup open --disable-keyring --key-file /tmp/key "$device" "$1"; }
# The whole disk from sector 63 on, with a Btrfs.
stack_btrfs-63() {
	sdbg dev_size_mb=320 physblk_exp=3 &&
		printf 'label: dos\nstart=63\n' | sfdisk -q --no-tell-kernel --wipe always "/dev/$D" && blockdev --rereadpt "/dev/$D" &&
		device=/dev/${D}1 && mkfs.btrfs -q -f -m single -O '^extref' "$device" && fill &&
		mount "$device" /mnt && tar -C /mnt --sort=name -cf - . | sha256sum >/tmp/files && umount /mnt
}
after_btrfs-63() {
	btrfs check "/dev/${D}1" >/dev/null 2>&1 && mount -o ro "/dev/${D}1" /mnt || return
	tar -C /mnt --sort=name -cf - . | sha256sum | cmp - /tmp/files
	local status=$?
	umount /mnt && [ "$status" = 0 ] && [ "$(attr "${D}1" start)" = 64 ]
}
# Swap from sector 63 on, with room for a move and without.
swap_63() { # SIZE
	sdbg dev_size_mb=64 physblk_exp=3 &&
		printf 'label: dos\nstart=63,%stype=82\n' "$1" | sfdisk -q --no-tell-kernel --wipe always "/dev/$D" && blockdev --rereadpt "/dev/$D" &&
		device=/dev/${D}1 && mkswap -q --label "a swap" "$device" && blkid -p -o value -s UUID -s LABEL "$device" >/tmp/swap
}
stack_swap-63() { swap_63 ''; }
stack_swap-63-room() { swap_63 'size=40000,'; }
after_swap-63() {
	blkid -p -o value -s UUID -s LABEL "/dev/${D}1" | cmp - /tmp/swap && swapon "/dev/${D}1" && swapoff "/dev/${D}1"
}
after_swap-63-room() { after_swap-63; }

failed=0
if [ $# -eq 0 ]; then
	sampled=1
	set -- swap-63 swap-63-room luks2-4096-odd btrfs-63 moved-md luks1-7 md-luks1-7 luks2-512 ext4-hints xfs-hints
fi
for stack; do
	[ -z "${sampled-}" ] || taken 2 || continue
	for ((fix = 0; ; fix++)); do
		undo=() device='' stop=:
		"stack_$stack" || { echo "$stack: not set up" >&2; exit 1; }
		sync
		said=$(STACK=$stack FIX=$fix DISK=/dev/$D DEVICE=$device STOP=$stop \
			"$FIXES" --exact --ignored --nocapture --test-threads=1 fixes::in_the_guest 2>&1)
		status=$?
		sed -n 's/^FIX: //p' <<<"$said" >>"$OUT/tried"
		mountpoint -q /mnt && umount /mnt
		if [ $status = 0 ] && declare -F "after_$stack" >/dev/null; then
			"after_$stack" || { echo "$stack: what was in it is missing after fix $fix" >&2; failed=1; }
		fi
		for step in "${undo[@]}"; do
			# shellcheck disable=SC2086  # several words
			$step || { echo "$stack: $step failed" >&2; failed=1; }
		done
		sdbg_rm || exit 1
		[ $status != 3 ] || break
		[ $status = 0 ] || { printf '%s, fix %s:\n%s\n' "$stack" "$fix" "$said" >&2; failed=1; }
	done
done
cat "$OUT/tried"
exit $failed
