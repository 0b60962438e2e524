#!/bin/bash
# Makes disks with several layers, aligned and misaligned, with the real tools, and records what these tools
# report for each layer.
#
#   tests/guest/run -t 900 -m 2G -o DIR tests/guest/stacks.sh [NAME...]
#
# leaves in DIR an image NAME.img of each disk below, and manifest.tsv: NAME, and a column for each layer from
# the disk up, as its own tool or the kernel reports it, never as the options given here requested it:
#   part=START  md=OFFSET  pv=START  luks1=OFFSET  luks2=OFFSET  bcache=OFFSET  integrity=OFFSET
#                  where the space of the layer starts on the device below, in bytes
#   lv=AT:PLACE,...
#                  its segments: the offset of each in the volume, and on the physical volume from its first byte
#   anything else= blkid's TYPE of the top layer
#
# A step is KIND:ARGUMENT:..., with - for the tool's default:
#   part:START:TABLE         gpt, mbr, or logical (in an extended partition of an mbr), in sectors of 512 bytes
#   md:LEVEL:METADATA:DATA-OFFSET:CHUNK
#   lvm:DATAALIGNMENT:DATAALIGNMENTOFFSET:EXTENT:SHAPE
#          plain, after,GAP,EXTENTS (behind a gap), two,EXTENTS,GAP,EXTENTS (two segments), striped (over two disks)
#   luks1:ALIGN-PAYLOAD  luks2:OFFSET  luks2a:ALIGN-PAYLOAD  integrity:OPTIONS  bcache:DATA-OFFSET
#   drive                    first of all: a 512e scsi_debug disk in place of a loop device, whose topology tools follow
#   ext4 ext4-1k xfs swap vfat btrfs

# The names of steps, and of the functions that undo them, are composed at run time.
# shellcheck disable=SC2317
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

stacks='
whole-ext4              ext4
whole-ext4-1k           ext4-1k
whole-swap              swap
whole-vfat              vfat
whole-btrfs             btrfs
whole-xfs               xfs
whole-luks1             luks1:- ext4
whole-luks1-8           luks1:8 ext4
whole-luks1-7           luks1:7 ext4
whole-luks2             luks2:- ext4
whole-luks2-odd         luks2a:9 xfs
whole-md090             md:1:0.90:- ext4
whole-md10              md:1:1.0:- swap
whole-md11              md:1:1.1:- ext4
whole-md12              md:1:1.2:- ext4
whole-md12-7k           md:1:1.2:7K ext4
whole-md12-1025         md:1:1.2:1025s ext4
whole-md11-1029         md:1:1.1:1029s swap
whole-raid0             md:0:1.2:- ext4
whole-raid0-1025        md:0:1.2:1025s ext4
whole-raid5-7k          md:5:1.2:7K:64 ext4
whole-raid10-2050       md:10:1.2:2050s:64 ext4
whole-linear-1027       md:linear:1.2:1027s ext4
whole-lvm               lvm:-:-:4m:plain ext4
whole-lvm-7k            lvm:7k:-:4m:plain ext4
whole-lvm-512           lvm:1m:512b:4m:plain xfs
whole-lvm-192k          lvm:192k:-:4m:plain swap
whole-lvm-after-1k      lvm:-:-:1k:after,3,9000 ext4
whole-lvm-after-4k      lvm:-:-:1k:after,4,9000 ext4
whole-lvm-two-1k        lvm:-:-:1k:two,8001,1,8003 ext4
whole-lvm-two-4m        lvm:-:-:4m:two,2,1,3 ext4
whole-lvm-two-7k        lvm:-:-:1k:two,8001,7,8000 ext4
whole-lvm-striped       lvm:-:-:4m:striped ext4
whole-lvm-striped-7k    lvm:7k:-:4m:striped ext4
whole-bcache            bcache:- ext4
whole-bcache-odd        bcache:2057 ext4
whole-integrity         integrity:- ext4
part2048-ext4           part:2048:gpt ext4
part2048-ext4-1k        part:2048:mbr ext4-1k
part63-ext4             part:63:mbr ext4
part34-xfs              part:34:gpt xfs
part40-swap             part:40:gpt swap
part2049-btrfs          part:2049:gpt btrfs
part4095-vfat           part:4095:mbr vfat
logical63-ext4          part:63:logical ext4
logical4096-ext4        part:4096:logical ext4
part2048-luks1-7        part:2048:gpt luks1:7 ext4
part2048-luks1-2048     part:2048:mbr luks1:2048 ext4
part63-luks1            part:63:mbr luks1:- ext4
part2048-luks2          part:2048:gpt luks2:- ext4
part34-luks2            part:34:gpt luks2:40960 ext4
part63-luks2-meet       part:63:mbr luks2a:9 ext4
part2049-luks2-odd      part:2049:gpt luks2a:9 ext4
part2048-md12           part:2048:gpt md:1:1.2:- ext4
part63-md090            part:63:mbr md:1:0.90:- ext4
part2049-md10           part:2049:gpt md:1:1.0:- ext4
part63-md12-meet        part:63:mbr md:1:1.2:2049s ext4
part34-md12-7k          part:34:gpt md:1:1.2:7K ext4
part2048-raid5-1025     part:2048:gpt md:5:1.2:1025s:64 ext4
part2048-lvm            part:2048:gpt lvm:-:-:4m:plain ext4
part63-lvm              part:63:mbr lvm:-:-:4m:plain ext4
part63-lvm-meet         part:63:mbr lvm:1m:512b:4m:plain ext4
part2049-lvm-512        part:2049:gpt lvm:1m:512b:4m:plain swap
part2048-lvm-7k-after   part:2048:gpt lvm:7k:-:1k:after,1,9000 ext4
part2048-lvm-7k-meet    part:2048:gpt lvm:7k:-:1k:after,3,9000 ext4
drive63-lvm             drive part:63:mbr lvm:-:-:4m:plain ext4
drive2048-lvm           drive part:2048:gpt lvm:-:-:4m:plain ext4
drive63-luks1           drive part:63:mbr luks1:- ext4
drive63-luks2           drive part:63:mbr luks2:- ext4
part2048-bcache-odd     part:2048:gpt bcache:2057 ext4
part63-bcache           part:63:mbr bcache:- ext4
md12-part2048-ext4      md:1:1.2:- part:2048:gpt ext4
md12-part63-ext4        md:1:1.2:- part:63:mbr ext4
md12-7k-part2048-ext4   md:1:1.2:7K part:2048:gpt ext4
md12-7k-part34-meet     md:1:1.2:7K part:34:gpt ext4
md12-logical63-ext4     md:1:1.2:- part:63:logical ext4
md12-lvm-luks           md:1:1.2:- lvm:-:-:4m:plain luks2:- ext4
md12-7k-lvm-luks        md:1:1.2:7K lvm:-:-:4m:plain luks1:- ext4
lvm-luks1-7             lvm:-:-:4m:plain luks1:7 ext4
lvm-part63-ext4         lvm:-:-:4m:plain part:63:mbr ext4
luks2-lvm-7k            luks2:- lvm:7k:-:4m:plain ext4
part-md-part            part:2048:gpt md:1:1.2:- part:2049:gpt ext4
part63-md-part          part:63:mbr md:1:1.2:- part:2048:gpt ext4
part-md-luks            part:2048:gpt md:1:1.1:- luks1:8 ext4
part-md-luks-7          part:2048:gpt md:1:1.2:- luks1:7 ext4
part-md-lvm             part:2048:gpt md:1:1.2:- lvm:-:-:4m:plain ext4
part-md-lvm-7k          part:2048:gpt md:1:1.2:- lvm:7k:-:4m:plain ext4
part-md1025-lvm-512     part:2048:gpt md:1:1.2:1025s lvm:1m:512b:4m:plain ext4
part-raid0-lvm          part:2048:gpt md:0:1.2:-:4096 lvm:1m:-:4m:plain ext4
part-lvm-luks           part:2048:gpt lvm:-:-:4m:plain luks2:- ext4
part-lvm-luks-9         part:2048:mbr lvm:-:-:4m:plain luks2a:9 ext4
part63-lvm-luks         part:63:mbr lvm:-:-:4m:plain luks2:- ext4
part-lvm-two-luks       part:2048:gpt lvm:-:-:1k:two,8001,1,24003 luks1:2048 ext4
part-luks-lvm           part:2048:gpt luks2:- lvm:-:-:4m:plain ext4
part-luks-lvm-7k        part:2048:gpt luks2:- lvm:7k:-:4m:plain ext4
part-md-lvm-luks        part:2048:gpt md:1:1.2:- lvm:-:-:4m:plain luks2:- ext4
part-md-lvm-luks-7      part:2048:gpt md:1:1.2:- lvm:-:-:4m:plain luks1:7 ext4
part-md-lvm-two-luks    part:2048:gpt md:1:1.2:- lvm:-:-:1k:two,8001,1,24003 luks1:2048 ext4
part63-md-lvm-luks      part:63:mbr md:1:1.2:- lvm:-:-:4m:plain luks2:- ext4
part-md-part-lvm-luks   part:2048:gpt md:1:1.2:- part:2048:gpt lvm:7k:-:4m:plain luks2:- ext4
part-md-part63-lvm      part:2048:gpt md:1:1.2:- part:63:mbr lvm:-:-:4m:plain ext4
'

# Small disks make the tools' defaults small as well; the newest XFS requires 300 MiB.
size_of() { case " $* " in *" xfs "*) echo 320 ;; *" luks2a"* | *" luks2:"*) echo 96 ;; *) echo 64 ;; esac; }

lvm_setup
units=(--noheadings --nosuffix --units b)

# quietly COMMAND... : prints the command's output only if it fails
quietly() {
	"$@" >/tmp/said 2>&1 && return
	printf '%s\n' "$*" >&2
	cat /tmp/said >&2
	return 1
}

# The stack in progress: the device at its top, the figures reported so far, and how to take it down.
dev='' chain='' undo=() spares=0 depth=0

add() { chain+=$'\t'$1; } # KIND=FIGURES

# spare MIB : makes one more disk, in $spare
spare() {
	spares=$((spares + 1))
	spare=/dev/loop$spares
	rm -f "/tmp/spare$spares"
	truncate -s "$1M" "/tmp/spare$spares" && losetup "$spare" "/tmp/spare$spares" && later losetup -d "$spare"
}

step_drive() { :; }

step_part() { # START TABLE
	local start=$1 number=1 script node size
	# Whole blocks of 4 KiB, as dm-crypt requires, with room for the backup GPT.
	size=$((($(blockdev --getsz "$dev") - start - 34) / 8 * 8))
	case $2 in
	gpt) script=$(printf 'label: gpt\nfirst-lba: 34\nstart=%s, size=%s\n' "$start" "$size") ;;
	mbr) script=$(printf 'label: dos\nstart=%s, size=%s, type=83\n' "$start" "$size") ;;
	logical)
		script=$(printf 'label: dos\nstart=%s, type=5\nstart=%s, size=%s, type=83\n' $((start - 32)) "$start" "$size")
		number=5
		;;
	esac
	quietly sfdisk -q --no-tell-kernel --no-reread --wipe always "$dev" <<<"$script" || return
	start=$(sfdisk -J "$dev" | tr -d ' \n' | sed -n "s/.*\"node\":\"[^\"]*$number\",\"start\":\([0-9]*\),.*/\1/p")
	case $dev in
	/dev/loop* | /dev/md*) node=${dev}p$number ;;
	/dev/sd*) node=$dev$number ;;
	*) node='' ;; # The kernel looks for no partitions in mappings.
	esac
	if [ -n "$node" ]; then
		quietly blockdev --rereadpt "$dev" || return
		[ "$(attr "${node##*/}" start)" = "$start" ] || { echo "$node: not at $start" >&2; return 1; }
		dev=$node
	else
		depth=$((depth + 1))
		quietly dmsetup create "part$depth" --table \
			"0 $size linear $dev $start" || return
		later dmsetup remove "part$depth"
		dev=/dev/mapper/part$depth
	fi
	add "part=$((start * 512))"
}

step_md() { # LEVEL METADATA OFFSET CHUNK
	local array=/dev/md$depth members=("$dev") options=(--level="$1" --metadata="$2") offset kernel
	depth=$((depth + 1))
	case $1 in
	1) members+=(missing) ;;
	5) spare 64 && members+=("$spare") && spare 64 && members+=("$spare") ;;
	*) spare 64 && members+=("$spare") ;;
	esac || return
	[ "$3" = - ] || options+=(--data-offset="$3")
	[ "$4" = - ] || options+=(--chunk="$4")
	quietly mdadm --create "$array" --run --assume-clean --raid-devices="${#members[@]}" "${options[@]}" \
		"${members[@]}" || return
	later mdadm --quiet --stop "$array"
	# With metadata 0.90 the data is always at the front, and mdadm does not report it.
	offset=$(mdadm -E "$dev" | sed -n 's/^ *Data Offset : \([0-9]*\) sectors$/\1/p')
	kernel=$(cat "/sys/block/${array##*/}/md/dev-${dev##*/}/offset")
	[ "${offset:-0}" = "$kernel" ] || { echo "$array: mdadm says $offset, the kernel $kernel" >&2; return 1; }
	dev=$array
	add "md=$((kernel * 512))"
}

step_lvm() { # DATAALIGNMENT DATAALIGNMENTOFFSET EXTENT SHAPE
	local pv=$dev vg=vg$depth options=() more=() shape at extent pe kernel line segments=''
	depth=$((depth + 1))
	[ "$1" = - ] || options+=(--dataalignment "$1")
	[ "$2" = - ] || options+=(--dataalignmentoffset "$2")
	IFS=, read -ra shape <<<"$4"
	if [ "${shape[0]}" = striped ]; then
		spare 64 && quietly pvcreate -y "$spare" || return
		more=("$spare")
	fi
	quietly pvcreate -y "${options[@]}" "$pv" && quietly vgcreate -s "$3" "$vg" "$pv" "${more[@]}" || return
	later vgchange -an "$vg"
	case ${shape[0]} in
	plain) quietly lvcreate -y -Wn -Zn -n it -l 80%VG "$vg" ;;
	striped) quietly lvcreate -y -Wn -Zn -n it -l 50%VG -i 2 -I 64k "$vg" ;;
	after)
		quietly lvcreate -y -Wn -Zn -n gap -l "${shape[1]}" "$vg" &&
			quietly lvcreate -y -Wn -Zn -n it -l "${shape[2]}" "$vg" && quietly lvremove -y "$vg/gap"
		;;
	two)
		quietly lvcreate -y -Wn -Zn -n it -l "${shape[1]}" "$vg" &&
			quietly lvcreate -y -Wn -Zn -n gap -l "${shape[2]}" "$vg" &&
			quietly lvextend -l "+${shape[3]}" "$vg/it" && quietly lvremove -y "$vg/gap"
		;;
	esac || return
	at=$(pvs "${units[@]}" -o pe_start "$pv" | tr -d ' ')
	extent=$(vgs "${units[@]}" -o vg_extent_size "$vg" | tr -d ' ')
	add "pv=$at"
	# For each segment "16384000 /dev/loop0p1(8002),..."; the first of its devices is this disk.
	while read -r line pe; do
		pe=${pe%%,*}
		[ "${pe%(*}" = "$pv" ] || { echo "$vg: $pe is not on $pv" >&2; return 1; }
		pe=${pe##*\(} pe=${pe%?}
		segments+=,$line:$((at + pe * extent))
	done < <(lvs "${units[@]}" --segments -o seg_start,devices "$vg/it")
	# The kernel's table: the offset in the volume, the length, "linear", and the place on a device.
	kernel=$(dmsetup table "$vg-it" | awk '{ printf ",%d:%d", $1 * 512, ($3 == "striped" ? $7 : $5) * 512 }')
	[ "$segments" = "$kernel" ] || { echo "$vg: lvs says $segments, the kernel $kernel" >&2; return 1; }
	dev=/dev/$vg/it
	add "lv=${segments#,}"
}

luks() { # VERSION OPTION...
	local version=$1 name=crypt$depth offset
	shift
	depth=$((depth + 1))
	printf secret | quietly cryptsetup luksFormat -q --type "luks$version" --pbkdf pbkdf2 \
		--pbkdf-force-iterations 1000 "$@" "$dev" - || return
	printf secret | quietly cryptsetup open --key-file - "$dev" "$name" || return
	later cryptsetup close "$name"
	case $version in
	1) offset=$(cryptsetup luksDump "$dev" | awk '/^Payload offset:/ { print $3 * 512 }') ;;
	2) offset=$(cryptsetup luksDump "$dev" | awk '/offset: [0-9]* \[bytes\]/ { print $2; exit }') ;;
	esac
	dev=/dev/mapper/$name
	add "luks$version=$offset"
}

step_luks1() { if [ "$1" = - ]; then luks 1; else luks 1 --align-payload "$1"; fi; }
step_luks2() { if [ "$1" = - ]; then luks 2; else luks 2 --offset "$1"; fi; }
step_luks2a() { luks 2 --align-payload "$1"; }

step_bcache() { # DATA-OFFSET
	local options=() offset
	[ "$1" = - ] || options=(--data-offset "$1")
	modprobe bcache && quietly make-bcache -B "${options[@]}" "$dev" || return
	offset=$(bcache-super-show "$dev" | awk '$1 == "dev.data.first_sector" { print $2 * 512 }')
	echo "$dev" >/sys/fs/bcache/register || return
	for ((i = 0; i < 100; i++)); do [ ! -b /dev/bcache0 ] || break; sleep 0.05; done
	later bcache_stop
	dev=/dev/bcache0
	add "bcache=$offset"
}

bcache_stop() {
	local i
	echo 1 >/sys/block/bcache0/bcache/stop
	for ((i = 0; i < 100; i++)); do [ -b /dev/bcache0 ] || return 0; sleep 0.05; done
}

step_integrity() {
	local below=$dev place
	quietly integritysetup format -q --no-wipe --integrity crc32c "$dev" &&
		quietly integritysetup open --integrity-recalculate --integrity crc32c "$dev" whole || return
	# No tool reports where its data is, so the code below searches the disk for what is written to its byte 0.
	# The write went through the journal first, which lies before the data.
	printf 'the first bytes of the data' | dd of=/dev/mapper/whole bs=4k conv=sync status=none
	quietly integritysetup close whole || return
	place=$(grep -abo 'the first bytes of the data' "$below" | tail -n 1)
	quietly integritysetup open --integrity-recalculate --integrity crc32c "$below" whole || return
	later integritysetup close whole
	dev=/dev/mapper/whole
	add "integrity=${place%%:*}"
}

make_fs() { # COMMAND...
	local kind
	quietly "$@" "$dev" || return
	sync
	kind=$(blkid -p -o value -s TYPE "$dev")
	add "$kind="
}

step_ext4() { make_fs mkfs.ext4 -q -F -b 4096 -O '^has_journal,^resize_inode'; }
step_ext4-1k() { make_fs mkfs.ext4 -q -F -b 1024 -O '^has_journal,^resize_inode'; }
step_xfs() { make_fs mkfs.xfs -q -f -l size=16m,lazy-count=1 -d agcount=1 --unsupported; }
step_swap() { make_fs mkswap; }
step_vfat() { make_fs mkfs.vfat; }
step_btrfs() { make_fs mkfs.btrfs -q -f -m single --mixed -O '^extref'; }

# build NAME STEP... : makes a stack, and adds its line to the manifest
build() {
	local name=$1 step args done=1 size disk
	shift
	size=$(size_of "$@")
	chain='' undo=() spares=0 depth=0
	if [ "$1" = drive ]; then
		sdbg dev_size_mb="$size" physblk_exp=3 || return
		later sdbg_rm
		disk=/dev/$D
	else
		rm -f /tmp/disk.img
		truncate -s "${size}M" /tmp/disk.img && losetup -P /dev/loop0 /tmp/disk.img || return
		later losetup -d /dev/loop0
		disk=/dev/loop0
	fi
	dev=$disk
	for step; do
		IFS=: read -ra args <<<"$step:-:-:-:-"
		"step_${args[0]}" "${args[@]:1}" || { done=0; break; }
	done
	sync
	for step in "${undo[@]}"; do
		# The disk itself is detached last, when everything above it has been written.
		[ "$step" != sdbg_rm ] || dd if="$disk" of="$OUT/$name.img" bs=64k conv=sparse status=none || done=0
		# shellcheck disable=SC2086  # several words
		quietly $step || done=0
	done
	if [ "$1" = drive ]; then truncate -s "${size}M" "$OUT/$name.img"; else cp --sparse=always /tmp/disk.img "$OUT/$name.img" || done=0; fi
	[ "$done" = 1 ] && printf '%s%s\n' "$name" "$chain" >>"$OUT/manifest.tsv"
}

# Without names and EVERY_CASE, a sample with each kind of step, table, level and volume, and of each depth.
[ $# -gt 0 ] || [ -n "${EVERY_CASE-}" ] || set -- whole-md10 whole-luks2-odd whole-raid5-7k whole-raid10-2050 whole-lvm-striped-7k \
	whole-integrity part2048-ext4-1k part2049-btrfs part4095-vfat logical63-ext4 part63-md090 part63-lvm-meet drive63-luks1 \
	part2048-bcache-odd part-md-part part-raid0-lvm part-md-lvm-two-luks part-md-part-lvm-luks

modprobe loop
: >"$OUT/manifest.tsv"
failed=0
while read -r name steps; do
	[ -n "$name" ] || continue
	[ $# -eq 0 ] || [[ " $* " = *" $name "* ]] || continue
	# shellcheck disable=SC2086  # several words
	build "$name" $steps || { echo "$name: cannot be made" >&2; failed=1; }
done <<<"$stacks"
exit $failed
