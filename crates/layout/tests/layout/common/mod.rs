//! Tables built by hand, independently of the code under test, and queries on a stack.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]
#![allow(clippy::cast_possible_truncation, reason = "the images are small and built here")]

pub(crate) mod tools;

use proptest::prelude::*;
use straddle_device::{Medium, MemoryMedium, ReadError, Remembered};
use straddle_layout::{Problem, Stack, read_stack};
use straddle_units::io::SplitMix64;
use straddle_units::{BlockSize, ByteCount, ByteOffset, MIB};

/// The type GUID "Linux filesystem", as on disk.
pub(crate) const LINUX: [u8; 16] =
    [0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4];

/// The start of the boot sector of an NTFS with clusters of 4 KiB and its file table in cluster 2.
pub(crate) const NTFS: &[u8] = b"\xEB\x52\x90NTFS    \x00\x02\x08\0\0\0\0\0\0\0\xF8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\x80\0\0\0\0\0\0\0\0\0\x02";

/// Random bytes, fewer than `most`: of a seed, which takes a fraction of the time of a strategy for each byte.
pub(crate) fn noise(most: usize) -> impl Strategy<Value = Vec<u8>> {
    (any::<u64>(), 0..most).prop_map(|(seed, len)| {
        let mut bytes = vec![0; len];
        SplitMix64::new(seed).fill(&mut bytes);
        bytes
    })
}

/// A GPT image: entries are (number, first LBA, last LBA).
pub(crate) struct Gpt {
    pub(crate) block: usize,
    pub(crate) blocks: usize,
    pub(crate) count: usize,
    pub(crate) entry_size: usize,
    pub(crate) entries: Vec<(usize, u64, u64)>,
    pub(crate) protective: bool,
}

impl Gpt {
    /// 8 MiB with two partitions of 1 MiB, at 1 MiB and at 4 MiB.
    pub(crate) fn sample(block: usize) -> Self {
        let mib = MIB as usize / block;
        let at = |mebibyte: usize| (mebibyte * mib) as u64;
        Self {
            block,
            blocks: 8 * mib,
            count: 128,
            entry_size: 128,
            entries: vec![(1, at(1), at(2) - 1), (2, at(4), at(5) - 1)],
            protective: true,
        }
    }

    pub(crate) fn array_blocks(&self) -> usize {
        (self.count * self.entry_size).div_ceil(self.block)
    }

    pub(crate) fn backup_lba(&self) -> usize {
        self.blocks - 1
    }

    pub(crate) fn backup_array_lba(&self) -> usize {
        self.blocks - 1 - self.array_blocks()
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut image = vec![0; self.blocks * self.block];
        if self.protective {
            mbr_entry(&mut image, 0, 0, 0xEE, 1, u32::try_from(self.blocks - 1).expect("a small image"));
            sign(&mut image, 0);
        }
        let mut array = vec![0; self.count * self.entry_size];
        for &(number, first, last) in &self.entries {
            let entry = &mut array[(number - 1) * self.entry_size..][..128];
            entry[..16].copy_from_slice(&LINUX);
            entry[16..32].fill(number as u8);
            put(entry, 32, &first.to_le_bytes());
            put(entry, 40, &last.to_le_bytes());
            for (i, unit) in format!("part {number} é").encode_utf16().enumerate() {
                put(entry, 56 + 2 * i, &unit.to_le_bytes());
            }
        }
        put(&mut image, 2 * self.block, &array);
        put(&mut image, self.backup_array_lba() * self.block, &array);
        self.header(&mut image, 1, self.backup_lba(), 2);
        self.header(&mut image, self.backup_lba(), 1, self.backup_array_lba());
        image
    }

    fn header(&self, image: &mut [u8], lba: usize, alternate: usize, array_lba: usize) {
        let at = lba * self.block;
        let first = 2 + self.array_blocks();
        put(image, at, b"EFI PART");
        put(image, at + 8, &0x0001_0000u32.to_le_bytes());
        put(image, at + 12, &92u32.to_le_bytes());
        for (offset, value) in
            [(24, lba), (32, alternate), (40, first), (48, self.backup_array_lba() - 1), (72, array_lba)]
        {
            put(image, at + offset, &(value as u64).to_le_bytes());
        }
        image[at + 56..at + 72].fill(0xD1);
        put(image, at + 80, &(self.count as u32).to_le_bytes());
        put(image, at + 84, &(self.entry_size as u32).to_le_bytes());
        self.seal(image, lba);
    }

    /// Corrects the CRCs of the header at `lba`, as far as its array is in the image.
    pub(crate) fn seal(&self, image: &mut [u8], lba: usize) {
        let at = lba * self.block;
        let u64_at =
            |offset: usize| u64::from_le_bytes(image[at + offset..][..8].try_into().expect("8 bytes"));
        let u32_at =
            |offset: usize| u32::from_le_bytes(image[at + offset..][..4].try_into().expect("4 bytes"));
        let start = (u64_at(72) as usize).saturating_mul(self.block);
        let len = (u32_at(80) as usize).saturating_mul(u32_at(84) as usize);
        if let Some(array) = image.get(start..start.saturating_add(len)) {
            let crc = crc32fast::hash(array);
            put(image, at + 88, &crc.to_le_bytes());
        }
        self.seal_header(image, lba);
    }

    /// Corrects the header's own CRC.
    pub(crate) fn seal_header(&self, image: &mut [u8], lba: usize) {
        let at = lba * self.block;
        let size = u32::from_le_bytes(image[at + 12..][..4].try_into().expect("4 bytes")) as usize;
        put(image, at + 16, &[0; 4]);
        let crc = crc32fast::hash(&image[at..at + size.min(self.block)]);
        put(image, at + 16, &crc.to_le_bytes());
    }
}

/// Writes `bytes` at `at`.
pub(crate) fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes an entry of the MBR or EBR at byte `base`.
pub(crate) fn mbr_entry(image: &mut [u8], base: usize, slot: usize, id: u8, start: u32, count: u32) {
    let at = base + 446 + 16 * slot;
    image[at + 4] = id;
    put(image, at + 8, &start.to_le_bytes());
    put(image, at + 12, &count.to_le_bytes());
}

/// Writes the signature of the MBR or EBR at byte `base`.
pub(crate) fn sign(image: &mut [u8], base: usize) {
    put(image, base + 510, &[0x55, 0xAA]);
}

/// A sector with an MBR of these entries.
pub(crate) fn mbr(entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut sector = vec![0; 512];
    for (slot, &(id, start, count)) in entries.iter().enumerate() {
        mbr_entry(&mut sector, 0, slot, id, start, count);
    }
    put(&mut sector, 440, &[1, 2, 3, 4]);
    sign(&mut sector, 0);
    sector
}

/// Makes the bytes from `at` look like XFS.
pub(crate) fn put_xfs(image: &mut [u8], at: usize) {
    put(image, at, b"XFSB\x00\x00\x10\x00");
}

/// Makes the bytes from `at` look like an empty FAT16, without boot code.
pub(crate) fn put_fat(image: &mut [u8], at: usize) {
    put(image, at, b"\xEB\x3C\x90mkfs.fat\x00\x02\x04\x01\x00\x02\x00\x02\x00\x50\xF8");
    put(image, at + 0x36, b"FAT16   ");
    sign(image, at);
}

/// Reads an image without a declared sector size.
pub(crate) fn read(image: &[u8]) -> Stack {
    read_as(image, None, None)
}

/// Reads an image with these declared and forced block sizes: the same, whether or not its zeros are holes.
pub(crate) fn read_as(image: &[u8], device: Option<BlockSize>, forced: Option<BlockSize>) -> Stack {
    let medium = MemoryMedium::new(image.to_vec());
    let stack = read_stack(&medium, device, forced).expect("memory can be read");
    let sparse = Remembered::new(Box::new(Sparse(medium)));
    assert_eq!(read_stack(&sparse, device, forced).expect("memory can be read"), stack, "with holes");
    stack
}

/// Bytes of which the zeros are known, in sectors.
struct Sparse(MemoryMedium);

impl Medium for Sparse {
    fn len(&self) -> ByteCount {
        self.0.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(at, buf)
    }

    fn zeros_from(&self, at: ByteOffset) -> ByteCount {
        let is_zero = |part: &usize| {
            let mut bytes = [1; 512];
            let at = ByteOffset::new(at.get() + *part as u64);
            self.read_at(at, &mut bytes).is_ok() && bytes == [0; 512]
        };
        ByteCount::new((0..1 << 16).step_by(512).take_while(is_zero).count() as u64 * 512)
    }
}

/// Number, first block and number of blocks of each partition.
pub(crate) fn listed(stack: &Stack) -> Vec<(u32, u64, u64)> {
    stack.partitions.iter().map(|p| (p.number, p.start.get(), p.count.get())).collect()
}

/// Whether one of the problems matches `pattern`.
#[macro_export]
macro_rules! has_problem {
    ($stack:expr, $pattern:pat $(if $guard:expr)?) => {
        $stack.problems.iter().any(|problem| matches!(problem, $pattern $(if $guard)?))
    };
}

/// A byte offset.
pub(crate) fn byte(at: usize) -> ByteOffset {
    ByteOffset::new(at as u64)
}

/// The names of the problems, for messages.
pub(crate) fn names(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|p| format!("{p:?}").split([' ', '{']).next().unwrap_or("").to_owned()).collect()
}

/// A medium whose bytes are generated on reading, and which counts the reads.
pub(crate) struct Synthetic<F> {
    pub(crate) len: u64,
    pub(crate) fill: F,
    pub(crate) reads: std::sync::atomic::AtomicUsize,
    /// Reads that touch one of these bytes fail.
    pub(crate) bad: std::ops::Range<u64>,
}

impl<F: Fn(u64, &mut [u8]) + Send + Sync> Synthetic<F> {
    pub(crate) fn new(len: u64, fill: F) -> Self {
        Self { len, fill, reads: 0.into(), bad: 0..0 }
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl<F: Fn(u64, &mut [u8]) + Send + Sync> Medium for Synthetic<F> {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.len)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let end = at.get().checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.len });
        };
        if at.get() < self.bad.end && self.bad.start < end {
            return Err(ReadError::Io { at, source: std::io::Error::other("medium error") });
        }
        (self.fill)(at.get(), buf);
        Ok(())
    }
}

/// A medium of `len` bytes that begins with `image`.
pub(crate) fn counted(image: Vec<u8>, len: u64) -> Synthetic<impl Fn(u64, &mut [u8]) + Send + Sync> {
    Synthetic::new(len, move |at, buf| {
        let have = usize::try_from(at).ok().and_then(|at| image.get(at..)).unwrap_or(&[]);
        let copied = have.len().min(buf.len());
        buf[..copied].copy_from_slice(&have[..copied]);
        buf[copied..].fill(0);
    })
}
