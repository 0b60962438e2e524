//! Texts in the terms of the field: string literals and comments of the crates, from which help, errors, findings and
//! schemas are made, the data files, and every page.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{root, sources};

/// Phrases with a standard term in their place: revert, again, fix, is misaligned, describes, the number's name.
const PHRASES: &[&str] = &[
    "told",
    "anew",
    "so many",
    "take back",
    "takes back",
    "taken back",
    "took back",
    "taking back",
    "cure",
    "cures",
    "cured",
    "go off",
    "goes off",
    "went off",
    "tells all",
    "tell all",
    "judged as if",
    "harm somebody",
    "somebody",
    "who wants",
    "whoever",
    "or nothing may be",
    "pays a read-modify-write",
];

/// What may follow "is no".
const DEGREES: &[&str] = &["longer", "more", "later", "less", "better", "larger", "smaller"];

/// Returns what is wrong with the wording of `text`, in a few words around each place.
fn objections(text: &str) -> Vec<String> {
    // Punctuation is a word of its own: what it separates is no phrase.
    let mut spaced = String::new();
    for c in text.to_lowercase().chars() {
        match c {
            '`' | '*' => spaced.push(' '),
            '\'' | '_' | '-' => spaced.push(c),
            _ if c.is_alphanumeric() || c.is_whitespace() => spaced.push(c),
            _ => spaced.extend([' ', c, ' ']),
        }
    }
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let at = |index: usize| words.get(index).copied().unwrap_or_default();
    let is_denied = |index: usize| {
        let has_verb = ["is", "are", "was", "were"].contains(&at(index)) && at(index + 1) == "no";
        has_verb && !DEGREES.contains(&at(index + 2)) && (index == 0 || at(index - 1) != "there")
    };
    let is_phrase = |index: usize, phrase: &str| {
        phrase.split(' ').enumerate().all(|(offset, word)| at(index + offset) == word)
    };
    (0..words.len())
        .filter(|index| is_denied(*index) || PHRASES.iter().any(|phrase| is_phrase(*index, phrase)))
        .map(|index| words[index.saturating_sub(4)..words.len().min(index + 6)].join(" "))
        .collect()
}

/// Collects the string literals, with what doc comments hold, outside of tests.
fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    let mut names = [String::new(), String::new()];
    for token in tokens {
        match token {
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if let (Some(start), Some(end)) = (text.find('"'), text.rfind('"'))
                    && start < end
                {
                    found.push(text[start + 1..end].replace("\\\n", " ").replace("\\n", "\n"));
                }
            }
            TokenTree::Ident(ident) => {
                names.swap(0, 1);
                names[1] = ident.to_string();
            }
            TokenTree::Group(group) => {
                let is_tests = group.delimiter() == Delimiter::Brace && names == ["mod", "tests"];
                if !is_tests {
                    literals(group.stream(), found);
                }
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// The comments that have lines of their own and are not in the documentation.
fn comments(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.trim_start().strip_prefix("// "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Every page and data file below `folder`.
fn pages(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|of| of == "md" || of == "toml" || of == "json") {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn texts_are_in_the_terms_of_the_field() {
    let mut texts = Vec::new();
    let data =
        ["crates/audit/src/catalogue", "crates/cli/src/topics", "crates/device/src", "crates/drive/profiles"];
    for folder in data.into_iter().chain(["docs"]) {
        pages(&root().join(folder), &mut texts);
    }
    for entry in fs::read_dir(root()).unwrap().chain(fs::read_dir(root().join("tests")).unwrap()) {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            texts.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    // What other people have published is quoted as it is.
    texts.retain(|(name, _)| !name.contains("/experiments/") && !name.contains("/results/"));
    let is_of_tests = |path: &str| path.contains("/tests") || !path.contains("/src/");
    for (path, source) in sources(&["rs"]) {
        if path.starts_with("crates/") && !is_of_tests(&path) {
            let tokens = source.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            let mut found = Vec::new();
            literals(tokens, &mut found);
            found.push(comments(&source));
            texts.push((path, found.join("\n")));
        }
    }
    assert!(texts.len() > 680, "{} texts", texts.len());
    let wrong: Vec<String> = texts
        .iter()
        .flat_map(|(name, text)| objections(text).into_iter().map(move |place| format!("{name}: {place}")))
        .collect();
    assert!(wrong.is_empty(), "not the terms of the field:\n{}", wrong.join("\n"));
}

#[test]
fn foreign_terms_are_found() {
    for text in
        ["It is no\nraw image.", "sectors of So many bytes", "the cure: -X", "`undo` takes back", "Was told"]
    {
        assert_eq!(objections(text).len(), 1, "{text}");
    }
    for text in
        ["There is no table.", "is no longer\nheld", "secure", "accurate", "is not a file", "takes it back"]
    {
        assert_eq!(objections(text), Vec::<String>::new(), "{text}");
    }
    let source =
        "/// A cure.\nfn a() { b(\"anew\", 'x', 1); }\n// told\nmod tests { fn c() { \"so many\"; } }\n";
    let mut found = Vec::new();
    literals(source.parse().unwrap(), &mut found);
    assert_eq!(objections(&found.join("\n")).len(), 2, "{found:?}");
    assert_eq!(comments(source), "told");
}
