//! Byte offsets, byte counts and spans.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::boundary::divisor_and_inverse;

/// A position on a medium, in bytes from its start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline, description = "An offset in bytes.")]
pub struct ByteOffset(u64);

/// A number of bytes.
///
/// There is no `-`: each kind of subtraction names its result for the case that the other count is larger.
///
/// ```
/// # use straddle_units::ByteCount;
/// let (less, more) = (ByteCount::new(1), ByteCount::new(3));
/// assert_eq!(more.checked_sub(less), Some(ByteCount::new(2)));
/// assert_eq!(less.checked_sub(more), None);
/// assert_eq!(less.saturating_sub(more), ByteCount::ZERO);
/// assert_eq!(less.abs_diff(more), ByteCount::new(2));
/// assert_eq!(ByteCount::new(12).common_divisor(ByteCount::new(18)), ByteCount::new(6));
/// assert_eq!(ByteCount::new(1000).floor_to(ByteCount::new(300)), ByteCount::new(900));
/// assert_eq!(more.floor_to(ByteCount::ZERO), ByteCount::ZERO);
/// ```
///
/// ```compile_fail,E0369
/// # use straddle_units::ByteCount;
/// let (less, more) = (ByteCount::new(1), ByteCount::new(3));
/// assert_eq!(less - more, ByteCount::ZERO);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline, description = "A number of bytes.")]
pub struct ByteCount(u64);

impl ByteOffset {
    /// The first byte of a medium.
    pub const ZERO: Self = Self(0);

    /// The position `bytes` bytes from the start.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes from the start.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `count` bytes further on; `None` if it exceeds 64 bits.
    pub fn checked_add(self, count: ByteCount) -> Option<Self> {
        self.0.checked_add(count.0).map(Self)
    }

    /// The position `count` bytes earlier; `None` if that is before the start.
    pub fn checked_back(self, count: ByteCount) -> Option<Self> {
        self.0.checked_sub(count.0).map(Self)
    }

    /// The distance from `earlier` to here; `None` if `earlier` is in fact later.
    pub fn checked_since(self, earlier: Self) -> Option<ByteCount> {
        self.0.checked_sub(earlier.0).map(ByteCount)
    }

    /// The distance from `earlier` to here; zero if `earlier` is in fact later.
    pub fn since(self, earlier: Self) -> ByteCount {
        ByteCount(self.0.saturating_sub(earlier.0))
    }
}

impl ByteCount {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// This many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The count as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count as the length of a buffer, at most [`usize::MAX`].
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The sum; `None` if it exceeds 64 bits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference; `None` if `other` is larger.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The difference; zero if `other` is larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The absolute difference.
    pub fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// The count multiplied by `times`; `None` if it exceeds 64 bits.
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        self.0.checked_mul(times).map(Self)
    }

    /// The greatest count of which both are multiples; if one is zero, the other.
    pub fn common_divisor(self, other: Self) -> Self {
        let (divisor, _) = divisor_and_inverse(self.0.into(), other.0.into());
        // It is at most the larger of both.
        Self(u64::try_from(divisor).unwrap_or(self.0.max(other.0)))
    }

    /// Whether the count is a multiple of `unit`. Nothing is a multiple of zero.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 != 0 && self.0.is_multiple_of(unit.0)
    }

    /// The count rounded down to a multiple of `unit`; zero if `unit` is zero.
    pub fn floor_to(self, unit: Self) -> Self {
        Self(self.0 - self.remainder(unit).0)
    }

    /// The remainder of the count divided by `unit`; the count itself if `unit` is zero.
    pub fn remainder(self, unit: Self) -> Self {
        if unit.0 == 0 { self } else { Self(self.0 % unit.0) }
    }
}

/// A range of bytes: its start and its length. Its end never exceeds 2^64 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[schemars(description = "A range of bytes.")]
pub struct Span {
    /// The offset of its first byte.
    #[serde(rename = "start_bytes")]
    start: ByteOffset,
    /// The size in bytes.
    #[serde(rename = "size_bytes")]
    len: ByteCount,
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            start_bytes: ByteOffset,
            size_bytes: ByteCount,
        }
        let Raw { start_bytes, size_bytes } = Raw::deserialize(from)?;
        Self::new(start_bytes, size_bytes).ok_or_else(|| D::Error::custom("a span ends past 2^64"))
    }
}

impl Span {
    /// The `len` bytes from `start`; `None` if their end exceeds 64 bits.
    pub fn new(start: ByteOffset, len: ByteCount) -> Option<Self> {
        start.checked_add(len)?;
        Some(Self { start, len })
    }

    /// The bytes of `buffer` at `start`; `None` if their end exceeds 64 bits.
    pub fn of_buffer(start: ByteOffset, buffer: &[u8]) -> Option<Self> {
        Self::new(start, ByteCount(buffer.len() as u64))
    }

    /// The bytes from `start` up to `end`; `None` if `end` comes first.
    pub fn between(start: ByteOffset, end: ByteOffset) -> Option<Self> {
        Self::new(start, end.checked_since(start)?)
    }

    /// The first `len` bytes of a medium.
    pub fn first(len: ByteCount) -> Self {
        Self { start: ByteOffset::ZERO, len }
    }

    /// The offset of the first byte.
    pub fn start(self) -> ByteOffset {
        self.start
    }

    /// The length in bytes.
    pub fn len(self) -> ByteCount {
        self.len
    }

    /// Whether the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.len == ByteCount::ZERO
    }

    /// The offset just past the last byte.
    pub fn end(self) -> ByteOffset {
        ByteOffset(self.start.0 + self.len.0)
    }

    /// The parts of this span that `taken`, in any order, does not cover. It may overlap and reach beyond.
    pub fn gaps(self, taken: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut taken: Vec<Self> = taken.into_iter().collect();
        taken.sort_by_key(|span| span.start);
        let mut gaps = Vec::new();
        let mut at = self.start;
        for span in taken {
            gaps.extend(Self::between(at, span.start.min(self.end())));
            at = at.max(span.end());
        }
        gaps.extend(Self::between(at, self.end()));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// The bytes of `spans`, in order and each once: overlapping and adjacent spans become one.
    pub fn union(spans: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut spans: Vec<Self> = spans.into_iter().filter(|span| !span.is_empty()).collect();
        spans.sort_by_key(|span| span.start);
        let mut union: Vec<Self> = Vec::new();
        for span in spans {
            match union.last_mut().filter(|last| span.start <= last.end()) {
                Some(last) => last.len = last.len.max(span.end().since(last.start)),
                None => union.push(span),
            }
        }
        union
    }

    /// The parts of this span of at most `size` bytes, in order; none if `size` is 0.
    pub fn pieces(self, size: ByteCount) -> impl Iterator<Item = Self> {
        let (len, size) = (self.len.0, size.0);
        let count = len.div_ceil(size.max(1)) * u64::from(size > 0);
        (0..count).map(move |index| {
            let offset = index * size;
            Self { start: ByteOffset(self.start.0 + offset), len: ByteCount(size.min(len - offset)) }
        })
    }

    /// Whether the two spans have a byte in common.
    pub fn overlaps(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end() && other.start < self.end()
    }

    /// The bytes that two spans have in common, if there are any.
    pub fn common(self, other: Self) -> Option<Self> {
        let common = Self::between(self.start.max(other.start), self.end().min(other.end()));
        common.filter(|common| !common.is_empty())
    }

    /// Whether every byte of `other` is in this span.
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}
