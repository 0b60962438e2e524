//! A target with everything found on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use straddle_device::Target;
use straddle_drive::FirmwareRange;
use straddle_layout::Stack;
use straddle_units::{ByteCount, ByteOffset};

use crate::examine::{Options, asked, costs};
use crate::{Context, Finding, Findings, Judgement, Place, Reason, Recognised, Reported};

/// A target with everything found on it. Only [`Examiner`](super::Examiner) makes one, and nothing changes it.
///
/// ```compile_fail,E0616
/// fn pass(examined: &mut straddle_audit::examine::Examined, other: straddle_audit::examine::Examined) {
///     examined.judgement = other.judgement;
/// }
/// ```
pub struct Examined {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) stack: Stack,
    pub(super) in_table: usize,
    pub(crate) findings: Findings,
    pub(super) costs: Vec<Option<Cost>>,
    pub(super) judgement: Judgement,
    pub(super) unseen: Option<String>,
    pub(super) nothing: Option<&'static str>,
    pub(super) ready: Vec<String>,
    pub(super) is_unread: bool,
    pub(super) page: Option<ByteCount>,
}

/// The cost of a missed boundary: the time that writes take, and on an SSD the bytes written to flash,
/// relative to aligned writes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// The modelled drive, or the one that was probed.
    pub drive: String,
    /// Whether the ratios were modelled or measured.
    pub source: CostSource,
    /// The position as a distance, in bytes, from the previous boundary of the drive's true unit.
    #[serde(rename = "past_bytes")]
    pub past: u64,
    /// The size of each random write: 4096 bytes on a modelled disk, otherwise the drive's unit.
    #[serde(rename = "size_bytes")]
    pub size: u64,
    /// Whether each random write is flushed.
    #[serde(rename = "durable")]
    pub is_durable: bool,
    /// The time of a random write relative to an aligned one: on a modelled SSD, with a full buffer; if
    /// measured, for durable or sustained writes.
    #[serde(rename = "random_write_ratio")]
    pub random_write: f64,
    /// The range of `random_write_ratio` over the plausible firmware of a modelled disk; absent if the firmware
    /// makes no difference.
    #[serde(rename = "random_write_firmware_range", skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareRange>,
    /// The bytes written to flash (wear) relative to aligned writes; absent on a hard disk.
    #[serde(rename = "wear_ratio", skip_serializing_if = "Option::is_none")]
    pub wear: Option<f64>,
    /// The time of sequential 4096-byte writes, each with an fsync, relative to aligned ones; absent on an
    /// SSD, or if the costs were measured.
    #[serde(rename = "sequential_write_ratio", skip_serializing_if = "Option::is_none")]
    pub sequential_write: Option<f64>,
}

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// A model of the drive.
    Modelled,
    /// A probe of the drive.
    Measured,
}

impl std::fmt::Display for CostSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Modelled => "modelled",
            Self::Measured => "measured",
        })
    }
}

/// Prices positions on a drive, by its model or by a measurement.
pub trait Price: Send + Sync {
    /// The cost of what is written from byte `at` on; `None` if the drive has no such position.
    fn price(&self, at: ByteOffset) -> Option<Cost>;
}

impl Examined {
    /// The target's name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The target's sector sizes and what else is known of the device. Its medium is closed.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What the target holds; if a partition was asked for, only that.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The number of partitions in the table, even if only one partition was asked for.
    pub fn in_table(&self) -> usize {
        self.in_table
    }

    /// Every finding, wherever it is reported.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The verdict over all findings.
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The commands at the ends of remarks.
    pub fn ready(&self) -> impl Iterator<Item = &str> {
        self.ready.iter().map(String::as_str)
    }

    /// Whether none of the target's bytes could be read.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// The page size of a database that is to be stored on the target, if one was given.
    pub fn page(&self) -> Option<ByteCount> {
        self.page
    }

    /// Why the target is not judged, if it is not.
    pub fn not_judged(&self) -> Option<&str> {
        self.judgement.not_judged()
    }

    /// Why there is nothing to judge, if it is blank or its table has no partitions.
    pub fn nothing_to_judge(&self) -> Option<&'static str> {
        self.nothing
    }

    /// Whether all of its contents are seen and judged.
    pub(crate) fn is_seen(&self) -> bool {
        self.unseen.is_none() && self.not_judged().is_none()
    }

    /// `other` shows what this one does not show itself.
    pub(crate) fn judge_with(&mut self, other: &str) {
        let Some(unseen) = self.unseen.take() else { return };
        let remarks = &mut self.target.remarks;
        remarks.retain(|remark| *remark != unseen);
        remarks.push(format!("the array is checked through {other}, the member that shows its contents"));
        self.judgement = Judgement::of(&self.findings, Recognised::Known);
    }

    pub(crate) fn fit_again(&mut self, options: &Options) {
        let (target, stack) = (&self.target, &self.stack);
        let context = Context::of(&self.name, target.kind, target.size, &target.topology, stack);
        crate::fit_again(&Context { page: options.page, ..context }, &mut self.findings);
        crate::ask(&mut self.findings, &asked(options, &self.name, target));
        self.costs = costs(options, &self.findings);
        let recognised = match (self.unseen.clone(), self.not_judged()) {
            (Some(why), _) => Recognised::Part(why),
            (None, Some(why)) => Recognised::Nothing(why.to_owned()),
            (None, None) => Recognised::Known,
        };
        self.judgement = Judgement::of(&self.findings, recognised);
    }

    /// The findings reported at this target, each with its cost.
    pub fn reported(&self) -> impl Iterator<Item = (&Finding, Option<&Cost>)> {
        let listed = self.findings.iter().zip(self.costs.iter().map(Option::as_ref));
        listed.filter(|(finding, _)| finding.reported == Reported::Here)
    }

    /// The findings that do not count, each with its reason.
    pub fn ignored(&self) -> impl Iterator<Item = (&Finding, &Reason)> {
        self.findings.iter().filter_map(|finding| match &finding.reported {
            Reported::Ignored(reason) => Some((finding, &**reason)),
            _ => None,
        })
    }

    /// What to know of the target besides its findings, and where those shared with others are reported.
    pub fn remarks(&self) -> Vec<String> {
        let elsewhere = self.findings.iter().filter_map(|finding| match &finding.reported {
            Reported::At(Place::Target(name)) => {
                let layer = finding.layer.last().map_or(String::new(), |step| format!(" ({})", step.called));
                Some(format!("{}{layer} is reported for {name}", finding.rule.code))
            }
            _ => None,
        });
        self.target.remarks.iter().cloned().chain(elsewhere).collect()
    }
}
