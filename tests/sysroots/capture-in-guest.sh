#!/bin/bash
# Makes the captured trees that need no particular hardware:
#
#   tests/guest/run -o tests/sysroots tests/sysroots/capture-in-guest.sh
set -eu
# shellcheck disable=SC1091
. "$GUEST/lib.sh"
capture=${0%/*}/capture

tree() { # NAME NOTE DISK...
	rm -rf "${OUT:?}/$1"
	"$capture" -n "$2" "$OUT/$1" "${@:3}"
}

sdbg dev_size_mb=8 physblk_exp=3
gpt sda 1 34 63 2048
tree scsi-debug-512e "scsi_debug dev_size_mb=8 physblk_exp=3 in a User-Mode Linux guest;
GPT by sfdisk with partitions of one sector at 34, 63 and 2048." sda

sdbg dev_size_mb=8 physblk_exp=3 lowest_aligned=7
gpt sda 1 63 2048
tree scsi-debug-512e-offset "scsi_debug dev_size_mb=8 physblk_exp=3 lowest_aligned=7 in a User-Mode Linux
guest; GPT by sfdisk with partitions of one sector at 63 and 2048." sda

sdbg dev_size_mb=16 sector_size=4096
gpt sda 1 6 256
tree sas-4kn "scsi_debug dev_size_mb=16 sector_size=4096 in a User-Mode Linux guest; GPT by
sfdisk with partitions of one 4096-byte sector at sectors 6 and 256 (in units
of sysfs: 48 and 2048)." sda

sdbg dev_size_mb=16 physblk_exp=3 add_host=3 per_host_store=1
gpt sda 20480 2048
gpt sdb 20480 2048
gpt sdc 20480 2049
mdadm --create /dev/md0 --quiet --run --assume-clean --level=5 --chunk=64 --metadata=1.2 \
	--raid-devices=3 /dev/sda1 /dev/sdb1 /dev/sdc1
gpt md0 1024 2048
tree md-misaligned "RAID 5 by mdadm (chunk 64 KiB, metadata 1.2) on partitions of three scsi_debug
disks (dev_size_mb=16 physblk_exp=3 add_host=3) in a User-Mode Linux guest. sda1 and sdb1
start at 2048, sdc1 at 2049, so the kernel gives md0 an alignment_offset of -1
and its partition (at 2048) 4294967295." md0 sda sdb sdc
mdadm --quiet --stop /dev/md0
