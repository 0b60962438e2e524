//! Parses and checks the lab's part of an experiment's file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::file::{Check, no_range};
use super::host::HostFile;
use super::lab::{Input, LabArm, LabMeasure, LabPublished, LabStep, SECTOR, Statistic};
use super::{ExperimentError, builtin};
use crate::guest::PartitionTable;

const MEMORY_MIB: u64 = 1024;
const MEMORY_RANGE_MIB: std::ops::RangeInclusive<u64> = 128..=65536;
/// The first sector after a GPT: the protective MBR, the header and 32 sectors of entries.
const FIRST_SECTOR: u64 = 34;
const FIRST_SECTOR_MBR: u64 = 1;
const MOST_SECTORS_MBR: u64 = u32::MAX as u64;
const MOST_RUNS: u32 = 99;
const MEMBERS: std::ops::RangeInclusive<usize> = 1..=8;
/// A partition begins at 16 TiB at most.
const LAST_SECTOR: u64 = (16 << 40) / SECTOR;
const MOST_FILES: u32 = 2_000_000;
/// The largest input generated, in MiB.
const MOST_MEBIBYTES: u32 = 64 * 1024;

/// A step, on one drive or several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabFile {
    pub(super) name: String,
    title: String,
    notes: Option<String>,
    #[serde(default)]
    deviations: Vec<String>,
    script: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    variants: Vec<String>,
    memory_mib: Option<u64>,
    host: Option<HostFile>,
    runs: Option<u32>,
    #[serde(default)]
    table: PartitionTable,
    scale: Option<u32>,
    measures: Vec<LabMeasure>,
    arms: Vec<LabArm>,
    drive: Option<String>,
    members: Option<usize>,
    input: Option<Input>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    published: Vec<LabPublished>,
    /// The drives that it runs on, instead of one.
    #[serde(default)]
    drives: Vec<DriveFile>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveFile {
    drive: Option<String>,
    input: Option<Input>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    host: Option<HostFile>,
    memory_mib: Option<u64>,
    /// The arms there, where disks of other sizes give other ends.
    arms: Option<Vec<LabArm>>,
    #[serde(default)]
    published: Vec<LabPublished>,
}

/// Returns the steps of one entry, one per drive. `folder` is where scripts of a user's own are.
pub(super) fn steps(
    check: &Check<'_>,
    file: LabFile,
    drive: &str,
    host: Option<&HostFile>,
    folder: Option<&Path>,
) -> Result<Vec<LabStep>, ExperimentError> {
    let place = format!("lab step {}", file.name);
    let script = script(check, &place, &file.script, folder)?;
    let drives = if file.drives.is_empty() { vec![DriveFile::default()] } else { file.drives.clone() };
    let several = drives.len() > 1;
    let mut steps = Vec::with_capacity(drives.len());
    for own in drives {
        let drive = own.drive.or_else(|| file.drive.clone()).unwrap_or_else(|| drive.to_owned());
        let mut environment = file.environment.clone();
        environment.extend(own.environment);
        let host = own.host.as_ref().or(file.host.as_ref()).or(host);
        let host = host
            .map(HostFile::host)
            .transpose()
            .map_err(|reason| check.impossible(place.as_str(), reason))?;
        let step = LabStep {
            name: if several { format!("{}-{drive}", file.name) } else { file.name.clone() },
            title: file.title.clone(),
            notes: file.notes.clone(),
            deviations: file.deviations.clone(),
            drive,
            members: file.members.unwrap_or(1),
            script: script.clone(),
            arguments: file.arguments.clone(),
            variants: file.variants.clone(),
            environment: environment.into_iter().collect(),
            input: own.input.or_else(|| file.input.clone()),
            memory: own.memory_mib.or(file.memory_mib).unwrap_or(MEMORY_MIB) << 20,
            host: host.unwrap_or_default(),
            runs: file.runs.unwrap_or(1),
            table: file.table,
            scale: file.scale.unwrap_or(1),
            measures: file.measures.clone(),
            arms: own.arms.unwrap_or_else(|| file.arms.clone()),
            published: file.published.iter().cloned().chain(own.published).collect(),
        };
        checked(check, &place, &step)?;
        steps.push(step);
    }
    Ok(steps)
}

/// Returns the text of a shipped script by name, or of a file beside the experiment's file.
fn script(
    check: &Check<'_>,
    place: &str,
    name: &str,
    folder: Option<&Path>,
) -> Result<String, ExperimentError> {
    if let Some((_, text)) = builtin::SCRIPTS.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    match folder {
        Some(folder) if Path::new(name).extension().is_some() => super::file::read(&folder.join(name)),
        _ => {
            let known: Vec<&str> = builtin::SCRIPTS.iter().map(|(known, _)| *known).collect();
            let reason = format!("unknown script {name:?}: use {}", known.join(", "));
            Err(check.impossible(place, reason))
        }
    }
}

fn checked(check: &Check<'_>, place: &str, step: &LabStep) -> Result<(), ExperimentError> {
    let refused = |reason: String| Err(check.impossible(place, reason));
    if step.arms.is_empty() || step.measures.is_empty() {
        return refused("it has no arms or no measures".to_owned());
    }
    check.unique(place, step.arms.iter().map(|arm| arm.name.as_str()))?;
    check.unique(place, step.measures.iter().map(|measure| measure.name.as_str()))?;
    check.unique(place, step.variants.iter().map(String::as_str))?;
    if step.arms.iter().filter(|arm| arm.aligned).count() > 1 {
        return refused("more than one arm is marked as aligned".to_owned());
    }
    for arm in &step.arms {
        if let Some(reason) = misplaced(arm, step.table) {
            return refused(format!("{}: {reason}", arm.name));
        }
    }
    if !MEMBERS.contains(&step.members) {
        return refused(format!("members: must be {} to {}", MEMBERS.start(), MEMBERS.end()));
    }
    if !(1..=MOST_RUNS).contains(&step.runs) {
        return refused(format!("runs: must be 1 to {MOST_RUNS}"));
    }
    if !MEMORY_RANGE_MIB.contains(&(step.memory >> 20)) {
        let (low, high) = (MEMORY_RANGE_MIB.start(), MEMORY_RANGE_MIB.end());
        return refused(format!("memory_mib: must be {low} to {high}"));
    }
    if step.scale == 0 {
        return refused("scale: must be at least 1".to_owned());
    }
    for (name, value) in &step.environment {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let plain =
            !name.is_empty() && name.chars().all(letters) && !name.starts_with(|c: char| c.is_ascii_digit());
        if !plain || value.contains('\0') {
            return refused(format!("environment: {name:?} is not a valid variable name"));
        }
    }
    if let Some(reason) = step.input.as_ref().and_then(too_much) {
        return refused(format!("input: {reason}"));
    }
    step.published.iter().try_for_each(|published| figure(check, place, step, published))
}

/// Returns why an arm's partition cannot be made, if so.
fn misplaced(arm: &LabArm, table: PartitionTable) -> Option<String> {
    let first = if table == PartitionTable::Mbr { FIRST_SECTOR_MBR } else { FIRST_SECTOR };
    let Some(start) = arm.start else {
        let ends = arm.end.or(arm.sectors);
        return ends.map(|_| "a partition with an end needs a start".to_owned());
    };
    if !(first..=LAST_SECTOR).contains(&start) {
        return Some(format!("starts must be sectors {first} to {LAST_SECTOR}"));
    }
    if arm.end.is_some() && arm.sectors.is_some() {
        return Some("specify the end or the number of sectors, not both".to_owned());
    }
    if arm.end.is_some_and(|end| end < start) {
        return Some("the end is before the start".to_owned());
    }
    match (arm.length(), table) {
        (Some(length), _) if !(1..=LAST_SECTOR).contains(&length) => {
            Some(format!("a partition has 1 to {LAST_SECTOR} sectors"))
        }
        (Some(length), PartitionTable::Mbr) if start > MOST_SECTORS_MBR || length > MOST_SECTORS_MBR => {
            Some(format!("an MBR can address at most {MOST_SECTORS_MBR} sectors"))
        }
        _ => None,
    }
}

/// Returns why an input cannot be generated, if so.
fn too_much(input: &Input) -> Option<String> {
    let (files, folders, mebibytes) = match *input {
        Input::Tarball { mebibytes, files, folders } | Input::Trees { files, folders, mebibytes } => {
            (files, folders, mebibytes)
        }
    };
    let least = (u64::from(files) + u64::from(folders)) * 4096;
    if files == 0 || folders == 0 || folders > files || files > MOST_FILES {
        return Some(format!(
            "must have 1 to {MOST_FILES} files and at least one directory, but no more directories than files"
        ));
    }
    if mebibytes == 0 || mebibytes > MOST_MEBIBYTES {
        return Some(format!("must be 1 to {MOST_MEBIBYTES} MiB"));
    }
    let trees = matches!(input, Input::Trees { .. });
    (trees && u64::from(mebibytes) << 20 < least)
        .then(|| format!("these files and directories take at least {least} bytes in blocks of 4 KiB"))
}

fn figure(
    check: &Check<'_>,
    place: &str,
    step: &LabStep,
    published: &LabPublished,
) -> Result<(), ExperimentError> {
    let LabPublished { measure, arm, variant, of, without, value, low, high, .. } = published;
    let place = format!("{place}, published {measure}");
    let refused = |reason: String| Err(check.impossible(place.as_str(), reason));
    if !step.measures.iter().any(|known| known.name == *measure) {
        return refused("the step has no such measure".to_owned());
    }
    if let Some(arm) = arm.as_ref().filter(|arm| !step.arms.iter().any(|known| known.name == **arm)) {
        return refused(format!("unknown arm {arm:?}"));
    }
    let unknown = |variant: &&String| !step.variants.contains(variant);
    if let Some(variant) = variant.as_ref().filter(unknown).or(without.as_ref().filter(unknown)) {
        return refused(format!("unknown variant {variant:?}"));
    }
    if arm.is_none() && (step.arms.len() != 2 || step.aligned().is_none()) {
        return refused("a ratio needs two arms, one of them marked as aligned".to_owned());
    }
    if arm.is_some() && variant.is_none() && step.variants.len() > 1 {
        return refused("specify the variant".to_owned());
    }
    if *of == Statistic::Each && (low.is_none() || high.is_none()) {
        return refused("'each' needs 'low' and 'high'".to_owned());
    }
    let (low, high) = (low.unwrap_or(*value), high.unwrap_or(*value));
    no_range(low, *value, high).map_or(Ok(()), refused)
}
