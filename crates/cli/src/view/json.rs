//! What `--json` prints, one module per command: the published forms of results, with the rules that `straddle_forms`
//! states. Those that other programs return as well are in that crate.

pub mod bench;
pub(crate) mod copy;
pub(crate) mod efficiency;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod realign;
pub(crate) mod record;
pub mod schema;
pub(crate) mod sim;

pub(crate) use straddle_forms::check::{Status, TargetReport};
pub(crate) use straddle_forms::{check, drive, finding, table, trace};
