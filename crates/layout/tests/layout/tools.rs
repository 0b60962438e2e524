//! Tables and signatures written by the real tools, compared with `sfdisk -J` and `blkid -p`.
//!
//! A missing tool skips its test with a message; under CI, where it must be installed, that is a failure.

use crate::tests::common;

use std::path::Path;

use common::names;
use common::tools::{Image, run};
use serde_json::Value;
use straddle_device::KernelPartition;
use straddle_layout::layer::Facts;
use straddle_layout::live::compare_partitions;
use straddle_layout::{Attributes, PartitionType, Problem, Role, Stack, TableKind, types};
use straddle_units::{BlockSize, Lba, LbaCount, MIB, Span};

/// Compares what this crate reads with the output of `sfdisk -J`; `None` if sfdisk is not installed.
fn compare_with_sfdisk(image: &Image) -> Option<Stack> {
    let json = run("sfdisk", &["-J"], &image.0, "")?;
    let json: Value = serde_json::from_str(&json).expect("sfdisk writes JSON");
    let table = &json["partitiontable"];
    let stack = image.stack(None);
    assert_eq!(stack.problems, []);
    let is_gpt = table["label"] == "gpt";
    assert_eq!(is_gpt, matches!(stack.kind, TableKind::Gpt | TableKind::HybridMbr));
    let id = match stack.disk_id.first_chunk::<16>() {
        Some(guid) => types::guid_text(*guid),
        None => format!("0x{:08x}", u32::from_le_bytes(stack.disk_id[..].try_into().expect("4 bytes"))),
    };
    assert_eq!(table["id"], id.as_str());
    let nodes = table["partitions"].as_array().expect("there are partitions");
    assert_eq!(nodes.len(), stack.partitions.len());
    for (node, partition) in nodes.iter().zip(&stack.partitions) {
        assert!(
            node["node"].as_str().expect("text").ends_with(&format!("img{}", partition.number)),
            "{node}"
        );
        assert_eq!(node["start"], partition.start.get());
        assert_eq!(node["size"], partition.count.get());
        assert_eq!(node["type"], type_text(partition.kind).as_str());
        let Attributes { guid, name, bootable, .. } = &partition.attributes;
        assert_eq!(node["uuid"].as_str(), guid.map(types::guid_text).as_deref());
        assert_eq!(node["name"].as_str().unwrap_or(""), name);
        assert_eq!(node["bootable"].as_bool().unwrap_or(false), *bootable);
    }
    if is_gpt {
        let usable = stack.usable.expect("a GPT has one");
        assert_eq!(table["firstlba"], usable.start().get() / 512);
        assert_eq!(table["lastlba"], usable.end().get() / 512 - 1);
    }
    Some(stack)
}

fn type_text(kind: PartitionType) -> String {
    match kind {
        PartitionType::Guid(guid) => types::guid_text(guid),
        PartitionType::Mbr(id) => types::mbr_text(id),
        PartitionType::Unknown => String::new(),
    }
}

/// Has fdisk write an sfdisk script to an image with sectors of `block` bytes (sfdisk itself can do so only since
/// 2.39), and compares what this crate reads with the script that fdisk then saves.
fn compare_with_fdisk(image: &Image, block: BlockSize, script: &str) -> Option<Stack> {
    let size = block.to_string();
    let beside = |ending: &str| image.0.with_extension(ending);
    let (load, save) = (beside("load"), beside("save"));
    std::fs::write(&load, script).expect("a temporary file can be made");
    let made = run("fdisk", &["-b", &size], &image.0, &format!("I\n{}\nw\n", load.display()));
    made.as_ref()
        .and_then(|_| run("fdisk", &["-b", &size], &image.0, &format!("O\n{}\nq\n", save.display())));
    let saved = std::fs::read_to_string(&save);
    let _ = (std::fs::remove_file(&load), std::fs::remove_file(&save));
    made?;
    let saved = saved.expect("fdisk saves a script");
    let field = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        Some(rest.split(',').next().unwrap_or("").trim().to_owned())
    };
    let lines: Vec<&str> = saved.lines().filter(|line| line.contains("start=")).collect();
    let stack = image.stack(None);
    assert_eq!((stack.block, stack.block_found), (block, true), "{saved}");
    assert_eq!(stack.problems, []);
    assert_eq!(lines.len(), stack.partitions.len(), "{saved}");
    for (line, partition) in lines.iter().zip(&stack.partitions) {
        assert!(line.contains(&format!("img{} :", partition.number)), "{line}");
        assert_eq!(field(line, "start="), Some(partition.start.to_string()));
        assert_eq!(field(line, "size="), Some(partition.count.to_string()));
        assert_eq!(field(line, "type="), Some(type_text(partition.kind)));
        assert_eq!(field(line, "uuid="), partition.attributes.guid.map(types::guid_text));
    }
    Some(stack)
}

#[test]
fn sfdisk_gpt_in_both_block_sizes() {
    let image = Image::new("gpt512", 256 * MIB);
    let script = "label: gpt\nsize=16MiB,type=U,name=\"EFI\"\nsize=32MiB,type=S\nstart=100MiB,type=L\n";
    if run("sfdisk", &["-q"], &image.0, script).is_some()
        && let Some(stack) = compare_with_sfdisk(&image)
    {
        assert_eq!((stack.block, stack.block_found), (BlockSize::B512, true));
        let known: Vec<_> = stack.partitions.iter().map(|p| types::name(&p.kind)).collect();
        assert_eq!(known, [Some("EFI System"), Some("Linux swap"), Some("Linux filesystem")]);
    }
    let image = Image::new("gpt4096", 256 * MIB);
    let script = "label: gpt\nstart=256,size=4096,type=U\nstart=8192,size=4097,type=L\n";
    if compare_with_fdisk(&image, BlockSize::B4096, script).is_some() {
        assert_eq!(names(&image.stack(Some(BlockSize::B512)).problems), ["OtherBlockSize"]);
        assert_eq!(image.stack(Some(BlockSize::B4096)).problems, []);
    }
}

#[test]
fn fdisk_gpt_in_the_sectors_of_other_media() {
    for size in [1024, 2048] {
        let block = BlockSize::new(size).expect("it is a power of two");
        let image = Image::new(&format!("gpt{size}"), 64 * MIB);
        let script = format!("label: gpt\nstart={},size=4096,type=U\nstart=16000,size=4097\n", MIB / size);
        if compare_with_fdisk(&image, block, &script).is_some() {
            assert_eq!(names(&image.stack(Some(BlockSize::B512)).problems), ["OtherBlockSize"]);
            assert_eq!(image.stack(Some(block)).problems, []);
        }
    }
}

#[test]
fn sfdisk_mbr_with_logical_partitions() {
    let image = Image::new("mbr", 256 * MIB);
    let script = "label: dos\n,16MiB,c,*\n,64MiB,E\n,,L\n,8MiB,L\n,8MiB,S\n,16MiB,V\n";
    if run("sfdisk", &["-q"], &image.0, script).is_none() {
        return;
    }
    let Some(stack) = compare_with_sfdisk(&image) else { return };
    assert!(stack.partitions.iter().any(|p| matches!(p.role, Role::Logical { .. })));
    assert_eq!((stack.block, stack.block_found), (BlockSize::B512, true));
}

#[test]
fn fdisk_mbr_with_logical_partitions_in_4096() {
    let image = Image::new("mbr4096", 256 * MIB);
    // Only the EBR shows the block size.
    let script = "label: dos\nstart=256,size=4096,type=83\nstart=8192,size=16384,type=5\n\
                  start=8448,size=2048,type=83\nstart=16384,size=2048,type=82\n";
    if compare_with_fdisk(&image, BlockSize::B4096, script).is_some() {
        assert_eq!(names(&image.stack(Some(BlockSize::B512)).problems), ["OtherBlockSize"]);
    }
}

#[test]
fn an_empty_container_is_no_problem() {
    let image = Image::new("empty-extended", 64 * MIB);
    if run("sfdisk", &["-q"], &image.0, "label: dos\n,16MiB,L\n,,E\n").is_some() {
        compare_with_sfdisk(&image);
    }
    let image = Image::new("empty-extended-parted", 64 * MIB);
    let path = image.0.to_str().expect("a plain path");
    if run_parted(&["-s", path, "mklabel", "msdos", "mkpart", "extended", "8MiB", "100%"]) {
        assert_eq!(image.stack(None).problems, []);
        assert_eq!(image.stack(None).partitions.len(), 1);
    }
}

/// Runs parted, whose commands come after the image: a last command is passed in the image's usual place.
/// Returns whether parted is installed.
fn run_parted(args: &[&str]) -> bool {
    run("parted", args, Path::new("print"), "").is_some()
}

#[test]
fn sgdisk_hybrid_and_resized_tables() {
    for (name, args) in [
        ("hybrid", &["-n", "1:2048:+16M", "-n", "2:0:+8M", "-t", "2:8200", "-h", "1:2"][..]),
        ("entries256", &["-S", "256", "-n", "1:2048:+16M", "-n", "200:0:+8M", "-c", "200:größe 200"]),
        ("attributes", &["-n", "1:2049:+16M", "-A", "1:set:2", "-A", "1:set:63"]),
        ("one", &["-n", "1:0:0"]),
    ] {
        let image = Image::new(name, 64 * MIB);
        // "-a 1" comes first, so that odd starts are kept.
        let args: Vec<&str> = ["-a", "1"].iter().chain(args).copied().collect();
        if run("sgdisk", &args, &image.0, "").is_none() {
            return;
        }
        let Some(stack) = compare_with_sfdisk(&image) else { return };
        let expected = if name == "hybrid" { TableKind::HybridMbr } else { TableKind::Gpt };
        assert_eq!(stack.kind, expected, "{name}");
        if name == "attributes" {
            assert_eq!(stack.partitions[0].attributes.gpt, 1 << 63 | 1 << 2);
        }
    }
}

#[test]
fn sgdisk_agrees_on_hybrids_that_differ() {
    let made = ["-a", "1", "-n", "1:2048:+16M", "-n", "2:100001:+8M", "-h", "1:2"];
    let changes: [(&str, &[&str], &str, bool); 4] = [
        ("not at all", &[], "", false),
        ("one moved", &["-q", "-N", "2"], "start=100352, size=16384", true),
        ("one resized", &["-q", "-N", "1"], "start=2048, size=16384", true),
        ("one added", &["-q", "-a"], "start=120000, size=64", false),
    ];
    for (name, args, script, differs) in changes {
        let image = Image::new(&format!("hybrid-{}", name.replace(' ', "-")), 64 * MIB);
        if run("sgdisk", &made, &image.0, "").is_none() {
            return;
        }
        if !args.is_empty() && run("sfdisk", args, &image.0, script).is_none() {
            return;
        }
        let Some(said) = run("sgdisk", &["-v"], &image.0, "") else { return };
        assert_eq!(said.contains("Mismatched GPT and MBR"), differs, "{name}: {said}");
        let stack = image.stack(None);
        assert_eq!(stack.kind, TableKind::HybridMbr, "{name}");
        let found = stack.problems.iter().any(|problem| matches!(problem, Problem::HybridDiffers { .. }));
        assert_eq!(found, differs, "{name}: {:?}", stack.problems);
    }
}

#[test]
fn parted_tables() {
    for (label, kinds) in [("gpt", ["one", "two"]), ("msdos", ["primary", "logical"])] {
        let image = Image::new(&format!("parted-{label}"), 64 * MIB);
        let path = image.0.clone();
        let mut args = vec!["-s", path.to_str().expect("a plain path"), "mklabel", label];
        args.extend(["mkpart", kinds[0], "ext4", "1MiB", "9MiB"]);
        if label == "msdos" {
            args.extend(["mkpart", "extended", "10MiB", "60MiB"]);
        }
        args.extend(["mkpart", kinds[1], "linux-swap", "11MiB", "20MiB"]);
        if !run_parted(&args) || compare_with_sfdisk(&image).is_none() {
            return;
        }
    }
}

#[test]
fn signatures_as_mkfs_writes_them_and_blkid_reads_them() {
    let makers: [(&str, &[&str], &str); 12] = [
        ("mkfs.ext4", &["-q", "-F"], ""),
        ("mkfs.ext4", &["-q", "-F", "-b", "1024"], ""),
        ("mke2fs", &["-q", "-F", "-t", "ext2"], ""),
        ("mke2fs", &["-q", "-F", "-t", "ext3"], ""),
        ("mke2fs", &["-q", "-F", "-O", "journal_dev"], ""),
        ("mkswap", &["-f"], ""),
        ("mkswap", &["-f", "-p", "8192"], ""),
        ("mkswap", &["-f", "-p", "65536"], ""),
        ("cryptsetup", &["-q", "luksFormat", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"], "key"),
        ("mkfs.vfat", &[], ""),
        ("mkfs.xfs", &["-q"], ""),
        ("mkfs.btrfs", &["-q"], ""),
    ];
    for (tool, args, input) in makers {
        let image = Image::new(&format!("sig-{tool}-{}", args.len() + args.concat().len()), 512 * MIB);
        if run(tool, args, &image.0, input).is_none() {
            continue;
        }
        let Some(kind) = run("blkid", &["-p", "-o", "value", "-s", "TYPE"], &image.0, "") else { return };
        let stack = image.stack(None);
        match &stack.kind {
            TableKind::Content(content) => assert_eq!(content.name(), kind.trim(), "{tool} {args:?}"),
            other => panic!("{tool} {args:?}: {other:?}, but blkid says {kind}"),
        }
        assert_eq!(stack.problems, []);
    }
}

/// A BSD label: its entries as (type, first sector, sectors), the third of which is "c".
fn bsd_label(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut label = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| label[at..at + bytes.len()].copy_from_slice(bytes);
    for at in [0, 132] {
        put(at, &0x8256_4557_u32.to_le_bytes());
    }
    put(40, &512_u32.to_le_bytes());
    put(138, &u16::try_from(entries.len()).expect("few").to_le_bytes());
    for (index, (kind, offset, size)) in entries.iter().enumerate() {
        let at = 148 + index * 16;
        put(at, &size.to_le_bytes());
        put(at + 4, &offset.to_le_bytes());
        put(at + 12, &[*kind]);
    }
    let sum = label.chunks_exact(2).fold(0, |sum, word| sum ^ u16::from_le_bytes([word[0], word[1]]));
    label[136..138].copy_from_slice(&sum.to_le_bytes());
    label
}

/// First sectors and sizes, in order.
type Places = Vec<(u64, u64)>;

/// What is read of an image, the partitions of the table in its first one, which begins at sector `lead`, and what partx
/// lists behind that one.
fn nested(image: &Image, lead: u64) -> Option<(straddle_layout::Stack, Places, Places)> {
    let said = run("partx", &["-g", "-o", "START,SECTORS"], &image.0, "")?;
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let lines = said.lines().skip(1).filter_map(|line| line.trim().split_once(' '));
    let mut theirs: Places = lines.map(|(start, count)| (number(start), number(count.trim()))).collect();
    theirs.sort_unstable();
    let stack = straddle_layout::read_all(&image.medium(), None, None).expect("the image can be read");
    let table = match stack.partitions[0].layer.as_ref().map(|layer| &layer.facts) {
        Some(Facts::Table(table)) => table.partitions.as_slice(),
        _ => &[],
    };
    let place = |one: &straddle_layout::Partition| (one.start.get() + lead, one.count.get());
    let mut ours: Places = table.iter().map(place).collect();
    ours.sort_unstable();
    Some((stack, ours, theirs))
}

/// Labels in slices, as each system counts in them; libblkid, which partx uses, lists their partitions from 5 on.
#[test]
fn partx_agrees_on_the_labels_in_slices() {
    const SLICE: u32 = 2048;
    const SIZE: u32 = 100_000;
    let absolute =
        [(7, SLICE + 63, 40_000), (1, SLICE + 40_063, 8000), (0, SLICE, SIZE), (7, SLICE + 50_000, 50_000)];
    let relative =
        [(7, 16, 40_000), (1, 40_016, 8000), (0, 0, SIZE), (7, 48_016, 60_000), (7, 48_016, 51_984)];
    let open = [(7, SLICE + 64, 40_000), (0, 0, 0), (0, 0, 131_072), (8, 64, 960)];
    type Case<'a> = (&'a str, u8, &'a [(u8, u32, u32)]);
    let cases: [Case<'_>; 4] = [
        ("freebsd", 0xA5, &absolute),
        ("freebsd, from the slice", 0xA5, &relative),
        ("openbsd", 0xA6, &open),
        ("netbsd", 0xA9, &absolute),
    ];
    for (name, kind, entries) in cases {
        let image = Image::new(&format!("label-{kind:x}-{}", entries.len()), 64 * MIB);
        let script = format!("label: dos\nstart={SLICE}, size={SIZE}, type={kind:x}\n");
        if run("sfdisk", &["-q"], &image.0, &script).is_none() {
            return;
        }
        let file = std::fs::OpenOptions::new().write(true).open(&image.0).expect("the image is there");
        let at = u64::from(SLICE + 1) * 512;
        std::os::unix::fs::FileExt::write_all_at(&file, &bsd_label(entries), at).expect("it can be written");
        let Some((stack, ours, theirs)) = nested(&image, u64::from(SLICE)) else { return };
        let Some(Facts::Table(table)) = stack.partitions[0].layer.as_ref().map(|layer| &layer.facts) else {
            panic!("{name}: {stack:?}");
        };
        assert_eq!(table.kind, TableKind::Foreign("bsd"), "{name}");
        assert!(!ours.is_empty() && ours == theirs, "{name}: {ours:?}, {theirs:?}");
        // Linux lists them as well, behind those of the table.
        let live = |number: u32, (start, count): (u64, u64)| KernelPartition {
            name: String::new(),
            number,
            span: Span::of_blocks(Lba::new(start), LbaCount::new(count), BlockSize::B512).expect("small"),
        };
        let slice = live(1, (u64::from(SLICE), u64::from(SIZE)));
        let mut kernel: Vec<KernelPartition> =
            (5..).zip(&theirs).map(|(number, place)| live(number, *place)).chain([slice]).collect();
        assert_eq!(compare_partitions(&stack, &kernel), [], "{name}");
        kernel.push(live(9, (u64::from(SLICE + SIZE), 8)));
        assert_eq!(compare_partitions(&stack, &kernel).len(), 1, "{name}");
        // The same label on a whole disk.
        let disk = Image::new(&format!("whole-{kind:x}-{}", entries.len()), 64 * MIB);
        let file = std::fs::OpenOptions::new().write(true).open(&disk.0).expect("the image is there");
        std::os::unix::fs::FileExt::write_all_at(&file, &bsd_label(entries), 512).expect("it can be written");
        let whole = disk.stack(None);
        let used = entries.iter().filter(|(kind, ..)| *kind != 0);
        let starts: Vec<u64> = used.map(|(_, start, _)| u64::from(*start)).collect();
        let found: Vec<u64> = whole.partitions.iter().map(|partition| partition.start.get()).collect();
        assert_eq!((whole.kind, found), (TableKind::Foreign("bsd"), starts), "{name}");
    }
}

/// Entries of type 0 with a size, primary and logical, which sfdisk and the kernel list.
#[test]
fn sfdisk_lists_entries_of_type_0() {
    let image = Image::new("type-0", 64 * MIB);
    let script = "label: dos\n2048,2048,83\n8192,80000,5\nstart=10240,size=2048,type=83\nstart=20480,size=2048,type=83\n";
    if run("sfdisk", &["-q"], &image.0, script).is_none() {
        return;
    }
    let file = std::fs::OpenOptions::new().write(true).open(&image.0).expect("the image is there");
    let clear =
        |at: u64| std::os::unix::fs::FileExt::write_all_at(&file, &[0], at).expect("it can be written");
    clear(446 + 4);
    let Some(stack) = compare_with_sfdisk(&image) else { return };
    assert_eq!(stack.partitions.len(), 4);
    let Role::Logical { ebr } = stack.partitions[3].role else { panic!("{stack:?}") };
    clear(ebr.get() * 512 + 446 + 4);
    assert_eq!(compare_with_sfdisk(&image).map(|stack| stack.partitions.len()), Some(4));
}
