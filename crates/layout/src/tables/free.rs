//! What a partition table leaves free: [`Stack::free`] if it is read, [`boot_area`] and [`taken`] if it is edited.

use straddle_units::{BlockSize, ByteCount, ByteOffset, LbaCount, MIB, Span};

use super::format::mbr;
use super::gpt::BACKUP_ARRAY as GPT_ARRAY;
use crate::{Partition, Role, Stack, TableKind};

/// Where partitions of an MBR disk begin: at most 1 MiB before the first belongs to the boot loader.
pub fn boot_area(starts: impl Iterator<Item = ByteOffset>, block: BlockSize) -> ByteOffset {
    let most = ByteOffset::new(MIB);
    ByteOffset::new(block.get()).max(starts.min().map_or(most, |first| first.min(most)))
}

/// What a partition must not overlap: those `listed` (but a logical one's extended one), and all EBRs.
pub fn taken(
    listed: impl IntoIterator<Item = (Span, Role)>,
    is_logical: bool,
    block: BlockSize,
) -> Vec<Span> {
    let mut taken = Vec::new();
    for (span, role) in listed {
        match role {
            // It begins with a record, used or not.
            Role::Extended if is_logical => taken.extend(span.pieces(block.bytes()).next()),
            Role::Primary | Role::Extended => taken.push(span),
            Role::Logical { ebr } => {
                taken.push(span);
                taken.extend(Span::of_blocks(ebr, LbaCount::new(1), block));
            }
        }
    }
    taken
}

impl Stack {
    /// The bytes that this table lets partitions have, on a medium of `size` bytes: the range that a GPT records, or
    /// all after the [`boot_area`] that 32 bits can count.
    fn allowed(&self, size: ByteCount) -> Option<Span> {
        let (low, high) = if let Some(usable) = self.usable {
            (usable.start(), usable.end())
        } else {
            let starts = self.partitions.iter().map(|partition| partition.span.start());
            let end = LbaCount::new(mbr::LBAS).to_bytes(self.block)?;
            (boot_area(starts, self.block), ByteOffset::new(end.get()))
        };
        // Entries of a damaged table may end past the disk.
        let high = high.min(ByteOffset::new(size.get()));
        Span::between(low, self.before_backup(high))
    }

    /// If only the kernel lists the partitions: before the backup of a GPT, or the last end.
    fn before_backup(&self, end: ByteOffset) -> ByteOffset {
        let backup = ByteCount::new(GPT_ARRAY).checked_add(self.block.bytes());
        let before = backup.and_then(|backup| end.checked_back(backup)).unwrap_or(end);
        let is_behind = self.partitions.iter().any(|partition| partition.span.end() > before);
        if self.kind == TableKind::Kernel && !is_behind { before } else { end }
    }

    /// The space between its partitions, on a medium of `size` bytes. An extended one is never free.
    pub fn free(&self, size: ByteCount) -> Vec<Span> {
        let listed = self.partitions.iter().map(|partition| (partition.span, partition.role));
        let space = self.allowed(size);
        space.map_or_else(Vec::new, |space| space.gaps(taken(listed, false, self.block)))
    }

    /// The space that `partition` may have, with all others left in place: its own, and what is free around it.
    pub fn free_around(&self, partition: &Partition, size: ByteCount) -> Option<Span> {
        let own = partition.span;
        let is_logical = matches!(partition.role, Role::Logical { .. });
        let space = if is_logical {
            let holds = |p: &&Partition| p.role == Role::Extended && p.span.contains(own);
            let container = self.partitions.iter().find(holds)?.span;
            Span::between(container.start(), container.end().min(ByteOffset::new(size.get())))?
        } else {
            self.allowed(size)?
        };
        let others =
            self.partitions.iter().filter(|p| p.number != partition.number).map(|p| (p.span, p.role));
        // Its own record, normally before it, stays as well.
        let record = match partition.role {
            Role::Logical { ebr } => Span::of_blocks(ebr, LbaCount::new(1), self.block),
            Role::Primary | Role::Extended => None,
        };
        let taken = taken(others, is_logical, self.block).into_iter().chain(record);
        space.gaps(taken).into_iter().find(|gap| gap.overlaps(own))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use straddle_device::KernelPartition;
    use straddle_units::Lba;

    use super::*;
    use crate::kernel_stack;

    const BLOCK: BlockSize = BlockSize::B512;
    /// Blocks of the disk. The boot area ends at 2048.
    const BLOCKS: u64 = 4096;

    fn blocks(start: u64, count: u64) -> Span {
        Span::of_blocks(Lba::new(start), LbaCount::new(count), BLOCK).unwrap()
    }

    /// An MBR disk with partitions one behind the other, some of which overlap, and with logical ones in the last.
    fn disk() -> impl Strategy<Value = Stack> {
        let listed = proptest::collection::vec((0..900_u64, 1..700_u64), 1..4);
        let logical = proptest::collection::vec((1..60_u64, 1..100_u64), 0..4);
        let record = 0..2_u64;
        (listed, logical, record, 1..600_u64).prop_map(|(listed, logical, unused, tail)| {
            let (mut at, mut found) = (1, Vec::new());
            for (gap, count) in listed {
                found.push((blocks(at + gap, count), Role::Primary));
                at += (gap + count).saturating_sub(u64::from(gap % 5 == 4));
            }
            let extended = at;
            at += unused;
            let records = logical.into_iter().map(|(lead, count)| {
                let ebr = Lba::new(at);
                let span = blocks(at + lead, count);
                at += lead + count;
                (span, Role::Logical { ebr })
            });
            let records: Vec<_> = records.collect();
            found.push((blocks(extended, at - extended + tail), Role::Extended));
            found.extend(records);
            let listed = (1..).zip(&found).map(|(number, (span, _))| KernelPartition {
                name: String::new(),
                number,
                span: *span,
            });
            let mut stack = kernel_stack(&listed.collect::<Vec<_>>(), BLOCK);
            stack.kind = TableKind::Mbr;
            for (partition, (_, role)) in stack.partitions.iter_mut().zip(found) {
                partition.role = role;
            }
            stack
        })
    }

    /// A list of the kernel's may be that of a GPT, whose backup is at the end.
    #[test]
    fn what_only_the_kernel_lists_leaves_the_end_to_a_backup() {
        let size = ByteCount::new(BLOCKS * 512);
        let listed = |ends: u64| {
            let one = KernelPartition { name: String::new(), number: 1, span: blocks(2048, ends - 2048) };
            let stack = kernel_stack(&[one], BLOCK);
            stack.free_around(&stack.partitions[0], size).unwrap().end().get() / 512
        };
        assert_eq!([3000, BLOCKS - 33].map(listed), [BLOCKS - 33; 2]);
        assert_eq!([BLOCKS - 32, BLOCKS].map(listed), [BLOCKS; 2]);
    }

    /// Whether a partition other than `but`, or a record, has this block.
    fn is_taken(stack: &Stack, at: u64, but: Option<&Partition>, is_logical: bool) -> bool {
        stack.partitions.iter().any(|p| {
            let own = but.is_some_and(|but| but.number == p.number);
            let is_inside = (p.start.get()..p.start.get() + p.count.get()).contains(&at);
            match p.role {
                Role::Extended if is_logical => at == p.start.get(),
                Role::Logical { ebr } => at == ebr.get() || (is_inside && !own),
                Role::Primary | Role::Extended => is_inside && !own,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_free_is_what_no_partition_and_no_record_has(stack in disk()) {
            let size = ByteCount::new(BLOCKS * 512);
            let free = stack.free(size);
            let first = stack.partitions.iter().map(|p| p.start.get()).min().unwrap();
            let lead = first.clamp(1, 2048);
            for at in 0..BLOCKS + 100 {
                let is_free = (lead..BLOCKS).contains(&at) && !is_taken(&stack, at, None, false);
                prop_assert_eq!(free.iter().any(|free| free.contains(blocks(at, 1))), is_free, "block {}", at);
            }
        }

        #[test]
        fn a_partition_may_have_its_own_and_what_is_free_around_it(stack in disk()) {
            let size = ByteCount::new(BLOCKS * 512);
            let first = stack.partitions.iter().map(|p| p.start.get()).min().unwrap();
            for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended) {
                let is_logical = matches!(partition.role, Role::Logical { .. });
                let within = if is_logical {
                    let container = stack.partitions.iter().find(|p| p.role == Role::Extended).unwrap();
                    container.start.get()..(container.start.get() + container.count.get()).min(BLOCKS)
                } else {
                    first.clamp(1, 2048)..BLOCKS
                };
                let is_open = |at: &u64| {
                    within.contains(at) && !is_taken(&stack, *at, Some(partition), is_logical)
                };
                let own = partition.start.get()..partition.start.get() + partition.count.get();
                // The run of open blocks that holds the first open block of its own.
                let expected = own.clone().find(is_open).map(|at| {
                    let start = (0..at).rev().take_while(is_open).last().unwrap_or(at);
                    let end = (at..=BLOCKS).find(|at| !is_open(at)).unwrap();
                    blocks(start, end - start)
                });
                prop_assert_eq!(stack.free_around(partition, size), expected, "{:?}", partition);
            }
        }
    }
}
