//! SCSI READ CAPACITY(16) and the VPD pages B0h and B1h (SBC-4). Fields are big-endian.

use straddle_units::{BlockSize, ByteCount, LbaCount};

use super::{RotationRate, physical_bytes};
use crate::fields::{be16, be32};

/// A SCSI disk's answer to READ CAPACITY(16) (9Eh/10h; SBC-4, "READ CAPACITY (16) parameter data").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCapacity16 {
    /// Byte 13 bits 3:0, LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT: a physical block is 2^this logical ones
    /// (0 means "one or more"). Bytes 8-11 are the length of a logical block.
    pub physical: ByteCount,
    /// The byte of the first logical block that starts a physical one: the kernel's `alignment_offset`
    /// (drivers/scsi/sd.c). Bytes 14-15 bits 13:0 are its LOWEST ALIGNED LOGICAL BLOCK ADDRESS. On a sane drive
    /// it is in the first physical block.
    pub alignment_offset: ByteCount,
}

impl ReadCapacity16 {
    /// Parses the answer; the first 16 of its 32 bytes are enough.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let data: &[u8; 16] = data.first_chunk()?;
        let logical = BlockSize::new(u64::from(be32(data, 8))).ok()?;
        let lowest_aligned = LbaCount::new(u64::from(be16(data, 14) & 0x3fff));
        Some(Self {
            physical: physical_bytes(logical, data[13]),
            alignment_offset: lowest_aligned.to_bytes(logical)?,
        })
    }
}

pub(super) fn page(data: &[u8], code: u8, need: usize) -> Option<&[u8]> {
    let said = 4 + usize::from(be16(data, 2));
    let page = &data[..said.min(data.len())];
    (page.len() >= need && page[1] == code).then_some(page)
}

/// Returns bytes 12-15 of VPD page B0h, Block Limits: OPTIMAL TRANSFER LENGTH. 0 means "not reported".
pub fn optimal_transfer(data: &[u8]) -> Option<LbaCount> {
    let blocks = be32(page(data, 0xb0, 16)?, 12);
    (blocks != 0).then(|| LbaCount::new(u64::from(blocks)))
}

/// Returns bytes 4-5 of VPD page B1h, Block Device Characteristics: MEDIUM ROTATION RATE.
pub fn rotation_rate(data: &[u8]) -> Option<RotationRate> {
    page(data, 0xb1, 8).map(|page| RotationRate::from_field(be16(page, 4)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capacity(block: u32, exponent: u8, lowest: u16) -> [u8; 32] {
        let mut data = [0; 32];
        data[..8].copy_from_slice(&1_953_525_167u64.to_be_bytes());
        data[8..12].copy_from_slice(&block.to_be_bytes());
        data[13] = 0xf0 | exponent; // P_I_EXPONENT above it must not leak in
        data[14..16].copy_from_slice(&(0xc000 | lowest).to_be_bytes());
        data
    }

    #[test]
    fn capacities() {
        for (block, exponent, lowest, physical, offset) in [
            (512, 0, 0, 512, 0),
            (512, 3, 0, 4096, 0),
            (512, 3, 7, 4096, 3584),
            (512, 3, 1, 4096, 512),
            (4096, 0, 0, 4096, 0),
        ] {
            let said = ReadCapacity16::parse(&capacity(block, exponent, lowest)).unwrap();
            assert_eq!((said.physical.get(), said.alignment_offset.get()), (physical, offset));
        }
        assert_eq!(ReadCapacity16::parse(&[0; 15]), None);
        for block in [0, 520, 131_072] {
            assert_eq!(ReadCapacity16::parse(&capacity(block, 0, 0)), None, "{block}");
        }
    }

    #[test]
    fn block_limits() {
        let mut page = vec![0xff; 64];
        page[1..4].copy_from_slice(&[0xb0, 0, 0x3c]);
        page[12..16].copy_from_slice(&1024_u32.to_be_bytes());
        assert_eq!(optimal_transfer(&page), Some(LbaCount::new(1024)));
        // An SBC-2 page: three fields, whatever follows it in the buffer.
        page[3] = 0x0c;
        assert_eq!(optimal_transfer(&page), Some(LbaCount::new(1024)));
        page[3] = 0x08;
        assert_eq!(optimal_transfer(&page), None);
        page[3] = 0x3c;
        page[1] = 0x83;
        assert_eq!(optimal_transfer(&page), None);
        page[1] = 0xb0;
        page[12..16].fill(0);
        assert_eq!(optimal_transfer(&page), None);
    }

    #[test]
    fn characteristics() {
        let page = [0, 0xb1, 0, 4, 0x1c, 0x20, 0, 0x02];
        assert_eq!(rotation_rate(&page), Some(RotationRate::Rpm(7200)));
        assert_eq!(rotation_rate(&page[..7]), None);
    }

    proptest! {
        #[test]
        fn any_bytes(mut data in proptest::collection::vec(any::<u8>(), 0..80), code in 0xb0u8..=0xb1) {
            if let Some(said) = ReadCapacity16::parse(&data) {
                prop_assert!(said.physical.get().is_power_of_two());
            }
            if let Some(byte) = data.get_mut(1) {
                *byte = code;
            }
            let _ = (optimal_transfer(&data), rotation_rate(&data));
        }
    }
}
