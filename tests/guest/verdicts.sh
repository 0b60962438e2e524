#!/bin/bash
# Makes stacks whose tools follow the disk's alignment offset, and arrays that are examined from each of their
# members; records the reports of straddle and the kernel.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/verdicts.sh [PART...]
#
# leaves in DIR
#   follow-NAME.{json,rc}     `check --json` of the disk; follow-NAME.align: the kernel's alignment_offset of what is on top
#   md-NAME-MEMBER.WHEN.json  the same of each member: WHEN is created, assembled, or stopped (the bytes alone)
#   md-NAME.facts             data offset of each member in sectors, alignment_offset of md0p1 and md0p2
#   once-NAME.json            `check --json` of all disks
# Parts: follow, md, once.
# shellcheck disable=SC2317  # called by name
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

lvm_setup

check() { # NAME TARGET...
	local name=$1
	shift
	"$STRADDLE" check --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
	echo $? >"$OUT/$name.rc"
}

# --- what follows the alignment offset ---------------------------------------

volume() { # NODE OPTION... : a file system on LVM; its device is $top
	local node=$1
	shift
	pvcreate -qq -y "$@" "$node" && vgcreate -qq vg "$node" && lvcreate -qq -y -Wn -n a -L 8M vg &&
		mkfs.ext4 -q -b 4096 /dev/vg/a && top=$(dmk vg-a)
}

container() { # NODE OPTION...
	local node=$1
	shift
	printf secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" "$node" - &&
		printf secret | cryptsetup open "$node" c0 - && top=$(dmk c0)
}

made() { # NAME
	check "follow-$1" "/dev/$D"
	attr "$top" alignment_offset >"$OUT/follow-$1.align"
	[ ! -e /dev/vg ] || vgchange -qq -an vg
	[ ! -e /dev/mapper/c0 ] || cryptsetup close c0
}

disk() { sdbg dev_size_mb=64 physblk_exp=3 "$@"; }
fixed=(--config 'devices/data_alignment_offset_detection=0')

follow() {
	disk && gpt "$D" 98304 2049 && volume "/dev/${D}1" && made lvm-2049 &&
		disk lowest_aligned=7 && volume "/dev/$D" && made lvm-whole-7 &&
		disk && gpt "$D" 98304 63 && container "/dev/${D}1" --type luks1 && made luks1-63 &&
		disk && gpt "$D" 98304 63 && container "/dev/${D}1" --type luks2 --sector-size 512 && made luks2-63 &&
		disk lowest_aligned=1 && gpt "$D" 98304 2048 && volume "/dev/${D}1" && made lvm-2048-1 &&
		disk && gpt "$D" 98304 2049 && volume "/dev/${D}1" "${fixed[@]}" && made lvm-2049-fixed &&
		disk lowest_aligned=7 && volume "/dev/$D" "${fixed[@]}" && made lvm-whole-7-fixed &&
		disk && gpt "$D" 98304 2049 && top=${D}1 && made unused-2049 &&
		disk && gpt "$D" 98304 2049 && mkfs.ext4 -q -b 4096 "/dev/${D}1" && top=${D}1 && made ext4-2049
}

# --- arrays, from each member ------------------------------------------------

array() { # NAME LEVEL LAYOUT MEMBERS DATA-OFFSET
	local name=$1 options=() nodes=("${DISKS[@]:0:$4}") disk
	[ "$3" = - ] || options+=(--layout="$3")
	[ "$5" = - ] || options+=(--data-offset="$5")
	[ "$2" = 1 ] || options+=(--chunk=64)
	nodes=("${nodes[@]/#//dev/}")
	wipefs -qa "${nodes[@]}"
	mdadm --create /dev/md0 --quiet --run --assume-clean --level="$2" --metadata=1.2 --raid-devices="$4" \
		"${options[@]}" "${nodes[@]}" && gpt md0 8192 2048 20481 || return
	for disk in "${DISKS[@]:0:$4}"; do
		echo "$disk $(cat "/sys/block/md0/md/dev-$disk/offset")"
		check "md-$name-$disk.created" "/dev/$disk"
	done >"$OUT/md-$name.facts"
	echo "p1 $(attr md0p1 alignment_offset)" >>"$OUT/md-$name.facts"
	echo "p2 $(attr md0p2 alignment_offset)" >>"$OUT/md-$name.facts"
	mdadm --quiet --stop /dev/md0 && mdadm --quiet --assemble /dev/md0 "${nodes[@]}" || return
	for disk in "${DISKS[@]:0:$4}"; do check "md-$name-$disk.assembled" "/dev/$disk"; done
	mdadm --quiet --stop /dev/md0
	for disk in "${DISKS[@]:0:$4}"; do check "md-$name-$disk.stopped" "/dev/$disk"; done
}

md() {
	local name level layout members offset
	sdbg dev_size_mb=32 physblk_exp=3 add_host=4 per_host_store=1 || return
	while read -r name level layout members offset; do
		taken 5 || continue
		array "$name" "$level" "$layout" "$members" "$offset" || { echo "md $name: not set up" >&2; return 1; }
	done <<-END
		0            0  -                4 -
		0-7k         0  -                4 7K
		1-7k         1  -                2 7K
		4            4  -                3 -
		4-7k         4  -                3 7K
		5ls          5  left-symmetric   3 -
		5ls-7k       5  left-symmetric   3 7K
		5la-1025     5  left-asymmetric  3 1025s
		5rs-7k       5  right-symmetric  3 7K
		6ls          6  left-symmetric   4 -
		6ls-7k       6  left-symmetric   4 7K
		6nr-1025     6  ddf-N-restart    4 1025s
		10n2         10 n2               4 -
		10n2-7k      10 n2               4 7K
		10f2-7k      10 f2               3 7K
		10o2-1025    10 o2               3 1025s
	END
}

# --- one cause, one finding --------------------------------------------------

once() {
	local nodes
	# A misaligned array with volumes on it.
	sdbg dev_size_mb=64 physblk_exp=3 add_host=3 per_host_store=1 || return
	nodes=("${DISKS[@]/#//dev/}")
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=5 --metadata=1.2 --raid-devices=3 --chunk=64 \
		--data-offset=7K "${nodes[@]}" || return
	pvcreate -qq -y /dev/md0 && vgcreate -qq vg /dev/md0 && lvcreate -qq -y -Wn -n a -L 8M vg &&
		lvcreate -qq -y -Wn -n b -L 8M vg || return
	attr md0 alignment_offset >"$OUT/once-array.align"
	attr "$(dmk vg-a)" alignment_offset >>"$OUT/once-array.align"
	check once-array
	vgchange -qq -an vg
	mdadm --quiet --stop /dev/md0
	# A file system with small blocks on a thin volume, which four devices show.
	disk && gpt "$D" 98304 2048 || return
	pvcreate -qq -y "/dev/${D}1" && vgcreate -qq vg "/dev/${D}1" &&
		lvcreate -qq --type thin-pool -n pool -L 16M -c 64k --poolmetadatasize 2M -Zn vg &&
		lvcreate -qq -V 20M --thin -n thin vg/pool && mkfs.ext4 -q -b 1024 /dev/vg/thin || return
	check once-thin
	vgchange -qq -an vg
	# A file system with small blocks on an array of four partitions. It takes its hints from the device's
	# optimal I/O size, a multiple of the stripe.
	sdbg dev_size_mb=128 physblk_exp=3 opt_blks=1024 && gpt "$D" 49152 2048 51200 100352 149504 || return
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=5 --metadata=1.2 --raid-devices=3 --chunk=64 \
		"/dev/${D}1" "/dev/${D}2" "/dev/${D}3" || return
	mkfs.ext4 -q -b 1024 /dev/md0 && dumpe2fs -h /dev/md0 >"$OUT/once-hints.fs" 2>&1 || return
	attr md0 queue/optimal_io_size >"$OUT/once-hints.opt"
	check once-hints
	mdadm --quiet --stop /dev/md0
	below && two && stripe
}

# Volumes off the stripe of an array: extents of 4 MiB on a stripe of 192 KiB.
stripe() {
	local nodes
	sdbg dev_size_mb=32 physblk_exp=3 add_host=4 per_host_store=1 || return
	nodes=("${DISKS[@]/#//dev/}")
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=5 --metadata=1.2 --raid-devices=4 --chunk=64 \
		"${nodes[@]}" || return
	pvcreate -qq -y /dev/md0 && vgcreate -qq vg /dev/md0 || return
	for name in a b c; do lvcreate -qq -y -Wn -n "$name" -L 8M vg || return; done
	sync
	check once-stripe
	check once-stripe-alone "${nodes[1]}"
	vgchange -qq -an vg
	mdadm --quiet --stop /dev/md0
	check once-stripe-stopped "${nodes[@]}"
}

# A misalignment shows on every device above: two partitions at sector 63 under an array, one under a
# container.
below() {
	sdbg dev_size_mb=64 physblk_exp=3 add_host=2 per_host_store=1 || return
	gpt "${DISKS[0]}" 98304 63 && gpt "${DISKS[1]}" 98304 63 || return
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata=1.2 --raid-devices=2 \
		"/dev/${DISKS[0]}1" "/dev/${DISKS[1]}1" && mkfs.ext4 -q -b 4096 /dev/md0 || return
	check once-below-md
	check once-below-md-alone /dev/md0
	mdadm --quiet --stop /dev/md0
	disk && gpt "$D" 98304 63 && container "/dev/${D}1" --type luks2 --sector-size 512 --offset 32768 &&
		mkfs.ext4 -q -b 4096 /dev/mapper/c0 || return
	check once-below-luks
	cryptsetup close c0
}

# One file system with small blocks over both partitions of a disk, seen from each: an array with a name, one
# without (metadata 0.90), and a volume.
two() {
	local version
	sdbg dev_size_mb=128 physblk_exp=3 && gpt "$D" 98304 2048 100352 || return
	for version in named=1.2 nameless=0.90; do
		mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata="${version#*=}" --raid-devices=2 \
			"/dev/${D}1" "/dev/${D}2" && mkfs.ext4 -q -b 1024 /dev/md0 && sync || return
		check_two "${version%=*}" live
		mdadm --quiet --stop /dev/md0
		check_two "${version%=*}" offline
		mdadm --zero-superblock "/dev/${D}1" "/dev/${D}2" && wipefs -qa "/dev/${D}1" "/dev/${D}2"
	done
	pvcreate -qq -y "/dev/${D}1" "/dev/${D}2" && vgcreate -qq vg "/dev/${D}1" "/dev/${D}2" &&
		lvcreate -qq -y -Wn -n a -L 60M vg && mkfs.ext4 -q -b 1024 /dev/vg/a && sync || return
	check_two volume live
	vgchange -qq -an vg
	check_two volume offline
}

check_two() { # NAME live|offline
	check "once-two-$1-$2-1" "/dev/${D}1"
	check "once-two-$1-$2-2" "/dev/${D}2"
	[ "$2" != live ] || check "once-two-$1-disk" "/dev/$D"
}

failed=0
for part in follow md once; do
	[ $# -eq 0 ] || [[ " $* " = *" $part "* ]] || continue
	"$part" || { echo "$part: not set up" >&2; failed=1; }
done
exit $failed
