//! Recognises writes at regular intervals.

/// What the firmware remembers of the writes so far, in bytes as the platters count them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    /// Where the last write began and ended.
    start: u64,
    end: u64,
    /// How far from the one before it began.
    step: u64,
}

impl Intervals {
    /// Notes a write. Returns whether it is at least the third of a series at equal distances of at most
    /// `most` bytes, with gaps between them: writes without gaps are a stream, which completes its sectors.
    pub(super) fn note(&mut self, start: u64, end: u64, most: u64) -> bool {
        let step = start.wrapping_sub(self.start);
        let regular = step == self.step && step <= most && start > self.end;
        *self = Self { start, end, step };
        regular
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each write of `length` bytes at these offsets is regular.
    fn regular(starts: &[u64], length: u64) -> Vec<bool> {
        let mut intervals = Intervals::default();
        starts.iter().map(|start| intervals.note(*start, start + length, 100)).collect()
    }

    #[test]
    fn the_third_write_shows_the_interval() {
        assert_eq!(
            regular(&[1000, 1016, 1032, 1048, 1065, 1081], 4),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn streams_overwrites_and_distant_writes_are_not_regular() {
        assert_eq!(regular(&[1000, 1004, 1008, 1012], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1000, 1000, 1000], 4), [false; 4]);
        assert_eq!(regular(&[1048, 1032, 1016, 1000], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1101, 1202, 1303], 4), [false; 4]);
        assert_eq!(regular(&[1000, 1100, 1200, 1300], 4), [false, false, true, true]);
    }
}
