//! The places that fixes choose on tables with impossible values. Each of these cases was found by fuzzing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_audit::{Context, Finding, Findings};
use straddle_device::topology::Topology;
use straddle_layout::{Attributes, Partition, PartitionType, Role, Stack, TableKind, Unclaimed};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

const SIZE: ByteCount = ByteCount::new(16 << 20);

fn partition(number: u32, start: u64, count: u64, role: Role, kind: PartitionType) -> Partition {
    let (start, count) = (Lba::new(start), LbaCount::new(count));
    Partition {
        number,
        start,
        count,
        span: Span::of_blocks(start, count, BlockSize::B512).unwrap(),
        role,
        kind,
        attributes: Attributes::default(),
        content: None,
        layer: None,
        unclaimed: Unclaimed::Nothing,
    }
}

fn findings(kind: TableKind, usable: Option<Span>, partitions: Vec<Partition>) -> Findings {
    findings_on("disk.img", kind, usable, partitions)
}

fn findings_on(target: &str, kind: TableKind, usable: Option<Span>, partitions: Vec<Partition>) -> Findings {
    let stack = Stack {
        kind,
        block: BlockSize::B512,
        block_found: true,
        disk_id: Vec::new(),
        usable,
        layer: None,
        partitions,
        problems: Vec::new(),
        is_hybrid_iso: false,
        has_long_entries: false,
    };
    let topology = Topology::unknown();
    straddle_audit::run(&Context {
        target,
        file: target,
        is_image: true,
        kind: straddle_device::DeviceKind::Image,
        zone: None,
        size: SIZE,
        topology: &topology,
        model: None,
        stack: &stack,
        container: None,
        disagreements: &[],
        moves: &straddle_audit::Moves::default(),
        page: None,
    })
}

/// Start and end, in sectors, of the place that the sfdisk command gives to partition `number`.
fn place(findings: &[Finding], number: u32) -> Option<(u64, u64)> {
    let commands = findings.iter().filter_map(|f| f.fix.as_ref()).flat_map(|fix| &fix.commands);
    let line = commands.map(|c| &c.line).find(|line| line.contains(&format!("-N {number} ")))?;
    let (start, count) = line.strip_prefix("echo 'start=")?.split('\'').next()?.split_once(", size=")?;
    let start: u64 = start.parse().unwrap();
    Some((start, start + count.parse::<u64>().unwrap()))
}

#[test]
fn a_usable_area_past_the_end_of_the_disk_is_not_usable() {
    let usable = Span::new(ByteOffset::new(34 * 512), ByteCount::new(1 << 40));
    let last = SIZE.get() / 512;
    let kind = PartitionType::Guid([1; 16]);
    let found = findings(TableKind::Gpt, usable, vec![partition(1, 2049, last - 2049, Role::Primary, kind)]);
    assert!(place(&found, 1).unwrap().1 <= last);
}

#[test]
fn an_ebr_before_its_neighbour_does_not_make_its_partition_free() {
    let logical = |ebr| Role::Logical { ebr: Lba::new(ebr) };
    let kind = PartitionType::Mbr(0x83);
    let found = findings(
        TableKind::Mbr,
        None,
        vec![
            partition(1, 2048, 20000, Role::Extended, PartitionType::Mbr(5)),
            partition(5, 4097, 2047, logical(2048), kind),
            // Its EBR is before partition 5, and the partition begins where partition 5 ends.
            partition(6, 6144, 2048, logical(2100), kind),
            // Its EBR lies after it.
            partition(7, 12289, 2048, logical(14400), kind),
        ],
    );
    assert!(place(&found, 5).unwrap().1 <= 6144);
    assert!(place(&found, 7).unwrap().1 <= 14400);
}

#[test]
fn a_name_that_a_terminal_would_obey_is_in_no_command() {
    let mut named = partition(1, 2049, 2048, Role::Primary, PartitionType::Guid([1; 16]));
    named.attributes.name = "a\u{1b}]0;b\n".to_owned();
    let found = findings(TableKind::Gpt, None, vec![named]);
    let commands: Vec<_> = found.iter().filter_map(|f| f.fix.as_ref()).flat_map(|c| &c.commands).collect();
    assert!(commands.iter().any(|c| c.tool == "sfdisk"));
    assert!(commands.iter().all(|c| !c.line.contains(char::is_control)));
}

#[test]
fn a_target_that_a_terminal_would_obey_is_in_no_command() {
    let partitions = vec![partition(1, 2049, 2048, Role::Primary, PartitionType::Mbr(0x83))];
    let found = findings_on("a\u{1b}]0;b\n.img", TableKind::Mbr, None, partitions);
    let fixes: Vec<_> = found.iter().filter_map(|f| f.fix.as_ref()).collect();
    assert!(!fixes.is_empty());
    assert!(fixes.iter().all(|c| c.commands.is_empty() && !c.summary.is_empty()));
}
