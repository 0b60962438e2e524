//! The kernel's events of requests, taken apart.

use crate::{Event, Happened, Marks, SECTOR};
use straddle_units::io::Nanos;

use crate::tracefs::error::FormatError;
use crate::tracefs::layout::{Field, Layout};

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
        // Of a command of the device, the sectors are none.
        let length = match layout.bytes.filter(|_| sectors == 0) {
            Some(bytes) => bytes.number(data)?,
            None => sectors.saturating_mul(SECTOR),
        };
        Some(Happened {
            event: *event,
            time,
            device: layout.device.narrow(data)?,
            marks: Marks::of_letters(layout.letters.bytes(data)?, sectors),
            // A flush that completes is at sector -1, one that is issued at 0.
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
