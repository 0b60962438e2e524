//! Descriptor chains (Virtio 1.2, sections 2.7.5 and 2.7.6). A chain that breaks a rule is not used, not even
//! in part: its driver cannot use the device again before a reset.

use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryMmap};

use crate::vhost::ring::LONGEST_RING;

/// Size of `struct virtq_desc` in bytes.
const DESCRIPTOR_BYTES: u32 = 16;
/// The most descriptors of an indirect table. The standard allows as many as the ring has; Linux has 128.
const LONGEST_TABLE: u32 = LONGEST_RING as u32;

/// What is wrong with a ring, or with a chain in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages document the variants")]
pub enum Damage {
    #[error("the ring announces {ahead} chains, but has {size} entries")]
    AvailableIndex { ahead: u16, size: u16 },
    #[error("chain {0} was submitted again before it was returned")]
    InUse(u16),
    #[error("descriptor index {index} is outside the table of {size}")]
    Index { index: u16, size: u32 },
    #[error("the chain is longer than its table of {0} descriptors")]
    Loop(u32),
    #[error("a readable descriptor follows a writable one")]
    Order,
    #[error("an indirect table has an invalid length ({0} bytes) or position")]
    Table(u32),
    #[error("the chain has more than 4 GiB of data")]
    Long,
    #[error("an address is outside the guest's memory")]
    Outside,
    #[error("{0} was not negotiated")]
    NotNegotiated(&'static str),
}

/// Follows the chain that begins at `head` in the table of `size` descriptors at `table`. `indirect` says
/// whether indirect tables were negotiated.
pub(crate) fn follow(
    memory: &GuestMemoryMmap,
    table: GuestAddress,
    size: u16,
    head: u16,
    indirect: bool,
) -> Result<Vec<Descriptor>, Damage> {
    let (mut table, mut size) = (table, u32::from(size));
    let (mut chain, mut index, mut is_indirect): (Vec<Descriptor>, _, _) = (Vec::new(), head, false);
    let mut bytes: u32 = 0;
    loop {
        let descriptor = read(memory, table, size, index)?;
        if descriptor.refers_to_indirect_table() {
            let length = descriptor.len();
            if !indirect {
                return Err(Damage::NotNegotiated("VIRTIO_F_INDIRECT_DESC"));
            }
            let entries = length / DESCRIPTOR_BYTES;
            let is_whole = length.is_multiple_of(DESCRIPTOR_BYTES) && (1..=LONGEST_TABLE).contains(&entries);
            if is_indirect || descriptor.has_next() || !is_whole {
                return Err(Damage::Table(length));
            }
            (table, size, index, is_indirect) = (descriptor.addr(), entries, 0, true);
            continue;
        }
        if !descriptor.is_write_only() && chain.last().is_some_and(Descriptor::is_write_only) {
            return Err(Damage::Order);
        }
        bytes = bytes.checked_add(descriptor.len()).ok_or(Damage::Long)?;
        chain.push(descriptor);
        if !descriptor.has_next() {
            return Ok(chain);
        }
        // A chain that visits no descriptor twice is no longer than its table plus, for an indirect table,
        // the descriptors before it.
        if chain.len() >= size as usize + usize::from(is_indirect) * usize::from(LONGEST_RING) {
            return Err(Damage::Loop(size));
        }
        index = descriptor.next();
    }
}

fn read(memory: &GuestMemoryMmap, table: GuestAddress, size: u32, index: u16) -> Result<Descriptor, Damage> {
    if u32::from(index) >= size {
        return Err(Damage::Index { index, size });
    }
    let address = table.checked_add(u64::from(index) * u64::from(DESCRIPTOR_BYTES)).ok_or(Damage::Outside)?;
    memory.read_obj(address).map_err(|_| Damage::Outside)
}
