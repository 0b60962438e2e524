//! What comes out of a guest: three streams, read to their ends, passed on, and kept as far as is useful.

use std::io::Read;
use std::sync::Mutex;

/// More than this of a stream is passed on, but not kept.
const MOST_KEPT: usize = 4 << 20;

/// Reads to the end; each piece goes to `pass` at once. What is kept is the end where `keep_end`, otherwise the start.
pub(crate) fn drain(mut from: impl Read, kept: &Mutex<Vec<u8>>, keep_end: bool, mut pass: impl FnMut(&[u8])) {
    let mut piece = vec![0; 64 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => {
                let piece = &piece[..length];
                pass(piece);
                let Ok(mut kept) = kept.lock() else { return };
                if keep_end || kept.len() < MOST_KEPT {
                    kept.extend_from_slice(piece);
                }
                if keep_end && kept.len() > 2 * MOST_KEPT {
                    let surplus = kept.len() - MOST_KEPT;
                    kept.drain(..surplus);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
