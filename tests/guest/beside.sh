#!/bin/bash
# Makes members of arrays that have a partition table, LVM's hidden volumes, and loop devices, and checks them
# as a running machine shows them.
#
#   tests/guest/run -m 2G -o DIR -e STRADDLE=/path/to/straddle tests/guest/beside.sh
#
# leaves in DIR
#   member-META-LABEL.WHEN.json  `check --json` of all disks while the array runs, of one member when it is stopped
#   member-META-LABEL.plans      status of each kind of plan for the stopped member; .kept: whether mdadm still knows it
#   lvm-NAME.{json,rc,hidden}    `check --json` of all disks; the devices that are not in `lvs` without -a
#   parts-NAME.json             `check --json` of those
#   loop-NAME.{json,facts}       `check --json` of the loop device; its offset, and the offset of the disk's first boundary
# shellcheck disable=SC2317  # called by name
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

export LVM_SYSTEM_DIR=/run/lvmsys LVM_SUPPRESS_FD_WARNINGS=1 IMSM_NO_PLATFORM=1
mkdir -p "$LVM_SYSTEM_DIR"
cat >"$LVM_SYSTEM_DIR/lvm.conf" <<'END'
devices { scan=["/dev"] obtain_device_list_from_udev=0 external_device_info_source="none" use_devicesfile=0 }
activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
global { use_lvmpolld=0 notify_dbus=0 event_activation=0 thin_check_executable="" cache_check_executable="" }
backup { backup=0 archive=0 }
END
modprobe -a loop dm-mod dm-thin-pool dm-cache dm-raid dm-mirror dm-snapshot dm-integrity 2>/dev/null

check() { # NAME TARGET...
	local name=$1
	shift
	"$STRADDLE" check --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
	echo $? >"$OUT/$name.rc"
}

create() { # META
	case $1 in
	ddf | imsm)
		mdadm --create /dev/md127 --quiet --run --metadata="$1" --raid-devices=2 /dev/sda /dev/sdb &&
			mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --raid-devices=2 /dev/md127
		;;
	*) mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata="$1" --raid-devices=2 /dev/sda /dev/sdb ;;
	esac
}

member() { # META LABEL
	local name="member-$1-$2" status=''
	sdbg dev_size_mb=64 physblk_exp=3 add_host=2 per_host_store=1 || return
	create "$1" || return
	md_table "label: $2"$'\n2048,16384' || { md_stop; return 1; }
	mkfs.ext4 -q -b 4096 /dev/md0p1
	sync
	check "$name.running"
	md_stop
	check "$name.stopped" /dev/sda
	for plan in '--table gpt --part rest' '--table mbr --part rest' '--add 1MiB' '--delete 1' '--grow 1' --repair --relocate-backup; do
		# shellcheck disable=SC2086  # words
		"$STRADDLE" plan /dev/sda $plan --save /tmp/plan >/dev/null 2>>"$OUT/$name.refusals"
		status+="$? "
	done
	echo "$status" >"$OUT/$name.plans"
	mdadm -E /dev/sda >"$OUT/$name.kept" 2>&1
	sdbg_rm
}

hidden() { # NAME
	local name dm
	check "lvm-$1"
	lvs --noheadings -o lv_dm_path | tr -d ' ' | sed 's,.*/,,' | sort >/tmp/seen
	for dm in /sys/block/dm-*; do
		name=$(cat "$dm/dm/name")
		# The device through which a thin pool is visible is not the volume itself.
		grep -qx "$name" /tmp/seen && [ "$name" != vg-pool ] || echo "/dev/${dm##*/} $name"
	done >"$OUT/lvm-$1.hidden"
	# shellcheck disable=SC2046  # words
	check "parts-$1" $(cut -d ' ' -f 1 "$OUT/lvm-$1.hidden")
}

volumes() { # NAME COMMAND...
	local name=$1
	shift
	sdbg dev_size_mb=64 physblk_exp=3 add_host=3 per_host_store=1 || return
	pvcreate -qq -y /dev/sda /dev/sdb /dev/sdc && vgcreate -qq vg /dev/sda /dev/sdb /dev/sdc &&
		"$@" && mkfs.ext4 -q -b 4096 /dev/vg/it && sync && hidden "$name"
	vgchange -qq -an vg
	sdbg_rm
}

raid1() { lvcreate -qq -y -Wn --type raid1 -m1 -n it -L 20M vg; }
integrity() { lvcreate -qq -y -Wn --type raid1 -m1 --raidintegrity y -n it -L 20M vg; }
mirror() { lvcreate -qq -y -Wn --type mirror -m1 --mirrorlog core -n it -L 20M vg; }
thin() {
	lvcreate -qq --type thin-pool -n pool -L 20M -c 64k --poolmetadatasize 2M -Zn vg && lvcreate -qq -V 20M --thin -n it vg/pool
}
snapshot() { raid1 && lvcreate -qq -y -s -n snap -L 8M vg/it; }
cache() {
	lvcreate -qq -y -Wn -n it -L 20M vg /dev/sda && lvcreate -qq -y --type cache-pool -n fast -L 8M vg /dev/sdb &&
		lvconvert -qq -y --type cache --cachepool vg/fast vg/it
}

looped() { # NAME OFFSET FILE PHASE
	losetup -o "$2" /dev/loop0 "$3" || return
	mkfs.ext4 -q -b 4096 /dev/loop0
	sync
	check "loop-$1" /dev/loop0
	echo "$2 $4" >"$OUT/loop-$1.facts"
	losetup -d /dev/loop0
}

for meta in 0.90 1.0 ddf imsm; do
	for label in gpt dos; do ! taken 3 || member $meta $label; done
done
for kind in raid1 integrity mirror thin snapshot cache; do volumes $kind $kind; done
sdbg dev_size_mb=64 physblk_exp=3 lowest_aligned=1
truncate -s 40M /tmp/file
for offset in 512 4096 32256 1049088; do
	looped "disk-$offset" $offset /dev/sda 512
	looped "file-$offset" $offset /tmp/file 0
done
sdbg_rm
exit 0
