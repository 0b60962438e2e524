//! Figures about what was served.

use std::time::Duration;

use straddle_units::io::{Counters, Latency, Requests};

/// What was done for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// Time since the start, by the wall clock.
    pub elapsed: Duration,
    /// The number of clients.
    pub clients: usize,
    /// Requests taken but not yet answered.
    pub outstanding: usize,
    /// Requests that were completed.
    pub totals: Totals,
    /// How much later than the model's time completions were sent, by the wall clock.
    pub lateness: &'a Latency,
    /// The drive's internal counters.
    pub counters: &'a Counters,
    /// Whether the power is off.
    pub is_cut: bool,
}

/// The reply of the control socket to `stats`.
#[derive(serde::Serialize)]
pub(crate) struct Stats<'a> {
    elapsed_ns: u64,
    clients: usize,
    outstanding: usize,
    power: bool,
    #[serde(flatten)]
    totals: Totals,
    lateness_p50_ns: u64,
    lateness_p99_ns: u64,
    lateness_max_ns: u64,
    counters: &'a Counters,
}

impl Snapshot<'_> {
    pub(crate) fn stats(&self) -> Stats<'_> {
        Stats {
            elapsed_ns: u64::try_from(self.elapsed.as_nanos()).unwrap_or(u64::MAX),
            clients: self.clients,
            outstanding: self.outstanding,
            power: !self.is_cut,
            totals: self.totals,
            lateness_p50_ns: self.lateness.quantile(0.5).get(),
            lateness_p99_ns: self.lateness.quantile(0.99).get(),
            lateness_max_ns: self.lateness.max().get(),
            counters: self.counters,
        }
    }
}
