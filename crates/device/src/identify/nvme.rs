//! NVMe Identify data structures: 4096 bytes, little-endian (NVM Express Base Specification 2.1 and NVM
//! Command Set Specification 1.1). Offsets are in bytes.

use straddle_units::{BlockSize, ByteCount, Lba, LbaCount};

use super::{IdentifyError, text};

const NAMESPACE: &str = "NVMe Identify Namespace";
const CONTROLLER: &str = "NVMe Identify Controller";

/// The offset of the list of LBA formats, of four bytes each.
const FORMATS: usize = 128;
/// How many formats the list has room for.
const MAX_FORMATS: usize = 64;

/// RP, bits 1:0 of an LBA format's byte 3: its performance relative to the drive's other formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelativePerformance {
    /// 00b.
    Best,
    /// 01b.
    Better,
    /// 10b.
    Good,
    /// 11b.
    Degraded,
}

impl std::fmt::Display for RelativePerformance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Best => "best",
            Self::Better => "better",
            Self::Good => "good",
            Self::Degraded => "degraded",
        })
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
            metadata: u16::from_le_bytes([bytes[0], bytes[1]]),
            performance: match bytes[3] & 0b11 {
                0 => RelativePerformance::Best,
                1 => RelativePerformance::Better,
                2 => RelativePerformance::Good,
                _ => RelativePerformance::Degraded,
            },
        }
    }
}

/// Identify Namespace for the NVM Command Set (CNS 00h). Sizes that the standard counts in logical blocks,
/// 0's based or not, are in bytes here, except `size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeIdentifyNamespace {
    /// Bytes 0-7, NSZE: the size in logical blocks.
    pub size: LbaCount,
    /// The logical block of the format in force.
    pub logical: BlockSize,
    /// Byte 26, FLBAS: the index in `formats` of the one in force (bits 3:0 and, where there are more than 16
    /// formats, bits 6:5 above them).
    pub current_format: u8,
    /// Bytes 128-383, LBAF0 to LBAF63: as many as NLBAF (byte 25, 0's based) and NULBAF (byte 82) count.
    pub formats: Vec<LbaFormat>,
    /// Byte 24 bit 1, NSFEAT.NSABP: `atomic_normal` and `atomic_power_fail` apply to this namespace.
    /// Otherwise the controller's AWUN and AWUPF apply.
    pub own_atomics: bool,
    /// Byte 24 bits 5:4, NSFEAT.OPTPERF: which of the preferred sizes are defined. Bit 4 defines all five.
    /// Bit 5 was reserved before NVMe 2.1; here it is taken to define all but NPDG and NPDA, which have wider
    /// successors in another data structure (not checked against the standard's text).
    pub optperf: u8,
    /// Bytes 34-35, NAWUN: a write up to this size is atomic in normal operation. `None` without NSABP, and
    /// for a value of 0, which means "as the controller's AWUN".
    pub atomic_normal: Option<ByteCount>,
    /// Bytes 36-37, NAWUPF: a write up to this size is atomic even across a power failure. `None` under the
    /// same conditions, where the controller's AWUPF applies.
    pub atomic_power_fail: Option<ByteCount>,
    /// Bytes 40-41, NABSN: writes that cross a boundary of this size are not atomic. `None` for 0, no
    /// boundary.
    pub atomic_boundary_normal: Option<ByteCount>,
    /// Bytes 42-43, NABO: the LBA of the first atomic boundary.
    pub atomic_boundary_offset: Lba,
    /// Bytes 44-45, NABSPF: the atomic boundary across a power failure. `None` for 0.
    pub atomic_boundary_power_fail: Option<ByteCount>,
    /// Bytes 46-47, NOIOB: reads and writes should not cross a multiple of this. `None` for 0.
    pub optimal_io_boundary: Option<ByteCount>,
    /// Bytes 64-65, NPWG: preferred write granularity, the smallest write without a read-modify-write. `None`
    /// without OPTPERF.
    pub preferred_write_granularity: Option<ByteCount>,
    /// Bytes 66-67, NPWA: preferred write alignment. `None` without OPTPERF.
    pub preferred_write_alignment: Option<ByteCount>,
    /// Bytes 68-69, NPDG: preferred deallocate granularity. `None` without OPTPERF bit 4.
    pub preferred_discard_granularity: Option<ByteCount>,
    /// Bytes 70-71, NPDA: preferred deallocate alignment. `None` without OPTPERF bit 4.
    pub preferred_discard_alignment: Option<ByteCount>,
    /// Bytes 72-73, NOWS: optimal write size. `None` without OPTPERF, and for 0, which drives without one
    /// report. One block is not an optimum (`nvme_update_disk_info`, drivers/nvme/host/core.c, treats it so
    /// since Linux 6.11).
    pub optimal_write_size: Option<ByteCount>,
}

impl NvmeIdentifyNamespace {
    /// Parses the 4096 bytes of the answer.
    pub fn parse(data: &[u8; 4096]) -> Result<Self, IdentifyError> {
        if data.iter().all(|&byte| byte == 0) {
            return Err(IdentifyError::Blank { what: NAMESPACE });
        }
        let (formats, current_format) = Self::formats(data);
        let current = formats.get(usize::from(current_format)).and_then(|format| format.logical);
        let logical = current.ok_or(IdentifyError::LbaFormat { index: current_format })?;

        let field = |at: usize| u64::from(u16::from_le_bytes([data[at], data[at + 1]]));
        let in_bytes = |count: u64| ByteCount::new(count * logical.get());
        let zero_based = |at: usize| in_bytes(field(at) + 1);
        // Also 0's based, but 0 has another meaning.
        let unless_zero = |at: usize| (field(at) != 0).then(|| zero_based(at));
        let nsfeat = data[24];
        let own_atomics = nsfeat & 1 << 1 != 0;
        let optperf = nsfeat >> 4 & 0b11;
        let preferred = |bits: u8, at: usize| (optperf & bits != 0).then(|| zero_based(at));
        Ok(Self {
            size: LbaCount::new(le64(data, 0)),
            logical,
            current_format,
            formats,
            own_atomics,
            optperf,
            atomic_normal: unless_zero(34).filter(|_| own_atomics),
            atomic_power_fail: unless_zero(36).filter(|_| own_atomics),
            atomic_boundary_normal: unless_zero(40),
            atomic_boundary_offset: Lba::new(field(42)),
            atomic_boundary_power_fail: unless_zero(44),
            optimal_io_boundary: (field(46) != 0).then(|| in_bytes(field(46))),
            preferred_write_granularity: preferred(0b11, 64),
            preferred_write_alignment: preferred(0b11, 66),
            preferred_discard_granularity: preferred(0b01, 68),
            preferred_discard_alignment: preferred(0b01, 70),
            optimal_write_size: preferred(0b11, 72).filter(|_| field(72) != 0),
        })
    }

    /// Parses the list of formats, and returns it with the index of the one in force.
    fn formats(data: &[u8; 4096]) -> (Vec<LbaFormat>, u8) {
        let (nlbaf, flbas, nulbaf) = (data[25], data[26], data[82]);
        let count = (usize::from(nlbaf) + 1 + usize::from(nulbaf)).min(MAX_FORMATS);
        let list = data[FORMATS..].as_chunks::<4>().0;
        let formats = list[..count].iter().map(|&bytes| LbaFormat::parse(bytes)).collect();
        let upper = if count > 16 { flbas >> 1 & 0x30 } else { 0 };
        (formats, upper | flbas & 0x0f)
    }
}

fn le64(data: &[u8; 4096], at: usize) -> u64 {
    super::bytes_at(data, at).map_or(0, u64::from_le_bytes)
}

/// Whether and how a controller formats namespaces (the admin command Format NVM).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatNvm {
    /// Bytes 256-257 bit 1, OACS: it knows the command.
    pub supported: bool,
    /// Byte 524 bit 0, FNA: a format of one namespace formats all namespaces of the drive.
    pub all_namespaces: bool,
}

/// Identify Controller (CNS 01h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeIdentifyController {
    /// Bytes 4-23, SN.
    pub serial: String,
    /// Bytes 24-63, MN.
    pub model: String,
    /// Bytes 64-71, FR.
    pub firmware: String,
    /// Bytes 80-83, VER: major, minor and tertiary version of the specification. All zero before NVMe 1.2.
    pub version: (u16, u8, u8),
    /// Whether and how it formats namespaces.
    pub format: FormatNvm,
    /// Bytes 526-527, AWUN: a write up to this many logical blocks is atomic in normal operation, in every
    /// namespace that does not report its own. At least 1 (the field is 0's based).
    pub atomic_normal: LbaCount,
    /// Bytes 528-529, AWUPF: a write up to this many logical blocks is atomic even across a power failure. At
    /// least 1 (the field is 0's based).
    pub atomic_power_fail: LbaCount,
}

impl NvmeIdentifyController {
    /// Parses the 4096 bytes of the answer.
    pub fn parse(data: &[u8; 4096]) -> Result<Self, IdentifyError> {
        if data.iter().all(|&byte| byte == 0) {
            return Err(IdentifyError::Blank { what: CONTROLLER });
        }
        let string = |from: usize, to: usize| text(data[from..=to].iter().copied());
        let zero_based =
            |at: usize| LbaCount::new(u64::from(u16::from_le_bytes([data[at], data[at + 1]])) + 1);
        Ok(Self {
            serial: string(4, 23),
            model: string(24, 63),
            firmware: string(64, 71),
            version: (u16::from_le_bytes([data[82], data[83]]), data[81], data[80]),
            format: FormatNvm { supported: data[256] & 1 << 1 != 0, all_namespaces: data[524] & 1 != 0 },
            atomic_normal: zero_based(526),
            atomic_power_fail: zero_based(528),
        })
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
        data[..8].copy_from_slice(&1_000_215_216u64.to_le_bytes());
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
        assert_eq!((said.size.get(), said.logical, said.current_format), (1_000_215_216, BlockSize::B512, 0));
        assert_eq!((said.atomic_normal, said.atomic_power_fail), (bytes(131_072), bytes(4096)));
        assert_eq!(
            (said.atomic_boundary_normal, said.atomic_boundary_power_fail),
            (bytes(16384), bytes(8192))
        );
        assert_eq!((said.atomic_boundary_offset, said.optimal_io_boundary), (Lba::new(5), bytes(131_072)));
        assert_eq!(
            (said.preferred_write_granularity, said.preferred_write_alignment),
            (bytes(16384), bytes(4096))
        );
        assert_eq!(
            (said.preferred_discard_granularity, said.preferred_discard_alignment),
            (bytes(32768), bytes(512))
        );
        assert_eq!(said.optimal_write_size, bytes(262_144));
        let formats = [
            (BlockSize::B512, 0, RelativePerformance::Good),
            (BlockSize::B4096, 8, RelativePerformance::Best),
        ];
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
        assert_eq!((said.atomic_normal, said.atomic_power_fail), (None, None));
        assert_eq!((said.preferred_write_granularity, said.optimal_write_size), (None, None));
        // NVMe 2.1: bit 5 alone.
        let said = NvmeIdentifyNamespace::parse(&namespace(0b0010_0000)).unwrap();
        assert_eq!((said.optperf, said.preferred_discard_granularity), (2, None));
        assert_eq!(said.preferred_write_granularity, Some(ByteCount::new(16384)));
        // 0 means "as the controller" and "none", not one block.
        let mut zeros = namespace(0b0001_0010);
        zeros[34..48].fill(0);
        let said = NvmeIdentifyNamespace::parse(&zeros).unwrap();
        assert_eq!(
            (said.atomic_normal, said.atomic_boundary_normal, said.optimal_io_boundary),
            (None, None, None)
        );
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
            assert_eq!(found, Ok((index, BlockSize::B4096)), "{nlbaf} {nulbaf} {flbas:#x}");
            data[index_at + 2] = before;
        }
        (data[25], data[26]) = (1, 2);
        data[82] = 0;
        assert_eq!(NvmeIdentifyNamespace::parse(&data), Err(IdentifyError::LbaFormat { index: 2 }));
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
            let found = NvmeIdentifyNamespace::parse(&data).ok().map(|said| said.logical.get());
            assert_eq!(found, size, "LBADS {lbads}");
        }
        assert_eq!(NvmeIdentifyNamespace::parse(&[0; 4096]), Err(IdentifyError::Blank { what: NAMESPACE }));
    }

    #[test]
    fn controllers() {
        let mut data = [0; 4096];
        data[4..72].fill(b' ');
        data[4..14].copy_from_slice(b"S4EWNX0M12");
        data[24..47].copy_from_slice(b"Samsung SSD 970 EVO 1TB");
        data[64..72].copy_from_slice(b"2B2QEXE7");
        data[80..84].copy_from_slice(&0x0001_0300u32.to_le_bytes());
        put(&mut data, 526, 1023);
        let said = NvmeIdentifyController::parse(&data).unwrap();
        assert_eq!((said.serial.as_str(), said.firmware.as_str()), ("S4EWNX0M12", "2B2QEXE7"));
        assert_eq!((said.model.as_str(), said.version), ("Samsung SSD 970 EVO 1TB", (1, 3, 0)));
        assert_eq!((said.atomic_normal.get(), said.atomic_power_fail.get()), (1024, 1));
        assert!(NvmeIdentifyController::parse(&[0; 4096]).is_err());
        assert_eq!(said.format, FormatNvm { supported: false, all_namespaces: false });
        (data[256], data[524]) = (0b0001_1110, 0b0000_0101);
        let said = NvmeIdentifyController::parse(&data).unwrap();
        assert_eq!(said.format, FormatNvm { supported: true, all_namespaces: true });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 4096), lbads in any::<u8>()) {
            let mut data: [u8; 4096] = data.try_into().unwrap();
            let _ = NvmeIdentifyController::parse(&data);
            let _ = NvmeIdentifyNamespace::parse(&data);
            data[FORMATS..FORMATS + 256].as_chunks_mut::<4>().0.iter_mut().for_each(|format| format[2] = lbads);
            let said = NvmeIdentifyNamespace::parse(&data);
            prop_assert!(said.is_err() || (9..=16).contains(&lbads));
        }
    }
}
