#!/bin/bash
# Makes small images of every kind of layer between a partition and a file system, with the real tools and the
# kernel.
#
#   tests/guest/run -t 600 -o DIR tests/guest/stacks-md-lvm.sh [PART...]     PART: md lvm luks mapped nested
#
# leaves in DIR a directory for each stack with
#   N.img         its members
#   N.md          mdadm -E of each (md)
#   pvs, lvs, dm  what LVM says of the group, and the kernel's own tables (lvm)
#   N.luks        cryptsetup luksDump (luks)
#   N.integrity, N.bcache   what their tools say of them (mapped)
#   N.blkid       blkid -p of each
#
# Every file system in them is an ext4 labelled with the name of the device below it (at most 16 characters).

# In `A && B || say`, `say` is meant to run if either fails.
# shellcheck disable=SC2015
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

members=()
failed=0

# say NAME : reports that the stack NAME could not be made
say() { echo "$1: cannot be made" >&2; failed=1; }

# disks COUNT MIB : makes COUNT empty members, from /dev/loop0 on
disks() {
	local i
	for ((i = 0; i < ${#members[@]}; i++)); do losetup -d "/dev/loop$i"; done
	members=()
	for ((i = 0; i < $1; i++)); do
		rm -f "/tmp/$i.img"
		truncate -s "$2M" "/tmp/$i.img" && losetup "/dev/loop$i" "/tmp/$i.img" || return
		members+=("/dev/loop$i")
	done
}

# keep NAME : copies the present contents of the members, and blkid's view of them
keep() {
	local i
	sync
	mkdir -p "$OUT/$1"
	for ((i = 0; i < ${#members[@]}; i++)); do
		cp --sparse=always "/tmp/$i.img" "$OUT/$1/$i.img" || return
		blkid -p -o export "${members[i]}" >"$OUT/$1/$i.blkid" 2>&1
	done
}

# fs LABEL DEVICE
fs() { mkfs.ext4 -q -F -O ^has_journal,^resize_inode -L "$1" "$2" 2>/dev/null; }

# array NAME COUNT OPTION... : makes an md array of COUNT members, never synchronised, in /dev/md0
array() {
	local name=$1 count=$2
	shift 2
	disks "$count" 12 || return
	mdadm --create /dev/md0 --quiet --run --assume-clean --name="$name" --homehost=any \
		--raid-devices="$count" "$@" "${members[@]}" 2>&1 | grep -v 'size set to\|mdadm: array'
	[ -b /dev/md0 ]
}

# stop NAME : stops the array and keeps its members
stop() {
	local i
	sync
	mdadm --quiet --stop /dev/md0 || return
	keep "$1" || return
	for ((i = 0; i < ${#members[@]}; i++)); do mdadm -E "${members[i]}" >"$OUT/$1/$i.md" 2>&1; done
}

md() {
	local name count options
	while read -r name count options; do
		[ -n "$name" ] && taken 3 || continue
		# shellcheck disable=SC2086  # several words
		array "$name" $count $options && fs "$name" /dev/md0 && stop "$name" || say "$name"
	done <<-'END'
		raid1-090      2 --level=1 --metadata=0.90
		raid1-10       2 --level=1 --metadata=1.0
		raid1-11       2 --level=1 --metadata=1.1
		raid1-12       2 --level=1 --metadata=1.2
		raid1-7k       2 --level=1 --metadata=1.2 --data-offset=2055s
		linear-12      2 --level=linear --metadata=1.2
		raid0-12       3 --level=0 --metadata=1.2 --chunk=64
		raid0-10       2 --level=0 --metadata=1.0 --chunk=4
		raid4-12       3 --level=4 --metadata=1.2 --chunk=64
		raid5-090      3 --level=5 --metadata=0.90 --chunk=64
		raid5-la       3 --level=5 --chunk=64 --layout=left-asymmetric
		raid5-ra       3 --level=5 --chunk=64 --layout=right-asymmetric
		raid5-ls       4 --level=5 --chunk=128 --layout=left-symmetric
		raid5-rs       3 --level=5 --chunk=64 --layout=right-symmetric
		raid5-pf       3 --level=5 --chunk=64 --layout=parity-first
		raid5-pl       3 --level=5 --chunk=64 --layout=parity-last
		raid6-la       5 --level=6 --chunk=64 --layout=left-asymmetric
		raid6-ra       5 --level=6 --chunk=64 --layout=right-asymmetric
		raid6-ls       5 --level=6 --chunk=64 --layout=left-symmetric
		raid6-rs       5 --level=6 --chunk=64 --layout=right-symmetric
		raid6-pf       5 --level=6 --chunk=64 --layout=parity-first
		raid6-zr       5 --level=6 --chunk=64 --layout=ddf-zero-restart
		raid6-nr       5 --level=6 --chunk=64 --layout=ddf-N-restart
		raid6-nc       5 --level=6 --chunk=64 --layout=ddf-N-continue
		raid6-la6      5 --level=6 --chunk=64 --layout=left-asymmetric-6
		raid6-ra6      5 --level=6 --chunk=64 --layout=right-asymmetric-6
		raid6-ls6      5 --level=6 --chunk=64 --layout=left-symmetric-6
		raid6-rs6      5 --level=6 --chunk=64 --layout=right-symmetric-6
		raid6-pf6      5 --level=6 --chunk=64 --layout=parity-first-6
		raid10-n2      4 --level=10 --chunk=64 --layout=n2
		raid10-n2-odd  3 --level=10 --chunk=64 --layout=n2
		raid10-n3-all  3 --level=10 --chunk=64 --layout=n3
		raid10-f2      4 --level=10 --chunk=64 --layout=f2
		raid10-o2      4 --level=10 --chunk=64 --layout=o2
	END
}

# quietly COMMAND... : prints only the command's errors; returns its exit status
quietly() { "$@" 2>&1 >/dev/null | grep -v 'WARNING\|NOT backed up\|lvcreate --help' >&2; return "${PIPESTATUS[0]}"; }

# volume NAME OPTION... : makes a logical volume with a file system
volume() {
	local name=$1
	shift
	{ quietly lvcreate -y -Wn -n "$name" "$@" vg && fs "$name" "/dev/vg/$name"; } || say "$name"
}

# Prints four numbers of the metadata area's header, at 4096; they show whether its text wraps around.
wraps() {
	local size offset length
	read -r size offset length < <(od -An -t u8 -w24 -j $((4096 + 32)) -N 24 "$1")
	[ $((offset + length)) -gt "$size" ]
}

lvm() {
	local i
	lvm_setup
	disks 5 96 || return
	# The first has a metadata area so small that its text soon wraps around, the second has another one at its
	# end, and the third has an unusual start of its extents.
	quietly pvcreate --metadatasize 124k --dataalignment 1m /dev/loop0
	quietly pvcreate --metadatacopies 2 /dev/loop1
	quietly pvcreate --dataalignment 7k /dev/loop2
	quietly pvcreate /dev/loop3 /dev/loop4
	quietly vgcreate -s 1M vg "${members[@]}" || return
	volume linear -L 4M
	volume striped -i 2 -I 64k -L 8M
	volume raid0 --type raid0 -i 3 -I 64k -L 9M
	volume raid0meta --type raid0_meta -i 2 -I 128k -L 8M
	volume raid1 --type raid1 -m 1 -L 8M
	volume raid4 --type raid4 -i 2 -I 64k -L 8M
	# With the first chunk alone the parity is a copy of it.
	dd if=/dev/urandom of=/dev/vg/raid4 bs=64K seek=1 count=1 conv=notrunc,fsync status=none
	volume raid5 --type raid5 -i 2 -I 64k -L 8M
	for i in ra la rs n; do volume "raid5_$i" --type "raid5_$i" -i 2 -I 64k -L 4M; done
	volume raid6 --type raid6 -i 3 -I 64k -L 9M
	for i in nr nc ls_6 la_6 rs_6 ra_6 n_6; do volume "raid6_$i" --type "raid6_$i" -i 3 -I 64k -L 3M; done
	volume raid10 --type raid10 -i 2 -m 1 -I 64k -L 8M
	volume mirror --type mirror -m 1 --mirrorlog core -L 4M
	volume two -L 4M
	quietly lvcreate -y -n gap -L 1M vg
	quietly lvextend -L +3M vg/two
	quietly lvcreate -y -n moved -L 6M vg /dev/loop4 && fs moved /dev/vg/moved
	quietly lvextend -L +4M vg/moved /dev/loop0
	quietly lvcreate -y --type thin-pool -n pool -L 8M -c 64k --poolmetadatasize 4M -Zn vg
	quietly lvcreate -y -V 20M --thin -n thin vg/pool && fs thin /dev/vg/thin
	quietly lvcreate -y -s -L 4M -n snap vg/linear
	quietly lvcreate -y --type cache-pool -n fast -L 8M vg /dev/loop3
	volume cached -L 8M
	quietly lvconvert -y --type cache --cachepool vg/fast vg/cached
	for ((i = 0; i < 200; i++)); do
		! wraps /dev/loop0 || break
		quietly vgchange --addtag "tag$i" vg
	done
	mkdir -p "$OUT/lvm"
	echo "$i" >"$OUT/lvm/changes"
	pvs --noheadings --nosuffix --units b --separator '|' -o pv_name,vg_name,pe_start,vg_extent_size >"$OUT/lvm/pvs"
	lvs --noheadings --nosuffix --units b --separator '|' --segments \
		-o lv_name,segtype,seg_start,seg_size,stripes,stripe_size >"$OUT/lvm/lvs"
	dmsetup table >"$OUT/lvm/dm"
	quietly vgchange -an vg
	keep lvm
}

# luks_format DEVICE OPTION...
luks_format() {
	local dev=$1
	shift
	printf secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" "$dev" -
}

luks() {
	disks 2 24 && luks_format /dev/loop0 --type luks1 && luks_format /dev/loop1 --type luks2 --label name || return
	cryptsetup luksDump /dev/loop0 >/tmp/0.luks
	cryptsetup luksDump /dev/loop1 >/tmp/1.luks
	keep luks && cp /tmp/[01].luks "$OUT/luks/"
}

mapped() {
	local name hash options
	while read -r name hash options; do
		[ -n "$name" ] || continue
		disks 1 40
		# shellcheck disable=SC2086  # several words
		{ integritysetup format -q --no-wipe --integrity "$hash" $options /dev/loop0 &&
			integritysetup dump /dev/loop0 >/tmp/0.integrity &&
			integritysetup open --integrity-recalculate --integrity "$hash" /dev/loop0 "$name"; } 2>&1 | grep -v Formatted
		fs "$name" "/dev/mapper/$name" && integritysetup close "$name" && keep "$name" || say "$name"
		cp /tmp/0.integrity "$OUT/$name/"
	done <<-'END'
		integrity-512  crc32c
		integrity-4k   crc32c  --sector-size 4096
		integrity-sha  sha256  --tag-size 32 --interleave-sectors 1024
		integrity-old  crc32c  --integrity-legacy-padding --interleave-sectors 4096
	END
	modprobe bcache
	while read -r name options; do
		[ -n "$name" ] || continue
		disks 1 24
		# shellcheck disable=SC2086
		make-bcache -B $options --writeback /dev/loop0 >/dev/null && bcache-super-show /dev/loop0 >/tmp/0.bcache
		echo /dev/loop0 >/sys/fs/bcache/register
		fs "$name" /dev/bcache0 && keep "$name" || say "$name"
		cp /tmp/0.bcache "$OUT/$name/"
		echo 1 >/sys/block/bcache0/bcache/stop
		sleep 0.2
	done <<-'END'
		bcache
		bcache-offset  --data-offset 2056 --block 4k
	END
	disks 1 24
	make-bcache -C --bucket 64k /dev/loop0 >/dev/null && keep bcache-cache || say bcache-cache
}

# Combinations of layers: partitions in md, LVM on md, LUKS on LVM.
nested() {
	array partitions 2 --level=1 --metadata=1.2 && gpt md0 4096 2048 6145 &&
		fs aligned /dev/md0p1 && fs shifted /dev/md0p2 && stop partitions || say partitions
	lvm_setup
	disks 2 40
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata=1.0 \
		--raid-devices=2 "${members[@]}" 2>/dev/null
	{ quietly vgcreate -s 1M deep /dev/md0 && quietly lvcreate -y -n crypt -L 20M deep &&
		luks_format /dev/deep/crypt --type luks2 && quietly lvcreate -y -n plain -L 8M deep &&
		fs plain /dev/deep/plain && quietly vgchange -an deep && stop deep; } || say deep
}

modprobe loop
[ $# -gt 0 ] || set -- md lvm luks mapped nested
for part; do
	case $part in
	md) md ;;
	lvm) lvm ;;
	luks) luks ;;
	mapped) mapped ;;
	nested) nested ;;
	*) false ;;
	esac || say "$part"
done
exit "$failed"
