//! SARIF 2.1.0 (code scanning), JUnit's XML, annotations of GitHub, metrics of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use straddle_audit::{RULES, Rule, Severity, Status};
use straddle_device::Address;
use straddle_units::ByteOffset;

use crate::exit::Exit;
use crate::output::{json_escaped, printable};
use crate::view::escaped;
use crate::view::report::{Report, fix_lines, place, unjudged};
use straddle_audit::form::check::TargetReport;
use straddle_audit::form::finding::{FindingReport, IgnoredReport};

/// Bytes that a URI holds as they are (RFC 3986, section 2.3), and the separator of its segments.
const PLAIN: &[u8] = b"-._~/";

#[derive(Debug, Default)]
pub(crate) struct Sarif {
    results: usize,
    notifications: Vec<Value>,
    is_incomplete: bool,
}

impl Report for Sarif {
    fn opening(&mut self) -> String {
        let rule = |rule: &&Rule| {
            json!({
                "id": rule.code.as_str(),
                "shortDescription": { "text": rule.title },
                "fullDescription": { "text": rule.what },
                "help": { "text": format!("{}\n\n{}\n\n{}", rule.why, rule.cost, rule.fix) },
                "defaultConfiguration": { "level": level(rule.severity) },
            })
        };
        let rules: Vec<Value> = RULES.iter().map(rule).collect();
        let driver = json!({
            "name": "straddle",
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        });
        format!(
            "{{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\
             \"runs\":[{{\"tool\":{{\"driver\":{driver}}},\"results\":["
        )
    }

    fn target(&mut self, target: &TargetReport, exit: Exit, share: Exit) -> String {
        let uri = uri(&target.target);
        let mut notify = |level: &str, text: String| {
            self.notifications.push(json!({
                "level": level,
                "message": { "text": text },
                "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri } } }],
            }));
        };
        if let Some(why) = unjudged(target) {
            notify(if share == Exit::Success { "note" } else { "error" }, why);
        }
        self.is_incomplete |= exit == Exit::Failed;
        let mut text = String::new();
        let results = target.findings.iter().map(|finding| result(&uri, finding));
        for result in results.chain(target.ignored.iter().map(|ignored| suppressed(&uri, ignored))) {
            text += if self.results == 0 { "\n" } else { ",\n" };
            text += &json_escaped(&result.to_string());
            self.results += 1;
        }
        text
    }

    fn closing(&mut self) -> String {
        let invocation = json!({
            "executionSuccessful": !self.is_incomplete,
            "toolExecutionNotifications": self.notifications,
        });
        let invocation = json_escaped(&invocation.to_string());
        format!("\n],\"invocations\":[{invocation}]}}]}}\n")
    }
}

fn result(uri: &str, finding: &FindingReport) -> Value {
    // A disk has no lines, but GitHub's code scanning requires one.
    let mut region = json!({ "startLine": 1 });
    if let Some(at) = finding.at.map(ByteOffset::get) {
        region["byteOffset"] = json!(at);
    }
    let message = [vec![finding.message.clone()], fix_lines(finding)].concat().join("\n");
    let place = place(finding);
    json!({
        "ruleId": finding.code,
        "ruleIndex": RULES.iter().position(|rule| rule.code == finding.code),
        "level": level(finding.severity),
        "message": { "text": message },
        "locations": [{
            "physicalLocation": { "artifactLocation": { "uri": uri }, "region": region },
            "logicalLocations": [{ "fullyQualifiedName": place }],
        }],
        // What stays the same when the finding moves: its rule and its place in the disk's structure.
        "partialFingerprints": { "place/v1": format!("{} {place}", finding.code) },
    })
}

fn suppressed(uri: &str, ignored: &IgnoredReport) -> Value {
    let mut result = result(uri, &ignored.finding);
    result["suppressions"] = json!([{
        "kind": "external",
        "status": "accepted",
        "justification": ignored.why.to_string(),
    }]);
    result
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Advice => "note",
    }
}

/// What is not escaped in a URL: it has its meaning there.
const IN_URL: &[u8] = b":/?@!$&'()*+,;=%[]~";

/// Returns a URI reference for a target: `file:` for an absolute path, relative otherwise; a URL as it is.
fn uri(target: &str) -> String {
    let is_url = Address::parse(target).is_some();
    let mut uri = if target.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in target.bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) || (is_url && IN_URL.contains(&byte)) {
            uri.push(char::from(byte));
        } else {
            uri += &format!("%{byte:02X}");
        }
    }
    uri
}

#[derive(Debug)]
pub(crate) struct Junit {
    /// The least severity that fails a test case.
    pub(crate) least: Severity,
}

impl Report for Junit {
    fn opening(&mut self) -> String {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"straddle check\">\n".to_owned()
    }

    fn target(&mut self, target: &TargetReport, _: Exit, share: Exit) -> String {
        let name = escaped(&target.target);
        let mut failures = target.findings.iter().filter(|it| it.severity >= self.least).count();
        let (mut errors, mut skipped) = (0, target.ignored.len());
        let mut cases: Vec<String> =
            target.findings.iter().map(|finding| self.case(&name, finding)).collect();
        cases.extend(target.ignored.iter().map(|ignored| ignored_case(&name, ignored)));
        if let Some(why) = unjudged(target) {
            let (tag, count) = match share {
                Exit::Success => ("skipped", &mut skipped),
                Exit::Findings => ("failure", &mut failures),
                _ => ("error", &mut errors),
            };
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
        let body = if finding.severity >= self.least {
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

#[derive(Debug)]
pub(crate) struct Github;

impl Report for Github {
    fn target(&mut self, target: &TargetReport, _: Exit, share: Exit) -> String {
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
        if let Some(why) = unjudged(target) {
            let command = if share == Exit::Success { "notice" } else { "error" };
            text += &annotation(command, "no verdict", &[format!("{}: {why}", target.target)]);
        }
        text
    }
}

fn annotation(command: &str, title: &str, lines: &[String]) -> String {
    let data: Vec<String> = lines.iter().map(|line| property(&printable(line))).collect();
    let title = property(&printable(title)).replace(':', "%3A").replace(',', "%2C");
    format!("::{command} title={title}::{}\n", data.join("%0A"))
}

/// Escapes what ends a command. A percent sign comes first, for it begins the others.
fn property(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

type Samples = BTreeMap<Vec<(&'static str, String)>, u64>;

#[derive(Debug, Default)]
pub(crate) struct Prometheus {
    findings: Samples,
    ignored: Samples,
    misaligned: Samples,
    off: Samples,
    judged: Samples,
    past: Samples,
}

impl Report for Prometheus {
    fn target(&mut self, target: &TargetReport, _: Exit, _: Exit) -> String {
        let of_target = vec![("target", target.target.clone())];
        let of = |finding: &FindingReport| {
            let partition = finding.partition.map(|number| number.to_string()).unwrap_or_default();
            let own = [("partition", partition), ("code", finding.code.to_string())];
            of_target.iter().cloned().chain(own).collect::<Vec<_>>()
        };
        for finding in &target.findings {
            let labels = [of(finding), vec![("severity", finding.severity.to_string())]].concat();
            *self.findings.entry(labels).or_default() += 1;
            if let Some(missed) = &finding.missed {
                let most = self.past.entry(of(finding)).or_default();
                *most = (*most).max(missed.past.get());
            }
        }
        for ignored in &target.ignored {
            *self.ignored.entry(of(&ignored.finding)).or_default() += 1;
        }
        let misaligned = target.partitions.iter().filter(|partition| partition.misaligned.is_some()).count();
        if !matches!(target.status, Status::NotJudged | Status::Failed) {
            self.off.insert(of_target.clone(), u64::from(target.misaligned.is_some()));
            self.misaligned.insert(of_target.clone(), misaligned as u64);
        }
        self.judged.insert(of_target, u64::from(unjudged(target).is_none()));
        String::new()
    }

    fn closing(&mut self) -> String {
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let metrics = [
            ("straddle_info", "The version of straddle.", &Samples::from([(version, 1)])),
            (
                "straddle_target_judged",
                "Whether the target could be read and judged; 0 if there is nothing to check.",
                &self.judged,
            ),
            (
                "straddle_target_misaligned",
                "Whether writes to the target straddle physical sectors or other units; absent if it was not judged.",
                &self.off,
            ),
            (
                "straddle_misaligned_partitions",
                "Partitions whose writes straddle physical sectors or other units; absent if the target was not judged.",
                &self.misaligned,
            ),
            ("straddle_findings", "Findings by rule (straddle explain CODE describes each).", &self.findings),
            (
                "straddle_ignored_findings",
                "Findings by rule that the configuration file ignores.",
                &self.ignored,
            ),
            (
                "straddle_finding_past_bytes",
                "Largest distance in bytes past a boundary, among the findings of a rule.",
                &self.past,
            ),
        ];
        let mut text = String::new();
        for (name, help, samples) in metrics {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
            for (labels, value) in samples {
                let labels: Vec<String> = labels.iter().map(|(key, value)| label(key, value)).collect();
                let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
            }
        }
        text
    }
}

/// Returns `key="value"`. Hidden characters are spelt out; then what the format gives a meaning is escaped.
fn label(key: &str, value: &str) -> String {
    format!("{key}=\"{}\"", printable(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_uris() {
        assert_eq!(uri("/dev/sda"), "file:///dev/sda");
        assert_eq!(uri("a b/ä:#?.img"), "a%20b/%C3%A4%3A%23%3F.img");
        assert_eq!(uri("https://host:80/a%20b.img?…"), "https://host:80/a%20b.img?%E2%80%A6");
    }
}
