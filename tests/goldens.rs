//! Text and JSON of `straddle check` on sysfs trees, captured from real kernels or constructed from
//! documentation (each tree's README says which), compared with reviewed goldens. The JSON is also checked
//! against its published schema.
//!
//! To review changed output, run `cargo insta review`, or set INSTA_UPDATE=always and read the diff.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tools;

use tools::{Run, root, straddle};

/// The names of the trees.
fn trees() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("tests/sysroots"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("sys/block").is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn schema() -> jsonschema::Validator {
    let text = std::fs::read_to_string(root().join("docs/check.schema.json")).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

#[test]
fn every_kind_of_device_has_a_tree() {
    let trees = trees();
    for kind in [
        "sata-512e",
        "sata-512n",
        "sas-4kn",
        "nvme-16k",
        "usb-bridge-33553920",
        "md-misaligned",
        "virtio",
        "wd10ears",
    ] {
        assert!(trees.iter().any(|tree| tree == kind), "no tree {kind}");
    }
}

#[test]
fn every_tree_says_whether_it_was_captured_or_constructed() {
    for tree in trees() {
        let readme =
            std::fs::read_to_string(root().join("tests/sysroots").join(&tree).join("README")).unwrap();
        let readme = readme.to_lowercase();
        assert!(readme.contains("captured") || readme.contains("constructed"), "{tree}");
    }
}

#[test]
fn text_is_as_reviewed() {
    for tree in trees() {
        let Run { out, err, code } =
            straddle(&["check", "--verbose", "--sysroot", &format!("tests/sysroots/{tree}")]);
        insta::with_settings!({ snapshot_path => root().join("tests/goldens"), prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("{tree}.txt"), format!("{out}{err}exit status {code}\n"));
        });
    }
}

#[test]
fn json_is_as_reviewed_and_fits_the_schema() {
    let schema = schema();
    for tree in trees() {
        let value = straddle(&["check", "--json", "--sysroot", &format!("tests/sysroots/{tree}")]).json();
        let errors: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{tree}: {errors:?}");
        insta::with_settings!({ snapshot_path => root().join("tests/goldens"), prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("{tree}.json"), serde_json::to_string_pretty(&value).unwrap());
        });
    }
}
