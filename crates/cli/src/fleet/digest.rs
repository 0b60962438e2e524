//! What is shown of the audits of many hosts: numbers of disks by model, rule and host.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use straddle_audit::Severity;

use super::{Class, Disk, Fix, Fleet, Found, Host, Price, PricedBy, Severities, Skipped, Tally};

/// What is shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Digest<'a> {
    /// The numbers of all disks.
    #[serde(rename = "summary")]
    pub(crate) tally: Tally,
    /// The number of hosts whose names are those of the files, because their audits have none.
    #[serde(rename = "hosts_named_by_files")]
    pub(crate) named_by_files: usize,
    /// The number of audits that a later one of the same host replaces.
    #[serde(rename = "audits_replaced")]
    pub(crate) replaced: usize,
    /// What could not be read.
    pub(crate) skipped: &'a [Skipped],
    /// What misalignment costs, by the drive that the audits were priced with; empty if none was.
    pub(crate) costs: Vec<CostRow<'a>>,
    /// The models, those with most misaligned disks first.
    pub(crate) models: Vec<ModelRow<'a>>,
    /// The rules with findings, the most severe first, then those on most disks.
    pub(crate) rules: Vec<RuleRow<'a>>,
    /// The hosts, the worst first.
    pub(crate) hosts: Vec<HostRow<'a>>,
}

/// The costs of misalignment by one drive.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FleetCost")]
pub(crate) struct CostRow<'a> {
    #[serde(flatten)]
    pub(crate) by: &'a PricedBy,
    /// The number of disks with a cost.
    pub(crate) disks: usize,
    /// The time of random writes behind the worst start of a disk over their time when aligned: the median of the
    /// disks.
    #[serde(rename = "median_random_write_ratio")]
    pub(crate) median: f64,
    /// The same for the worst disk.
    #[serde(rename = "worst_random_write_ratio")]
    pub(crate) worst: f64,
    /// The bytes that they write to flash (wear), over those when aligned, on the worst disk; absent for a disk that is
    /// not an SSD.
    #[serde(rename = "worst_wear_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) wear: Option<f64>,
}

/// The disks of a model.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Model")]
pub(crate) struct ModelRow<'a> {
    /// The manufacturer and model; "images" or "no model reported" for disks without.
    pub(crate) model: &'a str,
    #[serde(flatten)]
    pub(crate) tally: Tally,
}

/// The findings of a rule.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "FleetRule")]
pub(crate) struct RuleRow<'a> {
    /// The code, as used by `straddle explain`.
    pub(crate) code: &'a str,
    /// The title.
    pub(crate) title: &'a str,
    /// The highest severity of its findings.
    pub(crate) severity: Severity,
    /// The findings.
    pub(crate) findings: Severities,
    /// The number of disks.
    pub(crate) disks: usize,
    /// The number of hosts.
    pub(crate) hosts: usize,
}

/// A host.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Host")]
pub(crate) struct HostRow<'a> {
    /// The name.
    pub(crate) host: &'a str,
    #[serde(flatten)]
    pub(crate) tally: Tally,
    /// The codes of its errors and warnings, the errors first.
    pub(crate) codes: Vec<&'a str>,
    /// The time of random writes behind its worst start over their time when aligned; absent without a cost.
    #[serde(rename = "worst_random_write_ratio", skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<f64>,
    /// Its disks with errors or warnings, and those that could not be judged, the worst first.
    #[serde(skip)]
    pub(crate) details: Vec<Detail<'a>>,
}

/// A disk that needs attention.
#[derive(Debug)]
pub(crate) struct Detail<'a> {
    pub(crate) disk: &'a str,
    pub(crate) model: &'a str,
    /// The errors and warnings: code, title, and partitions.
    pub(crate) findings: Vec<(&'a str, &'a str, Vec<u32>)>,
    pub(crate) cost: Option<f64>,
    pub(crate) fix: Option<&'a Fix>,
    /// Why it could not be judged.
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
        let mut models: Vec<ModelRow<'_>> =
            models.into_iter().map(|(model, tally)| ModelRow { model, tally }).collect();
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

    /// Describes a disk that needs attention.
    fn detail<'a>(&'a self, disk: &'a Disk) -> Option<Detail<'a>> {
        if matches!(disk.class, Class::Aligned | Class::Blank) {
            return None;
        }
        let mut findings: Vec<(&str, &str, Vec<u32>)> = Vec::new();
        let mut found: Vec<&Found> =
            disk.findings.iter().filter(|it| it.severity > Severity::Advice).collect();
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
    counts(b)
        .cmp(&counts(a))
        .then_with(|| ratio(b).total_cmp(&ratio(a)))
        .then_with(|| rest(b).cmp(&rest(a)))
        .then_with(|| natural(a.host).cmp(&natural(b.host)))
        .then_with(|| a.host.cmp(b.host))
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
