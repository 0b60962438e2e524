#!/bin/bash
# Makes logical volumes over several disks, at different offsets on each, and examines them active and
# inactive.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/volume-parts.sh
#
# leaves in DIR, for each volume NAME and each of its disks N
#   NAME.N.live, NAME.N.offline  `check --json` of the disk; physical sectors have 16 KiB
#   NAME.N.areas                 each part of the volume that the kernel's tables put there: its first sector
# on the
#                                disk, and in the volume or its image
# The functions are called by the names of the cases.
# shellcheck disable=SC2317
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"
lvm_setup
modprobe -a dm-mod dm-raid 2>/dev/null

# Prints the parts of vg/it, and of what it keeps data in, on the device with this number, whose first sector is START of its disk.
areas() { # NUMBER START
	dmsetup table | awk -v on="$1" -v start="$2" '
		/^vg-(it(-real|_corig|_wcorig|_tdata|_rimage_[0-9]+)?|sn-cow|fast_cvol):/ { for (i = 4; i < NF; i++) if ($i == on) print $(i + 1) + start, $2 }'
}

volume() { # NAME PARTITIONS PV-OPTIONS GAPS OPTION...
	local name=$1 partitions=$2 options=$3 gaps=$4 i node start number nodes=()
	shift 4
	sdbg dev_size_mb=24 physblk_exp=5 add_host=3 per_host_store=1 || return
	for i in 0 1 2; do
		node=${DISKS[i]}
		start=$(cut -d , -f $((i + 1)) <<<"$partitions")
		# Each disk has its own option for pvcreate, or none.
		option=$(cut -d , -f $((i + 1)) <<<"$options")
		if [ "$start" != 0 ]; then
			printf 'label: dos\n%s,40000,8e\n' "$start" | sfdisk -q --no-tell-kernel "/dev/$node" &&
				blockdev --rereadpt "/dev/$node" || return
			node+=1
		fi
		pvcreate -qq -y ${option:+--dataalignmentoffset "$option"} "/dev/$node" || return
		nodes+=("/dev/$node")
	done
	vgcreate -qq -s 8k vg "${nodes[@]}" || return
	for i in 0 1 2; do
		start=$(cut -d , -f $((i + 1)) <<<"$gaps")
		[ "$start" = 0 ] || lvcreate -qq -y -Wn -an -n "gap$i" -l "$start" vg "${nodes[i]}" || return
	done
	if declare -F -- "$1" >/dev/null; then "$1" "${nodes[@]}"; else lvcreate -qq -y -Wn -n it "$@" vg; fi || return
	for i in 0 1 2; do
		number=$(cat "/sys/class/block/${nodes[i]#/dev/}/dev")
		start=$(cat "/sys/class/block/${nodes[i]#/dev/}/start" 2>/dev/null || echo 0)
		areas "$number" "$start" >"$OUT/$name.$i.areas"
		"$STRADDLE" check --json "/dev/${DISKS[i]}" >"$OUT/$name.$i.live"
	done
	vgchange -qq -an vg
	for i in 0 1 2; do "$STRADDLE" check --json "/dev/${DISKS[i]}" >"$OUT/$name.$i.offline"; done
	sdbg_rm
}

# Volumes that keep data in hidden ones. LVM places each on the disk that is named.
thin() { lvcreate -qq --type thin-pool -n it -L 6M -c 64k --poolmetadatasize 2M -Zn vg "$2" && lvcreate -qq -V 8M --thin -n t vg/it; }
snapshot() { lvcreate -qq -y -Wn -n it -L 6M vg "$1" && lvcreate -qq -y -s -n sn -L 4M vg/it "$2"; }
cachevol() {
	lvcreate -qq -y -Wn -n it -L 6M vg "$1" && lvcreate -qq -y -Wn -n fast -L 12M vg "$2" &&
		lvconvert -qq -y --type cache --cachevol fast vg/it
}
writecache() {
	lvcreate -qq -y -Wn -n it -L 6M vg "$1" && lvcreate -qq -y -Wn -an -n fast -L 8M vg "$2" && lvchange -qq -an vg/it &&
		lvconvert -qq -y --type writecache --cachevol fast vg/it && lvchange -qq -ay vg/it
}

failed=0
v() { ! taken 3 || volume "$@" || { echo "$1: not set up" >&2; failed=1; }; }

v striped-aligned 0,0,0 ,, 0,0,0 -i 3 -I 8k -L 6M
v striped-second 0,0,0 ,, 0,1,0 -i 3 -I 8k -L 6M
v striped-third 0,0,0 ,, 2,2,1 -i 3 -I 8k -L 6M
v striped-data 0,0,0 ,512b, 0,0,0 -i 3 -I 8k -L 6M
v striped-made-up 2048,63,2048 ,, 0,0,0 -i 3 -I 8k -L 6M
v striped-both 2048,2048,63 ,8k, 1,0,0 -i 3 -I 8k -L 6M
v linear-over-three 0,0,0 ,, 0,1,3 -L 60M
v raid0-second 0,0,0 ,, 0,1,0 --type raid0 -i 3 -I 8k -L 6M
v raid5 0,0,0 ,, 1,0,1 --type raid5 -i 2 -I 8k -L 6M
v raid1 0,0,0 ,, 1,0,1 --type raid1 -m 2 -L 6M
v thin-aligned 0,0,0 ,, 0,0,0 thin
v thin-off 0,0,0 ,, 0,1,0 thin
v thin-data 0,0,0 ,7k, 0,0,0 thin
v thin-made-up 0,63,0 ,, 0,0,0 thin
v snapshot-off 0,0,0 ,, 0,1,0 snapshot
v snapshot-both 0,2048,0 ,512b, 1,0,0 snapshot
v cachevol-off 0,0,0 ,, 0,3,0 cachevol
v writecache-off 0,0,0 ,, 1,1,0 writecache
exit "$failed"
