//! Results in the forms that people and programs read.
//!
//! The law of this module: it describes a result that is complete. It measures nothing, decides nothing, and knows no
//! arguments; what is printed where is up to the commands.

pub(crate) mod chart;
pub(crate) mod html;
pub(crate) mod json;
mod markup;
pub(crate) mod text;
