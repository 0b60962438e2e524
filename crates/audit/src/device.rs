//! Rules about the device itself: what it claims, and whether that can be true.

mod offered;

use straddle_device::DeviceKind;
use straddle_device::topology::{AlignmentOffset, Guest, Sectors, Source, StackedOptimum};
use straddle_layout::TableKind;
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, MIB};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Finding, Fix, Severity};
use crate::optimum::bogus_io_opt;

pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    findings.extend(kernel_misaligned(context));
    findings.extend(stacked_io_opt(context));
    findings.extend(bogus_optimum(context));
    findings.extend(quirk(context));
    findings.extend(firmware_offset(context));
    findings.extend(disagreement(context));
    offered::check(context, findings);
    findings.extend(shown_smaller(context));
}

fn kernel_misaligned(context: &Context<'_>) -> Option<Finding> {
    let figure = &context.topology.alignment_offset;
    if figure.value() != AlignmentOffset::Misaligned {
        return None;
    }
    let message = match figure.source() {
        Source::Derived(_) => {
            "the underlying devices have different alignment offsets. Linux 6.1 reports -1 in this case, but \
             this kernel reports an offset that is wrong for part of the data"
        }
        _ => {
            "the kernel reports alignment offset -1: the underlying devices have different alignment \
             offsets, or the data does not start on their physical sectors"
        }
    };
    let fix = Fix::advice(
        "align the partitions or devices that this device consists of (check each one), then recreate the \
         device",
    );
    Some(Finding::on_disk(rules::KERNEL_MISALIGNED, None, message.to_owned()).fixed_by(fix))
}

fn stacked_io_opt(context: &Context<'_>) -> Option<Finding> {
    let StackedOptimum { member, size, physical } = context.topology.stacked_optimum.as_ref()?;
    let message = format!(
        "the kernel reports alignment offset -1, but only because the optimal I/O size of {member}, {} \
         bytes, is not a multiple of the {}-byte physical sector. The alignment offsets of the underlying \
         devices agree, and starts are checked against these offsets",
        size.get(),
        physical.get()
    );
    let fix = Fix::advice(
        "correct the size where it is set (QEMU: opt_io_size=0), or leave it, because tools read -1 as 0, \
         which misaligns nothing",
    );
    Some(Finding::on_disk(rules::BOGUS_IO_OPT, None, message).fixed_by(fix))
}

fn bogus_optimum(context: &Context<'_>) -> Option<Finding> {
    let why = bogus_io_opt(context.topology)?;
    let figure = context.topology.io_opt.as_ref()?;
    let opt = figure.value();
    let tools = match ByteCount::new(MIB).is_multiple_of(opt) {
        true => "Tools still align to 1 MiB, which is a multiple of this size",
        false => "By default, parted and LVM align to it",
    };
    let message = format!(
        "the optimal I/O size, {} bytes ({}), is impossible: {why}. {tools}",
        opt.get(),
        figure.source()
    );
    let fix = Fix::advice(
        "when partitioning, specify starts in MiB instead of using the default (parted: unit MiB, or -a \
         minimal)",
    );
    Some(Finding::on_disk(rules::BOGUS_IO_OPT, None, message).fixed_by(fix))
}

fn quirk(context: &Context<'_>) -> Option<Finding> {
    let physical = &context.topology.physical;
    let sources =
        std::iter::once(physical.source()).chain(physical.others().iter().map(|claim| &claim.source));
    let pattern = sources.into_iter().find_map(|source| match source {
        Source::Quirk(pattern) => Some(pattern),
        _ => None,
    })?;
    let claims: Vec<String> = physical
        .disagreeing()
        .map(|claim| format!("{} reports {}", claim.source, claim.value.get()))
        .collect();
    let message = format!(
        "{} (listed as {pattern}) has {}-byte physical sectors, but does not report them: {}",
        context.model.unwrap_or("this drive"),
        physical.value().get(),
        claims.join(", ")
    );
    let fix =
        Fix::advice("specify starts in MiB, because tools that trust the drive may misalign partitions");
    Some(Finding::on_disk(rules::KNOWN_LIAR, None, message).fixed_by(fix))
}

fn firmware_offset(context: &Context<'_>) -> Option<Finding> {
    let figure = &context.topology.alignment_offset;
    let AlignmentOffset::Bytes(offset) = figure.value() else { return None };
    if offset == ByteCount::ZERO {
        return None;
    }
    let at = ByteOffset::new(offset.get());
    let first = Lba::containing(at, context.topology.logical.value());
    let (because, summary) = reason_of_offset(context, offset);
    let message = format!(
        "addresses are shifted: the first physical sector boundary is at byte {at} (LBA {first}; \
         {}){because}",
        figure.source()
    );
    Some(Finding::on_disk(rules::FIRMWARE_OFFSET, Some(at), message).fixed_by(Fix::advice(summary)))
}

/// Only a drive has a jumper.
fn reason_of_offset(context: &Context<'_>, offset: ByteCount) -> (&'static str, &'static str) {
    let block = context.topology.logical.value();
    let at_63 = Boundary::new(context.topology.physical.value(), offset)
        .zip(Lba::new(63).to_bytes(block))
        .is_some_and(|(physical, start)| physical.is_aligned(start));
    let is_held = matches!(context.topology.alignment_offset.source(), Source::Derived(_));
    match context.kind {
        _ if is_held && context.topology.guest.is_some() => (
            "; the guest's disk is stored on a misaligned partition or device of the host",
            "align that partition on the host (check the host's disk)",
        ),
        DeviceKind::Loop => (
            "; this loop device starts at a misaligned offset of its file or device",
            "set it up again at an aligned offset (losetup -o), and recreate its contents; until then, use \
             starts that this check reports as aligned",
        ),
        DeviceKind::Md | DeviceKind::DeviceMapper => (
            "; the underlying device is misaligned",
            "align the partitions or devices that this device consists of (check each one) before adding \
             anything to it; until then, use starts that this check reports as aligned",
        ),
        DeviceKind::Scsi | DeviceKind::Image | DeviceKind::Modelled if at_63 => (
            "; this offset (set by the XP jumper of early WD drives) aligns sector 63 and misaligns every \
             multiple of 1 MiB",
            if matches!(context.stack.kind, TableKind::None) {
                "remove the jumper (pins 7 and 8 on WD drives) before the disk is partitioned"
            } else {
                "leave the jumper (pins 7 and 8 on WD drives) as it is while the disk holds data, because it \
                 shifts the address of every sector, and use starts that this check reports as aligned"
            },
        ),
        DeviceKind::Virtual => (
            "; the host's disk image or device is misaligned",
            "align the disk's image or device on the host; until then, use starts that this check reports as \
            aligned",
        ),
        _ => ("", "use starts that this check reports as aligned"),
    }
}

fn disagreement(context: &Context<'_>) -> Option<Finding> {
    let physical = &context.topology.physical;
    let settled = |source: &Source| {
        matches!(
            source,
            Source::Declared
                | Source::Measured
                | Source::Assumed
                | Source::Quirk(_)
                | Source::Derived(_)
                | Source::Guest
        )
    };
    // Declared by the user, or corrected by the list of misreporting drives.
    if settled(physical.source()) {
        return None;
    }
    let others: Vec<String> = physical
        .disagreeing()
        .filter(|claim| !settled(&claim.source))
        .map(|claim| format!("{} bytes according to {}", claim.value.get(), claim.source))
        .collect();
    if others.is_empty() {
        return None;
    }
    let message = format!(
        "the physical sector is {} bytes according to {}, but {}; {}",
        physical.value().get(),
        physical.source(),
        others.join(", "),
        physical.why().unwrap_or("the first size is used")
    );
    Some(Finding::on_disk(rules::SOURCES_DISAGREE, None, message))
}

fn shown_smaller(context: &Context<'_>) -> Option<Finding> {
    let guest = context.topology.guest.as_ref()?;
    let Sectors { logical, physical } = guest.shown?;
    let Sectors { logical: below, physical: storage } = guest.storage?;
    if physical >= storage {
        return None;
    }
    let Guest { domain, disk, .. } = guest;
    // The host reads and writes again sectors that the storage does not address.
    let (severity, who) = match logical < below {
        true => {
            (rules::GUEST_SHOWN_SMALLER.severity, "the host does a read-modify-write for each smaller write")
        }
        false => {
            (Severity::Advice, "the drive does a read-modify-write for each write of a single guest sector")
        }
    };
    let message = format!(
        "{disk} of the domain {domain} has {logical}-byte logical and {}-byte physical sectors in the guest, \
         but its storage has {below}-byte logical and {}-byte physical sectors, so {who}",
        physical.get(),
        storage.get()
    );
    let fix = Fix::advice(format!(
        "add <blockio logical_block_size='{logical}' physical_block_size='{}'/> to the <disk> element of \
         {disk} (virsh edit), then shut the domain down and start it again; do not change the logical size, \
         because the partition table uses it",
        storage.get()
    ));
    let finding = Finding::on_disk(rules::GUEST_SHOWN_SMALLER, None, message).fixed_by(fix);
    Some(Finding { severity, ..finding })
}
