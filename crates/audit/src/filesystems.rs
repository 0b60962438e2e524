//! Rules about file systems: block sizes against the drive's units, data areas, and stripe hints.

use straddle_device::topology::USUAL_PHYSICAL;
use straddle_layout::layer::FileSystem;
use straddle_layout::{FsKind, Role};
use straddle_units::{ByteCount, ByteOffset, MIB, Span};

use crate::Context;
use crate::boundaries::severity_of_writes;
use crate::catalogue::{self as rules, Severity};
use crate::finding::{Command, Finding, Fix, Miss, Risk, Rule, Subject};
use crate::reformat;
use crate::way::Step;

/// A file system's position and what it stands on.
pub(crate) struct FileSystemPlace<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) subject: Subject,
    pub(crate) label: String,
    pub(crate) way: Vec<Step>,
    pub(crate) kind: FsKind,
    /// The offset of its first byte on the drive.
    pub(crate) start: Option<ByteOffset>,
    /// The size of the device or partition that it is on.
    pub(crate) len: ByteCount,
    /// Chunk and stripe of the array below, if any.
    pub(crate) array: Option<(ByteCount, Option<ByteCount>)>,
}

/// Adds all findings about one file system.
pub(crate) fn check(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    check_units(place, fs, findings);
    check_data_area(place, fs, findings);
    check_hints(place, fs, findings);
    check_ashift(place, fs, findings);
    check_page(place, fs, findings);
}

/// The units in which a file system writes, and their names. FAT, exFAT and NTFS keep a 512-byte sector for their boot
/// structures on every disk, but write clusters.
fn written_units(place: &FileSystemPlace<'_>, fs: &FileSystem) -> Vec<(&'static str, ByteCount)> {
    let log_sector = fs.log_sector.filter(|size| fs.sector != Some(*size));
    let units = match place.kind.has_boot_sector() {
        true => [("cluster", fs.cluster.or(Some(fs.block))), ("", None), ("", None)],
        false => [("block", Some(fs.block)), ("sector", fs.sector), ("log sector", log_sector)],
    };
    let known = |size: &ByteCount| *size != ByteCount::ZERO;
    units.into_iter().filter_map(|(name, size)| Some((name, size.filter(known)?))).collect()
}

/// File systems of less than this get blocks of 1 KiB from mke2fs ("small" in mke2fs.conf of e2fsprogs 1.47), and clusters
/// of 512 bytes to 8 KiB from mkfs.fat (dosfstools 4.2).
const SMALL: ByteCount = ByteCount::new(512 * MIB);

/// How the next file system gets larger blocks, if this is as small as those that get small ones: little is written there.
fn small_by_default(kind: FsKind, fs: &FileSystem) -> Option<&'static str> {
    let how = match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => "mke2fs -b 4096",
        FsKind::Vfat => "mkfs.fat -s 8",
        _ => return None,
    };
    fs.extent.is_some_and(|size| size < SMALL).then_some(how)
}

fn check_units(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    // ZFS gives its unit as an exponent, and has a rule of its own. A read-only file system writes nothing.
    if fs.ashift.is_some() || place.kind.is_only_read() {
        return;
    }
    let mut small = written_units(place, fs);
    let Some(size) = small.iter().map(|(_, size)| *size).min() else { return };
    let topology = place.context.topology;
    let physical = topology.physical.value();
    let unit = topology.indirection_unit.as_ref().map(|figure| figure.value());
    let (rule, what, wanted): (&'static Rule, _, _) = match unit {
        _ if size < physical => (rules::FS_BLOCK_SMALL, "physical sector", physical),
        Some(unit) if size < unit => (rules::FS_BLOCK_BELOW_UNIT, "indirection unit", unit),
        _ => return,
    };
    small.retain(|(_, size)| *size < wanted);
    let units: Vec<String> =
        small.iter().map(|(name, size)| format!("{name} of {} bytes", size.get())).collect();
    let message = format!(
        "{}: its {} {} smaller than the {what} ({} bytes): small writes are read-modify-writes even where \
         it is aligned",
        place.label,
        units.join(" and its "),
        if units.len() == 1 { "is" } else { "are" },
        wanted.get()
    );
    let small = small_by_default(place.kind, fs).filter(|_| size < USUAL_PHYSICAL);
    let severity = if small.is_some() { Severity::Advice } else { severity_of_writes(size) };
    let fix = match (small, is_listed_right(place.context)) {
        (Some(how), _) => Fix::advice(format!(
            "none needed for a file system this small; if you recreate it, {how} gives it larger blocks"
        )),
        (None, true) if fs.is_hibernated => Fix::advice(crate::hidden::ASLEEP),
        (None, true) => reformat::with_block(place.kind, fs, place.len, wanted),
        (None, false) => Fix::advice("fix the partition table first"),
    };
    findings.push(Finding { severity, ..finding(rule, place, place.start, message, fix) });
}

/// Whether the table says where each partition is: no tool may make a file system where another partition is.
fn is_listed_right(context: &Context<'_>) -> bool {
    let mut spans: Vec<Span> =
        context.stack.partitions.iter().filter(|p| p.role != Role::Extended).map(|p| p.span).collect();
    spans.sort_by_key(|span| span.start());
    context.stack.problems.is_empty() && spans.windows(2).all(|pair| !pair[0].overlaps(pair[1]))
}

fn finding(
    rule: &'static Rule,
    place: &FileSystemPlace<'_>,
    at: Option<ByteOffset>,
    message: String,
    fix: Fix,
) -> Finding {
    let layer = place.way.clone();
    Finding { layer, at, fix: Some(fix), ..Finding::new(rule, place.subject, message) }
}

/// Checks for a data area that does not begin on a physical sector, inside a file system that does.
fn check_data_area(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let Some(boundary) = place.context.topology.physical_boundary() else { return };
    let Some((data, start)) = fs.data_start.zip(place.start) else { return };
    let Some(at) = on_drive(Some(start), data) else { return };
    let (past, inherited) = (boundary.past(at), boundary.past(start));
    // Smaller clusters that fill the sector straddle nowhere; if the whole file system is misaligned, that is
    // reported already.
    let cluster = fs.cluster.unwrap_or(fs.block);
    let fills = cluster < boundary.size() && past.is_multiple_of(cluster);
    if past == ByteCount::ZERO || inherited != ByteCount::ZERO || fills {
        return;
    }
    let message = format!(
        "{}: it starts on a physical sector, but its first cluster is at byte {data} of it (byte {at} of \
         the disk), {} bytes past a {}-byte boundary: each cluster spans one sector more than it needs",
        place.label,
        past.get(),
        boundary.size().get()
    );
    let fix = match place.kind {
        // mkfs.fat aligns its structures to clusters except with -a; more reserved sectors have the
        // same effect.
        FsKind::Vfat => reformat::fat(fs, place.len, cluster).map(reformat::remake),
        FsKind::Exfat => Some(reformat::remake(reformat::exfat(place.len, cluster))),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd | FsKind::Xfs | FsKind::Btrfs => None,
        FsKind::F2fs | FsKind::Nilfs2 | FsKind::Jfs | FsKind::Reiserfs | FsKind::Iso9660 => None,
        FsKind::Squashfs | FsKind::Erofs | FsKind::Ntfs | FsKind::Swap | FsKind::Zfs => None,
    };
    // A move loses nothing.
    let fix = crate::moves::of_data(place.context, at)
        .or(fix)
        .unwrap_or_else(|| Fix::advice("recreate the file system with a tool that aligns its data area"));
    let miss = Some(Miss { name: "physical sector", boundary, past });
    findings.push(Finding { miss, ..finding(rules::DATA_AREA_OFF, place, Some(at), message, fix) });
}

/// Checks for stripe hints that contradict the array below, or the hints of the device.
fn check_hints(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let topology = place.context.topology;
    let figure = |f: &Option<straddle_device::topology::Figure<ByteCount>>| f.as_ref().map(|f| f.value());
    let (chunk, stripe) = match place.array {
        Some((chunk, stripe)) => (Some(chunk), stripe),
        None => (figure(&topology.chunk), figure(&topology.stripe)),
    };
    // mkfs takes hints from the device's I/O sizes. Stacked layers turn these into multiples, which are still
    // whole chunks and stripes.
    let differs = |hint: Option<ByteCount>, real: Option<ByteCount>| match (hint, real) {
        (Some(hint), Some(real)) => real != ByteCount::ZERO && !hint.is_multiple_of(real),
        _ => false,
    };
    if !differs(fs.stripe_unit, chunk) && !differs(fs.stripe_width, stripe) {
        return;
    }
    let shown = |size: Option<ByteCount>| size.map_or("unknown".to_owned(), |s| format!("{} bytes", s.get()));
    let message = format!(
        "{}: with blocks of {} bytes, it expects a chunk of {} and a stripe of {}, but the array has {} \
         and {}",
        place.label,
        fs.block.get(),
        shown(fs.stripe_unit),
        shown(fs.stripe_width),
        shown(chunk),
        shown(stripe)
    );
    findings.push(finding(
        rules::HINTS_CONTRADICT,
        place,
        place.start,
        message,
        hints_fix(place, fs, chunk, stripe),
    ));
}

fn hints_fix(
    place: &FileSystemPlace<'_>,
    fs: &FileSystem,
    chunk: Option<ByteCount>,
    stripe: Option<ByteCount>,
) -> Fix {
    let width = stripe.or(chunk);
    // Only sizes that are a whole number of blocks can be given to the tool.
    let whole = |size: Option<ByteCount>| {
        size.is_some_and(|size| fs.block != ByteCount::ZERO && size.is_multiple_of(fs.block))
    };
    let (Some(unit), Some(stripe)) = (chunk.filter(|_| whole(chunk)), width.filter(|_| whole(width))) else {
        return Fix::advice(
            "none: the array's chunk or stripe is unknown, or not a whole number of this file system's \
             blocks",
        );
    };
    let blocks = |size: ByteCount| size.get() / fs.block.get();
    let (command, caution) = match place.kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => {
            let (unit, width) = (blocks(unit), blocks(stripe));
            let line = format!("tune2fs -E stride={unit},stripe_width={width} DEVICE");
            (Command::other("tune2fs", line), "replace DEVICE with the device it is on")
        }
        FsKind::Xfs if fs.stripe_unit != chunk => {
            return Fix::advice(
                "recreate it if it matters: a mounted XFS accepts another chunk only if its first \
                 structures would stay where they are, which is rare",
            );
        }
        FsKind::Xfs => {
            let (unit, width) = (unit.get() / 512, stripe.get() / 512);
            let line = format!("mount -o sunit={unit},swidth={width} DEVICE DIR");
            let caution = "XFS remembers the values it was mounted with; replace DEVICE with the device it \
                           is on, DIR with its mount point";
            (Command::other("mount", line), caution)
        }
        FsKind::Jbd
        | FsKind::Btrfs
        | FsKind::F2fs
        | FsKind::Nilfs2
        | FsKind::Jfs
        | FsKind::Reiserfs
        | FsKind::Iso9660
        | FsKind::Squashfs
        | FsKind::Erofs
        | FsKind::Vfat
        | FsKind::Exfat
        | FsKind::Ntfs
        | FsKind::Swap
        | FsKind::Zfs => {
            return Fix::advice("recreate the file system: mkfs takes the chunk and stripe from the device");
        }
    };
    Fix {
        summary: "give the file system the array's chunk and stripe".to_owned(),
        commands: vec![command],
        risk: Risk::Safe,
        caution: Some(caution.to_owned()),
    }
}

/// The largest ashift that OpenZFS supports.
const MAX_ASHIFT: u32 = 16;

/// Checks for a ZFS whose smallest write is less than a physical sector or an indirection unit.
fn check_ashift(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let Some(size) = fs.ashift.and_then(|a| 1_u64.checked_shl(a)).map(ByteCount::new) else { return };
    let topology = place.context.topology;
    let unit = topology.indirection_unit.as_ref().map(|figure| figure.value());
    let wanted = topology.physical.value().max(unit.unwrap_or(ByteCount::ZERO));
    if size >= wanted {
        return;
    }
    let ashift = wanted.get().max(512).next_power_of_two().ilog2();
    let message = format!(
        "{}: its ashift of {} allows writes of {} bytes, smaller than the unit of {} bytes",
        place.label,
        fs.ashift.unwrap_or(0),
        size.get(),
        wanted.get()
    );
    let fix = if ashift <= MAX_ASHIFT {
        Fix::advice(format!(
            "send the datasets to another pool and recreate this one with -o ashift={ashift} (zpool \
             create): the ashift of a vdev cannot be changed"
        ))
    } else {
        Fix::advice("none: ZFS has no ashift that large; larger records help")
    };
    let found = finding(rules::ASHIFT_SMALL, place, place.start, message, fix);
    findings.push(Finding { severity: severity_of_writes(size), ..found });
}

/// Checks a database's pages on this file system: whether they cover whole units, and whether they can be
/// atomic.
fn check_page(place: &FileSystemPlace<'_>, fs: &FileSystem, findings: &mut Vec<Finding>) {
    let Some(page) = place.context.page else { return };
    if place.kind == FsKind::Swap || fs.block == ByteCount::ZERO {
        return;
    }
    let sentence = |reasons: Vec<String>| {
        format!("{}: a page of {} bytes: {}", place.label, page.get(), reasons.join("; "))
    };
    let straddles = straddling(place, page);
    if !straddles.is_empty() {
        let fix =
            Fix::advice("align every layer below to the unit, and use a page size that is a multiple of it");
        findings.push(finding(rules::PAGE_STRADDLES, place, place.start, sentence(straddles), fix));
    }
    let torn = not_atomic(place, fs, page);
    if !torn.is_empty() {
        let fix = Fix::advice("keep the database's own protection on (doublewrite, full-page writes)");
        let remade = reformat::atomic(place.kind, fs, page).filter(|_| torn.len() == 1);
        let found = finding(rules::PAGE_NOT_ATOMIC, place, place.start, sentence(torn), fix);
        findings.push(Finding { alternative: remade, ..found });
    }
}

/// The reasons why pages straddle units of the drive, if they do.
fn straddling(place: &FileSystemPlace<'_>, page: ByteCount) -> Vec<String> {
    let topology = place.context.topology;
    let unit = topology.indirection_unit.as_ref().map(|figure| figure.value());
    let mut reasons = Vec::new();
    for (name, size) in [("physical sector", Some(topology.physical.value())), ("indirection unit", unit)] {
        let Some((size, start)) = size.zip(place.start) else { continue };
        let Some(boundary) = topology.boundary_of(size) else { continue };
        let past = boundary.past(start);
        // Pages that divide a unit lie in one each; that they do not fill it is a finding of its own.
        if !page.is_multiple_of(size) && !size.is_multiple_of(page) {
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

/// The reasons why a page may be torn by a power failure, if it may.
fn not_atomic(place: &FileSystemPlace<'_>, fs: &FileSystem, page: ByteCount) -> Vec<String> {
    let mut reasons = Vec::new();
    let allocation = fs.cluster.unwrap_or(fs.block);
    if !allocation.is_multiple_of(page) {
        reasons.push(format!(
            "files are allocated {} bytes at a time, so a page may be split in two",
            allocation.get()
        ));
    }
    let Some(atomic) = place.context.topology.atomic.as_ref().map(|figure| figure.value()) else {
        reasons.push("the device does not report atomic writes".to_owned());
        return reasons;
    };
    if page > atomic.unit_max {
        reasons.push(format!("the device writes at most {} bytes atomically", atomic.unit_max.get()));
    }
    if let Some((start, boundary)) = place.start.zip(atomic.start_boundary())
        && !boundary.is_aligned(start)
    {
        reasons.push(format!(
            "it starts {} bytes past the boundary of atomic writes",
            boundary.past(start).get()
        ));
    }
    reasons
}

/// The position on the drive of byte `at` of the file system, if its start is known.
fn on_drive(start: Option<ByteOffset>, at: ByteOffset) -> Option<ByteOffset> {
    start?.checked_add(ByteCount::new(at.get()))
}
