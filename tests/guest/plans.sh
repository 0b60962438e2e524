#!/bin/bash
# Plans and writes tables on disks of many geometries, and records how the kernel and sfdisk then see them.
#
#   tests/guest/run -o DIR -e STRADDLE=/path/to/straddle tests/guest/plans.sh [CONFIG...]
#
# leaves in DIR
#   listed            per partition "CONFIG TABLE JUDGE NUMBER START SIZE", in
#                     bytes, where JUDGE is straddle (what was planned), kernel,
#                     or sfdisk; TABLE is gpt, mbr, or the same with
#                     "-converted" for one that was written in sectors of the
#                     other size and converted on the disk
#   CONFIG.topology   the kernel's figures for the disk
#   CONFIG-TABLE.json .err .rc   `straddle check --json` of the disk
#   undone            "CONFIG TABLE same" where an undo restored every byte
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"
cd /run || exit

# The kernel accepts no optimal length above the size of the disk, hence 64 MB, and none that is not a
# multiple of the physical sector. A sample has every second one.
configs='
512e            dev_size_mb=64 physblk_exp=3
512n            dev_size_mb=64
4kn             dev_size_mb=64 sector_size=4096 opt_blks=256
512e-la1        dev_size_mb=64 physblk_exp=3 lowest_aligned=1
512e-la7        dev_size_mb=64 physblk_exp=3 lowest_aligned=7
512n-opt65535   dev_size_mb=64 opt_blks=65535
512e-opt1536k   dev_size_mb=64 physblk_exp=3 opt_xferlen_exp=3 opt_blks=3072
'

list() { # CONFIG TABLE
	local node name=$1 table=$2
	for node in "/sys/class/block/$D"/"$D"*; do
		# sysfs counts in 512 bytes whatever the logical sector; of an extended partition it shows two sectors at
		# most.
		echo "$name $table kernel $(<"$node/partition") $(($(<"$node/start") * 512)) $(($(<"$node/size") * 512))"
	done
	sfdisk -J "/dev/$D" | jq -r --arg of "$name $table sfdisk" --arg disk "/dev/$D" '.partitiontable
		| (.sectorsize // 512) as $s | .partitions[]
		| "\($of) \(.node | ltrimstr($disk)) \(.start * $s) \(.size * $s)"'
	"$STRADDLE" check --json "/dev/$D" >"$OUT/$name-$table.json" 2>"$OUT/$name-$table.err"
	echo $? >"$OUT/$name-$table.rc"
}

planned() { # CONFIG TABLE FILE
	jq -r --arg of "$1 $2 straddle" '.disk.sector_bytes as $s | .table.partitions[]
		| "\($of) \(.number) \(.start_lba * $s) \(.sectors * $s)"' "$3"
}

parts() { # TABLE
	echo --table "$1" --part 20MiB
	if [ "$1" = gpt ]; then echo --part 10MiB --part rest; else echo --part 10MiB,role=logical --part rest,role=logical; fi
}

undo() { # CONFIG TABLE BACKUP BEFORE
	"$STRADDLE" undo "$3" --write "/dev/$D" >/dev/null && cmp "/dev/$D" "$4" && echo "$1 $2 same" >>"$OUT/undone"
}

try() { # CONFIG TABLE
	local plan=$1-$2.json
	cp "/dev/$D" before.img
	# shellcheck disable=SC2046  # several words
	"$STRADDLE" plan "/dev/$D" $(parts "$2") --save "$plan" >/dev/null &&
		"$STRADDLE" apply "$plan" --write "/dev/$D" >/dev/null || return
	planned "$1" "$2" "$plan"
	list "$1" "$2"
	undo "$1" "$2" "$plan.undo" before.img
}

# A disk moved out of an enclosure that changes its sector size, or into one.
try_converted() { # CONFIG TABLE
	local plan=$1-$2-converted.json sector other=4096
	sector=$(attr "$D" queue/logical_block_size)
	[ "$sector" = 512 ] || other=512
	rm -f other.img before.img
	truncate -s "$(blockdev --getsize64 "/dev/$D")" other.img
	# shellcheck disable=SC2046
	"$STRADDLE" plan other.img --logical "$other" $(parts "$2") --save other.json >/dev/null &&
		"$STRADDLE" apply other.json --write other.img --backup other.undo."$1-$2" >/dev/null || return
	cp other.img "/dev/$D" && sync && blockdev --rereadpt "/dev/$D"
	"$STRADDLE" plan "/dev/$D" --convert-table "$sector" --save "$plan" >/dev/null &&
		"$STRADDLE" apply "$plan" --write "/dev/$D" >/dev/null || return
	planned "$1" "$2-converted" other.json
	list "$1" "$2-converted"
	undo "$1" "$2-converted" "$plan.undo" other.img
}

failed=0
while read -r config params; do
	[ -n "$config" ] || continue
	if [ $# -gt 0 ]; then [[ " $* " = *" $config "* ]] || continue; else taken 2 || continue; fi
	# shellcheck disable=SC2086  # several words
	sdbg $params || { failed=1; continue; }
	topo "$D" >"$OUT/$config.topology"
	for table in gpt mbr; do
		try "$config" "$table" || { echo "$config $table: failed" >&2; failed=1; }
		case $config in 512e | 4kn)
			try_converted "$config" "$table" || { echo "$config $table: not converted" >&2; failed=1; } ;;
		esac
	done
	sdbg_rm
done <<<"$configs" >"$OUT/listed"
exit $failed
