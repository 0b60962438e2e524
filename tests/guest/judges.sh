#!/bin/bash
# Records the verdicts of the kernel, parted and fdisk on partition starts, on disks of many geometries, for
# comparison with straddle's.
#
#   tests/guest/run -o DIR [-e STRADDLE=/path/to/straddle] tests/guest/judges.sh [CONFIG...]
#
# leaves in DIR
#   judges.tsv        one line per partition, columns as in its first line
#   md.txt            the output of every tool on an array that the kernel calls
#                     misaligned (-1), in sections "== command"
# and, with STRADDLE, CONFIG.json .err .rc (its output, messages and exit
# status for `check --json` of the disk), the same for md-raid1 (/dev/md0) and
# for all (no target, while that array is there).
set -u
# shellcheck disable=SC1091
. "$GUEST/lib.sh"

# CONFIG  first start  further starts  scsi_debug parameters
# The kernel does not accept an optimal length above the size of the disk, hence 64 MB for 65535 blocks.
configs='
512e-la0       34  -                  dev_size_mb=8 physblk_exp=3 lowest_aligned=0
512e-la1       34  -                  dev_size_mb=8 physblk_exp=3 lowest_aligned=1
512e-la7       34  -                  dev_size_mb=8 physblk_exp=3 lowest_aligned=7
512n-opt1025   34  1025,2050          dev_size_mb=8 opt_blks=1025
512n-opt65535  34  65535,65536        dev_size_mb=64 opt_blks=65535
512e-opt1025   34  1025,2050          dev_size_mb=8 physblk_exp=3 opt_blks=1025
512e-opt65535  34  65535,65536        dev_size_mb=64 physblk_exp=3 opt_blks=65535
4kn            6   -                  dev_size_mb=16 sector_size=4096
4kn-32k-la7    6   -                  dev_size_mb=16 sector_size=4096 physblk_exp=3 lowest_aligned=7
'

straddle() { # NAME [TARGET]
	[ -n "${STRADDLE-}" ] || return 0
	local name=$1
	shift
	"$STRADDLE" check --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
	echo $? >"$OUT/$name.rc"
}

judge() { # CONFIG START...
	local config=$1 i start kernel limits='' args=() line min=() opt=() fd=()
	shift
	for i in queue/{physical,logical}_block_size queue/{minimum,optimal}_io_size alignment_offset; do
		limits+=$(attr "$D" "$i")$'\t'
	done
	for ((i = 1; i <= $#; i++)); do args+=(align-check min "$i" align-check opt "$i"); done
	# Without -s, because its exit status does not distinguish "not aligned" from "no such partition". It answers
	# in order.
	while read -r i line; do
		case $line in aligned) ;; "not aligned: "*) line=not ;; *) continue ;; esac
		if [ -z "${min[i]-}" ]; then min[i]=$line; else opt[i]=$line; fi
	done < <(parted "/dev/$D" "${args[@]}" </dev/null 2>&1 | grep '^[0-9]* \(not \)\?aligned')
	while read -r i; do fd[i]=complains; done < <(fdisk -l "/dev/$D" 2>&1 |
		sed -n 's/^Partition \([0-9]*\) does not start on physical sector boundary.*/\1/p')
	for ((i = 1; i <= $#; i++)); do
		read -r kernel <"/sys/class/block/$D$i/alignment_offset"
		read -r start <"/sys/class/block/$D$i/start"
		# sysfs counts in 512 bytes whatever the logical sector
		[ "$start" = $((${!i} * sector / 512)) ] || echo "$config: $D$i starts at $start, not at ${!i}" >&2
		printf '%s\t%s%s\t%s\t%s\t%s\t%s\n' "$config" "$limits" "${!i}" \
			"$kernel" "${min[i]-?}" "${opt[i]-?}" "${fd[i]-silent}"
	done
}

array() {
	local ask
	sdbg dev_size_mb=64 physblk_exp=3 || return
	gpt "$D" 40960 2048 43009 || return # the second is one sector off
	mdadm --create /dev/md0 --quiet --run --assume-clean --level=1 --metadata=1.2 \
		--raid-devices=2 "/dev/${D}1" "/dev/${D}2" || return
	gpt md0 1024 2048 4097 || return
	straddle md-raid1 /dev/md0
	straddle all
	for ask in "grep . /sys/block/md0/alignment_offset /sys/class/block/md0p1/alignment_offset /sys/class/block/md0p2/alignment_offset" \
		"grep . /sys/class/block/${D}1/alignment_offset /sys/class/block/${D}2/alignment_offset" \
		"parted /dev/md0 align-check min 1 align-check opt 1 align-check min 2 align-check opt 2" \
		"fdisk -l /dev/md0" "blkid -i /dev/md0" "lsblk -t /dev/md0" "lsblk -t --json /dev/md0"; do
		printf '== %s\n' "$ask"
		$ask </dev/null 2>&1
	done >"$OUT/md.txt"
	mdadm --quiet --stop /dev/md0
	sdbg_rm
}

printf '%s\t' config physical logical io_min io_opt disk_alignment_offset start_lba \
	kernel_alignment_offset parted_min parted_opt >"$OUT/judges.tsv"
echo fdisk >>"$OUT/judges.tsv"
failed=0
while read -r config first further params; do
	[ -n "$config" ] || continue
	[ $# -eq 0 ] || [[ " $* " = *" $config "* ]] || continue
	starts=("$first")
	while [ "${starts[-1]}" -lt 72 ]; do starts+=($((starts[-1] + 1))); done
	# shellcheck disable=SC2086  # several words
	mapfile -t starts < <(printf '%s\n' "${starts[@]}" 2048 2049 ${further//[,-]/ } | sort -n)
	# shellcheck disable=SC2086
	if sdbg $params && gpt "$D" 1 "${starts[@]}"; then
		sector=$(attr "$D" queue/logical_block_size)
		judge "$config" "${starts[@]}" >>"$OUT/judges.tsv"
		straddle "$config" "/dev/$D"
	else
		echo "$config: no disk" >&2
		failed=1
	fi
done <<<"$configs"
if [ $# -eq 0 ] || [[ " $* " = *" md-raid1 "* ]]; then
	array || { echo "md-raid1: no array" >&2; failed=1; }
fi
# A judge whose output was not understood must not count as one that agrees.
! grep -q '?' "$OUT/judges.tsv" || { echo "judges.tsv: verdicts missing" >&2; failed=1; }
exit $failed
