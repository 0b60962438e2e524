//! JUnit's XML: a suite for each target, a test case for each finding.

use straddle_audit::Severity;

use super::{Report, fix_lines, nothing, place, unjudged};
use crate::view::json::TargetReport;
use crate::view::json::finding::{FindingReport, IgnoredReport};
use crate::view::markup::escaped;

#[derive(Debug)]
pub(crate) struct Junit {
    /// The severities that fail a test case; the others pass.
    pub(crate) fails: Vec<Severity>,
    /// Whether a target that holds nothing to judge fails; otherwise it is skipped.
    pub(crate) fails_blank: bool,
}

impl Report for Junit {
    fn opening(&mut self) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"straddle check\">\n".to_owned()
    }

    fn target(&mut self, target: &TargetReport) -> String {
        let name = escaped(&target.target);
        let (mut failures, mut errors, mut skipped) = (0, 0, target.ignored.len());
        let mut cases: Vec<String> =
            target.findings.iter().map(|finding| self.case(&name, finding)).collect();
        failures += target.findings.iter().filter(|finding| self.fails.contains(&finding.severity)).count();
        cases.extend(target.ignored.iter().map(|ignored| ignored_case(&name, ignored)));
        let without_verdict = match (unjudged(target), nothing(target)) {
            (Some(("failed", why)), _) => Some(("error", format!("failed: {why}"), &mut errors)),
            (Some((what, why)), _) => Some(("skipped", format!("{what}: {why}"), &mut skipped)),
            (None, Some(why)) if self.fails_blank => Some(("failure", why.to_owned(), &mut failures)),
            (None, Some(why)) => Some(("skipped", why.to_owned(), &mut skipped)),
            (None, None) => None,
        };
        if let Some((tag, why, count)) = without_verdict {
            *count += 1;
            let why = escaped(&why);
            cases.push(format!(
                "    <testcase classname=\"{name}\" name=\"audit\"><{tag} message=\"{why}\"/></testcase>\n"
            ));
        }
        if cases.is_empty() {
            cases.push(format!("    <testcase classname=\"{name}\" name=\"alignment\"/>\n"));
        }
        format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" \
             skipped=\"{skipped}\">\n{}  </testsuite>\n",
            cases.len(),
            cases.concat()
        )
    }

    fn closing(&mut self) -> String {
        "</testsuites>\n".to_owned()
    }
}

impl Junit {
    fn case(&self, target: &str, finding: &FindingReport) -> String {
        let name = escaped(&format!("{} {}", finding.code, place(finding)));
        let mut lines = vec![escaped(&finding.message)];
        lines.extend(fix_lines(finding).iter().map(|line| escaped(line)));
        let text = lines.join("\n");
        let body = if self.fails.contains(&finding.severity) {
            let title = escaped(finding.title);
            format!("<failure type=\"{}\" message=\"{title}\">{text}</failure>", finding.severity)
        } else {
            format!("<system-out>{}: {text}</system-out>", finding.severity)
        };
        format!("    <testcase classname=\"{target}\" name=\"{name}\">{body}</testcase>\n")
    }
}

fn ignored_case(target: &str, ignored: &IgnoredReport) -> String {
    let name = escaped(&format!("{} {}", ignored.finding.code, place(&ignored.finding)));
    let why = escaped(&ignored.why.to_string());
    format!("    <testcase classname=\"{target}\" name=\"{name}\"><skipped message=\"{why}\"/></testcase>\n")
}
