//! A finding in `check --json`: the rule, the place, the cost and the fix.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::{Cause, Command, Finding, Fix, Risk, Subject};
use straddle_examine::Cost;

/// One finding.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub(super) struct FindingReport {
    /// Its code, as `straddle explain` knows it.
    code: &'static str,
    /// "error", "warning" or "advice".
    severity: String,
    /// The rule in a few words.
    title: &'static str,
    /// The partition's number; absent for findings on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// The layer that it is about, by the way to it ("partition 1 > PV vg > LV root"); absent for findings on the disk,
    /// its table and the placement of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<String>,
    /// The byte on the disk at which it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset_bytes: Option<u64>,
    /// The boundary missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<MissReport>,
    /// The finding in a sentence.
    message: String,
    /// What it costs on the drive given with `--cost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostReport>,
    /// Its fix; absent where it follows from another finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<FixReport>,
    /// The findings that it only follows from: their fix is its fix. Absent where it stands for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follows: Vec<CauseReport>,
}

/// A finding that others follow from.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cause")]
struct CauseReport {
    /// Its code.
    code: &'static str,
    /// The partition's number; absent for findings on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    /// Its target, where that is another one of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// What a missed boundary costs: how many times as long writes take as on the boundaries.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cost")]
struct CostReport {
    /// The modelled drive, or what was probed.
    drive: String,
    /// "derived from the model" or "measured".
    source: &'static str,
    /// Bytes past the boundary before of the drive's own units.
    past_bytes: u64,
    /// Random writes: of 4096 bytes on a model; where it was measured, of a unit, each made durable.
    random_write_ratio: f64,
    /// Writes of 4096 bytes one after the other, each with an fsync; not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequential_write_ratio: Option<f64>,
}

/// A missed boundary.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Miss")]
struct MissReport {
    /// What it is.
    boundary: &'static str,
    /// Bytes between two such boundaries.
    size_bytes: u64,
    /// Byte of the first one.
    phase_bytes: u64,
    /// Bytes past the boundary before.
    past_bytes: u64,
}

/// A fix.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fix")]
struct FixReport {
    /// What to do.
    summary: String,
    /// The same as commands: steps, in order; empty where no command does it.
    commands: Vec<CommandReport>,
    /// What the commands do to what is stored: "safe", "backup" (it can be lost, or has to be restored) or "destroys";
    /// absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<&'static str>,
    /// What to mind before.
    #[serde(skip_serializing_if = "Option::is_none")]
    caution: Option<String>,
}

/// A command.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Command")]
struct CommandReport {
    /// The tool.
    tool: &'static str,
    /// The line for a POSIX shell.
    line: String,
}

pub(super) fn finding_report(finding: &Finding, cost: Option<&Cost>) -> FindingReport {
    FindingReport {
        code: finding.rule.code.as_str(),
        severity: finding.severity.to_string(),
        title: finding.rule.title,
        partition: partition_of(finding.subject),
        layer: finding.way(),
        offset_bytes: finding.at.map(|at| at.get()),
        missed: finding.miss.map(|miss| MissReport {
            boundary: miss.name,
            size_bytes: miss.boundary.size().get(),
            phase_bytes: miss.boundary.phase().get(),
            past_bytes: miss.past.get(),
        }),
        message: finding.sentence(),
        cost: cost.map(cost_report),
        fix: finding.fix.as_ref().map(fix_report),
        follows: finding.follows.iter().map(cause_report).collect(),
    }
}

fn partition_of(subject: Subject) -> Option<u32> {
    match subject {
        Subject::Disk => None,
        Subject::Partition(number) => Some(number),
    }
}

fn cause_report(cause: &Cause) -> CauseReport {
    CauseReport {
        code: cause.code.as_str(),
        partition: partition_of(cause.subject),
        target: cause.target.clone(),
    }
}

fn cost_report(cost: &Cost) -> CostReport {
    CostReport {
        drive: cost.drive.clone(),
        source: cost.source(),
        past_bytes: cost.past,
        random_write_ratio: cost.random_write,
        sequential_write_ratio: cost.sequential_write,
    }
}

fn fix_report(fix: &Fix) -> FixReport {
    let risk = match fix.risk {
        Risk::Safe => "safe",
        Risk::Backup => "backup",
        Risk::Destroys => "destroys",
    };
    FixReport {
        summary: fix.summary.clone(),
        commands: fix.commands.iter().map(command_report).collect(),
        risk: (!fix.commands.is_empty()).then_some(risk),
        caution: fix.caution.clone(),
    }
}

fn command_report(command: &Command) -> CommandReport {
    CommandReport { tool: command.tool, line: command.line.clone() }
}
