//! The audits of many hosts, merged.
//!
//! Invariants: it counts what audits say and judges nothing itself. What it keeps of an audit is a
//! few words a disk, so that memory grows with the number of disks and findings, not with the size of the audits.

mod digest;
mod read;

use std::collections::BTreeMap;

use straddle_audit::Severity;

pub(crate) use self::digest::{CostRow, Detail, Digest, HostRow, ModelRow, RuleRow};
pub(crate) use self::read::{Document, Input, inputs, read};
use crate::view::json::Status;
use crate::view::json::finding::MisalignedReport;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Severities {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
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

    /// Returns the number of all findings.
    pub(crate) const fn all(self) -> usize {
        self.errors + self.warnings + self.advice
    }

    /// Returns the numbers, those of errors first.
    pub(crate) const fn counts(self) -> [usize; 3] {
        [self.errors, self.warnings, self.advice]
    }
}

/// Numbers of disks, and of their findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) others: usize,
    pub(crate) aligned: usize,
    pub(crate) blank: usize,
    pub(crate) not_judged: usize,
    pub(crate) failed: usize,
    pub(crate) findings: Severities,
}

impl Tally {
    fn add(&mut self, disk: &Disk) {
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
    }

    /// Returns the number of all disks.
    pub(crate) const fn disks(&self) -> usize {
        self.judged() + self.blank + self.not_judged + self.failed
    }

    /// Returns the number of disks with contents that were judged.
    pub(crate) const fn judged(&self) -> usize {
        self.misaligned() + self.others + self.aligned
    }

    /// Returns the number of misaligned disks.
    pub(crate) const fn misaligned(&self) -> usize {
        self.errors + self.warnings
    }

    /// Returns the share of misaligned disks among those judged; `None` if there are none.
    pub(crate) fn share(&self) -> Option<f64> {
        let [part, all] = [self.misaligned(), self.judged()].map(|count| u32::try_from(count).ok());
        Some(f64::from(part?) / f64::from(all.filter(|all| *all > 0)?))
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

/// A finding: the index of its rule, how severe it is, and the partition.
#[derive(Clone, Copy, Debug)]
struct Found {
    rule: usize,
    severity: Severity,
    partition: Option<u32>,
}

/// How many times as long random writes take behind the worst start of a disk, how many times as many bytes they write
/// to flash, and the index of the drive that says so.
#[derive(Clone, Copy, Debug)]
struct Price {
    drive: usize,
    ratio: f64,
    wear: Option<f64>,
}

/// What is kept of a disk.
#[derive(Debug)]
struct Disk {
    name: Box<str>,
    model: usize,
    class: Class,
    findings: Box<[Found]>,
    price: Option<Price>,
}

/// What is kept of a host.
#[derive(Debug)]
struct Host {
    /// The file of its audit.
    source: Box<str>,
    /// Whether the audit does not name the host, so that the file does.
    is_named_by_file: bool,
    disks: Box<[Disk]>,
}

/// Names with the index of each.
#[derive(Debug, Default)]
struct Names<T> {
    known: BTreeMap<T, usize>,
}

impl<T: Ord> Names<T> {
    fn index(&mut self, name: T) -> usize {
        let next = self.known.len();
        *self.known.entry(name).or_insert(next)
    }

    /// Returns the names in the order of their indexes.
    fn list(&self) -> Vec<&T> {
        let mut list: Vec<(&T, usize)> = self.known.iter().map(|(name, index)| (name, *index)).collect();
        list.sort_by_key(|(_, index)| *index);
        list.into_iter().map(|(name, _)| name).collect()
    }
}

/// Where a price comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PricedBy {
    /// The drive.
    pub(crate) drive: String,
    /// Whether it was measured on that drive; otherwise it is modelled.
    pub(crate) is_measured: bool,
}

impl PricedBy {
    /// Returns the word for where it comes from.
    pub(crate) const fn word(&self) -> &'static str {
        if self.is_measured { "measured" } else { "modelled" }
    }
}

/// What cannot be read, and why.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// The audits of many hosts.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    hosts: BTreeMap<String, Host>,
    models: Names<String>,
    /// Codes of rules.
    rules: Names<String>,
    /// Titles of the rules that this version does not have.
    titles: BTreeMap<usize, String>,
    prices: Names<PricedBy>,
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
        Some((name, former.source.into()))
    }

    /// Whether there is no audit.
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    fn disk(&mut self, target: read::Target) -> Disk {
        let mut price = None::<Price>;
        let mut findings = Vec::with_capacity(target.findings.len());
        for found in target.findings {
            let severity = Severity::from(found.severity);
            let is_new = straddle_audit::rule(&found.code).is_none();
            let rule = self.rules.index(found.code);
            if is_new {
                self.titles.entry(rule).or_insert(found.title);
            }
            findings.push(Found { rule, severity, partition: found.partition });
            let cost = found.cost.filter(|cost| cost.random_write_ratio.is_finite());
            if let Some(cost) = cost.filter(|cost| price.is_none_or(|it| it.ratio < cost.random_write_ratio))
            {
                let by = PricedBy { drive: cost.drive, is_measured: cost.source == "measured" };
                let wear = cost.wear_ratio.filter(|wear| wear.is_finite());
                price = Some(Price { drive: self.prices.index(by), ratio: cost.random_write_ratio, wear });
            }
        }
        Disk {
            name: target.target.into(),
            model: self.models.index(model(target.device)),
            class: class(target.status, target.misaligned),
            findings: findings.into(),
            price,
        }
    }
}

fn class(status: Status, misaligned: Option<MisalignedReport>) -> Class {
    match (status, misaligned) {
        (Status::Failed, _) => Class::Failed,
        (Status::NotJudged, _) => Class::NotJudged,
        (Status::Blank, _) => Class::Blank,
        (_, Some(MisalignedReport::Error)) => Class::Errors,
        (_, Some(MisalignedReport::Warning)) => Class::Warnings,
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
