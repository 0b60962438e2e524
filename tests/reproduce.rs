//! `straddle reproduce` and `straddle drive fit` from the command line: the published figures are reproduced
//! within each experiment's tolerance, and deviations are reported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tools::skip::{is_quick, is_sampled};
use tools::{json, root, straddle};

#[test]
fn every_published_figure_but_one_is_reproduced_within_its_limit() {
    // `make quick` leaves out the longest: lulf-2010 and desno-2010.
    let names =
        if is_quick() { &["miller-2010", "smith-2010", "spectre256-2012", "afd-2019"][..] } else { &[] };
    let run = straddle(&[&["reproduce", "--model-only", "--json"], names].concat());
    assert_eq!(run.code, 3, "{}", run.err);
    let missed: Vec<&str> = run.err.lines().collect();
    assert_eq!(missed.len(), 1, "{missed:?}");
    // 1000 writes with a flush each took 16.17 s; the modelled drive takes 11.1 s.
    assert!(missed[0].starts_with("straddle: spectre256-2012: random-writes, offset 0: "), "{missed:?}");
    let report = run.valid("reproduce");
    let counted = |name: &str| report["summary"][name].as_u64().unwrap();
    assert_eq!(counted("judged"), counted("within") + 1);
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
    assert!(brief.lines().all(|line| line.chars().count() <= 80), "{brief}");
    assert!(brief.contains("118 IOPS") && brief.lines().count() < 40, "{brief}");
    let run = straddle(&["reproduce", "miller-2010", "afd-2019", "--model-only", "--verbose"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let out = tools::flat(&run.out);
    let has = |text: &str| assert!(out.contains(text), "{text}: {out}");
    has("https://www.osnews.com/story/22872/");
    has("7.5 s (7 to 8)");
    has("differs: At offsets 1 to 7 the published program's writes did not reach the drive in this form");
    has("118 IOPS");
    has("needs the lab, not run: mke2fs");
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
            "straddle: afd-2019: synchronous-writes, at sector 256000: requests a second: modelled "
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
    assert_eq!(policies.len(), 4);
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

#[test]
fn one_policy_is_chosen_for_each_drive_by_its_raw_figures() {
    let names: &[&str] = if is_sampled() { &["afd-2019"] } else { &[] };
    let report = json("reproduce", &[&["reproduce", "--policies", "--json"], names].concat());
    let choices = report["policies"].as_array().unwrap();
    let chosen = |name: &str| {
        let choice = choices.iter().find(|choice| choice["drive"] == name)?;
        choice["chosen"].as_str()
    };
    if is_sampled() {
        assert_eq!(chosen("dell-6tb-7200-512e"), Some("destage-serial"));
    } else {
        assert_eq!(chosen("wd20ears"), Some("immediate-serial"));
        assert_eq!(chosen("wd20ears-lulf"), Some("deferred"));
    }
    for choice in choices {
        let worst = choice["worst"].as_object().unwrap();
        let least = worst.values().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
        if let Some(chosen) = choice["chosen"].as_str() {
            assert!((worst[chosen].as_f64().unwrap() - least).abs() < 1e-12, "{choice}");
        }
    }
}

#[test]
fn the_policy_of_one_drive_is_chosen_by_the_name_that_the_list_prints() {
    let report =
        json("reproduce", &["reproduce", "--policies", "--json", "--drive", "wd10ears", "desno-2010"]);
    let choices = report["policies"].as_array().unwrap();
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0]["drive"], "wd10ears");
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
    for name in
        ["afd-2019", "desno-2010", "lulf-2010", "miller-2010", "pronk-2010", "smith-2010", "spectre256-2012"]
    {
        assert!(run.out.contains(&format!("{name}: ")), "{}", run.out);
    }
    let report = json("reproduce", &["reproduce", "--list", "--json"]);
    assert!(report.get("summary").is_none());
    assert_eq!(report["experiments"].as_array().unwrap().len(), 7);
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
        &["reproduce", "--policies", "--list"],
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
