//! The encoding of a disk in a few bytes, for the inputs of all targets that read a medium.
//!
//! An input has a head of [`HEAD`] bytes, followed by patches over a disk of zeros:
//!
//! | byte | what |
//! |---|---|
//! | 0 | bit 0: correct CRCs (`gpt`), signatures (`mbr`), checksums (layers and images) |
//! | 1 | bits 0-3: the device's block size (see [`block_choice`]), bits 4-7: the forced one |
//! | 2 | which topologies a table is audited on; for layers, also what they stand on |
//! | 3-10 | size in bytes, little endian |
//!
//! | byte of a patch | what |
//! |---|---|
//! | 0 | bit 0: the block is counted back from the end; bit 1: blocks of 4096 bytes, else of 512; bit 2: the block cannot be read |
//! | 1-4 | block, little endian |
//! | 5 | offset in the block, in units of 2 bytes |
//! | 6 | length minus 1 |
//! | 7- | the bytes; fewer at the end of the input |

use std::collections::{BTreeMap, BTreeSet};

use straddle_device::{Medium, ReadError};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// Bytes before the first patch.
const HEAD: usize = 11;
/// Bytes of a patch before its own.
const PATCH_HEAD: usize = 7;
/// The size of the pages that are stored.
const PAGE: u64 = 512;
/// Checksums are not computed for arrays of entries longer than this: the fuzzer is meant to find short
/// inputs.
const LARGEST_ARRAY: u64 = 1 << 20;

/// A disk of zeros with patches.
#[derive(Clone)]
pub struct Disk {
    /// The block size that the device reports, if any.
    pub device_block: Option<BlockSize>,
    /// The block size that the user declares.
    pub forced_block: Option<BlockSize>,
    /// Selects the topologies on which to audit it.
    pub choice: u8,
    /// Whether checksums are to be corrected.
    pub mend: bool,
    len: u64,
    pages: BTreeMap<u64, [u8; PAGE as usize]>,
    unreadable: BTreeSet<u64>,
}

/// No block size, or one of the supported ones; the usual ones occur more than once.
fn block_choice(bits: u8) -> Option<BlockSize> {
    let size = match bits & 0xf {
        8..=9 => 512,
        10..=11 => 4096,
        12 => 1024,
        13 => 2048,
        14 => 8192,
        15 => 65536,
        _ => return None,
    };
    BlockSize::new(size).ok()
}

impl Disk {
    /// Decodes an input; `None` if it is shorter than a head.
    pub fn decode(data: &[u8]) -> Option<Self> {
        let (head, mut rest) = data.split_first_chunk::<HEAD>()?;
        let len = u64::from_le_bytes(*head[3..].first_chunk()?);
        let mut disk = Self {
            device_block: block_choice(head[1]),
            forced_block: block_choice(head[1] >> 4),
            choice: head[2],
            mend: head[0] & 1 != 0,
            len,
            pages: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        };
        while let Some((patch, after)) = rest.split_first_chunk::<PATCH_HEAD>() {
            let block = u64::from(u32::from_le_bytes([patch[1], patch[2], patch[3], patch[4]]));
            let size = if patch[0] & 2 == 0 { 512 } else { 4096 };
            let within = block * size;
            let start = if patch[0] & 1 == 0 { Some(within) } else { len.checked_sub(within) };
            let (bytes, next) = after.split_at(after.len().min(usize::from(patch[6]) + 1));
            if let Some(at) = start.and_then(|start| start.checked_add(u64::from(patch[5]) * 2)) {
                if patch[0] & 4 == 0 {
                    disk.write(at, bytes);
                } else {
                    disk.unreadable.insert(at / PAGE);
                }
            }
            rest = next;
        }
        Some(disk)
    }

    /// The shortest encoding of an image: all of its non-zero bytes.
    pub fn encode(image: &[u8], flags: u8, blocks: u8) -> Vec<u8> {
        /// A run of fewer zeros than this is cheaper inside a patch than between two patches.
        const GAP: usize = PATCH_HEAD + 1;
        let mut data = vec![flags, blocks, 0];
        data.extend((image.len() as u64).to_le_bytes());
        for (page, bytes) in image.chunks(PAGE as usize).enumerate() {
            let mut at = 0;
            while let Some(first) = bytes[at..].iter().position(|byte| *byte != 0).map(|i| (at + i) & !1) {
                let mut end = first + 1;
                let limit = bytes.len().min(first + 256);
                while let Some(more) = bytes[end..limit].iter().take(GAP).position(|byte| *byte != 0) {
                    end += more + 1;
                }
                let from_end = page * 2 > image.len() / PAGE as usize;
                let block = if from_end { image.len() / PAGE as usize - page } else { page };
                data.push(u8::from(from_end));
                data.extend(u32::try_from(block).expect("a small image").to_le_bytes());
                data.push(u8::try_from(first / 2).expect("a page has 512 bytes"));
                data.push(u8::try_from(end - first - 1).expect("a patch has 256 bytes"));
                data.extend(&bytes[first..end]);
                at = end;
            }
        }
        data
    }

    /// Splits an encoding into its head and its patches, as [`Disk::decode`] reads them.
    pub fn patches(data: &[u8]) -> (&[u8], Vec<&[u8]>) {
        let (head, mut rest) = data.split_at(data.len().min(HEAD));
        let mut patches = Vec::new();
        while rest.len() >= PATCH_HEAD {
            let (patch, after) = rest.split_at(rest.len().min(PATCH_HEAD + usize::from(rest[6]) + 1));
            patches.push(patch);
            rest = after;
        }
        (head, patches)
    }

    /// The offsets of the 512-byte blocks that contain data.
    pub(crate) fn touched(&self) -> Vec<u64> {
        self.pages.keys().map(|page| page * PAGE).collect()
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..self.len).zip(bytes) {
            let page = self.pages.entry(at / PAGE).or_insert([0; PAGE as usize]);
            page[usize::try_from(at % PAGE).expect("it is below 512")] = *byte;
        }
    }

    pub(crate) fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.read_at(ByteOffset::new(at), &mut bytes).ok()?;
        Some(bytes)
    }

    /// Corrects the CRCs of every GPT header, for both block sizes: at the start, at the place that the first
    /// header gives for the backup, and at the end.
    pub fn mend_crcs(&mut self) {
        if !self.mend {
            return;
        }
        let mut sizes = vec![512, 4096];
        sizes.extend([self.device_block, self.forced_block].into_iter().flatten().map(BlockSize::get));
        for block in sizes {
            let second = self
                .bytes(block + 32, 8)
                .and_then(|alternate| u64::from_le_bytes(*alternate.first_chunk()?).checked_mul(block));
            let last = (self.len / block).saturating_sub(1) * block;
            for at in [Some(block), second, Some(last)].into_iter().flatten() {
                let _ = self.mend_header(at, block);
            }
        }
    }

    fn mend_header(&mut self, at: u64, block: u64) -> Option<()> {
        let header = self.bytes(at, block)?;
        if !header.starts_with(b"EFI PART") {
            return None;
        }
        let le32 = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let le64 = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let array = u64::from(le32(80)?) * u64::from(le32(84)?);
        let start = le64(72)?.checked_mul(block).filter(|_| array <= LARGEST_ARRAY);
        if let Some(bytes) = start.and_then(|start| self.bytes(start, array)) {
            self.write(at + 88, &crc32fast::hash(&bytes).to_le_bytes());
        }
        let size = u64::from(le32(12)?).min(block);
        self.write(at + 16, &[0; 4]);
        let crc = crc32fast::hash(&self.bytes(at, size)?);
        self.write(at + 16, &crc.to_le_bytes());
        Some(())
    }

    /// Writes the signature 0x55AA into every 512-byte block that a patch has touched. Without it nothing is
    /// read of a boot record, and chains of boot records would be rare.
    pub fn sign_boot_records(&mut self) {
        if !self.mend {
            return;
        }
        let touched: Vec<u64> = self.pages.keys().copied().collect();
        for page in touched {
            self.write(page * PAGE + 510, &[0x55, 0xaa]);
        }
    }
}

impl Medium for Disk {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.len)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let past_end = ReadError::PastEnd { at, want: buf.len(), len: self.len };
        let at_byte = at.get();
        let Some(end) = at_byte.checked_add(buf.len() as u64).filter(|end| *end <= self.len) else {
            return Err(past_end);
        };
        buf.fill(0);
        let touched = at_byte / PAGE..end.div_ceil(PAGE);
        if self.unreadable.range(touched.clone()).next().is_some() && !buf.is_empty() {
            return Err(ReadError::Io { at, source: std::io::Error::other("a bad sector") });
        }
        for (page, bytes) in self.pages.range(touched) {
            let from = (page * PAGE).max(at_byte);
            let to = (page.saturating_mul(PAGE).saturating_add(PAGE)).min(end);
            let index = |byte: u64| usize::try_from(byte).expect("a buffer is in memory");
            let source = &bytes[index(from - page * PAGE)..index(to - page * PAGE)];
            buf[index(from - at_byte)..index(to - at_byte)].copy_from_slice(source);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_survives_its_encoding() {
        let mut image = vec![0; 64 * 1024];
        for (at, byte) in [(0, 1), (1, 2), (446, 0x80), (511, 0xaa), (512, b'E'), (1030, 7), (65535, 9)] {
            image[at] = byte;
        }
        image[20_000..20_900].fill(0x5a);
        let disk = Disk::decode(&Disk::encode(&image, 0, 0)).unwrap();
        assert_eq!(disk.bytes(0, image.len() as u64).unwrap(), image);
        assert!(disk.bytes(1, image.len() as u64).is_none());
    }
}
