//! Swap: `union swap_header`, include/linux/swap.h. The magic is at the end of the first page. Its offset
//! therefore gives the page size, which the header does not record.

use straddle_units::ByteCount;

use super::{bytes, said, text};
use crate::fields::{be32, le32};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// Page sizes that Linux has used, as in libblkid/src/superblocks/swap.c.
const PAGES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The magic of version 1, which has a label; it is in the last 10 bytes of the page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
/// The magic of version 0.
const MAGIC_0: &[u8; 10] = b"SWAP-SPACE";
/// Offset and length of `sws_volume`: after 1024 bytes for boot code, three numbers and a UUID.
const VOLUME: (u64, usize) = (1024 + 12 + 16, 16);
/// Offset and length of `version` and `last_page`, 32 bits each, in the byte order of the machine that wrote
/// them. Present only with the magic [`MAGIC`].
const INFO: (u64, usize) = (1024, 8);
/// The only version that has these fields.
const VERSION: u32 = 1;

/// Reads swap, which is allocated in pages.
pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let magic_of = |page: &u64| bytes(view, *page - 10, MAGIC.len());
    let found = PAGES.iter().find_map(|page| {
        let magic = magic_of(page)?;
        (magic == MAGIC || magic == MAGIC_0).then_some((*page, magic == MAGIC))
    });
    let (page, has_label) = found?;
    let volume = bytes(view, VOLUME.0, VOLUME.1).filter(|_| has_label);
    let info = bytes(view, INFO.0, INFO.1).filter(|_| has_label);
    let pages = info.and_then(|info| last_page(&info)).map(|last| u64::from(last) + 1);
    let block = ByteCount::new(page);
    let extent = pages.and_then(|pages| said(pages, block));
    let fs = FileSystem { block, extent, ..FileSystem::default() };
    Some((fs, volume.map(|volume| text(&volume)).unwrap_or_default()))
}

/// The number of the last page, if the header records it.
fn last_page(info: &[u8]) -> Option<u32> {
    let little = (le32(info, 0) == VERSION).then(|| le32(info, 4));
    little.or_else(|| (be32(info, 0) == VERSION).then(|| be32(info, 4)))
}
