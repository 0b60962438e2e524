//! LUKS1 and LUKS2 headers.
//!
//! Nothing is decrypted. Sources: the LUKS1 and LUKS2 on-disk format specifications; cryptsetup's
//! lib/luks1/luks.h and lib/luks2/luks2.h.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use straddle_device::Medium;
use straddle_device::fields::{be16, be32, be64, has};
use straddle_units::{ByteCount, ByteOffset, Span};

use super::{Provides, SECTOR, Space, Volume, bytes_at, sectors, text};
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Luks};
use crate::reader::Fault;

pub(crate) const SEALED: &str = "encrypted, so its contents are not visible offline";

const FIRST_MAGIC: &[u8] = b"LUKS\xBA\xBE";
const SECOND_MAGIC: &[u8] = b"SKUL\xBA\xBE";

const BINARY: u64 = 4096;
/// With the JSON. The second header follows directly (`LUKS2_HDR2_OFFSETS`).
const MIN_HEADER: u64 = 16 * 1024;
const MAX_HEADER: u64 = 4 * 1024 * 1024;

/// In cryptsetup's default place, for media without the first header.
pub(crate) fn has_second_header(medium: &dyn Medium) -> bool {
    bytes_at(medium, MIN_HEADER, SECOND_MAGIC.len()).is_ok_and(|bytes| bytes == SECOND_MAGIC)
}

#[derive(Default)]
struct Header {
    facts: Luks,
    label: String,
    uuid: String,
    remarks: Vec<String>,
}

/// The second header if the first is damaged or gone.
pub(super) fn read(medium: &dyn Medium) -> Result<Volume, Fault> {
    let binary = bytes_at(medium, 0, 512)?;
    let header = if has(&binary, 0, FIRST_MAGIC) && be16(&binary, 6) == 1 {
        version_1(&binary)
    } else {
        version_2(medium, &binary, 0).unwrap_or_else(|damage| second(medium, &binary, &damage))
    };
    Ok(volume(header, medium.len()))
}

fn second(medium: &dyn Medium, binary: &[u8], damage: &str) -> Header {
    let at = header_size(binary).unwrap_or(MIN_HEADER);
    let second = bytes_at(medium, at, 512);
    match second.and_then(|binary| version_2(medium, &binary, at)) {
        Ok(mut header) => {
            let remark = format!(
                "the first LUKS header is damaged ({damage}), so the second one, at byte {at}, was used"
            );
            header.remarks.insert(0, remark);
            header
        }
        Err(why) => {
            let first = format!("the first LUKS header is damaged: {damage}");
            let second = format!("the second LUKS header, at byte {at}, cannot be used either: {why}");
            let facts = Luks { version: 2, ..Luks::default() };
            Header { facts, remarks: vec![first, second], ..Header::default() }
        }
    }
}

/// `struct luks_phdr`, big-endian: the payload's offset in 512-byte sectors is at byte 104.
fn version_1(binary: &[u8]) -> Header {
    let payload = Some(ByteOffset::new(sectors(u64::from(be32(binary, 104)))));
    let sector_size = ByteCount::new(SECTOR);
    let facts = Luks { version: 1, payload, sector_size, size: None, is_plain: true };
    Header { facts, uuid: uuid(binary), ..Header::default() }
}

fn version_2(medium: &dyn Medium, binary: &[u8], at: u64) -> Result<Header, String> {
    let magic = if at == 0 { FIRST_MAGIC } else { SECOND_MAGIC };
    if !has(binary, 0, magic) {
        return Err(format!("there is no LUKS2 header at byte {at}"));
    }
    if be16(binary, 6) != 2 {
        return Err(format!("the header has the unknown version {}", be16(binary, 6)));
    }
    if be64(binary, 256) != at {
        return Err(format!("the header records byte {} as its position", be64(binary, 256)));
    }
    let size = header_size(binary)
        .ok_or_else(|| format!("a LUKS2 header cannot be {} bytes long", be64(binary, 8)))?;
    let area = usize::try_from(size - BINARY).map_err(|_| "the header is too long".to_owned())?;
    let json = bytes_at(medium, at + BINARY, area)?;
    let end = json.iter().position(|byte| *byte == 0).unwrap_or(json.len());
    // serde_json stops at 128 levels of nesting, and skips unknown fields without storing them.
    let metadata: Metadata = serde_json::from_slice(&json[..end])
        .map_err(|error| format!("the JSON in the header cannot be read: {error}"))?;
    let label = text(binary.get(24..72).unwrap_or_default());
    let numbered =
        metadata.segments.into_iter().filter_map(|(key, segment)| Some((key.parse().ok()?, segment)));
    let segments: BTreeMap<u32, Segment> = numbered.collect();
    Ok(from_segments(label, uuid(binary), &segments.into_values().collect::<Vec<_>>()))
}

/// 40 bytes at byte 168 in either version; without hyphens.
fn uuid(binary: &[u8]) -> String {
    text(binary.get(168..208).unwrap_or_default()).chars().filter(|c| *c != '-').collect()
}

fn header_size(binary: &[u8]) -> Option<u64> {
    let size = be64(binary, 8);
    (size.is_power_of_two() && (MIN_HEADER..=MAX_HEADER).contains(&size)).then_some(size)
}

/// The payload is the first segment in use (`LUKS2_get_data_offset`).
fn from_segments(label: String, uuid: String, segments: &[Segment]) -> Header {
    let used = || segments.iter().filter(|segment| !segment.is_backup());
    let mut remarks = Vec::new();
    if segments.len() > 1 {
        let remark = "the container is being encrypted, decrypted or re-encrypted, so its payload has \
                      several parts";
        remarks.push(remark.to_owned());
    }
    if used().any(|segment| segment.integrity.is_some()) {
        remarks.push(
            "the payload is on dm-integrity, which stores a header and tags in the same area".to_owned(),
        );
    }
    let payload =
        used().filter_map(|segment| segment.offset.as_ref()?.parse().ok()).min().map(ByteOffset::new);
    if payload.is_none() {
        remarks.push("the LUKS header lists no data segment".to_owned());
    }
    let sector_size = ByteCount::new(used().find_map(|segment| segment.sector_size).unwrap_or(SECTOR));
    let only = match segments {
        [only @ Segment { integrity: None, .. }] if !only.is_backup() => only.size.as_deref(),
        _ => None,
    };
    let size = only.and_then(|size| size.parse().ok()).map(ByteCount::new);
    let is_plain = size.is_some() || only == Some("dynamic");
    Header { facts: Luks { version: 2, payload, sector_size, size, is_plain }, label, uuid, remarks }
}

fn volume(header: Header, len: ByteCount) -> Volume {
    let Header { mut facts, label, uuid, mut remarks } = header;
    // Zero marks a detached header; past the end, a header file or a backup.
    let recorded = facts.payload;
    let here = recorded.filter(|at| *at != ByteOffset::ZERO);
    let here =
        here.and_then(|at| Span::between(at, ByteOffset::new(len.get()))).filter(|span| !span.is_empty());
    let provides = match here {
        Some(payload) => {
            remarks.push(SEALED.to_owned());
            Provides::Sealed(Space::run(payload.len(), payload.start()))
        }
        None => Provides::Nothing,
    };
    if here.is_none() && recorded.is_some() {
        remarks.push("this is a detached LUKS header, whose payload is on another device".to_owned());
    }
    facts.payload = here.map(Span::start);
    Volume { kind: VolumeKind::Luks, name: label, uuid, facts: Facts::Luks(facts), provides, remarks }
}

#[derive(Deserialize)]
struct Metadata {
    segments: BTreeMap<String, Segment>,
}

/// Numbers of 64 bits are decimal strings.
#[derive(Deserialize)]
struct Segment {
    offset: Option<String>,
    sector_size: Option<u64>,
    /// "dynamic" means to the end of the device.
    size: Option<String>,
    integrity: Option<IgnoredAny>,
    #[serde(default)]
    flags: Vec<String>,
}

impl Segment {
    /// From before a re-encryption.
    fn is_backup(&self) -> bool {
        self.flags.iter().any(|flag| flag.starts_with("backup-"))
    }
}
