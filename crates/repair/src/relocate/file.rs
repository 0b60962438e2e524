//! A file or a block device, read and written as a disk is.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

use crate::relocate::disk::Disk;

/// The kernel reads ahead no more than this for one advice, whatever the length, if its queue allows no more: the least
/// that is usual.
const ADVICE: u64 = 128 * KIB;
/// The kernel begins to write a long write to the medium after each of these.
const PIECE: u64 = 4 * MIB;

/// A file or a block device as a disk, through the page cache.
///
/// It neither locks nor claims the file, and writes wherever it is asked to: it is not a safety boundary. The code
/// that opens the file must ensure that it may be written, as the `Target` of crate `repair` does.
#[derive(Clone, Copy, Debug)]
pub struct FileAccess<'f>(&'f File);

impl<'f> FileAccess<'f> {
    /// Access to `file`, which is open for reading and writing.
    pub fn new(file: &'f File) -> Self {
        Self(file)
    }

    /// The number of bytes: of a block device, too, whose metadata say 0.
    pub fn size(self) -> io::Result<ByteCount> {
        Ok(ByteCount::new(rustix::fs::seek(self.0, SeekFrom::End(0))?))
    }

    fn advise(self, at: u64, len: u64, advice: Advice) {
        if let Some(len) = NonZeroU64::new(len) {
            let _ = rustix::fs::fadvise(self.0, at, Some(len), advice);
        }
    }
}

impl Disk for FileAccess<'_> {
    fn size(&self) -> ByteCount {
        FileAccess::size(*self).unwrap_or_default()
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at.get())
    }

    /// If there are many bytes, the kernel begins to write them to the medium at once, and does not wait for the flush.
    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        let (mut at, is_long) = (at.get(), bytes.len() as u64 >= MIB);
        for piece in bytes.chunks(usize::try_from(PIECE).unwrap_or(usize::MAX)) {
            self.0.write_all_at(piece, at)?;
            if is_long {
                // The advice starts the writeback of dirty pages and keeps them.
                self.advise(at, piece.len() as u64, Advice::DontNeed);
            }
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    /// Drops the page cache of `span`, by posix_fadvise(2). Pages that are dirty, mapped or locked stay, and
    /// so does the cache of a drive.
    fn drop_cache(&mut self, span: Span) {
        self.advise(span.start().get(), span.len().get(), Advice::DontNeed);
    }

    fn prefetch(&mut self, span: Span) {
        for piece in span.pieces(ByteCount::new(ADVICE)) {
            self.advise(piece.start().get(), piece.len().get(), Advice::WillNeed);
        }
    }

    /// A block device has none.
    fn holes(&mut self, span: Span) -> Vec<Span> {
        let (mut at, end) = (span.start().get(), span.end().get());
        let mut holes = Vec::new();
        while at < end {
            let Ok(start) = rustix::fs::seek(self.0, SeekFrom::Hole(at)) else { break };
            if start >= end {
                break;
            }
            // There is an error if no data follow.
            let next = rustix::fs::seek(self.0, SeekFrom::Data(start)).map_or(end, |next| next.min(end));
            holes.extend(Span::new(ByteOffset::new(start), ByteCount::new(next.saturating_sub(start))));
            at = next.max(start + 1);
        }
        holes
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self.0, mode, span.start().get(), span.len().get())?)
    }
}
