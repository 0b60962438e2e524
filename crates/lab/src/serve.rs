//! Gives other programs access to a modelled drive with contents. `engine` adds the wall clock, [`Server`] the
//! clients; neither knows how the other works.
mod endpoint;
mod engine;
pub mod nbd;
mod server;

pub use endpoint::{Endpoint, EndpointError};
pub use engine::Pace;
pub use server::{Ending, Options, Server, ServerError, Snapshot, Totals};
