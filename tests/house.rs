//! The limits of the sources: a file stays under 600 lines, a function under 80, comments and blank lines included;
//! tracked files are small; every test program has a row in tests/README.md; the crates that promise it do no I/O
//! and read no clock; and what users read is in the terms of the field.
//!
//! Functions are found in the tokens, so that those inside macros (`proptest!`) count too. In C only files are
//! measured. A line of `FILES`
//! or `FUNCTIONS` is an exception until its source is split: the source may shrink but must not grow, and the
//! line must be removed when it is no longer needed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

#[path = "house/arrows.rs"]
mod arrows;
#[path = "house/english.rs"]
mod english;
#[path = "house/fields.rs"]
mod fields;
#[path = "tools/skip.rs"]
mod skip;

/// Files must have fewer lines than this.
const FILE_LIMIT: usize = 600;

/// Functions must have fewer lines than this, from `fn` to the closing brace.
const FUNCTION_LIMIT: usize = 80;

/// Files over the limit, and their numbers of lines.
const FILES: &[(&str, usize)] = &[];

/// Functions over the limit (`file::function`), and their numbers of lines.
const FUNCTIONS: &[(&str, usize)] = &[];

/// Tracked files of any kind must have no more bytes than this.
const TRACKED_LIMIT: u64 = 200 * 1024;

/// Tracked files over the limit, each with the reason why it is in the repository.
const LARGE: &[(&str, &str)] = &[];

/// The crates that do no I/O, read no clock and start no thread, each with the files that are excepted.
const PURE: &[(&str, &[&str])] =
    &[("drive", &["profile/read.rs"]), ("measure/src/probe", &[]), ("units", &[])];

/// The other crates that read no clock and start no thread, although they do I/O or pass errors of it on.
const CLOCKLESS: &[&str] = &["measure/src/bench", "lab/src/media", "lab/src/vhost"];

/// Names that these do not use either.
const CLOCKS: &[&str] = &[
    "Instant",
    "SystemTime",
    "UNIX_EPOCH",
    "clock_gettime",
    "clock_nanosleep",
    "nanosleep",
    "timerfd",
    "std::thread",
    "thread::",
];

/// Names that a pure crate does not use: parts of the standard library and of system interfaces, and the
/// functions of other crates here that open or read a target.
const IMPURE: &[&str] = &[
    "std::fs",
    "fs::",
    "File::open",
    "File::create",
    "OpenOptions",
    "std::net",
    "std::os",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::",
    "SystemTime",
    "stdin(",
    "stdout(",
    "stderr(",
    "println!",
    "dbg!",
    "libc::",
    "rustix::",
    "nix::",
    "read_at(",
    "straddle_device::open",
    "Target::open",
    "Machine::read",
    "read_all(",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source of the repository whose name has one of the extensions.
fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut folders: Vec<PathBuf> = ["src", "crates", "examples", "tests", "benches", "fuzz", "python"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            // Build output is not checked. A link leads outside, or to a source that is found under its own
            // name.
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if kind.is_file()
                && path.extension().is_some_and(|of| extensions.iter().any(|extension| of == *extension))
            {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                sources.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

/// Collects the functions in `tokens` and their lengths, including nested ones and those inside macro calls.
fn functions(tokens: TokenStream, found: &mut Vec<(String, usize)>) {
    // The name and line of a `fn` whose body has not been seen yet.
    let mut open: Option<(String, usize)> = None;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "fn" => {
                // A function type such as `fn(u8)` has no name.
                if let Some(TokenTree::Ident(name)) = tokens.peek() {
                    open = Some((name.to_string(), ident.span().start().line));
                }
            }
            // A function without a body, in a trait or an `extern` block.
            TokenTree::Punct(mark) if mark.as_char() == ';' => open = None,
            TokenTree::Group(group) => {
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, first)) = open.take()
                {
                    found.push((name, group.span_close().end().line - first + 1));
                }
                functions(group.stream(), found);
            }
            _ => {}
        }
    }
}

fn functions_of(name: &str, source: &str) -> Vec<(String, usize)> {
    let tokens = source.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut found = Vec::new();
    functions(tokens, &mut found);
    found
}

/// Fails unless every length of at least `limit` is covered by `exceptions`, and every exception is needed.
fn hold(what: &str, limit: usize, lengths: &[(String, usize)], exceptions: &[(&str, usize)]) {
    let mut over: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, lines) in lengths.iter().filter(|(_, lines)| *lines >= limit) {
        let longest = over.entry(name).or_default();
        *longest = (*lines).max(*longest);
    }
    let mut wrong = Vec::new();
    for (name, lines) in &over {
        match exceptions.iter().find(|(exception, _)| exception == name) {
            None => wrong.push(format!("{name}: {lines} lines")),
            Some((_, allowed)) if lines > allowed => {
                wrong.push(format!("{name}: {lines} lines, {allowed} before"));
            }
            Some(_) => {}
        }
    }
    for (name, _) in exceptions.iter().filter(|(name, _)| !over.contains_key(name)) {
        wrong.push(format!("{name}: the exception is not needed any more, remove it from tests/house.rs"));
    }
    assert!(wrong.is_empty(), "{what} have to stay under {limit} lines:\n{}", wrong.join("\n"));
}

#[test]
fn files_stay_short() {
    let lengths: Vec<_> =
        sources(&["rs", "c", "h"]).into_iter().map(|(name, source)| (name, source.lines().count())).collect();
    assert!(lengths.len() > 500, "{} sources found", lengths.len());
    assert!(lengths.iter().any(|(name, _)| name == "crates/lab/clock/clock.c"));
    hold("files", FILE_LIMIT, &lengths, FILES);
}

#[test]
fn functions_stay_short() {
    let mut lengths = Vec::new();
    for (file, source) in sources(&["rs"]) {
        let named = |(name, lines)| (format!("{file}::{name}"), lines);
        lengths.extend(functions_of(&file, &source).into_iter().map(named));
    }
    assert!(lengths.len() > 5000, "{} functions found", lengths.len());
    hold("functions", FUNCTION_LIMIT, &lengths, FUNCTIONS);
}

/// The files that git tracks; without the repository (a source archive), none.
fn tracked() -> Option<Vec<String>> {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output().ok()?;
    let names = String::from_utf8(listed.stdout).unwrap();
    listed.status.success().then(|| names.split_terminator('\0').map(str::to_owned).collect())
}

#[test]
fn tracked_files_are_small() {
    let Some(names) = tracked() else {
        skip::skipped("git does not list the tracked files");
        return;
    };
    assert!(names.len() > 1000, "{} tracked files", names.len());
    let size = |name: &String| fs::symlink_metadata(root().join(name)).map_or(0, |found| found.len());
    let large: Vec<&str> =
        names.iter().filter(|name| size(name) > TRACKED_LIMIT).map(String::as_str).collect();
    let excepted: Vec<&str> = LARGE.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        large, excepted,
        "over {TRACKED_LIMIT} bytes: leave out what is no source, or list it in LARGE"
    );
    assert!(LARGE.iter().all(|(_, reason)| !reason.is_empty()));
}

/// The test programs: the sources directly in `tests` and in `crates/*/tests`.
fn programs() -> Vec<String> {
    let crates =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("tests"));
    let folders = crates.chain([root().join("tests")]).filter(|folder| folder.is_dir());
    let paths = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let programs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    programs.map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()).collect()
}

/// The paths in the first column of the table. A name without a folder is in the folder of the one before it.
fn rows(readme: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for row in readme.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()) {
        let mut folder = "";
        for path in row.split('`').skip(1).step_by(2).filter(|path| path.contains(['/', '.'])) {
            match path.rsplit_once('/') {
                Some((of, _)) => {
                    folder = of;
                    rows.push(path.to_owned());
                }
                None => rows.push(format!("{folder}/{path}")),
            }
        }
    }
    rows
}

/// Whether a row is about the program: it names it, with `*` for any characters, or the folder that it is in.
fn is_about(row: &str, program: &str) -> bool {
    let matches = |path: &str| match row.split_once('*') {
        None => row == path,
        Some((start, end)) => {
            path.len() >= start.len() + end.len() && path.starts_with(start) && path.ends_with(end)
        }
    };
    let folder = program.rsplit_once('/').map_or("", |(folder, _)| folder);
    matches(program) || (folder != "tests" && matches(folder))
}

#[test]
fn every_test_program_has_a_row() {
    let rows = rows(&fs::read_to_string(root().join("tests/README.md")).unwrap());
    let programs = programs();
    assert!(programs.len() > 60 && rows.len() > 80, "{} programs, {} rows", programs.len(), rows.len());
    let missing: Vec<&String> =
        programs.iter().filter(|program| !rows.iter().any(|row| is_about(row, program))).collect();
    assert!(missing.is_empty(), "no row in tests/README.md: {missing:?}");
    let gone: Vec<&String> = rows
        .iter()
        .filter(|row| row.ends_with(".rs") && !row.contains('*') && !root().join(row).is_file())
        .collect();
    assert!(gone.is_empty(), "rows in tests/README.md for files that do not exist: {gone:?}");
}

#[test]
fn a_row_is_about_what_it_names() {
    let readme =
        "| where | what |\n| `crates/a/tests/b.rs`, `c.rs` | x |\n| `tests/d*.rs` | see `tests/e.rs` |\n";
    let rows = rows(readme);
    assert_eq!(rows, ["crates/a/tests/b.rs", "crates/a/tests/c.rs", "tests/d*.rs"]);
    assert!(is_about("tests/d*.rs", "tests/dd.rs") && !is_about("tests/d*.rs", "tests/e.rs"));
    assert!(is_about("crates/a/tests", "crates/a/tests/f.rs") && !is_about("tests", "tests/f.rs"));
}

/// The code of a source: without comments, and without its tests, which stand at its end.
fn code(source: &str) -> String {
    let end = source.find("\n#[cfg(test)]\nmod tests").unwrap_or(source.len());
    let lines = source[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether the code of a source has one of `names`, as whole words at their beginning.
fn uses(source: &str, names: &[&str]) -> bool {
    let code = code(source);
    let is_whole = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    names.iter().any(|name| code.match_indices(name).any(|(at, _)| is_whole(at)))
}

fn is_impure(source: &str) -> bool {
    uses(source, IMPURE)
}

/// The sources of a crate whose code uses one of `names`, in order; tests are left out.
fn users<'s>(sources: &'s [(String, String)], name: &str, names: &[&str]) -> Vec<&'s str> {
    let folder = match name.contains('/') {
        true => format!("crates/{name}/"),
        false => format!("crates/{name}/src/"),
    };
    let own: Vec<(&str, &str)> = sources
        .iter()
        .filter_map(|(path, source)| Some((path.strip_prefix(&folder)?, source.as_str())))
        .filter(|(path, _)| !path.ends_with("tests.rs") && !path.contains("tests/"))
        .collect();
    assert!(own.len() > 3, "{name}: {} sources found", own.len());
    let mut found: Vec<&str> =
        own.iter().filter(|(_, source)| uses(source, names)).map(|(path, _)| *path).collect();
    found.sort_unstable();
    found
}

#[test]
fn pure_crates_do_no_io() {
    let sources = sources(&["rs"]);
    for (name, excepted) in PURE {
        let found = users(&sources, name, IMPURE);
        assert_eq!(found, *excepted, "{name}: these read files, a clock or the environment");
    }
}

#[test]
fn clocks_are_read_only_where_they_may_be() {
    let sources = sources(&["rs"]);
    for name in CLOCKLESS {
        assert_eq!(users(&sources, name, CLOCKS), [""; 0], "{name}: these read a clock, or start a thread");
    }
    // What a row of ARCHITECTURE.md promises is in one of the lists.
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let promises = |row: &str| row.contains("read a clock") && !row.contains("read a clock below");
    let rows = page.lines().filter(|line| promises(line));
    let names: Vec<&str> = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(!names.is_empty(), "no row promises it");
    let is_checked = |name: &str| CLOCKLESS.contains(&name) || PURE.iter().any(|(pure, _)| *pure == name);
    let missing: Vec<&&str> = names.iter().filter(|name| !is_checked(name)).collect();
    assert!(missing.is_empty(), "no test holds ARCHITECTURE.md to what it says of {missing:?}");
}

/// The ways to open a target: examine, repair and real do so, each under its own law.
const OPENINGS: &[&str] =
    &["straddle_device::open(", "device::open(", "Claimed::open", "GivenUp::", "Opened::", "Session::begin"];

#[test]
fn the_command_line_opens_no_target_itself() {
    for name in ["cli", "lab-cli"] {
        assert_eq!(
            users(&sources(&["rs"]), name, OPENINGS),
            [""; 0],
            "these put a target together themselves"
        );
    }
}

/// The one random generator. (`bench` has glibc's besides, whose numbers published experiments have drawn.)
const GENERATOR: &str = "crates/units/src/io/splitmix.rs";

/// Constants and steps of other generators (Knuth's MMIX, Marsaglia's xorshift), and a draw that makes small numbers
/// likelier.
const OTHER_GENERATORS: &[&str] =
    &["6_364_136_223_846_793_005", "6364136223846793005", "0x5851", "^= state <<", "^= x <<", ".next() %"];

#[test]
fn random_numbers_come_from_one_generator() {
    let own = [GENERATOR, "tests/house.rs"];
    let sources = sources(&["rs"]);
    let others = sources.iter().filter(|(path, _)| !own.contains(&path.as_str()));
    let found: Vec<&str> = others
        .filter(|(_, source)| OTHER_GENERATORS.iter().any(|one| source.contains(one)))
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(found, [""; 0], "these have a generator of their own");
}

/// Sources besides `units` that compute a remainder against a boundary, or a common divisor.
const REMAINDERS: &[&str] = &[];

/// Whether a line has the distance to the next multiple, `(a - b) % a`, or a step of Euclid's algorithm,
/// `(a, b) = (b, a % b)`.
fn is_alignment(line: &str) -> bool {
    let distance = line.match_indices(") % ").any(|(at, _)| {
        let divisor: &str =
            line[at + 4..].split(|c: char| !c.is_alphanumeric() && !"_.".contains(c)).next().unwrap();
        let opened = line[..at].rfind('(').map(|open| &line[open + 1..at]);
        !divisor.is_empty() && opened.is_some_and(|inner| inner.starts_with(&format!("{divisor} - ")))
    });
    let swapped = line.split_once(") = (").and_then(|(left, right)| {
        let (a, b) = left.trim_start().trim_start_matches("let ").strip_prefix('(')?.split_once(", ")?;
        Some(right.starts_with(&format!("{b}, {a} % {b})")))
    });
    distance || swapped == Some(true)
}

#[test]
fn remainders_against_boundaries_are_computed_in_units() {
    let sources = sources(&["rs"]);
    let is_judge =
        |path: &str| path.contains("tests/") || path.ends_with("tests.rs") || path.contains("crates/units/");
    let own = sources.iter().filter(|(path, _)| path.starts_with("crates/") && !is_judge(path));
    let mut found: Vec<&str> = own
        .filter(|(_, source)| code(source).lines().any(is_alignment))
        .map(|(path, _)| path.as_str())
        .collect();
    found.sort_unstable();
    assert_eq!(found, REMAINDERS, "straddle-units has these");
    for line in [
        "(physical - firmware_offset) % physical",
        "let x = (self.a.b - at.c) % self.a.b;",
        "(a, b) = (b, a % b);",
    ] {
        assert!(is_alignment(line), "{line}");
    }
    for line in ["(left + 1 + index) % disks", "(disks - 1 - row) % size", "(a, b) = (b, a);", "x % y"] {
        assert!(!is_alignment(line), "{line}");
    }
}

/// The source that follows the causes of an error, to join them.
const CAUSES: &[&str] = &["crates/device/src/shown.rs"];

#[test]
fn causes_are_joined_in_one_place() {
    let follows =
        |source: &str| ["error.source()", "cause.source()"].iter().any(|call| source.contains(call));
    let sources = sources(&["rs"]);
    let own = sources.iter().filter(|(path, _)| path.contains("/src/") && !path.ends_with("tests.rs"));
    let mut found: Vec<&str> =
        own.filter(|(_, source)| follows(&code(source))).map(|(path, _)| path.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, CAUSES);
}

/// Lines of prose are wrapped, and half of such a command writes without end: they stand on lines of their own.
#[test]
fn no_sentence_of_a_finding_has_dd() {
    let sources = sources(&["rs"]);
    let own = sources.iter().filter(|(path, _)| path.starts_with("crates/audit/src/"));
    let found: Vec<&str> =
        own.filter(|(_, source)| source.contains("dd if=")).map(|(path, _)| path.as_str()).collect();
    assert_eq!(found, Vec::<&str>::new());
}

/// Words that the sources do not use, neither in names nor in comments.
const WORDS: &[&str] = &["told", "anew"];

#[test]
fn names_are_terms_of_the_field() {
    let sources = sources(&["rs", "c", "h", "sh"]);
    // These sources, and a test of the same words in public names.
    let own = ["tests/house.rs", "tests/house/english.rs", "tests/cli/json_names.rs"];
    let mut found = Vec::new();
    for (path, source) in sources.iter().filter(|(path, _)| !own.contains(&path.as_str())) {
        for (line, text) in (1..).zip(source.lines()) {
            let text = text.to_lowercase();
            let mut words = text.split(|c: char| !c.is_alphanumeric());
            if words.any(|word| WORDS.contains(&word)) {
                found.push(format!("{path}:{line}"));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new(), "{WORDS:?} stand in these lines");
}

#[test]
fn impure_code_is_found() {
    let comment = "/// std::fs::read would do.\nfn pure() {}\n";
    let tests = "fn pure() {}\n\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    assert!(!is_impure(comment) && !is_impure(tests));
    for line in ["let now = Instant::now();", "use std::thread;", "std::time::SystemTime::now()"] {
        assert!(uses(&format!("{comment}{line}\n{tests}"), CLOCKS), "{line}");
    }
    assert!(!uses(comment, CLOCKS) && !uses("let thread_of = 1;", CLOCKS));
    for line in ["std::fs::read(path)", "let now = Instant::now();", "target.medium.read_at(0, &mut bytes)"] {
        assert!(is_impure(&format!("{comment}{line}\n{tests}")), "{line}");
    }
}

/// Whether a source has a test of this name, in whatever module, and with whatever other attributes.
fn has_test(source: &str, name: &str) -> bool {
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with(&format!("fn {name}(")) && is_test {
            return true;
        }
        is_test = line == "#[test]" || (is_test && line.starts_with("#["));
    }
    false
}

/// What is wrong with a page that names tests as `path.rs::function` in the last column of its tables. A row that
/// says "no" has none.
fn unshown(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let heads = ["| hazard |", "| expectation |"];
    let is_row = |line: &&str| line.starts_with("| ") && !heads.iter().any(|head| line.starts_with(head));
    for row in page.lines().filter(is_row).filter(|row| !row.contains(" | no | ")) {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            wrong.push(format!("no test: {row}"));
        }
        for test in tests {
            let is_there = test
                .split_once("::")
                .is_some_and(|(path, name)| read(path).is_some_and(|source| has_test(&source, name)));
            if !is_there {
                wrong.push(format!("no such test: {test}"));
            }
        }
    }
    wrong
}

#[test]
fn what_safety_and_expectations_name_is_tested() {
    for name in ["docs/SAFETY.md", "docs/expectations.md"] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        assert!(page.matches("::").count() > 30, "{name}: tests are named as `path.rs::function`");
        let wrong = unshown(&page, |path| fs::read_to_string(root().join(path)).ok());
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_test_that_is_gone_is_noticed() {
    let source = "#[test]\nfn one() {}\nfn two() {}\nmod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    fn inner() {}\n";
    let read = |path: &str| (path == "tests/a.rs").then(|| source.to_owned());
    let rows = |cell: &str| unshown(&format!("| hazard | x |\n|---|---|\n| b | {cell} |\n"), read).len();
    assert_eq!(["`tests/a.rs::one`", "`tests/a.rs::inner`", "no | "].map(rows), [0; 3]);
    let all = ["`tests/a.rs::two`", "`tests/a.rs::on`", "`tests/b.rs::one`", "text", "`one`"];
    assert_eq!(all.map(rows), [1; 5]);
}

#[test]
fn functions_are_measured_wherever_they_stand() {
    let source = "trait T {\n    fn none(&self) -> fn(u8);\n    fn some(&self) {\n        // }\n\n    }\n}\n\
        proptest! {\n    #[test]\n    fn inside(a in 0..1) {\n        \"fn text() {\n        }\";\n    }\n}\n\
        impl S {\n    const fn outer<const N: usize>(\n        a: [u8; N],\n    ) -> fn(u8) {\n        \
        fn inner() {}\n        inner\n    }\n}\n";
    let found = functions_of("a sample", source);
    let found: Vec<_> = found.iter().map(|(name, lines)| (name.as_str(), *lines)).collect();
    assert_eq!(found, [("some", 4), ("inside", 4), ("outer", 6), ("inner", 1)]);
}

#[test]
fn an_exception_is_exact() {
    let lengths = [("a".to_owned(), 90), ("b".to_owned(), 79)];
    let fails = |exceptions: &'static [(&str, usize)]| {
        std::panic::catch_unwind(|| hold("x", 80, &lengths, exceptions)).is_err()
    };
    assert!(!fails(&[("a", 90)]) && !fails(&[("a", 95)]));
    assert!(fails(&[]) && fails(&[("a", 89)]) && fails(&[("a", 90), ("b", 90)]));
}
