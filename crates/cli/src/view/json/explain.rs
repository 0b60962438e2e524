//! What `explain --json` and `explain rmw --json` print.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Io, RULES, RmwCount, Rule};
use straddle_units::Boundary;

use crate::topics::{self, Explained, Question, Subject, Topic};

/// What `straddle explain --json` prints: always lists, also of a single rule or topic.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// The rules asked for; all of them if nothing was asked for.
    rules: Vec<&'static Rule>,
    /// The topics asked for; all of them if nothing was asked for.
    topics: Vec<ExplainedTopic>,
    /// The questions of the FAQ that were asked for; all of them if nothing was asked for.
    faq: Vec<&'static Question>,
}

/// A topic, and what the numbers of a message that is about it come to.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedTopic {
    #[serde(flatten)]
    topic: &'static Topic,
    /// What the numbers of the given message come to, a paragraph each; empty if they decide nothing.
    numbers: Vec<String>,
    /// The explanation, a paragraph each.
    about: Vec<String>,
}

impl From<&Explained> for ExplainedTopic {
    fn from(explained: &Explained) -> Self {
        Self {
            topic: explained.topic,
            numbers: explained.numbers.clone(),
            about: explained.about().cloned().collect(),
        }
    }
}

impl ExplainReport {
    /// Reports on `subjects`, or on everything if there are none.
    pub(crate) fn of(subjects: &[Subject]) -> Self {
        if subjects.is_empty() {
            return Self {
                rules: RULES.to_vec(),
                topics: topics::all().iter().map(|topic| (&Explained::from(topic)).into()).collect(),
                faq: topics::questions().iter().collect(),
            };
        }
        let mut report = Self::default();
        for subject in subjects {
            match subject {
                Subject::Rule(rule) => report.rules.push(rule),
                Subject::Topic(explained) => report.topics.push(explained.into()),
                Subject::Question(question) => report.faq.push(question),
            }
        }
        report
    }
}

/// What `straddle explain rmw --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RmwReport<'a> {
    #[serde(flatten)]
    pub(crate) io: Io,
    /// The physical sectors.
    pub(crate) physical_sectors: Boundary,
    #[serde(flatten)]
    pub(crate) count: &'a RmwCount,
}
