//! The grain: the boundaries on which partitions of a disk start and end, and the reasons for them.
//!
//! Invariants: every boundary that the audit checks is taken, or left out with a reason. A grain of a quarter
//! of the disk or more is not used, as in libfdisk (libfdisk/src/alignment.c).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_audit::{ATOMIC_UNIT, Severity, bogus_io_opt, named_boundaries};
use straddle_device::topology::{AlignmentOffset, Topology, USUAL_PHYSICAL};
use straddle_units::{BlockSize, Boundary, ByteCount};

/// The grain must be smaller than this fraction (1/4) of the disk.
const LARGEST_SHARE: u64 = 4;

/// A boundary that was considered for the grain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Boundary")]
#[serde(deny_unknown_fields)]
pub struct Considered {
    /// Its name, such as `physical sector` or `stripe`.
    pub name: String,
    /// The distance between boundaries of this kind, in bytes.
    #[serde(rename = "size_bytes")]
    pub size: ByteCount,
    /// The source of `size_bytes`.
    pub source: String,
    /// Why the grain leaves it out; absent if partitions start on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The boundaries on which partitions start and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grain {
    /// The boundary of starts; a partition without a requested size also ends on it.
    pub start: Boundary,
    /// The boundary of ends: a requested size is rounded up to it.
    pub end: Boundary,
    /// Every boundary that was considered.
    pub considered: Vec<Considered>,
}

struct Candidate {
    name: &'static str,
    boundary: Boundary,
    source: String,
    /// Whether ends must be on it too, so that a write to the last block needs no read-modify-write.
    at_end: bool,
}

impl Grain {
    /// Computes the grain of a disk of `size` bytes with blocks of `block`. `asked` replaces the two
    /// boundaries that are only advice: 1 MiB and the erase block.
    pub fn of(topology: &Topology, size: ByteCount, block: BlockSize, asked: Option<ByteCount>) -> Self {
        #[expect(clippy::expect_used, reason = "a block size is at least 512")]
        let blocks = Boundary::multiples_of(block.bytes()).expect("a block size is at least 512");
        let mut grain = Self { start: blocks, end: blocks, considered: Vec::new() };
        let largest = ByteCount::new(size.get() / LARGEST_SHARE);
        for Candidate { name, boundary, source, at_end } in candidates(topology, asked) {
            let left_out = match grain.start.meet(boundary) {
                None => Some("this size has no common multiple with the boundaries above".to_owned()),
                Some(met) if met != grain.start && met.size() >= largest => Some(format!(
                    "the common multiple with the boundaries above is {} ({} bytes), which is at least a \
                     quarter of the disk",
                    met.size(),
                    met.size().get()
                )),
                Some(met) => {
                    grain.start = met;
                    grain.end = grain.end.meet(boundary).filter(|_| at_end).unwrap_or(grain.end);
                    None
                }
            };
            let (name, size) = (name.to_owned(), boundary.size());
            grain.considered.push(Considered { name, size, source, left_out });
        }
        if topology.alignment_offset.value() == AlignmentOffset::Misaligned {
            grain.considered.push(Considered {
                name: "alignment offset".to_owned(),
                size: ByteCount::ZERO,
                source: topology.alignment_offset.source().to_string(),
                left_out: Some(
                    "the kernel reports -1, because no start is aligned on all underlying devices".to_owned(),
                ),
            });
        }
        if let (Some(why), Some(figure)) = (bogus_io_opt(topology), &topology.io_opt) {
            grain.considered.push(Considered {
                name: "optimal I/O size".to_owned(),
                size: figure.value(),
                source: figure.source().to_string(),
                left_out: Some(format!("this size is impossible: {why}")),
            });
        }
        grain
    }

    /// The boundaries that starts are on.
    pub fn taken(&self) -> impl Iterator<Item = &Considered> {
        self.considered.iter().filter(|c| c.left_out.is_none())
    }
}

/// The costliest to miss first.
fn candidates(topology: &Topology, asked: Option<ByteCount>) -> Vec<Candidate> {
    let mut named = named_boundaries(topology);
    named.retain(|named| named.severity > Severity::Advice || asked.is_none());
    let candidate = |(name, boundary)| {
        let at_end = matches!(name, "physical sector" | "indirection unit");
        Candidate { name, boundary, source: source_of(topology, name), at_end }
    };
    let mut candidates: Vec<_> = named.iter().map(|one| candidate((one.name, one.boundary))).collect();
    let atomic = topology.atomic.as_ref().and_then(|figure| {
        let (boundary, source) = (figure.value().start_boundary()?, figure.source().to_string());
        Some(Candidate { name: ATOMIC_UNIT, boundary, source, at_end: false })
    });
    let usual = topology.boundary_of(USUAL_PHYSICAL).map(|boundary| Candidate {
        name: "usual physical sector",
        boundary,
        source: "most disks have this physical sector size, and this disk may hide it".to_owned(),
        at_end: true,
    });
    // After the boundaries that are more than advice, before those that are advice.
    let is_advice = |c: &Candidate| matches!(c.name, "erase block" | "1 MiB grain");
    let at = candidates.iter().position(is_advice).unwrap_or(candidates.len());
    candidates.splice(at..at, atomic.into_iter().chain(usual));
    let asked = asked.and_then(|size| topology.boundary_of(size)).map(|boundary| Candidate {
        name: "grain",
        boundary,
        source: "requested".to_owned(),
        at_end: false,
    });
    candidates.extend(asked);
    candidates
}

fn source_of(topology: &Topology, name: &str) -> String {
    let figure = match name {
        "physical sector" => Some(&topology.physical),
        "indirection unit" => topology.indirection_unit.as_ref(),
        "RAID chunk" => topology.chunk.as_ref(),
        "stripe" => topology.stripe.as_ref(),
        "minimum I/O size" => topology.io_min.as_ref(),
        "optimal I/O size" => topology.io_opt.as_ref(),
        "erase block" => topology.erase_block.as_ref(),
        _ => None,
    };
    figure.map_or_else(|| "the default of all current tools".to_owned(), |figure| figure.source().to_string())
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use straddle_device::Assume;
    use straddle_device::topology::{Figure, Source};
    use straddle_units::{GIB, KIB, MIB};

    use super::*;

    fn topology(assume: &str) -> Topology {
        let mut topology = Topology::unknown();
        Assume::from_str(assume).unwrap().apply(&mut topology);
        topology
    }

    fn grain(assume: &str, size: u64) -> Grain {
        Grain::of(&topology(assume), ByteCount::new(size), BlockSize::B512, None)
    }

    fn sizes(assume: &str, size: u64) -> (u64, u64, u64) {
        let grain = grain(assume, size);
        (grain.start.size().get(), grain.start.phase().get(), grain.end.size().get())
    }

    #[test]
    fn each_boundary_is_taken_in_its_own_right() {
        assert_eq!(sizes("512e", 100 * GIB), (MIB, 0, 4096));
        assert_eq!(sizes("512n", 100 * GIB), (MIB, 0, 4096), "a drive may hide its sectors");
        assert_eq!(sizes("512e,iu=64KiB", 100 * GIB), (MIB, 0, 64 * KIB));
        assert_eq!(sizes("512e,stripe=192KiB", 100 * GIB), (3 * MIB, 0, 4096), "no power of two");
        assert_eq!(sizes("512e,erase=3MiB", 100 * GIB), (3 * MIB, 0, 4096));
        assert_eq!(sizes("512e,erase=4MiB,stripe=1536KiB", 100 * GIB), (12 * MIB, 0, 4096));
        assert_eq!(sizes("512e,atomic=16KiB,atomic-boundary=2MiB", 100 * GIB), (2 * MIB, 0, 4096));
        assert_eq!(sizes("physical=4096,offset=3584", 100 * GIB), (MIB, 3584, 4096));
    }

    #[test]
    fn a_small_disk_has_a_small_grain() {
        assert_eq!(sizes("512e", 4 * MIB + 4096), (MIB, 0, 4096));
        assert_eq!(sizes("512e", 4 * MIB), (4096, 0, 4096));
        let grain = grain("512e", 2 * MIB);
        let last = grain.considered.last().unwrap();
        assert_eq!(last.name, "1 MiB grain");
        assert!(last.left_out.as_ref().unwrap().contains("a quarter of the disk"));
    }

    #[test]
    fn what_contradicts_is_left_out() {
        // Atomic writes count from byte 0; the physical sectors of this drive do not.
        let grain = grain("physical=4096,offset=3584,atomic=16KiB", 100 * GIB);
        let atomic = grain.considered.iter().find(|c| c.name == ATOMIC_UNIT).unwrap();
        assert_eq!(
            atomic.left_out.as_deref(),
            Some("this size has no common multiple with the boundaries above")
        );
        assert_eq!((grain.start.size().get(), grain.start.phase().get()), (MIB, 3584));
    }

    #[test]
    fn an_optimum_that_cannot_be_true_is_refused() {
        let mut topology = topology("512e");
        topology.io_opt =
            Some(Figure::new(ByteCount::new(33_553_920), Source::Sysfs("queue/optimal_io_size")));
        let grain = Grain::of(&topology, ByteCount::new(100 * GIB), BlockSize::B512, None);
        assert_eq!(grain.start.size().get(), MIB);
        let refused = grain.considered.iter().find(|c| c.size.get() == 33_553_920).unwrap();
        assert!(refused.left_out.as_ref().unwrap().contains("65535 512-byte blocks"));
        // As Linux 6.11 and later round the value, on a disk of which it would take a quarter.
        topology.io_opt =
            Some(Figure::new(ByteCount::new(33_550_336), Source::Sysfs("queue/optimal_io_size")));
        let grain = Grain::of(&topology, ByteCount::new(128 * MIB), BlockSize::B512, None);
        assert_eq!(grain.start.size().get(), MIB);
    }

    #[test]
    fn a_grain_that_is_asked_for_replaces_advice_only() {
        let of = |assume: &str, asked: u64| {
            let size = ByteCount::new(100 * GIB);
            Grain::of(&topology(assume), size, BlockSize::B512, Some(ByteCount::new(asked)))
                .start
                .size()
                .get()
        };
        assert_eq!(of("512e", 64 * KIB), 64 * KIB);
        assert_eq!(of("512e,stripe=192KiB", 64 * KIB), 192 * KIB);
        assert_eq!(of("512e,erase=8MiB", 4 * MIB), 4 * MIB);
    }
}
