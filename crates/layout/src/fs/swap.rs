//! Swap: `union swap_header`, include/linux/swap.h. The magic ends the first page, and so tells its size, which the
//! header does not.

use straddle_units::ByteCount;

use super::{bytes, text};
use crate::layer::FileSystem;
use crate::view::View;

/// Page sizes that Linux has had, as in libblkid/src/superblocks/swap.c.
const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The magic of version 1, which has a label; it stands in the last 10 bytes of the page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
/// The magic of version 0.
const MAGIC_0: &[u8; 10] = b"SWAP-SPACE";
/// `sws_volume`, 16 bytes, after 1024 for boot code, three numbers and a UUID.
const VOLUME: (u64, usize) = (1024 + 12 + 16, 16);

/// Swap is allocated in pages.
pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let magic_of = |page: &u64| bytes(view, *page - 10, MAGIC.len());
    let found = PAGES.iter().find_map(|page| {
        let magic = magic_of(page)?;
        (magic == MAGIC || magic == MAGIC_0).then_some((*page, magic == MAGIC))
    });
    let (page, has_label) = found?;
    let volume = bytes(view, VOLUME.0, VOLUME.1).filter(|_| has_label);
    let fs = FileSystem { block: ByteCount::new(page), ..FileSystem::default() };
    Some((fs, volume.map(|volume| text(&volume)).unwrap_or_default()))
}
