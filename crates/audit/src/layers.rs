//! Rules about the layers above a partition: RAID members, LVM, LUKS, other mappings and file systems.
//!
//! Offsets add up from layer to layer: a file system can be misaligned although its partition is not. For each
//! boundary the walk tracks how far the layer below is misaligned. The first misaligned layer is the culprit; layers
//! above that add nothing of their own are not reported again.

pub(crate) mod filesystems;

use straddle_device::DeviceKind;
use straddle_device::topology::USUAL_PHYSICAL;
use straddle_layout::layer::{Facts, Layer, Luks, Md};
use straddle_layout::view::Piece;
use straddle_layout::{Content, Partition, Role, Stack, VolumeKind};
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use crate::boundaries::{CHUNK, Named, named_boundaries};
use crate::catalogue::{self as rules, Code};
use crate::compensation::{self, Above};
use crate::finding::{Finding, Fix, Miss, Rule, Subject};
use crate::way::{self, Step};
use crate::{Context, Severity, moves, rebuild};

/// The striped array that a layer stands on, and the layer's place in it.
#[derive(Clone, Copy)]
struct Array {
    chunk: ByteCount,
    stripe: Option<ByteCount>,
    /// The start of the device that `below` is relative to, in the array's space.
    at: ByteOffset,
}

/// What a layer inherits from those below it.
#[derive(Clone)]
struct Place<'a> {
    context: &'a Context<'a>,
    subject: Subject,
    path: Vec<Step>,
    start: Option<ByteOffset>,
    /// The start of the space below, from which a layer's own offset counts, on its device.
    base: ByteOffset,
    array: Option<Array>,
}

impl<'a> Place<'a> {
    fn disk(context: &'a Context<'a>) -> Self {
        let (start, base) = (Some(ByteOffset::ZERO), ByteOffset::ZERO);
        Self { context, subject: Subject::Disk, path: Vec::new(), start, base, array: None }
    }

    fn label(&self) -> String {
        way::label(&self.path)
    }

    fn finding(&self, rule: &'static Rule, at: Option<ByteOffset>, message: String, fix: Fix) -> Finding {
        let layer = self.path.clone();
        Finding { layer, at, fix: Some(fix), ..Finding::new(rule, self.subject, message) }
    }
}

pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    if let Some(layer) = &context.stack.layer {
        check_layer(&Place::disk(context), layer, findings);
    }
    for partition in &context.stack.partitions {
        check_partition(context, partition, findings);
    }
    once_per_array(findings);
}

/// The cause of volumes off an array's stripe is one, the size of extents.
fn once_per_array(findings: &mut Vec<Finding>) {
    let is_of_volume = |finding: &Finding| {
        finding.rule.code == Code::OFF_ARRAY_STRIPE
            && finding.layer.last().is_some_and(|step| step.kind == Some(Content::LogicalVolume))
    };
    fn array(finding: &Finding) -> &[Step] {
        let is_md = |step: &Step| step.kind == Some(VolumeKind::Md.into());
        &finding.layer[..finding.layer.iter().rposition(is_md).map_or(0, |at| at + 1)]
    }
    let mut kept: Vec<(Finding, usize)> = Vec::new();
    for finding in std::mem::take(findings) {
        let is_same = |(first, _): &&mut (Finding, usize)| {
            is_of_volume(first) && first.subject == finding.subject && array(first) == array(&finding)
        };
        match kept.iter_mut().find(is_same).filter(|_| is_of_volume(&finding)) {
            Some((_, more)) => *more += 1,
            None => kept.push((finding, 0)),
        }
    }
    for (mut finding, more) in kept {
        match more {
            0 => {}
            1 => finding.message += "; one more volume is affected in the same way",
            more => finding.message += &format!("; {more} more volumes are affected in the same way"),
        }
        findings.push(finding);
    }
}

fn check_partition(context: &Context<'_>, partition: &Partition, findings: &mut Vec<Finding>) {
    let Some(layer) = &partition.layer else { return };
    let place = Place {
        subject: Subject::Partition(partition.number),
        path: vec![Step::partition(partition.number)],
        start: Some(partition.span.start()),
        base: partition.span.start(),
        ..Place::disk(context)
    };
    check_layer(&place, layer, findings);
}

/// Where they begin on the drive; empty unless everything on the partition is misaligned too.
pub(crate) fn misaligned(context: &Context<'_>, partition: &Partition) -> Vec<ByteOffset> {
    let mut findings = Vec::new();
    check_partition(context, partition, &mut findings);
    let stays = |fix: &Fix| fix.summary.starts_with(STAYS);
    let is_off = |f: &&Finding| {
        f.severity > Severity::Advice && f.miss.is_some() && !f.fix.as_ref().is_some_and(stays)
    };
    findings.iter().filter(is_off).filter_map(|finding| finding.at).collect()
}

fn check_layer(below: &Place<'_>, layer: &Layer, findings: &mut Vec<Finding>) {
    let mut place = below.clone();
    place.path.push(Step::of(layer));
    if let Facts::Table(table) = &layer.facts {
        check_nested(&place, layer, table, findings);
    } else {
        check_pieces(&place, layer, &compensation::data(layer), layer.children.iter(), findings);
        check_stripe(&place, layer, findings);
    }
    match &layer.facts {
        Facts::Md(md) => check_md(&place, layer, md, findings),
        Facts::Luks(luks) => findings.extend(small_luks_sector(&place, layer, luks)),
        Facts::FileSystem(fs) => filesystems::check(&place, layer, fs, findings),
        Facts::Pv(_) | Facts::Lv(_) | Facts::Mapped(_) | Facts::Table(_) | Facts::Opaque => {}
    }
    enter(&mut place, layer);
    for child in &layer.children {
        let mut under = Place { start: child.drive, ..place.clone() };
        if let Facts::Table(table) = &layer.facts {
            let on = table.partitions.iter().find(|partition| partition.span.start() == child.below.start());
            under.path.extend(on.map(|partition| Step::partition(partition.number)));
            under.base = child.below.start();
        }
        check_layer(&under, child, findings);
    }
}

fn check_nested(place: &Place<'_>, layer: &Layer, table: &Stack, findings: &mut Vec<Finding>) {
    // An extended partition's own structures are single sectors, and cannot straddle.
    for partition in table.partitions.iter().filter(|partition| partition.role != Role::Extended) {
        let mut here = Place { base: ByteOffset::ZERO, ..place.clone() };
        here.path.push(Step::partition(partition.number));
        // Other members report their own partitions.
        let piece = compensation::nested(layer, partition);
        let reported = findings.len();
        if let Some(piece) = piece {
            let above = compensation::above_partition(layer, partition);
            check_pieces(&here, layer, &[piece], above, findings);
        }
        // A partition that misses the sector also misses the stripe.
        if findings.len() == reported {
            let on_drive = piece.map(|piece| piece.drive);
            findings.extend(off_stripe(&here, layer, partition.span.start(), on_drive));
        }
    }
}

fn enter(place: &mut Place<'_>, layer: &Layer) {
    // Volumes of a PV count from its first byte; the contents of other layers from the start of the space.
    let (device, base) = match &layer.facts {
        Facts::Pv(pv) if !layer.space.is_empty() => (layer.below.start(), pv.data_start),
        // Without a reported data start, volumes count from the PV's start.
        Facts::Pv(_) => (layer.below.start(), ByteOffset::ZERO),
        _ => (space_start(layer), ByteOffset::ZERO),
    };
    place.base = base;
    match &layer.facts {
        Facts::Md(md) if md.stripe().is_some() => {
            place.array = Some(Array { chunk: md.chunk, stripe: md.stripe(), at: ByteOffset::ZERO });
        }
        _ => {
            if let Some(array) = &mut place.array {
                array.at = array.at.checked_add(ByteCount::new(device.get())).unwrap_or(array.at);
            }
        }
    }
}

/// The first run may belong to a later byte.
fn space_start(layer: &Layer) -> ByteOffset {
    let data = compensation::data(layer);
    let first = data.first().filter(|_| matches!(layer.facts, Facts::Lv(_))).or(layer.space.first());
    let first = first.map(|piece| {
        let into = ByteCount::new(piece.span.start().get());
        piece.below.checked_back(into).unwrap_or(piece.below)
    });
    first.unwrap_or(layer.below.start())
}

fn start_rule(layer: &Layer) -> &'static Rule {
    match layer.facts {
        Facts::Md(_) => rules::MD_DATA_STRADDLES,
        Facts::Pv(_) => rules::PV_DATA_STRADDLES,
        Facts::Lv(_) => rules::LV_SEGMENT_STRADDLES,
        Facts::Luks(_) => rules::LUKS_PAYLOAD_STRADDLES,
        Facts::Mapped(_) | Facts::FileSystem(_) | Facts::Table(_) | Facts::Opaque => rules::PAYLOAD_STRADDLES,
    }
}

fn own_offset(place: &Place<'_>, piece: &Piece) -> ByteOffset {
    let own = piece.below.checked_since(place.base).unwrap_or(ByteCount::ZERO);
    ByteOffset::new(own.get())
}

#[derive(Clone, Copy)]
struct Skew {
    total: ByteCount,
    inherited: ByteCount,
    /// With `inherited`, it adds up to the total, modulo the boundary.
    own: ByteCount,
}

impl Skew {
    fn of(piece: &Piece, own: ByteOffset, boundary: Boundary) -> Self {
        let pure = Boundary::multiples_of(boundary.size());
        Self {
            total: boundary.skew(piece.span.start(), piece.drive),
            inherited: boundary.skew(own, piece.drive),
            own: pure.map_or(ByteCount::ZERO, |pure| pure.skew(piece.span.start(), own)),
        }
    }
}

/// For each boundary, the first misaligned run is reported, unless everything in `above` compensates for it;
/// otherwise, once, the first that compensates for a misalignment below.
fn check_pieces<'l>(
    place: &Place<'_>,
    layer: &Layer,
    pieces: &[Piece],
    above: impl Iterator<Item = &'l Layer> + Clone,
    findings: &mut Vec<Finding>,
) {
    let mut is_reported = false;
    let topology = place.context.topology;
    // What misses the chunk misses the stripe as well.
    let is_covered = |named: &Named| named.name == CHUNK && topology.stripe.is_some();
    for named in named_boundaries(topology) {
        if named.severity == Severity::Advice || is_covered(&named) {
            continue;
        }
        let boundary = named.boundary;
        let rule = match named.rule.code {
            Code::START_STRADDLES => start_rule(layer),
            Code::OFF_STRIPE if place.context.kind == DeviceKind::Md => rules::OFF_ARRAY_STRIPE,
            _ => rules::LAYER_OFF_UNIT,
        };
        let skewed = pieces.iter().map(|piece| (piece, Skew::of(piece, own_offset(place, piece), boundary)));
        // Inherited misalignment is reported at the culprit below.
        let own: Vec<_> = skewed.filter(|(_, skew)| skew.own != ByteCount::ZERO).collect();
        if let Some((piece, skew)) = own.iter().find(|(_, skew)| skew.total != ByteCount::ZERO) {
            let made_up = Above::of(above.clone(), boundary);
            if made_up.makes_up() {
                continue;
            }
            let miss = Miss { name: named.name, boundary, past: skew.total };
            let mut finding = off(place, layer, piece, *skew, rule, miss);
            finding.severity = finding.severity.min(named.severity);
            if made_up.is_split() {
                finding.message += &split(&made_up);
                finding.fix = Some(split_fix(&made_up));
            }
            findings.push(finding);
        } else if let Some((piece, skew)) = own.first().filter(|_| !is_reported) {
            is_reported = true;
            findings.push(cancels(place, layer, piece, *skew, named));
        }
    }
}

pub(crate) fn split(above: &Above) -> String {
    format!("; {} compensates for it, but {} does not", above.back.join(", "), above.off.join(", "))
}

pub(crate) const STAYS: &str = "do not move it";

/// Moving the layer below would only misalign the other part of the data.
pub(crate) fn split_fix(above: &Above) -> Fix {
    Fix::advice(format!(
        "{STAYS}, because that would misalign {}. Recreate {} with its data on a boundary, and restore its \
         contents",
        above.back.join(", "),
        above.off.join(", ")
    ))
}

/// The part from the first block of the boundary's size on, or the run itself.
fn first_block(piece: &Piece, boundary: Boundary) -> Piece {
    let Piece { span, below, drive } = *piece;
    let later = || {
        let start = Boundary::multiples_of(boundary.size())?.ceil(span.start())?;
        let lead = start.checked_since(span.start())?;
        let span =
            Span::new(start, span.end().checked_since(start)?).filter(|span| span.len() > ByteCount::ZERO)?;
        Some(Piece { span, below: below.checked_add(lead)?, drive: drive.checked_add(lead)? })
    };
    later().unwrap_or(*piece)
}

fn off(
    place: &Place<'_>,
    layer: &Layer,
    piece: &Piece,
    skew: Skew,
    rule: &'static Rule,
    miss: Miss,
) -> Finding {
    let whose = match (skew.inherited, place.context.kind) {
        // The devices below such a device are other targets.
        (ByteCount::ZERO, DeviceKind::Md | DeviceKind::DeviceMapper | DeviceKind::Loop) => {
            "this is the first misaligned layer on this device".to_owned()
        }
        (ByteCount::ZERO, _) => "this is the first misaligned layer".to_owned(),
        (inherited, _) => format!("the layer below is also misaligned, by {} bytes", inherited.get()),
    };
    let shown = first_block(piece, miss.boundary);
    let run = match shown.span.start().get() {
        0 => "its data".to_owned(),
        at => format!("its data from byte {at} on"),
    };
    // A short run only shows where a block's first byte would be.
    let what = if miss.boundary.past(shown.drive) == miss.past { "" } else { "so its blocks start " };
    let message = format!(
        "{}: {run} starts at byte {} of the device below (byte {} of the disk), {what}{} bytes past a \
         {}-byte {} boundary; {whose}",
        place.label(),
        own_offset(place, &shown),
        shown.drive,
        miss.past.get(),
        miss.boundary.size().get(),
        miss.name,
    );
    let rebuilt = rebuild::on_boundary(&place.label(), layer, miss.boundary);
    let moved = moves::of_data(place.context, piece.drive);
    let alternative = moved.is_some().then(|| rebuilt.clone());
    let fix = Some(moved.unwrap_or(rebuilt));
    let (layer, at) = (place.path.clone(), Some(shown.drive));
    Finding { layer, at, miss: Some(miss), fix, alternative, ..Finding::new(rule, place.subject, message) }
}

fn cancels(place: &Place<'_>, layer: &Layer, piece: &Piece, skew: Skew, named: Named) -> Finding {
    let shown = first_block(piece, named.boundary);
    let message = format!(
        "{}: the layer below is misaligned by {} bytes, and this layer compensates for that. Its data, at \
         byte {} of the disk, is on a {}-byte {} boundary. Moving only one of them would misalign the data",
        place.label(),
        skew.inherited.get(),
        shown.drive,
        named.boundary.size().get(),
        named.name
    );
    let fix = Fix::advice(format!(
        "leave both layers where they are, or move both, because the data in the {} is aligned",
        layer.kind
    ));
    place.finding(rules::LAYERS_CANCEL, Some(shown.drive), message, fix)
}

fn check_md(place: &Place<'_>, layer: &Layer, md: &Md, findings: &mut Vec<Finding>) {
    if md.stripe().is_none() {
        return;
    }
    let topology = place.context.topology;
    let unit = topology.indirection_unit.as_ref().map(|figure| figure.value());
    let wanted = [("physical sector", Some(topology.physical.value())), ("indirection unit", unit)];
    for (name, size) in wanted {
        let Some(size) = size.filter(|size| !md.chunk.is_multiple_of(*size)) else { continue };
        let message = format!(
            "{}: its {}-byte chunk is not a multiple of the {name} ({} bytes), so chunks end inside such a \
             unit",
            place.label(),
            md.chunk.get(),
            size.get()
        );
        let fix = rebuild::larger_chunk(md.chunk, size);
        findings.push(place.finding(rules::MD_CHUNK_SMALL, layer.drive, message, fix));
    }
}

fn check_stripe(place: &Place<'_>, layer: &Layer, findings: &mut Vec<Finding>) {
    let Some(first) = layer.space.first() else { return };
    let start = match &layer.facts {
        // A PV has no extents before its first, wherever its first byte is.
        Facts::Pv(pv) => {
            layer.below.start().checked_add(ByteCount::new(pv.data_start.get())).unwrap_or(first.below)
        }
        _ => space_start(layer),
    };
    findings.extend(off_stripe(place, layer, start, layer.drive));
}

fn off_stripe(
    place: &Place<'_>,
    layer: &Layer,
    start: ByteOffset,
    on_drive: Option<ByteOffset>,
) -> Option<Finding> {
    let array = place.array?;
    let size = array.stripe.unwrap_or(array.chunk);
    let at = array.at.checked_add(ByteCount::new(start.get()))?;
    let boundary = Boundary::multiples_of(size)?;
    let own = start.checked_since(place.base).unwrap_or(ByteCount::ZERO);
    let (past, own) = (boundary.past(at), boundary.past(ByteOffset::new(own.get())));
    // Inherited misalignment is reported at the layer below.
    if past == ByteCount::ZERO || own == ByteCount::ZERO {
        return None;
    }
    let message = format!(
        "{}: its data starts at byte {at} of the array, {} bytes past a multiple of its {}-byte stripe",
        place.label(),
        past.get(),
        size.get()
    );
    let fix = rebuild::on_boundary(&place.label(), layer, boundary);
    Some(place.finding(rules::OFF_ARRAY_STRIPE, on_drive, message, fix))
}

fn small_luks_sector(place: &Place<'_>, layer: &Layer, luks: &Luks) -> Option<Finding> {
    let physical = place.context.topology.physical.value();
    // On larger sectors, encryption sectors of 4 KiB cost no more than any block of 4 KiB.
    if luks.sector_size == ByteCount::ZERO || luks.sector_size >= physical.min(USUAL_PHYSICAL) {
        return None;
    }
    let message = format!(
        "{}: its {}-byte encryption sector is smaller than the {}-byte physical sector, so layers above it may \
         write less than a physical sector, and each block needs more encryption calls",
        place.label(),
        luks.sector_size.get(),
        physical.get()
    );
    let fix = rebuild::larger_luks_sector(luks, layer.below.len(), physical);
    Some(place.finding(rules::LUKS_SECTOR_SMALL, layer.drive, message, fix))
}
