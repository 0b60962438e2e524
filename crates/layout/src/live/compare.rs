//! Differences between the kernel's view and the bytes of the disk.

use std::fmt;

use straddle_device::KernelPartition;
use straddle_units::{ByteCount, ByteOffset};

use super::merge::partner;
use crate::model::content::Content;
use crate::model::layer::{Facts, Layer, Luks, Lv, Mapped, Md, Pv, Segment};
use crate::model::stack::{Damage, Problem, Role, Stack, TableKind};

/// A figure for which the disk and the kernel have different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The layer, such as `LUKS c0` or `partition 1`.
    pub layer: String,
    /// The figure, such as `payload offset`.
    pub figure: String,
    /// Its value on the disk.
    pub on_disk: Said,
    /// Its value in the kernel.
    pub live: Said,
}

/// One side of a disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The value.
    pub value: Value,
    /// The corresponding byte of the drive, if the value is a position on it.
    pub drive: Option<ByteOffset>,
}

/// The value of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A size in bytes, or an offset from the start of the device below.
    Bytes(u64),
    /// A number without a unit.
    Number(i64),
    /// A word.
    Word(&'static str),
    /// Not present.
    Nothing,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)?;
        self.drive.map_or(Ok(()), |drive| write!(f, " (byte {drive} of the drive)"))
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, figure, on_disk, live } = self;
        write!(f, "{layer}: {figure} is {on_disk} on the disk, {live} in the kernel")
    }
}

struct Differences<'a> {
    on_disk: &'a Layer,
    live: &'a Layer,
    found: &'a mut Vec<Disagreement>,
}

impl Differences<'_> {
    fn push(&mut self, figure: impl Into<String>, on_disk: Said, live: Said) {
        self.found.push(Disagreement { layer: describe(self.live), figure: figure.into(), on_disk, live });
    }

    fn sizes(&mut self, figure: &str, on_disk: ByteCount, live: ByteCount) {
        if on_disk != live {
            self.push(figure, Said::bytes(on_disk.get()), Said::bytes(live.get()));
        }
    }

    fn numbers(&mut self, figure: &str, on_disk: i64, live: i64) {
        if on_disk != live {
            let said = |number| Said { value: Value::Number(number), drive: None };
            self.push(figure, said(on_disk), said(live));
        }
    }

    fn places(&mut self, figure: &str, on_disk: Option<ByteOffset>, live: Option<ByteOffset>) {
        let (Some(here), Some(there)) = (on_disk, live) else { return };
        if here != there {
            let start = self.on_disk.drive.or(self.live.drive);
            let drive = |at: ByteOffset| start?.checked_add(ByteCount::new(at.get()));
            self.push(figure, Said::place(here, drive(here)), Said::place(there, drive(there)));
        }
    }
}

impl Said {
    fn bytes(bytes: u64) -> Self {
        Self { value: Value::Bytes(bytes), drive: None }
    }

    fn place(at: ByteOffset, drive: Option<ByteOffset>) -> Self {
        Self { value: Value::Bytes(at.get()), drive }
    }

    const NOTHING: Self = Self { value: Value::Nothing, drive: None };
}

fn describe(layer: &Layer) -> String {
    if layer.name.is_empty() { layer.kind.to_string() } else { format!("{} {}", layer.kind, layer.name) }
}

/// Returns every difference between the two views of a partition and the layers above it.
pub fn compare(on_disk: &Layer, live: &Layer) -> Vec<Disagreement> {
    let mut found = Vec::new();
    compare_layer(on_disk, live, &mut found);
    found
}

fn compare_layer(on_disk: &Layer, live: &Layer, found: &mut Vec<Disagreement>) {
    let Some(same) = partner(on_disk, std::slice::from_ref(live)) else {
        // Only layers with a header must match the disk. Firmware RAID metadata is not read.
        let is_external = on_disk.kind.is_firmware_raid()
            && matches!(&live.facts, Facts::Md(md) if md.version == "external");
        if !is_external && matches!(live.facts, Facts::Md(_) | Facts::Pv(_) | Facts::Luks(_)) {
            let said = |layer: &Layer| Said { value: Value::Word(layer.kind.name()), drive: layer.drive };
            Differences { on_disk, live, found }.push("content", said(on_disk), said(live));
        }
        return;
    };
    // Behind mappings of the kernel, positions count on these, not on the device with the header.
    let is_direct = std::ptr::eq(same, live);
    let mut differences = Differences { on_disk, live: same, found };
    match (&on_disk.facts, &same.facts) {
        (Facts::Md(here), Facts::Md(there)) => compare_md(here, there, &mut differences),
        (Facts::Pv(here), Facts::Pv(_)) => compare_pv(here, &mut differences),
        (Facts::Lv(here), Facts::Lv(there)) => compare_lv(here, there, &mut differences),
        (Facts::Luks(here), Facts::Luks(there)) => compare_luks(here, there, is_direct, &mut differences),
        (Facts::Mapped(here), Facts::Mapped(there)) if is_direct => {
            compare_mapped(here, there, &mut differences)
        }
        _ => {}
    }
    for child in &on_disk.children {
        // A layer without a partner was not set up, or is the kernel's own; a single child, unless an LV, must match.
        let only = match &same.children[..] {
            [only] if child.kind != Content::LogicalVolume => Some(only),
            _ => None,
        };
        if let Some(partner) = partner(child, &same.children).or(only) {
            compare_layer(child, partner, found);
        }
    }
}

fn compare_md(here: &Md, there: &Md, differences: &mut Differences<'_>) {
    differences.numbers("RAID level", i64::from(here.level), i64::from(there.level));
    differences.numbers("number of members", i64::from(here.raid_disks), i64::from(there.raid_disks));
    if here.data_members().is_some() && there.data_members().is_some() {
        differences.sizes("chunk size", here.chunk, there.chunk);
        // The kernel reports 0 or -1 for a RAID0 whose members have equal sizes.
        let is_reported = |md: &Md| md.level != 0 || md.layout != 0;
        if is_reported(here) && is_reported(there) {
            differences.numbers("layout", i64::from(here.layout), i64::from(there.layout));
        }
    }
    // With external metadata, several arrays share the same members.
    if there.version != "external" && there.role.is_some() {
        let offset = |md: &Md| Some(ByteOffset::new(md.data_offset.get()));
        differences.places("data offset", offset(here), offset(there));
    }
}

fn compare_pv(here: &Pv, differences: &mut Differences<'_>) {
    let Pv { data_start, extent_size, .. } = here;
    let live = differences.live;
    for child in &live.children {
        let Facts::Lv(lv) = &child.facts else { continue };
        for at in lv.segments.iter().filter_map(|segment| segment.on_pv) {
            let expected = match at.checked_since(*data_start) {
                None => Some(*data_start),
                Some(_) if *extent_size == ByteCount::ZERO => None,
                Some(into) => {
                    let past = into.remainder(*extent_size);
                    at.checked_back(past).filter(|_| past != ByteCount::ZERO)
                }
            };
            differences.places(&format!("extent of {}", child.name), expected, expected.map(|_| at));
        }
    }
}

fn compare_lv(here: &Lv, there: &Lv, differences: &mut Differences<'_>) {
    let end = |lv: &Lv| lv.segments.iter().map(|segment| segment.span.end().get()).max().unwrap_or(0);
    if !there.segments.is_empty() && !here.segments.is_empty() {
        differences.sizes("size", ByteCount::new(end(here)), ByteCount::new(end(there)));
    }
    // Otherwise the two views record different positions: those of images, or of metadata.
    let is_plain = |segment: &&Segment| matches!(segment.kind.as_str(), "striped" | "linear");
    for segment in here.segments.iter().filter(is_plain) {
        let start = segment.span.start();
        let mut others = there.segments.iter().filter(is_plain);
        let Some(other) = others.find(|other| other.span.start() == start) else { continue };
        let (Some(here), Some(there)) = (segment.on_pv, other.on_pv) else { continue };
        if here == there {
            continue;
        }
        let drive = |layer: &Layer| {
            layer.space.iter().find(|piece| piece.span.start() == start).map(|piece| piece.drive)
        };
        let (on_disk, live) = (drive(differences.on_disk), drive(differences.live));
        let figure = format!("position of the segment at byte {start} on the physical volume");
        differences.push(figure, Said::place(here, on_disk), Said::place(there, live));
    }
}

fn compare_luks(here: &Luks, there: &Luks, is_direct: bool, differences: &mut Differences<'_>) {
    differences.numbers("LUKS version", i64::from(here.version), i64::from(there.version));
    if is_direct {
        differences.places("payload offset", here.payload, there.payload);
    }
    if here.sector_size != ByteCount::ZERO && there.sector_size != ByteCount::ZERO {
        differences.sizes("encryption sector", here.sector_size, there.sector_size);
    }
}

fn compare_mapped(here: &Mapped, there: &Mapped, differences: &mut Differences<'_>) {
    differences.places("payload offset", here.payload, there.payload);
    if let (Some(here), Some(there)) = (here.block, there.block) {
        differences.sizes("block", here, there);
    }
}

/// Returns where the table and the kernel's list differ, but for extended ones: it lists their first sectors.
pub fn compare_partitions(on_disk: &Stack, kernel: &[KernelPartition]) -> Vec<Disagreement> {
    // An unread table, damaged or for another disk, is a finding of its own.
    let is_unread = |problem: &Problem| {
        matches!(
            problem,
            Problem::GptPrimaryDamaged { .. } | Problem::GptUnusable { .. } | Problem::GptPastEnd { .. }
        ) || matches!(problem.damage(), Damage::Protection | Damage::Sectors)
    };
    if kernel.is_empty() && on_disk.problems.iter().any(is_unread) {
        return Vec::new();
    }
    // So is a partition that passes the disk's end: Linux cuts it off or leaves it out.
    let passes_end = |number: u32| {
        let mut problems = on_disk.problems.iter();
        problems.any(|problem| matches!(problem, Problem::OutOfRange { number: of, .. } if *of == number))
    };
    // Of a dynamic disk, Linux lists the volumes of its database.
    let is_of_kernel =
        matches!(on_disk.kind, TableKind::Kernel | TableKind::Content(_) | TableKind::Foreign(_));
    if is_of_kernel || (on_disk.kind == TableKind::Mbr && on_disk.dynamic().is_some()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut push = |number: u32, figure: &str, on_disk, live| {
        let (layer, figure) = (format!("partition {number}"), figure.to_owned());
        found.push(Disagreement { layer, figure, on_disk, live });
    };
    let place = |at: ByteOffset| Said::place(at, Some(at));
    for partition in &on_disk.partitions {
        let (number, span) = (partition.number, partition.span);
        if partition.role == Role::Extended || passes_end(number) {
            continue;
        }
        match kernel.iter().find(|listed| listed.number == number) {
            None => push(number, "start", place(span.start()), Said::NOTHING),
            Some(listed) => {
                if listed.span.start() != span.start() {
                    push(number, "start", place(span.start()), place(listed.span.start()));
                }
                if listed.span.len() != span.len() {
                    push(number, "size", Said::bytes(span.len().get()), Said::bytes(listed.span.len().get()));
                }
            }
        }
    }
    let is_in_slice = |listed: &&KernelPartition| {
        let slices = on_disk.partitions.iter().filter(|partition| partition.has_foreign_table());
        slices.into_iter().any(|slice| slice.span.contains(listed.span))
    };
    for listed in kernel.iter().filter(|listed| !is_in_slice(listed)) {
        if !on_disk.partitions.iter().any(|partition| partition.number == listed.number) {
            push(listed.number, "start", Said::NOTHING, place(listed.span.start()));
        }
    }
    found
}
