//! JUnit's XML: a suite for each target, a test case for each finding.

use super::{Report, fix_lines, place, unjudged};
use crate::view::json::TargetReport;
use crate::view::json::finding::{FindingReport, IgnoredReport, SeverityReport};
use crate::view::markup::escaped;

/// Suites of test cases.
#[derive(Debug)]
pub(crate) struct Junit {
    /// The severities that fail a test case; the others pass.
    pub(crate) fails: Vec<SeverityReport>,
}

impl Report for Junit {
    fn opening(&mut self) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"straddle check\">\n".to_owned()
    }

    fn target(&mut self, target: &TargetReport) -> String {
        let name = escaped(&target.target);
        let unjudged = unjudged(target).map(|(what, why)| {
            let tag = if what == "failed" { "error" } else { "skipped" };
            let why = escaped(&format!("{what}: {why}"));
            format!(
                "    <testcase classname=\"{name}\" name=\"audit\"><{tag} message=\"{why}\"/></testcase>\n"
            )
        });
        let mut cases: Vec<String> =
            target.findings.iter().map(|finding| self.case(&name, finding)).collect();
        let failures =
            target.findings.iter().filter(|finding| self.fails.contains(&finding.severity)).count();
        let (errors, skipped) = match &unjudged {
            Some(text) if text.contains("<error ") => (1, 0),
            Some(_) => (0, 1),
            None => (0, 0),
        };
        let skipped = skipped + target.ignored.len();
        cases.extend(target.ignored.iter().map(|ignored| ignored_case(&name, ignored)));
        cases.extend(unjudged);
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
    let why = escaped(&format!("{} ({})", ignored.reason, ignored.source));
    format!("    <testcase classname=\"{target}\" name=\"{name}\"><skipped message=\"{why}\"/></testcase>\n")
}
