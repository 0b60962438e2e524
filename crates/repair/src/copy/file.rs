//! The file format of a plan to copy a disk.
//!
//! Invariants: every [`Copy`] can be stored as a [`CopyFile`]. A [`CopyFile`] becomes a [`Copy`]
//! only if it passes every check of one.

use crate::relocate::Move;
use serde::{Deserialize, Serialize};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Span};

use super::{Copy, CopyError, VERSION, gap};
use crate::fingerprint::Fingerprint;
use crate::plan::{Change, Entry, FingerprintFile, Plan, PlanFile, Slot};
use crate::realign::{RealignError, ReferenceFile, anchored};

/// A plan to copy a disk as JSON: numbers without units, and unchecked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyFile {
    /// The format's version, [`VERSION`].
    pub copy: u32,
    /// The new disk's table.
    pub plan: PlanFile,
    /// The fingerprint of the source.
    pub source: FingerprintFile,
    /// What is copied: first byte on the source, number of bytes, and the byte on the new disk.
    pub extents: Vec<[u64; 3]>,
    /// The partitions that are placed for the data of a layer in them, with the offset of these data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<(u32, u64)>,
    /// What is copied from before the first partition, to the same places: first byte and number of bytes.
    pub lead: Vec<[u64; 2]>,
    /// What refers to the old places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<ReferenceFile>,
    /// What is on the new disk and will be lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<String>,
    /// Whether bytes that are not zeros may be written over, whatever they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wipe: bool,
}

fn invalid(why: impl Into<String>) -> CopyError {
    CopyError::Invalid(why.into())
}

impl Copy {
    /// The plan as JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(&CopyFile::from(self))
    }

    /// Reads a stored plan.
    ///
    /// # Errors
    ///
    /// [`CopyError::Invalid`] if the plan contradicts itself, or is of another version.
    pub fn from_json(text: &str) -> Result<Self, CopyError> {
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        if json["copy"].as_u64() != Some(u64::from(VERSION)) {
            return Err(invalid(format!("it is not of version {VERSION}")));
        }
        let file: CopyFile = serde_json::from_value(json).map_err(|error| invalid(error.to_string()))?;
        let extents = file.extents.into_iter().map(|[start, len, to]| {
            let from = Span::new(ByteOffset::new(start), ByteCount::new(len));
            Ok(Move { from: from.ok_or_else(|| invalid("a span ends past 2^64"))?, to: ByteOffset::new(to) })
        });
        let lead = file.lead.into_iter().map(|[start, len]| {
            let span = Span::new(ByteOffset::new(start), ByteCount::new(len));
            span.ok_or_else(|| invalid("a span ends past 2^64"))
        });
        let sector = BlockSize::new(file.source.sector).map_err(|error| invalid(error.to_string()))?;
        let copy = Self {
            extents: extents.collect::<Result<_, CopyError>>()?,
            plan: Plan::try_from(file.plan)?,
            source: Fingerprint {
                size: ByteCount::new(file.source.size),
                sector,
                serial: file.source.serial,
                table: file.source.table,
            },
            references: (file.references.into_iter())
                .map(|one| {
                    let what = one.what.try_into();
                    let invalid = |error: RealignError| CopyError::Invalid(error.to_string());
                    Ok((one.partition, what.map_err(invalid)?))
                })
                .collect::<Result<_, CopyError>>()?,
            anchors: file.anchors.into_iter().map(|(of, at)| (of, ByteCount::new(at))).collect(),
            lead: lead.collect::<Result<_, CopyError>>()?,
            over: file.over,
            wipes: file.wipe,
        };
        copy.checked()
    }

    /// Whether a partition, or the data in it for which it is placed, starts on a boundary.
    fn is_aligned(&self, entry: &Entry) -> bool {
        let anchor = self.anchors.iter().find(|(number, _)| *number == entry.number);
        let grain = anchored(self.plan.grain(), anchor.map_or(ByteCount::ZERO, |(_, at)| *at));
        let start = self.plan.span(entry).map(Span::start);
        entry.slot == Slot::Extended || start.is_none_or(|start| grain.is_aligned(start))
    }

    /// Returns the plan if it is valid.
    pub(super) fn checked(self) -> Result<Self, CopyError> {
        let plan = &self.plan;
        let is_new = plan.is_fresh() && plan.converts().is_none() && plan.wipe().is_empty();
        let entries = &plan.table().partitions;
        if !is_new || entries.iter().any(|entry| entry.change != Change::New) {
            return Err(invalid("it does not make a new table"));
        }
        if !self.over.is_empty() && !self.wipes {
            return Err(invalid("it writes over what is on the new disk, without consent"));
        }
        let places: Vec<Span> = (entries.iter())
            .filter(|entry| entry.slot != Slot::Extended)
            .filter_map(|entry| plan.span(entry))
            .collect();
        let mut starts: Vec<ByteOffset> = self.extents.iter().map(|extent| extent.to).collect();
        starts.sort_unstable();
        if starts.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid("it copies to a partition twice"));
        }
        let source = Span::first(self.source.size);
        for extent in &self.extents {
            let to = extent.destination();
            let goes_there = to.is_some_and(|to| {
                places.iter().any(|place| place.start() == to.start() && place.contains(to))
            });
            if !goes_there || !source.contains(extent.from) || extent.from.is_empty() {
                return Err(invalid("what it copies is not on the source, or goes to no partition"));
            }
        }
        if self.extents.len() != places.len() || entries.iter().any(|entry| !self.is_aligned(entry)) {
            return Err(invalid("a partition gets nothing, or would not be aligned"));
        }
        let room = gap::room(plan);
        let is_over = |span: &Span| !room.contains(*span) || !source.contains(*span);
        let is_twice = self.lead.windows(2).any(|pair| pair[1].start() < pair[0].end());
        if is_twice || self.lead.iter().any(is_over) {
            return Err(invalid("what it copies before the first partition is not there, or has no room"));
        }
        match self.references.iter().find(|(number, _)| !entries.iter().any(|entry| entry.number == *number))
        {
            Some((number, _)) => Err(invalid(format!("there is no partition {number}"))),
            None => Ok(self),
        }
    }
}

impl From<&Copy> for CopyFile {
    fn from(copy: &Copy) -> Self {
        Self {
            copy: VERSION,
            plan: PlanFile::from(&copy.plan),
            source: FingerprintFile {
                size: copy.source.size.get(),
                sector: copy.source.sector.get(),
                serial: copy.source.serial.clone(),
                table: copy.source.table.clone(),
            },
            extents: (copy.extents.iter())
                .map(|one| [one.from.start().get(), one.from.len().get(), one.to.get()])
                .collect(),
            anchors: copy.anchors.iter().map(|(of, at)| (*of, at.get())).collect(),
            lead: copy.lead.iter().map(|span| [span.start().get(), span.len().get()]).collect(),
            references: (copy.references.iter())
                .map(|(partition, what)| ReferenceFile { partition: *partition, what: what.into() })
                .collect(),
            over: copy.over.clone(),
            wipe: copy.wipes,
        }
    }
}
