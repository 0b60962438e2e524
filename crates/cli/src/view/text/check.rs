//! An audit as text for people.

use std::fmt::Write;

use anstyle::Style;
use straddle_audit::examine::{Cost, Examined};
use straddle_audit::{Code, Finding, Reason, Reported};
use straddle_device::Traffic;
use straddle_device::identify::RotationRate;
use straddle_device::topology::{Guest, SectorFormat, Sectors};
use straddle_layout::{Problem, Stack, TableKind};
use straddle_units::ByteCount;

use super::finding::{about, finding_text, place};
use super::partitions::partitions;
use super::topology::{every_figure, sectors};
use super::{tree, wrap, wrap_after};
use crate::output::{self, paint, plural, printable, style};
use crate::view::json::Status;
use crate::view::json::check::Summary;

/// Returns a target's findings, one per line: `vm.img: error S001 partition 1: starts at …`
pub(crate) fn lines(audited: &Examined) -> String {
    let mut text = String::new();
    for (finding, _) in audited.reported() {
        let rule = finding.rule;
        let _ = writeln!(
            text,
            "{}: {} {} {}",
            printable(audited.name()),
            finding.severity,
            rule.code,
            about(finding)
        );
    }
    text
}

/// Returns a target in full: what it is, its partitions with their verdicts, and each finding with its fix.
pub(crate) fn target(audited: &Examined, verbose: bool) -> String {
    let mut text = heading(audited);
    let topology = &audited.target().topology;
    if verbose {
        text += &every_figure(topology);
    } else {
        let _ = writeln!(text, "{}", sectors(topology));
    }
    let _ = writeln!(text, "{}\n{}", table_line(audited), status_line(audited));
    if verbose {
        text += &traffic_line(audited);
    }
    for remark in &audited.remarks() {
        // Do not wrap a command.
        let ready = audited.ready().find(|line| remark.ends_with(*line));
        let sentence = ready.and_then(|line| remark.strip_suffix(line)).unwrap_or(remark).trim_end();
        let note = wrap(&format!("note: {}", printable(sentence)), "  ");
        let _ = writeln!(text, "{}", paint(style::FAINT, &note));
        if let Some(line) = ready {
            let _ = writeln!(text, "    {}", paint(style::HEADING, &printable(line)));
        }
    }
    if !audited.stack().partitions.is_empty() {
        let _ = writeln!(text, "\n{}", partitions(audited));
    }
    if verbose {
        let _ = write!(text, "\n{}", tree::draw(audited));
    }
    let reported: Vec<(&Finding, Option<&Cost>)> = audited.reported().collect();
    for at in 0..reported.len() {
        text += &finding_text(audited, &reported, at);
    }
    text + &ignored(audited, verbose)
}

/// Returns a target drawn: what it is, and its layers with the codes of their findings.
pub(crate) fn map(audited: &Examined, verbose: bool) -> String {
    let mut text = heading(audited);
    let _ = writeln!(
        text,
        "{}\n{}\n{}",
        sectors(&audited.target().topology),
        table_line(audited),
        status_line(audited)
    );
    if verbose {
        text += &traffic_line(audited);
    }
    text += &tree::draw(audited);
    // What is drawn is neither the old layout nor the new one.
    let unfinished: Vec<(&Finding, Option<&Cost>)> =
        audited.reported().filter(|(finding, _)| finding.rule.code == Code::S047).collect();
    for at in 0..unfinished.len() {
        text += &finding_text(audited, &unfinished, at);
    }
    text + &ignored(audited, false)
}

/// Returns a line with what was fetched, if the target is on a server.
fn traffic_line(audited: &Examined) -> String {
    let Some(Traffic { requests, received, object }) = audited.target().traffic else { return String::new() };
    let fetched = ByteCount::new(received);
    let line = format!(
        "fetched {fetched} ({received} bytes) in {}, of an object of {object} ({} bytes)",
        plural(requests, "request"),
        object.get()
    );
    wrap(&line, "  ") + "\n"
}

/// The most places that are named for one reason, if not all are asked for.
const NAMED: usize = 6;

/// Returns a line for each reason to ignore findings: `  ignored: S001 partition 2: why (.straddle.toml:3)`.
fn ignored(audited: &Examined, all: bool) -> String {
    let mut groups: Vec<(&Reason, Code, Vec<String>)> = Vec::new();
    for (finding, reason) in audited.ignored() {
        match groups.iter_mut().find(|(known, _, _)| *known == reason) {
            Some((_, _, places)) => places.push(place(finding)),
            None => groups.push((reason, finding.rule.code, vec![place(finding)])),
        }
    }
    let mut text = String::new();
    for (reason, code, mut places) in groups {
        if places.len() > NAMED && !all {
            let left_out = places.split_off(NAMED).len();
            places.push(format!("{left_out} more"));
        }
        let line = format!("ignored: {code} {}: {reason}", places.join(", "));
        let separator = if text.is_empty() { "\n" } else { "" };
        let line = wrap(&printable(&line), "  ");
        let _ = writeln!(text, "{separator}{}", paint(style::FAINT, &line));
    }
    text
}

fn heading(audited: &Examined) -> String {
    let target = audited.target();
    let mut parts = Vec::new();
    if let Some(guest) = &target.topology.guest {
        parts.push(format!("disk {} of the domain {}", printable(&guest.disk), printable(&guest.domain)));
    }
    let identity = [&target.identity.vendor, &target.identity.model];
    let model: Vec<&str> = identity.into_iter().flatten().map(String::as_str).collect();
    if !model.is_empty() {
        parts.push(model.join(" "));
    }
    parts.push(format!("{} ({} bytes)", target.size, target.size.get()));
    if let Some(RotationRate::Rpm(rpm)) = target.identity.rotation {
        parts.push(format!("{rpm} rpm"));
    }
    let kind = match &target.container {
        Some(container) => format!("{} image ({})", container.format, container.variant),
        None => "image".to_owned(),
    };
    let kind = match &target.through {
        Some(through) => format!("{kind} in {}", through.packing.a_file()),
        None => kind,
    };
    if let Some(zoned) = &target.zoned {
        parts.push(format!("{} zoned, zones of {}", printable(&zoned.model), zoned.zone));
    }
    if target.read_only {
        parts.push("read-only".to_owned());
    }
    let kind = audited.is_image().then_some(kind);
    parts.push(match &target.topology.guest {
        Some(guest) => kind.into_iter().chain(guest_sectors(guest)).collect::<Vec<_>>().join(", "),
        None => assumed(kind, target.topology.format()),
    });
    if let (Some(number), Some(node)) = (target.partition, &target.node) {
        parts.push(format!("partition {number} of {}", printable(&node.display().to_string())));
    }
    let name = printable(audited.name());
    let line = format!("{name}: {}", parts.join(", "));
    let line = if output::fits(line.chars().count()) { line } else { wrap_after(&line, "", "  ") };
    match line.strip_prefix(&name) {
        Some(rest) => format!("{}{rest}\n", paint(style::HEADING, &name)),
        // The name itself was wrapped.
        None => line + "\n",
    }
}

/// Returns the sector format of a device, or that of the drive that an image of this kind is judged for.
fn assumed(image: Option<String>, format: SectorFormat) -> String {
    let is_other = format == SectorFormat::Other;
    let format = if is_other { "neither 512n, 512e nor 4Kn".to_owned() } else { format.to_string() };
    match image {
        Some(kind) if is_other => format!("{kind}, assuming a drive that is {format}"),
        Some(kind) => format!("{kind}, assuming a {format} drive"),
        None => format,
    }
}

/// Returns the sectors that a guest is shown, and those of the storage: `shown as 512n, stored on 512e`.
fn guest_sectors(guest: &Guest) -> Vec<String> {
    let words = |Sectors { logical, physical }: Sectors| match SectorFormat::of(logical, physical) {
        SectorFormat::Other => format!("{logical}/{}", physical.get()),
        format => format.to_string(),
    };
    let shown = guest.shown.map(|shown| format!("shown as {}", words(shown)));
    let storage = guest.storage.map(|storage| format!("stored on {}", words(storage)));
    shown.into_iter().chain(storage).collect()
}

/// Returns a line such as `  status: error (alignment, table damage)`.
fn status_line(audited: &Examined) -> String {
    let status = audited.judgement().status();
    let style = match status {
        Status::Ok | Status::Blank => style::GOOD,
        Status::Advice => style::ADVICE,
        Status::Warning => style::WARNING,
        Status::Error | Status::NotJudged | Status::Failed => style::ERROR,
    };
    let kinds: Vec<String> = audited.kinds().iter().map(ToString::to_string).collect();
    let why = match (audited.not_judged(), kinds.as_slice()) {
        (Some(why), _) => format!(": {why}"),
        (None, []) if status == Status::Blank => String::new(),
        (None, []) => audited.nothing_to_judge().map(|why| format!(": {why}")).unwrap_or_default(),
        (None, kinds) => format!(" ({})", kinds.join(", ")),
    };
    let is_left_out = |finding: &&Finding| finding.reported == Reported::NotAsked;
    let left_out = match audited.findings().iter().filter(is_left_out).count() {
        0 => String::new(),
        count => format!(", leaving out {} (--only, --ignore)", plural(count, "finding")),
    };
    let through = audited.target().through.as_ref();
    let through = through.map_or_else(String::new, |t| format!(", read through {}", t.packing.name()));
    format!("  status: {}{}{left_out}{through}", paint(style, status.word()), printable(&why))
}

fn table_line(audited: &Examined) -> String {
    let stack: &Stack = audited.stack();
    let count = plural(audited.in_table(), "partition");
    let block = stack.block;
    match stack.kind {
        TableKind::Gpt => format!("  GPT in {block}-byte sectors, {count}"),
        TableKind::HybridMbr => format!("  GPT with a hybrid MBR, in {block}-byte sectors, {count}"),
        TableKind::Mbr => format!("  MBR in {block}-byte sectors, {count}"),
        TableKind::Content(_) | TableKind::None if stack.layer.is_some() => {
            let kind = stack.layer.as_ref().map_or("", |layer| layer.kind.name());
            format!("  no partition table: {kind} on the whole disk")
        }
        TableKind::Content(name) => format!("  no partition table: {name} on the whole disk"),
        TableKind::Foreign(name) => format!("  a partition table of type {name}"),
        TableKind::None => "  no partition table and no known content".to_owned(),
        TableKind::Kernel if is_unread(stack) && stack.partitions.is_empty() => {
            "  the partition table cannot be read".to_owned()
        }
        TableKind::Kernel if stack.partitions.is_empty() => {
            "  no partitions, as the kernel lists it: what uses the whole disk starts at byte 0".to_owned()
        }
        TableKind::Kernel => format!("  {count} by the kernel's list"),
    }
}

/// Whether the disk's own first bytes could not be read.
fn is_unread(stack: &Stack) -> bool {
    stack.problems.iter().any(|problem| matches!(problem, Problem::Unreadable { number: None, .. }))
}

/// Returns the last line: `3 targets: 1 ok, 2 with errors (2 errors, 1 warning)`.
pub(crate) fn summary(summary: Summary, severities: [usize; 3]) -> String {
    let mut parts = Vec::new();
    let mut part = |count: usize, word: &str, style: Style| {
        if count > 0 {
            parts.push(paint(style, &format!("{count} {word}")));
        }
    };
    part(summary.ok, "ok", style::GOOD);
    part(summary.blank, "blank", style::GOOD);
    part(summary.advice, "with advice", style::GOOD);
    part(summary.warning, "with warnings", style::WARNING);
    part(summary.error, "with errors", style::ERROR);
    part(summary.not_judged, "not judged", style::ERROR);
    part(summary.failed, "failed", style::ERROR);
    let [errors, warnings, advice] = severities;
    let mut counts = Vec::new();
    for (count, noun) in [(errors, "error"), (warnings, "warning"), (advice, "advice note")] {
        if count > 0 {
            counts.push(plural(count, noun));
        }
    }
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let hint = if errors + warnings + advice > 0 { "; see 'straddle explain CODE'" } else { "" };
    let targets = plural(summary.targets, "target");
    if parts.is_empty() {
        return targets;
    }
    wrap(&format!("{targets}: {}{counts}{hint}", parts.join(", ")), "")
}
