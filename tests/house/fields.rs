//! The state of a model, a server or a run is in parts: no structure has more than a dozen or so of fields.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use super::sources;

/// The folders whose structures hold state. Those elsewhere are forms: arguments, reports, files.
const STATEFUL: &[&str] = &["drive/src/", "lab/src/media", "lab/src/serve", "lab/src/vhost", "measure/src/"];

/// The largest number of fields.
const FIELDS: usize = 13;

/// Structures with more, and how many. They may lose fields, and must not gain any.
const LARGER: &[(&str, usize)] = &[
    // Parameters as they are in a file, and what follows from them.
    ("drive/src/profile/keys.rs File", 14),
    ("drive/src/ssd/parameters.rs FlashFile", 16),
    ("drive/src/ssd/parameters.rs Layout", 14),
    ("measure/src/probe/report.rs Report", 15),
    // State.
    ("drive/src/ssd.rs Ssd", 16),
    ("drive/src/ssd/buffer.rs Buffer", 14),
    ("drive/src/ssd/collect.rs Collector", 15),
    ("measure/src/probe/session.rs Session", 14),
    ("lab/src/serve/server.rs Server", 17),
];

/// The structures in `tokens`, with their numbers of named fields.
fn structures(tokens: TokenStream, found: &mut Vec<(String, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let before = &tokens[..index];
        // The name and what may stand between it and the fields: parameters.
        let keyword =
            before.iter().rposition(|token| matches!(token, TokenTree::Ident(word) if word == "struct"));
        let ends = |token: &TokenTree| {
            matches!(token, TokenTree::Group(_))
                || matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';')
        };
        let own = keyword.filter(|keyword| !before[*keyword..].iter().any(ends));
        match own.and_then(|keyword| before.get(keyword + 1)) {
            Some(name) if group.delimiter() == Delimiter::Brace => {
                found.push((name.to_string(), fields(group.stream())));
            }
            _ => structures(group.stream(), found),
        }
    }
}

/// The number of single colons: one for each named field.
fn fields(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    let is_joint =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.spacing() == Spacing::Joint);
    let first = tokens.first().is_some_and(is_colon);
    assert!(!first, "a structure does not begin with a colon");
    let single = |pair: &&[TokenTree]| {
        is_colon(&pair[1]) && !is_joint(&pair[1]) && !(is_colon(&pair[0]) && is_joint(&pair[0]))
    };
    tokens.windows(2).filter(single).count()
}

#[test]
fn fields_are_counted() {
    let source = "mod a { pub struct A<'a, T: Copy> { /// x\n pub a: std::vec::Vec<T>, #[b(c: 1)] b: &'a (u8, u8), c: X }
        struct B(u8); struct C; fn f() { struct D { a: u8 } } impl E { fn g(x: u8) {} } }";
    let mut found = Vec::new();
    structures(source.parse().unwrap(), &mut found);
    let found: Vec<(&str, usize)> = found.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(found, [("A", 3), ("D", 1)]);
}

#[test]
fn state_is_in_parts() {
    let mut counted = BTreeMap::new();
    for (file, source) in sources(&["rs"]) {
        let Some(file) = file.strip_prefix("crates/") else { continue };
        let is_source = STATEFUL.iter().any(|folder| file.starts_with(folder));
        if is_source && !file.contains("tests") {
            let mut found = Vec::new();
            structures(source.parse().unwrap(), &mut found);
            counted.extend(found.into_iter().map(|(name, count)| (format!("{file} {name}"), count)));
        }
    }
    assert!(counted.len() > 200, "{} structures found", counted.len());
    let larger: BTreeMap<&str, usize> = LARGER.iter().copied().collect();
    let grown =
        counted.iter().filter(|(name, count)| **count > *larger.get(name.as_str()).unwrap_or(&FIELDS));
    let grown: Vec<_> = grown.collect();
    assert!(grown.is_empty(), "more than {FIELDS} fields, or more than before: {grown:?}");
    let needed = |(name, most): &&(&str, usize)| counted.get(*name) != Some(most);
    let stale: Vec<_> = LARGER.iter().filter(needed).collect();
    assert!(stale.is_empty(), "have fewer fields now: {stale:?}");
}
