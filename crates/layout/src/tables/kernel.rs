//! The kernel's list of partitions as a stack, for use if a table cannot be read.

use straddle_device::KernelPartition;
use straddle_units::{BlockSize, Lba};

use crate::model::stack::{MAX_PARTITIONS, Partition, Problem, Role, Stack, TableKind};

/// The stack that the kernel lists, in order of number; `block` is the device's logical block size. Of several
/// partitions with one number (in a captured tree) the first counts, and at most [`MAX_PARTITIONS`] are kept.
pub fn kernel_stack(partitions: &[KernelPartition], block: BlockSize) -> Stack {
    // The size that the kernel shows for an extended partition (block/partitions/msdos.c).
    let container = block.get().max(1024);
    let role = |partition: &KernelPartition| {
        let is_small = partition.span.len().get() <= container && partition.number <= 4;
        if is_small && partitions.iter().any(|p| p.number > 4) { Role::Extended } else { Role::Primary }
    };
    let mut distinct: Vec<&KernelPartition> = partitions.iter().collect();
    distinct.sort_by_key(|partition| partition.number);
    distinct.dedup_by_key(|partition| partition.number);
    let cut = distinct.get(MAX_PARTITIONS);
    let problems =
        cut.map(|first| Problem::TooManyPartitions { at: first.span.start() }).into_iter().collect();
    let partition = |listed: &&KernelPartition| {
        let start = Lba::containing(listed.span.start(), block);
        let partition = Partition::at(listed.number, start, block.blocks_floor(listed.span.len()), block)?;
        Some(Partition { span: listed.span, role: role(listed), ..partition })
    };
    let partitions = distinct.iter().take(MAX_PARTITIONS).filter_map(partition).collect();
    Stack { partitions, problems, ..Stack::empty(TableKind::Kernel, block) }
}

#[cfg(test)]
mod tests {
    use straddle_units::{ByteCount, ByteOffset, Span};

    use super::*;

    #[test]
    fn a_list_that_no_kernel_would_give_is_cut() {
        let listed: Vec<KernelPartition> = (0..100_000)
            .map(|index| KernelPartition {
                name: format!("sda{index}"),
                number: 5000 - index / 20,
                span: Span::new(ByteOffset::new(u64::from(index) << 20), ByteCount::new(1 << 20)).unwrap(),
            })
            .collect();
        let stack = kernel_stack(&listed, BlockSize::B512);
        let numbers: Vec<u32> = stack.partitions.iter().map(|p| p.number).collect();
        assert_eq!(numbers, (1..=1024).collect::<Vec<u32>>());
        assert_eq!(
            stack.problems,
            [Problem::TooManyPartitions { at: ByteOffset::new(((5000 - 1025) * 20) << 20) }]
        );
    }
}
