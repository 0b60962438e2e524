//! A modelled drive with contents, for whatever clock it runs on.
//!
//! The law of this crate: the model says when, the store says what. [`Served`] joins the two and reads no clock, so that it
//! serves virtual time and real time alike. What is written is visible to every later read at once; what survives a power
//! cut is what the model says was on the medium. [`virtio`] is the one place where such a drive is described to a guest's driver,
//! and where the driver's requests become the drive's.

mod cut;
mod error_kind;
mod served;
mod store;
mod unsettled;
pub mod virtio;

pub use cut::{Cut, Tear};
pub use served::{MediaError, Payload, Served};
pub use store::{Store, StoreError};
