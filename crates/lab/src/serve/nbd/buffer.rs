//! A buffer of bytes that is filled at one end and consumed at the other. Memory is reused without clearing it.

/// Memory beyond this many bytes is freed when the buffer is empty.
const KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) const fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns room for at least `least` more bytes. Fill it, then call [`Buffer::extend`].
    pub(super) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEPT && least <= KEPT {
                self.bytes = Vec::new();
            }
        }
        if self.bytes.len() - self.end < least && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < least {
            self.bytes.resize(self.end + least, 0);
        }
        &mut self.bytes[self.end..]
    }

    pub(super) fn extend(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.extend(bytes.len());
    }

    /// Removes what was added since the buffer was `len` bytes long.
    pub(super) const fn truncate(&mut self, len: usize) {
        self.end = self.start + len;
    }

    /// Frees memory that the remaining bytes do not need.
    pub(super) fn shrink(&mut self) {
        if self.bytes.len() > KEPT && self.len() <= KEPT / 4 {
            self.bytes = self.filled().to_vec();
            (self.start, self.end) = (0, self.bytes.len());
        }
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        let start = self.start;
        if self.len() < bytes {
            return None;
        }
        self.start += bytes;
        Some(&self.bytes[start..start + bytes])
    }
}
