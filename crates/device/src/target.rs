//! Opens a target: the device or image that a path names. A FIFO would hang, and some character devices act on being
//! opened, so the file type is checked before and after opening.

mod device;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{BlockSize, ByteCount};

use crate::address::Address;
use crate::assume::Assume;
use crate::claim::FileId;
use crate::evidence::Identity;
use crate::image::{
    self, Access, Allowed, Container, Foreign, Format, ImageError, Limits, Opened, Packing, SectorSizes,
    UnpackError, raw_name,
};
use crate::medium::{FileMedium, Medium};
use crate::standby::{Standby, UnknownPower};
use crate::sysfs::{self, DeviceKind, KernelPartition};
use crate::topology::{Figure, Source, Topology};

pub use self::device::{Discovered, closed, discover};
use self::device::{open_captured, open_device};

/// Why a target cannot be audited at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum OpenError {
    #[error("cannot open")]
    Io(#[source] io::Error),
    #[error("is {0}, not a block device or an image file")]
    NotATarget(&'static str),
    #[error("is a directory, not a block device or an image file; name the files in the directory instead")]
    Directory,
    #[error("is empty (0 bytes)")]
    Empty,
    #[error("has no medium, or its medium cannot be read")]
    NoMedium,
    #[error("is {what}{}, which straddle cannot read{}; --format raw treats the file itself as the \
             disk", .within.map_or_else(String::new, |packed| format!(" in {packed}")), .command.as_ref().map_or_else(String::new, |line| format!(": {line}")))]
    NotRead {
        what: &'static str,
        packing: Option<Packing>,
        within: Option<&'static str>,
        command: Option<String>,
    },
    #[error("is {what}, which straddle would have to download completely{}", .command.as_ref().map_or_else(|| "; \
        download it and check the file".to_owned(), |line| format!(": {line}")))]
    Whole { what: &'static str, command: Option<String> },
    #[error("is {what}, which cannot be unpacked{}", .command.as_ref().map_or_else(String::new, |line| format!(" (to unpack it: {line})")))]
    Unpack { what: &'static str, source: UnpackError, command: Option<String> },
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("{}: cannot open this file (specified with --allow-backing)", path.display())]
    Allowed {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the disk is in standby, so it was not read ({}{})", if *.is_below { format!("{}: ", .standby.disk) } else { String::new() }, .standby.how)]
    Standby { standby: Standby, is_below: bool },
    #[error(transparent)]
    Power(#[from] UnknownPower),
    #[error("there is no such block device in {}", .0.display())]
    NoSuchDevice(PathBuf),
    #[error("{}: {attribute} is missing or not a number", path.display())]
    BadSysfs { path: PathBuf, attribute: &'static str },
}

straddle_units::error_kind!(OpenError: Failed);

/// How targets are opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The root of a captured tree (`DIR/sys`, `DIR/dev`); `None` for the running machine.
    pub sysroot: Option<PathBuf>,
    /// The declared topology.
    pub assume: Assume,
    /// The forced logical sector size.
    pub logical: Option<BlockSize>,
    /// The format of an image; detected from its bytes if not given.
    pub format: Option<Format>,
    /// Files that an image may open: backing files, parents, extents. Any other file stays closed.
    pub allow_backing: Vec<PathBuf>,
    /// The limits within which a compressed file is unpacked, for reading only; `None` not to unpack any.
    pub read_through: Option<Limits>,
    /// Whether disks in standby are left asleep: they are not opened.
    pub no_wake: bool,
}

impl Options {
    fn declare(&self, topology: &mut Topology) {
        self.assume.apply(topology);
        if let Some(logical) = self.logical {
            topology.logical.overrule(logical, Source::Declared, "the declared value is used");
        }
    }

    /// What is declared of the target, as options of a command, each after a space.
    pub fn declared(&self) -> String {
        let logical = self.logical.map(|logical| format!(" --logical {logical}"));
        let format = self.format.map(|format| format!(" --format {}", format.name()));
        [self.assume.option()].into_iter().chain(logical).chain(format).collect()
    }
}

/// The compressed file that a target was read through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// How it is compressed.
    pub packing: Packing,
    /// The path of the file that `command` creates, which is what other programs have to be given.
    pub unpacked: String,
    /// The command that unpacks the file.
    pub command: String,
}

/// What was fetched from servers to read an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// The number of requests, including redirected and repeated ones and those for credentials.
    pub requests: u64,
    /// The number of bytes of the object's contents that were received.
    #[serde(rename = "received_bytes")]
    pub received: u64,
    /// The size of the object.
    #[serde(rename = "object_bytes")]
    pub object: ByteCount,
}

/// An open target.
pub struct Target {
    /// Its kind.
    pub kind: DeviceKind,
    /// The file format around an image's disk; `None` for a raw image or a device.
    pub container: Option<Container>,
    /// The compressed file around the image, if there is one.
    pub through: Option<Through>,
    /// Its size in bytes; for an image, the size of its disk.
    pub size: ByteCount,
    /// Where its bytes are fetched from, for an object on a server.
    pub address: Option<Address>,
    /// What was fetched, for an object on a server that has been read.
    pub traffic: Option<Traffic>,
    /// Its bytes, where they may be read.
    pub medium: Option<Box<dyn Medium>>,
    /// What is known about its sectors.
    pub topology: Topology,
    /// Vendor, model and the like.
    pub identity: Identity,
    /// The kernel's name of the disk; `None` for images.
    pub kernel_name: Option<String>,
    /// The partitions that the kernel lists; `None` for images.
    pub kernel_partitions: Option<Vec<KernelPartition>>,
    /// The partition that was named as the target, if one was.
    pub partition: Option<u32>,
    /// The disk's node, where the target is a device or a partition of one: the node that a fix has to name.
    pub node: Option<PathBuf>,
    /// Whether the kernel has it read-only.
    pub read_only: bool,
    /// Its zones, if it is a zoned device.
    pub zoned: Option<Zoned>,
    /// Of the file or device that `medium` reads; `None` where nothing was opened, and in a captured tree.
    pub id: Option<FileId>,
    /// Why no byte of the device can be read, and what to do about it.
    pub unread: Option<String>,
    /// What could not be read, and why.
    pub remarks: Vec<String>,
}

impl Target {
    /// Creates a target for a raw image of these bytes, on an unknown drive.
    pub fn image(medium: Box<dyn Medium>) -> Self {
        let target = Self::unread(DeviceKind::Image, medium.len());
        Self { medium: Some(medium), ..target }
    }

    fn unread(kind: DeviceKind, size: ByteCount) -> Self {
        Self {
            kind,
            container: None,
            through: None,
            address: None,
            traffic: None,
            size,
            medium: None,
            topology: Topology::unknown(),
            identity: Identity::default(),
            kernel_name: None,
            kernel_partitions: None,
            partition: None,
            node: None,
            read_only: false,
            zoned: None,
            id: None,
            unread: None,
            remarks: Vec::new(),
        }
    }
}

/// A zoned device, on which each zone is written sequentially from its start
/// (Documentation/ABI/stable/sysfs-block, queue/zoned).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Zoned {
    /// The kernel's name of the model: `host-managed` or `host-aware`.
    pub model: String,
    /// The size of a zone.
    #[serde(rename = "zone_bytes")]
    pub zone: ByteCount,
}

/// Opens the block device, image or captured device that `path` names.
pub fn open(path: &Path, options: &Options) -> Result<Target, OpenError> {
    let mut target = match &options.sysroot {
        Some(root) => open_captured(path, root)?,
        None => {
            let found = fs::metadata(path);
            let listed = found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            if listed && let Some(sys) = sysfs::of_node(path) {
                return open_device(path, sys, options);
            }
            let metadata = found.map_err(OpenError::Io)?;
            let kind = metadata.file_type();
            if kind.is_file() {
                open_image(path, options)?
            } else if kind.is_block_device() {
                let link = sysfs::of_number(metadata.rdev());
                return open_device(path, fs::canonicalize(&link).map_err(OpenError::Io)?, options);
            } else if kind.is_dir() {
                return Err(OpenError::Directory);
            } else {
                return Err(OpenError::NotATarget(describe(&metadata)));
            }
        }
    };
    options.declare(&mut target.topology);
    Ok(target)
}

fn describe(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a special file"
    }
}

pub(crate) fn open_for_reading(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

fn open_image(path: &Path, options: &Options) -> Result<Target, OpenError> {
    let file = open_for_reading(path).map_err(OpenError::Io)?;
    let metadata = file.metadata().map_err(OpenError::Io)?;
    // The path may have been replaced since its type was checked.
    if !metadata.is_file() {
        return Err(OpenError::NotATarget(describe(&metadata)));
    }
    let size = ByteCount::new(metadata.len());
    if size == ByteCount::ZERO {
        return Err(OpenError::Empty);
    }

    let mut medium: Box<dyn Medium> = Box::new(FileMedium::new(file, size));
    let mut through = None;
    let mut format = format_of(medium.as_ref(), options);
    if let (Err(foreign), Some(limits)) = (format, options.read_through)
        && let Some(packing) = foreign.packing
    {
        let name = path.display().to_string();
        let command = foreign.command(&name);
        let file = open_for_reading(path).map_err(OpenError::Io)?;
        medium = image::unpack(file, packing, limits).map_err(|source| {
            // No other program can unpack a damaged file either.
            let helps = !matches!(source, UnpackError::Damaged { .. });
            OpenError::Unpack { what: foreign.what, source, command: command.clone().filter(|_| helps) }
        })?;
        if medium.is_empty() {
            return Err(OpenError::Empty);
        }
        format = format_of(medium.as_ref(), options);
        let unpacked = raw_name(&name);
        through = Some(Through { packing, unpacked, command: command.unwrap_or_default() });
    }
    let not_read = |foreign: &Foreign| {
        let command = match &through {
            Some(through) => {
                let line = foreign.command(&through.unpacked);
                line.map(|line| format!("{} && {line}", through.command))
            }
            None => foreign.command(&path.display().to_string()),
        };
        let within = through.as_ref().map(|through| through.packing.a_file());
        OpenError::NotRead { what: foreign.what, packing: foreign.packing, within, command }
    };
    let mut target = open_in(medium, format.map_err(not_read)?, path, options)?;
    (target.through, target.id) = (through, Some(FileId::of(&metadata)));
    Ok(target)
}

/// Opens the object at `address`, fetched by `medium`. [`OpenError::Whole`] if it is compressed.
pub fn open_object(
    medium: Box<dyn Medium>,
    address: Address,
    options: &Options,
) -> Result<Target, OpenError> {
    if medium.is_empty() {
        return Err(OpenError::Empty);
    }
    let fetch = address.fetch_command();
    let format = format_of(medium.as_ref(), options);
    if let Err(foreign) = format
        && foreign.packing.is_some()
    {
        return Err(OpenError::Whole { what: foreign.what, command: fetch });
    }
    let name = address.copy_name();
    let not_read = |foreign: &Foreign| {
        let command = fetch.zip(foreign.command(&name)).map(|(fetch, line)| format!("{fetch} && {line}"));
        OpenError::NotRead { what: foreign.what, packing: foreign.packing, within: None, command }
    };
    let mut target = open_in(medium, format.map_err(not_read)?, Path::new(&name), options)?;
    target.address = Some(address);
    options.declare(&mut target.topology);
    Ok(target)
}

fn format_of(medium: &dyn Medium, options: &Options) -> Result<Format, &'static Foreign> {
    options.format.map_or_else(|| Format::detect(medium), Ok)
}

/// Opens the disk that `medium` holds in `format`. Relative names in it start from the folder of `path`.
pub fn open_in(
    medium: Box<dyn Medium>,
    format: Format,
    path: &Path,
    options: &Options,
) -> Result<Target, OpenError> {
    let allowed =
        Allowed::new(&options.allow_backing).map_err(|(path, source)| OpenError::Allowed { path, source })?;
    let access = Access::new(path, &allowed);
    match image::open_as(format, medium, &access).map_err(OpenError::Image)? {
        Opened::Raw(medium) => Ok(Target::image(medium)),
        Opened::Image(image) => {
            if image.len() == ByteCount::ZERO {
                return Err(OpenError::Empty);
            }
            let (container, sectors) = (image.container().clone(), image.sectors());
            let remarks = image.remarks().to_vec();
            let mut target = Target { container: Some(container), remarks, ..Target::image(image) };
            if let Some(sectors) = sectors {
                adopt_sectors(&mut target.topology, sectors);
            }
            Ok(target)
        }
    }
}

fn adopt_sectors(topology: &mut Topology, sectors: SectorSizes) {
    let SectorSizes { logical, physical } = sectors;
    topology.logical = Figure::new(logical, Source::Container("VHDX metadata, logical sector size"));
    // It describes the guest's disk: 512 here does not justify a more lenient judgement.
    let source = Source::Container("VHDX metadata, physical sector size");
    if physical < topology.physical.value() {
        topology.physical.use_larger(physical, source);
    } else {
        topology.physical = Figure::new(physical, source);
    }
}
