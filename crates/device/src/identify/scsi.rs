//! SCSI READ CAPACITY(16) and the vital product data pages B0h and B1h (SBC-4). Multi-byte fields are
//! big-endian.

use straddle_units::{BlockSize, ByteCount, Lba, LbaCount};

use super::{FormFactor, IdentifyError, RotationRate, bytes_at, physical_bytes};

const CAPACITY: &str = "SCSI READ CAPACITY(16)";
const LIMITS: &str = "SCSI VPD page B0h";
const CHARACTERISTICS: &str = "SCSI VPD page B1h";

/// Reads a field of two bytes, or 0 past the end.
fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes_at(bytes, at).map_or(0, u16::from_be_bytes)
}

/// Reads a field of four bytes, or 0 past the end.
fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes_at(bytes, at).map_or(0, u32::from_be_bytes)
}

/// A count of logical blocks, in which 0 means "not reported".
fn blocks(value: u32) -> Option<LbaCount> {
    (value != 0).then(|| LbaCount::new(u64::from(value)))
}

/// A SCSI disk's answer to READ CAPACITY(16) (9Eh/10h; SBC-4, "READ CAPACITY (16) parameter data").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCapacity16 {
    /// Bytes 0-7: the last logical block.
    pub last_lba: Lba,
    /// Bytes 8-11: the logical block in bytes.
    pub logical: BlockSize,
    /// Byte 13 bits 3:0, LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT: a physical block is 2^this logical ones
    /// (0 means "one or more").
    pub physical_exponent: u8,
    /// Bytes 14-15 bits 13:0, LOWEST ALIGNED LOGICAL BLOCK ADDRESS: the first block that starts a physical
    /// block.
    pub lowest_aligned: Lba,
    /// Byte 14 bit 7, LBPME: blocks can be unmapped.
    pub unmap: bool,
}

impl ReadCapacity16 {
    /// The length that contains all fields.
    const NEED: usize = 16;

    /// Parses the answer; the first 16 of its 32 bytes are enough.
    pub fn parse(data: &[u8]) -> Result<Self, IdentifyError> {
        let short = IdentifyError::Short { what: CAPACITY, got: data.len(), need: Self::NEED };
        let data: [u8; Self::NEED] = bytes_at(data, 0).ok_or(short)?;
        let block = u64::from(be32(&data, 8));
        Ok(Self {
            last_lba: Lba::new(u64::from(be32(&data, 0)) << 32 | u64::from(be32(&data, 4))),
            logical: BlockSize::new(block)
                .map_err(|source| IdentifyError::LogicalBlock { what: CAPACITY, source })?,
            physical_exponent: data[13] & 0x0f,
            lowest_aligned: Lba::new(u64::from(be16(&data, 14) & 0x3fff)),
            unmap: data[14] & 0x80 != 0,
        })
    }

    /// Returns the physical sector size in bytes.
    pub fn physical_bytes(&self) -> ByteCount {
        physical_bytes(self.logical, self.physical_exponent)
    }

    /// Returns the byte of the first logical block that starts a physical one: the kernel's
    /// `alignment_offset` (drivers/scsi/sd.c). On a sane drive it is less than
    /// [`physical_bytes`](Self::physical_bytes).
    pub fn alignment_offset_bytes(&self) -> ByteCount {
        ByteCount::new(self.lowest_aligned.get() * self.logical.get())
    }
}

/// Checks a VPD page's header (byte 1 is the page code, bytes 2-3 the length of what follows) and cuts the
/// page to that length. `need` includes the header.
pub(super) fn page<'a>(
    data: &'a [u8],
    code: u8,
    need: usize,
    what: &'static str,
) -> Result<&'a [u8], IdentifyError> {
    let short = |got| IdentifyError::Short { what, got, need };
    if data.len() < 4 {
        return Err(short(data.len()));
    }
    if data[1] != code {
        return Err(IdentifyError::Kind { what, found: u16::from(data[1]) });
    }
    let said = 4 + usize::from(be16(data, 2));
    let page = &data[..said.min(data.len())];
    if page.len() < need { Err(short(page.len())) } else { Ok(page) }
}

/// VPD page B0h, Block Limits. Counts are in logical blocks. A field is `None` where the page is too short to
/// have it (the standard extended the page) or where it is 0, "not reported".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// Bytes 6-7, OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub optimal_granularity: Option<LbaCount>,
    /// Bytes 8-11, MAXIMUM TRANSFER LENGTH.
    pub maximum_transfer: Option<LbaCount>,
    /// Bytes 12-15, OPTIMAL TRANSFER LENGTH.
    pub optimal_transfer: Option<LbaCount>,
    /// Bytes 20-23, MAXIMUM UNMAP LBA COUNT (FFFFFFFFh means "no limit").
    pub maximum_unmap: Option<LbaCount>,
    /// Bytes 28-31, OPTIMAL UNMAP GRANULARITY.
    pub unmap_granularity: Option<LbaCount>,
    /// Bytes 32-35, UNMAP GRANULARITY ALIGNMENT (bits 30:0), when UGAVALID (bit 31) is set: the first LBA on
    /// a boundary of the unmap granularity, which may be 0.
    pub unmap_alignment: Option<Lba>,
    /// Bytes 44-47, MAXIMUM ATOMIC TRANSFER LENGTH.
    pub atomic_maximum: Option<LbaCount>,
    /// Bytes 48-51, ATOMIC ALIGNMENT: atomic writes must start at a multiple of it.
    pub atomic_alignment: Option<LbaCount>,
    /// Bytes 52-55, ATOMIC TRANSFER LENGTH GRANULARITY.
    pub atomic_granularity: Option<LbaCount>,
    /// Bytes 56-59, MAXIMUM ATOMIC TRANSFER LENGTH WITH ATOMIC BOUNDARY.
    pub atomic_maximum_with_boundary: Option<LbaCount>,
    /// Bytes 60-63, MAXIMUM ATOMIC BOUNDARY SIZE.
    pub atomic_boundary: Option<LbaCount>,
}

impl BlockLimits {
    /// Parses the page, header included.
    pub fn parse(data: &[u8]) -> Result<Self, IdentifyError> {
        let page = page(data, 0xb0, 16, LIMITS)?;
        let count = |at: usize| blocks(be32(page, at));
        let alignment = be32(page, 32);
        Ok(Self {
            optimal_granularity: blocks(u32::from(be16(page, 6))),
            maximum_transfer: count(8),
            optimal_transfer: count(12),
            maximum_unmap: count(20),
            unmap_granularity: count(28),
            unmap_alignment: (alignment >> 31 == 1).then(|| Lba::new(u64::from(alignment & 0x7fff_ffff))),
            atomic_maximum: count(44),
            atomic_alignment: count(48),
            atomic_granularity: count(52),
            atomic_maximum_with_boundary: count(56),
            atomic_boundary: count(60),
        })
    }
}

/// VPD page B1h, Block Device Characteristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCharacteristics {
    /// Bytes 4-5, MEDIUM ROTATION RATE.
    pub rotation: RotationRate,
    /// Byte 7 bits 3:0, NOMINAL FORM FACTOR.
    pub form_factor: FormFactor,
}

impl BlockCharacteristics {
    /// Parses the page, header included.
    pub fn parse(data: &[u8]) -> Result<Self, IdentifyError> {
        let page = page(data, 0xb1, 8, CHARACTERISTICS)?;
        Ok(Self {
            rotation: RotationRate::from_field(be16(page, 4)),
            form_factor: FormFactor::from_field(page[7]),
        })
    }
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
            assert_eq!(said.logical.get(), u64::from(block));
            assert_eq!(
                (said.physical_bytes().get(), said.alignment_offset_bytes().get()),
                (physical, offset)
            );
            assert_eq!((said.last_lba.get(), said.unmap), (1_953_525_167, true));
        }
        let short = ReadCapacity16::parse(&[0; 15]);
        assert_eq!(short, Err(IdentifyError::Short { what: CAPACITY, got: 15, need: 16 }));
        for block in [0, 520, 131_072] {
            let bad = ReadCapacity16::parse(&capacity(block, 0, 0));
            assert!(matches!(bad, Err(IdentifyError::LogicalBlock { .. })), "{block}");
        }
    }

    fn limits(len: u16) -> Vec<u8> {
        let mut page = vec![0, 0xb0];
        page.extend(len.to_be_bytes());
        page.resize(64, 0);
        page[6..8].copy_from_slice(&8u16.to_be_bytes());
        for (at, value) in [
            (8, 65535u32),
            (12, 1024),
            (20, u32::MAX),
            (28, 64),
            (32, 0x8000_0007),
            (44, 256),
            (48, 8),
            (52, 4),
            (56, 128),
            (60, 64),
        ] {
            page[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        page
    }

    #[test]
    fn block_limits() {
        let count = |n| Some(LbaCount::new(n));
        let said = BlockLimits::parse(&limits(0x3c)).unwrap();
        assert_eq!(
            (said.optimal_granularity, said.maximum_transfer, said.optimal_transfer),
            (count(8), count(65535), count(1024))
        );
        assert_eq!(
            (said.maximum_unmap, said.unmap_granularity, said.unmap_alignment),
            (count(0xffff_ffff), count(64), Some(Lba::new(7)))
        );
        assert_eq!(
            (said.atomic_maximum, said.atomic_alignment, said.atomic_granularity),
            (count(256), count(8), count(4))
        );
        assert_eq!((said.atomic_maximum_with_boundary, said.atomic_boundary), (count(128), count(64)));

        // An SBC-2 page: three fields, whatever follows it in the buffer.
        let old = BlockLimits::parse(&limits(0x0c)).unwrap();
        assert_eq!((old.optimal_transfer, old.maximum_unmap, old.atomic_maximum), (count(1024), None, None));
        let mut invalid = limits(0x3c);
        invalid[32] = 0; // UGAVALID clear
        assert_eq!(BlockLimits::parse(&invalid).unwrap().unmap_alignment, None);
        invalid[1] = 0x83;
        assert_eq!(BlockLimits::parse(&invalid), Err(IdentifyError::Kind { what: LIMITS, found: 0x83 }));
        let short = BlockLimits::parse(&limits(0x08));
        assert_eq!(short, Err(IdentifyError::Short { what: LIMITS, got: 12, need: 16 }));
    }

    #[test]
    fn characteristics() {
        let page = [0, 0xb1, 0, 4, 0x1c, 0x20, 0, 0x02];
        let said = BlockCharacteristics::parse(&page).unwrap();
        assert_eq!((said.rotation, said.form_factor), (RotationRate::Rpm(7200), FormFactor::Inches3_5));
        assert!(BlockCharacteristics::parse(&page[..7]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes(mut data in proptest::collection::vec(any::<u8>(), 0..80), code in 0xb0u8..=0xb1) {
            if let Ok(said) = ReadCapacity16::parse(&data) {
                prop_assert!(said.physical_bytes().is_multiple_of(said.logical.bytes()));
            }
            if let Some(byte) = data.get_mut(1) {
                *byte = code;
            }
            let _ = (BlockLimits::parse(&data), BlockCharacteristics::parse(&data));
        }
    }
}
