//! The areas of a target that may be written.

use std::error::Error;
use std::path::{Path, PathBuf};

use straddle_device::shown::quote_path;
use straddle_device::{FileId, Options, Target};
use straddle_layout::{Stack, TableKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::real::open::Opened;

/// Areas start and end at multiples of this many bytes; no boundary of a drive is larger.
const GRAIN: u64 = 1 << 20;

/// The smallest piece, in bytes; the workloads leave one grain of it free.
const LEAST: u64 = 2 * GRAIN;

/// Why no area may be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum AreaError {
    #[error("{path}: cannot determine what this target holds", path = path.display())]
    Look { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    #[error("{path}: has no partition table, so the unallocated space is unknown ({holds})", path = path.display())]
    NoTable { path: PathBuf, holds: &'static str },
    #[error("{path}: the unallocated space is unknown, because the partition table is damaged or a \
             partition's contents extend past its end. For details, run straddle check {command}", path = path.display(), command = quote_path(path))]
    Damaged { path: PathBuf },
    #[error("{path}: has no unallocated area of {LEAST} bytes aligned to 1 MiB", path = path.display())]
    Full { path: PathBuf },
    #[error("{path}: is too small ({size} bytes); at least {LEAST} bytes are needed", path = path.display())]
    TooSmall { path: PathBuf, size: u64 },
}

straddle_units::error_kind! {
    AreaError: Refused;
    Self::Look { .. } => Failed,
}

/// Examines the file or device that is open, under its path. Of a partition, this is the disk.
pub(crate) fn examine(opened: &Opened) -> Result<Target, AreaError> {
    let path = &opened.path;
    let target = straddle_device::open(path, &Options::default()).map_err(|error| unseen(path, error))?;
    // Of a partition, the identity is its disk's.
    let id = match target.partition {
        None => target.id,
        Some(_) => Some(FileId::of(&path.metadata().map_err(|error| unseen(path, error))?)),
    };
    if id != Some(opened.id) {
        return Err(unseen(path, "the target was replaced while it was being opened"));
    }
    Ok(target)
}

fn unseen(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> AreaError {
    AreaError::Look { path: path.to_owned(), source: source.into() }
}

pub(crate) fn free(opened: &Opened) -> Result<Vec<Span>, AreaError> {
    let path = &opened.path;
    let mut target = examine(opened)?;
    let stack = straddle_audit::examine::read_present(&mut target, &Options::default());
    let Some(stack) = stack.map_err(|error| unseen(path, error))? else {
        return Err(unseen(path, "the target cannot be read"));
    };
    if target.partition.is_some() {
        return Err(AreaError::NoTable { path: path.clone(), holds: "the target is a partition" });
    }
    if !matches!(stack.kind, TableKind::Gpt | TableKind::Mbr) {
        let holds = "the disk may hold a file system or nothing";
        return Err(AreaError::NoTable { path: path.clone(), holds });
    }
    if !stack.problems.is_empty() {
        return Err(AreaError::Damaged { path: path.to_owned() });
    }
    Ok(gaps(&stack, &target))
}

fn gaps(stack: &Stack, target: &Target) -> Vec<Span> {
    // The first MiB may hold a boot loader, and the end a backup GPT.
    let end = target.size.saturating_sub(ByteCount::new(GRAIN));
    let ends = [
        Some(Span::first(ByteCount::new(GRAIN))),
        Span::new(ByteOffset::new(end.get()), ByteCount::new(GRAIN)),
    ];
    // The kernel may still have partitions that are no longer in the table.
    let listed = target.kernel_partitions.iter().flatten().map(|partition| partition.span);
    let kept: Vec<Span> = ends.into_iter().flatten().chain(listed).collect();
    stack.free(target.size).into_iter().flat_map(|free| free.gaps(kept.iter().copied())).collect()
}

/// Evenly spread pieces of the `given` spans, each starting and ending at a multiple of the grain: `regions` of them
/// with `bytes` bytes together, or fewer where there is less; all of the spans for 0 regions.
pub(crate) fn spread(given: &[Span], regions: u32, bytes: u64) -> Vec<Span> {
    let Some(grain) = Boundary::multiples_of(ByteCount::new(GRAIN)) else { return Vec::new() };
    let trimmed: Vec<Span> = given
        .iter()
        .filter_map(|span| {
            let whole = Span::between(grain.ceil(span.start())?, grain.floor(span.end())?)?;
            Some(whole).filter(|span| span.len().get() >= LEAST)
        })
        .collect();
    let total: u64 = trimmed.iter().map(|span| span.len().get()).sum();
    if total == 0 {
        return Vec::new();
    }
    if regions == 0 {
        return trimmed;
    }
    // If `bytes` does not suffice, there are fewer pieces rather than more bytes.
    let regions = u64::from(regions).min((bytes / LEAST).max(1));
    let each = grains(bytes.min(total) / regions).max(LEAST);
    let mut areas: Vec<Span> = Vec::new();
    for region in 0..regions {
        // The offset at which the piece would start if the spans were joined into one.
        let mut at = grains(total.saturating_sub(each) / regions.saturating_sub(1).max(1) * region);
        for span in &trimmed {
            if at >= span.len().get() {
                at -= span.len().get();
                continue;
            }
            let after = areas.last().map_or(ByteOffset::ZERO, |last| last.end());
            let start = ByteOffset::new(span.start().get() + at).max(after);
            let room = span.end().checked_since(start).map_or(0, ByteCount::get).min(each);
            if room >= LEAST {
                areas.extend(Span::new(start, ByteCount::new(room)));
            }
            break;
        }
    }
    areas
}

const fn grains(bytes: u64) -> u64 {
    bytes / GRAIN * GRAIN
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start: u64, length: u64) -> Span {
        Span::new(ByteOffset::new(start), ByteCount::new(length)).unwrap()
    }

    #[test]
    fn a_file_of_eight_mib_is_one_piece() {
        let areas = spread(&[span(0, 8 << 20)], 1, 256 << 20);
        assert_eq!(areas, [span(0, 8 << 20)]);
    }

    #[test]
    fn no_more_is_used_than_was_asked_for() {
        for mib in 2..64 {
            for regions in 1..=16 {
                let areas = spread(&[span(0, 1 << 40)], regions, mib << 20);
                let used: u64 = areas.iter().map(|area| area.len().get()).sum();
                assert!(used <= mib << 20, "{mib} MiB in {regions} pieces take {used}");
                assert!(regions > 1 || used == mib << 20);
            }
        }
    }

    #[test]
    fn pieces_reach_from_the_first_byte_to_the_last() {
        let areas = spread(&[span(0, 1 << 40)], 8, 256 << 20);
        assert_eq!((areas.len(), areas[0]), (8, span(0, 32 << 20)));
        assert!(areas[7].end().get() > (1 << 40) - (8 << 20), "{:?}", areas[7]);
    }

    proptest! {
        #[test]
        fn pieces_rise_and_stay_inside(
            gaps in prop::collection::vec((0_u64..1 << 32, 0_u64..1 << 31), 0..5),
            regions in 1_u32..20,
            bytes in 0_u64..1 << 33,
        ) {
            let mut at = 0;
            let mut given = Vec::new();
            for (skip, length) in gaps {
                given.extend(Span::new(ByteOffset::new(at + skip), ByteCount::new(length)));
                at += skip + length;
            }
            let areas = spread(&given, regions, bytes);
            for area in &areas {
                prop_assert!(given.iter().any(|span| span.contains(*area)), "{area:?} of {given:?}");
                prop_assert_eq!((area.start().get() % GRAIN, area.len().get() % GRAIN), (0, 0));
                prop_assert!(area.len().get() >= 2 * GRAIN);
            }
            prop_assert!(areas.windows(2).all(|pair| pair[0].end() <= pair[1].start()));
            let sum: u64 = areas.iter().map(|area| area.len().get()).sum();
            prop_assert!(sum <= bytes.max(2 * GRAIN));
        }
    }
}
