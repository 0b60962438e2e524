//! Plans partition tables on the right boundaries, moves and copies partitions to them, and writes so that a
//! power cut at any point leaves the old layout, the new one, or a move that can be finished or reversed.
//!
//! Invariants: planning and encoding are pure, and plans are values. Three modules write, each from
//! a plan of its own, and only to a [`Target`], which this crate opens itself:
//!
//! - [`apply`] writes the table of a [`Plan`], and overwrites no byte that is not in a backup which was written
//!   and synchronised before.
//! - [`realign`] moves the data of a [`Realign`](realign::Realign) and then writes its table. It overwrites no
//!   byte that is needed and not elsewhere on the disk or in the journal, durably.
//! - [`copy`] writes a disk of which [`Copy`](copy::Copy) says what it holds. The source is only read; of
//!   the new disk nothing is kept, so the plan names what is on it, and nothing else may be there.
//!
//! What the types do not hold: a disk that another program implements ([`Target::simulated`]) has not been
//! opened, examined or locked by this crate. A backup's checksum detects damage, not intent
//! ([`apply::Backup::load`]). A file system in memory reports a file as synchronised that a power failure takes
//! with it.

pub mod apply;
pub mod boot;
mod contents;
pub mod copy;
mod document;
mod encode;
mod error;
mod fingerprint;
mod foresee;
mod grain;
mod guid;
mod kinds;
mod lost;
pub mod moves;
pub mod other_tools;
mod plan;
mod present;
pub mod realign;
pub mod relocate;
mod request;
mod sfdisk;
mod target;

pub use document::{Document, SCHEMA};
pub use encode::{Step, encode};
pub use error::PlanError;
pub use fingerprint::Fingerprint;
pub use grain::{Considered, Grain};
pub use guid::Seed;
pub use kinds::type_name;
pub use lost::Lost;
pub use plan::{Change, Entry, Format, Plan, Situation, Slot, Table, in_the_way_of_copies, make};
pub use present::{ChangeError, Depth, Present};
pub use request::{Grow, Part, Place, Request, Size, parse_file};
pub use sfdisk::{from_sfdisk, to_sfdisk};
pub use target::{Identity, Simulated, Target, TargetError, examine, serial_of};
