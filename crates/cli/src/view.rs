//! Results in the forms that people and programs read.
//!
//! Invariants: it describes a complete result. It measures nothing, decides nothing, and knows no
//! arguments. The commands decide what is printed where.

pub mod chart;
pub(crate) mod csv;
pub mod html;
pub mod json;
pub mod markup;
pub(crate) mod report;
pub(crate) mod svg;
pub mod text;
