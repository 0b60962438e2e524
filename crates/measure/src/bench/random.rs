//! The C library's `random()`, so that a program's blocks are those of its published figures: glibc's default
//! generator (stdlib/random_r.c), additive feedback over 31 words (`TYPE_3`, x³¹ + x³ + 1), seeded by a linear
//! congruential generator.

const DEGREE: usize = 31;
const SEPARATION: usize = 3;
/// Outputs per word that are discarded after seeding.
const DISCARDED: usize = 10;
/// Seeding computes word = word · 16807 mod (2³¹ - 1), by Schrage's division.
const MULTIPLIER: i64 = 16_807;
const MODULUS: i64 = 2_147_483_647;

#[derive(Clone, Debug)]
pub(crate) struct GlibcRandom {
    state: [u32; DEGREE],
    front: usize,
    rear: usize,
}

impl GlibcRandom {
    pub(crate) fn new(seed: u32) -> Self {
        let seed = if seed == 0 { 1 } else { seed };
        let mut state = [seed; DEGREE];
        // The C code keeps the words in int32_t, so seeds from 2³¹ on are negative there.
        let mut word = i64::from(seed.cast_signed());
        for place in state.iter_mut().skip(1) {
            // `%` truncates towards zero, as Schrage's method in C does.
            word = (word * MULTIPLIER) % MODULUS;
            if word < 0 {
                word += MODULUS;
            }
            *place = u32::try_from(word).unwrap_or(0);
        }
        let mut generator = Self { state, front: SEPARATION, rear: 0 };
        for _ in 0..DEGREE * DISCARDED {
            generator.next();
        }
        generator
    }

    #[allow(
        clippy::should_implement_trait,
        reason = "it never ends, and the name is that of every generator"
    )]
    pub(crate) fn next(&mut self) -> u32 {
        let sum = self.state[self.front].wrapping_add(self.state[self.rear]);
        self.state[self.front] = sum;
        self.front = (self.front + 1) % DEGREE;
        self.rear = (self.rear + 1) % DEGREE;
        sum >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds with their first six numbers and the ten thousandth, from glibc 2.36 on x86-64.
    const GLIBC: [(u32, [u32; 6], u32); 8] = [
        (1, [1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335], 1908609430),
        (0, [1804289383, 846930886, 1681692777, 1714636915, 1957747793, 424238335], 1908609430),
        (2, [1505335290, 1738766719, 190686788, 260874575, 747983061, 906156498], 404926418),
        (7, [1045618677, 1863967299, 1272579899, 461085871, 21961325, 1105564443], 287199247),
        (127, [1055735346, 938901068, 1955245633, 272055429, 1275082689, 30116887], 1057804883),
        (42, [71876166, 708592740, 1483128881, 907283241, 442951012, 537146758], 48510282),
        (2147483647, [1065668062, 2142264300, 1066566375, 1064012770, 2141034222, 1065509725], 1070115311),
        (4294967295, [254925627, 1205188300, 366127624, 1401405153, 76053476, 1604170158], 1100600380),
    ];

    #[test]
    fn the_numbers_are_glibcs() {
        for (seed, first, last) in GLIBC {
            let mut generator = GlibcRandom::new(seed);
            let numbers: Vec<u32> = (0..10_000).map(|_| generator.next()).collect();
            assert_eq!(numbers[..6], first, "seed {seed}");
            assert_eq!(numbers[9_999], last, "seed {seed}");
        }
    }
}
