//! Unreadable sectors: each one that is needed is reported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;

use std::io;

use common::Gpt;
use straddle_device::{Medium, MemoryMedium, ReadError};
use straddle_layout::{Problem, read_all};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// A medium with some unreadable bytes.
struct Bad {
    medium: MemoryMedium,
    from: u64,
    len: u64,
}

impl Medium for Bad {
    fn len(&self) -> ByteCount {
        self.medium.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = at.get() + buf.len() as u64;
        if at.get() < self.from + self.len && end > self.from {
            let at = ByteOffset::new(at.get().max(self.from));
            return Err(ReadError::Io { at, source: io::Error::other("medium error") });
        }
        self.medium.read_at(at, buf)
    }
}

/// The byte reported as unreadable in each partition, or in the disk as a whole (0).
fn unread(medium: MemoryMedium, from: u64, len: u64) -> Vec<(u32, u64)> {
    let bad = Bad { medium, from, len };
    let stack = read_all(&bad, Some(BlockSize::B512), None).unwrap();
    let said = stack.problems.iter().filter_map(|problem| match problem {
        Problem::Unreadable { number, at, why } => {
            assert_eq!(why, "medium error");
            Some((number.unwrap_or(0), at.get()))
        }
        _ => None,
    });
    said.collect()
}

#[test]
fn a_partition_that_cannot_be_read_is_reported_at_its_byte() {
    let disk = || {
        let entries = vec![(1, 2048, 6143), (2, 8192, 12287), (3, 16384, 20479)];
        let gpt = Gpt { block: 512, blocks: 65536, count: 128, entry_size: 128, entries, protective: true };
        MemoryMedium::new(gpt.build())
    };
    assert_eq!(unread(disk(), 40 << 20, 512), []);
    // Each sector that is read, in each partition: nothing is looked for from 8 to 12 KiB.
    for (number, start) in [(1, 2048), (2, 8192), (3, 16384)] {
        for sector in (0..16).chain(24..128).map(|sector| (start + sector) * 512) {
            assert_eq!(unread(disk(), sector, 512), [(number, sector)]);
        }
        // An unreadable sector that is not needed does not matter.
        assert_eq!(unread(disk(), (start + 1000) * 512, 512), []);
    }
    // Two partitions at once, each reported at its first bad byte.
    assert_eq!(unread(disk(), 2050 * 512, 8192 * 512), [(1, 2050 * 512), (2, 8192 * 512)]);
}

#[test]
fn a_disk_without_a_table_is_reported_too() {
    for sector in 24..128 {
        let blank = MemoryMedium::sparse(Vec::new(), ByteCount::new(64 << 20));
        assert_eq!(unread(blank, sector * 512, 512), [(0, sector * 512)], "sector {sector}");
    }
}
