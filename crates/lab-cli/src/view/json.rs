//! What `--json` prints.

pub(crate) mod fit;
pub(crate) mod lab;
pub(crate) mod reproduce;
pub(crate) mod schema;
pub(crate) mod serve;

pub(crate) use straddle_cli::view::json::Document;
