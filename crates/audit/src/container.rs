//! Rules about an image's container: where the guest's blocks lie in the container's file.

use straddle_device::image::Container;
use straddle_units::{Boundary, ByteCount};

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Command, Finding, Fix, Miss, Risk};
use crate::shell::operand;

/// Adds all findings about the image's container.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let Some(container) = context.container else { return };
    check_placement(context, container, findings);
    let physical = context.topology.physical.value();
    if container.block < physical && container.block != ByteCount::ZERO {
        let message = format!(
            "{} ({}) allocates {} bytes at a time, less than the host's physical sector of {} bytes",
            container.format,
            container.variant,
            container.block.get(),
            physical.get()
        );
        let fix = convert(context, "qcow2 -o cluster_size=64k");
        findings.push(Finding::on_disk(rules::CONTAINER_UNIT_SMALL, None, message).fixed_by(fix));
    }
}

/// Checks the guest's blocks against the physical sectors of the host's disk. As far as is known, these are
/// the same sectors that the guest's layout is checked against.
fn check_placement(context: &Context<'_>, container: &Container, findings: &mut Vec<Finding>) {
    let physical = context.topology.physical.value();
    let Some(placed) = container.placement.first_below(physical) else { return };
    let Some(boundary) = Boundary::multiples_of(physical) else { return };
    let past = boundary.skew(placed.guest, placed.host);
    // A container block smaller than the boundary may begin inside a sector of the guest.
    let what =
        if boundary.past(placed.host) == past { "" } else { "and the guest's multiples of that begin " };
    let message = format!(
        "{} ({}) keeps byte {} of the guest's disk at byte {} of the file, {what}{} bytes past a {}-byte boundary: what is aligned \
         in the guest straddles on the host",
        container.format,
        container.variant,
        placed.guest,
        placed.host,
        past.get(),
        physical.get()
    );
    let miss = Some(Miss { name: "physical sector of the host", boundary, past });
    let finding = Finding::on_disk(rules::CONTAINER_OFF, Some(placed.host), message);
    findings.push(Finding { miss, ..finding.fixed_by(convert(context, "qcow2")) });
}

/// A fix that converts the image to another format.
fn convert(context: &Context<'_>, format: &str) -> Fix {
    let target = operand(context.file);
    Fix {
        summary: "convert the image to a format that keeps blocks aligned (raw, qcow2, VHDX, or a fixed VHD)"
            .to_owned(),
        commands: vec![Command::other(
            "qemu-img",
            format!("qemu-img convert -O {format} {target} {}", operand(&format!("{}.new", context.file))),
        )],
        risk: Risk::Safe,
        caution: Some(format!(
            "with the guest shut down; a file of the name {} is overwritten, and the guest's configuration has to name it",
            operand(&format!("{}.new", context.file))
        )),
    }
}
