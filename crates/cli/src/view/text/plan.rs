//! Plans of tables, moves and copies as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::copy::Copy;
use straddle_repair::realign::{Journal, Realign, Reference};
use straddle_repair::relocate::Traffic;
use straddle_repair::{Change, Considered, Entry, Plan, Slot, type_name};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::output::{self, paint, plural, printable, quote_path, style};
use crate::view::text::{finding, narrowed, tree, wrap, wrap_after};

/// Returns the plan: what will be lost, the next step, the layout; with `explain`, the reasons too.
pub(crate) fn plan(target: &Path, plan: &Plan, saved: Option<&Path>, explain: bool) -> String {
    let (name, operand) = (target.display().to_string(), quote_path(target));
    let mut text = headline(&name, &summary(plan)) + &lost(plan);
    for note in &plan.notes {
        let _ = writeln!(text, "{}", wrap_after(&format!("note: {}", printable(note)), "  ", "    "));
    }
    text += &next_step(saved, &format!("--write {operand}"));
    let _ = write!(text, "\n{}{}\n", pictures(plan), table(plan));
    let is_placed = |entry: &Entry| matches!(entry.change, Change::New | Change::Moved { .. });
    if plan.table.partitions.iter().any(is_placed) {
        let _ = writeln!(text, "{}", wrap_after(&grain(plan, explain), "  ", "    "));
    }
    if plan.table.partitions.iter().any(|entry| matches!(entry.change, Change::Grown { .. })) {
        let _ = writeln!(text, "{}", wrap_after(GROW_CONTENTS, "  ", "    "));
    }
    if explain {
        text.push_str(&explanation(plan));
    }
    text
}

const GROW_CONTENTS: &str = "the contents keep their size; grow them afterwards (resize2fs, xfs_growfs, \
                             btrfs filesystem resize, ntfsresize, pvresize)";

/// Returns the first line of a plan: `disk.img: plan: …; nothing has been written yet`.
fn headline(name: &str, what: &str) -> String {
    let name = printable(name);
    let line = wrap_after(&format!("{name}: {what}; nothing has been written yet"), "", "  ");
    paint(style::HEADING, &line) + "\n"
}

/// Returns the command that carries out the plan that is saved in a file, or is to be saved first.
fn next_step(saved: Option<&Path>, options: &str) -> String {
    let file = saved.map_or_else(|| "FILE".to_owned(), quote_path);
    let before = if saved.is_some() { "" } else { " save the plan with --save FILE, then" };
    let command = format!("straddle apply {file} {options}");
    format!("  Next:{before}\n    {}\n", paint(style::HEADING, &command))
}

pub(crate) fn lost(plan: &Plan) -> String {
    let mut text = String::new();
    for lost in &plan.lost {
        let what = if lost.is_overwritten {
            "will be partly overwritten and become inaccessible"
        } else {
            "will become inaccessible"
        };
        let line = wrap(&format!("{what}: {}", printable(&lost.to_string())), "  ");
        let _ = writeln!(text, "{}", paint(style::WARNING, &line));
    }
    text
}

fn summary(plan: &Plan) -> String {
    let count = plural(plan.table.partitions.len(), "partition");
    let (format, sector) = (plan.table.format, plan.block());
    if let Some(former) = plan.converts {
        return format!("plan: convert its {format} from {former}-byte to {sector}-byte sectors, {count}");
    }
    let what = if plan.fresh { "a new" } else { "its" };
    format!("plan: {what} {format} in {sector}-byte sectors, {count}")
}

fn grain(plan: &Plan, explain: bool) -> String {
    let from = match plan.grain.phase().get() {
        0 => String::new(),
        phase => format!(", relative to byte {phase}"),
    };
    let is_off = |entry: &&Entry| {
        let span = plan.span(entry).filter(|_| entry.slot != Slot::Extended);
        span.is_some_and(|span| plan.grain.past(span.start()) != ByteCount::ZERO)
    };
    let off: Vec<String> =
        plan.table.partitions.iter().filter(is_off).map(|entry| entry.number.to_string()).collect();
    let except =
        if off.is_empty() { String::new() } else { format!(", except partition {}", off.join(", ")) };
    let what = format!("starts at multiples of {}{from}{except}", plan.grain.size());
    let taken = || plan.considered.iter().filter(|c| c.left_out.is_none());
    if explain {
        return format!("{what}: {}", taken().map(describe).collect::<Vec<_>>().join(", "));
    }
    let of_array = |c: &&Considered| matches!(&*c.name, "RAID chunk" | "stripe");
    let array: Vec<String> = taken().filter(of_array).map(|c| format!("{} of {}", c.name, c.size)).collect();
    let fits = if array.is_empty() { String::new() } else { format!("; this fits the {}", array.join(", ")) };
    let is_taken = |name: &str| taken().any(|considered| considered.name == name);
    let stripe = match is_taken("RAID chunk") && !is_taken("stripe") {
        true => "; for RAID 5 or 6, also specify the stripe",
        false => "",
    };
    format!("{what}{fits}{stripe} (--explain shows why)")
}

/// Returns `physical sector 4 KiB [assumed]`.
fn describe(considered: &Considered) -> String {
    let (name, size) = (&considered.name, considered.size.to_string());
    // The name of the "1 MiB grain" contains its size already.
    let size = if name.contains(&*size) { String::new() } else { format!(" {size}") };
    format!("{name}{size} [{}]", considered.source)
}

fn pictures(plan: &Plan) -> String {
    let layout = |name, entries| Layout { name, size: plan.disk.size, partitions: spans(plan, entries) };
    drawn(&[layout("before", &plan.before), layout("after", &plan.table.partitions)])
}

fn spans(plan: &Plan, entries: &[Entry]) -> Vec<(u32, Span)> {
    let drawn = entries.iter().filter(|entry| entry.slot != Slot::Extended);
    drawn.filter_map(|entry| Some((entry.number, plan.span(entry)?))).collect()
}

struct Layout {
    name: &'static str,
    size: ByteCount,
    partitions: Vec<(u32, Span)>,
}

fn drawn(layouts: &[Layout]) -> String {
    let largest = layouts.iter().map(|layout| layout.size.get()).max().unwrap_or_default();
    let widest = layouts.iter().map(|layout| layout.name.len()).max().unwrap_or_default();
    let bar = |layout: &Layout| tree::bar_line((layout.size.get(), largest), layout.partitions.clone());
    let bars: Vec<String> = layouts.iter().map(bar).collect();
    // A change too small for the scale.
    if bars.iter().all(|bar| *bar == bars[0]) {
        return String::new();
    }
    let line = |(layout, bar): (&Layout, &String)| format!("  {:widest$} [{bar}]\n", layout.name);
    let lines: String = layouts.iter().zip(&bars).map(line).collect();
    format!("{lines}  {}\n\n", paint(style::FAINT, &tree::scale(largest)))
}

fn table(plan: &Plan) -> String {
    let header = ["#", "START LBA", "START BYTE", "SECTORS", "SIZE", "TYPE", "NAME", "CHANGE"];
    let mut rows = Vec::new();
    let sector = plan.block().get();
    let gone = plan.before.iter().filter(|_| !plan.fresh);
    let gone = gone.filter(|old| {
        !plan.table.partitions.iter().any(|new| {
            let start = match new.change {
                Change::Moved { from, .. } => from,
                _ => new.start,
            };
            // The record of a logical partition may move with it.
            let moves = matches!(new.change, Change::Moved { .. });
            start == old.start && (new.slot == old.slot || moves)
        })
    });
    let mut row = |entry: &Entry, change: String| {
        let kind = type_name(&entry.kind, plan.table.format).unwrap_or(&entry.kind);
        rows.push([
            entry.number.to_string(),
            entry.start.to_string(),
            entry.start.get().saturating_mul(sector).to_string(),
            entry.sectors.to_string(),
            ByteCount::new(entry.sectors.get().saturating_mul(sector)).to_string(),
            kind.to_owned(),
            printable(&entry.name),
            change,
        ]);
    };
    for entry in &plan.table.partitions {
        let change = match entry.change {
            Change::Kept => "kept".to_owned(),
            Change::New => "new".to_owned(),
            Change::Grown { from } => {
                let more =
                    ByteCount::new(entry.sectors.get().saturating_sub(from.get()).saturating_mul(sector));
                format!("grows by {more}")
            }
            Change::Moved { from, .. } if from == entry.start => "another size".to_owned(),
            Change::Moved { from, .. } => format!("moves from LBA {from}"),
        };
        row(entry, change);
    }
    gone.for_each(|entry| row(entry, "deleted".to_owned()));
    narrowed(header, &rows, 5, &finding::DISPENSABLE, 0, output::fits)
}

fn explanation(plan: &Plan) -> String {
    let mut text = String::new();
    let left_out = plan.considered.iter().filter_map(|c| Some((c, c.left_out.as_ref()?)));
    for (considered, why) in left_out {
        let line = format!("left out: {} ({why})", describe(considered));
        let _ = writeln!(text, "{}", wrap(&line, "  "));
    }
    for entry in plan.table.partitions.iter().filter(|entry| !entry.why.is_empty()) {
        let _ = writeln!(text, "{}", paint(style::HEADING, &format!("partition {}", entry.number)));
        for why in &entry.why {
            let _ = writeln!(text, "{}", wrap(why, "  "));
        }
    }
    text.push('\n');
    text
}

/// Returns a plan of moves: `saved` in a file, perhaps, or carried out when the machine starts.
pub(crate) fn moves(target: &Path, realign: &Realign, saved: Option<&Path>, is_at_boot: bool) -> String {
    let plan = &realign.plan;
    let (name, operand) = (target.display().to_string(), quote_path(target));
    let what =
        format!("plan: move {}, {} of data", plural(realign.moves.len(), "partition"), realign.total());
    let mut text = headline(&name, &what);
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrap_after(line, "  ", "    "));
    };
    if let Ok(Traffic { read, written, journal }) = realign.traffic() {
        let total = written.checked_add(journal).unwrap_or(written);
        line(&format!("{read} to read and {total} to write, including {journal} to the journal"));
    }
    let needs = match realign.journal {
        Journal::Inside(place) => {
            line(&format!(
                "journal: {} of unallocated space at byte {}, reused for each step",
                place.len(),
                place.start()
            ));
            String::new()
        }
        Journal::Elsewhere { needed } => {
            line(&format!(
                "journal: {needed} on another disk (--journal FILE), because there is too little unallocated \
                 space"
            ));
            // As `check` names it.
            let file = saved
                .map_or_else(|| "JOURNAL".to_owned(), |plan| quote_path(&plan.with_extension("journal")));
            format!(" --journal {file}")
        }
    };
    for (number, reference) in &realign.references {
        line(&format!("partition {number}: {}", words(reference)));
    }
    for note in &plan.notes {
        line(&format!("note: {}", printable(note)));
    }
    if !is_at_boot {
        text += &next_step(saved, &format!("--write {operand}{needs}"));
    }
    let _ = write!(text, "\n{}{}\n", pictures(plan), table(plan));
    for entry in &plan.table.partitions {
        for why in &entry.why {
            let line = format!("partition {}: {}", entry.number, printable(why));
            let _ = writeln!(text, "{}", wrap_after(&line, "  ", "    "));
        }
    }
    text
}

fn words(reference: &Reference) -> String {
    match reference {
        Reference::BootSector { kind, recorded, correct: Some(correct), .. } => format!(
            "its {} boot sector records the start as sector {recorded}, which will be changed to {correct}",
            kind.name()
        ),
        Reference::BootSector { kind, .. } => {
            format!("its {} boot sector cannot hold the new start, so apply will refuse", kind.name())
        }
        Reference::BiosBoot => {
            "it holds GRUB's core image, and the boot code lists the image's sectors, so apply will refuse"
                .to_owned()
        }
        Reference::Grub { recorded, correct, pieces, .. } => format!(
            "it holds GRUB's core image at sector {recorded} of the disk; the boot image and its list of {} \
             will be changed to sector {correct}",
            plural(pieces.len(), "piece")
        ),
        Reference::GrubElsewhere => {
            "GRUB's boot code lists sectors of this partition in an unsupported form, so apply will refuse; \
             first reinstall GRUB on the disk (grub-install DISK)"
                .to_owned()
        }
        Reference::Syslinux { recorded, correct: Some(correct) } => format!(
            "SYSLINUX's boot sector records the start as sector {recorded}, which will be changed to \
             {correct}"
        ),
        Reference::Syslinux { .. } => {
            "SYSLINUX's boot sector cannot hold the new start, so apply will refuse".to_owned()
        }
        Reference::EfiBootEntries => {
            "firmware boot entries record its start; if the firmware no longer finds the partition, update \
             them with efibootmgr"
                .to_owned()
        }
        Reference::Swap => {
            "swap: if the kernel's command line has resume_offset=, or resume= with an offset, update it"
                .to_owned()
        }
        Reference::Hibernation => "it holds a hibernated system, so apply will refuse".to_owned(),
        Reference::Zones => "F2FS aligned its zones to the old position; the file system will work, but may \
                             be slower than a new one"
            .to_owned(),
        other => other.afterwards().unwrap_or("other data refers to its position").to_owned(),
    }
}

const IDENTITIES: &str =
    "UUIDs are kept, so that fstab and boot loaders find the copy; do not use both disks at the same time";

/// What is done before the first write to a disk that is taken for empty.
const READS_FIRST: &str = "apply first reads the parts of the new disk that it will write, and refuses if \
                           any of these bytes is not zero (--wipe overwrites them anyway)";

#[derive(Clone, Copy)]
pub(crate) struct CopyView<'a> {
    pub(crate) copy: &'a Copy,
    pub(crate) old: &'a Path,
    /// The options with which `apply` opens the source, each after a space.
    pub(crate) options: &'a str,
    pub(crate) new: &'a Path,
    /// Whether `apply` finds out only then whether the copy would write over something.
    pub(crate) reads_first: bool,
    pub(crate) saved: Option<&'a Path>,
}

pub(crate) fn copy(view: &CopyView<'_>) -> String {
    let CopyView { copy, old, new, .. } = *view;
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
        line(&format!("partition {number}: {}", words_of_copy(reference)));
    }
    for (number, offset) in &copy.anchors {
        let at = offset.get();
        line(&format!(
            "partition {number}: its data, {at} bytes after its start, is aligned instead of the start"
        ));
    }
    if view.reads_first {
        line(READS_FIRST);
    }
    line(IDENTITIES);
    let from = quote_path(old) + view.options;
    text += &next_step(view.saved, &format!("--from {from} --write {}", quote_path(new)));
    let _ = write!(text, "\n{}{}\n", picture(copy), table(plan));
    text
}

fn picture(copy: &Copy) -> String {
    let plan = &copy.plan;
    let new = spans(plan, &plan.table.partitions);
    let number = |to: ByteOffset| new.iter().find(|(_, span)| span.start() == to).map(|(number, _)| *number);
    let old = copy.extents.iter().filter_map(|one| Some((number(one.to)?, one.from))).collect();
    let source = Layout { name: "source", size: copy.source.size, partitions: old };
    drawn(&[source, Layout { name: "copy", size: plan.disk.size, partitions: new }])
}

fn words_of_copy(reference: &Reference) -> String {
    let reinstall = "it holds GRUB's core image, and the boot code lists the image's sectors; reinstall GRUB \
                     on the new disk";
    if *reference == Reference::BiosBoot { reinstall.to_owned() } else { words(reference) }
}
