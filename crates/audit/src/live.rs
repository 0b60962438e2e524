//! Rules that compare the running kernel with what is written on the disk.

use straddle_layout::live::Disagreement;

use crate::Context;
use crate::catalogue as rules;
use crate::finding::{Finding, Fix};

/// Adds findings about disagreements between the kernel and the disk.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    findings.extend(context.disagreements.iter().map(from_disagreement));
}

fn from_disagreement(disagreement: &Disagreement) -> Finding {
    let at = disagreement.on_disk.drive.or(disagreement.live.drive);
    Finding::on_disk(rules::VIEWS_DISAGREE, at, disagreement.to_string()).fixed_by(Fix::advice(
        "have the kernel read the table again (partx -u, or reboot) before anything more is written",
    ))
}
