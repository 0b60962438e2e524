//! A drive without a cache whose power fails in a write, of which a test says what is on the medium then.

use std::io;
use std::marker::PhantomData;

use straddle_device::{Medium, ReadError};
use straddle_repair::Simulated;
use straddle_units::{ByteCount, ByteOffset};

use super::Powered;
use super::common::{Memory, Random};

/// What becomes of the write that the power fails in.
pub(super) trait Tear {
    fn tear(medium: &mut Memory, random: &mut Random, at: u64, bytes: &[u8]);
}

/// The drive: all writes before that one are on the medium, and none after it.
pub(super) struct Uncached<T> {
    medium: Memory,
    left: u64,
    taken: u64,
    random: Random,
    tear: PhantomData<fn() -> T>,
}

impl<T> Medium for Uncached<T> {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.medium.read_at(at, buf)
    }
}

impl<T: Tear> Simulated for Uncached<T> {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.taken += 1;
        let off = || io::Error::other("the power is off");
        if self.left == 0 {
            return Err(off());
        }
        self.left -= 1;
        if self.left > 0 {
            self.medium.put(at.get(), bytes);
            return Ok(());
        }
        T::tear(&mut self.medium, &mut self.random, at.get(), bytes);
        Err(off())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: Tear> Powered for Uncached<T> {
    fn on(contents: Memory, left: u64, seed: u64) -> Self {
        let (left, random) = (left.saturating_add(1), Random::new(seed));
        Self { medium: contents, left, taken: 0, random, tear: PhantomData }
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn seen(&self) -> Memory {
        self.medium.clone()
    }

    fn cut(self, _: &mut Random) -> Memory {
        self.medium
    }
}
