//! A file as a disk, for tests and examples: nothing locks or claims it.

use std::fs::File;
use std::io;

use straddle_repair::relocate::{Disk, FileAccess};
use straddle_units::{ByteCount, ByteOffset, Span};

/// A file or a block device.
pub(crate) struct FileDisk {
    file: File,
    size: ByteCount,
}

impl FileDisk {
    /// The disk in `file`, which is open for reading and writing.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let size = FileAccess::new(&file).size()?;
        Ok(Self { file, size })
    }

    fn access(&self) -> FileAccess<'_> {
        FileAccess::new(&self.file)
    }
}

impl Disk for FileDisk {
    fn size(&self) -> ByteCount {
        self.size
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        self.access().read(at, bytes)
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.access().write(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.access().flush()
    }

    fn drop_cache(&mut self, span: Span) {
        self.access().drop_cache(span);
    }

    fn prefetch(&mut self, span: Span) {
        self.access().prefetch(span);
    }

    fn holes(&mut self, span: Span) -> Vec<Span> {
        self.access().holes(span)
    }

    fn punch(&mut self, span: Span) -> io::Result<()> {
        self.access().punch(span)
    }
}
