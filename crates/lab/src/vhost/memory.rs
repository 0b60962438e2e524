//! The part of the guest's memory that it shares.

use std::fs::File;
use std::os::fd::OwnedFd;

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::vhost::guard::Guard;

/// The most memory that a guest may share, in bytes. With the maximum number of clients, half of this process's
/// address space (128 TiB on x86-64) stays free.
const MOST_LENT: u64 = 256 << 30;

/// A region of the guest's memory, as a message describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// Its address in the process that owns it.
    pub(crate) user: u64,
    /// Its address in the guest.
    pub(crate) guest: u64,
    pub(crate) length: u64,
    /// Its offset in its file.
    pub(crate) offset: u64,
}

/// All shared memory. Fields are dropped in their order, so the guards must come before the mappings.
#[derive(Default)]
pub(crate) struct Memory {
    guards: Vec<Guard>,
    pub(crate) map: GuestMemoryMmap,
    pub(crate) regions: Vec<Region>,
}

impl Memory {
    /// Maps the regions, each from its file. On failure returns what is wrong with them.
    pub(crate) fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Self, String> {
        let (mut mapped, mut guards) = (Vec::new(), Vec::new());
        let total = regions.iter().try_fold(0_u64, |sum, region| sum.checked_add(region.length));
        if total.is_none_or(|total| total > MOST_LENT) {
            return Err(format!("it shares more than {MOST_LENT} bytes"));
        }
        for (index, (region, fd)) in regions.iter().zip(files).enumerate() {
            let Region { guest, length, offset, .. } = *region;
            // Only files in memory have seals. Access to any other file may wait for a disk or a network.
            rustix::fs::fcntl_get_seals(&fd)
                .map_err(|_| format!("region {index} is not a memfd, tmpfs or hugetlbfs file"))?;
            let size = usize::try_from(length).map_err(|_| "a region is too large".to_owned())?;
            let file = File::from(fd);
            let has = file.metadata().map_or(0, |file| file.len());
            if length == 0 || offset.checked_add(length).is_none_or(|end| end > has) {
                return Err(format!(
                    "region {index} cannot be mapped: {length} bytes from byte {offset} exceed its file \
                     ({has} bytes)"
                ));
            }
            let mapping = MmapRegion::from_file(FileOffset::new(file, offset), size)
                .map_err(|error| format!("region {index} cannot be mapped: {error}"))?;
            let region = GuestRegionMmap::new(mapping, GuestAddress(guest));
            let region = region.ok_or("a region extends past the last address")?;
            let start = region.as_ptr();
            mapped.push(region);
            // Needed even for a file that is sealed against shrinking: see `guard`.
            guards.push(Guard::new(start, size).ok_or("too many regions are mapped")?);
        }
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?;
        Ok(Self { guards, map, regions })
    }

    /// Whether the guest has removed any of it, as far as accesses have shown.
    pub(crate) fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Converts an address of the guest's process to one of the guest.
    pub(crate) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let holds = |region: &&Region| user.checked_sub(region.user).is_some_and(|far| far < region.length);
        let region = self.regions.iter().find(holds)?;
        region.guest.checked_add(user - region.user).map(GuestAddress)
    }
}
