# shellcheck shell=bash
# Helpers for scripts that run in the guest: . "$GUEST/lib.sh"

# There is no udev here. With this set dmsetup, LVM and cryptsetup make the
# nodes in /dev/mapper themselves and do not wait for it.
export DM_DISABLE_UDEV=1

# sdbg PARAM=VALUE... : (re)inserts scsi_debug. $D is its first disk (sda), the array DISKS all of them. For
# several disks with separate contents give add_host=N per_host_store=1. delay=0 because its simulated latency
# costs seconds.
sdbg() {
	sdbg_rm
	modprobe -a scsi_mod sd_mod && modprobe scsi_debug delay=0 "$@" || return
	local want=1 p i
	for p; do
		case $p in add_host=* | num_tgts=*) want=${p#*=} ;; esac
	done
	for ((i = 0; i < 500; i++)); do
		# shellcheck disable=SC2012  # names such as sda
		mapfile -t DISKS < <(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/* 2>/dev/null | sed 's,.*/,,')
		# shellcheck disable=SC2034  # for the scripts
		D=${DISKS[0]-}
		[ "${#DISKS[@]}" -ge "$want" ] && [ -b "/dev/${DISKS[-1]}" ] && return
		sleep 0.01
	done
	echo "sdbg: no disk after 5 s ($*)" >&2
	return 1
}

sdbg_rm() {
	[ ! -d /sys/module/scsi_debug ] || modprobe -r scsi_debug
}

# taken ONE_IN : whether this case is among those that are tried: the first of each ONE_IN, or, with EVERY_CASE, any
cases=0
taken() { cases=$((cases + 1)); [ -n "${EVERY_CASE-}" ] || [ $((cases % $1)) = 1 ]; }

# attr DEV NAME : prints an attribute of a disk or a partition, e.g. attr sda queue/minimum_io_size
attr() { cat "/sys/class/block/$1/$2"; }

# topo DEV : prints one line with the kernel's figures for it
topo() {
	local q=/sys/class/block/$1/queue
	[ -d "$q" ] || q=/sys/class/block/$1/../queue
	echo "$1 log=$(<"$q/logical_block_size") phy=$(<"$q/physical_block_size")" \
		"min_io=$(<"$q/minimum_io_size") opt_io=$(<"$q/optimal_io_size")" \
		"size=$(attr "$1" size) align=$(attr "$1" alignment_offset)"
}

# gpt DEV SIZE START... : makes a GPT of partitions of SIZE sectors at START, with the smallest possible
# table, so that they may begin directly after it.
gpt() {
	local dev=$1 size=$2 first=34 start
	shift 2
	[ "$(attr "$dev" queue/logical_block_size)" = 512 ] || first=6
	{
		printf 'label: gpt\nfirst-lba: %s\n' "$first"
		for start; do printf 'start=%s, size=%s\n' "$start" "$size"; done
	} | sfdisk -q --no-tell-kernel --wipe always "/dev/$dev" || return
	blockdev --rereadpt "/dev/$dev"
}

# md_table SCRIPT : writes an sfdisk script to /dev/md0. An array whose metadata mdmon maintains accepts no
# write before mdmon runs, and mdadm does not wait for that.
md_table() {
	local listed=''
	for _ in {1..100}; do
		[ ! -e /dev/md127 ] || pgrep -x mdmon >/dev/null || mdmon md127
		echo "$1" | sfdisk -q --no-tell-kernel /dev/md0 && sync && sfdisk -q -l /dev/md0 | grep -q md0p1 && listed=1 && break
		sleep 0.1
	done
	[ -n "$listed" ] || { echo "no table could be written to md0: $(cat /proc/mdstat)"; return 1; }
	blockdev --rereadpt /dev/md0
}

# md_stop : stops /dev/md0 and the container that it is in
md_stop() {
	mdadm --quiet --stop /dev/md0
	[ ! -e /dev/md127 ] || mdadm --quiet --stop /dev/md127
	# mdmon maintains the metadata of DDF and IMSM, and writes them until it ends.
	for _ in {1..100}; do
		pgrep -x mdmon >/dev/null || break
		sleep 0.1
	done
}

# dmk NAME : prints the dm-N of a mapping
dmk() { basename "$(readlink -f "/sys/dev/block/$(dmsetup info -c --noheadings -o major,minor --separator : "$1")")"; }
dmtopo() { topo "$(dmk "$1")"; }

# lvm_setup : configures LVM for a system without udev and daemons, independent of the host's configuration
lvm_setup() {
	export LVM_SYSTEM_DIR=/run/lvmsys LVM_SUPPRESS_FD_WARNINGS=1
	mkdir -p "$LVM_SYSTEM_DIR"
	cat >"$LVM_SYSTEM_DIR/lvm.conf" <<-'END'
		devices { scan=["/dev"] obtain_device_list_from_udev=0 external_device_info_source="none" use_devicesfile=0 }
		activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
		global { use_lvmpolld=0 notify_dbus=0 event_activation=0 thin_check_executable="" cache_check_executable="" }
		backup { backup=0 archive=0 }
	END
}

# later COMMAND... : adds a command to the array undo, which takes down what was made, the last first
undo=()
later() { undo=("$*" "${undo[@]}"); }
