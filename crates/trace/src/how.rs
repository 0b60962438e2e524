//! How a trace is read.

use crate::columns::Columns;
use crate::format::Format;

/// How a trace is read.
#[derive(Clone, Debug)]
pub struct How {
    /// Its format; `None` to detect it.
    pub format: Option<Format>,
    /// Which columns hold what, for CSV and Parquet. Those that are not named have their usual names.
    pub columns: Columns,
    /// The event that counts as a request, in traces of events.
    pub event: Event,
    /// Whether times are needed. If not, there may be no column for them, and requests may be read in any order.
    pub timed: bool,
}

impl Default for How {
    fn default() -> Self {
        let columns = Columns::default();
        Self { format: None, columns, event: Event::Issue, timed: true }
    }
}

/// What happens to a request in the kernel, and is an event of its traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// It arrives at the device, from a file system or a layer above (blktrace's `Q`). The only event of devices
    /// that pass requests on, such as those of md and device-mapper.
    Queue,
    /// The driver gets it, after merging (`D`).
    #[default]
    Issue,
    /// The device has done it (`C`).
    Complete,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 3] = [Self::Queue, Self::Issue, Self::Complete];

    /// Returns the name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Issue => "issue",
            Self::Complete => "complete",
        }
    }

    /// Returns the letter that blkparse prints.
    pub(crate) const fn letter(self) -> u8 {
        match self {
            Self::Queue => b'Q',
            Self::Issue => b'D',
            Self::Complete => b'C',
        }
    }
}
