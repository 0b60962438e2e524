#!/bin/bash
# Moves a partition of 1 GiB on $DISK with straddle, dd and sfdisk, and prints the nanoseconds of
# each in the guest's time. The caches are cold, and the data are durable at the end.
straddle=$INPUT/straddle
mib=$((1 << 20)) len=$((1 << 30))

# arm NAME START COMMAND...: START in bytes; "realign TO VERIFY" is straddle itself
arm() {
	local name=$1 start=$2 begun
	shift 2
	printf 'label: dos\nstart=%d, size=%d, type=83\n' $((start / 512)) $((len / 512)) |
		sfdisk -q --force "$DISK"
	dd if="$INPUT/content" of="$DISK" bs=4M oflag=seek_bytes seek="$start" conv=fsync,notrunc status=none
	if [ "$1" = realign ]; then
		"$straddle" realign "$DISK" --assume 512e --partition 1 --start "1=$2" --wipe --save /tmp/move.json >/dev/null
		set -- "$straddle" apply --verify "$3" /tmp/move.json --write "$DISK"
	fi
	echo 3 >/proc/sys/vm/drop_caches
	begun=$(date +%s%N)
	"$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$name"; }
	echo "$name $(($(date +%s%N) - begun))"
	rm -f /tmp/move.json
}

by_sfdisk() {
	echo "$1," | sfdisk --force --move-data=/dev/null --move-use-fsync -N1 "$DISK"
}

arm 'dd, to 1400 MiB' $mib dd if="$DISK" of="$DISK" bs=4M iflag=skip_bytes oflag=seek_bytes \
	skip=$mib seek=$((1400 * mib)) count=$((len / (4 * mib))) conv=fsync,notrunc
for verify in none read; do
	arm "verify=$verify, to 1400 MiB" $mib realign 1400MiB $verify
	arm "verify=$verify, by a sector" $((63 * 512)) realign 64s $verify
	arm "verify=$verify, by 1 MiB" $mib realign 2MiB $verify
done
arm 'sfdisk, by 1 MiB' $mib by_sfdisk +1M
