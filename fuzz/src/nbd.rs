//! An NBD client that sends arbitrary bytes.

use straddle_lab::serve::nbd::{Export, LARGEST_REQUEST, Session};

/// Feeds the bytes to a session, in pieces of the size in the first byte's low bits. The first byte's top bit
/// selects whether its requests are answered at once or never. Every request handed out must be acceptable to
/// the drive, and memory must stay bounded.
pub fn nbd(data: &[u8]) {
    let Some((&how, data)) = data.split_first() else { return };
    let export = Export {
        name: "disk".to_owned(),
        description: "a disk".to_owned(),
        size: 1 << 30,
        minimum_block: 512,
        preferred_block: 4096,
        rotational: how & 64 != 0,
        trim: how & 32 != 0,
    };
    let (answers, piece) = (how & 128 != 0, usize::from(how & 31) + 1);
    let mut session = Session::begin();
    let mut taken = 0;
    for piece in data.chunks(piece) {
        if !session.is_ready() {
            return;
        }
        session.input()[..piece.len()].copy_from_slice(piece);
        session.received(piece.len());
        loop {
            let (cookie, read) = match session.next(&export) {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(wanted)) => {
                    let end = wanted.offset.checked_add(wanted.length.into());
                    assert!(end.is_some_and(|end| end <= export.size));
                    assert!((wanted.offset | u64::from(wanted.length)).is_multiple_of(512));
                    assert!(wanted.data.is_empty() || wanted.data.len() == wanted.length as usize);
                    assert!(wanted.data.len() <= LARGEST_REQUEST as usize);
                    let read = wanted.kind == straddle_lab::serve::nbd::Kind::Read;
                    (wanted.cookie, read.then_some((wanted.offset, wanted.length)))
                }
            };
            taken += 1;
            if answers {
                session.complete(cookie, 0, read);
                while session.fill(|_, _| Ok(())).is_ok() && !session.output().is_empty() {
                    assert!(session.output().len() < 2 << 20, "more in memory than there may be");
                    session.sent(usize::MAX);
                }
            } else {
                assert!(taken <= 1024, "more in flight than there may be");
            }
        }
    }
}
