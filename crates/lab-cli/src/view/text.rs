//! Results as text for people.

pub(crate) mod fit;
pub(crate) mod lab;
pub(crate) mod reproduce;
pub(crate) mod serve;

pub(crate) use straddle_cli::view::text::{
    duration, folded, headed, number, percent, plain_table, right, trimmed, wrap,
};
