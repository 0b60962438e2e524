#!/bin/bash
# After the power has gone: every file system that was made mounts, has every file that was synced, and is sound. The marks are in
# $INPUT/marks; the arguments are those of cut-write.sh.
#
# JFS has to be sound only: the kernel's sends the drive no cache flush, whatever is synced (fs/jfs/file.c, jfs_fsync), so nothing is promised.
cp "$INPUT/marks" /tmp/promised
parts=("$PART" "${PART2-}" "${PART3-}" "${PART4-}" "${PART5-}" "${PART6-}")
index=0
for fs in "$@"; do
	part=${parts[index]}
	mkdir -p "/run/fs$index"
	if grep -qx "made $index" "$INPUT/marks"; then
		if [ "$fs" = jfs ]; then
			sed -i "/^synced $index /d" /tmp/promised
			# The kernel leaves its journal to this, which has repaired something where it returns 1.
			fsck.jfs -a "$part" >/tmp/fsck 2>&1 || [ $? -eq 1 ] || { cat /tmp/fsck; fail "JFS cannot be recovered"; }
		fi
		mount -t "$fs" "$part" "/run/fs$index" || fail "$fs on $part does not mount"
	fi
	index=$((index + 1))
done
perl "$INPUT/cut.pl" check "$#" </tmp/promised
index=0
for fs in "$@"; do
	part=${parts[index]}
	if mountpoint -q "/run/fs$index"; then
		umount "/run/fs$index"
		case $fs in
		ext*) e2fsck -fn "$part" ;;
		xfs) xfs_repair -n "$part" ;;
		btrfs) btrfs check "$part" ;;
		jfs) fsck.jfs -f -n "$part" ;;
		reiserfs) reiserfsck --check --yes --quiet "$part" ;;
		esac >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "$fs on $part is not sound"; }
		echo "sound $index $fs"
	fi
	index=$((index + 1))
done
