//! LUKS1 and LUKS2 headers.
//!
//! Invariants: nothing is decrypted. The payload is where the header says, and its content stays
//! unknown. Sources: the LUKS1 and LUKS2 on-disk format specifications; cryptsetup's lib/luks1/luks.h and
//! lib/luks2/luks2.h.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use straddle_device::Medium;
use straddle_units::{ByteCount, ByteOffset};

use super::{Provides, SECTOR, Space, Volume, bytes_at, sectors, text};
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Luks};
use crate::reader::Fault;
use straddle_device::fields::{be16, be32, be64, has};

/// The remark on a container whose payload cannot be read.
pub(crate) const SEALED: &str = "encrypted: its contents are not visible offline";

const FIRST_MAGIC: &[u8] = b"LUKS\xBA\xBE";
const SECOND_MAGIC: &[u8] = b"SKUL\xBA\xBE";

/// The length of the binary part of a LUKS2 header, before the JSON area.
const BINARY: u64 = 4096;
/// Sizes of a LUKS2 header with its JSON area. The second header follows the first directly
/// (`LUKS2_HDR2_OFFSETS`).
const MIN_HEADER: u64 = 16 * 1024;
const MAX_HEADER: u64 = 4 * 1024 * 1024;
/// The most segments to keep (`LUKS2_SEGMENT_MAX`).
const MAX_SEGMENTS: usize = 32;

/// Whether there is a second LUKS2 header in cryptsetup's default place, for media whose first header is
/// completely gone. Costs one read.
pub(crate) fn has_second_header(medium: &dyn Medium) -> bool {
    bytes_at(medium, MIN_HEADER, SECOND_MAGIC.len()).is_ok_and(|bytes| bytes == SECOND_MAGIC)
}

/// The contents of a header of either version.
struct Header {
    version: u16,
    label: String,
    uuid: String,
    payload: Option<u64>,
    sector_size: u64,
    size: Option<u64>,
    is_plain: bool,
    remarks: Vec<String>,
}

/// Reads the header at the start of `medium`, or the second one if the first is damaged or gone.
pub(super) fn read(medium: &dyn Medium) -> Result<Volume, Fault> {
    let binary = bytes_at(medium, 0, 512)?;
    let header = if has(&binary, 0, FIRST_MAGIC) && be16(&binary, 6) == 1 {
        version_1(&binary)
    } else {
        version_2(medium, &binary, 0).unwrap_or_else(|damage| second(medium, &binary, &damage))
    };
    Ok(volume(header, medium.len()))
}

/// Reads the second LUKS2 header, after `damage` to the first one, whose first bytes are `binary`.
fn second(medium: &dyn Medium, binary: &[u8], damage: &str) -> Header {
    let at = header_size(binary).unwrap_or(MIN_HEADER);
    let second = bytes_at(medium, at, 512).map_err(|fault| fault.to_string());
    match second.and_then(|binary| version_2(medium, &binary, at)) {
        Ok(mut header) => {
            let remark =
                format!("its first header is damaged: {damage}; the second one, at byte {at}, was used");
            header.remarks.insert(0, remark);
            header
        }
        Err(why) => Header {
            version: 2,
            label: String::new(),
            uuid: String::new(),
            payload: None,
            sector_size: 0,
            size: None,
            is_plain: false,
            remarks: vec![
                format!("its first header is damaged: {damage}"),
                format!("its second header, at byte {at}, cannot be used either: {why}"),
            ],
        },
    }
}

/// Parses `struct luks_phdr`, big-endian: the payload's offset in 512-byte sectors is at byte 104.
fn version_1(binary: &[u8]) -> Header {
    let payload = Some(sectors(u64::from(be32(binary, 104))));
    let (label, uuid) = (String::new(), uuid(binary));
    Header {
        version: 1,
        label,
        uuid,
        payload,
        sector_size: SECTOR,
        size: None,
        is_plain: true,
        remarks: Vec::new(),
    }
}

/// Reads the LUKS2 header at byte `at`, whose first bytes are `binary`.
fn version_2(medium: &dyn Medium, binary: &[u8], at: u64) -> Result<Header, String> {
    let magic = if at == 0 { FIRST_MAGIC } else { SECOND_MAGIC };
    if !has(binary, 0, magic) {
        return Err(format!("there is none at byte {at}"));
    }
    if be16(binary, 6) != 2 {
        return Err(format!("unknown version {}", be16(binary, 6)));
    }
    if be64(binary, 256) != at {
        return Err(format!("it says that it starts at byte {}", be64(binary, 256)));
    }
    let size = header_size(binary)
        .ok_or_else(|| format!("no LUKS2 header has a size of {} bytes", be64(binary, 8)))?;
    let area = usize::try_from(size - BINARY).map_err(|_| "it is too long".to_owned())?;
    let json = bytes_at(medium, at + BINARY, area).map_err(|fault| fault.to_string())?;
    let end = json.iter().position(|byte| *byte == 0).unwrap_or(json.len());
    // serde_json stops at 128 levels of nesting, and skips unknown fields without storing them.
    let metadata: Metadata =
        serde_json::from_slice(&json[..end]).map_err(|error| format!("its JSON cannot be read: {error}"))?;
    let label = text(binary.get(24..72).unwrap_or_default());
    Ok(from_segments(label, uuid(binary), &metadata.segments.0))
}

/// The UUID of either version, without its hyphens: a text of 40 bytes at byte 168.
fn uuid(binary: &[u8]) -> String {
    text(binary.get(168..208).unwrap_or_default()).chars().filter(|c| *c != '-').collect()
}

/// The size of a LUKS2 header; `None` if it is not one that LUKS2 allows.
fn header_size(binary: &[u8]) -> Option<u64> {
    let size = be64(binary, 8);
    (size.is_power_of_two() && (MIN_HEADER..=MAX_HEADER).contains(&size)).then_some(size)
}

/// Makes the header from its segments. The payload is where the first segment in use begins
/// (`LUKS2_get_data_offset`).
fn from_segments(label: String, uuid: String, segments: &[Segment]) -> Header {
    let used = || segments.iter().filter(|segment| !segment.is_backup);
    let mut remarks = Vec::new();
    if segments.len() > 1 {
        let remark = "it is being encrypted, decrypted or re-encrypted: its payload has several parts";
        remarks.push(remark.to_owned());
    }
    if used().any(|segment| segment.has_integrity) {
        remarks.push("its payload is on dm-integrity, which stores a header and tags there".to_owned());
    }
    let payload = used().filter_map(|segment| segment.offset).min();
    if payload.is_none() {
        remarks.push("its header lists no data segment".to_owned());
    }
    let sector_size = used().find_map(|segment| segment.sector_size).unwrap_or(SECTOR);
    let (size, is_plain) = match segments {
        [Segment { size: Some(size), has_integrity: false, is_backup: false, .. }] => match size {
            SegmentSize::Dynamic => (None, true),
            SegmentSize::Bytes(bytes) => (Some(*bytes), true),
        },
        _ => (None, false),
    };
    Header { version: 2, label, uuid, payload, sector_size, size, is_plain, remarks }
}

/// Makes the volume of a container on a medium of `len` bytes.
fn volume(header: Header, len: ByteCount) -> Volume {
    let Header { version, label, uuid, payload, sector_size, size, is_plain, mut remarks } = header;
    // Zero marks a detached header; a payload past the end means that the medium is a header file or a header
    // backup.
    let room = payload.filter(|payload| *payload > 0).and_then(|payload| len.get().checked_sub(payload));
    let here = payload.zip(room).filter(|(_, room)| *room > 0);
    let here = here.map(|(payload, room)| (ByteOffset::new(payload), ByteCount::new(room)));
    let provides = match here {
        Some((payload, room)) => {
            remarks.push(SEALED.to_owned());
            Provides::Sealed(Space::run(room, payload))
        }
        None => Provides::Nothing,
    };
    if here.is_none() && payload.is_some() {
        remarks.push("a detached header: its payload is on another device".to_owned());
    }
    let payload = here.map(|(payload, _)| payload);
    let (sector_size, size) = (ByteCount::new(sector_size), size.map(ByteCount::new));
    let facts = Facts::Luks(Luks { version, payload, sector_size, size, is_plain });
    Volume { kind: VolumeKind::Luks, name: label, uuid, facts, provides, remarks }
}

/// The part of the JSON area that is used.
#[derive(Deserialize)]
struct Metadata {
    segments: Segments,
}

/// The data segments, ordered by number.
struct Segments(Vec<Segment>);

/// One data segment.
#[derive(Deserialize)]
struct Segment {
    #[serde(default, deserialize_with = "decimal")]
    offset: Option<u64>,
    #[serde(default)]
    sector_size: Option<u64>,
    #[serde(default, deserialize_with = "segment_size")]
    size: Option<SegmentSize>,
    #[serde(default, rename = "integrity", deserialize_with = "is_there")]
    has_integrity: bool,
    /// One of its flags marks it as a backup of the state before re-encryption.
    #[serde(default, rename = "flags", deserialize_with = "has_backup_flag")]
    is_backup: bool,
}

/// The length of a segment.
#[derive(Clone, Copy)]
enum SegmentSize {
    /// To the end of the device.
    Dynamic,
    /// This many bytes.
    Bytes(u64),
}

/// Deserialises a string by a function, without storing the string.
struct Glance<T>(fn(&str) -> T);

impl<'de, T> DeserializeSeed<'de> for Glance<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T> Visitor<'_> for Glance<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(self.0(text))
    }
}

/// A 64-bit number, which the JSON has as a decimal string.
fn decimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Glance(|text| text.parse().ok()).deserialize(deserializer)
}

fn segment_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SegmentSize>, D::Error> {
    Glance(|text| match text {
        "dynamic" => Some(SegmentSize::Dynamic),
        bytes => bytes.parse().ok().map(SegmentSize::Bytes),
    })
    .deserialize(deserializer)
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

fn has_backup_flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Flags;
    impl<'de> Visitor<'de> for Flags {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of flags")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut flags: A) -> Result<bool, A::Error> {
            let mut found = false;
            while let Some(is_backup) = flags.next_element_seed(Glance(|flag| flag.starts_with("backup-")))? {
                found |= is_backup;
            }
            Ok(found)
        }
    }
    deserializer.deserialize_seq(Flags)
}

impl<'de> Deserialize<'de> for Segments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByNumber;
        impl<'de> Visitor<'de> for ByNumber {
            type Value = Segments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("segments by their numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Segments, A::Error> {
                let mut kept: Vec<(u32, Segment)> = Vec::new();
                while let Some(number) = map.next_key_seed(Glance(|key| key.parse().ok()))? {
                    match number.filter(|_| kept.len() < MAX_SEGMENTS) {
                        Some(number) => kept.push((number, map.next_value()?)),
                        None => map.next_value::<IgnoredAny>().map(|_| ())?,
                    }
                }
                kept.sort_by_key(|(number, _)| *number);
                Ok(Segments(kept.into_iter().map(|(_, segment)| segment).collect()))
            }
        }
        deserializer.deserialize_map(ByNumber)
    }
}
