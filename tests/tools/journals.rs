//! The journals of measurements, as they are in their folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Bytes of a journal's header, and of the line of an area.
const HEADER: usize = 16_384;
const LINE: usize = 512;

/// The areas in a journal: start and length. Without any, its run has not written yet.
pub(crate) fn areas(journal: &[u8]) -> Vec<(u64, u64)> {
    let (mut areas, mut at) = (Vec::new(), HEADER);
    while let Some(line) =
        journal.get(at..at + LINE).and_then(|line| line.split(|byte| *byte == b'\n').next())
    {
        let Ok(area) = serde_json::from_slice::<Value>(line) else { break };
        let number = |name: &str| area[name].as_u64().expect("a number");
        areas.push((number("start"), number("length")));
        at += LINE + usize::try_from(number("length")).expect("a length");
    }
    areas
}

/// The journals in a folder whose runs may have written.
pub(crate) fn used(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_used = |path: &PathBuf| fs::read(path).is_ok_and(|journal| !areas(&journal).is_empty());
    entries.filter(|path| path.extension().is_some_and(|end| end == "journal")).filter(is_used).collect()
}
