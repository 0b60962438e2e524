//! What a recording says of itself: by what it was recorded, of which drives, and what was lost.
//!
//! It is lines of `key: value` in messages of blktrace's format, before and after the requests. Unknown keys are
//! passed over, and what is kept of a file is bounded.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::TraceError;
use crate::format::Format;
use crate::reader::Reader;

const VOLUMES: usize = 1 << 12;
/// The longest value in bytes.
const LONGEST: usize = 512;

/// What is known of a trace that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its format; `None` if it is empty.
    pub format: Option<Format>,
    /// What it says of itself, if it is a recording.
    pub origin: Option<Origin>,
}

impl About {
    /// The trace has been read to its end.
    pub(crate) fn of(reader: &mut Reader<'_>) -> Result<Self, TraceError> {
        Ok(Self { format: reader.detect()?, origin: reader.origin().cloned() })
    }
}

/// What a recording says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The program, and where it recorded.
    pub recorder: Option<String>,
    /// The clock of the times.
    pub clock: Option<String>,
    /// The drives, one for each volume.
    pub drives: Vec<Recorded>,
    /// The requests in the recording. Absent if it was cut off.
    pub requests: Option<u64>,
    /// Events that the kernel had no room for, so that requests or latencies are missing. Absent if the recording was
    /// cut off.
    pub lost_events: Option<u64>,
}

/// A drive that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recorded {
    /// The name of its volume in the trace.
    #[serde(skip)]
    pub volume: String,
    /// The name of the device or modelled drive that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The drive's model; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The size in bytes.
    #[serde(rename = "capacity_bytes", skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// The logical sector size in bytes.
    #[serde(rename = "logical_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub logical_sector: Option<u64>,
    /// The physical sector size in bytes, as the drive reports it.
    #[serde(rename = "physical_sector_bytes", skip_serializing_if = "Option::is_none")]
    pub physical_sector: Option<u64>,
    /// The partition that was recorded; absent if the whole drive was. In either case, offsets in the
    /// recording count from the start of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
}

/// A partition of a drive that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RecordedPartition")]
pub struct Partition {
    /// The name of the partition's device.
    pub device: String,
    /// The offset of its first byte on the drive.
    #[serde(rename = "start_bytes")]
    pub start: u64,
    /// Its size in bytes.
    #[serde(rename = "size_bytes")]
    pub length: u64,
}

impl Origin {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the recording did not come to its end, so that more may be lost than it says.
    pub fn is_cut_off(&self) -> bool {
        self.recorder.is_some() && self.requests.is_none()
    }

    /// Adds what another recording says.
    pub fn merge(&mut self, other: &Self) {
        let sum = |own: Option<u64>, other: Option<u64>| match (own, other) {
            (Some(own), Some(other)) => Some(own.saturating_add(other)),
            (own, other) => own.or(other),
        };
        self.recorder = self.recorder.take().or_else(|| other.recorder.clone());
        self.clock = self.clock.take().or_else(|| other.clock.clone());
        let room = VOLUMES.saturating_sub(self.drives.len());
        self.drives.extend(other.drives.iter().take(room).cloned());
        self.requests = sum(self.requests, other.requests);
        self.lost_events = sum(self.lost_events, other.lost_events);
    }

    /// Each with the index of the drive that it is about.
    pub(crate) fn head(&self) -> Vec<(usize, String)> {
        let mut lines = Vec::new();
        let mut line = |index: usize, key: &str, value: Option<String>| {
            lines.extend(value.map(|value| (index, format!("{key}: {}", kept(&value)))));
        };
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        line(0, "recorder", self.recorder.clone());
        line(0, "clock", self.clock.clone());
        for (index, drive) in self.drives.iter().enumerate() {
            line(index, "volume", Some(drive.volume.clone()));
            line(index, "device", drive.device.clone());
            line(index, "model", drive.model.clone());
            line(index, "bytes", number(drive.capacity));
            line(index, "logical_sector_bytes", number(drive.logical_sector));
            line(index, "physical_sector_bytes", number(drive.physical_sector));
            if let Some(partition) = &drive.partition {
                line(index, "partition", Some(partition.device.clone()));
                line(index, "partition_start_byte", number(Some(partition.start)));
                line(index, "partition_bytes", number(Some(partition.length)));
            }
        }
        lines
    }

    pub(crate) fn tail(&self) -> Vec<String> {
        let numbers = [("requests", self.requests), ("lost_events", self.lost_events)];
        let line = |(key, number): (&str, Option<u64>)| Some(format!("{key}: {}", number?));
        numbers.into_iter().filter_map(line).collect()
    }

    pub(crate) fn take(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(": ") else { return };
        let (key, value) = (key.trim(), value.trim());
        if value.is_empty() || value.len() > LONGEST {
            return;
        }
        let text = || Some(value.to_owned());
        let number = || value.parse().ok();
        if key == "volume" && self.drives.len() < VOLUMES {
            self.drives.push(Recorded { volume: value.to_owned(), ..Recorded::default() });
        }
        match (key, self.drives.last_mut()) {
            ("recorder", _) => self.recorder = text(),
            ("clock", _) => self.clock = text(),
            ("requests", _) => self.requests = number(),
            ("lost_events", _) => self.lost_events = number(),
            ("device", Some(drive)) => drive.device = text(),
            ("model", Some(drive)) => drive.model = text(),
            ("bytes", Some(drive)) => drive.capacity = number(),
            ("logical_sector_bytes", Some(drive)) => drive.logical_sector = number(),
            ("physical_sector_bytes", Some(drive)) => drive.physical_sector = number(),
            ("partition", Some(drive)) => {
                drive.partition = Some(Partition { device: value.to_owned(), ..Partition::default() });
            }
            ("partition_start_byte", Some(Recorded { partition: Some(partition), .. })) => {
                partition.start = number().unwrap_or(partition.start);
            }
            ("partition_bytes", Some(Recorded { partition: Some(partition), .. })) => {
                partition.length = number().unwrap_or(partition.length);
            }
            _ => {}
        }
    }
}

/// On one line, and no longer than is read.
fn kept(value: &str) -> String {
    let plain: String = value.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let mut end = plain.len().min(LONGEST);
    while !plain.is_char_boundary(end) {
        end -= 1;
    }
    plain.get(..end).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Origin {
        let partition = Partition { device: "/dev/sdb1".to_owned(), start: 32_256, length: 1 << 30 };
        let first = Recorded {
            volume: "sdb".to_owned(),
            device: Some("/dev/sdb".to_owned()),
            model: Some("A drive: of many words".to_owned()),
            capacity: Some(1 << 40),
            logical_sector: Some(512),
            physical_sector: Some(4096),
            partition: Some(partition),
        };
        let second = Recorded { volume: "sdc".to_owned(), ..Recorded::default() };
        Origin {
            recorder: Some("straddle 0.1.0".to_owned()),
            clock: Some("mono".to_owned()),
            drives: vec![first, second],
            requests: Some(7),
            lost_events: Some(0),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let origin = recorded();
        let mut again = Origin::default();
        origin.head().iter().for_each(|(_, line)| again.take(line));
        origin.tail().iter().for_each(|line| again.take(line));
        assert_eq!(again, origin);
        assert!(!again.is_cut_off());
        let mut head = Origin::default();
        origin.head().iter().for_each(|(_, line)| head.take(line));
        assert!(head.is_cut_off());
    }

    #[test]
    fn a_value_stays_on_its_line_and_is_bounded() {
        let hostile = "a\nlost_events: 9\r\u{1b}[2J".to_owned() + &"ü".repeat(600);
        let drive = Recorded { volume: "v".to_owned(), model: Some(hostile), ..Recorded::default() };
        let origin = Origin { drives: vec![drive], ..Origin::default() };
        let mut again = Origin::default();
        origin.head().iter().for_each(|(_, line)| again.take(line));
        assert_eq!((again.lost_events, again.drives.len()), (None, 1));
        let model = again.drives[0].model.as_deref().unwrap();
        assert!(model.starts_with("a lost_events: 9") && model.len() <= LONGEST, "{model}");
        for line in ["", "recorder", "bytes: 7", "requests: many", &format!("model: {}", "x".repeat(5000))] {
            Origin::default().take(line);
            again.take(line);
        }
        assert_eq!((again.requests, again.drives[0].capacity), (None, Some(7)));
    }

    #[test]
    fn recordings_add_up() {
        let mut all = recorded();
        all.merge(&recorded());
        assert_eq!((all.requests, all.lost_events, all.drives.len()), (Some(14), Some(0), 4));
        let mut none = Origin::default();
        none.merge(&recorded());
        assert_eq!(none, recorded());
    }
}
