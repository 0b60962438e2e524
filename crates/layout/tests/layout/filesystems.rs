//! File systems made by the real mkfs, checked against blkid and against the superblock dumps of each one's
//! own tools.
//!
//! The ZFS labels were captured from real pools, with the output of zdb and blkid: see tests/zfs/capture.

use crate::tests::common;

use std::path::Path;
use std::process::Command;

use common::tools::{Image, random_cases, run, skipped};
use proptest::prelude::*;
use straddle_device::{Medium, MemoryMedium};
use straddle_layout::layer::{Facts, FileSystem};
use straddle_layout::view::View;
use straddle_layout::{FsKind, TableKind, read_layers, read_stack};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

const GIB: u64 = 1024 * MIB;

/// Reads a file system of the kind that blkid calls `kind`.
fn file_system(kind: &str, view: &View<'_>) -> Option<(FileSystem, String)> {
    straddle_layout::file_system(FsKind::from_name(kind).expect("it is read here"), view)
}

fn count(bytes: u64) -> Option<ByteCount> {
    Some(ByteCount::new(bytes))
}

fn offset(bytes: u64) -> Option<ByteOffset> {
    Some(ByteOffset::new(bytes))
}

/// The number after `key` in a tool's output.
fn figure(said: &str, key: &str) -> u64 {
    let after = said.split_once(key).unwrap_or_else(|| panic!("no {key:?} in {said}")).1;
    let number = after.trim_start_matches([' ', '\t', ':', '=', '[', '(']);
    let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or("");
    digits.parse().unwrap_or_else(|_| panic!("{key:?} is no number in {said}"))
}

/// The value of a tag in blkid's output.
fn tag<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The source directory of read-only file systems; commands refer to it by this constant's name.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// Makes a file system and reads it: it must be a `kind` with this label, for blkid too.
fn make(kind: &str, label: &str, len: u64, line: &str) -> Option<(Image, FileSystem)> {
    make_with(kind, label, len, line, ("SOURCE", SOURCE))
}

/// As [`make`], with `at.0` in `line` replaced by the path `at.1`: a path may contain spaces.
fn make_with(kind: &str, label: &str, len: u64, line: &str, at: (&str, &str)) -> Option<(Image, FileSystem)> {
    let name: String = line.chars().filter(char::is_ascii_alphanumeric).collect();
    let image = Image::new(&name, len);
    let words: Vec<String> = line.split(' ').map(|word| word.replace(at.0, at.1)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(words[0], &words[1..], &image.0, "")?;
    let fs = judged(&image, kind, label)?;
    Some((image, fs))
}

/// Reads what is in the image, and compares it with blkid's output.
fn judged(image: &Image, kind: &str, label: &str) -> Option<FileSystem> {
    let medium = image.medium();
    assert_eq!(kind_of(&medium), Some(kind));
    let (fs, name) = file_system(kind, &View::of_drive(&medium)).expect("the superblock makes sense");
    assert_eq!(name, label);
    let said = run("blkid", &["-p", "-o", "export"], &image.0, "")?;
    compare_with_blkid(&said, kind, label, &fs);
    fills(kind, &fs, medium.len());
    // These fields are checked above; the units are checked against the file system's own tools.
    Some(FileSystem { extent: None, boot_copies: Vec::new(), fat_bits: None, ..fs })
}

/// A file system made by mkfs fills its image, except for a remainder smaller than one of its units.
fn fills(kind: &str, fs: &FileSystem, len: ByteCount) {
    let is_silent = ["iso9660", "squashfs", "erofs", "zfs_member"].contains(&kind);
    assert_eq!(fs.extent.is_none(), is_silent, "{kind}");
    let Some(extent) = fs.extent else { return };
    // FAT and NTFS begin with tables, so their clusters do not end at the end of the image; ext4 leaves out a
    // last group that is too small.
    let least = len.get() - len.get().min(2 * fs.block.get().max(MIB));
    assert!(extent <= len && extent.get() > least, "{kind}: {extent} of {len}");
    assert!(fs.boot_copies.iter().all(|copy| copy.get() < len.get()), "{kind}");
    assert_eq!(kind == "ntfs", fs.boot_copies.len() == 1 && fs.fat_bits.is_none(), "{kind}");
    assert_eq!(fs.fat_bits == Some(32), fs.boot_copies.len() == 1 && kind == "vfat", "{fs:?}");
}

fn kind_of(medium: &dyn Medium) -> Option<&'static str> {
    match read_stack(medium, None, None).expect("the image can be read").kind {
        TableKind::Content(kind) => Some(kind.name()),
        _ => None,
    }
}

fn compare_with_blkid(said: &str, kind: &str, label: &str, fs: &FileSystem) {
    assert_eq!(tag(said, "TYPE"), Some(kind), "{said}");
    // blkid does not apply the update sequence of an NTFS record, which affects a label of 128 characters.
    if label.len() < 128 {
        assert_eq!(tag(said, "LABEL").unwrap_or(""), label, "{said}");
    }
    if let Some(size) = tag(said, "BLOCK_SIZE") {
        // The smallest read and write: the sector, if there is one.
        assert_eq!(size, fs.sector.unwrap_or(fs.block).get().to_string(), "{said}");
    }
    // Since util-linux 2.39. For exFAT it is also the sector, not the unit of allocation.
    if let Some(size) = tag(said, "FSBLOCKSIZE").filter(|_| kind != "exfat") {
        assert_eq!(size, fs.block.get().to_string(), "{said}");
    }
}

/// The figures of a file system that records only a block size.
fn only_block(block: u64) -> FileSystem {
    FileSystem { block: ByteCount::new(block), ..FileSystem::default() }
}

#[test]
fn ext_says_its_blocks_clusters_and_stripes() {
    let lines = [
        ("ext2", "mkfs.ext2 -q -F -L one"),
        ("ext3", "mkfs.ext3 -q -F -L one"),
        ("ext4", "mkfs.ext4 -q -F -L one"),
        ("ext4", "mkfs.ext4 -q -F -L one -b 1024"),
        ("ext4", "mkfs.ext4 -q -F -L one -b 4096 -O bigalloc -C 65536"),
        ("ext4", "mkfs.ext4 -q -F -L one -b 4096 -E stride=16,stripe-width=64"),
        ("jbd", "mkfs.ext4 -q -F -L one -b 4096 -O journal_dev"),
    ];
    for (kind, line) in lines {
        let Some((image, fs)) = make(kind, "one", 64 * MIB, line) else { return };
        let Some(said) = run("dumpe2fs", &["-h"], &image.0, "") else { return };
        let block = figure(&said, "Block size:");
        let blocks = |key| said.contains(key).then(|| ByteCount::new(figure(&said, key) * block));
        let cluster = said.contains("bigalloc").then(|| ByteCount::new(figure(&said, "Cluster size:")));
        let (unit, width) = (blocks("RAID stride:"), blocks("RAID stripe width:"));
        assert_eq!(fs, FileSystem { cluster, stripe_unit: unit, stripe_width: width, ..only_block(block) });
        assert_eq!(line.contains("bigalloc"), fs.cluster == count(64 * KIB));
        assert_eq!(line.contains("stride"), fs.stripe_unit == count(64 * KIB));
        assert_eq!(line.contains("stride"), fs.stripe_width == count(256 * KIB));
    }
}

#[test]
fn xfs_says_its_sectors_and_stripes() {
    // Only a separate log may have sectors of another size than the data.
    let log = Image::new("xfslog", 128 * MIB);
    let lines = [
        ("-s size=512", 512, 512, None),
        ("-s size=4096", 4096, 4096, None),
        ("-l logdev=APART,size=64m,sectsize=4096", 512, 4096, None),
        ("-b size=1024 -d su=64k,sw=3", 512, 512, Some((64 * KIB, 192 * KIB))),
    ];
    for (options, sector, log_sector, stripe) in lines {
        let line = &format!("mkfs.xfs -q -f -L two {options}");
        let apart = ("APART", log.0.to_str().expect("a path in UTF-8"));
        let Some((image, fs)) = make_with("xfs", "two", GIB, line, apart) else { return };
        let Some(said) = run("xfs_db", &["-r", "-c", "sb 0", "-c", "p"], &image.0, "") else { return };
        let block = figure(&said, "\nblocksize =");
        let blocks = |key| Some(figure(&said, key) * block).filter(|size| *size > 0).map(ByteCount::new);
        let log = Some(figure(&said, "\nlogsectsize =")).filter(|size| *size > 0);
        let expected = FileSystem {
            sector: count(figure(&said, "\nsectsize =")),
            log_sector: count(log.unwrap_or(figure(&said, "\nsectsize ="))),
            stripe_unit: blocks("\nunit ="),
            stripe_width: blocks("\nwidth ="),
            ..only_block(block)
        };
        assert_eq!(fs, expected, "{line}");
        assert_eq!((fs.sector, fs.log_sector), (count(sector), count(log_sector)), "{line}");
        assert_eq!(fs.stripe_unit.zip(fs.stripe_width).map(|(u, w)| (u.get(), w.get())), stripe, "{line}");
    }
}

#[test]
fn btrfs_says_its_sector_and_node() {
    for (line, node) in [("mkfs.btrfs -q -L three", 16384), ("mkfs.btrfs -q -L three -n 65536", 65536)] {
        let Some((image, fs)) = make("btrfs", "three", 512 * MIB, line) else { return };
        let Some(said) = run("btrfs", &["inspect-internal", "dump-super"], &image.0, "") else { return };
        let expected = FileSystem {
            node: count(figure(&said, "\nnodesize")),
            devid: Some(figure(&said, "\ndev_item.devid")),
            ..only_block(figure(&said, "\nsectorsize"))
        };
        assert_eq!(fs, expected);
        assert_eq!(fs.node, count(node));
    }
}

#[test]
fn jfs_and_reiserfs_say_their_block() {
    if let Some((image, fs)) = make("jfs", "four", 64 * MIB, "mkfs.jfs -q -L four")
        && let Some(said) = run("jfs_tune", &["-l"], &image.0, "")
    {
        assert_eq!(fs, only_block(figure(&said, "Aggregate block size:")));
    }
    for (line, label) in [
        ("mkfs.reiserfs -q -ff -l five", "five"),
        ("mkfs.reiserfs -q -ff -b 1024 -l five", "five"),
        ("mkfs.reiserfs -q -ff --format 3.5", ""),
    ] {
        let Some((image, fs)) = make("reiserfs", label, 64 * MIB, line) else { return };
        let Some(said) = run("debugreiserfs", &[], &image.0, "") else { return };
        assert_eq!(fs, only_block(figure(&said, "Blocksize:")));
    }
}

#[test]
fn f2fs_and_nilfs2_say_their_segments() {
    for line in ["mkfs.f2fs -q -l six", "mkfs.f2fs -q -l six -s 4"] {
        let Some((image, fs)) = make("f2fs", "six", 256 * MIB, line) else { break };
        let Some(said) = run("dump.f2fs", &["-d", "1"], &image.0, "") else { break };
        // The line is like "log_blocksize [0x c : 12]".
        let number = |key: &str| figure(said.split_once(key).expect(key).1, " : ");
        let block = 1 << number("log_blocksize");
        let expected = FileSystem {
            segment: count(block << number("log_blocks_per_seg")),
            segment_start: offset(number("segment0_blkaddr") * block),
            data_start: offset(number("main_blkaddr") * block),
            ..only_block(block)
        };
        assert_eq!(fs, expected);
        assert!(fs.data_start > fs.segment_start);
    }
    // nilfs-tune needs a block device, so the result is checked against the options of mkfs.
    for (line, block, segment) in [
        ("mkfs.nilfs2 -q -L seven", 4096, 8 * MIB),
        ("mkfs.nilfs2 -q -L seven -b 1024 -B 512", 1024, 512 * KIB),
    ] {
        let Some((_, fs)) = make("nilfs2", "seven", 256 * MIB, line) else { return };
        // Data starts after the superblock, on a multiple of 4 KiB.
        let expected =
            FileSystem { segment: count(segment), data_start: offset(4 * KIB), ..only_block(block) };
        assert_eq!(fs, expected, "{line}");
    }
}

/// What is otherwise known by its name only says its block, as blkid does.
#[test]
fn others_say_their_block() {
    for (kind, line) in [
        ("udf", "mkudffs -b 512"),
        ("udf", "mkudffs -b 1024"),
        ("udf", "mkudffs -b 2048"),
        ("udf", "mkudffs -b 4096"),
        ("gfs2", "mkfs.gfs2 -O -q -p lock_nolock -J 8 -b 1024"),
        ("gfs2", "mkfs.gfs2 -O -q -p lock_nolock -J 8"),
        ("minix", "mkfs.minix -1"),
        ("minix", "mkfs.minix -3"),
    ] {
        let name: String = line.chars().filter(char::is_ascii_alphanumeric).collect();
        let image = Image::new(&name, 64 * MIB);
        let words: Vec<&str> = line.split(' ').collect();
        let made = run(words[0], &words[1..], &image.0, "");
        let Some(said) = made.and_then(|_| run("blkid", &["-p", "-o", "export"], &image.0, "")) else {
            continue;
        };
        let medium = image.medium();
        let (view, whole) = (View::of_drive(&medium), Span::first(medium.len()));
        let layer = read_layers(&view, whole, None).expect("it is recognised");
        let Facts::FileSystem(fs) = layer.facts else { panic!("{line}: {:?}", layer.facts) };
        assert_eq!(
            (layer.kind.name(), Some(fs)),
            (kind, tag(&said, "BLOCK_SIZE").map(|size| only_block(size.parse().unwrap()))),
            "{line}"
        );
    }
}

/// The first device of a file system on several: only what is on this one counts.
#[test]
fn a_file_system_on_several_devices_says_what_is_on_this_one() {
    for (kind, mkfs) in
        [("f2fs", "mkfs.f2fs -q -l many -c OTHERS"), ("btrfs", "mkfs.btrfs -q -f -L many -d single OTHERS")]
    {
        for others in [&[512][..], &[64, 128], &[128, 1024, 256]] {
            let name = |at: usize| format!("{kind}-{}-{at}", others.len());
            let more: Vec<Image> = (others.iter().enumerate())
                .map(|(at, size)| Image::new(&name(at), (64 + *size) * MIB))
                .collect();
            let (option, separate) = if kind == "f2fs" { ("-c OTHERS", "-c ") } else { ("OTHERS", "") };
            let words: Vec<String> =
                more.iter().map(|image| format!("{separate}{}", image.0.display())).collect();
            let line = mkfs.replace(option, &words.join(" "));
            let image = Image::new(&name(9), 320 * MIB);
            let words: Vec<&str> = line.split(' ').collect();
            if run(words[0], &words[1..], &image.0, "").is_none() {
                break;
            }
            let (fs, label) = file_system(kind, &View::of_drive(&image.medium())).expect("it was just made");
            assert_eq!(label, "many");
            fills(kind, &fs, image.medium().len());
            if kind == "btrfs" {
                // Its own tools look for the other devices.
                continue;
            }
            let Some(said) = run("dump.f2fs", &["-d", "1"], &image.0, "") else { break };
            // The line is like "Info: Device[0] : PATH blkaddr = 0--ffff".
            let first = said.lines().find(|line| line.contains("Device[0]")).expect("it names its devices");
            let last = first.rsplit("--").next().map(|last| u64::from_str_radix(last, 16));
            let blocks = last.expect("it has an end").expect("a number") + 1;
            assert_eq!(fs.extent, count(blocks * fs.block.get()), "{said}");
        }
    }
}

#[test]
fn fat_says_where_its_clusters_are() {
    let mut unaligned = 0;
    for (bits, len) in [(12, 2 * MIB), (16, 64 * MIB), (32, 512 * MIB)] {
        for options in ["", " -a", " -h 2048", " -a -s 8", " -s 8", " -S 4096 -s 2", " -a -r 16 -R 33 -s 2"] {
            if bits == 32 && options.contains("-r 16") {
                continue;
            }
            let line = format!("mkfs.fat -F {bits} -n EIGHT{options}");
            let Some((image, fs)) = make("vfat", "EIGHT", len, &line) else { return };
            let Some(said) = run("fsck.fat", &["-n", "-v"], &image.0, "") else { return };
            let before = |key: &str| {
                let words = said.split_once(key).unwrap_or_else(|| panic!("no {key:?}: {said}")).0;
                words.split_whitespace().next_back().and_then(|word| word.parse::<u64>().ok()).expect(key)
            };
            let cluster = before(" bytes per cluster");
            let expected = FileSystem {
                sector: count(before(" bytes per logical sector")),
                cluster: count(cluster),
                data_start: offset(figure(&said, "Data area starts at byte")),
                hidden_sectors: Some(before(" hidden sectors")),
                ..only_block(cluster)
            };
            assert_eq!(fs, expected, "{line}");
            let (read, _) =
                file_system("vfat", &View::of_drive(&image.medium())).expect("it was read before");
            assert_eq!(read.fat_bits, Some(bits), "{line}");
            assert_eq!(options.contains("-h"), fs.hidden_sectors == Some(2048), "{line}");
            let start = fs.data_start.expect("compared").get();
            unaligned += usize::from(cluster >= 4096 && !start.is_multiple_of(4096));
        }
    }
    assert!(unaligned > 0, "-a makes clusters that are not aligned, which is what this is for");
}

#[test]
fn exfat_says_where_its_clusters_are() {
    for line in ["mkfs.exfat -L nine", "mkfs.exfat -L nine -c 128K", "mkfs.exfat -L nine -b 8K"] {
        let Some((image, fs)) = make("exfat", "nine", 256 * MIB, line) else { return };
        let Some(said) = run("dump.exfat", &[], &image.0, "") else { return };
        let sector = 1 << figure(&said, "Sector Size Bits:");
        let cluster = sector << figure(&said, "Sector per Cluster bits:");
        let expected = FileSystem {
            sector: count(sector),
            cluster: count(cluster),
            data_start: offset(sector * figure(&said, "Cluster Heap Offset (sector offset):")),
            hidden_sectors: Some(0),
            ..only_block(cluster)
        };
        assert_eq!(fs, expected, "{line}");
    }
}

#[test]
fn ntfs_says_its_sector_cluster_and_start() {
    // The longest label reaches into the second sector of its record, so two of its bytes are in the update
    // sequence.
    let long: String = "ten_with_all_the_characters_that_there_may_be_".chars().cycle().take(128).collect();
    for (label, rest) in [
        ("ten", "-p 2048 -H 255 -S 63"),
        ("ten", "-c 131072"),
        ("ten", "-s 4096 -c 65536"),
        ("", "-c 512"),
        (&long, "-c 4096"),
    ] {
        let line = format!("mkfs.ntfs -F -Q -q -L {label} {rest}");
        let line = if label.is_empty() { line.replace("-L  ", "") } else { line };
        let image = Image::new(&format!("ntfs{}{}", label.len(), rest.replace(' ', "")), 128 * MIB);
        let words: Vec<&str> =
            line.split(' ').map(|word| if word == "SOURCE" { SOURCE } else { word }).collect();
        let made = run(words[0], &words[1..], &image.0, "");
        let Some(fs) = made.and_then(|_| judged(&image, "ntfs", label)) else { return };
        let Some(said) = run("ntfsinfo", &["-m"], &image.0, "") else { return };
        assert!(said.contains(&format!("Volume Name: {label}\n")), "{said}");
        let cluster = figure(&said, "Cluster Size:");
        let expected = FileSystem {
            sector: count(figure(&said, "Sector Size:")),
            cluster: count(cluster),
            hidden_sectors: Some(if rest.starts_with("-p") { 2048 } else { 0 }),
            ..only_block(cluster)
        };
        assert_eq!(fs, expected, "{line}");
    }
}

#[test]
fn swap_says_its_page() {
    for page in [4096, 8192, 16384, 32768, 65536] {
        let line = format!("mkswap -q -L eleven -p {page}");
        let Some((_, fs)) = make("swap", "eleven", 16 * MIB, &line) else { return };
        assert_eq!(fs, only_block(page));
    }
}

#[test]
fn what_is_written_once_says_its_block() {
    // mkfs.erofs of Debian 12 has no option for a label.
    for (kind, label, line, block) in [
        ("iso9660", "twelve", "genisoimage -quiet -V twelve -o IMAGE SOURCE", 2048),
        ("squashfs", "", "mksquashfs SOURCE IMAGE -noappend -quiet -no-progress", 128 * KIB),
        ("squashfs", "", "mksquashfs SOURCE IMAGE -noappend -quiet -no-progress -b 65536", 64 * KIB),
        ("erofs", "", "mkfs.erofs IMAGE SOURCE", 4096),
    ] {
        if let Some((_, fs)) = make(kind, label, 0, line) {
            assert_eq!(fs, only_block(block), "{line}");
        }
    }
}

/// The first label of a captured pool, and the output of zdb and blkid for it.
fn captured(name: &str) -> Option<(Vec<u8>, String)> {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zfs").join(name);
    let label = Command::new("gzip").arg("-dc").arg(at.with_extension("label.gz")).output();
    let Ok(label) = label else {
        skipped("gzip is not installed");
        return None;
    };
    assert_eq!(label.stdout.len(), 256 << 10, "{}", String::from_utf8_lossy(&label.stderr));
    let said = std::fs::read_to_string(at.with_extension("txt")).expect("what was said was captured too");
    Some((label.stdout, said))
}

#[test]
fn zfs_says_its_ashift() {
    for (name, ashift) in [("ashift9", 9), ("ashift12", 12), ("ashift13", 13), ("mirror", 12), ("raidz", 12)]
    {
        let Some((mut label, said)) = captured(name) else { return };
        let medium = MemoryMedium::sparse(label.clone(), ByteCount::new(128 * MIB));
        assert_eq!(kind_of(&medium), Some("zfs_member"), "{name}");
        let (fs, pool) = file_system("zfs_member", &View::of_drive(&medium)).expect("the label makes sense");
        compare_with_blkid(&said, "zfs_member", &pool, &fs);
        assert_eq!(pool, format!("straddle-{name}"));
        let expected =
            FileSystem { ashift: Some(ashift), data_start: offset(4 * MIB), ..only_block(1 << ashift) };
        assert_eq!(fs, expected, "{name}");
        assert_eq!(figure(&said, " ashift:"), u64::from(ashift), "{name}");

        // A label without any uberblock is not recognised, nor is one without its list.
        let whole = label.clone();
        label[128 << 10..].fill(0);
        let of = |label: &[u8]| MemoryMedium::sparse(label.to_vec(), ByteCount::new(128 * MIB));
        assert_eq!(kind_of(&of(&label)), None, "{name}");
        label = whole;
        label[16 << 10] = 0;
        assert_eq!(kind_of(&of(&label)), None, "{name}");
    }
}

/// A GPT, or later content, overwrites some of the labels.
#[test]
fn one_label_of_zfs_at_the_start_or_both_at_the_end_are_enough() {
    let Some((label, _)) = captured("ashift12") else { return };
    let len = 64 * MIB + 4096;
    let last = 64 * MIB - 256 * KIB;
    let made = |at: &[u64]| {
        let mut whole = vec![0; usize::try_from(len).unwrap()];
        for at in at {
            whole[usize::try_from(*at).unwrap()..][..label.len()].copy_from_slice(&label);
        }
        MemoryMedium::new(whole)
    };
    for at in [&[0][..], &[256 * KIB], &[last - 256 * KIB, last]] {
        let medium = made(at);
        assert_eq!(kind_of(&medium), Some("zfs_member"), "{at:?}");
        let (fs, pool) = file_system("zfs_member", &View::of_drive(&medium)).expect("the label makes sense");
        assert_eq!((fs.ashift, pool.as_str()), (Some(12), "straddle-ashift12"), "{at:?}");
    }
    // A single label at the end, as a former member of another size can leave it there.
    for at in [last - 512 * KIB, last - 256 * KIB, last] {
        assert_eq!(kind_of(&made(&[at])), None, "{at}");
    }
}

/// Invariants that hold for whatever is read.
fn check(kind: &str, len: u64, read: Option<(FileSystem, String)>) -> Result<(), TestCaseError> {
    let Some((fs, _)) = read else { return Ok(()) };
    let units = [Some(fs.block), fs.sector, fs.log_sector, fs.cluster, fs.node];
    for unit in units.into_iter().flatten().filter(|_| kind != "zfs_member") {
        prop_assert!(unit.get().is_power_of_two() && (256..=64 * MIB).contains(&unit.get()), "{:?}", fs);
    }
    prop_assert!(fs.segment.is_none_or(|segment| segment.get() <= len));
    for start in [fs.data_start, fs.segment_start].into_iter().flatten().filter(|_| kind != "zfs_member") {
        prop_assert!(start.get() < len, "{:?}", fs);
    }
    prop_assert!(fs.ashift.is_none_or(|ashift| (9..=16).contains(&ashift)));
    Ok(())
}

/// The first bytes of real file systems, as far as there are tools to make them, and the length of each.
fn seeds() -> &'static [(&'static str, Vec<u8>, u64)] {
    static SEEDS: std::sync::OnceLock<Vec<(&str, Vec<u8>, u64)>> = std::sync::OnceLock::new();
    SEEDS.get_or_init(|| {
        let lines = [
            ("ext4", "mkfs.ext4 -q -F -L seed -O bigalloc -E stride=16,stripe-width=64", 64 * MIB),
            ("xfs", "mkfs.xfs -q -f -L seed -s size=4096 -d su=64k,sw=3", GIB),
            ("btrfs", "mkfs.btrfs -q -L seed", 512 * MIB),
            ("jfs", "mkfs.jfs -q -L seed", 64 * MIB),
            ("reiserfs", "mkfs.reiserfs -q -ff -l seed", 64 * MIB),
            ("f2fs", "mkfs.f2fs -q -l seed", 256 * MIB),
            ("nilfs2", "mkfs.nilfs2 -q -L seed", 256 * MIB),
            ("vfat", "mkfs.fat -F 12 -n SEED", 2 * MIB),
            ("vfat", "mkfs.fat -F 32 -n SEED -s 1", 34 * MIB),
            ("exfat", "mkfs.exfat -L seed -b 8K", 16 * MIB),
            ("ntfs", "mkfs.ntfs -F -Q -q -L seed", 64 * MIB),
            ("swap", "mkswap -q -L seed", 16 * MIB),
        ];
        let mut seeds: Vec<_> = lines
            .into_iter()
            .filter_map(|(kind, line, len)| {
                let (image, _) = make(kind, if kind == "vfat" { "SEED" } else { "seed" }, len, line)?;
                let mut head = vec![0; (2 * MIB).min(len).try_into().ok()?];
                image.medium().read_at(ByteOffset::ZERO, &mut head).ok()?;
                Some((kind, head, len))
            })
            .collect();
        seeds.extend(captured("raidz").map(|(label, _)| ("zfs_member", label, 128 * MIB)));
        seeds
    })
}

/// Offsets of superblocks, of the NTFS volume record and of the list in a ZFS label.
const PLACES: [usize; 8] =
    [0, 1024, 4086, 16 * 1024, (16 * 1024) + 3 * 1024, (16 * 1024) + 0x160, 32 * 1024, 64 * 1024];

/// Changes to bytes: index into `PLACES`, distance from there, and the new value. Extreme values are likely.
fn changes() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    let value = prop_oneof![Just(0), Just(0xFF), Just(0x80), Just(0x7F), any::<u8>()];
    proptest::collection::vec((0..PLACES.len(), 0_usize..512, value), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(random_cases(3000)))]

    #[test]
    fn changed_superblocks_never_panic(changes in changes(), cut in prop::option::of(0_usize..200_000)) {
        for (kind, head, len) in seeds() {
            let mut head = head[..head.len().min(512 << 10)].to_vec();
            for (place, past, value) in &changes {
                if let Some(byte) = head.get_mut(PLACES[*place] + past) {
                    *byte = *value;
                }
            }
            let len = cut.map_or(*len, |cut| cut as u64);
            head.truncate(cut.unwrap_or(head.len()));
            let medium = MemoryMedium::sparse(head, ByteCount::new(len));
            check(kind, len, file_system(kind, &View::of_drive(&medium)))?;
            let _ = kind_of(&medium);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in common::noise(70_000), more in 0_u64..GIB) {
        let len = bytes.len() as u64 + more;
        let medium = MemoryMedium::sparse(bytes, ByteCount::new(len));
        for kind in FsKind::ALL.iter().map(|kind| kind.name()) {
            check(kind, len, file_system(kind, &View::of_drive(&medium)))?;
        }
    }
}
