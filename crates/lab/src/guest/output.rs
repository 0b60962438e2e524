//! The output of a guest: three streams, read to their ends, passed on, and kept in part.

use std::io::Read;
use std::sync::Mutex;

/// At most this many bytes of a stream are kept. All of it is passed on.
const MOST_KEPT: usize = 4 << 20;

/// Reads to the end and passes each piece to `pass` at once. Keeps the end of the stream if `keep_end`,
/// otherwise the start.
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{MOST_KEPT, drain};

    fn kept(stream: &[u8], keep_end: bool) -> Vec<u8> {
        let (kept, mut passed) = (Mutex::new(Vec::new()), Vec::new());
        drain(stream, &kept, keep_end, |piece| passed.extend_from_slice(piece));
        assert!(passed == stream, "all of it is passed on");
        kept.into_inner().unwrap()
    }

    #[test]
    fn of_a_long_stream_the_start_or_the_end_is_kept() {
        let long: Vec<u8> = (0..5 * MOST_KEPT).map(|at| at.to_le_bytes()[2]).collect();
        let (start, end) = (kept(&long, false), kept(&long, true));
        assert!(long.starts_with(&start) && (MOST_KEPT..2 * MOST_KEPT).contains(&start.len()));
        assert!(long.ends_with(&end) && (MOST_KEPT..=2 * MOST_KEPT).contains(&end.len()));
        assert_eq!((kept(b"short", false), kept(b"short", true)), (b"short".to_vec(), b"short".to_vec()));
    }
}
