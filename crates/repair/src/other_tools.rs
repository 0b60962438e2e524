//! Where other partitioning tools would start a partition in the same space.
//!
//! Invariants: each rule is the tool's own, from the sources of the named version, or from release notes and
//! manuals where only these are at hand. No tool is run.

use serde::{Deserialize, Serialize};
use straddle_audit::{ALL_ONES, GRAIN};
use straddle_device::topology::{Figure, Source, Topology};
use straddle_units::{BlockSize, Boundary, ByteCount, ByteOffset, KERNEL_SECTOR, Lba};

use crate::plan::{Format, GPT_ENTRIES, array_sectors, missed};

/// A cylinder as tools before 2010 imagined it, in sectors of 512 bytes: 255 heads, and 63 sectors a track.
const CYLINDER: u64 = 255 * 63;

/// The first sector of the second track.
const SECOND_TRACK: u64 = 63;

/// The size from which Windows aligns to 1 MiB, and what it aligns to below (Microsoft,
/// `IVdsDisk3::QueryFreeExtents`).
const WINDOWS_LARGE: u64 = 4 << 30;
const WINDOWS_SMALL_GRAIN: u64 = 64 << 10;

/// What one tool would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The tool's name.
    pub tool: String,
    /// The version whose rule is applied.
    pub version: String,
    /// The rule, with this disk's figures.
    pub rule: String,
    /// The sector at which the tool would start the partition; `None` if that is past the end of the disk.
    pub start: Option<u64>,
    /// The names of the boundaries above advice that this start misses.
    pub misses: Vec<String>,
}

/// The free space in which a partition is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// The front of a new table of this format. parted is given 0 % as the start, the others no start.
    Front(Format),
    /// From this byte on, after other partitions of a table of this format.
    From(Format, ByteOffset),
}

/// What parted, fdisk, sgdisk, systemd-repart and Windows would choose for a partition in `free` on a device
/// of `size` bytes with this topology, and what tools before 2010 would have chosen. If the topology is only
/// assumed, as for an image, these tools know none of it.
pub fn peers(topology: &Topology, size: ByteCount, free: Free) -> Vec<Peer> {
    let block = topology.logical.value();
    let array = array_sectors(GPT_ENTRIES, block);
    let (is_front, format, from) = match free {
        Free::Front(Format::Mbr) => (true, Format::Mbr, Lba::new(1).byte(block)),
        Free::Front(Format::Gpt) => (true, Format::Gpt, Lba::new(array + 2).byte(block)),
        Free::From(format, at) => (false, format, at),
    };
    let is_unseen = *topology.physical.source() == Source::Assumed
        && *topology.alignment_offset.source() == Source::Assumed
        && topology.io_min.is_none()
        && topology.io_opt.is_none();
    let choice = Choice { topology, size, from, block, is_front, is_unseen };
    let mut chosen = vec![
        ("parted", "3.5", choice.parted()),
        ("fdisk", "util-linux 2.38", choice.fdisk()),
        ("sgdisk", "1.0.9", choice.sgdisk()),
        ("systemd-repart", "252", choice.repart()),
        ("Windows", "Vista to 11", choice.windows()),
    ];
    // Old tools know no other sectors.
    match format {
        _ if block != KERNEL_SECTOR => {}
        Format::Mbr => {
            let versions = "fdisk 2.17.1, parted 2.1, Windows XP";
            chosen.push(("tools before 2010", versions, choice.cylinders()));
        }
        Format::Gpt => {
            let eights = multiples(8 * KERNEL_SECTOR.get(), from);
            chosen.push(("gdisk", "before 0.5.2", ("the next free sector".to_owned(), Some(from))));
            chosen.push(("gdisk", "0.5.2", ("multiples of 8 sectors".to_owned(), eights)));
        }
    }
    let peer = |(tool, version, (rule, at)): (&str, &str, Chosen)| {
        let at = at.filter(|at| at.get() < size.get());
        Peer {
            tool: tool.to_owned(),
            version: version.to_owned(),
            rule,
            start: at.map(|at| Lba::containing(at, block).get()),
            misses: at.map_or(Vec::new(), |at| missed(topology, at)).into_iter().map(str::to_owned).collect(),
        }
    };
    chosen.into_iter().map(peer).collect()
}

/// A rule, and the start that it gives.
type Chosen = (String, Option<ByteOffset>);

/// The first multiple of `size` at or after `from`.
fn multiples(size: u64, from: ByteOffset) -> Option<ByteOffset> {
    Boundary::multiples_of(ByteCount::new(size))?.ceil(from)
}

struct Choice<'a> {
    topology: &'a Topology,
    size: ByteCount,
    from: ByteOffset,
    block: BlockSize,
    is_front: bool,
    is_unseen: bool,
}

impl Choice<'_> {
    /// The minimum and the optimal I/O size, 0 if unknown.
    fn io(&self) -> (u64, u64) {
        let value = |figure: &Option<Figure<ByteCount>>| match figure {
            Some(figure) if !self.is_unseen => figure.value().get(),
            _ => 0,
        };
        (value(&self.topology.io_min), value(&self.topology.io_opt))
    }

    /// `linux_get_optimum_alignment`, libparted/arch/linux.c.
    fn parted(&self) -> Chosen {
        let (io_min, io_opt) = self.io();
        let divides = |size: u64| size == 0 || GRAIN.get().is_multiple_of(size);
        let (grain, why) = if divides(io_min) && divides(io_opt) {
            (GRAIN.get(), "1 MiB, a multiple of the minimum and optimal I/O size".to_owned())
        } else if io_opt == 0 {
            (io_min, format!("the minimum I/O size, {io_min} bytes"))
        } else {
            (io_opt, format!("the optimal I/O size, {io_opt} bytes, which parted does not check"))
        };
        let aligned = self.whole(grain, self.from);
        // A start in percent is accepted within half a percent (`ped_unit_parse_custom`, libparted/unit.c).
        let percent = self.size.get() / 100;
        let reach = (percent.div_ceil(self.block.get()) / 2).saturating_sub(1);
        let is_near = |at: ByteOffset| Lba::containing(at, self.block).get() <= reach;
        if self.is_front && !is_near(self.from) {
            let rule = "none: the first free sector is more than half a percent of the disk away from 0 %";
            return (rule.to_owned(), None);
        }
        if self.is_front && !aligned.is_some_and(is_near) {
            let rule = format!(
                "the first free sector, because the next multiple of {why} is more than half a percent of \
                 the disk away from 0 %"
            );
            return (rule, Some(self.from));
        }
        (format!("multiples of {why}"), aligned)
    }

    /// The first multiple at or after `from` of a grain in whole blocks, at the device's alignment offset.
    fn whole(&self, grain: u64, from: ByteOffset) -> Option<ByteOffset> {
        let block = self.block.get();
        let grain = (grain / block).max(1).saturating_mul(block);
        self.topology.boundary_of(ByteCount::new(grain))?.ceil(from)
    }

    /// `fdisk_discover_topology` and `fdisk_reset_alignment`, libfdisk/src/alignment.c.
    fn fdisk(&self) -> Chosen {
        let (io_min, io_opt) = self.io();
        let physical = if self.is_unseen { self.block.get() } else { self.topology.physical.value().get() };
        let asked = if io_opt == 0 { io_min.max(physical) } else { io_opt };
        // libfdisk recognises this one only (util-linux commit bbb66067c, 2020).
        let io = if asked == ALL_ONES || !asked.is_multiple_of(physical) { physical } else { asked };
        let mut grain = io.max(GRAIN.get());
        let mut rule = format!("multiples of {grain} bytes, the larger of 1 MiB and the I/O size");
        if self.size.get() <= grain.saturating_mul(4) {
            grain = physical;
            rule = format!("multiples of the physical sector, {physical} bytes, on a disk this small");
        }
        (rule, self.whole(grain, self.from.max(ByteOffset::new(grain))))
    }

    /// `GPTData::GPTData` and `ComputeAlignment`, gpt.cc, without partitions that suggest another grain.
    fn sgdisk(&self) -> Chosen {
        // If that is past the end of the disk, sgdisk takes the first free sector.
        let aligned = multiples(GRAIN.get(), self.from).filter(|at| at.get() < self.size.get());
        ("multiples of 1 MiB, whatever the device reports".to_owned(), aligned.or(Some(self.from)))
    }

    /// `context_place_partitions`, src/partition/repart.c; the first sector, 2048, is libfdisk's.
    fn repart(&self) -> Chosen {
        let from = self.from.max(ByteOffset::new(GRAIN.get()));
        ("multiples of 4096 bytes, from 1 MiB on".to_owned(), multiples(4096.max(self.block.get()), from))
    }

    /// The default alignment of Microsoft's Virtual Disk Service.
    fn windows(&self) -> Chosen {
        let (grain, rule) = if self.size.get() < WINDOWS_LARGE {
            (WINDOWS_SMALL_GRAIN, "multiples of 64 KiB, on a disk of less than 4 GB")
        } else {
            (GRAIN.get(), "multiples of 1 MiB, whatever the device reports")
        };
        (rule.to_owned(), multiples(grain, self.from))
    }

    /// Tools before 2010, on an MBR, as `straddle explain` has them with their sources.
    fn cylinders(&self) -> Chosen {
        if self.is_front {
            let start = Lba::new(SECOND_TRACK).byte(KERNEL_SECTOR);
            return ("the second track, with 63 sectors per track".to_owned(), Some(start));
        }
        let rule = "multiples of a cylinder (255 heads of 63 sectors: 16065 sectors)".to_owned();
        (rule, multiples(CYLINDER * KERNEL_SECTOR.get(), self.from))
    }
}

#[cfg(test)]
mod tests {
    use straddle_device::topology::AlignmentOffset;

    use super::*;

    fn starts(change: impl FnOnce(&mut Topology), size: u64) -> Vec<Option<u64>> {
        let mut topology = Topology::unknown();
        change(&mut topology);
        let free = Free::Front(Format::Gpt);
        peers(&topology, ByteCount::new(size), free).into_iter().take(4).map(|peer| peer.start).collect()
    }

    fn opt(topology: &mut Topology, min: u64, opt: u64) {
        topology.io_min = Some(Figure::new(ByteCount::new(min), Source::Declared));
        topology.io_opt = Some(Figure::new(ByteCount::new(opt), Source::Declared));
    }

    #[test]
    fn each_has_its_own_rule() {
        let size = 100 << 30;
        let all = |n: u64| vec![Some(n); 4];
        assert_eq!(starts(|_| (), size), all(2048));
        // The published problem with USB bridges: parted starts at sector 65535.
        let bogus = starts(|t| opt(t, 512, 33_553_920), size);
        assert_eq!(bogus, [Some(65_535), Some(2048), Some(2048), Some(2048)]);
        let stripe = starts(|t| opt(t, 65_536, 196_608), size);
        assert_eq!(stripe, [Some(384), Some(2048), Some(2048), Some(2048)]);
        // util-linux tests/expected/fdisk/align-512-4K-63 has steps of 2048 sectors from sector 7.
        let shifted = starts(
            |t| {
                t.alignment_offset =
                    Figure::new(AlignmentOffset::Bytes(ByteCount::new(3584)), Source::Declared)
            },
            size,
        );
        assert_eq!(shifted[..2], [Some(2055), Some(2055)]);
    }

    #[test]
    fn parted_refuses_a_gpt_on_disks_that_are_too_small_for_its_percents() {
        // Measured with `parted -s mklabel gpt mkpart a 0% 100%` on images of this many sectors.
        for (sectors, start) in [(2200, None), (6144, None), (6900, None), (6901, Some(34)), (7000, Some(34))]
        {
            assert_eq!(starts(|_| (), sectors * 512)[0], start, "{sectors}");
        }
        let mbr = peers(&Topology::unknown(), ByteCount::new(2200 * 512), Free::Front(Format::Mbr));
        assert_eq!(mbr[0].start, Some(1));
    }

    /// Measured on scsi_debug disks with 4096-byte physical sectors: MiB, format, parted's start, fdisk's
    /// start.
    const MEASURED_LIVE: [(u64, Format, u64, u64); 10] = [
        (2, Format::Mbr, 1, 8),
        (4, Format::Mbr, 1, 8),
        (4, Format::Gpt, 34, 40),
        (5, Format::Mbr, 1, 2048),
        (5, Format::Gpt, 34, 2048),
        (13, Format::Gpt, 34, 2048),
        (64, Format::Gpt, 34, 2048),
        (100, Format::Mbr, 1, 2048),
        (200, Format::Mbr, 1, 2048),
        (200, Format::Gpt, 34, 2048),
    ];

    #[test]
    fn small_disks_are_predicted_as_measured() {
        let mut topology = Topology::unknown();
        topology.physical = Figure::new(ByteCount::new(4096), Source::Sysfs("queue/physical_block_size"));
        opt(&mut topology, 4096, 524_288);
        for (mib, format, parted, fdisk) in MEASURED_LIVE {
            let all = peers(&topology, ByteCount::new(mib << 20), Free::Front(format));
            let starts: Vec<_> = all.iter().take(2).map(|peer| peer.start.unwrap()).collect();
            assert_eq!(starts, [parted, fdisk], "{mib} MiB, {format:?}");
        }
    }

    #[test]
    fn old_tools_start_on_tracks_and_cylinders() {
        let mut topology = Topology::unknown();
        topology.physical = Figure::new(ByteCount::new(4096), Source::Declared);
        let old = |size: u64, free| -> Vec<(String, Option<u64>, bool)> {
            let all = peers(&topology, ByteCount::new(size), free).into_iter().skip(4);
            all.map(|peer| (peer.tool, peer.start, peer.misses.is_empty())).collect()
        };
        let named = |tool: &str, start, is_aligned| (tool.to_owned(), Some(start), is_aligned);
        let (before, gdisk) = ("tools before 2010", "gdisk");
        let front = old(100 << 30, Free::Front(Format::Mbr));
        assert_eq!(front, [named("Windows", 2048, true), named(before, 63, false)]);
        // sda2 of many an old disk: the second cylinder after 100 MiB.
        let behind = Free::From(Format::Mbr, ByteOffset::new(208_845 * 512));
        assert_eq!(old(100 << 30, behind), [named("Windows", 208_896, true), named(before, 208_845, false)]);
        let gpt = old(1 << 30, Free::Front(Format::Gpt));
        assert_eq!(gpt, [named("Windows", 128, true), named(gdisk, 34, false), named(gdisk, 40, true)]);
        topology.logical = Figure::new(BlockSize::B4096, Source::Declared);
        assert_eq!(peers(&topology, ByteCount::new(100 << 30), Free::Front(Format::Mbr)).len(), 5);
    }

    #[test]
    fn what_they_miss_is_named() {
        let mut topology = Topology::unknown();
        topology.stripe = Some(Figure::new(ByteCount::new(192 << 10), Source::Declared));
        let all = peers(&topology, ByteCount::new(100 << 30), Free::From(Format::Gpt, ByteOffset::new(0)));
        assert!(all.iter().any(|peer| peer.misses == ["stripe"]), "{all:?}");
    }
}
