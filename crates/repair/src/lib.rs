//! Plans partition tables on the right boundaries, moves and copies partitions to them, and writes so that a power
//! cut at any point leaves the old layout, the new one, or a move that can be finished or reversed.
//!
//! Invariants: planning and encoding are pure, and plans are values. Three modules write, each from a plan of its own,
//! and only to a [`Target`], which this crate opens itself:
//!
//! - [`apply`] writes the table of a [`Plan`], after every byte that it overwrites is in a synchronised backup.
//! - [`realign`] moves the data of a [`Realign`](realign::Realign) and then writes its table. Every byte that it
//!   overwrites and that is needed is elsewhere on the disk or in the journal, durably.
//! - [`copy`] writes a disk of which nothing is kept but what its plan, a [`Copy`](copy::Copy), lists.
//!
//! The types do not cover disks that another program implements ([`Target::simulated`]), backups made by hand
//! ([`apply::Backup::load`]), and file systems in memory, which report files as synchronised.

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
mod plan;
mod present;
pub mod realign;
pub mod relocate;
mod request;
mod target;

#[cfg(test)]
extern crate self as straddle_repair;
#[cfg(test)]
#[path = "../tests/repair/mod.rs"]
mod tests;

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
pub use request::{Grow, Part, Place, Request, Size};
pub use target::{Identity, Simulated, Target, TargetError, examine, serial_of};
