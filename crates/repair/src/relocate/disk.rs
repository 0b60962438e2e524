//! What is moved on: the [`Disk`] trait, and the pair of disks that a move uses.

use std::io;

use straddle_units::{ByteCount, ByteOffset, Span};

use crate::relocate::error::{Device, RelocateError};

/// The smallest unit of a disk, in bytes.
pub const SECTOR: u64 = 512;

/// A disk: bytes that can be read and written, and a flush that makes them durable.
///
/// A write may become durable at any time before the next flush, in part or not at all. Following reads
/// return it at once.
pub trait Disk {
    /// The number of bytes.
    fn size(&self) -> ByteCount;

    /// Fills `bytes` from byte `at`.
    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at byte `at`.
    ///
    /// # Errors
    ///
    /// If one of the bytes cannot be written; the others may have been.
    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()>;

    /// Makes all writes durable.
    fn flush(&mut self) -> io::Result<()>;

    /// Drops what is cached of `span`, so that the following reads come from the medium. After a failed flush
    /// a cache may still hold what was not written.
    fn drop_cache(&mut self, _span: Span) {}

    /// Begins to read `span` into a cache, and does not wait for it. What a following read returns is the
    /// same: a write to `span` that comes in between is seen.
    fn prefetch(&mut self, _span: Span) {}

    /// The parts of `span` that are known to be zeros without storage, in ascending order.
    fn holes(&mut self, _span: Span) -> Vec<Span> {
        Vec::new()
    }

    /// Writes zeros to `span`, which then needs no storage. It is a write like others: durable after the next
    /// flush.
    ///
    /// # Errors
    ///
    /// If the disk cannot do that; then `span` holds what it did, or zeros in part.
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
    /// The journal is on the disk itself, in space that nothing else uses.
    pub fn one(disk: &'a mut dyn Disk) -> Self {
        Self { data: disk, journal: None }
    }

    /// The journal is on another disk, or in a file on one. The caller must ensure that it is another one: that the
    /// journal lies on no move is only checked on one disk.
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

    /// Reads all bytes, or finds the first that cannot be read.
    pub(crate) fn read(
        &mut self,
        device: Device,
        at: ByteOffset,
        bytes: &mut [u8],
    ) -> Result<(), RelocateError> {
        let disk = self.get(device);
        if disk.read(at, bytes).is_ok() {
            return Ok(());
        }
        let (mut at, step) = (at.get(), usize::try_from(SECTOR).unwrap_or(usize::MAX));
        for sector in bytes.chunks_mut(step) {
            let place = ByteOffset::new(at);
            disk.read(place, sector).map_err(|source| RelocateError::Read { device, at: place, source })?;
            at += SECTOR;
        }
        Ok(())
    }

    pub(crate) fn write(
        &mut self,
        device: Device,
        at: ByteOffset,
        bytes: &[u8],
    ) -> Result<(), RelocateError> {
        let len = ByteCount::new(bytes.len() as u64);
        self.get(device).write(at, bytes).map_err(|source| RelocateError::Write { device, at, len, source })
    }

    /// Writes `bytes` to the data's disk, `skip` bytes behind `start`; nothing if there are none.
    pub(crate) fn write_at(
        &mut self,
        start: ByteOffset,
        skip: usize,
        bytes: &[u8],
    ) -> Result<(), RelocateError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.write(Device::Data, ByteOffset::new(start.get() + skip as u64), bytes)
    }

    pub(crate) fn flush(&mut self) -> Result<(), RelocateError> {
        if let Some(journal) = &mut self.journal {
            journal.flush().map_err(|source| RelocateError::Flush { device: Device::Journal, source })?;
        }
        self.data.flush().map_err(|source| RelocateError::Flush { device: Device::Data, source })
    }

    /// Makes durable what was written before, and has the following reads come from the media.
    pub(crate) fn settle(&mut self) -> Result<(), RelocateError> {
        self.flush()?;
        for device in [Device::Data, Device::Journal] {
            let disk = self.get(device);
            let all = Span::first(disk.size());
            disk.drop_cache(all);
        }
        Ok(())
    }
}
