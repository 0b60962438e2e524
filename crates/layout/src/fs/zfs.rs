//! A member of a ZFS pool, by the first of its four labels that is there: `vdev_label_t`, include/sys/vdev_impl.h of OpenZFS, and
//! the comment at the top of module/zfs/vdev_label.c. A GPT takes the list of the first away.
//!
//! The label describes the member in a name-value list, encoded as XDR (`nvs_xdr_nvlist`, `nvs_xdr_nvpair` and
//! `nvs_xdr_nvp_op`, module/nvpair/nvpair.c). Only its top and the description of the top-level vdev in it are
//! walked, each pair at most once: the pool's name is in the one, the ashift in the other. A cache device's label has
//! the ashift at the top, a spare's has none.

use straddle_device::Medium as _;
use straddle_units::{ByteCount, ByteOffset, MIB};

use super::{bytes, text};
use crate::fields::{array, be32, byte, has};
use crate::model::layer::FileSystem;
use crate::model::view::View;

/// `vl_vdev_phys`: after 8 KiB for a boot block and 8 KiB for a boot environment, the list, and how long.
pub(crate) const ZFS_NVLIST: (usize, usize) = (16 << 10, 112 << 10);
/// `vl_uberblock`: the ring of uberblocks, and how long.
const RING: (usize, usize) = (128 << 10, 128 << 10);
/// The size of a label (`sizeof (vdev_label_t)`): two are at the start, and two at the end of the last whole ones (`vdev_label_offset`).
const LABEL: u64 = 256 << 10;
/// The smallest member (`SPA_MINDEVSIZE`, include/sys/fs/zfs.h).
const SMALLEST: u64 = 64 * MIB;
/// Uberblocks have 1 KiB or more (`UBERBLOCK_SHIFT`, include/sys/uberblock_impl.h), and begin with this in the byte
/// order of who wrote them (`UBERBLOCK_MAGIC`).
const UBERBLOCK: usize = 1 << 10;
const UBERBLOCK_MAGIC: u64 = 0x00BA_B10C;
/// Two labels and 3.5 MiB for boot code: what ZFS calls offset 0 starts after them (`VDEV_LABEL_START_SIZE`).
const DATA_START: ByteOffset = ByteOffset::new(4 * MIB);
/// Smaller and larger exponents are refused (`ASHIFT_MIN` and `ASHIFT_MAX`, include/sys/spa.h).
const ASHIFT: std::ops::RangeInclusive<u64> = 9..=16;

/// The list's header, `nvs_header_t`: encoding (1 is XDR, `NV_ENCODE_XDR`), byte order, two zeros. Then, as at the head
/// of a list inside it, version (0, `NV_VERSION`) and flags, 32 bits each.
const HEADER: usize = 4;
const XDR: u8 = 1;
const VERSION_AND_FLAGS: usize = 8;
/// `NV_UNIQUE_NAME`, which every label's list has.
const UNIQUE_NAME: u32 = 1;

/// A pair: its size encoded and its size in memory, the length of its name, the name; each name and text padded to a
/// multiple of 4 bytes. Then type and number of elements, and the value.
const NAME_LEN: usize = 8;
const NAME: usize = 12;
/// `DATA_TYPE_UINT64`, `DATA_TYPE_STRING` and `DATA_TYPE_NVLIST`, include/sys/nvpair.h.
const UINT64: u32 = 8;
const STRING: u32 = 9;
const NVLIST: u32 = 19;

/// The names (`ZPOOL_CONFIG_POOL_NAME`, `ZPOOL_CONFIG_VDEV_TREE` and `ZPOOL_CONFIG_ASHIFT`, include/sys/fs/zfs.h).
const POOL_NAME: &[u8] = b"name";
const VDEV_TREE: &[u8] = b"vdev_tree";
const ASHIFT_NAME: &[u8] = b"ashift";

/// Where the first label is that still has a list and an uberblock, of a member of `len` bytes, of which `read` gives so many bytes.
/// One of the two at the end is not enough: what ends a little before a former member has its label where the other would be.
pub(crate) fn zfs_label(len: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<u64> {
    let part = |label: u64, at: usize, len| u64::try_from(at).map_or(Vec::new(), |at| read(label + at, len));
    let is_label = |label: &u64| {
        is_xdr_nvlist(&part(*label, ZFS_NVLIST.0, HEADER + VERSION_AND_FLAGS))
            && has_uberblock(&part(*label, RING.0, RING.1))
    };
    let [start, end] = labels(len)?;
    start.into_iter().find(is_label).or_else(|| end.iter().all(is_label).then_some(end[0]))
}

/// Where the labels are of a member of `len` bytes, at its start and at its end; `None` where it is smaller than ZFS takes.
fn labels(len: u64) -> Option<[[u64; 2]; 2]> {
    let end = len - len % LABEL;
    (len >= SMALLEST).then(|| [[0, LABEL], [end - 2 * LABEL, end - LABEL]])
}

/// Whether these bytes begin a list as the label has it.
fn is_xdr_nvlist(list: &[u8]) -> bool {
    byte(list, 0) == XDR
        && byte(list, 1) <= 1
        && has(list, 2, &[0, 0, 0, 0, 0, 0])
        && be32(list, HEADER + 4) == UNIQUE_NAME
}

/// Whether there is an uberblock, of either byte order, in the ring.
fn has_uberblock(ring: &[u8]) -> bool {
    let mut magics = ring.chunks_exact(UBERBLOCK).map(|block| u64::from_le_bytes(array(block, 0)));
    magics.any(|magic| magic == UBERBLOCK_MAGIC || magic.swap_bytes() == UBERBLOCK_MAGIC)
}

/// Its block is the smallest that it writes, 2^ashift; zero where the label does not say.
pub(super) fn read(view: &View<'_>) -> Option<(FileSystem, String)> {
    let at = u64::try_from(ZFS_NVLIST.0).ok()?;
    let lists = labels(view.len().get())?
        .concat()
        .into_iter()
        .filter_map(|label| bytes(view, label + at, ZFS_NVLIST.1));
    let list = lists.into_iter().find(|list| is_xdr_nvlist(list))?;
    let top = Pairs::of(list.get(HEADER..)?);
    let tree = find(top, VDEV_TREE, NVLIST).map(Pairs::of);
    let ashift = find(top, ASHIFT_NAME, UINT64).or_else(|| find(tree?, ASHIFT_NAME, UINT64));
    let ashift = ashift.map(|value| u64::from_be_bytes(array(value, 0)));
    let ashift =
        ashift.filter(|ashift| ASHIFT.contains(ashift)).and_then(|ashift| u32::try_from(ashift).ok());
    let fs = FileSystem {
        block: ashift.map_or(ByteCount::ZERO, |ashift| ByteCount::new(1 << ashift)),
        data_start: Some(DATA_START),
        ashift,
        ..FileSystem::default()
    };
    let name = find(top, POOL_NAME, STRING).and_then(string);
    Some((fs, name.map(text).unwrap_or_default()))
}

/// The value of the pair of this name and type.
fn find<'a>(mut pairs: Pairs<'a>, name: &[u8], kind: u32) -> Option<&'a [u8]> {
    pairs.find(|pair| pair.name == name && pair.kind == kind).map(|pair| pair.value)
}

/// A text: its length, and its bytes.
fn string(value: &[u8]) -> Option<&[u8]> {
    value.get(4..)?.get(..usize::try_from(be32(value, 0)).ok()?)
}

/// One pair of a list.
struct Pair<'a> {
    name: &'a [u8],
    kind: u32,
    value: &'a [u8],
}

/// The pairs of a list, until its end or the first that makes no sense.
#[derive(Clone, Copy)]
struct Pairs<'a>(&'a [u8]);

impl<'a> Pairs<'a> {
    /// The pairs of the list that begins here with its version and flags.
    fn of(list: &'a [u8]) -> Self {
        Self(list.get(VERSION_AND_FLAGS..).unwrap_or(&[]))
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        // Two zero sizes end the list. A pair holds its own sizes and name, so that each step goes on.
        let (pair, rest) = self.0.split_at_checked(usize::try_from(be32(self.0, 0)).ok()?)?;
        let name_len = usize::try_from(be32(pair, NAME_LEN)).ok()?;
        let name = pair.get(NAME..)?.get(..name_len)?;
        let kind_at = NAME + name_len.checked_next_multiple_of(4)?;
        let value = pair.get(kind_at.checked_add(8)?..)?;
        self.0 = rest;
        Some(Pair { name, kind: be32(pair, kind_at), value })
    }
}
