//! `straddle report`: audits of images, made here, merged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tools/legible.rs"]
mod legible;
use crate::tools;

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tools::{Dir, STRADDLE, list, output, present, run, skipped, text, transcript, valid, write_table};

/// A name that is markup.
const HOSTILE: &str = "<script>alert(1)</script>&'\"";

/// A folder `audits` with the audits of three hosts: one with a misaligned disk and its cost, one with a
/// misaligned and an aligned disk, one with an aligned disk.
fn audits() -> Dir {
    let dir = Dir::new("report");
    let (wrong, right) = (dir.image("wrong.img", 64 << 20), dir.image("right.img", 64 << 20));
    write_table(&wrong, 512, "label: dos\nstart=63, size=40000, type=83\n");
    write_table(&right, 512, "label: gpt\nstart=2048, size=40000\n");
    fs::create_dir_all(dir.join("audits/rack")).unwrap();
    audit(&dir, "audits/web10.json", &["--cost", "drive:wd10ears", "wrong.img"]);
    audit(&dir, "audits/rack/web2.json", &["wrong.img", "right.img"]);
    audit(&dir, "audits/db1.json", &["right.img"]);
    dir
}

fn audit(dir: &Dir, file: &str, arguments: &[&str]) {
    let mut command = Command::new(STRADDLE);
    command.args(["check", "--json"]).args(arguments).current_dir(dir.path());
    fs::write(dir.join(file), output(&mut command, "").stdout).unwrap();
}

fn report(dir: &Dir, arguments: &[&str]) -> Output {
    output(Command::new(STRADDLE).arg("report").args(arguments).current_dir(dir.path()), "")
}

fn as_json(dir: &Dir, arguments: &[&str]) -> Value {
    let out = report(dir, &[&["--json"], arguments].concat());
    let value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", transcript(&out)));
    valid(&value, "report");
    value
}

/// Changes an audit.
fn change(dir: &Dir, from: &str, to: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(dir.join(from)).unwrap()).unwrap();
    change(&mut value);
    fs::write(dir.join(to), value.to_string()).unwrap();
}

fn hosts(value: &Value) -> Vec<&str> {
    list(value, "hosts").iter().map(|host| host["host"].as_str().unwrap()).collect()
}

#[test]
fn audits_are_counted() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = audits();
    let value = as_json(&dir, &["audits"]);
    // The costlier of two misaligned hosts is worse.
    assert_eq!(hosts(&value), ["web10", "web2", "db1"]);
    let summary = &value["summary"];
    assert_eq!((&summary["disks"], &summary["misaligned_errors"]), (&json!(4), &json!(2)));
    assert_eq!((&summary["aligned"], &summary["misaligned_ratio"]), (&json!(2), &json!(0.5)));
    assert_eq!(value["models"][0]["model"], "images");
    assert_eq!((&value["rules"][0]["code"], &value["rules"][0]["hosts"]), (&json!("S001"), &json!(2)));
    let cost = &value["costs"][0];
    assert_eq!((&cost["drive"], &cost["source"]), (&json!("wd10ears"), &json!("modelled")));
    let audit: Value = serde_json::from_slice(&fs::read(dir.join("audits/web10.json")).unwrap()).unwrap();
    let ratio = &audit["targets"][0]["findings"][0]["cost"]["random_write_ratio"];
    assert_eq!(&cost["worst_random_write_ratio"], ratio);
    let out = report(&dir, &["audits"]);
    assert_eq!(out.status.code(), Some(1));
    let said = tools::run::flat(&text(&out.stdout));
    assert!(said.contains("2 of the 4 checked disks that are not blank are misaligned (50.0 %): "), "{said}");
    assert!(
        said.contains("Cost (modelled on wd10ears)")
            && said.contains("3 hosts listed by file name, because the audit has no host name.")
            && said.contains("not listed: 1 host without errors or warnings"),
        "{said}"
    );
    assert_eq!(report(&dir, &["audits/db1.json"]).status.code(), Some(0));
}

#[test]
fn a_pipe_has_many_audits_and_the_last_one_of_a_host_counts() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = audits();
    for (file, host) in [("db1", "a"), ("rack/web2", "b"), ("web10", "b")] {
        change(&dir, &format!("audits/{file}.json"), &format!("{host}.{}", file.len()), |audit| {
            audit["host"] = json!(host);
        });
    }
    let mut command = Command::new(STRADDLE);
    command.args(["report", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    for name in ["a.3", "b.9", "b.5"] {
        pipe.write_all(&fs::read(dir.join(name)).unwrap()).unwrap();
    }
    drop(pipe);
    let out = child.wait_with_output().unwrap();
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(hosts(&value), ["b", "a"]);
    assert_eq!((&value["hosts"][0]["disks"], &value["audits_replaced"]), (&json!(1), &json!(1)));
    assert_eq!(value["hosts_named_by_files"], 0);
    assert!(text(&out.stderr).contains("b: the audit in standard input replaces"), "{}", transcript(&out));
}

/// A host whose disk could not be opened is not a host without findings.
#[test]
fn an_audit_that_failed_is_named_and_decides_the_exit_status() {
    let dir = Dir::new("report-failed");
    audit(&dir, "lost.json", &["missing.img"]);
    let out = report(&dir, &["lost.json"]);
    assert!(out.status.code() == Some(3) && text(&out.stdout).contains("1 failed"), "{}", transcript(&out));
}

#[test]
fn what_is_no_audit_is_named_and_counted() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = audits();
    let whole = fs::read(dir.join("audits/db1.json")).unwrap();
    fs::write(dir.join("audits/cut.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(dir.join("audits/empty.json"), "").unwrap();
    fs::write(dir.join("audits/text.json"), "{\n  host").unwrap();
    fs::write(dir.join("audits/deep.json"), "[".repeat(1 << 20)).unwrap();
    change(&dir, "audits/db1.json", "audits/old.json", |audit| audit["schema"] = json!(1));
    fs::write(dir.join("audits/note.txt"), "not read").unwrap();
    let out = report(&dir, &["audits", "missing", "--json"]);
    assert_eq!(out.status.code(), Some(3));
    let said = text(&out.stderr);
    for line in [
        "audits/cut.json: the file is truncated (",
        "audits/empty.json: the file is empty",
        "audits/text.json: cannot be used as the output of 'straddle check --json' (key must be a string at \
         line 2 column 3",
        "audits/deep.json: cannot be used as the output of 'straddle check --json' (",
        "audits/old.json: cannot be used as the output of 'straddle check --json' (the audit uses schema 1, \
         but this version of straddle reads schema 3",
        "missing: cannot open: No such file",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let value: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((hosts(&value).len(), list(&value, "skipped").len()), (3, 6));
    // Nothing is written where nothing was read, and no audit is overwritten.
    let out = report(&dir, &["audits/empty.json", "--html", "page.html"]);
    assert_eq!((out.status.code(), dir.join("page.html").exists()), (Some(3), false));
    let out = report(&dir, &["audits", "--html", "audits/db1.json"]);
    assert_eq!(out.status.code(), Some(4), "{}", transcript(&out));
    assert_eq!(fs::read(dir.join("audits/db1.json")).unwrap(), whole);
}

#[test]
fn small_blocks_and_damaged_tables_are_no_misalignment() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("report-kinds");
    let (small, torn) = (dir.image("small.img", 64 << 20), dir.image("torn.img", 64 << 20));
    tools::shell("mkfs.ext4 -q -b 1024 small.img", dir.path());
    write_table(&torn, 512, "label: gpt\nstart=2048, size=40000\n");
    tools::shell("printf 'torn table' | dd of=torn.img bs=1 seek=600 conv=notrunc status=none", dir.path());
    assert!(small.exists() && torn.exists());
    fs::create_dir(dir.join("audits")).unwrap();
    audit(&dir, "audits/small.json", &["--assume", "512e", "small.img"]);
    audit(&dir, "audits/torn.json", &["--assume", "512e", "torn.img"]);
    let value = as_json(&dir, &["audits"]);
    let codes: Vec<_> = list(&value, "rules").iter().map(|rule| rule["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"S061") && codes.contains(&"S031"), "{value}");
    let all = &value["summary"];
    let seen = [&all["misaligned_errors"], &all["misaligned_warnings"], &all["other_findings"]];
    // Small blocks of a small file system are advice.
    assert_eq!(seen, [&json!(0), &json!(0), &json!(1)], "{value}");
}

/// Disks: the assumed drive, the command that makes `disk.img`, whether what is written on it is misaligned,
/// and how many partitions are.
const DISKS: [(&str, &str, &str, u64); 11] = [
    ("512e", "sgdisk -n 1:2048:40007", "no", 0),
    // Only the end is off; of unknown contents, of a file system that leaves the tail unused, and beside
    // advice.
    ("512e", "sgdisk -n 1:0:0", "no", 0),
    ("512e", "sgdisk -n 1:0:0; truncate -s 63M fs; mkfs.ext4 -q -F -b 4096 fs; PUT seek=2048", "no", 0),
    ("512e", "sgdisk -a1 -n 2:34:40 -t 2:ef02 -n 1:2048:0", "no", 0),
    // A start is off: always, for a loader only, to the stripe, and with the end.
    ("512e", "sgdisk -a1 -n 1:2049:40008 -n 2:43008:50000", "error", 1),
    ("512e", "sgdisk -a1 -n 1:34:2047 -t 1:ef02 -n 2:2048:40007", "no", 0),
    ("512e,stripe=192KiB", "sgdisk -n 1:2048:40007", "warning", 1),
    ("512e,stripe=192KiB", "sgdisk -a1 -n 1:2048:40008", "warning", 1),
    // What is in an aligned partition is not, small blocks that are, and a file system without a table.
    (
        "512e",
        "sgdisk -n 1:2048:65535; truncate -s 31M fs; mkfs.fat -a -R 33 -s 8 fs >made; PUT seek=2048",
        "error",
        1,
    ),
    ("512e", "mkfs.ext4 -q -F -b 1024 disk.img", "no", 0),
    ("512e", "mkfs.fat -a -R 33 -s 8 disk.img >made", "error", 0),
];

/// The findings of each severity in text such as `1 error, 2 warnings, 3 advice`.
fn said(text: &str) -> [u64; 3] {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    ["error", "warning", "advice"].map(|noun| {
        let mut pairs = words.windows(2).filter(|pair| pair[1].trim_end_matches('s') == noun);
        pairs.next().map_or(0, |pair| pair[0].parse().unwrap())
    })
}

/// The sum of the samples of a metric whose labels contain `part`.
fn sum(metrics: &str, name: &str, part: &str) -> u64 {
    let samples =
        metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} "));
    samples.filter(|(labels, _)| labels.contains(part)).map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

#[test]
fn text_json_metrics_and_report_agree_on_what_is_misaligned() {
    if !present(&["sgdisk", "mkfs.ext4", "mkfs.fat"]) {
        return;
    }
    for (assume, make, misaligned, partitions) in DISKS {
        let dir = Dir::new("report-agree");
        dir.image("disk.img", 64 << 20);
        let put = "dd if=fs of=disk.img conv=notrunc,sparse status=none";
        let make =
            make.replace("PUT", put).replace("sgdisk", "sgdisk disk.img").replacen(';', " >/dev/null;", 1);
        tools::shell(&make, dir.path());
        let check = |more: &[&str]| {
            let mut command = Command::new(STRADDLE);
            let words = [&["check", "--assume", assume], more, &["disk.img"]].concat();
            text(&output(command.args(words).current_dir(dir.path()), "").stdout)
        };
        let printed = check(&["--json"]);
        fs::write(dir.join("host.json"), &printed).unwrap();
        let audit: Value = serde_json::from_str(&printed).unwrap();
        let target = &audit["targets"][0];
        assert_eq!(target["misaligned"].as_str().unwrap_or("no"), misaligned, "{make}: {target:#}");
        let off = list(target, "partitions").iter().filter(|p| !p["misaligned"].is_null()).count();
        assert_eq!(u64::try_from(off).unwrap(), partitions, "{make}: {target:#}");
        // The text has the words for it.
        let shown = check(&["--verbose"]);
        let is_row = |line: &&str| line.contains(" bytes past a") && line.ends_with(')');
        let is_harmless = |line: &&str| line.contains("harmless") || line.contains(" end ");
        let rows = shown.lines().filter(is_row).filter(|line| !is_harmless(line));
        let inside = shown.lines().filter(|line| line.contains(", but S063 inside"));
        assert_eq!(u64::try_from(rows.chain(inside).count()).unwrap(), partitions, "{make}: {shown}");
        let metrics = check(&["--output-format", "prometheus"]);
        assert_eq!(
            sum(&metrics, "straddle_target_misaligned", ""),
            u64::from(misaligned != "no"),
            "{metrics}"
        );
        assert_eq!(sum(&metrics, "straddle_misaligned_partitions", ""), partitions, "{metrics}");
        let report = as_json(&dir, &["host.json"]);
        let all = &report["summary"];
        let classes = [&all["misaligned_errors"], &all["misaligned_warnings"]].map(|n| n.as_u64().unwrap());
        let expected = ["error", "warning"].map(|severity| u64::from(misaligned == severity));
        assert_eq!(classes, expected, "{make}: {report:#}");
        // As many findings of each severity.
        let found = ["error", "warning", "advice"].map(|severity| {
            let of = list(target, "findings").iter().filter(|finding| finding["severity"] == severity);
            u64::try_from(of.count()).unwrap()
        });
        let printed = ["error", "warning", "advice"].map(|severity| {
            let of = shown.lines().filter(|line| line.starts_with(&format!("  {severity} S")));
            u64::try_from(of.count()).unwrap()
        });
        assert_eq!(printed, found, "{shown}");
        let counted = ["error", "warning", "advice"]
            .map(|severity| sum(&metrics, "straddle_findings", &format!("severity=\"{severity}\"")));
        assert_eq!(counted, found, "{metrics}");
        for counts in [all, &report["hosts"][0], &report["models"][0]] {
            let counts =
                ["errors", "warnings", "advice"].map(|name| counts["findings"][name].as_u64().unwrap());
            assert_eq!(counts, found, "{make}: {report:#}");
        }
        let by_rule = ["errors", "warnings", "advice"].map(|name| {
            list(&report, "rules").iter().map(|rule| rule["findings"][name].as_u64().unwrap()).sum::<u64>()
        });
        assert_eq!(by_rule, found, "{make}: {report:#}");
        let shown = tools::run::flat(&text(&report_text(&dir)));
        let sentence = shown.split_once("Findings: ").unwrap().1.split_once('.').unwrap().0.to_owned();
        assert_eq!(said(&sentence), found, "{shown}");
    }
}

fn report_text(dir: &Dir) -> Vec<u8> {
    report(dir, &["host.json"]).stdout
}

/// The page as a browser has it after its script has run, and after `more`.
fn browsed(dir: &Dir, more: &str) -> String {
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    let page = page.replace("</body>", &format!("<script>{more}</script></body>"));
    fs::write(dir.join("pressed.html"), page).unwrap();
    dumped(dir)
}

/// `pressed.html` as a browser has it after its script has run.
fn dumped(dir: &Dir) -> String {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", dir.join("profile").display()));
    run(command.arg(format!("file://{}", dir.join("pressed.html").display())), "")
}

/// The first cells of the rows of the table of hosts.
fn rows(page: &str) -> Vec<&str> {
    let table = page.split_once("id=\"hosts\"").unwrap().1.split_once("</table>").unwrap().0;
    let cells = table.split("<th scope=\"row\">").skip(1);
    cells.map(|cell| cell.split_once("</th>").unwrap().0).collect()
}

#[test]
fn the_page_is_one_file_and_its_names_are_no_markup() {
    if !present(&["sfdisk"]) {
        return;
    }
    let dir = audits();
    change(&dir, "audits/rack/web2.json", "audits/hostile.json", |audit| {
        audit["host"] = json!(HOSTILE);
        audit["targets"][0]["target"] = json!(HOSTILE);
        audit["targets"][0]["device"]["model"] = json!(HOSTILE);
        audit["targets"][0]["findings"][0]["code"] = json!(HOSTILE);
        audit["targets"][0]["findings"][0]["title"] = json!(HOSTILE);
    });
    fs::write(dir.join(&format!("audits/{}.json", HOSTILE.replace('/', "_"))), "{").unwrap();
    report(&dir, &["audits", "--html", "page.html"]);
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    assert_eq!(page.matches("<script").count(), 1, "only its own");
    assert!(page.matches("&lt;script&gt;alert(1)").count() >= 6);
    for absent in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(absent), "{absent}");
    }
    assert_eq!(rows(&page).len(), 4, "it needs no script");
    // The next step for a disk, with its warning, and what the rule is that leads to it.
    for part in [
        "<b>Back up first",
        "straddle realign wrong.img",
        "href=\"#S001\"",
        "id=\"S001\"",
        "report audits --html",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("Modelled costs"));
    if !std::env::split_paths(tools::PATH).any(|folder| folder.join("chromium").is_file()) {
        skipped("chromium is not installed");
        return;
    }
    for width in [390, 1200] {
        fs::write(dir.join("pressed.html"), legible::framed(&page, width)).unwrap();
        let (seen, wrong) = legible::verdict(&dumped(&dir));
        assert!(seen.contains("text") && wrong.is_empty(), "{width} px: {wrong:#?}");
    }
    let shown = browsed(&dir, "");
    let unquoted: Vec<String> = rows(&page).iter().map(|name| name.replace("&quot;", "\"")).collect();
    assert_eq!(rows(&shown), unquoted);
    let press =
        |column: usize| format!("document.querySelectorAll('#hosts thead button')[{column}].click();");
    let by_name = browsed(&dir, &press(0));
    let names = rows(&by_name);
    let plain: Vec<&&str> = names.iter().filter(|name| !name.starts_with("&lt;")).collect();
    assert_eq!(plain, [&"db1", &"web2", &"web10"]);
    assert!(by_name.contains("aria-sort=\"ascending\""));
    let filter =
        "const f = document.querySelector('input'); f.value = 'WEB2'; f.dispatchEvent(new Event('input'));";
    assert_eq!(browsed(&dir, filter).matches("<tr hidden").count(), 3 + 2, "hosts and disks of other names");
    // Most disks first, and fewest first.
    let first = |page: &str| rows(page)[0].to_owned();
    let most = first(&browsed(&dir, &press(1)));
    assert!(most == "web2" || most.starts_with("&lt;"), "{most}");
    let fewest = first(&browsed(&dir, &press(1).repeat(2)));
    assert!(fewest == "web10" || fewest == "db1", "{fewest}");
}

/// Those with errors are not behind those with warnings.
#[test]
fn the_worst_disks_of_a_host_are_shown_first() {
    if !present(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let dir = Dir::new("report-worst");
    let warned = dir.image("a.img", 600 << 20);
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "1024"]).arg(&warned), "");
    let wrong = dir.image("z.img", 64 << 20);
    write_table(&wrong, 512, "label: dos\nstart=63, size=40000, type=83\n");
    audit(&dir, "host.json", &["a.img", "z.img", "none.img"]);
    let value: Value = serde_json::from_slice(&fs::read(dir.join("host.json")).unwrap()).unwrap();
    let said: Vec<_> = list(&value, "targets").iter().map(|one| one.get("misaligned").cloned()).collect();
    assert_eq!(said, [None, Some(json!("error")), None], "{value}");
    report(&dir, &["--html", "page.html", "host.json"]);
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    let (_, worst) = page.split_once("id=\"disks\"").unwrap();
    let place = |name: &str| worst.find(name).unwrap_or_else(|| panic!("{name}: {worst}"));
    assert!(place("z.img") < place("a.img"), "{worst}");
}
