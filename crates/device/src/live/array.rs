//! md arrays: `/sys/block/md0/md` (Documentation/admin-guide/md.rst).

use std::str::FromStr;

use straddle_units::{ByteCount, ByteOffset, Span};

use super::Lower;
use super::runs::{Geometry, Run};
use crate::sysfs::Attributes;

/// More than the kernel takes (`MD_SB_DISKS` of 0.90, 1920 of 1.x).
const MAX_MEMBERS: usize = 2048;

/// A Linux software RAID array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Array {
    /// 0, 1, 4, 5, 6 or 10; -1 is linear, -4 multipath, -5 faulty. `None` for a container.
    pub level: Option<i32>,
    /// The metadata format: "0.90", "1.2", "external:imsm", "none".
    pub metadata: String,
    /// md's number for the placement of parity or of copies.
    pub layout: u32,
    /// The chunk size; zero where nothing is striped.
    pub chunk: ByteCount,
    /// The number of members, without spares.
    pub raid_disks: u32,
    /// The members, including spares.
    pub members: Vec<Member>,
}

/// A member of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The device's name.
    pub device: String,
    /// Its slot in the array; `None` for spares.
    pub slot: Option<u32>,
    /// Where the array's data starts on the member.
    pub offset: Option<ByteOffset>,
    /// How much of the member the array uses.
    pub size: Option<ByteCount>,
}

fn level_number(name: &str) -> Option<i32> {
    match name {
        "linear" => Some(-1),
        "multipath" => Some(-4),
        "faulty" => Some(-5),
        _ => name.strip_prefix("raid")?.parse().ok(),
    }
}

impl Array {
    pub(super) fn read(device: &dyn Attributes) -> Option<Self> {
        let level = device.text("md/level")?;
        let members = device.list("md").into_iter();
        let members = members.filter_map(|entry| Some(member(device, entry.strip_prefix("dev-")?)));
        Some(Self {
            level: level_number(&level),
            metadata: device.text("md/metadata_version").unwrap_or_default(),
            layout: first_number(device, "md/layout").unwrap_or(0),
            chunk: ByteCount::new(first_number(device, "md/chunk_size").unwrap_or(0)),
            raid_disks: first_number(device, "md/raid_disks").unwrap_or(0),
            members: members.take(MAX_MEMBERS).collect(),
        })
    }

    pub(super) fn lowers(&self, size: ByteCount, remarks: &mut Vec<String>) -> Vec<Lower> {
        let mut unknown = false;
        let lowers = self.members.iter().map(|member| {
            let runs = self.runs(member, Span::first(size));
            unknown |= runs.is_none() && member.slot.is_some();
            Lower { device: member.device.clone(), holds_data: true, runs: runs.unwrap_or_default() }
        });
        let lowers = lowers.collect();
        if unknown {
            remarks.push("the position of the array's data on its members is unknown".to_owned());
        }
        lowers
    }

    fn runs(&self, member: &Member, whole: Span) -> Option<Vec<Run>> {
        let (level, slot, offset) = (self.level?, member.slot?, member.offset?);
        match level {
            -4 | -5 => Some(vec![Run::whole(whole, offset)]),
            -1 => self.linear_run(member, slot, offset, whole),
            _ => {
                let end = if level == 0 { self.first_zone()? } else { whole.len() };
                let span = Span::first(whole.len().min(end));
                let (layout, chunk, disks) = (self.layout, self.chunk, self.raid_disks);
                Geometry { level, layout, chunk, disks }.runs(slot, span, offset)
            }
        }
    }

    /// RAID0 over all its members ends where the smallest one ends (`create_strip_zones`,
    /// drivers/md/raid0.c). The kernel does not report the order of what follows.
    fn first_zone(&self) -> Option<ByteCount> {
        let sizes: Option<Vec<ByteCount>> =
            self.members.iter().filter(|member| member.slot.is_some()).map(|member| member.size).collect();
        let smallest = sizes?.into_iter().min()?;
        smallest.floor_to(self.chunk).checked_mul(u64::from(self.raid_disks))
    }

    /// Begins where the previous member ends (`linear_conf`, drivers/md/md-linear.c).
    fn linear_run(&self, member: &Member, slot: u32, offset: ByteOffset, whole: Span) -> Option<Vec<Run>> {
        let chunk = self.chunk.max(ByteCount::new(1));
        let used = |member: &Member| member.size.map(|size| size.floor_to(chunk));
        let mut start = ByteOffset::ZERO;
        for before in 0..slot {
            let before = self.members.iter().find(|member| member.slot == Some(before))?;
            start = start.checked_add(used(before)?)?;
        }
        let len = used(member)?.min(whole.end().checked_since(start)?);
        Some(vec![Run::whole(Span::new(start, len)?, offset)])
    }
}

fn member(device: &dyn Attributes, name: &str) -> Member {
    let path = |attribute: &str| format!("md/dev-{name}/{attribute}");
    Member {
        device: name.to_owned(),
        slot: device.text(&path("slot")).and_then(|slot| slot.parse().ok()),
        offset: device.sectors(&path("offset")).map(|bytes| ByteOffset::new(bytes.get())),
        size: device.number(&path("size")).and_then(|kib| ByteCount::new(1024).checked_mul(kib)),
    }
}

/// The new value of `new (old)`, during a reshape.
fn first_number<T: FromStr>(device: &dyn Attributes, name: &str) -> Option<T> {
    device.text(name)?.split_whitespace().next()?.parse().ok()
}
