//! Rules about file systems: block sizes against the drive's units, data areas, and stripe hints.

use straddle_device::topology::{Figure, USUAL_PHYSICAL};
use straddle_layout::layer::{FileSystem, Layer};
use straddle_layout::{FsKind, Role};
use straddle_units::{ByteCount, MIB, Span};

use super::{Array, Place};
use crate::boundaries::severity_of_writes;
use crate::catalogue::{self as rules, Severity};
use crate::finding::{Command, Finding, Fix, Miss, Risk, Rule};
use crate::{Context, hidden, moves, reformat};

pub(super) fn check(place: &Place<'_>, layer: &Layer, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let Some(kind) = layer.kind.file_system() else { return };
    let len = layer.below.len();
    findings.extend(small_units(place, kind, fs, len));
    findings.extend(data_area(place, kind, fs, len));
    findings.extend(contradicting_hints(place, kind, fs));
    findings.extend(small_ashift(place, fs));
    check_page(place, kind, fs, findings);
}

/// For FAT, exFAT and NTFS clusters, not their 512-byte sectors.
fn written_units(kind: FsKind, fs: &FileSystem) -> Vec<(&'static str, ByteCount)> {
    let log_sector = fs.log_sector.filter(|size| fs.sector != Some(*size));
    let units = match kind.has_boot_sector() {
        true => vec![("cluster", fs.cluster.or(Some(fs.block)))],
        false => vec![("block", Some(fs.block)), ("sector", fs.sector), ("log sector", log_sector)],
    };
    let known = |size: &ByteCount| *size != ByteCount::ZERO;
    units.into_iter().filter_map(|(name, size)| Some((name, size.filter(known)?))).collect()
}

/// Below this, mke2fs makes blocks of 1 KiB ("small" in mke2fs.conf of e2fsprogs 1.47), and mkfs.fat clusters of 512
/// bytes to 8 KiB (dosfstools 4.2).
const SMALL: ByteCount = ByteCount::new(512 * MIB);

/// `None` unless mkfs chose small blocks because of the size.
fn small_by_default(kind: FsKind, fs: &FileSystem) -> Option<&'static str> {
    let how = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => "mke2fs -b 4096",
        FsKind::Vfat => "mkfs.fat -s 8",
        _ => return None,
    };
    fs.extent.is_some_and(|size| size < SMALL).then_some(how)
}

fn small_units(place: &Place<'_>, kind: FsKind, fs: &FileSystem, len: ByteCount) -> Option<Finding> {
    // ZFS has a rule of its own. A read-only file system writes nothing.
    if fs.ashift.is_some() || kind.is_only_read() {
        return None;
    }
    let mut small = written_units(kind, fs);
    let size = small.iter().map(|(_, size)| *size).min()?;
    let topology = place.context.topology;
    let physical = topology.physical.value();
    let unit = topology.indirection_unit.as_ref().map(Figure::value);
    let (rule, what, wanted): (&'static Rule, _, _) = match unit {
        _ if size < physical => (rules::FS_BLOCK_SMALL, "physical sector", physical),
        Some(unit) if size < unit => (rules::FS_BLOCK_BELOW_UNIT, "indirection unit", unit),
        _ => return None,
    };
    small.retain(|(_, size)| *size < wanted);
    let units: Vec<String> =
        small.iter().map(|(name, size)| format!("{name} of {} bytes", size.get())).collect();
    let message = format!(
        "{}: its {} {} smaller than the {what} ({} bytes), so small writes cause read-modify-writes even \
         if the file system is aligned",
        place.label(),
        units.join(" and its "),
        if units.len() == 1 { "is" } else { "are" },
        wanted.get()
    );
    let small = small_by_default(kind, fs).filter(|_| size < USUAL_PHYSICAL);
    let severity = if small.is_some() { Severity::Advice } else { severity_of_writes(size) };
    let fix = match (small, is_listed_right(place.context)) {
        (Some(how), _) => Fix::advice(format!(
            "none needed for a file system this small; to recreate it with larger blocks, use {how}"
        )),
        (None, true) if fs.is_hibernated => Fix::advice(hidden::ASLEEP),
        (None, true) => reformat::with_block(kind, fs, len, wanted),
        (None, false) => Fix::advice("fix the partition table first"),
    };
    Some(Finding { severity, ..place.finding(rule, place.start, message, fix) })
}

/// No tool may make a file system where another partition is.
fn is_listed_right(context: &Context<'_>) -> bool {
    let mut spans: Vec<Span> =
        context.stack.partitions.iter().filter(|p| p.role != Role::Extended).map(|p| p.span).collect();
    spans.sort_by_key(|span| span.start());
    context.stack.problems.is_empty() && spans.windows(2).all(|pair| !pair[0].overlaps(pair[1]))
}

/// In a file system that does begin on a physical sector.
fn data_area(place: &Place<'_>, kind: FsKind, fs: &FileSystem, len: ByteCount) -> Option<Finding> {
    let boundary = place.context.topology.physical_boundary()?;
    let (data, start) = fs.data_start.zip(place.start)?;
    let at = start.checked_add(ByteCount::new(data.get()))?;
    let miss = Miss::of("physical sector", boundary, at)?;
    // Smaller clusters that fill the sector straddle nowhere; a misaligned file system is reported already.
    let cluster = fs.cluster.unwrap_or(fs.block);
    let fills = cluster < boundary.size() && miss.past.is_multiple_of(cluster);
    if fills || !boundary.is_aligned(start) {
        return None;
    }
    let message = format!(
        "{}: it starts on a physical sector boundary, but its first cluster is at byte {data} (byte {at} of \
         the disk), {} bytes past a {}-byte boundary, so each cluster spans one more sector than necessary",
        place.label(),
        miss.past.get(),
        boundary.size().get()
    );
    let remade = match kind {
        // mkfs.fat aligns to clusters except with -a or more reserved sectors.
        FsKind::Vfat => reformat::fat(fs, len, cluster).map(reformat::remake),
        FsKind::Exfat => Some(reformat::remake(reformat::exfat(len, cluster))),
        _ => None,
    };
    let fix = moves::of_data(place.context, at)
        .or(remade)
        .unwrap_or_else(|| Fix::advice("recreate the file system with a tool that aligns the data area"));
    Some(place.finding(rules::DATA_AREA_OFF, Some(at), message, fix).missing(miss))
}

fn contradicting_hints(place: &Place<'_>, kind: FsKind, fs: &FileSystem) -> Option<Finding> {
    let topology = place.context.topology;
    let (chunk, stripe) = match place.array {
        Some(Array { chunk, stripe, .. }) => (Some(chunk), stripe),
        None => (topology.chunk.as_ref().map(Figure::value), topology.stripe.as_ref().map(Figure::value)),
    };
    // mkfs takes hints from I/O sizes. Stacked layers turn these into multiples: still whole chunks and stripes.
    let differs = |hint: Option<ByteCount>, real: Option<ByteCount>| {
        hint.zip(real).is_some_and(|(hint, real)| real != ByteCount::ZERO && !hint.is_multiple_of(real))
    };
    if !differs(fs.stripe_unit, chunk) && !differs(fs.stripe_width, stripe) {
        return None;
    }
    let shown = |size: Option<ByteCount>| size.map_or("unknown".to_owned(), |s| format!("{} bytes", s.get()));
    let message = format!(
        "{}: its block size is {} bytes, and it expects a chunk of {} and a stripe of {}, but the array has \
         {} and {}",
        place.label(),
        fs.block.get(),
        shown(fs.stripe_unit),
        shown(fs.stripe_width),
        shown(chunk),
        shown(stripe)
    );
    Some(place.finding(rules::HINTS_CONTRADICT, place.start, message, hints_fix(kind, fs, chunk, stripe)))
}

fn hints_fix(kind: FsKind, fs: &FileSystem, chunk: Option<ByteCount>, stripe: Option<ByteCount>) -> Fix {
    let width = stripe.or(chunk);
    // The tool takes only whole blocks.
    let is_whole = |size: &ByteCount| fs.block != ByteCount::ZERO && size.is_multiple_of(fs.block);
    let Some((unit, stripe)) = chunk.filter(is_whole).zip(width.filter(is_whole)) else {
        return Fix::advice(
            "none: the array's chunk or stripe is unknown, or not a whole number of this file system's \
             blocks",
        );
    };
    let blocks = |size: ByteCount| size.get() / fs.block.get();
    let (command, caution) = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => {
            let (unit, width) = (blocks(unit), blocks(stripe));
            let line = format!("tune2fs -E stride={unit},stripe_width={width} DEVICE");
            (Command::other("tune2fs", line), "replace DEVICE with the device that holds it")
        }
        FsKind::Xfs if fs.stripe_unit != chunk => {
            return Fix::advice(
                "none, unless you recreate the file system: at mount time, XFS accepts another chunk size \
                 only if its first structures stay where they are, which is rare",
            );
        }
        FsKind::Xfs => {
            let (unit, width) = (unit.get() / 512, stripe.get() / 512);
            let line = format!("mount -o sunit={unit},swidth={width} DEVICE DIR");
            let caution = "XFS stores the values that are specified at mount time; replace DEVICE with the \
                           device that holds it, and DIR with its mount point";
            (Command::other("mount", line), caution)
        }
        _ => return Fix::advice("recreate the file system: mkfs takes the chunk and stripe from the device"),
    };
    Fix {
        summary: "set the file system's chunk and stripe to the array's".to_owned(),
        commands: vec![command],
        risk: Some(Risk::Safe),
        caution: Some(caution.to_owned()),
    }
}

const MAX_ASHIFT: u32 = 16;

fn small_ashift(place: &Place<'_>, fs: &FileSystem) -> Option<Finding> {
    let size = fs.ashift.and_then(|ashift| 1_u64.checked_shl(ashift)).map(ByteCount::new)?;
    let topology = place.context.topology;
    let unit = topology.indirection_unit.as_ref().map(Figure::value);
    let wanted = topology.physical.value().max(unit.unwrap_or_default());
    if size >= wanted {
        return None;
    }
    let ashift = wanted.get().max(512).next_power_of_two().ilog2();
    let message = format!(
        "{}: its ashift of {} allows {}-byte writes, which are smaller than the drive's {}-byte unit",
        place.label(),
        fs.ashift.unwrap_or(0),
        size.get(),
        wanted.get()
    );
    let fix = if ashift <= MAX_ASHIFT {
        Fix::advice(format!(
            "send the datasets to another pool and recreate this pool with -o ashift={ashift} (zpool \
             create), because the ashift of a vdev cannot be changed"
        ))
    } else {
        Fix::advice("none, because ZFS does not support such a large ashift; larger records help")
    };
    let found = place.finding(rules::ASHIFT_SMALL, place.start, message, fix);
    Some(Finding { severity: severity_of_writes(size), ..found })
}

fn check_page(place: &Place<'_>, kind: FsKind, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let Some(page) = place.context.page else { return };
    if kind == FsKind::Swap || fs.block == ByteCount::ZERO {
        return;
    }
    let sentence = |reasons: Vec<String>| {
        format!("{}: a page of {} bytes: {}", place.label(), page.get(), reasons.join("; "))
    };
    let straddles = straddling(place, page);
    if !straddles.is_empty() {
        let fix = Fix::advice(
            "align every layer below to the unit, and use a page size that is a multiple of the unit",
        );
        findings.push(place.finding(rules::PAGE_STRADDLES, place.start, sentence(straddles), fix));
    }
    let torn = not_atomic(place, fs, page);
    if !torn.is_empty() {
        let fix = Fix::advice("keep the database's own protection enabled (doublewrite, full-page writes)");
        let alternative = reformat::atomic(kind, fs, page).filter(|_| torn.len() == 1);
        let found = place.finding(rules::PAGE_NOT_ATOMIC, place.start, sentence(torn), fix);
        findings.push(Finding { alternative, ..found });
    }
}

/// Or is a part of one.
pub(crate) fn is_whole(page: ByteCount, unit: ByteCount) -> bool {
    page.is_multiple_of(unit) || unit.is_multiple_of(page)
}

fn straddling(place: &Place<'_>, page: ByteCount) -> Vec<String> {
    let topology = place.context.topology;
    let unit = topology.indirection_unit.as_ref().map(Figure::value);
    let mut reasons = Vec::new();
    for (name, size) in [("physical sector", Some(topology.physical.value())), ("indirection unit", unit)] {
        let Some((size, start)) = size.zip(place.start) else { continue };
        let Some(boundary) = topology.boundary_of(size) else { continue };
        let past = boundary.past(start);
        // Pages that divide a unit lie in one each; that they do not fill it is a finding of its own.
        if !is_whole(page, size) {
            reasons.push(format!(
                "it is neither a multiple nor a divisor of the {name} of {} bytes",
                size.get()
            ));
        } else if !past.is_multiple_of(page.min(size)) {
            let article = if name.starts_with('i') { "an" } else { "a" };
            reasons.push(format!("the file system is {} bytes past {article} {name} boundary", past.get()));
        }
    }
    reasons
}

fn not_atomic(place: &Place<'_>, fs: &FileSystem, page: ByteCount) -> Vec<String> {
    let mut reasons = Vec::new();
    let allocation = fs.cluster.unwrap_or(fs.block);
    if !allocation.is_multiple_of(page) {
        reasons.push(format!(
            "files are allocated in units of {} bytes, so a page may be split in two",
            allocation.get()
        ));
    }
    let Some(atomic) = place.context.topology.atomic.as_ref().map(Figure::value) else {
        reasons.push("the device does not report atomic writes".to_owned());
        return reasons;
    };
    if page > atomic.unit_max {
        reasons.push(format!("the device can write at most {} bytes atomically", atomic.unit_max.get()));
    }
    if let Some((start, boundary)) = place.start.zip(atomic.start_boundary())
        && !boundary.is_aligned(start)
    {
        reasons.push(format!("it starts {} bytes past an atomic write boundary", boundary.past(start).get()));
    }
    reasons
}
