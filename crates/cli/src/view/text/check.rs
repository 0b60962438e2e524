//! An audit as text for people.

use std::cmp::Reverse;
use std::fmt::Write;

use straddle_audit::examine::Examined;
use straddle_audit::{Code, Finding, Kind, Reason, Reported, Severity, Status, Subject};
use straddle_device::identify::RotationRate;
use straddle_device::topology::{
    AlignmentOffset, AtomicWrites, Figure, Guest, SectorFormat, Sectors, Source, Topology,
};
use straddle_device::{DeviceKind, Traffic};
use straddle_layout::{Problem, Role, Stack, TableKind};
use straddle_units::ByteCount;
use textwrap::core::display_width;

use crate::output::{self, paint, plural, printable, style};
use crate::view::text::finding::partitions;
use crate::view::text::finding::{Listed, about, consequence, group_text, place};
use crate::view::text::{tree, wrap, wrap_after};
use straddle_audit::form::check::Summary;

/// Returns a target's findings, one per line: `vm.img: error S001 partition 1: starts at …`
pub(crate) fn lines(audited: &Examined) -> String {
    let name = printable(audited.name());
    let line = |finding: &Finding| {
        format!("{name}: {} {} {}\n", finding.severity, finding.rule.code, about(finding))
    };
    audited.reported().map(|(finding, _)| line(finding)).collect()
}

/// What the target is, the verdict and, where something is to be done or with `verbose`, its partitions and each
/// finding with its fix. A target with nothing to do takes one line where that fits.
pub(crate) fn target(audited: &Examined, verbose: bool) -> String {
    let verdict = verdict(audited, verbose);
    let is_fine = matches!(status(audited), Status::Ok | Status::Blank | Status::Advice);
    let is_short =
        is_fine && !verbose && !is_filtered(audited) && audited.reported().all(|(f, _)| is_note(f));
    let mut text = heading(audited, verbose, !is_short);
    if is_short {
        let line = format!("{}: {verdict}\n", text.trim_end());
        let columns = display_width(&line);
        return if output::fits(columns) { line } else { text + &wrap_after(&verdict, "  ", "    ") + "\n" }
            + &ignored(audited, false);
    }
    let _ = writeln!(text, "{}", wrap_after(&verdict, "  ", "    "));
    if verbose {
        text += &every_figure(&audited.target().topology);
        let _ = writeln!(text, "{}", table_line(audited));
        text += &traffic_line(audited);
    }
    // Why it is not read is in the verdict.
    let said = audited.target().unread.as_deref().filter(|_| status(audited) == Status::NotJudged);
    for remark in audited.remarks().iter().filter(|remark| said.is_none_or(|why| !remark.contains(why))) {
        // Do not wrap a command.
        let ready = audited.ready().find(|line| remark.ends_with(*line));
        let sentence = ready.and_then(|line| remark.strip_suffix(line)).unwrap_or(remark).trim_end();
        let note = wrap_after(&format!("note: {}", printable(sentence)), "  ", "    ");
        let _ = writeln!(text, "{}", paint(style::FAINT, &note));
        if let Some(line) = ready {
            let _ = writeln!(text, "    {}", paint(style::HEADING, &printable(line)));
        }
    }
    if !audited.stack().partitions.is_empty() {
        let _ = writeln!(text, "\n{}", partitions(audited, verbose));
    }
    if verbose {
        let _ = write!(text, "\n{}", tree::draw(audited));
    }
    text += &findings(audited, verbose);
    text + &ignored(audited, verbose)
}

fn status(audited: &Examined) -> Status {
    audited.judgement().status()
}

/// The worst first, each fix once after all that it is for. Without `verbose` what costs nothing, and what follows
/// from another finding here, is only counted.
fn findings(audited: &Examined, verbose: bool) -> String {
    let mut listed: Vec<Listed<'_>> = audited.reported().collect();
    listed.sort_by_key(|(finding, _)| rank(finding));
    let hidden = listed.first().map(|(finding, _)| *finding);
    if !verbose {
        listed.retain(|(finding, _)| !is_note(finding));
    }
    let first = listed.first().map_or(hidden, |(finding, _)| Some(*finding));
    let mut text = String::new();
    while let Some(&(first, _)) = listed.first() {
        let is_with =
            |(other, _): &Listed<'_>| *other == first || (first.fix.is_some() && other.fix == first.fix);
        let (group, rest): (Vec<Listed<'_>>, Vec<Listed<'_>>) = listed.iter().partition(|one| is_with(one));
        text += &group_text(audited, &group, verbose);
        listed = rest;
    }
    let mut hidden = Vec::new();
    if !verbose {
        let (followers, notes) = (followers(audited), notes(audited));
        hidden
            .extend((followers > 0).then(|| format!("{} with the same cause", plural(followers, "finding"))));
        hidden.extend((notes > 0).then(|| plural(notes, "note")));
    }
    let hidden = match hidden.is_empty() {
        true => String::new(),
        false => format!("{} not shown (-v).  ", hidden.join(" and ")),
    };
    if let Some(worst) = first {
        let why = format!("{hidden}Why: straddle explain {}", worst.rule.code);
        let _ = writeln!(text, "\n  {}", paint(style::FAINT, &why));
    }
    text
}

/// Damage before misalignment, which can be fixed only afterwards, and commands before a reference to them.
fn rank(finding: &Finding) -> (Reverse<Severity>, bool, bool) {
    let has_commands = finding.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty());
    (Reverse(finding.severity), finding.rule.kind == Kind::Alignment, !has_commands)
}

/// Whether a finding is only counted: nothing is to be done about it, or it is done with another one.
fn is_note(finding: &Finding) -> bool {
    // Whether pages are written atomically was asked for.
    let is_advice = finding.severity == Severity::Advice && finding.rule.code != Code::S067;
    is_advice || finding.follows.iter().any(|cause| cause.target.is_none())
}

fn notes(audited: &Examined) -> usize {
    hidden(audited, |severity| severity == Severity::Advice)
}

/// The number of errors and warnings that are not shown, because the fix of another finding solves them.
fn followers(audited: &Examined) -> usize {
    hidden(audited, |severity| severity > Severity::Advice)
}

fn hidden(audited: &Examined, is_counted: impl Fn(Severity) -> bool) -> usize {
    audited.reported().filter(|(finding, _)| is_note(finding) && is_counted(finding.severity)).count()
}

fn verdict(audited: &Examined, verbose: bool) -> String {
    let judgement = audited.judgement();
    let status = status(audited);
    let style = match status {
        Status::Ok | Status::Blank | Status::Advice => style::GOOD,
        Status::Warning => style::WARNING,
        Status::Error | Status::NotJudged | Status::Failed => style::ERROR,
    };
    let (word, rest) = match status {
        Status::Ok | Status::Advice if audited.is_unread() => {
            ("not read", ": the layout that the kernel reports is aligned".to_owned())
        }
        Status::Ok | Status::Advice => match (audited.in_table(), audited.nothing_to_judge()) {
            // The findings that remain say nothing about alignment.
            _ if is_filtered(audited) => ("nothing to report", String::new()),
            (_, Some(why)) => {
                ("nothing to check", format!(": {}", why.trim_start_matches("nothing to check: ")))
            }
            (0, None) => ("aligned", String::new()),
            (count, None) => match harmless(audited) {
                0 => ("aligned", format!(": {}", plural(count, "partition"))),
                all if all == count => {
                    ("ok", format!(": {} misaligned at no cost", plural(count, "partition")))
                }
                some => (
                    "aligned",
                    format!(": {}; {some} misaligned at no cost", plural(count - some, "partition")),
                ),
            },
        },
        Status::Blank => ("blank", ": no table and no contents".to_owned()),
        Status::NotJudged | Status::Failed => {
            let why = judgement.not_judged().unwrap_or_default();
            (status.word(), format!(": {why} (--allow-unknown ignores this)"))
        }
        Status::Warning | Status::Error => worst(audited),
    };
    let notes = match (status, notes(audited) + audited.remarks().len()) {
        (Status::Ok | Status::Blank | Status::Advice, notes @ 1..) if !verbose => {
            format!(" ({}: -v)", plural(notes, "note"))
        }
        _ => String::new(),
    };
    let left_out = match left_out(audited) {
        0 => String::new(),
        count => format!("; {} left out (--only, --ignore)", plural(count, "finding")),
    };
    format!("{}{}{notes}{left_out}", paint(style, word), printable(&rest))
}

fn harmless(audited: &Examined) -> usize {
    let of = |f: &&Finding| f.rule.code == Code::S001 && f.severity == Severity::Advice && f.layer.is_empty();
    audited.reported().map(|(finding, _)| finding).filter(of).count()
}

fn left_out(audited: &Examined) -> usize {
    audited.findings().iter().filter(|finding| finding.reported == Reported::NotAsked).count()
}

fn is_filtered(audited: &Examined) -> bool {
    left_out(audited) > 0 || audited.ignored().next().is_some()
}

const LISTED: usize = 8;

/// Returns what is misaligned with findings of this severity: partitions, or a layer without a partition.
fn misaligned(audited: &Examined, severity: Severity) -> Option<String> {
    let of = |number| audited.judgement().partition(number).and_then(|of| of.misaligned);
    let partitions = audited.stack().partitions.iter();
    let partitions: Vec<u32> = partitions.filter(|p| p.role != Role::Extended).map(|p| p.number).collect();
    let numbers: Vec<u32> =
        partitions.iter().copied().filter(|number| of(*number) == Some(severity)).collect();
    let count = partitions.len();
    // The numbers of logical partitions exceed the count.
    let of_all = match numbers.last() {
        Some(last) if usize::try_from(*last).is_ok_and(|last| last <= count) => format!("of {count}"),
        _ => format!("({} of {count})", numbers.len()),
    };
    Some(match numbers.as_slice() {
        [] => {
            let is_placed = |f: &&Finding| f.miss.is_some() || !f.layer.is_empty();
            let mut listed = audited.reported().map(|(finding, _)| finding);
            place(listed.find(|f| f.misaligns() && (is_placed(f) || f.rule.code == Code::S020))?)
        }
        [one] => format!("partition {one} {of_all}"),
        [..] if numbers.len() > LISTED => format!("{} of {count} partitions", numbers.len()),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("partitions {} and {last} {of_all}", first.join(", "))
        }
    })
}

/// A word, and what follows it: the partitions whose data are misaligned and what that costs, or else what the first
/// of the worst findings is.
fn worst(audited: &Examined) -> (&'static str, String) {
    let judgement = audited.judgement();
    let listed = || audited.reported().map(|(finding, _)| finding).filter(|f| f.severity > Severity::Advice);
    let severity = if judgement.status() == Status::Error { Severity::Error } else { Severity::Warning };
    if judgement.kinds() == [Kind::Alignment]
        && let Some(place) = misaligned(audited, severity)
    {
        let cost = listed().filter(|f| f.misaligns()).find_map(|f| consequence(audited, f));
        let cost = cost.map(|cost| format!("; {cost}")).unwrap_or_default();
        return ("MISALIGNED", format!(": {place}{cost}"));
    }
    let word = if severity == Severity::Error { "ERROR" } else { "WARNING" };
    let of = listed().filter(|f| f.severity == severity).min_by_key(|f| rank(f));
    let what = of.map_or_else(
        // It is reported at another target.
        || judgement.kinds().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        |f| match f.subject {
            Subject::Disk if f.layer.is_empty() => f.rule.title.to_owned(),
            _ => match f.rule.title.strip_prefix("partition ") {
                Some(rest) => format!("{} {rest}", place(f)),
                None => format!("{}: {}", place(f), f.rule.title),
            },
        },
    );
    let more = listed().count().saturating_sub(1);
    (word, if more > 0 { format!(": {what}, and {more} more") } else { format!(": {what}") })
}

pub(crate) fn map(audited: &Examined, verbose: bool) -> String {
    let mut text = heading(audited, verbose, true);
    let _ = writeln!(text, "{}", wrap_after(&verdict(audited, true), "  ", "    "));
    if verbose {
        text += &every_figure(&audited.target().topology);
        let _ = writeln!(text, "{}", table_line(audited));
        text += &traffic_line(audited);
    }
    text += &tree::draw(audited);
    // What is drawn is neither the old layout nor the new one.
    let unfinished = audited.reported().filter(|(finding, _)| finding.rule.code == Code::S047);
    let unfinished: Vec<Listed<'_>> = unfinished.collect();
    if !unfinished.is_empty() {
        text += &group_text(audited, &unfinished, verbose);
    }
    text + &ignored(audited, false)
}

fn traffic_line(audited: &Examined) -> String {
    let Some(Traffic { requests, received, object }) = audited.target().traffic else { return String::new() };
    let fetched = ByteCount::new(received);
    let line = format!(
        "fetched {fetched} ({received} bytes) in {}, from an object of {object} ({} bytes)",
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

fn heading(audited: &Examined, verbose: bool, sizes: bool) -> String {
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
    let bytes = if verbose { format!(" ({} bytes)", target.size.get()) } else { String::new() };
    let kind = match &target.container {
        Some(container) => format!(" {} image ({})", container.format, container.variant),
        None if target.kind == DeviceKind::Image => " image".to_owned(),
        None => String::new(),
    };
    let through = target.through.as_ref().map(|through| format!(" in {}", through.packing.a_file()));
    parts.push(format!("{}{bytes}{kind}{}", target.size, through.unwrap_or_default()));
    if let Some(RotationRate::Rpm(rpm)) = target.identity.rotation {
        parts.push(format!("{rpm} rpm"));
    }
    if let Some(zoned) = &target.zoned {
        parts.push(format!("{} zoned, zones of {}", printable(&zoned.model), zoned.zone));
    }
    if target.read_only {
        parts.push("read-only".to_owned());
    }
    parts.extend(table(audited));
    match &target.topology.guest {
        Some(guest) => parts.extend(guest_sectors(guest)),
        None => parts.push(format(audited, sizes)),
    }
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

/// Returns the sector format of a device, or the one assumed for an image; with `detail` also its sizes.
fn format(audited: &Examined, detail: bool) -> String {
    let topology = &audited.target().topology;
    let sizes = format!(
        "sectors: {} logical, {} physical",
        topology.logical.value(),
        topology.physical.value().get()
    );
    let format = match topology.format() {
        SectorFormat::Other => sizes,
        format if detail && format != SectorFormat::Native512 => format!("{format} ({sizes})"),
        format => format.to_string(),
    };
    match topology.physical.source() {
        Source::Assumed => format!("assumed {format}"),
        Source::Measured => format!("measured {format}"),
        _ => format,
    }
}

fn table(audited: &Examined) -> Option<String> {
    let Stack { kind, layer, .. } = audited.stack();
    match (kind, layer) {
        (TableKind::Gpt, _) => Some("GPT".to_owned()),
        (TableKind::HybridMbr, _) => Some("GPT with a hybrid MBR".to_owned()),
        (TableKind::Mbr, _) => Some("MBR".to_owned()),
        (TableKind::Foreign(name), _) => Some(format!("table of type {name}")),
        (_, Some(layer)) => Some(layer.kind.name().to_owned()),
        (TableKind::Content(name), None) => Some(name.to_string()),
        (TableKind::None | TableKind::Kernel, None) => None,
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

fn table_line(audited: &Examined) -> String {
    let stack = audited.stack();
    let count = plural(audited.in_table(), "partition");
    let block = stack.block;
    // The disk's own first bytes.
    let unread = |problem: &Problem| matches!(problem, Problem::Unreadable { number: None, .. });
    match (stack.kind, &stack.layer) {
        (TableKind::Gpt, _) => format!("  GPT in {block}-byte sectors, {count}"),
        (TableKind::HybridMbr, _) => format!("  GPT with a hybrid MBR, in {block}-byte sectors, {count}"),
        (TableKind::Mbr, _) => format!("  MBR in {block}-byte sectors, {count}"),
        (TableKind::Content(_) | TableKind::None, Some(layer)) => {
            format!("  no partition table: {} on the whole disk", layer.kind.name())
        }
        (TableKind::Content(name), None) => format!("  no partition table: {name} on the whole disk"),
        (TableKind::Foreign(name), _) => format!("  a partition table of type {name}"),
        (TableKind::None, None) => "  no partition table and no known content".to_owned(),
        (TableKind::Kernel, _) if !stack.partitions.is_empty() => format!("  {count} in the kernel's list"),
        (TableKind::Kernel, _) if stack.problems.iter().any(unread) => {
            "  the partition table cannot be read".to_owned()
        }
        (TableKind::Kernel, _) => "  the kernel lists no partitions, so any data starts at byte 0".to_owned(),
    }
}

/// Returns the line over several targets: `3 targets: 1 ok, 2 with errors (2 errors, 1 warning)`.
pub(crate) fn summary(summary: Summary, severities: [usize; 3]) -> String {
    let parts = [
        (summary.error, "with errors", style::ERROR),
        (summary.warning, "with warnings", style::WARNING),
        (summary.not_judged, "not judged", style::ERROR),
        (summary.failed, "failed", style::ERROR),
        (summary.ok + summary.advice, "aligned", style::GOOD),
        (summary.blank, "blank", style::GOOD),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        parts.map(|(count, word, style)| paint(style, &format!("{count} {word}"))).collect();
    let counts = ["error", "warning"].into_iter().zip(severities).filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(noun, count)| plural(count, noun)).collect();
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let targets = plural(summary.targets, "target");
    if parts.is_empty() { targets } else { wrap(&format!("{targets}: {}{counts}", parts.join(", ")), "") }
}

fn sourced<T: Copy + PartialEq>(figure: &Figure<T>, value: impl Fn(T) -> String) -> String {
    let mut text = format!("{} [{}", value(figure.value()), figure.source());
    if *figure.source() == Source::Assumed {
        text += "; override with --assume";
    }
    let others: Vec<String> =
        figure.disagreeing().map(|claim| format!("{} says {}", claim.source, value(claim.value))).collect();
    if !others.is_empty() {
        let _ = write!(text, "; {}", others.join(", "));
    }
    if let Some(why) = figure.why().filter(|why| !why.is_empty()) {
        let _ = write!(text, "; {why}");
    }
    text + "]"
}

fn bytes(count: ByteCount) -> String {
    if count.get() < 65536 { count.get().to_string() } else { format!("{count} ({})", count.get()) }
}

fn offset(offset: AlignmentOffset) -> String {
    match offset {
        AlignmentOffset::Bytes(bytes) => bytes.get().to_string(),
        AlignmentOffset::Misaligned => "-1".to_owned(),
    }
}

fn units(topology: &Topology) -> impl Iterator<Item = (&'static str, &Figure<ByteCount>)> {
    let units = [
        ("indirection unit", &topology.indirection_unit),
        ("RAID chunk", &topology.chunk),
        ("stripe", &topology.stripe),
        ("erase block", &topology.erase_block),
    ];
    units.into_iter().filter_map(|(name, figure)| Some((name, figure.as_ref()?)))
}

/// Returns a figure, and below it what every source besides the chosen one says.
fn every_claim<T: Copy + PartialEq>(name: &str, figure: &Figure<T>, value: impl Fn(T) -> String) -> String {
    let mut text = format!("    {name:18} {}\n", sourced(figure, &value));
    for claim in figure.others() {
        let _ = writeln!(text, "    {:18} {} [{}]", "", value(claim.value), claim.source);
    }
    text
}

fn every_figure(topology: &Topology) -> String {
    let mut text = every_claim("logical sector", &topology.logical, |block| block.to_string())
        + &every_claim("physical sector", &topology.physical, bytes)
        + &every_claim("alignment offset", &topology.alignment_offset, offset);
    let optional = [("minimum I/O", &topology.io_min), ("optimal I/O", &topology.io_opt)];
    let optional = optional.into_iter().filter_map(|(name, figure)| Some((name, figure.as_ref()?)));
    for (name, figure) in optional.chain(units(topology)) {
        text += &every_claim(name, figure, bytes);
    }
    let sizes = |a: AtomicWrites| {
        let (min, max, boundary) = (a.unit_min.get(), a.unit_max.get(), a.boundary.get());
        format!("{min} to {max}, boundary {boundary}")
    };
    text + &topology.atomic.as_ref().map_or_else(String::new, |it| every_claim("atomic writes", it, sizes))
}
