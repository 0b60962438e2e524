//! Events and pages, by the fields that tracefs describes in text. What it states is checked against the bytes when they
//! are read.

use straddle_units::io::Nanos;

use crate::tracefs::error::FormatError;
use crate::{Event, Happened, Marks, SECTOR};

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

    /// Returns a number of at most 32 bits.
    fn narrow(self, record: &[u8]) -> Option<u32> {
        u32::try_from(self.number(record)?).ok()
    }
}

/// A description: its number, and its fields by name.
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
    /// Where an event has its `id`.
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

/// Returns an error's number, which the kernel writes with a minus.
fn error(field: Field, data: &[u8]) -> Option<u16> {
    let number = field.narrow(data)?.cast_signed();
    Some(u16::try_from(number.unsigned_abs()).unwrap_or(u16::MAX))
}

/// The fields of a page of the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    pub(crate) time: Field,
    pub(crate) commit: Field,
    /// Where the events begin.
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
