//! What a move reads and writes: the [`Disk`] trait, files as disks, and the pair of disks of a move.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use straddle_units::{ByteCount, ByteOffset, KIB, MIB, Span};

use super::{Device, RelocateError, Result};

/// The smallest unit of a disk, in bytes.
pub const SECTOR: u64 = 512;
pub(crate) const SECTOR_LEN: usize = 512;

/// A disk: bytes that can be read and written, and a flush that makes them durable.
///
/// A write may become durable before the next flush, in part or not at all. Reads return it at once.
pub trait Disk {
    /// The number of bytes.
    fn size(&self) -> ByteCount;

    /// Fills `bytes` from byte `at`.
    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at byte `at`. After an error, part of them may have been written.
    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()>;

    /// Makes all writes durable.
    fn flush(&mut self) -> io::Result<()>;

    /// Drops what is cached of `span`, so that it is read from the medium: after a failed flush a cache may
    /// hold what was not written.
    fn drop_cache(&mut self, _span: Span) {}

    /// Begins to read `span` into a cache, without waiting for it. Later reads see later writes.
    fn prefetch(&mut self, _span: Span) {}

    /// The holes in `span`, in ascending order.
    fn holes(&mut self, _span: Span) -> Vec<Span> {
        Vec::new()
    }

    /// Makes `span` a hole, durable after the next flush. After an error, part of it may be zeros.
    fn punch(&mut self, _span: Span) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The disk whose data move, and the one that holds the journal.
pub struct Disks<'a> {
    data: &'a mut dyn Disk,
    journal: Option<&'a mut dyn Disk>,
}

impl<'a> Disks<'a> {
    /// The journal is on the disk itself, in unallocated space.
    pub fn one(disk: &'a mut dyn Disk) -> Self {
        Self { data: disk, journal: None }
    }

    /// The journal is on another disk. The caller ensures that: whether the journal overlaps a move is only
    /// checked on one disk.
    pub fn two(data: &'a mut dyn Disk, journal: &'a mut dyn Disk) -> Self {
        Self { data, journal: Some(journal) }
    }

    pub(crate) fn is_one(&self) -> bool {
        self.journal.is_none()
    }

    pub(crate) fn device_of_journal(&self) -> Device {
        if self.is_one() { Device::Data } else { Device::Journal }
    }

    pub(crate) fn get(&mut self, device: Device) -> &mut dyn Disk {
        match (device, &mut self.journal) {
            (Device::Journal, Some(journal)) => &mut **journal,
            _ => &mut *self.data,
        }
    }

    /// Reads `bytes`; the error names the first sector that cannot be read.
    pub(crate) fn read(&mut self, device: Device, at: ByteOffset, bytes: &mut [u8]) -> Result<()> {
        let disk = self.get(device);
        if disk.read(at, bytes).is_ok() {
            return Ok(());
        }
        for (at, sector) in (at.get()..).step_by(SECTOR_LEN).zip(bytes.chunks_mut(SECTOR_LEN)) {
            let at = ByteOffset::new(at);
            disk.read(at, sector).map_err(|source| RelocateError::Read { device, at, source })?;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, device: Device, at: ByteOffset, bytes: &[u8]) -> Result<()> {
        let len = ByteCount::new(bytes.len() as u64);
        self.get(device).write(at, bytes).map_err(|source| RelocateError::Write { device, at, len, source })
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.flush().map_err(|source| RelocateError::Flush { device: Device::Journal, source })?;
        }
        self.data.flush().map_err(|source| RelocateError::Flush { device: Device::Data, source })
    }

    pub(crate) fn settle(&mut self) -> Result<()> {
        self.flush()?;
        for device in [Device::Data, Device::Journal] {
            let disk = self.get(device);
            let all = Span::first(disk.size());
            disk.drop_cache(all);
        }
        Ok(())
    }
}

/// The most that the kernel reads for one advice, with the smallest usual read-ahead.
const ADVICE: u64 = 128 * KIB;
/// The kernel begins to write to the medium after each of these.
const PIECE: u64 = 4 * MIB;

/// A file or a block device as a disk, through the page cache.
///
/// It neither locks nor claims the file: the code that opens it must ensure that it may be written.
#[derive(Clone, Copy, Debug)]
pub struct FileAccess<'f>(&'f File);

impl<'f> FileAccess<'f> {
    /// Access to `file`, which is open for reading and writing.
    pub fn new(file: &'f File) -> Self {
        Self(file)
    }

    /// The number of bytes, also of a block device, whose metadata say 0.
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

    /// By posix_fadvise(2). Dirty, mapped and locked pages stay, and so does the cache of a drive.
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
