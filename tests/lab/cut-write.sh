#!/bin/bash
# Writes to the named file systems, one on each drive, until the power is cut. Prints "made I" when file
# system I is durable, and "synced I N" when file N on it has been synced.
parts=("$PART" "${PART2-}" "${PART3-}" "${PART4-}" "${PART5-}" "${PART6-}")
index=0
for fs in "$@"; do
	part=${parts[index]}
	mkdir -p "/run/fs$index"
	make_file_system "$fs" "$part"
	mount -t "$fs" "$part" "/run/fs$index"
	sync -f "/run/fs$index"
	blockdev --flushbufs "$part"
	echo "made $index"
	index=$((index + 1))
done
exec perl "$INPUT/cut.pl" write "$#"
