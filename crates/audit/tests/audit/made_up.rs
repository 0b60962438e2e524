//! A start is judged by the data that is written above it. Whatever the layers' offsets, there is an error
//! exactly if some data is off a physical sector; if all data is aligned, no fix moves anything.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use straddle_audit::{
    Asked, Code, Context, Finding, Findings, Judgement, Recognised, Reported, Severity, Status, Subject, ask,
};
use straddle_device::topology::{AlignmentOffset, Figure, Source, Topology};
use straddle_layout::layer::{Facts, FileSystem, Layer, Luks, Lv, Md, Pv, Segment};
use straddle_layout::view::Piece;
use straddle_layout::{
    Attributes, Class, Content, FsKind, Named, Partition, PartitionType, Role, Stack, TableKind, Unclaimed,
    VolumeKind,
};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

const SECTOR: u64 = 512;
const PHYSICAL: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A layer on a start, with offsets in sectors.
#[derive(Clone, Debug)]
enum Kind {
    Md(u64, Option<Box<Kind>>),
    Luks(u64, Option<Box<Kind>>),
    /// The start of its extents, and the volumes with their offsets from there.
    Lvm(u64, Vec<(u64, Option<Box<Kind>>)>),
    FileSystem,
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0_u64), 3 => 0_u64..16].prop_map(|odd| 2048 + odd)
}

fn kind() -> impl Strategy<Value = Kind> {
    Just(Kind::FileSystem).prop_recursive(3, 16, 3, |inner| {
        let above = || proptest::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            (offset(), above()).prop_map(|(at, above)| Kind::Md(at, above)),
            (offset(), above()).prop_map(|(at, above)| Kind::Luks(at, above)),
            (offset(), proptest::collection::vec((0_u64..16, above()), 0..3))
                .prop_map(|(at, volumes)| Kind::Lvm(at, volumes)),
        ]
    })
}

fn span(at: u64) -> Span {
    Span::new(ByteOffset::new(at), ByteCount::new(MIB)).unwrap()
}

fn piece(below: u64, drive: u64) -> Vec<Piece> {
    let (below, drive) = (ByteOffset::new(below), ByteOffset::new(drive));
    vec![Piece { span: Span::first(ByteCount::new(MIB)), below, drive }]
}

/// Builds the layer of `kind` at byte `below` of what it stands on, which is byte `drive` of the disk.
/// Appends the offsets at which data is written to `written`.
fn layer(kind: &Kind, below: u64, drive: u64, name: &str, written: &mut Vec<u64>) -> Layer {
    let bare = |kind, facts| Layer {
        name: name.to_owned(),
        ..Layer::new(kind, facts, span(below), Some(ByteOffset::new(drive)))
    };
    let mut on = |above: &Option<Box<Kind>>, at: u64| match above {
        Some(above) => vec![layer(above, 0, at, "x", written)],
        None => {
            written.push(at);
            Vec::new()
        }
    };
    match kind {
        Kind::FileSystem => {
            written.push(drive);
            let block = ByteCount::new(PHYSICAL);
            bare(FsKind::Ext4.into(), Facts::FileSystem(FileSystem { block, ..FileSystem::default() }))
        }
        Kind::Md(at, above) => {
            let at = at * SECTOR;
            let data_offset = ByteCount::new(at);
            let facts = Facts::Md(Md { level: 1, raid_disks: 2, data_offset, ..Md::default() });
            let children = on(above, drive + at);
            Layer { space: piece(below + at, drive + at), children, ..bare(VolumeKind::Md.into(), facts) }
        }
        Kind::Luks(at, above) => {
            let at = at * SECTOR;
            let payload = Some(ByteOffset::new(at));
            let sector_size = ByteCount::new(PHYSICAL);
            let children = on(above, drive + at);
            let facts = Facts::Luks(Luks { version: 2, payload, sector_size, ..Luks::default() });
            Layer { space: piece(below + at, drive + at), children, ..bare(VolumeKind::Luks.into(), facts) }
        }
        Kind::Lvm(at, volumes) => {
            let at = at * SECTOR;
            let mut children = Vec::new();
            for (index, (odd, above)) in (0_u64..).zip(volumes) {
                let on_pv = at + 4 * MIB * index + odd * SECTOR;
                let segment = Segment {
                    span: Span::first(ByteCount::new(MIB)),
                    kind: "striped".to_owned(),
                    stripes: 1,
                    stripe_size: ByteCount::ZERO,
                    on_pv: Some(ByteOffset::new(on_pv)),
                };
                let facts = Facts::Lv(Lv { segments: vec![segment] });
                children.push(Layer {
                    name: format!("vg/{index}"),
                    below: span(on_pv),
                    drive: Some(ByteOffset::new(drive + on_pv)),
                    space: piece(on_pv, drive + on_pv),
                    children: on(above, drive + on_pv),
                    ..bare(Content::LogicalVolume, facts)
                });
            }
            if volumes.is_empty() {
                written.push(drive + at);
            }
            let data_start = ByteOffset::new(at);
            let pv =
                Pv { vg: "vg".to_owned(), data_start, extent_size: ByteCount::new(512), ..Pv::default() };
            let facts = Facts::Pv(pv);
            // Its space is relative to its own first byte.
            let extents = Span::new(data_start, ByteCount::new(32 * MIB)).unwrap();
            let space = vec![Piece { span: extents, ..piece(below + at, drive + at)[0] }];
            Layer { space, children, ..bare(VolumeKind::Pv.into(), facts) }
        }
    }
}

/// An empty disk.
fn stack() -> Stack {
    Stack {
        kind: TableKind::None,
        block: BlockSize::B512,
        block_found: true,
        disk_id: Vec::new(),
        usable: None,
        layer: None,
        partitions: Vec::new(),
        hybrid: Vec::new(),
        hybrid_iso: None,
        problems: Vec::new(),
    }
}

fn audit(kind: TableKind, whole: Option<Layer>, partitions: Vec<Partition>) -> Findings {
    let stack = Stack { kind, layer: whole, partitions, ..stack() };
    let topology = Topology::unknown();
    straddle_audit::run(&Context::of(
        "/dev/sdx",
        straddle_device::DeviceKind::Scsi,
        ByteCount::new(1 << 40),
        &topology,
        &stack,
    ))
}

/// The findings on a partition that starts at sector `start` and contains `kind`, and the offsets at which
/// its data is written.
fn on_partition(start: u64, kind: Option<&Kind>) -> (Findings, Vec<u64>) {
    let mut written = Vec::new();
    let at = start * SECTOR;
    let layer = kind.map(|kind| layer(kind, at, at, "x", &mut written));
    if kind.is_none() {
        written.push(at);
    }
    (with_layer(start, layer), written)
}

/// A partition of `count` sectors from `start` on, which contains `layer`.
fn partition(number: u32, start: u64, count: u64, layer: Option<Layer>) -> Partition {
    let (start, count) = (Lba::new(start), LbaCount::new(count));
    Partition {
        number,
        start,
        count,
        span: Span::of_blocks(start, count, BlockSize::B512).unwrap(),
        role: Role::Primary,
        kind: PartitionType::Guid([1; 16]),
        attributes: Attributes::default(),
        content: None,
        layer,
        unclaimed: Unclaimed::Nothing,
    }
}

/// The findings on a partition that starts at sector `start` and contains `layer`.
fn with_layer(start: u64, layer: Option<Layer>) -> Findings {
    audit(TableKind::Gpt, None, vec![partition(1, start, 1 << 21, layer)])
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.rule.code.as_str()).collect()
}

proptest! {
    #[test]
    fn a_start_is_judged_by_what_is_written_above_it(
        start in prop_oneof![Just(2048_u64), 2048_u64..2064],
        kind in proptest::option::of(kind()),
    ) {
        let (findings, written) = on_partition(start, kind.as_ref());
        let is_off = |at: &&u64| !at.is_multiple_of(PHYSICAL);
        let off = written.iter().filter(is_off).count();
        // A container in a container whose data begin inside one of its sectors is not opened, wherever they are.
        let is_placed = |finding: &&Finding| finding.severity == Severity::Error && finding.rule.code != Code::S069;
        let errors = findings.iter().filter(is_placed).count();
        prop_assert_eq!(errors > 0, off > 0, "{:?} {:?}", written, codes(&findings));
        if off < written.len() && !start.is_multiple_of(8) {
            // A move would misalign data that is now aligned.
            let moves = findings.iter().filter_map(|finding| finding.fix.as_ref()).any(|fix| {
                fix.commands.iter().any(|command| command.tool == "sfdisk")
            });
            prop_assert!(!moves, "{:?} {:?}", written, findings);
        }
    }
}

#[test]
fn what_makes_up_for_a_start_is_said_and_moves_nothing() {
    let lvm = |pe_start: u64, volumes: &[u64]| {
        Kind::Lvm(pe_start, volumes.iter().map(|at| (*at, Some(Box::new(Kind::FileSystem)))).collect())
    };
    let cases: [(u64, Option<Kind>, &[&str]); 9] = [
        // What pvcreate and cryptsetup make on a disk that reports its alignment offset.
        (2049, Some(lvm(2055, &[0])), &["S056"]),
        (2049, Some(lvm(2055, &[])), &["S056"]),
        (63, Some(Kind::Luks(4097, None)), &["S010", "S056"]),
        (2049, Some(Kind::Md(2048, Some(Box::new(lvm(2055, &[0]))))), &["S056"]),
        // Its first extent is misaligned, but its only volume is not.
        (2048, Some(lvm(2049, &[7])), &["S056"]),
        // Layers that do not make up for it.
        (2049, Some(Kind::FileSystem), &["S001"]),
        (2049, Some(lvm(2048, &[0])), &["S001"]),
        (2049, Some(Kind::Md(2048, None)), &["S001"]),
        (2049, None, &["S001"]),
    ];
    for (start, kind, expected) in cases {
        let (findings, _) = on_partition(start, kind.as_ref());
        assert_eq!(codes(&findings), expected, "{start} {kind:?} {findings:?}");
    }
    let (findings, _) = on_partition(2049, Some(&lvm(2048, &[7, 0])));
    let start = findings.iter().find(|finding| finding.rule.code == Code::S001).unwrap();
    assert!(start.message.contains("LV vg/0 compensates for it, but LV vg/1 does not"), "{}", start.message);
}

#[test]
fn a_volume_that_fills_a_shifted_disk_is_judged_by_its_data() {
    for (pe_start, expected) in [(2055, &["S056"][..]), (2048, &["S001"])] {
        let mut topology = Topology::unknown();
        let kind = Kind::Lvm(pe_start, vec![(0, Some(Box::new(Kind::FileSystem)))]);
        let layer = layer(&kind, 0, 0, "x", &mut Vec::new());
        topology.alignment_offset =
            Figure::new(AlignmentOffset::Bytes(ByteCount::new(3584)), Source::Declared);
        let kind = TableKind::Content(VolumeKind::Pv.into());
        let stack = Stack { kind, layer: Some(layer), ..stack() };
        let findings = straddle_audit::run(&Context::of(
            "/dev/sdx",
            straddle_device::DeviceKind::Scsi,
            ByteCount::new(1 << 40),
            &topology,
            &stack,
        ));
        let placed: Vec<_> = codes(&findings).into_iter().filter(|code| *code != "S023").collect();
        assert_eq!(placed, expected, "{findings:?}");
    }
}

/// A file system on an array of two partitions of one disk is reported once, and found from either partition.
#[test]
fn a_file_system_that_two_partitions_lead_to_is_found_from_each() {
    let array = |number: u32, role: u32| {
        let at = u64::from(number) * 64 * MIB;
        let mut member =
            layer(&Kind::Md(2048, Some(Box::new(Kind::FileSystem))), at, at, "", &mut Vec::new());
        let Facts::Md(md) = &mut member.facts else { panic!("it is a member") };
        md.role = Some(role);
        member.uuid = "a1".to_owned();
        let block = ByteCount::new(1024);
        member.children[0].facts = Facts::FileSystem(FileSystem { block, ..FileSystem::default() });
        member.children[0].uuid = "f5".to_owned();
        partition(number, at / SECTOR, 1 << 16, Some(member))
    };
    let partitions = || vec![array(1, 0), array(2, 1)];
    let all = audit(TableKind::Gpt, None, partitions());
    // (the partition asked for, the partition at which the finding is reported)
    for (partition, reported) in
        [(None, Subject::Partition(1)), (Some(1), Subject::Partition(1)), (Some(2), Subject::Partition(2))]
    {
        let mut findings = all.clone();
        ask(&mut findings, &Asked { partition, ..Asked::default() });
        let here: Vec<Subject> =
            findings.iter().filter(|f| f.reported == Reported::Here).map(|f| f.subject).collect();
        assert_eq!(here, [reported], "{partition:?} {findings:?}");
        let judgement = Judgement::of(&findings, Recognised::Known);
        assert_eq!(judgement.status(), Status::Warning, "{partition:?}");
        for number in [1, 2] {
            let inside = judgement.partition(number).and_then(|of| of.inside).unwrap();
            assert_eq!(
                (findings[inside].rule.code.as_str(), findings[inside].subject),
                ("S061", Subject::Partition(number))
            );
        }
    }
}

/// Severities of the findings of `code` on a partition that ends in the middle of a sector and contains
/// `content`.
fn severities(content: Layer, code: &str) -> Vec<Severity> {
    let partition = Partition { content: Some(content.kind), ..partition(1, 2048, 4097, Some(content)) };
    let findings = audit(TableKind::Gpt, None, vec![partition]);
    findings.iter().filter(|f| f.rule.code.as_str() == code).map(|f| f.severity).collect()
}

/// The same severities for a file system of `kind` as the content.
fn severities_of_fs(kind: Content, fs: FileSystem, code: &str) -> Vec<Severity> {
    let at = 2048 * SECTOR;
    let content = layer(&Kind::FileSystem, at, at, "", &mut Vec::new());
    severities(Layer { kind, facts: Facts::FileSystem(fs), ..content }, code)
}

#[test]
fn a_tail_is_unused_where_it_is_known_to_be() {
    let fs = |block| FileSystem { block: ByteCount::new(block), ..FileSystem::default() };
    // (content, its block size, expected severity of the finding on the end)
    let cases = [
        (FsKind::Ext4, 4096, Severity::Advice),
        (FsKind::Ext4, 512, Severity::Warning),
        // The block size is not known; only ZFS rounds down whatever it is.
        (FsKind::Ext4, 0, Severity::Warning),
        (FsKind::Btrfs, 0, Severity::Warning),
        (FsKind::Zfs, 0, Severity::Advice),
        (FsKind::Zfs, 512, Severity::Advice),
    ];
    for (kind, block, severity) in cases {
        assert_eq!(severities_of_fs(kind.into(), fs(block), "S002"), [severity], "{kind} {block}");
    }
}

/// A partition smaller than a physical sector with no known content is advice only, wherever it is. A larger
/// one, or one with content, keeps its severity.
#[test]
fn less_than_a_physical_sector_is_only_advice() {
    for (start, len) in (2048..2064).flat_map(|start| (1..24).map(move |len| (start, len))) {
        for content in [None, Some(FsKind::Ext4.into())] {
            let partition =
                Partition { content, unclaimed: Unclaimed::All, ..partition(1, start, len, None) };
            let findings = audit(TableKind::Gpt, None, vec![partition]);
            let grave = findings.iter().any(|f| f.severity > Severity::Advice);
            let is_off = !start.is_multiple_of(8) || !len.is_multiple_of(8);
            let is_small = len < 8 && content.is_none();
            assert_eq!(grave, is_off && !is_small, "{start} {len} {content:?}: {findings:?}");
            let fixes = findings.iter().filter_map(|f| f.fix.as_ref());
            assert!(!is_small || fixes.into_iter().all(|fix| fix.commands.is_empty()), "{findings:?}");
        }
    }
}

/// A target of which only a part is seen is not judged, unless something is found in that part.
#[test]
fn what_is_seen_in_part_does_not_pass() {
    let clean = audit(TableKind::Gpt, None, vec![partition(1, 2048, 4096, None)]);
    let off = audit(TableKind::Gpt, None, vec![partition(1, 2049, 4096, None)]);
    let part = || Recognised::Part("why".to_owned());
    let judged = |findings: &Findings| Judgement::of(findings, part());
    assert_eq!(judged(&clean).status(), Status::NotJudged);
    assert_eq!(judged(&clean).not_judged(), Some("why"));
    assert_eq!(judged(&off).status(), Status::Error);
    assert_eq!((judged(&off).not_judged(), judged(&off).kinds().len()), (None, 1));
}

/// On a member that ends in the middle of a sector, an array uses whole chunks, or the size in its
/// superblock.
#[test]
fn the_tail_of_a_member_is_unused_where_its_superblock_says_so() {
    let len = 4097 * SECTOR;
    // (chunk, data offset, data size, expected severity of the finding on the end)
    let cases = [
        (0, MIB, len - MIB - 512, Severity::Advice),
        (0, MIB, len - MIB, Severity::Warning),
        (64 << 10, MIB, len - MIB, Severity::Advice),
        (0, 0, len - (128 << 10), Severity::Advice),
        (0, MIB, 0, Severity::Warning),
    ];
    for (chunk, data_offset, data_size, severity) in cases {
        let at = 2048 * SECTOR;
        let mut member = layer(&Kind::Md(2048, None), at, at, "", &mut Vec::new());
        let [chunk, data_offset, data_size] = [chunk, data_offset, data_size].map(ByteCount::new);
        member.facts = Facts::Md(Md { chunk, data_offset, data_size, ..Md::default() });
        assert_eq!(severities(member, "S002"), [severity], "{chunk} {data_offset} {data_size}");
    }
}

/// Contents that are found from their end stay as long as they are, wherever the partition is: no fix makes it
/// shorter or longer.
#[test]
fn what_is_found_from_its_end_keeps_its_size() {
    let array = |name| Content::Named(Named { name, class: Class::Array });
    let volume = |kind: VolumeKind| (Content::Volume(kind), Facts::Opaque);
    let md = |version| (Content::Volume(VolumeKind::Md), Facts::Md(Md { version, ..Md::default() }));
    let members = [
        (md("0.90"), true),
        (md("1.0"), true),
        (md("1.1"), false),
        (md("1.2"), false),
        ((array("isw_raid_member"), Facts::Opaque), true),
        ((array("ddf_raid_member"), Facts::Opaque), true),
        (volume(VolumeKind::Drbd), true),
        ((array("nvidia_raid_member"), Facts::Opaque), true),
        ((array("promise_fasttrack_raid_member"), Facts::Opaque), true),
        (volume(VolumeKind::Luks), false),
    ];
    for ((kind, facts), keeps) in members {
        let mut changes = 0;
        // Starts and sizes on and off the sector, with room behind, and with a neighbour that leaves none.
        for (start, count, next) in [
            (2048, 4097, 100_000),
            (2048, 4097, 6145),
            (2049, 4096, 100_000),
            (2049, 4097, 6146),
            (2049, 4096, 6145),
            (40, 4099, 4139),
        ] {
            let at = start * SECTOR;
            let content = layer(&Kind::FileSystem, at, at, "", &mut Vec::new());
            let content = Layer { kind, facts: facts.clone(), ..content };
            let member = Partition { content: Some(kind), ..partition(1, start, count, Some(content)) };
            assert_eq!(member.is_found_from_end(), keeps, "{kind}");
            let findings = audit(TableKind::Gpt, None, vec![member, partition(2, next, 8, None)]);
            for fix in
                findings.iter().filter(|f| f.subject == Subject::Partition(1)).filter_map(|f| f.fix.as_ref())
            {
                let all =
                    fix.commands.iter().map(|command| command.line.as_str()).collect::<Vec<_>>().join(" ");
                let said = format!("{} {all}", fix.summary);
                let resizes = said.contains("shrink")
                    || said.contains("grow")
                    || all.contains("size=") && !all.contains(&format!("size={count}"));
                changes += usize::from(resizes);
                assert!(!(keeps && resizes), "{kind} {start}+{count} before {next}: {fix:?}");
            }
        }
        assert_eq!(changes == 0, keeps, "{kind}");
    }
}

#[test]
fn what_is_only_read_writes_nothing_anywhere() {
    let read_here = FsKind::ALL.iter().filter(|kind| kind.is_only_read()).map(|kind| Content::from(*kind));
    let by_name =
        ["squashfs3", "cramfs", "romfs"].map(|name| Content::Named(Named { name, class: Class::ReadOnly }));
    for kind in read_here.chain(by_name) {
        let fs = || FileSystem { block: ByteCount::new(512), ..FileSystem::default() };
        assert_eq!(severities_of_fs(kind, fs(), "S002"), [Severity::Advice], "{kind}");
        assert_eq!(severities_of_fs(kind, fs(), "S061"), [], "{kind}");
    }
    let fs = FileSystem { block: ByteCount::new(512), ..FileSystem::default() };
    assert_eq!(severities_of_fs(FsKind::Ext4.into(), fs, "S061"), [Severity::Warning]);
}
#[test]
fn a_member_that_does_not_show_what_is_on_its_array_is_not_moved() {
    let (chunk, data_offset) = (16 * PHYSICAL, MIB);
    // (level, the array's first byte on this member, whether its content is seen on it, severity)
    let cases = [
        (0, chunk, false, "warning"),
        (-1, 32 * MIB, false, "warning"),
        (10, chunk, false, "warning"),
        (5, chunk, false, "warning"),
        // The first member shows the array's content, and so does each member of a mirror.
        (0, 0, false, "error"),
        (0, 0, true, "error"),
        (1, 0, false, "error"),
        // The kernel shows the content.
        (0, chunk, true, "error"),
    ];
    for (level, first, is_seen, severity) in cases {
        let at = 63 * SECTOR;
        let md = Md {
            level,
            chunk: ByteCount::new(if level == 1 { 0 } else { chunk }),
            raid_disks: 3,
            ..Md::default()
        };
        let data_offset = ByteCount::new(data_offset);
        let file_system = layer(&Kind::FileSystem, 0, at + MIB, "x", &mut Vec::new());
        let span = Span::new(ByteOffset::new(first), ByteCount::new(chunk)).unwrap();
        let facts = Facts::Md(Md { data_offset, role: Some(u32::from(first > 0)), ..md });
        let member = Layer {
            name: "x".to_owned(),
            space: vec![Piece { span, ..piece(at + MIB, at + MIB)[0] }],
            children: if is_seen { vec![file_system] } else { Vec::new() },
            ..Layer::new(VolumeKind::Md.into(), facts, self::span(at), Some(ByteOffset::new(at)))
        };
        let findings = with_layer(63, Some(member));
        let start = findings.iter().find(|finding| finding.rule.code == Code::S001).unwrap();
        assert_eq!(start.severity.to_string(), severity, "{level} {first} {is_seen} {start:?}");
        let commands = start.fix.as_ref().unwrap().commands.len();
        assert!(severity == "error" || commands == 0, "{start:?}");
        assert_eq!(
            start.message.contains("member of an array that starts on another disk"),
            severity == "warning",
            "{start:?}"
        );
    }
}
