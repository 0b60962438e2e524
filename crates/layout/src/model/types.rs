//! Partition types and their names.
//!
//! A GUID is kept in its byte order on disk (the first three fields little endian, UEFI specification, appendix A);
//! only this module's conversions from and to text reorder it.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::stack::PartitionType;

/// A partition type as it is serialised.
#[derive(Serialize, JsonSchema)]
pub struct TypeForm {
    /// The GPT type GUID, or the MBR type in hexadecimal, as sfdisk writes it; absent if unknown.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The name of the type; absent if it has none.
    #[serde(rename = "type_name", skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
}

impl From<PartitionType> for TypeForm {
    fn from(kind: PartitionType) -> Self {
        Self { code: code(&kind), name: name(&kind) }
    }
}

/// The GPT type GUID, or the MBR type in hexadecimal, as sfdisk writes it; `None` if it is unknown.
pub fn code(kind: &PartitionType) -> Option<String> {
    match kind {
        PartitionType::Guid(guid) => Some(guid_text(*guid)),
        PartitionType::Mbr(id) => Some(mbr_text(*id)),
        PartitionType::Unknown => None,
    }
}

pub(super) fn optional_guid<S: Serializer>(guid: &Option<[u8; 16]>, to: S) -> Result<S::Ok, S::Error> {
    guid.map(guid_text).serialize(to)
}

/// The type of the MBR entry that protects a GPT (UEFI specification 5.2.3).
pub const PROTECTIVE: u8 = 0xEE;

/// Whether an MBR type is a container for logical partitions (`is_extended_partition`, msdos.c).
pub fn is_extended(id: u8) -> bool {
    matches!(id, 0x05 | 0x0F | 0x85)
}

/// The usual name of a partition type; `None` if it is not in the lists below.
pub fn name(kind: &PartitionType) -> Option<&'static str> {
    match kind {
        PartitionType::Guid(guid) => GPT_NAMES.iter().find(|(known, _)| known == guid).map(|(_, name)| *name),
        PartitionType::Mbr(id) => MBR_NAMES.iter().find(|(known, _)| known == id).map(|(_, name)| *name),
        PartitionType::Unknown => None,
    }
}

/// Formats a GUID from its bytes on disk, in capitals.
pub fn guid_text(guid: [u8; 16]) -> String {
    let mut text = "-".repeat(36);
    for (byte, at) in guid.into_iter().zip(GUID_TEXT_AT) {
        text.replace_range(at..at + 2, &format!("{byte:02X}"));
    }
    text
}

/// Parses a GUID in either case into its bytes on disk; `None` for any other text.
pub fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let is_valid = |(at, c): (usize, u8)| match at {
        8 | 13 | 18 | 23 => c == b'-',
        _ => c.is_ascii_hexdigit(),
    };
    if text.len() != 36 || !text.bytes().enumerate().all(is_valid) {
        return None;
    }
    let mut guid = [0; 16];
    for (byte, at) in guid.iter_mut().zip(GUID_TEXT_AT) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(guid)
}

/// For each byte on disk, the index of its two digits in the text.
const GUID_TEXT_AT: [usize; 16] = [6, 4, 2, 0, 11, 9, 16, 14, 19, 21, 24, 26, 28, 30, 32, 34];

/// Formats an MBR type as sfdisk does: hexadecimal, without a prefix (`83`, `c`).
pub fn mbr_text(id: u8) -> String {
    format!("{id:x}")
}

/// Of a Windows dynamic disk (LDM).
pub(super) fn is_dynamic(kind: &PartitionType) -> bool {
    const MBR: u8 = 0x42;
    const GPT: [[u8; 16]; 2] =
        [guid("5808C8AA-7E8F-42E0-85D2-E1E90434CFB3"), guid("AF9B60A0-1431-4F62-BC68-3311714A69AD")];
    match kind {
        PartitionType::Mbr(kind) => *kind == MBR,
        PartitionType::Guid(guid) => GPT.contains(guid),
        PartitionType::Unknown => false,
    }
}

pub(super) fn is_dynamic_database(kind: &PartitionType) -> bool {
    matches!(kind, PartitionType::Guid(_)) && name(kind) == Some("Microsoft LDM metadata")
}

/// At compile time. Anything but a GUID fails the build.
pub(crate) const fn guid(text: &str) -> [u8; 16] {
    const fn digit(c: u8) -> u8 {
        match c {
            b'0'..=b'9' => c - b'0',
            b'A'..=b'F' => c - b'A' + 10,
            _ => panic!("a GUID is written in capital hexadecimal digits"),
        }
    }
    let text = text.as_bytes();
    assert!(text.len() == 36);
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        bytes[i] = digit(text[GUID_TEXT_AT[i]]) << 4 | digit(text[GUID_TEXT_AT[i] + 1]);
        i += 1;
    }
    bytes
}

/// GPT types with sfdisk's names (util-linux include/pt-gpt-partnames.h); some are from other systems.
const GPT_NAMES: [([u8; 16], &str); 40] = [
    (guid("C12A7328-F81F-11D2-BA4B-00A0C93EC93B"), "EFI System"),
    (guid("024DEE41-33E7-11D3-9D69-0008C781F39F"), "MBR partition scheme"),
    (guid("21686148-6449-6E6F-744E-656564454649"), "BIOS boot"),
    (guid("BC13C2FF-59E6-4262-A352-B275FD6F7172"), "Linux extended boot"),
    (guid("9E1A2D38-C612-4316-AA26-8B49521E5A8B"), "PowerPC PReP boot"),
    (guid("E3C9E316-0B5C-4DB8-817D-F92DF00215AE"), "Microsoft reserved"),
    (guid("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"), "Microsoft basic data"),
    (guid("5808C8AA-7E8F-42E0-85D2-E1E90434CFB3"), "Microsoft LDM metadata"),
    (guid("AF9B60A0-1431-4F62-BC68-3311714A69AD"), "Microsoft LDM data"),
    (guid("DE94BBA4-06D1-4D40-A16A-BFD50179D6AC"), "Windows recovery environment"),
    (guid("E75CAF8F-F680-4CEE-AFA3-B001E56EFC2D"), "Microsoft Storage Spaces"),
    (guid("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"), "Linux swap"),
    (guid("0FC63DAF-8483-4772-8E79-3D69D8477DE4"), "Linux filesystem"),
    (guid("3B8F8425-20E0-4F3B-907F-1A25A76F98E8"), "Linux server data"),
    (guid("44479540-F297-41B2-9AF7-D131D5F0458A"), "Linux root (x86)"),
    (guid("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"), "Linux root (x86-64)"),
    (guid("69DAD710-2CE4-4E3C-B16C-21A1D49ABED3"), "Linux root (ARM)"),
    (guid("B921B045-1DF0-41C3-AF44-4C6F280D3FAE"), "Linux root (ARM-64)"),
    (guid("72EC70A6-CF74-40E6-BD49-4BDA08E8F224"), "Linux root (RISC-V-64)"),
    (guid("8484680C-9521-48C6-9C11-B0720656F69E"), "Linux /usr (x86-64)"),
    (guid("B0E01050-EE5F-4390-949A-9101B17104E9"), "Linux /usr (ARM-64)"),
    (guid("2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5"), "Linux root verity (x86-64)"),
    (guid("8DA63339-0007-60C0-C436-083AC8230908"), "Linux reserved"),
    (guid("933AC7E1-2EB4-4F13-B844-0E14E2AEF915"), "Linux home"),
    (guid("4D21B016-B534-45C2-A9FB-5C16E091FD2D"), "Linux variable data"),
    (guid("7EC6F557-3BC5-4ACA-B293-16EF5DF639D1"), "Linux temporary data"),
    (guid("A19D880F-05FC-4D3B-A006-743F0F84911E"), "Linux RAID"),
    (guid("E6D6D379-F507-44C2-A23C-238F2A3DF928"), "Linux LVM"),
    (guid("CA7D7CCB-63ED-4C53-861C-1742536059CC"), "Linux LUKS"),
    (guid("83BD6B9D-7F41-11DC-BE0B-001560B84F0F"), "FreeBSD boot"),
    (guid("516E7CB4-6ECF-11D6-8FF8-00022D09712B"), "FreeBSD data"),
    (guid("516E7CB6-6ECF-11D6-8FF8-00022D09712B"), "FreeBSD UFS"),
    (guid("516E7CBA-6ECF-11D6-8FF8-00022D09712B"), "FreeBSD ZFS"),
    (guid("6A898CC3-1DD2-11B2-99A6-080020736631"), "Solaris /usr & Apple ZFS"),
    (guid("6A945A3B-1DD2-11B2-99A6-080020736631"), "Solaris reserved 1"),
    (guid("48465300-0000-11AA-AA11-00306543ECAC"), "Apple HFS/HFS+"),
    (guid("7C3457EF-0000-11AA-AA11-00306543ECAC"), "Apple APFS"),
    (guid("426F6F74-0000-11AA-AA11-00306543ECAC"), "Apple boot"),
    (guid("AA31E02A-400F-11DB-9590-000C2911D1B8"), "VMware VMFS"),
    (guid("4FBD7E29-9D25-41B8-AFD0-062C0CEFF05D"), "Ceph OSD"),
];

/// MBR types with sfdisk's names (`sfdisk -T --label dos`, util-linux include/pt-mbr-partnames.h).
const MBR_NAMES: [(u8, &str); 42] = [
    (0x00, "Empty"),
    (0x01, "FAT12"),
    (0x04, "FAT16 <32M"),
    (0x05, "Extended"),
    (0x06, "FAT16"),
    (0x07, "HPFS/NTFS/exFAT"),
    (0x0B, "W95 FAT32"),
    (0x0C, "W95 FAT32 (LBA)"),
    (0x0E, "W95 FAT16 (LBA)"),
    (0x0F, "W95 Ext'd (LBA)"),
    (0x11, "Hidden FAT12"),
    (0x12, "Compaq diagnostics"),
    (0x14, "Hidden FAT16 <32M"),
    (0x16, "Hidden FAT16"),
    (0x17, "Hidden HPFS/NTFS"),
    (0x1B, "Hidden W95 FAT32"),
    (0x1C, "Hidden W95 FAT32 (LBA)"),
    (0x1E, "Hidden W95 FAT16 (LBA)"),
    (0x27, "Hidden NTFS WinRE"),
    (0x39, "Plan 9"),
    (0x41, "PPC PReP Boot"),
    (0x42, "Windows dynamic disk"),
    (0x81, "Minix / old Linux"),
    (0x82, "Linux swap / Solaris"),
    (0x83, "Linux"),
    (0x84, "OS/2 hidden or Intel hibernation"),
    (0x85, "Linux extended"),
    (0x8E, "Linux LVM"),
    (0xA5, "FreeBSD"),
    (0xA6, "OpenBSD"),
    (0xA8, "Darwin UFS"),
    (0xA9, "NetBSD"),
    (0xAF, "HFS / HFS+"),
    (0xBE, "Solaris boot"),
    (0xBF, "Solaris"),
    (0xDA, "Non-FS data"),
    (0xDE, "Dell Utility"),
    (0xEA, "Linux extended boot"),
    (PROTECTIVE, "GPT"),
    (0xEF, "EFI (FAT-12/16/32)"),
    (0xFB, "VMware VMFS"),
    (0xFD, "Linux raid autodetect"),
];
