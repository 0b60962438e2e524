//! A plan to copy a disk as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::copy::Copy;
use straddle_repair::realign::Reference;

use super::plan::{pictures, table};
use super::realign::words;
use super::wrap;
use crate::output::{Styles, paint, plural, printable, quote_path};

/// Returns the plan in full, for a terminal of `width` characters; `apply` opens the source with `options`.
pub(crate) fn plan(
    copy: &Copy,
    (old, options, new): (&Path, &str, &Path),
    saved: Option<&Path>,
    width: usize,
    styles: Styles,
) -> String {
    let plan = copy.plan();
    let size = plan.disk().size;
    let headline = format!(
        "{}: {size} ({} bytes), plan: a copy of {}, {} with {} of data",
        printable(&new.display().to_string()),
        size.get(),
        printable(&old.display().to_string()),
        plural(copy.extents().len(), "partition"),
        copy.total()
    );
    let mut text = format!("{}\n", paint(styles.heading, &headline));
    text += &pictures(plan, styles);
    let _ = write!(text, "\n{}\n", table(plan));
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrap(line, width, "  "));
    };
    for lost in copy.over() {
        line(&format!("LOST: {}", printable(lost)));
    }
    for note in plan.notes() {
        line(&printable(note));
    }
    for (number, reference) in copy.references() {
        let what = match reference {
            Reference::BiosBoot => "it holds GRUB's core image, whose sectors the boot code lists: reinstall GRUB on the new disk".to_owned(),
            reference => words(reference),
        };
        line(&format!("partition {number}: {what}"));
    }
    line(
        "identities are kept, so that fstab and boot loaders go on finding them: do not use both disks at the same time",
    );
    let (old, new) = (quote_path(old) + options, quote_path(new));
    let _ = match saved {
        Some(path) => writeln!(
            text,
            "nothing is written yet: straddle apply {} --from {old} --write {new}",
            quote_path(path)
        ),
        None => writeln!(
            text,
            "nothing is written: keep the plan with --save FILE, then straddle apply FILE --from {old} --write {new}"
        ),
    };
    text
}
