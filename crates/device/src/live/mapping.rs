use straddle_units::{ByteCount, ByteOffset};

use super::Lower;
use super::runs::Located;
use super::table::DmTarget;

/// A device-mapper device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its name, as in /dev/mapper.
    pub name: String,
    /// Its uuid; empty where it has none.
    pub uuid: String,
    /// The program that made it, by the uuid.
    pub owner: Owner,
    /// Its table; `None` when it could not be read.
    pub targets: Option<Vec<DmTarget>>,
}

/// The program that made a mapping, by the prefix of its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// LVM.
    Lvm,
    /// cryptsetup, for LUKS of version 1 or 2.
    Luks(u16),
    /// cryptsetup, for the other keyed formats: plain dm-crypt, TrueCrypt, BitLocker.
    Crypt,
    /// integritysetup, or cryptsetup for LUKS2 with integrity.
    Integrity,
    /// veritysetup.
    Verity,
    /// multipath.
    Multipath,
    /// kpartx, for a partition of this number.
    Partition(u32),
    /// Another program.
    Other,
}

impl Owner {
    pub(super) fn of(uuid: &str) -> Self {
        const PREFIXES: [(&str, Owner); 7] = [
            ("LVM-", Owner::Lvm),
            ("CRYPT-LUKS1-", Owner::Luks(1)),
            ("CRYPT-LUKS2-", Owner::Luks(2)),
            ("CRYPT-INTEGRITY-", Owner::Integrity),
            ("CRYPT-VERITY-", Owner::Verity),
            ("CRYPT-", Owner::Crypt),
            ("mpath-", Owner::Multipath),
        ];
        let known = PREFIXES.iter().find(|(prefix, _)| uuid.starts_with(prefix));
        let partition = || {
            let (number, _) = uuid.strip_prefix("part")?.split_once('-')?;
            number.parse().ok().map(Self::Partition)
        };
        known.map(|(_, owner)| *owner).or_else(partition).unwrap_or(Self::Other)
    }
}

/// Before an optional number (`lib/misc/lvm-string.c`).
const PARTS_OF_VOLUMES: [&str; 18] = [
    "_rimage_",
    "_rmeta_",
    "_mimage_",
    "_mlog",
    "_mimagetmp_",
    "_tdata",
    "_tmeta",
    "_cdata",
    "_cmeta",
    "_cpool",
    "_cvol",
    "_corig",
    "_wcorig",
    "_iorig",
    "_imeta",
    "_vdata",
    "_vorigin",
    "_pmspare",
];

/// "LVM-", and the uuids of group and volume (`build_dm_uuid`, LVM2 lib/activate/activate.c).
const LEN_OF_LVM_UUID: usize = 4 + 2 * 32;

/// LVM lists parts of volumes only with `-a`. The name is without its group's.
pub fn is_part_of_volume(volume: &str) -> bool {
    let name = volume.trim_end_matches(|c: char| c.is_ascii_digit());
    PARTS_OF_VOLUMES.iter().any(|part| name.ends_with(part))
}

/// Whether a device-mapper device belongs to another one: images, metadata, origins and pools of LVM; lower
/// halves and temporary devices of cryptsetup; private devices of Stratis; partitions of a mapping.
pub fn is_internal(uuid: &str, name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CRYPT-TEMP-", "CRYPT-SUBDEV-", "LVM-SUBDEV-", "stratis-1-private-"];
    match Owner::of(uuid) {
        Owner::Lvm => {
            let mapping =
                Mapping { name: name.to_owned(), uuid: String::new(), owner: Owner::Lvm, targets: None };
            let volume = mapping.lvm_name();
            let is_part =
                volume.is_some_and(|(_, volume, layer)| layer.is_some() || is_part_of_volume(&volume));
            uuid.len() > LEN_OF_LVM_UUID || is_part
        }
        Owner::Partition(_) => true,
        Owner::Integrity => name.ends_with("_dif"),
        _ => {
            PREFIXES.iter().any(|prefix| uuid.starts_with(prefix))
                || name.starts_with("temporary-cryptsetup-")
        }
    }
}

impl Mapping {
    /// Returns where the device's first byte lies on the device `lower`.
    pub fn first_byte_on(lower: &Lower) -> Option<ByteOffset> {
        match lower.locate(ByteOffset::ZERO) {
            Located::Here(at, _) => Some(at),
            _ => None,
        }
    }

    /// Returns the type of its targets, if all have the same type.
    pub fn kind(&self) -> Option<&str> {
        let targets = self.targets.as_ref()?;
        let first = &targets.first()?.kind;
        targets.iter().all(|target| target.kind == *first).then_some(first)
    }

    /// Returns the sector or block size in which it computes, as given by its first target.
    pub fn block(&self) -> Option<ByteCount> {
        self.targets.as_ref()?.first()?.block
    }

    /// Splits an LVM name into group, volume and, for a part of a volume, its name. LVM doubles each hyphen
    /// within a name (`dm_build_dm_name`, LVM2 device_mapper/libdm-common.c).
    pub fn lvm_name(&self) -> Option<(String, String, Option<String>)> {
        let mut parts = Vec::new();
        let mut part = String::new();
        let mut chars = self.name.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '-' || chars.next_if_eq(&'-').is_some() {
                part.push(c);
            } else {
                parts.push(std::mem::take(&mut part));
            }
        }
        parts.push(part);
        let mut parts = parts.into_iter();
        let (group, volume) = (parts.next()?, parts.next()?);
        let layer = parts.collect::<Vec<String>>().join("-");
        Some((group, volume, (!layer.is_empty()).then_some(layer)))
    }

    pub(super) fn lowers(&self, named: impl Fn(&str) -> Option<String>) -> Vec<Lower> {
        let mut lowers: Vec<Lower> = Vec::new();
        for on in self.targets.iter().flatten().flat_map(|target| &target.on) {
            let device = named(&on.device).unwrap_or_else(|| on.device.clone());
            match lowers.iter_mut().find(|lower| lower.device == device) {
                Some(lower) => {
                    lower.holds_data |= on.holds_data;
                    lower.runs.extend(&on.runs);
                }
                None => lowers.push(Lower { device, holds_data: on.holds_data, runs: on.runs.clone() }),
            }
        }
        lowers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_known_by_their_prefix() {
        let owner = Owner::of;
        assert_eq!(owner("LVM-abc"), Owner::Lvm);
        assert_eq!(owner("CRYPT-LUKS2-0-x"), Owner::Luks(2));
        assert_eq!(owner("CRYPT-PLAIN-x"), Owner::Crypt);
        assert_eq!(owner("part12-mpath-x"), Owner::Partition(12));
        assert_eq!([owner("parts"), owner("")], [Owner::Other; 2]);
    }

    #[test]
    fn parts_of_other_mappings_are_known() {
        let uuid = format!("LVM-{}", "x".repeat(64));
        let hidden = |name: &str, suffix: &str| is_internal(&format!("{uuid}{suffix}"), name);
        // As `dmsetup info -c -o name,uuid` shows them on LVM 2.03. `lvs` without `-a` lists none of them.
        for (name, suffix) in [
            ("vg-it_rimage_0", ""),
            ("vg-it_rmeta_11", ""),
            ("vg-it_mimage_1", ""),
            ("vg-it_mlog", ""),
            ("vg-it_rimage_0_iorig", "-real"),
            ("vg-it_rimage_0_imeta", ""),
            ("vg-data_tdata", "-tdata"),
            ("vg-data_tmeta", "-tmeta"),
            ("vg-data-tpool", "-tpool"),
            ("vg-data", "-pool"),
            ("vg-it-real", "-real"),
            ("vg-sn-cow", "-cow"),
            ("vg-it_corig", "-real"),
            ("vg-fast_cvol", "-cvol"),
            ("vg-fast_cvol-cmeta", "-cmeta"),
            ("vg-lvol0_pmspare", ""),
        ] {
            assert!(hidden(name, suffix), "{name}");
        }
        for name in ["vg-it", "vg-rimage", "my--vg-a--b", "vg-a_tdata1x", "vg-home_meta"] {
            assert!(!hidden(name, ""), "{name}");
        }
        assert!(is_internal("CRYPT-TEMP-x", "temporary-cryptsetup-1"));
        assert!(
            is_internal("CRYPT-SUBDEV-LUKS2-x-c1_dif", "c1_dif")
                && is_internal("part2-mpath-x", "mpatha-part2")
        );
        for (uuid, name) in
            [("CRYPT-LUKS2-x-c1", "c1"), ("mpath-x", "mpatha"), ("CRYPT-INTEGRITY-x", "i1"), ("", "st")]
        {
            assert!(!is_internal(uuid, name), "{name}");
        }
    }

    #[test]
    fn hyphens_in_lvm_names_are_written_twice() {
        let name = |name: &str| {
            let mapping =
                Mapping { name: name.to_owned(), uuid: String::new(), owner: Owner::Lvm, targets: None };
            mapping.lvm_name()
        };
        let expected = |group: &str, volume: &str, layer: Option<&str>| {
            Some((group.to_owned(), volume.to_owned(), layer.map(str::to_owned)))
        };
        assert_eq!(name("vg-root"), expected("vg", "root", None));
        assert_eq!(name("my--vg-a--b-tpool"), expected("my-vg", "a-b", Some("tpool")));
        assert_eq!(name("vg-pool_tdata"), expected("vg", "pool_tdata", None));
        assert_eq!(name("plain"), None);
    }
}
