//! The order of the modules, as listed in the crate's documentation.

use std::fs;
use std::path::Path;

const LIB: &str = include_str!("../../src/lib.rs");

/// The modules in the order of the lists in the crate's documentation.
fn order() -> Vec<&'static str> {
    let lists = LIB.lines().filter_map(|line| line.strip_prefix("//! - ")?.split_once(": "));
    lists.flat_map(|(_, modules)| modules.split(", ")).collect()
}

/// The module that provides `name` at the crate's root: the module of that name, or the one from which `name`
/// is re-exported.
fn module_of(name: &str) -> Option<&'static str> {
    let exports =
        LIB.split("pub use ").skip(1).filter_map(|export| export.split(';').next()?.split_once("::"));
    let is_name = |word: &str| word == name;
    let mut found =
        exports.filter(|(_, names)| names.split(|c: char| !c.is_alphanumeric() && c != '_').any(is_name));
    order().into_iter().find(|module| *module == name).or_else(|| found.next().map(|(module, _)| module))
}

/// The modules that `source` uses through `crate::`.
fn used(source: &str) -> Vec<&'static str> {
    let words = |text: &'_ str| -> Vec<String> {
        let end = if text.starts_with('{') {
            text.find('}')
        } else {
            text.find(|c: char| !c.is_alphanumeric() && c != '_')
        };
        let text = &text[..end.unwrap_or(text.len())];
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    source.split("crate::").skip(1).flat_map(words).filter_map(|name| module_of(&name)).collect()
}

/// The sources of `module` and its children, except tests, which may use any module.
fn sources(module: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let children = fs::read_dir(root.join(module)).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files =
        children.chain([root.join(format!("{module}.rs"))]).filter(|path| !path.ends_with("tests.rs"));
    files.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn no_module_uses_one_further_on() {
    let order = order();
    let declared = LIB.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let is_listed = |module: &&str| order.contains(module) || *module == "tests";
    let missing: Vec<&str> = declared.filter(|module| !is_listed(module)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "not in the order");
    let mut uses = 0;
    for (at, module) in order.iter().enumerate() {
        for used in sources(module).iter().flat_map(|source| used(source)) {
            assert!(order[..=at].contains(&used), "{module} uses {used}, which is further on");
            uses += usize::from(used != *module);
        }
    }
    assert!(uses > 30, "{uses} uses found");
}
