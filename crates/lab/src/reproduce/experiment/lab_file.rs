//! Parses and checks the lab's part of an experiment's file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::file::Check;
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
const MOST_MEBIBYTES: u32 = 64 * 1024;

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
    /// Instead of the experiment's drive.
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
            let reason = format!("unknown script {name:?}; use {}", known.join(", "));
            Err(check.impossible(place, reason))
        }
    }
}

fn checked(check: &Check<'_>, place: &str, step: &LabStep) -> Result<(), ExperimentError> {
    let ensure = |is_so: bool, reason: String| check.ensure(is_so, place, reason);
    let has_all = !step.arms.is_empty() && !step.measures.is_empty();
    ensure(has_all, "the step has no arms or no measures".to_owned())?;
    check.unique(place, step.arms.iter().map(|arm| arm.name.as_str()))?;
    check.unique(place, step.measures.iter().map(|measure| measure.name.as_str()))?;
    check.unique(place, step.variants.iter().map(String::as_str))?;
    let aligned = step.arms.iter().filter(|arm| arm.aligned).count();
    ensure(aligned <= 1, "more than one arm is marked as aligned".to_owned())?;
    for arm in &step.arms {
        positioned(arm, step.table, |is_so, reason| ensure(is_so, format!("{}: {reason}", arm.name)))?;
    }
    let (low, high) = MEMBERS.into_inner();
    ensure(MEMBERS.contains(&step.members), format!("members must be {low} to {high}"))?;
    ensure((1..=MOST_RUNS).contains(&step.runs), format!("runs must be 1 to {MOST_RUNS}"))?;
    let (low, high) = MEMORY_RANGE_MIB.into_inner();
    ensure((low..=high).contains(&(step.memory >> 20)), format!("memory_mib must be {low} to {high}"))?;
    ensure(step.scale > 0, "scale must be at least 1".to_owned())?;
    for (name, value) in &step.environment {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let plain =
            !name.is_empty() && name.chars().all(letters) && !name.starts_with(|c: char| c.is_ascii_digit());
        let is_valid = plain && !value.contains('\0');
        ensure(is_valid, format!("{name:?} is not a valid name of an environment variable"))?;
    }
    if let Some(input) = &step.input {
        generated(input, |is_so, reason| ensure(is_so, format!("input: {reason}")))?;
    }
    step.published.iter().try_for_each(|published| figure(check, place, step, published))
}

fn positioned<E>(
    arm: &LabArm,
    table: PartitionTable,
    ensure: impl Fn(bool, String) -> Result<(), E>,
) -> Result<(), E> {
    let first = if table == PartitionTable::Mbr { FIRST_SECTOR_MBR } else { FIRST_SECTOR };
    let Some(start) = arm.start else {
        return ensure(arm.end.or(arm.sectors).is_none(), "a partition with an end needs a start".to_owned());
    };
    let is_in = (first..=LAST_SECTOR).contains(&start);
    ensure(is_in, format!("the start must be a sector from {first} to {LAST_SECTOR}"))?;
    let has_one_end = arm.end.is_none() || arm.sectors.is_none();
    ensure(has_one_end, "specify the end or the number of sectors, not both".to_owned())?;
    ensure(arm.end.is_none_or(|end| end >= start), "the end is before the start".to_owned())?;
    let Some(length) = arm.length() else { return Ok(()) };
    let has_sectors = (1..=LAST_SECTOR).contains(&length);
    ensure(has_sectors, format!("a partition must have 1 to {LAST_SECTOR} sectors"))?;
    let fits = table != PartitionTable::Mbr || start.max(length) <= MOST_SECTORS_MBR;
    ensure(fits, format!("an MBR can address at most {MOST_SECTORS_MBR} sectors"))
}

fn generated<E>(input: &Input, ensure: impl Fn(bool, String) -> Result<(), E>) -> Result<(), E> {
    let (Input::Tarball { mebibytes, files, folders } | Input::Trees { files, folders, mebibytes }) = *input;
    let is_tree = (1..=MOST_FILES).contains(&files) && (1..=files).contains(&folders);
    ensure(
        is_tree,
        format!(
            "must have 1 to {MOST_FILES} files and at least one directory, but no more directories than files"
        ),
    )?;
    let is_size = (1..=MOST_MEBIBYTES).contains(&mebibytes);
    ensure(is_size, format!("must be 1 to {MOST_MEBIBYTES} MiB"))?;
    let least = (u64::from(files) + u64::from(folders)) * 4096;
    let fits = matches!(input, Input::Tarball { .. }) || u64::from(mebibytes) << 20 >= least;
    ensure(fits, format!("these files and directories take at least {least} bytes in blocks of 4 KiB"))
}

fn figure(
    check: &Check<'_>,
    place: &str,
    step: &LabStep,
    published: &LabPublished,
) -> Result<(), ExperimentError> {
    let LabPublished { measure, arm, variant, of, without, value, low, high, .. } = published;
    let place = format!("{place}, published {measure}");
    let ensure = |is_so: bool, reason: &str| check.ensure(is_so, &place, reason);
    let is_measured = step.measures.iter().any(|known| known.name == *measure);
    ensure(is_measured, "the step has no such measure")?;
    if let Some(arm) = arm {
        ensure(step.arms.iter().any(|known| known.name == *arm), &format!("unknown arm {arm:?}"))?;
    }
    for variant in variant.iter().chain(without) {
        ensure(step.variants.contains(variant), &format!("unknown variant {variant:?}"))?;
    }
    let has_ratio = step.arms.len() == 2 && step.aligned().is_some();
    ensure(arm.is_some() || has_ratio, "a ratio needs two arms, one of them marked as aligned")?;
    let is_one = arm.is_none() || variant.is_some() || step.variants.len() <= 1;
    ensure(is_one, "the variant must be specified")?;
    let has_range = low.is_some() && high.is_some();
    ensure(*of != Statistic::Each || has_range, "'each' needs 'low' and 'high'")?;
    check.range(&place, *low, *value, *high)
}
