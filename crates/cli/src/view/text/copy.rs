//! A plan to copy a disk as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::Slot;
use straddle_repair::copy::Copy;
use straddle_repair::realign::Reference;
use straddle_units::{ByteOffset, Span};

use super::plan::{Layout, SAVE_FIRST, drawn, headline, next_step, table};
use super::{realign, wrap_after};
use crate::output::{plural, printable, quote_path};

/// What to mind after a copy.
const IDENTITIES: &str =
    "UUIDs are kept, so that fstab and boot loaders find the copy: do not use both disks at the same time";

/// What is done before the first write to a disk that is taken for empty.
const READS_FIRST: &str = "apply first reads what it will write of the new disk, and refuses if a byte is not zero (--wipe: overwrite)";

/// A plan, and what is shown with it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) copy: &'a Copy,
    pub(crate) old: &'a Path,
    /// The options with which `apply` opens the source, each after a space.
    pub(crate) options: &'a str,
    pub(crate) new: &'a Path,
    /// Whether `apply` finds out only then whether the copy would write over something.
    pub(crate) reads_first: bool,
    /// The file of the plan, if it is saved.
    pub(crate) saved: Option<&'a Path>,
}

pub(crate) fn plan(view: &View<'_>) -> String {
    let View { copy, old, new, .. } = *view;
    let plan = &copy.plan;
    let what = format!(
        "plan: copy {}, {} with {} of data",
        printable(&old.display().to_string()),
        plural(copy.extents.len(), "partition"),
        copy.total()
    );
    let mut text = headline(&new.display().to_string(), &what);
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrap_after(line, "  ", "    "));
    };
    for lost in &copy.over {
        line(&format!("LOST: {}", printable(lost)));
    }
    for note in &plan.notes {
        line(&printable(note));
    }
    for (number, reference) in &copy.references {
        line(&format!("partition {number}: {}", words(reference)));
    }
    for (number, offset) in &copy.anchors {
        let at = offset.get();
        line(&format!("partition {number}: aligned by the data {at} bytes after its start"));
    }
    if view.reads_first {
        line(READS_FIRST);
    }
    line(IDENTITIES);
    text += &match view.saved {
        Some(path) => next_step("", &next(view, &quote_path(path))),
        None => next_step(SAVE_FIRST, &next(view, "FILE")),
    };
    let _ = write!(text, "\n{}\n{}\n", picture(copy), table(plan));
    text
}

/// Draws the source and the new disk.
fn picture(copy: &Copy) -> String {
    let plan = &copy.plan;
    let entries = plan.table.partitions.iter().filter(|entry| entry.slot != Slot::Extended);
    let new: Vec<(u32, Span)> = entries.filter_map(|entry| Some((entry.number, plan.span(entry)?))).collect();
    let number = |to: ByteOffset| new.iter().find(|(_, span)| span.start() == to).map(|(number, _)| *number);
    let old = copy.extents.iter().filter_map(|one| Some((number(one.to)?, one.from))).collect();
    let source = Layout { name: "source", size: copy.source.size, partitions: old };
    drawn(&[source, Layout { name: "copy", size: plan.disk.size, partitions: new }])
}

/// The command that makes the copy of the plan in `file`.
fn next(view: &View<'_>, file: &str) -> String {
    let old = quote_path(view.old) + view.options;
    format!("straddle apply {file} --from {old} --write {}", quote_path(view.new))
}

/// Says what refers to a partition's old place, and what is done about it.
fn words(reference: &Reference) -> String {
    match reference {
        Reference::BiosBoot => {
            "it holds GRUB's core image, whose sectors the boot code lists: reinstall GRUB on the new disk"
                .to_owned()
        }
        reference => realign::words(reference),
    }
}
