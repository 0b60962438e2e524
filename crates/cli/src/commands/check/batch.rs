//! Examines the targets of a run in batches.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use straddle_examine::Examined;

use super::Run;
use crate::args::CheckArguments;
use crate::exit::UsageError;
use crate::limited;
use crate::output;
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
    batch: &[PathBuf],
    run: &Arc<Run>,
    in_parallel: bool,
) -> Vec<(String, Result<Examined>)> {
    let limit = Duration::from_secs(run.arguments.time_limit);
    let is_device =
        |path: &PathBuf| run.examiner.options().open.sysroot.is_none() && limited::is_device(path);
    let mut pending = Vec::new();
    for path in batch.iter().filter(|path| is_device(path)) {
        let (run, device) = (Arc::clone(run), path.clone());
        pending.push(limited::Pending::start(limit, move || examine(&device, &run)));
    }
    let single = |path: &PathBuf| (!is_device(path)).then(|| examine(path, run));
    let files: Vec<Option<Result<Examined>>> =
        if in_parallel { batch.par_iter().map(single).collect() } else { batch.iter().map(single).collect() };
    let mut devices = pending.into_iter().map(|pending| {
        let late = || Err(anyhow::anyhow!("timed out after {} seconds (--time-limit)", limit.as_secs()));
        pending.wait().unwrap_or_else(late)
    });
    let examined = files.into_iter().filter_map(|file| file.or_else(|| devices.next()));
    let mut examined: Vec<_> = batch.iter().map(|path| path.display().to_string()).zip(examined).collect();
    let mut all: Vec<&mut Examined> = examined.iter_mut().filter_map(|(_, it)| it.as_mut().ok()).collect();
    run.examiner.merge(&mut all);
    examined
}

fn examine(path: &Path, run: &Run) -> Result<Examined> {
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

/// Returns the targets given, or every disk.
pub(super) fn targets(arguments: &CheckArguments) -> Result<Vec<PathBuf>> {
    if !arguments.targets.is_empty() {
        if arguments.all {
            let message = "--all widens the search for disks: give it without targets";
            return Err(UsageError(message.to_owned()).into());
        }
        return Ok(arguments.targets.clone());
    }
    let found = straddle_device::discover(arguments.captured(), arguments.all)
        .context("cannot list the disks of this machine")?;
    found.remarks.iter().for_each(|remark| output::complain(&output::printable(remark)));
    if found.disks.is_empty() {
        output::complain("no disk found; --all also looks at loop, ram and zram devices");
    }
    Ok(found.disks)
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
