//! Reading a medium: its first bytes once, everything else from its place.
//!
//! Only the very first block can make the whole reading fail. A structure past the end is absent, and one that
//! the operating system cannot read is unreadable; both are values, not errors.

use std::cell::OnceCell;

use straddle_device::shown::with_causes;
use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::model::content::Content;
use crate::signature;

/// How much is read at once from the start: the MBR, a GPT header in 512-byte and in 4096-byte blocks, and
/// all that the first search for signatures needs (`NEAR`, signature.rs).
const HEAD_BYTES: u64 = 12 * 1024;

/// Why bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the position is past the end of the disk")]
    PastEnd,
    #[error("{0}")]
    Unreadable(String),
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        if matches!(error, ReadError::PastEnd { .. }) {
            return Self::PastEnd;
        }
        Self::Unreadable(with_causes(&error))
    }
}

/// A medium and its first bytes.
pub(crate) struct Reader<'a> {
    medium: &'a dyn Medium,
    head: Vec<u8>,
    whole: OnceCell<Option<Content>>,
}

impl<'a> Reader<'a> {
    /// Reads the head of `medium`, or else only its first block of `first` bytes; fails if that fails too.
    pub(crate) fn open(medium: &'a dyn Medium, first: BlockSize) -> Result<Self, ReadError> {
        let read = |want: u64| {
            let want = usize::try_from(want.min(medium.len().get())).unwrap_or(usize::MAX);
            medium.bytes_at(ByteOffset::ZERO, want)
        };
        let head = read(HEAD_BYTES).or_else(|_| read(first.get().min(HEAD_BYTES)))?;
        Ok(Self { medium, head, whole: OnceCell::new() })
    }

    pub(crate) fn medium(&self) -> &'a dyn Medium {
        self.medium
    }

    pub(crate) fn len(&self) -> ByteCount {
        self.medium.len()
    }

    pub(crate) fn end(&self) -> ByteOffset {
        ByteOffset::new(self.medium.len().get())
    }

    /// The first 12 KiB; less if the medium is shorter or only its first block can be read.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The content of the medium as a whole, identified at the first call.
    pub(crate) fn whole(&self) -> Option<Content> {
        *self.whole.get_or_init(|| signature::identify(self, Span::first(self.len())))
    }

    /// Fills `buf` from byte `at`; from the head if that holds all of it.
    pub(crate) fn read(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), Fault> {
        let cached = usize::try_from(at.get()).ok().and_then(|a| self.head.get(a..)?.get(..buf.len()));
        match cached {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => self.medium.read_at(at, buf)?,
        }
        Ok(())
    }

    /// Reads `want` bytes from byte `at`, but none from `end` on. Empty if they cannot be read.
    pub(crate) fn read_up_to(&self, at: ByteOffset, want: usize, end: ByteOffset) -> Vec<u8> {
        let room = end.min(self.end()).checked_since(at).map_or(0, ByteCount::get);
        let mut bytes = vec![0; want.min(usize::try_from(room).unwrap_or(usize::MAX))];
        if bytes.is_empty() {
            return bytes;
        }
        self.read(at, &mut bytes).map_or(Vec::new(), |()| bytes)
    }
}
