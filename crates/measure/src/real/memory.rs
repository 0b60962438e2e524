//! Page-aligned memory for direct I/O.

use straddle_units::io::SplitMix64;

/// In bytes; enough for the direct I/O of every device.
const PAGE: usize = 4096;

pub(crate) struct Memory {
    bytes: Vec<u8>,
    from: usize,
    length: usize,
}

impl Memory {
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![0; length + PAGE];
        let from = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Self { bytes, from, length }
    }

    pub(crate) fn random(length: usize, seed: u64) -> Self {
        let mut memory = Self::new(length);
        SplitMix64::new(seed).fill(memory.bytes_mut());
        memory
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_page() {
        for length in [0, 1, 512, 4096, 100_000] {
            let memory = Memory::random(length, 7);
            assert_eq!((memory.bytes().as_ptr().align_offset(PAGE), memory.bytes().len()), (0, length));
        }
    }
}
