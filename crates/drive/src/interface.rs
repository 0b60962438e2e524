//! What every kind of drive has: a link to the host, and sectors.

use straddle_units::io::Nanos;

/// The drive's real sectors, whatever it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sectors {
    /// The unit that can be written without a read-modify-write, in bytes: physical sector or indirection unit.
    #[serde(rename = "physical_bytes")]
    pub physical: u64,
    /// Bytes by which the firmware shifts every address upward: 512 with the XP jumper.
    #[serde(rename = "firmware_offset_bytes", default)]
    pub firmware_offset: u64,
}

/// The controller and its link to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Nanoseconds per mebibyte on the link.
    pub nanos_per_mib: u64,
    /// From the arrival of a read until the heads can move.
    pub read_overhead: Nanos,
    /// From the arrival of a write until the heads can move, or until its data can enter the cache.
    pub write_overhead: Nanos,
    /// From the last byte until the host receives the completion.
    pub completion_overhead: Nanos,
    /// The queue depth: how many commands the drive accepts at a time.
    pub queue_depth: u32,
}

impl Interface {
    /// The time to transfer `bytes` over the link.
    pub const fn transfer(&self, bytes: u64) -> Nanos {
        transfer_time(bytes, self.nanos_per_mib)
    }
}

/// Rounded up, so that the last bit is never early. It does not overflow, however large the drive.
pub(crate) const fn transfer_time(bytes: u64, nanos_per_mib: u64) -> Nanos {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "2^50 bytes of at most 10.5 s a MiB are below 2^64 ns"
    )]
    let nanos = (bytes as u128 * nanos_per_mib as u128).div_ceil(1 << 20) as u64;
    Nanos::new(nanos)
}
