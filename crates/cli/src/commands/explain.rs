//! `straddle explain`: what a finding means, and the arithmetic of read-modify-writes.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use straddle_audit::{Io, RULES, Rule, count_rmw, picture};
use straddle_units::{Boundary, ByteOffset, Coverage, Span};

use crate::args::{ExplainArguments, RmwArguments, Topic};
use crate::exit::{Exit, UsageError};
use crate::output::{self, Styles, paint, plural};
use crate::view::text;

pub(crate) fn run(arguments: &ExplainArguments, styles: Styles) -> Result<Exit> {
    let rules: Vec<&Rule> =
        arguments.codes.iter().filter_map(|code| straddle_audit::rule(code.as_str())).collect();
    match (&arguments.topic, rules.as_slice()) {
        (Some(Topic::Rmw(rmw)), _) => explain_rmw(rmw),
        (None, []) => list(arguments.json, styles),
        (None, [rule]) if arguments.json => {
            output::print_json(&RuleReport::from(*rule))?;
            Ok(Exit::Success)
        }
        (None, rules) if arguments.json => {
            output::print_json(&rules.iter().map(|rule| RuleReport::from(*rule)).collect::<Vec<_>>())?;
            Ok(Exit::Success)
        }
        (None, rules) => explain_rules(rules, styles),
    }
}

/// A rule as JSON.
#[derive(Serialize)]
struct RuleReport {
    code: &'static str,
    severity: String,
    title: &'static str,
    what: &'static str,
    why: &'static str,
    cost: &'static str,
    fix: &'static str,
    sources: &'static [&'static str],
}

impl From<&'static Rule> for RuleReport {
    fn from(rule: &'static Rule) -> Self {
        Self {
            code: rule.code.as_str(),
            severity: rule.severity.to_string(),
            title: rule.title,
            what: rule.what,
            why: rule.why,
            cost: rule.cost,
            fix: rule.fix,
            sources: rule.sources,
        }
    }
}

fn list(json: bool, styles: Styles) -> Result<Exit> {
    if json {
        output::print_json(&RULES.iter().map(|rule| RuleReport::from(*rule)).collect::<Vec<_>>())?;
        return Ok(Exit::Success);
    }
    let mut out = output::stdout();
    for rule in RULES {
        let severity = paint(text::severity_style(rule.severity, styles), &format!("{:8}", rule.severity));
        writeln!(out, "{}  {severity} {}", rule.code, rule.title)?;
    }
    writeln!(out, "\nFor details run 'straddle explain CODE'.")?;
    out.flush()?;
    Ok(Exit::Success)
}

fn explain_rules(rules: &[&'static Rule], styles: Styles) -> Result<Exit> {
    let mut out = output::stdout();
    for (index, rule) in rules.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        explain_rule(rule, styles, &mut out)?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

fn explain_rule(rule: &Rule, styles: Styles, out: &mut impl Write) -> Result<()> {
    let heading = format!("{}: {} ({})", rule.code, rule.title, rule.severity);
    writeln!(out, "{}", paint(styles.heading, &heading))?;
    for (name, body) in [("What", rule.what), ("Why", rule.why), ("Cost", rule.cost), ("Fix", rule.fix)] {
        writeln!(out, "\n{}", paint(styles.heading, name))?;
        writeln!(out, "{}", text::wrap(body, output::width(), "  "))?;
    }
    writeln!(out, "\n{}", paint(styles.heading, "Sources"))?;
    for source in rule.sources {
        writeln!(out, "{}", text::wrap(source, output::width(), "  "))?;
    }
    Ok(())
}

/// The counts as JSON; sizes are in bytes.
#[derive(Serialize)]
struct RmwReport {
    offset_bytes: u64,
    io_bytes: u64,
    writes: u64,
    physical_sector_bytes: u64,
    phase_bytes: u64,
    sectors_touched: u64,
    read_modify_writes: u64,
    merged_sectors_touched: u64,
    merged_read_modify_writes: u64,
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
        output::print_json(&RmwReport {
            offset_bytes: io.offset.get(),
            io_bytes: io.size.get(),
            writes: io.count,
            physical_sector_bytes: boundary.size().get(),
            phase_bytes: boundary.phase().get(),
            sectors_touched: count.apart.touched,
            read_modify_writes: count.apart.partial,
            merged_sectors_touched: count.merged.touched,
            merged_read_modify_writes: count.merged.partial,
        })?;
        return Ok(Exit::Success);
    }
    let mut out = output::stdout();
    for (index, (span, coverage)) in count.each.iter().enumerate() {
        let drawn = picture(boundary, *span).map(|line| format!("  {line}")).unwrap_or_default();
        writeln!(out, "write {:>2}  byte {:>10}  {}{drawn}", index + 1, span.start(), describe(*coverage))?;
    }
    if io.count > u64::try_from(count.each.len()).unwrap_or(u64::MAX) {
        writeln!(out, "…")?;
    }
    let writes = if io.count == 1 { "1 write".to_owned() } else { format!("{} writes", io.count) };
    writeln!(
        out,
        "\n{writes} of {} on {}-byte physical sectors: {}",
        io.size,
        boundary.size().get(),
        describe(count.apart)
    )?;
    if io.count > 1 {
        let merged = Span::new(io.offset, io.size).and(picture(
            boundary,
            Span::new(io.offset, io.size.checked_mul(io.count).unwrap_or(io.size)).unwrap_or(count.each[0].0),
        ));
        let drawn = merged.map(|line| format!("  {line}")).unwrap_or_default();
        writeln!(out, "merged into one by a cache: {}{drawn}", describe(count.merged))?;
    }
    writeln!(out, "\nEach | is the start of a physical sector, each # an eighth of one that is written.")?;
    out.flush()?;
    Ok(Exit::Success)
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
