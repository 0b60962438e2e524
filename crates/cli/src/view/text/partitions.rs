//! The table of partitions, with a verdict on each.

use straddle_audit::examine::Examined;
use straddle_audit::{Code, Finding, Miss, OfPartition, Severity, Subject, Verdict};
use straddle_layout::{Content, Partition, PartitionType, types};

use super::narrowed;
use crate::output::{self, paint, style};

pub(super) fn partitions(audited: &Examined, verbose: bool) -> String {
    // Style line by line: the table counts escape sequences as text.
    let mut lines = partition_table(audited, verbose).lines().map(str::to_owned).collect::<Vec<_>>();
    if let Some(header) = lines.first_mut() {
        *header = paint(style::FAINT, header);
    }
    for (line, partition) in lines.iter_mut().skip(1).zip(&audited.stack().partitions) {
        let (of, inside) = judged(partition, audited);
        let style = match of.verdict {
            Verdict::Aligned | Verdict::AlignedWithAdvice
                if inside.is_some_and(|f| f.severity > Severity::Advice) =>
            {
                style::WARNING
            }
            Verdict::Misaligned | Verdict::Unfinished | Verdict::Damaged | Verdict::Unreadable => {
                style::ERROR
            }
            Verdict::Off | Verdict::EndOff | Verdict::BootSector | Verdict::NotJudged => style::WARNING,
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
const DISPENSABLE: [&str; 4] = ["START BYTE", "SECTORS", "TYPE", "SIZE"];

fn partition_table(audited: &Examined, verbose: bool) -> String {
    let all = ["  #", "START", "START BYTE", "SECTORS", "SIZE", "TYPE", "CONTENT", "VERDICT"];
    let rows: Vec<[String; 8]> = audited.stack().partitions.iter().map(|p| row(p, audited)).collect();
    let always = if verbose { 0 } else { 2 };
    narrowed(all, &rows, 5, &DISPENSABLE, always, output::fits)
}

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

/// Returns the judgement of a partition, and the worst finding inside it.
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
        Some(worst) if worst.severity > Severity::Advice => {
            let joined = if own == ALIGNED { ", but" } else { "; also" };
            format!("{own}{joined} {} inside", worst.rule.code)
        }
        _ => match of.made_up.and_then(|at| audited.findings().get(at)) {
            Some(made_up) if own == ALIGNED => format!("{own} ({})", made_up.rule.code),
            _ => own,
        },
    }
}

/// The verdict on a partition without findings.
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

/// Returns the verdict on a partition's placement in a few words, with the finding that decides it.
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
        (_, _) if finding.subject == Subject::Disk => format!("misaligned, as the device is ({code})"),
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
        (
            Verdict::Off
            | Verdict::EndOff
            | Verdict::Misaligned
            | Verdict::BootSector
            | Verdict::Damaged
            | Verdict::Unreadable,
            _,
        ) => format!("{} ({code})", finding.rule.title),
    }
}
