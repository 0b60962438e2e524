//! The path from the disk to a layer, step by step.
//!
//! Invariants: a step is identified by its UUID, or else its name. No text shown to users is parsed.

use straddle_layout::layer::{Facts, Layer, Md};
use straddle_layout::{Content, VolumeKind};

/// One step of a path: a partition, or a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kind of the layer; `None` for a partition, of the disk or of a table inside another layer.
    pub kind: Option<Content>,
    /// Its name in messages: `md raid5 host:0`.
    pub called: String,
    /// Its own name, or the partition's number; empty if it has none.
    pub name: String,
    /// Its unique identifier ([`Layer::uuid`]); empty if not known.
    pub uuid: String,
}

impl Step {
    /// A step for the partition with this number.
    pub fn partition(number: u32) -> Self {
        let called = format!("partition {number}");
        Self { kind: None, called, name: number.to_string(), uuid: String::new() }
    }

    /// A step for `layer`.
    pub fn of(layer: &Layer) -> Self {
        let (name, uuid) = (layer.name.clone(), layer.uuid.clone());
        Self { kind: Some(layer.kind), called: called(layer), name, uuid }
    }

    pub(crate) fn is_partition(&self) -> bool {
        self.kind.is_none()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        let is_same = match (self.uuid.as_str(), other.uuid.as_str()) {
            ("", _) | (_, "") => self.name == other.name,
            (one, other) => one == other,
        };
        self.kind == other.kind && is_same
    }

    /// Several disks or partitions may form it, and its identity is known.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, Some(Content::LogicalVolume | Content::Volume(VolumeKind::Md)))
            && !(self.uuid.is_empty() && self.name.is_empty())
    }
}

/// Such as `partition 1 > PV vg > LV vg/root`.
pub(crate) fn label(way: &[Step]) -> String {
    way.iter().map(|step| step.called.as_str()).collect::<Vec<_>>().join(" > ")
}

/// A layer's name in a path.
pub fn called(layer: &Layer) -> String {
    let what = match &layer.facts {
        Facts::Md(md) => format!("md {}", level_name(md)),
        Facts::Pv(_) => "PV".to_owned(),
        Facts::Luks(luks) => format!("LUKS{}", luks.version),
        Facts::Table(_) => "partition table".to_owned(),
        _ => layer.kind.to_string(),
    };
    // Names come from the disk and are printed to terminals.
    let name = straddle_device::shown::printable(&layer.name);
    if name.is_empty() { what } else { format!("{what} {name}") }
}

pub(crate) fn level_name(md: &Md) -> String {
    match md.level {
        -1 => "linear".to_owned(),
        -4 => "multipath".to_owned(),
        -5 => "faulty".to_owned(),
        level => format!("raid{level}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_names() {
        let level = |level| level_name(&Md { level, ..Md::default() });
        assert_eq!(level(5), "raid5");
        assert_eq!(level(-1), "linear");
    }
}
