//! What the sectors of a journal say by themselves.
//!
//! Invariants: each begins with its magic and the journal's name, and has their hash with that of its contents; the rest
//! is zeros. So no other program's bytes are taken for a part of a journal.

use straddle_units::{ByteCount, ByteOffset, Span};

use super::record::{LENGTH, MARK, MARKS, RECORD, Reader, checked};
use super::{HASH, NAME, Name, hash, list};
use crate::relocate::disk::SECTOR;

const BODY: &[u8; 8] = b"relobody";
/// Magic and name, before the text of a body.
const LEAD: usize = 8 + NAME;
/// [`SECTOR`] in memory, and the text of a body in it.
const BYTES: usize = 512;
const TEXT: usize = BYTES - LEAD - HASH;

/// The bytes that the text of a body fills.
pub(super) fn sealed_len(text: u64) -> u64 {
    text.div_ceil(TEXT as u64).saturating_mul(SECTOR)
}

/// The sectors of the body of the journal with this name.
pub(super) fn sealed(text: &[u8], name: Name) -> Vec<u8> {
    let mut sectors = Vec::new();
    for text in text.chunks(TEXT) {
        let at = sectors.len();
        sectors.extend_from_slice(BODY);
        sectors.extend_from_slice(&name);
        sectors.extend_from_slice(text);
        sectors.resize(at + LEAD + TEXT, 0);
        let hash = hash(&sectors[at..]);
        sectors.extend_from_slice(&hash);
    }
    sectors
}

/// The text of `len` bytes in the sectors of a body.
pub(super) fn unsealed(sectors: &[u8], len: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(sectors.len());
    for sector in sectors.chunks_exact(BYTES) {
        text.extend_from_slice(&sector[LEAD..LEAD + TEXT]);
    }
    text.truncate(len);
    text
}

/// The place of the journal that this sector is a part of. Titles, what the windows save and lists that are not empty
/// are not recognised.
pub(crate) fn part_of(sector: &[u8]) -> Option<Span> {
    let magic = sector.first_chunk()?;
    let len = match magic {
        BODY => LEAD + TEXT,
        RECORD => LENGTH,
        list::MAGIC => list::HEAD,
        magic if MARKS.contains(&magic) => MARK,
        _ => return None,
    };
    let mut reader = Reader(&checked(sector, len)?[magic.len()..]);
    let (start, count) = (u64::from_le_bytes(reader.take()), u64::from_le_bytes(reader.take()));
    let is_all = sector[len + HASH..].iter().all(|byte| *byte == 0);
    Span::new(ByteOffset::new(start), ByteCount::new(count)).filter(|_| is_all)
}
