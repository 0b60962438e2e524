//! The part of the guest's memory that it shares.

use std::fs::File;
use std::os::fd::OwnedFd;

use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

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

/// All shared memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) map: GuestMemoryMmap,
    regions: Vec<Region>,
}

impl Memory {
    /// Maps the regions, each from its file. On failure returns what is wrong with them.
    pub(crate) fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Self, String> {
        let mut mapped = Vec::new();
        for (index, (region, fd)) in regions.iter().zip(files).enumerate() {
            let Region { guest, length, offset, .. } = *region;
            let size = usize::try_from(length).map_err(|_| "a region is too large".to_owned())?;
            let file = File::from(fd);
            // What is past the end of the file would end this process with SIGBUS when it is read.
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
            mapped.push(region.ok_or("a region extends past the last address")?);
        }
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|error| error.to_string())?;
        Ok(Self { map, regions })
    }

    /// Converts an address of the guest's process to one of the guest.
    pub(crate) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let holds = |region: &&Region| user.checked_sub(region.user).is_some_and(|far| far < region.length);
        let region = self.regions.iter().find(holds)?;
        region.guest.checked_add(user - region.user).map(GuestAddress)
    }
}
