//! The features and the configuration space of the device (Virtio 1.2, section 5.2.4).

/// Length of `struct virtio_blk_config` up to the fields of zoned devices.
pub(crate) const CONFIG_BYTES: usize = 60;

/// The unit of capacity, offsets and ranges in virtio-blk, whatever the logical sector size.
pub(crate) const SECTOR: u64 = 512;

/// The longest discard or write-zeroes range that is offered, in 512-byte sectors: 1 GiB.
const LONGEST_RANGE: u32 = 1 << 21;

pub(crate) mod feature {
    pub(crate) const SIZE_MAX: u64 = 1 << 1;
    pub(crate) const SEG_MAX: u64 = 1 << 2;
    pub(crate) const BLK_SIZE: u64 = 1 << 6;
    pub(crate) const FLUSH: u64 = 1 << 9;
    pub(crate) const TOPOLOGY: u64 = 1 << 10;
    pub(crate) const MQ: u64 = 1 << 12;
    pub(crate) const DISCARD: u64 = 1 << 13;
    pub(crate) const WRITE_ZEROES: u64 = 1 << 14;
    pub(crate) const RING_INDIRECT_DESC: u64 = 1 << 28;
    pub(crate) const RING_EVENT_IDX: u64 = 1 << 29;
    /// `VHOST_USER_F_PROTOCOL_FEATURES`: there are protocol features to agree on.
    pub(crate) const PROTOCOL_FEATURES: u64 = 1 << 30;
    pub(crate) const VERSION_1: u64 = 1 << 32;
}

/// The drive's properties, as virtio-blk reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The size of the drive in bytes.
    pub capacity: u64,
    /// The logical sector size in bytes: the smallest request, and the unit of every offset.
    pub logical_sector: u32,
    /// The physical sector size in bytes: the logical sector size times a power of two.
    pub physical_sector: u32,
    /// Bytes from the start of the drive to the first physical sector boundary.
    pub alignment_offset: u32,
    /// The minimum I/O size in bytes; zero where the drive reports none.
    pub minimum_io: u32,
    /// The optimal I/O size in bytes; zero where the drive reports none.
    pub optimal_io: u32,
    /// The granularity of discards in bytes, below which they have no effect. `None` where the drive has no discard.
    pub discard_granularity: Option<u32>,
    /// Whether the drive has a volatile cache, and so needs flushes.
    pub volatile_cache: bool,
    /// The number of request queues, at least one.
    pub queues: u16,
    /// The longest segment in bytes; `None` leaves it to the guest. With one page, the size of requests does not
    /// depend on which pages of the guest's memory are adjacent.
    pub longest_segment: Option<u32>,
    /// Whether the guest may suppress interrupts (event index).
    pub event_index: bool,
    /// The device's ID string, at most 20 bytes.
    pub serial: String,
}

impl Offer {
    pub(crate) fn features(&self) -> u64 {
        use feature::*;
        let mut bits = SEG_MAX | BLK_SIZE | TOPOLOGY | MQ | WRITE_ZEROES | VERSION_1;
        bits |= RING_INDIRECT_DESC | PROTOCOL_FEATURES;
        let optional = [
            (self.longest_segment.is_some(), SIZE_MAX),
            (self.volatile_cache, FLUSH),
            (self.discard_granularity.is_some(), DISCARD),
            (self.event_index, RING_EVENT_IDX),
        ];
        optional.into_iter().filter(|(offered, _)| *offered).fold(bits, |bits, (_, bit)| bits | bit)
    }

    /// Sizes that do not fit into their fields are reported as zero, which means unknown.
    pub(crate) fn config(&self) -> [u8; CONFIG_BYTES] {
        let blocks = |bytes: u32| bytes / self.logical_sector;
        let per_physical = self.physical_sector / self.logical_sector;
        let exponent = u8::try_from(per_physical.max(1).ilog2()).unwrap_or(0);
        let sectors = |bytes: u32| u32::try_from(u64::from(bytes) / SECTOR).unwrap_or(0);

        let mut space = [0; CONFIG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.capacity / SECTOR).to_le_bytes());
        put(8, &self.longest_segment.unwrap_or(0).to_le_bytes());
        put(12, &u32::from(MOST_SEGMENTS).to_le_bytes());
        put(20, &self.logical_sector.to_le_bytes());
        put(24, &[exponent, u8::try_from(blocks(self.alignment_offset)).unwrap_or(0)]);
        put(26, &u16::try_from(blocks(self.minimum_io)).unwrap_or(0).to_le_bytes());
        put(28, &blocks(self.optimal_io).to_le_bytes());
        put(32, &[u8::from(self.volatile_cache)]);
        put(34, &self.queues.to_le_bytes());
        if let Some(granularity) = self.discard_granularity {
            put(36, &LONGEST_RANGE.to_le_bytes());
            put(40, &1u32.to_le_bytes());
            put(44, &sectors(granularity).max(1).to_le_bytes());
        }
        put(48, &LONGEST_RANGE.to_le_bytes());
        put(52, &1u32.to_le_bytes());
        put(56, &[0]);
        space
    }
}

/// The most data segments of a request: what fits into a ring of 128 besides the header and the status.
const MOST_SEGMENTS: u16 = 126;

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        Offer {
            capacity: 1_000_204_886_016,
            logical_sector: 512,
            physical_sector: 4096,
            alignment_offset: 3584,
            minimum_io: 4096,
            optimal_io: 65536,
            discard_granularity: Some(4096),
            volatile_cache: true,
            queues: 2,
            longest_segment: Some(4096),
            event_index: false,
            serial: "test".into(),
        }
    }

    #[test]
    fn the_configuration_space_has_every_field_at_its_offset() {
        let space = offer().config();
        let u32_at = |at: usize| u32::from_le_bytes([space[at], space[at + 1], space[at + 2], space[at + 3]]);
        assert_eq!(space[..8], 1_953_525_168u64.to_le_bytes());
        assert_eq!((u32_at(8), u32_at(12), u32_at(20)), (4096, 126, 512));
        assert_eq!((space[24], space[25]), (3, 7));
        assert_eq!(space[26..28], [8, 0]);
        assert_eq!(u32_at(28), 128);
        assert_eq!((space[32], space[34], space[35]), (1, 2, 0));
        assert_eq!((u32_at(36), u32_at(40), u32_at(44)), (1 << 21, 1, 8));
        assert_eq!((u32_at(48), u32_at(52)), (1 << 21, 1));
    }

    #[test]
    fn what_the_drive_has_not_is_not_offered() {
        let plain =
            Offer { discard_granularity: None, volatile_cache: false, longest_segment: None, ..offer() };
        assert_eq!(plain.features() & (feature::DISCARD | feature::FLUSH | feature::SIZE_MAX), 0);
        assert_eq!(offer().features() & feature::RING_EVENT_IDX, 0);
        let space = plain.config();
        assert_eq!(space[36..48], [0; 12]);
    }
}
