//! `straddle explain`: what a finding means, what old tools do, and the arithmetic of read-modify-writes.

use std::io::Write;

use anyhow::Result;
use straddle_audit::{Io, RULES, Rule, count_rmw, picture};
use straddle_drive::Profile;
use straddle_units::{Boundary, ByteOffset, Coverage, Span};

use crate::args::{ExplainArguments, RmwArguments, SchemaOf, Topic};
use crate::exit::{Exit, UsageError};
use crate::output::{self, paint, plural, style};
use crate::topics::{self, Found, Search, Subject};
use crate::view::json::Document;
use crate::view::json::explain::{ExplainReport, RmwReport};
use crate::view::text;

/// The most characters of a word that are repeated in an error.
const SHOWN: usize = 60;

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Exit> {
    if let Some(Topic::Rmw(rmw)) = &arguments.topic {
        return explain_rmw(rmw);
    }
    let subjects = match topics::subjects(&arguments.words) {
        Ok(subjects) => subjects,
        Err(word) => return explain_other(arguments, &word),
    };
    if arguments.json {
        Document::of(SchemaOf::Explain, ExplainReport::of(&subjects)).print()?;
        return Ok(Exit::Success);
    }
    if subjects.is_empty() { list() } else { explain(&subjects) }
}

/// Prints the modelled drive that the words name, or else what has the words; `word` is one that names nothing else.
fn explain_other(arguments: &ExplainArguments, word: &str) -> Result<Exit> {
    let Some(name) = topics::drive(&arguments.words) else {
        return explain_found(arguments, word);
    };
    let command = format!("straddle drive show {name}");
    if arguments.json {
        return Err(UsageError(format!("'{word}' is a drive: {command} --json")).into());
    }
    let profile = Profile::open(name)?;
    let mut out = output::stdout();
    write!(out, "{}", text::drive::show(&profile))?;
    let more = format!(
        "This is what {command} prints. To check a disk assuming this drive: straddle check --assume \
         drive:{name}"
    );
    writeln!(out, "\n{}", text::wrap(&more, ""))?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Prints the best of what has the words, and the names of the others.
fn explain_found(arguments: &ExplainArguments, word: &str) -> Result<Exit> {
    let Search { mut found, all } = topics::search(&arguments.words);
    // The code of a rule that is not there is not one of several words.
    let digits = word.strip_prefix(['S', 's']).unwrap_or_default();
    if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) {
        found.clear();
    }
    let hint = if all { String::new() } else { meant(&arguments.words) };
    let Some((best, others)) = found.split_first() else {
        let word: String = word.chars().take(SHOWN).collect();
        let text = format!(
            "no rule, topic or question matches '{word}';{hint} 'straddle explain --list' lists them all"
        );
        return Err(UsageError(text).into());
    };
    if !all {
        output::complain(&format!(
            "note: nothing contains all of these words; this contains most of them;{hint}"
        ));
    }
    if arguments.json {
        let subjects: Vec<Subject> = found.iter().map(|found| found.subject.clone()).collect();
        Document::of(SchemaOf::Explain, ExplainReport::of(&subjects)).print()?;
        return Ok(Exit::Success);
    }
    explain(std::slice::from_ref(&best.subject))?;
    let mut out = output::stdout();
    if !others.is_empty() {
        let heading =
            if all { "Other texts with these words" } else { "Other texts with as many of these words" };
        writeln!(out, "\n{}", paint(style::HEADING, heading))?;
    }
    for Found { name, title, .. } in others {
        let line = format!("{name:16}  {title}");
        writeln!(out, "{}", text::wrap_after(&line, "  ", "                    "))?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

/// Returns what words may be meant for, as a question.
fn meant(words: &[String]) -> String {
    match topics::alike(words)[..] {
        [] => String::new(),
        [one] => format!(" did you mean '{one}'?"),
        [ref others @ .., last] => format!(" did you mean '{}' or '{last}'?", others.join("', '")),
    }
}

fn list() -> Result<Exit> {
    let mut out = output::stdout();
    for rule in RULES {
        let severity = paint(text::severity_style(rule.severity), &format!("{:8}", rule.severity));
        let line = format!("{}  {severity} {}", rule.code, rule.title);
        writeln!(out, "{}", text::wrap_after(&line, "", "               "))?;
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Old tools, messages, words and numbers"))?;
    for topic in topics::all() {
        let line = format!("{:16}  {}", topic.name, topic.title);
        writeln!(out, "{}", text::wrap_after(&line, "", "                  "))?;
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Questions"))?;
    for question in topics::questions() {
        let line = format!("{:16}  {}", question.name, question.title);
        writeln!(out, "{}", text::wrap_after(&line, "", "                  "))?;
    }
    let terms: Vec<&str> = topics::terms().iter().map(|term| term.name.as_str()).collect();
    writeln!(out, "\n{}\n{}", paint(style::HEADING, "Terms"), text::wrap(&terms.join(", "), ""))?;
    let hint = "For details run 'straddle explain' with a code, a name, a message as it is printed, or a word to search for.";
    writeln!(out, "\n{}", text::wrap(hint, ""))?;
    out.flush()?;
    Ok(Exit::Success)
}

fn explain(subjects: &[Subject]) -> Result<Exit> {
    let mut out = output::stdout();
    for (index, subject) in subjects.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match subject {
            Subject::Rule(rule) => explain_rule(rule, &mut out)?,
            Subject::Topic(topic) => write!(out, "{}", text::topic::topic(topic))?,
            Subject::Question(question) => {
                write!(out, "{}", text::topic::question(question))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Success)
}

fn explain_rule(rule: &Rule, out: &mut impl Write) -> Result<()> {
    let heading = format!("{}: {} ({})", rule.code, rule.title, rule.severity);
    writeln!(out, "{}", paint(style::HEADING, &text::wrap_after(&heading, "", "  ")))?;
    for (name, body) in [("What", rule.what), ("Fix", rule.fix), ("Cost", rule.cost), ("Why", rule.why)] {
        writeln!(out, "\n{}", paint(style::HEADING, name))?;
        writeln!(out, "{}", text::wrap(body, "  "))?;
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Sources"))?;
    for source in rule.sources {
        writeln!(out, "{}", text::wrap(source, "  "))?;
    }
    Ok(())
}

fn explain_rmw(arguments: &RmwArguments) -> Result<Exit> {
    let io =
        Io { offset: ByteOffset::new(arguments.offset.get()), size: arguments.io, count: arguments.count };
    let counted = Boundary::new(arguments.physical, arguments.phase)
        .and_then(|boundary| Some((boundary, count_rmw(io, boundary)?)));
    let Some((boundary, count)) = counted else {
        return Err(UsageError("the writes would pass 2^64 bytes".to_owned()).into());
    };
    if arguments.json {
        let report = RmwReport { io, physical_sectors: boundary, count: &count };
        Document::of(SchemaOf::ExplainRmw, report).print()?;
        return Ok(Exit::Success);
    }
    let mut out = output::stdout();
    let writes = if io.count == 1 { "1 write".to_owned() } else { format!("{} writes", io.count) };
    let (size, sector) = (io.size, boundary.size().get());
    let sum = format!("{writes} of {size} on {sector}-byte sectors: {}", describe(count.apart));
    writeln!(out, "{}\n", text::wrap_after(&sum, "", "  "))?;
    for (index, (span, coverage)) in count.each.iter().enumerate() {
        let line = format!("write {:>2}  byte {:>10}  {}", index + 1, span.start(), describe(*coverage));
        writeln!(out, "{}", drawn_after(&line, picture(boundary, *span)))?;
    }
    if io.count > u64::try_from(count.each.len()).unwrap_or(u64::MAX) {
        writeln!(out, "…")?;
    }
    if io.count > 1 {
        let merged = Span::new(io.offset, io.size).and(picture(
            boundary,
            Span::new(io.offset, io.size.checked_mul(io.count).unwrap_or(io.size)).unwrap_or(count.each[0].0),
        ));
        let line = format!("merged into one by a cache: {}", describe(count.merged));
        writeln!(out, "{}", drawn_after(&line, merged))?;
    }
    let legend = "| is the start of a physical sector, # an eighth of one that is written.";
    writeln!(out, "\n{}", text::wrap(legend, ""))?;
    out.flush()?;
    Ok(Exit::Success)
}

/// Returns `line` with the drawing behind it, or below it if the line is too short for both.
fn drawn_after(line: &str, drawing: Option<String>) -> String {
    let wrapped = text::wrap_after(line, "", "  ");
    match drawing {
        // The drawing is ASCII, so bytes are columns.
        Some(drawing) if output::fits(line.len() + 2 + drawing.len()) => format!("{line}  {drawing}"),
        Some(drawing) => format!("{wrapped}\n  {drawing}"),
        None => wrapped,
    }
}

fn describe(coverage: Coverage) -> String {
    let number = |n: u64, noun: &str| match usize::try_from(n) {
        Ok(n) => plural(n, noun),
        Err(_) => format!("{n} {noun}s"),
    };
    format!(
        "{} touched, {}",
        number(coverage.touched, "sector"),
        number(coverage.partial, "read-modify-write")
    )
}
