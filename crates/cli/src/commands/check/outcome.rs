//! One target's output, and its share in the exit status.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use straddle_audit::examine::{ExamineError, Examined};
use straddle_audit::{Finding, Reported, Severity};
use straddle_device::OpenError;
use straddle_device::shown::quote_path;

use super::subject::Subject;
use super::{Form, Run};
use crate::exit::Exit;
use crate::output;
use crate::overlay;
use crate::view::json::{Status, TargetReport};
use crate::view::report;
use crate::view::text;

/// One target's output, and its share in the exit status.
pub(super) struct Outcome {
    pub(super) text: String,
    /// In place of the text, if a report is written.
    pub(super) report: Option<TargetReport>,
    /// Printed to stderr.
    pub(super) complaint: Option<String>,
    pub(super) status: Status,
    pub(super) exit: Exit,
    /// Numbers of errors, warnings and pieces of advice.
    pub(super) severities: [usize; 3],
    /// The exceptions of the run, by index, that are about a finding of this target, or may be: what cannot
    /// be read may have it.
    pub(super) exceptions: BTreeSet<usize>,
}

impl Outcome {
    pub(super) fn of(subject: &Subject, examined: Result<Examined>, run: &Run) -> Self {
        let name = subject.name();
        let error = match examined {
            Ok(examined) => return judged(&name, &examined, run),
            Err(error) => error,
        };
        let unread: Option<&ExamineError> = error.downcast_ref();
        let reason = unread.and_then(|error| {
            let asked_for = match error {
                ExamineError::Open(OpenError::Standby { .. }) => true,
                ExamineError::OutOfReach(_) => run.arguments.allow_unknown,
                _ => false,
            };
            Some((error.not_judged()?, if asked_for { Exit::Success } else { Exit::Failed }))
        });
        if let Some((reason, exit)) = reason {
            let of = TargetReport::not_read(name.clone(), reason.clone());
            return Self {
                text: String::new(),
                report: report::is_wanted(&run.arguments).then_some(of),
                complaint: Some(output::printable(&format!("{name}: not judged: {reason}"))),
                status: Status::NotJudged,
                exit,
                severities: [0; 3],
                exceptions: run.exceptions_for(&name).collect(),
            };
        }
        let verb = if run.form == Form::Map { "map" } else { "check" };
        let domains = run.arguments.domains.iter();
        let domains: Vec<_> =
            domains.map(|word| format!("--domain {}", quote_path(Path::new(word)))).collect();
        let words = if domains.is_empty() { quote_path(Path::new(&name)) } else { domains.join(" ") };
        let is_path = subject.path().is_some();
        let ready = is_path
            .then(|| overlay::command(&error, verb, Path::new(&name), &words, &run.arguments.allow_backing));
        let ready = ready.flatten();
        failed(name, format!("{error:#}"), ready, run)
    }
}

fn judged(name: &str, examined: &Examined, run: &Run) -> Outcome {
    let arguments = &run.arguments;
    let severities = [Severity::Error, Severity::Warning, Severity::Advice];
    let count = |severity| examined.reported().filter(|(finding, _)| finding.severity == severity).count();
    let counts = |f: &Finding| matches!(f.reported, Reported::Here | Reported::At(_));
    let fails = examined.findings().iter().filter(|f| counts(f));
    let fails = fails.map(|f| f.severity).any(|severity| severity >= arguments.fails_from());
    let unknown = examined.not_judged().filter(|_| !arguments.allow_unknown);
    // The text output says this in its place, but a list of findings has no place for it. Of all disks of this
    // machine, some may well be blank.
    let nothing = examined.nothing_to_judge().filter(|_| !arguments.is_of_this_machine());
    let not_judged = examined.not_judged().map(|why| format!("not judged: {why}"));
    let alone = not_judged.or(nothing.map(str::to_owned)).filter(|_| arguments.quiet);
    let fails = fails || (arguments.fails_blank() && examined.nothing_to_judge().is_some());
    Outcome {
        text: render(examined, run),
        report: report::is_wanted(arguments).then(|| TargetReport::of(examined)),
        complaint: alone.map(|why| output::printable(&format!("{name}: {why}"))),
        status: examined.judgement().status(),
        exit: match (unknown.is_some() || examined.judgement().is_unread(), fails) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Findings,
            (false, false) => Exit::Success,
        },
        severities: severities.map(count),
        exceptions: match examined.judgement().is_unread() || examined.is_unread() {
            true => run.exceptions_for(name).collect(),
            false => examined.exceptions().clone(),
        },
    }
}

/// Returns the outcome for a target that gave only an error `message`. `ready` is a command to run instead,
/// if there is one.
fn failed(name: String, message: String, ready: Option<String>, run: &Run) -> Outcome {
    let complaint = output::printable(&format!("{name}: {message}"));
    let line = ready.as_deref().map(|line| format!(":\n    {}", output::printable(line))).unwrap_or_default();
    let message = message + &ready.map(|line| format!(": {line}")).unwrap_or_default();
    let exceptions = run.exceptions_for(&name).collect();
    let of = TargetReport::failed(name, message);
    Outcome {
        text: String::new(),
        report: report::is_wanted(&run.arguments).then_some(of),
        complaint: Some(complaint + &line),
        status: Status::Failed,
        exit: Exit::Failed,
        severities: [0; 3],
        exceptions,
    }
}

fn render(examined: &Examined, run: &Run) -> String {
    if report::is_wanted(&run.arguments) {
        String::new()
    } else if run.arguments.quiet {
        text::lines(examined)
    } else if run.form == Form::Map {
        text::map(examined, run.arguments.verbose)
    } else {
        text::target(examined, run.arguments.verbose)
    }
}
