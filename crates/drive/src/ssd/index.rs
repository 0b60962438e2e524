//! Numbers of things in the drive, each of a type of its own, so that none is taken for another.
//!
//! Each is kept plus one: an `Option` of it is as small as the number, and nothing there is a zero, in the maps too.

use std::num::NonZeroU32;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(NonZeroU32);

        impl $name {
            /// The one with this number, which the layout keeps below 2^32 - 1.
            #[inline]
            pub(super) const fn new(number: u32) -> Self {
                match NonZeroU32::new(number.wrapping_add(1)) {
                    Some(kept) => Self(kept),
                    // The layout has been checked. With a number in its place, each use would cost more.
                    None => unreachable!(),
                }
            }

            /// Its number.
            #[inline]
            pub(super) const fn get(self) -> u32 {
                self.0.get() - 1
            }
        }
    };
}

/// Those that count the elements of a vector.
macro_rules! place {
    ($($name:ident)*) => {$(
        impl $name {
            /// Its place in the vector.
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
    /// The place of a unit in flash: the number of the superblock above, the place in it below.
    Slot
}
index! {
    /// A block of each die.
    Superblock
}
index! {
    /// A die.
    Die
}
index! {
    /// An entry of the write buffer.
    EntryIndex
}

place! { Unit Superblock Die EntryIndex }

impl Slot {
    /// The slot `count` further on, in the same superblock.
    #[inline]
    pub(super) const fn after(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl Unit {
    /// The unit `count` further on.
    #[inline]
    pub(super) const fn after(self, count: u32) -> Self {
        Self(self.0.saturating_add(count))
    }
}
