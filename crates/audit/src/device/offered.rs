//! Better sectors that the drive itself offers.
//!
//! Invariant: no finding has a command. Changing a drive's sectors destroys everything: the advice names command and
//! danger.

use straddle_device::identify::{FormatNvm, LbaFormat};
use straddle_device::topology::{Formats, LbaFormats};
use straddle_units::BlockSize;

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Finding, Fix};
use crate::shell::operand;

const LISTED: usize = 16;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    match &context.topology.formats {
        Some(Formats::Nvme(formats)) => findings.extend(faster(context, formats)),
        Some(formats @ (Formats::Ata(_) | Formats::Scsi(_))) => findings.extend(larger(context, formats)),
        None => {}
    }
}

fn faster(context: &Context<'_>, formats: &LbaFormats) -> Option<Finding> {
    let (current, (place, faster)) = formats.current().zip(formats.faster())?;
    let message = format!(
        "the namespace is formatted with {}-byte sectors, for which the drive reports {} performance. For \
         {}-byte sectors, it reports {} performance (supported formats: {})",
        size(current),
        current.performance,
        size(faster),
        faster.performance,
        listed(formats)
    );
    let target = operand(context.target);
    let command = format!("nvme format {target} --lbaf={place}");
    let summary = match formats.command {
        Some(FormatNvm { supported: false, .. }) => {
            "leave the format as it is, because the controller does not support formatting a namespace \
             (Identify Controller, OACS); the vendor may have a tool for this"
                .to_owned()
        }
        Some(FormatNvm { all_namespaces: true, .. }) => format!(
            "if the drive is empty or backed up, run {command}. THIS DESTROYS EVERYTHING ON ALL NAMESPACES \
             OF THE DRIVE, because the controller formats them all at once (Identify Controller, FNA)"
        ),
        Some(FormatNvm { all_namespaces: false, .. }) => {
            format!("if the namespace is empty or backed up, run {command}. THIS DESTROYS EVERYTHING ON IT")
        }
        None => format!(
            "if the namespace is empty or backed up, run {command}. THIS DESTROYS EVERYTHING ON IT, and on \
             some drives on all other namespaces (nvme id-ctrl, fna)"
        ),
    };
    Some(Finding::on_disk(rules::FASTER_FORMAT, None, message).fixed_by(Fix::advice(summary)))
}

fn size(format: LbaFormat) -> u64 {
    format.logical.map_or(0, BlockSize::get)
}

/// Such as `0: 512 bytes, good, in force; 1: 4096 bytes, best`.
fn listed(formats: &LbaFormats) -> String {
    let available = formats.list.iter().enumerate().filter(|(_, format)| format.logical.is_some());
    let mut shown: Vec<String> = available
        .map(|(place, format)| {
            let metadata = match format.metadata {
                0 => String::new(),
                bytes => format!(" and {bytes} of metadata"),
            };
            let in_force = if place == usize::from(formats.current) { ", in use" } else { "" };
            format!("{place}: {} bytes{metadata}, {}{in_force}", size(*format), format.performance)
        })
        .collect();
    if shown.len() > LISTED {
        let more = shown.split_off(LISTED).len();
        shown.push(format!("and {more} more"));
    }
    shown.join("; ")
}

fn larger(context: &Context<'_>, formats: &Formats) -> Option<Finding> {
    let topology = context.topology;
    let sector = topology.larger_sector()?.get();
    let sizes: Vec<String> = formats.sizes().iter().map(|size| size.get().to_string()).collect();
    let message = format!(
        "the drive has {}-byte logical and {}-byte physical sectors, and can be set to {sector}-byte logical \
         sectors ({}: {})",
        topology.logical.value().get(),
        topology.physical.value().get(),
        formats.source(),
        sizes.join(", ")
    );
    let target = operand(context.target);
    let (command, danger) = match formats {
        Formats::Scsi(_) => (
            format!("sg_format --format --size={sector} {target}"),
            "Formatting may take hours, and must be repeated if the drive loses power before the end",
        ),
        Formats::Nvme(_) | Formats::Ata(_) => (
            format!("hdparm --set-sector-size {sector} --please-destroy-my-drive {target}"),
            "The drive may reject the command. Do not use it through a USB bridge",
        ),
    };
    let summary = format!(
        "only if the drive is empty or backed up, run {command}. THIS DESTROYS EVERYTHING ON IT. {danger}. A \
         BIOS cannot boot from {sector}-byte sectors"
    );
    Some(Finding::on_disk(rules::LARGER_SECTOR, None, message).fixed_by(Fix::advice(summary)))
}
