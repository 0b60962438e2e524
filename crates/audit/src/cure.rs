//! Where a badly placed partition should lie, and the commands that put it there.
//!
//! This is the cure of one partition with all others left where they are; laying out a whole disk is a plan.

mod room;

use std::cmp::Ordering;

use straddle_device::shown::is_hidden;
use straddle_layout::{Partition, PartitionType, Role, TableKind, types};
use straddle_units::{Boundary, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::finding::{Command, Cure, Risk};
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
    let free = free_space_around(context, partition)?;
    let mut cures = find_places(context, partition, free)
        .into_iter()
        .filter_map(|place| cure_at(context, partition, place, free))
        .peekable();
    let best = cures.peek().cloned();
    // A place that a tool reaches is worth more than one that none does.
    cures.find(|cure| !cure.commands.is_empty()).or(best)
}

/// The cure that puts `partition` at `place`.
fn cure_at(context: &Context<'_>, partition: &Partition, place: Place, free: Span) -> Option<Cure> {
    let block = context.stack.block;
    let start = Lba::from_bytes_exact(place.start, block)?;
    let count = block.blocks_floor(place.len);
    if count == LbaCount::new(0) {
        return None;
    }
    if context.stack.kind == TableKind::Kernel {
        return Some(Cure::advice(format!("start it at LBA {start} with {count} sectors")));
    }
    let target = Entry { context, partition, start, count };
    let by_sfdisk = room::sfdisk_finds_it(context, partition, place, free);
    let mut commands = Vec::new();
    commands.extend(by_sfdisk.then(|| target.sfdisk("")));
    commands.extend(target.parted());
    commands.extend(target.sgdisk());
    // sfdisk moves data only into a place that is as large.
    let takes_data = by_sfdisk && place.start != partition.span.start() && place.len >= partition.span.len();
    Some(Cure {
        summary: summary(partition, place, start, count),
        risk: if stays_whole(partition, place) { Risk::Safe } else { Risk::Backup },
        caution: target.caution(place, &commands),
        moving: takes_data.then(|| target.sfdisk("--move-data ")),
        commands,
    })
}

/// Whether the partition's bytes are all still in it, at their places.
fn stays_whole(partition: &Partition, place: Place) -> bool {
    place.start == partition.span.start() && place.len >= partition.span.len()
}

fn summary(partition: &Partition, place: Place, start: Lba, count: LbaCount) -> String {
    let old = partition.span;
    let moves = place.start != old.start();
    match (moves, place.len.cmp(&old.len())) {
        (true, Ordering::Less) => format!(
            "move it to LBA {start} and shrink it by {} to {count} sectors",
            exact(old.len() - place.len)
        ),
        (true, _) => format!("move it to LBA {start} ({count} sectors)"),
        (false, Ordering::Less) => {
            format!("shrink it by {} to {count} sectors", exact(old.len() - place.len))
        }
        (false, _) => format!("grow it by {} to {count} sectors", exact(place.len - old.len())),
    }
}

/// `1024 bytes`, `1 MiB (1048576 bytes)`.
fn exact(count: ByteCount) -> String {
    if count.get() < 1024 {
        format!("{} bytes", count.get())
    } else {
        format!("{count} ({} bytes)", count.get())
    }
}

/// Looks for places on every boundary that costs something when missed, the best first: on the 1 MiB grain with the
/// size kept (later, then earlier), then without the grain, and last with the size cut at both ends.
fn find_places(context: &Context<'_>, partition: &Partition, free: Span) -> Vec<Place> {
    let old = partition.span;
    let required = required_boundaries(context);
    let shrunk = shrunk(context, old, free, &required);
    let Some(len) = whole_len(context, old) else { return Vec::new() };
    let fits = |start: Option<ByteOffset>| {
        let place = Place { start: start?, len };
        free.contains(Span::new(place.start, len)?).then_some(place)
    };
    // Where only the end is off the start stays: into free space behind, or a little shorter.
    if required.iter().all(|b| b.is_aligned(old.start())) {
        return fits(Some(old.start())).into_iter().chain(shrunk).collect();
    }
    let mut grain = required.clone();
    grain.extend(Boundary::new(GRAIN, context.topology.phase()));
    let later = |all: &[Boundary]| fits(Boundary::ceil_all(all, old.start()));
    let earlier =
        |all: &[Boundary]| fits(Boundary::floor_all(all, old.start().min(free.end().checked_back(len)?)));
    [later(&grain), earlier(&grain), later(&required), earlier(&required), shrunk]
        .into_iter()
        .flatten()
        .collect()
}

/// A size rounded up to whole physical sectors.
fn whole_len(context: &Context<'_>, old: Span) -> Option<ByteCount> {
    let physical = context.topology.physical_boundary()?;
    let whole = Boundary::multiples_of(physical.size().max(context.stack.block.bytes()))?;
    whole.ceil(ByteOffset::new(old.len().get()))?.checked_since(ByteOffset::ZERO)
}

/// The whole physical sectors of a partition, from the first good start in it on.
fn shrunk(context: &Context<'_>, old: Span, free: Span, required: &[Boundary]) -> Option<Place> {
    let start = Boundary::ceil_all(required, old.start())?;
    let end = context.topology.physical_boundary()?.floor(old.end())?;
    let len = end.checked_since(start)?;
    (len > ByteCount::ZERO && free.contains(Span::new(start, len)?)).then_some(Place { start, len })
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
    let end = ByteOffset::new(context.size.get());
    let (mut low, mut high) = match (partition.role, stack.usable) {
        (Role::Logical { .. }, _) => {
            let holds = |p: &&Partition| p.role == Role::Extended && p.span.contains(own);
            let extended = stack.partitions.iter().find(holds)?.span;
            (extended.start(), extended.end())
        }
        (_, Some(usable)) => (usable.start(), usable.end()),
        // What lies before the first partition is a boot loader's, on an MBR disk.
        (_, None) => (
            first_block.max(own.start().min(ByteOffset::new(GRAIN.get()))),
            ByteOffset::new(LbaCount::new(MBR_LBAS).to_bytes(block)?.get()),
        ),
    };
    // What the table says may end past the disk.
    high = high.min(end);
    // Whatever is not the container is in the way, and so is every EBR, its own too: on a sane disk that is before it.
    let is_logical = matches!(partition.role, Role::Logical { .. });
    let in_the_way =
        |p: &&Partition| p.number != partition.number && !(is_logical && p.role == Role::Extended);
    let ebr_of = |p: &Partition| match p.role {
        Role::Logical { ebr } => Span::of_blocks(ebr, LbaCount::new(1), block),
        _ => None,
    };
    let others = stack.partitions.iter().filter(in_the_way).map(|p| p.span);
    for obstacle in others.chain(stack.partitions.iter().filter_map(ebr_of)) {
        if obstacle.start() < own.start() {
            low = low.max(obstacle.end());
        } else if obstacle.start() > own.start() {
            high = high.min(obstacle.start());
        }
    }
    Span::new(low, high.checked_since(low)?)
}

/// Quotes a word for a POSIX shell, where it needs it.
pub use straddle_device::shown::quote;

/// The target as an operand: a name that begins with a dash is no option.
pub(crate) fn operand(target: &str) -> String {
    if target.starts_with('-') { quote(&format!("./{target}")) } else { quote(target) }
}

/// A partition's entry as it should become.
struct Entry<'a> {
    context: &'a Context<'a>,
    partition: &'a Partition,
    start: Lba,
    count: LbaCount,
}

impl Entry<'_> {
    fn operand(&self) -> String {
        operand(self.context.target)
    }

    fn last(&self) -> u64 {
        self.start.get() + self.count.get() - 1
    }

    /// The sector size that has to be told, because an image has no device that tells it.
    fn told_sector_size(&self) -> Option<u64> {
        Some(self.context.stack.block.get()).filter(|size| self.context.is_image && *size != 512)
    }

    /// Whether the partition's name may stand in a command: a terminal obeys control characters, quoted or not, and who
    /// reads it sees something else than is there.
    fn name_can_be_shown(&self) -> bool {
        !self.partition.attributes.name.contains(is_hidden)
    }

    /// Whether sgdisk can write the name: for it a colon ends the name, and nothing quotes one (sgdisk 1.0.10).
    fn name_is_for_sgdisk(&self) -> bool {
        !self.partition.attributes.name.contains(':')
    }

    /// What to mind: that a table is not its data, and what the tools cannot do.
    fn caution(&self, place: Place, commands: &[Command]) -> Option<String> {
        if commands.is_empty() {
            return Some("no tool does this to the one partition alone".to_owned());
        }
        let old = self.partition.span;
        let mut parts = Vec::new();
        if place.len < old.len() {
            parts.push("shrink what is in it first: these change the table only");
        } else if place.start != old.start() {
            parts.push(
                "these change the table only: for an empty partition, or with its data restored from a backup \
                 afterwards",
            );
        }
        if place.start != old.start()
            && let Some(kind) = crate::hidden::moved_with(self.partition)
        {
            parts.push(match kind {
                "exfat" => "the exFAT in it says where it starts: what reads that has to be told (S068)",
                _ => "the boot sector in it says where it starts: correct it after the move (S068), or Windows does not boot from it",
            });
        }
        if self.told_sector_size().is_some() {
            parts.push("sfdisk knows --sector-size since util-linux 2.41");
        }
        if commands.iter().any(|command| command.tool == "parted") {
            parts.push(match self.partition.kind {
                PartitionType::Mbr(_) => {
                    "parted makes the partition anew, without its type and boot flag, and may give the disk a new \
                     identifier"
                }
                _ if self.partition.attributes.name.is_empty() => {
                    "parted makes the partition anew, with a name, another UUID and the type Linux filesystem"
                }
                _ => "parted makes the partition anew, with another UUID and the type Linux filesystem",
            });
        }
        if matches!(self.partition.kind, PartitionType::Guid(_)) && !self.name_is_for_sgdisk() {
            parts.push("sgdisk cannot write a name with a colon");
        }
        if self.context.stack.kind == TableKind::HybridMbr {
            parts.push("these change the GPT: make the hybrid MBR anew afterwards (sgdisk -h)");
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// sfdisk changes the entry's place and keeps everything else.
    fn sfdisk(&self, options: &str) -> Command {
        let Self { partition: Partition { number, .. }, start, count, .. } = self;
        let size = self.told_sector_size().map(|size| format!("--sector-size {size} ")).unwrap_or_default();
        let line = format!(
            "echo 'start={start}, size={count}' | sfdisk {size}{options}-N {number} {}",
            self.operand()
        );
        Command { tool: "sfdisk", line }
    }

    /// parted can only remove the partition and make another.
    fn parted(&self) -> Option<Command> {
        let keeps = self.parted_keeps_number() && self.context.stack.kind != TableKind::HybridMbr;
        if !keeps || !self.name_can_be_shown() {
            return None;
        }
        let Self { partition, start, .. } = self;
        let label = match (partition.kind, partition.role) {
            // parted wants a name for a partition of a GPT.
            (PartitionType::Guid(_), _) if partition.attributes.name.is_empty() => {
                format!("partition{}", partition.number)
            }
            (PartitionType::Guid(_), _) => word_for_parted(&partition.attributes.name),
            (_, Role::Logical { .. }) => "logical".to_owned(),
            _ => "primary".to_owned(),
        };
        let environment =
            self.told_sector_size().map(|size| format!("PARTED_SECTOR_SIZE={size} ")).unwrap_or_default();
        let (number, last) = (partition.number, self.last());
        let line = format!(
            "{environment}parted -s -a none {} rm {number} mkpart {label} {start}s {last}s",
            self.operand()
        );
        Some(Command { tool: "parted", line })
    }

    /// Whether a partition that parted makes in place of this one has its number: a new one gets the lowest free
    /// number, and when a logical one goes those behind it move up.
    fn parted_keeps_number(&self) -> bool {
        let others = self.context.stack.partitions.iter().map(|p| p.number);
        let number = self.partition.number;
        match self.partition.role {
            Role::Logical { .. } => others.max() == Some(number),
            _ => others.filter(|other| *other < number).count() == number.saturating_sub(1) as usize,
        }
    }

    /// sgdisk works on GPT only, and cannot be told an image's sector size.
    fn sgdisk(&self) -> Option<Command> {
        let PartitionType::Guid(kind) = self.partition.kind else { return None };
        if self.told_sector_size().is_some() || !self.name_can_be_shown() || !self.name_is_for_sgdisk() {
            return None;
        }
        let (number, start, last) = (self.partition.number, self.start, self.last());
        let attributes = &self.partition.attributes;
        let mut line = format!(
            "sgdisk -a 1 -d {number} -n {number}:{start}:{last} -t {number}:{}",
            types::guid_text(kind)
        );
        if let Some(guid) = attributes.guid {
            line += &format!(" -u {number}:{}", types::guid_text(guid));
        }
        if !attributes.name.is_empty() {
            line += &format!(" -c {}", quote(&format!("{number}:{}", attributes.name)));
        }
        if attributes.gpt != 0 {
            line += &format!(" -A {number}:=:{:016x}", attributes.gpt);
        }
        Some(Command { tool: "sgdisk", line: format!("{line} {}", self.operand()) })
    }
}

/// A word for parted on a shell's line. parted splits its own arguments once more, so what is no plain word needs quotes that
/// reach it.
fn word_for_parted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if word.chars().all(plain) && word.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return word.to_owned();
    }
    let quoted = quote_for_parted(word);
    // Between double quotes these keep a meaning.
    if quoted.contains(['"', '$', '`', '\\', '!']) { quote(&quoted) } else { format!("\"{quoted}\"") }
}

/// A word in the quotes that parted itself understands: in them a backslash keeps what follows.
fn quote_for_parted(word: &str) -> String {
    format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'"))
}
