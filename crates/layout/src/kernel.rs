//! The kernel's list of partitions as a stack, where a table cannot be read.

use straddle_device::KernelPartition;
use straddle_units::{BlockSize, Lba};

use crate::stack::{Attributes, Partition, PartitionType, Role, Stack, TableKind};

/// The stack that the kernel lists; `block` is the device's logical block size.
pub fn kernel_stack(partitions: &[KernelPartition], block: BlockSize) -> Stack {
    // The kernel lists an MBR extended partition with two sectors of 512 bytes, or one block where that is more,
    // whatever its real size (block/partitions/msdos.c).
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
    let partitions = partitions
        .iter()
        .map(|partition| Partition {
            number: partition.number,
            start: Lba::containing(partition.span.start(), block),
            count: block.blocks_floor(partition.span.len()),
            span: partition.span,
            role: role(partition),
            kind: PartitionType::Unknown,
            attributes: Attributes::default(),
            content: None,
        })
        .collect();
    Stack {
        kind: TableKind::Kernel,
        block,
        block_found: false,
        disk_id: Vec::new(),
        usable: None,
        partitions,
        problems: Vec::new(),
    }
}
