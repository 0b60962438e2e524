#!/bin/bash
# Devices that fail, and the reports of `straddle check` on them.
#
#   tests/guest/run -o DIR -e STRADDLE=/path/to/straddle tests/guest/failing.sh
#
# leaves in DIR, for each NAME below, NAME.json, NAME.err and NAME.rc of
# `check --json`, and NAME.quiet.rc of `check --quiet`:
#   content    the second partition's first sectors cannot be read
#   table      sector 0 cannot be read
#   unplugged  the disk is removed while it is read
#   list       all disks, of which one does not answer (--time-limit)
# and readonly.{out,err,rc}, readonly.backups: `apply` to a read-only disk.
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

check() { # NAME ARG...
	local name=$1
	shift
	"$STRADDLE" check --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
	echo $? >"$OUT/$name.rc"
	[ "$name" = unplugged ] || [ "$name" = list ] && return
	"$STRADDLE" check --quiet "$@" >/dev/null 2>&1
	echo $? >"$OUT/$name.quiet.rc"
}

modprobe dm-mod
sdbg dev_size_mb=64 physblk_exp=3 add_host=3 per_host_store=1 || exit
gpt "$D" 16384 2048 20480 40960
sectors=$(blockdev --getsz "/dev/$D")
blockdev --flushbufs "/dev/$D"

# bad NAME FROM COUNT: the disk with sectors that cannot be read
bad() {
	dmsetup create "$1" <<-END
		0 $2 linear /dev/$D 0
		$2 $3 error
		$(($2 + $3)) $((sectors - $2 - $3)) linear /dev/$D $(($2 + $3))
	END
}
bad content 20480 8
check content /dev/mapper/content
dmsetup remove content
dmsetup create table <<-END
	0 8 error
	8 $((sectors - 8)) linear /dev/$D 8
END
check table /dev/mapper/table
dmsetup remove table

# One of the listed disks never answers: it is suspended.
dmsetup create stuck --table "0 $sectors linear /dev/$D 0"
dmsetup suspend --noflush --nolockfs stuck
check list --time-limit 30 &
# The whole list is printed before the device answers. The process can only end after that: the kernel does
# not release a file that is being read.
until [ "$(jq .summary.targets "$OUT/list.json" 2>/dev/null)" ]; do sleep 0.1; done
dmsetup resume stuck
wait
dmsetup remove stuck

plans=$(mktemp -d) # /tmp holds the host's files as well
"$STRADDLE" plan "/dev/${DISKS[1]}" --table gpt --part rest --save "$plans/plan.json" >/dev/null
blockdev --setro "/dev/${DISKS[1]}"
"$STRADDLE" apply "$plans/plan.json" --write "/dev/${DISKS[1]}" >"$OUT/readonly.out" 2>"$OUT/readonly.err"
echo $? >"$OUT/readonly.rc"
find "$plans" -name '*.undo' >"$OUT/readonly.backups"

# Each command takes seconds; the disk is removed during the first.
sdbg dev_size_mb=64 || exit
echo 300 >/sys/bus/pseudo/drivers/scsi_debug/delay
check unplugged "/dev/$D" &
until read -r reads writes <"/sys/block/$D/inflight" && [ "$((reads + writes))" -gt 0 ] || ! kill -0 $!; do
	sleep 0.05
done
echo 1 >"/sys/block/$D/device/delete"
wait
