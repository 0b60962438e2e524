//! What `--json` prints, one module per command: the published forms of results, with the rules that `straddle_forms`
//! states. Those that other programs return as well are in that crate.

pub(crate) mod bench;
pub(crate) mod copy;
pub(crate) mod efficiency;
pub(crate) mod explain;
pub(crate) mod fit;
pub(crate) mod fleet;
pub(crate) mod lab;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod realign;
pub(crate) mod record;
pub(crate) mod reproduce;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sim;

pub(crate) use straddle_forms::check::{Status, TargetReport};
pub(crate) use straddle_forms::{check, drive, finding, table, trace};
