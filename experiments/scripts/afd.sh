#!/bin/bash
# fio 3.14's job of "Advanced Format Disks": 4 KiB writes, one after the other, an fsync after each, 60 s. afd.sh raw writes to the
# partition, afd.sh file to a file on ext4 on it.
#
# fio times with the processor's counter, which shows the host's time; here it asks the guest's clock.
job() {
    fio --name=afd --filename="$1" --rw=write --bs=4k --size=100G --ioengine=psync --fsync=1 --numjobs=1 --iodepth=1 \
        --runtime=60 --clocksource=clock_gettime --thread --output-format=json --output=/tmp/fio.json
}

# A figure of fio's, as a plain decimal number.
figure() {
    printf '%.9f' "$(jq -e ".jobs[0] | $1" /tmp/fio.json)"
}

# Notes what fio found: the time per write, in all and of its parts, and perhaps the requests to the disk: report NAME [READS WRITES].
report() {
    result "$1" "$(figure '.write.runtime / 1000 / .write.total_ios')" "${@:2}"
    result "$1-completion" "$(figure '.write.clat_ns.mean / 1e9')"
    result "$1-sync" "$(figure '.sync.lat_ns.mean / 1e9')"
}

case $1 in
raw)
    read -ra before <"/sys/block/${DISK##*/}/stat"
    job "$PART"
    read -ra after <"/sys/block/${DISK##*/}/stat"
    report raw $((after[0] - before[0])) $((after[4] - before[4]))
    ;;
file)
    make_file_system ext4
    mount_it ext4
    job "$MNT/file"
    unmount
    report file
    ;;
*) fail "no part is called '$1': raw or file" ;;
esac
