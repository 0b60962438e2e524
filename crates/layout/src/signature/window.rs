//! Some bytes of what is probed, and where they begin in it.
//!
//! The law of this module: offsets count from the first byte of what is probed, never from that of the bytes at hand.

/// The bytes.
pub(super) struct Window<'a> {
    base: usize,
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// `bytes`, of which the first is byte `base` of what is probed.
    pub(super) fn new(base: usize, bytes: &'a [u8]) -> Self {
        Self { base, bytes }
    }

    /// The bytes from offset `at` of what is probed; none when the window does not reach there.
    pub(super) fn from(&self, at: usize) -> &'a [u8] {
        at.checked_sub(self.base).and_then(|relative| self.bytes.get(relative..)).unwrap_or(&[])
    }
}
