//! What a power cut leaves: a reference keeps the version of every sector, on the medium and as promised to the host.
//!
//! A write's version is the number of its request. What the drive promises: after a flush, at least what had completed
//! before the flush was submitted; after a write with FUA, at least that write. Every moment is a possible cut, so the
//! promise is checked whenever the medium or the promise changes. Discards may take away what they cover, no more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::cast_possible_truncation, reason = "indexes of small disks")]

mod common;

use std::collections::VecDeque;
use std::ops::Range;

use common::shape::{Kept, Shape, shapes};
use common::{Happening, Run, SECTOR, config, operations, run, wishes};
use proptest::prelude::*;
use straddle_drive::MediaEvent;
use straddle_io::{Operation, Request};

/// No write.
const NEVER: usize = 0;

/// Each 512-byte sector: versions are request numbers, counted from 1.
struct Reference {
    /// What the host has sent.
    sent: Vec<usize>,
    /// What is on the medium.
    stored: Vec<usize>,
    /// What a cut must leave, at least.
    promised: Vec<usize>,
    /// What has completed.
    completed: Vec<usize>,
    /// The last discard that was sent: it ends every promise about what came before.
    discarded: Vec<usize>,
    /// What each open flush will promise, by its request.
    flushes: Vec<(usize, Vec<usize>)>,
    /// What is being written: the span, and what the buffer held of it when the write began.
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

    /// A cut now leaves what was promised.
    fn check(&self) {
        for (sector, (stored, promised)) in self.stored.iter().zip(&self.promised).enumerate() {
            let kept = stored >= promised || promised < &self.discarded[sector];
            assert!(kept, "sector {sector} holds version {stored}, but {promised} was promised");
        }
    }
}

/// One operation on the medium at a time: all of its spans begin before the first ends.
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
        // A cache that survives the cut keeps every promise; only what is on the medium at last is of interest.
        if shape.kept != Kept::WriteCache && !matches!(happening, Happening::Submitted(_)) {
            reference.check();
        }
    }
    assert!(reference.flushes.is_empty() && reference.storing.is_empty());
    // Left alone, the drive empties its cache: only what was discarded last may hold anything.
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
