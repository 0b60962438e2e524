//! Why a recording failed.

use std::io;
use std::path::PathBuf;

/// A recording that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The path cannot be examined.
    #[error("{}: cannot be examined", path.display())]
    Look {
        /// The path.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Not a block device.
    #[error("{}: not a block device: only the kernel's requests to one can be recorded", path.display())]
    NotADevice {
        /// The path.
        path: PathBuf,
    },
    /// sysfs does not describe the device.
    #[error("{}: sysfs has no {what} of it", path.display())]
    NotDescribed {
        /// The path.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// A device that passes requests on.
    #[error("{}: has no queue of requests; record the {} below it", path.display(), below(lower))]
    NoQueue {
        /// The path.
        path: PathBuf,
        /// The devices below it.
        lower: Vec<String>,
    },
    /// tracefs is not mounted.
    #[error("tracefs is not mounted: as root, mount -t tracefs nodev /sys/kernel/tracing")]
    NotMounted,
    /// The kernel has no tracefs.
    #[error("this kernel has no tracefs")]
    NoTracefs,
    /// tracefs has no events of requests.
    #[error("this kernel has no events of block requests (CONFIG_BLK_DEV_IO_TRACE)")]
    NoEvents,
    /// Not allowed to record.
    #[error("{}: recording needs root", path.display())]
    Denied {
        /// The path in tracefs.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Something in tracefs cannot be read or written.
    #[error("{}: the kernel's buffers cannot be used", path.display())]
    Tracefs {
        /// The path in tracefs.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The kernel describes an event in an unknown way.
    #[error("{}: an unknown format", path.display())]
    Format {
        /// The path in tracefs.
        path: PathBuf,
        /// What is unknown.
        source: FormatError,
    },
    /// A page of the kernel's buffer is invalid.
    #[error("processor {processor}: an invalid page of the kernel's buffer")]
    Page {
        /// The processor.
        processor: u32,
        /// What is invalid.
        source: PageError,
    },
    /// The recording cannot be written.
    #[error("the recording cannot be written")]
    Write(#[source] io::Error),
}

/// Says which devices are below one.
fn below(lower: &[String]) -> String {
    if lower.is_empty() { "devices".to_owned() } else { format!("devices ({})", lower.join(", ")) }
}

/// A description by the kernel that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A field is missing.
    #[error("it has no field {name}")]
    NoField {
        /// Its name.
        name: &'static str,
    },
    /// Pages are larger than any kernel has them.
    #[error("pages of more than {most} bytes")]
    Large {
        /// The most bytes.
        most: usize,
    },
}

/// A page that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// It has no room for its header.
    #[error("only {bytes} bytes")]
    Short {
        /// Its bytes.
        bytes: usize,
    },
    /// It claims more bytes than it has.
    #[error("it claims {bytes} bytes of events")]
    Long {
        /// The bytes.
        bytes: u64,
    },
    /// An event does not end on the page.
    #[error("the event at byte {byte} does not end on it")]
    Event {
        /// The event's first byte.
        byte: usize,
    },
}

straddle_units::error_kind! {
    RecordError: Failed;
    Self::NotADevice { .. } | Self::NoQueue { .. } => Usage,
}

straddle_units::error_kind!(FormatError: Failed);

straddle_units::error_kind!(PageError: Failed);
