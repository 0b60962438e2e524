//! LVM2 physical volumes: the label, the metadata areas, and the volumes that the metadata lists (LVM2's
//! lib/label/label.h, lib/format_text/layout.h and lib/format_text/format-text.c).

mod group;
mod map;
mod stripes;
mod text;

use straddle_device::Medium;
use straddle_device::fields::{has, le32, le64};
use straddle_units::{ByteCount, ByteOffset, Span};

use self::group::Group;
use super::{Provides, Volume, bytes_at};
use crate::model::content::VolumeKind;
use crate::model::layer::{Facts, Pv};
use crate::reader::Fault;

/// In bytes. LVM's default area holds 1 MiB.
const MAX_TEXT: u64 = 4 * 1024 * 1024;
const LABEL_SCAN_SECTORS: usize = 4;
const LABEL_SIZE: usize = 512;
const FMTT_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
const MDA_HEADER_SIZE: u64 = 512;
const RAW_LOCN_IGNORED: u32 = 1;
const INITIAL_CRC: u32 = 0xf597_a6cf;

struct Label {
    uuid: Vec<u8>,
    size: u64,
    data_areas: Vec<(u64, u64)>,
    metadata_areas: Vec<(u64, u64)>,
}

pub(super) fn read(medium: &dyn Medium) -> Result<Volume, Fault> {
    let head = bytes_at(medium, 0, LABEL_SCAN_SECTORS * LABEL_SIZE)?;
    let mut remarks = Vec::new();
    let mut pv = Pv::default();
    let Some(label) = Label::find(&head) else {
        remarks.push("the LVM label is not valid".to_owned());
        return Ok(volume(pv, "", Provides::Nothing, remarks));
    };
    let uuid = String::from_utf8_lossy(&label.uuid).into_owned();
    pv.data_start = ByteOffset::new(label.data_areas.first().map_or(0, |(start, _)| *start));
    pv.device_size = label.device_size();
    let Some(group) = label.group(medium, &mut remarks) else {
        let area = label.data_area(medium.len());
        let provides = area.map_or(Provides::Nothing, |area| Provides::Parts(area, Vec::new()));
        return Ok(volume(pv, &uuid, provides, remarks));
    };
    remarks.extend(group.remarks.iter().cloned());
    pv.vg = straddle_device::shown::printable(&group.name);
    pv.extent_size = group.extent_size;
    let Some(ours) = group.volume_with(&label.uuid) else {
        remarks.push(
            "the volume group does not list this physical volume, so its contents were not read".to_owned(),
        );
        return Ok(volume(pv, &uuid, Provides::Nothing, remarks));
    };
    pv.data_start = ByteOffset::new(super::sectors(ours.pe_start));
    let area = pv.extent_size.checked_mul(ours.pe_count).and_then(|len| Span::new(pv.data_start, len));
    let Some(area) = area.or_else(|| Span::new(pv.data_start, ByteCount::ZERO)) else {
        return Ok(volume(pv, &uuid, Provides::Nothing, remarks));
    };
    // Extents that the label does not count are its own all the same.
    pv.device_size = pv.device_size.map(|size| size.max(ByteCount::new(area.end().get())));
    let parts = map::Mapper::new(&group, ours).parts();
    Ok(volume(pv, &uuid, Provides::Parts(area, parts), remarks))
}

fn volume(pv: Pv, uuid: &str, provides: Provides, remarks: Vec<String>) -> Volume {
    let uuid = straddle_device::shown::printable(uuid);
    Volume { kind: VolumeKind::Pv, name: pv.vg.clone(), uuid, facts: Facts::Pv(pv), provides, remarks }
}

/// `calc_crc`: CRC-32 with its own seed, without inversion at the end.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(!INITIAL_CRC);
    crc.update(bytes);
    !crc.finalize()
}

/// With its own `number` and the right checksum (`_find_lvm_header`).
pub(crate) fn is_label(sector: &[u8], number: u64) -> bool {
    has(sector, 0, b"LABELONE")
        && has(sector, 24, b"LVM2 001")
        && le64(sector, 8) == number
        && sector.get(20..LABEL_SIZE).is_some_and(|summed| crc(summed) == le32(sector, 16))
}

impl Label {
    fn find(head: &[u8]) -> Option<Self> {
        let mut sectors = (0..).zip(head.chunks_exact(LABEL_SIZE));
        let (_, sector) = sectors.find(|(number, sector)| is_label(sector, *number))?;
        let header = sector.get(usize::try_from(le32(sector, 20)).ok()?..)?;
        // pv_header: UUID (32 bytes), size (8), two lists of locations, each ended by an empty one.
        let (uuid, size) = (header.get(..32)?.to_vec(), le64(header, 32));
        let mut places = header.get(40..)?.chunks_exact(16).map(|place| (le64(place, 0), le64(place, 8)));
        let mut list = || places.by_ref().take_while(|(start, _)| *start != 0).collect();
        Some(Self { uuid, size, data_areas: list(), metadata_areas: list() })
    }

    fn device_size(&self) -> Option<ByteCount> {
        let areas = self.data_areas.iter().chain(&self.metadata_areas);
        let ends = areas.map(|(start, size)| start.saturating_add(*size));
        let end = ends.max().unwrap_or(0);
        (self.size != 0).then(|| ByteCount::new(self.size.max(end)))
    }

    /// From the first data area, which usually records no size.
    fn data_area(&self, len: ByteCount) -> Option<Span> {
        let (start, size) = *self.data_areas.first()?;
        let rest = len.get().checked_sub(start).filter(|rest| *rest > 0)?;
        let size = if size == 0 { rest } else { size.min(rest) };
        Span::new(ByteOffset::new(start), ByteCount::new(size))
    }

    fn group(&self, medium: &dyn Medium, remarks: &mut Vec<String>) -> Option<Group> {
        if self.metadata_areas.is_empty() {
            let remark = "this physical volume has no metadata; another physical volume lists the contents";
            remarks.push(remark.to_owned());
        }
        for (start, _) in &self.metadata_areas {
            match read_group(medium, *start) {
                Ok(Some(group)) => return Some(group),
                Ok(None) => {}
                Err(why) => remarks.push(format!("the metadata area at byte {start} cannot be used: {why}")),
            }
        }
        None
    }
}

fn read_group(medium: &dyn Medium, start: u64) -> Result<Option<Group>, String> {
    let header = bytes_at(medium, start, 512)?;
    if !has(&header, 4, FMTT_MAGIC) || le64(&header, 24) != start {
        return Err("the area has no header".to_owned());
    }
    if crc(&header[4..]) != le32(&header, 0) {
        return Err("the checksum of its header is wrong".to_owned());
    }
    // The first of its raw_locns is the one committed last.
    let (offset, size, sum) = (le64(&header, 40), le64(&header, 48), le32(&header, 56));
    if offset == 0 || size == 0 || le32(&header, 60) & RAW_LOCN_IGNORED != 0 {
        return Ok(None);
    }
    if size > MAX_TEXT {
        return Err(format!(
            "the recorded size of the metadata, {size} bytes, exceeds the limit of {MAX_TEXT}"
        ));
    }
    let text = read_ring(medium, start, le64(&header, 32), (offset, size))?;
    if crc(&text) != sum {
        return Err("the checksum of the metadata is wrong".to_owned());
    }
    let text = String::from_utf8_lossy(&text);
    Group::parse(&text).map(Some)
}

/// `size` bytes at `offset` in the metadata area of `area` bytes at byte `start`. A text that passes the end
/// continues after the area's header.
fn read_ring(
    medium: &dyn Medium,
    start: u64,
    area: u64,
    (offset, size): (u64, u64),
) -> Result<Vec<u8>, String> {
    let nonsense = || format!("the metadata is recorded at byte {offset} of an area of {area} bytes");
    let to_end = area.checked_sub(offset).filter(|_| offset >= MDA_HEADER_SIZE).ok_or_else(nonsense)?;
    let first = size.min(to_end);
    if size - first > offset - MDA_HEADER_SIZE {
        return Err(nonsense());
    }
    let mut text = Vec::new();
    for (at, len) in [(offset, first), (MDA_HEADER_SIZE, size - first)] {
        let at = start.checked_add(at).ok_or_else(nonsense)?;
        let len = usize::try_from(len).map_err(|_| nonsense())?;
        if len > 0 {
            let bytes = bytes_at(medium, at, len)?;
            if bytes.len() < len {
                return Err("the metadata would end past the end of the disk".to_owned());
            }
            text.extend(bytes);
        }
    }
    Ok(text)
}
