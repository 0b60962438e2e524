//! Volumes put together by hand: the root directory of each form, the file of each form, and damage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_device::MemoryMedium;
use straddle_units::io::SplitMix64;

use super::super::file_system;
use super::table::attribute::{DATA, INDEX_BLOCKS, INDEX_ROOT, LIST};
use crate::model::content::FsKind;
use crate::model::view::View;

const CLUSTER: usize = 512;
const RECORD: usize = 1024;
const BLOCK: usize = 4096;
/// The first cluster of the table, and of what else a test puts on the volume.
const TABLE: usize = 16;
const INDEX: usize = 128;
const FILE: usize = 256;
const FAR: usize = 400;
const NAME: &str = "hiberfil.sys";

fn units(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

fn le32(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

fn le16(number: usize) -> [u8; 2] {
    u16::try_from(number).unwrap().to_le_bytes()
}

fn resident(kind: u32, name: &str, data: &[u8]) -> Vec<u8> {
    let name = units(name);
    let at = (0x18 + name.len()).next_multiple_of(8);
    let mut all = vec![0; (at + data.len()).next_multiple_of(8)];
    let len = all.len();
    put(&mut all, 0, &kind.to_le_bytes());
    put(&mut all, 4, &le32(len));
    all[9] = u8::try_from(name.len() / 2).unwrap();
    put(&mut all, 0x0A, &le16(0x18));
    put(&mut all, 0x10, &le32(data.len()));
    put(&mut all, 0x14, &le16(at));
    put(&mut all, 0x18, &name);
    put(&mut all, at, data);
    all
}

/// An attribute with its data in these runs of `(clusters, place)`, from cluster `first` of the data on.
fn outside(kind: u32, name: &str, first: usize, sizes: (u64, u64), runs: &[(u8, Option<usize>)]) -> Vec<u8> {
    let name = units(name);
    let at = (0x40 + name.len()).next_multiple_of(8);
    let mut encoded = Vec::new();
    let mut before = 0_i64;
    for (count, place) in runs {
        match place {
            None => encoded.extend([0x01, *count]),
            Some(place) => {
                let place = i64::try_from(*place).unwrap();
                encoded.extend([0x21, *count]);
                encoded.extend(i16::try_from(place - before).unwrap().to_le_bytes());
                before = place;
            }
        }
    }
    encoded.push(0);
    let mut all = vec![0; (at + encoded.len()).next_multiple_of(8)];
    let len = all.len();
    put(&mut all, 0, &kind.to_le_bytes());
    put(&mut all, 4, &le32(len));
    all[8] = 1;
    all[9] = u8::try_from(name.len() / 2).unwrap();
    put(&mut all, 0x0A, &le16(0x40));
    put(&mut all, 0x10, &u64::try_from(first).unwrap().to_le_bytes());
    put(&mut all, 0x20, &le16(at));
    put(&mut all, 0x30, &sizes.0.to_le_bytes());
    put(&mut all, 0x38, &sizes.1.to_le_bytes());
    put(&mut all, 0x40, &name);
    put(&mut all, at, &encoded);
    all
}

/// An entry of an attribute list.
fn listed(kind: u32, first: u64, record: u64) -> Vec<u8> {
    let mut all = vec![0; 0x20];
    put(&mut all, 0, &kind.to_le_bytes());
    put(&mut all, 4, &le16(0x20));
    all[7] = 0x1A;
    put(&mut all, 8, &first.to_le_bytes());
    put(&mut all, 0x10, &(record | 7 << 48).to_le_bytes());
    all
}

/// An entry of the directory; `None` is the last one.
fn entry(name: Option<(&str, u64)>, below: Option<u64>) -> Vec<u8> {
    let mut key = Vec::new();
    if let Some((name, _)) = name {
        key = vec![0; 0x42];
        key[0x40] = u8::try_from(name.len()).unwrap();
        key.extend(units(name));
    }
    let mut all = vec![0; 0x10];
    all.extend(&key);
    all.resize(all.len().next_multiple_of(8), 0);
    all.extend(below.map(u64::to_le_bytes).into_iter().flatten());
    let len = all.len();
    let record = name.map_or(0, |(_, record)| record | 3 << 48);
    put(&mut all, 0, &record.to_le_bytes());
    put(&mut all, 8, &le16(len));
    put(&mut all, 10, &le16(key.len()));
    all[12] = u8::from(below.is_some()) | if name.is_none() { 2 } else { 0 };
    all
}

/// The header of entries, followed by them.
fn node(gap: usize, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; 0x10 + gap];
    let at = all.len();
    all.extend(entries.concat());
    let end = all.len();
    put(&mut all, 0, &le32(at));
    put(&mut all, 4, &le32(end));
    all
}

/// Stamps the sectors of a record or a block with an update sequence, which is at byte `at`.
fn stamped(mut all: Vec<u8>, at: usize, magic: &[u8]) -> Vec<u8> {
    let sectors = all.len() / 512;
    put(&mut all, 0, magic);
    put(&mut all, 4, &le16(at));
    put(&mut all, 6, &le16(sectors + 1));
    put(&mut all, at, &[0x5A, 0xA5]);
    for sector in 0..sectors {
        let end = (sector + 1) * 512 - 2;
        let own = [all[end], all[end + 1]];
        put(&mut all, at + 2 + 2 * sector, &own);
        put(&mut all, end, &[0x5A, 0xA5]);
    }
    all
}

fn record(attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; RECORD];
    put(&mut all, 0x14, &le16(0x38));
    let mut body = attributes.concat();
    body.extend([0xFF; 4]);
    put(&mut all, 0x38, &body);
    stamped(all, 0x30, b"FILE")
}

fn block(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; 0x18];
    all.extend(node(0x18, entries));
    all.resize(BLOCK, 0);
    stamped(all, 0x28, b"INDX")
}

fn root(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = vec![0; 0x10];
    put(&mut all, 8, &le32(BLOCK));
    all.extend(node(0, entries));
    resident(INDEX_ROOT, "$I30", &all)
}

/// A volume: its boot sector, a table of 24 records, and what a test puts on it.
struct Volume(Vec<u8>);

impl Volume {
    fn new() -> Self {
        let mut all = vec![0; 600 * CLUSTER];
        put(&mut all, 3, b"NTFS    ");
        put(&mut all, 0x0B, &le16(CLUSTER));
        all[0x0D] = 1;
        put(&mut all, 0x28, &599_u64.to_le_bytes());
        put(&mut all, 0x30, &u64::try_from(TABLE).unwrap().to_le_bytes());
        all[0x40] = 0xF6;
        let mut volume = Self(all);
        volume.record(0, &[outside(DATA, "", 0, (24 * 1024, 24 * 1024), &[(48, Some(TABLE))])]);
        volume
    }

    fn at(&mut self, cluster: usize, bytes: &[u8]) {
        put(&mut self.0, cluster * CLUSTER, bytes);
    }

    fn record(&mut self, number: usize, attributes: &[Vec<u8>]) {
        self.at(TABLE + number * RECORD / CLUSTER, &record(attributes));
    }

    /// A root directory that lists the file in its record.
    fn listing(name: &str) -> Self {
        let mut volume = Self::new();
        let names =
            [entry(Some(("aaa", 3)), None), entry(Some((name, 20)), None), entry(Some(("zzz", 4)), None)];
        volume.record(5, &[root(&[names.concat(), entry(None, None)])]);
        volume
    }

    /// The same, with a file of 8 KiB that begins with `mark`.
    fn with_file(name: &str, mark: &[u8]) -> Self {
        let mut volume = Self::listing(name);
        volume.record(20, &[outside(DATA, "", 0, (8192, 8192), &[(16, Some(FILE))])]);
        volume.at(FILE, mark);
        volume
    }

    fn is_hibernated(&self) -> bool {
        let medium = MemoryMedium::new(self.0.clone());
        file_system(FsKind::Ntfs, &View::of_drive(&medium)).is_some_and(|(fs, _)| fs.is_hibernated)
    }
}

#[test]
fn the_mark_decides() {
    for name in [NAME, "HIBERFIL.SYS", "HiberFil.sys"] {
        for mark in [&b"hibr"[..], b"HIBR"] {
            assert!(Volume::with_file(name, mark).is_hibernated(), "{name}");
        }
    }
    for mark in [&b""[..], b"wake", b"RSTR", b"hiBR", b"\0HIBR"] {
        assert!(!Volume::with_file(NAME, mark).is_hibernated(), "{mark:?}");
    }
    for name in ["hiberfil.sy", "hiberfil.sys2", "xhiberfil.sys", "pagefile.sys"] {
        assert!(!Volume::with_file(name, b"HIBR").is_hibernated(), "{name}");
    }
    assert!(!Volume::new().is_hibernated(), "no root directory");
}

#[test]
fn each_form_of_the_file_is_read() {
    let with = |attributes: &[Vec<u8>]| {
        let mut volume = Volume::listing(NAME);
        volume.record(20, attributes);
        volume.at(FILE, b"HIBR");
        volume.is_hibernated()
    };
    let data = |size, valid, runs: &[(u8, Option<usize>)]| outside(DATA, "", 0, (size, valid), runs);
    let place = [(16, Some(FILE))];
    assert!(with(&[data(8192, 8192, &place)]));
    assert!(!with(&[data(8192, 8192, &[(16, None)])]), "a hole");
    assert!(
        with(&[data(8192, 8192, &[(8, Some(FILE)), (4, Some(30)), (4, None)])]),
        "pieces, and a way back"
    );
    assert!(!with(&[data(8192, 0, &place)]), "nothing of it was written");
    assert!(with(&[data(4095, 4095, &[(8, None)])]), "a short one");
    assert!(with(&[resident(DATA, "", b"")]) && with(&[resident(DATA, "", b"none")]), "short ones");
    // What is listed and cannot be read.
    assert!(with(&[]) && with(&[resident(DATA, "stream", &[0; 16])]), "no data");
    assert!(with(&[data(8192, 8192, &[(16, Some(30_000))])]), "past the end");
    assert!(with(&[data(8192, 8192, &[])]), "no runs");
    let mut compressed = data(8192, 8192, &[(16, None)]);
    compressed[0x0C] = 1;
    assert!(with(&[compressed]), "compressed");
    let mut volume = Volume::with_file(NAME, b"wake");
    volume.at(TABLE + 20 * RECORD / CLUSTER, b"BAAD");
    assert!(volume.is_hibernated(), "a record that is damaged");
}

#[test]
fn an_attribute_list_is_followed() {
    let own = |mark: &[u8], list: Vec<u8>, is_named: bool| {
        let mut volume = Volume::listing(NAME);
        let names: Vec<u8> = [listed(0x30, 0, 20), listed(DATA, 0, 21), listed(DATA, 16, 22)].concat();
        volume.at(FAR, &names);
        let list = if is_named { resident(LIST, "", &names) } else { list };
        volume.record(20, &[list]);
        volume.record(21, &[outside(DATA, "", 0, (16_384, 16_384), &[(16, Some(FILE))])]);
        volume.record(22, &[outside(DATA, "", 16, (0, 0), &[(16, Some(FILE + 16))])]);
        volume.at(FILE, mark);
        volume.is_hibernated()
    };
    let far = |size| outside(LIST, "", 0, (size, size), &[(1, Some(FAR))]);
    for (mark, expected) in [(&b"HIBR"[..], true), (b"wake", false)] {
        assert_eq!(own(mark, Vec::new(), true), expected);
        assert_eq!(own(mark, far(96), false), expected);
    }
    // Not as long as it says, too long, and nowhere.
    assert!(
        own(b"wake", far(200), false) && own(b"wake", far(1 << 40), false) && own(b"wake", far(1000), false)
    );
}

#[test]
fn a_table_in_pieces_is_followed() {
    for mark in [&b"HIBR"[..], b"wake"] {
        // The first sixteen records are in their place; those after them are where a list's record says.
        let mut volume = Volume::with_file(NAME, mark);
        let list = [listed(DATA, 0, 0), listed(DATA, 32, 15)].concat();
        let sizes = (24 * 1024, 24 * 1024);
        volume.record(0, &[resident(LIST, "", &list), outside(DATA, "", 0, sizes, &[(32, Some(TABLE))])]);
        volume.record(15, &[outside(DATA, "", 32, (0, 0), &[(7, Some(FAR + 20)), (9, Some(FAR))])]);
        let from = (TABLE + 20 * RECORD / CLUSTER) * CLUSTER;
        let moved = volume.0[from..from + RECORD].to_vec();
        volume.0[from..from + RECORD].fill(0);
        // Record 20 is in clusters 40 and 41 of the table, so 1 and 2 of the second piece.
        volume.at(FAR + 1, &moved);
        assert_eq!(volume.is_hibernated(), mark == b"HIBR");
    }
}

#[test]
fn the_index_is_descended() {
    let filled = |name: &str| -> Volume {
        let mut volume = Volume::with_file("none", b"HIBR");
        // Blocks are counted in clusters: the second one is number 8.
        let names =
            [entry(Some(("ggg", 3)), Some(8)), entry(Some(("ppp", 3)), Some(16)), entry(None, Some(24))];
        volume.record(
            5,
            &[
                root(&names),
                outside(
                    INDEX_BLOCKS,
                    "$I30",
                    0,
                    (16_384, 16_384),
                    &[(12, Some(INDEX)), (20, Some(INDEX + 60))],
                ),
            ],
        );
        let third = [entry(Some((name, 20)), None), entry(None, None)];
        let mut place = INDEX + 60 + 4;
        volume.at(place, &block(&third));
        place += 8;
        volume.at(place, &block(&[entry(Some(("x", 20)), None), entry(None, None)]));
        volume
    };
    assert!(filled(NAME).is_hibernated());
    assert!(!filled("hiberfil.sxs").is_hibernated());
    // A torn block lists nothing, and neither does one that names itself.
    let mut torn = filled(NAME);
    torn.0[(INDEX + 64) * CLUSTER + 1022] ^= 1;
    assert!(!torn.is_hibernated());
    let mut circle = filled(NAME);
    circle.at(INDEX + 64, &block(&[entry(None, Some(16))]));
    assert!(!circle.is_hibernated());
}

/// Damage anywhere in what is read, with the update sequences kept so that it is believed.
#[test]
fn damage_does_no_harm() {
    let mut volume = Volume::with_file(NAME, b"HIBR");
    let list = [listed(DATA, 0, 21)].concat();
    volume.record(20, &[resident(LIST, "", &list)]);
    volume.record(21, &[outside(DATA, "", 0, (8192, 8192), &[(16, Some(FILE))])]);
    let names = [entry(Some(("ggg", 3)), Some(8)), entry(None, Some(0))];
    let blocks = outside(INDEX_BLOCKS, "$I30", 0, (8192, 8192), &[(16, Some(INDEX))]);
    volume.record(5, &[root(&names), blocks]);
    volume.at(INDEX, &block(&[entry(Some((NAME, 20)), None), entry(None, None)]));
    assert!(volume.is_hibernated());
    let record = |number| (TABLE + number * RECORD / CLUSTER) * CLUSTER;
    let places = [
        (0x0B, 0x40),
        (record(0), 0xA0),
        (record(5), 0x180),
        (record(20), 0x80),
        (record(21), 0xA0),
        (INDEX * CLUSTER, 0xC0),
    ];
    let (mut asleep, mut awake) = (0, 0);
    for seed in 0..20_000 {
        let mut random = SplitMix64::new(seed);
        let mut damaged = Volume(volume.0.clone());
        for _ in 0..=random.index(3) {
            let (at, len) = places[random.index(places.len())];
            let value = [0, 1, 2, 0x7F, 0x80, 0xFF, u8::try_from(random.index(256)).unwrap()];
            damaged.0[at + random.index(len)] = value[random.index(value.len())];
        }
        let outcome = std::panic::catch_unwind(|| damaged.is_hibernated());
        match outcome.unwrap_or_else(|_| panic!("seed {seed}")) {
            true => asleep += 1,
            false => awake += 1,
        }
    }
    assert!(asleep > 1000 && awake > 1000, "{asleep} and {awake}");
}
