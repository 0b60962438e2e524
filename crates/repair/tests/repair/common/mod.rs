//! Shared parts of the tests: disks in memory, random requests, and readings.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

pub(crate) mod logical;
pub(crate) mod power;

use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use straddle_device::topology::Topology;
use straddle_device::{Assume, Medium, ReadError};
use straddle_layout::{PartitionType, Stack, read_stack};
use straddle_repair::apply::{ApplyError, Backup, LaterWrites, Prepared};
use straddle_repair::{
    Identity, Part, Plan, PlanError, Request, Seed, Simulated, Situation, Size, Step, Target, make,
};
pub(crate) use straddle_units::io::SplitMix64 as Random;
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// A plan with a change to its stored form, if that is one.
pub(crate) fn edited<T: serde::Serialize + serde::de::DeserializeOwned>(
    plan: &T,
    edit: impl FnOnce(&mut serde_json::Value),
) -> Result<T, serde_json::Error> {
    let mut json = serde_json::to_value(plan).unwrap();
    edit(&mut json);
    serde_json::from_value(json)
}

/// The number of seeds, from the environment variable or `usual`.
pub(crate) fn seeds(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |n| n.parse().expect("a number"))
}

/// One of how many cases are tried: `sample`; with `scripts/test --every`, all.
pub(crate) fn one_in(sample: usize) -> usize {
    if std::env::var_os("STRADDLE_EVERY_CASE").is_some() { 1 } else { sample }
}

/// Sparse bytes in memory; copies share what they have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) units: BTreeMap<u64, Arc<[u8]>>,
    pub(crate) len: u64,
}

/// The unit that is written completely or not at all, in bytes.
pub(crate) const UNIT: usize = 512;

impl Memory {
    pub(crate) fn new(len: u64) -> Self {
        Self { units: BTreeMap::new(), len }
    }

    /// Writes whole units.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        assert!(
            at.is_multiple_of(UNIT as u64) && bytes.len().is_multiple_of(UNIT),
            "whole sectors are written"
        );
        assert!(at + bytes.len() as u64 <= self.len, "writes stay on the disk");
        for (unit, bytes) in (at / UNIT as u64..).zip(bytes.chunks(UNIT)) {
            self.units.insert(unit, Arc::from(bytes));
        }
    }
}

impl Medium for Memory {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.len)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        if at.get() + buf.len() as u64 > self.len {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.len });
        }
        buf.fill(0);
        let end = at.get() + buf.len() as u64;
        let unit = UNIT as u64;
        for (index, bytes) in self.units.range(at.get() / unit..end.div_ceil(unit)) {
            let (first, last) = ((index * unit).max(at.get()), ((index + 1) * unit).min(end));
            let within =
                |from: u64| usize::try_from(first - from).unwrap()..usize::try_from(last - from).unwrap();
            buf[within(at.get())].copy_from_slice(&bytes[within(index * unit)]);
        }
        Ok(())
    }
}

impl Simulated for Memory {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.put(at.get(), bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A drive with a write cache, which fails after a number of writes and flushes.
pub(crate) struct Cut {
    durable: Memory,
    pub(crate) seen: Memory,
    pending: Vec<(u64, Vec<u8>)>,
    pub(crate) left: u64,
    pub(crate) taken: u64,
}

impl Cut {
    pub(crate) fn new(durable: Memory, left: u64) -> Self {
        Self { seen: durable.clone(), durable, pending: Vec::new(), left, taken: 0 }
    }

    fn count(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("the power is cut"))?;
        self.taken += 1;
        Ok(())
    }

    /// What is on the medium after a power cut.
    pub(crate) fn cut(mut self, random: &mut Random) -> Memory {
        let kept = [0, 50, 100][usize::try_from(random.below(3)).unwrap()];
        for (at, bytes) in &self.pending {
            for (index, unit) in bytes.chunks(UNIT).enumerate() {
                if random.chance(kept) {
                    self.durable.put(at + (index * UNIT) as u64, unit);
                }
            }
        }
        self.durable
    }
}

impl Medium for Cut {
    fn len(&self) -> ByteCount {
        self.seen.len()
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        self.seen.read_at(at, buf)
    }
}

impl Simulated for Cut {
    fn write_at(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.count()?;
        self.seen.put(at.get(), bytes);
        self.pending.push((at.get(), bytes.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.count()?;
        for (at, bytes) in self.pending.drain(..) {
            self.durable.put(at, &bytes);
        }
        Ok(())
    }
}

pub(crate) fn topology(assume: &str) -> Topology {
    let mut topology = Topology::unknown();
    Assume::from_str(assume).unwrap().apply(&mut topology);
    topology
}

pub(crate) fn block_of(assume: &str) -> BlockSize {
    topology(assume).logical.value()
}

pub(crate) fn stack_of(medium: &dyn Medium, block: BlockSize) -> Stack {
    read_stack(medium, Some(block), None).unwrap()
}

/// Makes the plan of a request for a disk with this topology.
pub(crate) fn plan(medium: &dyn Medium, assume: &str, request: &Request) -> Result<Plan, PlanError> {
    let topology = topology(assume);
    let stack = stack_of(medium, topology.logical.value());
    make(&Situation { medium, topology: &topology, stack: &stack, serial: None }, request)
}

/// A simulated disk without a serial number, as it is written.
pub(crate) fn target(disk: &mut dyn Simulated) -> Target<'_> {
    Target::simulated(disk, Identity::default())
}

/// Writes `plan` to `target`; returns its steps and their backup.
pub(crate) fn write(target: &mut Target<'_>, plan: &Plan) -> Result<(Vec<Step>, Backup), ApplyError> {
    let prepared = Prepared::of(target, plan)?;
    let steps = prepared.steps().to_vec();
    // In memory if possible: there are many backups, and none is needed after a power cut.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("undo");
    prepared.back_up(&path)?.write()?;
    Ok((steps, Backup::load(&path)?))
}

/// Restores what `backup` holds; returns the steps.
pub(crate) fn undo(target: &mut Target<'_>, backup: &Backup) -> Vec<Step> {
    let backed_up = backup.undo(target, LaterWrites::Refuse).unwrap();
    let steps = backed_up.steps().to_vec();
    backed_up.write().unwrap();
    steps
}

/// Plans, and writes the plan; returns the plan, its steps and their backup.
pub(crate) fn plan_and_back_up(
    disk: &mut Memory,
    assume: &str,
    request: &Request,
) -> Result<(Plan, Vec<Step>, Backup), PlanError> {
    let plan = plan(disk, assume, request)?;
    match write(&mut target(disk), &plan) {
        Ok((steps, backup)) => Ok((plan, steps, backup)),
        Err(ApplyError::Plan(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Plans, and writes the plan; returns the plan and its steps.
pub(crate) fn plan_and_write(
    disk: &mut Memory,
    assume: &str,
    request: &Request,
) -> Result<(Plan, Vec<Step>), PlanError> {
    plan_and_back_up(disk, assume, request).map(|(plan, steps, _)| (plan, steps))
}

/// A table as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) partitions: Vec<(u32, u64, u64, String, String, u64, bool)>,
    id: Vec<u8>,
}

impl Reading {
    pub(crate) fn of(medium: &dyn Medium, block: BlockSize) -> Self {
        Self::of_stack(stack_of(medium, block))
    }

    /// The reading of a reader that knows only this sector size.
    pub(crate) fn forced(medium: &dyn Medium, block: BlockSize) -> Self {
        Self::of_stack(read_stack(medium, Some(block), Some(block)).unwrap())
    }

    fn of_stack(stack: Stack) -> Self {
        let partition = |p: &straddle_layout::Partition| {
            let kind = match p.kind {
                PartitionType::Guid(guid) => straddle_layout::types::guid_text(guid),
                PartitionType::Mbr(id) => straddle_layout::types::mbr_text(id),
                PartitionType::Unknown => String::new(),
            };
            let a = &p.attributes;
            (p.number, p.span.start().get(), p.span.len().get(), kind, a.name.clone(), a.gpt, a.bootable)
        };
        Self { partitions: stack.partitions.iter().map(partition).collect(), id: stack.disk_id }
    }

    /// Whether it is the same table. If no partition is listed, identifiers do not matter: an unreadable
    /// header of an empty table loses no data.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.partitions == other.partitions && (self.id == other.id || self.partitions.is_empty())
    }
}

/// A random request for a new table.
pub(crate) fn random_table(random: &mut Random, size: u64) -> Request {
    let mut request = Request::new(Seed(u128::from(random.next())));
    let is_gpt = random.chance(60);
    request.table = Some(if is_gpt { straddle_repair::Format::Gpt } else { straddle_repair::Format::Mbr });
    let count = 1 + random.below(if is_gpt { 9 } else { 4 });
    let mut has_rest = false;
    let logical_from = if !is_gpt && random.chance(50) { random.below(count.min(3)) } else { count };
    for index in 0..count + if logical_from < count { random.below(4) } else { 0 } {
        let mut part = random_part(random, size, is_gpt, &mut has_rest);
        part.logical = index >= logical_from;
        request.parts.push(part);
    }
    request
}

pub(crate) fn random_part(random: &mut Random, size: u64, is_gpt: bool, has_rest: &mut bool) -> Part {
    let mut part = Part::new(match random.below(10) {
        0 if !*has_rest => {
            *has_rest = true;
            Size::Rest
        }
        1 | 2 => Size::Percent(u8::try_from(1 + random.below(15)).unwrap()),
        3 => Size::Sectors(8 * (1 + random.below(size / 512 / 8 / 20 + 1))),
        _ => Size::Bytes(ByteCount::new(1 + random.below(size / 12))),
    });
    let kinds: &[&str] = if is_gpt {
        &["linux", "esp", "bios", "swap", "lvm", "msdata"]
    } else {
        &["linux", "esp", "swap", "lvm", "c"]
    };
    part.kind = random.chance(70).then(|| random.one_of(kinds).to_owned());
    if is_gpt {
        part.name = random.one_of(&["", "root", "data one", "größer", "a'b"]).to_owned();
        part.attributes = if random.chance(20) { 1 << random.below(3) } else { 0 };
    } else {
        part.bootable = false;
    }
    part
}

/// A random topology and disk size.
pub(crate) fn random_disk(random: &mut Random, blocks: &[&'static str]) -> (String, u64) {
    let mut assume = random.one_of(blocks).to_owned();
    if random.chance(30) {
        assume += random.one_of(&[
            ",iu=16KiB",
            ",iu=64KiB",
            ",stripe=192KiB",
            ",stripe=1536KiB",
            ",erase=3MiB",
            ",atomic=16KiB,atomic-boundary=256KiB",
        ]);
    }
    let size = match random.below(6) {
        0 => 1 << 20,
        1 => (3 << 20) + 512 * random.below(4096),
        2 => (20 << 20) + 512 * random.below(1 << 16),
        3 => (700 << 20) + 512 * random.below(1 << 20),
        4 => (40 << 30) + 512 * random.below(1 << 22),
        _ => (1 << 40) + 512 * random.below(1 << 26),
    };
    let block = block_of(&assume).get();
    (assume, size / block * block)
}

/// Up to this many changed units, every set of them is tried.
const EXHAUSTIVE: usize = 9;
/// The number of random sets if there are more units.
const SETS: u64 = 64;

/// The units that change, grouped by flush.
pub(crate) fn groups(steps: &[Step]) -> Vec<Vec<(u64, Vec<u8>)>> {
    let mut groups = vec![Vec::new()];
    for step in steps {
        match step {
            Step::Flush => groups.push(Vec::new()),
            Step::Write { at, old, new, .. } => {
                let units = (*at..).step_by(UNIT).zip(old.chunks(UNIT).zip(new.chunks(UNIT)));
                let changed =
                    units.filter(|(_, (old, new))| old != new).map(|(at, (_, new))| (at, new.to_vec()));
                groups.last_mut().unwrap().extend(changed);
            }
        }
    }
    groups
}

/// Passes `judge` every state in which a power cut during `steps` can leave `before`, or random ones if there
/// are many. Returns the disk after all steps.
pub(crate) fn each_cut(
    before: &Memory,
    steps: &[Step],
    seed: u64,
    mut judge: impl FnMut(&Memory, &str),
) -> Memory {
    let mut disk = before.clone();
    let mut random = Random::new(seed);
    for (number, group) in groups(steps).iter().enumerate() {
        let apply = |set: &dyn Fn(usize) -> bool| {
            let mut cut = disk.clone();
            for (index, (at, bytes)) in group.iter().enumerate() {
                if set(index) {
                    cut.put(*at, bytes);
                }
            }
            cut
        };
        if group.len() <= EXHAUSTIVE {
            for set in 0_u64..1 << group.len() {
                judge(&apply(&|index| set >> index & 1 == 1), &format!("group {number}, set {set:b}"));
            }
        } else {
            for end in 0..=group.len() {
                judge(&apply(&|index| index < end), &format!("group {number}, first {end}"));
                judge(&apply(&|index| index >= end), &format!("group {number}, from {end} on"));
                judge(&apply(&|index| index == end), &format!("group {number}, only {end}"));
            }
            for _ in 0..SETS {
                let set: Vec<bool> = group.iter().map(|_| random.chance(50)).collect();
                judge(&apply(&|index| set[index]), &format!("group {number}, set {set:?}"));
            }
        }
        disk = apply(&|_| true);
    }
    disk
}
