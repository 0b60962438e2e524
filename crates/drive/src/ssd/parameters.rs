//! Checked: the drive fits its tables, garbage collection can always make room, and the model's size is bounded.

use serde::Deserialize;
use straddle_units::io::Nanos;

use crate::ssd::index::{Slot, Superblock, Unit};
use crate::ssd::narrow;
use crate::ssd::start::FlashStart;

/// Smallest and largest indirection unit and flash page, in bytes.
const UNIT_BYTES: (u64, u64) = (512, 1 << 20);
/// The unit in which the buffer tracks written data, in bytes.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Largest write buffer, in bytes and in units.
const BUFFER_BYTES: u64 = 1 << 32;
const BUFFER_UNITS: u64 = 1 << 20;
/// Times of flash operations, in microseconds.
const OPERATION_US: (f64, f64) = (0.001, 1e7);
/// Largest number of superblocks of a drive, and of indirection units in a superblock.
const SUPERBLOCKS: u64 = 1 << 20;
const SLOTS_PER_SUPERBLOCK: u64 = 1 << 22;
/// Beyond the capacity: one open for the host and one for garbage collection, one kept free for the latter, and one
/// more, so that some superblock always holds stale data.
const SPARE_SUPERBLOCKS: u64 = 4;
/// The unit of error correction, the smallest transfer over the channel. Typical of LDPC codes since 2015.
const CODEWORD_BYTES: u64 = 4096;

/// The `[flash]` section of a profile, as it is written there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashFile {
    /// The unit of the mapping table: no write to flash is smaller.
    pub indirection_unit_bytes: u64,
    /// What a die programs at a time; if all its planes are programmed together, their pages in total.
    pub page_bytes: u64,
    /// Pages of a die that are erased together.
    pub pages_per_block: u64,
    /// Number of dies, which read and program independently.
    pub dies: u64,
    /// Number of channels, each of which carries the data of its dies one after the other.
    pub channels: u64,
    /// Time to read a page from the cells into the die's register, in microseconds.
    pub read_us: f64,
    /// Time to program a page from the register into the cells, in microseconds.
    pub program_us: f64,
    /// Time to erase a block, in microseconds.
    pub erase_us: f64,
    /// Transfer rate between register and controller, in megabytes per second.
    pub channel_mb_s: f64,
    /// Size of the write buffer, a whole number of indirection units.
    pub buffer_bytes: u64,
    /// Flash beyond the capacity, as a fraction of the capacity.
    pub over_provisioning: f64,
    /// Whether the buffer's contents survive a power cut.
    #[serde(default)]
    pub power_loss_protection: bool,
    /// The state in which the drive starts.
    #[serde(default)]
    pub start: FlashStart,
    /// On a memory card, which maps whole superblocks: the number of them that take writes at a time.
    #[serde(default)]
    pub open_superblocks: Option<u32>,
    /// Controller time per command, one command at a time; the highest command rate is its inverse.
    #[serde(default)]
    pub command_us: f64,
    /// How long data may stay in the buffer without another reason to write it.
    #[serde(default = "default_destage_after_ms")]
    pub destage_after_ms: f64,
}

/// Typical of idle timers, not measured.
const fn default_destage_after_ms() -> f64 {
    100.0
}

/// A value with which the flash parameters do not form a possible drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value} is not valid ({reason})")]
pub struct FlashError {
    /// The key of the `[flash]` section.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

straddle_units::error_kind!(FlashError: Usage);

impl FlashError {
    fn new(key: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), reason: reason.into() }
    }
}

/// The checked parameters of a solid-state drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdParameters {
    pub(super) layout: Layout,
    pub(super) timing: Timing,
    /// Units that the buffer holds.
    pub(super) buffer_units: u32,
    pub(super) destage_after: u64,
    pub(super) power_loss_protection: bool,
    pub(super) start: FlashStart,
    pub(super) open_superblocks: Option<u32>,
}

/// A *superblock* is one block of each die; its pages are used in turn from die to die. A *group* is what is
/// programmed together: one page with several units, or the several pages of one unit. A *slot* is the place
/// of a unit: the superblock's number in the high bits, the place in the superblock in the low `slot_shift`
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) capacity: u64,
    pub(super) unit_shift: u32,
    pub(super) units: u32,
    pub(super) page_bytes: u32,
    pub(super) codeword_bytes: u32,
    pub(super) dies: u32,
    pub(super) channels: u32,
    pub(super) group_shift: u32,
    pub(super) pages_per_group: u32,
    pub(super) groups: u32,
    pub(super) slots: u32,
    pub(super) slot_shift: u32,
    pub(super) superblocks: u32,
    /// Groups in flight that keep every die busy, with one more waiting at each.
    pub(super) window: u32,
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) read: u64,
    pub(super) program: u64,
    pub(super) erase: u64,
    pub(super) channel_nanos_per_mib: u64,
    pub(super) command: u64,
}

impl Layout {
    pub(super) const fn unit_bytes(&self) -> u64 {
        1 << self.unit_shift
    }

    /// Bytes of a group, which are programmed together.
    pub(super) fn group_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.pages_per_group)
    }

    /// Units of a group, which are programmed together.
    pub(super) const fn slots_per_group(&self) -> u32 {
        1 << self.group_shift
    }

    /// The slot of a unit on a drive that was written once from end to end.
    pub(super) const fn slot_in_order(&self, unit: Unit) -> Slot {
        self.slot(Superblock::new(unit.get() / self.slots), unit.get() % self.slots)
    }

    pub(super) const fn slot(&self, superblock: Superblock, place: u32) -> Slot {
        Slot::new((superblock.get() << self.slot_shift) | place)
    }

    pub(super) const fn split(&self, slot: Slot) -> (Superblock, u32) {
        (Superblock::new(slot.get() >> self.slot_shift), slot.get() & ((1 << self.slot_shift) - 1))
    }

    /// The number of the first page of a slot, counted over the dies of its superblock.
    pub(super) const fn first_page(&self, slot: Slot) -> u32 {
        (self.split(slot).1 >> self.group_shift) * self.pages_per_group
    }
}

impl SsdParameters {
    /// The parameters for a profile's `[flash]` section, with `capacity` bytes for the host.
    pub fn new(raw: &FlashFile, capacity: u64) -> Result<Self, FlashError> {
        let layout = Layout::new(raw, capacity)?;
        let unit = layout.unit_bytes();
        let least = 2 * unit.max(u64::from(layout.page_bytes));
        let most = BUFFER_BYTES.min(BUFFER_UNITS * unit);
        within("buffer_bytes", raw.buffer_bytes, (least, most))?;
        if let Some(open) = raw.open_superblocks {
            within("open_superblocks", open, (1, 1024))?;
            if raw.page_bytes != raw.indirection_unit_bytes {
                let reason = "a memory card programs one page for each indirection unit";
                return Err(FlashError::new("page_bytes", raw.page_bytes, reason));
            }
        }
        let operation = |key, value| nanos(key, value, OPERATION_US, Nanos::from_micros);
        let timing = Timing {
            read: operation("read_us", raw.read_us)?,
            program: operation("program_us", raw.program_us)?,
            erase: operation("erase_us", raw.erase_us)?,
            channel_nanos_per_mib: nanos("channel_mb_s", raw.channel_mb_s, (1.0, 1e5), |rate| {
                Nanos::from_seconds(f64::from(1 << 20) / (rate * 1e6))
            })?,
            command: nanos("command_us", raw.command_us, (0.0, OPERATION_US.1), Nanos::from_micros)?,
        };
        let destage_after = nanos("destage_after_ms", raw.destage_after_ms, (1.0, 1e6), Nanos::from_millis)?;
        Ok(Self {
            layout,
            timing,
            buffer_units: narrow(raw.buffer_bytes >> layout.unit_shift),
            destage_after,
            power_loss_protection: raw.power_loss_protection,
            start: raw.start,
            open_superblocks: raw.open_superblocks,
        })
    }

    /// The unit of the mapping table, in bytes.
    pub const fn indirection_unit(&self) -> u64 {
        self.layout.unit_bytes()
    }

    /// The size of the write buffer, in bytes.
    pub const fn buffer(&self) -> u64 {
        (self.buffer_units as u64) << self.layout.unit_shift
    }

    pub(crate) const fn start_steady(&mut self) {
        self.start = FlashStart::Steady;
    }

    pub(crate) const fn open_superblocks(&self) -> Option<u32> {
        self.open_superblocks
    }

    /// Whether the buffer's contents survive a power cut.
    pub const fn power_loss_protection(&self) -> bool {
        self.power_loss_protection
    }
}

impl Layout {
    fn new(raw: &FlashFile, capacity: u64) -> Result<Self, FlashError> {
        let unit = power_of_two("indirection_unit_bytes", raw.indirection_unit_bytes)?;
        let page = power_of_two("page_bytes", raw.page_bytes)?;
        let dies = within("dies", raw.dies, (1, 4096))?;
        let channels = within("channels", raw.channels, (1, dies))?;
        let pages_per_block = within("pages_per_block", raw.pages_per_block, (1, 1 << 16))?;
        // With less than 0.01, garbage collection writes a hundred bytes to make room for one.
        within("over_provisioning", raw.over_provisioning, (0.01, 4.0))?;
        let pages_per_group = (unit / page).max(1);
        let per_group = (page / unit).max(1);
        let groups = dies * pages_per_block / pages_per_group;
        let superblock = dies * pages_per_block * page;
        if groups == 0 {
            let reason = format!("must not be larger than one block of each die, {superblock} bytes");
            return Err(FlashError::new("indirection_unit_bytes", unit, reason));
        }
        let slots = groups * per_group;
        if slots > SLOTS_PER_SUPERBLOCK {
            let reason = format!(
                "one block of each of {dies} dies would hold {slots} indirection units, more than \
                 {SLOTS_PER_SUPERBLOCK}"
            );
            return Err(FlashError::new("pages_per_block", pages_per_block, reason));
        }
        let units = capacity.div_ceil(unit);
        // In millionths: the units of 2^64 bytes times five million stay far below 2^128.
        let whole = u128::from(units) * u128::from(1_000_000 + per_million(raw.over_provisioning));
        let needed = whole.div_ceil(1_000_000 * u128::from(slots));
        let superblocks = u64::try_from(needed).unwrap_or(u64::MAX);
        let slot_shift = slots.next_power_of_two().trailing_zeros();
        // The table's entries are slots plus one.
        let countable = u128::from(superblocks) << slot_shift < u128::from(u32::MAX);
        if superblocks > SUPERBLOCKS || !countable {
            let reason = format!(
                "{capacity} bytes make {units} units in {superblocks} superblocks, more than the model can \
                 map"
            );
            return Err(FlashError::new("indirection_unit_bytes", unit, reason));
        }
        let spare = superblocks.saturating_sub(units.div_ceil(slots));
        if spare < SPARE_SUPERBLOCKS {
            let reason = format!(
                "there would be {spare} spare superblocks of {superblock} bytes, but garbage collection \
                 needs {SPARE_SUPERBLOCKS}"
            );
            return Err(FlashError::new("over_provisioning", raw.over_provisioning, reason));
        }
        Ok(Self {
            capacity,
            unit_shift: unit.trailing_zeros(),
            units: narrow(units),
            page_bytes: narrow(page),
            codeword_bytes: narrow(CODEWORD_BYTES.min(page).min(unit)),
            dies: narrow(dies),
            channels: narrow(channels),
            group_shift: per_group.trailing_zeros(),
            pages_per_group: narrow(pages_per_group),
            groups: narrow(groups),
            slots: narrow(slots),
            slot_shift,
            superblocks: narrow(superblocks),
            window: narrow((2 * dies).div_ceil(pages_per_group).max(2)),
        })
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0.01 to 4")]
fn per_million(fraction: f64) -> u64 {
    (fraction * 1e6).round() as u64
}

fn power_of_two(key: &'static str, value: u64) -> Result<u64, FlashError> {
    let (low, high) = UNIT_BYTES;
    let is_possible = value.is_power_of_two() && (low..=high).contains(&value);
    let reason = || format!("must be a power of two from {low} to {high}");
    is_possible.then_some(value).ok_or_else(|| FlashError::new(key, value, reason()))
}

fn within<T: Copy + PartialOrd + ToString>(
    key: &'static str,
    value: T,
    (low, high): (T, T),
) -> Result<T, FlashError> {
    let reason = || format!("must be {} to {}", low.to_string(), high.to_string());
    (low..=high).contains(&value).then_some(value).ok_or_else(|| FlashError::new(key, value, reason()))
}

fn nanos(
    key: &'static str,
    value: f64,
    range: (f64, f64),
    convert: impl Fn(f64) -> Option<Nanos>,
) -> Result<u64, FlashError> {
    let converted = convert(within(key, value, range)?).map(Nanos::get);
    converted.ok_or_else(|| FlashError::new(key, value, "must be a time"))
}
