use std::path::PathBuf;

use crate::image::Format;
use straddle_units::{BlockSize, ByteCount};

use crate::domain::read::Element;
use crate::topology::Sectors;

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Whether it was running when it was described.
    pub is_running: bool,
    /// Its disks, in the order of the description.
    pub disks: Vec<Disk>,
}

/// A disk of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its name in the domain: `vda`.
    pub name: String,
    /// Where it is stored.
    pub storage: Storage,
    /// Files that hold contents of the disk below its own file, the nearest first.
    pub backing: Vec<PathBuf>,
    /// The sectors that the guest is shown; `None` if these are those of the storage.
    pub shown: Option<Sectors>,
}

/// Where a disk is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a file or block device of the host.
    Path {
        /// Its path.
        path: PathBuf,
        /// The format of its contents.
        format: Format,
    },
    /// In a volume of a storage pool.
    Volume {
        /// The pool's name.
        pool: String,
        /// The volume's name.
        volume: String,
        /// The format of its contents.
        format: Format,
    },
    /// Where its contents cannot be read from, for this reason.
    OutOfReach(String),
    /// Nowhere, for this reason: it has no partitions to audit.
    NoDisk(&'static str),
}

/// Their disks have 512-byte sectors unless `<blockio>` states others.
const QEMU: [&str; 4] = ["kvm", "qemu", "hvf", "kqemu"];

const DEEPEST_CHAIN: usize = crate::image::MAX_DEPTH as usize;

pub(crate) fn read(disk: &Element, hypervisor: &str) -> Result<Disk, (u64, String)> {
    let name = disk.child("target").and_then(|target| target.attribute("dev"));
    let name =
        name.ok_or_else(|| (disk.at, "a <disk> element has no <target dev='...'>".to_owned()))?.to_owned();
    let storage = storage(disk);
    // A passed-through LUN answers the guest itself.
    let is_passed_through = disk.attribute("device") == Some("lun");
    let shown = if is_passed_through { None } else { shown(disk, QEMU.contains(&hypervisor))? };
    Ok(Disk { name, storage, backing: backing(disk), shown })
}

fn storage(disk: &Element) -> Storage {
    match disk.attribute("device") {
        Some("cdrom") => return Storage::NoDisk("a CD-ROM drive"),
        Some("floppy") => return Storage::NoDisk("a floppy drive"),
        _ => {}
    }
    let Some(source) = disk.child("source") else { return Storage::NoDisk("a drive without a medium") };
    let of = |name: &str| source.attribute(name).filter(|value| !value.is_empty());
    let path = |path: &str| Storage::Path { path: PathBuf::from(path), format: Format::Raw };
    let volume = |volume: &str| {
        let (pool, volume) = (of("pool").unwrap_or_default().to_owned(), volume.to_owned());
        Storage::Volume { pool, volume, format: Format::Raw }
    };
    let stored = match disk.attribute("type").unwrap_or("file") {
        "file" => of("file").map(path),
        "block" => of("dev").map(path),
        "volume" => of("volume").map(volume),
        kind => return Storage::OutOfReach(elsewhere(kind, source)),
    };
    let Some(mut stored) = stored else { return Storage::NoDisk("a drive without a medium") };
    if let Some(why) = obstacle(disk, source) {
        return Storage::OutOfReach(why.to_owned());
    }
    let stated = match format(disk) {
        Ok(format) => format,
        Err(name) => return Storage::OutOfReach(format!("straddle cannot read the disk's format, '{name}'")),
    };
    match &mut stored {
        Storage::Path { path, .. } if !path.is_absolute() => {
            return Storage::OutOfReach(format!("the disk's path '{}' is not absolute", path.display()));
        }
        Storage::Path { format, .. } | Storage::Volume { format, .. } => *format = stated,
        Storage::OutOfReach(_) | Storage::NoDisk(_) => {}
    }
    stored
}

fn elsewhere(kind: &str, source: &Element) -> String {
    match kind {
        "network" => {
            let of = |name: &str| source.attribute(name).unwrap_or_default();
            let host = source.child("host").and_then(|host| host.attribute("name"));
            let host = host.map(|host| format!(" on {host}")).unwrap_or_default();
            let (protocol, name) = (of("protocol"), of("name"));
            format!("the disk is network storage ({protocol} {name}{host}), which straddle cannot read")
        }
        "nvme" => {
            "the disk is an NVMe namespace that is assigned to the guest and has no device node on the host"
                .to_owned()
        }
        "dir" => "the disk is a directory of the host that the guest sees as a FAT file system".to_owned(),
        "vhostuser" | "vhostvdpa" => format!("the disk is served by another program ({kind})"),
        kind => format!("the disk has the unknown type '{kind}'"),
    }
}

fn obstacle(disk: &Element, source: &Element) -> Option<&'static str> {
    if disk.child("encryption").or_else(|| source.child("encryption")).is_some() {
        return Some("the disk is encrypted, and only the hypervisor has the key");
    }
    source.child("slices").map(|_| "the disk is a slice of a file, which straddle does not support")
}

fn format(disk: &Element) -> Result<Format, &str> {
    // libvirt's names are QEMU's, and a few of its own (src/util/virstoragefile, virStorageFileFormat).
    match disk.child("driver").and_then(|driver| driver.attribute("type")) {
        None | Some("raw" | "iso" | "aio") => Ok(Format::Raw),
        Some("vhd") => Ok(Format::Vhd),
        Some(name) => Format::ALL.iter().copied().find(|format| format.qemu_name() == name).ok_or(name),
    }
}

fn backing(disk: &Element) -> Vec<PathBuf> {
    let chain = std::iter::successors(disk.child("backingStore"), |store| store.child("backingStore"));
    let file = |store: &Element| store.child("source")?.attribute("file").map(PathBuf::from);
    chain.take(DEEPEST_CHAIN).filter_map(file).filter(|path| path.is_absolute()).collect()
}

fn shown(disk: &Element, is_qemu: bool) -> Result<Option<Sectors>, (u64, String)> {
    let blockio = disk.child("blockio");
    let size = |name: &str| -> Result<Option<u64>, (u64, String)> {
        let Some((element, text)) = blockio.and_then(|element| Some((element, element.attribute(name)?)))
        else {
            return Ok(None);
        };
        let wrong = || (element.at, format!("<blockio {name}='{text}'> is not a size in bytes"));
        let size: u64 = text.trim().parse().map_err(|_| wrong())?;
        // QEMU takes 0 for a size that is not given.
        Ok((size != 0).then_some(size))
    };
    let (logical, physical) = (size("logical_block_size")?, size("physical_block_size")?);
    if logical.is_none() && physical.is_none() && !is_qemu {
        return Ok(None);
    }
    let at = blockio.map_or(disk.at, |element| element.at);
    let logical = BlockSize::new(logical.unwrap_or(BlockSize::B512.get()))
        .map_err(|error| (at, format!("<blockio logical_block_size>: {error}")))?;
    let physical = physical.unwrap_or(BlockSize::B512.get());
    if !physical.is_power_of_two() || physical < BlockSize::B512.get() {
        let what =
            format!("<blockio physical_block_size='{physical}'> is not a power of two of at least 512");
        return Err((at, what));
    }
    if physical < logical.get() {
        let what = format!(
            "<blockio> makes the logical sector ({} bytes) larger than the physical one ({physical} bytes), \
             so QEMU refuses to start",
            logical.get()
        );
        return Err((at, what));
    }
    Ok(Some(Sectors { logical, physical: ByteCount::new(physical) }))
}
