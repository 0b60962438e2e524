//! What a power cut leaves: a reference tracks the version of every sector, on the medium and as promised to
//! the host.
//!
//! A write's version is its request number. The drive promises: after a flush, at least what had completed
//! before the flush was submitted; after a write with FUA, at least that write. Power may be cut at any
//! moment, so the promise is checked whenever the medium or the promise changes. Discards may remove what
//! they cover, and no more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "indexes of small disks")]

use crate::tests::common;

use std::collections::VecDeque;
use std::ops::Range;

use common::shape::{Kept, Shape, shapes};
use common::{Happening, Run, SECTOR, config, operations, run, wishes};
use proptest::prelude::*;
use straddle_drive::MediaEvent;
use straddle_units::io::{Operation, Request};

/// The version of a sector that was never written.
const NEVER: usize = 0;

/// For each 512-byte sector, versions: request numbers, counted from 1.
struct Reference {
    /// The version last sent by the host.
    sent: Vec<usize>,
    /// The version on the medium.
    stored: Vec<usize>,
    /// The oldest version that a power cut may leave.
    promised: Vec<usize>,
    /// The version last completed.
    completed: Vec<usize>,
    /// The last discard sent: it ends every earlier promise.
    discarded: Vec<usize>,
    /// The versions that each open flush will promise, by its request.
    flushes: Vec<(usize, Vec<usize>)>,
    /// The spans being written, with the versions in the buffer when the write began.
    storing: VecDeque<(u64, u64, Vec<usize>)>,
}

fn sectors(offset: u64, length: u64) -> Range<usize> {
    assert!(offset.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR) && length > 0);
    (offset / SECTOR) as usize..((offset + length) / SECTOR) as usize
}

fn span(request: &Request) -> Range<usize> {
    sectors(request.offset.get(), request.length.get())
}

impl Reference {
    fn new(shape: &Shape) -> Self {
        let empty = vec![NEVER; (shape.capacity / SECTOR) as usize];
        Self {
            sent: empty.clone(),
            stored: empty.clone(),
            promised: empty.clone(),
            completed: empty.clone(),
            discarded: empty,
            flushes: Vec::new(),
            storing: VecDeque::new(),
        }
    }

    fn submitted(&mut self, index: usize, request: &Request) {
        match request.operation {
            Operation::Write | Operation::WriteFua => self.sent[span(request)].fill(index + 1),
            Operation::Discard => {
                self.sent[span(request)].fill(index + 1);
                self.discarded[span(request)].fill(index + 1);
            }
            Operation::Flush => self.flushes.push((index, self.completed.clone())),
            Operation::Read => {}
        }
    }

    fn completed(&mut self, index: usize, request: &Request) {
        match request.operation {
            Operation::Write | Operation::WriteFua => {
                for sector in span(request) {
                    self.completed[sector] = self.completed[sector].max(index + 1);
                    if request.operation == Operation::WriteFua {
                        self.promised[sector] = self.promised[sector].max(index + 1);
                    }
                }
            }
            Operation::Flush => {
                let place = self.flushes.iter().position(|(flush, _)| *flush == index).unwrap();
                for (promised, completed) in self.promised.iter_mut().zip(self.flushes.remove(place).1) {
                    *promised = (*promised).max(completed);
                }
            }
            Operation::Read | Operation::Discard => {}
        }
    }

    fn media(&mut self, event: MediaEvent) {
        match event {
            MediaEvent::Storing { offset, length, .. } => {
                let held = self.sent[sectors(offset, length)].to_vec();
                self.storing.push_back((offset, length, held));
            }
            MediaEvent::Stored { offset, length, .. } => {
                let (began, bytes, held) =
                    self.storing.pop_front().expect("nothing is stored that was not being stored");
                assert_eq!(
                    (began, bytes),
                    (offset, length),
                    "what is stored is what was being stored, in order"
                );
                self.stored[sectors(offset, length)].copy_from_slice(&held);
            }
            MediaEvent::Discarded { offset, length, .. } => {
                let span = sectors(offset, length);
                self.stored[span.clone()].copy_from_slice(&self.sent[span]);
            }
        }
    }

    /// Asserts that a power cut now leaves what was promised.
    fn check(&self) {
        for (sector, (stored, promised)) in self.stored.iter().zip(&self.promised).enumerate() {
            let kept = stored >= promised || promised < &self.discarded[sector];
            assert!(kept, "sector {sector} holds version {stored}, but {promised} was promised");
        }
    }
}

/// Checks that the medium does one operation at a time: all of its spans begin before the first ends.
fn check_nesting(run: &Run) {
    let (mut open, mut ending) = (0, false);
    for event in run.media() {
        match event {
            MediaEvent::Storing { .. } => {
                assert!(!ending || open == 0, "{event:?} begins inside another operation");
                (open, ending) = (open + 1, false);
            }
            MediaEvent::Stored { .. } => {
                assert!(open > 0, "{event:?} had not begun");
                (open, ending) = (open - 1, true);
            }
            MediaEvent::Discarded { .. } => {}
        }
    }
    assert_eq!(open, 0, "begun and never ended");
}

fn check(shape: &Shape, run: &Run) {
    let mut reference = Reference::new(shape);
    for (_, happening) in &run.log {
        match happening {
            Happening::Submitted(index) => reference.submitted(*index, &run.requests[*index].1),
            Happening::Completed(index) => reference.completed(*index, &run.requests[*index].1),
            Happening::Media(event) => reference.media(*event),
        }
        // A cache that survives the cut keeps every promise; there only the final state of the medium is
        // checked.
        if shape.kept != Kept::WriteCache && !matches!(happening, Happening::Submitted(_)) {
            reference.check();
        }
    }
    assert!(reference.flushes.is_empty() && reference.storing.is_empty());
    // Left alone, the drive empties its cache; only sectors whose last request was a discard may hold
    // anything.
    for (sector, (stored, sent)) in reference.stored.iter().zip(&reference.sent).enumerate() {
        let rests = stored == sent || *sent == reference.discarded[sector];
        assert!(rests, "at rest, sector {sector} holds version {stored} and not {sent}");
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn a_power_cut_leaves_what_was_promised(
        shape in shapes(), wishes in wishes(operations(false), 60), depth in 1_usize..40,
    ) {
        let run = run(&shape, &wishes, depth);
        check_nesting(&run);
        check(&shape, &run);
    }

    #[test]
    fn a_discard_breaks_no_promise_to_others(
        shape in shapes(), wishes in wishes(operations(true), 60), depth in 1_usize..40,
    ) {
        let run = run(&shape, &wishes, depth);
        check_nesting(&run);
        check(&shape, &run);
    }
}
