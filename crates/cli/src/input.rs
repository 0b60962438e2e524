//! Files that a command reads whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads the text of the file or pipe at `path`. Fails if it has more than `largest` bytes, without reading
/// the rest.
pub(crate) fn text(path: &Path, largest: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(largest + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= largest) {
        return Ok(text);
    }
    let message = format!("it has more than {largest} bytes");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}
