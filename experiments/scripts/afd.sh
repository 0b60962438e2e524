#!/bin/bash
# fio 3.14's job of "Advanced Format Disks": 4 KiB writes, one after the other, 60 s. afd.sh raw writes to the partition, with an fsync
# after each; afd.sh file to a file on ext4 on it, likewise; afd.sh libaio to the partition past the page cache, without any.
#
# fio times with the processor's counter, which shows the host's time; here it asks the guest's clock.
job() {
    fio --name=afd --filename="$1" --rw=write --bs=4k --size=100G "${@:2}" --numjobs=1 --iodepth=1 \
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
    job "$PART" --ioengine=psync --fsync=1
    read -ra after <"/sys/block/${DISK##*/}/stat"
    report raw $((after[0] - before[0])) $((after[4] - before[4]))
    ;;
file)
    make_file_system ext4
    mount_it ext4
    job "$MNT/file" --ioengine=psync --fsync=1
    unmount
    report file
    ;;
libaio)
    job "$PART" --ioengine=libaio --direct=1
    result libaio "$(figure '.write.runtime / 1000 / .write.total_ios')"
    ;;
*) fail "no part is called '$1': raw, file or libaio" ;;
esac
