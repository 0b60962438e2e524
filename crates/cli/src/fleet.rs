//! The audits of many hosts, merged.
//!
//! Invariants: it counts what audits say and judges nothing itself. What it keeps of an audit is a few words and a
//! fix a disk: memory grows with disks and findings, not with the size of the audits.

mod read;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::examine::CostSource;
use straddle_audit::{Severity, Status};

pub(crate) use crate::fleet::read::{Document, Fix, inputs, read};

const IMAGES: &str = "images";

const NAMELESS: &str = "no model reported";

/// The worst first.
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
    NotJudged,
    Failed,
}

/// The numbers of findings by severity. A finding that several disks share counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Severities {
    /// The number of errors.
    pub(crate) errors: usize,
    /// The number of warnings.
    pub(crate) warnings: usize,
    /// The number of findings that are advice.
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

    pub(crate) const fn counts(self) -> [usize; 3] {
        [self.errors, self.warnings, self.advice]
    }
}

/// The numbers of disks by audit result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Tally {
    /// The number of disks.
    pub(crate) disks: usize,
    /// Disks whose misalignment is an error.
    #[serde(rename = "misaligned_errors")]
    pub(crate) errors: usize,
    /// Disks whose misalignment is only a warning.
    #[serde(rename = "misaligned_warnings")]
    pub(crate) warnings: usize,
    /// The share of misaligned disks among those that were judged and are not blank; absent if there are none.
    #[serde(rename = "misaligned_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<f64>,
    /// Aligned disks with errors or warnings about something else.
    #[serde(rename = "other_findings")]
    pub(crate) others: usize,
    /// Aligned disks with no findings, or only advice.
    pub(crate) aligned: usize,
    /// Disks that are blank.
    pub(crate) blank: usize,
    /// Disks whose alignment could not be determined.
    pub(crate) not_judged: usize,
    /// Disks that could not be audited.
    pub(crate) failed: usize,
    /// The numbers of findings on all these disks, by severity.
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

    pub(crate) const fn judged(&self) -> usize {
        self.misaligned() + self.others + self.aligned
    }

    pub(crate) const fn misaligned(&self) -> usize {
        self.errors + self.warnings
    }
}

#[derive(Clone, Debug)]
struct Found {
    code: String,
    severity: Severity,
    partition: Option<u32>,
}

/// How many times as long random writes behind the worst start of a disk take, how many times as many bytes they
/// write to flash, and by which drive.
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
    unjudged: Option<String>,
}

#[derive(Debug)]
struct Host {
    source: String,
    is_named_by_file: bool,
    disks: Vec<Disk>,
}

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct PricedBy {
    /// The modelled drive, or the one that was probed.
    pub(crate) drive: String,
    /// Whether the costs were modelled or measured.
    pub(crate) source: CostSource,
}

/// An input that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// The path of the file or directory.
    pub(crate) name: String,
    /// Why it could not be read, and the position in the file.
    #[serde(rename = "reason")]
    pub(crate) why: String,
}

#[derive(Debug, Default)]
pub(crate) struct Fleet {
    hosts: BTreeMap<String, Host>,
    /// Titles of the rules that this version does not have, by code.
    titles: BTreeMap<String, String>,
    /// Where prices come from, in the order in which they were read.
    prices: Vec<PricedBy>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) replaced: usize,
}

impl Fleet {
    /// `source` names the host if the audit does not. Returns the name of the host and the source of an earlier audit
    /// of it, which is replaced.
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
            if let Some(cost) = found.cost.filter(|cost| cost.random_write_ratio.is_finite())
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

    fn title<'a>(&'a self, code: &str) -> &'a str {
        let own = straddle_audit::rule(code).map(|rule| rule.title.as_str());
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

fn model(device: Option<read::Device>) -> String {
    let Some(device) = device else { return NAMELESS.to_owned() };
    // Of a SATA disk the kernel reports the bus as the manufacturer.
    let vendor = device.vendor.filter(|vendor| vendor.trim() != "ATA").unwrap_or_default();
    let name = format!("{vendor} {}", device.model.unwrap_or_default());
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let group = if device.kind == "image" { IMAGES } else { NAMELESS };
    if name.is_empty() { group.to_owned() } else { name }
}

/// What is shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Digest<'a> {
    /// The numbers of disks on all hosts, by audit result.
    #[serde(rename = "summary")]
    pub(crate) tally: Tally,
    /// The number of hosts that are named after their files, because their audits contain no name.
    #[serde(rename = "hosts_named_by_files")]
    pub(crate) named_by_files: usize,
    /// The number of audits that were replaced by a later audit of the same host.
    #[serde(rename = "audits_replaced")]
    pub(crate) replaced: usize,
    /// The inputs that could not be read.
    pub(crate) skipped: &'a [Skipped],
    /// The cost of misalignment, for each drive for which the audits report costs; empty if they report none.
    pub(crate) costs: Vec<CostRow<'a>>,
    /// The drive models, those with the most misaligned disks first.
    pub(crate) models: Vec<ModelRow<'a>>,
    /// The rules with findings, the most severe first, then those on the most disks.
    pub(crate) rules: Vec<RuleRow<'a>>,
    /// The hosts, those with the most misaligned disks first.
    pub(crate) hosts: Vec<HostRow<'a>>,
}

/// The costs of misalignment on one drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FleetCost")]
pub(crate) struct CostRow<'a> {
    #[serde(flatten)]
    pub(crate) by: &'a PricedBy,
    /// The number of disks with a cost.
    pub(crate) disks: usize,
    /// The median, over the disks, of the time that random writes at the disk's worst start take relative to
    /// aligned ones.
    #[serde(rename = "median_random_write_ratio")]
    pub(crate) median: f64,
    /// The same ratio on the worst disk.
    #[serde(rename = "worst_random_write_ratio")]
    pub(crate) worst: f64,
    /// The bytes that random writes at the worst start cause to be written to flash (wear), relative to
    /// aligned ones, on the worst disk; absent if the drive is not an SSD.
    #[serde(rename = "worst_wear_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) wear: Option<f64>,
}

/// The disks of one model.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
pub(crate) struct ModelRow<'a> {
    /// The manufacturer and model; "images" or "no model reported" for disks without a model.
    pub(crate) model: &'a str,
    #[serde(flatten)]
    pub(crate) tally: Tally,
}

/// The findings of one rule on all hosts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FleetRule")]
pub(crate) struct RuleRow<'a> {
    /// The code of the rule, as used by `straddle explain`.
    pub(crate) code: &'a str,
    /// The title of the rule.
    pub(crate) title: &'a str,
    /// The highest severity of the rule's findings.
    pub(crate) severity: Severity,
    /// The numbers of the rule's findings, by severity.
    pub(crate) findings: Severities,
    /// The number of disks with such findings.
    pub(crate) disks: usize,
    /// The number of hosts with such findings.
    pub(crate) hosts: usize,
}

/// A host with the audit results of its disks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Host")]
pub(crate) struct HostRow<'a> {
    /// The name of the host.
    pub(crate) host: &'a str,
    #[serde(flatten)]
    pub(crate) tally: Tally,
    /// The codes of the errors and warnings on the host, the errors first.
    pub(crate) codes: Vec<&'a str>,
    /// The time that random writes at the host's worst start take relative to aligned ones; absent if the
    /// audit contains no cost.
    #[serde(rename = "worst_random_write_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Its disks with errors or warnings, and those that could not be judged, the worst first.
    #[serde(skip)]
    pub(crate) details: Vec<Detail<'a>>,
}

#[derive(Debug)]
pub(crate) struct Detail<'a> {
    pub(crate) disk: &'a str,
    pub(crate) model: &'a str,
    pub(crate) findings: Vec<(&'a str, &'a str, Vec<u32>)>,
    pub(crate) cost: Option<f64>,
    pub(crate) fix: Option<&'a Fix>,
    pub(crate) unjudged: Option<&'a str>,
}

impl Fleet {
    pub(crate) fn digest(&self) -> Digest<'_> {
        let mut tally = Tally::default();
        let mut models: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut prices: BTreeMap<&PricedBy, Vec<&Price>> = BTreeMap::new();
        for disk in self.hosts.values().flat_map(|host| &host.disks) {
            tally.add(disk);
            models.entry(&disk.model).or_default().add(disk);
            if let Some(price) = &disk.price {
                prices.entry(&price.by).or_default().push(price);
            }
        }
        let models = models.into_iter().map(|(model, tally)| ModelRow { model, tally });
        let mut models: Vec<ModelRow<'_>> = models.collect();
        models.sort_by_key(|row| (Reverse(row.tally.misaligned()), Reverse(row.tally.disks), row.model));
        let costs = self.prices.iter().filter_map(|by| cost(by, prices.get(by)?)).collect();
        let mut hosts: Vec<HostRow<'_>> =
            self.hosts.iter().map(|(name, host)| self.host_row(name, host)).collect();
        hosts.sort_by(worst_first);
        Digest {
            tally,
            named_by_files: self.hosts.values().filter(|host| host.is_named_by_file).count(),
            replaced: self.replaced,
            skipped: &self.skipped,
            costs,
            models,
            rules: self.rule_rows(),
            hosts,
        }
    }

    fn rule_rows(&self) -> Vec<RuleRow<'_>> {
        let mut rows: BTreeMap<&str, RuleRow<'_>> = BTreeMap::new();
        for host in self.hosts.values() {
            let mut of_host = BTreeSet::new();
            for disk in &host.disks {
                let mut of_disk = BTreeSet::new();
                for Found { code, severity, .. } in &disk.findings {
                    let row = rows.entry(code).or_insert_with(|| RuleRow {
                        code,
                        title: self.title(code),
                        severity: *severity,
                        findings: Severities::default(),
                        disks: 0,
                        hosts: 0,
                    });
                    row.findings.add(*severity);
                    row.severity = row.severity.max(*severity);
                    row.disks += usize::from(of_disk.insert(code));
                    row.hosts += usize::from(of_host.insert(code));
                }
            }
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by_key(|row| (Reverse(row.severity), Reverse(row.disks), row.code));
        rows
    }

    fn host_row<'a>(&'a self, name: &'a str, host: &'a Host) -> HostRow<'a> {
        let mut tally = Tally::default();
        let mut codes = BTreeSet::new();
        for disk in &host.disks {
            tally.add(disk);
            let found = disk.findings.iter().filter(|it| it.severity > Severity::Advice);
            codes.extend(found.map(|found| (Reverse(found.severity), found.code.as_str())));
        }
        let mut seen = BTreeSet::new();
        let codes = codes.into_iter().map(|(_, code)| code).filter(|code| seen.insert(*code)).collect();
        let prices = host.disks.iter().filter_map(|disk| disk.price.as_ref());
        let cost = prices.map(|price| price.ratio).max_by(f64::total_cmp);
        let mut disks: Vec<&Disk> = host.disks.iter().collect();
        disks.sort_by_key(|disk| (disk.class, natural(&disk.name)));
        let details = disks.into_iter().filter_map(|disk| self.detail(disk)).collect();
        HostRow { host: name, tally, codes, cost, details }
    }

    fn detail<'a>(&'a self, disk: &'a Disk) -> Option<Detail<'a>> {
        if matches!(disk.class, Class::Aligned | Class::Blank) {
            return None;
        }
        let mut findings: Vec<(&str, &str, Vec<u32>)> = Vec::new();
        let found = disk.findings.iter().filter(|it| it.severity > Severity::Advice);
        let mut found: Vec<&Found> = found.collect();
        found.sort_by_key(|found| Reverse(found.severity));
        for Found { code, partition, .. } in found {
            match findings.iter_mut().find(|(of, ..)| of == code) {
                Some((.., partitions)) => partitions.extend(partition),
                None => findings.push((code, self.title(code), partition.iter().copied().collect())),
            }
        }
        let cost = disk.price.as_ref().map(|price| price.ratio);
        let (fix, unjudged) = (disk.fix.as_ref(), disk.unjudged.as_deref());
        Some(Detail { disk: &disk.name, model: &disk.model, findings, cost, fix, unjudged })
    }
}

fn cost<'a>(by: &'a PricedBy, prices: &[&Price]) -> Option<CostRow<'a>> {
    let mut ratios: Vec<f64> = prices.iter().map(|price| price.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let median = *ratios.get(ratios.len() / 2)?;
    let wear = prices.iter().filter_map(|price| price.wear).max_by(f64::total_cmp);
    Some(CostRow { by, disks: ratios.len(), median, worst: *ratios.last()?, wear })
}

fn worst_first(a: &HostRow<'_>, b: &HostRow<'_>) -> std::cmp::Ordering {
    let counts = |row: &HostRow<'_>| (row.tally.errors, row.tally.warnings);
    let rest = |row: &HostRow<'_>| (row.tally.others, row.tally.failed, row.tally.not_judged);
    let ratio = |row: &HostRow<'_>| row.cost.unwrap_or(0.0);
    let order = counts(b).cmp(&counts(a)).then_with(|| ratio(b).total_cmp(&ratio(a)));
    let order = order.then_with(|| b.tally.findings.counts().cmp(&a.tally.findings.counts()));
    let order = order.then_with(|| rest(b).cmp(&rest(a)));
    order.then_with(|| (natural(a.host), a.host).cmp(&(natural(b.host), b.host)))
}

/// The parts of a name by which it sorts, numbers as such: `web2` before `web10`.
fn natural(name: &str) -> Vec<(usize, &[u8])> {
    let parts = name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    parts
        .map(|part| {
            let zeros = part.iter().take_while(|byte| **byte == b'0').count();
            let number = &part[zeros..];
            if part[0].is_ascii_digit() { (number.len(), number) } else { (usize::MAX, part) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_sort_as_numbers() {
        let mut names = ["web10", "db", "web2a", "", "web02", "10", "web2", "9", "web"];
        names.sort_by_key(|name: &&'static str| natural(name));
        assert_eq!(names, ["", "9", "10", "db", "web", "web02", "web2", "web2a", "web10"]);
    }
}
