//! The places that fixes choose on tables with impossible values. Each of these cases was found by fuzzing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use straddle_audit::{Context, Finding, Findings, Subject};
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
        hybrid: Vec::new(),
        hybrid_iso: None,
    };
    let topology = Topology::unknown();
    straddle_audit::run(&Context::of(target, straddle_device::DeviceKind::Image, SIZE, &topology, &stack))
}

/// Start and end, in sectors, of the place to which a fix has partition `number` moved.
fn place(findings: &[Finding], number: u32) -> Option<(u64, u64)> {
    let mine = findings.iter().filter(|finding| finding.subject == Subject::Partition(number));
    let summary = mine.filter_map(|finding| finding.fix.as_ref()).map(|fix| &fix.summary).next()?;
    let (start, rest) = summary.strip_prefix("move it to LBA ")?.split_once(' ')?;
    let (before, _) = rest.split_once(" sectors")?;
    let start: u64 = start.parse().unwrap();
    let count = before.trim_start_matches('(').rsplit(' ').next()?;
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
fn a_target_that_a_terminal_would_obey_is_in_no_command() {
    let partitions = vec![partition(1, 63, 2048, Role::Primary, PartitionType::Mbr(0x83))];
    let found = findings_on("a\u{1b}]0;b\n.img", TableKind::Mbr, None, partitions);
    let fixes: Vec<_> = found.iter().filter_map(|f| f.fix.as_ref()).collect();
    assert!(!fixes.is_empty());
    assert!(fixes.iter().all(|c| c.commands.is_empty() && !c.summary.is_empty()));
}

/// Start and end, in sectors, of the place that a command gives to partition 1.
fn written(line: &str) -> (u64, u64) {
    let (start, count) = line.strip_prefix("echo 'start=").unwrap().split_once(", size=").unwrap();
    let (start, count) = (start.parse::<u64>().unwrap(), count.split('\'').next().unwrap());
    (start, start + count.parse::<u64>().unwrap())
}

/// A table that changes alone leads to other bytes, or to fewer: that is for empty partitions.
#[test]
fn no_command_leaves_behind_what_is_not_known() {
    let kinds = [(TableKind::Gpt, PartitionType::Guid([1; 16])), (TableKind::Mbr, PartitionType::Mbr(0x83))];
    let last = SIZE.get() / 512 - 40;
    let mut shrunk = 0;
    for (table, kind) in kinds {
        for start in [63, 64, 2047, 2048, 2049, 4100] {
            for count in [63, 2048, 2049, 4101, last - start - 1, last - start] {
                for neighbour in [false, true] {
                    let findings_of = |unclaimed| {
                        let mut one = partition(1, start, count, Role::Primary, kind);
                        one.unclaimed = unclaimed;
                        let behind = partition(2, start + count, 8, Role::Primary, kind);
                        let all = if neighbour { vec![one, behind] } else { vec![one] };
                        findings(table, None, all)
                    };
                    let [empty, full] = [Unclaimed::Nothing, Unclaimed::All].map(findings_of);
                    let commands = |all: &[Finding]| -> Vec<String> {
                        let mine = all.iter().filter(|f| f.subject == Subject::Partition(1));
                        let fixes = mine.filter_map(|f| f.fix.as_ref());
                        fixes.flat_map(|fix| &fix.commands).map(|command| command.line.clone()).collect()
                    };
                    for line in commands(&full) {
                        let (from, to) = written(&line);
                        assert!(from == start && to >= start + count, "{start}+{count}: {line}");
                    }
                    let says_why = |f: &&Finding| {
                        f.fix.as_ref().is_some_and(|fix| {
                            fix.caution
                                .as_deref()
                                .is_some_and(|caution| caution.contains("the partition holds unknown data"))
                        })
                    };
                    if commands(&full).len() < commands(&empty).len() {
                        assert!(full.iter().any(|f| says_why(&f)), "{start}+{count}");
                        shrunk += 1;
                    }
                }
            }
        }
    }
    assert!(shrunk > 10, "{shrunk}");
}
