//! Random numbers that are the same on every machine.

/// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators, OOPSLA
/// 2014). Integers only: the last bit of a logarithm may differ between the maths libraries of two machines.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence that `seed` starts.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, each as likely (D. Lemire, Fast random integer generation in an interval, 2019), or 0.
    pub fn below(&mut self, end: u64) -> u64 {
        loop {
            let product = u128::from(self.next()) * u128::from(end);
            let (high, low) = (product >> 64, product & u128::from(u64::MAX));
            // The remainder is only needed where a number may have to be drawn again.
            if low >= u128::from(end) || low >= u128::from(end.wrapping_neg() % end.max(1)) {
                return u64::try_from(high).unwrap_or(0);
            }
        }
    }

    /// An index below `len`; zero if `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Returns true once in `count` draws on average.
    pub fn once_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns true in `percent` of a hundred draws on average.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the `choices`. One that is listed twice is twice as likely.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Fills `bytes` with random values.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    /// The first numbers of seed 1234567, as in Vigna's reference implementation.
    #[test]
    fn the_numbers_are_those_of_the_reference() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert!((0..1000).all(|_| random.below(7) < 7));
    }

    /// A remainder of the division by three quarters of 2^64 makes the first quarter twice as likely as each
    /// other, and the high half of a product alone every third number. Five standard deviations are allowed.
    #[test]
    fn numbers_below_a_limit_are_equally_likely() {
        const DRAWS: usize = 30_000;
        let mut random = SplitMix64::new(1);
        let (mut quarters, mut residues) = ([0_usize; 3], [0_usize; 3]);
        for _ in 0..DRAWS {
            let number = random.below(3 << 62);
            quarters[usize::try_from(number >> 62).unwrap()] += 1;
            residues[usize::try_from(number % 3).unwrap()] += 1;
        }
        for count in quarters.into_iter().chain(residues) {
            assert!(count.abs_diff(DRAWS / 3) < 5 * 82, "{quarters:?} {residues:?}");
        }
        assert_eq!([0, 1].map(|end| random.below(end)), [0, 0]);
    }

    #[test]
    fn each_choice_is_made() {
        let mut random = SplitMix64::new(1);
        let mut made: Vec<&str> = (0..100).map(|_| random.one_of(&["a", "b", "c"])).collect();
        made.sort_unstable();
        made.dedup();
        assert_eq!(made, ["a", "b", "c"]);
        assert!(!random.chance(0) && random.chance(100));
    }
}
