//! The requests of a trace, by volume and operation.
//!
//! The law of this module: accounts of the parts of a trace add up to that of the whole. Memory grows with the
//! number of volumes and of classes, and not with the requests.

use std::collections::BTreeMap;
use std::io::BufRead;

use straddle_io::{Operation, Time};

use crate::error::{LineError, TraceError};
use crate::histogram::{self, Class, Count, Histogram};
use crate::reader::{Reader, Record};

/// What a trace asks of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Its reads.
    pub reads: Histogram,
    /// Its writes.
    pub writes: Histogram,
    /// Its discards.
    pub discards: Histogram,
    /// The number of its flushes.
    pub flushes: u64,
}

impl Volume {
    fn merge(&mut self, other: &Self) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.discards.merge(&other.discards);
        self.flushes += other.flushes;
    }
}

/// What traces ask of their volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    volumes: BTreeMap<String, Volume>,
    /// Lines that were no requests.
    others: u64,
    /// From the first request of a file to the last, in the longest file.
    span: Time,
}

impl Account {
    /// Creates an account of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts all requests of a trace.
    pub fn read<R: BufRead>(&mut self, trace: &mut Reader<R>) -> Result<(), TraceError> {
        let mut volumes: Vec<Volume> = Vec::new();
        while let Some(record) = trace.next_record()? {
            if record.volume >= volumes.len() {
                volumes.resize_with(record.volume + 1, Volume::default);
            }
            if let Some(volume) = volumes.get_mut(record.volume) {
                add(volume, &record).map_err(|error| trace.wrong_at(record.line, error))?;
            }
            self.span = self.span.max(record.arrival);
        }
        for (name, volume) in trace.volumes().iter().zip(&volumes) {
            self.volumes.entry(name.clone()).or_default().merge(volume);
        }
        self.others += trace.others();
        Ok(())
    }

    /// Adds the requests of another account.
    pub fn merge(&mut self, other: &Self) {
        for (name, volume) in &other.volumes {
            self.volumes.entry(name.clone()).or_default().merge(volume);
        }
        self.others += other.others;
        self.span = self.span.max(other.span);
    }

    /// Returns the volumes by name, in order. A trace of one volume may not name it.
    pub fn volumes(&self) -> impl Iterator<Item = (&str, &Volume)> {
        self.volumes.iter().map(|(name, volume)| (name.as_str(), volume))
    }

    /// Returns the requests of all volumes together.
    pub fn total(&self) -> Volume {
        let mut total = Volume::default();
        for volume in self.volumes.values() {
            total.merge(volume);
        }
        total
    }

    /// Returns the number of lines that were no requests: headers, and events of other kinds.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Returns the time from the first request to the last, in the longest file.
    pub const fn span(&self) -> Time {
        self.span
    }

    /// Returns the writes that cost most on units of `unit` sectors, from a start at sector `start`: the writes of
    /// one length to one volume that write most sectors besides their own. `None` if none does.
    pub fn costliest(&self, unit: u64, start: u64) -> Option<Share<'_>> {
        let mut all = 0;
        let mut by: BTreeMap<(&str, u16), u128> = BTreeMap::new();
        for (name, volume) in self.volumes() {
            for (class, count) in volume.writes.classes() {
                let extra = extra(class, count, unit, start);
                all += extra;
                *by.entry((name, class.length)).or_default() += extra;
            }
        }
        let ((volume, sectors), extra) = by.into_iter().max_by_key(|(_, extra)| *extra)?;
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let share = extra as f64 / all as f64;
        (all > 0).then_some(Share { volume, sectors, share })
    }
}

/// The writes of one length to one volume, and their share in what all writes cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share<'a> {
    /// The volume's name; empty if the trace does not name it.
    pub volume: &'a str,
    /// The length in sectors; from 2048 on, any that leaves the same remainder of 2048.
    pub sectors: u16,
    /// The share, from 0 to 1.
    pub share: f64,
}

/// Returns the sectors that writes in whole units write besides their own.
fn extra(class: Class, count: Count, unit: u64, start: u64) -> u128 {
    let effect = histogram::of_class(class, count, unit, start);
    (effect.touched * u128::from(effect.unit)).saturating_sub(effect.sectors)
}

fn add(volume: &mut Volume, record: &Record) -> Result<(), LineError> {
    let histogram = match record.operation {
        Operation::Read => &mut volume.reads,
        Operation::Write | Operation::WriteFua => &mut volume.writes,
        Operation::Discard => &mut volume.discards,
        Operation::Flush => {
            volume.flushes += 1;
            return Ok(());
        }
    };
    let (offset, length) = (record.offset, record.length);
    if histogram.add(offset, length) { Ok(()) } else { Err(LineError::TooFar { offset, length }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Order;

    fn account(text: &str) -> Account {
        let mut account = Account::new();
        let mut reader = Reader::new(text.as_bytes(), "t", None).ordered(Order::Any);
        account.read(&mut reader).unwrap();
        account
    }

    #[test]
    fn volumes_and_operations_are_apart_and_parts_add_up() {
        let lines = ["7,W,4096,4096,20", "8,R,512,512,10", "7,W,32256,8192,30", "7,R,0,4096,5"];
        let whole = account(&lines.join("\n"));
        let names: Vec<_> = whole.volumes().map(|(name, _)| name).collect();
        assert_eq!(names, ["7", "8"]);
        let total = whole.total();
        assert_eq!((total.reads.requests(), total.writes.requests(), total.writes.sectors()), (2, 2, 24));
        let mut parts = account(&lines[2..].join("\n"));
        parts.merge(&account(&lines[..2].join("\n")));
        assert!(parts.volumes().eq(whole.volumes()));
    }

    #[test]
    fn the_writes_that_cost_most_are_named() {
        let account = account("7,W,4096,4096,1\n7,W,36864,4096,2\n8,W,0,65536,3\n8,R,0,512,4");
        let share = account.costliest(32, 0).unwrap();
        assert_eq!((share.volume, share.sectors), ("7", 8));
        assert!((share.share - 1.0).abs() < 1e-9);
        assert_eq!(account.costliest(8, 0), None);
    }

    #[test]
    fn a_request_past_the_last_byte_is_an_error_with_its_line() {
        let text = format!("7,W,0,1,1\n7,W,{},8,2", u64::MAX);
        let mut reader = Reader::new(text.as_bytes(), "t", None);
        let error = Account::new().read(&mut reader).unwrap_err();
        assert_eq!(error.to_string(), "t:2");
    }
}
