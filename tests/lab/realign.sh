#!/bin/bash
# realign.sh move|resume [--rollback]|check, with ext4 and NTFS on $DISK
straddle=$INPUT/straddle action=$1
shift
case $action in
move)
	# One of the drives hides its physical sectors.
	"$straddle" realign "$DISK" --assume 512e --save /tmp/move.json >/dev/null
	"$straddle" apply /tmp/move.json --write "$DISK" >/dev/null
	echo complete
	;;
resume)
	status=0
	"$straddle" resume "$DISK" "$@" >/tmp/said 2>&1 || status=$?
	case $status in
	0) echo resumed ;;
	3) grep -q 'no unfinished move' /tmp/said && echo nothing ;;
	*) cat /tmp/said; fail "resume: status $status" ;;
	esac
	;;
check)
	name=${DISK##*/}
	# The sums of the other machine; a file that is missing fails, too.
	e2fsck -fn "${DISK}1" >/tmp/said 2>&1 || { cat /tmp/said; fail 'ext4 is not sound'; }
	ntfsfix -n "${DISK}2" >/tmp/said 2>&1 || { cat /tmp/said; fail 'NTFS is not sound'; }
	mkdir -p /run/here
	mount -t ext4 -o ro "${DISK}1" /run/here
	(cd /run/here && sha256sum --quiet -c "$INPUT/sums")
	umount /run/here
	modprobe fuse
	ntfs-3g -o ro "${DISK}2" /run/here
	(cd /run/here && sha256sum --quiet -c "$INPUT/sums")
	umount /run/here
	hidden=$(od -An -tu4 -j28 -N4 "${DISK}2" | tr -d ' ')
	[ "$hidden" = "$(<"/sys/block/$name/${name}2/start")" ] || fail "NTFS says that it starts at $hidden"
	echo "sound $(<"/sys/block/$name/${name}1/start") $(<"/sys/block/$name/${name}2/start")"
	;;
esac
