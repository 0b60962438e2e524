//! What `--json` prints, one module per command: the published forms of results.
//!
//! These types are the interface. Fields are added, never renamed, and a form's `schema` increases with every
//! breaking change. The domain's own types may change behind them.
//!
//! A number has its unit in its name (`_bytes`, `_ns`, `_seconds`, `_lba`, `_sectors`, `_rpm`, `_percent`);
//! counts are plain nouns, and ratios end in `ratio`.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod copy;
mod device;
pub(crate) mod drive;
pub(crate) mod efficiency;
pub(crate) mod explain;
pub(in crate::view) mod finding;
pub(crate) mod fit;
pub(crate) mod fleet;
pub(crate) mod lab;
mod layers;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod realign;
pub(crate) mod reproduce;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sim;
pub(in crate::view) mod table;
pub(crate) mod trace;
mod traffic;

pub(crate) use check::{Status, TargetReport};
