//! Names for partition types, the same for both table formats.

use straddle_layout::types::{guid_text, parse_guid};
use straddle_layout::{PartitionType, types};

use crate::error::PlanError;
use crate::plan::Format;

/// Name, GUID, and MBR type. The GUIDs are those of the UEFI specification, the Discoverable Partitions
/// Specification and util-linux (include/pt-gpt-partnames.h); the MBR types of include/pt-mbr-partnames.h.
const ALIASES: [(&str, &str, Option<u8>); 19] = [
    ("linux", "0FC63DAF-8483-4772-8E79-3D69D8477DE4", Some(0x83)),
    ("esp", ESP, Some(0xEF)),
    ("bios", BIOS_BOOT, None),
    ("xbootldr", "BC13C2FF-59E6-4262-A352-B275FD6F7172", Some(0xEA)),
    ("swap", "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F", Some(0x82)),
    ("root", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", Some(0x83)),
    ("root-arm64", "B921B045-1DF0-41C3-AF44-4C6F280D3FAE", Some(0x83)),
    ("usr", "8484680C-9521-48C6-9C11-B0720656F69E", Some(0x83)),
    ("home", "933AC7E1-2EB4-4F13-B844-0E14E2AEF915", Some(0x83)),
    ("srv", "3B8F8425-20E0-4F3B-907F-1A25A76F98E8", Some(0x83)),
    ("var", "4D21B016-B534-45C2-A9FB-5C16E091FD2D", Some(0x83)),
    ("tmp", "7EC6F557-3BC5-4ACA-B293-16EF5DF639D1", Some(0x83)),
    ("raid", "A19D880F-05FC-4D3B-A006-743F0F84911E", Some(0xFD)),
    ("lvm", "E6D6D379-F507-44C2-A23C-238F2A3DF928", Some(0x8E)),
    ("luks", "CA7D7CCB-63ED-4C53-861C-1742536059CC", Some(0x83)),
    ("msdata", "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", Some(0x07)),
    ("msr", "E3C9E316-0B5C-4DB8-817D-F92DF00215AE", None),
    ("prep", "9E1A2D38-C612-4316-AA26-8B49521E5A8B", Some(0x41)),
    ("zfs", "6A898CC3-1DD2-11B2-99A6-080020736631", Some(0xBF)),
];

pub(crate) const ESP: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
pub(crate) const BIOS_BOOT: &str = "21686148-6449-6E6F-744E-656564454649";

/// Resolves `text` to the plan's notation: a GUID in capitals, or hexadecimal digits.
pub(crate) fn resolve(text: &str, format: Format) -> Result<String, PlanError> {
    let unknown = || PlanError::UnknownType { text: text.to_owned(), format };
    if let Some((name, guid, mbr)) = ALIASES.into_iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) {
        return match format {
            Format::Gpt => Ok(guid.to_owned()),
            Format::Mbr => mbr.map(types::mbr_text).ok_or(PlanError::GptOnly { name }),
        };
    }
    match format {
        Format::Gpt => parse_guid(text).filter(|guid| *guid != [0; 16]).map(guid_text).ok_or_else(unknown),
        Format::Mbr => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            let id = u8::from_str_radix(digits, 16).ok().ok_or_else(unknown)?;
            match id {
                0 => Err(unknown()),
                _ if id == types::PROTECTIVE || types::is_extended(id) => Err(PlanError::ReservedType { id }),
                _ => Ok(types::mbr_text(id)),
            }
        }
    }
}

pub(crate) fn gpt_of(mbr: u8) -> Option<&'static str> {
    if matches!(mbr, 0x01 | 0x04 | 0x06 | 0x0B | 0x0C | 0x0E) {
        return Some("msdata");
    }
    ALIASES.into_iter().find(|(.., id)| *id == Some(mbr)).map(|(name, ..)| name)
}

pub(crate) fn of_file_system(fs: &str, format: Format) -> &'static str {
    match (fs, format) {
        ("swap", _) => "swap",
        ("vfat" | "fat32", Format::Mbr) => "c",
        ("vfat" | "fat32" | "ntfs" | "exfat", _) => "msdata",
        ("zfs", _) => "zfs",
        ("lvm", _) => "lvm",
        ("luks", _) => "luks",
        _ => "linux",
    }
}

pub(crate) fn parsed(text: &str, format: Format) -> Option<PartitionType> {
    match format {
        Format::Gpt => parse_guid(text).map(PartitionType::Guid),
        Format::Mbr => u8::from_str_radix(text, 16).ok().map(PartitionType::Mbr),
    }
}

/// The descriptive name of a type in a plan's notation.
pub fn type_name(text: &str, format: Format) -> Option<&'static str> {
    parsed(text, format).and_then(|kind| types::name(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_types_that_the_tables_know() {
        for (name, _, mbr) in ALIASES {
            let guid = resolve(name, Format::Gpt).unwrap();
            assert_eq!(guid_text(parse_guid(&guid).unwrap()), guid, "{name}");
            assert!(type_name(&guid, Format::Gpt).is_some(), "{name}");
            match (resolve(name, Format::Mbr), mbr) {
                (Ok(id), Some(_)) => assert!(type_name(&id, Format::Mbr).is_some(), "{name}"),
                (Err(PlanError::GptOnly { .. }), None) => {}
                (other, _) => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_types_are_given_as_the_table_writes_them() {
        let guid = "0fc63daf-8483-4772-8e79-3d69d8477de4";
        assert_eq!(resolve(guid, Format::Gpt).unwrap(), guid.to_uppercase());
        assert_eq!(resolve("8e", Format::Mbr).unwrap(), "8e");
        assert_eq!(resolve("0xC", Format::Mbr).unwrap(), "c");
        for (text, format) in
            [("83", Format::Gpt), (guid, Format::Mbr), ("nonsense", Format::Gpt), ("0", Format::Mbr)]
        {
            assert!(matches!(resolve(text, format), Err(PlanError::UnknownType { .. })), "{text}");
        }
        assert!(matches!(resolve("5", Format::Mbr), Err(PlanError::ReservedType { id: 5 })));
        assert!(matches!(resolve("ee", Format::Mbr), Err(PlanError::ReservedType { .. })));
    }
}
