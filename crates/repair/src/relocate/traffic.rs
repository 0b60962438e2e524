//! What a job reads and writes, in numbers: for estimates.

use straddle_units::{ByteCount, Span};

use crate::relocate::engine::Verify;
use crate::relocate::job::Job;
use crate::relocate::journal::COPIES;
use crate::relocate::sequence::{Sequence, Window};
use crate::relocate::shape::Shape;

/// What one window reads and writes if nothing goes wrong, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowTraffic {
    /// What is read first.
    pub read: Vec<Span>,
    /// How many bytes the journal gets. A flush follows.
    pub journal: ByteCount,
    /// What is written then.
    pub written: Span,
}

/// What a job reads and writes if nothing goes wrong, without the journal's head and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that are read, those that are read back included.
    pub read: ByteCount,
    /// Bytes that are written to new places.
    pub written: ByteCount,
    /// Bytes that are written to the journal.
    pub journal: ByteCount,
    /// The number of flushes.
    pub flushes: u64,
}

impl Job {
    /// What these windows read and write, of all [`windows`](Self::windows) in their order.
    pub fn window_traffic(&self, windows: impl IntoIterator<Item = u64>) -> Vec<WindowTraffic> {
        let sequence = Sequence::forward(self);
        let windows = windows.into_iter().filter(|index| *index < sequence.count());
        windows.map(|index| self.of_window(sequence.window(index))).collect()
    }

    /// What all windows read and write.
    pub fn traffic(&self, verify: Verify) -> Traffic {
        let sequence = Sequence::forward(self);
        let mut sum = Traffic { flushes: sequence.count(), ..Traffic::default() };
        for index in 0..sequence.count() {
            let one = self.of_window(sequence.window(index));
            let back = if verify == Verify::Read { one.written.len() } else { ByteCount::ZERO };
            for len in one.read.iter().map(|span| span.len()).chain([back]) {
                sum.read = sum.read.checked_add(len).unwrap_or(sum.read);
            }
            sum.written = sum.written.checked_add(one.written.len()).unwrap_or(sum.written);
            sum.journal = sum.journal.checked_add(one.journal).unwrap_or(sum.journal);
        }
        sum
    }

    fn of_window(&self, window: Window) -> WindowTraffic {
        let shape = Shape::new(window);
        let read = shape.read_first();
        let copied = read.iter().filter(|_| !window.is_direct).map(|span| span.len());
        let record = ByteCount::new(self.blocks.size().get().saturating_mul(COPIES));
        let journal = copied.fold(record, |sum, len| sum.checked_add(len).unwrap_or(sum));
        WindowTraffic { read, journal, written: window.written }
    }
}
