//! Volumes made by tools in plain files, and constructed ones.

use crate::tests::common;
#[path = "common/volume.rs"]
mod volume;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::put;
use common::tools::skipped;
use straddle_device::{FileMedium, MemoryMedium};
use straddle_layout::layer::{Facts, Layer};
use straddle_units::{ByteCount, ByteOffset, MIB};
use volume::{Counted, LINEAR, group, layers, md_superblock, plain_pv, pv, remarked, volume};

/// A sparse file that is removed when the test ends.
struct Image(PathBuf);

impl Image {
    fn new(name: &str, len: u64) -> Self {
        let path = std::env::temp_dir().join(format!("straddle-volumes-{}-{name}", std::process::id()));
        File::create(&path).and_then(|file| file.set_len(len)).expect("a temporary file can be made");
        Self(path)
    }

    fn layers(&self) -> Option<Layer> {
        let file = File::open(&self.0).expect("the image is there");
        let len = ByteCount::new(file.metadata().expect("the image is there").len());
        layers(&FileMedium::new(file, len))
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).expect("the image is there")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a tool. Returns its output, or `None` with a message if the tool is not installed.
fn run(tool: &str, args: &[&str], files: &[&Path]) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(tool);
    command.args(args).args(files).env("LC_ALL", "C").env("PATH", path);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        skipped(&format!("{tool} is not installed"));
        return None;
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{tool} {args:?}: {}{}", text(&output.stderr), text(&output.stdout));
    Some(text(&output.stdout))
}

/// The number after `name:` at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let after = |line: &str| {
        line.trim().strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    };
    text.lines().find_map(after)
}

/// A file of `len` bytes with a LUKS header made by cryptsetup.
fn luks(name: &str, len: u64, options: &[&str]) -> Option<Image> {
    let image = Image::new(name, len);
    let key = Image::new(&format!("{name}.key"), 16);
    let key_file = format!("--key-file={}", key.0.display());
    let mut args =
        vec!["luksFormat", "-q", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", &key_file];
    args.extend(options);
    run("cryptsetup", &args, &[&image.0]).map(|_| image)
}

#[test]
fn luks_headers_are_where_cryptsetup_says() {
    let cases: [(&str, &[&str]); 7] = [
        ("luks1", &["--type", "luks1"]),
        ("luks1-128", &["--type", "luks1", "--key-size", "256", "--align-payload", "8"]),
        ("luks1-offset", &["--type", "luks1", "--offset", "16392"]),
        ("luks2", &["--type", "luks2", "--label", "a label", "--sector-size", "512"]),
        ("luks2-4k", &["--type", "luks2", "--sector-size", "4096"]),
        ("luks2-offset", &["--type", "luks2", "--offset", "65544", "--sector-size", "512"]),
        ("luks2-large", &["--type", "luks2", "--luks2-metadata-size", "1m", "--luks2-keyslots-size", "4m"]),
    ];
    for (name, options) in cases {
        let Some(image) = luks(name, 48 * MIB, options) else { return };
        let dump = run("cryptsetup", &["luksDump"], &[&image.0]).expect("cryptsetup is there");
        let layer = image.layers().expect("LUKS");
        let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!(Some(u64::from(facts.version)), number(&dump, "Version"), "{name}");
        let payload =
            number(&dump, "Payload offset").map(|sectors| sectors * 512).or_else(|| number(&dump, "offset"));
        assert_eq!(facts.payload.map(ByteOffset::get), payload, "{name}: {dump}");
        assert_eq!(facts.sector_size.get(), number(&dump, "sector").unwrap_or(512), "{name}");
        // Only whole sectors are encrypted, up to the end of the device; cryptsetup does not open a device
        // with a partial one.
        for len in [0, 512, 3584, 4096].map(|more| 48 * MIB + more) {
            let rest = (len - payload.expect("a payload")) % facts.sector_size.get();
            assert_eq!(facts.uses(ByteCount::new(len)), Some(ByteCount::new(len - rest)), "{name}: {len}");
            assert_eq!(facts.is_refused(ByteCount::new(len)), rest != 0, "{name}: {len}");
        }
        assert_eq!(layer.name, if name == "luks2" { "a label" } else { "" });
        assert_eq!(layer.children, []);
        assert_eq!(layer.remarks, ["encrypted, so its contents are not visible offline"]);
        let payload = payload.expect("a payload");
        let space: Vec<(u64, u64)> =
            layer.space.iter().map(|piece| (piece.drive.get(), piece.span.len().get())).collect();
        assert_eq!(space, [(payload, 48 * MIB - payload)], "{name}");
    }
}

#[test]
fn what_a_luks_uses_is_known_where_its_header_says_it_alone() {
    let Some(image) = luks("luks2-uses", 48 * MIB, &["--type", "luks2", "--sector-size", "4096"]) else {
        return;
    };
    let made = std::fs::read(&image.0).expect("the image is there");
    // (text in the header, its replacement, bytes used of an odd device, whether it is refused)
    let odd = ByteCount::new(48 * MIB + 512);
    let cases: [(&str, &str, Option<u64>, bool); 3] = [
        ("\"dynamic\"", "\"dynamic\"", Some(48 * MIB), true),
        ("\"dynamic\"", "\"8388608\"", Some(24 * MIB), false),
        ("\"iv_tweak\":\"0\"", "\"integrity\":{}", None, false),
    ];
    for (old, new, used, is_refused) in cases {
        assert_eq!(old.len(), new.len());
        let mut bytes = made.clone();
        let places: Vec<usize> = (0..usize::try_from(MIB).expect("it fits"))
            .filter(|at| made[*at..].starts_with(old.as_bytes()))
            .collect();
        assert_eq!(places.len(), 2, "{old} in both headers");
        places.iter().for_each(|at| bytes[*at..at + new.len()].copy_from_slice(new.as_bytes()));
        let layer = layers(&MemoryMedium::new(bytes)).expect("LUKS");
        let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!(facts.uses(odd), used.map(ByteCount::new), "{new}");
        assert_eq!(facts.is_refused(odd), is_refused, "{new}");
    }
}

#[test]
fn the_second_luks_header_stands_in_for_the_first() {
    let Some(image) = luks("luks2-damaged", 32 * MIB, &["--type", "luks2", "--label", "twice"]) else {
        return;
    };
    let good = image.bytes();
    let damages: [(usize, &[u8]); 4] =
        [(4096, b"{\"segments\":["), (0, &[0; 512]), (8, &[0xFF; 8]), (256, &[1])];
    for (at, damage) in damages {
        let mut bytes = good.clone();
        put(&mut bytes, at, damage);
        let layer = layers(&MemoryMedium::new(bytes.clone())).expect("LUKS");
        let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!(facts.payload, Some(ByteOffset::new(16 * MIB)), "{at}");
        assert_eq!(layer.name, "twice");
        assert!(remarked(&layer, "the second one, at byte 16384, was used"), "{:?}", layer.remarks);
        put(&mut bytes, 16384, &[0; 8]);
        let layer = layers(&MemoryMedium::new(bytes));
        let payload = layer.and_then(|layer| match layer.facts {
            Facts::Luks(facts) => facts.payload,
            _ => None,
        });
        assert_eq!(payload, None);
    }
}

#[test]
fn a_detached_luks_header_has_no_payload() {
    let data = Image::new("luks-data", 8 * MIB);
    for (name, kind) in [("luks1-header", "luks1"), ("luks2-header", "luks2")] {
        let header = Image::new(name, 16 * MIB);
        let option = format!("--header={}", header.0.display());
        let key = Image::new(&format!("{name}.key"), 16);
        let key_file = format!("--key-file={}", key.0.display());
        let args = [
            "luksFormat",
            "-q",
            "--pbkdf",
            "pbkdf2",
            "--pbkdf-force-iterations",
            "1000",
            &key_file,
            "--type",
            kind,
            &option,
        ];
        if run("cryptsetup", &args, &[&data.0]).is_none() {
            return;
        }
        let layer = header.layers().expect("LUKS");
        let Facts::Luks(facts) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!((facts.payload, layer.space.len()), (None, 0), "{kind}");
        assert!(remarked(&layer, "on another device"), "{:?}", layer.remarks);
    }
}

#[test]
fn verity_hashes_protect_data_elsewhere() {
    let (data, hashes) = (Image::new("verity-data", MIB), Image::new("verity-hashes", MIB));
    let args = ["format", "--data-block-size", "4096", "--hash-block-size", "1024"];
    if run("veritysetup", &args, &[&data.0, &hashes.0]).is_none() {
        return;
    }
    let layer = hashes.layers().expect("verity");
    let Facts::Mapped(facts) = &layer.facts else { panic!("{layer:?}") };
    assert_eq!(
        (layer.kind.name(), facts.payload, facts.block),
        ("DM_verity_hash", None, Some(ByteCount::new(4096)))
    );
    assert!(remarked(&layer, "elsewhere") && remarked(&layer, "1024 bytes"), "{:?}", layer.remarks);
}

#[test]
fn an_ext4_costs_few_reads() {
    let image = Image::new("ext4", 64 * MIB);
    if run("mkfs.ext4", &["-q", "-F", "-L", "plain"], &[&image.0]).is_none() {
        return;
    }
    let file = File::open(&image.0).expect("the image is there");
    let medium = Counted::new(FileMedium::new(file, ByteCount::new(64 * MIB)));
    let layer = layers(&medium).expect("ext4");
    assert_eq!((layer.kind.name(), layer.name.as_str()), ("ext4", "plain"));
    // Two reads for md superblocks at the end (4 KiB each), three for other marks at the end, the first 12
    // KiB, its own superblock (1 KiB), and its UUID.
    assert!(medium.reads() <= 8, "{}", medium.reads());
    assert!(medium.bytes() <= 40 * 1024, "{}", medium.bytes());
}

#[test]
fn metadata_is_read_around_the_end_of_its_area() {
    let text = group(&volume("one", 4, LINEAR));
    let len = text.len() as u64;
    let area = 8192;
    for offset in [512, 4096, area - 1, area - len, area - len + 1, area - len / 2] {
        let layer = layers(&MemoryMedium::new(pv(&text, area, offset, len))).expect("a PV");
        assert_eq!(layer.remarks, [""; 0], "{offset}");
        let Facts::Pv(pv) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!((pv.vg.as_str(), pv.data_start.get(), pv.extent_size.get()), ("vg", MIB, 4096));
        assert_eq!(pv.device_size.map(ByteCount::get), Some(2 * MIB));
        let lv = &layer.children[0];
        assert_eq!(
            (lv.name.as_str(), lv.below.start().get(), lv.below.len().get()),
            ("vg/one", MIB + 3 * 4096, 16384)
        );
        assert_eq!(lv.drive, Some(lv.below.start()));
    }
    // As for LVM, an area whose checksum is wrong does not count.
    let mut image = plain_pv(&text);
    put(&mut image, 4096 + 512, b"  ");
    let layer = layers(&MemoryMedium::new(image)).expect("a PV");
    assert!(remarked(&layer, "the checksum of the metadata is wrong"), "{:?}", layer.remarks);
    assert!(layer.children.is_empty(), "{layer:?}");
}

#[test]
fn md_superblocks_are_checked() {
    let len: usize = 1 << 20;
    let end = len - 8192;
    let mut image = vec![0; len];
    put(&mut image, end, &md_superblock(end as u64, 0, 2000));
    let layer = layers(&MemoryMedium::new(image.clone())).expect("a member");
    let Facts::Md(md) = &layer.facts else { panic!("{layer:?}") };
    assert_eq!((md.version, md.role, layer.name.as_str()), ("1.0", Some(0), "host:name"));
    assert_eq!(layer.remarks, [""; 0]);
    // (offset, bytes, expected remark)
    let damages: [(usize, &[u8], &str); 4] = [
        (8, &[4], "reshaped"),
        (8, &[2], "rebuilt"),
        (256, &[0xFF, 0xFF], "a spare"),
        (136, &[0xFF; 8], "past the end"),
    ];
    for (at, bytes, remark) in damages {
        let mut image = image.clone();
        put(&mut image, end + at, bytes);
        // The number of sectors used is the smaller of the two sizes.
        put(&mut image, end + 80, &u64::to_le_bytes(if at == 136 { u64::MAX } else { 2000 }));
        let layer = layers(&MemoryMedium::new(image)).expect("a member");
        assert!(remarked(&layer, remark), "{remark}: {:?}", layer.remarks);
    }
    // A superblock that records another position is left over from another partition.
    put(&mut image, end + 144, &[0xFF]);
    assert_eq!(layers(&MemoryMedium::new(image)), None);
}

#[test]
fn version_0_is_read_in_both_byte_orders() {
    let len: usize = 1 << 20;
    let at = len - (64 << 10);
    // (word, value): a RAID1 of two members, of which this is the second.
    let words = [(0, 0xa92b_4efc_u32), (1, 0), (2, 90), (7, 1), (8, 900), (10, 2), (995, 1), (996, 6)];
    let sum: u64 = words.iter().map(|(_, value)| u64::from(*value)).sum();
    let sum = u32::try_from((sum & 0xffff_ffff) + (sum >> 32)).expect("a small sum");
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        let mut image = vec![0; len];
        for (word, value) in words.into_iter().chain([(38, sum)]) {
            put(&mut image, at + 4 * word, &order(value));
        }
        let layer = layers(&MemoryMedium::new(image)).expect("a member");
        let Facts::Md(md) = &layer.facts else { panic!("{layer:?}") };
        assert_eq!((md.version, md.level, md.role, md.data_size.get()), ("0.90", 1, Some(1), 900 << 10));
        assert_eq!(layer.remarks, [""; 0]);
    }
}
