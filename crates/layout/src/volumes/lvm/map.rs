//! Mapping a volume group's logical volumes to one of its physical volumes.
//!
//! Names are resolved to a depth of [`MAX_DEPTH`], with [`STEPS_EACH`] steps per listed item, so that cycles cost no
//! more than real volumes. What is on another PV is not mapped.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use straddle_device::live::{Every, Lower, Run as Spread};
use straddle_device::shown::printable;
use straddle_units::{ByteCount, ByteOffset, Span};

use super::super::{Space, SubVolume, sectors};
use super::group::{Area, Group, Logical, Physical, Segment};
use super::stripes::{geometry, within};
use crate::model::layer::{Facts, Lv, MAX_LAYERS, Segment as SegmentFacts};
use crate::model::view::MAX_PIECES;

/// A cache over a RAID with integrity is four deep.
const MAX_DEPTH: usize = 8;

/// Segments, areas and runs visited per listed item: each twice, and again for each volume of which it is a part.
const STEPS_EACH: usize = 64;
const LEAST_STEPS: usize = 4096;

/// Start in its segment or volume, length, and start on the physical volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) on_pv: u64,
    pub(super) every: Option<Every>,
}

impl Run {
    /// A striped run begins with a whole piece.
    fn part(self, from: u64, len: u64) -> Option<Self> {
        let before = from.saturating_sub(self.start);
        let (into, there) = match self.every {
            None => (before, before),
            Some(every) => {
                let pieces = before.div_ceil(every.period.get().max(1));
                (every.period.get().checked_mul(pieces)?, every.step.get().checked_mul(pieces)?)
            }
        };
        let start = self.start.checked_add(into)?;
        let end = self.start.checked_add(self.len)?.min(from.checked_add(len)?);
        let len = end.checked_sub(start).filter(|len| *len > 0)?;
        Some(Self { start: start - from, len, on_pv: self.on_pv.checked_add(there)?, every: self.every })
    }

    fn spread(&self) -> Option<Spread> {
        let span = Span::new(ByteOffset::new(self.start), ByteCount::new(self.len))?;
        Some(Spread { span, offset: ByteOffset::new(self.on_pv), every: self.every })
    }

    fn shifted(self, by: u64) -> Option<Self> {
        Some(Self { start: self.start.checked_add(by)?, ..self })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// In the order of the volume's bytes.
    Content,
    /// Everything that the volume occupies, in any order.
    Places,
}

pub(super) struct Mapper<'g> {
    group: &'g Group,
    ours: &'g Physical,
    extent: u64,
    steps: Cell<usize>,
    /// The volumes whose content was followed, for themselves or for another one.
    shown: RefCell<HashSet<&'g str>>,
}

impl<'g> Mapper<'g> {
    pub(super) fn new(group: &'g Group, ours: &'g Physical) -> Self {
        let steps = Cell::new(group.items.saturating_mul(STEPS_EACH).max(LEAST_STEPS));
        Self { group, ours, extent: group.extent_size.get(), steps, shown: RefCell::default() }
    }

    /// The logical volumes with a part on this PV, in the order of the text; then hidden ones whose data no other
    /// volume shows: what a cache keeps, a second image on the same disk.
    pub(super) fn parts(&self) -> Vec<SubVolume> {
        let all = || self.group.logical.iter();
        let mut parts: Vec<SubVolume> =
            all().filter(|logical| logical.is_visible).filter_map(|logical| self.logical(logical)).collect();
        let is_left = |logical: &&Logical| {
            !logical.is_visible
                && holds_data(&logical.name)
                && !self.shown.borrow().contains(logical.name.as_str())
        };
        let left: Vec<&Logical> = all().filter(is_left).collect();
        parts.extend(left.into_iter().filter_map(|logical| self.logical(logical)));
        parts.truncate(MAX_LAYERS);
        parts
    }

    fn logical(&self, logical: &'g Logical) -> Option<SubVolume> {
        let mut segments = Vec::new();
        let mut stands = None;
        let mut is_here = false;
        for segment in &logical.segments {
            let places = merged(self.segment(segment, Wanted::Places, 0));
            let span = self.span(segment)?;
            is_here |= !places.is_empty();
            let first =
                places.first().filter(|_| !is_thin(&segment.kind)).map(|run| ByteOffset::new(run.on_pv));
            stands = stands.or(first);
            segments.push(SegmentFacts {
                span,
                kind: printable(&segment.kind),
                stripes: u32::try_from(segment.stripes.max(1)).unwrap_or(u32::MAX),
                stripe_size: ByteCount::new(sectors(segment.stripe_size)),
                on_pv: first.filter(|_| places.len() == 1),
            });
        }
        if !is_here {
            return None;
        }
        let len = segments.iter().map(|segment| segment.span.end()).max().unwrap_or_default();
        let len = ByteCount::new(len.get());
        let store = logical.segments.first().filter(|segment| is_store(&segment.kind));
        let runs = match store {
            // The store lies where its volume does, byte for byte.
            Some(segment) => self.store(segment),
            None => self.runs(logical, Wanted::Content, 0),
        };
        let start = runs.first().filter(|run| run.start == 0).map(|run| ByteOffset::new(run.on_pv));
        let shown = self.shown_name(logical);
        Some(SubVolume {
            name: format!("{}/{}", printable(&self.group.name), printable(shown)),
            uuid: self.group.uuid_of(self.group.logical(shown).unwrap_or(logical)),
            remarks: self.remarks(logical, start),
            facts: Facts::Lv(Lv { segments }),
            space: space(len, &runs),
            start: start.or(stands.filter(|_| store.is_some())),
            is_sealed: store.is_some() || !logical.is_visible,
            stands: stands.map_or(Some(Span::first(ByteCount::ZERO)), |at| Span::new(at, len))?,
        })
    }

    /// None if that is a pool with more in it.
    fn store(&self, segment: &Segment) -> Vec<Run> {
        let store = segment.store.as_deref().filter(|_| !is_thin(&segment.kind));
        let store = store.and_then(|name| self.group.logical(name));
        store.map(|store| self.runs(store, Wanted::Content, 1)).unwrap_or_default()
    }

    /// A snapshot has the name of the volume that stores its changes.
    fn shown_name(&self, logical: &'g Logical) -> &'g str {
        let snapshot = logical.segments.first().filter(|segment| segment.kind == "snapshot");
        snapshot.and_then(|segment| segment.store.as_deref()).unwrap_or(&logical.name)
    }

    fn remarks(&self, logical: &Logical, start: Option<ByteOffset>) -> Vec<String> {
        let mut remarks = Vec::new();
        let first = logical.segments.first().map(|segment| segment.kind.as_str()).unwrap_or_default();
        match first {
            "thin" => remarks.push(
                "the blocks of this thin volume are mapped by its pool, and straddle does not read that map",
            ),
            "thin-pool" | "cache-pool" => {
                remarks.push("the contents of this pool belong to its thin volumes")
            }
            "snapshot" => remarks.push("this snapshot stores only what has changed since it was taken"),
            "cache" | "writecache" => {
                remarks.push("the volume is cached, so recent writes may be only in the cache")
            }
            _ if is_followed(first) && start.is_none() => {
                remarks.push(
                    "the volume does not start on this physical volume, so its contents are not visible here",
                );
            }
            _ if is_followed(first) => {}
            _ => remarks.push("the volume has an unknown segment type, so its contents were not read"),
        }
        if self.steps.get() == 0 {
            remarks.push(
                "the volumes of this group refer to each other too often, so not all volumes are listed",
            );
        }
        remarks.into_iter().map(str::to_owned).collect()
    }

    fn span(&self, segment: &Segment) -> Option<Span> {
        let [start, len] = [segment.start, segment.count].map(|extents| extents.checked_mul(self.extent));
        Span::new(ByteOffset::new(start?), ByteCount::new(len?))
    }

    fn may(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps);
        self.steps.set(left);
        left > 0
    }

    fn runs(&self, logical: &'g Logical, wanted: Wanted, depth: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        if wanted == Wanted::Content {
            self.shown.borrow_mut().insert(&logical.name);
        }
        for segment in &logical.segments {
            let (Some(span), true) = (self.span(segment), runs.len() < MAX_PIECES) else { break };
            let own = self.segment(segment, wanted, depth);
            runs.extend(own.into_iter().filter_map(|run| match wanted {
                Wanted::Content => run.part(0, span.len().get())?.shifted(span.start().get()),
                Wanted::Places => Some(run),
            }));
        }
        runs
    }

    fn segment(&self, segment: &Segment, wanted: Wanted, depth: usize) -> Vec<Run> {
        if depth >= MAX_DEPTH || !self.may(1) {
            return Vec::new();
        }
        let named = |name: &Option<String>| {
            let logical = name.as_deref().and_then(|name| self.group.logical(name));
            logical.map(|logical| self.runs(logical, wanted, depth + 1)).unwrap_or_default()
        };
        if wanted == Wanted::Places {
            let areas = segment.areas.iter().flat_map(|area| self.area(area, segment, wanted, depth));
            // A snapshot's origin is not a part of it.
            let origin = if is_store(&segment.kind) { Vec::new() } else { named(&segment.origin) };
            return areas.chain(origin).chain(named(&segment.store)).collect();
        }
        let first_of = |areas: &[Area]| {
            let mut runs = areas.iter().map(|area| self.area(area, segment, wanted, depth));
            runs.find(|runs| !runs.is_empty()).unwrap_or_default()
        };
        let areas = segment.areas.as_slice();
        match segment.kind.as_str() {
            "striped" | "linear" if areas.len() == 1 => first_of(areas),
            "raid1" | "mirror" => first_of(areas),
            "cache" | "writecache" | "integrity" => named(&segment.origin),
            _ => self.striped(segment, depth),
        }
    }

    fn striped(&self, segment: &Segment, depth: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        let Some((geometry, span)) = geometry(segment).zip(self.span(segment)) else { return runs };
        for (role, area) in (0..).zip(&segment.areas) {
            let images = self.area(area, segment, Wanted::Content, depth);
            if images.is_empty() {
                continue;
            }
            let cells = geometry.runs(role, Span::first(span.len()), ByteOffset::ZERO).unwrap_or_default();
            for image in &images {
                if !self.may(cells.len()) || runs.len() >= MAX_PIECES {
                    return runs;
                }
                runs.extend(cells.iter().filter_map(|cell| within(cell, image)));
            }
        }
        runs.sort_by_key(|run| run.start);
        runs
    }

    fn area(&self, area: &Area, segment: &Segment, wanted: Wanted, depth: usize) -> Vec<Run> {
        let Some(start) = area.start.checked_mul(self.extent).filter(|_| self.may(1)) else {
            return Vec::new();
        };
        let stripes = if segment.kind == "striped" { segment.stripes.max(1) } else { 1 };
        let len = (segment.count / stripes).saturating_mul(self.extent);
        if area.name == self.ours.name {
            let on_pv = sectors(self.ours.pe_start).checked_add(start);
            return on_pv.map(|on_pv| Run { start: 0, len, on_pv, every: None }).into_iter().collect();
        }
        if self.group.physical_names.contains(&area.name) {
            return Vec::new();
        }
        let Some(logical) = self.group.logical(&area.name) else { return Vec::new() };
        let runs = self.runs(logical, wanted, depth + 1);
        if !self.may(runs.len()) {
            return Vec::new();
        }
        match wanted {
            Wanted::Content => runs.into_iter().filter_map(|run| run.part(start, len)).collect(),
            Wanted::Places => runs,
        }
    }
}

fn is_store(kind: &str) -> bool {
    matches!(kind, "thin-pool" | "vdo-pool" | "cache-pool" | "snapshot" | "thin" | "vdo")
}

fn holds_data(name: &str) -> bool {
    const ENDINGS: [&str; 5] = ["_tdata", "_cdata", "_cvol", "_rimage_", "_mimage_"];
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn is_thin(kind: &str) -> bool {
    matches!(kind, "thin" | "vdo")
}

fn is_followed(kind: &str) -> bool {
    matches!(kind, "striped" | "linear" | "mirror" | "cache" | "writecache" | "integrity")
        || kind.starts_with("raid")
}

fn space(len: ByteCount, runs: &[Run]) -> Space {
    let runs: Vec<Spread> = runs.iter().filter_map(Run::spread).collect();
    if runs.iter().any(|run| run.every.is_some()) {
        return Space::begun(len, Lower { device: String::new(), holds_data: true, runs });
    }
    let runs = runs.into_iter().map(|run| (run.span, run.offset)).collect();
    Space { len, runs, ..Space::default() }
}

fn merged(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by_key(|run| run.on_pv);
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        let touches = |last: &&mut Run| last.on_pv.checked_add(last.len).is_none_or(|end| end >= run.on_pv);
        match merged.last_mut().filter(touches) {
            Some(last) => last.len = last.len.max(run.on_pv.saturating_add(run.len) - last.on_pv),
            None => merged.push(run),
        }
    }
    merged
}
