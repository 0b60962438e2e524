//! Reads numbers and text from the structures of images.

pub(super) use crate::fields::{array, be32, be64, has, le16, le32, le64};

/// Decodes UTF-16 units up to the first NUL.
pub(super) fn utf16(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units.take_while(|unit| *unit != 0))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Decodes UTF-16 from little-endian bytes.
pub(super) fn utf16_le(bytes: &[u8]) -> String {
    utf16(bytes.chunks_exact(2).map(|pair| le16(pair, 0)))
}

/// Converts a Windows path to one with `/` between its parts.
pub(super) fn from_windows(path: &str) -> String {
    path.replace('\\', "/")
}
