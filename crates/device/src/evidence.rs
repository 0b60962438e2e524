//! Builds a [`Topology`] from what sysfs and the device report: which source is used, and why.

mod offered;

use std::fs::File;
use std::io;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::{BlockSize, ByteCount, Lba};

use crate::identify::{
    AtaIdentify, BlockCharacteristics, BlockLimits, FormatNvm, NvmeIdentifyNamespace, ReadCapacity16,
    RotationRate,
};
use crate::ioctl;
use crate::quirks;
use crate::sysfs::{Attributes, DeviceKind};
use crate::topology::{
    AlignmentOffset, AtomicWrites, Figure, Hides, SectorFormat, Source, Topology, USUAL_PHYSICAL, claim,
    striped_data_members,
};

/// Vendor, model and kind of a device, as it reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Identity {
    /// Manufacturer, for SCSI and USB ("ATA" stands for a SATA disk behind libata).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// The model; for a stacked device its RAID level, mapped name or backing file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it is a spinning disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Its rotation rate, by VPD page B1h or ATA IDENTIFY word 217.
    #[serde(skip)]
    pub rotation: Option<RotationRate>,
}

/// Reads a device's identity from sysfs.
pub fn identity(kind: DeviceKind, device: &dyn Attributes, answers: &Answers) -> Identity {
    let kept = || BlockCharacteristics::parse(&device.bytes("device/vpd_pgb1")?).ok();
    let characteristics = answers.characteristics.or_else(kept);
    let by_ata = || from_kept_pages(device, answers).0.map(|ata| ata.rotation);
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
        rotation: characteristics.map(|c| c.rotation).or_else(by_ata),
    }
}

/// The device's own answers, beyond sysfs.
#[derive(Debug, Default)]
pub struct Answers {
    ioctl: Option<ioctl::BlockLimitsIoctl>,
    ata: Option<AtaIdentify>,
    capacity: Option<ReadCapacity16>,
    limits: Option<BlockLimits>,
    characteristics: Option<BlockCharacteristics>,
    nvme: Option<NvmeIdentifyNamespace>,
    /// Identify Controller, of which only this is used.
    nvme_format: Option<FormatNvm>,
    /// The sectors that an ATA drive's log lists.
    ata_sectors: Option<Vec<BlockSize>>,
    /// The sectors that a SCSI drive's VPD page lists.
    scsi_lengths: Option<Vec<BlockSize>>,
}

/// The byte at which the IDENTIFY data begins in an ATA Information VPD page (SAT-4, page 89h).
const VPD_89_IDENTIFY: usize = 60;

/// Queries an open device's limits and, where permitted, its identification. Sends only commands that read.
/// ATA IDENTIFY is sent only to disks behind libata, because some USB bridges hang on it.
pub fn ask(kind: DeviceKind, device: &dyn Attributes, file: &File, remarks: &mut Vec<String>) -> Answers {
    let mut answers = Answers { ioctl: Some(ioctl::block_limits(file)), ..Answers::default() };
    let mut refused = |what: &str, error: &dyn std::error::Error, kind: io::ErrorKind| {
        if kind == io::ErrorKind::PermissionDenied {
            remarks.push(format!("{what} could not be read: {error}"));
        }
    };
    if kind == DeviceKind::Scsi {
        match ioctl::scsi_read_capacity_16(file) {
            Ok(bytes) => answers.capacity = ReadCapacity16::parse(&bytes).ok(),
            Err(error) => refused("READ CAPACITY (16)", &error, error.os_kind()),
        }
        answers.limits = ioctl::scsi_inquiry_vpd(file, 0xB0).ok().and_then(|b| BlockLimits::parse(&b).ok());
        let characteristics = ioctl::scsi_inquiry_vpd(file, 0xB1).ok();
        answers.characteristics = characteristics.and_then(|b| BlockCharacteristics::parse(&b).ok());
        if device.text("device/vendor").as_deref() == Some("ATA") {
            match ioctl::ata_identify(file) {
                Ok(bytes) => answers.ata = AtaIdentify::parse(&bytes).ok(),
                Err(error) => refused("ATA IDENTIFY", &error, error.os_kind()),
            }
        }
    }
    if kind == DeviceKind::Nvme {
        match ioctl::nvme_identify_namespace(file) {
            Ok(bytes) => answers.nvme = NvmeIdentifyNamespace::parse(&bytes).ok(),
            Err(error) => refused("NVMe Identify", &error, error.os_kind()),
        }
    }
    offered::ask(file, &mut answers);
    answers
}

/// Returns the device's own answers from the VPD pages that the kernel keeps in sysfs, where the device was
/// not queried itself.
fn from_kept_pages(device: &dyn Attributes, answers: &Answers) -> (Option<AtaIdentify>, Option<BlockLimits>) {
    let ata = answers.ata.clone().or_else(|| {
        let page = device.bytes("device/vpd_pg89")?;
        let identify: &[u8; 512] = page.get(VPD_89_IDENTIFY..)?.first_chunk()?;
        AtaIdentify::parse(identify).ok()
    });
    let limits = answers.limits.or_else(|| BlockLimits::parse(&device.bytes("device/vpd_pgb0")?).ok());
    (ata, limits)
}

/// Combines all figures about a device's sectors.
pub fn topology(
    kind: DeviceKind,
    device: &dyn Attributes,
    identity: &Identity,
    answers: &Answers,
) -> Topology {
    let (ata, limits) = from_kept_pages(device, answers);
    let mut topology = Topology::unknown();
    kernel_figures(&mut topology, device, answers);
    identified_sectors(&mut topology, ata.as_ref(), answers);
    if let Some(nvme) = &answers.nvme {
        nvme_figures(&mut topology, nvme);
        let source = Source::Nvme("NOWS");
        optimum_of_the_drive(&mut topology, device, answers, nvme.optimal_write_size, source);
    }
    if let Some(limits) = &limits {
        let block = topology.logical.value();
        let optimal = limits.optimal_transfer.and_then(|blocks| blocks.to_bytes(block));
        let source = Source::Scsi("VPD page B0h, optimal transfer length");
        optimum_of_the_drive(&mut topology, device, answers, optimal, source);
    }
    limit_of_the_kernel(&mut topology, kind, device);
    quirk(&mut topology, identity);
    assume_flash(&mut topology, kind, identity);
    topology.formats = offered::formats(answers);
    topology.may_hide = may_hide(kind, identity, ata.as_ref(), &topology);
    array_figures(&mut topology, kind, device);
    topology
}

/// Adds the kernel's figures, from sysfs and ioctls.
fn kernel_figures(topology: &mut Topology, device: &dyn Attributes, answers: &Answers) {
    const SAME: &str = "sysfs is preferred; both are the kernel's";
    let size = |attribute| device.number(attribute).filter(|n| *n > 0).map(ByteCount::new);
    let by_ioctl = answers.ioctl.as_ref();
    let asked = |value: Option<&Result<ByteCount, ioctl::IoctlError>>| {
        value.and_then(|v| v.as_ref().ok()).copied().filter(|v| *v > ByteCount::ZERO)
    };

    let block = |bytes: ByteCount| BlockSize::new(bytes.get()).ok();
    let mut logical = None;
    claim(
        &mut logical,
        size("queue/logical_block_size").and_then(block),
        Source::Sysfs("queue/logical_block_size"),
        SAME,
    );
    claim(
        &mut logical,
        asked(by_ioctl.map(|i| &i.logical)).and_then(block),
        Source::Ioctl("BLKSSZGET"),
        SAME,
    );
    if let Some(logical) = logical {
        topology.logical = logical;
    }

    let sector =
        |bytes: &ByteCount| bytes.get().is_power_of_two() && *bytes >= topology.logical.value().bytes();
    let mut physical = None;
    claim(
        &mut physical,
        size("queue/physical_block_size").filter(sector),
        Source::Sysfs("queue/physical_block_size"),
        SAME,
    );
    claim(
        &mut physical,
        asked(by_ioctl.map(|i| &i.physical)).filter(sector),
        Source::Ioctl("BLKPBSZGET"),
        SAME,
    );
    if let Some(physical) = physical {
        topology.physical = physical;
    } else if topology.physical.value() < topology.logical.value().bytes() {
        const LEAST: &str = "a physical sector holds at least one logical one";
        topology.physical.overrule(topology.logical.value().bytes(), Source::Derived(LEAST), LEAST);
    }

    let mut offset = None;
    let by_sysfs = device.text("alignment_offset").and_then(|text| alignment_offset(&text));
    claim(&mut offset, by_sysfs, Source::Sysfs("alignment_offset"), SAME);
    let asked_offset = by_ioctl.and_then(|i| i.alignment_offset.as_ref().ok());
    claim(
        &mut offset,
        asked_offset.and_then(|o| alignment_offset(&o.to_string())),
        Source::Ioctl("BLKALIGNOFF"),
        SAME,
    );
    if let Some(offset) = offset {
        topology.alignment_offset = offset;
    }

    claim(&mut topology.io_min, size("queue/minimum_io_size"), Source::Sysfs("queue/minimum_io_size"), SAME);
    claim(&mut topology.io_min, asked(by_ioctl.map(|i| &i.io_min)), Source::Ioctl("BLKIOMIN"), SAME);
    claim(&mut topology.io_opt, size("queue/optimal_io_size"), Source::Sysfs("queue/optimal_io_size"), SAME);
    claim(&mut topology.io_opt, asked(by_ioctl.map(|i| &i.io_opt)), Source::Ioctl("BLKIOOPT"), SAME);

    topology.atomic = size("queue/atomic_write_unit_min_bytes").map(|unit_min| {
        let unit_max = size("queue/atomic_write_unit_max_bytes").unwrap_or(unit_min);
        let boundary = size("queue/atomic_write_boundary_bytes").unwrap_or(ByteCount::ZERO);
        Figure::new(AtomicWrites { unit_min, unit_max, boundary }, Source::Sysfs("queue/atomic_write_*"))
    });
    let erase = size("device/preferred_erase_size");
    claim(&mut topology.erase_block, erase, Source::Sysfs("device/preferred_erase_size"), SAME);
}

/// Parses an alignment offset: bytes, or -1, which for partitions of such a device appears as an unsigned
/// number.
pub fn alignment_offset(text: &str) -> Option<AlignmentOffset> {
    match text.parse::<i64>().ok()? {
        -1 | 4_294_967_295 => Some(AlignmentOffset::Misaligned),
        bytes => u64::try_from(bytes).ok().map(|b| AlignmentOffset::Bytes(ByteCount::new(b))),
    }
}

/// Adds what the drive reports about its physical sectors, beside the kernel's figures.
fn identified_sectors(topology: &mut Topology, ata: Option<&AtaIdentify>, answers: &Answers) {
    const LARGER: &str = "the larger is used: a start aligned to it is aligned to both";
    let mut compare = |physical: ByteCount, offset: Option<ByteCount>, sector: Source, shift: Source| {
        let offset = offset.map(AlignmentOffset::Bytes);
        if physical > topology.physical.value() {
            const BELONGS: &str = "it belongs to the physical sector that is used";
            topology.physical.overrule(physical, sector, LARGER);
            if let Some(offset) = offset {
                topology.alignment_offset.overrule(offset, shift, BELONGS);
            }
        } else {
            const KERNELS: &str = "the kernel's value is used, which other tools see too";
            topology.physical.also(physical, sector, LARGER);
            if let Some(offset) = offset {
                topology.alignment_offset.also(offset, shift, KERNELS);
            }
        }
    };
    if let Some(capacity) = &answers.capacity {
        compare(
            capacity.physical_bytes(),
            Some(capacity.alignment_offset_bytes()),
            Source::Scsi("READ CAPACITY (16) byte 13"),
            Source::Scsi("READ CAPACITY (16) bytes 14-15"),
        );
    }
    // A word that is not valid (0000h on older drives) gives no figure: neither 512 bytes nor offset 0.
    if let Some((ata, physical)) = ata.and_then(|ata| Some((ata, ata.physical_bytes()?))) {
        let offset = ata.alignment_offset_bytes();
        compare(physical, offset, Source::Ata("word 106"), Source::Ata("word 209"));
    }
}

/// Adds an NVMe namespace's preferred writes. Their granularity is the indirection unit.
fn nvme_figures(topology: &mut Topology, nvme: &NvmeIdentifyNamespace) {
    const GRANULARITY: &str = "the granularity is the unit; the alignment may be coarser";
    claim(
        &mut topology.indirection_unit,
        nvme.preferred_write_granularity,
        Source::Nvme("NPWG"),
        GRANULARITY,
    );
    let aligned = nvme.preferred_write_alignment;
    claim(&mut topology.indirection_unit, aligned, Source::Nvme("NPWA"), GRANULARITY);
    // Boundaries that do not begin at block 0 cannot be expressed as a size, and then the kernel offers no
    // atomic writes.
    let is_plain = nvme.atomic_boundary_offset == Lba::new(0);
    let atomic = nvme.atomic_power_fail.filter(|_| is_plain).map(|unit_max| AtomicWrites {
        unit_min: nvme.logical.bytes(),
        unit_max,
        boundary: nvme.atomic_boundary_power_fail.unwrap_or(ByteCount::ZERO),
    });
    const OFFERED: &str = "programs can use only what the kernel offers";
    claim(&mut topology.atomic, atomic, Source::Nvme("NAWUPF and NABSPF"), OFFERED);
}

/// Adds the optimal I/O size that the drive itself reports. Tools read the kernel's figure. So where the
/// kernel shows 0, that is in force: no tool can act on a size that it does not see.
fn optimum_of_the_drive(
    topology: &mut Topology,
    device: &dyn Attributes,
    answers: &Answers,
    optimal: Option<ByteCount>,
    source: Source,
) {
    const DROPPED: &str = "the kernel has discarded it, so no tool sees it";
    let Some(optimal) = optimal else { return };
    if topology.io_opt.is_none() {
        let by_ioctl = answers.ioctl.as_ref().and_then(|i| i.io_opt.as_ref().ok());
        let kernel = if device.number("queue/optimal_io_size") == Some(0) {
            Some(Source::Sysfs("queue/optimal_io_size"))
        } else {
            by_ioctl.filter(|opt| **opt == ByteCount::ZERO).map(|_| Source::Ioctl("BLKIOOPT"))
        };
        claim(
            &mut topology.io_opt,
            kernel.as_ref().map(|_| ByteCount::ZERO),
            kernel.unwrap_or(Source::Assumed),
            "",
        );
        claim(&mut topology.io_opt, Some(optimal), source, DROPPED);
    } else {
        const MADE: &str = "tools read the kernel's value";
        claim(&mut topology.io_opt, Some(optimal), source, MADE);
    }
}

/// Detects an optimal I/O size that does not come from the drive. Where a SCSI disk reports none, sd takes
/// the host adapter's limit and, since Linux 6.17, its own (`sd_set_io_opt`, drivers/scsi/sd.c), in whole
/// physical sectors.
fn limit_of_the_kernel(topology: &mut Topology, kind: DeviceKind, device: &dyn Attributes) {
    let Some(figure) = &topology.io_opt else { return };
    let is_alone = figure.others().iter().all(|claim| !matches!(claim.source, Source::Scsi(_)));
    let limit = device.number("queue/max_sectors_kb").and_then(|kib| kib.checked_mul(1024));
    let rounded = limit.map(|limit| limit - limit % topology.physical.value().get().max(1));
    if kind == DeviceKind::Scsi && is_alone && rounded == Some(figure.value().get()) {
        topology.io_opt = Some(Figure::new(figure.value(), Source::KERNEL_LIMIT));
    }
}

/// Applies the list of misreporting drives, where the entry fits what the drive claims.
fn quirk(topology: &mut Topology, identity: &Identity) {
    let Some(quirk) = identity
        .model
        .as_deref()
        .and_then(|model| quirks::lookup_inquiry(identity.vendor.as_deref().unwrap_or_default(), model))
    else {
        return;
    };
    let source = Source::Quirk(&quirk.model);
    if quirk.physical() > topology.physical.value() {
        topology.physical.overrule(quirk.physical(), source.clone(), "the drive is known to misreport");
    }
    let unit = quirk.indirection_unit();
    claim(&mut topology.indirection_unit, unit, source, "the drive's own answer is used");
}

/// The model of the kernel's test disk, which says that it does not rotate and is what it reports.
const SCSI_DEBUG: &str = "scsi_debug";

/// Assumes 4096-byte physical sectors on flash that reports 512 and nothing of its unit: no SSD, SD card or eMMC maps its
/// pages by 512 bytes, and an image of it is judged so as well. A hypervisor's disk only says that it does not rotate.
fn assume_flash(topology: &mut Topology, kind: DeviceKind, identity: &Identity) {
    const WHY: &str = "flash maps blocks of at least 4096 bytes, whatever the drive reports";
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
    let names = [&identity.vendor, &identity.model].into_iter().flatten();
    names.into_iter().any(|said| EMULATED.iter().any(|name| said.starts_with(name)))
}

/// Whether a disk reports 512-byte physical sectors and may have larger ones: a spinning ATA disk that is on no
/// list. The first disks with 4096-byte sectors, of 2010 to 2013, hid them, and no drive says when it was made. Of
/// those that answer IDENTIFY, a disk that leaves out word 217 (its rotation rate, ATA8-ACS) is older. A hypervisor's disk
/// does not say what it lies on.
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

/// Adds what minimum and optimal I/O size mean on this kind of device.
fn array_figures(topology: &mut Topology, kind: DeviceKind, device: &dyn Attributes) {
    let physical = topology.physical.value();
    let io_min = topology.io_min.as_ref().map(Figure::value).filter(|min| *min > physical);
    match kind {
        DeviceKind::Nvme => claim(
            &mut topology.indirection_unit,
            io_min,
            Source::Derived("sysfs queue/minimum_io_size, which on NVMe is NPWG"),
            "NVMe Identify is preferred",
        ),
        DeviceKind::Md => {
            let chunk = device.number("md/chunk_size").filter(|c| *c > 0).map(ByteCount::new);
            claim(&mut topology.chunk, chunk, Source::Sysfs("md/chunk_size"), "");
            // Not derived from the optimal I/O size, which is also a multiple of the members' own.
            let stripe = chunk.zip(data_members(device)).and_then(|(chunk, data)| chunk.checked_mul(data));
            let how = Source::Derived("md/chunk_size times the data members of md/level and md/raid_disks");
            claim(&mut topology.stripe, stripe, how, "");
        }
        DeviceKind::Scsi => stripe_of_sizes(topology),
        _ => {}
    }
}

/// Decides what the I/O sizes of a device that is neither a drive nor an array of md come from: `is_array` says whether
/// an array is known behind it. A thin pool shows its chunk this way, Ceph its object, and a hypervisor what it likes.
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

/// Takes minimum and optimal I/O size for an array's chunk and stripe, as a SCSI device describes it with both.
fn stripe_of_sizes(topology: &mut Topology) {
    let value = |figure: &Option<Figure<ByteCount>>| figure.as_ref().map(Figure::value);
    let io_min = value(&topology.io_min).filter(|min| *min > topology.physical.value());
    let array =
        io_min.zip(value(&topology.io_opt)).filter(|(min, opt)| opt > min && opt.is_multiple_of(*min));
    let how = Source::Derived("sysfs queue/optimal_io_size with a larger minimum: an array's stripe");
    claim(&mut topology.stripe, array.map(|(_, opt)| opt), how, "");
}

/// Returns how many members of an array hold data in each stripe, from its attributes.
fn data_members(device: &dyn Attributes) -> Option<u64> {
    let level = device.text("md/level")?.strip_prefix("raid")?.parse().ok()?;
    striped_data_members(level, device.number("md/raid_disks")?, device.number("md/layout").unwrap_or(0))
}

#[cfg(test)]
mod said;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Map(BTreeMap<&'static str, &'static str>);

    impl Attributes for Map {
        fn bytes(&self, name: &str) -> Option<Vec<u8>> {
            self.0.get(name).map(|text| text.as_bytes().to_vec())
        }

        fn list(&self, _dir: &str) -> Vec<String> {
            Vec::new()
        }
    }

    fn read(kind: DeviceKind, attributes: &[(&'static str, &'static str)]) -> Topology {
        let map = Map(attributes.iter().copied().collect());
        let identity = identity(kind, &map, &Answers::default());
        topology(kind, &map, &identity, &Answers::default())
    }

    #[test]
    fn a_drive_known_to_misreport_is_overruled() {
        let topology = read(
            DeviceKind::Scsi,
            &[
                ("device/vendor", "ATA     \n"),
                ("device/model", "WDC WD10EARS-00Y\n"),
                ("queue/logical_block_size", "512\n"),
                ("queue/physical_block_size", "512\n"),
            ],
        );
        assert_eq!(topology.physical.value(), ByteCount::new(4096));
        assert!(matches!(topology.physical.source(), Source::Quirk(_)));
        assert_eq!(topology.physical.disagreeing().count(), 1);
    }

    /// An SSD, a cloud's volume and an SD card that report 512-byte sectors are judged as their images are, unless they
    /// name their unit; a spinning disk is not.
    #[test]
    fn flash_that_reports_512_is_taken_for_more() {
        let physical = |kind, rotational, more: &[(&'static str, &'static str)]| {
            let mut attributes = vec![
                ("queue/logical_block_size", "512\n"),
                ("queue/physical_block_size", "512\n"),
                ("queue/minimum_io_size", "512\n"),
                ("queue/rotational", rotational),
            ];
            attributes.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
            attributes.extend(more);
            let topology = read(kind, &attributes);
            (topology.physical.value().get(), *topology.physical.source() == Source::Assumed)
        };
        for kind in [DeviceKind::Nvme, DeviceKind::Scsi, DeviceKind::Mmc] {
            assert_eq!(physical(kind, "0\n", &[]), (4096, true), "{kind:?}");
            assert_eq!(physical(kind, "1\n", &[]), (512, false), "{kind:?}");
            let sectors = [("queue/physical_block_size", "4096\n"), ("queue/minimum_io_size", "4096\n")];
            assert_eq!(physical(kind, "0\n", &sectors), (4096, false), "{kind:?}");
        }
        assert_eq!(physical(DeviceKind::Nvme, "0\n", &[("queue/minimum_io_size", "16384\n")]), (512, false));
        assert_eq!(
            physical(DeviceKind::Scsi, "0\n", &[("device/model", "scsi_debug      \n")]),
            (512, false)
        );
        for (vendor, model) in [
            ("QEMU    ", "QEMU HARDDISK   "),
            ("VMware  ", "Virtual disk    "),
            ("ATA     ", "QEMU HARDDISK   "),
        ] {
            let more = [("device/vendor", vendor), ("device/model", model)];
            assert_eq!(physical(DeviceKind::Scsi, "0\n", &more), (512, false), "{model}");
        }
        assert_eq!(physical(DeviceKind::Md, "0\n", &[]), (512, false));
    }

    #[test]
    fn the_minimum_io_of_nvme_is_its_indirection_unit() {
        let topology = read(
            DeviceKind::Nvme,
            &[
                ("queue/logical_block_size", "512\n"),
                ("queue/physical_block_size", "512\n"),
                ("queue/minimum_io_size", "16384\n"),
            ],
        );
        assert_eq!(topology.indirection_unit.unwrap().value(), ByteCount::new(16384));
    }

    #[test]
    fn an_arrays_stripe_is_its_chunk_times_its_data_members() {
        let stripe = |level, disks, layout| {
            let attributes = [
                ("md/chunk_size", "65536"),
                ("md/level", level),
                ("md/raid_disks", disks),
                ("md/layout", layout),
            ];
            read(DeviceKind::Md, &attributes).stripe.map(|s| s.value().get() / 65536)
        };
        assert_eq!(stripe("raid0", "3", "0"), Some(3));
        assert_eq!(stripe("raid5", "4", "2"), Some(3));
        assert_eq!(stripe("raid6", "6", "2"), Some(4));
        assert_eq!(stripe("raid10", "4", "258"), Some(2));
        assert_eq!(stripe("raid10", "3", "258"), Some(3));
        assert_eq!(stripe("raid1", "2", "0"), None);
        assert_eq!(stripe("raid6", "1", "0"), None);
    }

    #[test]
    fn minus_one_is_read_in_both_its_forms() {
        for text in ["-1", "4294967295"] {
            assert_eq!(alignment_offset(text), Some(AlignmentOffset::Misaligned));
        }
        assert_eq!(alignment_offset("3584"), Some(AlignmentOffset::Bytes(ByteCount::new(3584))));
        assert_eq!(alignment_offset("-2"), None);
    }
}
