//! The requests of a trace: volumes by number, with their names, and times from the first request.

use std::collections::HashMap;

use straddle_units::io::{Nanos, Operation, Time};

use crate::error::LineError;
use crate::format::{Line, Token, Volume};
use crate::scan;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its line, or of its record in a binary format, from 1.
    pub line: u64,
    /// The index of its volume in [`Reader::volumes`](crate::Reader::volumes).
    pub volume: usize,
    /// The operation.
    pub operation: Operation,
    /// First byte; zero for a flush.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// When it arrived after the first, never before the last one ([`Reader::late`](crate::Reader::late)).
    pub arrival: Time,
    /// When it arrived, as the trace says.
    pub time: Nanos,
}

/// Few enough to stay in the processor's first cache.
pub(crate) const BATCH: usize = 256;

#[inline]
pub(crate) fn is_empty(operation: Operation, length: u64) -> bool {
    length == 0 && operation != Operation::Flush
}

#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) batch: Vec<Record>,
    pub(crate) volumes: Volumes,
    pub(crate) others: u64,
    pub(crate) late: u64,
    /// The others are counted from it.
    origin: Option<Nanos>,
    arrival: Time,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self { batch: Vec::with_capacity(BATCH), ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    pub(crate) fn line(&mut self, number: u64, line: &Line<'_>) -> Result<(), LineError> {
        let volume = self.volumes.index(line.volume)?;
        self.request(number, volume, (line.operation, line.offset, line.length), line.at)
    }

    /// Without bytes it is a line without a request, unless it is a flush.
    #[inline]
    pub(crate) fn request(
        &mut self,
        line: u64,
        volume: usize,
        (operation, offset, length): (Operation, u64, u64),
        at: Nanos,
    ) -> Result<(), LineError> {
        if is_empty(operation, length) {
            self.others += 1;
            return Ok(());
        }
        if offset.checked_add(length).is_none() {
            return Err(LineError::TooFar { offset, length });
        }
        let origin = *self.origin.get_or_insert(at);
        let arrival = Time::from_nanos(at.get().saturating_sub(origin.get()));
        self.late += u64::from(at < origin || arrival < self.arrival);
        self.arrival = self.arrival.max(arrival);
        let arrival = self.arrival;
        self.batch.push(Record { line, volume, operation, offset, length, arrival, time: at });
        Ok(())
    }
}

/// The most volumes. The largest published traces are of fewer than 10,000.
pub(crate) const MAX_VOLUMES: usize = 1 << 16;
pub(crate) const LONGEST: usize = 256;

/// Volumes whose indices are found without a map, as a power of two.
const SLOTS: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Its first bytes; of more than eight, mixed with the last ones.
    key: u64,
    /// Its length plus one, so that no volume is like an empty slot.
    length: u32,
    index: u32,
}

/// The names, each with its index in the order of occurrence.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    slots: Vec<Slot>,
    names: Vec<String>,
    indices: HashMap<String, usize>,
    name: String,
}

impl Volumes {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn index(&mut self, Volume(first, second): Volume<'_>) -> Result<usize, LineError> {
        if first.len() + second.len() > LONGEST {
            return Err(LineError::LongName { limit: LONGEST });
        }
        self.name.clear();
        self.name.push_str(first);
        if !second.is_empty() {
            self.name.push(':');
            self.name.push_str(second);
        }
        if let Some(known) = self.indices.get(&self.name) {
            return Ok(*known);
        }
        let index = self.names.len();
        if index >= MAX_VOLUMES {
            return Err(LineError::Volumes { most: MAX_VOLUMES });
        }
        self.names.push(self.name.clone());
        self.indices.insert(self.name.clone(), index);
        Ok(index)
    }

    #[inline]
    pub(crate) fn of_token(&mut self, token: Token<'_>) -> Result<usize, LineError> {
        let first = scan::word(token.bytes, token.at);
        let last = match token.length.checked_sub(SHORT) {
            Some(more) => scan::word(token.bytes, token.at + more),
            None => 0,
        };
        self.known(key(first, last, token.length), token, Self::find)
    }

    /// `find` looks for the volume's name.
    #[inline]
    fn known(
        &mut self,
        key: u64,
        token: Token<'_>,
        find: impl FnOnce(&mut Self, Token<'_>) -> Result<usize, LineError>,
    ) -> Result<usize, LineError> {
        let place = usize::try_from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52).unwrap_or(0);
        if let Some(slot) = self.slots.get(place)
            && slot.key == key
            && slot.length as usize == token.length + 1
        {
            let index = slot.index as usize;
            if token.length <= SHORT || self.names.get(index).is_some_and(|name| is_token(name, token)) {
                return Ok(index);
            }
        }
        let index = find(self, token)?;
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Slot::default());
        }
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = Slot { key, length: narrow(token.length + 1), index: narrow(index) };
        }
        Ok(index)
    }

    #[cfg(any(test, feature = "parquet"))]
    #[inline]
    pub(crate) fn of_name(&mut self, name: &[u8]) -> Result<usize, LineError> {
        let token = Token { bytes: name, at: 0, length: name.len(), second: None };
        let (first, last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => {
                let mut first = [0; SHORT];
                first.iter_mut().zip(name).for_each(|(byte, of)| *byte = *of);
                (u64::from_le_bytes(first), 0)
            }
        };
        self.known(key(first, last, name.len()), token, |volumes, token| {
            let name = std::str::from_utf8(token.bytes).map_err(|_| LineError::NotText)?;
            volumes.index(Volume(name, ""))
        })
    }

    #[inline(never)]
    fn find(&mut self, token: Token<'_>) -> Result<usize, LineError> {
        let (first, second) = parts(token);
        let text = |part| std::str::from_utf8(part).map(str::trim).map_err(|_| LineError::NotText);
        self.index(Volume(text(first)?, text(second)?))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn unnamed(&mut self) -> usize {
        // There is room for one name.
        self.index(Volume::default()).unwrap_or(0)
    }
}

/// Bytes of a name that are in its key as they are.
const SHORT: usize = 8;

/// By its first bytes, its last ones if there are more, and its length.
#[inline]
const fn key(first: u64, last: u64, length: usize) -> u64 {
    match length {
        0 => 0,
        length if length <= SHORT => first << (8 * (SHORT - length)),
        _ => first ^ last.rotate_left(29),
    }
}

fn parts(token: Token<'_>) -> (&[u8], &[u8]) {
    let end = token.at + token.length;
    let part = |from: usize, to: usize| token.bytes.get(from..to).unwrap_or_default();
    match token.second {
        Some(second) => (part(token.at, second - 1), part(second, end)),
        None => (part(token.at, end), &[]),
    }
}

fn is_token(name: &str, token: Token<'_>) -> bool {
    let (first, second) = parts(token);
    let rest = name.as_bytes().strip_prefix(first);
    match token.second {
        Some(_) => rest.and_then(|rest| rest.strip_prefix(b":")) == Some(second),
        None => rest == Some(&[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_index() {
        let mut volumes = Volumes::default();
        let of = |volumes: &mut Volumes, first, second| volumes.index(Volume(first, second)).unwrap();
        for _ in 0..2 {
            let all = [("8", ""), ("8", "1"), ("8", ""), ("81", ""), ("", ""), ("8", "10"), ("8", "1")];
            let indices = all.map(|(first, second)| of(&mut volumes, first, second));
            assert_eq!(indices, [0, 1, 0, 2, 3, 4, 1]);
        }
        assert_eq!(volumes.names(), ["8", "8:1", "81", "", "8:10"]);
    }

    #[test]
    fn what_is_written_has_the_index_of_its_name() {
        let mut volumes = Volumes::default();
        let long = "12345678-1234-1234-1234-123456789abc";
        let text = format!("8,1;81;8;hm,1;{long};{long}x;; 8;ö;hm,11;");
        let padded = [text.as_bytes(), &[0; scan::PADDING]].concat();
        let names = ["8:1", "81", "8", "hm:1", long, &format!("{long}x"), "", "8", "ö", "hm:11"];
        for _ in 0..3 {
            let mut at = 0;
            for name in names {
                let end = at + padded[at..].iter().position(|byte| *byte == b';').unwrap();
                let comma = padded[at..end].iter().position(|byte| *byte == b',').map(|comma| at + comma + 1);
                let token = Token { bytes: &padded, at, length: end - at, second: comma };
                let index = volumes.of_token(token).unwrap();
                assert_eq!(volumes.names()[index], name);
                at = end + 1;
            }
        }
        assert_eq!(volumes.names().len(), 9);
        let bytes = [0xff_u8; 24];
        let token = Token { bytes: &bytes, at: 0, length: 3, second: None };
        assert_eq!(volumes.of_token(token), Err(LineError::NotText));
    }

    #[test]
    fn a_name_is_taken_as_it_is() {
        let mut volumes = Volumes::default();
        let long = "12345678-1234-1234-1234-123456789abc";
        let names = [
            "",
            "8",
            " 8",
            "8:1",
            "12345678",
            "123456789",
            long,
            &format!("{long}x"),
            &long.replace('5', "6"),
        ];
        for _ in 0..3 {
            for name in names {
                let index = volumes.of_name(name.as_bytes()).unwrap();
                assert_eq!(volumes.names()[index], name);
            }
        }
        assert_eq!(volumes.names().len(), names.len());
        assert_eq!(volumes.of_name(&[b'a', 0xff]), Err(LineError::NotText));
    }

    #[test]
    fn a_column_that_is_no_volume_is_refused() {
        let mut volumes = Volumes::default();
        for number in 0..MAX_VOLUMES {
            volumes.index(Volume(&number.to_string(), "")).unwrap();
        }
        assert_eq!(volumes.index(Volume("x", "")), Err(LineError::Volumes { most: MAX_VOLUMES }));
        assert_eq!(volumes.index(Volume("7", "")), Ok(7));
        assert!(volumes.index(Volume(&"x".repeat(300), "")).is_err());
    }
}
