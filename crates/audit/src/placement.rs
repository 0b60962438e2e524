//! Rules about where a partition starts and ends.

use straddle_device::topology::{Hides, Source, Topology, USUAL_PHYSICAL};
use straddle_layout::{Partition, Role, Stack, TableKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, KERNEL_SECTOR, Lba};

use crate::boundaries::{ATOMIC_UNIT, named_boundaries, outgrows_blocks};
use crate::catalogue::{self as rules, Code};
use crate::compensation::{self, Above};
use crate::finding::{Effect, Finding, Fix, Miss, Rule};
use crate::fix;
use crate::layers::{self, split, split_fix};
use crate::{Context, Severity, moves, severity};

/// WD1600BEVT, 160 GB: the smallest that hid 4096-byte sectors (OpenZFS, cmd/zpool/os/linux/zpool_vdev_os.c).
const SMALLEST_IN_DOUBT: ByteCount = ByteCount::new(160_000_000_000);

const IN_DOUBT: &str = "doubtful sector";

const ALONE: &str = "; it is a member of an array that starts on another disk, and the layers on the array \
                     may compensate for this";

/// After one track of 63 sectors.
const DOS_START: Lba = Lba::new(63);

pub(crate) fn check(context: &Context<'_>, partition: &Partition, findings: &mut Vec<Finding>) {
    // An extended partition holds one-sector structures; in the other kind an unread table places the data.
    if partition.role == Role::Extended || Stack::unread(partition).is_some() {
        return;
    }
    let mut found = Vec::new();
    let stays = check_start(context, partition, &mut found);
    found.extend(end(context, partition));
    found.extend(atomic(context, partition));
    found.extend(dos_start(context, partition));
    check_in_doubt(context, partition, &mut found);
    severity::placement(context, partition, &mut found);
    let curable = |f: &Finding| f.severity > Severity::Advice && f.fix.is_none();
    let fix = if stays {
        // A new start would misalign aligned data.
        Some(Fix::advice(
            "do not change its start: the data in it is aligned. If only the end is misaligned, shorten the \
             partition",
        ))
    } else if reaches_past_end(context, partition) {
        Some(Fix::advice("fix S042 first, because the partition reaches past the disk's end"))
    } else if found.iter().any(curable) {
        fix(context, partition)
    } else {
        None
    };
    let realigns = fix.iter().flat_map(|fix| &fix.commands).any(|command| command.tool == "straddle");
    for finding in found.iter_mut().filter(|f| curable(f)) {
        finding.fix = match finding.rule.code {
            // A move keeps the partition's length.
            Code::END_STRADDLES if realigns => Some(Fix::advice(
                "move its start first, and check again, because the end moves with the start",
            )),
            _ => fix.clone(),
        };
    }
    findings.append(&mut found);
}

fn reaches_past_end(context: &Context<'_>, partition: &Partition) -> bool {
    partition.span.end().get() > context.size.get()
}

fn fix(context: &Context<'_>, partition: &Partition) -> Option<Fix> {
    if let Some(zone) = context.zone {
        return Some(moves::between_zones(zone));
    }
    let copy = moves::copy(context, partition.number);
    if let Some(why) = &context.moves.refused {
        return copy.or_else(|| Some(Fix::advice(format!("none in place: {why}"))));
    }
    let here = fix::relocate(context, partition);
    // The swap is made again where it belongs.
    if here.iter().flat_map(|fix| &fix.commands).any(|command| command.effect == Effect::Swap) {
        return here;
    }
    moves::fix(context, partition.number).or(copy).or(here)
}

/// The verdict on a partition's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfStart {
    /// It is misaligned, and costs something: it has to move.
    Moves,
    /// It stays even if it is misaligned, for this reason.
    Stays(String),
    /// It is on every boundary that is more than advice. Misaligned data on it begin at these bytes.
    OnBoundary(Vec<ByteOffset>),
}

/// The verdicts on the starts of the partitions, by number.
pub fn starts(context: &Context<'_>) -> Vec<(u32, OfStart)> {
    let placed = |p: &&Partition| p.role != Role::Extended && !straddle_layout::is_marker(p);
    let partitions = context.stack.partitions.iter().filter(placed);
    partitions.map(|partition| (partition.number, of_start(context, partition))).collect()
}

fn of_start(context: &Context<'_>, partition: &Partition) -> OfStart {
    if Stack::unread(partition).is_some() {
        return OfStart::Stays("it holds a partition table of an unsupported kind".to_owned());
    }
    let mut found = Vec::new();
    let stays = check_start(context, partition, &mut found);
    found.extend(atomic(context, partition));
    found.retain(|finding| finding.severity > Severity::Advice);
    if stays {
        return OfStart::Stays("its contents are aligned at their present position".to_owned());
    }
    if found.is_empty() {
        return OfStart::OnBoundary(layers::misaligned(context, partition));
    }
    if let Some(why) = severity::nothing_is_lost(context, partition) {
        return OfStart::Stays(why);
    }
    if found.iter().all(|finding| finding.fix.is_some()) {
        return OfStart::Stays(
            "it is a member of an array that starts on another disk, and the contents of that array may be \
             aligned"
                .to_owned(),
        );
    }
    OfStart::Moves
}

pub(crate) fn check_whole_disk(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let TableKind::Content(name) = &context.stack.kind else { return };
    let Some(named) = named_boundaries(context.topology).into_iter().next() else { return };
    let Some(miss) = Miss::of("physical sector", named.boundary, ByteOffset::ZERO) else { return };
    let above = Above::of(&context.stack.layer, named.boundary);
    if above.makes_up() {
        return;
    }
    let mut message = format!(
        "{name} fills the disk from byte 0, {} bytes past a {size}-byte physical sector boundary: each \
         {size}-byte block spans two physical sectors",
        miss.past.get(),
        size = miss.boundary.size().get()
    );
    let mut fix = Fix::advice("move the contents to a partition that starts on a physical sector boundary");
    if above.is_split() {
        message += &split(&above);
        fix = split_fix(&above);
    }
    let finding = Finding::on_disk(rules::START_STRADDLES, Some(ByteOffset::ZERO), message).missing(miss);
    findings.push(Finding { severity: named.severity, ..finding.fixed_by(fix) });
}

/// Returns whether the start has to stay, because a layer on it makes up for it.
fn check_start(context: &Context<'_>, partition: &Partition, found: &mut Vec<Finding>) -> bool {
    let start = partition.span.start();
    let (mut off_physical, mut stays) = (false, false);
    for named in named_boundaries(context.topology) {
        let Some(miss) = Miss::of(named.name, named.boundary, start) else { continue };
        off_physical |= named.rule.code == Code::START_STRADDLES;
        // A start that misses the physical sector misses every coarser grain.
        let is_advice = named.severity == Severity::Advice;
        if off_physical && is_advice {
            continue;
        }
        // The partitions of a hybrid ISO image are windows on a single file system.
        if is_advice && context.stack.is_in_iso(partition) {
            continue;
        }
        let above = Above::of(&partition.layer, named.boundary);
        stays |= !is_advice && !above.back.is_empty();
        if above.makes_up() && !is_advice {
            continue;
        }
        let mut message = start_message(context, partition, named.rule, &miss);
        let mut fix = None;
        if above.is_split() && !is_advice {
            message += &split(&above);
            fix = Some(split_fix(&above));
        }
        let mut severity = named.severity;
        if named.rule.code == Code::OFF_INDIRECTION_UNIT
            && let Some(asked) = asked_of_starts(context.topology).filter(|asked| asked.is_aligned(start))
        {
            severity = Severity::Advice;
            message += &format!(
                "; it is at a multiple of {} bytes, the alignment that the drive prefers for writes (NPWA)",
                asked.size().get()
            );
        }
        if !is_advice && partition.layer.as_ref().is_some_and(compensation::begins_elsewhere) {
            severity = Severity::Warning;
            message += ALONE;
            fix = Some(Fix::advice(
                "leave it where it is, and check the assembled array: moving it may misalign the array's \
                 contents",
            ));
        }
        let finding = Finding::on_partition(named.rule, partition.number, start, message).missing(miss);
        found.push(Finding { severity, fix, ..finding });
    }
    stays
}

/// The drive's boundary for where writes begin (NVMe NPWA), if it is less than that for their sizes (NPWG), a
/// multiple of it, and more than a block, which a drive that leaves the field 0 reports (NVM Command Set
/// specification, Identify Namespace).
fn asked_of_starts(topology: &Topology) -> Option<Boundary> {
    let unit = topology.indirection_unit.as_ref()?;
    let claims = || unit.others().iter();
    let alignment = claims().find(|claim| claim.source == Source::Nvme("NPWA"))?.value;
    let is_said = *unit.source() == Source::Nvme("NPWG") && unit.value().is_multiple_of(alignment);
    let is_more = alignment > topology.logical.value().bytes() && alignment < unit.value();
    topology.boundary_of(alignment).filter(|_| is_said && is_more)
}

fn start_message(context: &Context<'_>, partition: &Partition, rule: &Rule, miss: &Miss) -> String {
    let (start, size, past) = (partition.span.start(), miss.boundary.size(), miss.past);
    let place = format!("starts at byte {start} (LBA {})", partition.start);
    let off_physical =
        format!("{place}, {} bytes past a {}-byte physical sector boundary", past.get(), size.get());
    match rule.code {
        Code::START_STRADDLES if partition.span.len() < size => off_physical,
        Code::START_STRADDLES if outgrows_blocks(size) && past.is_multiple_of(USUAL_PHYSICAL) => {
            off_physical + ": larger writes span one more sector; 4096-byte writes cost the same at any start"
        }
        Code::START_STRADDLES => {
            format!("{off_physical}: each {}-byte block spans two physical sectors", size.get())
        }
        Code::OFF_GRAIN => {
            let physical = context.topology.physical.value().get();
            let usual = Boundary::multiples_of(USUAL_PHYSICAL);
            let hidden = match usual.is_some_and(|usual| !usual.is_aligned(start)) {
                true => "; if the disk has 4096-byte physical sectors after all, blocks straddle them",
                false => "",
            };
            format!("{place}: aligned to the {physical}-byte physical sector, but not to 1 MiB{hidden}")
        }
        _ => format!(
            "{place}, {} bytes past a multiple of the {} ({} bytes)",
            past.get(),
            miss.name,
            size.get()
        ),
    }
}

fn end(context: &Context<'_>, partition: &Partition) -> Option<Finding> {
    let physical = context.topology.physical_boundary()?;
    let (end, len) = (partition.span.end(), partition.span.len());
    let miss = Miss::of("physical sector", physical, end)?;
    let (past, rest) = (miss.past, len.remainder(physical.size()));
    // Moving the start fixes both if the end is misaligned by the same amount. In a sector of more than 4 KiB, the
    // last block of 4 KiB costs what the others do.
    let costs_nothing = past.is_multiple_of(USUAL_PHYSICAL) || rest == ByteCount::ZERO;
    // Nothing is written past the disk's end; that is a finding of its own.
    if costs_nothing || reaches_past_end(context, partition) {
        return None;
    }
    let (size, rest_bytes) = (physical.size().get(), rest.get());
    let why = if rest == past {
        format!("its last {rest_bytes} bytes do not fill a physical sector")
    } else {
        format!("its size is {rest_bytes} bytes more than a multiple of {size}")
    };
    let message = format!(
        "ends at byte {end}, {} bytes past a {size}-byte physical sector boundary: {why}",
        past.get()
    );
    Some(Finding::on_partition(rules::END_STRADDLES, partition.number, end, message).missing(miss))
}

fn atomic(context: &Context<'_>, partition: &Partition) -> Option<Finding> {
    let figure = context.topology.atomic.as_ref()?;
    let start = partition.span.start();
    let miss = Miss::of(ATOMIC_UNIT, figure.value().start_boundary()?, start)?;
    let lost = match figure.source() {
        Source::Nvme(_) => "blocks cross the drive's atomic boundary, and a power cut may tear them",
        _ => "the kernel silently disables atomic writes for it",
    };
    let message = format!(
        "starts at byte {start}, {} bytes past a multiple of {} bytes: {lost}",
        miss.past.get(),
        miss.boundary.size().get()
    );
    Some(Finding::on_partition(rules::ATOMIC_LOST, partition.number, start, message).missing(miss))
}

/// Checks a start against 4096 bytes on a disk that reports 512 and may hide more, if it has a partition at
/// sector 63. In doubt 4096 is assumed, unless the user or a probe says otherwise.
fn check_in_doubt(context: &Context<'_>, partition: &Partition, found: &mut Vec<Finding>) {
    let said = matches!(
        context.topology.physical.source(),
        Source::Sysfs(_) | Source::Ioctl(_) | Source::Ata(_) | Source::Scsi(_)
    );
    let is_old_style = context.stack.partitions.iter().any(|partition| partition.start == DOS_START);
    let Some(hides) = context.topology.may_hide.filter(|_| said && is_old_style) else { return };
    // Only virtual disks are smaller.
    let is_in_doubt = hides == Hides::Host || context.size >= SMALLEST_IN_DOUBT;
    let Some(boundary) = Boundary::multiples_of(USUAL_PHYSICAL).filter(|_| is_in_doubt) else { return };
    let start = partition.span.start();
    let Some(miss) = Miss::of(IN_DOUBT, boundary, start) else { return };
    let is_member = partition.layer.as_ref().is_some_and(compensation::begins_elsewhere);
    if is_member || Above::of(&partition.layer, boundary).makes_up() {
        return;
    }
    // The other finding would say the same of hidden sectors.
    found.retain(|finding| finding.rule.code != Code::OFF_GRAIN);
    for finding in found.iter_mut().filter(|finding| finding.rule.code == Code::DOS_START) {
        finding.message =
            "starts at sector 63, as DOS partitions did; this is aligned if the disk has the sectors that it \
             reports"
                .to_owned();
    }
    let (says, unless, find_out) = match hides {
        Hides::Drive => (
            "The disk reports 512-byte physical sectors, but many disks sold from 2010 to 2013 did so \
             although they have 4096-byte ones, and straddle does not know this model",
            "a probe finds 512-byte sectors",
            "straddle probe DISK --save drive.json, then straddle check --measured drive.json DISK",
        ),
        Hides::Host => (
            "Virtual disks report 512-byte physical sectors, regardless of the host's storage (which usually \
             has 4096-byte sectors)",
            "its host's storage has 512-byte sectors",
            "straddle check --domain on the host, or lsblk -t of the disk that holds the image",
        ),
    };
    let message = format!(
        "starts at byte {start} (LBA {}). {says}. The start is assumed to be misaligned, {} bytes past a \
         4096-byte boundary, unless {unless}",
        partition.start,
        miss.past.get()
    );
    let fix = Fix::advice(format!(
        "to find out: {find_out}. If the disk has 4096-byte sectors, move the partition with straddle \
         realign DISK --assume 512e; if not, check it with --assume 512n"
    ));
    let finding = Finding::on_partition(rules::START_STRADDLES, partition.number, start, message);
    let finding = finding.missing(miss).fixed_by(fix);
    found.push(Finding { severity: Severity::Warning, ..finding });
}

fn dos_start(context: &Context<'_>, partition: &Partition) -> Option<Finding> {
    if partition.start != DOS_START || context.stack.block != KERNEL_SECTOR {
        return None;
    }
    let start = partition.span.start();
    let message = match context.topology.physical_boundary() {
        Some(physical) if physical.is_aligned(start) => {
            "starts at sector 63, as DOS partitions did, and is aligned on this drive"
        }
        _ => "starts at sector 63 (after one DOS track), the default of partitioning tools before about 2010",
    };
    Some(Finding::on_partition(rules::DOS_START, partition.number, start, message.to_owned()))
}
