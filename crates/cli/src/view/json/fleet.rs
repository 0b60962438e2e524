//! What `report --json` prints: the audits of many hosts, merged.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::SeverityReport;
use crate::fleet::{CostRow, Digest, HostRow, ModelRow, RuleRow, Severities, Skipped, Tally};

/// The schema version of this output.
pub(super) const SCHEMA: u32 = 1;

/// What `straddle report --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle report")]
pub(crate) struct FleetReport<'a> {
    /// The schema version of this output. It is incremented when the meaning of a field changes or a field is
    /// removed, not when a field is added.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The numbers of all disks.
    summary: TallyReport,
    /// The number of hosts whose names are those of the files, because their audits have none.
    hosts_named_by_files: usize,
    /// The number of audits that a later one of the same host replaces.
    audits_replaced: usize,
    /// What could not be read.
    skipped: Vec<SkippedReport<'a>>,
    /// What misalignment costs, by the drive that the audits were priced with; empty if none was.
    costs: Vec<FleetCostReport<'a>>,
    /// The models, those with most misaligned disks first.
    models: Vec<ModelReport<'a>>,
    /// The rules with findings, the most severe first.
    rules: Vec<RuleReport<'a>>,
    /// The hosts, the worst first.
    hosts: Vec<HostReport<'a>>,
}

/// Numbers of disks, by what their audits say.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tally")]
struct TallyReport {
    /// All disks.
    disks: usize,
    /// Misaligned disks with an error.
    misaligned_errors: usize,
    /// Misaligned disks with warnings only.
    misaligned_warnings: usize,
    /// The share of misaligned disks among those that were judged and are not blank; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    misaligned_ratio: Option<f64>,
    /// Aligned disks with errors or warnings of other kinds.
    other_findings: usize,
    /// Aligned disks with advice at most.
    aligned: usize,
    /// Disks that are blank.
    blank: usize,
    /// Disks that were not judged.
    not_judged: usize,
    /// Disks that could not be audited.
    failed: usize,
    /// The findings on all of them. One that several disks share counts once.
    findings: SeveritiesReport,
}

/// Numbers of findings by severity.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Severities")]
struct SeveritiesReport {
    /// Errors.
    errors: usize,
    /// Warnings.
    warnings: usize,
    /// Advice.
    advice: usize,
}

impl From<Severities> for SeveritiesReport {
    fn from(Severities { errors, warnings, advice }: Severities) -> Self {
        Self { errors, warnings, advice }
    }
}

/// An input that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Skipped")]
struct SkippedReport<'a> {
    /// The file or folder.
    name: &'a str,
    /// Why, and where in the file.
    reason: &'a str,
}

/// The cost of misaligned writes by one drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FleetCost")]
struct FleetCostReport<'a> {
    /// The drive.
    drive: &'a str,
    /// "modelled" or "measured".
    source: &'static str,
    /// The number of disks with a cost.
    disks: usize,
    /// The time of random writes behind the worst start of a disk over their time when aligned: the median of
    /// the disks.
    median_random_write_ratio: f64,
    /// The same for the worst disk.
    worst_random_write_ratio: f64,
    /// The bytes that they write to flash (wear), over those when aligned, on the worst disk; absent for a disk that is
    /// not an SSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_wear_ratio: Option<f64>,
}

/// The disks of a model.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
struct ModelReport<'a> {
    /// The manufacturer and model; "images" or "no model reported" for disks without.
    model: &'a str,
    #[serde(flatten)]
    tally: TallyReport,
}

/// The findings of a rule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
struct RuleReport<'a> {
    /// The code, as used by `straddle explain`.
    code: &'a str,
    /// The title.
    title: &'a str,
    /// The highest severity of its findings.
    severity: SeverityReport,
    /// The findings.
    findings: SeveritiesReport,
    /// The number of disks.
    disks: usize,
    /// The number of hosts.
    hosts: usize,
}

/// A host.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Host")]
struct HostReport<'a> {
    /// The name.
    host: &'a str,
    #[serde(flatten)]
    tally: TallyReport,
    /// The codes of its errors and warnings, the errors first.
    codes: &'a [&'a str],
    /// The time of random writes behind its worst start over their time when aligned; absent without a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst_random_write_ratio: Option<f64>,
}

impl<'a> FleetReport<'a> {
    /// Returns the published form.
    pub(crate) fn of(digest: &'a Digest<'a>) -> Self {
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            summary: tally(&digest.tally),
            hosts_named_by_files: digest.named_by_files,
            audits_replaced: digest.replaced,
            skipped: digest.skipped.iter().map(skipped).collect(),
            costs: digest.costs.iter().map(cost).collect(),
            models: digest.models.iter().map(model).collect(),
            rules: digest.rules.iter().map(rule).collect(),
            hosts: digest.hosts.iter().map(host).collect(),
        }
    }
}

fn tally(tally: &Tally) -> TallyReport {
    TallyReport {
        disks: tally.disks(),
        misaligned_errors: tally.errors,
        misaligned_warnings: tally.warnings,
        misaligned_ratio: tally.share(),
        other_findings: tally.others,
        aligned: tally.aligned,
        blank: tally.blank,
        not_judged: tally.not_judged,
        failed: tally.failed,
        findings: tally.findings.into(),
    }
}

fn skipped(skipped: &Skipped) -> SkippedReport<'_> {
    SkippedReport { name: &skipped.name, reason: &skipped.why }
}

fn cost<'a>(row: &CostRow<'a>) -> FleetCostReport<'a> {
    FleetCostReport {
        drive: &row.by.drive,
        source: row.by.word(),
        disks: row.disks,
        median_random_write_ratio: row.median,
        worst_random_write_ratio: row.worst,
        worst_wear_ratio: row.wear,
    }
}

fn model<'a>(row: &ModelRow<'a>) -> ModelReport<'a> {
    ModelReport { model: row.model, tally: tally(&row.tally) }
}

fn rule<'a>(row: &RuleRow<'a>) -> RuleReport<'a> {
    let RuleRow { code, title, severity, findings, disks, hosts } = row.clone();
    RuleReport { code, title, severity: severity.into(), findings: findings.into(), disks, hosts }
}

fn host<'a>(row: &'a HostRow<'a>) -> HostReport<'a> {
    HostReport {
        host: row.host,
        tally: tally(&row.tally),
        codes: &row.codes,
        worst_random_write_ratio: row.cost,
    }
}
