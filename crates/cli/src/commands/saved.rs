//! Plans in files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use straddle_repair::Plan;
use straddle_repair::copy::Copy;
use straddle_repair::realign::Realign;

use crate::exit::{RefusedError, UsageError};
use crate::input;
use crate::keep::{self, Over};

/// The largest plan in bytes.
pub(super) const LARGEST_PLAN: u64 = 16 << 20;

/// A plan that was saved.
pub(super) enum Saved {
    /// Of a table.
    Table(Box<Plan>),
    /// Of moves.
    Moves(Box<Realign>),
    /// Of a copy.
    Copy(Box<Copy>),
}

impl Saved {
    /// Reads the plan in a file.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let unread = || format!("{}: cannot read the plan", path.display());
        let metadata = fs::metadata(path).with_context(unread)?;
        if !metadata.is_file() || metadata.len() > LARGEST_PLAN {
            let text = format!("{}: not a plan: not a regular file, or too large", path.display());
            return Err(UsageError(text).into());
        }
        let text = fs::read_to_string(path).with_context(unread)?;
        Self::from_json(&text).with_context(|| path.display().to_string())
    }

    fn from_json(text: &str) -> Result<Self> {
        let value = serde_json::from_str::<serde_json::Value>(text);
        let has = |key: &str| value.as_ref().is_ok_and(|value| value.get(key).is_some());
        Ok(match (has("copy"), has("realign")) {
            (true, _) => Self::Copy(Box::new(Copy::from_json(text)?)),
            (false, true) => Self::Moves(Box::new(Realign::from_json(text)?)),
            (false, false) => Self::Table(Box::new(Plan::from_json(text)?)),
        })
    }
}

/// Saves a plan, replacing at most an older one. A backup of what `apply` overwrote is text too, and the only
/// copy.
pub(super) fn save(path: &Path, json: &str, targets: &[&Path]) -> Result<()> {
    keep::may_replace(path, targets, Over::PLAN)?;
    let present = fs::metadata(path).is_ok_and(|present| present.is_file() && present.len() > 0);
    let is_plan = |text: String| Saved::from_json(&text).is_ok();
    if present && !keep::is_open(path)? && !input::text(path, LARGEST_PLAN).is_ok_and(is_plan) {
        let text = format!("{}: exists and is not a plan: choose a new file name", path.display());
        return Err(RefusedError(text).into());
    }
    keep::write(path, json.as_bytes(), targets, Over::PLAN)
}
