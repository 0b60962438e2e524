//! Examines the targets of a run in batches.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use straddle_examine::{ExamineError, Examined};

use super::Run;
use super::subject::Subject;
use crate::limited;
use crate::target::{TargetSpec, refuse_bare_drive};

/// Targets per batch. Each batch is printed before the next, so memory does not grow with the number of
/// targets.
pub(super) const BATCH: usize = 512;

/// From this number of targets on, they are spread over the cores. For fewer, starting threads costs more
/// than it saves.
pub(super) const PARALLEL_FROM: usize = 16;

/// Examines a batch of targets, in order. A device that does not answer delays neither the other targets nor
/// the listing.
pub(super) fn examine_all(
    batch: &[Subject],
    run: &Arc<Run>,
    in_parallel: bool,
) -> Vec<(String, Result<Examined>)> {
    let limit = Duration::from_secs(run.arguments.time_limit);
    let is_device = |subject: &Subject| {
        run.examiner.options().open.sysroot.is_none() && subject.path().is_some_and(limited::is_device)
    };
    let mut pending = Vec::new();
    for subject in batch.iter().filter(|subject| is_device(subject)) {
        let (run, device) = (Arc::clone(run), subject.clone());
        pending.push(limited::Pending::start(limit, move || examine(&device, &run)));
    }
    let single = |subject: &Subject| (!is_device(subject)).then(|| examine(subject, run));
    let files: Vec<Option<Result<Examined>>> =
        if in_parallel { batch.par_iter().map(single).collect() } else { batch.iter().map(single).collect() };
    let mut devices = pending.into_iter().map(|pending| {
        let late = || Err(anyhow::anyhow!("timed out after {} seconds (--time-limit)", limit.as_secs()));
        pending.wait().unwrap_or_else(late)
    });
    let examined = files.into_iter().filter_map(|file| file.or_else(|| devices.next()));
    let mut examined: Vec<_> = batch.iter().map(Subject::name).zip(examined).collect();
    let mut all: Vec<&mut Examined> = examined.iter_mut().filter_map(|(_, it)| it.as_mut().ok()).collect();
    run.examiner.merge(&mut all);
    examined
}

fn examine(subject: &Subject, run: &Run) -> Result<Examined> {
    let path = match subject {
        Subject::Path(path) => path,
        Subject::Disk(disk) => return Ok(run.examiner.examine_guest_disk(disk)?),
        Subject::OutOfReach { why, .. } => return Err(ExamineError::OutOfReach(why.clone()).into()),
        Subject::Failed { why, .. } => return Err(anyhow::anyhow!("{why}")),
    };
    let open = &run.examiner.options().open;
    match TargetSpec::parse(path)? {
        TargetSpec::Modelled(drive) => {
            let target = straddle_examine::blank_drive(&drive.profile, &open.assume, open.logical)?;
            Ok(run.examiner.examine_target(drive.to_string(), target)?)
        }
        TargetSpec::Path(path) => {
            if open.sysroot.is_none() {
                refuse_bare_drive(&path)?;
            }
            Ok(run.examiner.examine(&path)?)
        }
    }
}

/// Returns a progress bar on stderr for long runs. It is hidden unless stderr is a terminal and stdout is
/// not.
pub(super) fn progress(targets: usize) -> ProgressBar {
    if targets <= BATCH || io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(u64::try_from(targets).ok(), ProgressDrawTarget::stderr());
    bar.enable_steady_tick(Duration::from_secs(1));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} targets, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
