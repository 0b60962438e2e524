# shellcheck shell=bash
# Functions for scripts in the emulated machine, in addition to lib.sh:  . "$GUEST/look.sh"
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

declare -A disk_of # by the names in devices.toml

attributes='size ro removable alignment_offset queue/logical_block_size queue/physical_block_size
queue/minimum_io_size queue/optimal_io_size queue/discard_granularity queue/chunk_sectors queue/zoned'

# of_size MIB : prints the disk of this size, which is unique. Each driver shows serial numbers in another
# place.
of_size() {
	local i file
	for ((i = 0; i < 100; i++)); do
		for file in /sys/block/*/size; do
			[ "$(<"$file")" != $(($1 * 2048)) ] || { basename "${file%/size}"; return; }
		done
		sleep 0.1
	done
	echo "no disk of $1 MiB" >&2
	return 1
}

# straddle_to DIR NAME ARG... : writes NAME.out, NAME.err and NAME.rc
straddle_to() {
	local to=$1/$2
	shift 2
	straddle "$@" >"$to.out" 2>"$to.err"
	echo $? >"$to.rc"
}

# look NAME DISK : records every tool's view of a disk in $OUT/NAME
look() {
	local to=$OUT/$1 disk=$2 part name
	[ -n "$disk" ] || return
	mkdir -p "$to"
	blockdev --flushbufs "/dev/$disk"
	(cd "/sys/block/$disk" && for name in $attributes; do
		[ ! -f "$name" ] || printf '%s %s\n' "${name##*/}" "$(<"$name")"
	done) >"$to/sysfs"
	for part in /sys/block/"$disk"/*/partition; do
		[ -f "$part" ] || continue
		part=${part%/partition}
		printf '%s %s %s %s\n' "$(<"$part/partition")" "$(<"$part/start")" "$(<"$part/size")" "$(<"$part/alignment_offset")"
	done >"$to/parts"
	lsblk -dbJ -o NAME,ALIGNMENT,MIN-IO,OPT-IO,PHY-SEC,LOG-SEC,ZONED "/dev/$disk" >"$to/lsblk" 2>&1
	case $disk in
	sd*) sg_readcap --16 "/dev/$disk" >"$to/readcap" 2>&1 ;;
	nvme*)
		nvme id-ns -o json "/dev/$disk" >"$to/id-ns" 2>"$to/id-ns.err"
		nvme id-ctrl -o json "/dev/$disk" >"$to/id-ctrl" 2>"$to/id-ctrl.err"
		;;
	esac
	[ "$(cat "/sys/block/$disk/device/vendor" 2>/dev/null)" != 'ATA     ' ] || hdparm -I "/dev/$disk" >"$to/hdparm" 2>&1
	straddle_to "$to" check check --json --allow-unknown --time-limit 600 "/dev/$disk"
}

# parts DISK FIRST START... : makes a GPT of partitions of 64 sectors at START
parts() {
	local disk=$1 first=$2 start
	shift 2
	{
		printf 'label: gpt\nfirst-lba: %s\n' "$first"
		for start; do printf 'start=%s, size=64\n' "$start"; done
	} | sfdisk -q --no-reread --no-tell-kernel --wipe always "/dev/$disk" || return
	# Mappings and similar devices list no partitions.
	blockdev --rereadpt "/dev/$disk" 2>/dev/null || true
}

# planned NAME DISK : plans one partition over the whole disk, without further options
planned() {
	[ -n "$2" ] || return
	mkdir -p "$OUT/$1"
	straddle_to "$OUT/$1" plan plan "/dev/$2" --table gpt --part rest --wipe --json
}

# monitor COMMAND : sends a command to QEMU's monitor
monitor() {
	stty raw -echo -F /dev/ttyS1
	printf '\n%s\n' "$1" >/dev/ttyS1
}

# --- devices that the machine makes; each leaves its disk's name in $D ---------------------------------------------------

# null_disk ATTRIBUTE=VALUE...
null_disk() {
	local dir
	[ -d /sys/kernel/config/nullb ] || {
		modprobe null_blk nr_devices=0 && mount -t configfs none /sys/kernel/config 2>/dev/null
	}
	nulls=$((${nulls-0} + 1))
	D=straddle$nulls dir=/sys/kernel/config/nullb/$D
	mkdir "$dir" || return
	local pair
	for pair in memory_backed=1 "$@"; do
		echo "${pair#*=}" >"$dir/${pair%%=*}" || return
	done
	echo 1 >"$dir/power" || return
	[ -d "/sys/block/$D" ] || D=nullb$(<"$dir/index") # before Linux 6.6 named by number
}

# zram_disk SIZE
zram_disk() {
	modprobe zram num_devices=1 && echo "$1" >/sys/block/zram0/disksize && D=zram0
}

# loop_disk SIZE SECTOR
loop_disk() {
	modprobe loop
	truncate -s "$1" "/tmp/loop-$2"
	D=$(losetup --show -f -P -b "$2" "/tmp/loop-$2")
	D=${D#/dev/}
}

# linear_disk BELOW START : all of a device from a sector on
linear_disk() {
	local below=${disk_of[$1]}
	modprobe dm-mod
	dmsetup create "linear$2" --table "0 65536 linear /dev/$below $2" && D=$(dmk "linear$2")
}

# torn_disk BELOW START START : two pieces of a device, from different offsets
torn_disk() {
	local below=${disk_of[$1]}
	modprobe dm-mod
	printf '0 32768 linear /dev/%s %s\n32768 32768 linear /dev/%s %s\n' "$below" "$2" "$below" "$3" |
		dmsetup create torn && D=$(dmk torn)
}

# array LEVEL BELOW...
array() {
	local level=$1 members=() member chunk=(--chunk=64)
	shift
	[ "$level" != 1 ] || chunk=() # nothing is striped
	modprobe -a md-mod "raid$level"
	# Devices made from the members before would keep them in use.
	dmsetup remove_all
	mdadm --stop --scan 2>/dev/null
	for member; do
		members+=("/dev/${disk_of[$member]}")
		wipefs -qa "/dev/${disk_of[$member]}" 2>/dev/null
	done
	mdadm --create "/dev/md$level" --quiet --run --assume-clean --level="$level" "${chunk[@]}" --metadata=1.2 \
		--raid-devices=$# "${members[@]}" 2>/dev/null && D=md$level
}

# namespace BELOW : exports a device as an NVMe namespace, over TCP. The kernel's target derives NPWG, NOWS
# and NAWUPF from its limits.
namespace() {
	local target=/sys/kernel/config/nvmet nqn=straddle-$1 device i
	modprobe -a nvmet nvmet-tcp nvme-tcp && { mount -t configfs none /sys/kernel/config 2>/dev/null || true; }
	mkdir "$target/subsystems/$nqn" && echo 1 >"$target/subsystems/$nqn/attr_allow_any_host" || return
	mkdir "$target/subsystems/$nqn/namespaces/1"
	echo "/dev/${disk_of[$1]}" >"$target/subsystems/$nqn/namespaces/1/device_path"
	echo 1 >"$target/subsystems/$nqn/namespaces/1/enable"
	if mkdir "$target/ports/1" 2>/dev/null; then
		for i in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4420; do
			echo "${i#*=}" >"$target/ports/1/addr_${i%=*}"
		done
	fi
	ln -s "$target/subsystems/$nqn" "$target/ports/1/subsystems/$nqn"
	echo "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=$nqn" >/dev/nvme-fabrics || return
	for ((i = 0; i < 100; i++)); do
		for device in /sys/block/nvme*; do
			if [ "$(cat "$device/hidden" 2>/dev/null)" != 1 ] && [ "$(cat "$device/device/subsysnqn")" = "$nqn" ]; then
				D=${device##*/}
				return
			fi
		done
		sleep 0.1
	done
	return 1
}
