//! Tests reading experiments and the arithmetic of the comparison. `tests/reproduce.rs` runs the shipped
//! ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use straddle_drive::Profile;

use super::{Experiment, ExperimentError, Measure, Quantity};

const SMALL: &str = r#"
name = "small"
title = "Small"
drive = "wd10ears"
limit_percent = 5
[[sources]]
year = 2010
title = "Nowhere"
[[steps]]
name = "strided"
title = "100 writes"
workload = { kind = "strided-write", count = 100, size = 4096, stride = 16384, sync = "flush" }
[[steps.arms]]
name = "right"
aligned = true
offsets = [0]
published = [{ measure = "elapsed", value = 0.5 }, { measure = "iops", value = 200 }]
[[steps.arms]]
name = "wrong"
offsets = [512, 1024]
published = [{ measure = "elapsed", value = 2, low = 1, high = 3 }, { measure = "iops", value = 50 }]
[[steps.arms]]
name = "not published"
offsets = [1536]
"#;

fn small() -> Experiment {
    Experiment::parse("small", SMALL).unwrap()
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn the_shipped_experiments_are_the_files_and_their_drives_exist() {
    let names: Vec<&str> = Experiment::names().collect();
    assert!(names.is_sorted());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let files: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(files, names.iter().map(|name| (*name).to_owned()).collect());
    for name in names {
        let experiment = Experiment::open(name).unwrap();
        assert_eq!(experiment.name, name);
        assert!(!experiment.sources.is_empty() && experiment.notes.is_some(), "{name}");
        for drive in experiment.drives() {
            Profile::open(drive).unwrap();
        }
    }
}

#[test]
fn a_file_is_an_experiment_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/afd-2019.toml");
    let path = folder.to_str().unwrap();
    assert_eq!(Experiment::open(path).unwrap(), Experiment::open("afd-2019").unwrap());
    assert!(matches!(Experiment::open("./nowhere.toml"), Err(ExperimentError::Unreadable { .. })));
    let unknown = Experiment::open("afd").unwrap_err().to_string();
    assert!(unknown.contains("\"afd\"") && unknown.contains("afd-2019"), "{unknown}");
}

#[test]
fn the_time_of_a_sync_needs_one_in_the_workload() {
    let parsed = |workload: &str| {
        let of_syncs = SMALL.replace(r#"measure = "iops""#, r#"measure = "sync-latency""#);
        let strided = r#"kind = "strided-write", count = 100, size = 4096, stride = 16384, sync = "flush""#;
        assert!(of_syncs.contains(strided));
        Experiment::parse("small", &of_syncs.replace(strided, workload))
    };
    let sequential = r#"kind = "sequential-write", count = 100, size = 4096"#;
    parsed(&format!("{sequential}, fsync_each = 10")).unwrap();
    // dd's single fsync is one.
    parsed(r#"kind = "dd", count = 100, size = 4096"#).unwrap();
    let error = parsed(&format!("{sequential}, fsync_each = 0")).unwrap_err().to_string();
    assert!(error.contains("step strided") && error.contains("a sync time was"), "{error}");
}

#[test]
fn what_makes_no_experiment_is_refused_with_its_place() {
    let refused = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        Experiment::parse("small", &SMALL.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let starts = |text: String, start: &str| assert!(text.starts_with(start), "{text}");
    starts(refused("title = \"Small\"", "titel = \"Small\""), "experiment small: ");
    starts(refused("stride = 16384,", "strid = 16384,"), "experiment small: ");
    starts(
        refused("limit_percent = 5", "limit_percent = 0"),
        "experiment small, limit_percent: must be above 0",
    );
    starts(
        refused("offsets = [0]", "offsets = []"),
        "experiment small, step strided, right: the arm has no offset",
    );
    starts(
        refused("offsets = [512, 1024]", "aligned = true\noffsets = [512]"),
        "experiment small, step strided: more than one arm is marked as aligned",
    );
    starts(
        refused("name = \"wrong\"", "name = \"right\""),
        "experiment small, step strided: the name \"right\" is used twice",
    );
    starts(
        refused("low = 1,", "low = 2.5,"),
        "experiment small, step strided, wrong: 2.5, 2 and 3 must be above 0",
    );
    starts(
        refused("\"iops\", value = 50", "\"elapsed\", value = 50"),
        "experiment small, step strided, wrong: the name \"elapsed\" is used twice",
    );
}

#[test]
fn figures_are_means_and_ratios_are_of_the_cost() {
    let outcome = small().reproduce(None, &Profile::open).unwrap();
    let arms = &outcome.steps[0].arms;
    let seconds = |arm: usize, run: usize| arms[arm].runs[run].elapsed.seconds();
    let mean = f64::midpoint(seconds(1, 0), seconds(1, 1));
    let [elapsed, iops] = &arms[1].figures[..] else { panic!("{:?}", arms[1].figures) };
    assert!(near(elapsed.figure.modelled, mean), "{elapsed:?}");
    assert!(elapsed.lowest <= mean && mean <= elapsed.highest);
    let ratio = elapsed.ratio.as_ref().unwrap();
    assert!(near(ratio.modelled, mean / seconds(0, 0)) && near(ratio.published.unwrap(), 4.0), "{elapsed:?}");
    assert!(near(elapsed.figure.error().unwrap(), mean / 2.0 - 1.0));
    assert!(near(ratio.error().unwrap(), ratio.modelled / 4.0 - 1.0));
    let ratio = iops.ratio.as_ref().unwrap();
    assert!(
        ratio.modelled > 1.0 && near(ratio.published.unwrap(), 4.0),
        "slower is more, for rates too: {iops:?}"
    );
    assert_eq!(arms[0].figures[0].ratio, None);
    let unpublished = &arms[2].figures[0];
    assert_eq!((unpublished.published.clone(), unpublished.figure.error()), (None, None));
    assert_eq!(unpublished.ratio.as_ref().unwrap().published, None);
}

#[test]
fn what_was_published_is_judged_and_nothing_else() {
    let outcome = small().reproduce(None, &Profile::open).unwrap();
    let judged = outcome.judged();
    let kinds: Vec<_> = judged.iter().map(|judged| (judged.arm, judged.measure, judged.quantity)).collect();
    use {Measure::Elapsed, Measure::Iops, Quantity::Figure, Quantity::Ratio};
    let right = [(0, Elapsed, Figure), (0, Iops, Figure)];
    let wrong = [(1, Elapsed, Figure), (1, Elapsed, Ratio), (1, Iops, Figure), (1, Iops, Ratio)];
    assert_eq!(kinds, [&right[..], &wrong[..]].concat());
    let tally = outcome.tally();
    assert_eq!(tally.requests, 400);
    let seconds: f64 =
        outcome.steps[0].arms.iter().flat_map(|arm| &arm.runs).map(|run| run.elapsed.seconds()).sum();
    assert!(near(tally.seconds, seconds));
}

#[test]
fn another_drive_can_be_asked_for_and_must_exist() {
    let outcome = small().reproduce(Some("640gb-512n"), &Profile::open).unwrap();
    assert_eq!(outcome.steps[0].drive, "640gb-512n");
    let ratio = outcome.steps[0].arms[1].figures[0].ratio.as_ref().unwrap().modelled;
    assert!((ratio - 1.0).abs() < 0.05, "no sector to straddle: {ratio}");
    let error = small().reproduce(Some("nothing"), &Profile::open).unwrap_err();
    assert!(matches!(error, ExperimentError::Drive { .. }), "{error}");
    let text = SMALL.replace("count = 100", "count = 1000000000");
    let error = Experiment::parse("small", &text).unwrap().reproduce(None, &Profile::open).unwrap_err();
    assert!(error.to_string().starts_with("experiment small, step strided, "), "{error}");
}

#[test]
fn the_same_requests_give_the_same_figures() {
    let run = || small().reproduce(None, &Profile::open).unwrap().judged();
    assert_eq!(run(), run());
}

#[test]
fn every_published_figure_and_ratio_is_counted() {
    let published: Vec<(&str, f64)> = small().steps[0].published().collect();
    // Seconds and requests a second of two arms, each with a ratio: four times as slow by both.
    assert_eq!(
        published,
        [("s", 0.5), ("IOPS", 200.0), ("s", 2.0), ("times", 4.0), ("IOPS", 50.0), ("times", 4.0)]
    );
}
