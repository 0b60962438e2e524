//! Audits what a target has read, and checks properties that must always hold.

use std::collections::BTreeSet;

use straddle_audit::examine::Examiner;
use straddle_audit::{Asked, Context, Finding, Fix, Judgement, Recognised, Severity, Subject};
use straddle_device::DeviceKind;
use straddle_device::image::Container;
use straddle_device::topology::{AlignmentOffset, Figure, Source, Topology};
use straddle_device::{Assume, Options, Target};
use straddle_layout::{MAX_PARTITIONS, Partition, PartitionType, Role, Stack, TableKind};
use straddle_units::{ByteCount, Lba, LbaCount, Span};

use crate::disk::Disk;

/// A path that a shell would split and expand.
const TARGET: &str = "/tmp/it's $HOME; a disk.img";

/// Topologies with various boundaries, phases and contradictions.
const TOPOLOGIES: [&str; 11] = [
    "",
    "512n",
    "4kn",
    "512e,offset=3584",
    "512e,iu=16KiB,erase=4MiB",
    "512e,chunk=64KiB,stripe=192KiB,io-min=64KiB,io-opt=192KiB",
    "512e,offset=512,atomic=16KiB,atomic-boundary=64KiB",
    "512e,io-opt=33553920",
    "physical=65536,offset=4096,stripe=4GiB",
    "physical=4GiB,iu=4294966784",
    "512n,iu=2560,chunk=3584,stripe=5632,erase=6656,atomic=1KiB",
];

/// The largest number of partitions whose printed places are checked: each takes an audit of its own.
const FEW: usize = 2;

/// Asserts what holds for every table, however broken.
pub(crate) fn check_stack(stack: &Stack) {
    assert!(stack.partitions.len() <= MAX_PARTITIONS + 4, "{} partitions", stack.partitions.len());
    assert!(stack.problems.len() <= 8 * MAX_PARTITIONS, "{} problems", stack.problems.len());
    let mut numbers: Vec<u32> = stack.partitions.iter().map(|p| p.number).collect();
    assert!(numbers.is_sorted(), "not in order of number");
    numbers.dedup();
    assert_eq!(numbers.len(), stack.partitions.len(), "a number twice");
    for partition in &stack.partitions {
        assert_eq!(Some(partition.span), Span::of_blocks(partition.start, partition.count, stack.block));
        assert!(!partition.span.is_empty());
    }
}

/// Asserts what holds for every topology built from statements by devices or users.
pub(crate) fn check_topology(topology: &Topology) {
    let (logical, physical) = (topology.logical.value().bytes(), topology.physical.value());
    assert!(physical >= logical, "a physical sector of {physical:?}, a logical one of {logical:?}");
    assert!(physical.get().is_power_of_two(), "a physical sector of {physical:?}");
    assert!(topology.physical_boundary().is_some());
}

/// Audits a stack on the unknown topology and on the one chosen by the input. All eleven for each input would
/// take the time of five other inputs and find no more. If the choice is the first, the kernel's alignment
/// offset is -1.
pub(crate) fn on_chosen_topologies(stack: &Stack, size: ByteCount, is_image: bool, choice: u8) {
    let choice = usize::from(choice) % TOPOLOGIES.len();
    for index in BTreeSet::from([0, choice]) {
        let mut topology = topology_of(TOPOLOGIES[index]);
        if choice == 0 {
            topology.alignment_offset = Figure::new(AlignmentOffset::Misaligned, Source::Assumed);
        }
        topology.adopt_table_block(stack.block);
        on_topology(stack, &topology, size, is_image);
    }
}

fn topology_of(text: &str) -> Topology {
    let mut topology = Topology::unknown();
    let assume: Assume = text.parse().expect("these are right");
    assume.apply(&mut topology);
    topology
}

/// Database page sizes; the last one does not exist in practice.
const PAGES: [Option<u64>; 6] = [None, Some(4096), Some(8192), Some(16 << 10), Some(64 << 10), Some(1000)];

/// Audits a stack with its layers, on a drive with a jumper and on the topology chosen by the input, each
/// with another page size.
pub(crate) fn layers_on_chosen_topologies(stack: &Stack, size: ByteCount, choice: u8) {
    let choice = usize::from(choice);
    for index in BTreeSet::from([3, choice % TOPOLOGIES.len()]) {
        let mut topology = topology_of(TOPOLOGIES[index]);
        topology.adopt_table_block(stack.block);
        let page = PAGES[(choice + index) % PAGES.len()].map(ByteCount::new);
        audit(stack, &topology, size, true, page, None);
    }
}

/// Audits the disk of an image in its container.
pub(crate) fn in_container(stack: &Stack, container: &Container, choice: u8) {
    let choice = usize::from(choice);
    let mut topology = topology_of(TOPOLOGIES[choice % TOPOLOGIES.len()]);
    topology.adopt_table_block(stack.block);
    let page = PAGES[choice % PAGES.len()].map(ByteCount::new);
    audit(stack, &topology, container.virtual_size, false, page, Some(container));
}

/// Audits a stack on a topology.
pub(crate) fn on_topology(stack: &Stack, topology: &Topology, size: ByteCount, is_image: bool) {
    audit(stack, topology, size, is_image, None, None);
}

fn audit(
    stack: &Stack,
    topology: &Topology,
    size: ByteCount,
    is_image: bool,
    page: Option<ByteCount>,
    container: Option<&Container>,
) {
    let context = Context {
        model: Some("model"),
        container,
        page,
        ..Context::of(
            TARGET,
            if is_image { DeviceKind::Image } else { DeviceKind::Scsi },
            size,
            topology,
            stack,
        )
    };
    let mut findings = straddle_audit::run(&context);
    let judgement = Judgement::of(&findings, Recognised::Known);
    // Filters must not change any verdict.
    let partition = stack.partitions.first().map(|partition| partition.number);
    straddle_audit::ask(
        &mut findings,
        &Asked { only: vec![straddle_audit::Code::S001], partition, ..Asked::default() },
    );
    let asked = Judgement::of(&findings, Recognised::Known);
    assert_eq!(judgement.partitions(), asked.partitions());
    let mut fixed = 0;
    for finding in &findings {
        check_finding(finding);
        let Some(fix) = &finding.fix else { continue };
        check_commands(fix, finding.layer.is_empty());
        let Subject::Partition(number) = finding.subject else { continue };
        if finding.miss.is_some() && finding.layer.is_empty() && fixed < FEW {
            fixed += 1;
            check_place(&context, number, fix);
        }
    }
}

/// Examines the disk as an image, as `check` does.
pub(crate) fn examine(disk: Disk) {
    let open = Options { logical: disk.forced_block, ..Options::default() };
    let examiner = Examiner::new(straddle_audit::examine::Options {
        open,
        moves: Some(straddle_repair::moves::of),
        ..straddle_audit::examine::Options::default()
    });
    let Ok(examined) = examiner.examine_target(TARGET.to_owned(), Target::image(Box::new(disk))) else {
        return;
    };
    examined.findings().iter().for_each(check_finding);
    for remark in examined.remarks() {
        assert!(!remark.is_empty() && !remark.contains(char::is_control), "{remark:?}");
    }
}

fn check_finding(finding: &Finding) {
    assert!(!finding.message.is_empty());
    assert!(!finding.message.contains(char::is_control), "{:?}", finding.message);
    let layer = finding.way();
    assert!(
        layer.as_ref().is_none_or(|layer| !layer.is_empty() && !layer.contains(char::is_control)),
        "{layer:?}"
    );
    let Some(miss) = finding.miss else { return };
    assert!(miss.past > ByteCount::ZERO && miss.past < miss.boundary.size());
    let at = finding.at.expect("a boundary is missed somewhere");
    // The miss of a layer, or of a container's contents, is relative to its start below, not to this offset.
    if finding.layer.is_empty() && miss.name != "physical sector of the host" {
        assert_eq!(miss.boundary.past(at), miss.past);
    }
    if let Some(span) = Span::new(at, miss.boundary.size()) {
        let _ = straddle_audit::picture(miss.boundary, span);
    }
}

/// Asserts that commands are one line each, are safe to show on a terminal, and give the target to a shell as
/// one word, if they name it.
fn check_commands(fix: &Fix, names_target: bool) {
    for command in &fix.commands {
        let line = &command.line;
        assert!(!line.contains(char::is_control), "{line:?}");
        let words = shell_words(line).unwrap_or_else(|| panic!("a quote is left open: {line:?}"));
        assert!(!names_target || words.iter().any(|word| word == TARGET), "{line:?}");
    }
}

/// Splits a line into words as a POSIX shell would, without expansions: no `$`, backquote or semicolon may be
/// unquoted. `None` if a quote is not closed.
fn shell_words(line: &str) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let word = words.last_mut()?;
        match c {
            ' ' => words.push(String::new()),
            '\\' => word.push(chars.next()?),
            '\'' => loop {
                match chars.next()? {
                    '\'' => break,
                    c => word.push(c),
                }
            },
            // One command after another, if the first succeeded.
            '&' if chars.as_str().starts_with("& ") => word.extend(chars.next()),
            '$' | '`' | ';' | '&' | '<' | '>' | '(' | ')' | '"' | '*' | '?' | '#' | '~' => {
                panic!("{c} stands unquoted: {line:?}")
            }
            c => word.push(c),
        }
    }
    Some(words)
}

/// Asserts that the place that a fix gives a partition is on the disk, overlaps no other partition, and fixes
/// the finding.
fn check_place(context: &Context<'_>, number: u32, fix: &Fix) {
    let stack = context.stack;
    let Some((start, count)) = fix.commands.iter().find_map(|command| place_of(&command.line)) else {
        return;
    };
    let index = stack.partitions.iter().position(|p| p.number == number).expect("findings are on partitions");
    let old = &stack.partitions[index];
    let span = Span::of_blocks(start, count, stack.block).expect("a place can be counted in bytes");
    let place = format!("{:?} to LBA {start}, {count} sectors, on {:?}", old.span, context.topology);
    assert!(!span.is_empty(), "{place}");
    assert!(span.end().get() <= context.size.get(), "past the end of {:?}: {place}", context.size);
    for other in stack.partitions.iter().filter(|other| is_in_the_way(other, old)) {
        // An overlap that exists already is damage, and reported as such.
        assert!(
            !other.span.overlaps(span) || other.span.overlaps(old.span),
            "over partition {} at {:?}: {place}",
            other.number,
            other.span
        );
    }
    let mut moved = stack.clone();
    (moved.partitions[index].start, moved.partitions[index].count) = (start, count);
    moved.partitions[index].span = span;
    let again = straddle_audit::run(&Context { stack: &moved, ..*context });
    let left = again.iter().find(|finding| {
        finding.subject == Subject::Partition(number)
            && finding.layer.is_empty()
            && finding.miss.is_some()
            && finding.rule.severity > Severity::Advice
    });
    assert!(left.is_none(), "{place}: still {}", left.map_or("", |finding| &finding.message));
}

/// Start and size of the place in a command of sfdisk (`echo 'start=1, size=2' | …`), sgdisk (`… -n 1:1:2 …`)
/// or parted (`… 1s 2s`, its last words): all of them in blocks, the latter two with the last block in place
/// of the size.
fn place_of(line: &str) -> Option<(Lba, LbaCount)> {
    let number = |text: &str| text.parse::<u64>().ok();
    let blocks = |start: u64, last: u64| Some((Lba::new(start), LbaCount::new(last.checked_sub(start)? + 1)));
    let line = line.rsplit(" && ").next()?.split(" set ").next()?;
    if let Some(rest) = line.strip_prefix("echo 'start=") {
        let (start, count) = rest.split('\'').next()?.split_once(", size=")?;
        Some((Lba::new(number(start)?), LbaCount::new(number(count)?)))
    } else if let Some((_, rest)) = line.strip_prefix("sgdisk ").and_then(|rest| rest.split_once(" -n ")) {
        let mut fields = rest.split(' ').next()?.split(':').skip(1);
        blocks(number(fields.next()?)?, number(fields.next()?)?)
    } else {
        let mut words = line.rsplit(' ').map(|word| word.strip_suffix('s').and_then(number));
        let last = words.next()??;
        blocks(words.next()??, last)
    }
}

fn is_in_the_way(other: &Partition, of: &Partition) -> bool {
    let contains = other.role == Role::Extended && matches!(of.role, Role::Logical { .. });
    other.number != of.number && !contains
}

/// The same partitions, as entries of a GPT.
pub(crate) fn as_table(stack: &Stack) -> Stack {
    let mut table = stack.clone();
    table.kind = TableKind::Gpt;
    for partition in &mut table.partitions {
        partition.kind = PartitionType::Guid([0x11; 16]);
        partition.role = Role::Primary;
        // A table counts in blocks, and the kernel's 512-byte sectors may not be a whole number of them.
        let span = Span::of_blocks(partition.start, partition.count, stack.block);
        partition.span = span.unwrap_or(partition.span);
    }
    table.partitions.retain(|partition| !partition.span.is_empty());
    table.partitions.dedup_by_key(|partition| partition.number);
    table
}
