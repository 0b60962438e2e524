//! Numbers and texts in the structures of images.

pub(super) use crate::fields::{array, be32, be64, has, le16, le32, le64};

/// A text of 16-bit units, up to its first NUL.
pub(super) fn utf16(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// UTF-16 in little-endian bytes.
pub(super) fn utf16_le(bytes: &[u8]) -> String {
    utf16(bytes.chunks_exact(2).map(|pair| le16(pair, 0)))
}

/// A path as Windows writes it, with `/` between its parts.
pub(super) fn from_windows(path: &str) -> String {
    path.replace('\\', "/")
}
