//! Runs steps on a machine with fixed numbers: what each guest is given, ratios, statistics and failures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;
use straddle_measure::bench::{Progress, Silent};
use straddle_units::io::Counters;

use crate::guest::{GuestError, Task};
use crate::reproduce::experiment::{Experiment, Statistic};
use crate::reproduce::lab::input::Inputs;
use crate::reproduce::lab::{
    Comparison, Ended, Job, LabError, Machine, Measured, Planned, ReproduceError, Requests, Settings,
    StepOutcome, reproduce,
};
use crate::reproduce::policy::Policies;

const OWN: &str = r#"
name = "own"
title = "Own"
drive = "wd10ears"
[[sources]]
year = 2026
title = "Nowhere"
[[lab]]
name = "copies"
title = "copies"
script = "smith"
arguments = ["first"]
variants = ["a", "b", "c"]
scale = 10
environment = { LAZY = "1" }
measures = [{ name = "make", title = "make" }, { name = "copy", title = "copy", scaled = true, unit = "iops" }]
arms = [{ name = "at 40", aligned = true, start = 40 }, { name = "at 34", start = 34 }]
published = [
    { measure = "make", of = "mean", value = 3.0 },
    { measure = "make", of = "mean", without = "c", value = 2.0 },
    { measure = "make", of = "least", value = 2.0 },
    { measure = "make", of = "greatest", value = 4.0 },
    { measure = "make", of = "each", value = 2.0, low = 1.5, high = 2.5 },
    { measure = "make", variant = "b", value = 3.0 },
    { measure = "copy", variant = "a", arm = "at 40", value = 0.05 },
    { measure = "copy", variant = "a", arm = "at 34", value = 0.02 },
]
"#;

/// Answers with seconds that depend only on variant, arm and seed, and records the jobs it was given.
struct Fixed {
    asked: Mutex<Vec<Job>>,
    /// The variant whose script fails.
    failing: &'static str,
    /// The variant for which no guest can be run.
    broken: &'static str,
}

impl Fixed {
    fn new() -> Self {
        Self { asked: Mutex::new(Vec::new()), failing: "", broken: "" }
    }
}

impl Machine for Fixed {
    fn run(&self, job: &Job) -> Result<Ended, LabError> {
        self.asked.lock().unwrap().push(job.clone());
        let variant = job.task.arguments.last().unwrap().as_str();
        if variant == self.broken {
            return Err(LabError::Guest(GuestError::Interrupted));
        }
        let aligned = job.drives[0].partition.start == Some(40 * 512);
        let ratio = match variant {
            _ if aligned => 1.0,
            "a" => 2.0,
            "b" => 3.0,
            _ => 4.0,
        };
        let serial = !aligned && job.drives[0].policy == Some(RmwPolicy::ImmediateSerial);
        let ratio = if serial { 3.0 * ratio } else { ratio };
        let run = f64::from(u32::try_from(job.seed).unwrap());
        let measured = |name: &str, seconds| {
            let reads = if aligned { 0 } else { 2000 * job.seed };
            Measured { name: name.to_owned(), seconds, requests: Some(Requests { reads, writes: 1000 }) }
        };
        let failed = variant == self.failing;
        Ok(Ended {
            status: i32::from(failed),
            measures: vec![measured("make", 10.0 * ratio * run), measured("copy", 2.0 * ratio)],
            output: if failed { "smith: cannot\n\n".to_owned() } else { String::new() },
            virtual_seconds: 60.0,
            wall_seconds: 1.0,
            requests: 5,
            counters: vec![Counters { rmw_reads: 7, ..Counters::default() }],
            charges: "fixed".to_owned(),
        })
    }
}

fn run(
    machine: &Fixed,
    settings: Settings,
    progress: &mut dyn Progress,
) -> Result<StepOutcome, ReproduceError> {
    let experiment = Experiment::parse("own", OWN).unwrap();
    let planned: Vec<Planned<'_>> =
        experiment.lab.iter().map(|step| Planned { step, drive: "wd10ears", policies: None }).collect();
    let inputs = Inputs { cache: Path::new("/nowhere").to_owned(), seed: 1 };
    Ok(reproduce(machine, &planned, &inputs, settings, progress)?.remove(0))
}

fn settings(runs: u32, full: bool) -> Settings {
    Settings { runs: Some(runs), seed: 1, full, guests: NonZeroUsize::new(3).unwrap() }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn every_cell_is_a_guest_with_its_arguments_start_and_seed() {
    let machine = Fixed::new();
    let outcome = run(&machine, settings(2, false), &mut Silent).unwrap();
    let mut asked = machine.asked.into_inner().unwrap();
    assert_eq!((asked.len(), outcome.cells.len()), (12, 12));
    asked.sort_by_key(|job| (job.task.arguments.clone(), job.drives[0].partition.start, job.seed));
    let Job { drives, task: Task { arguments, environment, memory, .. }, seed } = &asked[0];
    assert_eq!((drives[0].spec.as_str(), drives[0].partition.start), ("wd10ears", Some(34 * 512)));
    assert_eq!((arguments.join(" ").as_str(), *seed, *memory), ("first a", 1, 1 << 30));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(*environment, [pair("SCALE", "10"), pair("LAZY", "1")]);
    let order: Vec<_> = outcome.cells.iter().map(|cell| (cell.variant, cell.arm, cell.seed)).collect();
    assert!(order.is_sorted(), "whichever guest ended first: {order:?}");
}

#[test]
fn figures_are_means_of_the_runs_and_shortened_parts_are_scaled_to_the_whole() {
    let outcome = run(&Fixed::new(), settings(2, false), &mut Silent).unwrap();
    let make = outcome.figure(0, 1, 1).unwrap();
    assert!(near(make.seconds, 45.0) && near(make.least, 30.0) && near(make.greatest, 60.0), "{make:?}");
    assert!(near(make.ratio.unwrap(), 3.0) && outcome.figure(0, 1, 0).unwrap().ratio.is_none());
    assert!(near(outcome.figure(1, 0, 0).unwrap().seconds, 20.0), "2 s of a tenth");
    let full = run(&Fixed::new(), settings(1, true), &mut Silent).unwrap();
    assert!(near(full.figure(1, 0, 0).unwrap().seconds, 2.0));
    assert_eq!((outcome.scale, full.scale), (10, 1));
    // b made in 30 and 60 s where misaligned, in 10 and 20 s where aligned. Copies take the same time in each run.
    let sampling = |outcome: &StepOutcome, index: usize| outcome.compared[index].sampling;
    let (low, high) = sampling(&outcome, 5).unwrap();
    assert!(near(low, 1.5) && near(high, 6.0), "{low} {high}");
    assert_eq!((sampling(&outcome, 6), sampling(&full, 5)), (None, None), "one run has no range");
}

#[test]
fn every_published_figure_has_ours_beside_it() {
    let outcome = run(&Fixed::new(), settings(1, false), &mut Silent).unwrap();
    let ours: Vec<f64> = outcome.compared.iter().map(|compared| compared.ours.unwrap()).collect();
    // Means with and without c, smallest, largest, the farthest, b's; then a's rates (20 s and 40 s each) and
    // their ratio.
    let expected = [3.0, 2.5, 2.0, 4.0, 4.0, 3.0, 0.05, 0.025, 2.0];
    assert!(ours.iter().zip(expected).all(|(ours, expected)| near(*ours, expected)), "{ours:?}");
    assert_eq!(ours.len(), expected.len());
    let errors: Vec<f64> = outcome.compared.iter().map(|compared| compared.error().unwrap()).collect();
    let expected = [0.0, 0.25, 0.0, 0.0, 4.0 / 2.5 - 1.0, 0.0, 0.0, 0.25, 2.0 / 2.5 - 1.0];
    assert!(errors.iter().zip(expected).all(|(error, expected)| near(*error, expected)), "{errors:?}");
    let within = outcome.compared.iter().filter(|compared| compared.is_within(0.2)).count();
    assert_eq!(within, 6);
}

#[test]
fn policies_give_a_band_beside_the_drives_own_figure() {
    let machine = Fixed::new();
    let experiment = Experiment::parse("own", OWN).unwrap();
    let policies = Policies::of(&Profile::open("wd10ears").unwrap()).unwrap();
    assert_eq!((policies.own, policies.all.len()), (RmwPolicy::Deferred, 6));
    let planned = [Planned { step: &experiment.lab[0], drive: "wd10ears", policies: Some(&policies) }];
    let inputs = Inputs { cache: Path::new("/nowhere").to_owned(), seed: 1 };
    let outcome = reproduce(&machine, &planned, &inputs, settings(1, false), &mut Silent).unwrap().remove(0);
    let asked = machine.asked.into_inner().unwrap();
    let count = |policy| asked.iter().filter(|job| job.drives[0].policy == policy).count();
    // The drive's own policy is not run twice.
    assert_eq!((count(None), count(Some(policies.own)), asked.len()), (6, 0, 36));
    assert!(policies.others().all(|policy| count(Some(policy)) == 6));
    // The serial policy takes three times as long where a partition is misaligned; see `Fixed`.
    let own = run(&Fixed::new(), settings(1, false), &mut Silent).unwrap();
    let alone: Vec<_> = own.compared.iter().map(|compared| compared.ours).collect();
    let beside: Vec<_> = outcome.compared.iter().map(|compared| compared.ours).collect();
    assert_eq!(alone, beside, "a band changes no figure");
    let band = outcome.compared[0].band.clone().unwrap();
    assert_eq!(band.values.len(), 6);
    assert!(near(band.lowest(), 3.0) && near(band.highest(), 9.0), "{band:?}");
    assert!(outcome.compared[0].is_explained(0.2) && own.compared[0].band.is_none());
    // b's ratio was published as 3, in 3..9; the smallest as 2, in 2..6.
    assert!(outcome.compared[5].is_explained(0.2) && outcome.compared[2].is_explained(0.2));
    assert!(!own.compared[5].is_explained(0.2));
}

#[test]
fn reads_of_the_kernel_and_of_the_drive_are_counted_apart() {
    let text = OWN.replace(
        "{ name = \"make\", title = \"make\" }",
        "{ name = \"make\", title = \"make\", raw = true }",
    );
    let experiment = Experiment::parse("own", &text).unwrap();
    let planned = [Planned { step: &experiment.lab[0], drive: "wd10ears", policies: None }];
    let inputs = Inputs { cache: Path::new("/nowhere").to_owned(), seed: 1 };
    let run = |machine: &Fixed| {
        reproduce(machine, &planned, &inputs, settings(2, false), &mut Silent).unwrap().remove(0)
    };
    let readers = run(&Fixed::new()).readers;
    assert_eq!(readers.len(), 6);
    let of = |variant, arm| readers.iter().find(|one| (one.variant, one.arm) == (variant, arm)).unwrap();
    // Seeds 1 and 2: reads are 2000 times the seed where misaligned, the drive's are 7.
    assert!(near(of(1, 1).kernel, 3000.0) && near(of(1, 1).writes, 1000.0) && near(of(1, 1).drive, 7.0));
    assert!(near(of(1, 0).kernel, 0.0));
    // Seven sectors of 1000 writes are too few to matter.
    assert_eq!((of(1, 1).whose(), of(1, 0).whose()), (vec!["kernel"], Vec::new()));
    assert_eq!(run(&Fixed { failing: "b", ..Fixed::new() }).readers.len(), 4);
    let own = Experiment::parse("own", OWN).unwrap();
    let planned = [Planned { step: &own.lab[0], drive: "wd10ears", policies: None }];
    let others =
        reproduce(&Fixed::new(), &planned, &inputs, settings(1, false), &mut Silent).unwrap().remove(0);
    assert!(others.readers.is_empty(), "a file system reads for other reasons too");
}

#[test]
fn in_a_range_nothing_is_off() {
    let each = |ours| Comparison {
        measure: 0,
        arm: 1,
        variant: None,
        of: Statistic::Each,
        without: None,
        unit: None,
        ours: Some(ours),
        published: 1.1,
        range: Some((0.95, 1.25)),
        note: None,
        sampling: None,
        origin: None,
        band: None,
    };
    assert!(near(each(0.96).error().unwrap(), 0.0) && near(each(1.25).error().unwrap(), 0.0));
    assert!(near(each(0.475).error().unwrap(), -0.5) && near(each(2.5).error().unwrap(), 1.0));
}

#[test]
fn a_failing_script_costs_its_cells_and_what_depends_on_them() {
    let machine = Fixed { failing: "b", ..Fixed::new() };
    let outcome = run(&machine, settings(1, false), &mut Silent).unwrap();
    let failures: Vec<&str> = outcome.failed().map(|cell| cell.failure.as_deref().unwrap()).collect();
    assert_eq!(failures, ["the script ended with status 1: smith: cannot"; 2]);
    let ours: Vec<bool> = outcome.compared.iter().map(|compared| compared.ours.is_some()).collect();
    assert_eq!(ours, [false, false, false, false, false, false, true, true, true]);
    assert!(!outcome.compared[0].is_within(100.0), "what is missing is not reproduced");
}

#[test]
fn a_guest_that_cannot_be_run_ends_it_all() {
    let machine = Fixed { broken: "a", ..Fixed::new() };
    let error = run(&machine, settings(50, false), &mut Silent).unwrap_err();
    assert!(matches!(&error, ReproduceError::Machine { step, .. } if step == "copies"), "{error}");
    assert!(machine.asked.into_inner().unwrap().len() <= 6, "the others are not tried in vain");
}

#[test]
fn progress_ends_with_all_guests() {
    struct Last(f64, String);
    impl Progress for Last {
        fn advance(&mut self, share: f64) {
            self.0 = share;
        }
        fn tell(&mut self, what: &str) {
            what.clone_into(&mut self.1);
        }
    }
    let mut last = Last(0.0, String::new());
    run(&Fixed::new(), settings(1, false), &mut last).unwrap();
    assert_eq!(
        (last.0.to_bits(), last.1.as_str()),
        (1.0_f64.to_bits(), "6 of 6 guests, 6 min of virtual time")
    );
}
