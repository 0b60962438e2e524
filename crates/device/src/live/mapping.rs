//! Device-mapper devices: who made them, and the devices that their tables name.

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
    /// Who made it, by the uuid.
    pub owner: Owner,
    /// Its table; `None` when it could not be read.
    pub targets: Option<Vec<DmTarget>>,
}

/// Who made a mapping, by the prefix of its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// LVM.
    Lvm,
    /// cryptsetup, for LUKS of version 1 or 2.
    Luks(u16),
    /// cryptsetup, for anything else with a key: plain dm-crypt, TrueCrypt, BitLocker.
    Crypt,
    /// integritysetup, or cryptsetup for LUKS2 with integrity.
    Integrity,
    /// veritysetup.
    Verity,
    /// multipath.
    Multipath,
    /// kpartx, for a partition of this number.
    Partition(u32),
    /// Someone else.
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

impl Mapping {
    /// Where the device's first byte lies on the device `lower`.
    pub fn first_byte_on(lower: &Lower) -> Option<ByteOffset> {
        match lower.locate(ByteOffset::ZERO) {
            Located::Here(at, _) => Some(at),
            _ => None,
        }
    }

    /// The type of all of its targets, where they are of one.
    pub fn kind(&self) -> Option<&str> {
        let targets = self.targets.as_ref()?;
        let first = &targets.first()?.kind;
        targets.iter().all(|target| target.kind == *first).then_some(first)
    }

    /// The sector or block in which it computes, by its first target.
    pub fn block(&self) -> Option<ByteCount> {
        self.targets.as_ref()?.first()?.block
    }

    /// The LV's name in an LVM name: the volume group, the volume, and which of the devices that make it up. LVM writes
    /// a hyphen of a name twice (`dm_build_dm_name`, LVM2 device_mapper/libdm-common.c).
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

    /// The devices in its table, by the names that `named` gives.
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
