//! Fields of on-disk structures, by byte offset. One that reaches past the end of the bytes is zero.

/// Returns `N` bytes, or zeros where not all of them are there.
pub fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Reads a little-endian 16-bit field.
pub fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// Reads a little-endian 32-bit field.
pub fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// Reads a little-endian 64-bit field.
pub fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Reads a big-endian 16-bit field.
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// Reads a big-endian 32-bit field.
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// Reads a one-byte field.
pub fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Whether the bytes at offset `at` are `text`.
pub fn has(bytes: &[u8], at: usize, text: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(text))
}

/// Reads a big-endian 64-bit field.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

/// Decodes UTF-16 up to its first NUL. Invalid units are replaced.
pub fn utf16(units: impl Iterator<Item = u16>) -> String {
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<u16>>())
}

/// As [`utf16`], from little-endian bytes.
pub fn utf16_le(bytes: &[u8]) -> String {
    utf16(bytes.chunks_exact(2).map(|pair| le16(pair, 0)))
}
