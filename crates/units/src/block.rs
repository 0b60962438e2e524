//! Logical block addresses, which have a meaning only together with a block size.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteCount, ByteOffset, Span};

/// The unit in which the kernel counts (sysfs `start` and `size`), whatever the logical block size is.
pub const KERNEL_SECTOR: BlockSize = BlockSize(512);

/// A logical block size: a power of two from 512 bytes to 64 KiB (the kernel's `blk_validate_block_size`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
#[schemars(inline)]
pub struct BlockSize(u32);

/// A number of bytes that is not a logical block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a logical block size, which must be a power of two from 512 to 65536")]
pub struct BlockSizeError(pub u64);

impl TryFrom<u64> for BlockSize {
    type Error = BlockSizeError;

    fn try_from(bytes: u64) -> Result<Self, BlockSizeError> {
        Self::new(bytes)
    }
}

impl From<BlockSize> for u64 {
    fn from(size: BlockSize) -> Self {
        size.get()
    }
}

impl BlockSize {
    /// 512-byte blocks: 512n and 512e drives.
    pub const B512: Self = Self(512);
    /// 4096-byte blocks: 4Kn drives.
    pub const B4096: Self = Self(4096);

    /// Validates a block size.
    pub fn new(bytes: u64) -> Result<Self, BlockSizeError> {
        match u32::try_from(bytes) {
            Ok(size) if size.is_power_of_two() && (512..=65536).contains(&size) => Ok(Self(size)),
            _ => Err(BlockSizeError(bytes)),
        }
    }

    /// In bytes.
    pub fn get(self) -> u64 {
        u64::from(self.0)
    }

    /// As a count of bytes.
    pub fn bytes(self) -> ByteCount {
        ByteCount::new(self.get())
    }

    /// The number of whole blocks in `len`; a partial block at the end does not count.
    pub fn blocks_floor(self, len: ByteCount) -> LbaCount {
        LbaCount(len.get() / self.get())
    }
}

/// A logical block address.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Lba(u64);

/// A count of logical blocks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct LbaCount(u64);

impl Lba {
    /// The address of block number `lba`.
    pub const fn new(lba: u64) -> Self {
        Self(lba)
    }

    /// The address as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The first byte of the block; `None` if it exceeds 64 bits.
    pub fn to_bytes(self, block: BlockSize) -> Option<ByteOffset> {
        self.0.checked_mul(block.get()).map(ByteOffset::new)
    }

    /// The first byte of the block, at most 2^64 - 1.
    pub fn byte(self, block: BlockSize) -> ByteOffset {
        ByteOffset::new(self.0.saturating_mul(block.get()))
    }

    /// The block that starts exactly at `offset`; `None` if none does.
    pub fn from_bytes_exact(offset: ByteOffset, block: BlockSize) -> Option<Self> {
        offset.get().is_multiple_of(block.get()).then(|| Self(offset.get() / block.get()))
    }

    /// The block that contains `offset`.
    pub fn containing(offset: ByteOffset, block: BlockSize) -> Self {
        Self(offset.get() / block.get())
    }

    /// The address `count` blocks further on; `None` if it exceeds 64 bits.
    pub fn checked_add(self, count: LbaCount) -> Option<Self> {
        self.0.checked_add(count.0).map(Self)
    }

    /// The address `count` blocks further on, at most 2^64 - 1.
    #[must_use]
    pub fn saturating_add(self, count: LbaCount) -> Self {
        Self(self.0.saturating_add(count.0))
    }

    /// The number of blocks from `earlier` to here; `None` if `earlier` is in fact later.
    pub fn checked_since(self, earlier: Self) -> Option<LbaCount> {
        self.0.checked_sub(earlier.0).map(LbaCount)
    }

    /// The number of blocks from `earlier` to here; zero if `earlier` is in fact later.
    pub fn since(self, earlier: Self) -> LbaCount {
        LbaCount(self.0.saturating_sub(earlier.0))
    }
}

impl LbaCount {
    /// This many blocks.
    pub const fn new(blocks: u64) -> Self {
        Self(blocks)
    }

    /// The count as a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count in bytes; `None` if it exceeds 64 bits.
    pub fn to_bytes(self, block: BlockSize) -> Option<ByteCount> {
        self.0.checked_mul(block.get()).map(ByteCount::new)
    }

    /// The address of the last of this many blocks counted from LBA 0; `None` for zero blocks.
    pub fn last_lba(self) -> Option<Lba> {
        self.0.checked_sub(1).map(Lba)
    }
}

impl Span {
    /// The bytes of `count` blocks from `start`; `None` if they end past 2^64.
    pub fn of_blocks(start: Lba, count: LbaCount, block: BlockSize) -> Option<Self> {
        Self::new(start.to_bytes(block)?, count.to_bytes(block)?)
    }
}

macro_rules! display_as_number {
    ($($quantity:ty),*) => {$(
        impl fmt::Display for $quantity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.get().fmt(f)
            }
        }
    )*};
}
display_as_number!(BlockSize, ByteOffset, Lba, LbaCount);
