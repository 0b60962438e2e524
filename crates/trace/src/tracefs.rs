//! Records what the kernel asks of a block device, through tracefs.
//!
//! The device is not opened. What the kernel had no room for is counted. Memory does not depend on the length of the
//! recording, and what the kernel says is checked like any other input.

mod instance;
mod page;
mod session;

use std::io;
use std::path::PathBuf;

pub use instance::Subject;
pub use page::{Decoder, Layout, Missed, PageLayout, walk};
pub use session::{CLOCK, Ended, Options, Progress, Why, clock, record};

/// A recording that failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum RecordError {
    #[error("{}: cannot be examined", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("{}: is not a block device, and only requests to block devices can be recorded", path.display())]
    NotADevice { path: PathBuf },
    #[error("{}: has no {what} in sysfs", path.display())]
    NotDescribed { path: PathBuf, what: &'static str },
    #[error("{}: has no request queue; record the {} below it", path.display(), below(lower))]
    NoQueue { path: PathBuf, lower: Vec<String> },
    #[error("tracefs is not mounted; as root, run mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    #[error("this kernel has no tracefs")]
    NoTracefs,
    #[error("this kernel was built without block request events (CONFIG_BLK_DEV_IO_TRACE)")]
    NoEvents,
    #[error("{}: cannot be used for recording; run as root", path.display())]
    Denied { path: PathBuf, source: io::Error },
    #[error("{}: the kernel's trace buffers cannot be used", path.display())]
    Tracefs { path: PathBuf, source: io::Error },
    #[error("{}: has an unknown format", path.display())]
    Format { path: PathBuf, source: FormatError },
    #[error("the kernel's trace buffer for CPU {processor} has an invalid page")]
    Page { processor: u32, source: PageError },
    #[error("the recording cannot be written")]
    Write(#[source] io::Error),
}

fn below(lower: &[String]) -> String {
    if lower.is_empty() { "devices".to_owned() } else { format!("devices ({})", lower.join(", ")) }
}

/// A description by the kernel that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum FormatError {
    #[error("the event has no field {name}")]
    NoField { name: &'static str },
    #[error("the pages of the trace buffer are larger than {most} bytes")]
    Large { most: usize },
}

/// A page that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum PageError {
    #[error("the page has only {bytes} bytes")]
    Short { bytes: usize },
    #[error("the page declares {bytes} bytes of events, which is more than it can hold")]
    Long { bytes: u64 },
    #[error("the event at byte {byte} extends past the end of the page")]
    Event { byte: usize },
}

straddle_units::error_kind! {
    RecordError: Failed;
    Self::NotADevice { .. } | Self::NoQueue { .. } => Usage,
}

straddle_units::error_kind!(FormatError: Failed);

straddle_units::error_kind!(PageError: Failed);
