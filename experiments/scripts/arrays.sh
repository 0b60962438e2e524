#!/bin/bash
# Reads and writes on a partition of an md array of all drives: arrays.sh START LEVEL. START is the partition's first 512-byte sector
# on the array, LEVEL raid0, raid5, raid6 or raid10. The chunks have 64 KiB.
start=$1 level=$2
members=("$DISK" "$DISK2" "$DISK3" "$DISK4")

modprobe -a raid0 raid10 raid456 dm_mod
consistency=(--assume-clean --bitmap=none)
[[ $level != raid0 ]] || consistency=()
mdadm --create /dev/md0 --quiet --run --level="$level" --chunk=64 --metadata=1.2 "${consistency[@]}" \
    --raid-devices="${#members[@]}" "${members[@]}" >&2
sectors=$(blockdev --getsz /dev/md0)
dmsetup create part --table "0 $((sectors - 2048)) linear /dev/md0 $start"
part=/dev/dm-0

# job NAME REQUESTS OPTION...: runs fio, and notes the time for all requests.
#
# fio times with the processor's counter, which shows the host's time; here it asks the guest's clock.
job() {
    fio --name="$1" --filename="$part" --direct=1 --ioengine=libaio --number_ios="$2" "${@:3}" --randseed=7 \
        --clocksource=clock_gettime --thread --output-format=json --output=/tmp/fio.json
    result "$1" "$(jq -e '.jobs[0].job_runtime / 1000' /tmp/fio.json)"
}

job chunk-write 400 --rw=randwrite --bs=64k --iodepth=4
job chunk-read 400 --rw=randread --bs=64k --iodepth=4
job small-write 400 --rw=randwrite --bs=4k --iodepth=4
job stripe-write 200 --rw=write --bs=1M --iodepth=2

make_file_system ext4 "$part"
mount_it ext4 "$part"
extract() {
    tar -xf "$INPUT/$TARBALL" -C "$MNT"
    unmount
}
measure extract extract
drop_caches
mount_it ext4 "$part"
measure read-files read_files "$MNT"
unmount
