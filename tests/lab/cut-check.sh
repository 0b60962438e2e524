#!/bin/bash
# After the power cut: every file system that was made must mount, have every file that was synced, and be
# consistent. The marks are in $INPUT/marks; the arguments are those of cut-write.sh.
#
# JFS only has to be consistent: the kernel's JFS sends the drive no cache flush, whatever is synced
# (fs/jfs/file.c, jfs_fsync), so it promises nothing.
cp "$INPUT/marks" /tmp/promised
parts=("$PART" "${PART2-}" "${PART3-}" "${PART4-}" "${PART5-}" "${PART6-}")
index=0
for fs in "$@"; do
	part=${parts[index]}
	mkdir -p "/run/fs$index"
	if grep -qx "made $index" "$INPUT/marks"; then
		if [ "$fs" = jfs ]; then
			sed -i "/^synced $index /d" /tmp/promised
			# The kernel leaves replaying the journal to this program, which returns 1 if it has repaired something.
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
