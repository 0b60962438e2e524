//! The audits of many hosts as text for people.

use std::fmt::Write;

use crate::fleet::{CostRow, Digest, Tally};
use crate::output::{plural, printable, style};
use crate::view::text::{folded, headed, number, plain_table, right, wrap};

/// The rows of each table.
const ROWS: usize = 10;

/// Returns the summary, and the first rows by host, model and rule.
pub(crate) fn digest(digest: &Digest<'_>) -> String {
    let mut text = String::new();
    for line in sentences(digest) {
        let _ = writeln!(text, "{}", wrap(&printable(&line), ""));
    }
    let of_tally = |tally: &Tally| {
        let shown = [tally.disks.to_string(), tally.misaligned().to_string(), share(tally)];
        shown.into_iter().chain(tally.findings.counts().map(|count| count.to_string())).collect::<Vec<_>>()
    };
    let cost = |ratio: Option<f64>| ratio.map(number).unwrap_or_default();
    let hosts =
        digest.hosts.iter().filter(|row| row.tally.misaligned() + row.tally.others + row.tally.failed > 0);
    let hosts = hosts.map(|row| {
        let failed = (row.tally.failed > 0).then(|| format!("{} failed", row.tally.failed));
        let findings: Vec<&str> = row.codes.iter().copied().chain(failed.as_deref()).collect();
        [vec![row.host.to_owned()], of_tally(&row.tally), vec![cost(row.cost), findings.join(" ")]].concat()
    });
    let head = ["HOST", "DISKS", "MISALIGNED", "SHARE", "ERRORS", "WARNINGS", "ADVICE", "X TIME", "RULES"];
    text += &table(&head, hosts, 1..8);
    let models = digest.models.iter();
    let models = models.map(|row| [vec![row.model.to_owned()], of_tally(&row.tally)].concat());
    let head = ["MODEL", "DISKS", "MISALIGNED", "SHARE", "ERRORS", "WARNINGS", "ADVICE"];
    text += &table(&head, models, 1..7);
    let rules = digest.rules.iter().map(|row| {
        let counts = [row.hosts, row.disks].into_iter().chain(row.findings.counts());
        let counts = counts.map(|count| count.to_string());
        [row.code.to_owned()].into_iter().chain(counts).chain([row.title.to_owned()]).collect()
    });
    let head = ["RULE", "HOSTS", "DISKS", "ERRORS", "WARNINGS", "ADVICE", "TITLE"];
    text + &table(&head, rules, 1..6)
}

pub(crate) fn sentences(digest: &Digest<'_>) -> Vec<String> {
    let Digest { tally, hosts, skipped, replaced, named_by_files, costs, .. } = digest;
    let mut lines = vec![format!(
        "{}, {}: of {} judged with contents, {} {} misaligned{}, {} with errors and {} with warnings only.",
        plural(hosts.len(), "host"),
        plural(tally.disks, "disk"),
        tally.judged(),
        tally.misaligned(),
        if tally.misaligned() == 1 { "is" } else { "are" },
        tally.share.map(|share| format!(" ({:.1} %)", share * 100.0)).unwrap_or_default(),
        tally.errors,
        tally.warnings,
    )];
    let rest = [
        (tally.others, "aligned, with other findings"),
        (tally.blank, "blank"),
        (tally.not_judged, "not judged"),
        (tally.failed, "could not be audited"),
    ];
    let rest: Vec<String> =
        rest.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !rest.is_empty() {
        lines.push(format!("Of the others: {}.", rest.join(", ")));
    }
    let counts = tally.findings.counts();
    let found: Vec<String> =
        ["error", "warning"].iter().zip(counts).map(|(noun, count)| plural(count, noun)).collect();
    lines.push(format!("Findings: {} and {} advice.", found.join(", "), tally.findings.advice));
    lines.extend(costs.iter().map(cost));
    if !skipped.is_empty() {
        lines.push(format!("{} left out: not readable as audits.", plural(skipped.len(), "input")));
    }
    if *replaced > 0 {
        lines.push(format!("{} replaced by later ones of the same hosts.", plural(*replaced, "audit")));
    }
    if *named_by_files > 0 {
        lines.push(format!("{} of the audits name no host: their files' names are used.", named_by_files));
    }
    lines
}

fn cost(row: &CostRow<'_>) -> String {
    format!(
        "Cost, {} on {}: random writes behind the misaligned starts of {} take {} times as long as aligned ones \
         (median; at worst {} times){}.",
        row.by.source,
        row.by.drive,
        plural(row.disks, "disk"),
        number(row.median),
        number(row.worst),
        row.wear
            .map(|wear| format!(" and write up to {} times as many bytes to flash (wear)", number(wear)))
            .unwrap_or_default(),
    )
}

/// Returns the share of misaligned disks, or a dash.
pub(crate) fn share(tally: &Tally) -> String {
    tally.share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, numbers: std::ops::Range<usize>) -> String {
    let mut table = plain_table(head);
    let mut count = 0_usize;
    for row in rows {
        if count < ROWS {
            table.add_row(row.iter().map(|cell| printable(cell)));
        }
        count += 1;
    }
    if count == 0 {
        return String::new();
    }
    right(&mut table, numbers);
    folded(&mut table);
    let more = count.saturating_sub(ROWS);
    let more = if more > 0 { format!("  and {more} more (--html or --json)\n") } else { String::new() };
    format!("\n{}\n{more}", headed(&table, style::HEADING))
}
