//! straddle on stacks of one to five layers and more, made by the real tools and a real kernel in a guest:
//! which layer is misaligned, at which byte, and by how much.
//!
//! tests/guest/stacks.sh lists the stacks, makes them, and records what mdadm, LVM, cryptsetup, sfdisk and
//! others report for each layer. The expected findings are calculated here from these figures alone:
//!
//! - Offsets add up from the disk upwards. A layer whose own offset is not a multiple of 4096 is reported if
//!   the sum is not one either (S001 partition, S050 RAID member, S051 PV, S052 logical volume, S053 LUKS,
//!   S054 other).
//! - A layer whose own offset is a multiple of 4096 only inherits, and is not reported.
//! - Where the sum is a multiple again, two layers make up for each other, which is advice (S056). What lies
//!   below is then not reported, because the data that is written is aligned.
//! - Each segment of a logical volume counts with its place less its offset in the volume.
//!
//! The contents of a LUKS container cannot be seen without its key. straddle reads the images as files, and
//! as an ordinary user.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tools::{Guest, list, number, present, transcript, word};

const TOOLS: [&str; 16] = [
    "linux.uml",
    "sfdisk",
    "mdadm",
    "lvm",
    "dmsetup",
    "cryptsetup",
    "integritysetup",
    "make-bcache",
    "bcache-super-show",
    "blkid",
    "mkswap",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.vfat",
    "mkfs.btrfs",
    "losetup",
];

/// With fewer stacks than this, or than the sample has, the guest did not do its work.
const LEAST_STACKS: usize = 66;
const SAMPLE: usize = 18;

/// The physical sector that straddle assumes for an image.
const PHYSICAL: u64 = 4096;

/// The user and group "nobody" of Debian.
const NOBODY: u32 = 65534;

/// The codes of findings about the position of a layer's data.
const PLACES: [&str; 7] = ["S001", "S050", "S051", "S052", "S053", "S054", "S056"];

/// A layer as its own tool describes it.
struct Judged {
    kind: String,
    /// The runs of its space: the offset in the space and the offset on the device below, both in bytes; for
    /// a logical volume the latter is relative to the physical volume's first byte. Empty for the top layer.
    runs: Vec<(u64, u64)>,
}

/// A line of the manifest.
struct Stack {
    name: String,
    layers: Vec<Judged>,
}

impl Stack {
    fn read(line: &str) -> Self {
        let mut fields = line.split('\t');
        let name = fields.next().unwrap().to_owned();
        let layers = fields.map(|field| {
            let (kind, figures) = field.split_once('=').unwrap_or_else(|| panic!("{line}"));
            let figure = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text:?} in {line}"));
            let run = |text: &str| match text.split_once(':') {
                Some((at, place)) => (figure(at), figure(place)),
                None => (0, figure(text)),
            };
            let runs = figures.split(',').filter(|run| !run.is_empty()).map(run).collect();
            Judged { kind: kind.to_owned(), runs }
        });
        Self { layers: layers.collect(), name }
    }

    /// The layers that can be seen without a key.
    fn visible(&self) -> &[Judged] {
        let sealed = self.layers.iter().position(|layer| layer.kind.starts_with("luks"));
        &self.layers[..sealed.map_or(self.layers.len(), |at| at + 1)]
    }

    /// "partition > md > …", for messages.
    fn path(&self) -> String {
        let layer = |layer: &Judged| {
            let runs: Vec<String> = layer.runs.iter().map(|(at, place)| format!("{}", place - at)).collect();
            if runs.is_empty() { layer.kind.clone() } else { format!("{} {}", layer.kind, runs.join(", ")) }
        };
        self.layers.iter().map(layer).collect::<Vec<_>>().join(" > ")
    }
}

/// A space as runs: the offset in it at which each run begins, and the run's offset on the disk.
type Space = Vec<(u64, u64)>;

/// The offset on the disk of byte `at` of a space.
fn on_disk(space: &Space, at: u64) -> u64 {
    let (start, disk) = space.iter().rev().find(|(start, _)| *start <= at).expect("spaces start at 0");
    disk + (at - start)
}

/// A finding on a layer: code, byte on the disk, bytes past a physical sector (`None` for S056).
type Said = (String, u64, Option<u64>);

/// Calculates from the tools' figures the expected findings, from the disk up, and the start of each visible
/// layer.
fn expected(stack: &Stack) -> (Vec<Said>, Vec<u64>) {
    let (mut found, mut starts) = (Vec::new(), Vec::new());
    // For each entry of `found` its layer, and for each layer whether all of its data is aligned.
    let (mut layers, mut aligned) = (Vec::new(), Vec::new());
    let mut space: Space = vec![(0, 0)];
    let mut first_extent = 0;
    for (index, layer) in stack.visible().iter().enumerate() {
        let lv = layer.kind == "lv";
        starts.push(on_disk(&space, if lv { layer.runs[0].1 } else { 0 }));
        if layer.runs.is_empty() {
            break;
        }
        let mut here = Space::new();
        for (at, place) in &layer.runs {
            here.push((*at, on_disk(&space, *place)));
            // Where a run of the space below begins, a run begins here too.
            let cuts = space.iter().filter(|(start, _)| !lv && start > place);
            here.extend(cuts.map(|(start, disk)| (at + start - place, *disk)));
        }
        // A logical volume is not responsible for where its PV's extents begin.
        let base = if lv { first_extent } else { 0 };
        let adds = |(at, place): &(u64, u64)| !(place - base).abs_diff(*at).is_multiple_of(PHYSICAL);
        let code = match (layer.kind.as_str(), index) {
            ("part", 0) => "S001",
            ("md", _) => "S050",
            ("pv", _) => "S051",
            ("lv", _) => "S052",
            ("luks1" | "luks2", _) => "S053",
            _ => "S054",
        };
        let own: Vec<_> = if lv {
            here.iter().zip(&layer.runs).filter(|(_, run)| adds(run)).map(|(run, _)| *run).collect()
        } else {
            here.iter().filter(|_| adds(&layer.runs[0])).copied().collect()
        };
        let past = |(at, disk): &(u64, u64)| (disk % PHYSICAL + PHYSICAL - at % PHYSICAL) % PHYSICAL;
        aligned.push(here.iter().all(|run| past(run) == 0));
        // The reported offset is that of the first block that begins in the run, or of the run itself if none
        // does.
        let reported_at = |(at, disk): &(u64, u64)| {
            let lead = at.next_multiple_of(PHYSICAL) - at;
            let end = here.iter().map(|(other, _)| *other).filter(|other| other > at).min();
            if end.is_none_or(|end| end > at + lead) { disk + lead } else { *disk }
        };
        if let Some(run) = own.iter().find(|run| past(run) != 0) {
            found.push((code.to_owned(), reported_at(run), Some(past(run))));
            layers.push(index);
        } else if let Some(run) = own.first() {
            found.push(("S056".to_owned(), reported_at(run), None));
            layers.push(index);
        }
        if layer.kind == "pv" {
            // Logical volumes are relative to the PV's first byte.
            first_extent = layer.runs[0].1;
        } else {
            space = here;
        }
    }
    let is_made_up = |layer: usize| aligned.iter().skip(layer + 1).any(|aligned| *aligned);
    let said = found.into_iter().zip(layers);
    let found =
        said.filter(|((code, ..), layer)| code == "S056" || !is_made_up(*layer)).map(|(said, _)| said);
    (found.collect(), starts)
}

/// straddle's findings on the positions of layers.
fn said(report: &Value) -> Vec<Said> {
    let findings = list(report, "findings").iter().filter(|f| PLACES.contains(&word(f, "code").as_str()));
    findings
        .map(|finding| {
            let past = finding["missed"]["past_bytes"].as_u64();
            if past.is_some() {
                assert_eq!(number(&finding["missed"], "size_bytes"), PHYSICAL, "{finding}");
            }
            (word(finding, "code"), number(finding, "offset_bytes"), past)
        })
        .collect()
}

/// Checks that straddle reads each layer as its own tool does, up to the last visible one.
fn compare_layers(stack: &Stack, starts: &[u64], report: &Value) {
    let name = &stack.name;
    let mut layers = stack.visible();
    let mut starts = starts;
    let mut here = &report["layer"];
    if layers[0].kind == "part" {
        let is_data = |partition: &&Value| word(partition, "role") != "extended";
        let partition = list(report, "partitions").iter().find(is_data).unwrap();
        assert_eq!(number(partition, "start_bytes"), layers[0].runs[0].1, "{name}: partition");
        (layers, starts, here) = (&layers[1..], &starts[1..], &partition["layer"]);
    }
    for (layer, start) in layers.iter().zip(starts) {
        let place = layer.runs.first().map(|run| run.1);
        assert_eq!(number(here, "offset_bytes"), *start, "{name}: {} in {here}", layer.kind);
        let (what, field) = match layer.kind.as_str() {
            "md" => ("md", "data_offset_bytes"),
            "pv" => ("pv", "data_start_bytes"),
            "luks1" | "luks2" => {
                assert_eq!(format!("luks{}", number(here, "version")), layer.kind, "{name}");
                ("luks", "payload_offset_bytes")
            }
            "bcache" | "integrity" => ("mapped", "payload_offset_bytes"),
            "part" => ("table", ""),
            "lv" => ("lv", ""),
            kind => {
                assert_eq!(word(here, "kind"), kind, "{name}");
                ("file_system", "")
            }
        };
        assert_eq!(word(here, "class"), what, "{name}: {} in {here}", layer.kind);
        if !field.is_empty() {
            assert_eq!(here[field].as_u64(), place, "{name}: {} in {here}", layer.kind);
        }
        if what == "lv" {
            let segment =
                |segment: &Value| (number(segment, "start_bytes"), number(segment, "pv_offset_bytes"));
            let segments: Vec<_> = list(here, "segments").iter().map(segment).collect();
            assert_eq!(segments, layer.runs, "{name}: {here}");
        }
        let above = here["layers"].as_array().and_then(|layers| layers.first());
        if what == "table" {
            assert_eq!(above.map(|above| number(&above["below"], "start_bytes")), place, "{name}: {here}");
        }
        here = above.unwrap_or(&Value::Null);
    }
    assert!(here.is_null(), "{name}: more than there is: {here}");
}

/// Checks that the topmost visible layer is really where the figures say; otherwise they are wrong.
fn witness(stack: &Stack, image: &Path, start: u64) {
    let (at, magic): (u64, &[u8]) = match stack.visible().last().unwrap().kind.as_str() {
        "luks1" | "luks2" => (0, b"LUKS\xba\xbe"),
        "ext4" => (1080, b"\x53\xef"),
        "xfs" => (0, b"XFSB"),
        "swap" => (4086, b"SWAPSPACE2"),
        "vfat" => (510, b"\x55\xaa"),
        "btrfs" => (65536 + 64, b"_BHRfS_M"),
        kind => panic!("{}: {kind} at the top", stack.name),
    };
    let mut found = vec![0; magic.len()];
    File::open(image).unwrap().read_exact_at(&mut found, start + at).unwrap();
    assert_eq!(found, magic, "{}: nothing at byte {start}", stack.name);
}

/// The report on an image, requested as a user who may only read it.
fn ask(program: &Path, image: &Path) -> Value {
    let mut command = Command::new(program);
    command.args(["check", "--json"]).arg(image);
    // If that user cannot reach the image, the present user is used.
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 1 == 1);
    if fs::metadata("/proc/self").unwrap().uid() == 0 && image.ancestors().skip(1).all(is_open) {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = tools::output(&mut command, "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}\n{}", transcript(&output));
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["targets"][0].take()
}

#[test]
fn the_culprit_is_found_in_every_stack() {
    if !present(&TOOLS) {
        return;
    }
    let Guest(dir) = Guest::run("stacks.sh", "2G");
    let program = dir.join("straddle");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let manifest = fs::read_to_string(dir.join("manifest.tsv")).unwrap();
    let mut culprits: BTreeMap<String, usize> = BTreeMap::new();
    let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
    for line in manifest.lines() {
        let stack = Stack::read(line);
        let image = dir.join(&format!("{}.img", stack.name));
        let (found, starts) = expected(&stack);
        witness(&stack, &image, *starts.last().unwrap());
        let report = ask(&program, &image);
        let mut ours = said(&report);
        ours.sort_by_key(|(_, byte, _)| *byte);
        let mut theirs = found.clone();
        theirs.sort_by_key(|(_, byte, _)| *byte);
        let first = found.iter().find(|(code, ..)| code != "S056");
        let culprit = first.map_or("none", |(code, ..)| code);
        let place = first.map_or(String::new(), |(_, byte, past)| format!("{byte} +{}", past.unwrap_or(0)));
        println!("{:24} {culprit:5} {place:16} {}", stack.name, stack.path());
        assert_eq!(ours, theirs, "{}: {}\n{}", stack.name, stack.path(), report["findings"]);
        compare_layers(&stack, &starts, &report);
        *culprits.entry(culprit.to_owned()).or_default() += 1;
        *depths.entry(stack.layers.len() - 1).or_default() += 1;
    }
    let stacks: usize = depths.values().sum();
    println!("{stacks} stacks; by culprit {culprits:?}; by layers below the file system {depths:?}");
    let (least, of_each) = if tools::skip::is_sampled() { (SAMPLE, 1) } else { (LEAST_STACKS, 3) };
    assert!(stacks >= least, "only {stacks} stacks were compared");
    for code in ["none", "S001", "S050", "S051", "S052", "S053", "S054"] {
        assert!(culprits.get(code).is_some_and(|count| *count >= of_each), "{code}: {culprits:?}");
    }
    assert!((1..=5).all(|depth| depths.contains_key(&depth)), "{depths:?}");
}
