//! What is known of a device's sectors, and who says so.
//!
//! The law of this module: a figure is never without its source; when sources disagree all are kept, one is
//! chosen, and the reason stands beside it.

use std::fmt;

use straddle_units::{BlockSize, Boundary, ByteCount};

use crate::identify::LbaFormat;

/// Who says a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A sysfs attribute, by its name below the device's directory.
    Sysfs(&'static str),
    /// A block-device ioctl, by its name.
    Ioctl(&'static str),
    /// ATA IDENTIFY DEVICE, with the words.
    Ata(&'static str),
    /// A SCSI command or VPD page.
    Scsi(&'static str),
    /// NVMe Identify, with the field.
    Nvme(&'static str),
    /// The list of drives known to misreport, with the model pattern that matched.
    Quirk(&'static str),
    /// `--assume` or `--logical`: the user's word.
    Declared,
    /// A probe's timing of the drive itself.
    Measured,
    /// The partition table, which counts in this block size.
    Table,
    /// An image's container, with the field.
    Container(&'static str),
    /// The profile of a modelled drive, with the key.
    Profile(&'static str),
    /// Nothing said anything; this is the value that is safe in doubt.
    Assumed,
    /// Computed from other figures, as the text says.
    Derived(&'static str),
}

impl Source {
    /// An optimal I/O size that is the kernel's or the host adapter's limit on requests, and no word of the drive.
    pub const KERNEL_LIMIT: Self =
        Self::Derived("sysfs queue/optimal_io_size, which is the kernel's own limit (queue/max_sectors_kb)");
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs(attribute) => write!(f, "sysfs {attribute}"),
            Self::Ioctl(name) => write!(f, "ioctl {name}"),
            Self::Ata(words) => write!(f, "ATA IDENTIFY {words}"),
            Self::Scsi(page) => write!(f, "SCSI {page}"),
            Self::Nvme(field) => write!(f, "NVMe Identify {field}"),
            Self::Quirk(model) => write!(f, "list of misreporting drives: {model}"),
            Self::Declared => f.write_str("declared"),
            Self::Measured => f.write_str("measured"),
            Self::Table => f.write_str("partition table"),
            Self::Container(field) => f.write_str(field),
            Self::Profile(key) => write!(f, "profile, {key}"),
            Self::Assumed => f.write_str("assumed"),
            Self::Derived(how) => write!(f, "derived: {how}"),
        }
    }
}

/// One source's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim<T> {
    /// What it says.
    pub value: T,
    /// Who says it.
    pub source: Source,
}

/// A figure: the chosen claim, every other one, and why this one was chosen when they disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    chosen: Claim<T>,
    others: Vec<Claim<T>>,
    why: Option<&'static str>,
}

impl<T: Copy + PartialEq> Figure<T> {
    /// A figure that one source says.
    pub fn new(value: T, source: Source) -> Self {
        Self { chosen: Claim { value, source }, others: Vec::new(), why: None }
    }

    /// The value in force.
    pub fn value(&self) -> T {
        self.chosen.value
    }

    /// Who says the value in force.
    pub fn source(&self) -> &Source {
        &self.chosen.source
    }

    /// What the other sources say, agreeing or not.
    pub fn others(&self) -> &[Claim<T>] {
        &self.others
    }

    /// The claims that disagree with the one in force.
    pub fn disagreeing(&self) -> impl Iterator<Item = &Claim<T>> {
        self.others.iter().filter(|claim| claim.value != self.chosen.value)
    }

    /// Why the value in force was preferred; only where sources disagree.
    pub fn why(&self) -> Option<&'static str> {
        self.disagreeing().next().and(self.why)
    }

    /// Adds a claim that does not change the value in force; `why` says why not, should it disagree.
    pub fn also(&mut self, value: T, source: Source, why: &'static str) {
        if value != self.chosen.value {
            self.why = Some(why);
        }
        self.others.push(Claim { value, source });
    }

    /// Puts `value` in force over what was; `why` says why, should they disagree.
    pub fn overrule(&mut self, value: T, source: Source, why: &'static str) {
        if value != self.chosen.value {
            self.why = Some(why);
        }
        let old = std::mem::replace(&mut self.chosen, Claim { value, source });
        self.others.insert(0, old);
    }
}

/// Adds a claim to a figure that may have none yet; the first one stays in force.
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

/// Where a device's first physical sector boundary lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignmentOffset {
    /// At this byte (0 on nearly every drive).
    Bytes(ByteCount),
    /// Nowhere: the kernel says -1, the members of a stacked device contradict each other.
    Misaligned,
}

/// What a device can write atomically, in bytes (Documentation/ABI/stable/sysfs-block, kernel 6.11 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicWrites {
    /// The smallest atomic write, which is also the alignment it needs.
    pub unit_min: ByteCount,
    /// The largest atomic write.
    pub unit_max: ByteCount,
    /// No atomic write may cross a multiple of this; 0 when there is no such boundary.
    pub boundary: ByteCount,
}

/// An optimal I/O size because of which alone the kernel calls a stacked device misaligned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackedOptimum {
    /// The device below that says it.
    pub member: String,
    /// What it says.
    pub size: ByteCount,
    /// The physical sector of which that is no multiple.
    pub physical: ByteCount,
}

/// The sector formats that an NVMe namespace can be formatted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LbaFormats {
    /// The one in force, by its place in `list`.
    pub current: u8,
    /// All of them.
    pub list: Vec<LbaFormat>,
}

impl LbaFormats {
    /// The format in force.
    pub fn current(&self) -> Option<LbaFormat> {
        self.list.get(usize::from(self.current)).copied()
    }

    /// The format, by its place, that the drive says is faster than the one in force, with as many bytes of metadata:
    /// the best of them, and of equal ones that with the largest block.
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
    /// The multiple at which a partition must start for the kernel to keep atomic writes on it: the larger of
    /// unit and boundary (`bdev_can_atomic_write`, include/linux/blkdev.h).
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

/// Everything known of a device's sectors. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The smallest addressable unit.
    pub logical: Figure<BlockSize>,
    /// The unit that the medium really writes.
    pub physical: Figure<ByteCount>,
    /// Where the first physical sector boundary lies.
    pub alignment_offset: Figure<AlignmentOffset>,
    /// The smallest I/O without a penalty.
    pub io_min: Option<Figure<ByteCount>>,
    /// The I/O size that the device prefers; 0 where the kernel has dropped what the drive says.
    pub io_opt: Option<Figure<ByteCount>>,
    /// The unit in which an SSD maps: smaller writes cost a read-modify-write inside it.
    pub indirection_unit: Option<Figure<ByteCount>>,
    /// What one member of an array holds before the next one follows (chunk, stripe unit).
    pub chunk: Option<Figure<ByteCount>>,
    /// A full stripe's data: chunk times data members.
    pub stripe: Option<Figure<ByteCount>>,
    /// The erase block of flash.
    pub erase_block: Option<Figure<ByteCount>>,
    /// Atomic writes, where offered.
    pub atomic: Option<Figure<AtomicWrites>>,
    /// Why the kernel calls a stacked device misaligned although the offsets below agree, where it does.
    pub stacked_optimum: Option<StackedOptimum>,
    /// The sector formats of an NVMe namespace, where it was asked.
    pub formats: Option<LbaFormats>,
}

impl Topology {
    /// What holds for an image of which nothing is known: 512-byte logical blocks (the table will say), and
    /// 4096-byte physical sectors, because aligning for them is right on 512-byte ones too.
    pub fn unknown() -> Self {
        Self {
            logical: Figure::new(BlockSize::B512, Source::Assumed),
            physical: Figure::new(ByteCount::new(4096), Source::Assumed),
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
        }
    }

    /// The byte of the first physical sector boundary; zero where the kernel knows none (-1).
    pub fn phase(&self) -> ByteCount {
        match self.alignment_offset.value() {
            AlignmentOffset::Bytes(bytes) => bytes,
            AlignmentOffset::Misaligned => ByteCount::ZERO,
        }
    }

    /// The physical sector boundaries.
    pub fn physical_boundary(&self) -> Option<Boundary> {
        self.boundary_of(self.physical.value())
    }

    /// Boundaries of `size` bytes on this device, in the phase of its physical sectors.
    pub fn boundary_of(&self, size: ByteCount) -> Option<Boundary> {
        Boundary::new(size, self.phase())
    }

    /// The name for this pair of logical and physical sector.
    pub fn format(&self) -> SectorFormat {
        match (self.logical.value().get(), self.physical.value().get()) {
            (512, 512) => SectorFormat::Native512,
            (512, 4096) => SectorFormat::Emulated512,
            (4096, 4096) => SectorFormat::Native4K,
            _ => SectorFormat::Other,
        }
    }

    /// Takes the block size that the partition table counts in, where so far it was only assumed.
    pub fn adopt_table_block(&mut self, block: BlockSize) {
        if *self.logical.source() != Source::Assumed {
            return;
        }
        self.logical = Figure::new(block, Source::Table);
        if block.bytes() > self.physical.value() {
            self.physical.overrule(
                block.bytes(),
                Source::Derived("a physical sector holds at least one logical one"),
                "a physical sector holds at least one logical one",
            );
        }
    }
}

/// How many members of a Linux software RAID hold data in each stripe, as the kernel counts them for its optimal I/O size;
/// `None` where nothing is striped. `level` is 0, 4, 5, 6 or 10. RAID 4 and 5 give one member's worth to parity, RAID 6
/// two; RAID 10 counts by near copies, the low byte of its layout (`raid10_nr_stripes`, drivers/md/raid10.c).
pub fn striped_data_members(level: i32, raid_disks: u64, layout: u64) -> Option<u64> {
    let data = match level {
        0 => raid_disks,
        4 | 5 => raid_disks.checked_sub(1)?,
        6 => raid_disks.checked_sub(2)?,
        10 => {
            let near_copies = layout & 0xff;
            if near_copies != 0 && raid_disks.is_multiple_of(near_copies) {
                raid_disks / near_copies
            } else {
                raid_disks
            }
        }
        _ => return None,
    };
    (data > 1).then_some(data)
}
