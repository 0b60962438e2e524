//! Records what the kernel asks of a block device, through tracefs.
//!
//! Invariants: the device is not opened. The kernel's buffers are those of an instance of this process,
//! which is removed at the end, or by the next recording if this process was killed. What the kernel had no room for is counted. Memory does not depend on the length of
//! the recording, and what the kernel says is checked like any other input.

mod error;
mod event;
mod instance;
mod layout;
mod page;
mod session;
mod subject;

pub use error::{FormatError, PageError, RecordError};
pub use event::Decoder;
pub use layout::{Layout, PageLayout};
pub use page::{Missed, walk};
pub use session::{CLOCK, Ended, Options, Progress, Why, clock, record};
pub use subject::Subject;
