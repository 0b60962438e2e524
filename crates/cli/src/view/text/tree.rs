//! Draws a disk: its partitions as a table and as a bar to scale, and all layers as a tree with their offsets.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

use straddle_audit::examine::Examined;
use straddle_audit::{Finding, Reported, Step, Subject};
use straddle_layout::layer::{Facts, FileSystem, Layer, Segment};
use straddle_layout::{Partition, Role, Stack, types};
use straddle_units::{ByteCount, ByteOffset, Span};
use textwrap::core::display_width;

use crate::output::{self, paint, printable, style};
use crate::view::text::severity_style;

/// Most cells of the bar, and the columns beside it where the plan draws two of them.
const BAR: u64 = 72;
const BESIDE_BAR: u64 = 11;

fn bar_width() -> u64 {
    u64::try_from(output::width()).unwrap_or(BAR).saturating_sub(BESIDE_BAR).clamp(1, BAR)
}

pub(crate) fn draw(audited: &Examined) -> String {
    let has_partitions = !audited.stack().partitions.is_empty();
    let mut text = if has_partitions { bar(audited) } else { String::new() };
    let disk = Node { audited };
    let Stack { layer, partitions, .. } = audited.stack();
    if let Some(layer) = layer {
        disk.layer(layer, "", &[], partitions.is_empty(), &mut text);
    }
    for (index, partition) in partitions.iter().enumerate() {
        disk.partition(partition, index + 1 == partitions.len(), &mut text);
    }
    text
}

/// Returns the cells of the bar up to `at` of `size` bytes, to the nearest one.
fn cells(at: u64, size: u64) -> u64 {
    let size = u128::from(size.max(1));
    let cells = (u128::from(at) * u128::from(bar_width()) + size / 2) / size;
    u64::try_from(cells).unwrap_or(0).min(bar_width())
}

fn bar(audited: &Examined) -> String {
    let size = audited.target().size.get();
    let listed = audited.stack().partitions.iter().filter(|p| p.role != Role::Extended);
    let line = bar_line((size, size), listed.map(|partition| (partition.number, partition.span)).collect());
    format!("  [{line}]\n  {}\n", paint(style::FAINT, &scale(size)))
}

pub(crate) fn scale(size: u64) -> String {
    format!("to scale: one character is {}, a dot is unallocated space", ByteCount::new(size / bar_width()))
}

/// Beside one of `largest` bytes, to scale: each partition as its number, free space as dots. A partition gets at
/// least one cell, and pushes those after it.
pub(crate) fn bar_line((size, largest): (u64, u64), mut partitions: Vec<(u32, Span)>) -> String {
    partitions.sort_by_key(|(_, span)| span.start());
    let end = cells(size, largest).max(1);
    let (mut line, mut drawn) = (String::new(), 0);
    for (index, (number, span)) in partitions.iter().enumerate() {
        let mark = char::from_digit(number % 36, 36).unwrap_or('?');
        // Those after this one need a cell each.
        let limit = end.saturating_sub((partitions.len() - index - 1) as u64).max(drawn);
        let first = cells(span.start().get(), largest).clamp(drawn, limit.saturating_sub(1).max(drawn));
        let last = cells(span.end().get(), largest).clamp((first + 1).min(limit), limit);
        line.extend((drawn..first).map(|_| '.').chain((first..last).map(|_| mark)));
        drawn = last;
    }
    line.extend((drawn..end).map(|_| '.'));
    line
}

#[derive(Clone, Copy)]
struct Node<'a> {
    audited: &'a Examined,
}

/// Returns the line with the marks behind it, or below it if the terminal is too narrow for both.
fn marked(line: &str, marks: &str) -> String {
    if marks.is_empty() || output::fits(display_width(line) + display_width(marks)) {
        return format!("{line}{marks}");
    }
    let indent = line.len() - line.trim_start_matches([' ', '|', '`', '-']).len();
    format!("{line}\n{}{}", " ".repeat(indent), marks.trim_start())
}

impl Node<'_> {
    fn partition(self, partition: &Partition, last: bool, text: &mut String) {
        let name = types::name(&partition.kind).unwrap_or("partition");
        let line = format!(
            "partition {}: {name}, {}, at byte {}",
            partition.number,
            partition.span.len(),
            partition.span.start()
        );
        let path = [Step::partition(partition.number)];
        let subject = Subject::Partition(partition.number);
        let marks = self.marks(|f| f.layer.is_empty() && f.subject == subject);
        let _ = writeln!(text, "{}", marked(&format!("  {}{line}", branch(last)), &marks));
        if let Some(layer) = &partition.layer {
            self.layer(layer, below(last), &path, true, text);
        }
    }

    fn layer(self, layer: &Layer, indent: &str, path: &[Step], last: bool, text: &mut String) {
        let own = straddle_audit::called(layer);
        let path = [path, &[Step::of(layer)]].concat();
        let marks = self.marks(|f| f.layer == path);
        let _ = writeln!(text, "  {indent}{}{own}{}{marks}", branch(last), facts(layer));
        let inner = format!("{indent}{}", below(last));
        for remark in &layer.remarks {
            let note = paint(style::FAINT, &format!("note: {}", printable(remark)));
            let _ = writeln!(text, "  {inner}   {note}");
        }
        if let Facts::Table(table) = &layer.facts {
            return self.nested(table, &layer.children, &inner, &path, text);
        }
        for (index, child) in layer.children.iter().enumerate() {
            self.layer(child, &inner, &path, index + 1 == layer.children.len(), text);
        }
    }

    /// Draws the partitions of a table inside another layer, each with what it contains.
    fn nested(self, table: &Stack, children: &[Layer], indent: &str, path: &[Step], text: &mut String) {
        let is_in = |child: &&Layer, partition: &Partition| partition.span.start() == child.below.start();
        let listed: Vec<&Partition> = table.partitions.iter().filter(|p| p.role != Role::Extended).collect();
        let strays: Vec<&Layer> =
            children.iter().filter(|child| !listed.iter().any(|partition| is_in(child, partition))).collect();
        let count = listed.len() + strays.len();
        for (index, partition) in listed.iter().enumerate() {
            let last = index + 1 == count;
            let path = [path, &[Step::partition(partition.number)]].concat();
            let marks = self.marks(|f| f.layer == path);
            let line = format!(
                "partition {}: {}, at +{}",
                partition.number,
                partition.span.len(),
                partition.span.start()
            );
            let _ = writeln!(text, "{}", marked(&format!("  {indent}{}{line}", branch(last)), &marks));
            let inner = format!("{indent}{}", below(last));
            let on: Vec<&Layer> = children.iter().filter(|child| is_in(child, partition)).collect();
            for (index, child) in on.iter().enumerate() {
                self.layer(child, &inner, &path, index + 1 == on.len(), text);
            }
        }
        for (index, child) in strays.iter().enumerate() {
            self.layer(child, indent, path, listed.len() + index + 1 == count, text);
        }
    }

    /// The codes of reported findings, wherever they are printed, coloured by the worst.
    fn marks(self, about: impl Fn(&Finding) -> bool) -> String {
        let is_reported = |f: &&Finding| matches!(f.reported, Reported::Here | Reported::At(_));
        let findings = self.audited.findings().iter().filter(is_reported).filter(|f| about(f));
        let codes: BTreeSet<_> = findings.map(|f| (Reverse(f.severity), f.rule.code.as_str())).collect();
        let Some((Reverse(worst), _)) = codes.first() else { return String::new() };
        let codes: Vec<&str> = codes.iter().map(|(_, code)| *code).collect();
        format!("  {}", paint(severity_style(*worst), &format!("<-- {}", codes.join(", "))))
    }
}

fn branch(last: bool) -> &'static str {
    if last { "`- " } else { "|- " }
}

fn below(last: bool) -> &'static str {
    if last { "   " } else { "|  " }
}

/// The figures of a layer, and where its space lies: `, chunk 512 KiB: data at +1048576 = byte 2097152`.
fn facts(layer: &Layer) -> String {
    let mut parts: Vec<String> = Vec::new();
    match &layer.facts {
        Facts::Md(md) => {
            parts.push(format!("metadata {}", md.version));
            if let Some(role) = md.role {
                parts.push(format!("member {role} of {}", md.raid_disks));
            }
            if md.chunk != ByteCount::ZERO {
                parts.push(format!("chunk {}", md.chunk));
            }
            parts.extend(md.stripe().map(|stripe| format!("stripe {stripe}")));
        }
        Facts::Pv(pv) if pv.extent_size != ByteCount::ZERO => {
            parts.push(format!("extents of {}", pv.extent_size));
        }
        Facts::Lv(lv) => parts.extend(lv.segments.first().map(|first| segment(first, lv.segments.len()))),
        Facts::Luks(luks) => parts.push(format!("sectors of {} bytes", luks.sector_size.get())),
        Facts::Mapped(mapped) => {
            parts.extend(mapped.block.map(|block| format!("blocks of {} bytes", block.get())))
        }
        Facts::FileSystem(fs) => parts.extend(file_system(fs)),
        Facts::Pv(_) | Facts::Table(_) | Facts::Opaque => {}
    }
    let mut text = if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) };
    if let Some(piece) = layer.space.first() {
        // A volume counts from the first byte of its PV, every other layer from its own.
        let own = match &layer.facts {
            Facts::Lv(_) => piece.below.get(),
            _ => piece.below.checked_since(layer.below.start()).map_or(0, ByteCount::get),
        };
        let _ = write!(text, ": data at +{own} = byte {}", piece.drive);
        if layer.space.len() > 1 {
            let _ = write!(text, ", in {} pieces", layer.space.len());
        }
    } else if let Some(at) = layer.drive {
        let _ = write!(text, ": at byte {at}");
    }
    text
}

fn segment(first: &Segment, count: usize) -> String {
    let kind = match first.kind.as_str() {
        "striped" if first.stripes <= 1 => "linear",
        kind => kind,
    };
    let mut text = kind.to_owned();
    if first.stripes > 1 {
        let _ = write!(text, " over {}", first.stripes);
    }
    if first.stripe_size != ByteCount::ZERO && first.stripes > 1 {
        let _ = write!(text, ", stripes of {}", first.stripe_size);
    }
    if count > 1 {
        let _ = write!(text, ", {count} segments");
    }
    text
}

fn file_system(fs: &FileSystem) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = |name: &str, size: Option<ByteCount>| {
        if let Some(size) = size.filter(|size| *size != ByteCount::ZERO) {
            parts.push(format!("{name} {}", size.get()));
        }
    };
    part("block", Some(fs.block));
    part("sector", fs.sector);
    part("log sector", fs.log_sector);
    part("cluster", fs.cluster);
    part("stripe unit", fs.stripe_unit);
    part("stripe width", fs.stripe_width);
    parts.extend(fs.ashift.map(|ashift| format!("ashift {ashift}")));
    let data = fs.data_start.filter(|at| *at != ByteOffset::ZERO);
    parts.extend(data.map(|at| format!("data area at +{at}")));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_drawn_in_their_order_and_free_space_only_where_there_is_some() {
        let span = |start, end: u64| Span::new(ByteOffset::new(start), ByteCount::new(end - start)).unwrap();
        let part = |number, start, end| (number, span(start, end));
        let (tib, last) = (1 << 40, (8 << 40) - (1 << 20));
        let esp_root_rest =
            vec![part(3, 101 << 30, last), part(2, 1 << 30, 101 << 30), part(1, 1 << 20, 1 << 30)];
        let size = 8 * tib;
        let width = usize::try_from(bar_width()).unwrap();
        assert_eq!(bar_line((size, size), esp_root_rest), format!("12{}", "3".repeat(width - 2)));
        let small_last =
            vec![part(1, 1 << 20, last - 2), part(2, last - 2, last - 1), part(3, last - 1, last)];
        assert_eq!(bar_line((size, size), small_last), format!("{}23", "1".repeat(width - 2)));
        let half = vec![part(1, 4 * tib, size)];
        assert_eq!(
            bar_line((size, size), half),
            format!("{}{}", ".".repeat(width.div_ceil(2)), "1".repeat(width / 2))
        );
        let many = (0..200).map(|number| part(number, u64::from(number) << 20, u64::from(number + 1) << 20));
        assert_eq!(bar_line((size, size), many.collect()).len(), width, "more than cells");
    }
}
