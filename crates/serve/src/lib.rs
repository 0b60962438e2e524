//! A modelled drive with contents, and how others use it.
//!
//! The law of this crate: the model says when, the store says what. [`Served`] joins the two and reads no clock, so that it
//! serves virtual time and real time alike. What is written is visible to every later read at once; what survives a power
//! cut is what the model says was on the medium. [`Engine`] adds the wall's clock, [`Server`] the clients; neither knows how
//! the other works.

mod clock;
mod cut;
mod endpoint;
mod engine;
pub mod nbd;
mod served;
mod server;
mod store;
mod summary;
mod unsettled;

pub use clock::Pace;
pub use cut::{Cut, Tear};
pub use endpoint::{Endpoint, EndpointError};
pub use engine::{Engine, Finished, Job};
pub use served::{Payload, ServeError, Served};
pub use server::{MOST_CLIENTS, Options, Server, ServerError};
pub use store::{Store, StoreError};
pub use summary::{Ending, Snapshot, Totals};
