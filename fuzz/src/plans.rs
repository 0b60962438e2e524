//! Plans, backups and requests, which may come from an untrusted source and are checked before a disk is
//! touched.

use straddle_device::topology::Topology;
use straddle_device::{Medium, ReadError};
use straddle_layout::read_stack;
use straddle_repair::apply::Backup;
use straddle_repair::{Format, Part, Plan, Request, Seed, Situation, Step, encode, make};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

/// The size of the disk for requests and backups.
const SIZE: u64 = 64 << 20;

/// A disk of zeros.
struct Zeros(u64);

impl Medium for Zeros {
    fn len(&self) -> ByteCount {
        ByteCount::new(self.0)
    }

    fn read_at(&self, at: ByteOffset, buf: &mut [u8]) -> Result<(), ReadError> {
        let end = u64::try_from(buf.len()).ok().and_then(|len| at.get().checked_add(len));
        if end.is_none_or(|end| end > self.0) {
            return Err(ReadError::PastEnd { at, want: buf.len(), len: self.0 });
        }
        buf.fill(0);
        Ok(())
    }
}

/// Asserts that every write is inside a disk of `size` bytes, in whole units of 512 bytes, and has as many
/// old bytes as new ones.
fn check_steps(steps: &[Step], size: u64) {
    for step in steps {
        let Step::Write { at, old, new, .. } = step else { continue };
        assert_eq!(old.len(), new.len());
        let len = u64::try_from(new.len()).expect("a length");
        assert!(at.checked_add(len).is_some_and(|end| end <= size));
    }
}

/// Parses a plan's JSON, and makes the steps that write it to an empty disk of its size.
pub fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(plan) = Plan::from_json(text) else { return };
    let again = Plan::from_json(&plan.to_json().expect("what was read can be written"));
    assert_eq!(again.ok().as_ref(), Some(&plan));
    let disk = Zeros(plan.disk.size.get());
    let block = plan.block();
    let Ok(stack) = read_stack(&disk, Some(block), None) else { return };
    if let Ok(steps) = encode(&plan, &disk, &stack) {
        check_steps(&steps, plan.disk.size.get());
    }
}

/// Parses a backup, whatever its checksum, and makes the steps that restore it on an empty disk.
pub fn backup(data: &[u8]) {
    if let Some(steps) = Backup::preview(data, &Zeros(SIZE)) {
        check_steps(&steps, SIZE);
    }
}

/// The partitions of a new table, a line each, and the plan that is made of them.
pub fn request(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(parts) = text.lines().map(str::parse).collect::<Result<Vec<Part>, _>>() else { return };
    let mut request = Request::new(Seed(1));
    request.table = Some(if flags & 1 == 0 { Format::Gpt } else { Format::Mbr });
    (request.parts, request.allow_misaligned) = (parts, true);
    let disk = Zeros(SIZE);
    let mut topology = Topology::unknown();
    topology.adopt_table_block(if flags & 2 == 0 { BlockSize::B512 } else { BlockSize::B4096 });
    let block = topology.logical.value();
    let stack = read_stack(&disk, Some(block), None).expect("zeros can be read");
    let situation = Situation { medium: &disk, topology: &topology, stack: &stack, serial: None };
    let Ok(plan) = make(&situation, &request) else { return };
    let again = plan.to_json().map(|json| Plan::from_json(&json).ok());
    assert_eq!(again.ok().flatten().as_ref(), Some(&plan), "a plan that is made is valid");
    if let Ok(steps) = encode(&plan, &disk, &stack) {
        check_steps(&steps, SIZE);
    }
}
