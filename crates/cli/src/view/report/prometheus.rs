//! Prometheus' text format (version 0.0.4), for node_exporter's textfile collector.
//!
//! The names and labels of these metrics are stable. All samples of a metric are printed together, as the
//! format demands.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Report, nothing, unjudged};
use crate::output::printable;
use crate::view::json::{Status, TargetReport};

#[derive(Debug, Default)]
pub(crate) struct Prometheus {
    findings: BTreeMap<[String; 4], u64>,
    ignored: BTreeMap<[String; 3], u64>,
    misaligned: BTreeMap<String, usize>,
    off: BTreeMap<String, bool>,
    judged: BTreeMap<String, bool>,
    past: BTreeMap<[String; 3], u64>,
}

impl Report for Prometheus {
    fn target(&mut self, target: &TargetReport) -> String {
        let name = target.target.clone();
        for finding in &target.findings {
            let partition = finding.partition.map(|number| number.to_string()).unwrap_or_default();
            let labels =
                [name.clone(), partition.clone(), finding.code.to_string(), finding.severity.to_string()];
            *self.findings.entry(labels).or_default() += 1;
            if let Some(missed) = &finding.missed {
                let most = self.past.entry([name.clone(), partition, finding.code.to_string()]).or_default();
                *most = (*most).max(missed.past.get());
            }
        }
        for finding in target.ignored.iter().map(|ignored| &ignored.finding) {
            let partition = finding.partition.map(|number| number.to_string()).unwrap_or_default();
            *self.ignored.entry([name.clone(), partition, finding.code.to_string()]).or_default() += 1;
        }
        let misaligned = target.partitions.iter().filter(|partition| partition.misaligned.is_some()).count();
        if !matches!(target.status, Status::NotJudged | Status::Failed) {
            self.off.insert(name.clone(), target.misaligned.is_some());
            self.misaligned.insert(name.clone(), misaligned);
        }
        self.judged.insert(name, unjudged(target).is_none() && nothing(target).is_none());
        String::new()
    }

    fn closing(&mut self) -> String {
        let mut text = String::new();
        let labels = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
        metric(&mut text, "straddle_info", "The version of straddle.", [(labels, 1)]);
        metric(
            &mut text,
            "straddle_target_judged",
            "Whether the target could be read and judged; 0 also where it holds nothing to judge.",
            self.judged.iter().map(|(name, judged)| (label("target", name), u64::from(*judged))),
        );
        metric(
            &mut text,
            "straddle_target_misaligned",
            "Whether writes to the target straddle physical sectors or other units; absent if it was not judged.",
            self.off.iter().map(|(name, off)| (label("target", name), u64::from(*off))),
        );
        metric(
            &mut text,
            "straddle_misaligned_partitions",
            "Partitions whose writes straddle physical sectors or other units; absent if the target was not judged.",
            self.misaligned.iter().map(|(name, count)| (label("target", name), *count as u64)),
        );
        metric(
            &mut text,
            "straddle_findings",
            "Findings by rule; straddle explain CODE describes it.",
            self.findings.iter().map(|([target, partition, code, severity], count)| {
                let labels =
                    [("target", target), ("partition", partition), ("code", code), ("severity", severity)];
                (labels.map(|(key, value)| label(key, value)).join(","), *count)
            }),
        );
        metric(
            &mut text,
            "straddle_ignored_findings",
            "Findings by rule that the configuration file ignores.",
            self.ignored.iter().map(|([target, partition, code], count)| {
                let labels = [("target", target), ("partition", partition), ("code", code)];
                (labels.map(|(key, value)| label(key, value)).join(","), *count)
            }),
        );
        metric(
            &mut text,
            "straddle_finding_past_bytes",
            "Distance in bytes from the boundary before, the largest of the findings of a rule.",
            self.past.iter().map(|([target, partition, code], past)| {
                let labels = [("target", target), ("partition", partition), ("code", code)];
                (labels.map(|(key, value)| label(key, value)).join(","), *past)
            }),
        );
        text
    }
}

fn metric(text: &mut String, name: &str, help: &str, samples: impl IntoIterator<Item = (String, u64)>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in samples {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

/// Returns `key="value"`. Hidden characters are spelt out; then what the format gives a meaning is escaped.
fn label(key: &str, value: &str) -> String {
    format!("{key}=\"{}\"", printable(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
