#!/bin/bash
# Moves a partition on $DISK with straddle, dd and sfdisk, and prints the bytes of each and its nanoseconds in the
# guest's time, from the start of the program to its end. The caches are cold, and the data are durable at the end.
straddle=$INPUT/straddle
mib=$((1 << 20)) gib=$((1 << 30))

# arm NAME GIB START COMMAND...: START in bytes; "realign TO" is straddle itself
arm() {
	local name=$1 len=$(($2 * gib)) start=$3 begun part
	shift 3
	printf 'label: dos\nstart=%d, size=%d, type=83\n' $((start / 512)) $((len / 512)) |
		sfdisk -q --force "$DISK"
	for ((part = 0; part < len; part += gib)); do
		dd if="$INPUT/content" of="$DISK" bs=4M oflag=seek_bytes seek=$((start + part)) conv=fsync,notrunc status=none
	done
	if [ "$1" = realign ]; then
		"$straddle" realign "$DISK" --assume 512e --partition 1 --start "1=$2" --wipe --save /tmp/move.json >/dev/null
		set -- "$straddle" apply /tmp/move.json --write "$DISK"
	fi
	echo 3 >/proc/sys/vm/drop_caches
	begun=$(date +%s%N)
	"$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$name"; }
	echo "$name $len $(($(date +%s%N) - begun))"
	rm -f /tmp/move.json
}

by_sfdisk() {
	echo "$1," | sfdisk --force --move-data=/dev/null --move-use-fsync -N1 "$DISK"
}

# What a move costs besides the data (a look at the disk, its journal) is shown by the shorter one of two.
by_dd() {
	dd if="$DISK" of="$DISK" bs=4M iflag=skip_bytes oflag=seek_bytes skip=$mib seek=$((8 * gib)) \
		count=$(($1 * gib / (4 * mib))) conv=fsync,notrunc
}

arm 'dd, to 8 GiB' 4 $mib by_dd 4
arm 'realign, to 8 GiB' 4 $mib realign 8GiB
arm 'realign, to 8 GiB' 1 $mib realign 8GiB
arm 'realign, by a sector' 1 $((63 * 512)) realign 64s
arm 'realign, by 1 MiB' 1 $mib realign 2MiB
arm 'sfdisk, by 1 MiB' 1 $mib by_sfdisk +1M
