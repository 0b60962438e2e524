//! The published form of results: the JSON of `check`.
//!
//! Invariants: it describes a complete result, and decides nothing. The domain's types serialise themselves. A form's
//! `schema` increases with every breaking change.
//!
//! A number has its unit in its name (`_bytes`, `_ns`, `_seconds`, `_lba`, `_sectors`, `_rpm`, `_percent`);
//! counts are plain nouns, and ratios end in `ratio`.

pub mod check;
mod device;
pub mod finding;
