//! The published form of results: the JSON of `check`.
//!
//! Invariants: it describes a complete result, and decides nothing. These types are the interface.
//! Fields are added, never renamed, and a form's `schema` increases with every breaking change. The domain's
//! own types may change behind them.
//!
//! A number has its unit in its name (`_bytes`, `_ns`, `_seconds`, `_lba`, `_sectors`, `_rpm`, `_percent`);
//! counts are plain nouns, and ratios end in `ratio`.

pub mod check;
mod device;
pub mod finding;
mod layers;
pub mod table;
mod traffic;
