//! A reference for the drive's contents: what a power cut would leave on the medium, from the media events
//! alone.

use std::collections::VecDeque;

use super::*;

/// A write or a discard: its submission number, and when its events happened, as counts of host events.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    submitted: u64,
    completed: Option<u64>,
    discard: bool,
}

/// A medium of sectors; each holds the number of the change that wrote it, or 0 for its state at power-on.
pub(super) struct Keeper {
    changes: Vec<Change>,
    /// The contents as the host sees them.
    current: Vec<usize>,
    /// The contents after a power cut now.
    durable: Vec<usize>,
    /// For each sector, when the latest change that must survive was submitted.
    must: Vec<u64>,
    snapshots: VecDeque<(u64, Vec<usize>)>,
    requests: Vec<Submitted>,
    clock: u64,
    power_loss_protection: bool,
    /// Sectors whose contents or whose required version have changed.
    touched: Vec<std::ops::Range<usize>>,
}

struct Submitted {
    request: Request,
    submitted: u64,
    change: usize,
    completed: bool,
    /// Whether it was a discard that has taken effect.
    discarded: bool,
}

impl Keeper {
    pub(super) fn new(capacity: u64, power_loss_protection: bool) -> Self {
        let sectors = usize::try_from(capacity / 512).unwrap();
        Self {
            changes: vec![Change { submitted: 0, completed: Some(0), discard: false }],
            current: vec![0; sectors],
            durable: vec![0; sectors],
            must: vec![0; sectors],
            snapshots: VecDeque::new(),
            requests: Vec::new(),
            clock: 1,
            power_loss_protection,
            touched: Vec::new(),
        }
    }

    /// The request's number is its place in the order of submission.
    pub(super) fn submit(&mut self, request: Request) {
        self.clock += 1;
        assert_eq!(request.id.0, self.requests.len() as u64);
        let changes = request.operation.is_write() || request.operation == Operation::Discard;
        if changes {
            let discard = request.operation == Operation::Discard;
            self.changes.push(Change { submitted: self.clock, completed: None, discard });
        }
        let change = if changes { self.changes.len() - 1 } else { 0 };
        if request.operation.is_write() {
            let span = sectors(request.offset.get(), request.length.get());
            self.current[span].fill(change);
        }
        self.requests.push(Submitted {
            request,
            submitted: self.clock,
            change,
            completed: false,
            discarded: false,
        });
    }

    pub(super) fn complete(&mut self, id: RequestId) {
        self.clock += 1;
        let index = usize::try_from(id.0).unwrap();
        let Submitted { request, submitted, change, .. } = self.requests[index];
        assert!(
            !std::mem::replace(&mut self.requests[index].completed, true),
            "request {index} completes twice"
        );
        if change > 0 {
            self.changes[change].completed = Some(self.clock);
        }
        let forced = request.operation == Operation::WriteFua
            || (request.operation == Operation::Write && self.power_loss_protection);
        if forced {
            let span = sectors(request.offset.get(), request.length.get());
            self.must[span.clone()].iter_mut().for_each(|must| *must = submitted.max(*must));
            self.touched.push(span);
        }
        if request.operation == Operation::Flush {
            let flushed = |other: &&Submitted| {
                other.request.operation.is_write()
                    && self.changes[other.change].completed.is_some_and(|completed| completed < submitted)
            };
            for other in self.requests.iter().filter(flushed) {
                let span = sectors(other.request.offset.get(), other.request.length.get());
                self.must[span.clone()].iter_mut().for_each(|must| *must = other.submitted.max(*must));
                self.touched.push(span);
            }
        }
    }

    pub(super) fn see(&mut self, events: &[MediaEvent]) {
        for event in events {
            match *event {
                MediaEvent::Storing { offset, length, .. } => {
                    let snapshot = self.current[sectors(offset, length)].to_vec();
                    assert!(snapshot.iter().all(|&change| change > 0), "stores what the host never wrote");
                    let discarded = |change: &usize| self.changes[*change].discard;
                    assert!(!snapshot.iter().any(discarded), "stores what was discarded");
                    // Two versions in flight at once could arrive in the wrong order.
                    let overlaps = |other: &(u64, Vec<usize>)| {
                        other.0 < offset + length && offset < other.0 + other.1.len() as u64 * 512
                    };
                    assert!(!self.snapshots.iter().any(overlaps), "stores a sector that is being stored");
                    self.snapshots.push_back((offset, snapshot));
                }
                MediaEvent::Stored { offset, length, .. } => {
                    let matching =
                        |other: &(u64, Vec<usize>)| other.0 == offset && other.1.len() as u64 * 512 == length;
                    let place =
                        self.snapshots.iter().position(matching).expect("stored without having begun");
                    let (_, snapshot) = self.snapshots.remove(place).unwrap();
                    self.durable[sectors(offset, length)].copy_from_slice(&snapshot);
                    self.touched.push(sectors(offset, length));
                }
                MediaEvent::Discarded { offset, length, .. } => {
                    let change = self.discarding(offset, length);
                    self.touched.push(sectors(offset, length));
                    for sector in sectors(offset, length) {
                        self.durable[sector] = change;
                        self.must[sector] = self.must[sector].max(self.changes[change].submitted);
                        // Writes queued behind the discard are not affected.
                        self.current[sector] = self.current[sector].max(change);
                    }
                }
            }
        }
    }

    /// The discard that causes a `Discarded` event: the first that covers it and has not yet taken effect.
    /// Where commands take no time, several may take effect before the host receives the first completion.
    fn discarding(&mut self, offset: u64, length: u64) -> usize {
        let waits = |other: &&mut Submitted| {
            let (start, bytes) = (other.request.offset.get(), other.request.length.get());
            let covers = start <= offset && offset + length <= start + bytes;
            covers && other.request.operation == Operation::Discard && !other.completed && !other.discarded
        };
        let discard = self.requests.iter_mut().find(waits).expect("discards what it was not asked to");
        discard.discarded = true;
        discard.change
    }

    /// Asserts that with a power cut now, each sector would hold its last flushed version or a later one.
    pub(super) fn assert_survives(&mut self) {
        for sector in self.touched.drain(..).flatten() {
            let (held, must) = (self.durable[sector], self.must[sector]);
            let change = &self.changes[held];
            let older = change.completed.is_some_and(|completed| completed < must);
            assert!(
                !older || change.submitted == must,
                "sector {sector} holds change {held}, which was overwritten"
            );
        }
    }

    /// Asserts that everything written is durable.
    pub(super) fn assert_all_stored(&self) {
        assert!(self.snapshots.is_empty(), "begun and never stored");
        assert_eq!(self.durable, self.current, "not everything has reached the medium");
        assert!(self.requests.iter().all(|request| request.completed), "a request never completed");
    }
}

fn sectors(offset: u64, length: u64) -> std::ops::Range<usize> {
    usize::try_from(offset / 512).unwrap()..usize::try_from((offset + length) / 512).unwrap()
}
