//! SARIF 2.1.0, the format of code scanning.

use serde_json::{Value, json};
use straddle_audit::{RULES, Severity};
use straddle_device::Address;
use straddle_units::ByteOffset;

use super::{Report, fix_lines, nothing, place, unjudged};
use crate::output::json_escaped;
use crate::view::json::TargetReport;
use crate::view::json::finding::{FindingReport, IgnoredReport};

/// Bytes that a URI holds as they are (RFC 3986, section 2.3), and the separator of its segments.
const PLAIN: &[u8] = b"-._~/";

#[derive(Debug, Default)]
pub(crate) struct Sarif {
    results: usize,
    notifications: Vec<Value>,
    /// Whether a target has no verdict.
    is_incomplete: bool,
}

impl Report for Sarif {
    fn opening(&mut self) -> String {
        let rules: Vec<Value> = RULES
            .iter()
            .map(|rule| {
                json!({
                    "id": rule.code.as_str(),
                    "shortDescription": { "text": rule.title },
                    "fullDescription": { "text": rule.what },
                    "help": { "text": format!("{}\n\n{}\n\n{}", rule.why, rule.cost, rule.fix) },
                    "defaultConfiguration": { "level": level(rule.severity) },
                })
            })
            .collect();
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

    fn target(&mut self, target: &TargetReport) -> String {
        let uri = uri(&target.target);
        let mut notify = |level: &str, text: String| {
            self.notifications.push(json!({
                "level": level,
                "message": { "text": text },
                "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri } } }],
            }));
        };
        if let Some((what, why)) = unjudged(target) {
            notify("error", format!("{what}: {why}"));
            self.is_incomplete = true;
        }
        if let Some(why) = nothing(target) {
            notify("note", why.to_owned());
        }
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
    let mut physical = json!({ "artifactLocation": { "uri": uri } });
    if let Some(at) = finding.at.map(ByteOffset::get) {
        physical["region"] = json!({ "byteOffset": at });
    }
    let mut message = finding.message.clone();
    for line in fix_lines(finding) {
        message += "\n";
        message += &line;
    }
    let place = place(finding);
    json!({
        "ruleId": finding.code,
        "ruleIndex": RULES.iter().position(|rule| rule.code == finding.code),
        "level": level(finding.severity),
        "message": { "text": message },
        "locations": [{
            "physicalLocation": physical,
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

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn names_become_uris() {
        assert_eq!(uri("/dev/sda"), "file:///dev/sda");
        assert_eq!(uri("a b/ä:#?.img"), "a%20b/%C3%A4%3A%23%3F.img");
        assert_eq!(uri("https://host:80/a%20b.img?…"), "https://host:80/a%20b.img?%E2%80%A6");
    }
}
