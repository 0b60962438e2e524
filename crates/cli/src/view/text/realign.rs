//! A plan to realign as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::realign::{Journal, Realign, Reference};

use super::plan::{SAVE_FIRST, headline, next_step, pictures, table};
use super::wrap_after;
use crate::output::{plural, printable, quote_path};

/// What comes after the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'a> {
    /// It is not saved.
    Save,
    /// It is saved in this file.
    Apply(&'a Path),
    /// It is carried out when the machine starts.
    AtBoot,
}

/// A plan, and what is shown with it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) target: &'a Path,
    pub(crate) realign: &'a Realign,
    pub(crate) next: Next<'a>,
}

pub(crate) fn plan(View { target, realign, next }: View<'_>) -> String {
    let plan = &realign.plan;
    let moved = realign.trips();
    let (name, operand) = (target.display().to_string(), quote_path(target));
    let what = format!("plan: move {}, {} of data", plural(moved.0, "partition"), moved.1);
    let mut text = headline(&name, &what);
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrap_after(line, "  ", "    "));
    };
    if let Some(estimate) = &realign.estimate {
        line(&crate::estimate::words(estimate));
    }
    let needs = match realign.journal {
        Journal::Inside(place) => {
            line(&format!("journal: {} of unallocated space at byte {}", place.len(), place.start()));
            ""
        }
        Journal::Elsewhere { needed } => {
            line(&format!(
                "journal: {needed} on another disk (--journal FILE): there is too little unallocated space"
            ));
            " --journal JOURNAL"
        }
    };
    for (number, reference) in &realign.references {
        line(&format!("partition {number}: {}", words(reference)));
    }
    for note in &plan.notes {
        line(&format!("note: {}", printable(note)));
    }
    text += &match next {
        Next::AtBoot => String::new(),
        Next::Apply(path) => {
            next_step("", &format!("straddle apply {} --write {operand}{needs}", quote_path(path)))
        }
        Next::Save => next_step(SAVE_FIRST, &format!("straddle apply FILE --write {operand}{needs}")),
    };
    let _ = write!(text, "\n{}\n{}\n", pictures(plan), table(plan));
    for entry in &plan.table.partitions {
        for why in &entry.why {
            let line = format!("partition {}: {}", entry.number, printable(why));
            let _ = writeln!(text, "{}", wrap_after(&line, "  ", "    "));
        }
    }
    text
}

/// Says what refers to a partition's old place, and what is done about it.
pub(super) fn words(reference: &Reference) -> String {
    match reference {
        Reference::BootSector { kind, recorded, correct: Some(correct), .. } => format!(
            "its {} boot sector records its start, sector {recorded}: will be changed to {correct}",
            kind.name()
        ),
        Reference::BootSector { kind, .. } => {
            format!("its {} boot sector cannot record the new start: apply will refuse", kind.name())
        }
        Reference::BiosBoot => {
            "it holds GRUB's core image, whose sectors the boot code lists: apply will refuse".to_owned()
        }
        Reference::Grub { recorded, correct, pieces, .. } => format!(
            "GRUB's core image is in it, at sector {recorded} of the disk: the boot image and its list of {} will be changed to sector {correct}",
            plural(pieces.len(), "piece")
        ),
        Reference::GrubElsewhere => {
            "GRUB's boot code lists sectors of it in a form that cannot be corrected: apply will refuse; install GRUB to the disk first \
             (grub-install DISK)"
                .to_owned()
        }
        Reference::Syslinux { recorded, correct: Some(correct) } => format!(
            "SYSLINUX's boot sector records its start, sector {recorded}: will be changed to {correct}"
        ),
        Reference::Syslinux { .. } => {
            "SYSLINUX's boot sector cannot record the new start: apply will refuse".to_owned()
        }
        Reference::EfiBootEntries => {
            "boot entries of the firmware record its start: renew them with efibootmgr if the firmware does not find it".to_owned()
        }
        Reference::Swap => "swap: a resume_offset= or resume= by offset on the kernel's command line must be renewed".to_owned(),
        Reference::Hibernation => "it holds a hibernated system: apply will refuse".to_owned(),
        Reference::Zones => "F2FS places its zones by the disk: it works, but may be slower than after mkfs.f2fs".to_owned(),
        other => other.afterwards().unwrap_or("something else refers to its place").to_owned(),
    }
}
