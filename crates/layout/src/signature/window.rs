//! A part of the probed bytes, and its offset.
//!
//! Invariants: offsets count from the first probed byte, never from the first byte in the window.

/// The bytes and the offset of the first one.
pub(super) struct Window<'a> {
    base: usize,
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// A window on `bytes`, whose first byte is at offset `base` of the probed space.
    pub(super) fn new(base: usize, bytes: &'a [u8]) -> Self {
        Self { base, bytes }
    }

    /// The bytes from offset `at` of the probed space on; empty if the window does not reach there.
    pub(super) fn from(&self, at: usize) -> &'a [u8] {
        at.checked_sub(self.base).and_then(|relative| self.bytes.get(relative..)).unwrap_or(&[])
    }
}
