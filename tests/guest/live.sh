#!/bin/bash
# Makes stacks as on real machines, and examines them live and from the disk's bytes, with the reports of the
# kernel and other tools.
#
#   tests/guest/run -o DIR -e PROBE=/path/to/live_guest [-e STRADDLE=/path/to/straddle] \
#       tests/guest/live.sh [STACK...]
#
# PROBE is the test executable of crates/layout. For each
# stack this leaves in DIR
#   STACK.tree        the layers that PROBE sees on each partition, one per line
#   STACK.compared    where the table has other partitions than the kernel, with both versions
#   STACK.judges      the tools' output, in sections "== command"; no keys
# with STRADDLE, STACK.{live,image}.{json,err,rc}: `check --json` of the disk
# and of a copy of its bytes; and for all of them
#   verified          for each device that was filled with its own addresses, how
#                     many pieces of the disk held what PROBE reported
# shellcheck disable=SC2317  # called by name, as stack_NAME
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

lvm_setup
modprobe -a loop dm-mod 2>/dev/null

probe() { # tree NAME | compare DISK | fill NODE | verify DISK LAYER
	local said
	if said=$(PROBE_DO="$*" "$PROBE" --exact --ignored --nocapture --test-threads=1 tests::live_guest::in_the_guest 2>&1); then
		sed -n 's/^.*PROBE: //p' <<<"$said"
	else
		printf '%s: probe %s failed\n%s\n' "$stack" "$*" "$said" >&2
		failed=1
	fi
}

straddle() { # NAME TARGET
	[ -n "${STRADDLE-}" ] || return 0
	"$STRADDLE" check --json "$2" >"$OUT/$stack.$1.json" 2>"$OUT/$stack.$1.err"
	echo $? >"$OUT/$stack.$1.rc"
}

ask() { # COMMAND... : its output as a section
	echo "== $*"
	"$@" </dev/null 2>&1
}

# Records every tool's view of the present disk.
look() {
	sync
	# The disk's node has a page cache of its own, which may be older than what
	# was written through a partition's.
	echo 3 >/proc/sys/vm/drop_caches
	local part
	for part in /sys/class/block/"$D"?*; do
		probe tree "${part##*/}"
	done >"$OUT/$stack.tree"
	probe compare "$D" >"$OUT/$stack.compared"
	{
		ask dmsetup table # prints zeros for keys
		ask lsblk -t "/dev/$D"
		ask pvs --units s -o pv_name,pe_start
		ask lvs -a --units s -o lv_name,segtype,seg_start,seg_size,devices
		for part in /dev/"$D"?*; do ask mdadm -E "$part"; done
		for part in $opened; do ask cryptsetup status "$part"; done
	} >"$OUT/$stack.judges"
	dd if="/dev/$D" of=/tmp/copy.img bs=1M status=none
	straddle live "/dev/$D"
	straddle image /tmp/copy.img
	rm -f /tmp/copy.img
}

# Fills NODE, then compares every piece of LAYER on the disk with what was written.
check_filled() { # NODE LAYER [WORDS]
	probe fill "$1"
	sync
	echo 3 >/proc/sys/vm/drop_caches
	echo "$(probe verify "$D" "$2") ${3-}" >>"$OUT/verified"
}

parts() { # START... : a partition of 48 MiB at each
	gpt "$D" 98304 "$@"
}

four() { parts 2048 "${1-100609}" 200704 301056; } # the second is one sector off

luks_open() { # NODE NAME OPTION...
	local node=$1 name=$2
	shift 2
	printf secret | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" "$node" - &&
		printf secret | cryptsetup open --disable-keyring "$node" "$name" - && opened+=" $name"
}

md() { # LEVEL LAYOUT MEMBERS
	local options=()
	[ "$2" = - ] || options+=(--layout="$2")
	[ "$1" = 1 ] || [ "$1" = linear ] || options+=(--chunk=64)
	# shellcheck disable=SC2046
	mdadm --create /dev/md0 --quiet --run --assume-clean --level="$1" "${options[@]}" \
		--metadata=1.2 --raid-devices="$3" $(seq -f "/dev/$D%.0f" 1 "$3")
}

md_stop() { mdadm --quiet --stop /dev/md0; }

# --- the stacks --------------------------------------------------------------

stack_full() {
	parts 2048 100609 || return
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata=1.2 --raid-devices=2 \
		"/dev/${D}1" "/dev/${D}2" || return
	luks_open /dev/md0 c0 --type luks2 || return
	vgcreate -qq -s 1M vg /dev/mapper/c0 && lvcreate -qq -Wn -n root -L 18M vg || return
	mkfs.ext4 -q -L rootfs /dev/vg/root && mount /dev/vg/root /mnt || return
	truncate -s 4M /mnt/disk.img && losetup -o 512 /dev/loop0 /mnt/disk.img || return
	look
	losetup -d /dev/loop0
	umount /mnt
	vgchange -qq -an vg
	cryptsetup close c0
	md_stop
}

# XFS requires at least 300 MiB.
stack_xfs() {
	gpt "$D" 737280 2048 || return
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata=1.2 --raid-devices=2 \
		"/dev/${D}1" missing || return
	luks_open /dev/md0 c0 --type luks2 --sector-size 4096 || return
	vgcreate -qq vg /dev/mapper/c0 && lvcreate -qq -Wn -n root -L 320M vg || return
	mkfs.xfs -q -L data /dev/vg/root && mount /dev/vg/root /mnt || return
	look
	umount /mnt
	vgchange -qq -an vg
	cryptsetup close c0
	md_stop
}

stack_segments() {
	parts 2048 100609 || return
	vgcreate -qq -s 1M vg "/dev/${D}1" && lvcreate -qq -Wn -n a -L 8M vg && lvcreate -qq -Wn -n b -L 8M vg &&
		lvextend -qq -L 16M vg/a || return
	check_filled /dev/vg/a vg/a
	mkfs.ext4 -q /dev/vg/a && mkswap -q /dev/vg/b >/dev/null && swapon /dev/vg/b && mount /dev/vg/a /mnt || return
	look
	umount /mnt
	swapoff /dev/vg/b
	vgchange -qq -an vg
}

stack_linear() {
	parts 2048 || return
	dmsetup create off <<<"0 65536 linear /dev/${D}1 1" || return
	check_filled /dev/mapper/off off
	mkfs.ext4 -q -L shifted /dev/mapper/off && mount /dev/mapper/off /mnt || return
	look
	umount /mnt
	dmsetup remove off
}

stack_luks_offset() {
	parts 2048 100609 || return
	luks_open "/dev/${D}1" c0 --type luks1 --offset 4104 || return
	luks_open "/dev/${D}2" c1 --type luks2 --offset 32776 --sector-size 512 || return
	mkfs.ext4 -q /dev/mapper/c0 && mount /dev/mapper/c0 /mnt || return
	look
	umount /mnt
	cryptsetup close c0
	cryptsetup close c1
}

stack_striped() {
	four || return
	vgcreate -qq -s 1M vg "/dev/${D}"[1-4] || return
	lvcreate -qq -Wn -n str -i 2 -I 16k -L 8M vg && lvcreate -qq -Wn -n str3 -i 3 -I 64k -L 9M vg &&
		lvextend -qq -L 12M vg/str || return
	check_filled /dev/vg/str vg/str
	check_filled /dev/vg/str3 vg/str3
	look
	vgchange -qq -an vg
}

stack_lvm() {
	four || return
	vgcreate -qq -s 1M vg "/dev/${D}"[1-4] || return
	lvcreate -qq -Wn -n r1 --type raid1 -m 1 -L 4M --nosync vg &&
		lvcreate -qq -Wn -n r5 --type raid5 -i 2 -I 16k -L 4M --nosync vg &&
		lvcreate -qq -Wn -n r10 --type raid10 -i 2 -m 1 -I 16k -L 4M --nosync vg &&
		lvcreate -qq -Wn -n mir --type mirror -m 1 --mirrorlog core -L 4M --nosync vg || return
	for lv in r1 r5 r10 mir; do check_filled "/dev/vg/$lv" "vg/$lv"; done
	lvcreate -qq --type thin-pool -n pool -L 8M -c 64k --poolmetadatasize 2M -Zn vg "/dev/${D}1" &&
		lvcreate -qq -V 20M --thin -n thin vg/pool &&
		lvcreate -qq -Wn -n base -L 4M vg && lvcreate -qq -s -L 2M -n snap vg/base || return
	mkfs.ext4 -q -L thinfs /dev/vg/thin && mount /dev/vg/thin /mnt || return
	look
	umount /mnt
	vgchange -qq -an vg
}

stack_md() {
	local level layout members
	while read -r level layout members; do
		taken 3 || continue
		four && md "$level" "$layout" "$members" || return
		check_filled /dev/md0 md0 "level $level, layout $layout, $members members"
		md_stop
		wipefs -qa "/dev/${D}"[1-4]
	done <<-END
		linear - 3
		0 - 3
		1 - 2
		4 - 3
		5 left-asymmetric 4
		5 right-asymmetric 4
		5 left-symmetric 4
		5 right-symmetric 4
		5 parity-first 4
		5 parity-last 4
		6 left-asymmetric 4
		6 right-asymmetric 4
		6 left-symmetric 4
		6 right-symmetric 4
		6 parity-first 4
		6 parity-last 4
		6 ddf-zero-restart 4
		6 ddf-N-restart 4
		6 ddf-N-continue 4
		6 left-asymmetric-6 4
		6 right-asymmetric-6 4
		6 left-symmetric-6 4
		6 right-symmetric-6 4
		6 parity-first-6 4
		10 n2 4
		10 n2 3
		10 n3 4
		10 f2 3
		10 o2 3
	END
}

stack_md_parts() {
	# LVM refuses a partition of an array whose members are not aligned alike: it takes the kernel's -1, which a
	# partition shows as 4294967295, for an offset.
	four 100608 && md 5 - 3 && gpt md0 16384 2048 20481 || return
	vgcreate -qq -s 1M vg /dev/md0p2 && lvcreate -qq -Wn -n lv -L 4M vg || return
	check_filled /dev/vg/lv vg/lv
	mkfs.ext4 -q -L inner /dev/md0p1 && mount /dev/md0p1 /mnt || return
	look
	umount /mnt
	vgchange -qq -an vg
	md_stop
}

stack_mapped() {
	four || return
	modprobe bcache && make-bcache -B "/dev/${D}1" --data-offset 2056 >/dev/null &&
		echo "/dev/${D}1" >/sys/fs/bcache/register || return
	for ((i = 0; i < 200; i++)); do [ ! -b /dev/bcache0 ] || break; sleep 0.02; done
	check_filled /dev/bcache0 bcache0
	integritysetup format -q --sector-size 512 "/dev/${D}2" >/dev/null && integritysetup open "/dev/${D}2" i0 || return
	veritysetup format "/dev/${D}3" "/dev/${D}4" >"$OUT/verity.txt" &&
		veritysetup open "/dev/${D}3" v0 "/dev/${D}4" "$(sed -n 's/^Root hash:[[:space:]]*//p' "$OUT/verity.txt")" || return
	look
	veritysetup close v0
	integritysetup close i0
	echo 1 >/sys/block/bcache0/bcache/stop
	sleep 1
}

# Here the kernel does not know the table on the disk.
stack_changed() {
	parts 2048 100609 200704 || return
	# The third begins one sector later, and the fourth is new.
	sfdisk -q --no-reread --no-tell-kernel --force "/dev/$D" <<-END 2>/dev/null || return
		label: gpt
		first-lba: 34
		start=2048, size=98304
		start=100609, size=98304
		start=200705, size=98303
		start=301056, size=2048
	END
	look
}

failed=0 stack=''
: >"$OUT/verified"
for stack in full xfs segments linear luks_offset striped lvm md md_parts mapped changed; do
	[ $# -eq 0 ] || [[ " $* " = *" $stack "* ]] || continue
	opened='' size=256
	[ "$stack" != xfs ] || size=384
	sdbg dev_size_mb=$size physblk_exp=3 || exit
	"stack_$stack" || { echo "$stack: not set up" >&2; failed=1; break; }
done
exit $failed
