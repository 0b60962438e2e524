//! `straddle reproduce` and `straddle drive fit` from the command line: the published figures are reproduced
//! within each experiment's tolerance, and deviations are reported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tools::skip::is_quick;
use tools::{json, root, straddle};

#[test]
fn every_published_figure_is_reproduced_within_its_limit() {
    // `make quick` leaves out the longest: lulf-2010 and desno-2010.
    let names =
        if is_quick() { &["miller-2010", "smith-2010", "spectre256-2012", "afd-2019"][..] } else { &[] };
    let run = straddle(&[&["reproduce", "--model-only", "--json"], names].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let report = run.valid("reproduce");
    let counted = |name: &str| report["summary"][name].as_u64().unwrap();
    assert_eq!(counted("judged"), counted("within"));
    assert!(counted("judged") >= if is_quick() { 6 } else { 26 }, "{}", report["summary"]);
    for experiment in report["experiments"].as_array().unwrap() {
        assert!(experiment["limit"].as_f64().unwrap() <= 0.2, "{}", experiment["name"]);
    }
}

/// A modelled figure of an experiment: the first measure of this step and arm.
fn modelled(report: &Value, step: usize, arm: usize) -> f64 {
    report["experiments"][0]["steps"][step]["arms"][arm]["figures"][0]["modelled"].as_f64().unwrap()
}

#[test]
fn every_misaligned_offset_costs_the_same_and_512n_has_none() {
    let report = json("reproduce", &["reproduce", "spectre256-2012", "--model-only", "--json"]);
    assert!(modelled(&report, 0, 1) > 2.0 * modelled(&report, 0, 0));
    let control = modelled(&report, 1, 1) / modelled(&report, 1, 0);
    assert!((control - 1.0).abs() < 0.02, "the control has nothing to straddle: {control}");
    let steps = &report["experiments"][0]["steps"];
    assert!(
        steps[0]["arms"][1]["figures"][0].get("within").is_none(),
        "what was published is not of these requests"
    );
    assert!(steps[0]["arms"][1]["rmw_reads_per_request"].as_f64().unwrap() > 1.9);
    assert_eq!(steps[1]["arms"][1]["rmw_reads_per_request"], 0.0);
}

#[test]
fn the_text_has_ours_the_published_figure_and_what_was_not_run() {
    let brief = straddle(&["reproduce", "miller-2010", "afd-2019", "--model-only"]).out;
    assert!(brief.starts_with("7 of 7 published figures and ratios are within their limits.\n"), "{brief}");
    let compared =
        "Compared: 7 of 29. Within 20 %: 7 of 7, all fitted: the model was adjusted to match them.";
    assert!(tools::flat(&brief).contains(compared), "{brief}");
    assert!(
        brief.contains("\n  Misaligned accesses take 3.017 to 3.068 times as long as aligned ones.\n"),
        "{brief}"
    );
    assert!(brief.lines().all(|line| line.chars().count() <= 80), "{brief}");
    assert!(brief.contains("118 IOPS") && brief.lines().count() < 40, "{brief}");
    let run = straddle(&["reproduce", "miller-2010", "afd-2019", "--model-only", "--verbose"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let out = tools::flat(&run.out);
    let has = |text: &str| assert!(out.contains(text), "{text}: {out}");
    has("https://www.osnews.com/story/22872/");
    has("7.5 s (7 to 8)");
    has(
        "differs: At offsets 1 to 7, the writes of the published program did not reach the drive in this form",
    );
    has("118 IOPS");
    has("not run, because it needs the lab: mke2fs");
    has("fitted to miller-2010");
    has("1 of 1 published figures and ratios are within 20 %");
    assert!(!run.out.contains("OUTSIDE") && !run.out.contains("\\n"), "{}", run.out);
}

#[test]
fn a_figure_that_is_missed_is_named_and_fails() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("strict.toml");
    let text = fs::read_to_string(root().join("experiments/afd-2019.toml")).unwrap();
    let text = text.replace("value = 118 }", "value = 90 }").replace("\"afd\"", "\"afd.sh\"");
    fs::write(&path, text).unwrap();
    fs::copy(root().join("experiments/scripts/afd.sh"), dir.path().join("afd.sh")).unwrap();
    let path = path.to_str().unwrap();
    let run = straddle(&["reproduce", path, "--model-only"]);
    assert_eq!(run.code, 3, "{}", run.out);
    assert!(run.out.contains(" OUTSIDE"), "{}", run.out);
    let missed: Vec<&str> = run.err.lines().collect();
    assert!(
        missed[0].starts_with(
            "straddle: afd-2019: synchronous-writes, at sector 256000: requests per second: modelled "
        ),
        "{missed:?}"
    );
    assert!(missed[0].ends_with("the limit is 20 %"), "{missed:?}");
    let report = straddle(&["reproduce", path, "--model-only", "--json"]).valid("reproduce");
    assert_eq!(report["experiments"][0]["steps"][0]["arms"][0]["figures"][0]["within"], false);
}

#[test]
fn a_drive_that_was_published_of_chooses_its_part() {
    let report = json(
        "reproduce",
        &["reproduce", "--model-only", "--drive", "640gb-512n", "--json", "spectre256-2012"],
    );
    let steps = report["experiments"][0]["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["name"]), (1, &"random-writes-512n".into()));
}

#[test]
fn a_band_spans_what_the_plausible_policies_give() {
    let report = json("reproduce", &["reproduce", "afd-2019", "--model-only", "--json"]);
    let figure = |arm: usize| &report["experiments"][0]["steps"][0]["arms"][arm]["figures"][0];
    let own = figure(1)["modelled"].as_f64().unwrap();
    let band = &figure(1)["band"];
    let (low, high) = (band["lowest"].as_f64().unwrap(), band["highest"].as_f64().unwrap());
    assert!(low <= own && own <= high && high > 1.2 * low, "{band}");
    let policies = band["policies"].as_object().unwrap();
    assert_eq!(policies.len(), 6);
    // The profile's own policy is one of them, and changes nothing.
    assert!(policies.values().any(|value| value.as_f64() == Some(own)), "{band} {own}");
    // No part of a sector is written where all is aligned, so there no policy matters.
    assert!(figure(0)["band"].get("nearest").is_none(), "{}", figure(0)["band"]);
    let control = json(
        "reproduce",
        &["reproduce", "spectre256-2012", "--model-only", "--drive", "640gb-512n", "--json"],
    );
    let figure = &control["experiments"][0]["steps"][0]["arms"][1]["figures"][0];
    assert!(figure.get("band").is_none(), "a drive of 512-byte sectors has no policy: {figure}");
}

/// The shipped results.
fn results() -> Vec<String> {
    let files = fs::read_dir(root().join("docs/results")).unwrap();
    let mut paths: Vec<String> =
        files.map(|file| file.unwrap().path().to_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}

static NULL: Value = Value::Null;

/// Adds the published figures of a result to the count of each drive and policy: how many, and within 20 %
/// how many.
fn count(result: &Value, counts: &mut BTreeMap<(String, String), (u64, u64)>) {
    let mut add = |drive: &Value, published: &Value, range: &Value, band: &Value| {
        let Some(published) = published.as_f64() else { return };
        let drive = drive.as_str().unwrap().split(',').next().unwrap();
        let Some(policies) = band["policies"].as_object() else {
            counts.insert((drive.to_owned(), String::new()), (0, 0));
            return;
        };
        for (policy, value) in policies {
            let value = value.as_f64().unwrap();
            let low = range[0].as_f64().map_or(value / published, |low| value / low);
            let high = range[1].as_f64().map_or(value / published, |high| value / high);
            let count = counts.entry((drive.to_owned(), policy.clone())).or_default();
            *count = (count.0 + 1, count.1 + u64::from(low >= 0.8 && high <= 1.2));
        }
    };
    for experiment in result["experiments"].as_array().unwrap() {
        for step in experiment["steps"].as_array().unwrap() {
            let arms = step["arms"].as_array().unwrap().iter();
            for figure in arms.flat_map(|arm| arm["figures"].as_array().unwrap()) {
                add(&step["drive"], &figure["published"]["value"], &NULL, &figure["band"]);
                add(&step["drive"], &figure["published_ratio"], &NULL, &figure["ratio_band"]);
            }
        }
        for step in experiment["lab"].as_array().unwrap() {
            for figure in step["published"].as_array().unwrap() {
                let range = if figure["of"] == "each" { &figure["range"] } else { &NULL };
                add(&step["drive"], &figure["published"], range, &figure["band"]);
            }
        }
    }
}

#[test]
fn each_policy_is_counted_over_all_figures_of_a_drive() {
    let paths = results();
    let mut counts = BTreeMap::new();
    for path in &paths {
        count(&serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(), &mut counts);
    }
    // The results have all figures: nothing is run again.
    let given: Vec<&str> = paths.iter().map(String::as_str).collect();
    let report = json("reproduce", &[&["reproduce", "--json", "--joint"][..], &given[..]].concat());
    let drives = report["joint"].as_array().unwrap();
    let mut found = BTreeMap::new();
    for drive in drives {
        let scores = drive["policies"].as_array().unwrap();
        for score in scores.iter().filter(|score| score["policy"].is_string()) {
            let name = |value: &Value| value.as_str().unwrap().to_owned();
            let number = |key: &str| score[key].as_u64().unwrap();
            let key = (name(&drive["drive"]), name(&score["policy"]));
            found.insert(key, (number("figures"), number("within_20_percent")));
        }
        assert_eq!(drive["chosen"], scores[0]["policy"]);
    }
    // Without a band, a figure is that of the drive's own policy, which a result does not name.
    let is_banded = |key: &(String, String)| !counts.contains_key(&(key.0.clone(), String::new()));
    found.retain(|key, _| is_banded(key));
    assert!(
        found.len() >= 18 && found.iter().eq(counts.iter().filter(|entry| is_banded(entry.0))),
        "{found:?}"
    );
    let figures: u64 = drives.iter().map(|drive| drive["figures"].as_u64().unwrap()).sum();
    assert!(figures >= 80 && report["published"] == figures, "{figures} of {}", report["published"]);
    // The WD drive has figures in two articles, so that each can be left out.
    let wd = drives.iter().find(|drive| drive["drive"] == "wd10ears").unwrap();
    let left: Vec<&Value> =
        wd["left_out"].as_array().unwrap().iter().map(|left| &left["experiment"]).collect();
    assert_eq!(left, ["desno-2010", "smith-2010"]);
    let text = straddle(&[&["reproduce", "--joint"][..], &given[..]].concat());
    assert!(text.out.contains(&format!("Compared: {figures} of {figures}.")), "{}", text.out);
    assert!(text.out.lines().all(|line| line.chars().count() <= 80), "{}", text.out);
}

#[test]
fn without_results_the_raw_figures_are_judged() {
    let report = json("reproduce", &["reproduce", "afd-2019", "--json", "--joint"]);
    let drive = &report["joint"][0];
    assert_eq!((&drive["drive"], &drive["figures"]), (&"dell-6tb-7200-512e".into(), &6.into()));
    assert_eq!((&report["published"], &drive["fitted"]), (&18.into(), &6.into()));
    let scores = drive["policies"].as_array().unwrap();
    assert!(scores.len() > 1 && scores[0]["within_20_percent"] == 6, "{drive}");
    let none = json("reproduce", &["reproduce", "afd-2019", "--json", "--drive", "wd10ears", "--joint"]);
    assert_eq!(none["joint"].as_array().unwrap().len(), 0);
}

#[test]
fn on_another_drive_nothing_is_judged() {
    let run = straddle(&["reproduce", "afd-2019", "--model-only", "-v", "--drive", "drive:640gb-512n"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.contains("drive:640gb-512n") && run.out.contains("Not compared"), "{}", run.out);
    let report =
        json("reproduce", &["reproduce", "afd-2019", "--model-only", "--drive", "640gb-512n", "--json"]);
    assert_eq!(report["summary"]["judged"], 0);
}

#[test]
fn the_list_names_all_and_runs_none() {
    let run = straddle(&["reproduce", "--list"]);
    for name in [
        "afd-2019",
        "arrays",
        "desno-2010",
        "lulf-2010",
        "miller-2010",
        "pronk-2010",
        "smith-2010",
        "spectre256-2012",
    ] {
        assert!(run.out.contains(&format!("{name}: ")), "{}", run.out);
    }
    let report = json("reproduce", &["reproduce", "--list", "--json"]);
    assert!(report.get("summary").is_none());
    assert_eq!(report["experiments"].as_array().unwrap().len(), 8);
}

#[test]
fn what_is_no_experiment_and_no_drive_is_a_usage_error() {
    for arguments in [
        &["reproduce", "nothing"][..],
        &["reproduce", "./nothing.toml"],
        &["reproduce", "afd-2019", "--drive", "nothing"],
        &["reproduce", "--list", "--drive", "wd10ears"],
        &["reproduce", "--model-only", "--lab-only"],
        &["reproduce", "--runs", "0"],
        &["reproduce", "--bands", "--model-only"],
        &["reproduce", "--joint", "--list"],
        &["reproduce", "--joint", "nowhere.json"],
        &["reproduce", "--guests", "0"],
        &["drive", "fit", "nothing"],
        &["drive", "fit", "3tb-512e-2012"],
    ] {
        let run = straddle(arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.err);
    }
}

#[test]
fn a_fit_reproduces_the_shipped_numbers_and_writes_them_with_their_source() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("fitted.toml");
    let path = path.to_str().unwrap();
    let run = straddle(&["drive", "fit", "wd-green-2010", "--write", path, "--json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let report = run.valid("drive-fit");
    for knob in report["knobs"].as_array().unwrap() {
        assert_eq!(knob["before"], knob["after"], "the shipped number is not the fitted one");
    }
    assert!(report["worst_after"].as_f64().unwrap() < 0.2);
    let shown = straddle(&["drive", "show", path]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    let shown = tools::flat(&shown.out);
    assert!(shown.contains("fitted to miller-2010 by straddle drive fit"), "{shown}");
    let text = straddle(&["drive", "fit", "dell-6tb-7200-512e"]);
    assert!(text.out.contains("has no parameters to fit") && text.out.contains("118 IOPS"), "{}", text.out);
}
