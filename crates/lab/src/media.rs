//! A modelled drive with contents, for any clock.
//!
//! Invariants: the model says when, the store says what. [`Served`] joins the two and reads no clock, so it works in
//! virtual and in real time. Every later read sees a write at once. What survives a power cut is what the model says
//! was on the medium. Only [`virtio`] describes such a drive to a guest's driver, and translates its requests.

mod cut;
mod served;
mod store;
mod unsettled;
pub mod virtio;

pub use cut::{Cut, Tear};
pub use served::{MediaError, Payload, Served, Watch};
pub use store::{Store, StoreError};
