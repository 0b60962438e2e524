//! Gives other programs access to a modelled drive with contents: clients, and the wall clock.
//!
//! Invariants: it never waits for one client. What the drive holds and when it answers is decided
//! elsewhere ([`straddle_lab::media::Served`]). [`Engine`] adds the wall clock and [`Server`] the clients; neither
//! knows how the other works.

mod clock;
mod endpoint;
mod engine;
pub mod nbd;
mod server;
pub mod signals;
mod summary;

pub use clock::Pace;
pub use endpoint::{Endpoint, EndpointError};
pub use engine::{Engine, Finished, Job};
pub use server::{Options, Server, ServerError};
pub use summary::{Ending, Snapshot, Totals};
