//! Builds a [`Topology`] from what sysfs and the device report.

use std::fs::File;
use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{BlockSize, ByteCount, Lba, LbaCount};

use crate::identify::{
    AtaIdentify, FormatNvm, NvmeIdentifyNamespace, ReadCapacity16, RotationRate, SECTOR_LOG, block_lengths,
    has_log, optimal_transfer, rotation_rate, sector_configurations,
};
use crate::ioctl::{self, IoctlError};
use crate::quirks;
use crate::sysfs::{Attributes, DeviceKind};
use crate::topology::{
    AT_LEAST_LOGICAL, AlignmentOffset, AtomicWrites, Figure, Formats, Hides, LbaFormats, SectorFormat,
    Source, Topology, USUAL_PHYSICAL, claim, striped_data_members,
};

/// Vendor, model and kind of a device, as it reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Identity {
    /// The manufacturer that a SCSI or USB device reports; "ATA" for a SATA disk behind libata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The model; for a stacked device its RAID level, mapped name or backing file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the device is a spinning disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Its rotation rate, by VPD page B1h or ATA IDENTIFY word 217.
    #[serde(skip)]
    pub rotation: Option<RotationRate>,
}

/// The device's own answers, beyond sysfs.
#[derive(Debug, Default)]
pub struct Answers {
    kernel: ioctl::KernelLimits,
    ata: Option<AtaIdentify>,
    capacity: Option<ReadCapacity16>,
    optimal_transfer: Option<LbaCount>,
    rotation: Option<RotationRate>,
    nvme: Option<NvmeIdentifyNamespace>,
    nvme_format: Option<FormatNvm>,
    ata_sectors: Vec<BlockSize>,
    scsi_lengths: Vec<BlockSize>,
}

/// Where the IDENTIFY data begins in an ATA Information VPD page (SAT-4, page 89h).
const VPD_89_IDENTIFY: usize = 60;

/// ATA IDENTIFY is sent only to disks behind libata, because some USB bridges hang on it.
pub(crate) fn ask(
    kind: DeviceKind,
    device: &dyn Attributes,
    file: &File,
    remarks: &mut Vec<String>,
) -> Answers {
    let mut answers = Answers { kernel: ioctl::kernel_limits(file), ..Answers::default() };
    let mut refused = |what: &str, error: IoctlError| {
        if error.os_kind() == io::ErrorKind::PermissionDenied {
            remarks.push(format!("{what} could not be read: {error}"));
        }
    };
    if kind == DeviceKind::Scsi {
        match ioctl::scsi_read_capacity_16(file) {
            Ok(bytes) => answers.capacity = ReadCapacity16::parse(&bytes),
            Err(error) => refused("READ CAPACITY (16)", error),
        }
        let page = |number| ioctl::scsi_inquiry_vpd(file, number).ok();
        answers.optimal_transfer = page(0xB0).and_then(|bytes| optimal_transfer(&bytes));
        answers.rotation = page(0xB1).and_then(|bytes| rotation_rate(&bytes));
        if device.text("device/vendor").as_deref() == Some("ATA") {
            match ioctl::ata_identify(file) {
                Ok(bytes) => answers.ata = AtaIdentify::parse(&bytes),
                Err(error) => refused("ATA IDENTIFY", error),
            }
        }
    }
    if kind == DeviceKind::Nvme {
        match ioctl::nvme_identify_namespace(file) {
            Ok(bytes) => answers.nvme = NvmeIdentifyNamespace::parse(&bytes),
            Err(error) => refused("NVMe Identify", error),
        }
    }
    ask_for_formats(file, &mut answers);
    answers
}

/// The page of supported block lengths, and where the list of supported pages begins in page 00h.
const LENGTHS_PAGE: u8 = 0xb4;
const PAGES: usize = 4;

/// A log or page is requested only if the drive lists it: a drive may count another request as an error.
fn ask_for_formats(file: &File, answers: &mut Answers) {
    if answers.nvme.is_some() {
        let controller = ioctl::nvme_identify_controller(file).ok();
        answers.nvme_format = controller.and_then(|bytes| FormatNvm::parse(&bytes));
    }
    if answers.ata.as_ref().is_some_and(|ata| ata.has_logs) {
        let directory = ioctl::ata_log(file, 0).ok();
        if directory.is_some_and(|directory| has_log(&directory, SECTOR_LOG)) {
            let log = ioctl::ata_log(file, SECTOR_LOG);
            answers.ata_sectors = log.map_or(Vec::new(), |bytes| sector_configurations(&bytes));
        }
    } else if answers.capacity.is_some() {
        let pages = ioctl::scsi_inquiry_vpd(file, 0).unwrap_or_default();
        if pages.get(PAGES..).is_some_and(|list| list.contains(&LENGTHS_PAGE)) {
            let page = ioctl::scsi_inquiry_vpd(file, LENGTHS_PAGE);
            answers.scsi_lengths = page.map_or(Vec::new(), |bytes| block_lengths(&bytes));
        }
    }
}

/// The sectors that the drive can be set to.
fn formats(answers: &Answers) -> Option<Formats> {
    if let Some(nvme) = &answers.nvme {
        let (current, list) = (nvme.current_format, nvme.formats.clone());
        return Some(Formats::Nvme(LbaFormats { current, list, command: answers.nvme_format }));
    }
    let listed = |sizes: &Vec<_>| (!sizes.is_empty()).then(|| sizes.clone());
    let ata = listed(&answers.ata_sectors).map(Formats::Ata);
    ata.or_else(|| listed(&answers.scsi_lengths).map(Formats::Scsi))
}

impl Answers {
    /// The answers to commands that a captured tree keeps.
    pub(crate) fn kept(kept: &dyn Attributes) -> Self {
        let block = |name: &str| kept.bytes(name)?.first_chunk::<512>().copied();
        let page = |name: &str| kept.bytes(name)?.first_chunk::<4096>().copied();
        Self {
            nvme: page("nvme-id-ns").and_then(|bytes| NvmeIdentifyNamespace::parse(&bytes)),
            nvme_format: page("nvme-id-ctrl").and_then(|bytes| FormatNvm::parse(&bytes)),
            ata: block("ata-identify").and_then(|bytes| AtaIdentify::parse(&bytes)),
            ata_sectors: block("ata-log-2f").map_or(Vec::new(), |bytes| sector_configurations(&bytes)),
            scsi_lengths: kept.bytes("scsi-vpd-b4").map_or(Vec::new(), |bytes| block_lengths(&bytes)),
            ..Self::default()
        }
    }

    fn add_kept_pages(&mut self, device: &dyn Attributes) {
        self.ata = self.ata.take().or_else(|| {
            let page = device.bytes("device/vpd_pg89")?;
            AtaIdentify::parse(page.get(VPD_89_IDENTIFY..)?.first_chunk()?)
        });
        let by_page = || optimal_transfer(&device.bytes("device/vpd_pgb0")?);
        self.optimal_transfer = self.optimal_transfer.or_else(by_page);
        let by_page = || rotation_rate(&device.bytes("device/vpd_pgb1")?);
        self.rotation = self.rotation.or_else(by_page);
    }
}

/// Returns a device's identity, and all figures about its sectors combined.
pub fn combine(kind: DeviceKind, device: &dyn Attributes, mut answers: Answers) -> (Identity, Topology) {
    answers.add_kept_pages(device);
    let identity = identity(kind, device, &answers);
    let mut topology = Topology::unknown();
    kernel_figures(&mut topology, device, &answers.kernel);
    identified_sectors(&mut topology, &answers);
    if let Some(nvme) = &answers.nvme {
        nvme_figures(&mut topology, nvme);
        let source = Source::Nvme("NOWS");
        optimum_of_the_drive(&mut topology, device, &answers, nvme.optimal_write_size, source);
    }
    let optimal = answers.optimal_transfer.and_then(|blocks| blocks.to_bytes(topology.logical.value()));
    let source = Source::Scsi("VPD page B0h, optimal transfer length");
    optimum_of_the_drive(&mut topology, device, &answers, optimal, source);
    limit_of_the_kernel(&mut topology, kind, device);
    quirk(&mut topology, &identity);
    assume_flash(&mut topology, kind, &identity);
    topology.formats = formats(&answers);
    topology.may_hide = may_hide(kind, &identity, answers.ata.as_ref(), &topology);
    array_figures(&mut topology, kind, device);
    (identity, topology)
}

fn identity(kind: DeviceKind, device: &dyn Attributes, answers: &Answers) -> Identity {
    let model = match kind {
        DeviceKind::Md => device.text("md/level").map(|level| format!("md {level}")),
        DeviceKind::DeviceMapper => device.text("dm/name"),
        DeviceKind::Loop => device.text("loop/backing_file"),
        DeviceKind::Mmc => device.text("device/name"),
        _ => device.text("device/model"),
    };
    Identity {
        vendor: device.text("device/vendor").filter(|vendor| !vendor.starts_with("0x")),
        model,
        rotational: device.number("queue/rotational").map(|r| r != 0),
        rotation: answers.rotation.or(answers.ata.as_ref().map(|ata| ata.rotation)),
    }
}

fn of_kernel<T: Copy + PartialEq>(
    (attribute, shown): (&'static str, Option<T>),
    (request, answered): (&'static str, Option<T>),
) -> Option<Figure<T>> {
    const SAME: &str = "both values are from the kernel; the one from sysfs is used";
    let mut figure = None;
    claim(&mut figure, shown, Source::Sysfs(attribute), SAME);
    claim(&mut figure, answered, Source::Ioctl(request), SAME);
    figure
}

fn kernel_figures(topology: &mut Topology, device: &dyn Attributes, kernel: &ioctl::KernelLimits) {
    let positive = |bytes: &ByteCount| *bytes > ByteCount::ZERO;
    let size = |attribute| (attribute, device.number(attribute).map(ByteCount::new).filter(positive));

    let block = |bytes: ByteCount| BlockSize::new(bytes.get()).ok();
    let (attribute, shown) = size("queue/logical_block_size");
    let asked = ("BLKSSZGET", kernel.logical.and_then(block));
    if let Some(logical) = of_kernel((attribute, shown.and_then(block)), asked) {
        topology.logical = logical;
    }

    let least = topology.logical.value().bytes();
    let sector = |bytes: &ByteCount| bytes.get().is_power_of_two() && *bytes >= least;
    let (attribute, shown) = size("queue/physical_block_size");
    let asked = ("BLKPBSZGET", kernel.physical.filter(sector));
    if let Some(physical) = of_kernel((attribute, shown.filter(sector)), asked) {
        topology.physical = physical;
    } else if topology.physical.value() < least {
        topology.physical.overrule(least, Source::Derived(AT_LEAST_LOGICAL), AT_LEAST_LOGICAL);
    }

    let shown = device.text("alignment_offset").and_then(|text| alignment_offset(&text));
    let asked = kernel.alignment_offset.and_then(|offset| alignment_offset(&offset.to_string()));
    if let Some(offset) = of_kernel(("alignment_offset", shown), ("BLKALIGNOFF", asked)) {
        topology.alignment_offset = offset;
    }

    topology.io_min = of_kernel(size("queue/minimum_io_size"), ("BLKIOMIN", kernel.io_min.filter(positive)));
    topology.io_opt = of_kernel(size("queue/optimal_io_size"), ("BLKIOOPT", kernel.io_opt.filter(positive)));

    let (_, unit_min) = size("queue/atomic_write_unit_min_bytes");
    topology.atomic = unit_min.map(|unit_min| {
        let unit_max = size("queue/atomic_write_unit_max_bytes").1.unwrap_or(unit_min);
        let boundary = size("queue/atomic_write_boundary_bytes").1.unwrap_or(ByteCount::ZERO);
        Figure::new(AtomicWrites { unit_min, unit_max, boundary }, Source::Sysfs("queue/atomic_write_*"))
    });
    let (attribute, erase) = size("device/preferred_erase_size");
    topology.erase_block = erase.map(|erase| Figure::new(erase, Source::Sysfs(attribute)));
}

/// -1 is shown as an unsigned number by partitions.
pub(crate) fn alignment_offset(text: &str) -> Option<AlignmentOffset> {
    match text.parse::<i64>().ok()? {
        -1 | 4_294_967_295 => Some(AlignmentOffset::Misaligned),
        bytes => u64::try_from(bytes).ok().map(|b| AlignmentOffset::Bytes(ByteCount::new(b))),
    }
}

fn identified_sectors(topology: &mut Topology, answers: &Answers) {
    const BELONGS: &str = "this offset matches the physical sector size in use";
    const KERNELS: &str = "the kernel's value is used, because other tools use it too";
    let mut compare = |physical: ByteCount, offset: Option<ByteCount>, sector: Source, shift: Source| {
        let offset = offset.map(AlignmentOffset::Bytes);
        let is_used = topology.physical.use_larger(physical, sector);
        match offset {
            Some(offset) if is_used => topology.alignment_offset.overrule(offset, shift, BELONGS),
            Some(offset) => topology.alignment_offset.also(offset, shift, KERNELS),
            None => {}
        }
    };
    if let Some(ReadCapacity16 { physical, alignment_offset }) = answers.capacity {
        let shift = Source::Scsi("READ CAPACITY (16) bytes 14-15");
        compare(physical, Some(alignment_offset), Source::Scsi("READ CAPACITY (16) byte 13"), shift);
    }
    // A word that is not valid (0000h on older drives) gives no figure: neither 512 bytes nor offset 0.
    if let Some(AtaIdentify { physical: Some(physical), alignment_offset, .. }) = answers.ata {
        compare(physical, alignment_offset, Source::Ata("word 106"), Source::Ata("word 209"));
    }
}

fn nvme_figures(topology: &mut Topology, nvme: &NvmeIdentifyNamespace) {
    const GRANULARITY: &str = "the unit is the granularity (NPWG); the alignment (NPWA) may be smaller";
    let unit = &mut topology.indirection_unit;
    claim(unit, nvme.preferred_write_granularity, Source::Nvme("NPWG"), GRANULARITY);
    claim(unit, nvme.preferred_write_alignment, Source::Nvme("NPWA"), GRANULARITY);
    // A size cannot express boundaries that do not begin at block 0; the kernel then offers no atomic writes.
    let is_plain = nvme.atomic_boundary_offset == Lba::new(0);
    let atomic = nvme.atomic_power_fail.filter(|_| is_plain).map(|unit_max| AtomicWrites {
        unit_min: nvme.logical.bytes(),
        unit_max,
        boundary: nvme.atomic_boundary_power_fail.unwrap_or(ByteCount::ZERO),
    });
    const OFFERED: &str = "the kernel's value is used, because programs can use only what the kernel \
                           supports";
    claim(&mut topology.atomic, atomic, Source::Nvme("NAWUPF and NABSPF"), OFFERED);
}

/// The drive's own optimal I/O size. A 0 of the kernel stays in force: tools see only the kernel's figure.
fn optimum_of_the_drive(
    topology: &mut Topology,
    device: &dyn Attributes,
    answers: &Answers,
    optimal: Option<ByteCount>,
    source: Source,
) {
    const DROPPED: &str = "the kernel has rejected the drive's value, so tools do not see it";
    const MADE: &str = "the kernel's value is used, because tools read it";
    let why = if topology.io_opt.is_none() && optimal.is_some() {
        let by_sysfs = device.number("queue/optimal_io_size") == Some(0);
        let by_ioctl = answers.kernel.io_opt == Some(ByteCount::ZERO);
        let zero = by_sysfs.then_some(Source::Sysfs("queue/optimal_io_size"));
        let zero = zero.or(by_ioctl.then_some(Source::Ioctl("BLKIOOPT")));
        topology.io_opt = zero.map(|source| Figure::new(ByteCount::ZERO, source));
        DROPPED
    } else {
        MADE
    };
    claim(&mut topology.io_opt, optimal, source, why);
}

/// Where a SCSI disk reports no optimal I/O size, sd takes the host adapter's limit or, since Linux 6.17, its
/// own (`sd_set_io_opt`), in whole physical sectors.
fn limit_of_the_kernel(topology: &mut Topology, kind: DeviceKind, device: &dyn Attributes) {
    let Some(figure) = &topology.io_opt else { return };
    let is_alone = figure.others().iter().all(|claim| !matches!(claim.source, Source::Scsi(_)));
    let limit = device.number("queue/max_sectors_kb").and_then(|kib| kib.checked_mul(1024));
    let rounded = limit.map(|limit| limit - limit % topology.physical.value().get().max(1));
    if kind == DeviceKind::Scsi && is_alone && rounded == Some(figure.value().get()) {
        topology.io_opt = Some(Figure::new(figure.value(), Source::KERNEL_LIMIT));
    }
}

fn quirk(topology: &mut Topology, identity: &Identity) {
    let vendor = identity.vendor.as_deref().unwrap_or_default();
    let model = identity.model.as_deref();
    let Some(quirk) = model.and_then(|model| quirks::lookup_inquiry(vendor, model)) else { return };
    let source = Source::Quirk(&quirk.model);
    if quirk.physical > topology.physical.value() {
        topology.physical.overrule(quirk.physical, source.clone(), "the drive is known to misreport");
    }
    let unit = quirk.indirection_unit;
    claim(&mut topology.indirection_unit, unit, source, "the drive's own answer is used");
}

/// Assumes 4096-byte physical sectors on flash that reports 512 and nothing of its unit: no SSD, SD card or
/// eMMC maps pages of 512 bytes. A hypervisor's disk is left as it is.
fn assume_flash(topology: &mut Topology, kind: DeviceKind, identity: &Identity) {
    /// The kernel's test disk, which says that it does not rotate and is what it reports.
    const SCSI_DEBUG: &str = "scsi_debug";
    const WHY: &str = "flash devices map blocks of at least 4096 bytes, whatever they report";
    let is_flash = matches!(kind, DeviceKind::Nvme | DeviceKind::Scsi | DeviceKind::Mmc)
        && (identity.rotational == Some(false) || identity.rotation == Some(RotationRate::NonRotating))
        && identity.model.as_deref() != Some(SCSI_DEBUG)
        && !is_emulated(identity);
    let is_said = topology.indirection_unit.is_some()
        || topology.io_min.as_ref().is_some_and(|min| min.value() > topology.physical.value());
    let has_figures = !matches!(topology.physical.source(), Source::Assumed | Source::Quirk(_));
    if is_flash && has_figures && !is_said && topology.format() == SectorFormat::Native512 {
        topology.physical.overrule(USUAL_PHYSICAL, Source::Assumed, WHY);
    }
}

/// Vendors and models of hypervisors' disks: QEMU, VirtualBox, VMware, Hyper-V.
const EMULATED: [&str; 5] = ["QEMU", "VBOX", "VMware", "Virtual", "Msft"];

fn is_emulated(identity: &Identity) -> bool {
    let mut names = [&identity.vendor, &identity.model].into_iter().flatten();
    names.any(|said| EMULATED.iter().any(|name| said.starts_with(name)))
}

/// Whether a disk that reports 512-byte physical sectors may have larger ones: an unlisted spinning ATA disk.
/// Those of 2010 to 2013 hid them, and no drive reports its age; without word 217 of IDENTIFY (rotation rate,
/// ATA8-ACS) a disk is older. A hypervisor hides what its disk lies on.
fn may_hide(
    kind: DeviceKind,
    identity: &Identity,
    ata: Option<&AtaIdentify>,
    topology: &Topology,
) -> Option<Hides> {
    if topology.format() != SectorFormat::Native512 {
        return None;
    }
    if kind == DeviceKind::Virtual || is_emulated(identity) {
        return Some(Hides::Host);
    }
    let spins = identity.rotational != Some(false) && identity.rotation != Some(RotationRate::NonRotating);
    let is_older = ata.is_some_and(|ata| ata.rotation == RotationRate::NotReported);
    let is_ata = kind == DeviceKind::Scsi && identity.vendor.as_deref() == Some("ATA");
    (is_ata && spins && !is_older).then_some(Hides::Drive)
}

fn array_figures(topology: &mut Topology, kind: DeviceKind, device: &dyn Attributes) {
    let physical = topology.physical.value();
    let io_min = topology.io_min.as_ref().map(Figure::value).filter(|min| *min > physical);
    match kind {
        DeviceKind::Nvme => claim(
            &mut topology.indirection_unit,
            io_min,
            Source::Derived("sysfs queue/minimum_io_size, which on NVMe is NPWG"),
            "the value from NVMe Identify is used",
        ),
        DeviceKind::Md => {
            let chunk = device.number("md/chunk_size").filter(|c| *c > 0).map(ByteCount::new);
            claim(&mut topology.chunk, chunk, Source::Sysfs("md/chunk_size"), "");
            // The optimal I/O size is also a multiple of the members' own.
            let level = device.text("md/level").and_then(|level| level.strip_prefix("raid")?.parse().ok());
            let stripe = chunk.zip(level).and_then(|(chunk, level)| {
                let (disks, layout) = (device.number("md/raid_disks")?, device.number("md/layout"));
                chunk.checked_mul(striped_data_members(level, disks, layout.unwrap_or(0))?)
            });
            let how = Source::Derived(
                "md/chunk_size times the number of data members (from md/level and md/raid_disks)",
            );
            claim(&mut topology.stripe, stripe, how, "");
        }
        DeviceKind::Scsi => stripe_of_sizes(topology),
        _ => {}
    }
}

/// The I/O sizes of a device that is neither a drive nor an md array come from an array behind it if
/// `is_array`; otherwise from a thin pool's chunk, Ceph's object, or a hypervisor's choice.
pub(crate) fn sizes_from_below(topology: &mut Topology, kind: DeviceKind, is_array: impl FnOnce() -> bool) {
    let is_known = matches!(kind, DeviceKind::Nvme | DeviceKind::Md | DeviceKind::Scsi);
    let physical = topology.physical.value();
    let Some(figure) = topology.io_min.as_mut().filter(|min| !is_known && min.value() > physical) else {
        return;
    };
    if kind == DeviceKind::DeviceMapper && is_array() {
        stripe_of_sizes(topology);
    } else {
        figure.overrule(figure.value(), Source::HINT, "");
    }
}

/// A SCSI device describes an array's chunk and stripe by minimum and optimal I/O size.
fn stripe_of_sizes(topology: &mut Topology) {
    let value = |figure: &Option<Figure<ByteCount>>| figure.as_ref().map(Figure::value);
    let io_min = value(&topology.io_min).filter(|min| *min > topology.physical.value());
    let array =
        io_min.zip(value(&topology.io_opt)).filter(|(min, opt)| opt > min && opt.is_multiple_of(*min));
    let how = Source::Derived(
        "sysfs queue/optimal_io_size, taken as an array's stripe because minimum_io_size exceeds the \
         physical sector",
    );
    claim(&mut topology.stripe, array.map(|(_, opt)| opt), how, "");
}

#[cfg(test)]
mod tests;
