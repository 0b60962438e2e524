//! The holes of a sparse file. A write of the zeroes that are read from a hole allocates space for them.
//!
//! Invariants: a hole is made again only where there was one before anything was read, where only zeroes
//! were read from it, and after a comparison has found the same contents.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, SeekFrom};
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::real::open::{Kind, Opened};

/// The holes in these areas; none on a device.
pub(crate) fn find(opened: &Opened, areas: &[Span]) -> Vec<Span> {
    let mut holes = Vec::new();
    if opened.kind != Kind::File {
        return holes;
    }
    for area in areas {
        let (mut at, end) = (area.start().get(), area.end().get());
        while let Ok(hole) = rustix::fs::seek(&opened.file, SeekFrom::Hole(at)) {
            if hole >= end {
                break;
            }
            // Behind the last data, there is an error.
            at = rustix::fs::seek(&opened.file, SeekFrom::Data(hole)).unwrap_or(end).min(end);
            holes.extend(Span::new(ByteOffset::new(hole), ByteCount::new(at.saturating_sub(hole))));
            if at <= hole {
                break;
            }
        }
    }
    holes
}

/// Makes a hole, which reads as zeroes.
pub(crate) fn make(file: &File, hole: Span) -> io::Result<()> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, mode, hole.start().get(), hole.len().get())?)
}
