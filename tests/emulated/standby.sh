#!/bin/bash
# Disks in standby: stopped SCSI disks (scsi_debug), and a SATA disk that the kernel has suspended.
# shellcheck disable=SC1091 # sourced in the guest
. "$GUEST/look.sh"
modprobe -qa sd_mod sg ahci
modprobe -q scsi_debug dev_size_mb=16 num_tgts=2
sata=$(of_size 64)
scsi=()
for _ in {1..100}; do
	scsi=(/sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/*)
	[ "${#scsi[@]}" -eq 2 ] && break
	sleep 0.1
done
one=${scsi[0]##*/} other=${scsi[1]##*/}
printf '%s %s %s\n' "$sata" "$one" "$other" >"$OUT/disks"
runtime=/sys/block/$sata/device/power

# asleep DISK : whether a SCSI disk is stopped, by TEST UNIT READY
asleep() { sg_turs "/dev/$1" >/dev/null 2>&1 && echo ready || echo stopped; }

hdparm -C "/dev/$sata" >"$OUT/hdparm" 2>&1
straddle_to "$OUT" awake check --no-wake --allow-unknown --json "/dev/$sata" "/dev/$one" "/dev/$other"

sg_start --stop "/dev/$one"
asleep "$one" >"$OUT/before"
straddle_to "$OUT" stopped check --no-wake --allow-unknown --json "/dev/$one" "/dev/$other"
straddle_to "$OUT" metrics check --no-wake --allow-unknown --output-format prometheus "/dev/$one"
straddle_to "$OUT" text check --no-wake --allow-unknown "/dev/$one"
asleep "$one" >"$OUT/after"

# The kernel suspends the disk as soon as nothing uses it.
echo 0 >"$runtime/autosuspend_delay_ms"
echo auto >"$runtime/control"
for _ in {1..100}; do
	[ "$(<"$runtime/runtime_status")" = suspended ] && break
	sleep 0.1
done
straddle_to "$OUT" suspended check --no-wake --allow-unknown --json "/dev/$sata"
cat "$runtime/runtime_status" >"$OUT/status"
# Without the option it is read, which resumes it.
straddle_to "$OUT" resumed check --allow-unknown --json "/dev/$sata"
cat "$runtime/runtime_status" >"$OUT/status-resumed"
exit 0
