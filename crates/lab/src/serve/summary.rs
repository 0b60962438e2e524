//! Figures about what was served.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::{Counters, Latency, Nanos, Requests, nanos};

/// The requests of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// The requests that were completed without an error.
    #[serde(flatten)]
    pub requests: Requests,
    /// Requests that failed.
    #[serde(rename = "failed_requests")]
    pub failed: u64,
    /// Clients that violated the protocol and were disconnected.
    #[serde(rename = "broken_clients")]
    pub broken: u64,
}

/// Why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// SIGINT or SIGTERM.
    Signal,
    /// The `quit` command.
    Quit,
    /// The power was cut.
    PowerCut,
}

/// The state of the server at one moment.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Snapshot<'a> {
    /// How long the drive has been served, in nanoseconds of real time.
    #[serde(rename = "elapsed_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub elapsed: Duration,
    /// The number of clients.
    pub clients: usize,
    /// The number of requests taken but not yet answered.
    pub outstanding: usize,
    /// Requests that were completed.
    #[serde(flatten)]
    pub totals: Totals,
    /// How much later than the model's time replies were sent, in nanoseconds of real time; absent if there
    /// were no replies, or if replies are not delayed.
    #[serde(skip_serializing_if = "Latency::is_empty")]
    pub lateness: &'a Latency,
    /// Counters from inside the drive.
    pub counters: &'a Counters,
    /// Whether the power is off.
    #[serde(rename = "power_cut")]
    pub is_cut: bool,
}
