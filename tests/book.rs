//! README.md and the book of docs/: generated pages are current, blocks show what is printed, and every command in
//! them exists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tools::{Dir, present, text, transcript};

const PROGRAM: &str = env!("CARGO_BIN_EXE_straddle");

/// The folders whose files are all generated, each with a page of its name beside it if it has pages.
const GENERATED: [&str; 6] = ["rules", "topics", "drives", "commands", "experiments", "figures"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn script(name: &str) -> Command {
    let mut command = Command::new(root().join("scripts").join(name));
    command.env("STRADDLE", PROGRAM);
    command
}

/// Every file below `folder`, by its name from there.
fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), path);
            }
        }
    }
    files
}

/// README.md and the pages of the book.
fn pages() -> BTreeMap<String, String> {
    let mut pages: BTreeMap<String, String> = files(&root().join("docs"))
        .into_iter()
        .filter(|(name, _)| name.ends_with(".md"))
        .map(|(name, path)| (format!("docs/{name}"), fs::read_to_string(path).unwrap()))
        .collect();
    pages.insert("README.md".to_owned(), fs::read_to_string(root().join("README.md")).unwrap());
    assert!(pages.len() > 70, "{} pages", pages.len());
    pages
}

#[test]
fn generated_pages_are_current() {
    if !present(&["python3"]) {
        return;
    }
    let dir = Dir::new("pages");
    let run = script("pages").arg(dir.path()).output().unwrap();
    assert!(run.status.success(), "{}", transcript(&run));
    let made = files(dir.path());
    let mut wrong: BTreeSet<&str> = BTreeSet::new();
    let kept: BTreeMap<String, PathBuf> = files(&root().join("docs"))
        .into_iter()
        .filter(|(name, _)| GENERATED.contains(&name.split(['/', '.']).next().unwrap_or_default()))
        .collect();
    for name in made.keys().chain(kept.keys()) {
        let read = |files: &BTreeMap<String, PathBuf>| files.get(name).map(|path| fs::read(path).unwrap());
        if read(&made) != read(&kept) {
            wrong.insert(name);
        }
    }
    assert!(made.len() > 60 && wrong.is_empty(), "out of date in docs/: run 'make docs': {wrong:?}");
}

#[test]
fn blocks_show_what_is_printed() {
    if !present(&["python3", "sfdisk", "mkfs.ext4"]) {
        return;
    }
    let run = script("transcripts").arg("--check").output().unwrap();
    assert!(run.status.success(), "{}", transcript(&run));
}

#[test]
fn a_block_that_shows_something_else_is_noticed() {
    if !present(&["python3"]) {
        return;
    }
    let dir = Dir::new("transcript");
    let page = dir.join("page.md");
    let shown = "```console\n$ straddle explain rmw --offset 2KiB\nnothing of the kind\n```\n";
    fs::write(&page, shown).unwrap();
    let check = || script("transcripts").arg("--check").arg(&page).output().unwrap();
    assert_eq!(check().status.code(), Some(1));
    assert_eq!(fs::read_to_string(&page).unwrap(), shown, "--check writes nothing");
    assert!(script("transcripts").arg(&page).output().unwrap().status.success());
    assert!(fs::read_to_string(&page).unwrap().contains("2 read-modify-writes"));
    assert!(check().status.success(), "{}", transcript(&check()));
}

/// The command lines of `straddle` in a page: those of its blocks, and those between backquotes.
fn command_lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut fenced = None;
    for line in page.replace("\\\n", " ").lines() {
        if let Some(kind) = line.strip_prefix("```") {
            fenced = if fenced.is_some() { None } else { Some(kind.to_owned()) };
        } else if fenced.is_some() || line.starts_with("    ") {
            let line = line.trim_start().trim_start_matches("$ ");
            if line.starts_with("straddle ") {
                // An explanation follows after some spaces.
                lines.push(line.split("   ").next().unwrap_or(line).to_owned());
            }
        } else {
            let quoted = line.split('`').skip(1).step_by(2);
            lines.extend(quoted.filter(|quoted| quoted.starts_with("straddle ")).map(str::to_owned));
        }
    }
    lines
}

/// What is wrong with a command line: the command or an option that the program does not have.
fn unknown(line: &str, help: &BTreeMap<String, String>) -> Option<String> {
    let line = line.split([';', '|', '#', ',']).next().unwrap_or(line);
    let line = line.split(" -- ").next().unwrap_or(line);
    let mut words = line.split_whitespace().skip(1);
    let name = words.next()?;
    if name.starts_with('-') || name.chars().all(char::is_uppercase) {
        return None;
    }
    let Some(known) = help.get(name) else {
        return Some(format!("no command is given '{name}'"));
    };
    let options = words.filter(|word| word.starts_with("--") && word.len() > 2);
    options
        .map(|word| word.split('=').next().unwrap_or(word).trim_end_matches(['.', ')', '…']))
        .find(|option| !known.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == *option))
        .map(|option| format!("'{name}' has no option {option}"))
}

/// The help of every command, with that of its own commands.
fn help() -> BTreeMap<String, String> {
    let help = |words: &[&str]| {
        let run = Command::new(PROGRAM).args(words).arg("--help").output().unwrap();
        assert!(run.status.success(), "{words:?}: {}", transcript(&run));
        text(&run.stdout)
    };
    let names = |help: &str| -> Vec<String> {
        // Above the options, only commands are lower-case.
        let lines = help.split("\nOptions:\n").next().unwrap_or_default().lines();
        let words = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        words
            .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
            .map(str::to_owned)
            .collect()
    };
    let mut all = BTreeMap::new();
    for name in names(&help(&[])) {
        let mut own = help(&[&name]);
        for inner in names(&own) {
            own += &help(&[&name, &inner]);
        }
        all.insert(name, own);
    }
    assert!(all.len() > 15, "{:?}", all.keys());
    all
}

#[test]
fn every_command_in_the_pages_exists() {
    let help = help();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, page) in pages() {
        // Error messages and help contain names of commands in sentences.
        for line in command_lines(&page).into_iter().filter(|_| !name.starts_with("docs/commands")) {
            count += 1;
            wrong.extend(unknown(&line, &help).map(|why| format!("{name}: {line}: {why}")));
        }
    }
    assert!(count > 200, "{count} command lines");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unknown("straddle chek", &help).is_some() && unknown("straddle check --jsn", &help).is_some());
    assert!(unknown("straddle check --json disk.img", &help).is_none());
}

#[test]
fn readme_is_short_and_the_summary_has_every_page() {
    let pages = pages();
    let lines = pages["README.md"].lines().count();
    assert!(lines <= 150, "README.md has {lines} lines");
    let summary = &pages["docs/SUMMARY.md"];
    let missing: Vec<&String> = pages
        .keys()
        .filter(|name| !["README.md", "docs/SUMMARY.md"].contains(&name.as_str()))
        .filter(|name| !summary.contains(&format!("]({})", name.trim_start_matches("docs/"))))
        .collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:?}");
}

#[test]
fn links_that_lead_nowhere_are_noticed() {
    if !present(&["python3"]) {
        return;
    }
    let dir = Dir::new("links");
    let page =
        |link: &str| format!("<html><body><h1 id=\"top\">A</h1><a href=\"{link}\">b</a></body></html>");
    for number in 0..50 {
        fs::write(dir.join(&format!("{number}.html")), page("0.html#top")).unwrap();
    }
    let links = || script("links").arg(dir.path()).output().unwrap();
    assert!(links().status.success(), "{}", transcript(&links()));
    for wrong in ["gone.html", "1.html#gone", "../outside.html"] {
        fs::write(dir.join("0.html"), page(wrong)).unwrap();
        let run = links();
        let said = format!("0.html: {wrong}");
        assert!(run.status.code() == Some(1) && text(&run.stderr).contains(&said), "{}", transcript(&run));
    }
}

#[test]
fn what_the_book_needs_is_named() {
    let dir = Dir::new("mdbook");
    let book = |words: &[&str]| {
        let mut command = script("book");
        command.args(words).env("PATH", "/usr/bin:/bin").env("CARGO_HOME", dir.path()).env("CARGO", "false");
        command.output().unwrap()
    };
    if Path::new("/usr/bin/mdbook").exists() {
        tools::not_run("mdbook is a package of this machine");
        return;
    }
    let missing = book(&["--missing"]);
    assert!(
        missing.status.success() && text(&missing.stdout).starts_with("mdbook "),
        "{}",
        transcript(&missing)
    );
    let run = book(&[]);
    assert_eq!(run.status.code(), Some(1), "{}", transcript(&run));
    let said = text(&run.stderr);
    assert!(said.contains("mdbook cannot be installed: false install --locked --debug --version"), "{said}");
}
