//! VMware's format ("Virtual Disk Format 5.0"; little-endian): a sparse file, or a text file that names extents.

mod descriptor;

use super::access::Named;
use super::host::Host;
use super::unpack::{Method, Packed};
use super::{Access, Below, Files, Format, ImageError, Map, Missing, Parts, StoredAt, StoredRun};
use crate::fields::{le16, le32, le64};
use descriptor::{Descriptor, Kind};
pub(super) use descriptor::{STREAM_OPTIMIZED, is_descriptor};

const SECTOR: u64 = 512;
const MAX_DESCRIPTOR: u64 = 1 << 20;
/// In sectors (1 GiB, as in qemu); a grain table always has this number of entries.
const MAX_GRAIN: u64 = 1 << 21;
const MAX_ENTRIES: u32 = 512;

mod field {
    pub(super) const VERSION: u64 = 4;
    pub(super) const FLAGS: usize = 8;
    pub(super) const CAPACITY: usize = 12;
    pub(super) const GRAIN: usize = 20;
    pub(super) const DESCRIPTOR_AT: usize = 28;
    pub(super) const DESCRIPTOR_LEN: usize = 36;
    pub(super) const ENTRIES: usize = 44;
    pub(super) const DIRECTORY_AT: usize = 56;
    pub(super) const COMPRESSION: usize = 77;
}

/// A table entry of 1 is a grain of zeros.
const FLAG_ZERO_GRAINS: u32 = 1 << 2;
const FLAG_COMPRESSED: u32 = 1 << 16;
const FLAG_MARKERS: u32 = 1 << 17;
/// The grain directory's offset is in a copy of the header at the end of the file.
const AT_END: u64 = u64::MAX;
/// The offset of that copy from the end: an end-of-stream marker of one sector follows it.
const FOOTER_FROM_END: u64 = 1024;

const EXTENT: &str = "extent file";

#[derive(Clone, Copy)]
struct Sparse {
    capacity: u64,
    directory_at: u64,
    grain: u64,
    entries: u64,
    compressed: bool,
    zero_grains: bool,
}

#[derive(Clone, Copy)]
enum Data {
    Flat(u64),
    Sparse(Sparse),
    Zero,
    Unknown,
}

struct Extent {
    start: u64,
    len: u64,
    file: usize,
    data: Data,
}

struct Vmdk {
    /// In order on the guest's disk, without gaps.
    extents: Vec<Extent>,
}

pub(super) fn open(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let magic: [u8; 4] = host.bytes(0)?;
    match &magic {
        b"KDMV" => open_sparse(host, access),
        b"COWD" => Err(host.unsupported(0, "a sparse extent of ESX (COWD)")),
        _ => open_descriptor(host, access),
    }
}

fn open_sparse(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let raw: [u8; 512] = host.bytes(0)?;
    let sparse = Sparse::read(&host)?;
    let at = le64(&raw, field::DESCRIPTOR_AT).checked_mul(SECTOR);
    let len = le64(&raw, field::DESCRIPTOR_LEN).checked_mul(SECTOR);
    let (variant, below) = match (at, len) {
        (Some(0), _) | (_, Some(0)) => ("sparse extent", Below::Nothing),
        (Some(at), Some(len)) if len <= MAX_DESCRIPTOR => {
            let descriptor = Descriptor::read(&host, at, len)?;
            // An extent of a larger image may have room for a descriptor, left empty.
            let variant = if descriptor.extents.is_empty() { "sparse extent" } else { descriptor.variant };
            (variant, open_parent(&descriptor, access)?)
        }
        _ => {
            let what = "the descriptor is too long or starts too far into the file";
            return Err(host.damaged(field::DESCRIPTOR_AT, what));
        }
    };
    let size = sparse.capacity;
    let extents = vec![Extent { start: 0, len: size, file: 0, data: Data::Sparse(sparse) }];
    Ok(Parts { below, ..Parts::new(host, Vmdk { extents }, variant, size, sparse.grain) })
}

fn open_parent(descriptor: &Descriptor, access: &Access<'_>) -> Result<Below, ImageError> {
    match &descriptor.parent {
        None => Ok(Below::Nothing),
        Some(name) => {
            access.open_below(&Named { by: Format::Vmdk, role: "parent", name }, Some(Format::Vmdk))
        }
    }
}

fn open_descriptor(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let len = host.len();
    host.damaged_if(len > MAX_DESCRIPTOR, 0, || {
        "probably not a VMDK image, because the file has no VMDK header and is too long for a \
                    descriptor"
    })?;
    let descriptor = Descriptor::read(&host, 0, len)?;
    let below = open_parent(&descriptor, access)?;
    let (mut others, mut extents, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    let (mut start, mut block) = (0_u64, 0);
    for named in &descriptor.extents {
        let mut data = Data::Zero;
        if named.kind != Kind::Zero {
            let (opened, found) = open_extent(named, access)?;
            if let (Err(Missing { name, .. }), true) = (&opened, remarks.is_empty()) {
                remarks.push(format!("the {EXTENT} {name} was not opened, so its contents were not checked"));
            }
            others.push(opened);
            data = found;
        }
        block = match data {
            Data::Sparse(sparse) => sparse.grain,
            Data::Flat(_) => named.len.max(block),
            Data::Zero | Data::Unknown => block,
        };
        extents.push(Extent { start, len: named.len, file: others.len(), data });
        // Lengths are checked so that their sum stays below 2^63.
        start += named.len;
    }
    let block = if block == 0 { start } else { block };
    let mut parts = Parts::new(host, Vmdk { extents }, descriptor.variant, start, block);
    parts.files.others = others;
    Ok(Parts { below, remarks, ..parts })
}

fn open_extent(
    extent: &descriptor::Extent,
    access: &Access<'_>,
) -> Result<(Result<Host, Missing>, Data), ImageError> {
    let named = Named { by: Format::Vmdk, role: EXTENT, name: &extent.name };
    let opened = access.open_host(&named)?;
    let data = match &opened {
        _ if extent.kind == Kind::Flat => Data::Flat(extent.offset),
        Ok(host) => {
            let sparse = Sparse::of_extent(host, extent.len).map_err(|source| ImageError::Other {
                format: Format::Vmdk,
                role: EXTENT,
                name: named.shown(),
                source: Box::new(source),
            })?;
            Data::Sparse(sparse)
        }
        Err(_) => Data::Unknown,
    };
    Ok((opened, data))
}

impl Sparse {
    fn of_extent(host: &Host, len: u64) -> Result<Self, ImageError> {
        let sparse = Self::read(host)?;
        host.damaged_if(sparse.capacity < len, field::CAPACITY, || {
            format!("the extent has {} bytes, but the descriptor says {len}", sparse.capacity)
        })?;
        Ok(sparse)
    }

    fn read(host: &Host) -> Result<Self, ImageError> {
        let raw: [u8; 512] = host.bytes(0)?;
        host.damaged_if(!raw.starts_with(b"KDMV"), 0, || "the header of the sparse extent is missing")?;
        let version = le32(&raw, 4);
        host.unsupported_if(!(1..=3).contains(&version), field::VERSION, || format!("version {version}"))?;
        let flags = le32(&raw, field::FLAGS);
        let compressed = flags & FLAG_COMPRESSED != 0;
        let method = le16(&raw, field::COMPRESSION);
        host.unsupported_if(
            compressed && (method != 1 || flags & FLAG_MARKERS == 0),
            field::COMPRESSION,
            || format!("the combination of compression method {method} and flags {flags:#x}"),
        )?;
        let sectors = le64(&raw, field::CAPACITY);
        let capacity = match sectors.checked_mul(SECTOR) {
            Some(bytes) if i64::try_from(bytes).is_ok() => bytes,
            _ => {
                return Err(
                    host.damaged(field::CAPACITY, format!("the disk size ({sectors} sectors) is not valid"))
                );
            }
        };
        let grain = le64(&raw, field::GRAIN);
        host.damaged_if(!grain.is_power_of_two() || grain > MAX_GRAIN, field::GRAIN, || {
            format!("the grain size ({grain} sectors) is not valid")
        })?;
        let entries = le32(&raw, field::ENTRIES);
        host.damaged_if(!(1..=MAX_ENTRIES).contains(&entries), field::ENTRIES, || {
            format!("the grain table size ({entries} entries) is not valid")
        })?;
        let (grain, entries) = (grain * SECTOR, u64::from(entries));
        let directory_at = directory(host, &raw)?;
        let needed = capacity.div_ceil(grain * entries) * 4;
        host.damaged_if(
            directory_at.checked_add(needed).is_none_or(|end| end > host.len()),
            field::DIRECTORY_AT,
            || format!("the grain directory at byte {directory_at} is outside the file"),
        )?;
        let zero_grains = flags & FLAG_ZERO_GRAINS != 0;
        Ok(Self { capacity, directory_at, grain, entries, compressed, zero_grains })
    }

    fn locate(&self, host: &Host, file: usize, at: u64) -> Result<StoredRun, ImageError> {
        let covered = self.grain * self.entries;
        let directory_entry_at = self.directory_at + at / covered * 4;
        let table = u64::from(host.le32(directory_entry_at)?) * SECTOR;
        if table == 0 {
            return Ok(StoredRun { place: StoredAt::Below, len: covered - at % covered });
        }
        let entry_at = table + at % covered / self.grain * 4;
        let into = at % self.grain;
        let entry = host.le32(entry_at)?;
        let start = u64::from(entry) * SECTOR;
        let place = match entry {
            0 => StoredAt::Below,
            1 if self.zero_grains => StoredAt::Zero,
            _ if start >= host.len() => {
                let what = format!("the grain at byte {start} is past the end of the file");
                return Err(host.damaged(entry_at, what));
            }
            _ if self.compressed => {
                let unit = usize::try_from(self.grain).unwrap_or(usize::MAX);
                let into = usize::try_from(into).unwrap_or(usize::MAX);
                StoredAt::Packed(Packed { file, at: start, len: 0, unit, into, method: Method::MarkedZlib })
            }
            _ => StoredAt::Host { file, at: start + into },
        };
        Ok(StoredRun { place, len: self.grain - into })
    }
}

fn directory(host: &Host, raw: &[u8; 512]) -> Result<u64, ImageError> {
    let (mut sector, mut reported_at) = (le64(raw, field::DIRECTORY_AT), 0);
    if sector == AT_END {
        reported_at = host.len().saturating_sub(FOOTER_FROM_END);
        let footer: [u8; 512] = host.bytes(reported_at)?;
        host.damaged_if(
            !footer.starts_with(b"KDMV"),
            reported_at,
            || "the footer, which holds the position of the grain directory, is missing",
        )?;
        sector = le64(&footer, field::DIRECTORY_AT);
    }
    let at = sector.checked_mul(SECTOR).filter(|at| *at > 0);
    let reported_at = reported_at + field::DIRECTORY_AT as u64;
    at.ok_or_else(|| {
        host.damaged(
            reported_at,
            format!("the position of the grain directory (sector {sector}) is not valid"),
        )
    })
}

impl Map for Vmdk {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let index = self.extents.partition_point(|extent| extent.start + extent.len <= at);
        let Some(extent) = self.extents.get(index) else {
            return Ok(StoredRun { place: StoredAt::Zero, len: 1 });
        };
        let (into, file) = (at - extent.start, extent.file);
        let left = extent.len - into;
        let run = match &extent.data {
            Data::Flat(offset) => StoredRun { place: StoredAt::Host { file, at: offset + into }, len: left },
            Data::Zero => StoredRun { place: StoredAt::Zero, len: left },
            // Returns the error that says why the bytes are not known.
            Data::Unknown => files.get(file).map(|_| StoredRun { place: StoredAt::Zero, len: left })?,
            Data::Sparse(sparse) => sparse.locate(files.get(file)?, file, into)?,
        };
        Ok(StoredRun { len: run.len.min(left), ..run })
    }
}
