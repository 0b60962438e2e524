//! A modelled drive with contents.
//!
//! The law of this crate: the model says when, the store says what. [`Served`] joins the two and reads no clock, so that it
//! serves virtual time and real time alike. What is written is visible to every later read at once; what survives a power
//! cut is what the model says was on the medium.

mod cut;
mod random;
mod served;
mod store;
mod unsettled;

pub use cut::{Cut, Tear};
pub use served::{Payload, ServeError, Served};
pub use store::{Store, StoreError};
