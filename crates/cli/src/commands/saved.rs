//! Plans in files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use straddle_repair::apply::Backup;
use straddle_repair::copy::Copy;
use straddle_repair::realign::Realign;
use straddle_repair::{Fingerprint, Plan};

use crate::exit::{RefusedError, UsageError};
use crate::input;
use crate::output_file;

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

    /// What it is, in words.
    fn kind(&self) -> &'static str {
        match self {
            Self::Table(_) => "a table",
            Self::Moves(_) => "moves",
            Self::Copy(_) => "a copy",
        }
    }

    /// The disk that it was made for, as it was then; of a copy the source.
    fn disk(&self) -> &Fingerprint {
        match self {
            Self::Table(plan) => &plan.disk,
            Self::Moves(realign) => &realign.plan.disk,
            Self::Copy(copy) => &copy.source,
        }
    }

    /// Why this plan does not replace the `former` one: that may be needed.
    fn differs(&self, former: &Self) -> Option<String> {
        if self.kind() != former.kind() {
            return Some(format!("is a plan of {}, but this one is of {}", former.kind(), self.kind()));
        }
        // Its table may have changed since: the former plan is of no use then.
        let [now, then] = [self, former].map(|plan| (plan.disk().size, &plan.disk().serial));
        (now != then).then(|| "is a plan for another disk".to_owned())
    }

    fn from_json(text: &str) -> Result<Self> {
        let value = serde_json::from_str::<serde_json::Value>(text);
        let has = |key: &str| value.as_ref().is_ok_and(|value| value.get(key).is_some());
        Ok(match (has("extents"), has("moves")) {
            (true, _) => Self::Copy(Box::new(Copy::from_json(text)?)),
            (false, true) => Self::Moves(Box::new(Realign::from_json(text)?)),
            (false, false) => Self::Table(Box::new(Plan::from_json(text)?)),
        })
    }
}

/// Saves a plan. An older one for another disk or of another kind is not replaced, and no backup of what an `apply`
/// overwrote: it is the only copy.
pub(super) fn save(path: &Path, json: &str, targets: &[&Path]) -> Result<()> {
    if !output_file::is_stdout(path) && path.is_file() {
        let former = input::text(path, LARGEST_PLAN).map_err(anyhow::Error::from);
        let why = match former.and_then(|text| Saved::from_json(&text)) {
            Ok(former) => Saved::from_json(json)?.differs(&former),
            Err(_) => Backup::load(path)
                .is_ok_and(|backup| !backup.is_reverted())
                .then(|| "is the backup of a table".to_owned()),
        };
        if let Some(why) = why {
            return Err(RefusedError(format!("{}: {why}: choose a new file name", path.display())).into());
        }
    }
    output_file::write(path, json.as_bytes(), targets)
}
