//! Contents of generated files: bytes that look like text.

use std::io::{self, Write};

use straddle_units::io::SplitMix64;

/// Size of the text that contents are pieces of. It repeats if a file is longer.
const POOL: usize = 1 << 20;

const SYLLABLES: [&str; 16] = [
    "re", "struct", "_", "ct", "dev", "int", "buf", "lock", "sk", "page", "irq", "un", "set", "get", "io",
    "ptr",
];

pub(crate) struct Text(Vec<u8>);

impl Text {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut bytes = Vec::with_capacity(POOL + 80);
        while bytes.len() < POOL {
            for _ in 0..=random.below(11) {
                (0..=random.below(3)).for_each(|_| bytes.extend(SYLLABLES[random.index(16)].bytes()));
                bytes.extend(match random.below(4) {
                    0 => format!("({:x});", random.below(1 << 24)).into_bytes(),
                    _ => b" ".to_vec(),
                });
            }
            bytes.push(b'\n');
        }
        bytes.truncate(POOL);
        Self(bytes)
    }

    /// Writes `len` bytes, from a place in the text that `from` selects.
    pub(crate) fn write(&self, out: &mut dyn Write, from: u64, len: u64) -> io::Result<()> {
        let mut at = SplitMix64::new(from).index(POOL);
        let mut left = len;
        while left > 0 {
            let piece = (POOL - at).min(usize::try_from(left).unwrap_or(POOL));
            out.write_all(&self.0[at..at + piece])?;
            left -= piece as u64;
            at = 0;
        }
        Ok(())
    }
}
