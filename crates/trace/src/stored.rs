//! Accounts as bytes, to be kept or merged elsewhere.
//!
//! Equal accounts are equal bytes, on every machine, and no other bytes are read as this account: volumes are in the
//! order of their names, classes in that of their keys, and a number is written in one way only. The last four bytes
//! are a CRC-32 of all before them. What a window merged is left out, as it does not add up.

use straddle_units::io::Time;

use crate::account::{Account, Volume};
use crate::histogram::{Histogram, is_key, is_long};
use crate::record::LONGEST;

const MAGIC: &[u8; 8] = b"straddle";
const VERSION: u8 = 1;
/// The most requests of an account that is read, so that sums of many do not overflow.
const MOST_REQUESTS: u64 = 1 << 60;

/// Bytes that are not an account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum StoredError {
    #[error("not a straddle histogram")]
    Magic,
    #[error(
        "the histogram has format version {found}, but this version of straddle reads only version {VERSION}"
    )]
    Version { found: u8 },
    #[error(
        "the histogram is damaged or truncated: its checksum is {found:#010x} instead of {expected:#010x}"
    )]
    Checksum { found: u32, expected: u32 },
    #[error("byte {byte} of the histogram: {reason}")]
    Impossible { byte: usize, reason: &'static str },
}

straddle_units::error_kind!(StoredError: Failed);

impl Account {
    /// Returns the account as bytes. Equal accounts are equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        put(&mut out, self.others);
        match self.span {
            None => out.push(0),
            Some(span) => {
                out.push(1);
                put(&mut out, span.get());
            }
        }
        put(&mut out, self.volumes.len() as u64);
        for (name, volume) in &self.volumes {
            put(&mut out, name.len() as u64);
            out.extend(name.as_bytes());
            for histogram in volume.histograms() {
                put_histogram(&mut out, histogram);
            }
            put(&mut out, volume.flushes);
        }
        let sum = crc32fast::hash(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// Reads an account from the bytes that [`Self::to_bytes`] made of it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoredError> {
        let Some((version, _)) = bytes.strip_prefix(MAGIC).and_then(<[u8]>::split_first) else {
            return Err(StoredError::Magic);
        };
        if *version != VERSION {
            return Err(StoredError::Version { found: *version });
        }
        let Some((body, sum)) = bytes.split_last_chunk() else { return Err(StoredError::Magic) };
        let (expected, found) = (u32::from_le_bytes(*sum), crc32fast::hash(body));
        if expected != found {
            return Err(StoredError::Checksum { found, expected });
        }
        let mut input = Input { bytes: body, at: MAGIC.len() + 1, requests: 0 };
        let account = input.account()?;
        if input.at < body.len() {
            return Err(input.wrong("there are unexpected bytes after the end"));
        }
        Ok(account)
    }
}

/// Classes are written as the distances of their keys, so that most take a byte or two.
fn put_histogram(out: &mut Vec<u8>, histogram: &Histogram) {
    let classes = histogram.keyed();
    put(out, histogram.inexact());
    put(out, classes.len() as u64);
    let mut next = 0;
    for (key, count) in classes {
        put(out, u64::from(key - next));
        put(out, count.requests);
        if is_long(key) {
            put(out, count.beyond);
        }
        next = key + 1;
    }
}

/// Seven bits a byte, the lowest first (LEB128).
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    requests: u64,
}

impl Input<'_> {
    fn account(&mut self) -> Result<Account, StoredError> {
        let others = self.count()?;
        let span = match self.byte()? {
            0 => None,
            1 => Some(Time::from_nanos(self.number()?)),
            _ => return Err(self.wrong("the field must be a time or empty")),
        };
        let mut account = Account { others, span, ..Account::default() };
        for _ in 0..self.number()? {
            let name = self.name()?;
            if account.volumes.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(self.wrong("the volumes are not sorted by name"));
            }
            let volume = self.volume()?;
            account.volumes.insert(name, volume);
        }
        Ok(account)
    }

    fn name(&mut self) -> Result<String, StoredError> {
        let length = self.number()?;
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or_else(|| self.wrong("the name of a volume is too long"))?;
        let name = self.bytes.get(self.at..).and_then(|rest| rest.get(..length));
        let name = name.ok_or_else(|| self.wrong("the histogram ends inside the name of a volume"))?;
        let name = std::str::from_utf8(name).map_err(|_| self.wrong("the name of a volume is not text"))?;
        self.at += length;
        Ok(name.to_owned())
    }

    fn volume(&mut self) -> Result<Volume, StoredError> {
        let (reads, writes, discards) = (self.histogram()?, self.histogram()?, self.histogram()?);
        let flushes = self.count()?;
        self.more(flushes)?;
        let volume = Volume { reads, writes, discards, flushes, coalesced: Vec::new() };
        if volume.is_empty() {
            return Err(self.wrong("the volume has no requests"));
        }
        Ok(volume)
    }

    fn histogram(&mut self) -> Result<Histogram, StoredError> {
        let mut histogram = Histogram::default();
        histogram.inexact = self.count()?;
        let (mut next, mut all) = (0_u64, 0);
        for _ in 0..self.number()? {
            let key = self.number()?.checked_add(next).and_then(|key| u32::try_from(key).ok());
            let key = key
                .filter(|key| is_key(*key))
                .ok_or_else(|| self.wrong("there is no such class of requests"))?;
            next = u64::from(key) + 1;
            let requests = self.number()?;
            self.more(requests)?;
            let beyond = if is_long(key) { self.number()? } else { 0 };
            if requests == 0 {
                return Err(self.wrong("the class has no requests"));
            }
            all += requests;
            histogram.add_many(key, requests, beyond);
        }
        if histogram.inexact > all {
            return Err(self.wrong("there are more misaligned requests than requests in total"));
        }
        Ok(histogram)
    }

    fn more(&mut self, requests: u64) -> Result<(), StoredError> {
        let sum = self.requests.checked_add(requests).filter(|sum| *sum <= MOST_REQUESTS);
        self.requests = sum.ok_or_else(|| self.wrong("there are more requests than any trace can have"))?;
        Ok(())
    }

    fn count(&mut self) -> Result<u64, StoredError> {
        let count = self.number()?;
        if count > MOST_REQUESTS {
            return Err(self.wrong("there are more requests than any trace can have"));
        }
        Ok(count)
    }

    fn number(&mut self) -> Result<u64, StoredError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.wrong("the number is encoded with unnecessary bytes"))
    }

    fn byte(&mut self) -> Result<u8, StoredError> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.wrong("the histogram ends here"))?;
        self.at += 1;
        Ok(byte)
    }

    fn wrong(&self, reason: &'static str) -> StoredError {
        StoredError::Impossible { byte: self.at, reason }
    }
}

#[cfg(test)]
mod tests;
