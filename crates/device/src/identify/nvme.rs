//! NVMe Identify data structures: 4096 bytes, little-endian (NVM Express Base Specification 2.1 and NVM
//! Command Set Specification 1.1). Offsets are in bytes.

use straddle_units::{BlockSize, ByteCount, Lba};

use crate::fields::le16;

/// The offset of the list of LBA formats, of four bytes each.
const FORMATS: usize = 128;
const MAX_FORMATS: usize = 64;

/// RP, bits 1:0 of an LBA format's byte 3: its performance relative to the drive's other formats, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativePerformance(u8);

impl std::fmt::Display for RelativePerformance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["best", "better", "good", "degraded"][usize::from(self.0)])
    }
}

/// An LBA format that the namespace can be formatted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaFormat {
    /// Byte 2, LBADS: the logical block is 2^LBADS bytes. `None` when LBADS is 0 (the format is not
    /// available) or not between 9 and 16.
    pub logical: Option<BlockSize>,
    /// Bytes 0-1, MS: metadata in bytes per logical block.
    pub metadata: u16,
    /// Byte 3 bits 1:0, RP.
    pub performance: RelativePerformance,
}

impl LbaFormat {
    fn parse(bytes: [u8; 4]) -> Self {
        let size = |lbads: u8| BlockSize::new(1u64.checked_shl(u32::from(lbads))?).ok();
        Self {
            logical: size(bytes[2]),
            metadata: le16(&bytes, 0),
            performance: RelativePerformance(bytes[3] & 0b11),
        }
    }
}

/// Identify Namespace for the NVM Command Set (CNS 00h). All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeIdentifyNamespace {
    /// The logical block of the format in force.
    pub logical: BlockSize,
    /// Byte 26, FLBAS: the index in `formats` of the one in force (bits 3:0 and, where there are more than 16
    /// formats, bits 6:5 above them).
    pub current_format: u8,
    /// Bytes 128-383, LBAF0 to LBAF63: as many as NLBAF (byte 25, 0's based) and NULBAF (byte 82) count.
    pub formats: Vec<LbaFormat>,
    /// Bytes 36-37, NAWUPF: a write up to this size is atomic even across a power failure. `None` where the
    /// controller's AWUPF applies: for 0, and without NSFEAT.NSABP (byte 24 bit 1).
    pub atomic_power_fail: Option<ByteCount>,
    /// Bytes 42-43, NABO: the LBA of the first atomic boundary.
    pub atomic_boundary_offset: Lba,
    /// Bytes 44-45, NABSPF: the atomic boundary across a power failure. `None` for 0.
    pub atomic_boundary_power_fail: Option<ByteCount>,
    /// Bytes 64-65, NPWG: preferred write granularity, the smallest write without a read-modify-write. This and
    /// the following are `None` without NSFEAT.OPTPERF: byte 24 bit 4, or bit 5, which was reserved before NVMe
    /// 2.1 (taken to define them; not checked against the standard's text).
    pub preferred_write_granularity: Option<ByteCount>,
    /// Bytes 66-67, NPWA: preferred write alignment.
    pub preferred_write_alignment: Option<ByteCount>,
    /// Bytes 72-73, NOWS: optimal write size. `None` also for 0, which drives without one report. One block is
    /// not an optimum (`nvme_update_disk_info`, drivers/nvme/host/core.c, treats it so since Linux 6.11).
    pub optimal_write_size: Option<ByteCount>,
}

impl NvmeIdentifyNamespace {
    /// Parses the 4096 bytes of the answer.
    pub fn parse(data: &[u8; 4096]) -> Option<Self> {
        let (formats, current_format) = Self::formats(data);
        let logical = formats.get(usize::from(current_format))?.logical?;
        let field = |at: usize| u64::from(le16(data, at));
        let zero_based = |at: usize| ByteCount::new((field(at) + 1) * logical.get());
        // Also 0's based, but 0 has another meaning.
        let unless_zero = |at: usize| (field(at) != 0).then(|| zero_based(at));
        let has_own_atomics = data[24] & 1 << 1 != 0;
        let preferred = |at: usize| (data[24] >> 4 & 0b11 != 0).then(|| zero_based(at));
        Some(Self {
            logical,
            current_format,
            formats,
            atomic_power_fail: unless_zero(36).filter(|_| has_own_atomics),
            atomic_boundary_offset: Lba::new(field(42)),
            atomic_boundary_power_fail: unless_zero(44),
            preferred_write_granularity: preferred(64),
            preferred_write_alignment: preferred(66),
            optimal_write_size: preferred(72).filter(|_| field(72) != 0),
        })
    }

    fn formats(data: &[u8; 4096]) -> (Vec<LbaFormat>, u8) {
        let (nlbaf, flbas, nulbaf) = (data[25], data[26], data[82]);
        let count = (usize::from(nlbaf) + 1 + usize::from(nulbaf)).min(MAX_FORMATS);
        let list = data[FORMATS..].as_chunks::<4>().0;
        let formats = list[..count].iter().map(|&bytes| LbaFormat::parse(bytes)).collect();
        let upper = if count > 16 { flbas >> 1 & 0x30 } else { 0 };
        (formats, upper | flbas & 0x0f)
    }
}

/// How a controller formats namespaces (Format NVM), by its Identify Controller data (CNS 01h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNvm {
    /// Bytes 256-257 bit 1, OACS: it knows the command.
    pub supported: bool,
    /// Byte 524 bit 0, FNA: a format of one namespace formats all namespaces of the drive.
    pub all_namespaces: bool,
}

impl FormatNvm {
    /// Parses the 4096 bytes of the answer.
    pub fn parse(data: &[u8; 4096]) -> Option<Self> {
        let is_blank = *data == [0; 4096];
        (!is_blank).then_some(Self { supported: data[256] & 1 << 1 != 0, all_namespaces: data[524] & 1 != 0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(data: &mut [u8; 4096], at: usize, value: u16) {
        data[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// A namespace with two formats of 512 and 4096 bytes, the first in force.
    fn namespace(nsfeat: u8) -> [u8; 4096] {
        let mut data = [0; 4096];
        data[24] = nsfeat;
        data[25] = 1;
        data[128..136].copy_from_slice(&[0, 0, 9, 2, 8, 0, 12, 0]);
        for (at, value) in [(34, 255), (36, 7), (40, 31), (42, 5), (44, 15), (46, 256)] {
            put(&mut data, at, value);
        }
        for (at, value) in [(64, 31), (66, 7), (68, 63), (70, 0), (72, 511)] {
            put(&mut data, at, value);
        }
        data
    }

    #[test]
    fn zero_based_counts_become_bytes() {
        let bytes = |n| Some(ByteCount::new(n));
        let said = NvmeIdentifyNamespace::parse(&namespace(0b0001_0010)).unwrap();
        assert_eq!((said.logical, said.current_format), (BlockSize::B512, 0));
        assert_eq!(
            (said.atomic_power_fail, said.atomic_boundary_power_fail, said.atomic_boundary_offset),
            (bytes(4096), bytes(8192), Lba::new(5))
        );
        assert_eq!(
            (said.preferred_write_granularity, said.preferred_write_alignment),
            (bytes(16384), bytes(4096))
        );
        assert_eq!(said.optimal_write_size, bytes(262_144));
        let formats =
            [(BlockSize::B512, 0, RelativePerformance(2)), (BlockSize::B4096, 8, RelativePerformance(0))];
        assert_eq!(
            said.formats,
            formats.map(|(size, metadata, performance)| LbaFormat {
                logical: Some(size),
                metadata,
                performance
            })
        );
    }

    #[test]
    fn undefined_fields_are_none() {
        let said = NvmeIdentifyNamespace::parse(&namespace(0)).unwrap();
        assert_eq!(said.atomic_power_fail, None);
        assert_eq!((said.preferred_write_granularity, said.optimal_write_size), (None, None));
        // NVMe 2.1: bit 5 alone.
        let said = NvmeIdentifyNamespace::parse(&namespace(0b0010_0000)).unwrap();
        assert_eq!(said.preferred_write_granularity, Some(ByteCount::new(16384)));
        // 0 means "as the controller" and "none", not one block.
        let mut zeros = namespace(0b0001_0010);
        zeros[34..48].fill(0);
        let said = NvmeIdentifyNamespace::parse(&zeros).unwrap();
        assert_eq!((said.atomic_power_fail, said.atomic_boundary_power_fail), (None, None));
    }

    #[test]
    fn format_in_force() {
        let mut data = namespace(0);
        // FLBAS bits 6:5 count only where there are more than 16 formats; bit 4 is about metadata.
        for (nlbaf, nulbaf, flbas, index) in [
            (1, 0, 0x01, 1),
            (1, 0, 0x11, 1),
            (1, 0, 0x61, 1),
            (17, 0, 0x21, 17),
            (15, 1, 0x20, 16),
            (63, 255, 0x7f, 63),
        ] {
            (data[25], data[82], data[26]) = (nlbaf, nulbaf, flbas);
            let index_at = FORMATS + 4 * usize::from(index);
            let before = data[index_at + 2];
            data[index_at + 2] = 12;
            let found = NvmeIdentifyNamespace::parse(&data).map(|said| (said.current_format, said.logical));
            assert_eq!(found, Some((index, BlockSize::B4096)), "{nlbaf} {nulbaf} {flbas:#x}");
            data[index_at + 2] = before;
        }
        (data[25], data[26]) = (1, 2);
        data[82] = 0;
        assert_eq!(NvmeIdentifyNamespace::parse(&data), None);
    }

    #[test]
    fn shifts_are_checked() {
        for (lbads, size) in [
            (0, None),
            (8, None),
            (9, Some(512)),
            (16, Some(65536)),
            (17, None),
            (63, None),
            (64, None),
            (255, None),
        ] {
            let mut data = namespace(0);
            data[130] = lbads;
            let found = NvmeIdentifyNamespace::parse(&data).map(|said| said.logical.get());
            assert_eq!(found, size, "LBADS {lbads}");
        }
        assert_eq!(NvmeIdentifyNamespace::parse(&[0; 4096]), None);
    }

    #[test]
    fn controllers() {
        let mut data = [0; 4096];
        assert_eq!(FormatNvm::parse(&data), None);
        data[4..72].fill(b' ');
        let none = FormatNvm { supported: false, all_namespaces: false };
        assert_eq!(FormatNvm::parse(&data), Some(none));
        (data[256], data[524]) = (0b0001_1110, 0b0000_0101);
        let both = FormatNvm { supported: true, all_namespaces: true };
        assert_eq!(FormatNvm::parse(&data), Some(both));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 4096), lbads in any::<u8>()) {
            let mut data: [u8; 4096] = data.try_into().unwrap();
            let _ = FormatNvm::parse(&data);
            let _ = NvmeIdentifyNamespace::parse(&data);
            data[FORMATS..FORMATS + 256].as_chunks_mut::<4>().0.iter_mut().for_each(|format| format[2] = lbads);
            let said = NvmeIdentifyNamespace::parse(&data);
            prop_assert!(said.is_none() || (9..=16).contains(&lbads));
        }
    }
}
