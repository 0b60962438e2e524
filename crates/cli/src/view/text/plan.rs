//! A plan as text for people.

use std::fmt::Write;
use std::path::Path;

use straddle_repair::other_tools::Peer;
use straddle_repair::{Change, Considered, Entry, Plan, Slot, type_name};
use straddle_units::{ByteCount, Span};

use crate::commands::plan::Planned;
use crate::output::{self, paint, plural, printable, quote_path, style};
use crate::view::text::tree;
use crate::view::text::{narrowed, wrap, wrap_after};

/// Returns the plan: what will be lost, the next step, the layout; with `explain`, the reasons too.
pub(crate) fn plan(planned: &Planned, saved: Option<&Path>, explain: bool) -> String {
    let plan = &planned.plan;
    let operand = quote_path(&planned.target);
    let mut text = headline(&planned.name, &summary(plan)) + &lost(plan);
    for note in &plan.notes {
        let _ = writeln!(text, "{}", wrap_after(&format!("note: {}", printable(note)), "  ", "    "));
    }
    text += &match saved {
        Some(path) => next_step("", &format!("straddle apply {} --write {operand}", quote_path(path))),
        None => next_step(SAVE_FIRST, &format!("straddle apply FILE --write {operand}")),
    };
    let _ = write!(text, "\n{}\n{}\n", pictures(plan), table(plan));
    let is_placed = |entry: &Entry| matches!(entry.change, Change::New | Change::Moved { .. });
    if plan.table.partitions.iter().any(is_placed) {
        let _ = writeln!(text, "{}", wrap_after(&grain(plan, explain), "  ", "    "));
    }
    if explain {
        text.push_str(&explanation(planned));
    }
    text
}

/// What comes before a command that needs the plan in a file.
pub(super) const SAVE_FIRST: &str = " keep the plan with --save FILE, then";

/// Returns the first line of a plan: `disk.img: plan: …; nothing is written yet`.
pub(super) fn headline(name: &str, what: &str) -> String {
    let name = printable(name);
    let line = wrap_after(&format!("{name}: {what}; nothing is written yet"), "", "  ");
    paint(style::HEADING, &line) + "\n"
}

/// Returns the command to run next, after what has to be done `before` it.
pub(super) fn next_step(before: &str, command: &str) -> String {
    format!("  Next:{before}\n    {}\n", paint(style::HEADING, command))
}

/// Lists what will no longer be reachable, by name and size.
pub(crate) fn lost(plan: &Plan) -> String {
    let mut text = String::new();
    for lost in &plan.lost {
        let what = if lost.is_overwritten {
            "will be overwritten in part, and no longer be reachable"
        } else {
            "will no longer be reachable"
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
        return format!("plan: its {format} in {sector}-byte sectors instead of {former}-byte ones, {count}");
    }
    let what = if plan.fresh { "a new" } else { "its" };
    format!("plan: {what} {format} in {sector}-byte sectors, {count}")
}

fn grain(plan: &Plan, explain: bool) -> String {
    let from = match plan.grain.phase().get() {
        0 => String::new(),
        phase => format!(", counted from byte {phase}"),
    };
    let what = format!("starts at multiples of {}{from}", plan.grain.size());
    if !explain {
        return format!("{what} (why: --explain)");
    }
    let taken: Vec<String> = plan.considered.iter().filter(|c| c.left_out.is_none()).map(describe).collect();
    format!("{what}: {}", taken.join(", "))
}

/// Returns `physical sector 4 KiB [assumed]`.
fn describe(considered: &Considered) -> String {
    let (name, size) = (&considered.name, considered.size.to_string());
    // The name of the "1 MiB grain" contains its size already.
    let size = if name.contains(&*size) { String::new() } else { format!(" {size}") };
    format!("{name}{size} [{}]", considered.source)
}

/// Draws the disk before and after, to scale.
pub(super) fn pictures(plan: &Plan) -> String {
    let spans = |entries: &[Entry]| {
        let drawn = entries.iter().filter(|entry| entry.slot != Slot::Extended);
        drawn.filter_map(|entry| Some((entry.number, plan.span(entry)?))).collect::<Vec<_>>()
    };
    let after = spans(&plan.table.partitions);
    let size = plan.disk.size;
    let before = Layout { name: "before", size, partitions: spans(&plan.before) };
    drawn(&[before, Layout { name: "after", size, partitions: after }])
}

/// A layout to be drawn.
pub(super) struct Layout {
    pub(super) name: &'static str,
    /// The size of its disk.
    pub(super) size: ByteCount,
    /// The partitions by number.
    pub(super) partitions: Vec<(u32, Span)>,
}

/// Draws layouts below each other on the same scale.
pub(super) fn drawn(layouts: &[Layout]) -> String {
    let largest = layouts.iter().map(|layout| layout.size.get()).max().unwrap_or_default();
    let widest = layouts.iter().map(|layout| layout.name.len()).max().unwrap_or_default();
    let line = |layout: &Layout| {
        let bar = tree::bar_line((layout.size.get(), largest), layout.partitions.clone());
        format!("  {:widest$} [{bar}]\n", layout.name)
    };
    let lines: String = layouts.iter().map(line).collect();
    format!("{lines}  {}\n", paint(style::FAINT, &tree::scale(largest)))
}

/// Columns that are left out, in this order, if the terminal is too narrow for all.
const DISPENSABLE: [&str; 4] = ["START BYTE", "SECTORS", "TYPE", "SIZE"];

pub(super) fn table(plan: &Plan) -> String {
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
    narrowed(header, &rows, 5, &DISPENSABLE, 0, output::fits)
}

/// Explains why each partition is where it is, and where other tools would put it.
fn explanation(planned: &Planned) -> String {
    let plan = &planned.plan;
    let mut text = String::new();
    let left_out = plan.considered.iter().filter_map(|c| Some((c, c.left_out.as_ref()?)));
    for (considered, why) in left_out {
        let line = format!("left out: {}: {why}", describe(considered));
        let _ = writeln!(text, "{}", wrap(&line, "  "));
    }
    for entry in plan.table.partitions.iter().filter(|entry| !entry.why.is_empty()) {
        let _ = writeln!(text, "{}", paint(style::HEADING, &format!("partition {}", entry.number)));
        for why in &entry.why {
            let _ = writeln!(text, "{}", wrap(why, "  "));
        }
        let peers = planned.peers.iter().find(|(number, _)| *number == entry.number);
        for peer in peers.map(|(_, peers)| peers.as_slice()).unwrap_or_default() {
            let _ = writeln!(text, "{}", wrap(&of_peer(peer, entry), "  "));
        }
    }
    text.push('\n');
    text
}

fn of_peer(peer: &Peer, entry: &Entry) -> String {
    let Peer { tool, version, rule, start, misses } = peer;
    let place = match start {
        Some(start) if *start == entry.start.get() => "the same".to_owned(),
        Some(start) => format!("LBA {start}"),
        None => "nowhere on this disk".to_owned(),
    };
    let off = if misses.is_empty() { String::new() } else { format!("; off the {}", misses.join(", ")) };
    format!("{tool} ({version}): {place}{off} ({rule})")
}
