//! A plan to realign as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::realign::{Journal, Realign, Reference};

use super::plan::{pictures, table};
use super::wrap;
use crate::output::{Styles, paint, plural, printable, quote_path};

/// Returns the plan in full, for a terminal of `width` characters.
pub(crate) fn plan(
    name: &str,
    realign: &Realign,
    saved: Option<&Path>,
    width: usize,
    styles: Styles,
) -> String {
    let plan = realign.plan();
    let size = plan.disk().size;
    let moved = realign.trips();
    let operand = quote_path(Path::new(name));
    let headline = format!(
        "{}: {size} ({} bytes), plan: {} to move, {} of data",
        printable(name),
        size.get(),
        plural(moved.0, "partition"),
        moved.1
    );
    let mut text = format!("{}\n", paint(styles.heading, &headline));
    text += &pictures(plan, styles);
    let _ = write!(text, "\n{}\n", table(plan));
    for entry in &plan.table().partitions {
        for why in &entry.why {
            let line = format!("partition {}: {}", entry.number, printable(why));
            let _ = writeln!(text, "{}", wrap(&line, width, "  "));
        }
    }
    for (number, reference) in realign.references() {
        let line = format!("partition {number}: {}", words(reference));
        let _ = writeln!(text, "{}", wrap(&line, width, "  "));
    }
    let needs = match realign.journal() {
        Journal::Inside(place) => {
            let line = format!("journal: {} of unallocated space at byte {}", place.len(), place.start());
            let _ = writeln!(text, "{}", wrap(&line, width, "  "));
            ""
        }
        Journal::Elsewhere { needed } => {
            let line = format!(
                "journal: {needed} on another disk (--journal FILE): there is too little unallocated space"
            );
            let _ = writeln!(text, "{}", wrap(&line, width, "  "));
            " --journal JOURNAL"
        }
    };
    let _ = match saved {
        Some(path) => writeln!(
            text,
            "nothing is written yet: straddle apply {} --write {operand}{needs}",
            quote_path(path)
        ),
        None => writeln!(
            text,
            "nothing is written: keep the plan with --save FILE, then straddle apply FILE --write {operand}{needs}"
        ),
    };
    text
}

/// Says what refers to a partition's old place, and what is done about it.
pub(crate) fn words(reference: &Reference) -> String {
    match reference {
        Reference::BootSector { kind, recorded, correct: Some(correct), .. } => format!(
            "its {} boot sector records its start, sector {recorded}: will be changed to {correct}",
            kind.name()
        ),
        Reference::BootSector { kind, .. } => {
            format!("its {} boot sector cannot record the new start: apply will refuse", kind.name())
        }
        Reference::ActivePartition => {
            "the MBR's boot code starts it: a boot loader that lists sectors of the disk must be reinstalled".to_owned()
        }
        Reference::WindowsVolume => {
            "Windows identifies volumes of an MBR disk by their start: drive letters and the boot configuration \
             (bootrec /rebuildbcd) must be renewed"
                .to_owned()
        }
        Reference::BiosBoot => {
            "it holds GRUB's core image, whose sectors the boot code lists: apply will refuse".to_owned()
        }
        Reference::EfiBootEntries => {
            "boot entries of the firmware record its start: renew them with efibootmgr if the firmware does not find it".to_owned()
        }
        Reference::Swap => "swap: a resume_offset= or resume= by offset on the kernel's command line must be renewed".to_owned(),
        Reference::Hibernation => "it holds a hibernated system: apply will refuse".to_owned(),
        Reference::Zones => "F2FS places its zones by the disk: it works, but may be slower than after mkfs.f2fs".to_owned(),
        _ => "something else refers to its place".to_owned(),
    }
}
