//! The error types of the libraries, checked in their sources' tokens: each has a kind, which determines the
//! exit code, and none repeats the message of its cause, because causes are printed after it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "errors/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Errors that appear as causes of others only.
const BELOW: &[&str] = &["RelocateError", "FetchError", "RemoteError", "VhostError"];

/// What a file with an error type has in it: to parse the others takes minutes.
const ABOUT_ERRORS: [&str; 3] = ["thiserror", "error_kind", "ErrorKind"];

/// Pairs of a crate's name and one of its source files, if it is about errors.
fn sources() -> Vec<(String, PathBuf)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut sources = Vec::new();
    for library in fs::read_dir(crates).unwrap() {
        let library = library.unwrap();
        let name = library.file_name().into_string().unwrap();
        let mut folders = vec![library.path().join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs")
                    && ABOUT_ERRORS.iter().any(|word| fs::read_to_string(&path).unwrap().contains(word))
                {
                    sources.push((name.clone(), path));
                }
            }
        }
    }
    sources
}

fn tokens(path: &Path) -> TokenStream {
    fs::read_to_string(path).unwrap().parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Collects the names after `keyword`, at any depth, with the braces that follow them.
fn named(tokens: &TokenStream, keyword: &str, found: &mut Vec<(String, Group)>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            named(&group.stream(), keyword, found);
        }
        if is_word(Some(token), keyword)
            && let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                (tokens.get(index + 1), tokens.get(index + 2))
            && body.delimiter() == Delimiter::Brace
        {
            found.push((name.to_string(), body.clone()));
        }
    }
}

/// The attributes `#[error(..)]`, `#[source]` and `#[from]` from `index` on, and the index after them.
fn attributes(tokens: &[TokenTree], mut index: usize) -> (Vec<(String, String)>, usize) {
    let mut found = Vec::new();
    while is_mark(tokens.get(index), '#') {
        let Some(TokenTree::Group(group)) = tokens.get(index + 1) else { break };
        let inside: Vec<TokenTree> = group.stream().into_iter().collect();
        let text = match inside.get(1) {
            Some(TokenTree::Group(text)) => text.stream().to_string(),
            _ => String::new(),
        };
        found.push((inside[0].to_string(), text));
        index += 2;
    }
    (found, index)
}

/// The name or index of the field that is the cause.
fn cause(fields: &Group) -> Option<String> {
    let tokens: Vec<TokenTree> = fields.stream().into_iter().collect();
    let is_tuple = fields.delimiter() == Delimiter::Parenthesis;
    let (mut index, mut number) = (0, 0);
    while index < tokens.len() {
        let (attributes, at) = attributes(&tokens, index);
        let marked = attributes.iter().any(|(name, _)| name == "source" || name == "from");
        let name = if is_tuple { number.to_string() } else { tokens[at].to_string() };
        if marked || name == "source" {
            return Some(name);
        }
        // Skips to the next field: to a comma that is not inside the brackets of a type.
        let mut depth = 0_i32;
        index = at;
        while index < tokens.len() && (depth > 0 || !is_mark(tokens.get(index), ',')) {
            depth += i32::from(is_mark(tokens.get(index), '<')) - i32::from(is_mark(tokens.get(index), '>'));
            index += 1;
        }
        (index, number) = (index + 1, number + 1);
    }
    None
}

/// Whether a format with these arguments prints the field: in the text, or as an argument.
fn writes(format: &str, field: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_number = field.chars().all(|c| c.is_ascii_digit());
    format.match_indices(field).any(|(at, _)| {
        let (before, behind) = (&format[..at], format[at + field.len()..].chars().next());
        let last = before.chars().next_back();
        let is_whole = !behind.is_some_and(is_part) && !last.is_some_and(is_part);
        let inserted = before.trim_end().ends_with('{') && matches!(behind, Some('}' | ':'));
        // Arguments are written without braces: `.0`, `source`.
        let argued = before.matches('"').count() >= 2
            && if is_number { before.trim_end().ends_with('.') } else { true };
        is_whole && (inserted || argued)
    })
}

/// The variants with a cause: name, format, and the field that is the cause.
fn with_cause(body: &Group) -> Vec<(String, String, String)> {
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let (mut index, mut found) = (0, Vec::new());
    while index < tokens.len() {
        let (attributes, at) = attributes(&tokens, index);
        let Some(TokenTree::Ident(variant)) = tokens.get(at) else {
            index = at + 1;
            continue;
        };
        index = at + 1;
        let format = attributes.into_iter().find(|(name, _)| name == "error");
        if let (Some((_, format)), Some(TokenTree::Group(fields))) = (format, tokens.get(index))
            && let Some(field) = cause(fields)
        {
            found.push((variant.to_string(), format, field));
        }
    }
    found
}

/// The error structures of a file with a cause, as if they were variants.
fn structures(tokens: &TokenStream) -> Vec<(String, String, String)> {
    let items = tokens.clone().into_iter();
    let items = items.filter(|token| !is_word(Some(token), "pub") && !is_word(Some(token), "struct"));
    with_cause(&Group::new(Delimiter::Brace, items.collect()))
}

/// The variants that repeat the message of their cause, and the number of variants with a cause.
fn repeats(body: &Group) -> (Vec<String>, usize) {
    let found = with_cause(body);
    let wrong = found.iter().filter(|(_, format, field)| writes(format, field));
    (wrong.map(|(variant, format, _)| format!("{variant}: {format}")).collect(), found.len())
}

#[test]
fn no_error_says_what_its_cause_says() {
    let (mut wrong, mut causes) = (Vec::new(), 0);
    for (_, path) in sources() {
        let mut enums = Vec::new();
        named(&tokens(&path), "enum", &mut enums);
        for (name, body) in enums {
            let (of_enum, with_cause) = repeats(&body);
            causes += with_cause;
            wrong.extend(of_enum.iter().map(|variant| format!("{}: {name}::{variant}", path.display())));
        }
        let of_structures = structures(&tokens(&path));
        causes += of_structures.len();
        let repeated = of_structures.iter().filter(|(_, format, field)| writes(format, field));
        wrong.extend(repeated.map(|(name, ..)| format!("{}: {name}", path.display())));
    }
    assert!(causes > 50, "{causes} variants with a cause found");
    assert!(wrong.is_empty(), "the causes are printed behind it:\n{}", wrong.join("\n"));
}

#[test]
fn a_cause_that_is_written_is_found() {
    let errors = r#"enum E {
        /// A
        #[error("{doing}: {source}")] A { doing: Vec<(u8, u8)>, source: X },
        #[error("{0}")] B(#[source] X),
        #[error("{1:?}")] C(Map<u8, u8>, #[from] X),
        #[error("{}", why.text())] D { a: u8, #[source] why: X },
        #[error("{}", .0.text())] E(#[from] X),
        #[error("{0}")] F(String, #[source] X),
        #[error("{source_name}: {a}")] G { source_name: String, a: u8, source: X },
        #[error(transparent)] H(#[from] X),
        #[error("the source: 0")] I(#[source] X),
        #[error("idle")] J,
        #[error("{0}")] K(String),
    }"#;
    let mut enums = Vec::new();
    named(&errors.parse().unwrap(), "enum", &mut enums);
    let (wrong, causes) = repeats(&enums[0].1);
    let wrong: String = wrong.iter().map(|text| &text[..1]).collect();
    assert_eq!((wrong.as_str(), causes), ("ABCDE", 9));
    let file = r#"use x::Y;
    /// A
    #[derive(Debug, thiserror::Error)]
    #[error("{at}: {source}")]
    pub struct AError { pub at: u64, source: X }
    impl AError { fn kind(&self) {} }
    #[error("it is late")] pub struct BError(#[source] pub X);
    #[error("{at}")] pub struct CError { at: u64 }"#;
    let found = structures(&file.parse().unwrap());
    let found: Vec<_> =
        found.iter().map(|(name, format, field)| (name.as_str(), writes(format, field))).collect();
    assert_eq!(found, [("AError", true), ("BError", false)]);
}

/// The public error types: crate and name.
fn errors() -> Vec<(String, String)> {
    let mut errors = Vec::new();
    for (library, path) in sources() {
        let mut enums = Vec::new();
        named(&tokens(&path), "enum", &mut enums);
        let text = fs::read_to_string(&path).unwrap();
        let public = |name: &str| name.ends_with("Error") && text.contains(&format!("\npub enum {name} "));
        let structures = text.lines().filter_map(|line| line.strip_prefix("pub struct "));
        let names = structures.map(|line| line.split([' ', '(', '<', ';']).next().unwrap().to_owned());
        errors.extend(names.filter(|name| name.ends_with("Error")).map(|name| (library.clone(), name)));
        errors.extend(
            enums.into_iter().filter(|(name, _)| public(name)).map(|(name, _)| (library.clone(), name)),
        );
    }
    errors.sort();
    assert!(errors.len() > 40, "{} errors found", errors.len());
    errors
}

#[test]
fn no_sample_of_an_error_prints_its_cause() {
    let (mut wrong, mut sampled) = (Vec::new(), BTreeSet::new());
    for sample in samples::samples() {
        let mut error: &dyn std::error::Error = &*sample.error;
        while let Some(cause) = error.source() {
            if error.to_string().contains(&cause.to_string()) {
                wrong.push(format!("{:?}: '{error}' repeats '{cause}'", sample.name));
            }
            error = cause;
        }
        sampled.insert(sample.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let errors = errors();
    for (library, path) in sources() {
        let mut enums = Vec::new();
        named(&tokens(&path), "enum", &mut enums);
        enums.retain(|(name, _)| errors.contains(&(library.clone(), name.clone())));
        for (name, ..) in structures(&tokens(&path)) {
            let is_sampled = sampled.iter().any(|sample| sample[..2] == [library.clone(), name.clone()]);
            assert!(is_sampled, "no sample of {name} in tests/errors/samples.rs");
        }
        for (name, body) in enums {
            for (variant, _, _) in with_cause(&body) {
                let name = [library.clone(), name.clone(), variant];
                assert!(sampled.contains(&name), "no sample of {name:?} in tests/errors/samples.rs");
            }
        }
    }
}

#[test]
fn each_error_has_a_kind() {
    let mut kinds = Vec::new();
    for (library, path) in sources() {
        let mut impls = Vec::new();
        named(&tokens(&path), "impl", &mut impls);
        let has_kind = |body: &Group| body.stream().to_string().contains("fn kind (& self) -> ErrorKind");
        kinds.extend(
            impls.into_iter().filter(|(_, body)| has_kind(body)).map(|(name, _)| (library.clone(), name)),
        );
        // `error_kind! { Name: Failed; … }` writes one.
        let text = fs::read_to_string(&path).unwrap();
        let made = text.split("error_kind!").skip(1).filter_map(|rest| rest.split_once(':'));
        let name = |(name, _): (&str, &str)| name.trim_start_matches([' ', '(', '{', '\n']).to_owned();
        kinds.extend(made.map(name).map(|name| (library.clone(), name)));
    }
    let without: Vec<_> = errors().into_iter().filter(|error| !kinds.contains(error)).collect();
    assert!(without.is_empty(), "without `fn kind(&self) -> ErrorKind`: {without:?}");
}

#[test]
fn the_exit_code_goes_by_each_kind() {
    let read = |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let exits = ["crates/cli/src/exit.rs", "crates/lab-cli/src/lib.rs"].map(read);
    let lists = exits.iter().map(|exit| exit.split_once("kinds! {\n").unwrap().1.split_once('}').unwrap().0);
    let listed: Vec<&str> = lists.flat_map(str::lines).map(str::trim).collect();
    let is_listed = |library: &str, name: &str| {
        let (first, last) = (format!("straddle_{library}::"), format!("::{name},"));
        // Those of the command line itself have no path.
        let own = format!("{name},");
        let is_own = |line: &str| library == "cli" && line == own;
        listed.iter().any(|line| line.starts_with(&first) && line.ends_with(&last) || is_own(line))
    };
    let missing: Vec<_> = errors()
        .into_iter()
        .filter(|(library, name)| !BELOW.contains(&name.as_str()) && !is_listed(library, name))
        .collect();
    assert!(
        missing.is_empty(),
        "not in `kinds!` of crates/cli/src/exit.rs or crates/lab-cli/src/lib.rs: {missing:?}"
    );
}
