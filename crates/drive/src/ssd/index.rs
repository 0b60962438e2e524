//! Indexes, each of its own type and stored plus one: an `Option` is no larger, and absence is zero.

use std::num::NonZeroU32;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(NonZeroU32);

        impl $name {
            /// The index with this number, which the layout keeps below 2^32 - 1.
            #[inline]
            pub(super) const fn new(number: u32) -> Self {
                match NonZeroU32::new(number.wrapping_add(1)) {
                    Some(kept) => Self(kept),
                    // The layout is checked. A fallback number would make each use more expensive.
                    None => unreachable!(),
                }
            }

            #[inline]
            pub(super) const fn get(self) -> u32 {
                self.0.get() - 1
            }
        }
    };
}

macro_rules! place {
    ($($name:ident)*) => {$(
        impl $name {
            #[inline]
            pub(super) const fn at(self) -> usize {
                self.get() as usize
            }
        }
    )*};
}

index! {
    /// An indirection unit, counted over the capacity.
    Unit
}
index! {
    /// The superblock's number in the high bits, the place in it in the low bits.
    Slot
}
index! {
    /// A superblock: one block of each die.
    Superblock
}
index! {
    /// A flash die.
    Die
}
index! {
    /// An entry of the write buffer.
    EntryIndex
}

place! { Unit Superblock Die EntryIndex }

impl Slot {
    #[inline]
    pub(super) const fn after(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl Unit {
    #[inline]
    pub(super) const fn after(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}
