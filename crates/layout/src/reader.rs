//! Reading a medium: its first bytes once, everything else from its place. Only a failure at the first block is an
//! error; an absent structure, past the end, and an unreadable one are values.

use std::cell::OnceCell;

use straddle_device::shown::with_causes;
use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::model::content::Content;
use crate::signature;

/// The MBR, a GPT header in 512-byte and in 4096-byte blocks, and the first search for signatures (`NEAR`).
const HEAD_BYTES: u64 = 12 * 1024;

/// What is wrong, in words.
pub(crate) type Fault = String;

pub(crate) fn fault(error: ReadError) -> Fault {
    match error {
        ReadError::PastEnd { .. } => "the position is past the end of the disk".to_owned(),
        error => with_causes(&error),
    }
}

pub(crate) struct Reader<'a> {
    medium: &'a dyn Medium,
    head: Vec<u8>,
    whole: OnceCell<Option<Content>>,
}

impl<'a> Reader<'a> {
    /// Only the first block of `first` bytes if the head is unreadable; fails if that is, too.
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

    /// The first 12 KiB, unless the medium is shorter or only its first block can be read.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn whole(&self) -> Option<Content> {
        *self.whole.get_or_init(|| signature::identify(self, Span::first(self.len())))
    }

    pub(crate) fn read(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), Fault> {
        let cached = usize::try_from(at.get()).ok().and_then(|a| self.head.get(a..)?.get(..buf.len()));
        match cached {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => self.medium.read_at(at, buf).map_err(fault)?,
        }
        Ok(())
    }

    pub(crate) fn read_up_to(&self, at: ByteOffset, want: usize, end: ByteOffset) -> Vec<u8> {
        let room = end.min(self.end()).checked_since(at).map_or(0, ByteCount::get);
        let mut bytes = vec![0; want.min(usize::try_from(room).unwrap_or(usize::MAX))];
        if bytes.is_empty() {
            return bytes;
        }
        self.read(at, &mut bytes).map_or(Vec::new(), |()| bytes)
    }
}
