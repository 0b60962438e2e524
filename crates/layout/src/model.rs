//! What is written on a medium, as values: tables, partitions, layers, contents and problems.
//!
//! Invariants: it uses nothing else from this crate. Readers create these values; rules and plans use them.

pub mod content;
pub mod layer;
pub(crate) mod stack;
pub mod types;
pub mod view;

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn the_model_uses_nothing_else_of_the_crate() {
        let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/model")).unwrap();
        let paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(paths.len() >= 5);
        for path in paths {
            let source = fs::read_to_string(&path).unwrap();
            assert!(!source.contains("crate::") && !source.contains("super::super"), "{}", path.display());
        }
    }
}
