#!/bin/bash
# Audits disks of domains that are stored on real disks: in file systems that begin on and off a physical sector
# of a 512e disk, on a partition and on the whole of one, as an image on one, and on a 4Kn disk.
#
#   tests/guest/run -m 1G -o DIR -e STRADDLE=/path/to/straddle tests/guest/domains.sh
#
# leaves in DIR
#   NAME.json     `check --domain --json` of the disk NAME
#   NAME.offset   the kernel's alignment_offset of what holds it
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

# domain NAME TYPE ATTRIBUTE PATH HOLDER [FORMAT] : audits the disk of a domain at PATH
domain() {
	cat >"$OUT/$1.xml" <<-END
		<domain type='kvm'>
		  <name>$1</name>
		  <devices>
		    <disk type='$2' device='disk'>
		      <driver name='qemu' type='${6-raw}'/>
		      <source $3='$4'/>
		      <target dev='vda' bus='virtio'/>
		    </disk>
		  </devices>
		</domain>
	END
	# Findings, and what is not judged, are what the test is about.
	"$STRADDLE" check --json --domain "$OUT/$1.xml" >"$OUT/$1.json" || [ $? -le 3 ]
	attr "$5" alignment_offset >"$OUT/$1.offset"
}

# table PATH : writes the table of a guest with an aligned start
table() { echo 'start=2048, size=20000, type=83' | sfdisk -q --no-reread --no-tell-kernel "$1"; }

set -e
sdbg dev_size_mb=200 physblk_exp=3
printf 'label: dos\nstart=63, size=180000\nstart=204800, size=180000\n' | sfdisk -q --no-tell-kernel "/dev/$D"
blockdev --rereadpt "/dev/$D"
mkdir /run/images
number=1
for name in misaligned aligned; do
	mkfs.ext4 -q -b 4096 "/dev/$D$number"
	mount "/dev/$D$number" /run/images
	truncate -s 32M /run/images/disk.img
	table /run/images/disk.img
	domain "$name" file file /run/images/disk.img "$D$number"
	umount /run/images
	number=$((number + 1))
done
domain partition block dev "/dev/${D}1" "${D}1"
sdbg dev_size_mb=64 physblk_exp=3
table "/dev/$D"
domain disk block dev "/dev/$D" "$D"
truncate -s 32M /run/table.img
table /run/table.img
sdbg dev_size_mb=64 sector_size=4096
dd if=/run/table.img of="/dev/$D" bs=1M status=none
domain native block dev "/dev/$D" "$D"
sdbg dev_size_mb=64 physblk_exp=3
qemu-img convert -f raw -O qcow2 /run/table.img /run/table.qcow2
dd if=/run/table.qcow2 of="/dev/$D" bs=1M status=none
domain image block dev "/dev/$D" "$D" qcow2
sdbg_rm
