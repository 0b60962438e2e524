//! The sector sizes that a drive can be set to, by the Sector Configuration log (ATA, ACS-4) or VPD page B4h
//! (SCSI, SBC-4). Neither says which size is in force, nor which one is faster.

use straddle_units::BlockSize;

use super::scsi;
use crate::fields::{be32, le16, le32};

pub(crate) const SECTOR_LOG: u8 = 0x2f;

/// The length of a descriptor of the log, which has room for eight.
const DESCRIPTOR: usize = 16;
const DESCRIPTORS: usize = 8;
/// Bit 7 of a descriptor's byte 0: DESCRIPTOR VALID.
const VALID: u8 = 0x80;
/// Bytes 4-7 of a descriptor: the logical sector size, in words of two bytes.
const WORDS: usize = 4;

/// T0PS, byte 5 bit 0 of a descriptor of page B4h: there are such blocks without protection information.
const UNPROTECTED: u8 = 0x01;

/// Whether log 00h, page 0 lists a page of log `address`: word N is the number of pages of log N.
pub(crate) fn has_log(directory: &[u8; 512], address: u8) -> bool {
    address != 0 && le16(directory, 0) == 1 && le16(directory, 2 * usize::from(address)) != 0
}

/// Parses the Sector Configuration log. Sizes that no block device can have are left out.
pub fn sector_configurations(data: &[u8; 512]) -> Vec<BlockSize> {
    let valid = data.chunks_exact(DESCRIPTOR).take(DESCRIPTORS).filter(|bytes| bytes[0] & VALID != 0);
    distinct(valid.map(|bytes| 2 * u64::from(le32(bytes, WORDS))))
}

/// Parses VPD page B4h, header included. Lengths with protection, or of no block device (520, 528), are left out.
pub fn block_lengths(data: &[u8]) -> Vec<BlockSize> {
    let list = scsi::page(data, 0xb4, 4).map_or(&[][..], |page| &page[4..]);
    let plain = list.chunks_exact(8).filter(|bytes| bytes[5] & UNPROTECTED != 0);
    distinct(plain.map(|bytes| u64::from(be32(bytes, 0))))
}

fn distinct(sizes: impl Iterator<Item = u64>) -> Vec<BlockSize> {
    let mut found = Vec::new();
    for size in sizes.filter_map(|size| BlockSize::new(size).ok()) {
        if !found.contains(&size) {
            found.push(size);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(found: Vec<BlockSize>) -> Vec<u64> {
        found.into_iter().map(BlockSize::get).collect()
    }

    /// A log with these first bytes and sizes in words.
    fn log(descriptors: &[(u8, u32)]) -> [u8; 512] {
        let mut data = [0; 512];
        for (at, (flags, words)) in descriptors.iter().enumerate() {
            data[16 * at] = *flags;
            data[16 * at + 4..16 * at + 8].copy_from_slice(&words.to_le_bytes());
        }
        data
    }

    #[test]
    fn configurations() {
        assert_eq!(sizes(sector_configurations(&log(&[(0x80, 256), (0x80, 2048)]))), [512, 4096]);
        assert_eq!(sizes(sector_configurations(&log(&[(0x80, 2048), (0x00, 256)]))), [4096]);
        // 520 and 528 bytes, no size at all, and the same size twice (for another relation to the physical one).
        let odd = [(0x80, 260), (0x80, 264), (0x80, 0), (0x80, 256), (0xff, 256), (0x80, u32::MAX)];
        assert_eq!(sizes(sector_configurations(&log(&odd))), [512]);
        assert!(sector_configurations(&[0; 512]).is_empty());
        // What follows the eight descriptors is reserved.
        let mut data = [0; 512];
        (data[128], data[133]) = (0x80, 0x08);
        assert!(sector_configurations(&data).is_empty());
    }

    #[test]
    fn lengths() {
        let page = |descriptors: &[(u32, u8)]| {
            let mut data = vec![0, 0xb4, 0, u8::try_from(8 * descriptors.len()).unwrap()];
            for (length, types) in descriptors {
                data.extend(length.to_be_bytes());
                data.extend([0, *types, 0, 0]);
            }
            data
        };
        let usual = page(&[(512, 0x0b), (520, 0x01), (4096, 0x03), (4160, 0x01), (512, 0x01)]);
        assert_eq!(sizes(block_lengths(&usual)), vec![512, 4096]);
        // Only with protection information.
        assert_eq!(sizes(block_lengths(&page(&[(512, 0x01), (4096, 0x02)]))), vec![512]);
        // Cut short, in a descriptor and in the header; another page; longer than it says.
        assert_eq!(sizes(block_lengths(&usual[..4 + 8 + 7])), vec![512]);
        assert_eq!(block_lengths(&usual[..3]), []);
        assert_eq!(block_lengths(&[0, 0xb0, 0, 0]), []);
        let mut longer = page(&[(512, 0x01)]);
        longer.extend([0, 0, 0x10, 0, 0, 0x01, 0, 0]);
        assert_eq!(sizes(block_lengths(&longer)), vec![512]);
    }

    #[test]
    fn directories() {
        let mut directory = [0; 512];
        directory[0] = 1;
        directory[2 * 0x2f] = 1;
        assert!(has_log(&directory, SECTOR_LOG) && !has_log(&directory, 0x30) && !has_log(&directory, 0));
        directory[0] = 0;
        assert!(!has_log(&directory, SECTOR_LOG));
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 512), len in 0usize..512, address in any::<u8>()) {
            let block: [u8; 512] = data.clone().try_into().unwrap();
            prop_assert!(sector_configurations(&block).len() <= DESCRIPTORS);
            let _ = has_log(&block, address);
            let mut page = data[..len].to_vec();
            let _ = block_lengths(&page);
            if len > 4 {
                (page[1], page[2]) = (0xb4, 0);
                prop_assert!(block_lengths(&page).len() <= 31);
            }
        }
    }
}
