#!/bin/bash
# Captures the files of this folder; see README.md. ARGUMENTS has a line `-drive`, a line
# `if=none,id=d,format=raw,discard=unmap,file={}/disk-d-64M`, a line `-device` and a line `virtio-blk-pci,drive=d,addr=8`.
set -u
mount -t tracefs nodev /sys/kernel/tracing
instance=/sys/kernel/tracing/instances/straddle-1
mkdir $instance
echo mono >$instance/trace_clock
cp /sys/kernel/tracing/events/header_page "$OUT/"
for size in /sys/block/*/size; do [ "$(<"$size")" != 131072 ] || disk=$(basename "${size%/size}"); done
IFS=: read -r major minor <"/sys/block/$disk/dev"
for event in block_rq_issue block_rq_complete; do
	cp "$instance/events/block/$event/format" "$OUT/$event.format"
	echo "dev == $((major << 20 | minor))" >"$instance/events/block/$event/filter"
	echo 1 >"$instance/events/block/$event/enable"
done
dd if=/dev/zero of="/dev/$disk" bs=4k count=40 oflag=direct seek=8
dd if=/dev/zero of="/dev/$disk" bs=512 count=20 oflag=direct seek=63
dd if="/dev/$disk" of=/dev/null bs=64k count=20 iflag=direct
dd if=/dev/zero of="/dev/$disk" bs=4k count=4 conv=fsync
blkdiscard -o 1M -l 1M "/dev/$disk"
blkdiscard -z -o 1M -l 1M "/dev/$disk"
sleep 1.2 # longer than 27 bits of nanoseconds
dd if=/dev/zero of="/dev/$disk" bs=512 count=4 oflag=direct,sync seek=7
cat $instance/trace >"$OUT/text"
dd if=$instance/per_cpu/cpu0/trace_pipe_raw of="$OUT/pages" bs=4096 iflag=nonblock
echo 4 >$instance/buffer_size_kb
dd if=/dev/zero of="/dev/$disk" bs=512 count=400 oflag=direct seek=63
cat $instance/per_cpu/cpu0/stats
dd if=$instance/per_cpu/cpu0/trace_pipe_raw of="$OUT/overrun" bs=4096 iflag=nonblock
rmdir $instance
