//! Byte positions, byte counts, and the spans between them.

use std::fmt;

/// A position on a medium, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteOffset(u64);

/// A number of bytes.
///
/// A difference says what becomes of it where the other is the larger, and so there is no `-`:
///
/// ```
/// # use straddle_units::ByteCount;
/// let (less, more) = (ByteCount::new(1), ByteCount::new(3));
/// assert_eq!(more.checked_sub(less), Some(ByteCount::new(2)));
/// assert_eq!(less.checked_sub(more), None);
/// assert_eq!(less.saturating_sub(more), ByteCount::ZERO);
/// assert_eq!(less.abs_diff(more), ByteCount::new(2));
/// assert_eq!(ByteCount::new(1000).floor_to(ByteCount::new(300)), ByteCount::new(900));
/// assert_eq!(more.floor_to(ByteCount::ZERO), ByteCount::ZERO);
/// ```
///
/// ```compile_fail,E0369
/// # use straddle_units::ByteCount;
/// let (less, more) = (ByteCount::new(1), ByteCount::new(3));
/// assert_eq!(less - more, ByteCount::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(u64);

impl ByteOffset {
    /// The first byte of a medium.
    pub const ZERO: Self = Self(0);

    /// The position `bytes` from the start.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The position as a number of bytes from the start.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `count` bytes further on, or `None` past 2^64.
    pub fn checked_add(self, count: ByteCount) -> Option<Self> {
        self.0.checked_add(count.0).map(Self)
    }

    /// The position `count` bytes before, or `None` before the start.
    pub fn checked_back(self, count: ByteCount) -> Option<Self> {
        self.0.checked_sub(count.0).map(Self)
    }

    /// The distance from `earlier` to here, or `None` if `earlier` is in fact later.
    pub fn checked_since(self, earlier: Self) -> Option<ByteCount> {
        self.0.checked_sub(earlier.0).map(ByteCount)
    }
}

impl ByteCount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A count of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The count as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or `None` past 2^64.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, or `None` when `other` is the larger.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The difference, or zero when `other` is the larger.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// How far the two are apart.
    pub fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// `times` times the count, or `None` past 2^64.
    pub fn checked_mul(self, times: u64) -> Option<Self> {
        self.0.checked_mul(times).map(Self)
    }

    /// Whether the count is a whole number of `unit`s. Nothing is a multiple of an empty unit.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.0 != 0 && self.0.is_multiple_of(unit.0)
    }

    /// The whole `unit`s of the count; nothing when `unit` is empty.
    pub fn floor_to(self, unit: Self) -> Self {
        Self(self.0 - self.remainder(unit).0)
    }

    /// What is left over when the count is cut into whole `unit`s; the count itself when `unit` is empty.
    pub fn remainder(self, unit: Self) -> Self {
        if unit.0 == 0 { self } else { Self(self.0 % unit.0) }
    }
}

impl fmt::Display for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of bytes: where it starts and how long it is. Its end never passes 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    start: ByteOffset,
    len: ByteCount,
}

impl Span {
    /// The run of `len` bytes from `start`, or `None` when it would end past 2^64.
    pub fn new(start: ByteOffset, len: ByteCount) -> Option<Self> {
        start.checked_add(len)?;
        Some(Self { start, len })
    }

    /// The first `len` bytes.
    pub fn first(len: ByteCount) -> Self {
        Self { start: ByteOffset::ZERO, len }
    }

    /// The first byte.
    pub fn start(self) -> ByteOffset {
        self.start
    }

    /// How many bytes.
    pub fn len(self) -> ByteCount {
        self.len
    }

    /// Whether there is no byte in it.
    pub fn is_empty(self) -> bool {
        self.len == ByteCount::ZERO
    }

    /// The first byte after it.
    pub fn end(self) -> ByteOffset {
        ByteOffset(self.start.0 + self.len.0)
    }

    /// What of it lies between `taken`, in order; whatever order these are in, and wherever they reach.
    pub fn gaps(self, taken: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut taken: Vec<Self> = taken.into_iter().collect();
        taken.sort_by_key(|span| span.start);
        let mut gaps = Vec::new();
        let mut at = self.start;
        for span in taken {
            if let Some(len) = span.start.min(self.end()).checked_since(at) {
                gaps.extend(Self::new(at, len));
            }
            at = at.max(span.end());
        }
        gaps.extend(self.end().checked_since(at).and_then(|len| Self::new(at, len)));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Whether the two share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end() && other.start < self.end()
    }

    /// Whether every byte of `other` is in this span.
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}
