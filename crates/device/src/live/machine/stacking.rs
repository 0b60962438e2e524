//! Why the kernel calls a stacked device misaligned (-1).
//!
//! The law of this module: it computes what the kernel computes (`blk_stack_limits`, block/blk-settings.c), with the members'
//! optimal sizes and without. Only where those alone make the difference are they the cause; whatever is not known for
//! certain leaves the kernel's word as it is.

use straddle_units::{ByteCount, KERNEL_SECTOR, LbaCount};

use super::{Entry, Machine};
use crate::live::{LiveKind, MAX_DEPTH};
use crate::sysfs::Attributes;
use crate::topology::{AlignmentOffset, StackedOptimum};

/// The least that a stacked device starts with (`blk_set_stacking_limits`).
const SECTOR: u64 = 512;

/// The kernel keeps these figures in 32 bits.
const WORD: u64 = 1 << 32;

/// The limits of a device that count for its alignment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    logical: u64,
    physical: u64,
    io_min: u64,
    io_opt: u64,
    alignment_offset: u64,
    is_misaligned: bool,
}

impl Limits {
    /// Of a device above, before anything is below it; `chunk` is what md gives an array that is striped.
    fn empty(chunk: u64) -> Self {
        let io_min = chunk.max(SECTOR);
        Self {
            logical: SECTOR,
            physical: SECTOR,
            io_min,
            io_opt: 0,
            alignment_offset: 0,
            is_misaligned: false,
        }
    }

    /// How far byte `start` is before a boundary: `queue_limit_alignment_offset`.
    fn offset_at(&self, start: u64) -> u64 {
        let granularity = self.physical.max(self.io_min);
        (granularity + self.alignment_offset - start % granularity) % granularity
    }

    /// Puts the device on one that has the limits `below`, from byte `start` of that on: `blk_stack_limits`.
    fn stack_on(&mut self, below: &Self, start: u64) {
        self.is_misaligned |= below.is_misaligned;
        let alignment = below.offset_at(start);
        if self.alignment_offset != alignment {
            let top = self.physical.max(self.io_min) + self.alignment_offset;
            let bottom = below.physical.max(below.io_min) + alignment;
            self.is_misaligned |= !top.max(bottom).is_multiple_of(top.min(bottom));
        }
        self.logical = self.logical.max(below.logical);
        self.physical = self.physical.max(below.physical);
        self.io_min = self.io_min.max(below.io_min);
        self.io_opt = lcm_not_zero(self.io_opt, below.io_opt) % WORD;
        let mut whole = |figure: &mut u64, unit: u64, otherwise: u64| {
            if !figure.is_multiple_of(unit) {
                *figure = otherwise;
                self.is_misaligned = true;
            }
        };
        whole(&mut self.physical, self.logical, self.logical);
        whole(&mut self.io_min, self.physical, self.physical);
        whole(&mut self.io_opt, self.physical, 0);
        self.alignment_offset =
            lcm_not_zero(self.alignment_offset, alignment) % self.physical.max(self.io_min);
        self.is_misaligned |= !self.alignment_offset.is_multiple_of(self.logical);
    }
}

/// The least common multiple, or the one that is not zero.
fn lcm_not_zero(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 {
        return a.max(b);
    }
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    // Both are of 32 bits.
    (a / x).saturating_mul(b)
}

/// A device below a stacked one.
struct Member {
    name: String,
    limits: Limits,
    /// Where the stacked device's data begins on it, in bytes from the start of its disk.
    start: u64,
    /// What the limits say of it already: that an optimum below is the cause.
    cause: Option<StackedOptimum>,
}

impl Machine {
    /// The optimal I/O size because of which the kernel shows alignment offset -1 for the disk `name`, and the offset that it
    /// would show without; `None` where the offsets below disagree, or not all is known of them.
    pub fn optimum_that_misaligns(&self, name: &str) -> Option<(StackedOptimum, AlignmentOffset)> {
        self.optimum_behind(name, 0)
    }

    /// Whether the offsets below the disk `name` disagree, although the kernel shows offset `shown` for it. Linux 6.1
    /// shows -1 then; 6.12 forgets that wherever an offset is left (`blk_validate_limits`). True only where the kernel computes
    /// just this offset.
    pub fn forgets_misalignment(&self, name: &str, shown: ByteCount) -> bool {
        let entry = self.devices.get(name);
        let members = entry.and_then(|entry| Some((entry, self.members(name, entry, 0)?)));
        members.is_some_and(|(entry, members)| {
            let chunk = entry.directory.number("md/chunk_size").unwrap_or(0);
            let limits = stacked(&members, chunk, |limits| Limits { io_opt: 0, ..limits });
            shown > ByteCount::ZERO && limits.is_misaligned && limits.alignment_offset == shown.get()
        })
    }

    fn optimum_behind(&self, name: &str, depth: usize) -> Option<(StackedOptimum, AlignmentOffset)> {
        let entry = self.devices.get(name).filter(|_| depth < MAX_DEPTH)?;
        let members = self.members(name, entry, depth)?;
        let chunk = entry.directory.number("md/chunk_size").unwrap_or(0);
        let with = stacked(&members, chunk, |limits| limits);
        let without = stacked(&members, chunk, |limits| Limits { io_opt: 0, ..limits });
        if without.is_misaligned {
            return None;
        }
        let offset = AlignmentOffset::Bytes(ByteCount::new(without.alignment_offset));
        let below = members.iter().find_map(|member| member.cause.clone());
        let is_culprit = |member: &&Member| !member.limits.io_opt.is_multiple_of(without.physical);
        let own = || {
            let culprit = members.iter().find(is_culprit)?;
            Some(StackedOptimum {
                member: culprit.name.clone(),
                size: ByteCount::new(culprit.limits.io_opt),
                physical: ByteCount::new(without.physical),
            })
        };
        let cause = below.or_else(|| own().filter(|_| with.is_misaligned))?;
        Some((cause, offset))
    }

    /// What the device stands on, all of it; `None` where that is not known.
    fn members(&self, name: &str, entry: &Entry, depth: usize) -> Option<Vec<Member>> {
        let size = entry.directory.number("size").and_then(super::bytes_of_sectors)?;
        let members: Option<Vec<Member>> = match self.describe(name, entry, size, &mut Vec::new()).0 {
            LiveKind::Md(array) => {
                let all = array.members.iter();
                all.map(|member| self.member(&member.device, member.offset?.get(), depth)).collect()
            }
            LiveKind::Dm(mapping) => {
                let on = mapping.targets.as_ref()?.iter().flat_map(|target| &target.on);
                let named = on.map(|on| {
                    let first = on.runs.iter().min_by_key(|run| run.span.start())?;
                    self.member(self.numbers.get(&on.device)?, first.offset.get(), depth)
                });
                named.collect()
            }
            LiveKind::Disk => paths_of(name, self.devices.keys())
                .into_iter()
                .map(|path| self.member(path, 0, depth))
                .collect(),
            _ => None,
        };
        members.filter(|members| !members.is_empty())
    }

    /// The device `name` as a member whose data begins at byte `start` of it.
    fn member(&self, name: &str, start: u64, depth: usize) -> Option<Member> {
        let entry = self.devices.get(name)?;
        let (disk, before) = match &entry.disk {
            Some(disk) => {
                let sectors = LbaCount::new(entry.directory.number("start")?);
                (disk.as_str(), sectors.to_bytes(KERNEL_SECTOR)?.get())
            }
            None => (name, 0),
        };
        let directory = &self.devices.get(disk)?.directory;
        let figure = |attribute: &str| directory.number(&format!("queue/{attribute}"));
        let shown = directory.text("alignment_offset");
        let shown = crate::evidence::alignment_offset(&shown?)?;
        let (cause, offset) = match shown {
            AlignmentOffset::Bytes(_) => (None, shown),
            // Not its offsets either: what is below it is the cause, or it stays what it is.
            AlignmentOffset::Misaligned => {
                let (cause, offset) = self.optimum_behind(disk, depth + 1)?;
                (Some(cause), offset)
            }
        };
        let AlignmentOffset::Bytes(offset) = offset else { return None };
        let power = |size: u64| size.is_power_of_two().then_some(size);
        let limits = Limits {
            logical: power(figure("logical_block_size")?)?,
            physical: power(figure("physical_block_size")?)?,
            io_min: figure("minimum_io_size").filter(|size| *size > 0)?,
            io_opt: figure("optimal_io_size")? % WORD,
            alignment_offset: offset.get(),
            is_misaligned: false,
        };
        Some(Member { name: disk.to_owned(), limits, start: before.checked_add(start)?, cause })
    }
}

fn stacked(members: &[Member], chunk: u64, change: impl Fn(Limits) -> Limits) -> Limits {
    let mut limits = Limits::empty(chunk);
    for member in members {
        limits.stack_on(&change(member.limits), member.start);
    }
    limits
}

/// The paths of an NVMe namespace that the kernel shows once: `nvme0n1` has `nvme0c0n1`, `nvme0c1n1`, …
/// (`nvme_mpath_set_disk_name`, drivers/nvme/host/multipath.c).
fn paths_of<'a>(name: &str, devices: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let split = |name: &str| {
        let (subsystem, namespace) = name.strip_prefix("nvme")?.split_once('n')?;
        Some((subsystem.to_owned(), namespace.to_owned()))
    };
    let Some((subsystem, namespace)) = split(name) else { return Vec::new() };
    let is_path = |device: &&str| {
        split(device).is_some_and(|(controller, of)| {
            let head = controller.split_once('c').map(|(head, _)| head);
            of == namespace && head == Some(subsystem.as_str())
        })
    };
    devices.map(String::as_str).filter(is_path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(physical: u64, io_opt: u64, alignment_offset: u64) -> Limits {
        Limits { physical, io_min: physical, io_opt, alignment_offset, ..Limits::empty(0) }
    }

    fn member(limits: Limits, start: u64) -> Member {
        Member { name: String::new(), limits, start, cause: None }
    }

    #[test]
    fn stacks_as_the_kernel_does() {
        // What Linux 6.1 showed of arrays and mappings of scsi_debug disks.
        let (d0, d7, d1) = (disk(4096, 524_288, 0), disk(4096, 524_288, 3584), disk(4096, 524_288, 512));
        for (below, chunk, expected) in [
            (vec![(d0, 2048 * 512), (d0, 2049 * 512)], 65536, None), // raid5, the second member off
            (vec![(d0, 2048 * 512), (d0, 2048 * 512)], 65536, Some(0)),
            (vec![(d0, 512)], 0, Some(3584)), // dm-linear at +1
            (vec![(d0, 7 * 512)], 0, Some(512)),
            (vec![(d0, 0), (d0, 512)], 0, None),             // two segments
            (vec![(d0, 1056 * 1024 + 7168)], 0, Some(1024)), // raid1 with --data-offset=7K
            (vec![(d7, 0)], 0, Some(3584)),
            (vec![(d1, 512)], 0, Some(0)),
        ] {
            let members: Vec<Member> =
                below.into_iter().map(|(limits, start)| member(limits, start)).collect();
            let found = stacked(&members, chunk, |limits| limits);
            assert_eq!((!found.is_misaligned).then_some(found.alignment_offset), expected);
        }
    }

    #[test]
    fn an_optimum_alone_misaligns() {
        for (physical, io_opt, misaligned) in [
            (512, 33_553_920, false),
            (4096, 33_553_920, true),
            (4096, 33_550_336, false),
            (4096, 512, true), // NVMe without NOWS before Linux 6.11
            (4096, 0, false),
        ] {
            let members = [member(disk(physical, io_opt, 0), 0)];
            assert_eq!(
                stacked(&members, 0, |limits| limits).is_misaligned,
                misaligned,
                "{physical} {io_opt}"
            );
            assert!(!stacked(&members, 0, |limits| Limits { io_opt: 0, ..limits }).is_misaligned);
        }
    }

    #[test]
    fn a_namespace_has_its_paths() {
        let names = ["nvme0n1", "nvme0c0n1", "nvme0c12n1", "nvme0c0n2", "nvme1c0n1", "nvme0n1p1", "sda"];
        let names = names.map(str::to_owned);
        assert_eq!(paths_of("nvme0n1", names.iter()), ["nvme0c0n1", "nvme0c12n1"]);
        assert!(paths_of("sda", names.iter()).is_empty() && paths_of("nvme0c0n1", names.iter()).is_empty());
    }
}
