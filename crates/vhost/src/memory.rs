//! The guest's memory, as far as it lends it.

use std::fs::File;
use std::os::fd::OwnedFd;

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::guard::Guard;

/// A guest may lend so much, in bytes: with as many clients as there can be, half of the addresses of this process (128 TiB on
/// x86-64) stay free, without which it could not even allocate.
const MOST_LENT: u64 = 256 << 30;

/// A piece of the guest's memory as a message describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// In the addresses of the process that owns it.
    pub(crate) user: u64,
    /// In the guest's own addresses.
    pub(crate) guest: u64,
    pub(crate) length: u64,
    /// Where it begins in its file.
    pub(crate) offset: u64,
}

/// All of it. What is to be dropped before what is the order of the fields.
pub(crate) struct Memory {
    guards: Vec<Guard>,
    pub(crate) map: GuestMemoryMmap,
    regions: Vec<Region>,
}

impl Memory {
    /// None at all.
    pub(crate) fn none() -> Self {
        Self { guards: Vec::new(), map: GuestMemoryMmap::new(), regions: Vec::new() }
    }

    /// Maps the regions, each of its file; otherwise says what is wrong with them.
    pub(crate) fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Self, String> {
        let (mut mapped, mut guards) = (Vec::new(), Vec::new());
        let total = regions.iter().try_fold(0_u64, |sum, region| sum.checked_add(region.length));
        if total.is_none_or(|total| total > MOST_LENT) {
            return Err(format!("it lends more than {MOST_LENT} bytes"));
        }
        for (index, (region, fd)) in regions.iter().zip(files).enumerate() {
            let Region { guest, length, offset, .. } = *region;
            // Only files in memory have seals. Any other may make whoever touches it wait for a disk, a network or a program.
            rustix::fs::fcntl_get_seals(&fd)
                .map_err(|_| format!("region {index} is not memory: a memfd, tmpfs or hugetlbfs file is"))?;
            let size = usize::try_from(length).map_err(|_| "a region is too large".to_owned())?;
            let file = File::from(fd);
            let has = file.metadata().map_or(0, |file| file.len());
            if length == 0 || offset.checked_add(length).is_none_or(|end| end > has) {
                return Err(format!(
                    "region {index} cannot be mapped: bytes {offset} and {length} more, of {has}"
                ));
            }
            let mapping = MmapRegion::from_file(FileOffset::new(file, offset), size)
                .map_err(|error| format!("region {index} cannot be mapped: {error}"))?;
            let region = GuestRegionMmap::new(mapping, GuestAddress(guest));
            let region = region.ok_or("a region goes past the end of all addresses")?;
            let start = region.as_ptr();
            mapped.push(region);
            // A seal against shrinking is not enough: where the system has no huge pages left, touching one raises SIGBUS as well.
            guards.push(Guard::new(start, size).ok_or("too many regions are mapped")?);
        }
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?;
        Ok(Self { guards, map, regions })
    }

    /// Whether the guest has set it up.
    pub(crate) fn is_there(&self) -> bool {
        !self.regions.is_empty()
    }

    /// Whether the guest has taken any of it away, as far as that was noticed.
    pub(crate) fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// The guest's own address for one of its process.
    pub(crate) fn guest_address(&self, user: u64) -> Option<u64> {
        let holds = |region: &&Region| user.checked_sub(region.user).is_some_and(|far| far < region.length);
        let region = self.regions.iter().find(holds)?;
        region.guest.checked_add(user - region.user)
    }
}
