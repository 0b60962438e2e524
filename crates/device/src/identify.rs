//! What drives report about themselves, in the formats of their standards: ATA IDENTIFY DEVICE and logs, SCSI
//! READ CAPACITY(16) and VPD pages, NVMe Identify.
//!
//! Invariants: pure functions over bytes, no I/O. Every field names its standard and its word,
//! page or byte. Counts that the standards give "0's based" or in logical blocks are converted to plain
//! counts, with the unit in the type, as they are parsed. Whatever the bytes, a parser returns a value or a
//! typed error: it never panics, and no unchecked shift or size leaves it.

mod ata;
mod nvme;
mod offered;
mod power;
mod scsi;

pub use ata::AtaIdentify;
pub use nvme::{FormatNvm, LbaFormat, NvmeIdentifyController, NvmeIdentifyNamespace, RelativePerformance};
pub use offered::{SECTOR_LOG, block_lengths, has_log, sector_configurations};
pub use power::{PowerMode, is_stopped, returned_count};
pub use scsi::{BlockCharacteristics, BlockLimits, ReadCapacity16};

use straddle_units::{BlockSize, BlockSizeError, ByteCount};

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum IdentifyError {
    #[error("{what}: {got} bytes, but at least {need} are needed")]
    Short { what: &'static str, got: usize, need: usize },
    #[error("{what}: every byte is zero")]
    Blank { what: &'static str },
    /// The checksum over the bytes is wrong (ATA word 255).
    #[error("{what}: the checksum is wrong")]
    Checksum { what: &'static str },
    #[error("{what}: unexpected kind of answer ({found:#x})")]
    Kind { what: &'static str, found: u16 },
    #[error("{what}: invalid logical sector size")]
    LogicalBlock {
        what: &'static str,
        #[source]
        source: BlockSizeError,
    },
    #[error("NVMe Identify Namespace: the active LBA format {index} is missing or has an invalid size")]
    LbaFormat { index: u8 },
}

straddle_units::error_kind!(IdentifyError: Failed);

/// The rotation rate: ATA word 217 and SCSI VPD page B1h bytes 4-5, which have the same coding (ACS-4,
/// "Nominal media rotation rate"; SBC-4, "MEDIUM ROTATION RATE").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationRate {
    /// 0000h: not reported.
    NotReported,
    /// 0001h: non-rotating.
    NonRotating,
    /// 0401h to FFFEh: revolutions per minute.
    Rpm(u16),
    /// Any other value.
    Reserved(u16),
}

impl RotationRate {
    /// Decodes the 16-bit field.
    pub fn from_field(value: u16) -> Self {
        match value {
            0 => Self::NotReported,
            1 => Self::NonRotating,
            0x0401..=0xfffe => Self::Rpm(value),
            _ => Self::Reserved(value),
        }
    }
}

/// The nominal form factor: ATA word 168 bits 3:0 and SCSI VPD page B1h byte 7 bits 3:0, which have the same
/// coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormFactor {
    /// 0: not reported.
    NotReported,
    /// 1: 5.25 inches.
    Inches5_25,
    /// 2: 3.5 inches.
    Inches3_5,
    /// 3: 2.5 inches.
    Inches2_5,
    /// 4: 1.8 inches.
    Inches1_8,
    /// 5: less than 1.8 inches.
    Smaller,
    /// Any other value (mSATA, M.2 and later ones).
    Other(u8),
}

impl FormFactor {
    /// Decodes the low four bits of the field.
    pub fn from_field(value: u8) -> Self {
        match value & 0x0f {
            0 => Self::NotReported,
            1 => Self::Inches5_25,
            2 => Self::Inches3_5,
            3 => Self::Inches2_5,
            4 => Self::Inches1_8,
            5 => Self::Smaller,
            other => Self::Other(other),
        }
    }
}

/// Returns the size of a physical sector of `2^exponent` logical sectors. Exponents have four bits, so the
/// product stays below 2^32.
fn physical_bytes(logical: BlockSize, exponent: u8) -> ByteCount {
    ByteCount::new(logical.get() << (exponent & 0x0f))
}

/// Decodes a text field: ASCII, padded with blanks or zeros. Any other byte becomes U+FFFD.
fn text(bytes: impl IntoIterator<Item = u8>) -> String {
    let replace =
        |byte: u8| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '\u{fffd}' };
    let whole: String = bytes.into_iter().take_while(|&byte| byte != 0).map(replace).collect();
    whole.trim().to_owned()
}

/// Returns the `N` bytes at `at`, or `None` where the data is shorter.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_rates_and_form_factors() {
        for (field, rate) in [
            (0, RotationRate::NotReported),
            (1, RotationRate::NonRotating),
            (2, RotationRate::Reserved(2)),
            (0x0400, RotationRate::Reserved(0x0400)),
            (0x0401, RotationRate::Rpm(1025)),
            (5400, RotationRate::Rpm(5400)),
            (0xfffe, RotationRate::Rpm(0xfffe)),
            (0xffff, RotationRate::Reserved(0xffff)),
        ] {
            assert_eq!(RotationRate::from_field(field), rate);
        }
        assert_eq!(FormFactor::from_field(0xf2), FormFactor::Inches3_5);
        assert_eq!(FormFactor::from_field(8), FormFactor::Other(8));
    }

    #[test]
    fn text_fields_lose_their_padding_and_their_surprises() {
        assert_eq!(text(*b"  WDC WD10EARS  "), "WDC WD10EARS");
        assert_eq!(text(*b"abc\0def"), "abc");
        assert_eq!(text(*b"a\x1b[2Jb"), "a\u{fffd}[2Jb");
    }
}
