#!/bin/bash
# Operations whose time the drive determines: measured in virtual time and in real time, with the same
# results.
#
# $DISK has 512-byte sectors and no partition table when this begins.

printf 'label: dos\nstart=2048, size=2097152\nstart=2099234, size=2097152\n' | sfdisk -q "$DISK"
for partition in 1 2; do
    for ((tries = 0; tries < 100; tries++)); do [[ -b $DISK$partition ]] && break; sleep 0.05; done
done

write_through() {
    dd if=/dev/zero of="$1" bs=4k count="$2" seek=1000 oflag=dsync conv=notrunc status=none
}

# Each write is waited for, so that the result depends on the drive and not on the guest's processor.
copy() {
    cp -r /tmp/tree/. "$MNT"
    unmount
}

rate() {
    fio --name=job --filename="$1" --rw=write --bs=4k --size=512m --ioengine=psync --fsync=1 --time_based --runtime=2 \
        --clocksource=clock_gettime --thread --eta=never --output-format=json --output=/tmp/fio.json
    result "$2" "$(printf '%.6f' "$(jq -e '1 / .jobs[0].write.iops' /tmp/fio.json)")"
}

measure 'dd, aligned' write_through "${DISK}1" 200
measure 'dd, misaligned' write_through "${DISK}2" 60
rate "${DISK}1" 'fio, a write'
# The programs and their input are in the guest's memory by now, so access to the host's files is not
# measured.
cp -r "$INPUT" /tmp/tree
mount -t tmpfs none "$MNT"
copy
for arm in 'aligned 1' 'misaligned 2'; do
    partition=$DISK${arm##* }
    make_file_system ext4 "$partition"
    mount_it ext4 "$partition" sync
    measure "ext4, ${arm% *}" copy
done
