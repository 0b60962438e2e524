//! A finding as text: what is wrong, a drawing, what it costs, and its fix.

use std::fmt::Write;

use straddle_audit::examine::{Cost, CostSource, Examined};
use straddle_audit::{ATOMIC_UNIT, Cause, Finding, Fix, Severity, Subject, picture};
use straddle_units::{ByteCount, Span};

use super::{severity_style, wrap, wrap_after};
use crate::output::{self, paint, plural, printable, style};

/// The block that most file systems write, drawn at a partition's start.
const FILE_SYSTEM_BLOCK: ByteCount = ByteCount::new(4096);

/// Returns a finding's sentence after its subject. A sentence about a layer begins with the path to that
/// layer already.
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
        return format!("on {drive}: no slowdown, for it is a boundary of that drive ({source})");
    }
    let what =
        if source == CostSource::Measured && cost.wear.is_none() { "durable random" } else { "random" };
    let size = ByteCount::new(cost.size);
    let mut text = format!("on {drive}: {what} {size} writes");
    if let Some(ratio) = cost.wear {
        let _ = write!(
            text,
            " write {ratio:.2} times as many bytes to flash (wear) and, once the buffer is full,"
        );
    }
    let _ = write!(text, " take {:.2} times as long", cost.random_write);
    if let Some(ratio) = cost.sequential_write {
        let _ = write!(text, ", sequential ones with an fsync each {ratio:.2} times");
    }
    text + &format!(" ({source})")
}

/// Returns finding number `at` of `listed`, with its cost and its fix. A fix shared by several findings is
/// printed once.
pub(super) fn finding_text(audited: &Examined, listed: &[(&Finding, Option<&Cost>)], at: usize) -> String {
    let (before, rest) = listed.split_at(at.min(listed.len()));
    let Some(((finding, cost), after)) = rest.split_first() else { return String::new() };
    let style = severity_style(finding.severity);
    let mark = format!("{} {}", finding.severity, finding.rule.code);
    let behind_mark = " ".repeat(mark.len() + 1);
    let reported = wrap_after(&about(finding), &behind_mark, "  ");
    let mut text = format!("\n{} {}\n", paint(style, &mark), reported.trim_start());
    if let Some(drawn) = drawing(audited, finding) {
        let _ = writeln!(text, "  {drawn}");
    }
    if let Some(cost) = cost {
        let _ = writeln!(text, "{}", wrap(&cost_text(cost), "  "));
    }
    if let Some(from) = follows_text(finding) {
        let _ = writeln!(text, "{}", wrap(&from, "  "));
    }
    let shares = |other: &&Finding| other.fix == finding.fix;
    let shown = before.iter().map(|(other, _)| *other).find(shares);
    let instead = finding.alternative.as_ref();
    let instead =
        instead.filter(|_| !before.iter().any(|(other, _)| other.alternative == finding.alternative));
    match (&finding.fix, shown) {
        (Some(fix), None) => {
            let others: Vec<&Finding> = after.iter().map(|(other, _)| *other).filter(shares).collect();
            text += &fix_text("fix", fix, &sharing(finding, &others));
        }
        // Another fix needs the first one beside it.
        (Some(_), Some(other)) if instead.is_some() => {
            let _ = writeln!(text, "  fix: the one given for {}", named(other, finding));
        }
        _ => {}
    }
    if let Some(instead) = instead {
        text += &fix_text("or", instead, "");
    }
    text
}

/// Returns `follows from S001 of partition 1 of /dev/sda: see there for the fix`.
fn follows_text(finding: &Finding) -> Option<String> {
    let of = |cause: &Cause| match &cause.target {
        Some(target) => format!("{} of {} of {}", cause.code, subject(cause.subject), printable(target)),
        None => format!("{} of {}", cause.code, subject(cause.subject)),
    };
    let causes: Vec<String> = finding.follows.iter().map(of).collect();
    (!causes.is_empty()).then(|| format!("follows from {}: see there for the fix", causes.join(" and ")))
}

/// The most findings that are named as sharing a fix.
const NAMED: usize = 6;

/// Returns `, for S002 and S041 of partition 2 as well`: what else the fix of `finding` is for.
fn sharing(finding: &Finding, others: &[&Finding]) -> String {
    let mut names: Vec<String> = others.iter().map(|other| named(other, finding)).collect();
    // Its own fix is not named within it.
    names.retain(|name| *name != finding.rule.code.to_string());
    names.dedup();
    if names.len() > NAMED {
        let left_out = names.split_off(NAMED - 1).len();
        names.push(format!("{left_out} more"));
    }
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => format!(", for {last} as well"),
        Some((last, rest)) => format!(", for {} and {last} as well", rest.join(", ")),
    }
}

/// Returns `S002 of partition 2`, or `S002` beside a finding on the same.
fn named(other: &Finding, beside: &Finding) -> String {
    match other.way() {
        Some(way) if other.layer != beside.layer => format!("{} of {}", other.rule.code, printable(&way)),
        None if other.subject != beside.subject => {
            format!("{} of {}", other.rule.code, subject(other.subject))
        }
        _ => other.rule.code.to_string(),
    }
}

/// Draws the physical sectors (or units) at a partition's start, and its first file-system block over them.
fn drawing(audited: &Examined, finding: &Finding) -> Option<String> {
    let (Subject::Partition(number), Some(miss)) = (finding.subject, &finding.miss) else { return None };
    // Advice costs nothing, and losing atomic writes is not a read-modify-write.
    if finding.severity == Severity::Advice || miss.name == ATOMIC_UNIT {
        return None;
    }
    let partition = audited.stack().partitions.iter().find(|p| p.number == number)?;
    if finding.at != Some(partition.span.start()) {
        return None;
    }
    let unit = miss.boundary.size();
    let block = Span::new(partition.span.start(), unit.max(FILE_SYSTEM_BLOCK))?;
    let line = picture(miss.boundary, block)?;
    let coverage = miss.boundary.coverage(block);
    let meaning = format!(
        "the first {} over {} of {} bytes: writing it takes {}",
        block.len(),
        plural(coverage.touched, miss.name),
        unit.get(),
        plural(coverage.partial, "read-modify-write")
    );
    // The drawing is ASCII, so bytes are columns.
    Some(if output::fits(2 + line.len() + 2 + meaning.len()) {
        format!("{line}  {meaning}")
    } else {
        format!("{line}\n{}", wrap(&meaning, "  "))
    })
}

/// Returns a fix after `word`. `sharing`, what else it is for, follows the summary.
fn fix_text(word: &str, fix: &Fix, sharing: &str) -> String {
    let mut text = format!("{}\n", wrap(&format!("{word}: {}{sharing}", printable(&fix.summary)), "  "));
    // Pasted text is often not read to its end, so the warning precedes the commands.
    let warning = fix.warning();
    let before: Vec<&str> = warning.into_iter().chain(fix.caution.as_deref()).collect();
    if !before.is_empty() {
        let _ = writeln!(text, "{}", wrap(&printable(&before.join("; ")), "    "));
    }
    for command in &fix.commands {
        let _ = writeln!(text, "    {}", paint(style::HEADING, &printable(&command.line)));
    }
    text
}
