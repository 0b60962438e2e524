//! What `trace record --json` prints.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use straddle_trace::Asked;
use straddle_trace::tracefs::{Ended, Subject, Why};

/// The schema version of this output. It is incremented when the meaning of a field changes or a field is
/// removed, not when a field is added.
pub(crate) const SCHEMA: u32 = 1;

/// What `straddle trace record --json` prints when the recording has ended.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "straddle trace record")]
pub(crate) struct RecordReport {
    /// The schema version of this output.
    schema: u32,
    /// The version of straddle.
    straddle: &'static str,
    /// The disk.
    device: String,
    /// The partition that was recorded; absent if it was the whole disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<PartitionReport>,
    /// The file of the recording.
    file: String,
    /// How long it took.
    elapsed_seconds: f64,
    /// Why it ended.
    ended: EndReport,
    /// Reads.
    reads: u64,
    /// Bytes read.
    read_bytes: u64,
    /// Writes.
    writes: u64,
    /// Bytes written.
    write_bytes: u64,
    /// Flushes of the whole disk.
    flushes: u64,
    /// Discards.
    discards: u64,
    /// Commands of the device, recorded but not counted as requests.
    device_commands: u64,
    /// Events for which the kernel's buffers had no room: they are not in the file.
    lost_events: u64,
}

/// A recorded partition.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordedPartition")]
struct PartitionReport {
    /// Its device.
    device: String,
    /// Where it begins on the disk, from where the recording counts.
    start_bytes: u64,
}

/// Why a recording ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RecordingEnd")]
enum EndReport {
    /// The time was up.
    Time,
    /// It was interrupted.
    Stopped,
    /// The disk went away.
    Gone,
}

impl RecordReport {
    /// The report on a recording in `to`.
    pub(crate) fn of(subject: &Subject, asked: &Asked, ended: &Ended, to: &Path) -> Self {
        let requests = asked.requests;
        let partition = subject.described.partition.as_ref();
        Self {
            schema: SCHEMA,
            straddle: env!("CARGO_PKG_VERSION"),
            device: subject.described.device.clone().unwrap_or_default(),
            partition: partition
                .map(|one| PartitionReport { device: one.device.clone(), start_bytes: one.start }),
            file: to.to_string_lossy().into_owned(),
            elapsed_seconds: ended.elapsed.as_secs_f64(),
            ended: match ended.why {
                Why::Time => EndReport::Time,
                Why::Stopped => EndReport::Stopped,
                Why::Gone => EndReport::Gone,
            },
            reads: requests.reads,
            read_bytes: requests.read_bytes,
            writes: requests.writes,
            write_bytes: requests.write_bytes,
            flushes: requests.flushes,
            discards: requests.discards,
            device_commands: asked.commands,
            lost_events: ended.lost,
        }
    }
}
