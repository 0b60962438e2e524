//! Examines the targets of a run in batches.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;
use straddle_audit::examine::{ExamineError, Examined};

use super::Run;
use super::subject::Subject;
use crate::target::TargetSpec;
use crate::timeout;

/// Targets per batch. Each batch is printed before the next, so memory does not grow with the number of
/// targets.
pub(super) const BATCH: usize = 512;

/// From this number of targets on, they are spread over the cores. For fewer, starting threads costs more
/// than it saves.
pub(super) const PARALLEL_FROM: usize = 16;

/// Objects on servers that are read at a time, each over one connection.
const CONNECTIONS: usize = 16;

/// Examines a batch of targets, in order. A device that does not answer delays neither the other targets nor
/// the listing.
pub(super) fn examine_all<'a>(
    batch: &'a [Subject],
    run: &Arc<Run>,
    in_parallel: bool,
) -> Vec<(&'a Subject, Result<Examined>)> {
    let limit = Duration::from_secs(run.arguments.time_limit);
    let is_device = |subject: &Subject| {
        run.examiner.options().open.sysroot.is_none() && subject.path().is_some_and(timeout::is_device)
    };
    let mut pending = Vec::new();
    for subject in batch.iter().filter(|subject| is_device(subject)) {
        let (run, device) = (Arc::clone(run), subject.clone());
        pending.push(timeout::Pending::start(limit, move || examine(&device, &run)));
    }
    let is_object = |subject: &Subject| matches!(subject, Subject::Object(_));
    let single =
        |subject: &Subject| (!is_device(subject) && !is_object(subject)).then(|| examine(subject, run));
    let objects: Vec<&Subject> = batch.iter().filter(|subject| is_object(subject)).collect();
    let (files, objects): (Vec<Option<Result<Examined>>>, _) = thread::scope(|scope| {
        // A thread takes a tenth of a millisecond, which counts for one image.
        let fetch = || scope.spawn(|| in_threads(&objects, |subject| examine(subject, run)));
        let fetching = (!objects.is_empty()).then(fetch);
        let files = match in_parallel {
            true => batch.par_iter().map(single).collect(),
            false => batch.iter().map(single).collect(),
        };
        (files, fetching.map(joined))
    });
    let mut objects = objects.into_iter().flatten();
    let mut devices = pending.into_iter().map(|pending| {
        let late = || Err(anyhow::anyhow!("timed out after {} seconds (--time-limit)", limit.as_secs()));
        pending.wait().unwrap_or_else(late)
    });
    let examined = files.into_iter().zip(batch).filter_map(|(file, subject)| {
        file.or_else(|| if is_object(subject) { objects.next() } else { devices.next() })
    });
    let mut examined: Vec<_> = batch.iter().zip(examined).collect();
    let mut all: Vec<&mut Examined> = examined.iter_mut().filter_map(|(_, it)| it.as_mut().ok()).collect();
    run.examiner.merge(&mut all);
    examined
}

fn examine(subject: &Subject, run: &Run) -> Result<Examined> {
    let open = &run.examiner.options().open;
    Ok(match subject {
        Subject::Local(TargetSpec::Modelled(drive)) => {
            let target = straddle_audit::examine::blank_drive(&drive.profile, &open.assume, open.logical)?;
            run.examiner.examine_target(drive.to_string(), target)?
        }
        Subject::Local(TargetSpec::Path(path)) => run.examiner_for(path).examine(path)?,
        Subject::Object(address) => run.examiner.examine_object(address)?,
        Subject::Disk(disk) => run.examiner.examine_guest_disk(disk)?,
        Subject::OutOfReach { why, .. } => return Err(ExamineError::OutOfReach(why.clone()).into()),
        Subject::Failed { why, .. } => return Err(anyhow::anyhow!("{why}")),
    })
}

/// Returns what `work` makes of each item, in order. It is done by as many threads as there may be connections.
fn in_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..items.len().min(CONNECTIONS)).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(joined).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns what a thread has made. Its panic becomes this one's.
fn joined<R>(thread: ScopedJoinHandle<'_, R>) -> R {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
