//! QEMU's enhanced disk format (qemu `docs/interop/qed_spec.rst`; all numbers are little-endian).

use super::access::Named;
use super::host::Host;
use super::{Access, Below, Files, Format, ImageError, Map, Parts, StoredAt, StoredRun};
use crate::fields::{le32, le64};

/// Cluster sizes in bytes, and table sizes in clusters.
const CLUSTERS: std::ops::RangeInclusive<u64> = 4096..=64 << 20;
const TABLES: std::ops::RangeInclusive<u64> = 1..=16;

const ENTRY: u64 = 8;

const ZERO: u64 = 1;

mod field {
    pub(super) const CLUSTER: usize = 4;
    pub(super) const TABLE: usize = 8;
    pub(super) const FEATURES: usize = 16;
    pub(super) const L1_AT: usize = 40;
    pub(super) const SIZE: usize = 48;
    pub(super) const BACKING_AT: usize = 56;
    pub(super) const BACKING_LEN: usize = 60;
}

mod feature {
    pub(super) const BACKING: u64 = 1 << 0;
    pub(super) const NEEDS_CHECK: u64 = 1 << 1;
    pub(super) const BACKING_IS_RAW: u64 = 1 << 2;
    pub(super) const KNOWN: u64 = BACKING | NEEDS_CHECK | BACKING_IS_RAW;
}

struct Qed {
    cluster: u64,
    entries: u64,
    l1_at: u64,
}

pub(super) fn open(host: Host, access: &Access<'_>) -> Result<Parts, ImageError> {
    let raw: [u8; 64] = host.bytes(0)?;
    let (cluster, table) = (u64::from(le32(&raw, field::CLUSTER)), u64::from(le32(&raw, field::TABLE)));
    host.damaged_if(!cluster.is_power_of_two() || !CLUSTERS.contains(&cluster), field::CLUSTER, || {
        format!("the cluster size ({cluster} bytes) is not valid")
    })?;
    host.damaged_if(!table.is_power_of_two() || !TABLES.contains(&table), field::TABLE, || {
        format!("the table size ({table} clusters) is not valid")
    })?;
    let features = le64(&raw, field::FEATURES);
    host.unsupported_if(features & !feature::KNOWN != 0, field::FEATURES, || {
        format!("an unknown feature (bits {:#x})", features & !feature::KNOWN)
    })?;
    let entries = table * cluster / ENTRY;
    let (l1_at, size) = (le64(&raw, field::L1_AT), le64(&raw, field::SIZE));
    let reach = u128::from(entries) * u128::from(entries) * u128::from(cluster);
    host.damaged_if(i64::try_from(size).is_err() || u128::from(size) > reach, field::SIZE, || {
        format!("the disk size ({size} bytes) is not valid")
    })?;
    host.damaged_if(!l1_at.is_multiple_of(cluster) || l1_at == 0, field::L1_AT, || {
        format!("the L1 table at byte {l1_at} is not on a cluster boundary")
    })?;
    let mut remarks = Vec::new();
    if features & feature::NEEDS_CHECK != 0 {
        remarks.push("the image was not closed cleanly".to_owned());
    }
    let mut below = Below::Nothing;
    if features & feature::BACKING != 0 {
        let (at, len) = (le32(&raw, field::BACKING_AT), le32(&raw, field::BACKING_LEN));
        let name = host.backing_name(u64::from(at), len, field::BACKING_LEN as u64)?;
        let format = (features & feature::BACKING_IS_RAW != 0).then_some(Format::Raw);
        below = access.open_below(&Named { by: Format::Qed, role: "backing file", name: &name }, format)?;
    }
    let map = Qed { cluster, entries, l1_at };
    Ok(Parts { below, remarks, ..Parts::new(host, map, "version 1", size, cluster) })
}

impl Map for Qed {
    fn locate(&self, files: &Files, at: u64) -> Result<StoredRun, ImageError> {
        let reach = self.entries * self.cluster;
        let l1_entry_at = self.l1_at.saturating_add(at / reach * ENTRY);
        let l2_at = files.own.le64(l1_entry_at)?;
        if l2_at == 0 {
            return Ok(StoredRun { place: StoredAt::Below, len: reach - at % reach });
        }
        files.own.damaged_if(!l2_at.is_multiple_of(self.cluster), l1_entry_at, || {
            format!("the L2 table at byte {l2_at} is not on a cluster boundary")
        })?;
        let entry_at = l2_at.saturating_add(at % reach / self.cluster * ENTRY);
        let into = at % self.cluster;
        let place = match files.own.le64(entry_at)? {
            0 => StoredAt::Below,
            ZERO => StoredAt::Zero,
            start if start.is_multiple_of(self.cluster) && start < files.own.len() => {
                StoredAt::Host { file: 0, at: start + into }
            }
            start => {
                return Err(files.own.damaged(
                    entry_at,
                    format!("the cluster at byte {start} is outside the file or not on a cluster boundary"),
                ));
            }
        };
        Ok(StoredRun { place, len: self.cluster - into })
    }
}
