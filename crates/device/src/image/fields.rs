//! Numbers and texts in the structures of images.

/// `N` bytes from `at`; zeros where the structure is shorter, which no caller asks for.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

pub(super) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

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
