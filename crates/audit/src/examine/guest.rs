//! The disks of virtual machines as targets.
//!
//! Invariants: a disk is read in the format that its description states, and as its guest is shown
//! it. No command that writes to the disk of a running guest is printed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Findings;
use straddle_device::domain::{Domain, Libvirt, Storage};
use straddle_device::image::Format;
use straddle_device::topology::{AlignmentOffset, Figure, Guest, Sectors, Source, Topology};
use straddle_device::{Assume, DeviceKind, Medium, ReadError, Target};
use straddle_units::{ByteCount, ByteOffset};

use crate::examine::{ExamineError, Examined, Examiner, Options};

/// A disk of a virtual machine that is a file or a block device of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestDisk {
    /// The name of the virtual machine.
    pub domain: String,
    /// Whether it is running.
    pub is_running: bool,
    /// The name of the disk in the guest, such as `vda`.
    pub name: String,
    /// The path of the file or device.
    pub path: PathBuf,
    /// The format of its contents.
    pub format: Format,
    /// Files that hold contents of the disk below its own.
    pub backing: Vec<PathBuf>,
    /// The sectors that the guest is shown; `None` if these are those of the storage.
    pub shown: Option<Sectors>,
}

/// A disk of a virtual machine. Its name is that of the target: `domain:web/vda`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundDisk {
    /// It can be examined.
    Here(GuestDisk),
    /// It cannot be read from this host.
    #[allow(missing_docs, reason = "their names say it")]
    OutOfReach { name: String, why: String },
    /// There is nothing to examine.
    #[allow(missing_docs, reason = "their names say it")]
    NoDisk { name: String, why: &'static str },
}

/// Returns the disks of a domain, in its order.
pub fn disks_of(domain: &Domain, libvirt: &Libvirt) -> Vec<FoundDisk> {
    let found = |disk: &straddle_device::domain::Disk| {
        let name = format!("domain:{}/{}", domain.name, disk.name);
        let here = |path: &Path, format| {
            FoundDisk::Here(GuestDisk {
                domain: domain.name.clone(),
                is_running: domain.is_running,
                name: disk.name.clone(),
                path: path.to_owned(),
                format,
                backing: disk.backing.clone(),
                shown: disk.shown,
            })
        };
        match &disk.storage {
            Storage::Path { path, format } => here(path, *format),
            Storage::Volume { pool, volume, format } => match libvirt.volume(pool, volume) {
                Ok(path) => here(&path, *format),
                Err(why) => FoundDisk::OutOfReach {
                    name,
                    why: format!("it is the volume {volume} of the pool {pool}: {why}"),
                },
            },
            Storage::OutOfReach(why) => FoundDisk::OutOfReach { name, why: why.clone() },
            Storage::NoDisk(why) => FoundDisk::NoDisk { name, why },
        }
    };
    domain.disks.iter().map(found).collect()
}

impl Examiner {
    /// Opens, reads and audits a disk of a virtual machine. A declared topology is that of its storage.
    ///
    /// # Errors
    ///
    /// As [`Examiner::examine`], and where the disk is stored in a way that is not read here.
    pub fn examine_guest_disk(&self, disk: &GuestDisk) -> Result<Examined, ExamineError> {
        let mut open = self.options().open.clone();
        open.format = Some(disk.format);
        // Where contents of a file that is gone are needed, reading them returns the error.
        open.allow_backing.extend(disk.backing.iter().filter(|path| path.is_file()).cloned());
        let undeclared =
            straddle_device::Options { assume: Assume::default(), logical: None, ..open.clone() };
        let opened = straddle_device::open(&disk.path, &undeclared)?;
        let is_file = opened.kind == DeviceKind::Image;
        let mut target = as_given(opened, disk, &open)?;
        let topology = &mut target.topology;
        let mut storage = match is_file {
            true => self.adopt_holder(&disk.path, topology),
            false => Some(Sectors { logical: topology.logical.value(), physical: topology.physical.value() }),
        };
        open.assume.apply(topology);
        if matches!(topology.physical.source(), Source::Declared | Source::Measured) {
            let logical = open.assume.logical().or(storage.map(|storage| storage.logical));
            let logical = logical.unwrap_or(topology.logical.value());
            storage = Some(Sectors { logical, physical: topology.physical.value() });
        }
        topology.show_to(Guest {
            domain: disk.domain.clone(),
            disk: disk.name.clone(),
            is_running: disk.is_running,
            shown: disk.shown,
            storage,
        });
        if let Some(logical) = open.logical {
            topology.logical.overrule(logical, Source::Declared, "the declared value is used");
        }
        // Commands are given the image, not the domain.
        if target.kind == DeviceKind::Image {
            open.assume = open.assume.with_sectors_of(topology);
        }
        let options = Options { open, ..self.options().clone() };
        let mut examiner = Self::new(options);
        examiner.machine = Arc::clone(&self.machine);
        examiner.examine_target(disk.path.display().to_string(), target)
    }

    /// Takes the sectors of the device that holds the image at `path`, and returns their sizes.
    fn adopt_holder(&self, path: &Path, topology: &mut Topology) -> Option<Sectors> {
        const HOLDER: Source = Source::Derived("the device that the image's file system is on");
        const LARGER: &str = "the larger value is used, because a start aligned to it is aligned to both";
        let holder = self.machine().holder(path)?;
        if holder.physical >= topology.physical.value() {
            topology.physical.overrule(holder.physical, HOLDER, LARGER);
            topology.alignment_offset = Figure::new(holder.offset, HOLDER);
        } else {
            topology.physical.also(holder.physical, HOLDER, LARGER);
        }
        Some(Sectors { logical: holder.logical, physical: holder.physical })
    }
}

/// Returns a device as the guest is given it: a partition as a disk, and the disk in an image.
fn as_given(
    target: Target,
    disk: &GuestDisk,
    open: &straddle_device::Options,
) -> Result<Target, ExamineError> {
    if target.kind == DeviceKind::Image {
        return Ok(target);
    }
    let mut target = partition_as_disk(target);
    if disk.format == Format::Raw {
        return Ok(target);
    }
    let unread = || ExamineError::OutOfReach("it cannot be read: no permission; run as root".to_owned());
    let medium = target.medium.take().ok_or_else(unread)?;
    let Target { container, size, medium, remarks, .. } =
        straddle_device::open_in(medium, disk.format, &disk.path, open)?;
    target.remarks.extend(remarks);
    Ok(Target {
        kind: DeviceKind::Image,
        container,
        size,
        medium,
        kernel_name: None,
        kernel_partitions: None,
        node: None,
        ..target
    })
}

/// Returns the partition that was named as a disk of its own. Other targets are returned as they are.
fn partition_as_disk(mut target: Target) -> Target {
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let named = listed.iter().find(|partition| Some(partition.number) == target.partition);
    let Some(span) = named.map(|partition| partition.span) else { return target };
    let boundary = target.topology.physical_boundary();
    if let (AlignmentOffset::Bytes(_), Some(boundary)) = (target.topology.alignment_offset.value(), boundary)
    {
        const START: Source = Source::Derived("the disk's, relative to the start of the partition");
        let offset = AlignmentOffset::Bytes(boundary.to_next(span.start()));
        target.topology.alignment_offset = Figure::new(offset, START);
    }
    let medium = target.medium.take();
    let part = |medium| Box::new(Part { medium, start: span.start(), len: span.len() }) as Box<dyn Medium>;
    Target {
        size: span.len(),
        medium: medium.map(part),
        kernel_name: None,
        kernel_partitions: None,
        partition: None,
        ..target
    }
}

struct Part {
    medium: Box<dyn Medium>,
    start: ByteOffset,
    len: ByteCount,
}

impl Medium for Part {
    fn len(&self) -> ByteCount {
        self.len
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let past = || ReadError::PastEnd { at, want: buf.len(), len: self.len.get() };
        let end = at.get().checked_add(u64::try_from(buf.len()).unwrap_or(u64::MAX));
        end.filter(|end| *end <= self.len.get()).ok_or_else(past)?;
        let from = self.start.checked_add(ByteCount::new(at.get())).ok_or_else(past)?;
        self.medium.read_at(from, buf)
    }
}

/// Withholds commands that write while the guest does, or count in other sectors, and remarks that.
pub(crate) fn withhold(target: &mut Target, findings: &mut Findings) {
    let Some(guest) = &target.topology.guest else { return };
    let domain = &guest.domain;
    let is_counted_differently = target.kind != DeviceKind::Image
        && guest.shown.zip(guest.storage).is_some_and(|(shown, storage)| shown.logical != storage.logical);
    let withheld = if guest.is_running {
        Some(format!(
            "the domain {domain} is running: data that its guest has not yet written to the disk is not \
             checked, and commands that change the disk are not printed"
        ))
    } else if is_counted_differently {
        Some("the guest and the host use different sector sizes: change the disk in the guest".to_owned())
    } else if target.kind != DeviceKind::Image && target.kernel_name.is_none() {
        Some("the guest uses this partition as a disk: change it in the guest".to_owned())
    } else {
        None
    };
    let remark = match withheld {
        Some(why) => {
            findings.withhold_commands(|_| true);
            Some(why)
        }
        None => findings.has_commands().then(|| {
            format!("before running a command below, make sure that the domain {domain} is shut off")
        }),
    };
    target.remarks.extend(remark);
}
