//! The audits of many hosts, merged.
//!
//! Invariants: it counts what audits say and judges nothing itself. What it keeps of an audit is a
//! few words and a fix a disk, so that memory grows with the number of disks and findings, not with the size of the audits.

mod digest;
mod read;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::Severity;
use straddle_audit::examine::CostSource;

pub(crate) use self::digest::{CostRow, Detail, Digest};
pub(crate) use self::read::{Document, Fix, Input, inputs, read};
use crate::view::json::Status;

/// The group of disks that audits of images are counted in.
const IMAGES: &str = "images";

/// The group of disks without a model.
const NAMELESS: &str = "no model reported";

/// What an audit says of a disk, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Misaligned: an error.
    Errors,
    /// Misaligned: warnings only.
    Warnings,
    /// Aligned, with a warning or an error of another kind.
    Others,
    /// Aligned, with advice at most.
    Aligned,
    /// Nothing is written where tables and contents live.
    Blank,
    /// Not judged.
    NotJudged,
    /// Not audited.
    Failed,
}

/// Numbers of findings by severity. A finding that several disks share counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Severities {
    /// Errors.
    pub(crate) errors: usize,
    /// Warnings.
    pub(crate) warnings: usize,
    /// Advice.
    pub(crate) advice: usize,
}

impl Severities {
    fn add(&mut self, severity: Severity) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Advice => self.advice += 1,
        }
    }

    /// Returns the numbers, those of errors first.
    pub(crate) const fn counts(self) -> [usize; 3] {
        [self.errors, self.warnings, self.advice]
    }
}

/// Numbers of disks, by what their audits say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Tally {
    /// All disks.
    pub(crate) disks: usize,
    /// Misaligned disks with an error.
    #[serde(rename = "misaligned_errors")]
    pub(crate) errors: usize,
    /// Misaligned disks with warnings only.
    #[serde(rename = "misaligned_warnings")]
    pub(crate) warnings: usize,
    /// The share of misaligned disks among those that were judged and are not blank; absent if there are none.
    #[serde(rename = "misaligned_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<f64>,
    /// Aligned disks with errors or warnings of other kinds.
    #[serde(rename = "other_findings")]
    pub(crate) others: usize,
    /// Aligned disks with advice at most.
    pub(crate) aligned: usize,
    /// Disks that are blank.
    pub(crate) blank: usize,
    /// Disks that were not judged.
    pub(crate) not_judged: usize,
    /// Disks that could not be audited.
    pub(crate) failed: usize,
    /// The findings on all of them. One that several disks share counts once.
    pub(crate) findings: Severities,
}

impl Tally {
    fn add(&mut self, disk: &Disk) {
        self.disks += 1;
        disk.findings.iter().for_each(|found| self.findings.add(found.severity));
        match disk.class {
            Class::Errors => self.errors += 1,
            Class::Warnings => self.warnings += 1,
            Class::Others => self.others += 1,
            Class::Aligned => self.aligned += 1,
            Class::Blank => self.blank += 1,
            Class::NotJudged => self.not_judged += 1,
            Class::Failed => self.failed += 1,
        }
        let [part, all] = [self.misaligned(), self.judged()].map(|count| u32::try_from(count).ok());
        self.share = part.zip(all.filter(|all| *all > 0)).map(|(part, all)| f64::from(part) / f64::from(all));
    }

    /// Returns the number of disks with contents that were judged.
    pub(crate) const fn judged(&self) -> usize {
        self.misaligned() + self.others + self.aligned
    }

    /// Returns the number of misaligned disks.
    pub(crate) const fn misaligned(&self) -> usize {
        self.errors + self.warnings
    }

    /// Returns the number of disks in each class that there is, with its name.
    pub(crate) fn parts(&self) -> Vec<(&'static str, usize)> {
        let parts = [
            ("misaligned, errors", self.errors),
            ("misaligned, warnings", self.warnings),
            ("aligned, other findings", self.others),
            ("aligned", self.aligned),
            ("blank", self.blank),
            ("not judged", self.not_judged),
            ("failed", self.failed),
        ];
        parts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

/// A finding: the code of its rule, how severe it is, and the partition.
#[derive(Clone, Debug)]
struct Found {
    code: String,
    severity: Severity,
    partition: Option<u32>,
}

/// How many times as long random writes take behind the worst start of a disk, how many times as many bytes they write
/// to flash, and the drive that says so.
#[derive(Clone, Debug)]
struct Price {
    by: PricedBy,
    ratio: f64,
    wear: Option<f64>,
}

#[derive(Debug)]
struct Disk {
    name: String,
    model: String,
    class: Class,
    findings: Vec<Found>,
    price: Option<Price>,
    /// The fix of the first of the most severe findings that have one.
    fix: Option<Fix>,
    /// Why it could not be judged.
    unjudged: Option<String>,
}

#[derive(Debug)]
struct Host {
    /// The file of its audit.
    source: String,
    /// Whether the audit does not name the host, so that the file does.
    is_named_by_file: bool,
    disks: Vec<Disk>,
}

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct PricedBy {
    /// The drive.
    pub(crate) drive: String,
    /// Where the cost comes from.
    pub(crate) source: CostSource,
}

/// An input that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// The file or folder.
    pub(crate) name: String,
    /// Why, and where in the file.
    #[serde(rename = "reason")]
    pub(crate) why: String,
}

/// The audits of many hosts.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    hosts: BTreeMap<String, Host>,
    /// Titles of the rules that this version does not have, by code.
    titles: BTreeMap<String, String>,
    /// Where prices come from, in the order in which they were read.
    prices: Vec<PricedBy>,
    /// What was left out.
    pub(crate) skipped: Vec<Skipped>,
    /// The number of audits that a later one replaces.
    pub(crate) replaced: usize,
}

impl Fleet {
    /// Adds an audit from `source`, which names the host if the audit does not. Returns the name of the host
    /// and the source of an earlier audit of it, which is replaced.
    pub(crate) fn add(&mut self, audit: Document, source: &str, file_name: &str) -> Option<(String, String)> {
        let named = audit.host.filter(|host| !host.trim().is_empty());
        let is_named_by_file = named.is_none();
        let name = named.unwrap_or_else(|| file_name.to_owned());
        let disks = audit.targets.into_iter().map(|target| self.disk(target)).collect();
        let host = Host { source: source.into(), is_named_by_file, disks };
        let former = self.hosts.insert(name.clone(), host)?;
        self.replaced += 1;
        Some((name, former.source))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    fn disk(&mut self, target: read::Target) -> Disk {
        let (mut price, mut fix) = (None::<Price>, None::<(Severity, Fix)>);
        let mut findings = Vec::with_capacity(target.findings.len());
        for found in target.findings {
            if straddle_audit::rule(&found.code).is_none() {
                self.titles.entry(found.code.clone()).or_insert(found.title);
            }
            if let Some(own) = found.fix.filter(|_| found.severity > Severity::Advice)
                && fix.as_ref().is_none_or(|(severity, _)| *severity < found.severity)
            {
                fix = Some((found.severity, own));
            }
            findings.push(Found { code: found.code, severity: found.severity, partition: found.partition });
            let cost = found.cost.filter(|cost| cost.random_write_ratio.is_finite());
            if let Some(cost) = cost
                && price.as_ref().is_none_or(|it| it.ratio < cost.random_write_ratio)
            {
                let by = PricedBy { drive: cost.drive, source: cost.source };
                let wear = cost.wear_ratio.filter(|wear| wear.is_finite());
                if !self.prices.contains(&by) {
                    self.prices.push(by.clone());
                }
                price = Some(Price { by, ratio: cost.random_write_ratio, wear });
            }
        }
        let (model, class) = (model(target.device), class(target.status, target.misaligned));
        let unjudged = target.error.or(target.reason);
        let unjudged = unjudged.filter(|_| matches!(class, Class::NotJudged | Class::Failed));
        Disk { name: target.target, model, class, findings, price, fix: fix.map(|(_, fix)| fix), unjudged }
    }

    /// Returns the title of a rule.
    fn title<'a>(&'a self, code: &str) -> &'a str {
        let own = straddle_audit::rule(code).map(|rule| rule.title);
        own.or_else(|| self.titles.get(code).map(String::as_str)).unwrap_or_default()
    }
}

fn class(status: Status, misaligned: Option<Severity>) -> Class {
    match (status, misaligned) {
        (Status::Failed, _) => Class::Failed,
        (Status::NotJudged, _) => Class::NotJudged,
        (Status::Blank, _) => Class::Blank,
        (_, Some(Severity::Error)) => Class::Errors,
        (_, Some(Severity::Warning)) => Class::Warnings,
        (Status::Error | Status::Warning, _) => Class::Others,
        (Status::Ok | Status::Advice, _) => Class::Aligned,
    }
}

/// Returns the name of the group that a disk is counted in: its model, or what it is.
fn model(device: Option<read::Device>) -> String {
    let Some(device) = device else { return NAMELESS.to_owned() };
    // Of a SATA disk the kernel reports the bus as the manufacturer.
    let vendor = device.vendor.filter(|vendor| vendor.trim() != "ATA").unwrap_or_default();
    let name = format!("{vendor} {}", device.model.unwrap_or_default());
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match (name.is_empty(), device.kind.as_str()) {
        (false, _) => name,
        (true, "image") => IMAGES.to_owned(),
        (true, _) => NAMELESS.to_owned(),
    }
}
