//! What `--json` prints, one module per command, each with the rules that it states. The forms that other programs return as
//! well are in the crates of their subjects.

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

pub(crate) use straddle_audit::form::check::{Status, TargetReport};
pub(crate) use straddle_audit::form::{check, finding, table};
pub(crate) use straddle_drive::form as drive;
pub(crate) use straddle_trace::form as trace;
