# shellcheck shell=bash
# Operations that fail, tested after the devices: . "$GUEST/faults.sh". Each leaves NAME.{out,err,rc} in
# $OUT/faults. faults.args defines which drives fail where.
faults=$OUT/faults
mkdir "$faults"

modprobe floppy 2>/dev/null

# Unreadable sectors, in the second partition's contents and in the table; sfdisk must not look for
# signatures.
bad=$(of_size 201) zero=$(of_size 202) scsi=$(of_size 203) slow=$(of_size 204) readonly=$(of_size 205)
for disk in "$bad" "$scsi"; do
	printf 'label: gpt\nstart=2048, size=64\nstart=20480, size=64\n' |
		sfdisk -q --no-reread --no-tell-kernel --wipe never --wipe-partitions never "/dev/$disk"
	blockdev --rereadpt "/dev/$disk"
done
straddle_to "$faults" virtio check --json "/dev/$bad"
straddle_to "$faults" virtio-quiet check --quiet "/dev/$bad"
straddle_to "$faults" scsi check --json "/dev/$scsi"
straddle_to "$faults" zero check --json "/dev/$zero"
# scsi_debug's built-in fault: medium errors from sector 0x1234 on.
sdbg dev_size_mb=64 physblk_exp=3 opts=0 && parts "$D" 34 2048 4656 && {
	echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
	blockdev --flushbufs "/dev/$D"
	straddle_to "$faults" medium check --json "/dev/$D"
	echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
}

# Read-only: refused, and no backup is left behind.
straddle_to "$faults" readonly-plan plan "/dev/$readonly" --table gpt --part rest --save /tmp/readonly.json
straddle_to "$faults" readonly apply /tmp/readonly.json --write "/dev/$readonly"
find /tmp -name '*.undo' >"$faults/readonly.undo"

# Zoned: refused.
for name in null-zoned null-zoned-conventional nvme-zoned; do
	[ -n "${disk_of[$name]-}" ] || continue
	straddle_to "$faults" "plan-$name" plan "/dev/${disk_of[$name]}" --table gpt --part rest
done

# No medium: an error if the drive is named, left out if not; of two paths to a disk one is enough.
straddle_to "$faults" all check --json --all --time-limit 600
for name in sr0 sr1 fd0; do
	[ ! -b "/dev/$name" ] || straddle_to "$faults" "empty-$name" check "/dev/$name"
done
for name in /sys/block/sd*; do
	[ "$(<"$name/size")" != 0 ] || straddle_to "$faults" empty-card check "/dev/${name##*/}"
done

has_open() { # PROCESS FILE
	local fd
	for fd in "/proc/$1"/fd/*; do
		[ "$(readlink "$fd")" != "$2" ] || return 0
	done
	return 1
}

# unplug NAME DISK ID : removes a disk during a run. Each of its reads takes a second.
unplug() {
	local checking
	straddle check --json --time-limit 600 "/dev/$2" >"$faults/$1.out" 2>"$faults/$1.err" &
	checking=$!
	# The disk is removed only once it is open, however busy the machine is.
	while [ -d "/proc/$checking" ] && ! has_open "$checking" "/dev/$2"; do sleep 0.1; done
	sleep 3
	monitor "device_del $3"
	wait $checking
	echo $? >"$faults/$1.rc"
}
unplug gone "$slow" leaving
[ ! -d /sys/bus/usb/drivers/usb-storage ] || unplug gone-usb "$(of_size 207)" stick
