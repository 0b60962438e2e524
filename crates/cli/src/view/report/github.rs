//! GitHub's workflow commands: annotations of a run.

use straddle_audit::Severity;

use super::{Report, fix_lines, nothing, place, unjudged};
use crate::output::printable;
use crate::view::json::TargetReport;

#[derive(Debug)]
pub(crate) struct Github {
    /// Whether a target that holds nothing to judge is an error.
    pub(crate) fails_blank: bool,
}

impl Report for Github {
    fn target(&mut self, target: &TargetReport) -> String {
        let mut text = String::new();
        for finding in &target.findings {
            let command = match finding.severity {
                Severity::Advice => "notice",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            let title = format!("{} {}: {}", finding.code, place(finding), finding.title);
            let mut lines = vec![format!("{}: {}", target.target, finding.message)];
            lines.extend(fix_lines(finding));
            text += &annotation(command, &title, &lines);
        }
        for ignored in &target.ignored {
            let finding = &ignored.finding;
            let title = format!("ignored: {} {}: {}", finding.code, place(finding), finding.title);
            let why = format!("reason: {}", ignored.why);
            text += &annotation("notice", &title, &[format!("{}: {}", target.target, finding.message), why]);
        }
        if let Some((what, why)) = unjudged(target) {
            text += &annotation("error", what, &[format!("{}: {why}", target.target)]);
        }
        if let Some(why) = nothing(target) {
            let command = if self.fails_blank { "error" } else { "notice" };
            text += &annotation(command, "nothing to judge", &[format!("{}: {why}", target.target)]);
        }
        text
    }
}

fn annotation(command: &str, title: &str, lines: &[String]) -> String {
    let data: Vec<String> = lines.iter().map(|line| escaped(&printable(line))).collect();
    let title = escaped(&printable(title)).replace(':', "%3A").replace(',', "%2C");
    format!("::{command} title={title}::{}\n", data.join("%0A"))
}

/// Escapes what ends a command. A percent sign comes first, for it begins the others.
fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}
