//! Messages of other programs as `straddle explain` takes them: printed by the tools and the kernel as they stand here, or
//! written in their sources.

use std::path::Path;

use super::straddle;
use super::tools::{self, Dir, Guest, flat, present, shell, skipped};

/// What other tools print of disks and images: the tools that have to be installed, the command, the beginning of a line
/// of what it prints, the topic that explains the line, and what its numbers come to.
const SAID: [(&str, &str, &str, &str, Option<&str>); 28] = [
    (
        "sfdisk parted",
        "parted -s disk.img mkpart x 50000s 60000s",
        "Warning: The resulting partition",
        "best-performance",
        Some(
            "50000 is 848 past a multiple of 2048. With 512-byte sectors it is byte 25600000, a multiple of 4096",
        ),
    ),
    (
        "sfdisk fdisk",
        "truncate -s 96M disk.img; fdisk -l disk.img",
        "GPT PMBR size mismatch",
        "gpt-size",
        Some("65536 sectors"),
    ),
    (
        "sfdisk fdisk",
        "truncate -s 48M disk.img; fdisk -l disk.img",
        "GPT PMBR size mismatch",
        "gpt-size",
        Some("truncate -s '>67108864'"),
    ),
    (
        "sfdisk fdisk",
        "truncate -s 96M disk.img; fdisk -l disk.img",
        "The backup GPT table is not on",
        "gpt-size",
        None,
    ),
    (
        "sfdisk parted",
        "truncate -s 96M disk.img; parted -s disk.img print",
        "Warning: Not all of the space",
        "gpt-size",
        Some("65536 sectors"),
    ),
    (
        "sfdisk sgdisk",
        "truncate -s 96M disk.img; sgdisk -v disk.img",
        "Problem: The secondary header's",
        "gpt-size",
        None,
    ),
    ("sfdisk fdisk", "zero 1; fdisk -l disk.img", "The primary GPT table is corrupt", "gpt-corrupt", None),
    (
        "sfdisk fdisk",
        "zero 131071; fdisk -l disk.img",
        "The backup GPT table is corrupt",
        "gpt-corrupt",
        None,
    ),
    (
        "sfdisk parted",
        "zero 131071; parted -s disk.img print",
        "Error: The backup GPT table is corrupt",
        "gpt-corrupt",
        None,
    ),
    ("sfdisk sgdisk", "zero 1; sgdisk -v disk.img", "Caution: invalid main GPT header", "gpt-corrupt", None),
    (
        "sfdisk sgdisk",
        "zero 131071; sgdisk -v disk.img",
        "Caution: invalid backup GPT header",
        "gpt-corrupt",
        None,
    ),
    (
        "sfdisk sgdisk",
        "zero 1; sgdisk -v disk.img",
        "Caution: Found protective or hybrid MBR",
        "gpt-corrupt",
        None,
    ),
    ("sfdisk fdisk", "fdisk -l order.img", "Partition table entries are not", "disk-order", None),
    ("sfdisk fdisk", "fdisk -l disk.img", "I/O size (minimum/optimal)", "io-size", Some("the same")),
    ("sfdisk fdisk", "fdisk -l disk.img", "Sector size (logical/physical)", "io-size", Some("512n")),
    (
        "mkfs.ext4",
        "mke2fs -F -b 65536 part.img",
        "Warning: blocksize 65536",
        "blocks-too-big",
        Some("16 pages"),
    ),
    (
        "mkfs.ext4",
        "mke2fs -F -b 65536 part.img",
        "Warning: 65536-byte blocks",
        "blocks-too-big",
        Some("16 pages"),
    ),
    (
        "sfdisk sgdisk",
        "zero 1; sgdisk -v disk.img",
        "Caution: Partition 1 doesn't end",
        "sector-boundary",
        Some("S008"),
    ),
    (
        "sfdisk sgdisk",
        "printf 'start=2048\\n' | sfdisk -q --no-tell-kernel --label dos part.img; sgdisk -v part.img | tr '\\n' ' ' | sed 's/.*Warning/Warning/'",
        "Warning! Secondary partition table",
        "table-overlaps",
        Some("smaller by 33 sectors"),
    ),
    (
        "sfdisk sgdisk",
        "printf 'start=20,size=90\\n' | sfdisk -q --no-tell-kernel --label dos part.img; sgdisk -v part.img",
        "Warning! Main partition table overlaps",
        "table-overlaps",
        Some("starts at sector 20"),
    ),
    (
        "parted",
        "truncate -s 3T part.img; parted -s part.img mklabel msdos unit s mkpart primary 2048s 100%",
        "Error: partition length of",
        "too-long",
        Some("2147481601 more"),
    ),
    (
        "parted",
        "truncate -s 3T part.img; parted -s part.img mklabel msdos unit s mkpart primary 4294967396s 4294969396s",
        "Error: starting sector number",
        "too-long",
        Some("101 more"),
    ),
    (
        "parted",
        "printf '\\0\\0\\0\\0\\5\\0\\0\\0\\0\\0\\0\\0\\0\\10\\0\\0' | dd of=part.img bs=1 seek=446 conv=notrunc status=none; \
         printf '\\125\\252' | dd of=part.img bs=1 seek=510 conv=notrunc status=none; parted -s part.img print",
        "Error: Invalid partition table - recursive",
        "recursive-partition",
        None,
    ),
    (
        "cryptsetup",
        "truncate -s 20971K part.img; truncate -s +512 part.img; \
         echo x | cryptsetup luksFormat -q --sector-size 4096 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 part.img",
        "Device size is not aligned",
        "device-size",
        None,
    ),
    (
        "mkfs.xfs",
        "truncate -s 400M part.img; mkfs.xfs -f -d sunit=8,swidth=12 part.img",
        "stripe width",
        "stripes",
        Some("not a multiple"),
    ),
    (
        "mkfs.xfs",
        "truncate -s 400M part.img; mkfs.xfs -f -d sunit=8,swidth=0 part.img",
        "stripe unit",
        "stripes",
        Some("of no array"),
    ),
    (
        "mkfs.ext4",
        "mke2fs -n -F -E stride=16,stripe_width=40 part.img",
        "Warning: RAID stripe-width",
        "stripes",
        Some("not a multiple"),
    ),
    (
        "systemd-repart sfdisk",
        "printf '[Partition]\\nType=linux-generic\\n' >a.conf; systemd-repart --definitions=. order.img",
        "Disk ",
        "non-gpt",
        None,
    ),
];

/// The same where a device is needed: as root, on loop devices. `$L` has 512-byte sectors, `$K` 4096-byte ones.
const ON_DEVICES: [(&str, &str, &str, &str, Option<&str>); 9] = [
    (
        "fio",
        "fio --name=a --filename=$L --direct=1 --ioengine=psync --rw=read --bs=500 --size=1m",
        "fio: io_u error",
        "not-a-sector",
        Some("the length leaves 500 bytes by 512"),
    ),
    ("mkfs.ext4", "mke2fs -F -b 1024 $K", "mke2fs: Invalid argument while", "too-small", None),
    ("mkfs.fat", "mkfs.fat -S 512 $K", "Warning: sector size was set", "too-small", None),
    (
        "mkfs.xfs",
        "mkfs.xfs -f -s size=512 $K",
        "illegal sector size 512",
        "too-small",
        Some("logical sectors of 4096 bytes"),
    ),
    (
        "fio",
        "fio --name=a --filename=$K --direct=1 --rw=read --bs=512 --size=1m",
        "fio: io_u error",
        "not-a-sector",
        Some("4096"),
    ),
    (
        "vgcreate",
        "vgcreate --driverloaded n v $L $K",
        "  Devices have inconsistent",
        "mixed-sectors",
        Some("has those of 4096"),
    ),
    (
        "sfdisk fdisk",
        "sfdisk_at $K; fdisk -l other.img",
        "GPT PMBR size mismatch",
        "gpt-size",
        Some("in 4096-byte sectors"),
    ),
    (
        "sfdisk fdisk",
        "dd if=disk.img of=$K bs=1M status=none; fdisk -l $K",
        "GPT PMBR size mismatch",
        "gpt-size",
        Some("in 512-byte sectors"),
    ),
    ("qemu-io mkfs.ext4", "qemu_at $K", "qemu-io: can't open", "image-size", None),
];

/// Messages that no tool prints here: those of kernels, of programs that are not installed, of other versions. They are in
/// the sources of these programs, or in public reports.
const WRITTEN: [(&str, &str, Option<&str>); 44] = [
    ("1 not aligned: 63s % 2048s != 0s", "best-performance", Some("3584 bytes past")),
    (
        "Warning: The resulting partition is not properly aligned for best performance: 34s % 2048s != 0s",
        "best-performance",
        Some("1024 bytes past"),
    ),
    ("Partition 1 does not start on physical sector boundary.", "not-aligned", None),
    (
        "warning: device is not properly aligned /dev/mapper/vg-brick. Use -f to force usage of a misaligned device",
        "not-aligned",
        None,
    ),
    (
        "device-mapper: table: 253:0: adding target device sdb1 caused an alignment inconsistency: physical_block_size=4096",
        "not-aligned",
        None,
    ),
    ("md0: Warning: Device nvme0n1p3 is misaligned", "not-aligned", None),
    (
        "Caution: Partition 1 doesn't begin on a 2048-sector boundary. This may result in degraded performance",
        "sector-boundary",
        Some("S008"),
    ),
    ("[    1.234567] GPT:Primary header thinks Alt. header is not at the end of the disk.", "gpt-size", None),
    (
        "[    1.2] GPT:Alternate GPT header not at the end of the disk. [    1.3] GPT:131071 != 1048575",
        "gpt-size",
        Some("S034"),
    ),
    ("GPT: Use GNU Parted to correct GPT errors.", "gpt-size", None),
    (
        "GPT PMBR size mismatch (732566645 != 5860533167) will be corrected by write.",
        "gpt-size",
        Some("WRITE NOTHING"),
    ),
    (
        "GPT PMBR size mismatch (5860533167 != 732566645) will be corrected by write.",
        "gpt-size",
        Some("WRITE NOTHING"),
    ),
    ("Alternate GPT is invalid, using primary GPT.", "gpt-corrupt", None),
    (
        "Warning: /dev/sda contains GPT signatures, indicating that it has a GPT table.",
        "gpt-signatures",
        None,
    ),
    ("Disk /dev/sda has non-GPT disk label, not repartitioning.", "non-gpt", None),
    ("Note: sector size is 4096 (not 512)", "io-size", None),
    ("/dev/sdb1 alignment is offset by 3072 bytes.", "3072-bytes", Some("3072 + 1024 = 4096")),
    ("/dev/md0p1 alignment is offset by 65024 bytes.", "3072-bytes", Some("a larger unit")),
    (
        "sd 0:0:0:0: [sda] Optimal transfer size 33553920 bytes not a multiple of physical block size (4096 bytes)",
        "optimal-transfer",
        Some("3584 bytes more than a multiple of 4096"),
    ),
    (
        "sd 0:0:0:0: [sda] Optimal transfer size 33553920 bytes not a multiple of physical block size (0 bytes)",
        "optimal-transfer",
        Some("decide nothing"),
    ),
    (
        "sd 0:0:0:0: [sda] Preferred minimum I/O size 512 bytes not a multiple of physical block size (2048 bytes)",
        "optimal-transfer",
        Some("512 bytes more"),
    ),
    ("EXT4-fs (dm-0): bad block size 1024", "too-small", Some("logical sector")),
    ("EXT4-fs (sda1): bad block size 65536", "too-small", Some("more than a page")),
    (
        "FAT-fs (sdb1): logical sector size too small for device (logical sector size = 512)",
        "too-small",
        Some("-b 512"),
    ),
    (
        "exFAT-fs (sdb1): logical sector size too small for device (logical sector size = 512)",
        "too-small",
        Some("-b 512"),
    ),
    (
        "XFS (dm-3): device supports 4096 byte sectors (not 512)",
        "too-small",
        Some("logical sectors of 4096 bytes"),
    ),
    ("sd 0:0:5:0: [sdf] tag#37 request not aligned to the logical block size", "not-a-sector", None),
    (
        "device-mapper: table: 254:0: crypt: Device size is not multiple of sector_size feature (-EINVAL)",
        "device-size",
        None,
    ),
    (
        "Devices have inconsistent logical block sizes (4096 and 512).",
        "mixed-sectors",
        Some("has those of 4096"),
    ),
    (
        "bcache: bch_cached_dev_attach() Couldn't attach sda1: block size less than set's block size",
        "mixed-sectors",
        None,
    ),
    ("mkswap: warning: /dev/vol/swap is misaligned", "swap-misaligned", None),
    (
        "log stripe unit (1048576 bytes) is too large (maximum is 256KiB)",
        "stripes",
        Some("Nothing has to be done"),
    ),
    (
        "mkfs.xfs: small data volume, ignoring data volume stripe unit 1024 and stripe width 3072",
        "stripes",
        Some("3 times"),
    ),
    (
        "mkfs.xfs: Volume reports invalid stripe unit (4096) and stripe width (33553920), ignoring.",
        "stripes",
        Some("not a multiple"),
    ),
    ("data stripe width (0) must be a multiple of the data stripe unit", "stripes", Some("of no array")),
    ("Ignoring bogus optimal-io size for data device (33553920 bytes).", "33553920", Some("65535 sectors")),
    (
        "WARNING: Ignoring queue/optimal_io_size = 33553920 for device /dev/sdb (not divisible by 4KiB).",
        "33553920",
        Some("65535 sectors"),
    ),
    (
        "status: One or more devices are configured to use a non-native block size.\n\tExpect reduced performance.",
        "ashift",
        None,
    ),
    ("block size: 512B configured, 4096B native", "ashift", Some("-o ashift=12")),
    (
        "There have been 256 misaligned log IOs which required falling back to synchronous IO.",
        "sql-server",
        None,
    ),
    (
        "Cannot use file '...\\master.mdf' because it was originally formatted with sector size 4096 and is now on a volume \
         with sector size 16384.",
        "sql-server",
        Some("reports 16384"),
    ),
    (
        "ORA-01378: The logical block size (4096) of file /u01/a.log is not compatible with the disk sector size (media \
         sector size is 512 and host sector size is 512)",
        "oracle-block",
        Some("came from a disk of 4096"),
    ),
    (
        "XFS (sda1): Torn write (CRC failure) detected at log block 0x318e. Truncating head block from 0x3197.",
        "torn-log",
        None,
    ),
    (
        "The VHD http://a.example/vhds/MyLinuxVM.vhd has an unsupported virtual size of 21475270656 bytes.  The size must be a \
         whole number (in MBs).",
        "image-size",
        Some("21475885056"),
    ),
];

/// Asserts that a message, as one word or as many, is explained by the topic alone, and what its numbers come to, if they
/// decide anything.
#[track_caller]
fn is_explained(message: &str, topic: &str, numbers: Option<&str>) {
    let words: Vec<&str> = message.split_whitespace().collect();
    for words in [&[message][..], &words] {
        let run = straddle(&[&["explain", "--json", "--"], words].concat());
        assert_eq!(run.code, 0, "{message}: {}", run.err);
        let report = run.valid("explain");
        let topics = report["topics"].as_array().unwrap();
        let named: Vec<&str> = topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect();
        assert_eq!(named, [topic], "{message}");
        let said = topics[0]["numbers"].as_array().unwrap();
        let has = |part| said.iter().any(|said| said.as_str().unwrap().contains(part));
        assert!(numbers.map_or(said.is_empty(), has), "{message}: {said:?}");
    }
}

fn begins<'a>(said: &'a str, with: &str) -> Option<&'a str> {
    said.lines().map(|line| line.trim_start_matches(char::is_control)).find(|line| line.starts_with(with))
}

/// The disk that most commands are about, and others, made in the current directory.
fn made() -> String {
    let table = "printf 'label: gpt\\nstart=2048,size=40000\\n' | sfdisk -q --no-tell-kernel";
    format!(
        "zero() {{ dd if=/dev/zero of=disk.img bs=512 seek=$1 count=1 conv=notrunc status=none; }}\n\
         rm -f *.img; truncate -s 64M disk.img odd.img order.img part.img; {table} disk.img; {} odd.img\n\
         printf 'label: dos\\nstart=43008,size=2000\\nstart=2048,size=2000\\n' | sfdisk -q --no-tell-kernel --force order.img\n",
        table.replace("2048", "2049")
    )
}

#[test]
fn messages_of_other_tools_are_explained_as_they_are_printed() {
    let dir = Dir::new("messages");
    for (needed, command, with, topic, numbers) in SAID {
        if !present(&needed.split(' ').collect::<Vec<_>>()) {
            continue;
        }
        let said = shell(&format!("{}{{ {command}; }} 2>&1 || true", made()), dir.path());
        let message = begins(&said, with).unwrap_or_else(|| panic!("{command}: {said}"));
        is_explained(message, topic, numbers);
    }
    for (message, topic, numbers) in WRITTEN {
        is_explained(message, topic, numbers);
    }
}

#[test]
fn messages_about_devices_are_explained_as_they_are_printed() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        skipped("loop devices need root");
        return;
    }
    let dir = Dir::new("messages-devices");
    for (needed, command, with, topic, numbers) in ON_DEVICES {
        if !present(&[&["losetup", "sfdisk"], &needed.split(' ').collect::<Vec<_>>()[..]].concat()) {
            continue;
        }
        let line = format!(
            "{}truncate -s 64M small.img other.img\n\
             L=$(losetup --find --show small.img); K=$(losetup --find --show --sector-size 4096 other.img)\n\
             trap 'losetup --detach $L $K' EXIT\n\
             sfdisk_at() {{ printf 'label: gpt\\nstart=256,size=2560\\n' | sfdisk -q --no-tell-kernel --no-reread $1; }}\n\
             qemu_at() {{ mkfs.ext4 -q $1; mkdir -p mnt; mount $1 mnt; truncate -s 2097664 mnt/a; \
             qemu-io -f raw -t none -c 'write 0 4096' mnt/a; truncate -s %1MiB mnt/a; \
             qemu-io -f raw -t none -c 'write 0 4096' mnt/a && echo longer; umount mnt; }}\n\
             {{ {command}; }} 2>&1 || true",
            made()
        );
        let said = shell(&line, dir.path());
        let message = begins(&said, with).unwrap_or_else(|| panic!("{command}: {said}"));
        is_explained(message.trim(), topic, numbers);
        assert!(
            !command.starts_with("qemu") || said.contains("longer"),
            "a whole MiB is not refused: {said}"
        );
    }
}

/// What is said of a table in other sectors is true: a check finds it, the view that is named shows it, and sgdisk -e
/// destroys it.
#[test]
fn a_table_in_other_sectors_is_shown_by_the_view_that_is_named() {
    if !rustix::process::geteuid().is_root() || !present(&["losetup", "sfdisk", "sgdisk", "fdisk"]) {
        skipped("loop devices need root");
        return;
    }
    let dir = Dir::new("messages-view");
    let line = format!(
        "{}rm disk.img; truncate -s 64M disk.img; d=$(losetup --find --show -b 4096 disk.img)\n\
         printf 'label: gpt\\nstart=256,size=2560\\n' | sfdisk -q --no-tell-kernel --no-reread $d; losetup -d $d\n\
         cp disk.img copy.img; fdisk -l disk.img 2>&1 | head -n 1",
        made()
    );
    let message = shell(&line, dir.path());
    let said = flat(&straddle(&["explain", message.trim()]).out);
    let view = "losetup --find --show --read-only --partscan -b 4096 DISK";
    assert!(
        said.contains(view) && !said.contains("Nothing is lost") && said.contains("no sgdisk -e"),
        "{said}"
    );
    let disk = dir.join("disk.img");
    let found = straddle(&["check", "--json", disk.to_str().unwrap()]).json();
    assert_eq!(found["targets"][0]["partitions"][0]["start_bytes"], 1_048_576, "{found}");
    let shown =
        shell(&format!("d=$({}); sfdisk -d $d; losetup -d $d", view.replace("DISK", "disk.img")), dir.path());
    assert!(shown.contains("start=         256, size=        2560"), "{shown}");
    shell("sgdisk -e copy.img >/dev/null; sync copy.img", dir.path());
    let shown =
        shell(&format!("d=$({}); sfdisk -d $d; losetup -d $d", view.replace("DISK", "copy.img")), dir.path());
    assert!(!shown.contains("size=        2560"), "{shown}");
}

/// The kernel's own words, of disks that a guest has.
#[test]
fn messages_of_a_kernel_are_explained_as_they_are_printed() {
    if !present(&["linux.uml", "mkfs.xfs", "mkfs.ext4", "mkfs.fat", "mkswap", "dmsetup", "fio", "losetup"]) {
        return;
    }
    let guest = Guest::run("messages.sh", "1G");
    let said = guest.text("said");
    for (from, part, topic, numbers) in [
        (
            "transfer",
            "Optimal transfer size",
            "optimal-transfer",
            Some("3584 bytes more than a multiple of 4096"),
        ),
        ("mkswap", "is misaligned", "swap-misaligned", None),
        ("mke2fs", "alignment is offset by", "3072-bytes", Some("3584 + 512 = 4096")),
        ("mkfs-xfs", "not properly aligned", "not-aligned", None),
        ("xfs", "device supports", "too-small", Some("logical sectors of 4096 bytes")),
        ("ext4", "bad block size", "too-small", Some("1024 bytes")),
        ("fat", "logical sector size", "too-small", Some("-b 512")),
        ("crypt", "Device size", "device-size", None),
        ("fio", "io_u error", "not-a-sector", Some("multiples of 512")),
    ] {
        let is_it = |line: &&str| line.starts_with(&format!("{from} ")) && line.contains(part);
        let line = said.lines().find(is_it).unwrap_or_else(|| panic!("{from}: {said}"));
        is_explained(&line[from.len() + 1..], topic, numbers);
    }
    assert!(said.contains("view mounted"), "512-byte sectors are shown by losetup -b 512: {said}");
}

/// The length of an image: what a platform takes, by the tool that makes it, and what the advice comes to.
#[test]
fn the_size_of_a_whole_image_is_compared_with_its_storage() {
    if !present(&["sfdisk", "qemu-img"]) {
        return;
    }
    let dir = Dir::new("messages-size");
    let found = |options: &[&str], name: &str| {
        let path = dir.join(name);
        let report = straddle(&[&["check", "--json"], options, &[path.to_str().unwrap()]].concat()).json();
        let findings = report["targets"][0]["findings"].as_array().unwrap().clone();
        let own = findings.into_iter().find(|finding| finding["code"] == "S072");
        own.map(|finding| (finding["severity"].as_str().unwrap().to_owned(), finding["message"].to_string()))
    };
    shell(
        "table() { printf 'start=2048,size=4096,type=linux\\n' | sfdisk -q --no-tell-kernel --label gpt $1; }\n\
         truncate -s $(((2048 + 4096 + 33) * 512)) odd.img; table odd.img; truncate -s 100M raw.img; table raw.img; truncate -s 2097700 part.img\n\
         cp odd.img longer.img; truncate -s %1MiB longer.img; truncate -s 1G gce.img\n\
         vhd() { qemu-img convert -f raw -O vpc -o subformat=$1 raw.img $2; }\n\
         vhd fixed chs.vhd; vhd fixed,force_size ok.vhd; vhd dynamic,force_size dynamic.vhd",
        dir.path(),
    );
    let severity = |options: &[&str], name: &str| found(options, name).map(|(severity, _)| severity);
    for (options, name, expected) in [
        (&[][..], "odd.img", None),
        (&["--assume", "4kn"], "odd.img", Some("warning")),
        (&["--assume", "512e"], "odd.img", Some("advice")),
        (&["--assume", "512n"], "odd.img", None),
        (&["--assume", "4kn"], "longer.img", None),
        // What nobody recognises may not be a disk.
        (&[], "part.img", None),
        (&["--assume", "4kn"], "raw.img", None),
        (&["--for", "azure"], "raw.img", Some("advice")),
        (&["--for", "azure"], "chs.vhd", Some("error")),
        (&["--for", "azure"], "ok.vhd", None),
        (&["--for", "azure"], "dynamic.vhd", Some("advice")),
        (&[], "chs.vhd", None),
        (&["--for", "gce"], "raw.img", Some("error")),
        (&["--for", "gce"], "gce.img", None),
    ] {
        assert_eq!(
            severity(options, name).as_deref(),
            expected,
            "{options:?} {name}: {:?}",
            found(options, name)
        );
    }
    let (_, message) = found(&["--assume", "4kn"], "odd.img").unwrap();
    let rest = ((2048 + 4096 + 33) * 512) % 4096;
    assert!(message.contains(&format!("{rest} more than a multiple of the 4096-byte")), "{message}");
    // As advised for a VHD whose size is rounded: raw, longer, and back.
    tools::shell(
        "qemu-img convert -O raw chs.vhd new.raw; truncate -s 105906176 new.raw; \
         qemu-img convert -O vpc -o subformat=fixed,force_size new.raw new.vhd",
        dir.path(),
    );
    assert_eq!(found(&["--for", "azure"], "new.vhd"), None);
    assert_eq!(straddle(&["check", "--for", "aws", "x"]).code, 2);
}
