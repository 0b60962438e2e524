//! Runs the lab steps of published experiments.
//!
//! Invariants: a cell (one run of a variant on an arm) is a guest of its own on a drive fresh from power-on. Cells
//! run in parallel, and nothing depends on their order. A failing script costs its cell; a guest that cannot be run
//! ends everything.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_drive::disk::RmwPolicy;
use straddle_measure::bench::Progress;

use crate::guest::{LIBRARY, Partition, Task};
use crate::reproduce::experiment::{LabStep, SECTOR};
use crate::reproduce::float;
use crate::reproduce::lab::compare::{self, Comparison, Figure, Readers};
use crate::reproduce::lab::input::{InputError, Inputs, Prepared};
use crate::reproduce::lab::job::{Ended, Job, JobDrive, LabError, Machine};
use crate::reproduce::policy::Policies;

/// How to run the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Runs per cell, whose mean counts; `None` for the experiment's own number.
    pub runs: Option<u32>,
    /// Seed of the first run. Each further run uses the next number.
    pub seed: u64,
    /// Whether to run at full length what the experiment shortens.
    pub full: bool,
    /// Guests in parallel.
    pub guests: NonZeroUsize,
}

/// A step and the drive to run it on.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'a> {
    /// The step.
    pub step: &'a LabStep,
    /// The drive, as after `drive:`.
    pub drive: &'a str,
    /// The policies of read-modify-write whose figures make a band, if there is to be one.
    pub policies: Option<&'a Policies>,
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The modelled drive it ran on, as after `drive:`.
    pub drive: String,
    /// A description of what the scripts read.
    pub input: Option<String>,
    /// The divisor of the length of shortened parts.
    pub scale: u32,
    /// The cells, by variant, arm and run.
    pub cells: Vec<Cell>,
    /// The figures with the drive's own policy, by measure, variant and arm, as far as there are any.
    pub figures: Vec<Figure>,
    /// Who read before a write, by variant and arm, for steps whose programs write to the drive itself.
    pub readers: Vec<Readers>,
    /// The published figures, with ours beside them.
    pub compared: Vec<Comparison>,
}

/// One guest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cell {
    /// Index of the variant.
    #[serde(skip)]
    pub variant: usize,
    /// Index of the arm.
    #[serde(skip)]
    pub arm: usize,
    /// The read-modify-write policy used instead of the drive's own; absent if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<RmwPolicy>,
    /// The seed of everything random in the guest and its drives.
    pub seed: u64,
    /// The result of its job.
    #[serde(flatten)]
    pub ended: Ended,
    /// Why the run failed: an error of the script, or a missing measurement; absent if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Why the steps could not be run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum ReproduceError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("step {step} of the experiment could not be run")]
    Machine { step: String, source: LabError },
}

straddle_units::error_kind! {
    ReproduceError: Failed;
    Self::Input(error) => error.kind(),
    Self::Machine { source, .. } => source.kind(),
}

struct Pending {
    step: usize,
    variant: usize,
    arm: usize,
    policy: Option<RmwPolicy>,
    job: Job,
}

/// Runs all steps, with as many guests in parallel as the settings say.
pub fn reproduce(
    machine: &dyn Machine,
    planned: &[Planned<'_>],
    inputs: &Inputs,
    settings: Settings,
    progress: &mut dyn Progress,
) -> Result<Vec<StepOutcome>, ReproduceError> {
    let mut prepared = Vec::with_capacity(planned.len());
    for Planned { step, .. } in planned {
        progress.tell("creating the input");
        prepared.push(step.input.as_ref().map(|input| inputs.prepare(input, progress)).transpose()?);
    }
    let mut tasks = Vec::new();
    for (index, (planned, input)) in planned.iter().zip(&prepared).enumerate() {
        tasks.extend(cells_of(index, planned, input.as_ref(), settings));
    }
    let ended = run_all(machine, &tasks, settings.guests, progress).map_err(|(task, source)| {
        ReproduceError::Machine { step: planned[tasks[task].step].step.name.clone(), source }
    })?;
    let mut cells: Vec<Vec<Cell>> = planned.iter().map(|_| Vec::new()).collect();
    for (Pending { step, variant, arm, policy, job }, ended) in tasks.into_iter().zip(ended) {
        let failure = failure(planned[step].step, &ended);
        cells[step].push(Cell { variant, arm, policy, seed: job.seed, ended, failure });
    }
    let mut outcomes = Vec::new();
    for ((Planned { step, drive, policies }, input), cells) in planned.iter().zip(prepared).zip(cells) {
        let scale = if settings.full { 1 } else { step.scale };
        let figures = compare::figures(step, &cells, None, scale);
        let mut others = Vec::new();
        for &policy in policies.iter().flat_map(|policies| &policies.all) {
            let other = Some(policy).filter(|policy| policies.is_some_and(|all| all.own != *policy));
            others.push((policy, compare::figures(step, &cells, other, scale)));
        }
        outcomes.push(StepOutcome {
            drive: (*drive).to_owned(),
            input: input.map(|input| input.description),
            scale,
            compared: compare::banded(step, &figures, &others),
            readers: compare::readers(step, &cells),
            figures,
            cells,
        });
    }
    Ok(outcomes)
}

/// In order: those of an arm with the drive's own policy, then with each of the others.
fn cells_of(
    index: usize,
    planned: &Planned<'_>,
    input: Option<&Prepared>,
    settings: Settings,
) -> Vec<Pending> {
    let Planned { step, drive, .. } = planned;
    let scale = if settings.full { 1 } else { step.scale };
    let runs = settings.runs.unwrap_or(step.runs);
    let others = planned.policies.into_iter().flat_map(Policies::others).map(Some);
    let policies: Vec<Option<RmwPolicy>> = std::iter::once(None).chain(others).collect();
    let mut tasks = Vec::new();
    for (variant, name) in step.variants().into_iter().enumerate() {
        for (arm, wanted) in step.arms.iter().enumerate() {
            for (policy, run) in policies.iter().flat_map(|policy| (0..runs).map(move |run| (*policy, run))) {
                let mut environment = vec![("SCALE".to_owned(), scale.to_string())];
                environment.extend(step.host.environment());
                environment.extend(input.map(|input| input.environment.clone()));
                environment.extend(step.environment.iter().cloned());
                let arguments = step.arguments.iter().chain(&wanted.arguments).cloned();
                let task = Task {
                    script: step.script.clone(),
                    arguments: arguments.chain(name.map(str::to_owned)).collect(),
                    library: LIBRARY.to_owned(),
                    environment,
                    input: input.map(|input| input.folder.clone()),
                    memory: step.memory,
                    settings: step.host.files(),
                    ..Task::default()
                };
                let partition = Partition {
                    start: wanted.start_byte(),
                    size: wanted.length().map(|sectors| sectors * SECTOR),
                    table: step.table,
                };
                let spec = (*drive).to_owned();
                let drive = JobDrive { spec, partition, policy, queue_depth: step.host.queue_depth() };
                let drives = vec![drive; step.members];
                let job = Job { task, drives, seed: settings.seed.wrapping_add(u64::from(run)) };
                tasks.push(Pending { step: index, variant, arm, policy, job });
            }
        }
    }
    tasks
}

/// The results are in the order of the tasks. The first guest that cannot be run becomes the error, with its index.
fn run_all(
    machine: &dyn Machine,
    tasks: &[Pending],
    guests: NonZeroUsize,
    progress: &mut dyn Progress,
) -> Result<Vec<Ended>, (usize, LabError)> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut answers: Vec<Option<Ended>> = tasks.iter().map(|_| None).collect();
    let mut failed = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..guests.get().min(tasks.len()) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    let answer = machine.run(&task.job);
                    if answer.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    // Sending fails only once the receiving scope is being left.
                    let _ = sender.send((index, answer));
                }
            });
        }
        drop(sender);
        let (mut done, mut seconds, all) = (0_u64, 0.0_f64, tasks.len());
        loop {
            let minutes = (seconds / 60.0).floor();
            progress.tell(&format!("{done} of {all} guests, {minutes:.0} min of virtual time"));
            progress.advance(float(done) / float(all.max(1) as u64));
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok((index, Ok(ended))) => {
                    done += 1;
                    seconds += ended.virtual_seconds;
                    answers[index] = Some(ended);
                }
                Ok((index, Err(error))) => {
                    failed.get_or_insert((index, error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    match failed {
        Some(failed) => Err(failed),
        None => Ok(answers.into_iter().flatten().collect()),
    }
}

fn failure(step: &LabStep, ended: &Ended) -> Option<String> {
    if ended.status != 0 {
        let last = ended
            .output
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("the script printed nothing");
        return Some(format!("the script ended with status {}: {last}", ended.status));
    }
    let measured = |name: &str| ended.measures.iter().any(|measured| measured.name == name);
    let missing = step.measures.iter().find(|measure| !measured(&measure.name))?;
    Some(format!("the script did not measure {:?}", missing.name))
}

impl StepOutcome {
    /// Returns the failed cells.
    pub fn failed(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.failure.is_some())
    }

    /// Returns a figure, if its cells have one.
    pub fn figure(&self, measure: usize, variant: usize, arm: usize) -> Option<&Figure> {
        let of = |figure: &&Figure| (figure.measure, figure.variant, figure.arm) == (measure, variant, arm);
        self.figures.iter().find(of)
    }
}
