//! The limits of a stacked device, computed as the kernel does (`blk_stack_limits`, block/blk-settings.c): why it is
//! misaligned (-1), and what it would show for the sectors that the disks are taken to have. Anything uncertain
//! leaves the kernel's figure as it is.

use std::fs;
use std::path::Path;

use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset};

use super::{Entry, Machine, usage};
use crate::evidence::{self, Answers};
use crate::live::{LiveKind, MAX_DEPTH};
use crate::sysfs::{Attributes, DeviceKind};
use crate::topology::{AlignmentOffset, Source, StackedOptimum, USUAL_PHYSICAL};

/// `blk_set_stacking_limits`.
const SECTOR: u64 = 512;

/// The kernel keeps these figures in 32 bits.
const WORD: u64 = 1 << 32;

/// In bytes.
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
    fn empty(chunk: u64) -> Self {
        let io_min = chunk.max(SECTOR);
        let (logical, physical) = (SECTOR, SECTOR);
        Self { logical, physical, io_min, io_opt: 0, alignment_offset: 0, is_misaligned: false }
    }

    fn of_stacked(entry: &Entry) -> Self {
        Self::empty(entry.directory.number("md/chunk_size").unwrap_or(0))
    }

    /// From byte `start` to the next boundary (`queue_limit_alignment_offset`).
    fn offset_at(&self, start: u64) -> u64 {
        let granularity = self.physical.max(self.io_min);
        (granularity + self.alignment_offset - start % granularity) % granularity
    }

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

fn lcm_not_zero(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 {
        return a.max(b);
    }
    let common = ByteCount::new(a).common_divisor(ByteCount::new(b)).get();
    // Both figures have 32 bits, so the product fits.
    (a / common).saturating_mul(b)
}

struct Member {
    name: String,
    limits: Limits,
    /// Where the data begins on the member's disk.
    start: u64,
    /// The optimal size that already makes the member misaligned.
    cause: Option<StackedOptimum>,
}

#[derive(Clone, Debug)]
pub(crate) struct Presumed {
    pub(crate) physical: ByteCount,
    pub(crate) offset: AlignmentOffset,
    pub(crate) source: Source,
}

/// The device that the file system of a file is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The kernel's name of the device, or of the partition of it.
    pub name: String,
    /// Its logical sector.
    pub logical: BlockSize,
    /// Its physical sector.
    pub physical: ByteCount,
    /// The first physical sector boundary of each of the file's blocks; zero where blocks are smaller.
    pub offset: AlignmentOffset,
}

impl Machine {
    /// Returns the device that holds the file at `path`, if it is one of this machine (not for NFS or tmpfs).
    pub fn holder(&self, path: &Path) -> Option<Holder> {
        let path = fs::canonicalize(path).ok()?;
        let name = self.mounted_device(usage::mount_of(&self.mounts, &path)?)?;
        let (disk, start) = self.disk_of(&name, 0)?;
        let logical = self.logical(self.devices.get(disk)?)?;
        let presumed = self.presumed(disk)?;
        let physical = presumed.physical;
        let is_whole = rustix::fs::statvfs(&path)
            .is_ok_and(|system| ByteCount::new(system.f_frsize).is_multiple_of(physical));
        let offset = match presumed.offset {
            AlignmentOffset::Bytes(_) if !is_whole => AlignmentOffset::Bytes(ByteCount::ZERO),
            AlignmentOffset::Bytes(phase) => {
                AlignmentOffset::Bytes(Boundary::new(physical, phase)?.to_next(ByteOffset::new(start)))
            }
            AlignmentOffset::Misaligned => AlignmentOffset::Misaligned,
        };
        Some(Holder { name, logical, physical, offset })
    }

    /// What the kernel would show for `name` with the sectors that all disks below are taken to have, passed
    /// on by loop devices. `None` where a device below is not known.
    pub(crate) fn presumed(&self, name: &str) -> Option<Presumed> {
        let (limits, source) = self.presumed_limits(name, 0)?;
        let offset = match limits.is_misaligned {
            true => AlignmentOffset::Misaligned,
            false => AlignmentOffset::Bytes(ByteCount::new(limits.alignment_offset)),
        };
        Some(Presumed { physical: ByteCount::new(limits.physical), offset, source })
    }

    fn presumed_limits(&self, name: &str, depth: usize) -> Option<(Limits, Source)> {
        const BELOW: Source = Source::Derived("the sectors of the devices below");
        let entry = self.devices.get(name).filter(|_| depth < MAX_DEPTH)?;
        let below = match self.kind(name, entry)? {
            LiveKind::Loop(file, offset) => match self.device_of_node(&file) {
                Some(below) => vec![(below, offset.get())],
                // A file begins on a sector; no more is known.
                None => {
                    let file =
                        Limits { physical: USUAL_PHYSICAL.get(), ..Limits::empty(USUAL_PHYSICAL.get()) };
                    let mut limits = Limits::empty(0);
                    limits.stack_on(&file, offset.get());
                    return Some((limits, Source::Assumed));
                }
            },
            LiveKind::Disk => return self.presumed_disk(name, entry),
            LiveKind::Bcache => {
                let below = self.bcache_lowers(&entry.directory, entry.directory.sectors("size")?);
                let data = below.into_iter().find(|lower| lower.holds_data)?;
                vec![(data.device, data.runs.first()?.offset.get())]
            }
            kind => self.stands_on(kind)?,
        };
        let mut limits = Limits::of_stacked(entry);
        let mut source = BELOW;
        for (member, start) in below {
            let (disk, start) = self.disk_of(&member, start)?;
            let (below, why) = self.presumed_limits(disk, depth + 1)?;
            if below.physical >= limits.physical && matches!(why, Source::Assumed | Source::Quirk(_)) {
                source = why;
            }
            limits.stack_on(&below, start);
        }
        Some((limits, source))
    }

    fn presumed_disk(&self, name: &str, entry: &Entry) -> Option<(Limits, Source)> {
        entry.directory.number("queue/physical_block_size")?;
        let (_, topology) = evidence::combine(DeviceKind::of(name), &entry.directory, Answers::default());
        let AlignmentOffset::Bytes(offset) = topology.alignment_offset.value() else { return None };
        let physical = topology.physical.value().get();
        let io_min = topology.io_min.as_ref().map_or(0, |figure| figure.value().get());
        let limits = Limits {
            logical: topology.logical.value().get(),
            physical,
            io_min: if io_min.is_multiple_of(physical) { io_min.max(physical) } else { physical },
            io_opt: 0,
            alignment_offset: offset.get(),
            is_misaligned: false,
        };
        Some((limits, topology.physical.source().clone()))
    }

    /// Linux 6.12 drops the -1 wherever an offset remains (`blk_validate_limits`). True only if it computes exactly
    /// `shown`.
    pub(crate) fn forgets_misalignment(&self, name: &str, shown: ByteCount) -> bool {
        let Some(entry) = self.devices.get(name) else { return false };
        self.members(name, entry, 0).is_some_and(|members| {
            let limits =
                stacked(Limits::of_stacked(entry), &members, |limits| Limits { io_opt: 0, ..limits });
            shown > ByteCount::ZERO && limits.is_misaligned && limits.alignment_offset == shown.get()
        })
    }

    /// Something below is striped, and no pool or cache is in between.
    pub(crate) fn shows_array(&self, name: &str, depth: usize) -> bool {
        let Some(entry) = self.devices.get(name).filter(|_| depth < MAX_DEPTH) else { return false };
        if let Some(disk) = &entry.disk {
            return self.shows_array(disk, depth + 1);
        }
        let Some(kind) = self.kind(name, entry) else { return false };
        match kind {
            LiveKind::Md(array) => array.chunk != ByteCount::ZERO,
            LiveKind::Dm(mapping) => {
                mapping.targets.iter().flatten().any(|target| match target.kind.as_str() {
                    "striped" | "raid" => target.chunk != ByteCount::ZERO,
                    "linear" | "crypt" | "delay" | "flakey" | "verity" | "multipath" | "mirror" => {
                        let below = target.on.iter().filter_map(|on| self.numbers.get(&on.device));
                        below.into_iter().any(|below| self.shows_array(below, depth + 1))
                    }
                    _ => false,
                })
            }
            // A SCSI disk describes an array with these sizes.
            LiveKind::Disk => DeviceKind::of(name) == DeviceKind::Scsi,
            _ => false,
        }
    }

    /// The optimal I/O size that causes offset -1, and the offset without it, if all below agree.
    pub(crate) fn optimum_that_misaligns(
        &self,
        name: &str,
        depth: usize,
    ) -> Option<(StackedOptimum, AlignmentOffset)> {
        let entry = self.devices.get(name).filter(|_| depth < MAX_DEPTH)?;
        let members = self.members(name, entry, depth)?;
        let with = stacked(Limits::of_stacked(entry), &members, |limits| limits);
        let without = stacked(Limits::of_stacked(entry), &members, |limits| Limits { io_opt: 0, ..limits });
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

    fn kind(&self, name: &str, entry: &Entry) -> Option<LiveKind> {
        Some(self.describe(name, entry, entry.directory.sectors("size")?, &mut Vec::new()).0)
    }

    fn members(&self, name: &str, entry: &Entry, depth: usize) -> Option<Vec<Member>> {
        let below = match self.kind(name, entry)? {
            LiveKind::Disk => {
                paths_of(name, self.devices.keys()).into_iter().map(|path| (path.to_owned(), 0)).collect()
            }
            kind => self.stands_on(kind)?,
        };
        let members = below.iter().map(|(device, start)| self.member(device, *start, depth));
        members.collect::<Option<Vec<_>>>().filter(|members| !members.is_empty())
    }

    /// The devices that hold the data, and where on each it begins.
    fn stands_on(&self, kind: LiveKind) -> Option<Vec<(String, u64)>> {
        match kind {
            LiveKind::Md(array) => {
                let members = array.members.into_iter();
                members.map(|member| Some((member.device, member.offset?.get()))).collect()
            }
            LiveKind::Dm(mapping) => {
                let on = mapping.targets?.into_iter().flat_map(|target| {
                    let is_at_start = matches!(target.kind.as_str(), "thin" | "thin-pool" | "snapshot");
                    let data = target.on.into_iter().filter(|on| on.holds_data);
                    data.map(move |on| (on, is_at_start)).collect::<Vec<_>>()
                });
                let named = on.map(|(on, is_at_start)| {
                    let first = on.runs.iter().min_by_key(|run| run.span.start());
                    let start = first.map(|run| run.offset.get()).or(is_at_start.then_some(0))?;
                    Some((self.numbers.get(&on.device)?.clone(), start))
                });
                named.collect()
            }
            _ => None,
        }
    }

    /// The disk of a device or partition, and where byte `start` is on it.
    pub(super) fn disk_of<'a>(&'a self, name: &'a str, start: u64) -> Option<(&'a str, u64)> {
        let entry = self.devices.get(name)?;
        let Some(disk) = &entry.disk else { return Some((name, start)) };
        Some((disk, entry.directory.sectors("start")?.get().checked_add(start)?))
    }

    fn member(&self, name: &str, start: u64, depth: usize) -> Option<Member> {
        let (disk, start) = self.disk_of(name, start)?;
        let directory = &self.devices.get(disk)?.directory;
        let figure = |attribute: &str| directory.number(&format!("queue/{attribute}"));
        let shown = evidence::alignment_offset(&directory.text("alignment_offset")?)?;
        let (cause, offset) = match shown {
            AlignmentOffset::Bytes(_) => (None, shown),
            AlignmentOffset::Misaligned => {
                let (cause, offset) = self.optimum_that_misaligns(disk, depth + 1)?;
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
        Some(Member { name: disk.to_owned(), limits, start, cause })
    }
}

fn stacked(mut limits: Limits, members: &[Member], change: impl Fn(Limits) -> Limits) -> Limits {
    for member in members {
        limits.stack_on(&change(member.limits), member.start);
    }
    limits
}

/// `nvme0n1` has `nvme0c0n1`, … (`nvme_mpath_set_disk_name`).
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
        // What Linux 6.1 showed for arrays and mappings of scsi_debug disks.
        let (d0, d7, d1) = (disk(4096, 524_288, 0), disk(4096, 524_288, 3584), disk(4096, 524_288, 512));
        for (below, chunk, expected) in [
            (vec![(d0, 2048 * 512), (d0, 2049 * 512)], 65536, None), // raid5, the second member misaligned
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
            let found = stacked(Limits::empty(chunk), &members, |limits| limits);
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
                stacked(Limits::empty(0), &members, |limits| limits).is_misaligned,
                misaligned,
                "{physical} {io_opt}"
            );
            assert!(
                !stacked(Limits::empty(0), &members, |limits| Limits { io_opt: 0, ..limits }).is_misaligned
            );
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
