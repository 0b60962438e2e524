//! `straddle check` and `straddle map`: examine each target and print the findings.

mod batch;
mod outcome;
mod run;
mod subject;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;
use rayon::prelude::*;
use straddle_audit::examine::Examined;

use self::batch::{BATCH, PARALLEL_FROM};
use self::outcome::Outcome;
pub(crate) use self::run::Form;
use self::run::Run;
use self::subject::Subject;
use crate::args::CheckArguments;
use crate::config::Config;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::target::ReadTarget;
use crate::view::json::check::Summary;
use crate::view::report;
use crate::view::text;

/// Refuses options of `check` that `map` does not have.
fn refuse_foreign(arguments: &CheckArguments, form: Form) -> Result<()> {
    let foreign = match (arguments.output_format.is_some(), arguments.columns.is_empty()) {
        (true, _) => Some("--output-format"),
        (false, false) => Some("--columns"),
        (false, true) => None,
    };
    match foreign.filter(|_| form == Form::Map) {
        Some(option) => Err(UsageError(format!("{option} is an option of straddle check")).into()),
        None => Ok(()),
    }
}

pub(crate) fn run(arguments: &CheckArguments, form: Form) -> Result<Exit> {
    refuse_foreign(arguments, form)?;
    let config = Config::of(arguments)?;
    let targets = subject::all(arguments)?;
    let run = Run::new(config, form)?;
    let arguments = &run.arguments;
    let mut met = BTreeSet::new();
    let is_parallel = targets.len() >= PARALLEL_FROM;
    let bar = batch::progress(targets.len());
    let mut out = output::stdout();
    let (mut summary, mut severities, mut exit) = (Summary::default(), [0_usize; 3], Exit::Success);
    if targets.is_empty() && arguments.fails_blank() {
        exit = Exit::Findings;
    }
    let (mut readable, mut unread, mut unjudged) = (0_usize, None, None);
    let mut report = report::of(arguments)?;
    if let Some(report) = &mut report {
        out.write_all(report.opening().as_bytes())?;
    }
    for batch in targets.chunks(BATCH) {
        let examined = batch::examine_all(batch, &run, is_parallel);
        let found = || examined.iter().filter_map(|(_, it)| it.as_ref().ok());
        readable += found().filter(|it| !it.is_unread()).count();
        unread = unread.or_else(|| found().find_map(|it| it.target().unread.clone()));
        let cost = || arguments.cost.as_ref().filter(|_| form == Form::Audit && !arguments.quiet);
        unjudged = unjudged.or_else(|| found().find_map(|it| cost()?.unjudged(&it.target().topology)));
        let of = |(subject, examined): (&Subject, Result<Examined>)| Outcome::of(subject, examined, &run);
        let outcomes: Vec<Outcome> = match is_parallel {
            true => examined.into_par_iter().map(of).collect(),
            false => examined.into_iter().map(of).collect(),
        };
        for outcome in &outcomes {
            summary.add(outcome.status);
            severities.iter_mut().zip(outcome.severities).for_each(|(all, its)| *all += its);
            exit = exit.max(outcome.exit);
        }
        if report.is_none() && !arguments.quiet && targets.len() > 1 && targets.len() <= BATCH {
            writeln!(out, "{}", text::summary(summary, severities))?;
        }
        let apart = report.is_none() && !arguments.quiet && targets.len() > 1;
        print(&outcomes, apart, report.as_deref_mut(), &mut out)?;
        met.extend(outcomes.into_iter().flat_map(|outcome| outcome.exceptions));
        bar.inc(u64::try_from(batch.len()).unwrap_or(0));
    }
    bar.finish_and_clear();
    out.flush()?;
    run.warn_of_stale(&targets, &met);
    if let Some(note) = unjudged {
        output::complain(&note);
    }
    if let Some(why) = unread.filter(|_| arguments.is_of_this_machine() && readable == 0) {
        let what = "no disk was read: only the kernel's list of partitions is checked";
        output::complain(&output::printable(&format!("{what} ({why})")));
    }
    let paths = ReadTarget::paths(&arguments.targets);
    if form == Form::Audit
        && arguments.captured().is_none()
        && arguments.domains.is_empty()
        && (arguments.targets.is_empty() || !paths.is_empty())
        && let Some(note) = super::at_boot::note(&paths)
    {
        out.flush()?;
        output::complain(&note);
    }
    if let Some(report) = &mut report {
        out.write_all(report.closing().as_bytes())?;
    } else if !arguments.quiet && (targets.len() > BATCH || targets.is_empty()) {
        writeln!(out, "{}", text::summary(summary, severities))?;
    }
    out.flush()?;
    Ok(exit)
}

/// Prints the outcomes; if `apart`, with an empty line around each of several lines.
fn print(
    outcomes: &[Outcome],
    apart: bool,
    mut report: Option<&mut (dyn report::Report + '_)>,
    out: &mut impl Write,
) -> Result<()> {
    let mut is_block = false;
    for outcome in outcomes {
        if let (Some(report), Some(of)) = (&mut report, &outcome.report) {
            out.write_all(report.target(of).as_bytes())?;
        }
        let follows_block = std::mem::replace(&mut is_block, outcome.text.lines().count() > 1);
        if apart && (follows_block || is_block) && !outcome.text.is_empty() {
            out.write_all(b"\n")?;
        }
        out.write_all(outcome.text.as_bytes())?;
        if let Some(complaint) = &outcome.complaint {
            // Flush, so that the complaint follows what was printed before it.
            out.flush()?;
            output::complain(complaint);
        }
    }
    Ok(())
}
