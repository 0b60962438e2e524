//! What was read from a target, before and after a journal holds it.
//!
//! Invariants: a target whose contents stay is written with the bytes of [`Kept`] only, and only
//! a journal makes one, when its files are durable. Contents that were read and not stored are [`Pending`];
//! nothing writes them.

use straddle_units::Span;

use crate::real::memory::Memory;
use crate::real::open::Opened;
use crate::real::target::{RealError, read_area};

/// Contents that were read from a target, and that no journal holds yet.
#[derive(Default)]
pub(crate) struct Pending(Vec<(Span, Memory)>);

/// Contents that a journal holds durably.
pub(crate) struct Kept(Pending);

impl Pending {
    /// Reads all of these spans, which do not overlap.
    pub(crate) fn of(opened: &Opened, spans: &[Span]) -> Result<Self, RealError> {
        let read = |span: &Span| Ok((*span, read_area(opened, *span)?));
        spans.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Reads `span`, unless one of the areas in `known` (with the contents of each) or one read before contains
    /// it. Bytes that are in any of these are taken from there: what was read first counts.
    pub(crate) fn read(
        &mut self,
        opened: &Opened,
        span: Span,
        known: (&[Span], &[Memory]),
    ) -> Result<(), RealError> {
        let pending = self.0.iter().map(|(area, memory)| (area, memory));
        let known = known.0.iter().zip(known.1);
        let meeting: Vec<_> = known.chain(pending).filter(|(area, _)| area.overlaps(span)).collect();
        if meeting.iter().any(|(area, _)| area.contains(span)) {
            return Ok(());
        }
        let mut memory = read_area(opened, span)?;
        for (area, first) in meeting {
            lay(&mut memory, span, first, *area);
        }
        self.0.push((span, memory));
        Ok(())
    }

    /// The areas and their contents.
    pub(super) fn areas(&self) -> impl Iterator<Item = (Span, &[u8])> {
        self.0.iter().map(|(area, memory)| (*area, memory.bytes()))
    }

    /// The first area; `None` if nothing was read.
    pub(crate) fn first(&self) -> Option<Span> {
        self.0.first().map(|(area, _)| *area)
    }
}

impl Kept {
    /// What a journal has just stored.
    pub(super) const fn durable(pending: Pending) -> Self {
        Self(pending)
    }

    /// The areas and their contents, in the order in which they were read.
    pub(crate) fn into_areas(self) -> Vec<(Span, Memory)> {
        self.0.0
    }
}

/// Copies what `from`, the contents of `area`, and `memory`, those of `span`, have in common into `memory`.
pub(crate) fn lay(memory: &mut Memory, span: Span, from: &Memory, area: Span) {
    let start = span.start().max(area.start());
    let Some(length) = span.end().min(area.end()).checked_since(start) else { return };
    let within = |of: Span| {
        let from = usize::try_from(start.checked_since(of.start())?.get()).ok()?;
        Some(from..from.checked_add(usize::try_from(length.get()).ok()?)?)
    };
    let (Some(to), Some(part)) = (within(span), within(area)) else { return };
    if let (Some(to), Some(part)) = (memory.bytes_mut().get_mut(to), from.bytes().get(part)) {
        to.copy_from_slice(part);
    }
}
