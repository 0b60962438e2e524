//! md arrays: `/sys/block/md0/md` (Documentation/admin-guide/md.rst).

use straddle_units::{ByteCount, ByteOffset, KERNEL_SECTOR, LbaCount, Span};

use super::Lower;
use super::runs::{Geometry, Run};
use crate::sysfs::Attributes;

/// Members past this many are not listed. It is more than the kernel takes (`MD_SB_DISKS` of 0.90, 1920 of
/// 1.x).
const MAX_MEMBERS: usize = 2048;

/// A Linux software RAID array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Array {
    /// 0, 1, 4, 5, 6 or 10; -1 is linear, -4 multipath, -5 faulty. `None` for an array without data (a
    /// container).
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
    /// md's word for its state: "in_sync", "spare", ….
    pub state: String,
}

/// Returns md's number of a level, by name.
fn level_number(name: &str) -> Option<i32> {
    match name {
        "linear" => Some(-1),
        "multipath" => Some(-4),
        "faulty" => Some(-5),
        _ => name.strip_prefix("raid")?.parse().ok(),
    }
}

impl Array {
    /// Reads the array that a device's directory describes; `None` when it has no `md`.
    pub(super) fn read(device: &dyn Attributes) -> Option<Self> {
        let text = |name: &str| device.text(&format!("md/{name}"));
        let number = |name: &str| text(name).and_then(|text| first_number(&text));
        let level = text("level")?;
        let members = device
            .list("md")
            .into_iter()
            .filter_map(|entry| Some(member(device, entry.strip_prefix("dev-")?)))
            .take(MAX_MEMBERS);
        Some(Self {
            level: level_number(&level),
            metadata: text("metadata_version").unwrap_or_default(),
            layout: number("layout").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            chunk: ByteCount::new(number("chunk_size").unwrap_or(0)),
            raid_disks: number("raid_disks").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            members: members.collect(),
        })
    }

    /// Returns the members as lower devices, for an array of `size` bytes.
    pub(super) fn lowers(&self, size: ByteCount, remarks: &mut Vec<String>) -> Vec<Lower> {
        let whole = Span::new(ByteOffset::ZERO, size);
        let mut unknown = false;
        let lowers = self.members.iter().map(|member| {
            let runs = whole.and_then(|whole| self.runs(member, whole));
            unknown |= runs.is_none() && member.slot.is_some();
            Lower { device: member.device.clone(), holds_data: true, runs: runs.unwrap_or_default() }
        });
        let lowers = lowers.collect();
        if unknown {
            remarks.push("the position of its data on its members is unknown".to_owned());
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
                let span = Span::new(ByteOffset::ZERO, whole.len().min(end))?;
                let geometry =
                    Geometry { level, layout: self.layout, chunk: self.chunk, disks: self.raid_disks };
                geometry.runs(slot, span, offset)
            }
        }
    }

    /// Returns the part of a RAID0 that spans all its members, which ends where the smallest member ends
    /// (`create_strip_zones`, drivers/md/raid0.c). What follows spans fewer members, in an order that the
    /// kernel does not report.
    fn first_zone(&self) -> Option<ByteCount> {
        let sizes: Option<Vec<ByteCount>> =
            self.members.iter().filter(|member| member.slot.is_some()).map(|member| member.size).collect();
        let smallest = sizes?.into_iter().min()?;
        smallest.floor_to(self.chunk).checked_mul(u64::from(self.raid_disks))
    }

    /// A member of a linear array begins where the previous one ends (`linear_conf`, drivers/md/md-linear.c).
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
    let text = |attribute: &str| device.text(&format!("md/dev-{name}/{attribute}"));
    let number = |attribute: &str| text(attribute).and_then(|text| text.parse::<u64>().ok());
    Member {
        device: name.to_owned(),
        slot: number("slot").and_then(|slot| u32::try_from(slot).ok()),
        offset: number("offset")
            .and_then(|sectors| LbaCount::new(sectors).to_bytes(KERNEL_SECTOR))
            .map(|bytes| ByteOffset::new(bytes.get())),
        size: number("size").and_then(|kib| ByteCount::new(1024).checked_mul(kib)),
        state: text("state").unwrap_or_default(),
    }
}

/// During a reshape some attributes read `new (old)`; this returns the new value.
fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
