//! Parses device-mapper tables. An unknown type, or parameters of another form, map nothing; the devices named are
//! still listed where possible. Source: Documentation/admin-guide/device-mapper of the kernel, and the `*_status`
//! functions of drivers/md/dm-*.c.

use straddle_units::{ByteCount, ByteOffset, KERNEL_SECTOR, Lba, LbaCount, Span};

use super::runs::{Geometry, Run};
use crate::ioctl::dm::TableLine;

/// One target of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmTarget {
    /// The bytes of the mapping that it serves.
    pub span: Span,
    /// The name of its type, such as `linear`.
    pub kind: String,
    /// The chunk (striped, raid) or the block of a pool, cache or snapshot; otherwise zero.
    pub chunk: ByteCount,
    /// The number of devices it is striped over, or of copies it holds; 1 for other types.
    pub stripes: u32,
    /// The sector or block size in which it computes: crypt, integrity, verity.
    pub block: Option<ByteCount>,
    /// The devices that it stands on.
    pub on: Vec<On>,
}

/// A device in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct On {
    /// `major:minor`.
    pub device: String,
    /// Whether the device holds the data itself, rather than only describing, caching or checking it.
    pub holds_data: bool,
    /// Which bytes of the mapping lie where on the device; empty where that is not known.
    pub runs: Vec<Run>,
}

impl On {
    fn data(device: &str, runs: Vec<Run>) -> Self {
        Self { device: device.to_owned(), holds_data: true, runs }
    }

    fn other(device: &str) -> Self {
        Self { device: device.to_owned(), holds_data: false, runs: Vec::new() }
    }
}

pub(crate) fn target(line: &TableLine) -> Option<DmTarget> {
    let span = Span::of_blocks(Lba::new(line.start), LbaCount::new(line.length), KERNEL_SECTOR)?;
    let words: Vec<&str> = line.parameters.split_whitespace().collect();
    let (kind, chunk) = (line.kind.clone(), ByteCount::ZERO);
    let bare = DmTarget { span, kind, chunk, stripes: 1, block: None, on: Vec::new() };
    Some(parsed(&words, bare.clone()).unwrap_or(bare))
}

fn parsed(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let span = bare.span;
    let on = match bare.kind.as_str() {
        "linear" | "flakey" | "delay" => vec![shifted(words, 0, span)?],
        "striped" => return striped(words, bare),
        "crypt" => return crypt(words, bare),
        "raid" => return raid(words, bare),
        "verity" => return verity(words, bare),
        "integrity" => return integrity(words, bare),
        "mirror" => return mirror(words, bare),
        "multipath" => multipath(words, span),
        // The pool's own metadata says where each block is.
        "thin" => vec![On::data(device(words, 0)?, Vec::new())],
        "thin-pool" => {
            let on = vec![On::other(device(words, 0)?), On::data(device(words, 1)?, Vec::new())];
            return Some(DmTarget { on, chunk: sectors(words, 2)?, ..bare });
        }
        "cache" => {
            let on = vec![On::other(device(words, 0)?), On::other(device(words, 1)?), same(words, 2, span)?];
            return Some(DmTarget { on, chunk: sectors(words, 3)?, ..bare });
        }
        "writecache" => vec![same(words, 1, span)?, On::other(device(words, 2)?)],
        "snapshot-origin" => vec![same(words, 0, span)?],
        "snapshot" | "snapshot-merge" => {
            // Some chunks are the origin's, the others are in the copy-on-write store.
            let on = vec![On::data(device(words, 0)?, Vec::new()), On::other(device(words, 1)?)];
            return Some(DmTarget { on, chunk: sectors(words, 3)?, ..bare });
        }
        _ => {
            let devices = words.iter().filter(|word| is_device(word));
            devices.map(|word| On::data(word, Vec::new())).collect()
        }
    };
    Some(DmTarget { on, ..bare })
}

fn is_device(word: &str) -> bool {
    let is_number =
        |text: &str| !text.is_empty() && text.len() <= 8 && text.bytes().all(|b| b.is_ascii_digit());
    word.split_once(':').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

fn device<'a>(words: &[&'a str], index: usize) -> Option<&'a str> {
    words.get(index).copied().filter(|word| is_device(word))
}

fn number(words: &[&str], index: usize) -> Option<u64> {
    words.get(index)?.parse().ok()
}

fn sectors(words: &[&str], index: usize) -> Option<ByteCount> {
    LbaCount::new(number(words, index)?).to_bytes(KERNEL_SECTOR)
}

fn shifted(words: &[&str], index: usize, span: Span) -> Option<On> {
    let at = Lba::new(number(words, index + 1)?).to_bytes(KERNEL_SECTOR)?;
    Some(On::data(device(words, index)?, vec![Run::whole(span, at)]))
}

fn same(words: &[&str], index: usize, span: Span) -> Option<On> {
    Some(On::data(device(words, index)?, vec![Run::whole(span, ByteOffset::ZERO)]))
}

/// `NUMBER CHUNK [DEVICE OFFSET]…`
fn striped(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let stripes = u32::try_from(number(words, 0)?).ok()?;
    let chunk = sectors(words, 1)?;
    let geometry = Geometry { level: 0, layout: 0, chunk, disks: stripes };
    let mut on = Vec::new();
    for (role, pair) in (0..stripes).zip(words.get(2..)?.chunks_exact(2)) {
        let at = Lba::new(number(pair, 1)?).to_bytes(KERNEL_SECTOR)?;
        on.push(On::data(device(pair, 0)?, geometry.runs(role, bare.span, at).unwrap_or_default()));
    }
    Some(DmTarget { on, chunk, stripes: stripes.max(1), ..bare })
}

/// `CIPHER KEY IV-OFFSET DEVICE OFFSET [NUMBER OPTION…]`
fn crypt(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let on = vec![shifted(words, 3, bare.span)?];
    let options = words.get(6..).unwrap_or_default();
    // With an `integrity:` option the device below is a dm-integrity device, which also holds the tags.
    let size = options.iter().find_map(|option| option.strip_prefix("sector_size:")?.parse().ok());
    Some(DmTarget { on, block: Some(ByteCount::new(size.unwrap_or(512))), ..bare })
}

/// `DEVICE RESERVED-SECTORS TAG-SIZE MODE NUMBER OPTION…`. Data and tags may be interleaved.
fn integrity(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let options = words.get(5..).unwrap_or_default();
    let block = options.iter().find_map(|option| option.strip_prefix("block_size:")?.parse().ok());
    let mut on = vec![On::data(device(words, 0)?, Vec::new())];
    let meta = options.iter().find_map(|option| option.strip_prefix("meta_device:"));
    on.extend(meta.filter(|meta| is_device(meta)).map(On::other));
    Some(DmTarget { on, block: Some(ByteCount::new(block.unwrap_or(512))), ..bare })
}

/// `VERSION DATA-DEVICE HASH-DEVICE DATA-BLOCK HASH-BLOCK …`
fn verity(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let mut on = vec![same(words, 1, bare.span)?];
    let hashes = device(words, 2)?;
    if hashes != on[0].device {
        on.push(On::other(hashes));
    }
    Some(DmTarget { on, block: Some(ByteCount::new(number(words, 3)?)), ..bare })
}

/// `LOG NUMBER LOG-ARGUMENT… NUMBER [DEVICE OFFSET]…`
fn mirror(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let arguments = usize::try_from(number(words, 1)?).ok()?;
    let rest = words.get(arguments.checked_add(2)?..)?;
    let copies = number(rest, 0)?;
    let logs = words.get(2..arguments + 2)?.iter().filter(|word| is_device(word)).map(|word| On::other(word));
    let mut on: Vec<On> = logs.collect();
    for (_, pair) in (0..copies).zip(rest.get(1..)?.chunks_exact(2)) {
        on.push(shifted(pair, 0, bare.span)?);
    }
    Some(DmTarget { on, stripes: u32::try_from(copies).ok()?.max(1), ..bare })
}

/// Only devices have the form `major:minor`, among features, handlers and groups.
fn multipath(words: &[&str], span: Span) -> Vec<On> {
    let paths = words.iter().filter(|word| is_device(word));
    paths.map(|word| On::data(word, vec![Run::whole(span, ByteOffset::ZERO)])).collect()
}

/// Name, md's level and md's layout (`raid_types`, drivers/md/dm-raid.c).
const RAID_TYPES: [(&str, i32, u32); 23] = [
    ("raid0", 0, 0),
    ("raid0_meta", 0, 0),
    ("raid1", 1, 0),
    ("raid10", 10, 0x102),
    ("raid10_near", 10, 0x102),
    ("raid10_far", 10, 0x201),
    ("raid10_offset", 10, 0x1_0201),
    ("raid4", 5, 4),
    ("raid5_n", 5, 5),
    ("raid5_ls", 5, 2),
    ("raid5_rs", 5, 3),
    ("raid5_la", 5, 0),
    ("raid5_ra", 5, 1),
    ("raid6_zr", 6, 8),
    ("raid6_nr", 6, 9),
    ("raid6_nc", 6, 10),
    ("raid6_n_6", 6, 5),
    ("raid6_ls_6", 6, 18),
    ("raid6_rs_6", 6, 19),
    ("raid6_la_6", 6, 16),
    ("raid6_ra_6", 6, 17),
    ("raid6_0_6", 6, 20),
    ("raid5", 5, 2),
];

/// Returns md's level and layout of the RAID type `name`.
pub fn raid_type(name: &str) -> Option<(i32, u32)> {
    RAID_TYPES.iter().find(|(known, ..)| *known == name).map(|(_, level, layout)| (*level, *layout))
}

/// `TYPE NUMBER PARAMETER… NUMBER [META-DEVICE DEVICE]…`: the chunk size first, `-` for a missing device.
fn raid(words: &[&str], bare: DmTarget) -> Option<DmTarget> {
    let (level, layout) = raid_type(words.first()?)?;
    let count = usize::try_from(number(words, 1)?).ok()?;
    let parameters = words.get(2..count.checked_add(2)?)?;
    let after = |name: &str| {
        let at = parameters.iter().position(|word| *word == name)?;
        parameters.get(at + 1).copied()
    };
    // Offset and layout are not those of the whole device during a reshape.
    let moving = after("delta_disks").is_some() || after("data_offset").is_some();
    let chunk = sectors(parameters, 0)?;
    let disks = u32::try_from(number(words, count + 2)?).ok()?;
    let layout = match after("raid10_copies").and_then(|copies| copies.parse::<u32>().ok()) {
        Some(copies) if level == 10 => raid10_layout(copies, after("raid10_format").unwrap_or("near"))?,
        _ => layout,
    };
    let geometry = Geometry { level, layout, chunk, disks };
    let mut on = Vec::new();
    for (role, pair) in (0..disks).zip(words.get(count + 3..)?.chunks_exact(2)) {
        on.extend(device(pair, 0).map(On::other));
        let Some(data) = device(pair, 1) else { continue };
        let runs = if moving { None } else { geometry.runs(role, bare.span, ByteOffset::ZERO) };
        on.push(On::data(data, runs.unwrap_or_default()));
    }
    Some(DmTarget { on, chunk, stripes: disks.max(1), ..bare })
}

/// As `raid10_format_to_md_layout` (drivers/md/dm-raid.c).
fn raid10_layout(copies: u32, format: &str) -> Option<u32> {
    let copies = (copies <= 0xff).then_some(copies)?;
    match format {
        "near" => Some(0x100 | copies),
        "far" => Some(copies << 8 | 1),
        "offset" => Some(1 << 16 | copies << 8 | 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::runs::{Located, locate};
    use super::*;

    fn read(line: &str) -> DmTarget {
        target(&TableLine::parse(line).unwrap()).unwrap()
    }

    /// Returns the devices of a line, each with the sector on which the target's first byte lies.
    fn starts(line: &str) -> Vec<(String, bool, Option<u64>)> {
        let target = read(line);
        let first = |on: &On| match locate(&on.runs, target.span.start()) {
            Located::Here(at, _) => Some(at.get() / 512),
            _ => None,
        };
        target.on.iter().map(|on| (on.device.clone(), on.holds_data, first(on))).collect()
    }

    fn on(device: &str, holds_data: bool, sector: Option<u64>) -> (String, bool, Option<u64>) {
        (device.to_owned(), holds_data, sector)
    }

    #[test]
    fn lines_that_the_kernel_prints_are_read() {
        assert_eq!(starts("8192 2048 linear 8:1 4097"), [on("8:1", true, Some(4097))]);
        let crypt = "0 100 crypt aes-xts-plain64 - 0 8:1 32768 1 sector_size:4096";
        assert_eq!(starts(crypt), [on("8:1", true, Some(32768))]);
        assert_eq!(read(crypt).block, Some(ByteCount::new(4096)));
        let thin = "0 16384 thin-pool 253:2 253:3 128 0 1 skip_block_zeroing";
        assert_eq!(starts(thin), [on("253:2", false, None), on("253:3", true, None)]);
        let verity = "0 2048 verity 1 8:1 8:2 4096 4096 256 1 sha256 00 -";
        assert_eq!(starts(verity), [on("8:1", true, Some(0)), on("8:2", false, None)]);
        let mirror = "0 8192 mirror core 2 1024 nosync 2 253:0 0 253:1 8 1 handle_errors";
        assert_eq!(starts(mirror), [on("253:0", true, Some(0)), on("253:1", true, Some(8))]);
        let multipath =
            "0 8192 multipath 1 queue_if_no_path 0 2 1 round-robin 0 1 1 8:16 1 round-robin 0 1 1 8:32 1";
        assert_eq!(starts(multipath), [on("8:16", true, Some(0)), on("8:32", true, Some(0))]);
        let cache = "0 8192 cache 253:3 253:2 253:4 128 2 metadata2 writethrough smq 0";
        assert_eq!(starts(cache)[2], on("253:4", true, Some(0)));
        assert_eq!(starts("0 8 error "), []);
        assert_eq!(starts("0 8 news 8:3 77 x"), [on("8:3", true, None)]);
        assert_eq!(starts("0 8 linear 8:3 x"), []);
        assert_eq!(
            starts("0 9 integrity 8:1 0 4 J 1 meta_device:8:2"),
            [on("8:1", true, None), on("8:2", false, None)]
        );
    }

    #[test]
    fn stripes_alternate() {
        let target = read("0 1024 striped 2 128 8:1 2048 8:2 4096");
        assert_eq!((target.chunk, target.stripes), (ByteCount::new(65536), 2));
        let at =
            |device: usize, sector: u64| match locate(&target.on[device].runs, ByteOffset::new(sector * 512))
            {
                Located::Here(at, len) => Some((at.get() / 512, len.get() / 512)),
                _ => None,
            };
        assert_eq!(at(0, 0), Some((2048, 128)));
        assert_eq!(at(0, 128), None);
        assert_eq!(at(1, 130), Some((4098, 126)));
        assert_eq!(at(0, 256), Some((2176, 128)));
    }

    #[test]
    fn raid_parameters_are_skipped() {
        let line = "0 16384 raid raid5_ls 3 128 region_size 1024 3 253:0 253:1 253:2 253:3 - -";
        assert_eq!(
            starts(line),
            [
                on("253:0", false, None),
                on("253:1", true, Some(0)),
                on("253:2", false, None),
                on("253:3", true, None)
            ]
        );
        assert_eq!(read(line).stripes, 3);
        let ten = "0 16384 raid raid10 5 128 raid10_copies 2 raid10_format offset 2 - 253:1 - 253:3";
        assert_eq!(starts(ten), [on("253:1", true, Some(0)), on("253:3", true, None)]);
    }

    proptest! {
        #[test]
        fn no_line_panics(
            start in any::<u64>(), length in any::<u64>(),
            kind in proptest::sample::select(vec![
                "linear", "striped", "crypt", "raid", "verity", "integrity", "thin", "thin-pool", "cache",
                "snapshot", "mirror", "delay", "flakey", "multipath", "error", "zero", "writecache", "clone", "",
            ]),
            words in proptest::collection::vec(
                proptest::sample::select(vec![
                    "8:1", "0", "1", "2", "3", "128", "18446744073709551615", "-", "raid6_zr", "raid10", "raid10_copies",
                    "raid10_format", "far", "sector_size:4096", "block_size:x", "meta_device:8:2", "core", "é", ":", "-1",
                ]),
                0..14,
            ),
        ) {
            let line = TableLine::new(start, length, kind, &words.join(" "));
            if let Some(target) = target(&line) {
                for on in &target.on {
                    prop_assert!(is_device(&on.device));
                    let _ = locate(&on.runs, target.span.start());
                }
            }
        }
    }
}
