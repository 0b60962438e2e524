//! VMware's format ("Virtual Disk Format 5.0"; all numbers are little-endian): one sparse file, or a text
//! file that names extents in other files.

mod descriptor;

use super::access::Named;
use super::fields::{array, le16, le32, le64};
use super::host::Host;
use super::unpack::{Method, Packed};
use super::{Access, Below, Format, ImageError, Map, Parts, StoredAt, StoredRun};
pub(super) use descriptor::STREAM_OPTIMIZED;
use descriptor::{Descriptor, Kind};

pub(super) use descriptor::is_descriptor;

const SECTOR: u64 = 512;
/// The maximum length of a descriptor, in bytes.
const MAX_DESCRIPTOR: u64 = 1 << 20;
/// The largest grain, in sectors (1 GiB, as in qemu), and the most entries of a grain table (the only number
/// that is ever written).
const MAX_GRAIN: u64 = 1 << 21;
const MAX_ENTRIES: u32 = 512;

/// Offsets of the fields in the header of a sparse extent.
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

/// A sparse extent.
#[derive(Clone, Copy)]
struct Sparse {
    /// The bytes of the guest's disk that it covers.
    capacity: u64,
    directory_at: u64,
    grain: u64,
    /// Entries in a grain table.
    entries: u64,
    compressed: bool,
    zero_grains: bool,
}

#[derive(Clone, Copy)]
enum Data {
    /// The plain bytes, from this byte of the file on.
    Flat(u64),
    Sparse(Sparse),
    Zero,
    /// Sparse, in a file that is not opened.
    Unknown,
}

/// A contiguous range of the guest's disk.
struct Extent {
    start: u64,
    len: u64,
    file: usize,
    data: Data,
}

enum File {
    Open(Host),
    NotOpened { name: Vec<u8> },
}

struct Vmdk {
    /// The first one is the image itself.
    files: Vec<File>,
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

/// Opens an image that is one sparse file. Its descriptor names the file itself as the extent.
fn open_sparse(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let raw: [u8; 512] = host.bytes(0)?;
    let sparse = Sparse::read(&host)?;
    let at = le64(&raw, field::DESCRIPTOR_AT).checked_mul(SECTOR);
    let len = le64(&raw, field::DESCRIPTOR_LEN).checked_mul(SECTOR);
    let (variant, below) = match (at, len) {
        (Some(0), _) | (_, Some(0)) => ("sparse extent", Below::Nothing),
        (Some(at), Some(len)) if len <= MAX_DESCRIPTOR => {
            let descriptor = Descriptor::read(&host, at, len)?;
            // An extent of a larger image may reserve room for a descriptor and leave it empty.
            let variant = if descriptor.extents.is_empty() { "sparse extent" } else { descriptor.variant };
            (variant, open_parent(&descriptor, access)?)
        }
        _ => {
            let at = u64::try_from(field::DESCRIPTOR_AT).unwrap_or(0);
            return Err(host.damaged(at, "a descriptor that is too long, or too far into the file"));
        }
    };
    let size = sparse.capacity;
    let extents = vec![Extent { start: 0, len: size, file: 0, data: Data::Sparse(sparse) }];
    let map = Box::new(Vmdk { files: vec![File::Open(host)], extents });
    Ok(Parts { map, below, variant, size, block: sparse.grain, sectors: None, remarks: Vec::new() })
}

fn open_parent(descriptor: &Descriptor, access: &Access<'_>) -> Result<Below, ImageError> {
    match &descriptor.parent {
        None => Ok(Below::Nothing),
        Some(name) => {
            access.open_below(&Named { by: Format::Vmdk, role: "parent", name }, Some(Format::Vmdk))
        }
    }
}

/// Opens an image whose extents are other files.
fn open_descriptor(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let len = host.len();
    if len > MAX_DESCRIPTOR {
        return Err(host.damaged(
            0,
            "no VMDK header, and too long for a VMDK descriptor: probably not a VMDK image".to_owned(),
        ));
    }
    let descriptor = Descriptor::read(&host, 0, len)?;
    let below = open_parent(&descriptor, access)?;
    let mut files = vec![File::Open(host)];
    let mut extents = Vec::new();
    let mut remarks = Vec::new();
    let (mut start, mut block) = (0_u64, 0);
    for named in &descriptor.extents {
        let file = files.len();
        let data = match named.kind {
            Kind::Zero => Data::Zero,
            Kind::Flat | Kind::Sparse => {
                let (opened, data) = open_extent(named, access)?;
                if let (File::NotOpened { name }, true) = (&opened, remarks.is_empty()) {
                    let shown = Named { by: Format::Vmdk, role: EXTENT, name }.shown();
                    remarks.push(format!("the {EXTENT} {shown} is not opened"));
                }
                files.push(opened);
                data
            }
        };
        block = match data {
            Data::Sparse(sparse) => sparse.grain,
            Data::Flat(_) => named.len.max(block),
            Data::Zero | Data::Unknown => block,
        };
        extents.push(Extent { start, len: named.len, file, data });
        // Lengths are checked so that their sum stays below 2^63.
        start += named.len;
    }
    let variant = descriptor.variant;
    let block = if block == 0 { start } else { block };
    let map = Box::new(Vmdk { files, extents });
    Ok(Parts { map, below, variant, size: start, block, sectors: None, remarks })
}

/// Opens an extent's file, if the user named it, and determines its kind.
fn open_extent(extent: &descriptor::Extent, access: &Access<'_>) -> Result<(File, Data), ImageError> {
    let named = Named { by: Format::Vmdk, role: EXTENT, name: &extent.name };
    let opened = access.open_file(&named)?.map(|(medium, _)| Host::new(Format::Vmdk, medium));
    let Some(host) = opened else {
        let data = if extent.kind == Kind::Flat { Data::Flat(extent.offset) } else { Data::Unknown };
        return Ok((File::NotOpened { name: extent.name.clone() }, data));
    };
    if extent.kind == Kind::Flat {
        return Ok((File::Open(host), Data::Flat(extent.offset)));
    }
    let inside = |source| ImageError::Other {
        format: Format::Vmdk,
        role: EXTENT,
        name: named.shown(),
        source: Box::new(source),
    };
    let sparse = Sparse::read(&host).map_err(inside)?;
    if sparse.capacity < extent.len {
        let at = u64::try_from(field::CAPACITY).unwrap_or(0);
        let what = format!("{} bytes, but the descriptor says {}", sparse.capacity, extent.len);
        return Err(inside(host.damaged(at, what)));
    }
    Ok((File::Open(host), Data::Sparse(sparse)))
}

impl Sparse {
    /// Reads and checks the header of a sparse file.
    fn read(host: &Host) -> Result<Self, ImageError> {
        let raw: [u8; 512] = host.bytes(0)?;
        let byte = |field: usize| u64::try_from(field).unwrap_or(0);
        let wrong = |field, what: String| Err(host.damaged(byte(field), what));
        if !raw.starts_with(b"KDMV") {
            return Err(host.damaged(0, "no header of a sparse extent"));
        }
        let version = le32(&raw, 4);
        if !(1..=3).contains(&version) {
            return Err(host.unsupported(field::VERSION, format!("version {version}")));
        }
        let flags = le32(&raw, field::FLAGS);
        let compressed = flags & FLAG_COMPRESSED != 0;
        let method = le16(&raw, field::COMPRESSION);
        if compressed && (method != 1 || flags & FLAG_MARKERS == 0) {
            return Err(
                host.unsupported(byte(field::COMPRESSION), format!("compression {method}, flags {flags:#x}"))
            );
        }
        let sectors = le64(&raw, field::CAPACITY);
        let capacity = match sectors.checked_mul(SECTOR) {
            Some(bytes) if i64::try_from(bytes).is_ok() => bytes,
            _ => return wrong(field::CAPACITY, format!("a disk of {sectors} sectors")),
        };
        let grain = le64(&raw, field::GRAIN);
        if !grain.is_power_of_two() || grain > MAX_GRAIN {
            return wrong(field::GRAIN, format!("grains of {grain} sectors"));
        }
        let entries = le32(&raw, field::ENTRIES);
        if !(1..=MAX_ENTRIES).contains(&entries) {
            return wrong(field::ENTRIES, format!("grain tables of {entries} entries"));
        }
        let (grain, entries) = (grain * SECTOR, u64::from(entries));
        let directory_at = directory(host, &raw)?;
        let needed = capacity.div_ceil(grain * entries) * 4;
        if directory_at.checked_add(needed).is_none_or(|end| end > host.len()) {
            let what = format!("the grain directory at byte {directory_at} is not in the file");
            return wrong(field::DIRECTORY_AT, what);
        }
        let zero_grains = flags & FLAG_ZERO_GRAINS != 0;
        Ok(Self { capacity, directory_at, grain, entries, compressed, zero_grains })
    }

    /// Returns the place of byte `at` of this extent, whose file is number `file`.
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
                let what = format!("a grain at byte {start} is past the end of the file");
                return Err(host.damaged(entry_at, what));
            }
            _ if self.compressed => {
                let unit = usize::try_from(self.grain).unwrap_or(usize::MAX);
                let packed = Packed { file, at: start, len: 0, unit, method: Method::MarkedZlib };
                StoredAt::Packed { packed, into: usize::try_from(into).unwrap_or(usize::MAX) }
            }
            _ => StoredAt::Host { file, at: start + into },
        };
        Ok(StoredRun { place, len: self.grain - into })
    }
}

/// Returns the offset of the grain directory, from the header or, in a stream, from its copy at the end.
fn directory(host: &Host, raw: &[u8; 512]) -> Result<u64, ImageError> {
    let (mut sector, mut reported_at) = (le64(raw, field::DIRECTORY_AT), 0);
    if sector == AT_END {
        reported_at = host.len().saturating_sub(FOOTER_FROM_END);
        let footer: [u8; 512] = host.bytes(reported_at)?;
        if array(&footer, 0) != *b"KDMV" {
            return Err(
                host.damaged(reported_at, "no footer, which gives the position of the grain directory")
            );
        }
        sector = le64(&footer, field::DIRECTORY_AT);
    }
    let at = sector.checked_mul(SECTOR).filter(|at| *at > 0);
    let reported_at = reported_at + u64::try_from(field::DIRECTORY_AT).unwrap_or(0);
    at.ok_or_else(|| host.damaged(reported_at, format!("the grain directory is at sector {sector}")))
}

impl Map for Vmdk {
    fn locate(&self, at: u64) -> Result<StoredRun, ImageError> {
        let index = self.extents.partition_point(|extent| extent.start + extent.len <= at);
        let Some(extent) = self.extents.get(index) else {
            return Ok(StoredRun { place: StoredAt::Zero, len: 1 });
        };
        let (into, file) = (at - extent.start, extent.file);
        let left = extent.len - into;
        let run = match &extent.data {
            Data::Flat(offset) => StoredRun { place: StoredAt::Host { file, at: offset + into }, len: left },
            Data::Zero => StoredRun { place: StoredAt::Zero, len: left },
            // Requesting the file returns the error that says why its bytes are not known.
            Data::Unknown => self.file(file).map(|_| StoredRun { place: StoredAt::Zero, len: left })?,
            Data::Sparse(sparse) => sparse.locate(self.file(file)?, file, into)?,
        };
        Ok(StoredRun { len: run.len.min(left), ..run })
    }

    fn file(&self, index: usize) -> Result<&Host, ImageError> {
        match self.files.get(index).or(self.files.first()) {
            Some(File::Open(host)) => Ok(host),
            Some(File::NotOpened { name }) => {
                Err(Named { by: Format::Vmdk, role: EXTENT, name }.not_opened())
            }
            None => Err(Named { by: Format::Vmdk, role: EXTENT, name: b"" }.not_opened()),
        }
    }
}
