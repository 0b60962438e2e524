//! The kernel's list of partitions as a stack, for use if a table cannot be read.

use straddle_device::KernelPartition;
use straddle_units::{BlockSize, Lba};

use crate::model::stack::{
    Attributes, MAX_PARTITIONS, Partition, PartitionType, Problem, Role, Stack, TableKind, Unclaimed,
};

/// Returns the stack that the kernel lists, in order of number; `block` is the device's logical block size. A
/// captured tree may list what no kernel would: of several partitions with one number the first counts, and
/// at most [`MAX_PARTITIONS`] are kept.
pub fn kernel_stack(partitions: &[KernelPartition], block: BlockSize) -> Stack {
    // The kernel lists an MBR extended partition with two sectors of 512 bytes, or with one block if that is
    // larger, whatever its real size (block/partitions/msdos.c).
    let container = block.get().max(1024);
    let role = |partition: &KernelPartition| {
        if partition.span.len().get() <= container
            && partition.number <= 4
            && partitions.iter().any(|p| p.number > 4)
        {
            Role::Extended
        } else {
            Role::Primary
        }
    };
    let mut distinct: Vec<&KernelPartition> = partitions.iter().collect();
    distinct.sort_by_key(|partition| partition.number);
    distinct.dedup_by_key(|partition| partition.number);
    let cut = distinct.get(MAX_PARTITIONS);
    let problems =
        cut.map(|first| Problem::TooManyPartitions { at: first.span.start() }).into_iter().collect();
    let partitions = distinct
        .iter()
        .take(MAX_PARTITIONS)
        .map(|partition| Partition {
            number: partition.number,
            start: Lba::containing(partition.span.start(), block),
            count: block.blocks_floor(partition.span.len()),
            span: partition.span,
            role: role(partition),
            kind: PartitionType::Unknown,
            attributes: Attributes::default(),
            content: None,
            layer: None,
            unclaimed: Unclaimed::Nothing,
        })
        .collect();
    Stack {
        kind: TableKind::Kernel,
        block,
        block_found: false,
        disk_id: Vec::new(),
        usable: None,
        layer: None,
        partitions,
        problems,
        hybrid: Vec::new(),
        hybrid_iso: None,
        has_long_entries: false,
    }
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
