#!/bin/bash
# straddle trace record beside blktrace, on the same disk at the same time; and what goes wrong.
# shellcheck disable=SC1091 # sourced in the guest
. "$GUEST/look.sh"
modprobe -qa virtio_blk
disk=$(of_size 64)
tracing=/sys/kernel/tracing
instances=$tracing/instances

# waits_for COMMAND... : until it succeeds, at most 20 s
waits_for() {
	local i
	for ((i = 0; i < 200; i++)); do
		"$@" >/dev/null 2>&1 && return
		[ -z "${recorder-}" ] || kill -0 "$recorder" || exit 1
		sleep 0.1
	done
	echo "not in 20 s: $*" >&2
	return 1
}
# shellcheck disable=SC2317 # called by waits_for
is_on() { grep -q 1 "$instances"/straddle-*/events/block/block_rq_complete/enable; }
# shellcheck disable=SC2317
is_traced() { dd if="/dev/$disk" of=/dev/null bs=512 count=1 iflag=direct && [ -s "$OUT/theirs.blktrace.0" ]; }

# recording NAME ARG... : starts a recording to $OUT/NAME.rec, which has begun when this returns
recording() {
	local name=$1
	shift
	straddle trace record --to "$OUT/$name.rec" "$@" >"$OUT/$name.out" 2>"$OUT/$name.err" &
	recorder=$!
	waits_for is_on
}
# ends NAME [SIGNAL] : ends it, and notes its status and what is left in tracefs
ends() {
	[ $# -lt 2 ] || kill "-$2" $recorder
	wait $recorder
	echo $? >"$OUT/$1.rc"
	recorder=
	ls $instances >"$OUT/$1.left"
}

straddle_to "$OUT" unmounted trace record "/dev/$disk" --for 1s --to "$OUT/unmounted.rec"
mount -t tracefs nodev $tracing
mount -t debugfs nodev /sys/kernel/debug
straddle_to "$OUT" file trace record "$GUEST/lib.sh" --for 1s --to "$OUT/file.rec"
cp "$(command -v straddle)" /tmp/straddle && chmod 755 /tmp/straddle
setpriv --reuid 65534 --clear-groups /tmp/straddle trace record "/dev/$disk" --for 1s --to /tmp/user.rec >"$OUT/user.out" 2>"$OUT/user.err"
echo $? >"$OUT/user.rc"

printf 'label: dos\nstart=2048, size=20000\nstart=40063, size=40000\n' | sfdisk -q --wipe always "/dev/$disk"
blockdev --rereadpt "/dev/$disk"
waits_for [ -b "/dev/${disk}2" ]
sync

# Both at once, under a load of aligned and misaligned requests.
blktrace -d "/dev/$disk" -D "$OUT" -o theirs >"$OUT/theirs.log" 2>&1 &
tracer=$!
waits_for is_traced
recording ours "/dev/$disk"
exec 3>&2 2>"$OUT/load.err"
dd if=/dev/zero of="/dev/$disk" bs=4k count=200 oflag=direct seek=100
dd if=/dev/zero of="/dev/${disk}2" bs=4k count=200 oflag=direct seek=1
dd if=/dev/zero of="/dev/${disk}2" bs=512 count=100 oflag=direct,sync seek=7
dd if="/dev/$disk" of=/dev/null bs=64k count=100 iflag=direct
dd if=/dev/zero of="/dev/${disk}1" bs=12k count=100 conv=fsync
blkdiscard -f -o 32M -l 1M "/dev/$disk"
blkdiscard -f -z -o 34M -l 1M "/dev/$disk"
fio --name=mixed --filename="/dev/${disk}2" --direct=1 --rw=randrw --bsrange=512-64k --blockalign=512 --ioengine=libaio \
	--iodepth=16 --number_ios=800 --size=16M --randseed=7 --output="$OUT/fio" --fsync=50
sync
exec 2>&3 3>&-
sleep 0.5
ends ours INT
kill -INT $tracer
wait $tracer

# One partition; the other one is written too.
recording part "/dev/${disk}2" --json
dd if=/dev/zero of="/dev/${disk}1" bs=4k count=30 oflag=direct 2>/dev/null
dd if=/dev/zero of="/dev/${disk}2" bs=4k count=40 oflag=direct 2>/dev/null
ends part INT

# A recorder that does not get to read: the kernel has no room for all.
recording lost "/dev/$disk" --buffer 64KiB
kill -STOP $recorder
dd if=/dev/zero of="/dev/$disk" bs=512 count=3000 oflag=direct 2>/dev/null
kill -CONT $recorder
ends lost INT

# A recorder that is killed leaves its instance, and the next one removes it.
recording killed "/dev/$disk"
ends killed KILL
straddle_to "$OUT" next trace record "/dev/$disk" --for 1s --to "$OUT/next.rec"
ls $instances >"$OUT/next.left"

# No space for the recording.
mkdir /tmp/small
mount -t tmpfs -o size=300k none /tmp/small
straddle trace record --to /tmp/small/full.rec "/dev/$disk" >"$OUT/full.out" 2>"$OUT/full.err" &
recorder=$!
waits_for is_on
dd if=/dev/zero of="/dev/$disk" bs=512 count=6000 oflag=direct 2>/dev/null
ends full
cp /tmp/small/full.rec "$OUT/"
straddle_to "$OUT" cut trace --json "$OUT/full.rec"

# The disk is unplugged.
recording gone "/dev/$disk"
dd if=/dev/zero of="/dev/$disk" bs=4k count=25 oflag=direct 2>/dev/null
device=$(realpath "/sys/block/$disk/device/..")
echo 1 >"$device/remove"
ends gone
exit 0
