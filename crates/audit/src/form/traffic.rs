//! What was fetched from servers, in `check --json`.

use schemars::JsonSchema;
use serde::Serialize;
use straddle_device::Traffic;

/// What was fetched to read an object on a server.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Traffic")]
pub(super) struct TrafficReport {
    /// The number of requests, with those that were redirected, repeated, or asked for credentials.
    requests: u64,
    /// The number of bytes received: headers and contents, and what TLS adds.
    received_bytes: u64,
    /// The size of the object.
    object_bytes: u64,
}

impl From<Traffic> for TrafficReport {
    fn from(traffic: Traffic) -> Self {
        let Traffic { requests, received, object } = traffic;
        Self { requests, received_bytes: received, object_bytes: object.get() }
    }
}
