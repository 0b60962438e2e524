//! Results in the forms that people and programs read.
//!
//! The law of this module: it describes a complete result. It measures nothing, decides nothing, and knows no
//! arguments. The commands decide what is printed where.

pub(crate) mod chart;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markup;
pub(crate) mod report;
pub(crate) mod text;
