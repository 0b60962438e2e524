//! A volume group, as its metadata text describes it: values as they are, of at most [`MAX_ITEMS`] items.

use std::collections::{HashMap, HashSet};

use straddle_device::shown::printable;
use straddle_units::ByteCount;

use super::text::{Event, Events, Value};
use crate::volumes::sectors;

/// Volumes, segments and areas. A text of 4 MiB as LVM writes it lists fewer.
const MAX_ITEMS: usize = 65_536;

/// LVM's own sections are four deep.
const MAX_NESTING: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) name: String,
    /// 32 characters, without the hyphens, as all UUIDs here.
    uuid: String,
    pub(super) extent_size: ByteCount,
    pub(super) physical: Vec<Physical>,
    pub(super) logical: Vec<Logical>,
    pub(super) physical_names: HashSet<String>,
    by_name: HashMap<String, usize>,
    pub(super) remarks: Vec<String>,
    pub(super) items: usize,
}

#[derive(Debug, Default)]
pub(super) struct Physical {
    /// By which areas refer to it, such as "pv0".
    pub(super) name: String,
    uuid: String,
    /// In sectors.
    pub(super) pe_start: u64,
    /// In extents.
    pub(super) pe_count: u64,
}

/// Visible or a part of another.
#[derive(Debug, Default)]
pub(super) struct Logical {
    pub(super) name: String,
    uuid: String,
    pub(super) is_visible: bool,
    pub(super) segments: Vec<Segment>,
}

/// Counts are in extents, sizes in sectors.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) count: u64,
    pub(super) kind: String,
    /// Stripes, images or mirrors, as in the text.
    pub(super) stripes: u64,
    pub(super) stripe_size: u64,
    /// Images of a RAID10 that hold the same data.
    pub(super) copies: Option<u64>,
    pub(super) areas: Vec<Area>,
    /// Holds the data one to one ("origin").
    pub(super) origin: Option<String>,
    /// Holds the data in an order of its own ("pool", "data", "cow_store", "thin_pool").
    pub(super) store: Option<String>,
}

/// From the extent `start` on.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) name: String,
    pub(super) start: u64,
}

impl Group {
    /// What comes before a syntax error is kept; the error is a remark.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut group = Self::default();
        let mut path: Vec<&str> = Vec::new();
        let broken = |at: usize, expected: &str| {
            format!("the metadata cannot be read from byte {at} on: expected {expected}")
        };
        for event in Events::new(text) {
            match event {
                Ok(Event::Open(name)) if path.len() < MAX_NESTING => {
                    path.push(name);
                    group.open(&path);
                }
                Ok(Event::Open(name)) => {
                    let remark =
                        format!("the sections of the metadata are nested too deeply, at {}", printable(name));
                    group.remarks.push(remark);
                    break;
                }
                Ok(Event::Set(name, value)) => group.set(&path, name, &value),
                Ok(Event::Close) => drop(path.pop()),
                Err(error) => {
                    group.remarks.push(broken(error.at, error.expected));
                    break;
                }
            }
        }
        if group.name.is_empty() {
            return Err(group
                .remarks
                .pop()
                .unwrap_or_else(|| "the metadata contains no volume group".to_owned()));
        }
        if !path.is_empty() && group.remarks.is_empty() {
            group.remarks.push(broken(text.len(), "}"));
        }
        if group.items > MAX_ITEMS {
            let remark =
                format!("the metadata lists more than {MAX_ITEMS} items, of which the rest were not read");
            group.remarks.push(remark);
        }
        for logical in &mut group.logical {
            logical.segments.sort_by_key(|segment| segment.start);
        }
        Ok(group)
    }

    /// In the form that a PV header has.
    pub(super) fn volume_with(&self, uuid: &[u8]) -> Option<&Physical> {
        self.physical.iter().find(|physical| physical.uuid.as_bytes() == uuid)
    }

    /// As in device-mapper: the group's and its own; empty if one is not listed.
    pub(super) fn uuid_of(&self, logical: &Logical) -> String {
        if self.uuid.is_empty() || logical.uuid.is_empty() {
            return String::new();
        }
        format!("{}{}", self.uuid, logical.uuid)
    }

    pub(super) fn logical(&self, name: &str) -> Option<&Logical> {
        self.logical.get(*self.by_name.get(name)?)
    }

    fn has_room(&mut self) -> bool {
        self.items += 1;
        self.items <= MAX_ITEMS
    }

    fn open(&mut self, path: &[&str]) {
        match path {
            [name] if self.name.is_empty() => self.name = (*name).to_owned(),
            [_, "physical_volumes", name] if self.has_room() => {
                self.physical_names.insert((*name).to_owned());
                self.physical.push(Physical { name: (*name).to_owned(), ..Physical::default() });
            }
            [_, "logical_volumes", name] if self.has_room() => {
                self.by_name.entry((*name).to_owned()).or_insert(self.logical.len());
                self.logical.push(Logical { name: (*name).to_owned(), ..Logical::default() });
            }
            [_, "logical_volumes", _, _] if self.has_room() => {
                if let Some(logical) = self.logical.last_mut() {
                    logical.segments.push(Segment::default());
                }
            }
            _ => {}
        }
    }

    fn set(&mut self, path: &[&str], name: &str, value: &Value<'_>) {
        if self.items > MAX_ITEMS {
            return;
        }
        match path {
            [_] => match (name, value) {
                ("extent_size", Value::Number(count)) => self.extent_size = ByteCount::new(sectors(*count)),
                ("id", Value::Text(id)) => self.uuid = without_hyphens(id),
                _ => {}
            },
            [_, "physical_volumes", _] => {
                let Some(physical) = self.physical.last_mut() else { return };
                match (name, value) {
                    ("id", Value::Text(id)) => physical.uuid = without_hyphens(id),
                    ("pe_start", Value::Number(sectors)) => physical.pe_start = *sectors,
                    ("pe_count", Value::Number(extents)) => physical.pe_count = *extents,
                    _ => {}
                }
            }
            [_, "logical_volumes", _] => {
                let Some(logical) = self.logical.last_mut() else { return };
                match (name, value) {
                    ("status", Value::List(flags)) => {
                        logical.is_visible = flags.contains(&Value::Text("VISIBLE"));
                    }
                    ("id", Value::Text(id)) => logical.uuid = without_hyphens(id),
                    _ => {}
                }
            }
            [_, "logical_volumes", _, _] => {
                let segment = self.logical.last_mut().and_then(|logical| logical.segments.last_mut());
                if let Some(segment) = segment {
                    segment.set(name, value);
                    self.items += if matches!(value, Value::List(_)) { segment.areas.len() } else { 0 };
                }
            }
            _ => {}
        }
    }
}

impl Segment {
    fn set(&mut self, name: &str, value: &Value<'_>) {
        match (name, value) {
            ("start_extent", Value::Number(extent)) => self.start = *extent,
            ("extent_count", Value::Number(extents)) => self.count = *extents,
            ("type", Value::Text(kind)) => self.kind = (*kind).to_owned(),
            ("stripe_count" | "device_count" | "mirror_count", Value::Number(count)) => self.stripes = *count,
            ("stripe_size", Value::Number(sectors)) => self.stripe_size = *sectors,
            ("data_copies", Value::Number(count)) => self.copies = Some(*count),
            ("stripes" | "mirrors", Value::List(list)) => self.areas = pairs(list),
            ("raids", Value::List(list)) => self.areas = images(list, 2),
            ("raid0_lvs", Value::List(list)) => self.areas = images(list, 1),
            ("origin", Value::Text(name)) => self.origin = Some((*name).to_owned()),
            ("pool" | "data" | "cow_store" | "thin_pool", Value::Text(name)) => {
                self.store = Some((*name).to_owned());
            }
            _ => {}
        }
    }
}

fn without_hyphens(id: &str) -> String {
    printable(id).chars().filter(|c| *c != '-').collect()
}

fn pairs(list: &[Value<'_>]) -> Vec<Area> {
    let area = |pair: &[Value<'_>]| match pair {
        [Value::Text(name), Value::Number(start)] => Some(Area { name: (*name).to_owned(), start: *start }),
        _ => None,
    };
    list.chunks(2).map_while(area).collect()
}

/// The last of every `step` counts: RAID lists a metadata volume before each image.
fn images(list: &[Value<'_>], step: usize) -> Vec<Area> {
    let area = |names: &[Value<'_>]| match names.last() {
        Some(Value::Text(name)) => Some(Area { name: (*name).to_owned(), start: 0 }),
        _ => None,
    };
    list.chunks_exact(step).map_while(area).collect()
}
