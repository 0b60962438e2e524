//! What is written on a medium, as values: tables and partitions, layers, contents, problems.
//!
//! The law of this module: it uses nothing else of this crate. Who reads makes these values; who judges takes them.

pub mod content;
pub mod layer;
pub(crate) mod stack;
pub mod types;
pub mod view;
