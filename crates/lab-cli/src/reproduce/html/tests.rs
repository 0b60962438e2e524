//! The page of a fixed result: it has the required contents, is well-formed, and is shown by a browser.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../../tests/tools/legible.rs"]
mod legible;
#[path = "../../../../../tests/tools/skip.rs"]
mod skip;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use straddle_drive::Profile;
use straddle_drive::disk::RmwPolicy;
use straddle_lab::reproduce::experiment::Experiment;
use straddle_lab::reproduce::joint;
use straddle_lab::reproduce::lab::input::Inputs;
use straddle_lab::reproduce::lab::{Ended, Job, LabError, Machine, Measured, Planned, Settings};
use straddle_lab::reproduce::policy::Band;
use straddle_measure::bench::Silent;
use straddle_units::io::Counters;

use super::page;
use crate::reproduce::json::{ReproduceReport, Reproduced, ReproducedExperiment, Way, saved};
use crate::reproduce::{of_run, text};
use straddle_cli::args::SchemaOf;
use straddle_cli::view::json::Document;

/// Answers by variant and arm only.
struct Fixed;

impl Machine for Fixed {
    fn run(&self, job: &Job) -> Result<Ended, LabError> {
        let aligned = job.drives[0].partition.start.unwrap_or(0).is_multiple_of(4096);
        let factor = job.task.arguments.last().map_or(1.0, |variant| match variant.as_str() {
            "reiserfs" => 12.0,
            "xfs" => 0.6,
            _ => 2.0,
        });
        let measured = |line: &'_ str| -> Option<String> {
            let line = line.trim();
            let rest = line.strip_prefix("measure ").or_else(|| line.strip_prefix("measure_requests "))?;
            Some(rest.to_owned())
        };
        let names: Vec<String> = job.task.script.lines().filter_map(measured).collect();
        let names = names.iter().filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
        let names = names.chain(["raw", "raw-sync", "file", "file-sync"].map(str::to_owned));
        let seconds = if aligned { 0.5 } else { 0.5 * factor };
        Ok(Ended {
            status: 0,
            measures: names.map(|name| Measured { name, seconds, requests: None }).collect(),
            output: String::new(),
            virtual_seconds: 90.0,
            wall_seconds: 5.0 * factor,
            requests: 1000,
            counters: vec![Counters { rmw_reads: 4711, ..Counters::default() }],
            charges: "2000 ns a system call".to_owned(),
        })
    }
}

/// Runs experiments on the fixed machine. Their titles are replaced by one with markup in it, which has to be
/// escaped.
fn reproduced(names: &[&str]) -> Reproduced {
    let settings = Settings { runs: Some(1), seed: 7, full: false, guests: NonZeroUsize::new(2).unwrap() };
    let cache = tempfile::tempdir().unwrap();
    let inputs = Inputs { cache: cache.path().to_owned(), seed: 1 };
    let run = |name: &&str| {
        let mut experiment = Experiment::open(name).unwrap();
        "<b>\"Fun\"</b> & more".clone_into(&mut experiment.title);
        experiment.lab.iter_mut().for_each(|step| step.input = None);
        let planned: Vec<_> =
            experiment.lab.iter().map(|step| Planned { step, drive: &step.drive, policies: None }).collect();
        let mut lab =
            straddle_lab::reproduce::lab::reproduce(&Fixed, &planned, &inputs, settings, &mut Silent)
                .unwrap();
        for (step, outcome) in experiment.lab.iter().zip(&mut lab) {
            joint::note_origins(&experiment, step, &Profile::open(&outcome.drive).unwrap(), outcome);
        }
        let outcome = experiment.reproduce(None, &Profile::open).unwrap();
        ReproducedExperiment { experiment, judged: true, outcome: Some(outcome), lab: Some(lab) }
    };
    let way = Way { settings, command: "straddle reproduce --seed 7".to_owned() };
    let experiments: Vec<ReproducedExperiment> = names.iter().map(run).collect();
    Reproduced { judged: of_run(&experiments).unwrap(), experiments, way, wall: Duration::from_secs(10) }
}

#[test]
fn a_page_has_charts_tables_and_the_way_to_run_it_again() {
    let html = page(&reproduced(&["smith-2010", "afd-2019"]));
    let count = |text: &str| html.matches(text).count();
    let charts = 4 * 2 + 1 + 2;
    assert_eq!(
        count("<figure>"),
        charts,
        "a read and a write chart a drive and of LVM, and one each of the others"
    );
    assert_eq!((count("<svg class=\"chart\""), count("role=\"img\"")), (charts, charts));
    assert_eq!(count("<figcaption>"), count("</figure>"));
    let has = |text: &str| assert!(html.contains(text), "{text}");
    has("<td class=\"bad\" ");
    has("<td class=\"good\" ");
    has("4711");
    has("2000 ns a system call");
    has("<pre>straddle reproduce --seed 7</pre>");
    has("&lt;b&gt;&quot;Fun&quot;&lt;/b&gt; &amp; more");
    for absent in ["<b>", "<script", "http://www.w3.org/1999", "src=", "@import", "url(", "#010"] {
        assert!(!html.contains(absent), "{absent}");
    }
    for element in ["section", "table", "tr", "td", "figure", "svg", "details", "p", "main"] {
        let opened = count(&format!("<{element} ")) + count(&format!("<{element}>"));
        assert_eq!(opened, count(&format!("</{element}>")), "{element}");
    }
}

#[test]
fn text_and_json_have_ratios_means_and_what_was_published() {
    let reproduced = reproduced(&["smith-2010"]);
    let shown = text::outcomes(&reproduced, false);
    let rows: Vec<&str> = shown.lines().map(str::trim).filter(|line| line.starts_with("reiserfs")).collect();
    assert_eq!(rows.len(), 4, "three drives, and LVM: {shown}");
    assert_eq!(
        rows[0].split_whitespace().collect::<Vec<_>>(),
        ["reiserfs", "12", "12", "12", "12", "12", "12"]
    );
    // Four file systems with a ratio of 2, one with 12, one with 0.6.
    assert!(shown.lines().any(|line| line.trim().starts_with("mean") && line.contains("3.433")), "{shown}");
    assert!(shown.contains("make, xfs, ratio") && shown.contains(" OUTSIDE"), "{shown}");
    let misses = text::misses(&reproduced);
    assert!(
        misses
            .iter()
            .any(|miss| miss.contains("extract, reiserfs, ratio: modelled 12 times, published 25.53"))
    );
    let json =
        serde_json::to_value(Document::of(SchemaOf::Reproduce, ReproduceReport::of(&reproduced))).unwrap();
    let step = &json["experiments"][0]["lab"][0];
    assert_eq!((&step["drive"], step["cells"].as_array().unwrap().len()), (&"wd10ears".into(), 12));
    assert_eq!(step["published"].as_array().unwrap().len(), 17);
    assert_eq!(json["summary"]["judged"], 49);
    assert_eq!((&json["published"], &json["joint"][0]["figures"]), (&49.into(), &17.into()));
    assert!(
        shown.contains("Compared: 49 of 49. Within 20 %: ") && shown.contains(" of 4 fitted and "),
        "{shown}"
    );
    let schema = serde_json::to_value(crate::json_schema(SchemaOf::Reproduce)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn what_another_policy_explains_is_a_miss_everywhere() {
    let mut run = reproduced(&["smith-2010"]);
    let verdict = run.verdict();
    let misses = text::misses(&run).len();
    assert_eq!(misses, verdict.0 - verdict.1);
    let lab = run.experiments[0].lab.as_mut().unwrap();
    let missed = lab[0].compared.iter_mut().find(|compared| !compared.is_within(0.2)).unwrap();
    let exact =
        vec![(RmwPolicy::Deferred, missed.ours.unwrap()), (RmwPolicy::DestageSerial, missed.published)];
    missed.band = Band::new(exact);
    assert_eq!((run.verdict(), text::misses(&run).len()), (verdict, misses));
    assert_eq!(text::outcomes(&run, false).matches("OUTSIDE, explained").count(), 1);
    let html = page(&run);
    assert_eq!(html.matches("<td class=\"bad\" ").count(), misses);
    // By all its figures, the drive still has its own policy.
    run.judged = of_run(&run.experiments).unwrap();
    assert_eq!(run.judged.joints[0].chosen, Some(RmwPolicy::Deferred));
}

#[test]
fn a_saved_run_is_judged_as_the_run_was() {
    let run = reproduced(&["smith-2010", "afd-2019"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let json = Document::of(SchemaOf::Reproduce, ReproduceReport::of(&run));
    std::fs::write(&path, serde_json::to_string(&json).unwrap()).unwrap();
    let mut parts = Vec::new();
    // A part that is specified twice counts once.
    for _ in 0..2 {
        saved::add(&path, &mut parts).unwrap();
    }
    let mut judged = joint::judge(&parts.into_iter().flat_map(|part| part.figures).collect::<Vec<_>>());
    let mut expected = run.judged.joints;
    // A drive's experiments are in the order of the parts.
    for joint in judged.iter_mut().chain(&mut expected) {
        joint.policies.iter_mut().for_each(|score| score.worst_ratio = (score.worst_ratio * 1e9).round());
    }
    judged.sort_by(|one, other| one.drive.cmp(&other.drive));
    expected.sort_by(|one, other| one.drive.cmp(&other.drive));
    assert_eq!(judged, expected);
    std::fs::write(&path, "{}").unwrap();
    let error = saved::add(&path, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("run.json: is not a result of 'straddle reproduce --json'"), "{error}");
}

/// Returns the browser, or reports that the test is skipped.
fn chromium() -> Option<PathBuf> {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("chromium"))
        .find(|path| path.is_file());
    if found.is_none() {
        skip::skipped("chromium is not installed");
    }
    found
}

/// Returns the browser's output for a page. The browser keeps its own files in `folder`.
fn browse(chromium: &Path, folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1100,2400",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).current_dir(folder);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_browser_shows_it() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page(&reproduced(&["smith-2010"]))).unwrap();
    let address = format!("file://{}", path.display());
    let dom = String::from_utf8(browse(&chromium, folder.path(), &["--dump-dom", &address])).unwrap();
    let count = |text: &str| dom.matches(text).count();
    assert_eq!((count("<svg "), count("</svg>")), (8, 8));
    assert!(dom.contains("<h1>Reproduced: smith-2010</h1>"));
    // Per drive, and for LVM, two tables of times and one of counters, and one of the published figures.
    assert_eq!(count("<caption>"), 4 * 3 + 3);
    browse(&chromium, folder.path(), &["--screenshot=page.png", &address]);
    let picture = std::fs::read(folder.path().join("page.png")).unwrap();
    assert_eq!(picture[1..4], *b"PNG");
    // A blank page of this size compresses to about 10 kB.
    assert!(picture.len() > 60_000, "{} bytes are too few for text and bars", picture.len());
}

#[test]
fn it_can_be_read_on_phones_and_desktops() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let html = page(&reproduced(&["smith-2010", "afd-2019"]));
    for width in [390, 800, 1200] {
        let path = folder.path().join(format!("{width}.html"));
        std::fs::write(&path, legible::framed(&html, width)).unwrap();
        let address = format!("file://{}", path.display());
        let dom = String::from_utf8(browse(&chromium, folder.path(), &["--dump-dom", &address])).unwrap();
        let (seen, wrong) = legible::verdict(&dom);
        assert_eq!(seen, "chart text");
        assert!(wrong.is_empty(), "{width} px: {wrong:#?}");
    }
}
