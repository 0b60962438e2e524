//! ATA IDENTIFY DEVICE data: 256 words of 16 bits, little-endian (ATA8-ACS to ACS-4, "IDENTIFY DEVICE").

use std::ops::RangeInclusive;

use straddle_units::{BlockSize, Boundary, ByteCount, Lba};

use super::{FormFactor, IdentifyError, RotationRate, physical_bytes, text};

const WHAT: &str = "ATA IDENTIFY DEVICE";

/// Words 10-19: serial number.
const SERIAL: RangeInclusive<usize> = 10..=19;
/// Words 23-26: firmware revision.
const FIRMWARE: RangeInclusive<usize> = 23..=26;
/// Words 27-46: model number.
const MODEL: RangeInclusive<usize> = 27..=46;
/// Words 84 and 87: supported and enabled features. Each is valid if its bits 15:14 are 01b; bit 5 is the
/// General Purpose Logging feature set.
const FEATURES: [usize; 2] = [84, 87];
const LOGGING: u16 = 1 << 5;
/// Word 106: physical and logical sector size.
const SECTOR_SIZE: usize = 106;
/// Words 117-118: logical sector size in words, when word 106 bit 12 says so.
const LOGICAL_WORDS: usize = 117;
/// Word 168: form factor.
const FORM_FACTOR: usize = 168;
/// Word 209: alignment of logical within physical sectors.
const ALIGNMENT: usize = 209;
/// Word 217: nominal media rotation rate.
const ROTATION: usize = 217;
/// Byte 510 (word 255 low) holds this when byte 511 makes the sum of all 512 bytes zero.
const CHECKSUM_SIGNATURE: u8 = 0xa5;

/// An ATA drive's answer to IDENTIFY DEVICE (command ECh).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtaIdentify {
    /// Words 27-46.
    pub model: String,
    /// Words 23-26.
    pub firmware: String,
    /// Words 10-19.
    pub serial: String,
    /// Word 217.
    pub rotation: RotationRate,
    /// Word 168 bits 3:0.
    pub form_factor: FormFactor,
    /// The logical sector: words 117-118 when word 106 bit 12 is set, else 512 bytes.
    pub logical: BlockSize,
    /// Word 106 bits 3:0: a physical sector is 2^this logical ones; 0 when bit 13 is clear. `None` when word
    /// 106 is not valid (bits 15:14 are not 01b), so that the drive reports nothing.
    pub physical_exponent: Option<u8>,
    /// Word 209 bits 13:0: the distance in logical sectors from the start of the physical sector to logical
    /// sector 0. `None` when word 209 is not valid (bits 15:14 are not 01b).
    pub sector0_offset: Option<u16>,
    /// Words 84 and 87 bit 5: it has logs that READ LOG EXT reads.
    pub has_logs: bool,
}

/// Returns a word that is valid, which means that bits 15:14 are 01b. Any other value means "not reported".
fn valid(word: u16) -> Option<u16> {
    (word & 0xc000 == 0x4000).then_some(word)
}

impl AtaIdentify {
    /// Parses the 512 bytes of the answer.
    pub fn parse(data: &[u8; 512]) -> Result<Self, IdentifyError> {
        if data.iter().all(|&byte| byte == 0) {
            return Err(IdentifyError::Blank { what: WHAT });
        }
        let sum = data.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        if data[510] == CHECKSUM_SIGNATURE && sum != 0 {
            return Err(IdentifyError::Checksum { what: WHAT });
        }
        let word = |index: usize| u16::from_le_bytes([data[2 * index], data[2 * index + 1]]);
        // Word 0 bit 15 is clear for ATA devices. CFA cards nevertheless answer 848Ah.
        if word(0) & 0x8000 != 0 && word(0) != 0x848a {
            return Err(IdentifyError::Kind { what: WHAT, found: word(0) });
        }
        // The first character of each pair is in the high byte of its word.
        let string = |words: RangeInclusive<usize>| text(words.flat_map(|index| word(index).to_be_bytes()));
        let sizes = valid(word(SECTOR_SIZE));
        let long_logical = sizes.is_some_and(|bits| bits & 0x1000 != 0);
        let logical = if long_logical {
            let words = u64::from(word(LOGICAL_WORDS)) | u64::from(word(LOGICAL_WORDS + 1)) << 16;
            BlockSize::new(2 * words).map_err(|source| IdentifyError::LogicalBlock { what: WHAT, source })?
        } else {
            BlockSize::B512
        };
        let exponent = |bits: u16| if bits & 0x2000 != 0 { bits.to_le_bytes()[0] & 0x0f } else { 0 };
        Ok(Self {
            model: string(MODEL),
            firmware: string(FIRMWARE),
            serial: string(SERIAL),
            rotation: RotationRate::from_field(word(ROTATION)),
            form_factor: FormFactor::from_field(word(FORM_FACTOR).to_le_bytes()[0]),
            logical,
            physical_exponent: sizes.map(exponent),
            sector0_offset: valid(word(ALIGNMENT)).map(|bits| bits & 0x3fff),
            has_logs: FEATURES
                .into_iter()
                .find_map(|index| valid(word(index)))
                .is_some_and(|bits| bits & LOGGING != 0),
        })
    }

    /// Returns the physical sector size in bytes; `None` when word 106 is not valid, so that the drive
    /// reports none.
    pub fn physical_bytes(&self) -> Option<ByteCount> {
        self.physical_exponent.map(|exponent| physical_bytes(self.logical, exponent))
    }

    /// Returns the byte of the first logical sector that starts a physical one: the kernel's
    /// `alignment_offset` (`ata_id_logical_sector_offset`, include/linux/ata.h). Word 209 says how many logical
    /// sectors into a physical one the disk begins. `None` when word 106 or word 209 is not valid.
    pub fn alignment_offset_bytes(&self) -> Option<ByteCount> {
        let physical = Boundary::multiples_of(self.physical_bytes()?)?;
        let begins = Lba::new(self.sector0_offset?.into()).to_bytes(self.logical)?;
        Some(physical.to_next(begins))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(data: &mut [u8; 512], word: usize, value: u16) {
        data[2 * word..2 * word + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn set_text(data: &mut [u8; 512], words: RangeInclusive<usize>, value: &str) {
        let mut padded = value.bytes().chain(std::iter::repeat(b' '));
        for word in words {
            let pair = [padded.next().unwrap(), padded.next().unwrap()];
            set(data, word, u16::from_be_bytes(pair));
        }
    }

    fn drive(words: &[(usize, u16)]) -> [u8; 512] {
        let mut data = [0; 512];
        set(&mut data, 0, 0x0040);
        set_text(&mut data, SERIAL, "WD-WCAV50000001");
        set_text(&mut data, FIRMWARE, "80.00A80");
        set_text(&mut data, MODEL, "WDC WD10EARS-00Y5B1");
        for &(word, value) in words {
            set(&mut data, word, value);
        }
        data
    }

    #[test]
    fn names() {
        let id = AtaIdentify::parse(&drive(&[(ROTATION, 5400), (FORM_FACTOR, 2)])).unwrap();
        assert_eq!((id.model.as_str(), id.firmware.as_str()), ("WDC WD10EARS-00Y5B1", "80.00A80"));
        assert_eq!(id.serial, "WD-WCAV50000001");
        assert_eq!((id.rotation, id.form_factor), (RotationRate::Rpm(5400), FormFactor::Inches3_5));
    }

    #[test]
    fn sectors() {
        // Words 106, 117, 118, 209; then logical, physical, alignment offset in bytes.
        for (w106, w117, w118, w209, logical, physical, offset) in [
            (0x0000, 0, 0, 0x0000, 512, None, None), // nothing is said
            (0x0000, 0, 0, 0x4001, 512, None, None),
            (0x4000, 0, 0, 0x4000, 512, Some(512), Some(0)),
            (0x6003, 0, 0, 0x4000, 512, Some(4096), Some(0)),
            (0x6003, 0, 0, 0x4001, 512, Some(4096), Some(3584)),
            (0x6003, 0, 0, 0x4007, 512, Some(4096), Some(512)),
            (0x6003, 0, 0, 0x4008, 512, Some(4096), Some(0)),
            (0x6003, 0, 0, 0x0000, 512, Some(4096), None), // word 209 not valid
            (0x6003, 0, 0, 0x0001, 512, Some(4096), None),
            (0x6003, 0, 0, 0xc001, 512, Some(4096), None), // nor this
            (0xe003, 0, 0, 0x4001, 512, None, None),       // word 106 not valid
            (0x4003, 0, 0, 0x4001, 512, Some(512), Some(0)), // bit 13 clear: the exponent does not count
            (0x5000, 2048, 0, 0x4000, 4096, Some(4096), Some(0)),
            (0x7002, 2048, 0, 0x4001, 4096, Some(16384), Some(12288)),
            (0x4000, 2048, 0, 0x4000, 512, Some(512), Some(0)), // bit 12 clear: words 117-118 do not count
            (0x600f, 0, 0, 0x4000, 512, Some(512 << 15), Some(0)),
        ] {
            let words = [(106, w106), (117, w117), (118, w118), (209, w209)];
            let id = AtaIdentify::parse(&drive(&words)).unwrap();
            let bytes = |size: Option<ByteCount>| size.map(ByteCount::get);
            let found = (id.logical.get(), bytes(id.physical_bytes()), bytes(id.alignment_offset_bytes()));
            assert_eq!(found, (logical, physical, offset), "{words:x?}");
        }
        assert_eq!(AtaIdentify::parse(&drive(&[])).unwrap().physical_exponent, None);
        assert_eq!(AtaIdentify::parse(&drive(&[(106, 0x4000)])).unwrap().physical_exponent, Some(0));
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
        assert_eq!(AtaIdentify::parse(&[0; 512]), Err(IdentifyError::Blank { what: WHAT }));
        let atapi = drive(&[(0, 0x85c0)]);
        assert_eq!(AtaIdentify::parse(&atapi), Err(IdentifyError::Kind { what: WHAT, found: 0x85c0 }));
        let odd = drive(&[(106, 0x5000), (117, 260)]);
        assert!(matches!(AtaIdentify::parse(&odd), Err(IdentifyError::LogicalBlock { .. })));
        let mut summed = drive(&[]);
        summed[510] = CHECKSUM_SIGNATURE;
        let sum = summed.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        summed[511] = sum.wrapping_neg();
        assert!(AtaIdentify::parse(&summed).is_ok());
        summed[20] ^= 1;
        assert_eq!(AtaIdentify::parse(&summed), Err(IdentifyError::Checksum { what: WHAT }));
    }

    proptest! {
        #[test]
        fn any_bytes(mut data in proptest::collection::vec(any::<u8>(), 512), valid in any::<bool>()) {
            if valid {
                (data[1], data[213], data[419], data[510]) = (0, 0x40 | data[213] & 0x3f, 0x40 | data[419] & 0x3f, 0);
            }
            let data: [u8; 512] = data.try_into().unwrap();
            if let Ok(id) = AtaIdentify::parse(&data) {
                let physical = id.physical_bytes();
                prop_assert!(physical.is_none_or(|size| size.is_multiple_of(id.logical.bytes())));
                prop_assert!(id.alignment_offset_bytes().is_none_or(|at| physical.is_some_and(|size| at < size)));
            }
        }
    }
}
