//! `straddle report`: merges the audits of many hosts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use crate::exit::Exit;
use crate::fleet::{CostRow, Digest, Fleet, Severities, Skipped, Tally};
use crate::output::{plural, printable, style};
use crate::view::html;
use crate::view::json::{Document, SchemaOf};
use crate::view::text::{folded, headed, number, plain_table, right, wrap};
use crate::{exit, fleet, input, output, output_file};

const EXAMPLES: &str = "\
Examples:
  straddle report reports/ --html fleet.html          # one page for all hosts
  straddle report web1.json db1.json                  # a summary of two hosts
  ssh web1 straddle check --json | straddle report - reports/
  straddle report reports/ --json | jq '.hosts[].host'

On each host, run 'straddle check --json > HOST.json'. Add '--cost DRIVE' to the
command to include the cost of misalignment in the report. contrib/ansible has a
role that collects the audits of all hosts.";

const STATUSES: &[(u8, &str)] = &[
    (0, "no findings, or only advice"),
    (1, "findings were reported"),
    (3, "an audit could not be read or a target was not checked; overrides 1"),
];

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit::help(STATUSES)))]
pub(crate) struct ReportArguments {
    /// Audits (output of 'straddle check --json'), directories to search for *.json files, or '-' for
    /// standard input.
    ///
    /// The host name is taken from the audit or, if it has none, from the file name. If a host has several
    /// audits, only the last one read is used. A file can contain several audits. If a file cannot be read,
    /// it is skipped, and the exit status is 3.
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,

    /// Write an HTML page with sortable tables to this file. The page needs no network.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON (see `straddle schema report`).
    #[arg(long)]
    pub(crate) json: bool,
}

const NAMED: usize = 10;

pub(crate) fn run(arguments: &ReportArguments) -> Result<Exit> {
    let (inputs, skipped) = fleet::inputs(&arguments.files);
    let files = inputs.iter().map(PathBuf::as_path).filter(|path| !input::is_stdin(path));
    let files: Vec<&Path> = files.collect();
    if let Some(path) = &arguments.html {
        output_file::check(path, &files)?;
    }
    let fleet = merged(&inputs, skipped);
    for Skipped { name, why } in &fleet.skipped {
        output::complain(&format!("{}: {}", output::printable(name), output::printable(why)));
    }
    if fleet.is_empty() {
        bail!("no audit could be read");
    }
    let digest = fleet.digest();
    if let Some(path) = &arguments.html {
        output_file::write(path, html::fleet_page(&digest).as_bytes(), &files)?;
    }
    if arguments.json {
        Document::of(SchemaOf::Report, &digest).print()?;
    } else {
        output::print(&described(&digest, arguments.html.as_deref()))?;
    }
    let has_findings = digest.tally.misaligned() + digest.tally.others > 0;
    let is_complete = fleet.skipped.is_empty() && digest.tally.failed + digest.tally.not_judged == 0;
    Ok(match (is_complete, has_findings) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Findings,
        (true, false) => Exit::Success,
    })
}

fn merged(inputs: &[PathBuf], skipped: Vec<Skipped>) -> Fleet {
    let mut fleet = Fleet::default();
    fleet.skipped = skipped;
    for input in inputs {
        let (name, host) = if input::is_stdin(input) {
            ("standard input".to_owned(), "standard input".into())
        } else {
            (input.display().to_string(), input.file_stem().unwrap_or(input.as_os_str()).to_string_lossy())
        };
        let read = fleet::read(input, |audit| {
            let Some((host, former)) = fleet.add(audit, &name, &host) else { return };
            if fleet.replaced <= NAMED {
                let message = format!("{host}: the audit in {name} replaces the audit in {former}");
                output::complain(&output::printable(&message));
            }
        });
        if let Err(why) = read {
            fleet.skipped.push(Skipped { name, why });
        }
    }
    if fleet.replaced > NAMED {
        let more = plural(fleet.replaced - NAMED, "more audit");
        output::complain(&format!("{more} replaced by later audits of the same hosts"));
    }
    fleet
}

const ROWS: usize = 10;

fn described(digest: &Digest<'_>, page: Option<&Path>) -> String {
    let mut text = String::new();
    for line in fleet_sentences(digest) {
        let _ = writeln!(text, "{}", wrap(&printable(&line), ""));
    }
    if digest.tally.misaligned() + digest.tally.others > 0 {
        let next = match page {
            Some(page) => format!("Next: {} has the fix and the commands for each disk.", page.display()),
            None => "Next: use --html FILE for a page with the fix and the commands for each disk; straddle \
                     check on the host prints them too."
                .to_owned(),
        };
        let _ = writeln!(text, "{}", wrap(&printable(&next), ""));
    }
    let of_tally = |tally: &Tally| {
        let shown = [tally.disks.to_string(), tally.misaligned().to_string(), share(tally)];
        shown.into_iter().chain(tally.findings.counts().map(|count| count.to_string())).collect::<Vec<_>>()
    };
    let is_priced = !digest.costs.is_empty();
    let is_listed = |tally: &Tally| tally.misaligned() + tally.others + tally.failed + tally.not_judged > 0;
    let hosts = digest.hosts.iter().filter(|row| is_listed(&row.tally)).map(|row| {
        let mut findings: Vec<String> = row.codes.iter().map(|code| (*code).to_owned()).collect();
        findings.extend(counted(&[(row.tally.failed, "failed"), (row.tally.not_judged, "not judged")]));
        let mut cells = [vec![row.host.to_owned()], of_tally(&row.tally)].concat();
        cells.extend(is_priced.then(|| row.cost.map(number).unwrap_or_default()));
        cells.push(findings.join(" "));
        cells
    });
    let mut head = vec!["HOST", "DISKS", "MISALIGNED", "OF CHECKED", "ERRORS", "WARNINGS", "ADVICE"];
    head.extend(is_priced.then_some("X TIME"));
    head.push("RULES");
    text += &table(&head, hosts, 1..head.len() - 1);
    let clean = digest.hosts.iter().filter(|row| !is_listed(&row.tally)).count();
    if clean > 0 {
        let _ = writeln!(text, "  not listed: {} without errors or warnings", plural(clean, "host"));
    }
    let models = digest.models.iter();
    let models = models.map(|row| [vec![row.model.to_owned()], of_tally(&row.tally)].concat());
    let head = ["MODEL", "DISKS", "MISALIGNED", "OF CHECKED", "ERRORS", "WARNINGS", "ADVICE"];
    text += &table(&head, models, 1..7);
    let rules = digest.rules.iter().map(|row| {
        let counts = [row.hosts, row.disks].into_iter().chain(row.findings.counts());
        let counts = counts.map(|count| count.to_string());
        [row.code.to_owned()].into_iter().chain(counts).chain([row.title.to_owned()]).collect()
    });
    let head = ["RULE", "HOSTS", "DISKS", "ERRORS", "WARNINGS", "ADVICE", "TITLE"];
    text + &table(&head, rules, 1..6)
}

fn counted(parts: &[(usize, &str)]) -> Vec<String> {
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

pub(crate) fn fleet_sentences(digest: &Digest<'_>) -> Vec<String> {
    let Digest { tally, hosts, skipped, replaced, named_by_files, costs, .. } = digest;
    let verdict = match tally.share {
        Some(share) => format!(
            "{} of the {} checked disks that are not blank {} misaligned ({:.1} %): {} with errors, {} with \
             warnings only.",
            tally.misaligned(),
            tally.judged(),
            if tally.misaligned() == 1 { "is" } else { "are" },
            share * 100.0,
            tally.errors,
            tally.warnings,
        ),
        None => "none of them holds data.".to_owned(),
    };
    let mut lines =
        vec![format!("{}, {}: {verdict}", plural(hosts.len(), "host"), plural(tally.disks, "disk"))];
    let named = |what: &str, has: fn(&Tally) -> usize| {
        let names: Vec<&str> = hosts.iter().filter(|row| has(&row.tally) > 0).map(|row| row.host).collect();
        if names.len() > NAMED { what.to_owned() } else { format!("{what} ({})", names.join(", ")) }
    };
    let rest = counted(&[
        (tally.others, "aligned with other findings"),
        (tally.blank, &named("blank", |tally| tally.blank)),
        (tally.not_judged, &named("not judged", |tally| tally.not_judged)),
        (tally.failed, "could not be audited"),
    ]);
    if !rest.is_empty() {
        lines.push(format!("Of the others: {}.", rest.join(", ")));
    }
    let Severities { errors, warnings, advice } = tally.findings;
    let (errors, warnings) = (plural(errors, "error"), plural(warnings, "warning"));
    lines.push(format!("Findings: {errors}, {warnings} and {advice} advice."));
    lines.extend(costs.iter().map(cost));
    if !skipped.is_empty() {
        lines.push(format!("{} skipped (not an audit, or unreadable).", plural(skipped.len(), "input")));
    }
    if *replaced > 0 {
        lines.push(format!("{} replaced by later audits of the same host.", plural(*replaced, "audit")));
    }
    if *named_by_files > 0 {
        let hosts = plural(*named_by_files, "host");
        lines.push(format!("{hosts} listed by file name, because the audit has no host name."));
    }
    lines
}

fn cost(row: &CostRow<'_>) -> String {
    let wear = |wear| format!(" and write up to {} times as many bytes to flash (wear)", number(wear));
    format!(
        "Cost ({} on {}): random writes at the misaligned starts of {} take {} times as long as aligned \
         writes (median; at worst {} times){}.",
        row.by.source,
        row.by.drive,
        plural(row.disks, "disk"),
        number(row.median),
        number(row.worst),
        row.wear.map(wear).unwrap_or_default(),
    )
}

fn share(tally: &Tally) -> String {
    tally.share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, numbers: std::ops::Range<usize>) -> String {
    let mut table = plain_table(head);
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    table.add_rows(rows.iter().take(ROWS).map(|row| row.iter().map(|cell| printable(cell))));
    right(&mut table, numbers);
    folded(&mut table);
    let more = rows.len().saturating_sub(ROWS);
    let more = if more > 0 { format!("  and {more} more (--html or --json)\n") } else { String::new() };
    format!("\n{}\n{more}", headed(&table, style::HEADING))
}
