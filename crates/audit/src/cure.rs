//! Where a badly placed partition should lie, and the commands that put it there.
//!
//! This is the cure of one partition with all others left where they are; laying out a whole disk is a plan.

use straddle_layout::{Partition, PartitionType, Role, TableKind, types};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::finding::{Command, Cure};
use crate::placement::{GRAIN, named_boundaries};
use crate::{Context, Severity};

/// An MBR counts blocks in 32 bits.
const MBR_LBAS: u64 = 1 << 32;

/// Where a partition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: ByteOffset,
    len: ByteCount,
}

/// The cure for everything that is wrong with the placement of `partition`; `None` when no place in the free
/// space around it would do.
pub(crate) fn relocate(context: &Context<'_>, partition: &Partition) -> Option<Cure> {
    let place = find_place(context, partition)?;
    let block = context.stack.block;
    let start = Lba::from_bytes_exact(place.start, block)?;
    let count = block.blocks_floor(place.len);
    if context.stack.kind == TableKind::Kernel {
        return Some(Cure::advice(format!("start it at LBA {start} with {count} sectors")));
    }
    let old = partition.span;
    let moves = place.start != old.start();
    let summary = match (moves, place.len.get().cmp(&old.len().get())) {
        (true, std::cmp::Ordering::Less) => format!(
            "move it to LBA {start} and shrink it by {} to {count} sectors",
            exact(old.len() - place.len)
        ),
        (true, _) => format!("move it to LBA {start} ({count} sectors)"),
        (false, std::cmp::Ordering::Less) => {
            format!("shrink it by {} to {count} sectors", exact(old.len() - place.len))
        }
        (false, _) => format!("grow it by {} to {count} sectors", exact(place.len - old.len())),
    };
    let mut commands = vec![
        sfdisk(context, partition.number, start, count),
        parted(context, partition, start, count),
    ];
    commands.extend(sgdisk(context, partition, start, count));
    let shrinks = place.len < old.len();
    let caution = match (moves, shrinks) {
        (true, false) => Some(format!(
            "these change the table only: for an empty partition, or with its data restored from a backup afterwards. \
             To take the data along, offline and with a backup (it cannot resume if interrupted): {}",
            sfdisk_move(context, partition.number, start)
        )),
        (_, true) => Some(
            "back up its data and shrink its file system first: these change the table only".to_owned(),
        ),
        (false, false) => None,
    };
    Some(Cure { summary, commands, caution })
}

/// `1024 bytes`, `1 MiB (1048576 bytes)`.
fn exact(count: ByteCount) -> String {
    if count.get() < 1024 { format!("{} bytes", count.get()) } else { format!("{count} ({} bytes)", count.get()) }
}

/// Looks for a place on every boundary that costs something when missed: first on the 1 MiB grain with the size
/// kept (later, then earlier), then without the grain, and last with the size cut at both ends.
fn find_place(context: &Context<'_>, partition: &Partition) -> Option<Place> {
    let required: Vec<Boundary> = required_boundaries(context);
    let physical = context.topology.physical_boundary()?;
    let block = Boundary::multiples_of(context.stack.block.bytes())?;
    let free = free_space_around(context, partition)?;
    let old = partition.span;
    let mut grain = required.clone();
    grain.extend(Boundary::new(GRAIN, context.topology.phase()));
    let whole = Boundary::multiples_of(physical.size().max(block.size()))?;
    let len = whole.ceil(ByteOffset::new(old.len().get()))?.checked_since(ByteOffset::ZERO)?;
    let fits = |start: ByteOffset| {
        let span = Span::new(start, len)?;
        free.contains(span).then_some(Place { start, len })
    };
    let latest = free.end().checked_back(len);
    let shrunk = || {
        let start = Boundary::ceil_all(&required, old.start())?;
        let end = physical.floor(old.end())?;
        let len = end.checked_since(start)?;
        (len > ByteCount::ZERO && free.contains(Span::new(start, len)?)).then_some(Place { start, len })
    };
    // Where only the end is off the start stays: into free space behind, or a little shorter.
    if required.iter().all(|b| b.is_aligned(old.start())) {
        return fits(old.start()).or_else(shrunk);
    }
    Boundary::ceil_all(&grain, old.start())
        .and_then(fits)
        .or_else(|| Boundary::floor_all(&grain, old.start().min(latest?)).and_then(fits))
        .or_else(|| Boundary::ceil_all(&required, old.start()).and_then(fits))
        .or_else(|| Boundary::floor_all(&required, old.start().min(latest?)).and_then(fits))
        .or_else(shrunk)
}

/// The boundaries that a good start has to meet: all that are more than advice, and the atomic unit.
fn required_boundaries(context: &Context<'_>) -> Vec<Boundary> {
    let atomic = context.topology.atomic.as_ref().and_then(|figure| figure.value().start_boundary());
    named_boundaries(context.topology)
        .into_iter()
        .filter(|named| named.rule.severity > Severity::Advice)
        .map(|named| named.boundary)
        .chain(atomic)
        .collect()
}

/// The bytes that `partition` may occupy with all others left where they are: its own and the free ones around.
fn free_space_around(context: &Context<'_>, partition: &Partition) -> Option<Span> {
    let stack = context.stack;
    let block = stack.block;
    let own = partition.span;
    let first_block = ByteOffset::new(block.get());
    let (mut low, mut high) = match (partition.role, stack.usable) {
        (Role::Logical { ebr }, _) => {
            let extended = stack
                .partitions
                .iter()
                .find(|p| p.role == Role::Extended && p.span.contains(own))
                .map(|p| p.span)?;
            (ebr.to_bytes(block)?.checked_add(block.bytes())?, extended.end())
        }
        (_, Some(usable)) => (usable.start(), usable.end()),
        (_, None) => {
            let reach = LbaCount::new(MBR_LBAS).to_bytes(block)?;
            (first_block, ByteOffset::new(context.size.min(reach).get()))
        }
    };
    for other in &stack.partitions {
        // A logical partition is bounded by its siblings and their EBRs, a primary one by the extended container.
        let sibling = matches!(other.role, Role::Logical { .. });
        if other.number == partition.number || sibling != matches!(partition.role, Role::Logical { .. }) {
            continue;
        }
        if other.span.start() < own.start() {
            low = low.max(other.span.end());
        } else {
            let begins = match other.role {
                Role::Logical { ebr } => ebr.to_bytes(block)?.min(other.span.start()),
                _ => other.span.start(),
            };
            if begins > own.start() {
                high = high.min(begins);
            }
        }
    }
    Span::new(low, high.checked_since(low)?)
}

/// Quotes a word for a POSIX shell, where it needs it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The option that makes sfdisk count in the table's blocks on an image, where no device tells it.
fn sfdisk_sector_size(context: &Context<'_>) -> String {
    match context.stack.block.get() {
        512 => String::new(),
        _ if !context.is_image => String::new(),
        size => format!("--sector-size {size} "),
    }
}

fn sfdisk(context: &Context<'_>, number: u32, start: Lba, count: LbaCount) -> Command {
    let size = sfdisk_sector_size(context);
    Command {
        tool: "sfdisk",
        line: format!(
            "echo 'start={start}, size={count}' | sfdisk {size}-N {number} {}",
            quote(context.target)
        ),
    }
}

/// Moves the data with the start; the size stays.
fn sfdisk_move(context: &Context<'_>, number: u32, start: Lba) -> String {
    let size = sfdisk_sector_size(context);
    format!("echo '{start},' | sfdisk {size}--move-data -N {number} {}", quote(context.target))
}

fn parted(context: &Context<'_>, partition: &Partition, start: Lba, count: LbaCount) -> Command {
    let number = partition.number;
    let label = match (partition.kind, partition.role) {
        (PartitionType::Guid(_), _) if partition.attributes.name.is_empty() => "''".to_owned(),
        // parted splits its own arguments once more, so a name with blanks needs quotes that reach it.
        (PartitionType::Guid(_), _) => quote(&format!("'{}'", partition.attributes.name.replace('\'', ""))),
        (_, Role::Logical { .. }) => "logical".to_owned(),
        _ => "primary".to_owned(),
    };
    let environment = match context.stack.block.get() {
        size if size != 512 && context.is_image => format!("PARTED_SECTOR_SIZE={size} "),
        _ => String::new(),
    };
    let last = start.get() + count.get() - 1;
    Command {
        tool: "parted",
        line: format!(
            "{environment}parted -s -a none {} rm {number} mkpart {label} {start}s {last}s",
            quote(context.target)
        ),
    }
}

/// sgdisk works on GPT only, and cannot be told an image's sector size.
fn sgdisk(context: &Context<'_>, partition: &Partition, start: Lba, count: LbaCount) -> Option<Command> {
    let PartitionType::Guid(kind) = partition.kind else { return None };
    if context.is_image && context.stack.block.get() != 512 {
        return None;
    }
    let number = partition.number;
    let last = start.get() + count.get() - 1;
    let mut line = format!(
        "sgdisk -a 1 -d {number} -n {number}:{start}:{last} -t {number}:{}",
        types::guid_text(kind)
    );
    if let Some(guid) = partition.attributes.guid {
        line += &format!(" -u {number}:{}", types::guid_text(guid));
    }
    if !partition.attributes.name.is_empty() {
        line += &format!(" -c {}", quote(&format!("{number}:{}", partition.attributes.name)));
    }
    if partition.attributes.gpt != 0 {
        line += &format!(" -A {number}:=:{:016x}", partition.attributes.gpt);
    }
    Some(Command { tool: "sgdisk", line: format!("{line} {}", quote(context.target)) })
}
