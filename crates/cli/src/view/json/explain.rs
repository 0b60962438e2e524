//! What `explain --json` and `explain rmw --json` print.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Io, RULES, RmwCount, Rule};
use straddle_units::Boundary;

use super::finding::SeverityReport;
use crate::topics::{self, Subject, Topic};

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
    topics: Vec<&'static Topic>,
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
        let rule = |subject: &Subject| match subject {
            Subject::Rule(rule) => Some(*rule),
            Subject::Topic(_) => None,
        };
        let topic = |subject: &Subject| match subject {
            Subject::Topic(topic) => Some(*topic),
            Subject::Rule(_) => None,
        };
        let (rules, topics) = if subjects.is_empty() {
            (RULES.to_vec(), topics::all().iter().collect())
        } else {
            (subjects.iter().filter_map(rule).collect(), subjects.iter().filter_map(topic).collect())
        };
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
