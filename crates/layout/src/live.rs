//! The kernel's devices on a partition or a disk, as layers like those read from its bytes.
//!
//! [`merge()`] keeps what is on the disk and adds what only a running machine shows: what is behind a key, in a pool,
//! or on an array with other members.

mod compare;
mod ground;
mod merge;

use std::collections::BTreeSet;

use straddle_device::KernelPartition;
use straddle_device::live::table::DmTarget;
use straddle_device::live::{Array, LiveDevice, LiveKind, Located, Lower, Machine, Mapping, Owner};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use crate::fs;
use crate::model::content::{Content, FsKind, VolumeKind};
use crate::model::layer::{Facts, Layer, Luks, Lv, Mapped, Md, Pv, Segment};
use crate::model::stack::Stack;
use crate::model::view::{Piece, View, remove_overlaps};
use crate::reader::Reader;
use crate::signature;
use crate::tables::kernel::kernel_stack;
pub use compare::{Disagreement, compare_partitions};
use ground::Ground;
pub use merge::merge;

/// Stands for a device that records nothing about the device below.
static NOWHERE: Lower = Lower { device: String::new(), holds_data: true, runs: Vec::new() };

struct Standing<'a> {
    device: &'a LiveDevice,
    ground: Ground<'a>,
    /// The device's position in its PV, and the name of the volume group.
    volume: Option<(Ground<'a>, &'a str)>,
}

/// Adds what the kernel has set up on the disk `name`. Returns where it differs, and what was not examined.
pub fn attach(
    machine: &Machine,
    name: &str,
    kernel: &[KernelPartition],
    stack: &mut Stack,
) -> (Vec<Disagreement>, Vec<String>) {
    let mut remarks: BTreeSet<String> = machine.remarks().iter().cloned().collect();
    // A kernel that does not look for partitions here does not disagree with the table.
    let unlisted = machine.never_lists_partitions(name).filter(|_| kernel.is_empty());
    let disagreements = match unlisted {
        Some(_) => Vec::new(),
        None => compare_partitions(stack, kernel),
    };
    if let Some(why) = unlisted.filter(|_| !stack.partitions.is_empty()) {
        remarks.insert(why.to_owned());
    }
    let mut beside = |on_disk: Option<Layer>, device: &str, start: ByteOffset| {
        let (live, left_out) = machine.layers(device);
        remarks.extend(left_out);
        let live = live.and_then(|device| layers(&device, start));
        merge(on_disk, live)
    };
    if stack.partitions.is_empty() {
        stack.layer = beside(stack.layer.take(), name, ByteOffset::ZERO);
    }
    for partition in &mut stack.partitions {
        if let Some(listed) = kernel.iter().find(|listed| listed.number == partition.number) {
            // The table may have changed since the kernel read it.
            partition.layer = beside(partition.layer.take(), &listed.name, listed.span.start());
        }
    }
    (disagreements, remarks.into_iter().collect())
}

/// Returns the layers on `device`, a partition or a whole disk, whose first byte is byte `start` of the
/// drive. `None` if the kernel has set up nothing on it and it is not in use. Positions below count as in
/// [`crate::read_layers`]: those of the first layer count from the start of the drive.
pub fn layers(device: &LiveDevice, start: ByteOffset) -> Option<Layer> {
    let ground = Ground::first(start, device.size);
    let group = match &device.kind {
        LiveKind::Dm(mapping) if mapping.owner == Owner::Lvm => mapping.lvm_name().map(|(group, ..)| group),
        _ => None,
    };
    let volume = group.as_deref().map(|group| (ground, group));
    let place = Standing { device, ground, volume };
    let mut found = on(&place, true);
    let layer = if found.len() < 2 {
        found.pop()?
    } else {
        Layer {
            space: place.ground.pieces(),
            children: found,
            ..place.layer(Content::Live("mappings"), Facts::Opaque)
        }
    };
    Some(shifted(layer, start))
}

impl Standing<'_> {
    fn layer(&self, kind: Content, facts: Facts) -> Layer {
        let below = Span::first(self.ground.len());
        Layer::new(kind, facts, below, self.ground.drive_at(ByteOffset::ZERO))
    }
}

/// The first device's own content is included only if in use.
fn on(place: &Standing<'_>, is_first: bool) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut volumes: Vec<(&LiveDevice, &Mapping, String)> = Vec::new();
    let mut partitions = Vec::new();
    let holds_data =
        |holder: &&LiveDevice| holder.lower(&place.device.name).is_none_or(|lower| lower.holds_data);
    for holder in place.device.holders.iter().filter(holds_data) {
        match &holder.kind {
            LiveKind::Partition(number) => partitions.push((holder, *number)),
            LiveKind::Dm(mapping) if mapping.owner == Owner::Lvm => match mapping.lvm_name() {
                Some((group, ..)) => volumes.push((holder, mapping, group)),
                None => layers.push(mapped(place, holder, mapping)),
            },
            LiveKind::Dm(mapping) => layers.push(mapped(place, holder, mapping)),
            LiveKind::Md(array) => layers.push(member(place, holder, array)),
            LiveKind::Bcache => layers.push(bcache(place, holder)),
            // No other kind of device is stacked on another.
            LiveKind::Disk | LiveKind::Loop(..) => {}
        }
    }
    layers.extend(logical_volumes(place, &volumes));
    layers.extend((!partitions.is_empty()).then(|| table(place, &partitions)));
    if place.device.used_by.is_used() || (place.device.holders.is_empty() && !is_first) {
        layers.extend(content(place));
    }
    layers
}

fn of_mount(name: &str) -> Content {
    let known = match name {
        "udf" | "ocfs2" | "gfs2" | "bcachefs" => signature::named(name),
        "ntfs3" => Some(Content::Live("ntfs3")),
        _ => FsKind::mounted(name).map(Content::FileSystem),
    };
    known.unwrap_or(Content::Live("filesystem"))
}

/// Its file system, recognised by its own bytes, and what uses it.
fn content(place: &Standing<'_>) -> Option<Layer> {
    let usage = &place.device.used_by;
    let (found, mut remarks) = match read_content(place) {
        Ok(found) => (found, Vec::new()),
        Err(why) => (None, vec![format!("the contents cannot be read: {why}")]),
    };
    let mount = usage.mounts.first();
    let mounted = mount.map(|mount| of_mount(&mount.kind));
    let in_use = mounted.or_else(|| usage.is_swap.then_some(FsKind::Swap.into()));
    let mut layer = found.or_else(|| Some(place.layer(in_use?, Facts::Opaque)))?;
    if layer.kind.is_member() && in_use.is_none() {
        remarks.push("the device is not active, so its contents were not read".to_owned());
    }
    if let Some(mount) = mount {
        layer.name = straddle_device::shown::printable(&mount.point.to_string_lossy());
    }
    Some(Layer { remarks, ..layer })
}

fn read_content(place: &Standing<'_>) -> Result<Option<Layer>, String> {
    let medium = place.device.open()?;
    let reader = Reader::open(&medium, BlockSize::B512).map_err(|error| error.to_string())?;
    let Some(content) = reader.whole() else { return Ok(None) };
    let mut layer = place.layer(content, Facts::Opaque);
    if let Content::FileSystem(kind) = content {
        fs::fill_in(&mut layer, kind, &View::of_drive(&medium));
    }
    Ok(Some(layer))
}

fn upper(place: &Standing<'_>, holder: &LiveDevice, kind: Content, facts: Facts) -> Layer {
    let lower = holder.lower(&place.device.name).unwrap_or(&NOWHERE);
    let ground = Ground::on(&place.ground, lower, holder.size);
    let above = Standing { device: holder, ground, volume: None };
    finish(place.layer(kind, facts), &above)
}

fn finish(layer: Layer, above: &Standing<'_>) -> Layer {
    Layer {
        space: above.ground.pieces(),
        logical: above.device.logical,
        children: on(above, false),
        remarks: above.device.remarks.clone(),
        ..layer
    }
}

fn member(place: &Standing<'_>, holder: &LiveDevice, array: &Array) -> Layer {
    const VERSIONS: [&str; 5] = ["0.90", "1.0", "1.1", "1.2", "none"];
    let member = array.members.iter().find(|member| member.device == place.device.name);
    let md = Md {
        version: VERSIONS.into_iter().find(|version| *version == array.metadata).unwrap_or("external"),
        level: array.level.unwrap_or(i32::MIN),
        layout: array.layout,
        chunk: array.chunk,
        raid_disks: array.raid_disks,
        role: member.and_then(|member| member.slot),
        data_offset: ByteCount::new(member.and_then(|member| member.offset).unwrap_or_default().get()),
        data_size: member.and_then(|member| member.size).unwrap_or_default(),
    };
    // An array without a level is a container: other arrays use the same members.
    let facts = if array.level.is_some() { Facts::Md(md) } else { Facts::Opaque };
    Layer { name: holder.name.clone(), ..upper(place, holder, VolumeKind::Md.into(), facts) }
}

fn bcache(place: &Standing<'_>, holder: &LiveDevice) -> Layer {
    let payload = holder.lower(&place.device.name).and_then(Mapping::first_byte_on);
    let facts = Facts::Mapped(Mapped { payload, ..Mapped::default() });
    Layer { name: holder.name.clone(), ..upper(place, holder, VolumeKind::Bcache.into(), facts) }
}

fn mapped(place: &Standing<'_>, holder: &LiveDevice, mapping: &Mapping) -> Layer {
    let lower = holder.lower(&place.device.name);
    let payload = lower.and_then(Mapping::first_byte_on);
    let (kind, facts) = match mapping.owner {
        Owner::Luks(version) => {
            let sector_size = mapping.block().unwrap_or(ByteCount::ZERO);
            (VolumeKind::Luks.into(), Facts::Luks(Luks { version, payload, sector_size, ..Luks::default() }))
        }
        owner => (
            mapping_kind(owner, mapping),
            Facts::Mapped(Mapped { payload, block: mapping.block(), cache: None }),
        ),
    };
    let uuid = uuid_of(mapping);
    let layer = Layer { name: mapping.name.clone(), uuid, ..upper(place, holder, kind, facts) };
    match (mapping.owner, payload) {
        (Owner::Partition(_) | Owner::Other, Some(payload)) => Layer {
            below: Span::new(payload, holder.size).unwrap_or(layer.below),
            drive: place.ground.drive_at(payload),
            ..layer
        },
        _ => layer,
    }
}

/// On-disk UUID, from a mapping's: a logical volume's with its group's (and a suffix for LVM's hidden devices); a
/// LUKS header's. Empty for others.
fn uuid_of(mapping: &Mapping) -> String {
    let on_disk = match mapping.owner {
        Owner::Lvm => mapping.uuid.strip_prefix("LVM-"),
        // CRYPT-LUKS2-UUID-NAME
        Owner::Luks(_) => mapping.uuid.split('-').nth(2),
        _ => None,
    };
    on_disk.unwrap_or_default().to_owned()
}

fn mapping_kind(owner: Owner, mapping: &Mapping) -> Content {
    const INTEGRITY: Content = Content::Volume(VolumeKind::Integrity);
    const TARGETS: [(&str, Content); 14] = [
        ("linear", Content::Live("dm-linear")),
        ("striped", Content::Live("dm-striped")),
        ("crypt", Content::Live("dm-crypt")),
        ("integrity", INTEGRITY),
        ("verity", Content::Live("dm-verity")),
        ("multipath", Content::Live("mpath_member")),
        ("delay", Content::Live("dm-delay")),
        ("flakey", Content::Live("dm-flakey")),
        ("raid", Content::Live("dm-raid")),
        ("mirror", Content::Live("dm-mirror")),
        ("thin-pool", Content::Live("dm-thin-pool")),
        ("thin", Content::Live("dm-thin")),
        ("cache", Content::Live("dm-cache")),
        ("writecache", Content::Live("dm-writecache")),
    ];
    match owner {
        Owner::Partition(_) => Content::Live("dm-partition"),
        Owner::Crypt => Content::Live("dm-crypt"),
        Owner::Integrity => INTEGRITY,
        Owner::Verity => Content::Live("dm-verity"),
        Owner::Multipath => Content::Live("mpath_member"),
        Owner::Luks(_) | Owner::Lvm | Owner::Other => {
            let kind = mapping.kind().unwrap_or_default();
            TARGETS.iter().find(|(target, _)| *target == kind).map_or(Content::Live("dm"), |(_, kind)| *kind)
        }
    }
}

/// On a physical volume, grouped by volume group (never more than one); on a volume of the group, those made of it.
fn logical_volumes(place: &Standing<'_>, volumes: &[(&LiveDevice, &Mapping, String)]) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut groups: Vec<&str> = volumes.iter().map(|(.., group)| group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let of_group = volumes.iter().filter(|(.., of)| of == group);
        match &place.volume {
            Some((_, here)) if *here == group => {
                layers.extend(of_group.map(|(holder, mapping, _)| logical_volume(place, holder, mapping)));
            }
            _ => layers.push(physical_volume(
                place,
                group,
                of_group.map(|(holder, mapping, _)| (*holder, *mapping)),
            )),
        }
    }
    layers
}

fn physical_volume<'a>(
    place: &Standing<'_>,
    group: &str,
    volumes: impl Iterator<Item = (&'a LiveDevice, &'a Mapping)>,
) -> Layer {
    let in_itself = Ground::first(ByteOffset::ZERO, place.device.size);
    let here = Standing { device: place.device, ground: place.ground, volume: Some((in_itself, group)) };
    let children: Vec<Layer> =
        volumes.map(|(holder, mapping)| logical_volume(&here, holder, mapping)).collect();
    let first = children.iter().filter_map(|child| match &child.facts {
        Facts::Lv(lv) => lv.segments.iter().filter_map(|segment| segment.on_pv).min(),
        _ => None,
    });
    let data_start = first.min().unwrap_or(ByteOffset::ZERO);
    let facts =
        Facts::Pv(Pv { vg: group.to_owned(), data_start, extent_size: ByteCount::ZERO, device_size: None });
    let remark = "the kernel does not report where the extents start, so the first byte in use is shown \
                  instead";
    Layer {
        name: group.to_owned(),
        children,
        remarks: vec![remark.to_owned()],
        ..place.layer(VolumeKind::Pv.into(), facts)
    }
}

fn logical_volume(place: &Standing<'_>, holder: &LiveDevice, mapping: &Mapping) -> Layer {
    let lower = holder.lower(&place.device.name).unwrap_or(&NOWHERE);
    let ground = Ground::on(&place.ground, lower, holder.size);
    let in_pv = place.volume.as_ref().map(|(in_pv, group)| (in_pv, *group));
    let above = Standing {
        device: holder,
        ground,
        volume: in_pv.map(|(in_pv, group)| (Ground::on(in_pv, lower, holder.size), group)),
    };
    let segments = segments(mapping, lower, in_pv.map(|(in_pv, _)| in_pv));
    let name = match mapping.lvm_name() {
        Some((group, volume, None)) => format!("{group}/{volume}"),
        Some((group, volume, Some(part))) => format!("{group}/{volume} ({part})"),
        None => mapping.name.clone(),
    };
    let layer = Layer {
        name,
        uuid: uuid_of(mapping),
        drive: above.ground.drive_at(ByteOffset::ZERO),
        ..place.layer(Content::LogicalVolume, Facts::Lv(Lv { segments }))
    };
    let mut layer = finish(layer, &above);
    // Positions count from the PV's first byte, however many volumes are between.
    if let Some((in_pv, _)) = &above.volume {
        for piece in &mut layer.space {
            piece.below = in_pv.drive_at(piece.span.start()).unwrap_or(piece.below);
        }
    }
    let stands = layer.space.first().and_then(|piece| Span::new(piece.below, holder.size));
    layer.below = stands.unwrap_or(Span::first(ByteCount::ZERO));
    layer
}

fn segments(mapping: &Mapping, lower: &Lower, in_pv: Option<&Ground<'_>>) -> Vec<Segment> {
    let targets = mapping.targets.iter().flatten();
    let segment = |target: &DmTarget| {
        let here = lower.runs.iter().filter(|run| target.span.contains(run.span));
        let first = here.min_by_key(|run| run.span.start());
        let on_pv = first.and_then(|run| match in_pv?.locate(run.offset) {
            Located::Here(at, _) => Some(at),
            _ => None,
        });
        let is_striped = matches!(target.kind.as_str(), "striped" | "raid");
        Segment {
            span: target.span,
            // LVM's linear segment is a striped one with a single stripe.
            kind: if target.kind == "linear" { "striped".to_owned() } else { target.kind.clone() },
            stripes: target.stripes,
            stripe_size: if is_striped { target.chunk } else { ByteCount::ZERO },
            on_pv,
        }
    };
    targets.map(segment).collect()
}

fn table(place: &Standing<'_>, partitions: &[(&LiveDevice, u32)]) -> Layer {
    let listed: Vec<KernelPartition> = partitions
        .iter()
        .filter_map(|(partition, number)| {
            let start = Mapping::first_byte_on(partition.lower(&place.device.name)?)?;
            let span = Span::new(start, partition.size)?;
            Some(KernelPartition { name: partition.name.clone(), number: *number, span })
        })
        .collect();
    let block = place.device.logical.unwrap_or(BlockSize::B512);
    let mut children = Vec::new();
    let mut space = place.ground.pieces();
    for (partition, _) in partitions {
        let lower = partition.lower(&place.device.name).unwrap_or(&NOWHERE);
        let ground = Ground::on(&place.ground, lower, partition.size);
        let start = Mapping::first_byte_on(lower).unwrap_or(ByteOffset::ZERO);
        // Only an array's first pieces are listed: add those on which the partition begins.
        space.extend(ground.pieces().into_iter().filter_map(|piece| in_table(piece, start)));
        let above = Standing { device: partition, ground, volume: None };
        children.extend(on(&above, false).into_iter().map(|layer| shifted(layer, start)));
    }
    let facts = Facts::Table(Box::new(kernel_stack(&listed, block)));
    space.sort_by_key(|piece| (piece.span.start(), std::cmp::Reverse(piece.span.end())));
    remove_overlaps(&mut space, |piece| piece.span);
    let space = space.iter().map(|piece| Piece { below: piece.span.start(), ..*piece }).collect();
    Layer { children, space, ..place.layer(Content::Table, facts) }
}

fn in_table(piece: Piece, start: ByteOffset) -> Option<Piece> {
    let at = start.checked_add(ByteCount::new(piece.span.start().get()))?;
    Some(Piece { span: Span::new(at, piece.span.len())?, ..piece })
}

fn shifted(layer: Layer, start: ByteOffset) -> Layer {
    let start = ByteCount::new(start.get());
    let moved = |at: ByteOffset| at.checked_add(start).unwrap_or(at);
    let below = Span::new(moved(layer.below.start()), layer.below.len()).unwrap_or(layer.below);
    let space = layer.space.iter().map(|piece| Piece { below: moved(piece.below), ..*piece }).collect();
    Layer { below, space, ..layer }
}

#[cfg(test)]
mod tests;
