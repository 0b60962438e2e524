//! `straddle explain`: what a finding means, what old tools do, and the arithmetic of read-modify-writes.

use std::fmt::Write;

use anyhow::Result;
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Io, RULES, RmwCount, Rule, count_rmw, picture};
use straddle_units::{Boundary, ByteCount, ByteOffset, Coverage, Span, parse_size};

use crate::args::{Completed, place, positive_size};
use crate::exit::{Exit, usage};
use crate::output::{paint, plural, style};
use crate::topics::{Explained, Found, Question, Search, Subject};
use crate::view::json::{Document, SchemaOf};
use crate::view::text::{self, wrap, wrap_after};
use crate::{output, topics};

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  straddle explain                        # list all findings and topics
  straddle explain S001                   # a finding: cause, cost, fix, sources
  straddle explain fdisk windows-xp       # how to align with old tools
  straddle explain qlc                    # a term, or any words to search for
  straddle explain \"GPT PMBR size mismatch (131071 != 196607)\"
  straddle explain rmw --offset 63s       # the first block of an old partition";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ExplainArguments {
    /// Codes, topics or error messages to explain. Other words are searched for in the rules, the topics and
    /// the FAQ [default: list all].
    #[arg(value_name = "CODE|TOPIC", value_parser = Completed(|| Box::new(topics::names())), hide_possible_values = true)]
    pub(crate) words: Vec<String>,

    /// List all findings and topics.
    #[arg(long, conflicts_with = "words")]
    pub(crate) list: bool,

    /// Print JSON (see `straddle schema explain`).
    #[arg(long)]
    pub(crate) json: bool,

    /// Topic to explain instead of a finding.
    #[command(subcommand)]
    pub(crate) topic: Option<Computed>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Computed {
    /// Count the physical sectors that writes touch, and the read-modify-writes that they cause.
    Rmw(RmwArguments),
}

const RMW_EXAMPLES: &str = "\
Examples:
  straddle explain rmw --offset 63s       # a 4 KiB write at sector 63
  straddle explain rmw --offset 1MiB --io 16KiB --physical 16KiB
  straddle explain rmw --offset 31KiB --count 1000 --json";

/// Arguments of `explain rmw`.
#[derive(Debug, Args)]
#[command(after_help = RMW_EXAMPLES)]
pub(crate) struct RmwArguments {
    /// Start of the first write on the device, in bytes (31KiB) or 512-byte sectors (63s).
    #[arg(long, value_parser = place, value_name = "OFFSET")]
    pub(crate) offset: ByteCount,

    /// Size of each write.
    #[arg(long, value_parser = positive_size, default_value = "4KiB", value_name = "BYTES")]
    pub(crate) io: ByteCount,

    /// Number of consecutive writes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Size of the physical sector (or indirection unit).
    #[arg(long, value_parser = positive_size, default_value = "4096", value_name = "BYTES")]
    pub(crate) physical: ByteCount,

    /// Start of the first physical sector (the drive's alignment offset).
    #[arg(long, value_parser = parse_size, default_value = "0", value_name = "BYTES")]
    pub(crate) phase: ByteCount,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const SHOWN: usize = 60;

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Exit> {
    if let Some(Computed::Rmw(rmw)) = &arguments.topic {
        return explain_rmw(rmw);
    }
    match topics::subjects(&arguments.words) {
        Ok(subjects) if arguments.json => print_json(subjects),
        Ok(subjects) if subjects.is_empty() => output::print(&list()),
        Ok(subjects) => output::print(&explained(&subjects)),
        Err(word) => explain_found(arguments, &word),
    }
}

fn print_json(subjects: Vec<Subject>) -> Result<Exit> {
    Document::of(SchemaOf::Explain, ExplainReport::of(subjects)).print()
}

/// Prints the best of what has the words, and the names of the others; `word` is one that names nothing.
fn explain_found(arguments: &ExplainArguments, word: &str) -> Result<Exit> {
    let Search { mut found, all } = topics::search(&arguments.words);
    // The code of a rule that is missing is not one of several words.
    let digits = word.strip_prefix(['S', 's']).unwrap_or_default();
    if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) {
        found.clear();
    }
    let hint = if all { String::new() } else { meant(&arguments.words) };
    let Some((best, others)) = found.split_first() else {
        let word: String = word.chars().take(SHOWN).collect();
        return usage(format!(
            "no rule, topic or question matches '{word}';{hint} 'straddle explain --list' lists them all"
        ));
    };
    if !all {
        let end = if hint.is_empty() { "" } else { ";" };
        output::complain(&format!(
            "note: no text contains all of these words, so the best match is shown{end}{hint}"
        ));
    }
    if arguments.json {
        return print_json(found.iter().map(|found| found.subject.clone()).collect());
    }
    let mut text = explained(std::slice::from_ref(&best.subject));
    if !others.is_empty() {
        let heading = if all {
            "Other texts with these words"
        } else {
            "Other texts with the same number of these words"
        };
        text += &format!("\n{}\n", paint(style::HEADING, heading));
    }
    for Found { name, title, .. } in others {
        text += &(wrap_after(&format!("{name:16}  {title}"), "  ", "                    ") + "\n");
    }
    output::print(&text)
}

fn meant(words: &[String]) -> String {
    match topics::alike(words)[..] {
        [] => String::new(),
        [one] => format!(" did you mean '{one}'?"),
        [ref others @ .., last] => format!(" did you mean '{}' or '{last}'?", others.join("', '")),
    }
}

fn list() -> String {
    let mut text = String::new();
    for rule in RULES {
        let severity = paint(text::severity_style(rule.severity), &format!("{:8}", rule.severity));
        let line = format!("{}  {severity} {}", rule.code, rule.title);
        let _ = writeln!(text, "{}", wrap_after(&line, "", "               "));
    }
    let mut named = |heading: &str, entries: Vec<(&String, &String)>| {
        let _ = writeln!(text, "\n{}", paint(style::HEADING, heading));
        for (name, title) in entries {
            let line = format!("{name:16}  {title}");
            let _ = writeln!(text, "{}", wrap_after(&line, "", "                  "));
        }
    };
    let topics = topics::all().iter().map(|topic| (&topic.name, &topic.title));
    named("Old tools, messages, words and numbers", topics.collect());
    let questions = topics::questions().iter().map(|question| (&question.name, &question.title));
    named("Questions", questions.collect());
    let terms: Vec<&str> = topics::terms().iter().map(|term| term.name.as_str()).collect();
    let _ = writeln!(text, "\n{}\n{}", paint(style::HEADING, "Terms"), wrap(&terms.join(", "), ""));
    let hint = "For details, run 'straddle explain' with a code, a name, a message as it was printed, or a \
                word to search for.";
    text + &format!("\n{}\n", wrap(hint, ""))
}

fn explained(subjects: &[Subject]) -> String {
    let text = |subject: &Subject| match subject {
        Subject::Rule(rule) => rule_text(rule),
        Subject::Topic(topic) => topic_text(topic),
        Subject::Question(question) => headed(&question.title, question.about.iter()),
    };
    subjects.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn rule_text(rule: &Rule) -> String {
    let mut text = headed(&format!("{}: {} ({})", rule.code, rule.title, rule.severity), [].iter());
    for (name, body) in [("What", &rule.what), ("Fix", &rule.fix), ("Cost", &rule.cost), ("Why", &rule.why)] {
        let _ = writeln!(text, "\n{}\n{}", paint(style::HEADING, name), wrap(body, "  "));
    }
    let _ = writeln!(text, "\n{}", paint(style::HEADING, "Sources"));
    for source in &rule.sources {
        let _ = writeln!(text, "{}", wrap(source, "  "));
    }
    text
}

fn explain_rmw(arguments: &RmwArguments) -> Result<Exit> {
    let io =
        Io { offset: ByteOffset::new(arguments.offset.get()), size: arguments.io, count: arguments.count };
    let counted = Boundary::new(arguments.physical, arguments.phase)
        .and_then(|boundary| Some((boundary, count_rmw(io, boundary)?)));
    let Some((boundary, count)) = counted else { return usage("the writes would end beyond byte 2^64") };
    if arguments.json {
        let report = RmwReport { io, physical_sectors: boundary, count: &count };
        return Document::of(SchemaOf::ExplainRmw, report).print();
    }
    let sum = format!(
        "{} of {} on {}-byte sectors: {}",
        plural(io.count, "write"),
        io.size,
        boundary.size().get(),
        describe(count.apart)
    );
    let mut text = wrap_after(&sum, "", "  ") + "\n\n";
    for (index, (span, coverage)) in count.each.iter().enumerate() {
        let line = format!("write {:>2}  byte {:>10}  {}", index + 1, span.start(), describe(*coverage));
        let _ = writeln!(text, "{}", drawn_after(&line, picture(boundary, *span)));
    }
    if io.count > u64::try_from(count.each.len()).unwrap_or(u64::MAX) {
        text += "…\n";
    }
    if io.count > 1 {
        let merged = Span::new(io.offset, io.size).and(picture(
            boundary,
            Span::new(io.offset, io.size.checked_mul(io.count).unwrap_or(io.size)).unwrap_or(count.each[0].0),
        ));
        let line = format!("merged into one write by a cache: {}", describe(count.merged));
        let _ = writeln!(text, "{}", drawn_after(&line, merged));
    }
    let legend = "| marks the start of a physical sector, and # marks a written eighth of a sector.";
    output::print(&format!("{text}\n{}\n", wrap(legend, "")))
}

/// Returns `line` with the drawing after it, or below it if the line is too short for both.
fn drawn_after(line: &str, drawing: Option<String>) -> String {
    let wrapped = wrap_after(line, "", "  ");
    match drawing {
        // The drawing is ASCII, so bytes are columns.
        Some(drawing) if output::fits(line.len() + 2 + drawing.len()) => format!("{line}  {drawing}"),
        Some(drawing) => format!("{wrapped}\n  {drawing}"),
        None => wrapped,
    }
}

fn describe(coverage: Coverage) -> String {
    let partial = plural(coverage.partial, "read-modify-write");
    format!("{} touched, {partial}", plural(coverage.touched, "sector"))
}

/// What `straddle explain --json` prints: always lists, also of a single rule or topic.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// The rules asked for; all of them if nothing was asked for.
    rules: Vec<&'static Rule>,
    /// The topics asked for; all of them if nothing was asked for.
    topics: Vec<Explained>,
    /// The questions of the FAQ that were asked for; all of them if nothing was asked for.
    faq: Vec<&'static Question>,
}

impl ExplainReport {
    fn of(subjects: Vec<Subject>) -> Self {
        if subjects.is_empty() {
            return Self {
                rules: RULES.to_vec(),
                topics: topics::all().iter().map(Explained::from).collect(),
                faq: topics::questions().iter().collect(),
            };
        }
        let mut report = Self::default();
        for subject in subjects {
            match subject {
                Subject::Rule(rule) => report.rules.push(rule),
                Subject::Topic(explained) => report.topics.push(explained),
                Subject::Question(question) => report.faq.push(question),
            }
        }
        report
    }
}

/// What `straddle explain rmw --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RmwReport<'a> {
    #[serde(flatten)]
    io: Io,
    /// The boundaries of the physical sectors.
    physical_sectors: Boundary,
    #[serde(flatten)]
    count: &'a RmwCount,
}

fn headed<'a>(title: &str, paragraphs: impl Iterator<Item = &'a String>) -> String {
    let mut text = format!("{}\n", paint(style::HEADING, &wrap_after(title, "", "  ")));
    for paragraph in paragraphs {
        let _ = write!(text, "\n{}\n", wrap(paragraph, "  "));
    }
    text
}

fn topic_text(explained: &Explained) -> String {
    let heading = |text: &str| paint(style::HEADING, text);
    let topic = explained.topic;
    let mut text = headed(&topic.title, explained.numbers.iter().chain(explained.about.iter().copied()));
    for (index, line) in topic.drawing.iter().flat_map(|drawing| drawing.lines()).enumerate() {
        text += if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    for version in &topic.versions {
        let _ = writeln!(text, "\n{}", heading(&wrap_after(&version.of, "", "  ")));
        let _ = writeln!(text, "{}", wrap_after(&format!("starts  {}", version.starts), "  ", "          "));
        let _ = writeln!(text, "{}", wrap_after(&format!("right   {}", version.right), "  ", "          "));
    }
    let _ = write!(text, "\n{}\n", heading("Sources"));
    for source in &topic.sources {
        let _ = writeln!(text, "{}", wrap_after(source, "  ", "    "));
    }
    text
}
