//! Records what the kernel asks of a block device, through tracefs.
//!
//! The device is not opened. What the kernel had no room for is counted. Memory does not depend on the length of the
//! recording, and what the kernel says is checked like any other input.

mod error;
mod instance;
mod page;
mod session;

pub use error::{FormatError, PageError, RecordError};
pub use instance::Subject;
pub use page::{Decoder, Layout, Missed, PageLayout, walk};
pub use session::{CLOCK, Ended, Options, Progress, Why, clock, record};
