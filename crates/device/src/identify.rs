//! What drives report about themselves: ATA IDENTIFY DEVICE and logs, SCSI READ CAPACITY(16) and VPD pages,
//! NVMe Identify. Counts that the standards give "0's based" or in logical blocks are converted. An answer
//! that is too short, of another kind or impossible is `None`.

mod ata;
mod nvme;
mod offered;
mod power;
mod scsi;

pub use ata::AtaIdentify;
pub use nvme::{FormatNvm, LbaFormat, NvmeIdentifyNamespace, RelativePerformance};
pub(crate) use offered::{SECTOR_LOG, has_log};
pub use offered::{block_lengths, sector_configurations};
pub(crate) use power::{FAILED, is_standby, is_stopped, registers, returned_count};
pub use scsi::{ReadCapacity16, optimal_transfer, rotation_rate};

use straddle_units::{BlockSize, ByteCount};

/// The rotation rate: ATA word 217 and SCSI VPD page B1h bytes 4-5, coded alike (ACS-4 and SBC-4).
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
    fn from_field(value: u16) -> Self {
        match value {
            0 => Self::NotReported,
            1 => Self::NonRotating,
            0x0401..=0xfffe => Self::Rpm(value),
            _ => Self::Reserved(value),
        }
    }
}

fn physical_bytes(logical: BlockSize, exponent: u8) -> ByteCount {
    ByteCount::new(logical.get() << (exponent & 0x0f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_rates() {
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
    }
}
