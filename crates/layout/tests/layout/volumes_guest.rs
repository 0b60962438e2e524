//! Stacks made by mdadm, LVM, cryptsetup and the kernel in a User-Mode Linux guest. They are checked against
//! the tools' own reports and against the kernel: what it wrote through each stack must be found through this
//! crate's view of it.
//!
//! A missing tool skips the test with a message; under CI, where it must be installed, that is a failure.

#[path = "../../../../tests/tools/skip.rs"]
mod skip;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use skip::present;
use straddle_device::FileMedium;
use straddle_layout::layer::{Facts, Layer, Lv, Md, Segment};
use straddle_layout::view::View;
use straddle_layout::{FsKind, read_layers};
use straddle_units::{ByteCount, ByteOffset, Span};

const TOOLS: [&str; 8] =
    ["linux.uml", "mdadm", "lvm", "dmsetup", "cryptsetup", "integritysetup", "make-bcache", "mkfs.ext4"];

/// The guest's output, removed when the test ends.
struct Stacks(PathBuf);

impl Drop for Stacks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Stacks {
    fn make(parts: &[&str]) -> Self {
        let name = format!("straddle-stacks-{}-{}", std::process::id(), parts.join("-"));
        let stacks = Self(std::env::temp_dir().join(name));
        let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest");
        let mut command = Command::new(guest.join("run"));
        command.args(["-t", "3600", "-o"]).arg(&stacks.0);
        if !skip::is_sampled() {
            command.args(["-e", "EVERY_CASE=1"]);
        }
        command.arg(guest.join("stacks-md-lvm.sh")).args(parts);
        let output = command.output().expect("the guest can be run");
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{}: {out}{err}", output.status);
        stacks
    }

    /// The stacks made, in order of their names.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the guest made something");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The members of a stack, each with what this crate finds on it.
    fn members(&self, name: &str) -> Vec<Member> {
        let path = |index: usize| self.0.join(name).join(format!("{index}.img"));
        let count = (0..).take_while(|index| path(*index).exists()).count();
        assert_ne!(count, 0, "{name}");
        let read = |index: usize| {
            let file = File::open(path(index)).expect("it exists");
            let len = ByteCount::new(file.metadata().expect("it exists").len());
            let medium = FileMedium::new(file, len);
            let whole = Span::new(ByteOffset::ZERO, len).expect("a file has an end");
            let layer = read_layers(&View::of_drive(&medium), whole, None);
            let layer = layer.unwrap_or_else(|| panic!("{name}/{index}: nothing found"));
            let kind = field(&self.text(&format!("{name}/{index}.blkid")), "TYPE", '=');
            assert_eq!(Some(layer.kind.name()), kind.as_deref(), "{name}/{index}");
            Member { layer, medium }
        };
        (0..count).map(read).collect()
    }
}

struct Member {
    layer: Layer,
    medium: FileMedium,
}

impl Member {
    /// The start of the file system `label` on the member, if this crate finds it; checks that there is one.
    fn file_system(&self, label: &str) -> Option<u64> {
        let layers = all(&self.layer);
        let found = layers.iter().find(|layer| layer.kind == FsKind::Ext4.into() && layer.name == label)?;
        let drive = found.drive.expect("a file system that is read has a place").get();
        let mut magic = [0; 2];
        self.medium.file().read_exact_at(&mut magic, drive + 1024 + 0x38).expect("it can be read");
        assert_eq!(magic, [0x53, 0xEF], "{label} at {drive}");
        Some(drive)
    }
}

/// A layer and all layers above it.
fn all(layer: &Layer) -> Vec<&Layer> {
    let mut layers = vec![layer];
    layers.extend(layer.children.iter().flat_map(all));
    layers
}

/// The first word after `name` and a separator, at the start of a line.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let after = |line: &str| {
        let rest = line.trim().strip_prefix(name)?;
        let rest = if separator.is_whitespace() { rest } else { rest.trim_start() };
        rest.strip_prefix(separator)?.split_whitespace().next().map(str::to_owned)
    };
    text.lines().find_map(after)
}

fn number(text: &str, name: &str, separator: char) -> Option<u64> {
    field(text, name, separator)?.trim_end_matches('K').parse().ok()
}

fn md(layer: &Layer) -> &Md {
    let Facts::Md(md) = &layer.facts else { panic!("{layer:?}") };
    md
}

/// Compares this crate's view of a member with the output of `mdadm -E`.
fn compare_md(name: &str, judge: &str, layer: &Layer) {
    let md = md(layer);
    let version = field(judge, "Version", ':').expect("a version");
    assert!(version.starts_with(md.version), "{name}: {} is {version}", md.version);
    let level = field(judge, "Raid Level", ':').expect("a level");
    let ours = if md.level == -1 { "linear".to_owned() } else { format!("raid{}", md.level) };
    assert_eq!(ours, level, "{name}");
    assert_eq!(Some(u64::from(md.raid_disks)), number(judge, "Raid Devices", ':'), "{name}");
    assert_eq!(md.data_offset.get(), 512 * number(judge, "Data Offset", ':').unwrap_or(0), "{name}");
    if let Some(kib) = number(judge, "Chunk Size", ':') {
        assert_eq!(md.chunk.get(), 1024 * kib, "{name}");
    }
    let used = number(judge, "Used Dev Size", ':');
    let size = if md.version == "0.90" {
        let this =
            judge.lines().find_map(|line| line.trim().strip_prefix("this")).expect("a line of its own");
        let place = this.split_whitespace().nth(3).and_then(|place| place.parse().ok());
        assert_eq!(md.role, place, "{name}");
        used.map(|kib| kib * 1024)
    } else {
        let role = judge.lines().find_map(|line| line.trim().strip_prefix("Device Role : Active device "));
        assert_eq!(md.role, role.and_then(|role| role.parse().ok()), "{name}");
        assert_eq!(Some(&layer.name), field(judge, "Name", ':').as_ref(), "{name}");
        used.filter(|sectors| *sectors != 0)
            .or_else(|| number(judge, "Avail Dev Size", ':'))
            .map(|sectors| sectors * 512)
    };
    assert_eq!(Some(md.data_size.get()), size, "{name}");
}

#[test]
fn md_arrays() {
    if !present(&TOOLS) {
        return;
    }
    let stacks = Stacks::make(&["md"]);
    let names = stacks.names();
    assert!(names.len() >= skip::taken(34, 3), "{names:?}");
    for name in names {
        let mut found = Vec::new();
        for (index, member) in stacks.members(&name).iter().enumerate() {
            compare_md(&name, &stacks.text(&format!("{name}/{index}.md")), &member.layer);
            let at = member.file_system(&name);
            found.extend(at.map(|_| index));
            assert!(at.is_none_or(|at| at == md(&member.layer).data_offset.get()), "{name}/{index}");
        }
        // Every copy of the first chunk was found, and nothing else.
        let copies = match name.split_once('-').expect("a level and more") {
            ("raid1", _) => 2,
            ("raid10", "n3-all") => 3,
            ("raid10", "n2" | "n2-odd") => 2,
            _ => 1,
        };
        assert_eq!(found.len(), copies, "{name}: {found:?}");
    }
}

/// The first bytes of the volume `name`, and of the volumes that it is made of, on member `pv`, according to
/// the kernel's tables.
fn kernel_places(tables: &str, name: &str, pv: usize) -> BTreeSet<u64> {
    let mut places = BTreeSet::new();
    for line in tables.lines() {
        let (device, table) = line.split_once(": ").expect("a name and a table");
        let Some(rest) = device.strip_prefix("vg-").and_then(|device| device.strip_prefix(name)) else {
            continue;
        };
        let is_part = ["_rimage_", "_mimage_", "_corig", "_tdata", "-cow", "-real"]
            .iter()
            .any(|part| rest.starts_with(part));
        if rest.is_empty() || is_part {
            let words: Vec<&str> = table.split_whitespace().collect();
            let areas = words.windows(2).filter(|pair| pair[0] == format!("7:{pv}"));
            places.extend(areas.map(|pair| 512 * pair[1].parse::<u64>().expect("a sector")));
        }
    }
    places
}

/// A segment as `lvs --segments` prints it.
fn as_lvs_has_it(name: &str, segment: &Segment) -> String {
    let kind = match segment.kind.as_str() {
        "striped" if segment.stripes == 1 => "linear",
        // LVM shows the volume that stores the snapshot.
        "snapshot" => "linear",
        kind => kind,
    };
    let stripes = if kind == "thin" { 0 } else { segment.stripes };
    let (span, stripe) = (segment.span, segment.stripe_size.get());
    format!("{name}|{kind}|{}|{}|{stripes}|{stripe}", span.start().get(), span.len().get())
}

fn lv(layer: &Layer) -> &Lv {
    let Facts::Lv(lv) = &layer.facts else { panic!("{layer:?}") };
    lv
}

#[test]
fn lvm_volumes() {
    if !present(&TOOLS) {
        return;
    }
    let stacks = Stacks::make(&["lvm"]);
    let [pvs, lvs, tables] = ["pvs", "lvs", "dm"].map(|file| stacks.text(&format!("lvm/{file}")));
    let wrapped: u32 = stacks.text("lvm/changes").trim().parse().expect("a number");
    assert!(wrapped < 200, "the metadata never wrapped around");
    let segments: BTreeSet<&str> = lvs.lines().map(str::trim).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut file_systems: BTreeMap<String, usize> = BTreeMap::new();
    for (index, member) in stacks.members("lvm").iter().enumerate() {
        let Facts::Pv(pv) = &member.layer.facts else { panic!("{:?}", member.layer) };
        let ours = format!("/dev/loop{index}|{}|{}|{}", pv.vg, pv.data_start.get(), pv.extent_size.get());
        assert!(pvs.lines().any(|line| line.trim() == ours), "{ours} is not in {pvs}");
        for layer in &member.layer.children {
            let name = layer.name.strip_prefix("vg/").expect("the group's name");
            // A cache's data, which lvs shows with -a only, are in the kernel's tables.
            let is_shown = segments.iter().any(|line| line.split('|').next() == Some(name));
            for segment in lv(layer).segments.iter().filter(|_| is_shown) {
                let line = as_lvs_has_it(name, segment);
                assert!(segments.contains(line.as_str()), "{line} is not in {lvs}");
                seen.insert(line);
            }
            let places: BTreeSet<u64> =
                lv(layer).segments.iter().filter_map(|segment| Some(segment.on_pv?.get())).collect();
            assert_eq!(places, kernel_places(&tables, name, index), "{name} on {index}");
            if let Some(at) = member.file_system(name) {
                *file_systems.entry(name.to_owned()).or_default() += 1;
                assert!(places.contains(&at), "{name} at {at}, {places:?}");
            }
        }
    }
    assert_eq!(segments, seen.iter().map(String::as_str).collect());
    let names: BTreeSet<&str> = segments.iter().filter_map(|line| line.split('|').next()).collect();
    let bare = ["gap", "pool", "snap", "thin"];
    for name in names.into_iter().filter(|name| !bare.contains(name)) {
        let copies = match name {
            "raid1" | "mirror" | "raid10" => 2,
            _ => 1,
        };
        assert_eq!(file_systems.get(name), Some(&copies), "{name}");
    }
}

#[test]
fn luks_and_other_mappings() {
    if !present(&TOOLS) {
        return;
    }
    let stacks = Stacks::make(&["luks", "mapped"]);
    for (index, member) in stacks.members("luks").iter().enumerate() {
        let judge = stacks.text(&format!("luks/{index}.luks"));
        let Facts::Luks(luks) = &member.layer.facts else { panic!("{:?}", member.layer) };
        assert_eq!(number(&judge, "Version", ':'), Some(u64::from(luks.version)));
        let payload = match luks.version {
            1 => number(&judge, "Payload offset", ':').map(|sectors| sectors * 512),
            _ => number(&judge, "offset", ':'),
        };
        assert_eq!(luks.payload.map(ByteOffset::get), payload, "{judge}");
        assert_eq!(luks.sector_size.get(), number(&judge, "sector", ':').unwrap_or(512));
        assert_eq!(member.layer.children, []);
    }
    for name in ["integrity-512", "integrity-4k", "integrity-sha", "integrity-old", "bcache", "bcache-offset"]
    {
        let member = &stacks.members(name)[0];
        let Facts::Mapped(mapped) = &member.layer.facts else { panic!("{:?}", member.layer) };
        let payload = mapped.payload.expect("a payload").get();
        assert_eq!(member.file_system(name), Some(payload));
        if name.starts_with("bcache") {
            let judge = stacks.text(&format!("{name}/0.bcache"));
            assert_eq!(number(&judge, "dev.data.first_sector", '\t'), Some(payload / 512));
            let sectors = number(&judge, "dev.sectors_per_block", '\t');
            assert_eq!(mapped.block.map(|block| block.get() / 512), sectors);
        } else {
            let judge = stacks.text(&format!("{name}/0.integrity"));
            assert_eq!(mapped.block.map(ByteCount::get), number(&judge, "sector_size", ' '), "{judge}");
            let provided: u64 = member.layer.space.iter().map(|piece| piece.span.len().get()).sum();
            assert_eq!(Some(provided / 512), number(&judge, "provided_data_sectors", ' '));
        }
    }
    assert_eq!(stacks.members("bcache-cache")[0].layer.space, []);
}

#[test]
fn stacks_on_stacks() {
    if !present(&TOOLS) {
        return;
    }
    let stacks = Stacks::make(&["nested"]);
    for member in stacks.members("partitions") {
        let start = md(&member.layer).data_offset.get();
        let table = &member.layer.children[0];
        assert_eq!((table.kind.name(), table.drive.map(ByteOffset::get)), ("table", Some(start)));
        let Facts::Table(stack) = &table.facts else { panic!("{table:?}") };
        assert_eq!((stack.partitions.len(), stack.problems.as_slice()), (2, [].as_slice()));
        assert_eq!(member.file_system("aligned"), Some(start + 2048 * 512));
        assert_eq!(member.file_system("shifted"), Some(start + 6145 * 512));
    }
    for member in stacks.members("deep") {
        let kinds: Vec<&str> = all(&member.layer).iter().map(|layer| layer.kind.name()).collect();
        assert_eq!(kinds, ["linux_raid_member", "LVM2_member", "LV", "crypto_LUKS", "LV", "ext4"]);
        let layers = all(&member.layer);
        let (lv, luks) = (layers[2], layers[3]);
        let Facts::Luks(facts) = &luks.facts else { panic!("{luks:?}") };
        let payload = facts.payload.expect("a payload").get();
        // In the LV and on the drive: the array starts at byte 0, the group's extents at 1 MiB.
        assert_eq!(luks.space[0].below.get(), payload);
        assert_eq!(luks.space[0].drive.get(), payload + (1 << 20));
        assert_eq!(luks.drive, lv.drive);
        assert!(member.file_system("plain").is_some());
    }
}
