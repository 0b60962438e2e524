//! Opening block devices, live and in a captured tree, and listing them.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;
use straddle_units::ByteCount;

use super::{OpenError, Options, Target, Zoned, open_for_reading};
use crate::claim::FileId;
use crate::evidence::{self, Answers};
use crate::live::{self, Machine};
use crate::medium::{FileMedium, Medium};
use crate::standby;
use crate::sysfs::{self, Attributes, DeviceKind, Directory};
use crate::topology::{AlignmentOffset, Source, Topology, USUAL_PHYSICAL};

/// In a container the node may be missing or unreadable.
pub(super) fn open_device(path: &Path, sys: PathBuf, options: &Options) -> Result<Target, OpenError> {
    let named = Directory::new(sys.clone());
    if options.no_wake
        && let Some(standby) = standby::found(&named)?
    {
        let is_below = sys.file_name().is_none_or(|name| name != standby.disk.as_str());
        return Err(OpenError::Standby { standby, is_below });
    }
    // A partition is audited on its disk, whose topology it has, seen from its start.
    let partition = named.number("partition").and_then(|n| u32::try_from(n).ok());
    let (disk, node) = match (partition, sys.parent()) {
        (Some(_), Some(parent)) => {
            let name = parent.file_name().unwrap_or_default();
            (Directory::new(parent.to_owned()), Path::new("/dev").join(name))
        }
        _ => (named, path.to_owned()),
    };
    let (medium, unread) = match open_node(&node, &disk) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(format!("{}: {}", node.display(), closed(error)))),
    };
    let remarks = unread.iter().map(|why| format!("the disk was not read ({why}); {BY_KERNEL}")).collect();
    let mut target = from_sysfs(&disk, medium, node, partition, remarks, None)?;
    target.unread = unread;
    options.declare(&mut target.topology);
    Ok(target)
}

const BY_KERNEL: &str = "only the partitions that the kernel reports are shown, and their contents were not \
                         checked";

/// Returns the error of opening a device with what to do about it.
pub fn closed(error: io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => "run as root",
        io::ErrorKind::PermissionDenied => {
            "a container can read only the devices that it was given, so run straddle on the host"
        }
        io::ErrorKind::NotFound => {
            "a container has only the devices that it was given, so run straddle on the host"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}; {hint}"))
}

fn open_node(node: &Path, disk: &Directory) -> io::Result<File> {
    let file = disk.opened(open_for_reading(node)?)?;
    // A disk's page cache misses writes through its partitions.
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

pub(super) fn open_captured(path: &Path, root: &Path) -> Result<Target, OpenError> {
    let block = root.join("sys/block");
    let missing = || OpenError::NoSuchDevice(block.clone());
    let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(missing)?;
    let (disk, partition) = if block.join(name).is_dir() {
        (name.to_owned(), None)
    } else {
        let disk = sysfs::list_names(&block)
            .into_iter()
            .find(|disk| block.join(disk).join(name).join("partition").is_file())
            .ok_or_else(missing)?;
        let number = Directory::new(block.join(&disk)).number(&format!("{name}/partition"));
        (disk, number.and_then(|n| u32::try_from(n).ok()))
    };
    let directory = Directory::new(block.join(&disk));
    let mut remarks = Vec::new();
    let node = Path::new("/dev").join(&disk);
    let copy = root.join("dev").join(&disk);
    let medium = match fs::metadata(&copy) {
        Ok(metadata) if metadata.is_file() => {
            if directory.sectors("size") == Some(ByteCount::new(metadata.len())) {
                Some(open_for_reading(&copy).map_err(OpenError::Io)?)
            } else {
                remarks.push(format!(
                    "{}: the copy was not read, because its size differs from that of the disk",
                    copy.display()
                ));
                None
            }
        }
        _ => {
            remarks.push(
                "the captured tree has no copy of the disk, so only the partitions that the kernel reported \
                 are shown"
                    .to_owned(),
            );
            None
        }
    };
    from_sysfs(&directory, medium, node, partition, remarks, Some(root))
}

fn from_sysfs(
    disk: &Directory,
    file: Option<File>,
    node: PathBuf,
    partition: Option<u32>,
    mut remarks: Vec<String>,
    sysroot: Option<&Path>,
) -> Result<Target, OpenError> {
    let bad = || OpenError::BadSysfs { path: disk.path().to_owned(), attribute: "size" };
    let size = disk.sectors("size").ok_or_else(bad)?;
    let name = disk.path().file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if size == ByteCount::ZERO {
        return Err(if disk.number("removable") == Some(1) { OpenError::NoMedium } else { OpenError::Empty });
    }
    if sysroot.is_none() && file.is_some() && !holds_medium(name) {
        return Err(OpenError::NoMedium);
    }
    let kind = DeviceKind::of(name);
    let answers = match (sysroot, &file) {
        (Some(root), _) => Answers::kept(&Directory::new(root.join("answers").join(name))),
        (None, Some(file)) => evidence::ask(kind, disk, file, &mut remarks),
        (None, None) => Answers::default(),
    };
    let (identity, mut topology) = evidence::combine(kind, disk, answers);
    let machine = LazyCell::new(|| Machine::of_devices(sysroot));
    let machine = || &*machine;
    judge_stacked_offset(&mut topology, kind, name, &machine);
    evidence::sizes_from_below(&mut topology, kind, || machine().shows_array(name, 0));
    presume(&mut topology, kind, name, &machine);
    let offset = disk.number("loop/offset").filter(|offset| *offset > 0);
    if let Some((file, offset)) = disk.text("loop/backing_file").zip(offset) {
        remarks.push(format!("the loop device maps {file}, starting at byte {offset}"));
    }
    let id = file.as_ref().filter(|_| sysroot.is_none()).and_then(|file| FileId::of_open(file).ok());
    Ok(Target {
        medium: file.map(|file| Box::new(FileMedium::new(file, size)) as Box<dyn Medium>),
        topology,
        identity,
        kernel_name: Some(name.to_owned()),
        kernel_partitions: Some(sysfs::partitions(disk)),
        partition,
        node: Some(node),
        read_only: disk.number("ro") == Some(1),
        zoned: zones(disk),
        id,
        remarks,
        ..Target::unread(kind, size)
    })
}

fn judge_stacked_offset<'m>(
    topology: &mut Topology,
    kind: DeviceKind,
    name: &str,
    machine: &dyn Fn() -> &'m Machine,
) {
    const OPTIMUM: &str = "the -1 that the kernel reports is caused by an optimal I/O size";
    const AGREE: Source = Source::Derived("the offsets of the underlying devices, which agree");
    const FORGOTTEN: &str = "the kernel computes its value from offsets that differ";
    const DIFFER: Source = Source::Derived("the offsets of the underlying devices, which differ");
    let figure = &mut topology.alignment_offset;
    let is_stacked = matches!(kind, DeviceKind::Md | DeviceKind::DeviceMapper);
    match figure.value() {
        AlignmentOffset::Misaligned => {
            if let Some((cause, offset)) = machine().optimum_that_misaligns(name, 0) {
                figure.overrule(offset, AGREE, OPTIMUM);
                topology.stacked_optimum = Some(cause);
            }
        }
        AlignmentOffset::Bytes(ByteCount::ZERO) => {}
        AlignmentOffset::Bytes(shown) if is_stacked && machine().forgets_misalignment(name, shown) => {
            figure.overrule(AlignmentOffset::Misaligned, DIFFER, FORGOTTEN);
        }
        AlignmentOffset::Bytes(_) => {}
    }
}

fn presume<'m>(topology: &mut Topology, kind: DeviceKind, name: &str, machine: &dyn Fn() -> &'m Machine) {
    const LOOP: &str = "a loop device does not pass on the sector sizes of its file or device";
    const BELOW: &str = "the kernel's value is derived from what the underlying disks report";
    let shown = topology.physical.value();
    let is_loop = kind == DeviceKind::Loop;
    let is_stacked = name.starts_with("bcache") || matches!(kind, DeviceKind::Md | DeviceKind::DeviceMapper);
    let is_asked = is_loop || (is_stacked && shown < USUAL_PHYSICAL);
    let Some(found) = is_asked.then(|| machine().presumed(name)).flatten() else { return };
    if found.physical > shown || (is_loop && found.physical == shown) {
        let why = if is_loop { LOOP } else { BELOW };
        topology.physical.overrule(found.physical, found.source.clone(), why);
        topology.alignment_offset.overrule(found.offset, found.source, why);
    }
}

fn zones(disk: &Directory) -> Option<Zoned> {
    let model = disk.text("queue/zoned").filter(|model| model != "none")?;
    let zone = disk.sectors("queue/chunk_sectors").unwrap_or(ByteCount::ZERO);
    Some(Zoned { model, zone })
}

/// Returns the disks of this machine (or of a captured tree), by name: all block devices except memory,
/// optical drives, parts of mappings, and devices without a medium or hidden behind another. `all` includes
/// memory and optical drives with a medium. Of several paths to one disk the first is returned.
pub fn discover(sysroot: Option<&Path>, all: bool) -> Result<Discovered, OpenError> {
    let block = sysroot.unwrap_or(Path::new("/")).join("sys/block");
    fs::read_dir(&block).map_err(|source| {
        OpenError::Io(io::Error::new(source.kind(), format!("{}: {source}", block.display())))
    })?;
    let mut names: Vec<String> = sysfs::list_names(&block);
    names.retain(|name| {
        let device = Directory::new(block.join(name));
        let text = |attribute| device.text(attribute).unwrap_or_default();
        let usable = device.number("size").is_none_or(|size| size > 0) && device.number("hidden") != Some(1);
        let asked = usable
            && (all || !sysfs::is_not_a_disk(name))
            && !live::is_internal(&text("dm/uuid"), &text("dm/name"));
        asked && (sysroot.is_some() || holds_medium(name))
    });
    names.sort_by_key(|name| sysfs::natural_order(name));
    let mut remarks = Vec::new();
    let mut known: BTreeMap<(String, u64), String> = BTreeMap::new();
    names.retain(|name| {
        let Some(identity) = worldwide_name(&Directory::new(block.join(name))) else { return true };
        let first = known.entry(identity.clone()).or_insert_with(|| name.clone());
        if first != name {
            remarks
                .push(format!("{name} was skipped, because it is another path to {first} ({})", identity.0));
        }
        first == name
    });
    let disks = names.into_iter().map(|name| sysfs::node_of(&name)).collect();
    Ok(Discovered { disks, remarks })
}

/// What [`discover`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The nodes of the disks, in order.
    pub disks: Vec<PathBuf>,
    /// The devices omitted in favour of another, and why.
    pub remarks: Vec<String>,
}

/// Of SCSI's NAA and EUI-64, or NVMe's; others may be made up, and shared.
fn worldwide_name(device: &Directory) -> Option<(String, u64)> {
    let name = device.text("wwid").or_else(|| device.text("device/wwid"))?;
    let is_registered = ["naa.", "eui.", "uuid."].iter().any(|kind| name.starts_with(kind));
    Some((name, device.number("size")?)).filter(|_| is_registered)
}

/// For removable media, the size does not show whether there is a medium.
fn holds_medium(name: &str) -> bool {
    let is_drive = ["sr", "fd"].iter().any(|prefix| name.starts_with(prefix));
    let first = || open_for_reading(&Path::new("/dev").join(name))?.read_exact_at(&mut [0; 512], 0);
    !is_drive || first().is_ok()
}
