//! Positions, counts and boundaries on a disk, and their arithmetic.
//!
//! Invariants: a position is not a count, an LBA means nothing without its block size, and every rounding or
//! remainder against a boundary is computed here. A result that does not fit is `None` or the largest number,
//! never a wrapped one. No I/O. [`ErrorKind`] is here because the errors of every crate have one.
//!
//! How far the first partition of an old disk starts past a physical sector:
//!
//! ```
//! use straddle_units::{Boundary, ByteCount, KERNEL_SECTOR, Lba};
//!
//! let sectors = Boundary::multiples_of(ByteCount::new(4096)).ok_or("not a size")?;
//! let start = Lba::new(63).byte(KERNEL_SECTOR);
//! assert_eq!(sectors.past(start), ByteCount::new(3584));
//! # Ok::<(), &str>(())
//! ```

mod block;
mod boundary;
mod bytes;
mod error_kind;
pub mod io;
mod size;

#[cfg(test)]
extern crate self as straddle_units;
#[cfg(test)]
#[path = "../tests/units/mod.rs"]
mod tests;

pub use block::{BlockSize, BlockSizeError, KERNEL_SECTOR, Lba, LbaCount};
pub use boundary::{Boundary, Coverage};
pub use bytes::{ByteCount, ByteOffset, Span};
pub use error_kind::ErrorKind;
pub use size::{ParseSizeError, parse_size};

/// One kibibyte, in bytes.
pub const KIB: u64 = 1024;
/// One mebibyte, in bytes.
pub const MIB: u64 = 1024 * KIB;
/// One gibibyte, in bytes.
pub const GIB: u64 = 1024 * MIB;
