//! A finding as text: what is wrong, a drawing, what it costs, and its fix; and the partitions with their verdicts.

use std::fmt::Write;

use straddle_audit::examine::{Cost, Examined};
use straddle_audit::{
    ATOMIC_UNIT, Cause, Code, Finding, Fix, Kind, Miss, OfPartition, Severity, Subject, Verdict, picture,
};
use straddle_drive::FirmwareRange;
use straddle_layout::{Content, Partition, PartitionType, types};
use straddle_units::{ByteCount, Span};

use crate::output::{self, capitalised, paint, plural, printable, style};
use crate::view::text::{narrowed, severity_style, wrap, wrap_after};

/// The block that most file systems write, drawn at a partition's start.
const FILE_SYSTEM_BLOCK: ByteCount = ByteCount::new(4096);

/// A sentence about a layer begins with the path to that layer already.
pub(super) fn about(finding: &Finding) -> String {
    match finding.layer.is_empty() {
        false => printable(&finding.sentence()),
        true => printable(&format!("{}: {}", subject(finding.subject), finding.sentence())),
    }
}

/// Returns what a finding is about: `partition 2`, the path to a layer, or `disk`.
pub(super) fn place(finding: &Finding) -> String {
    finding.way().unwrap_or_else(|| subject(finding.subject))
}

fn subject(subject: Subject) -> String {
    match subject {
        Subject::Disk => "disk".to_owned(),
        Subject::Partition(number) => format!("partition {number}"),
    }
}

/// Returns `on wd10ears: random 4 KiB writes take 3.2 times as long, … (modelled)`.
fn cost_text(cost: &Cost) -> String {
    let drive = printable(&cost.drive);
    let source = cost.source;
    if cost.past == 0 {
        return format!("on {drive}: no slowdown, because this is a boundary of that drive ({source})");
    }
    let what = if cost.is_durable { "durable random" } else { "random" };
    let size = ByteCount::new(cost.size);
    let mut text = format!("on {drive}: {what} {size} writes");
    if let Some(ratio) = cost.wear {
        text += &format!(
            " write {ratio:.2} times as many bytes to flash (wear) and, in the steady state (steady=on),"
        );
    }
    text += &format!(" take {:.2} times as long", cost.random_write);
    if let Some(FirmwareRange { low, high }) = cost.firmware {
        text += &format!(" ({low:.2} to {high:.2} with plausible firmware)");
    }
    if let Some(ratio) = cost.sequential_write {
        text += &format!(", and sequential writes, each with an fsync, {ratio:.2} times");
    }
    text + &format!(" ({source})")
}

pub(super) type Listed<'a> = (&'a Finding, Option<&'a Cost>);

/// Returns findings that share a fix, and that fix after them. With `verbose`, places are drawn.
pub(super) fn group_text(audited: &Examined, group: &[Listed<'_>], verbose: bool) -> String {
    let mut text = "\n".to_owned();
    for (at, (finding, cost)) in group.iter().enumerate() {
        // The table of partitions says the same.
        if !verbose && cost.is_none() && finding.follows.is_empty() && is_verdict(audited, finding) {
            continue;
        }
        let rule = finding.rule;
        let is_same = |(other, _): &Listed<'_>| other.rule == rule && other.severity == finding.severity;
        let earlier = group[..at].iter().filter(|one| is_same(one)).count();
        if earlier >= NAMED && !verbose {
            if earlier == NAMED {
                let more = group[at..].iter().filter(|one| is_same(one)).count();
                let _ = writeln!(text, "  {more} more of {} (-v)", rule.code);
            }
            continue;
        }
        let mark = format!("{} {}", finding.severity, rule.code);
        let blank = " ".repeat(mark.len() + 3);
        let reported = wrap_after(&about(finding), &blank, "    ");
        let mark = paint(severity_style(finding.severity), &mark);
        let _ = writeln!(text, "  {mark} {}", reported.trim_start());
        if let Some(drawn) = drawing(audited, finding).filter(|_| verbose) {
            let _ = writeln!(text, "    {drawn}");
        }
        if let Some(cost) = cost {
            let _ = writeln!(text, "{}", wrap(&cost_text(cost), "    "));
        }
        if let Some(from) = follows_text(finding) {
            let _ = writeln!(text, "{}", wrap(&from, "    "));
        }
    }
    let fixes = group.first().and_then(|(finding, _)| finding.fix.as_ref());
    let mut instead: Vec<&Fix> =
        group.iter().filter_map(|(finding, _)| finding.alternative.as_ref()).collect();
    instead.dedup();
    text += &fixes.map(|fix| fix_text("Fix", fix)).unwrap_or_default();
    text + &instead.iter().map(|fix| fix_text("Or", fix)).collect::<String>()
}

/// Whether the finding is the verdict on its partition, with the distance.
fn is_verdict(audited: &Examined, finding: &Finding) -> bool {
    let of = match finding.subject {
        Subject::Partition(number) => audited.judgement().partition(number),
        Subject::Disk => None,
    };
    let decisive = of.and_then(|of| audited.findings().get(of.decisive?));
    let is_shown = audited.judgement().kinds() == [Kind::Alignment] && decisive == Some(finding);
    is_shown && finding.miss.is_some() && finding.also.is_empty()
}

/// The most findings of one rule that are printed with one fix.
const NAMED: usize = 3;

/// Returns `follows from S001 of partition 1 of /dev/sda: see there for the fix`.
fn follows_text(finding: &Finding) -> Option<String> {
    let of = |cause: &Cause| {
        let target = cause.target.iter().map(|target| format!(" of {}", printable(target)));
        format!("{} of {}{}", cause.code, subject(cause.subject), target.collect::<String>())
    };
    let causes: Vec<String> = finding.follows.iter().map(of).collect();
    (!causes.is_empty()).then(|| format!("caused by {}; see the fix there", causes.join(" and ")))
}

/// Draws the physical sectors (or units) at a partition's start, and its first file-system block over them.
fn drawing(audited: &Examined, finding: &Finding) -> Option<String> {
    let (miss, block) = first_block(audited, finding)?;
    let line = picture(miss.boundary, block)?;
    let unit = miss.boundary.size().get();
    let touched = plural(miss.boundary.coverage(block).touched, miss.name);
    Some(format!("{line}  the first {} touch {touched} of {unit} bytes", block.len()))
}

/// Returns what a misaligned start costs: `each 4 KiB write costs 2 read-modify-writes`.
pub(super) fn consequence(audited: &Examined, finding: &Finding) -> Option<String> {
    let (miss, first) = first_block(audited, finding)?;
    let write = audited.page().unwrap_or(FILE_SYSTEM_BLOCK);
    if !matches!(finding.rule.code, Code::S001 | Code::S004) {
        let block = Span::new(first.start(), miss.boundary.size().max(write))?;
        let partial = miss.boundary.coverage(block).partial;
        return Some(format!("each {} write partly covers {}", block.len(), plural(partial, miss.name)));
    }
    // An SSD reads and rewrites whole units, however small the sectors are that it reports.
    let topology = &audited.target().topology;
    let unit = topology.indirection_unit.as_ref().and_then(|unit| topology.boundary_of(unit.value()));
    let boundary = unit.filter(|unit| unit.size() > miss.boundary.size()).unwrap_or(miss.boundary);
    let block = Span::new(first.start(), boundary.size().max(write))?;
    let cost = format!("costs {}", plural(boundary.coverage(block).partial, "read-modify-write"));
    Some(format!("each {} write {cost}", block.len()))
}

fn first_block<'a>(audited: &Examined, finding: &'a Finding) -> Option<(&'a Miss, Span)> {
    let (Subject::Partition(number), Some(miss)) = (finding.subject, &finding.miss) else { return None };
    // Advice costs nothing, and losing atomic writes is not a read-modify-write.
    if finding.severity == Severity::Advice || miss.name == ATOMIC_UNIT {
        return None;
    }
    let partition = audited.stack().partitions.iter().find(|p| p.number == number)?;
    let start = finding.at.filter(|at| *at == partition.span.start())?;
    Some((miss, Span::new(start, miss.boundary.size().max(FILE_SYSTEM_BLOCK))?))
}

fn fix_text(word: &str, fix: &Fix) -> String {
    // Pasted text is often not read to its end, so the warning precedes the commands.
    let before: Vec<&str> = fix.warning().into_iter().chain(fix.caution.as_deref()).collect();
    let aside =
        if before.is_empty() { String::new() } else { format!(". {}", capitalised(&before.join("; "))) };
    let end = if fix.commands.is_empty() { "" } else { ":" };
    let summary = fix.summary.strip_prefix("fix ").unwrap_or(&fix.summary);
    let line = format!("{word}: {}{aside}{end}", printable(summary));
    let mut text = wrap_after(&printable(&line), "  ", "    ") + "\n";
    for command in &fix.commands {
        let _ = writeln!(text, "    {}", paint(style::HEADING, &printable(&command.line)));
    }
    text
}

pub(super) fn partitions(audited: &Examined, verbose: bool) -> String {
    let all = ["  #", "START", "START BYTE", "SECTORS", "SIZE", "TYPE", "CONTENT", "VERDICT"];
    let rows: Vec<[String; 8]> = audited.stack().partitions.iter().map(|p| row(p, audited)).collect();
    let table = narrowed(all, &rows, 5, &DISPENSABLE, if verbose { 0 } else { 2 }, output::fits);
    // Style line by line: the table counts escape sequences as text.
    let mut lines = table.lines().map(str::to_owned).collect::<Vec<_>>();
    if let Some(header) = lines.first_mut() {
        *header = paint(style::FAINT, header);
    }
    for (line, partition) in lines.iter_mut().skip(1).zip(&audited.stack().partitions) {
        let (of, inside) = judged(partition, audited);
        let is_inside = inside.is_some_and(|f| f.severity > Severity::Advice);
        let style = match of.verdict {
            Verdict::Misaligned | Verdict::Unfinished | Verdict::Damaged | Verdict::Unreadable => {
                style::ERROR
            }
            Verdict::Off | Verdict::EndOff | Verdict::BootSector | Verdict::NotJudged => style::WARNING,
            Verdict::Aligned | Verdict::AlignedWithAdvice if is_inside => style::WARNING,
            Verdict::Aligned | Verdict::AlignedWithAdvice => style::GOOD,
            Verdict::Container => style::FAINT,
        };
        let plain = verdict_text(partition, audited);
        if let Some(head) = line.strip_suffix(&plain) {
            *line = format!("{head}{}", paint(style, &plain));
        }
    }
    lines.join("\n")
}

/// Columns that are left out, in this order, if the terminal is too narrow for all.
pub(super) const DISPENSABLE: [&str; 4] = ["START BYTE", "SECTORS", "TYPE", "SIZE"];

fn row(partition: &Partition, audited: &Examined) -> [String; 8] {
    let kind = types::name(&partition.kind).map(str::to_owned).unwrap_or_else(|| match partition.kind {
        PartitionType::Guid(guid) => types::guid_text(guid),
        PartitionType::Mbr(kind) => format!("{kind:#04x}"),
        PartitionType::Unknown => "-".to_owned(),
    });
    [
        partition.number.to_string(),
        partition.start.to_string(),
        partition.span.start().to_string(),
        partition.count.to_string(),
        partition.span.len().to_string(),
        kind,
        partition.content.map_or("-", Content::name).to_owned(),
        verdict_text(partition, audited),
    ]
}

fn judged<'a>(partition: &Partition, audited: &'a Examined) -> (OfPartition, Option<&'a Finding>) {
    let nothing = OfPartition {
        verdict: Verdict::Aligned,
        decisive: None,
        inside: None,
        made_up: None,
        misaligned: None,
    };
    let of = audited.judgement().partition(partition.number).copied().unwrap_or(nothing);
    (of, of.inside.and_then(|at| audited.findings().get(at)))
}

/// Returns the verdict on a partition and on what it contains. It counts every finding, printed here or not.
fn verdict_text(partition: &Partition, audited: &Examined) -> String {
    let (of, inside) = judged(partition, audited);
    let decisive = of.decisive.and_then(|at| audited.findings().get(at));
    let own = placement_text(partition, of.verdict, decisive);
    match inside {
        // What follows from another finding is fixed with it.
        Some(worst) if worst.severity > Severity::Advice && worst.follows.is_empty() => {
            let joined = if own == ALIGNED { ", but" } else { "; also" };
            format!("{own}{joined} {} inside", worst.rule.code)
        }
        _ => match of.made_up.and_then(|at| audited.findings().get(at)) {
            Some(made_up) if own == ALIGNED => format!("{own} ({})", made_up.rule.code),
            _ => own,
        },
    }
}

const ALIGNED: &str = "aligned";

/// Whether a finding is only advice because nothing is written there.
fn costs_nothing(finding: &Finding) -> bool {
    finding.severity < finding.rule.severity && finding.rule.code != Code::S003
}

/// Returns `3584 bytes past a physical sector`.
fn past(miss: &Miss) -> String {
    let article = if miss.name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{} bytes past {article} {}", miss.past.get(), miss.name)
}

fn placement_text(partition: &Partition, verdict: Verdict, decisive: Option<&Finding>) -> String {
    let Some(finding) = decisive.filter(|_| verdict != Verdict::Container) else {
        let text = match verdict {
            Verdict::Container => "container of logical partitions",
            Verdict::NotJudged => "not judged",
            _ => ALIGNED,
        };
        return text.to_owned();
    };
    let code = finding.rule.code;
    match (verdict, finding.miss.as_ref()) {
        (Verdict::Unfinished, _) => format!("{} ({code})", finding.rule.title),
        (_, _) if finding.subject == Subject::Disk => format!("misaligned, like the device ({code})"),
        (Verdict::AlignedWithAdvice, Some(miss)) if costs_nothing(finding) => {
            let end = if finding.at == Some(partition.span.end()) { "end " } else { "" };
            format!("{end}{}, harmless ({code})", past(miss))
        }
        (Verdict::AlignedWithAdvice, _) => format!("{ALIGNED} ({code})"),
        (Verdict::EndOff, Some(miss)) => {
            format!("end {} bytes past a {} ({code})", miss.past.get(), miss.name)
        }
        (Verdict::Misaligned | Verdict::Off, Some(miss)) => format!("{} ({code})", past(miss)),
        (Verdict::Container | Verdict::NotJudged | Verdict::Aligned, _) => ALIGNED.to_owned(),
        _ => format!("{} ({code})", finding.rule.title),
    }
}
