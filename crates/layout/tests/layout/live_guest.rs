//! The live view compared with real stacks: arrays, LUKS, LVM and others on scsi_debug disks in a User-Mode
//! Linux guest.
//!
//! This executable has two roles: on the host it starts the guest and checks the results, and in the guest
//! (`in_the_guest`, selected by PROBE_DO) it takes the readings. The strictest check is the data: a device is
//! filled with its own addresses, and each piece of the drive that a layer claims must then hold the claimed
//! address.

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use straddle_device::live::{LiveKind, Machine};
use straddle_layout::layer::{Facts, Layer};
use straddle_layout::live;
use straddle_units::ByteOffset;

type Answer = Result<(), Box<dyn Error>>;

const SECTOR: usize = 512;

/// The numbers of devices that tests/guest/live.sh fills, and of layouts of which it then fills arrays.
const DEVICES: usize = 10;
const LAYOUTS: usize = 29;

/// Does in the guest what PROBE_DO says. Output lines are marked, as the harness prints its own among them.
#[test]
#[ignore = "in the guest only"]
fn in_the_guest() -> Answer {
    let cmdline = fs::read_to_string("/proc/cmdline")?;
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname")?;
    assert!(cmdline.contains("rootfstype=hostfs") && hostname.trim() == "guest", "this writes to disks");
    let command = std::env::var("PROBE_DO")?;
    match command.split(' ').collect::<Vec<&str>>()[..] {
        ["tree", name] => tree(name),
        ["compare", disk] => compare(disk),
        ["fill", node] => fill(Path::new(node)),
        ["verify", disk, layer] => verify(disk, layer),
        _ => Err(format!("PROBE_DO={command}").into()),
    }
}

/// Returns a partition's start and layers.
fn layers_of(machine: &Machine, partition: &str) -> Result<(ByteOffset, Option<Layer>), Box<dyn Error>> {
    let (device, remarks) = machine.layers(partition);
    let device = device.ok_or("no such device")?;
    for remark in machine.remarks().iter().chain(&remarks) {
        println!("\nPROBE: remark: {remark}");
    }
    assert!(matches!(device.kind, LiveKind::Partition(_)));
    let start = device.below[0].runs[0].offset;
    Ok((start, live::layers(&device, start)))
}

fn tree(name: &str) -> Answer {
    let (start, layer) = layers_of(&Machine::read(None), name)?;
    println!("\nPROBE: {name} at {start}");
    if let Some(layer) = layer {
        print(&layer, 1);
    }
    Ok(())
}

fn print(layer: &Layer, depth: usize) {
    let Layer { kind, name, uuid: _, below, drive, facts, space, logical: _, children, remarks } = layer;
    let drive = drive.map_or("-".to_owned(), |drive| drive.to_string());
    let facts = match facts {
        Facts::Table(table) => format!("{} partitions", table.partitions.len()),
        facts => format!("{facts:?}"),
    };
    let first = space.first().map(|piece| (piece.span.start().get(), piece.below.get(), piece.drive.get()));
    println!(
        "\nPROBE: {:indent$}{kind} [{name}] below={} len={} drive={drive} pieces={} first={first:?} {facts} {remarks:?}",
        "",
        below.start(),
        below.len().get(),
        space.len(),
        indent = depth * 2
    );
    children.iter().for_each(|child| print(child, depth + 1));
}

/// Prints where the kernel's list differs from the table, and the merged tree of each partition.
fn compare(disk: &str) -> Answer {
    let node = Path::new("/dev").join(disk);
    let target = straddle_device::open(&node, &straddle_device::Options::default())?;
    let medium = target.medium.as_deref().ok_or("cannot be read")?;
    let stack = straddle_layout::read_all(medium, Some(target.topology.logical.value()), None)?;
    let listed = target.kernel_partitions.unwrap_or_default();
    for disagreement in live::compare_partitions(&stack, &listed) {
        println!("\nPROBE: differs: {disagreement}");
    }
    let machine = Machine::read(None);
    for partition in listed {
        let (_, live) = layers_of(&machine, &partition.name)?;
        let on_disk =
            stack.partitions.iter().find(|p| p.number == partition.number).and_then(|p| p.layer.clone());
        println!("\nPROBE: {} together", partition.name);
        live::merge(on_disk, live).iter().for_each(|layer| print(layer, 1));
    }
    Ok(())
}

/// The content of a sector: a mark, followed by its own address in the device.
fn stamp(at: u64) -> [u8; 16] {
    let mut stamp = *b"STRADDLE........";
    stamp[8..].copy_from_slice(&at.to_le_bytes());
    stamp
}

fn fill(node: &Path) -> Answer {
    let file = OpenOptions::new().write(true).open(node)?;
    let name = fs::canonicalize(node)?;
    let name = name.file_name().and_then(|name| name.to_str()).ok_or("no name")?;
    // Nodes in /dev/mapper are not links here; the device number leads to the device.
    let metadata = file.metadata()?;
    let rdev = std::os::unix::fs::MetadataExt::rdev(&metadata);
    let size =
        format!("/sys/dev/block/{}:{}/size", (rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00));
    let sectors: u64 =
        fs::read_to_string(&size).map_err(|e| format!("{name}: {size}: {e}"))?.trim().parse()?;
    const AT_ONCE: u64 = 2048;
    let mut at = 0;
    while at < sectors {
        let count = AT_ONCE.min(sectors - at);
        let mut bytes = vec![0; usize::try_from(count)? * SECTOR];
        for (address, sector) in (at..).zip(bytes.chunks_exact_mut(SECTOR)) {
            sector[..16].copy_from_slice(&stamp(address * 512));
        }
        file.write_all_at(&bytes, at * 512)?;
        at += count;
    }
    file.sync_all()?;
    Ok(())
}

/// The layers called `name`, at any depth.
fn named<'a>(layer: &'a Layer, name: &str, found: &mut Vec<&'a Layer>) {
    if layer.name == name {
        found.push(layer);
    }
    layer.children.iter().for_each(|child| named(child, name, found));
}

fn verify(disk: &str, name: &str) -> Answer {
    let machine = Machine::read(None);
    let file = File::open(Path::new("/dev").join(disk))?;
    let mut pieces = 0;
    for number in 1.. {
        let partition = format!("{disk}{number}");
        if machine.layers(&partition).0.is_none() {
            break;
        }
        let Some(layer) = layers_of(&machine, &partition)?.1 else { continue };
        let mut found = Vec::new();
        named(&layer, name, &mut found);
        for piece in found.iter().flat_map(|layer| &layer.space) {
            for into in [0, piece.span.len().get() - 512] {
                let mut bytes = [0; 16];
                file.read_exact_at(&mut bytes, piece.drive.get() + into)?;
                let expected = piece.span.start().get() + into;
                assert_eq!(bytes, stamp(expected), "{partition}: {piece:?}: not byte {expected} of {name}");
            }
            pieces += 1;
        }
    }
    println!("\nPROBE: {name} {pieces}");
    std::io::stdout().flush()?;
    Ok(())
}

// --- on the host ------------------------------------------------------------------

/// Finds the line of the layer called `name`, and a number in it.
fn number(tree: &str, name: &str, field: &str) -> u64 {
    let line = tree
        .lines()
        .find(|line| line.contains(&format!("[{name}]")))
        .unwrap_or_else(|| panic!("{name}: {tree}"));
    let after = line.split(&format!("{field}=")).nth(1).unwrap_or_else(|| panic!("{field}: {line}"));
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{field}: {line}"))
}

/// The sector at which the device-mapper table in `judges` maps `name` onto the device below, taken from word
/// number `word` of the line.
fn table_sector(judges: &str, name: &str, word: usize) -> u64 {
    let line = judges.lines().find(|line| line.starts_with(&format!("{name}: "))).expect("in the table");
    line.split_whitespace().nth(word).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// The number in the line `Data Offset : 2048 sectors` of mdadm.
fn md_sector(judges: &str) -> u64 {
    let line = judges.lines().find(|line| line.trim_start().starts_with("Data Offset :")).expect("mdadm -E");
    line.split_whitespace().nth(3).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn the_kernel_the_tools_and_the_data_agree() -> Answer {
    let tools =
        ["linux.uml", "mdadm", "cryptsetup", "lvm", "dmsetup", "mkfs.xfs", "make-bcache", "veritysetup"];
    if !skip::present(&tools) {
        return Ok(());
    }
    let dir = std::env::temp_dir().join(format!("straddle-live-guest-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let probe = dir.join("probe");
    fs::copy(std::env::current_exe()?, &probe)?;
    let mut guest = Command::new(root.join("tests/guest/run"));
    guest
        .args(["-t", "3600", "-m", "2G", "-o"])
        .arg(&dir)
        .arg("-e")
        .arg(format!("PROBE={}", probe.display()));
    if !skip::is_sampled() {
        guest.args(["-e", "EVERY_CASE=1"]);
    }
    let ran = guest.arg(root.join("tests/guest/live.sh")).output()?;
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let read =
        |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));

    // All filled devices were verified, on every layout.
    let verified = read("verified");
    let count = |line: &str| line.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
    let found = verified.lines().filter(|line| count(line).is_some_and(|count| count > 0)).count();
    let filled = DEVICES + skip::taken(LAYOUTS, 3);
    assert_eq!((found, verified.lines().count()), (filled, filled), "{verified}");

    // The offsets that the tools report add up to the positions of the file systems.
    let (tree, judges) = (read("full.tree"), read("full.judges"));
    let root_at = md_sector(&judges) + table_sector(&judges, "c0", 8) + table_sector(&judges, "vg-root", 5);
    assert_eq!(number(&tree, "/mnt", "drive"), (2048 + root_at) * 512, "{tree}");
    let (tree, judges) = (read("xfs.tree"), read("xfs.judges"));
    let root_at = md_sector(&judges) + table_sector(&judges, "c0", 8) + table_sector(&judges, "vg-root", 5);
    assert_eq!(number(&tree, "/mnt", "drive"), (2048 + root_at) * 512, "{tree}");
    assert!(tree.contains("sector: Some(ByteCount(4096))"), "{tree}");
    let tree = read("linear.tree");
    assert_eq!(number(&tree, "/mnt", "drive"), 2049 * 512, "{tree}");
    let tree = read("luks_offset.tree");
    assert_eq!(number(&tree, "/mnt", "drive"), (2048 + 4104) * 512, "{tree}");
    let tree = read("segments.tree");
    assert!(tree.contains("swap ["), "{tree}");
    // The mount is seen once, above the pool's data and not above its metadata.
    let tree = read("lvm.tree");
    assert_eq!(tree.matches("[/mnt]").count(), 1, "{tree}");
    check_compared(&read);
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Checks that the two views differ where they were made to differ, and nowhere else.
fn check_compared(read: &dyn Fn(&str) -> String) {
    let differing = |stack: &str| -> Vec<String> {
        let text = read(&format!("{stack}.compared"));
        assert!(text.contains(" together"), "{stack}: {text}");
        text.lines().filter_map(|line| line.strip_prefix("differs: ")).map(str::to_owned).collect()
    };
    for stack in ["full", "xfs", "segments", "linear", "luks_offset", "striped", "lvm", "md_parts", "mapped"]
    {
        assert_eq!(differing(stack), Vec::<String>::new(), "{stack}");
    }
    let expected = [
        "partition 3 has 50331136 bytes from byte 102760960 on the disk, 50331648 bytes from byte 102760448 in the \
         kernel",
        "partition 4 has 1048576 bytes from byte 154140672 on the disk, nothing in the kernel",
    ];
    assert_eq!(differing("changed"), expected);
    let together = read("full.compared");
    assert!(
        together.contains("linux_raid_member [guest:0]") && together.contains("ext4 [/mnt]"),
        "{together}"
    );
}
