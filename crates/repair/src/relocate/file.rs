//! A file or a block device, read and written as a disk is.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, FallocateFlags, FileType, SeekFrom, major, minor};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

/// The kernel reads ahead no more than this for one advice, whatever the length, if its queue says nothing
/// else: the least that is usual.
const ADVICE: u64 = 128 * KIB;
/// No more is asked for at once.
const LARGEST_ADVICE: u64 = 16 * MIB;
/// The kernel begins to write a long write to the medium after each of these.
const PIECE: u64 = 4 * MIB;

/// What an implementation of [`Disk`](crate::relocate::Disk) over a file or a block device needs, through the page
/// cache.
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
    ///
    /// # Errors
    ///
    /// If it is unknown.
    pub fn size(self) -> io::Result<ByteCount> {
        Ok(ByteCount::new(rustix::fs::seek(self.0, SeekFrom::End(0))?))
    }

    /// Fills `bytes` from byte `at`.
    ///
    /// # Errors
    ///
    /// If one of the bytes cannot be read.
    pub fn read(self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at.get())
    }

    /// Writes `bytes` at byte `at`. If there are many, the kernel begins to write them to the medium at once,
    /// and does not wait for the flush.
    ///
    /// # Errors
    ///
    /// If one of the bytes cannot be written.
    pub fn write(self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
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

    /// Makes all writes durable, by fdatasync(2).
    ///
    /// # Errors
    ///
    /// If one of them may be lost.
    pub fn flush(self) -> io::Result<()> {
        self.0.sync_data()
    }

    /// Drops the page cache of `span`, by posix_fadvise(2). Pages that are dirty, mapped or locked stay, and
    /// so does the cache of a drive.
    pub fn drop_cache(self, span: Span) {
        self.advise(span.start().get(), span.len().get(), Advice::DontNeed);
    }

    /// Begins to read `span` into the page cache, by posix_fadvise(2).
    pub fn prefetch(self, span: Span) {
        let mut at = span.start().get();
        // What the queue allows is asked for only if it makes a difference.
        let most = if span.len().get() > ADVICE { self.most_at_once() } else { ADVICE };
        while at < span.end().get() {
            let len = most.min(span.end().get() - at);
            self.advise(at, len, Advice::WillNeed);
            at += len;
        }
    }

    /// How many bytes the kernel reads for one advice: the larger one of a queue's read-ahead and its longest
    /// request (`force_page_cache_ra` in mm/readahead.c).
    fn most_at_once(self) -> u64 {
        let Ok(stat) = rustix::fs::fstat(self.0) else { return ADVICE };
        let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let device = if is_block { stat.st_rdev } else { stat.st_dev };
        let node = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        // A partition has the queue of its disk.
        let kib = |name: &str| {
            let read = |folder: &str| std::fs::read_to_string(format!("{node}/{folder}/{name}")).ok();
            let text = read("queue").or_else(|| read("../queue"))?;
            text.trim().parse::<u64>().ok()?.checked_mul(KIB)
        };
        let most = kib("read_ahead_kb").max(kib("max_sectors_kb"));
        most.unwrap_or(ADVICE).clamp(ADVICE, LARGEST_ADVICE)
    }

    /// The holes of a sparse file in `span`. A block device has none.
    pub fn holes(self, span: Span) -> Vec<Span> {
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

    /// Makes `span` a hole of the file.
    ///
    /// # Errors
    ///
    /// If the file system has no holes.
    pub fn punch(self, span: Span) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self.0, mode, span.start().get(), span.len().get())?)
    }

    fn advise(self, at: u64, len: u64, advice: Advice) {
        if let Some(len) = NonZeroU64::new(len) {
            let _ = rustix::fs::fadvise(self.0, at, Some(len), advice);
        }
    }
}
