//! ATA IDENTIFY DEVICE data: 256 words of 16 bits, little-endian (ATA8-ACS to ACS-4, "IDENTIFY DEVICE").

use straddle_units::{BlockSize, Boundary, ByteCount, Lba};

use super::{RotationRate, physical_bytes};

/// Words 84 and 87: supported and enabled features. Bit 5 is the General Purpose Logging feature set.
const FEATURES: [usize; 2] = [84, 87];
const LOGGING: u16 = 1 << 5;
/// Word 106: physical and logical sector size.
const SECTOR_SIZE: usize = 106;
/// Words 117-118: logical sector size in words, when word 106 bit 12 says so.
const LOGICAL_WORDS: usize = 117;
/// Word 209: alignment of logical within physical sectors.
const ALIGNMENT: usize = 209;
/// Word 217: nominal media rotation rate.
const ROTATION: usize = 217;
/// Byte 510 holds this when byte 511 makes the sum of all 512 bytes zero.
const CHECKSUM_SIGNATURE: u8 = 0xa5;

/// An ATA drive's answer to IDENTIFY DEVICE (command ECh).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtaIdentify {
    /// Word 217.
    pub rotation: RotationRate,
    /// Word 106 bits 3:0: 2^this logical sectors, if bit 13 is set. `None` unless its bits 15:14 are 01b. A
    /// logical sector has 512 bytes, or, if bit 12 is set, what words 117-118 say.
    pub physical: Option<ByteCount>,
    /// The byte of the first logical sector that starts a physical one: the kernel's `alignment_offset`
    /// (`ata_id_logical_sector_offset`, include/linux/ata.h). Word 209 bits 13:0 say how many logical sectors into
    /// a physical one the disk begins. `None` when word 106 or word 209 is not valid.
    pub alignment_offset: Option<ByteCount>,
    /// Words 84 and 87 bit 5: it has logs that READ LOG EXT reads.
    pub has_logs: bool,
}

/// Bits 15:14 are 01b.
fn valid(word: u16) -> Option<u16> {
    (word & 0xc000 == 0x4000).then_some(word)
}

impl AtaIdentify {
    /// Parses the 512 bytes of the answer.
    pub fn parse(data: &[u8; 512]) -> Option<Self> {
        let sum = data.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        let word = |index: usize| u16::from_le_bytes([data[2 * index], data[2 * index + 1]]);
        // Word 0 bit 15 is clear for ATA devices. CFA cards nevertheless answer 848Ah.
        let is_ata = word(0) & 0x8000 == 0 || word(0) == 0x848a;
        if !is_ata || *data == [0; 512] || (data[510] == CHECKSUM_SIGNATURE && sum != 0) {
            return None;
        }
        let sizes = valid(word(SECTOR_SIZE));
        let logical = if sizes.is_some_and(|bits| bits & 0x1000 != 0) {
            let words = u64::from(word(LOGICAL_WORDS)) | u64::from(word(LOGICAL_WORDS + 1)) << 16;
            BlockSize::new(2 * words).ok()?
        } else {
            BlockSize::B512
        };
        let exponent = |bits: u16| if bits & 0x2000 != 0 { bits.to_le_bytes()[0] } else { 0 };
        let physical = sizes.map(|bits| physical_bytes(logical, exponent(bits)));
        let begins = valid(word(ALIGNMENT)).map(|bits| Lba::new(u64::from(bits & 0x3fff)));
        let features = FEATURES.into_iter().find_map(|index| valid(word(index)));
        Some(Self {
            rotation: RotationRate::from_field(word(ROTATION)),
            physical,
            alignment_offset: physical
                .and_then(Boundary::multiples_of)
                .zip(begins)
                .and_then(|(physical, begins)| Some(physical.to_next(begins.to_bytes(logical)?))),
            has_logs: features.is_some_and(|bits| bits & LOGGING != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(data: &mut [u8; 512], word: usize, value: u16) {
        data[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn drive(words: &[(usize, u16)]) -> [u8; 512] {
        let mut data = [0; 512];
        set(&mut data, 0, 0x0040);
        for &(word, value) in words {
            set(&mut data, word, value);
        }
        data
    }

    #[test]
    fn sectors() {
        // Words 106, 117, 118, 209; then physical sector and alignment offset in bytes.
        for (w106, w117, w118, w209, physical, offset) in [
            (0x0000, 0, 0, 0x0000, None, None), // nothing is said
            (0x0000, 0, 0, 0x4001, None, None),
            (0x4000, 0, 0, 0x4000, Some(512), Some(0)),
            (0x6003, 0, 0, 0x4000, Some(4096), Some(0)),
            (0x6003, 0, 0, 0x4001, Some(4096), Some(3584)),
            (0x6003, 0, 0, 0x4007, Some(4096), Some(512)),
            (0x6003, 0, 0, 0x4008, Some(4096), Some(0)),
            (0x6003, 0, 0, 0x0000, Some(4096), None), // word 209 not valid
            (0x6003, 0, 0, 0x0001, Some(4096), None),
            (0x6003, 0, 0, 0xc001, Some(4096), None),   // nor this
            (0xe003, 0, 0, 0x4001, None, None),         // word 106 not valid
            (0x4003, 0, 0, 0x4001, Some(512), Some(0)), // bit 13 clear: the exponent does not count
            (0x5000, 2048, 0, 0x4000, Some(4096), Some(0)),
            (0x7002, 2048, 0, 0x4001, Some(16384), Some(12288)),
            (0x4000, 2048, 0, 0x4000, Some(512), Some(0)), // bit 12 clear: words 117-118 do not count
            (0x600f, 0, 0, 0x4000, Some(512 << 15), Some(0)),
        ] {
            let words = [(106, w106), (117, w117), (118, w118), (209, w209)];
            let id = AtaIdentify::parse(&drive(&words)).unwrap();
            let bytes = |size: Option<ByteCount>| size.map(ByteCount::get);
            let found = (bytes(id.physical), bytes(id.alignment_offset));
            assert_eq!(found, (physical, offset), "{words:x?}");
        }
    }

    #[test]
    fn logs() {
        for (w84, w87, has_logs) in [
            (0x4020, 0x4020, true),
            (0x4000, 0x4020, false),
            (0x0020, 0x4020, true), // word 84 is not valid, word 87 is
            (0x0020, 0x0020, false),
            (0xc020, 0x8020, false),
        ] {
            let id = AtaIdentify::parse(&drive(&[(84, w84), (87, w87)])).unwrap();
            assert_eq!(id.has_logs, has_logs, "{w84:#x} {w87:#x}");
        }
    }

    #[test]
    fn refusals() {
        assert_eq!(AtaIdentify::parse(&[0; 512]), None);
        let atapi = drive(&[(0, 0x85c0)]);
        assert_eq!(AtaIdentify::parse(&atapi), None);
        let odd = drive(&[(106, 0x5000), (117, 260)]);
        assert_eq!(AtaIdentify::parse(&odd), None);
        let mut summed = drive(&[]);
        summed[510] = CHECKSUM_SIGNATURE;
        let sum = summed.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        summed[511] = sum.wrapping_neg();
        assert!(AtaIdentify::parse(&summed).is_some());
        summed[20] ^= 1;
        assert_eq!(AtaIdentify::parse(&summed), None);
    }

    proptest! {
        #[test]
        fn any_bytes(mut data in proptest::collection::vec(any::<u8>(), 512), valid in any::<bool>()) {
            if valid {
                (data[1], data[213], data[419], data[510]) = (0, 0x40 | data[213] & 0x3f, 0x40 | data[419] & 0x3f, 0);
            }
            let data: [u8; 512] = data.try_into().unwrap();
            if let Some(id) = AtaIdentify::parse(&data) {
                prop_assert!(id.physical.is_none_or(|size| size.get().is_power_of_two()));
                prop_assert!(id.alignment_offset.is_none_or(|at| id.physical.is_some_and(|size| at < size)));
            }
        }
    }
}
