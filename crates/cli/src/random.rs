//! Random numbers of the system, for the names of moves and the seeds of GUIDs.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

/// Reads 16 random bytes; `what` they are for is said if that fails.
pub(crate) fn bytes(what: &'static str) -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context(what)?;
    Ok(bytes)
}
