//! Image containers: files that do not simply hold the bytes of a disk in order.
//!
//! Nothing is written, and no file is opened but the image itself and those that the user named ([`Allowed`]). Buffer
//! sizes come from the constants here, never from an image, and few pages of tables are kept: an image of any size
//! needs less than 8 MiB.
//!
//! The readers are our own: `imago` 0.2 refuses extended L2 entries and zstd of qcow2, loads the whole L1 table, does
//! not support VHD, VHDX, VDI or sparse VMDK, and opens backing files unless each is prevented.
//!
//! Sources: qemu `docs/interop/qcow2.txt`; VMware "Virtual Disk Format 5.0"; Microsoft "Virtual Hard Disk
//! Image Format Specification" 1.0 and [MS-VHDX] 8.0; VirtualBox `VDICore.h`, and qemu's `block/*.c` for what
//! is found in practice.

mod access;
mod bits;
mod foreign;
mod host;
mod parallels;
mod placement;
mod qcow2;
mod qed;
mod through;
mod unpack;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use straddle_units::{BlockSize, ByteCount, ByteOffset};

pub use access::{Access, Allowed, MAX_DEPTH};
pub use foreign::raw_name;
pub use foreign::{FORMS, Foreign};
pub use placement::{Container, Placed, Placement};
pub(crate) use through::unpack;
pub use through::{Limits, Packing, UnpackError, unpacked};

use crate::fields::has;
use crate::medium::{FileMedium, Medium, ReadError, check_end};
use crate::shown::with_causes;
use host::Host;
pub use unpack::Packed;

/// A file format that holds a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Format {
    Raw,
    Qcow2,
    Vmdk,
    Vhd,
    Vhdx,
    Vdi,
    Qed,
    Parallels,
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Self] =
        &[Self::Raw, Self::Qcow2, Self::Vmdk, Self::Vhd, Self::Vhdx, Self::Vdi, Self::Qed, Self::Parallels];

    const fn names(self) -> (&'static str, &'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Raw => ("raw", "raw", "raw", &["raw", "img", "dd"]),
            Self::Qcow2 => ("qcow2", "qcow2", "qcow2", &["qcow2"]),
            Self::Vmdk => ("vmdk", "VMDK", "vmdk", &["vmdk"]),
            Self::Vhd => ("vhd", "VHD", "vpc", &["vhd", "vpc", "avhd"]),
            Self::Vhdx => ("vhdx", "VHDX", "vhdx", &["vhdx", "avhdx"]),
            Self::Vdi => ("vdi", "VDI", "vdi", &["vdi"]),
            Self::Qed => ("qed", "QED", "qed", &["qed"]),
            Self::Parallels => ("parallels", "Parallels", "parallels", &["parallels", "hdd", "hds"]),
        }
    }

    /// Returns the name that `--format` takes.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// Returns QEMU's name for it, in its options and in qcow2's headers.
    pub const fn qemu_name(self) -> &'static str {
        self.names().2
    }

    fn of_ending(ending: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.names().3.contains(&ending))
    }
}

/// Whether a file is named as an image, which may be compressed.
pub fn is_named_as_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match (ending.as_deref(), path.file_stem()) {
        (Some("gz" | "xz" | "zst" | "bz2"), Some(packed)) => is_named_as_image(Path::new(packed)),
        (Some(ending), _) => Format::of_ending(ending).is_some(),
        (None, _) => false,
    }
}

/// A format that the name of a file promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promised {
    /// The format's name.
    pub format: String,
    /// The name that `qemu-img convert` has for it, if it writes it.
    pub qemu: Option<&'static str>,
}

impl Promised {
    /// Returns the format that the name of `path` promises, if it is not raw.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match Format::of_ending(&ending) {
            Some(Format::Raw) => None,
            Some(format) => Some(Self { format: format.to_string(), qemu: Some(format.qemu_name()) }),
            None => foreign::qemu_name(&ending).map(|qemu| Self { format: ending, qemu }),
        }
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("unknown format; use {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.names().1)
    }
}

const HEAD: usize = 4096;
const TAIL: usize = 512;

impl Format {
    fn of_qemu(name: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.qemu_name().as_bytes() == name)
    }

    /// A fixed VHD can be recognised only at its end.
    fn shows(self, head: &[u8]) -> bool {
        match self {
            Self::Raw => false,
            Self::Qcow2 => head.starts_with(b"QFI\xfb"),
            Self::Vmdk => head.starts_with(b"KDMV") || vmdk::is_descriptor(head),
            Self::Vhd => head.starts_with(vhd::MAGIC),
            Self::Vhdx => head.starts_with(b"vhdxfile"),
            Self::Vdi => has(head, vdi::SIGNATURE_AT, &vdi::SIGNATURE),
            Self::Qed => head.starts_with(b"QED\0"),
            Self::Parallels => head.starts_with(b"WithoutFreeSpace") || head.starts_with(parallels::EXTENDED),
        }
    }

    /// Returns the format of `medium`, or the unsupported form in which it may hold a disk. An unreadable
    /// medium counts as raw: reading its bytes later returns the error.
    pub fn detect(medium: &dyn Medium) -> Result<Self, &'static Foreign> {
        let (mut head, mut tail) = ([0; HEAD], [0; TAIL]);
        let len = medium.len().get();
        let [head, tail] = [&mut head[..], &mut tail[..]].map(|part| {
            let have = usize::try_from(len).unwrap_or(usize::MAX).min(part.len());
            &mut part[..have]
        });
        if medium.read_at(ByteOffset::ZERO, head).is_err() {
            return Ok(Self::Raw);
        }
        let at = ByteOffset::new(len - tail.len() as u64);
        let tail = medium.read_at(at, tail).map_or(&[][..], |()| tail);
        if let Some(foreign) = foreign::detect(head, tail, medium) {
            return Err(foreign);
        }
        let shown = Self::ALL.iter().copied().find(|format| format.shows(head));
        Ok(shown.unwrap_or_else(|| if vhd::has_footer(tail, len) { Self::Vhd } else { Self::Raw }))
    }

    /// Returns what the file at `path` is, unless its bytes are those of a disk: "a VHD image".
    pub fn not_raw(path: &Path) -> io::Result<Option<String>> {
        let file = crate::target::open_for_reading(path)?;
        let len = ByteCount::new(file.metadata()?.len());
        Ok(match Self::detect(&FileMedium::new(file, len)) {
            Ok(Self::Raw) => None,
            Ok(format) => Some(format!("a {format} image")),
            Err(foreign) => Some(foreign.what.to_owned()),
        })
    }
}

/// Why an image cannot be opened or read. Every byte is a byte of the file, not of the disk in it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ImageError {
    #[error("damaged {format} image, byte {at}: {what}")]
    Damaged { format: Format, at: ByteOffset, what: String },
    #[error("{format} image, byte {at}: {what} is not supported")]
    Unsupported { format: Format, at: ByteOffset, what: String },
    #[error("the {format} image needs the {role} {name}, which is not opened without --allow-backing")]
    NotOpened { format: Format, role: &'static str, name: String },
    #[error("cannot open the {role} {name} of the {format} image")]
    Open {
        format: Format,
        role: &'static str,
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("the chain of the {format} image probably refers to itself, because {name} is {role} number \
             {}", MAX_DEPTH + 1)]
    TooDeep { format: Format, role: &'static str, name: String },
    #[error("in the {role} {name} of the {format} image")]
    Other {
        format: Format,
        role: &'static str,
        name: String,
        #[source]
        source: Box<ImageError>,
    },
    #[error("is {}, which straddle cannot read", .0.what)]
    NotRead(&'static Foreign),
    #[error("cannot read the {format} image")]
    Read {
        format: Format,
        #[source]
        source: Box<ReadError>,
    },
}

straddle_units::error_kind!(ImageError: Failed);

/// Where bytes of the guest's disk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredAt {
    /// At this byte of a file; file 0 is the image itself, others are extents or a data file.
    Host {
        /// The file's number.
        file: usize,
        /// The byte.
        at: u64,
    },
    /// Not stored: they read as zeros.
    Zero,
    /// In the backing file, at the same byte of the guest's disk.
    Below,
    /// Inside a compressed unit.
    Packed(Packed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredRun {
    place: StoredAt,
    len: u64,
}

trait Map: Send + Sync {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError>;
}

struct Missing {
    role: &'static str,
    name: String,
}

impl Missing {
    fn error(&self, format: Format) -> ImageError {
        ImageError::NotOpened { format, role: self.role, name: self.name.clone() }
    }
}

struct Files {
    own: Host,
    /// From number 1 on.
    others: Vec<Result<Host, Missing>>,
}

impl Files {
    fn get(&self, index: usize) -> Result<&Host, ImageError> {
        match index.checked_sub(1).and_then(|other| self.others.get(other)) {
            None => Ok(&self.own),
            Some(Ok(host)) => Ok(host),
            Some(Err(missing)) => Err(missing.error(self.own.format())),
        }
    }
}

/// What holds the bytes that an image does not hold itself.
enum Below {
    Nothing,
    Missing(Missing),
    Open { role: &'static str, name: String, medium: Box<dyn Medium> },
}

struct Parts {
    files: Files,
    map: Box<dyn Map>,
    below: Below,
    variant: &'static str,
    size: u64,
    /// In bytes.
    block: u64,
    sectors: Option<SectorSizes>,
    remarks: Vec<String>,
}

impl Parts {
    fn new(own: Host, map: impl Map + 'static, variant: &'static str, size: u64, block: u64) -> Self {
        Self {
            files: Files { own, others: Vec::new() },
            map: Box::new(map),
            below: Below::Nothing,
            variant,
            size,
            block,
            sectors: None,
            remarks: Vec::new(),
        }
    }
}

/// The sector sizes that an image states for its disk. Only VHDX does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorSizes {
    /// The logical sector size.
    pub logical: BlockSize,
    /// The physical sector size.
    pub physical: ByteCount,
}

/// An opened image. As a [`Medium`] it is the guest's disk; unallocated bytes read as zeros.
pub struct Image {
    parts: Parts,
    container: Container,
    unpacked: Mutex<Option<(Packed, Vec<u8>)>>,
}

/// The result of opening a file as an image.
pub enum Opened {
    /// A raw image: the medium as it was given.
    Raw(Box<dyn Medium>),
    /// A container.
    Image(Box<Image>),
}

/// Opens the contents of `medium`, by their detected format.
pub fn open(medium: Box<dyn Medium>, access: &Access<'_>) -> Result<Opened, ImageError> {
    let format = Format::detect(medium.as_ref()).map_err(ImageError::NotRead)?;
    open_as(format, medium, access)
}

/// Opens the contents of `medium` as an image of `format`, without detection.
pub fn open_as(format: Format, medium: Box<dyn Medium>, access: &Access<'_>) -> Result<Opened, ImageError> {
    let reader = match format {
        Format::Raw => return Ok(Opened::Raw(medium)),
        Format::Qcow2 => qcow2::open,
        Format::Vmdk => vmdk::open,
        Format::Vhd => vhd::open,
        Format::Vhdx => vhdx::open,
        Format::Vdi => vdi::open,
        Format::Qed => qed::open,
        Format::Parallels => parallels::open,
    };
    let parts = reader(Host::new(format, medium), access)?;
    Ok(Opened::Image(Box::new(Image::new(format, parts))))
}

impl Image {
    fn new(format: Format, mut parts: Parts) -> Self {
        if let Below::Missing(Missing { role, name }) = &parts.below {
            let remark =
                format!("the {role} {name} was not opened, so only the data in this file was checked");
            parts.remarks.push(remark);
        }
        let (placement, fault) = Placement::sample(parts.map.as_ref(), &parts.files, parts.size);
        // A file that is not opened is not damage, and is reported when its bytes are requested.
        if let Some(fault) = fault.filter(|fault| !matches!(fault, ImageError::NotOpened { .. })) {
            let error = with_causes(&fault);
            let units = placement.units();
            parts.remarks.push(format!("only the first {units} allocated blocks were checked: {error}"));
        }
        let (virtual_size, block) = (ByteCount::new(parts.size), ByteCount::new(parts.block));
        let container = Container { format, variant: parts.variant, virtual_size, block, placement };
        Self { parts, container, unpacked: Mutex::new(None) }
    }

    /// Returns how the container stores the guest's bytes.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Returns the sector sizes that the image states.
    pub fn sectors(&self) -> Option<SectorSizes> {
        self.parts.sectors
    }

    /// Returns what is unusual about the image, in sentences.
    pub fn remarks(&self) -> &[String] {
        &self.parts.remarks
    }

    /// Returns where the guest's byte `at` is, and how many bytes from it on are contiguous there.
    pub fn place(&self, at: ByteOffset) -> Result<(StoredAt, ByteCount), ReadError> {
        check_end(at, 1, self.len())?;
        let run = self.run(at.get()).map_err(|error| at_guest(at.get(), error))?;
        Ok((run.place, ByteCount::new(run.len)))
    }

    fn run(&self, at: u64) -> Result<StoredRun, ImageError> {
        let run = self.parts.map.locate(&self.parts.files, at)?;
        Ok(StoredRun { len: run.len.clamp(1, (self.parts.size - at).max(1)), ..run })
    }

    fn read_run(&self, guest: u64, place: StoredAt, part: &mut [u8]) -> Result<(), ImageError> {
        match place {
            StoredAt::Host { file, at } => self.parts.files.get(file)?.read(at, part),
            StoredAt::Zero => {
                part.fill(0);
                Ok(())
            }
            StoredAt::Below => self.read_below(guest, part),
            StoredAt::Packed(packed) => self.read_packed(packed, part),
        }
    }

    fn read_below(&self, guest: u64, part: &mut [u8]) -> Result<(), ImageError> {
        let format = self.container.format;
        match &self.parts.below {
            Below::Nothing => part.fill(0),
            Below::Missing(missing) => return Err(missing.error(format)),
            Below::Open { role, name, medium } => {
                // A backing file may be shorter: zeros follow.
                let have = medium.len().get().saturating_sub(guest);
                let have = usize::try_from(have).unwrap_or(usize::MAX).min(part.len());
                let (there, not_there) = part.split_at_mut(have);
                medium.read_at(ByteOffset::new(guest), there).map_err(|source| {
                    let source = Box::new(ImageError::Read { format, source: Box::new(source) });
                    ImageError::Other { format, role, name: name.clone(), source }
                })?;
                not_there.fill(0);
            }
        }
        Ok(())
    }

    fn read_packed(&self, packed: Packed, part: &mut [u8]) -> Result<(), ImageError> {
        let mut kept = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        let (unit, into) = (Packed { into: 0, ..packed }, packed.into);
        if kept.as_ref().is_none_or(|(of, _)| *of != unit) {
            // Drop the kept unit first, so that only one is in memory.
            *kept = None;
            *kept = Some((unit, unpack::unpack(self.parts.files.get(unit.file)?, &unit)?));
        }
        if let Some((_, bytes)) = kept.as_ref()
            && let Some(wanted) = bytes.get(into..).and_then(|bytes| bytes.get(..part.len()))
        {
            part.copy_from_slice(wanted);
        }
        Ok(())
    }
}

fn at_guest(at: u64, error: ImageError) -> ReadError {
    ReadError::Image { at: ByteOffset::new(at), source: Box::new(error) }
}

impl Medium for Image {
    fn len(&self) -> ByteCount {
        self.container.virtual_size
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        check_end(at, buf.len(), self.len())?;
        let mut rest = buf;
        let mut guest = at.get();
        while !rest.is_empty() {
            let run = self.run(guest).map_err(|error| at_guest(guest, error))?;
            let here = usize::try_from(run.len).unwrap_or(usize::MAX).min(rest.len());
            let (part, later) = rest.split_at_mut(here);
            self.read_run(guest, run.place, part).map_err(|error| at_guest(guest, error))?;
            rest = later;
            // Cannot overflow: within the guest's size, which is less than 2^63.
            guest += here as u64;
        }
        Ok(())
    }
}
