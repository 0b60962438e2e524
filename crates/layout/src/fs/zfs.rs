//! A member of a ZFS pool, recognised by the first intact label of four (the GPT overwrites the first one's list):
//! `vdev_label_t`, include/sys/vdev_impl.h of OpenZFS, and the comment at the top of module/zfs/vdev_label.c.
//!
//! The label is a name-value list, encoded as XDR (module/nvpair/nvpair.c). Its top level has the pool's name and, of
//! a cache device, the ashift; else the top-level vdev's description has that. A spare has none.

use straddle_device::Medium as _;
use straddle_device::fields::{be32, be64, byte, has, le64};
use straddle_units::{ByteCount, ByteOffset, MIB};

use super::{bytes, text};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// `vl_vdev_phys`: offset and length of the list, after the boot block and the boot environment.
pub(crate) const ZFS_NVLIST: (usize, usize) = (16 << 10, 112 << 10);
/// `vl_uberblock`: offset and length of the ring of uberblocks.
const RING: (usize, usize) = (128 << 10, 128 << 10);
/// The size of a label. Two are at the start, two at the end rounded down to one (`vdev_label_offset`).
const LABEL: u64 = 256 << 10;
/// The smallest member (`SPA_MINDEVSIZE`, include/sys/fs/zfs.h).
const SMALLEST: u64 = 64 * MIB;
/// Uberblocks have at least 1 KiB (`UBERBLOCK_SHIFT`, include/sys/uberblock_impl.h), and begin with this
/// magic in the byte order of the machine that wrote them (`UBERBLOCK_MAGIC`).
const UBERBLOCK: usize = 1 << 10;
const UBERBLOCK_MAGIC: u64 = 0x00BA_B10C;
/// Two labels and 3.5 MiB for boot code come before ZFS's offset 0 (`VDEV_LABEL_START_SIZE`).
const DATA_START: ByteOffset = ByteOffset::new(4 * MIB);
/// `ASHIFT_MIN` and `ASHIFT_MAX`, include/sys/spa.h.
const ASHIFT: std::ops::RangeInclusive<u64> = 9..=16;

/// `nvs_header_t`: encoding (`NV_ENCODE_XDR`), byte order, two zeros; then, as in nested lists, version (0) and
/// flags.
const HEADER: usize = 4;
const XDR: u8 = 1;
const VERSION_AND_FLAGS: usize = 8;
/// Set in every label's list.
const UNIQUE_NAME: u32 = 1;

/// A pair: encoded size, size in memory, length of the name, name, type, number of elements, value. Names and texts
/// are padded to a multiple of 4 bytes.
const NAME_LEN: usize = 8;
const NAME: usize = 12;
/// `DATA_TYPE_UINT64`, `DATA_TYPE_STRING` and `DATA_TYPE_NVLIST`, include/sys/nvpair.h.
const UINT64: u32 = 8;
const STRING: u32 = 9;
const NVLIST: u32 = 19;

/// `ZPOOL_CONFIG_POOL_NAME`, `_VDEV_TREE` and `_ASHIFT`, include/sys/fs/zfs.h.
const POOL_NAME: &[u8] = b"name";
const VDEV_TREE: &[u8] = b"vdev_tree";
const ASHIFT_NAME: &[u8] = b"ashift";

/// Offset of the first label with a list and an uberblock in a member of `len` bytes. Of the two labels at the end
/// both are required: one may be left over from a former member that ended slightly further on.
pub(crate) fn zfs_label(len: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<u64> {
    let part = |label: u64, at: usize, len| read(label + at as u64, len);
    let is_label = |label: &u64| {
        is_xdr_nvlist(&part(*label, ZFS_NVLIST.0, HEADER + VERSION_AND_FLAGS))
            && has_uberblock(&part(*label, RING.0, RING.1))
    };
    let [start, end] = labels(len)?;
    start.into_iter().find(is_label).or_else(|| end.iter().all(is_label).then_some(end[0]))
}

/// `None` if ZFS allows no member so small.
fn labels(len: u64) -> Option<[[u64; 2]; 2]> {
    let end = len - len % LABEL;
    (len >= SMALLEST).then(|| [[0, LABEL], [end - 2 * LABEL, end - LABEL]])
}

fn is_xdr_nvlist(list: &[u8]) -> bool {
    byte(list, 0) == XDR
        && byte(list, 1) <= 1
        && has(list, 2, &[0, 0, 0, 0, 0, 0])
        && be32(list, HEADER + 4) == UNIQUE_NAME
}

fn has_uberblock(ring: &[u8]) -> bool {
    let mut magics = ring.chunks_exact(UBERBLOCK).map(|block| le64(block, 0));
    magics.any(|magic| magic == UBERBLOCK_MAGIC || magic.swap_bytes() == UBERBLOCK_MAGIC)
}

/// Its block is its smallest write, 2^ashift; zero if that is not recorded.
pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let lists = labels(view.len().get())?
        .concat()
        .into_iter()
        .filter_map(|label| bytes(view, label + ZFS_NVLIST.0 as u64, ZFS_NVLIST.1));
    let list = lists.into_iter().find(|list| is_xdr_nvlist(list))?;
    let top = list.get(HEADER..)?;
    let tree = find(top, VDEV_TREE, NVLIST);
    let ashift = find(top, ASHIFT_NAME, UINT64).or_else(|| find(tree?, ASHIFT_NAME, UINT64));
    let ashift = ashift.map(|value| be64(value, 0)).filter(|ashift| ASHIFT.contains(ashift));
    let ashift = ashift.and_then(|ashift| u32::try_from(ashift).ok());
    let fs = FileSystem {
        block: ashift.map_or(ByteCount::ZERO, |ashift| ByteCount::new(1 << ashift)),
        data_start: Some(DATA_START),
        ashift,
        ..FileSystem::default()
    };
    let name = find(top, POOL_NAME, STRING).and_then(string);
    Some((fs, name.map(text).unwrap_or_default()))
}

fn find<'a>(list: &'a [u8], name: &[u8], kind: u32) -> Option<&'a [u8]> {
    let mut rest = list.get(VERSION_AND_FLAGS..)?;
    loop {
        // Two zero sizes end the list. Each step moves forward by a pair's sizes and name at least.
        let (pair, after) = rest.split_at_checked(usize::try_from(be32(rest, 0)).ok()?)?;
        let name_len = usize::try_from(be32(pair, NAME_LEN)).ok()?;
        let found = pair.get(NAME..)?.get(..name_len)?;
        let kind_at = NAME + name_len.checked_next_multiple_of(4)?;
        let value = pair.get(kind_at.checked_add(8)?..)?;
        if found == name && be32(pair, kind_at) == kind {
            return Some(value);
        }
        rest = after;
    }
}

fn string(value: &[u8]) -> Option<&[u8]> {
    value.get(4..)?.get(..usize::try_from(be32(value, 0)).ok()?)
}
