//! The path from the disk to a layer, step by step.
//!
//! Invariants: a step is identified by its own structures (its UUID), and by its name only if
//! that is not known. Nothing is parsed from the text shown to users.

use straddle_layout::layer::Layer;
use straddle_layout::{Content, VolumeKind};

use crate::names::called;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A partition, of the disk or of a table inside another layer.
    Partition,
    /// A layer of this kind.
    Layer(Content),
}

/// One step of a path: a partition, or a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its kind.
    pub kind: StepKind,
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
        Self { kind: StepKind::Partition, called, name: number.to_string(), uuid: String::new() }
    }

    /// A step for `layer`.
    pub fn of(layer: &Layer) -> Self {
        let (name, uuid) = (layer.name.clone(), layer.uuid.clone());
        Self { kind: StepKind::Layer(layer.kind), called: called(layer), name, uuid }
    }

    /// Whether it is a partition, of the disk or of a table inside another layer.
    pub(crate) fn is_partition(&self) -> bool {
        self.kind == StepKind::Partition
    }

    /// Whether the two steps are the same thing, as far as is known.
    pub(crate) fn is(&self, other: &Self) -> bool {
        if self.kind != other.kind {
            return false;
        }
        match (self.uuid.as_str(), other.uuid.as_str()) {
            ("", _) | (_, "") => self.name == other.name,
            (one, other) => one == other,
        }
    }

    /// Whether several disks or partitions may form it, and its identity is known.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, StepKind::Layer(Content::LogicalVolume | Content::Volume(VolumeKind::Md)))
            && !(self.uuid.is_empty() && self.name.is_empty())
    }
}

/// The path as shown to users: `partition 1 > PV vg > LV vg/root`.
pub(crate) fn label(way: &[Step]) -> String {
    way.iter().map(|step| step.called.as_str()).collect::<Vec<_>>().join(" > ")
}
