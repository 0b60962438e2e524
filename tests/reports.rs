//! `check --output-format`, read by the programs and libraries that such reports are for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::fs;
use std::process::Command;

use serde_json::Value;
use tools::{Dir, STRADDLE, list, output, present, run, shell, text, word};

/// The interpreter that has Debian's modules.
const PYTHON: &str = "/usr/bin/python3";

/// Names that mean something in one of the formats.
const NAMES: [&str; 4] = ["a,b \"c\".img", "=1+1%0A::error.img", "<x>&'.img", "back\\slash\u{202e}\nend.img"];

/// A misaligned disk under each name, an aligned one, what is no disk, and a missing file.
fn disks() -> (Dir, Vec<String>) {
    let dir = Dir::new("reports");
    for name in NAMES {
        let image = dir.image(name, 64 << 20);
        tools::write_table(&image, 512, "label: dos\nstart=63, size=40000, type=83\n");
    }
    let image = dir.image("right.img", 64 << 20);
    tools::write_table(&image, 512, "label: gpt\nstart=2048, size=40000\n");
    fs::write(dir.join("noise"), b"not a disk ".repeat(1000)).unwrap();
    let others = ["right.img", "noise", "missing"];
    let names = NAMES.iter().chain(&others).map(|name| (*name).to_owned()).collect();
    (dir, names)
}

fn report(format: &str) -> (Dir, String) {
    let (dir, names) = disks();
    let arguments = ["check", "--output-format", format, "--"];
    let out = output(Command::new(STRADDLE).args(arguments).args(&names).current_dir(dir.path()), "");
    assert_eq!(out.status.code(), Some(3), "{}", tools::transcript(&out));
    fs::write(dir.join("report"), &out.stdout).unwrap();
    (dir, text(&out.stdout))
}

/// What `check --json` finds on the same disks: target, code, severity.
fn found() -> Vec<[String; 3]> {
    let (dir, names) = disks();
    let arguments = ["check", "--json", "--"];
    let out = output(Command::new(STRADDLE).args(arguments).args(&names).current_dir(dir.path()), "");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let of = |target: &Value| {
        let name = word(target, "target");
        let row = |finding: &Value| [name.clone(), word(finding, "code"), word(finding, "severity")];
        list(target, "findings").iter().map(row).collect::<Vec<_>>()
    };
    let found: Vec<[String; 3]> = list(&all, "targets").iter().flat_map(of).collect();
    assert!(found.len() >= 4 * 2, "{found:?}");
    found
}

fn python(dir: &Dir, script: &str) -> Value {
    let out = run(Command::new(PYTHON).args(["-c", script]).current_dir(dir.path()), "");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn sarif_has_every_finding_and_nothing_unknown() {
    if !present(&["sfdisk"]) {
        return;
    }
    let (_dir, report) = report("sarif");
    let value: Value = serde_json::from_str(&report).unwrap();
    let typed: serde_sarif::sarif::Sarif = serde_json::from_str(&report).unwrap();
    // A name that SARIF does not have would be lost.
    assert_eq!(serde_json::to_value(&typed).unwrap(), value);
    let run = &value["runs"][0];
    let results = list(run, "results");
    let rows: Vec<[String; 2]> =
        results.iter().map(|result| [word(result, "ruleId"), word(result, "level")]).collect();
    let level = |severity: &str| if severity == "advice" { "note".to_owned() } else { severity.to_owned() };
    let expected: Vec<[String; 2]> =
        found().into_iter().map(|[_, code, severity]| [code, level(&severity)]).collect();
    assert_eq!(rows, expected);
    for result in results {
        // Code scanning shows no result without a line.
        let region = &result["locations"][0]["physicalLocation"]["region"];
        assert_eq!(region["startLine"], 1, "{result}");
        assert!(result["ruleId"] != "S001" || region["byteOffset"] == 63 * 512, "{result}");
        let rule = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(run["tool"]["driver"]["rules"][rule]["id"], result["ruleId"]);
    }
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], Value::Bool(false));
    assert_eq!(list(invocation, "toolExecutionNotifications").len(), 2);
}

#[test]
fn junit_is_well_formed_and_counts_right() {
    if !present(&["sfdisk", "xmllint", "python3"]) {
        return;
    }
    let (dir, _) = report("junit");
    shell("xmllint --noout report", dir.path());
    let counted = python(
        &dir,
        "import json, xml.etree.ElementTree as tree\n\
         suites = tree.parse('report').getroot()\n\
         for suite in suites:\n\
         \x20   for tag, key in ('testcase', 'tests'), ('failure', 'failures'), ('error', 'errors'), ('skipped', 'skipped'):\n\
         \x20       assert len(list(suite.iter(tag))) == int(suite.get(key)), (suite.get('name'), key)\n\
         print(json.dumps([len(suites), len(list(suites.iter('failure'))), len(list(suites.iter('error'))), len(list(suites.iter('skipped')))]))",
    );
    let failures = found().iter().filter(|[_, _, severity]| severity != "advice").count();
    assert_eq!(counted, serde_json::json!([7, failures, 2, 0]));
    let arguments = ["check", "--allow-unknown", "--output-format", "junit", "noise"];
    let allowed = output(Command::new(STRADDLE).args(arguments).current_dir(dir.path()), "");
    assert_eq!(allowed.status.code(), Some(0));
    assert!(
        text(&allowed.stdout).contains("<skipped message=\"not judged: "),
        "{}",
        tools::transcript(&allowed)
    );
}

#[test]
fn github_has_a_command_a_line() {
    if !present(&["sfdisk"]) {
        return;
    }
    let (_dir, report) = report("github");
    for line in report.lines() {
        let (command, _) = line.strip_prefix("::").and_then(|line| line.split_once(" title=")).unwrap();
        assert!(matches!(command, "error" | "warning" | "notice"), "{line}");
    }
    assert_eq!(report.lines().count(), found().len() + 2);
}

#[test]
fn csv_is_read_back() {
    if !present(&["sfdisk", "python3"]) {
        return;
    }
    let (dir, _) = report("csv");
    let rows = python(
        &dir,
        "import csv, json\n\
         rows = list(csv.DictReader(open('report', newline=''), strict=True))\n\
         assert all(None not in row and None not in row.values() for row in rows)\n\
         print(json.dumps([[row['target'], row['code'], row['severity']] for row in rows if row['code']]))",
    );
    let shown = |name: &str| match name.starts_with('=') {
        true => format!("\t{name}"),
        false => name.replace('\u{202e}', "\\u{202e}"),
    };
    let expected: Vec<[String; 3]> =
        found().into_iter().map(|[target, code, severity]| [shown(&target), code, severity]).collect();
    assert_eq!(rows, serde_json::json!(expected));
}

#[test]
fn prometheus_reads_every_sample() {
    if !present(&["sfdisk", "python3"]) {
        return;
    }
    if !Command::new(PYTHON).args(["-c", "import prometheus_client"]).status().unwrap().success() {
        tools::skip::skipped("python3-prometheus-client is not installed");
        return;
    }
    let (dir, _) = report("prometheus");
    let read = python(
        &dir,
        "import json\n\
         from prometheus_client.parser import text_string_to_metric_families as families\n\
         families = list(families(open('report').read()))\n\
         names = [family.name for family in families]\n\
         assert len(names) == len(set(names)), names\n\
         assert all(family.documentation and family.type == 'gauge' for family in families)\n\
         total = lambda name: sum(sample.value for family in families if family.name == name for sample in family.samples)\n\
         print(json.dumps([total('straddle_findings'), total('straddle_target_judged'), total('straddle_misaligned_partitions'), len(names)]))",
    );
    let found = u32::try_from(found().len()).unwrap();
    assert_eq!(read, serde_json::json!([f64::from(found), 5.0, 4.0, 7]));
}

/// What is asked for twice, or of another command, is refused.
#[test]
fn only_one_form_is_printed() {
    for arguments in [
        &["check", "--output-format", "csv", "--json", "x"][..],
        &["check", "--output-format", "csv", "--quiet", "x"],
        &["map", "--output-format", "csv", "x"],
        &["check", "--output-format", "yaml", "x"],
    ] {
        let out = output(Command::new(STRADDLE).args(arguments), "");
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(out.stdout.is_empty());
    }
}

/// A disk whose partitioning failed: blank, or with an empty table. Neither is a finding, and both are reported.
#[test]
fn what_holds_nothing_to_judge_is_said_and_can_fail() {
    if !present(&["sfdisk", "xmllint"]) {
        return;
    }
    let dir = Dir::new("nothing");
    for name in ["blank.img", "gpt.img", "mbr.img", "right.img"] {
        dir.image(name, 64 << 20);
    }
    shell(
        "echo 'label: gpt' | sfdisk -q gpt.img; echo 'label: dos' | sfdisk -q mbr.img; echo start=2048 | sfdisk -q right.img",
        dir.path(),
    );
    let ran =
        |words: &[&str]| output(Command::new(STRADDLE).arg("check").args(words).current_dir(dir.path()), "");
    for name in ["blank.img", "gpt.img", "mbr.img"] {
        let said = |words: &[&str]| {
            let out = ran(&[words, &[name]].concat());
            (out.status.code(), tools::transcript(&out))
        };
        for (words, status) in [
            (&[][..], 0),
            (&["--fail-on", "error"], 0),
            (&["--fail-on", "blank"], 1),
            (&["--fail-on", "error,blank"], 1),
            (&["--fail-on", "warning", "--fail-on", "blank"], 1),
        ] {
            assert_eq!(said(words).0, Some(status), "{name} {words:?}: {}", said(words).1);
            let (found, line) = said(&[words, &["--quiet"]].concat());
            let is_line = line.matches("nothing to check").count() == 1
                && line.contains(&format!("{name}: nothing to check"));
            assert!(found == Some(status) && is_line, "{name} {words:?}: {line}");
            let junit = [words, &["--output-format", "junit", name]].concat();
            fs::write(dir.join("junit.xml"), ran(&junit).stdout).unwrap();
            let count = |path: &str| {
                let query = format!("xmllint --xpath 'count({path})' junit.xml");
                shell(&query, dir.path()).trim().parse::<u32>().unwrap()
            };
            let counted = |tag: &str, attribute: &str| {
                assert_eq!(
                    count(&format!("//testsuite[@{attribute}=1]/testcase/{tag}")),
                    count(&format!("//{tag}"))
                );
                count(&format!("//{tag}"))
            };
            let (skipped, failed) = (counted("skipped", "skipped"), counted("failure", "failures"));
            assert_eq!((skipped, failed), if status == 0 { (1, 0) } else { (0, 1) }, "{name} {words:?}");
        }
        for format in ["github", "sarif", "csv", "junit"] {
            let shown = said(&["--output-format", format]).1;
            assert!(shown.contains("nothing to check"), "{name} {format}: {shown}");
        }
        let reason =
            &serde_json::from_slice::<Value>(&ran(&["--json", name]).stdout).unwrap()["targets"][0]["reason"];
        assert!(reason.as_str().unwrap().starts_with("nothing to check: "), "{name}: {reason}");
    }
    // A finding about the table does not make the missing partitions a failure.
    shell(
        "truncate -s 20M grown.img; echo 'label: gpt' | sfdisk -q grown.img; truncate -s 30M grown.img",
        dir.path(),
    );
    let grown = text(&ran(&["--output-format", "junit", "grown.img"]).stdout);
    assert!(grown.contains("failures=\"1\" errors=\"0\" skipped=\"1\""), "{grown}");
    let right = ran(&["--quiet", "--fail-on", "blank", "right.img"]);
    assert_eq!(
        (right.status.code(), text(&right.stdout), text(&right.stderr)),
        (Some(0), String::new(), String::new())
    );
    // Of all disks of a machine that has none, nothing was judged.
    fs::create_dir_all(dir.join("root/sys/block")).unwrap();
    let statuses = [&[][..], &["--fail-on", "blank"]]
        .map(|words| ran(&[words, &["--sysroot", "root"]].concat()).status.code());
    assert_eq!(statuses, [Some(0), Some(1)]);
}
