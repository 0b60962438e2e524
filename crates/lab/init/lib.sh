# shellcheck shell=bash
# What an experiment's script finds when it begins: bash reads this file first (BASH_ENV).
#
# The law of this file: the same script sends the same requests, always. So whatever a file system would draw at random is fixed,
# and nothing of it works later, in the background. All else is the tools' own default.
#
# The script has $DISK and $PART (of a second drive $DISK2 and $PART2), $MNT, an empty folder to mount at, $INPUT, a folder of the
# host's to read, $OUTPUT, one to write, and $RESULTS, the file that `measure` writes to. It ends with the first command that fails.

unset BASH_ENV # not for the scripts that this one calls
set -Eeuo pipefail
export LC_ALL=C TZ=UTC

# The identity of a file system: the same in every run, and of each kind on each device another, as their tools look for doubles.
identity() {
    local kind device
    printf -v kind '%d' "'$1"
    printf -v device '%d' "'${2: -2}"
    printf '5374a77a-d1e5-4c0d-8e55-%06x%06x' $((kind + ${#1} * 256)) $((device * 256 + ${#2}))
}

# Ends the script: fail REASON [STATUS].
fail() {
    trap - ERR
    echo "${0##*/}: $1" >&2
    exit "${2:-1}"
}

# Called where a command fails.
lab_failed() {
    local status=$1 line=$2 command=$3
    fail "line $line: status $status: $command" "$status"
}
trap 'lab_failed $? $LINENO "$BASH_COMMAND"' ERR

# Notes that NAME took SECONDS, and with how many requests to the disk: result NAME SECONDS [READS WRITES].
result() {
    [[ $2 =~ ^[0-9]*\.?[0-9]+$ ]] || fail "the result of $1 is no number: '$2'"
    printf '%s %s%s\n' "$1" "$2" "${4:+$(printf '\t%d %d' "$3" "$4")}" >>"$RESULTS"
}

# Runs a command and notes how long it took: measure NAME COMMAND [ARGUMENT]...
measure() {
    local name=$1 began ended took
    shift
    began=${EPOCHREALTIME/./}
    "$@"
    ended=${EPOCHREALTIME/./}
    took=$((ended - began))
    result "$name" "$((took / 1000000)).$(printf '%06d' $((took % 1000000)))"
}

# As measure, and notes how many requests the kernel sent to $DISK meanwhile: measure_requests NAME COMMAND [ARGUMENT]...
#
# Where a program only writes, and to the disk or partition itself, each read is one that the kernel had to make because a part of a
# block was written.
measure_requests() {
    local name=$1 began ended took before after
    shift
    read -ra before <"/sys/block/${DISK##*/}/stat"
    began=${EPOCHREALTIME/./}
    "$@"
    ended=${EPOCHREALTIME/./}
    read -ra after <"/sys/block/${DISK##*/}/stat"
    took=$((ended - began))
    result "$name" "$((took / 1000000)).$(printf '%06d' $((took % 1000000)))" \
        $((after[0] - before[0])) $((after[4] - before[4]))
}

# Makes a file system: make_file_system NAME [DEVICE] [OPTION]...; the options go to its own tool.
#
# Block discard at the making is off, as tools of 2010 did not know it. mke2fs writes its tables itself, at once, through the
# kernel's cache (UNIX_IO_NOZEROOUT), again as then; LAZY=1 leaves the inode tables for later, the default from Linux 2.6.37 on,
# and then they are never written, as the kernel would do that after a random delay. It takes checksums of groups, which ext4 has:
# the tables of ext2 and ext3 are written either way.
make_file_system() {
    local name=$1 device=${2-$PART} lazy=${LAZY:-0} identity
    identity=$(identity "$name" "$device")
    shift; [[ $# -eq 0 ]] || shift
    case $name in
    ext2 | ext3 | ext4)
        UNIX_IO_NOZEROOUT=1 "mkfs.$name" -q -F -U "$identity" \
            -E "nodiscard,hash_seed=$identity,lazy_itable_init=$lazy,lazy_journal_init=0" "$@" "$device"
        ;;
    # Says much, and -q does not keep it from that.
    reiserfs) mkfs.reiserfs -q -f -f -u "$identity" "$@" "$device" >/dev/null 2>&1 ;;
    # Its identity cannot be given; it goes into the superblock and changes no request.
    jfs) mkfs.jfs -q "$@" "$device" >/dev/null ;;
    # -f: it refuses a partition that it sees to be misaligned. It then uses sectors of 512 bytes, as its tool of 2010 did anyhow.
    xfs) mkfs.xfs -q -f -K -m "uuid=$identity" "$@" "$device" ;;
    # Nodes of 4 KiB were the default until 2013; today's of 16 KiB would cross fewer physical sectors for the same data.
    btrfs) mkfs.btrfs -q -f -K -U "$identity" -n 4096 "$@" "$device" >/dev/null ;;
    *) fail "no file system is called '$name': ext2, ext3, ext4, reiserfs, jfs, xfs or btrfs" ;;
    esac
}

# Mounts it at $MNT: mount_it NAME [DEVICE] [OPTIONS]; options as behind mount -o.
#
# BARRIERS=0 mounts as Linux did before 3.1: ext3 and ReiserFS sent no cache flush with a commit.
mount_it() {
    local name=$1 device=${2-$PART} options=${3-}
    case $name in
    ext2) ;;
    ext3 | ext4) options=noinit_itable,no_prefetch_block_bitmaps${options:+,$options} ;;
    esac
    if [[ ${BARRIERS:-1} = 0 ]]; then
        case $name in
        ext3) options+=,barrier=0 ;;
        reiserfs) options+=${options:+,}barrier=none ;;
        esac
    fi
    mount -t "$name" ${options:+-o "$options"} "$device" "$MNT"
}

# Unmounts what is at $MNT; all that was written is on the drive or in its cache afterwards.
unmount() {
    umount "$MNT"
}

# Forgets what the kernel has read.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# Reads every file below a folder, in the folder's own order, and throws it away.
read_files() {
    find "$1" -type f -print0 | xargs -0 cat >/dev/null
}

# A file of zeroes in the guest's memory that takes none: sparse_file PATH BYTES. Reading it costs processor time only.
sparse_file() {
    truncate -s "$2" "$1"
}

# Copies a file, with its zeroes.
copy_file() {
    cp --sparse=never --reflink=never "$1" "$2"
}
