//! Identifiers for new tables and partitions, generated from a seed.

use std::fmt;
use std::str::FromStr;

use straddle_units::io::SplitMix64;

/// 128 bits from which identifiers are generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(pub u128);

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| format!("'{text}' is not a seed; use up to 32 hexadecimal digits"))
    }
}

#[derive(Clone)]
pub(crate) struct Identities {
    high: SplitMix64,
    low: SplitMix64,
}

impl Identities {
    pub(crate) fn new(seed: Seed) -> Self {
        let bytes = seed.0.to_be_bytes();
        let half = |from: usize| straddle_device::fields::be64(&bytes, from);
        Self { high: SplitMix64::new(half(0)), low: SplitMix64::new(half(8)) }
    }

    /// Generates a version 4 GUID (RFC 9562) in its on-disk byte order.
    pub(crate) fn guid(&mut self) -> [u8; 16] {
        let mut guid = [0; 16];
        guid[..8].copy_from_slice(&self.high.next().to_be_bytes());
        guid[8..].copy_from_slice(&self.low.next().to_be_bytes());
        // The third field is little endian: the version digit is in its second byte.
        guid[7] = guid[7] & 0x0F | 0x40;
        guid[8] = guid[8] & 0x3F | 0x80;
        guid
    }

    pub(crate) fn disk_id(&mut self) -> u32 {
        straddle_device::fields::le32(&self.guid(), 0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use straddle_layout::types::guid_text;

    use super::*;

    #[test]
    fn identities_are_random_guids_and_repeat_by_seed() {
        let all = |seed: u128| -> Vec<String> {
            let mut identities = Identities::new(Seed(seed));
            (0..50).map(|_| guid_text(identities.guid())).collect()
        };
        assert_eq!(all(7), all(7));
        let mut together: Vec<String> = (0..40).flat_map(all).collect();
        for text in &together {
            assert_eq!(text.as_bytes()[14], b'4', "{text}");
            assert!(b"89AB".contains(&text.as_bytes()[19]), "{text}");
        }
        together.sort();
        together.dedup();
        assert_eq!(together.len(), 40 * 50);
    }

    #[test]
    fn seeds_are_hexadecimal() {
        assert_eq!("ff".parse(), Ok(Seed(255)));
        assert_eq!(Seed(255).to_string(), "ff");
        assert!("xyz".parse::<Seed>().is_err() && "1".repeat(33).parse::<Seed>().is_err());
    }
}
