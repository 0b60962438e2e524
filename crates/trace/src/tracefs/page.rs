//! A page of the kernel's ring buffer (`kernel/trace/ring_buffer.c`): events, each with the time since the one before it.
//! The first word of each has its type in five bits, and a time in 27.
//!
//! | type | event |
//! |---|---|
//! | 0 | its length is in the next four bytes, and counts them |
//! | 1–28 | its data are four times as many bytes |
//! | 29 | no event: the end of the page, or a gap of the length in the next four bytes |
//! | 30 | the time goes on by the next four bytes, shifted by 27, and the time |
//! | 31 | the same as an absolute time, without its highest five bits |
//!
//! Events and pages are read by the fields that tracefs describes in text. What it states is checked against the bytes
//! when they are read.

use straddle_units::io::Nanos;

use crate::tracefs::{FormatError, PageError};
use crate::{Event, Happened, Marks, SECTOR};

const TIME_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits of a time that an absolute one lacks.
const HIGHEST: u64 = 0xf8 << 56;
/// The bits of `commit` for the number of bytes, and its flags (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`).
const COMMIT: u64 = (1 << TIME_BITS) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events that were overwritten before this page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    None,
    /// The page does not give their number.
    Some,
    /// This number.
    Count(u64),
}

/// Calls `each` with the time and the data of every event of a page.
pub fn walk(
    page: &[u8],
    layout: &PageLayout,
    mut each: impl FnMut(Nanos, &[u8]),
) -> Result<Missed, PageError> {
    let mut time = layout.time.number(page).ok_or(PageError::Short { bytes: page.len() })?;
    let commit = layout.commit.number(page).ok_or(PageError::Short { bytes: page.len() })?;
    let length = usize::try_from(commit & COMMIT).unwrap_or(usize::MAX);
    let end = layout.data.checked_add(length).filter(|end| *end <= page.len());
    let end = end.ok_or(PageError::Long { bytes: commit & COMMIT })?;
    let data = page.get(..end).unwrap_or_default();
    let mut at = layout.data;
    while at < end {
        let wrong = PageError::Event { byte: at };
        let (kind, delta) = split(word(data, at).ok_or(wrong)?);
        let from = at + 4;
        let next = || word(data, from).ok_or(wrong);
        let mut event = None;
        let behind = match kind {
            PADDING if delta == 0 => break,
            PADDING => from.checked_add(next()? as usize),
            TIME_EXTEND => {
                time = time.wrapping_add(u64::from(next()?) << TIME_BITS);
                Some(from + 4)
            }
            TIME_STAMP => {
                time = (u64::from(next()?) << TIME_BITS | u64::from(delta)) & !HIGHEST | time & HIGHEST;
                Some(from + 4)
            }
            0 => {
                let behind = from.checked_add(next()? as usize);
                event = Some(from + 4);
                behind
            }
            words => {
                event = Some(from);
                Some(from + 4 * words as usize)
            }
        };
        if kind != TIME_STAMP {
            time = time.wrapping_add(delta.into());
        }
        let behind = behind.filter(|behind| *behind <= end && *behind > at).ok_or(wrong)?;
        if let Some(from) = event {
            each(Nanos::new(time), data.get(from..behind).ok_or(wrong)?);
        }
        at = behind;
    }
    Ok(missed(page, commit, end))
}

fn missed(page: &[u8], commit: u64, end: usize) -> Missed {
    if commit & MISSED == 0 {
        return Missed::None;
    }
    let stored =
        || page.get(end..end.checked_add(size_of::<usize>())?)?.try_into().ok().map(usize::from_ne_bytes);
    match stored().filter(|_| commit & MISSED_STORED != 0) {
        Some(count) => Missed::Count(count as u64),
        None => Missed::Some,
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Splits the first word of an event into its type and its time: C lays bits out in the order of bytes.
const fn split(word: u32) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (word & 0x1f, word >> 5)
    } else {
        (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// Returns a number without a sign; of a negative one of less than eight bytes, its bits.
    pub(crate) fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        match self.size {
            1 => bytes.first().copied().map(u64::from),
            2 => Some(u16::from_ne_bytes(bytes.try_into().ok()?).into()),
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    fn narrow(self, record: &[u8]) -> Option<u32> {
        u32::try_from(self.number(record)?).ok()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Description<'a> {
    id: Option<u32>,
    fields: Vec<(&'a str, Field)>,
}

impl<'a> Description<'a> {
    fn of(text: &'a str) -> Self {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        Self { id, fields: text.lines().filter_map(field).collect() }
    }

    fn field(&self, name: &'static str) -> Result<Field, FormatError> {
        let found = self.fields.iter().find(|(known, _)| *known == name);
        found.map(|(_, field)| *field).ok_or(FormatError::NoField { name })
    }
}

/// Parses `field:unsigned int nr_sector; offset:24; size:4; signed:0;`.
fn field(line: &str) -> Option<(&str, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?.split('[').next()?;
    let name = declared.rsplit([' ', '*']).next().filter(|name| !name.is_empty())?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.parse().ok(),
            Some(("size", number)) => size = number.parse().ok(),
            _ => {}
        }
    }
    Some((name, Field { offset: offset?, size: size? }))
}

/// The fields of an event of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    id: u32,
    kind: Field,
    device: Field,
    sector: Field,
    sectors: Field,
    /// The length in bytes, which requests without sectors have too.
    bytes: Option<Field>,
    letters: Field,
    name: Option<Field>,
    error: Option<Field>,
    process: Field,
}

impl Layout {
    /// Reads the `format` file of an event.
    pub fn of(text: &str) -> Result<Self, FormatError> {
        let description = Description::of(text);
        Ok(Self {
            id: description.id.ok_or(FormatError::NoField { name: "ID" })?,
            kind: description.field("common_type")?,
            device: description.field("dev")?,
            sector: description.field("sector")?,
            sectors: description.field("nr_sector")?,
            bytes: description.field("bytes").ok(),
            letters: description.field("rwbs")?,
            name: description.field("comm").ok(),
            // Linux before 5.17 has the other name.
            error: description.field("error").or_else(|_| description.field("errors")).ok(),
            process: description.field("common_pid")?,
        })
    }
}

/// Takes events apart.
#[derive(Clone, Debug)]
pub struct Decoder {
    events: [(Event, Layout); 2],
}

impl Decoder {
    /// Reads the `format` files of `block_rq_issue` and `block_rq_complete`.
    pub fn of(issue: &str, complete: &str) -> Result<Self, FormatError> {
        let events = [(Event::Issue, Layout::of(issue)?), (Event::Complete, Layout::of(complete)?)];
        Ok(Self { events })
    }

    /// Returns what an event says that happened on a processor; `None` if it is another one, or cut off.
    pub fn event(&self, processor: u32, time: Nanos, data: &[u8]) -> Option<Happened> {
        let is_one = |(_, layout): &&(Event, Layout)| layout.kind.narrow(data) == Some(layout.id);
        let (event, layout) = self.events.iter().find(is_one)?;
        let sectors = layout.sectors.number(data)?;
        // A command of the device has no sectors.
        let length = match layout.bytes.filter(|_| sectors == 0) {
            Some(bytes) => bytes.number(data)?,
            None => sectors.saturating_mul(SECTOR),
        };
        Some(Happened {
            event: *event,
            time,
            device: layout.device.narrow(data)?,
            marks: Marks::of_letters(layout.letters.bytes(data)?, sectors),
            // A completed flush is at sector -1, an issued one at 0.
            sector: layout.sector.number(data).map(|sector| if sector == u64::MAX { 0 } else { sector })?,
            bytes: u32::try_from(length).unwrap_or(u32::MAX),
            error: layout.error.and_then(|field| error(field, data)).unwrap_or_default(),
            process: layout.process.narrow(data)?,
            name: layout.name.and_then(|field| field.bytes(data)?.try_into().ok()),
            processor,
        })
    }
}

/// The kernel writes it with a minus.
fn error(field: Field, data: &[u8]) -> Option<u16> {
    let number = field.narrow(data)?.cast_signed();
    Some(u16::try_from(number.unsigned_abs()).unwrap_or(u16::MAX))
}

/// The fields of a page of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    pub(crate) time: Field,
    pub(crate) commit: Field,
    pub(crate) data: usize,
    size: usize,
}

impl PageLayout {
    const MAX_PAGE: usize = 1 << 24;

    /// Reads `events/header_page`.
    pub fn of(text: &str) -> Result<Self, FormatError> {
        let description = Description::of(text);
        let data = description.field("data")?;
        let (time, commit) = (description.field("timestamp")?, description.field("commit")?);
        let size = data.offset.checked_add(data.size).filter(|size| *size <= Self::MAX_PAGE);
        let size = size.ok_or(FormatError::Large { most: Self::MAX_PAGE })?;
        Ok(Self { time, commit, data: data.offset, size })
    }

    /// Returns the size of a page in bytes.
    pub const fn size(&self) -> usize {
        self.size
    }
}
