//! QEMU's copy-on-write format, versions 2 and 3 (qemu `docs/interop/qcow2.txt`; all numbers are big-endian).

use super::access::Named;
use super::host::{Host, MAX_NAME};
use super::unpack::{Method, Packed};
use super::{Access, Below, Files, Format, ImageError, Map, Parts, StoredAt, StoredRun};
use crate::fields::{be32, be64};

/// The 104 bytes of version 3, and the compression type.
const HEADER: usize = 112;

const MAX_EXTENSIONS: usize = 64;

mod feature {
    pub(super) const DIRTY: u64 = 1 << 0;
    pub(super) const CORRUPT: u64 = 1 << 1;
    pub(super) const DATA_FILE: u64 = 1 << 2;
    pub(super) const COMPRESSION: u64 = 1 << 3;
    pub(super) const EXTENDED_L2: u64 = 1 << 4;
    pub(super) const KNOWN: u64 = DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2;
}

mod extension {
    pub(super) const END: u32 = 0;
    pub(super) const BACKING_FORMAT: u32 = 0xE279_2ACA;
    pub(super) const DATA_FILE: u32 = 0x4441_5441;
}

mod field {
    pub(super) const BACKING_AT: usize = 8;
    pub(super) const BACKING_LEN: usize = 16;
    pub(super) const CLUSTER_BITS: usize = 20;
    pub(super) const SIZE: usize = 24;
    pub(super) const ENCRYPTION: usize = 32;
    pub(super) const L1_ENTRIES: usize = 36;
    pub(super) const L1_AT: usize = 40;
    pub(super) const INCOMPATIBLE: usize = 72;
    pub(super) const HEADER_LEN: usize = 100;
    pub(super) const COMPRESSION: usize = 104;
    pub(super) const LEN_OF_V2: u32 = 72;
}

const OFFSET: u64 = 0x00FF_FFFF_FFFF_FE00;
/// The cluster is not shared or, with a data file (offset 0 may be data), is allocated.
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
const SUBCLUSTERS: u64 = 32;

struct Header {
    version: u32,
    cluster_bits: u32,
    size: u64,
    l1_at: u64,
    features: u64,
    method: Method,
}

#[derive(Default)]
struct Extensions {
    backing_format: Option<Vec<u8>>,
    data_file: Option<Vec<u8>>,
}

struct Qcow2 {
    header: Header,
    /// The file with the data clusters: the image itself, or number 1.
    data: usize,
}

pub(super) fn open(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let raw = header_bytes(&host)?;
    let header = Header::read(&host, &raw)?;
    let extensions = Extensions::read(&host, &raw, &header)?;
    let mut remarks = Vec::new();
    if header.features & feature::CORRUPT != 0 {
        remarks.push("the image is marked as corrupt".to_owned());
    }
    if header.features & feature::DIRTY != 0 {
        remarks.push(
            "the image was not closed cleanly; this does not affect the check, which uses no reference counts"
                .to_owned(),
        );
    }
    let mut others = Vec::new();
    if header.features & feature::DATA_FILE != 0 {
        let Some(name) = extensions.data_file else {
            return Err(host.damaged(field::INCOMPATIBLE, "the external data file has no name"));
        };
        let named = Named { by: Format::Qcow2, role: "data file", name: &name };
        let data = access.open_host(&named)?;
        if let Err(missing) = &data {
            remarks.push(format!(
                "the data file {} was not opened, so its contents were not checked",
                missing.name
            ));
        }
        others.push(data);
    }
    let (name_at, name_len) = (be64(&raw, field::BACKING_AT), be32(&raw, field::BACKING_LEN));
    let below = if name_at == 0 || name_len == 0 {
        Below::Nothing
    } else {
        let name = host.backing_name(name_at, name_len, field::BACKING_LEN as u64)?;
        let format = extensions.backing_format.as_deref().and_then(Format::of_qemu);
        // qemu reads a name with this prefix as a file name.
        let name = name.strip_prefix(b"file:").unwrap_or(&name);
        access.open_below(&Named { by: Format::Qcow2, role: "backing file", name }, format)?
    };
    let variant = if header.version == 2 { "version 2" } else { "version 3" };
    let (size, block) = (header.size, 1 << header.cluster_bits);
    let map = Qcow2 { header, data: others.len() };
    let files = Files { own: host, others };
    Ok(Parts { files, map: Box::new(map), below, variant, size, block, sectors: None, remarks })
}

fn header_bytes(host: &Host) -> Result<[u8; HEADER], ImageError> {
    const SHORT: usize = field::LEN_OF_V2 as usize;
    if host.len() >= HEADER as u64 {
        return host.bytes(0);
    }
    let mut raw = [0; HEADER];
    raw[..SHORT].copy_from_slice(&host.bytes::<SHORT>(0)?);
    Ok(raw)
}

impl Header {
    fn read(host: &Host, raw: &[u8]) -> Result<Self, ImageError> {
        let version = be32(raw, 4);
        host.unsupported_if(!(2..=3).contains(&version), 4, || format!("version {version}"))?;
        let cluster_bits = be32(raw, field::CLUSTER_BITS);
        host.damaged_if(!(9..=21).contains(&cluster_bits), field::CLUSTER_BITS, || {
            format!("the cluster size is 2^{cluster_bits} bytes, but the exponent must be 9 to 21")
        })?;
        match be32(raw, field::ENCRYPTION) {
            0 => {}
            1 => return Err(host.unsupported(field::ENCRYPTION, "an encrypted image (AES)")),
            2 => return Err(host.unsupported(field::ENCRYPTION, "an encrypted image (LUKS)")),
            n => return Err(host.damaged(field::ENCRYPTION, format!("the encryption method {n} is unknown"))),
        }
        let size = be64(raw, field::SIZE);
        host.damaged_if(i64::try_from(size).is_err(), field::SIZE, || {
            format!("the disk size ({size} bytes) is not valid")
        })?;
        let features = if version == 2 { 0 } else { be64(raw, field::INCOMPATIBLE) };
        host.unsupported_if(features & !feature::KNOWN != 0, field::INCOMPATIBLE, || {
            format!("an unknown feature (bits {:#x})", features & !feature::KNOWN)
        })?;
        host.damaged_if(
            features & feature::EXTENDED_L2 != 0 && cluster_bits < 14,
            field::CLUSTER_BITS,
            || "the clusters are too small for extended L2 entries",
        )?;
        let method = match raw[field::COMPRESSION] {
            0 => Method::Deflate,
            _ if features & feature::COMPRESSION == 0 => Method::Deflate,
            1 => Method::Zstd,
            n => return Err(host.unsupported(field::COMPRESSION, format!("compression type {n}"))),
        };
        let header = Self { version, cluster_bits, size, l1_at: be64(raw, field::L1_AT), features, method };
        header.check_l1(host, be32(raw, field::L1_ENTRIES))?;
        Ok(header)
    }

    fn check_l1(&self, host: &Host, entries: u32) -> Result<(), ImageError> {
        let needed = self.size.div_ceil(1 << self.l1_bits());
        host.damaged_if(u64::from(entries) < needed, field::L1_ENTRIES, || {
            format!("the L1 table has {entries} entries, but {needed} are needed")
        })?;
        let end = needed.checked_mul(8).and_then(|len| len.checked_add(self.l1_at));
        host.damaged_if(
            !self.l1_at.is_multiple_of(1 << self.cluster_bits) || end.is_none_or(|end| end > host.len()),
            field::L1_AT,
            || {
                format!(
                    "the L1 table at byte {} is outside the file or not on a cluster boundary",
                    self.l1_at
                )
            },
        )?;
        Ok(())
    }

    fn extended(&self) -> bool {
        self.features & feature::EXTENDED_L2 != 0
    }

    fn entry_bits(&self) -> u32 {
        if self.extended() { 4 } else { 3 }
    }

    fn l1_bits(&self) -> u32 {
        self.cluster_bits + self.cluster_bits - self.entry_bits()
    }
}

impl Extensions {
    fn read(host: &Host, raw: &[u8], header: &Header) -> Result<Self, ImageError> {
        let mut found = Self::default();
        let start = if header.version == 2 { field::LEN_OF_V2 } else { be32(raw, field::HEADER_LEN) };
        // Extensions end where the backing file's name begins, at the latest at the end of the first cluster.
        let cluster = 1_u64 << header.cluster_bits;
        let name_at = be64(raw, field::BACKING_AT);
        let end = if name_at == 0 { cluster } else { name_at.min(cluster) }.min(host.len());
        let mut at = u64::from(start);
        for _ in 0..MAX_EXTENSIONS {
            if at.saturating_add(8) > end {
                break;
            }
            let head: [u8; 8] = host.bytes(at)?;
            let (kind, len) = (be32(&head, 0), u64::from(be32(&head, 4)));
            if kind == extension::END {
                break;
            }
            host.damaged_if(at + 8 + len > end, at + 4, || {
                format!("a header extension of {len} bytes extends past the end of the header")
            })?;
            match kind {
                _ if len > u64::from(MAX_NAME) => {}
                extension::BACKING_FORMAT => found.backing_format = Some(host.vec(at + 8, len)?),
                extension::DATA_FILE => found.data_file = Some(host.vec(at + 8, len)?),
                _ => {}
            }
            at += 8 + len.next_multiple_of(8);
        }
        Ok(found)
    }
}

impl Qcow2 {
    fn cluster(
        &self,
        own: &Host,
        at: u64,
        (entry, bitmap): (u64, u64),
        entry_at: u64,
    ) -> Result<StoredRun, ImageError> {
        let cluster = 1_u64 << self.header.cluster_bits;
        let into = at & (cluster - 1);
        let whole = |place| Ok(StoredRun { place, len: cluster - into });
        if entry & COMPRESSED != 0 {
            return whole(self.packed(entry, into));
        }
        let host = entry & OFFSET;
        own.damaged_if(!host.is_multiple_of(cluster), entry_at, || {
            format!("the cluster at byte {host} is not on a cluster boundary")
        })?;
        let file = self.data;
        let allocated = host != 0 || (file > 0 && entry & COPIED != 0);
        if !self.header.extended() {
            let zero = self.header.version > 2 && entry & ZERO != 0;
            return whole(match allocated {
                _ if zero => StoredAt::Zero,
                true => StoredAt::Host { file, at: host + into },
                false => StoredAt::Below,
            });
        }
        // Bit x of the lower half: subcluster x is allocated. Bit x of the upper half: it reads as zeros.
        let size = cluster / SUBCLUSTERS;
        let state = |index: u64| (bitmap >> index & 1 != 0, bitmap >> (index + SUBCLUSTERS) & 1 != 0);
        let index = into / size;
        let alike = (index..SUBCLUSTERS).take_while(|other| state(*other) == state(index)).count();
        let end = (index + alike as u64) * size;
        let place = match state(index) {
            (_, true) => StoredAt::Zero,
            (true, _) if allocated => StoredAt::Host { file, at: host + into },
            (true, _) => {
                return Err(own.damaged(entry_at, "a subcluster is allocated, but its cluster is not"));
            }
            (false, false) => StoredAt::Below,
        };
        Ok(StoredRun { place, len: end - into })
    }

    /// The offset, and the number of sectors after the first.
    fn packed(&self, entry: u64, into: u64) -> StoredAt {
        let bits = 62 - (self.header.cluster_bits - 8);
        let at = entry & ((1 << bits) - 1);
        let sectors = ((entry & (COMPRESSED - 1)) >> bits) + 1;
        let len = sectors * 512 - (at & 511);
        let unit = 1 << self.header.cluster_bits;
        let into = usize::try_from(into).unwrap_or(0);
        StoredAt::Packed(Packed { file: 0, at, len, unit, into, method: self.header.method })
    }
}

impl Map for Qcow2 {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let (header, own) = (&self.header, &files.own);
        let covered = 1_u64 << header.l1_bits();
        let l1_entry_at = header.l1_at + (at >> header.l1_bits()) * 8;
        let table = own.be64(l1_entry_at)? & OFFSET;
        if table == 0 {
            return Ok(StoredRun { place: StoredAt::Below, len: covered - (at & (covered - 1)) });
        }
        own.damaged_if(!table.is_multiple_of(1 << header.cluster_bits), l1_entry_at, || {
            format!("the L2 table at byte {table} is not on a cluster boundary")
        })?;
        let index = (at & (covered - 1)) >> header.cluster_bits;
        let entry_at = table + (index << header.entry_bits());
        let entry = own.be64(entry_at)?;
        let bitmap = if header.extended() { own.be64(entry_at + 8)? } else { 0 };
        self.cluster(own, at, (entry, bitmap), entry_at)
    }
}
