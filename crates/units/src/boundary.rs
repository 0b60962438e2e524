//! The one alignment predicate: the multiples of a size, shifted by a phase.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{ByteCount, ByteOffset, Span};

/// Equally spaced boundaries, at the bytes `phase + k * size`.
///
/// `size` need not be a power of two: three data disks with 64 KiB chunks make stripes of 192 KiB. The kernel
/// calls `phase` the alignment offset of a device: 3584 on a 512e drive whose LBA 7 begins a physical sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[schemars(rename = "Boundaries", description = "Equally spaced boundaries, from an offset on.")]
pub struct Boundary {
    /// The distance between adjacent boundaries, in bytes.
    #[serde(rename = "size_bytes")]
    size: NonZeroU64,
    /// The offset of the first boundary, in bytes.
    #[serde(rename = "phase_bytes")]
    phase: u64,
}

impl<'de> Deserialize<'de> for Boundary {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            size_bytes: ByteCount,
            phase_bytes: ByteCount,
        }
        let Raw { size_bytes, phase_bytes } = Raw::deserialize(from)?;
        Self::new(size_bytes, phase_bytes)
            .ok_or_else(|| D::Error::custom("boundaries cannot be 0 bytes apart"))
    }
}

/// How a span covers the units of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// The number of units that have at least one byte in the span.
    #[serde(rename = "touched_units")]
    pub touched: u64,
    /// The number of units that are only partly in the span: writing each costs a read-modify-write.
    #[serde(rename = "partial_units")]
    pub partial: u64,
}

impl Boundary {
    /// Boundaries every `size` bytes, the first at byte `phase` modulo `size`; `None` if `size` is zero.
    pub fn new(size: ByteCount, phase: ByteCount) -> Option<Self> {
        let size = NonZeroU64::new(size.get())?;
        Some(Self { size, phase: phase.get() % size })
    }

    /// Boundaries at the multiples of `size`; `None` if `size` is zero.
    pub fn multiples_of(size: ByteCount) -> Option<Self> {
        Self::new(size, ByteCount::ZERO)
    }

    /// The distance between adjacent boundaries.
    pub fn size(self) -> ByteCount {
        ByteCount::new(self.size.get())
    }

    /// The byte of the first boundary.
    pub fn phase(self) -> ByteCount {
        ByteCount::new(self.phase)
    }

    /// The distance from the preceding boundary to `offset`: 0 on a boundary.
    pub fn past(self, offset: ByteOffset) -> ByteCount {
        ByteCount::new(difference(offset.get() % self.size, self.phase, self.size))
    }

    /// The distance from `offset` to the next boundary: 0 on a boundary. The kernel's `alignment_offset` of a
    /// device that starts there (`queue_limit_alignment_offset`, block/blk-settings.c).
    pub fn to_next(self, offset: ByteOffset) -> ByteCount {
        let size = self.size.get();
        ByteCount::new((size - self.past(offset).get()) % size)
    }

    /// Whether `offset` is on a boundary.
    pub fn is_aligned(self, offset: ByteOffset) -> bool {
        self.past(offset) == ByteCount::ZERO
    }

    /// The distance past a boundary of blocks counted from `inner`, which is the medium's byte `outer`.
    pub fn skew(self, inner: ByteOffset, outer: ByteOffset) -> ByteCount {
        ByteCount::new(difference(self.past(outer).get(), inner.get() % self.size, self.size))
    }

    /// The last boundary at or before `offset`; `None` if it would lie before the medium.
    pub fn floor(self, offset: ByteOffset) -> Option<ByteOffset> {
        offset.checked_back(self.past(offset))
    }

    /// The first boundary at or after `offset`; `None` if it exceeds 64 bits.
    pub fn ceil(self, offset: ByteOffset) -> Option<ByteOffset> {
        offset.checked_add(self.to_next(offset))
    }

    /// The number of steps of `step` bytes after which an offset has the same remainder again.
    pub fn period(self, step: ByteCount) -> u64 {
        self.size.get() / self.size().common_divisor(step).get()
    }

    /// The boundaries that both share. `None` if the phases contradict, or the spacing exceeds 64 bits.
    pub fn meet(self, other: Self) -> Option<Self> {
        let (a, b) = (i128::from(self.size.get()), i128::from(other.size.get()));
        let (common, inverse) = divisor_and_inverse(a, b);
        let apart = i128::from(other.phase) - i128::from(self.phase);
        if apart % common != 0 {
            return None;
        }
        let step = b / common;
        let size = u64::try_from(a.checked_mul(step)?).ok()?;
        // The Chinese remainder theorem: `self.phase + k * a` is `other.phase` modulo b for this k.
        let k = (apart / common).rem_euclid(step) * inverse.rem_euclid(step) % step;
        let phase = u64::try_from(i128::from(self.phase) + k * a).ok()?;
        Self::new(ByteCount::new(size), ByteCount::new(phase))
    }

    /// The boundaries that all of `all` share, as by [`Boundary::meet`]; every byte if there are none.
    pub fn meet_all(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let every_byte = Self { size: NonZeroU64::MIN, phase: 0 };
        all.into_iter().try_fold(every_byte, Self::meet)
    }

    /// Counts the units a span touches, and those in part; one before the first boundary counts as whole.
    pub fn coverage(self, span: Span) -> Coverage {
        if span.is_empty() {
            return Coverage { touched: 0, partial: 0 };
        }
        let size = u128::from(self.size.get());
        let lead = u128::from(self.past(span.start()).get());
        let reach = lead + u128::from(span.len().get());
        let touched = u64::try_from(reach.div_ceil(size)).unwrap_or(u64::MAX);
        // A head and a tail in the same unit are one partial unit.
        let partial = u64::from(lead != 0) + u64::from(reach % size != 0);
        Coverage { touched, partial: partial.min(touched) }
    }
}

/// `(a - b) mod size` of two numbers below `size`, without overflow.
fn difference(a: u64, b: u64, size: NonZeroU64) -> u64 {
    if a >= b { a - b } else { size.get() - (b - a) }
}

/// The greatest common divisor g of two numbers, and an x with `a * x = g (mod b)`, by Euclid's algorithm.
pub(crate) fn divisor_and_inverse(a: i128, b: i128) -> (i128, i128) {
    let (mut g, mut rest, mut x, mut next) = (a, b, 1, 0);
    while rest != 0 {
        let quotient = g / rest;
        (g, rest) = (rest, g % rest);
        (x, next) = (next, x - quotient * next);
    }
    (g, x)
}
