//! Corrects the checksums of superblocks and image containers, so that the fuzzer gets past them.

use crate::Disk;

/// Checksums are not computed for LVM metadata texts longer than this.
const LONGEST_TEXT: u64 = 1 << 20;

/// LVM's CRC has its own seed, and is not inverted at the end.
const LVM_SEED: u32 = 0xf597_a6cf;

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

impl Disk {
    /// Corrects the checksums of every superblock of md and LVM, and of every GPT, wherever they are.
    pub fn mend_layers(&mut self) {
        if !self.mend {
            return;
        }
        for at in self.touched() {
            let Some(page) = self.bytes(at, 512) else { continue };
            if page.starts_with(b"LABELONE") {
                self.write(at + 16, &lvm_crc(&page[20..]).to_le_bytes());
            } else if page[4..].starts_with(b" LVM2 x[5A%r0N*>") {
                self.mend_lvm(at, &page);
            } else if le32(&page, 0) == 0xa92b_4efc {
                self.mend_md(at, le32(&page, 4));
            } else if page.starts_with(b"EFI PART") {
                self.mend_nested_gpt(at, &page);
            }
        }
    }

    fn mend_lvm(&mut self, at: u64, header: &[u8]) {
        let (area, offset, size) = (le64(header, 32), le64(header, 40), le64(header, 48));
        let first = size.min(area.saturating_sub(offset));
        if size <= LONGEST_TEXT
            && let Some(start) = at.checked_add(offset)
            && let Some(mut text) = self.bytes(start, first)
            && let Some(rest) = self.bytes(at + 512, size - first)
        {
            text.extend(rest);
            self.write(at + 56, &lvm_crc(&text).to_le_bytes());
        }
        let header = self.bytes(at, 512).unwrap_or_default();
        self.write(at, &lvm_crc(header.get(4..).unwrap_or_default()).to_le_bytes());
    }

    fn mend_md(&mut self, at: u64, version: u32) {
        let Some(superblock) = self.bytes(at, 4096) else { return };
        let (sum_at, summed) = match version {
            0 => (152, superblock.len()),
            _ => (216, superblock.len().min(256 + 2 * (le32(&superblock, 220) as usize).min(1920))),
        };
        let mut words = superblock[..summed].chunks_exact(4);
        let sum: u64 = words.by_ref().map(|word| u64::from(le32(word, 0))).sum();
        let last = words.remainder().first_chunk().map_or(0, |half| u64::from(u16::from_le_bytes(*half)));
        let sum = sum + last - u64::from(le32(&superblock, sum_at));
        let folded = (sum & 0xffff_ffff) + (sum >> 32);
        self.write(at + sum_at as u64, &folded.to_le_bytes()[..4]);
    }

    /// Corrects the CRCs of a GPT whose disk begins anywhere.
    fn mend_nested_gpt(&mut self, at: u64, header: &[u8]) {
        let own = le64(header, 24);
        for block in [512, 4096] {
            let disk = own.checked_mul(block).and_then(|into| at.checked_sub(into));
            let array = disk.zip(le64(header, 72).checked_mul(block)).and_then(|(d, a)| d.checked_add(a));
            let size = u64::from(le32(header, 80)) * u64::from(le32(header, 84));
            if size <= 32 << 10
                && let Some(entries) = array.and_then(|array| self.bytes(array, size))
                && (block == 512 || entries.iter().any(|byte| *byte != 0))
            {
                self.write(at + 88, &crc32fast::hash(&entries).to_le_bytes());
            }
        }
        self.write(at + 16, &[0; 4]);
        let size = u64::from(le32(header, 12)).min(512);
        let crc = crc32fast::hash(&self.bytes(at, size).unwrap_or_default());
        self.write(at + 16, &crc.to_le_bytes());
    }

    /// Corrects the checksums of VHD footers and headers, and of VHDX headers and region tables.
    pub fn mend_image(&mut self) {
        if !self.mend {
            return;
        }
        for at in self.touched() {
            let Some(page) = self.bytes(at, 512) else { continue };
            if page.starts_with(b"conectix") {
                self.mend_sum(at, 512, 64);
            } else if page.starts_with(b"cxsparse") {
                self.mend_sum(at, 1024, 36);
            } else if page.starts_with(b"head") {
                self.mend_crc32c(at, 4 << 10);
            } else if page.starts_with(b"regi") {
                self.mend_crc32c(at, 64 << 10);
            }
        }
    }

    fn mend_sum(&mut self, at: u64, len: u64, field: u64) {
        self.write(at + field, &[0; 4]);
        let bytes = self.bytes(at, len).unwrap_or_default();
        let sum = bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        self.write(at + field, &(!sum).to_be_bytes());
    }

    fn mend_crc32c(&mut self, at: u64, len: u64) {
        self.write(at + 4, &[0; 4]);
        let crc = self.bytes(at, len).map_or(0, |bytes| crc32c(&bytes));
        self.write(at + 4, &crc.to_le_bytes());
    }
}

fn lvm_crc(bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(!LVM_SEED);
    crc.update(bytes);
    !crc.finalize()
}

const CRC32C: [u32; 256] = {
    let mut table = [0_u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| CRC32C[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(u32::MAX, step)
}
