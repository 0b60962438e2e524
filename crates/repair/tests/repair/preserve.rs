//! What a request does not name is kept bit for bit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tests::common;
#[path = "preserve/over.rs"]
mod over;

use common::{Memory, block_of, plan_and_write, stack_of};
use straddle_device::Medium;
use straddle_layout::TableKind;
use straddle_repair::{Format, Part, PlanError, Request, Seed, Size};
use straddle_units::{ByteCount, ByteOffset};

const SIZE: u64 = 64 << 20;

fn read(disk: &Memory, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    disk.read_at(ByteOffset::new(at), &mut bytes).unwrap();
    bytes
}

/// Changes the `bytes` at `at` within their 512-byte units.
fn patch(disk: &mut Memory, at: u64, bytes: &[u8]) {
    let unit = at / 512 * 512;
    let mut whole = read(disk, unit, 512);
    let from = usize::try_from(at - unit).unwrap();
    whole[from..from + bytes.len()].copy_from_slice(bytes);
    disk.put(unit, &whole);
}

/// Corrects both checksums of the copy whose header is at `header` and whose array is at `array`.
fn sum(disk: &mut Memory, header: u64, array: u64) {
    let entries = crc32fast::hash(&read(disk, array, 128 * 128));
    patch(disk, header + 88, &entries.to_le_bytes());
    patch(disk, header + 16, &[0; 4]);
    let crc = crc32fast::hash(&read(disk, header, 92));
    patch(disk, header + 16, &crc.to_le_bytes());
}

fn request(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = Request::new(Seed(3));
    change(&mut request);
    request
}

fn parts(count: usize) -> Vec<Part> {
    vec![Part::new(Size::Bytes(ByteCount::new(4 << 20))); count]
}

/// A GPT with everything that tools must leave alone: boot code, a hybrid MBR, bytes after the header, an
/// unknown type, a name that is not valid UTF-16, attributes, and entries out of order.
#[test]
fn a_gpt_keeps_what_it_has() {
    let mut disk = Memory::new(SIZE);
    plan_and_write(&mut disk, "512e", &request(|r| (r.table, r.parts) = (Some(Format::Gpt), parts(4))))
        .unwrap();
    let backup = SIZE - 512;
    let (arrays, headers) = ([1024, backup - 32 * 512], [512, backup]);
    for (array, header) in arrays.into_iter().zip(headers) {
        patch(&mut disk, array + 128, &[0xA7; 16]);
        patch(&mut disk, array + 128 + 48, &[0x5A; 8]);
        patch(&mut disk, array + 128 + 56, &[0x00, 0xD8, 0x41, 0x00, 0x00, 0xDC]);
        let (third, fourth) = (read(&disk, array + 256, 128), read(&disk, array + 384, 128));
        patch(&mut disk, array + 256, &fourth);
        patch(&mut disk, array + 384, &third);
        patch(&mut disk, header + 100, b"kept");
        sum(&mut disk, header, array);
    }
    patch(&mut disk, 0, &[0xEB; 440]);
    patch(&mut disk, 462, &[0x80, 1, 2, 3, 0x83, 4, 5, 6, 0, 8, 0, 0, 0, 32, 0, 0]);
    let before = disk.clone();
    let stack = stack_of(&disk, block_of("512e"));
    assert_eq!((&stack.kind, stack.problems.as_slice()), (&TableKind::HybridMbr, &[][..]));
    plan_and_write(&mut disk, "512e", &request(|r| (r.delete, r.parts) = (vec![1], parts(1)))).unwrap();
    assert_eq!(read(&disk, 0, 512), read(&before, 0, 512), "the MBR");
    for (array, header) in arrays.into_iter().zip(headers) {
        assert_eq!(
            read(&disk, array + 128, 127 * 128),
            read(&before, array + 128, 127 * 128),
            "all but one entry"
        );
        assert_ne!(read(&disk, array, 128), read(&before, array, 128), "that entry");
        let (mut now, mut then) = (read(&disk, header, 512), read(&before, header, 512));
        for sums in [16..20, 88..92] {
            now[sums.clone()].fill(0);
            then[sums].fill(0);
        }
        assert_eq!(now, then, "all of the header but its sums");
    }
    assert_eq!(stack_of(&disk, block_of("512e")).problems, []);
}

/// An MBR with boot code, a disk identifier, and unusual CHS addresses in an entry that is kept.
#[test]
fn an_mbr_keeps_what_it_has() {
    let mut disk = Memory::new(SIZE);
    let mut wanted = parts(4);
    wanted[2].logical = true;
    wanted[3].logical = true;
    plan_and_write(&mut disk, "512e", &request(|r| (r.table, r.parts) = (Some(Format::Mbr), wanted)))
        .unwrap();
    let ebr = stack_of(&disk, block_of("512e"))
        .partitions
        .iter()
        .find(|p| p.number == 3)
        .unwrap()
        .span
        .start()
        .get();
    patch(&mut disk, 0, &[0xEB; 446]);
    patch(&mut disk, 447, &[9, 9, 9]);
    patch(&mut disk, ebr, &[0xCD; 400]);
    let before = disk.clone();
    plan_and_write(&mut disk, "512e", &request(|r| r.delete = vec![2])).unwrap();
    let (now, then) = (read(&disk, 0, 512), read(&before, 0, 512));
    assert_eq!((&now[..462], &now[478..]), (&then[..462], &then[478..]));
    assert_eq!(now[462..478], [0; 16]);
    plan_and_write(&mut disk, "512e", &request(|r| r.delete = vec![6])).unwrap();
    let (now, then) = (read(&disk, ebr, 512), read(&before, ebr, 512));
    assert_eq!(
        (&now[..462], now[462..478].to_vec()),
        (&then[..462], vec![0; 16]),
        "its link is gone and nothing else"
    );
}

/// Whether each record of the chain whose container starts at byte `first` lists a partition.
fn records(disk: &Memory, first: u64) -> Vec<bool> {
    let (mut at, mut lists) = (first, Vec::new());
    loop {
        let record = read(disk, at, 512);
        assert_eq!(record[510..], [0x55, 0xAA]);
        lists.push(record[446 + 4] != 0);
        if record[462 + 4] == 0 {
            return lists;
        }
        let next = u32::from_le_bytes(record[470..474].try_into().unwrap());
        at = first + u64::from(next) * 512;
        assert!(lists.len() < 20, "a loop");
    }
}

/// Whatever is deleted from a chain, every remaining record lists a partition, except the single record of an
/// empty chain. The other partitions keep their places, types and flags.
#[test]
fn no_record_is_left_that_lists_nothing() {
    for deleted in 1..1_u32 << 4 {
        let mut disk = Memory::new(SIZE);
        let mut wanted = parts(4);
        for (part, bootable) in wanted.iter_mut().zip([false, true, false, true]) {
            (part.logical, part.bootable) = (true, bootable);
        }
        plan_and_write(&mut disk, "512e", &request(|r| (r.table, r.parts) = (Some(Format::Mbr), wanted)))
            .unwrap();
        let before = stack_of(&disk, block_of("512e")).partitions;
        let extended = before.iter().find(|p| p.number < 5).unwrap().span.start().get();
        let numbers: Vec<u32> = (5..9).filter(|number| deleted & 1 << (number - 5) != 0).collect();
        let done = plan_and_write(&mut disk, "512e", &request(|r| r.delete = numbers.clone()));
        // A change of two records cannot be made with a single write.
        if let Err(error) = done {
            assert!(matches!(error, PlanError::TwoSteps(_)) && numbers.len() > 1, "{numbers:?}: {error}");
            continue;
        }
        let after = stack_of(&disk, block_of("512e")).partitions;
        let what = |p: &straddle_layout::Partition| (p.span, p.kind, p.attributes.bootable);
        let stays = |p: &&straddle_layout::Partition| p.number >= 5;
        let kept: Vec<_> =
            before.iter().filter(|p| !numbers.contains(&p.number)).filter(stays).map(what).collect();
        let found: Vec<_> = after.iter().filter(stays).map(what).collect();
        assert_eq!(found, kept, "{numbers:?}");
        let lists = records(&disk, extended);
        assert!(lists == [false] || lists.iter().all(|lists| *lists), "{numbers:?}: {lists:?}");
    }
}
