//! What is known about a device's sectors. Sources of a [`Figure`] that disagree are all kept, with the reason of the
//! choice.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use straddle_units::{BlockSize, Boundary, ByteCount};

use crate::identify::{FormatNvm, LbaFormat};

/// The physical sector of nearly every disk since 2010, whatever it reports, and the largest of LUKS.
pub const USUAL_PHYSICAL: ByteCount = ByteCount::new(4096);

pub(crate) const AT_LEAST_LOGICAL: &str = "a physical sector holds at least one logical one";

/// The source of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A sysfs attribute, by its name below the device's directory.
    Sysfs(&'static str),
    /// A block-device ioctl, by its name.
    Ioctl(&'static str),
    /// ATA IDENTIFY DEVICE, with the words.
    Ata(&'static str),
    /// A log of an ATA drive, with its address and name.
    AtaLog(&'static str),
    /// A SCSI command or VPD page.
    Scsi(&'static str),
    /// NVMe Identify, with the field.
    Nvme(&'static str),
    /// The list of drives known to misreport, with the model pattern that matched.
    Quirk(&'static str),
    /// `--assume` or `--logical`: declared by the user.
    Declared,
    /// Measured by a probe that timed the drive.
    Measured,
    /// The partition table, which counts in this block size.
    Table,
    /// An image's container, with the field.
    Container(&'static str),
    /// The profile of a modelled drive, with the key.
    Profile(&'static str),
    /// The description of a virtual machine: what its guest is shown.
    Guest,
    /// No source gave a figure; this value is safe when in doubt.
    Assumed,
    /// Computed from other figures, as the text says.
    Derived(&'static str),
}

impl Source {
    /// A minimum I/O size without a known array: a thin pool's chunk, or the host's figure.
    pub const HINT: Self = Self::Derived("sysfs queue/minimum_io_size, a hint: not known to be an array");

    /// The limit of the kernel or host adapter on requests, not reported by the drive.
    pub const KERNEL_LIMIT: Self =
        Self::Derived("sysfs queue/optimal_io_size, the kernel's own limit (queue/max_sectors_kb)");
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs(attribute) => write!(f, "sysfs {attribute}"),
            Self::Ioctl(name) => write!(f, "ioctl {name}"),
            Self::Ata(words) => write!(f, "ATA IDENTIFY {words}"),
            Self::AtaLog(log) => write!(f, "ATA log {log}"),
            Self::Scsi(page) => write!(f, "SCSI {page}"),
            Self::Nvme(field) => write!(f, "NVMe Identify {field}"),
            Self::Quirk(model) => write!(f, "list of misreporting drives: {model}"),
            Self::Declared => f.write_str("declared"),
            Self::Measured => f.write_str("measured"),
            Self::Table => f.write_str("partition table"),
            Self::Container(field) => f.write_str(field),
            Self::Profile(key) => write!(f, "profile, {key}"),
            Self::Guest => f.write_str("the guest's disk"),
            Self::Assumed => f.write_str("assumed"),
            Self::Derived(how) => write!(f, "derived: {how}"),
        }
    }
}

/// The value reported by one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}Claim")]
pub struct Claim<T> {
    /// The value; sizes and offsets are in bytes.
    pub value: T,
    /// The source of the value.
    #[schemars(with = "String")]
    pub source: Source,
}

/// A property of the device: the value used, the values of all other sources and, if they disagree, why this
/// one is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}Figure")]
pub struct Figure<T> {
    #[serde(flatten)]
    chosen: Claim<T>,
    /// The values that other sources report; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<Claim<T>>,
    /// Why this value was preferred; absent if all sources agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl<T: Copy + PartialEq> Figure<T> {
    /// Creates a figure with one source.
    pub fn new(value: T, source: Source) -> Self {
        Self { chosen: Claim { value, source }, others: Vec::new(), why: None }
    }

    /// Returns the value in force.
    pub fn value(&self) -> T {
        self.chosen.value
    }

    /// Returns the source of the value in force.
    pub fn source(&self) -> &Source {
        &self.chosen.source
    }

    /// Returns the claims of the other sources, whether they agree or not.
    pub fn others(&self) -> &[Claim<T>] {
        &self.others
    }

    /// Returns the claims that disagree with the one in force.
    pub fn disagreeing(&self) -> impl Iterator<Item = &Claim<T>> {
        self.others.iter().filter(|claim| claim.value != self.chosen.value)
    }

    /// Returns why the value in force was preferred; `None` where no source disagrees.
    pub fn why(&self) -> Option<&'static str> {
        self.why
    }

    /// Adds a claim that does not change the value in force. `why` gives the reason, used if they disagree.
    pub fn also(&mut self, value: T, source: Source, why: &'static str) {
        if value != self.chosen.value {
            self.why = Some(why);
        }
        self.others.push(Claim { value, source });
    }

    /// Puts `value` in force over the present one. `why` gives the reason, used if they disagree.
    pub fn overrule(&mut self, value: T, source: Source, why: &'static str) {
        if value != self.chosen.value {
            self.why = Some(why);
        }
        let old = std::mem::replace(&mut self.chosen, Claim { value, source });
        self.others.insert(0, old);
    }

    pub(crate) fn use_larger(&mut self, value: T, source: Source) -> bool
    where
        T: Ord,
    {
        const LARGER: &str = "the larger value is used, because a start aligned to it is aligned to both";
        let is_larger = value > self.chosen.value;
        if is_larger {
            self.overrule(value, source, LARGER);
        } else {
            self.also(value, source, LARGER);
        }
        is_larger
    }
}

pub(crate) fn claim<T: Copy + PartialEq>(
    figure: &mut Option<Figure<T>>,
    value: Option<T>,
    source: Source,
    why: &'static str,
) {
    match (figure, value) {
        (Some(figure), Some(value)) => figure.also(value, source, why),
        (figure @ None, Some(value)) => *figure = Some(Figure::new(value, source)),
        (_, None) => {}
    }
}

/// The position of a device's first physical sector boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "i64")]
#[schemars(with = "i64", rename = "Offset")]
pub enum AlignmentOffset {
    /// At this byte (0 on nearly every drive).
    Bytes(ByteCount),
    /// Nowhere: the kernel reports -1, because the members of a stacked device have different offsets.
    Misaligned,
}

impl From<AlignmentOffset> for i64 {
    fn from(offset: AlignmentOffset) -> Self {
        match offset {
            AlignmentOffset::Bytes(bytes) => Self::try_from(bytes.get()).unwrap_or(Self::MAX),
            AlignmentOffset::Misaligned => -1,
        }
    }
}

/// The atomic writes of a device, in bytes (Documentation/ABI/stable/sysfs-block, kernel 6.11 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AtomicWrites {
    /// The size of the smallest atomic write, which is also the alignment that it needs.
    #[serde(rename = "unit_min_bytes")]
    pub unit_min: ByteCount,
    /// The size of the largest atomic write.
    #[serde(rename = "unit_max_bytes")]
    pub unit_max: ByteCount,
    /// No atomic write may cross a multiple of this size; 0 if there is no such boundary.
    #[serde(rename = "boundary_bytes")]
    pub boundary: ByteCount,
}

/// An optimal I/O size that is the only reason why the kernel calls a stacked device misaligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackedOptimum {
    /// The device below that reports it.
    pub member: String,
    /// The optimal I/O size that it reports.
    pub size: ByteCount,
    /// The physical sector size, of which it is not a multiple.
    pub physical: ByteCount,
}

/// The sectors that a drive itself can be set to, by the command set that sets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formats {
    /// An NVMe namespace's LBA formats.
    Nvme(LbaFormats),
    /// An ATA drive's Sector Configuration log: the sizes of its logical sectors.
    Ata(Vec<BlockSize>),
    /// A SCSI drive's VPD page B4h: the lengths of its logical blocks without protection information.
    Scsi(Vec<BlockSize>),
}

impl Formats {
    /// Returns the source.
    pub fn source(&self) -> Source {
        match self {
            Self::Nvme(_) => Source::Nvme("LBA formats"),
            Self::Ata(_) => Source::AtaLog("2Fh, Sector Configuration"),
            Self::Scsi(_) => Source::Scsi("VPD page B4h, supported block lengths"),
        }
    }

    /// Returns the sizes without relative performance, of an ATA or SCSI drive.
    pub fn sizes(&self) -> &[BlockSize] {
        match self {
            Self::Nvme(_) => &[],
            Self::Ata(sizes) | Self::Scsi(sizes) => sizes,
        }
    }
}

/// The sector formats that an NVMe namespace can be formatted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbaFormats {
    /// The index in `list` of the one in force.
    pub current: u8,
    /// All of them.
    pub list: Vec<LbaFormat>,
    /// Whether and how its controller formats namespaces, where that was queried.
    pub command: Option<FormatNvm>,
}

impl LbaFormats {
    /// Returns the format in force.
    pub fn current(&self) -> Option<LbaFormat> {
        self.list.get(usize::from(self.current)).copied()
    }

    /// The index and format that the drive reports as fastest, with the same metadata; of equals, the largest block.
    pub fn faster(&self) -> Option<(usize, LbaFormat)> {
        let current = self.current()?;
        let usable = |(_, format): &(usize, LbaFormat)| {
            let is_faster = format.performance < current.performance;
            is_faster && format.logical.is_some() && format.metadata == current.metadata
        };
        let candidates = self.list.iter().copied().enumerate().filter(usable);
        candidates.min_by_key(|(place, format)| {
            (format.performance, std::cmp::Reverse(format.logical.map(BlockSize::get)), *place)
        })
    }
}

impl AtomicWrites {
    /// Where a partition must start for atomic writes (`bdev_can_atomic_write`, include/linux/blkdev.h).
    pub fn start_boundary(self) -> Option<Boundary> {
        Boundary::multiples_of(self.unit_min.max(self.boundary))
    }
}

/// The usual names for pairs of logical and physical sector size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorFormat {
    /// 512-byte logical and physical sectors.
    Native512,
    /// 512-byte logical sectors on 4096-byte physical ones.
    Emulated512,
    /// 4096-byte logical and physical sectors.
    Native4K,
    /// Anything else.
    Other,
}

impl SectorFormat {
    /// Returns the name of this pair of logical and physical sector size.
    pub fn of(logical: BlockSize, physical: ByteCount) -> Self {
        match (logical.get(), physical.get()) {
            (512, 512) => Self::Native512,
            (512, 4096) => Self::Emulated512,
            (4096, 4096) => Self::Native4K,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for SectorFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native512 => "512n",
            Self::Emulated512 => "512e",
            Self::Native4K => "4Kn",
            Self::Other => "other",
        })
    }
}

/// What may hide the physical sectors of a disk that reports 512-byte ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    /// The drive: many of its kind and time did.
    Drive,
    /// The host of a virtual machine: what the disk lies on is not known.
    Host,
}

/// Everything known about a device's sectors. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Topology {
    /// The smallest addressable unit.
    #[serde(rename = "logical_sector_bytes")]
    pub logical: Figure<BlockSize>,
    /// The smallest unit that can be written to the medium.
    #[serde(rename = "physical_sector_bytes")]
    pub physical: Figure<ByteCount>,
    /// The offset of the first physical sector boundary; -1 if the kernel reports that the device is
    /// misaligned.
    #[serde(rename = "alignment_offset_bytes")]
    pub alignment_offset: Figure<AlignmentOffset>,
    /// The smallest I/O without a penalty.
    #[serde(rename = "minimum_io_bytes", skip_serializing_if = "Option::is_none")]
    pub io_min: Option<Figure<ByteCount>>,
    /// The I/O size that the device prefers; 0 if the kernel rejects the drive's value.
    #[serde(rename = "optimal_io_bytes", skip_serializing_if = "Option::is_none")]
    pub io_opt: Option<Figure<ByteCount>>,
    /// The unit in which an SSD maps addresses to flash. Smaller writes cost a read-modify-write of the unit.
    #[serde(rename = "indirection_unit_bytes", skip_serializing_if = "Option::is_none")]
    pub indirection_unit: Option<Figure<ByteCount>>,
    /// The number of bytes that an array stores on one member before it continues on the next (chunk, stripe
    /// unit).
    #[serde(rename = "chunk_bytes", skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Figure<ByteCount>>,
    /// The data in a full stripe: the chunk size times the number of members that hold data.
    #[serde(rename = "stripe_bytes", skip_serializing_if = "Option::is_none")]
    pub stripe: Option<Figure<ByteCount>>,
    /// The size of the flash's erase block.
    #[serde(rename = "erase_block_bytes", skip_serializing_if = "Option::is_none")]
    pub erase_block: Option<Figure<ByteCount>>,
    /// The sizes of atomic writes; absent if the device does not support them.
    #[serde(rename = "atomic_writes", skip_serializing_if = "Option::is_none")]
    pub atomic: Option<Figure<AtomicWrites>>,
    /// The optimal I/O size that makes the kernel call a stacked device misaligned although offsets agree.
    #[serde(skip)]
    pub stacked_optimum: Option<StackedOptimum>,
    /// The sectors that the drive can be set to, if it was queried and lists them.
    #[serde(skip)]
    pub formats: Option<Formats>,
    /// Why it may have larger physical sectors than the 512-byte ones that it reports.
    #[serde(skip)]
    pub may_hide: Option<Hides>,
    /// The virtual machine that uses the device as a disk, if any; absent without `--domain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
}

/// A disk of a virtual machine, and the sector sizes that the guest sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Guest {
    /// The name of the virtual machine.
    pub domain: String,
    /// The name of the disk in the guest, such as `vda`.
    pub disk: String,
    /// Whether the virtual machine is running.
    pub is_running: bool,
    /// The sector sizes that the guest sees; absent if they are those of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Sectors>,
    /// The sector sizes of the storage behind the disk, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Sectors>,
}

/// The sector sizes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sectors {
    /// The logical sector size.
    #[serde(rename = "logical_sector_bytes")]
    pub logical: BlockSize,
    /// The physical sector size.
    #[serde(rename = "physical_sector_bytes")]
    pub physical: ByteCount,
}

impl Topology {
    /// Makes this the topology that a guest sees: its table's logical sector, and the larger physical one.
    pub fn show_to(&mut self, guest: Guest) {
        const COUNTS: &str = "the guest's partition table uses the sectors that the guest sees";
        if let Some(Sectors { logical, physical }) = guest.shown {
            match self.logical.source() {
                Source::Assumed => self.logical = Figure::new(logical, Source::Guest),
                _ => self.logical.overrule(logical, Source::Guest, COUNTS),
            }
            self.physical.use_larger(physical, Source::Guest);
        }
        self.guest = Some(guest);
    }

    /// For an image: 512-byte logical sectors, until its table says otherwise, and 4096-byte physical ones, right for
    /// 512, too.
    pub fn unknown() -> Self {
        Self {
            logical: Figure::new(BlockSize::B512, Source::Assumed),
            physical: Figure::new(USUAL_PHYSICAL, Source::Assumed),
            alignment_offset: Figure::new(AlignmentOffset::Bytes(ByteCount::ZERO), Source::Assumed),
            io_min: None,
            io_opt: None,
            indirection_unit: None,
            chunk: None,
            stripe: None,
            erase_block: None,
            atomic: None,
            stacked_optimum: None,
            formats: None,
            may_hide: None,
            guest: None,
        }
    }

    /// Returns the alignment offset; zero where the kernel knows none (-1).
    pub fn phase(&self) -> ByteCount {
        match self.alignment_offset.value() {
            AlignmentOffset::Bytes(bytes) => bytes,
            AlignmentOffset::Misaligned => ByteCount::ZERO,
        }
    }

    /// Returns the physical sector boundaries.
    pub fn physical_boundary(&self) -> Option<Boundary> {
        self.boundary_of(self.physical.value())
    }

    /// Returns boundaries every `size` bytes, in phase with the device's physical sectors.
    pub fn boundary_of(&self, size: ByteCount) -> Option<Boundary> {
        Boundary::new(size, self.phase())
    }

    /// The larger logical sector that best fills the physical ones (ATA, SCSI; NVMe: [`LbaFormats::faster`]).
    pub fn larger_sector(&self) -> Option<BlockSize> {
        let sizes = self.formats.as_ref()?.sizes().iter().copied();
        let fits = |size: &BlockSize| *size > self.logical.value() && size.bytes() <= self.physical.value();
        sizes.filter(fits).max()
    }

    /// Returns the name of this pair of logical and physical sector size.
    pub fn format(&self) -> SectorFormat {
        SectorFormat::of(self.logical.value(), self.physical.value())
    }

    /// Uses the block size that the partition table counts in, where it was only assumed so far.
    pub fn adopt_table_block(&mut self, block: BlockSize) {
        if *self.logical.source() != Source::Assumed {
            return;
        }
        self.logical = Figure::new(block, Source::Table);
        if block.bytes() > self.physical.value() {
            self.physical.overrule(block.bytes(), Source::Derived(AT_LEAST_LOGICAL), AT_LEAST_LOGICAL);
        }
    }
}

/// How many members of an md array hold data in a stripe. RAID 10: near copies (`raid10_nr_stripes`).
pub fn striped_data_members(level: i32, raid_disks: u64, layout: u64) -> Option<u64> {
    let data = match level {
        0 => raid_disks,
        4 | 5 => raid_disks.checked_sub(1)?,
        6 => raid_disks.checked_sub(2)?,
        10 => {
            let near_copies = layout & 0xff;
            let is_even = near_copies != 0 && raid_disks.is_multiple_of(near_copies);
            if is_even { raid_disks / near_copies } else { raid_disks }
        }
        _ => return None,
    };
    (data > 1).then_some(data)
}
