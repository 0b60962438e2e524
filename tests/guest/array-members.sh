#!/bin/bash
# Makes members of arrays that hold a partition table, and checks them while the array runs, when it is
# stopped, and as images.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/array-members.sh
#
# leaves in DIR, for each array NAME and each of its members N
#   NAME.N.running, NAME.N.stopped   `check --json` of the member
#   NAME.N.img                       its bytes after the array was stopped
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"
export IMSM_NO_PLATFORM=1

create() { # LEVEL LAYOUT METADATA
	local options=() nodes=("${DISKS[@]/#//dev/}") metadata=("--metadata=$3")
	[ "$2" = - ] || options+=(--layout="$2")
	[ "$1" = 1 ] || [ "$1" = linear ] || options+=(--chunk=64)
	case $3 in
	ddf | imsm)
		mdadm --create /dev/md127 --quiet --run --metadata="$3" --raid-devices="${#nodes[@]}" "${nodes[@]}" || return
		metadata=() nodes=(/dev/md127)
		;;
	esac
	mdadm --create /dev/md0 --quiet --run --assume-clean --level="$1" "${metadata[@]}" --raid-devices="${#DISKS[@]}" \
		"${options[@]}" "${nodes[@]}"
}

array() { # NAME LEVEL LAYOUT MEMBERS METADATA MIB START SECTORS
	local i
	sdbg dev_size_mb="$6" physblk_exp=3 add_host="$4" per_host_store=1 && create "$2" "$3" "$5" || return
	md_table "label: dos"$'\n'"$7,$8,83" || { md_stop; return 1; }
	mkfs.ext4 -q -b 4096 /dev/md0p1 2>/dev/null && sync || return
	for i in "${!DISKS[@]}"; do "$STRADDLE" check --json "/dev/${DISKS[i]}" >"$OUT/$1.$i.running"; done
	md_stop
	for i in "${!DISKS[@]}"; do
		"$STRADDLE" check --json "/dev/${DISKS[i]}" >"$OUT/$1.$i.stopped"
		dd if="/dev/${DISKS[i]}" of="$OUT/$1.$i.img" bs=1M conv=sparse status=none
	done
	sdbg_rm
}

failed=0
while read -r name row; do
	# shellcheck disable=SC2086  # words
	! taken 4 || array "$name" $row || { echo "$name: not set up" >&2; failed=1; }
done <<-END
	mirror-090     1      -               2 0.90 16 63   16384
	mirror-10      1      -               2 1.0  16 63   16384
	mirror-12      1      -               2 1.2  16 63   16384
	mirror-imsm    1      -               2 imsm 64 63   16384
	mirror-ddf     1      -               2 ddf  64 63   16384
	raid5-090      5      left-symmetric  3 0.90 16 63   40000
	raid0-10       0      -               2 1.0  16 63   40000
	raid0-small    0      -               2 1.0  16 63   16384
	raid0-12       0      -               3 1.2  16 63   40000
	raid0-imsm     0      -               2 imsm 64 63   16384
	raid0-ddf      0      -               2 ddf  64 63   16384
	linear-10      linear -               2 1.0  16 63   40000
	raid5-10       5      left-symmetric  3 1.0  16 63   40000
	raid5-small    5      left-symmetric  3 1.0  16 63   16384
	raid5-right    5      right-symmetric 3 1.0  16 63   40000
	raid5-12       5      left-symmetric  3 1.2  16 63   40000
	raid6-10       6      left-symmetric  4 1.0  16 63   40000
	raid10-10      10     n2              4 1.0  16 63   40000
	raid10-far     10     f2              3 1.0  16 63   40000
	aligned-mirror 1      -               2 1.0  16 2048 16384
	aligned-imsm   1      -               2 imsm 64 2048 16384
	aligned-raid0  0      -               2 1.0  16 2048 40000
	aligned-raid5  5      left-symmetric  3 1.0  16 2048 40000
END
exit "$failed"
