//! The one alignment predicate: the multiples of a size, shifted by a phase.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{ByteCount, ByteOffset, Span};

/// A family of equally spaced boundaries, at the bytes `phase + k * size`.
///
/// `size` need not be a power of two: three data disks with 64 KiB chunks make stripes of 192 KiB. `phase` is
/// the byte of the first boundary, which the kernel calls the alignment offset of a device. On a 512e drive
/// whose LBA 7 is the first to begin a physical sector, `size` is 4096 and `phase` is 3584.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[schemars(rename = "Boundaries", description = "The multiples of a size, counted from a byte.")]
pub struct Boundary {
    /// The distance between two boundaries, in bytes.
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
        Self::new(size_bytes, phase_bytes).ok_or_else(|| D::Error::custom("a boundary every 0 bytes"))
    }
}

/// How a span covers the units into which a [`Boundary`] divides a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Coverage {
    /// Units that have at least one byte in the span.
    #[serde(rename = "touched_units")]
    pub touched: u64,
    /// Units that have some but not all of their bytes in the span: writing each costs a read-modify-write.
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
        let size = self.size.get();
        let remainder = offset.get() % size;
        // (offset - phase) mod size, without overflowing u64.
        ByteCount::new(if remainder >= self.phase {
            remainder - self.phase
        } else {
            size - (self.phase - remainder)
        })
    }

    /// The distance from `offset` to the next boundary: 0 on a boundary. This is the kernel's
    /// `alignment_offset` of a device that starts at `offset` (`queue_limit_alignment_offset`,
    /// block/blk-settings.c).
    pub fn to_next(self, offset: ByteOffset) -> ByteCount {
        match self.past(offset).get() {
            0 => ByteCount::ZERO,
            past => ByteCount::new(self.size.get() - past),
        }
    }

    /// Whether `offset` is on a boundary.
    pub fn is_aligned(self, offset: ByteOffset) -> bool {
        self.past(offset) == ByteCount::ZERO
    }

    /// The distance past a boundary at which blocks of this size lie, if they are counted in a space whose
    /// byte `inner` is the medium's byte `outer`: 0 if such blocks are whole units of the medium.
    pub fn skew(self, inner: ByteOffset, outer: ByteOffset) -> ByteCount {
        let size = self.size.get();
        let (inner, outer) = (inner.get() % size, self.past(outer).get());
        ByteCount::new(if outer >= inner { outer - inner } else { size - (inner - outer) })
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

    /// The boundaries that both families share, spaced by the least common multiple of the two sizes. `None`
    /// if there are none because the phases contradict each other, or if the spacing exceeds 64 bits.
    pub fn meet(self, other: Self) -> Option<Self> {
        let (a, b) = (i128::from(self.size.get()), i128::from(other.size.get()));
        let (common, inverse) = divisor_and_inverse(a, b);
        let apart = i128::from(other.phase) - i128::from(self.phase);
        if apart % common != 0 {
            return None;
        }
        let size = u64::try_from((a / common).checked_mul(b)?).ok()?;
        // The Chinese remainder theorem: `self.phase + k * a` is `other.phase` modulo b for this k.
        let step = b / common;
        let factor = |n: i128| u128::try_from(n.rem_euclid(step)).ok();
        let k = factor(apart / common)? * factor(inverse)? % u128::try_from(step).ok()?;
        let phase = (u128::from(self.phase) + k * u128::from(self.size.get())) % u128::from(size);
        let phase = u64::try_from(phase).ok()?;
        Self::new(ByteCount::new(size), ByteCount::new(phase))
    }

    /// The boundaries that all of `families` share, with the limits of [`Boundary::meet`]; every byte if
    /// `families` is empty.
    pub fn meet_all(families: impl IntoIterator<Item = Self>) -> Option<Self> {
        let every_byte = Self { size: NonZeroU64::MIN, phase: 0 };
        families.into_iter().try_fold(every_byte, Self::meet)
    }

    /// Counts the units a span touches, and those it covers only in part. A unit that the start of the medium
    /// cuts short (before the first boundary, if the phase is not zero) counts like any other: the drive
    /// holds the rest of it, at no address.
    pub fn coverage(self, span: Span) -> Coverage {
        if span.is_empty() {
            return Coverage { touched: 0, partial: 0 };
        }
        let size = u128::from(self.size.get());
        let lead = u128::from(self.past(span.start()).get());
        let reach = lead + u128::from(span.len().get());
        let touched = reach.div_ceil(size);
        let partial_head = u128::from(lead != 0);
        let partial_tail = u128::from(reach % size != 0);
        // Head and tail in the same unit are one partial unit.
        let partial = if touched == 1 { partial_head | partial_tail } else { partial_head + partial_tail };
        let count = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        Coverage { touched: count(touched), partial: count(partial) }
    }
}

/// The greatest common divisor g of two numbers that are not negative, and an x with `a * x = g (mod b)`, by
/// Euclid's algorithm.
pub(crate) fn divisor_and_inverse(a: i128, b: i128) -> (i128, i128) {
    let (mut g, mut rest, mut x, mut next) = (a, b, 1, 0);
    while rest != 0 {
        let quotient = g / rest;
        (g, rest) = (rest, g % rest);
        (x, next) = (next, x - quotient * next);
    }
    (g, x)
}
