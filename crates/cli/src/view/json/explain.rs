//! What `explain --json` and `explain rmw --json` print.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Io, RULES, RmwCount, Rule};
use straddle_units::Boundary;

use super::finding::SeverityReport;
use crate::topics::{self, Explained, Question, Subject, Version};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle explain --json` prints: always lists, also of a single rule or topic.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle explain")]
pub(crate) struct ExplainReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The rules asked for; all of them if nothing was asked for.
    rules: Vec<RuleReport>,
    /// The topics asked for; all of them if nothing was asked for.
    topics: Vec<TopicReport>,
    /// The questions of the FAQ that were asked for; all of them if nothing was asked for.
    faq: Vec<&'static Question>,
}

/// Something that is explained: a tool, a term, a number or a message.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Topic")]
struct TopicReport {
    /// Its name, such as "fdisk".
    name: &'static str,
    /// What it is about.
    title: &'static str,
    /// Other names.
    words: &'static [String],
    /// Messages that are about it. `{name}` stands for a number, `*` for one or more words.
    messages: &'static [String],
    /// What the numbers of the given message come to, a paragraph each; empty if they decide nothing.
    numbers: Vec<String>,
    /// The explanation, a paragraph each.
    about: Vec<String>,
    /// For a tool: where its versions start partitions.
    versions: &'static [Version],
    /// A drawing, in lines of at most 60 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawing: Option<&'static str>,
    /// The sources of these statements.
    sources: &'static [String],
}

impl From<&Explained> for TopicReport {
    fn from(explained: &Explained) -> Self {
        let topic = explained.topic;
        Self {
            name: &topic.name,
            title: &topic.title,
            words: &topic.words,
            messages: &topic.messages,
            numbers: explained.numbers.clone(),
            about: explained.about().cloned().collect(),
            versions: &topic.versions,
            drawing: topic.drawing.as_deref(),
            sources: &topic.sources,
        }
    }
}

/// A rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
struct RuleReport {
    /// Its code, such as "S001".
    code: &'static str,
    /// How severe it is as a rule. A finding may have another severity.
    severity: SeverityReport,
    /// The rule in a few words.
    title: &'static str,
    /// What is wrong.
    what: &'static str,
    /// Why it is wrong, and where it comes from.
    why: &'static str,
    /// What it costs.
    cost: &'static str,
    /// What to do.
    fix: &'static str,
    /// The sources of these statements.
    sources: &'static [&'static str],
}

impl ExplainReport {
    /// Reports on `subjects`, or on everything if there are none.
    pub(crate) fn of(subjects: &[Subject]) -> Self {
        let (mut rules, mut topics, mut faq): (Vec<&'static Rule>, Vec<TopicReport>, Vec<&'static Question>) =
            Default::default();
        for subject in subjects {
            match subject {
                Subject::Rule(rule) => rules.push(rule),
                Subject::Topic(explained) => topics.push(explained.into()),
                Subject::Question(question) => faq.push(question),
            }
        }
        if subjects.is_empty() {
            rules = RULES.to_vec();
            topics = topics::all().iter().map(|topic| (&Explained::from(topic)).into()).collect();
            faq = topics::questions().iter().collect();
        }
        let report = |rule: &&'static Rule| RuleReport {
            code: rule.code.as_str(),
            severity: rule.severity.into(),
            title: rule.title,
            what: rule.what,
            why: rule.why,
            cost: rule.cost,
            fix: rule.fix,
            sources: rule.sources,
        };
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            rules: rules.iter().map(report).collect(),
            topics,
            faq,
        }
    }
}

/// What `straddle explain rmw --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle explain rmw")]
pub(crate) struct RmwReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The start of the first write.
    offset_bytes: u64,
    /// The size of each write.
    io_bytes: u64,
    /// The number of consecutive writes.
    writes: u64,
    /// The size of a physical sector.
    physical_sector_bytes: u64,
    /// The distance from byte 0 to the first start of a physical sector.
    phase_bytes: u64,
    /// The number of sectors that are touched, write by write.
    sectors_touched: u64,
    /// The number of sectors that are written in part, write by write.
    read_modify_writes: u64,
    /// The number of sectors that are touched if a cache merges the writes.
    merged_sectors_touched: u64,
    /// The number of sectors that are written in part if a cache merges the writes.
    merged_read_modify_writes: u64,
}

impl RmwReport {
    pub(crate) fn of(io: Io, boundary: Boundary, count: &RmwCount) -> Self {
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            offset_bytes: io.offset.get(),
            io_bytes: io.size.get(),
            writes: io.count,
            physical_sector_bytes: boundary.size().get(),
            phase_bytes: boundary.phase().get(),
            sectors_touched: count.apart.touched,
            read_modify_writes: count.apart.partial,
            merged_sectors_touched: count.merged.touched,
            merged_read_modify_writes: count.merged.partial,
        }
    }
}
