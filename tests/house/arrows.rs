//! The crates depend on one another as ARCHITECTURE.md says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::root;

/// Crates that must not depend on one another directly, whatever the diagram says: the table of ARCHITECTURE.md has
/// the reasons.
const NEVER: &[(&str, &[&str])] = &[
    ("drive", &["measure", "device"]),
    ("units", &["device", "drive"]),
    ("layout", &["audit"]),
    ("lab", &["repair"]),
];

/// The crates, each with those that it depends on.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|folder| folder.unwrap());
    folders
        .map(|folder| {
            let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
            let (_, section) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
            let section = section.split("\n[").next().unwrap_or_default();
            let names = section.lines().filter_map(|line| line.strip_prefix("straddle-"));
            let names = names.map(|name| name.split(['.', ' ', '=']).next().unwrap_or_default().to_owned());
            (folder.file_name().into_string().unwrap(), names.collect())
        })
        .collect()
}

/// The arrows of the diagram, from each crate to those that it depends on.
fn arrows(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let lines = page.lines().filter(|line| line.starts_with("    ") && line.contains("<-"));
    for line in lines {
        let steps: Vec<Vec<&str>> =
            line.split("<-").map(|step| step.split(',').map(str::trim).collect()).collect();
        for pair in steps.windows(2) {
            for user in &pair[1] {
                let used = pair[0].iter().map(|used| (*used).to_owned());
                arrows.entry((*user).to_owned()).or_default().extend(used);
            }
        }
    }
    arrows
}

/// All that a crate reaches along the arrows.
fn reached<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = arrows.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(name) = next.pop() {
        if found.insert(name) {
            next.extend(arrows.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

#[test]
fn dependencies_follow_the_diagram() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (dependencies, arrows) = (dependencies(), arrows(&page));
    assert!(dependencies.len() > 10 && arrows.len() > 9, "{arrows:?}");
    for (name, used) in &dependencies {
        let reached = reached(&arrows, name);
        assert!(!reached.contains(name.as_str()), "{name} depends on itself in the diagram");
        for other in used {
            assert!(reached.contains(other.as_str()), "{name} depends on {other}, and no arrow leads there");
        }
        for other in arrows.get(name).into_iter().flatten() {
            assert!(used.contains(other), "the diagram says that {name} depends on {other}");
        }
    }
    for (name, others) in NEVER {
        let used = dependencies.get(*name).unwrap();
        assert!(others.iter().all(|other| !used.contains(*other)), "{name} must not depend on {others:?}");
    }
}

#[test]
fn every_crate_has_a_row() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<String> = rows.filter(|row| !row.contains('/')).map(str::to_owned).collect();
    let crates: BTreeSet<String> = dependencies().into_keys().collect();
    assert_eq!(rows, crates);
}
