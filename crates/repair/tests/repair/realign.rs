//! Plans to realign: the shapes of real disks with figures worked out by hand, and random tables.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::tests::common;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;

use common::{Memory, Random, Reading, plan_and_write, seeds, stack_of, target, topology};
use serde_json::json;
use straddle_device::Medium;
use straddle_device::topology::Topology;
use straddle_layout::layer::{Facts, FileSystem, Layer};
use straddle_layout::{Content, FsKind, Stack};
use straddle_repair::apply::{ApplyError, Prepared};
use straddle_repair::realign::{Journal, Realign, RealignError, Reference, Wanted, make, staying};
use straddle_repair::relocate::{Disks, Recovered, begin, journal_len, open};
use straddle_repair::{Change, Format, Part, Place, PlanError, Request, Seed, Situation, Size, Step, encode};
use straddle_units::{BlockSize, ByteCount, ByteOffset, ErrorKind, Span};

/// 100 MiB in sectors of 512 bytes.
const SECTORS: u64 = 204_800;

/// A disk with a table, and what is known of it.
struct Disk {
    medium: Memory,
    topology: Topology,
    stack: Stack,
}

impl Disk {
    /// A disk of `sectors` with partitions of (start, sectors).
    fn new(assume: &str, format: Format, sectors: u64, parts: &[(u64, u64)]) -> Self {
        let topology = topology(assume);
        let block = topology.logical.value();
        let mut medium = Memory::new(sectors * block.get());
        let mut request = Request::new(Seed(1));
        (request.table, request.allow_misaligned) = (Some(format), true);
        for (start, sectors) in parts {
            let part = Part::new(Size::Sectors(*sectors));
            request.parts.push(Part { start: Some(Place::Sector(*start)), ..part });
        }
        plan_and_write(&mut medium, assume, &request).unwrap();
        let stack = stack_of(&medium, block);
        Self { medium, topology, stack }
    }

    /// Puts a file system of so many sectors on a partition.
    fn holding(mut self, number: u32, kind: FsKind, sectors: u64) -> Self {
        let block = self.stack.block;
        let partition = self.stack.partitions.iter_mut().find(|p| p.number == number).unwrap();
        let hidden = kind.has_boot_sector().then_some(partition.start.get());
        let fs = FileSystem {
            block: ByteCount::new(4096),
            sector: Some(block.bytes()),
            hidden_sectors: hidden,
            extent: Some(ByteCount::new(sectors * block.get())),
            ..FileSystem::default()
        };
        partition.layer = Some(Layer {
            kind: Content::FileSystem(kind),
            name: String::new(),
            uuid: String::new(),
            below: Span::first(partition.span.len()),
            drive: Some(partition.span.start()),
            facts: Facts::FileSystem(fs),
            space: Vec::new(),
            logical: None,
            children: Vec::new(),
            remarks: Vec::new(),
        });
        self
    }

    fn situation(&self) -> Situation<'_> {
        let Self { medium, topology, stack } = self;
        Situation { medium, topology, stack, serial: None }
    }

    fn make(&self, wanted: &Wanted) -> Result<Realign, RealignError> {
        make(&self.situation(), wanted)
    }

    /// The plan to align all that is misaligned, checked as [`checked`](Self::checked) does.
    fn aligned(&self) -> Realign {
        self.checked(&Wanted::default())
    }

    /// Makes a plan, and checks that its moves and its table lead to the same places.
    fn checked(&self, wanted: &Wanted) -> Realign {
        let realign = self.make(wanted).unwrap();
        check(self, &realign);
        realign
    }

    fn refusal(&self) -> RealignError {
        self.make(&Wanted::default()).unwrap_err()
    }
}

/// The moves in sectors: start, number and destination.
fn moves(realign: &Realign) -> Vec<(u64, u64, u64)> {
    let block = realign.plan.block().get();
    let sectors = |bytes: u64| bytes / block;
    let of = |m: &straddle_repair::relocate::Move| {
        (sectors(m.from.start().get()), sectors(m.from.len().get()), sectors(m.to.get()))
    };
    realign.moves.iter().map(of).collect()
}

/// The new table: number, start and number of sectors.
fn table(realign: &Realign) -> Vec<(u32, u64, u64)> {
    let entries = &realign.plan.table.partitions;
    entries.iter().map(|e| (e.number, e.start.get(), e.sectors.get())).collect()
}

/// Makes the moves on labels, one for each sector, and checks that each partition has its own where the new
/// table lists it; that what does not move is untouched; and that the table is written so.
fn check(disk: &Disk, realign: &Realign) {
    let block = disk.stack.block.get();
    let size = disk.medium.len().get() / block;
    let mut labels: Vec<(u32, u64)> = vec![(0, 0); usize::try_from(size).unwrap()];
    let index = |sector: u64| usize::try_from(sector).unwrap();
    for partition in &disk.stack.partitions {
        for sector in 0..partition.count.get() {
            labels[index(partition.start.get() + sector)] = (partition.number, sector);
        }
    }
    let before = labels.clone();
    for (start, sectors, to) in moves(realign) {
        labels.copy_within(index(start)..index(start + sectors), index(to));
    }
    for entry in &realign.plan.table.partitions {
        let place = index(entry.start.get())..index(entry.start.get() + entry.sectors.get());
        let own = (0..entry.sectors.get()).map(|sector| (entry.number, sector));
        assert!(labels[place.clone()].iter().copied().eq(own), "partition {}", entry.number);
        match entry.change {
            Change::Kept => assert_eq!(labels[place.clone()], before[place]),
            Change::Moved { .. } => {
                let start = realign.plan.span(entry).unwrap().start();
                assert!(realign.plan.grain.is_aligned(start));
            }
            _ => panic!("{:?}", entry.change),
        }
    }
    let job = realign.job([7; 16], vec![1; 1000]).unwrap();
    if let Journal::Inside(place) = realign.journal {
        assert!(place.len() >= journal_len(&job).unwrap());
        let spans = realign.moves.iter().flat_map(|m| [m.from, m.destination().unwrap()]);
        let listed = disk.stack.partitions.iter().map(|p| p.span);
        assert!(spans.chain(listed).all(|span| !span.overlaps(place)));
    }
    let json = realign.to_json().unwrap();
    assert_eq!(Realign::from_json(&json).unwrap(), *realign);
    check_table(disk, realign);
}

/// Writes the table and reads it: nothing differs from the present one but places.
fn check_table(disk: &Disk, realign: &Realign) {
    let mut medium = disk.medium.clone();
    for step in encode(&realign.plan, &medium.clone(), &disk.stack).unwrap() {
        if let Step::Write { at, new, .. } = step {
            medium.put(at, &new);
        }
    }
    let (old, new) = (
        Reading::of(&disk.medium, disk.stack.block).partitions,
        Reading::of(&medium, disk.stack.block).partitions,
    );
    let block = disk.stack.block.get();
    let places: BTreeMap<u32, (u64, u64)> = table(realign)
        .into_iter()
        .map(|(number, start, sectors)| (number, (start * block, sectors * block)))
        .collect();
    let expected = old.into_iter().map(|mut entry| {
        (entry.1, entry.2) = places[&entry.0];
        entry
    });
    assert_eq!(new, expected.collect::<Vec<_>>());
    let guids = |stack: &Stack| stack.partitions.iter().map(|p| p.attributes.guid).collect::<Vec<_>>();
    assert_eq!(guids(&stack_of(&medium, disk.stack.block)), guids(&disk.stack));
}

#[test]
fn what_refers_to_the_old_place_is_listed() {
    let kinds = [FsKind::Exfat, FsKind::Swap, FsKind::F2fs, FsKind::Ext4, FsKind::Vfat];
    let parts = [0, 1, 2, 3, 4].map(|place| (4097 + place * 20_480, 20_480));
    let mut disk = Disk::new("512e", Format::Gpt, SECTORS, &parts);
    for (number, kind) in (1..).zip(kinds) {
        disk = disk.holding(number, kind, 20_000);
    }
    let esp = straddle_layout::types::parse_guid("C12A7328-F81F-11D2-BA4B-00A0C93EC93B").unwrap();
    disk.stack.partitions[4].kind = straddle_layout::PartitionType::Guid(esp);
    let Some(Facts::FileSystem(fs)) = disk.stack.partitions[4].layer.as_mut().map(|layer| &mut layer.facts)
    else {
        panic!()
    };
    // Not recorded: nothing to correct.
    fs.hidden_sectors = Some(0);
    // An EFI system partition moves if it is named.
    assert_eq!(staying(&disk.situation()).unwrap().iter().map(|one| one.0).collect::<Vec<_>>(), [5]);
    let all = Wanted { partitions: vec![1, 2, 3, 4, 5], ..Wanted::default() };
    let realign = disk.make(&all).unwrap();
    let exfat = Reference::BootSector {
        kind: FsKind::Exfat,
        recorded: 4097,
        correct: Some(4096),
        sector: ByteCount::new(512),
        copies: Vec::new(),
    };
    let expected = [(1, exfat), (2, Reference::Swap), (3, Reference::Zones), (5, Reference::EfiBootEntries)];
    assert_eq!(realign.references, expected);
    assert_eq!(Realign::from_json(&realign.to_json().unwrap()).unwrap(), realign);
    let mut active = Disk::new("512e", Format::Mbr, SECTORS, &XP);
    active.stack.partitions[1].attributes.bootable = true;
    // Zeros in the first sector start nothing.
    assert_eq!(active.make(&Wanted::default()).unwrap().references, []);
    let mut sector = [0; 512];
    straddle_device::Medium::read_at(&active.medium, ByteOffset::ZERO, &mut sector).unwrap();
    sector[0] = 0xFA;
    active.medium.put(0, &sector);
    let realign = active.make(&Wanted::default()).unwrap();
    assert_eq!(realign.references, [(2, Reference::ActivePartition)]);
}

/// The copy of the boot sector behind NTFS is not cut off.
#[test]
fn the_tail_of_ntfs_includes_the_copy_of_its_boot_sector() {
    // 64260 sectors must become 64256, of which the last is the copy.
    let with = |sectors| Disk::new("512e", Format::Mbr, XP_END, &XP).holding(2, FsKind::Ntfs, sectors);
    assert_eq!(with(64_255).aligned().trims(), [(2, ByteCount::new(4 * 512))]);
    let RealignError::MustShrink { shrink, .. } = with(64_256).refusal() else { panic!() };
    assert_eq!((shrink[0].number, shrink[0].by.get()), (2, 512));
}

/// A copy that ntfsresize left in the last sector of the partition does not move with a shorter one, and is not
/// corrected: something else is there then.
#[test]
fn copies_of_a_boot_sector_behind_what_moves_are_left_alone() {
    let mut disk = Disk::new("512e", Format::Mbr, XP_END, &XP).holding(2, FsKind::Ntfs, 64_000);
    let partition = &mut disk.stack.partitions[1];
    let Some(Facts::FileSystem(fs)) = partition.layer.as_mut().map(|layer| &mut layer.facts) else {
        panic!()
    };
    let (own, stale) = (ByteOffset::new(64_000 * 512), ByteOffset::new(64_259 * 512));
    fs.boot_copies = vec![own, stale];
    let realign = disk.make(&Wanted::default()).unwrap();
    assert_eq!(realign.trims(), [(2, ByteCount::new(4 * 512))]);
    let is_it = |(_, one): &&(u32, Reference)| matches!(one, Reference::BootSector { .. });
    let Some((_, Reference::BootSector { copies, .. })) = realign.references.iter().find(is_it) else {
        panic!()
    };
    assert_eq!(*copies, [own]);
}

/// A disk in memory for the engine that moves data.
struct Bytes(Vec<u8>);

impl Bytes {
    fn range(at: ByteOffset, len: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(at.get()).unwrap();
        start..start + len
    }
}

impl straddle_repair::relocate::Disk for Bytes {
    fn size(&self) -> ByteCount {
        ByteCount::new(u64::try_from(self.0.len()).unwrap())
    }

    fn read(&mut self, at: ByteOffset, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.0[Self::range(at, bytes.len())]);
        Ok(())
    }

    fn write(&mut self, at: ByteOffset, bytes: &[u8]) -> io::Result<()> {
        self.0[Self::range(at, bytes.len())].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The engine makes the moves with the journal where the plan says, and the plan is in the journal.
#[test]
fn the_engine_accepts_the_moves_and_the_place_of_the_journal() {
    let disk = Disk::new("512e", Format::Mbr, SECTORS, &XP);
    let realign = disk.aligned();
    let Journal::Inside(place) = realign.journal else { panic!() };
    let mut bytes = Bytes(vec![0; usize::try_from(SECTORS * 512).unwrap()]);
    for (sector, part) in (0_u64..).zip(bytes.0.chunks_exact_mut(512)).skip(63) {
        part[..8].copy_from_slice(&sector.to_le_bytes());
    }
    let payload = realign.to_json().unwrap().into_bytes();
    let job = realign.job([7; 16], payload).unwrap();
    begin(Disks::one(&mut bytes), place, job).unwrap();
    let Some(Recovered::Unfinished(unfinished)) = open(Disks::one(&mut bytes), place).unwrap() else {
        panic!()
    };
    let stored = String::from_utf8(unfinished.job().payload.to_vec()).unwrap();
    assert_eq!(Realign::from_json(&stored).unwrap(), realign);
    let ended = unfinished.resume(&mut |_| ControlFlow::Continue(())).unwrap();
    let Some(moved) = ended else { panic!() };
    moved.erase().unwrap();
    for ((from, sectors), (_, to, _)) in XP.into_iter().zip(table(&realign)) {
        for sector in 0..sectors {
            let found = &bytes.0[Bytes::range(ByteOffset::new((to + sector) * 512), 8)];
            assert_eq!(found, (from + sector).to_le_bytes());
        }
    }
}

/// Windows XP: from sector 63, ends on cylinders of 16065 sectors, and no gap.
const XP: [(u64, u64); 2] = [(63, 64_197), (64_260, 64_260)];
/// Where the second of them ends.
const XP_END: u64 = 128_520;

#[test]
fn two_without_a_gap_move_up_the_last_first() {
    let disk = Disk::new("512e", Format::Mbr, SECTORS, &XP).holding(1, FsKind::Ntfs, 64_196);
    let realign = disk.aligned();
    // 63 goes to 2048, the first multiple of 1 MiB; 2048 + 64197 = 66245, and the next multiple is 67584.
    assert_eq!(moves(&realign), [(64_260, 64_260, 67_584), (63, 64_197, 2048)]);
    assert_eq!(table(&realign), [(1, 2048, 64_197), (2, 67_584, 64_260)]);
    assert_eq!(realign.trims(), []);
    // From 67584 + 64260 = 131844 on, 72956 sectors are free: more than two windows of 16 MiB and a little.
    let Journal::Inside(place) = realign.journal else { panic!("{:?}", realign.journal) };
    assert_eq!(realign.window.get(), 16 << 20);
    // Behind it there is room for the backup of a GPT.
    assert_eq!(place.end().get(), (SECTORS - 33) * 512 / 4096 * 4096);
    assert!(place.start().get() >= 131_844 * 512);
    let hidden = Reference::BootSector {
        kind: FsKind::Ntfs,
        recorded: 63,
        correct: Some(2048),
        sector: ByteCount::new(512),
        copies: Vec::new(),
    };
    assert_eq!(realign.references, [(1, hidden), (1, Reference::WindowsVolume)]);
}

#[test]
fn without_room_at_the_end_a_file_system_must_shrink() {
    let full = |second| {
        let disk = Disk::new("512e", Format::Mbr, XP_END, &XP);
        disk.holding(1, FsKind::Ntfs, 64_196).holding(2, second, 64_260)
    };
    // On 4 KiB: 64 + 64197 = 64261, the next multiple of 8 is 64264, and 64264 + 64260 = 128524.
    // Or the first ends where the last possible start is: 128520 - 64260 = 64260, so 64256 - 64 = 64192.
    for (second, by) in [(FsKind::Ext4, [(2, 4), (1, 5)]), (FsKind::Xfs, [(1, 5), (2, 4)])] {
        let RealignError::MustShrink { numbers, missing, shrink } = full(second).refusal() else { panic!() };
        assert_eq!((numbers, missing.get()), (vec![1, 2], 4 * 512));
        let found: Vec<(u32, u64)> = shrink.iter().map(|one| (one.number, one.by.get() / 512)).collect();
        assert_eq!(found, by);
        let xfs = shrink.iter().find(|one| one.number == 2).unwrap();
        assert_eq!((xfs.to.get(), xfs.is_possible()), (64_256 * 512, Some(second != FsKind::Xfs)));
    }
    assert_eq!(full(FsKind::Xfs).refusal().kind(), ErrorKind::Refused);
}

#[test]
fn an_unused_tail_gives_way() {
    let disk = Disk::new("512e", Format::Mbr, XP_END, &XP).holding(2, FsKind::Ext4, 64_250);
    let realign = disk.aligned();
    assert_eq!(moves(&realign), [(64_260, 64_256, 64_264), (63, 64_197, 64)]);
    assert_eq!(realign.trims(), [(2, ByteCount::new(4 * 512))]);
    // Nothing is unallocated: the journal goes elsewhere.
    let Journal::Elsewhere { needed } = realign.journal else { panic!("{:?}", realign.journal) };
    assert!(needed.get() > 32 << 20, "{needed:?}");
}

#[test]
fn a_gpt_partition_at_34_moves_to_1_mib() {
    let disk = Disk::new("512e", Format::Gpt, SECTORS, &[(34, 100_000)]);
    let realign = disk.aligned();
    assert_eq!(moves(&realign), [(34, 100_000, 2048)]);
    // Of the 32 places at most of a disk of this size.
    let Journal::Inside(place) = realign.journal else { panic!("{:?}", realign.journal) };
    assert_eq!(place.end().get(), 88 << 20);
}

#[test]
fn three_in_a_row_move_in_the_order_of_their_direction() {
    let row = |first: u64| [0, 1, 2].map(|place| (first + place * 20_480, 20_480));
    let down = Disk::new("512e", Format::Gpt, SECTORS, &row(2049)).aligned();
    assert_eq!(moves(&down), [(2049, 20_480, 2048), (22_529, 20_480, 22_528), (43_009, 20_480, 43_008)]);
    let up = Disk::new("512e", Format::Gpt, SECTORS, &row(2047)).aligned();
    assert_eq!(moves(&up), [(43_007, 20_480, 43_008), (22_527, 20_480, 22_528), (2047, 20_480, 2048)]);
}

#[test]
fn two_do_not_swap() {
    let disk = Disk::new("512e", Format::Gpt, SECTORS, &[(2048, 20_480), (22_528, 20_480)]);
    let start = |sector: u64| ByteOffset::new(sector * 512);
    let wanted = Wanted { starts: vec![(1, start(22_528)), (2, start(2048))], ..Wanted::default() };
    let RealignError::Blocked { numbers } = disk.make(&wanted).unwrap_err() else { panic!() };
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_partition_to_the_very_end_moves_down_or_gives_way() {
    let disk = Disk::new("512e", Format::Mbr, SECTORS, &[(2049, SECTORS - 2049)]);
    assert_eq!(moves(&disk.aligned()), [(2049, 202_751, 2048)]);
    // Boot loaders have what is before the first partition, so this one cannot move down.
    let disk = Disk::new("512e", Format::Mbr, SECTORS, &[(2047, SECTORS - 2047)]);
    let RealignError::MustShrink { missing, shrink, .. } = disk.refusal() else { panic!() };
    assert_eq!((missing.get(), shrink[0].by.get(), shrink[0].to.get()), (512, 512, 202_752 * 512));
    let realign = disk.holding(1, FsKind::Ext4, 202_752).aligned();
    assert_eq!(moves(&realign), [(2047, 202_752, 2048)]);
}

#[test]
fn sectors_of_4096_bytes_are_misaligned_for_larger_units_only() {
    let disk = Disk::new("4kn", Format::Gpt, 25_600, &[(6, 1000)]);
    assert!(matches!(disk.refusal(), RealignError::Nothing));
    // On request it goes to 1 MiB.
    let named = Wanted { partitions: vec![1], ..Wanted::default() };
    assert_eq!(moves(&disk.checked(&named)), [(6, 1000, 256)]);
    let disk = Disk::new("4kn,iu=16KiB", Format::Gpt, 25_600, &[(6, 1000)]);
    assert_eq!(moves(&disk.aligned()), [(6, 1000, 256)]);
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let mut request = Request::new(Seed(1));
    (request.table, request.allow_misaligned) = (Some(Format::Mbr), true);
    let part = |sector| Part { start: Some(Place::Sector(sector)), ..Part::new(Size::Sectors(20_000)) };
    request.parts = vec![part(2048), Part { logical: true, ..part(40_001) }];
    let mut medium = Memory::new(SECTORS * 512);
    plan_and_write(&mut medium, "512e", &request).unwrap();
    let stack = stack_of(&medium, BlockSize::B512);
    let disk = Disk { medium, topology: topology("512e"), stack };
    let named = |number| Wanted { partitions: vec![number], ..Wanted::default() };
    assert!(matches!(disk.make(&named(1)).unwrap_err(), RealignError::Nothing));
    assert!(matches!(disk.make(&named(2)).unwrap_err(), RealignError::Container(2)));
    assert!(matches!(disk.make(&named(9)).unwrap_err(), RealignError::NoSuchPartition(9)));
    let container = disk.stack.partitions.iter().find(|p| p.number == 2).unwrap().span;
    let container = format!(
        "the partition would overlap partition 2, from byte {} to byte {}",
        container.start(),
        container.end()
    );
    let end = format!("the space for partitions ends at byte {}", SECTORS * 512);
    // What is before belongs to boot loaders.
    let first = format!("the space for partitions starts at byte {}", 2048 * 512);
    let cases =
        [(2049, "boundary"), (40_960, &container), (8, &first), (SECTORS, &end), (2 * SECTORS + 2048, &end)];
    for (sector, says) in cases {
        let wanted = Wanted { starts: vec![(1, ByteOffset::new(sector * 512))], ..Wanted::default() };
        let refused = disk.make(&wanted).unwrap_err();
        assert!(matches!(refused, RealignError::Start { number: 1, .. }), "{sector}");
        assert!(refused.to_string().contains(says), "{sector}: {refused}, not {says}");
    }
    // A place that another partition is to get.
    let disk = Disk::new("512e", Format::Gpt, SECTORS, &[(2049, 20_000), (22_049, 20_000)]);
    let starts = vec![(1, ByteOffset::new(65_536 * 512)), (2, ByteOffset::new(67_584 * 512))];
    let refused = disk.make(&Wanted { starts, ..Wanted::default() }).unwrap_err();
    println!("{refused}");
    assert!(matches!(refused, RealignError::Start { .. }), "{refused}");
}

#[test]
fn its_table_alone_is_not_written() {
    let mut disk = Disk::new("512e", Format::Mbr, SECTORS, &XP);
    let realign = disk.aligned();
    let refused = Prepared::of(&mut target(&mut disk.medium), &realign.plan).err().unwrap();
    assert!(matches!(refused, ApplyError::Plan(PlanError::MovesData(1))), "{refused}");
}

#[test]
fn a_stored_plan_that_would_destroy_something_is_refused() {
    let realign = Disk::new("512e", Format::Mbr, SECTORS, &[(63, 20_000), (40_960, 20_480)]).aligned();
    assert!(common::edited(&realign, |_| ()).is_ok());
    let edits = [
        ("/moves/0/from/start_bytes", json!(64 * 512)),
        ("/moves/0/from/size_bytes", json!(19_999 * 512)),
        ("/moves/0/to_bytes", json!(40_960 * 512)),
        ("/moves", json!([])),
        ("/plan/table/partitions/0/start_lba", json!(2049)),
        ("/plan/table/partitions/1/type", json!("7")),
        ("/plan/before/0/sectors", json!(19_999)),
        ("/journal", json!({"unallocated": {"start_bytes": 40_960 * 512, "size_bytes": 64 << 20}})),
    ];
    for (path, value) in edits {
        let edit = |json: &mut serde_json::Value| *json.pointer_mut(path).unwrap() = value;
        assert!(common::edited(&realign, edit).is_err(), "{path}");
    }
    let other = realign.to_json().unwrap().replacen("\"schema\": 2", "\"schema\": 3", 1);
    assert!(Realign::from_json(&other).unwrap_err().to_string().contains("has schema version 3"));
}

/// Draws a disk with primary partitions, most of them misaligned, some with unused tails.
fn random_disk(random: &mut Random) -> Disk {
    let assume = random.one_of(&["512e", "512e,iu=16KiB", "4kn,iu=16KiB", "512n"]);
    let is_gpt = random.chance(60);
    let format = if is_gpt { Format::Gpt } else { Format::Mbr };
    let most = if is_gpt { 8 } else { 4 };
    let block = topology(assume).logical.value().get();
    let size = (2 + random.below(40)) * (1 << 20) / block + random.below(64);
    let (mut at, end) = (64, size - 40);
    let (mut parts, count) = (Vec::new(), 1 + random.below(most));
    for _ in 0..count {
        at += if random.chance(50) { 0 } else { random.below(size / 10) };
        let len = 1 + random.below(2 * size / (count + 1));
        if at + len > end {
            break;
        }
        parts.push((at, len));
        at += len;
    }
    let mut disk = Disk::new(assume, format, size, &parts);
    for (number, (_, len)) in (1..).zip(parts) {
        if random.chance(50) {
            let kind = [FsKind::Ext4, FsKind::Ntfs, FsKind::Xfs][usize::try_from(random.below(3)).unwrap()];
            disk = disk.holding(number, kind, 1 + random.below(len));
        }
    }
    disk
}

#[test]
fn random_tables_are_realigned() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let all = seeds("STRADDLE_REALIGN_SEEDS", 400);
    for seed in 0..all {
        let mut random = Random::new(seed);
        let disk = random_disk(&mut random);
        let wanted = match random.chance(30) {
            true => Wanted {
                partitions: disk.stack.partitions.iter().map(|p| p.number).collect(),
                ..Wanted::default()
            },
            false => Wanted::default(),
        };
        let outcome = match disk.make(&wanted) {
            Ok(realign) => {
                check(&disk, &realign);
                if realign.trims().is_empty() { "realigned" } else { "realigned with tails cut" }
            }
            Err(RealignError::Nothing) => "nothing to do",
            Err(RealignError::NoRoom { .. }) => "no room",
            Err(RealignError::MustShrink { .. }) => "must shrink",
            Err(RealignError::Blocked { .. }) => "blocked",
            Err(other) => panic!("seed {seed}: {other:?}"),
        };
        *counts.entry(outcome).or_default() += 1;
    }
    println!("{all} seeds: {counts:?}");
    assert!(counts["realigned"] > all / 4 && counts["realigned with tails cut"] > 0, "{counts:?}");
}
