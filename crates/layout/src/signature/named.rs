//! Contents known only by name: all that libblkid names and this crate does not read.
//!
//! Offsets, magics and names are from util-linux, libblkid/src/superblocks and libblkid/src/partitions; the
//! names are those that blkid gives as TYPE and PTTYPE. "amiga", "pc98" and "loop" are parted's names.

use straddle_device::fields::{be16, be32, byte, has, le16, le32, le64};

use super::{Magic, SUPERBLOCK_1K, SUPERBLOCK_64K, Window};
use crate::model::content::{Class, Content, FsKind, Named};
use crate::tables::bsd;

const fn file_system(name: &'static str) -> Content {
    Content::Named(Named { name, class: Class::FileSystem })
}

const SWSUSPEND: Content = Content::Named(Named { name: "swsuspend", class: Class::Hibernation });

pub(super) const fn row(places: &'static [usize], magic: &'static [u8], name: &'static str) -> Magic {
    super::row(places, magic, file_system(name))
}

const fn checked(
    places: &'static [usize],
    magic: &'static [u8],
    name: &'static str,
    confirm: fn(&Window<'_>, usize) -> bool,
) -> Magic {
    super::checked(places, magic, file_system(name), confirm)
}

impl Magic {
    pub(super) const fn class(self, class: Class) -> Self {
        let name = self.content.name();
        Self { content: Content::Named(Named { name, class }), ..self }
    }
}

/// In the place of bcache's (`BCACHEFS_SB_MAGIC`); its first versions have bcache's.
const BCACHEFS: &[u8] = b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9\xD9\x6A\x60\xCF\x80\x3D\xF7\xEF";
/// ECMA-167.
const RECOGNITION: usize = 32 * 1024;
const GFS: &[u8] = b"\x01\x16\x19\x70";
/// The last but one word of the superblock, in one of four places.
const SYSV: &[usize] = &[512 + 504, 9 * 1024 + 512 + 504, 15 * 1024 + 512 + 504, 18 * 1024 + 512 + 504];
/// Of 512 to 4096 bytes.
const THIRD_BLOCK: &[usize] = &[1024, 2048, 4096, 8192];
/// The first block of an Amiga's table is one of the first 16 (`RDB_ALLOCATION_LIMIT`, block/partitions/amiga.c).
const AMIGA: [usize; 16] = {
    let mut places = [0; 16];
    let mut block = 0;
    while block < places.len() {
        places[block] = block * 512;
        block += 1;
    }
    places
};
/// The page sizes of swap space in which hibernation marks the end of the first page, and its marks
/// (kernel/power/swap.c; libblkid's swap.c also has uswsusp's and TuxOnIce's).
const PAGES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];
const SUSPENDED: [&[u8]; 5] =
    [b"S1SUSPEND\0", b"S2SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"];

/// Before ISO 9660: a medium can be both.
pub(super) static UDF: [Magic; 2] = [
    checked(&[RECOGNITION + 1], b"BEA01", "udf", is_udf).class(Class::Optical),
    checked(&[RECOGNITION + 1], b"CD001", "udf", is_udf).class(Class::Optical),
];

/// In the order of libblkid.
pub(super) const MEMBERS: &[Magic] = &[
    row(&[9 * 512 + 32], b"\xF0\x16\x78\x5A", "hpt37x_raid_member").class(Class::Array),
    row(&[9 * 512 + 32], b"\xFD\x16\x78\x5A", "hpt37x_raid_member").class(Class::Array),
    row(&[0], b"bluestore block device", "ceph_bluestore").class(Class::Member),
    row(&[0], b"$DRBDmgr=q", "drbdmanage_control_volume").class(Class::Member),
    row(&[16], b"DRBDdlh*", "drbdproxy_datalog").class(Class::Member),
    row(&[0], b"SnAp", "DM_snapshot_cow").class(Class::Member),
    row(&[1 << 20], b"\x0D\xD0\x01\xC0", "VMFS_volume_member").class(Class::Member),
    row(&[0], b"UBI#", "ubi").class(Class::Member),
    row(&[0], b"dmvdo001", "vdo").class(Class::Member),
    row(&[512 + 4, 9 * 512 + 4], b"!Stra0tis\x86\xFF\x02^\x41rh", "stratis").class(Class::Member),
    row(&[32], b"ORCLDISK", "oracleasm").class(Class::Member),
    row(&[4], b"\x3D\xC1\x3C\x87\xC0\x5B\xE3\xB6", "opensvc_hb").class(Class::Member),
];

pub(super) const FILE_SYSTEMS: &[Magic] = &[
    checked(&[0], b"\xFE\xED\xBA\xBE", "xfs_external_log", |w, _| {
        matches!(be32(w.from(0), 8), 1 | 2) && matches!(be32(w.from(0), 300), 1..=3)
    }),
    row(&[0], b"EXFS", "exfs"),
    checked(&[4096 + 24], BCACHEFS, "bcachefs", is_bcachefs),
    checked(&[4096 + 24], super::BCACHE_MAGIC, "bcachefs", is_bcachefs),
    checked(&[32], b"NXSB", "apfs", |w, _| le16(w.from(0), 24) == 1 && le32(w.from(0), 36).is_power_of_two()),
    checked(&[SUPERBLOCK_1K], b"H+", "hfsplus", |w, _| be16(w.from(SUPERBLOCK_1K), 2) == 4),
    checked(&[SUPERBLOCK_1K], b"HX", "hfsplus", |w, _| be16(w.from(SUPERBLOCK_1K), 2) == 5),
    // In an HFS volume that is only a wrapper of HFS+.
    checked(&[SUPERBLOCK_1K], b"BD", "hfsplus", |w, _| is_hfs(w) && is_wrapper(w)),
    row(&[8192], b"\x49\xE8\x95\xF9", "hpfs"),
    row(&[0], b"\0\0\0ReFS\0", "ReFS"),
    row(&[0], b"\x45\x3D\xCD\x28", "cramfs").class(Class::ReadOnly),
    row(&[0], b"\x28\xCD\x3D\x45", "cramfs").class(Class::ReadOnly),
    row(&[0], b"-rom1fs-", "romfs").class(Class::ReadOnly),
    checked(&[SUPERBLOCK_64K], GFS, "gfs", |w, _| (1309..1800).contains(&be32(w.from(SUPERBLOCK_64K), 24))),
    checked(&[SUPERBLOCK_64K], GFS, "gfs2", |w, _| (1801..1900).contains(&be32(w.from(SUPERBLOCK_64K), 24))),
    row(&[8192], b"OracleCFS", "ocfs"),
    row(&[1024, 2048, 4096, 8192], b"OCFSV2", "ocfs2"),
    row(&[1024], b"\xF5\xFC\x01\xA5", "vxfs"),
    row(&[8192], b"\xA5\x01\xFC\xF5", "vxfs"),
    row(&[0], b"sqsh", "squashfs3").class(Class::ReadOnly),
    checked(&[0], b"hsqs", "squashfs3", |w, _| le16(w.from(0), 28) < 4).class(Class::ReadOnly),
    row(&[4096], b"SPB5", "nss"),
    row(&[0], b"\x31\x18\x10\x06", "ubifs"),
    row(&[0], b"\xCE\xFA\xAD\x1B", "bfs"),
    row(&[2 << 20], b"\x5E\xF1\xAB\x2F", "VMFS"),
    row(&[32, 512 + 32], b"BFS1", "befs"),
    row(&[32, 512 + 32], b"1SFB", "befs"),
    row(&[0], b"mpoolDev", "mpool"),
    row(&[0], b"SFOZ", "zonefs"),
    checked(&[SUPERBLOCK_64K + 4], b"\x8B\x42\x3C\x10", "scoutfs_meta", is_scoutfs_meta),
    checked(&[SUPERBLOCK_64K + 4], b"\x8B\x42\x3C\x10", "scoutfs_data", |w, at| !is_scoutfs_meta(w, at)),
    super::row(&[RECOGNITION + 9], b"CDROM", Content::FileSystem(FsKind::Iso9660)),
    row(SYSV, b"\x20\x7E\x18\xFD", "sysv"),
    row(SYSV, b"\xFD\x18\x7E\x20", "sysv"),
];

/// Partition tables of other machines: the kernel may list their partitions, but this crate does not.
pub(super) const TABLES: &[Magic] = &[
    checked(&[508], b"\xDA\xBE", "sun", is_sun).class(Class::Table),
    row(&[0], b"\x0B\xE5\xA9\x41", "sgi").class(Class::Table),
    checked(&bsd::PLACES, bsd::MAGIC, bsd::NAME, |w, at| has(w.from(at), bsd::MAGIC_2, bsd::MAGIC))
        .class(Class::Table),
    // The table of contents in a slice of Solaris on x86 (`VTOC_SANE`).
    row(&[512 + 12], b"\xEE\xDE\x0D\x60", "solaris").class(Class::Table),
    // A volume label in the third block, in EBCDIC: VOL1 after its key, or LNX1 or CMS1.
    row(&[1024 + 4, 2048 + 4, 4096 + 4, 8192 + 4], b"\xE5\xD6\xD3\xF1", "dasd").class(Class::Table),
    row(THIRD_BLOCK, b"\xD3\xD5\xE7\xF1", "dasd").class(Class::Table),
    row(THIRD_BLOCK, b"\xC3\xD4\xE2\xF1", "dasd").class(Class::Table),
    checked(&[0], b"ER", "mac", |w, _| {
        let block = usize::from(be16(w.from(0), 2));
        block.is_power_of_two() && (512..=4096).contains(&block) && w.from(block).starts_with(b"PM")
    })
    .class(Class::Table),
    checked(&[512], b"PM\0\0", "mac", |w, _| be32(w.from(512), 4) != 0).class(Class::Table),
    row(&[16384 - 72], b"\x57\x29\x03\0", "ultrix").class(Class::Table),
    row(&[0], b"\xC9\xC2\xD4\xC1", "aix").class(Class::Table),
    row(&AMIGA, b"RDSK", "amiga").class(Class::Table),
    row(&[0], b"GNU Parted Loopback 0", "loop").class(Class::Table),
    // What parted leaves in unused entries of an Atari table.
    row(&[0x1C7, 0x1D3, 0x1DF, 0x1EB], b"PARTEDATARI", "atari").class(Class::Table),
];

/// Tried last: magics of only two or three bytes.
pub(super) const WEAK: &[Magic] = &[
    checked(&[0], b"HM", "LVM1_member", |w, _| matches!(le16(w.from(0), 2), 1 | 2)).class(Class::Member),
    checked(&[88], b"CS", "cs_fvault2", |w, _| {
        (le16(w.from(0), 8), le16(w.from(0), 10), le32(w.from(0), 90)) == (1, 0x10, 1)
    })
    .class(Class::Member),
    checked(&[SUPERBLOCK_1K], b"BD", "hfs", |w, _| is_hfs(w) && !is_wrapper(w)),
    checked(&[SUPERBLOCK_1K + 16], b"\x7F\x13", "minix", |w, _| is_minix(w, le16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x8F\x13", "minix", |w, _| is_minix(w, le16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x68\x24", "minix", |w, _| is_minix(w, le16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x78\x24", "minix", |w, _| is_minix(w, le16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x13\x7F", "minix", |w, _| is_minix(w, be16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x13\x8F", "minix", |w, _| is_minix(w, be16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x24\x68", "minix", |w, _| is_minix(w, be16)),
    checked(&[SUPERBLOCK_1K + 16], b"\x24\x78", "minix", |w, _| is_minix(w, be16)),
    checked(&[SUPERBLOCK_1K + 24], b"\x5A\x4D", "minix", is_minix3),
    checked(&[SUPERBLOCK_1K + 24], b"\x4D\x5A", "minix", is_minix3),
    row(&[2048], b"\x2B\x55\x44", "xenix"),
    row(&[2048], b"\x44\x55\x2B", "xenix"),
    checked(&[4], b"IPL1", "pc98", |w, _| has(w.from(0), 510, b"\x55\xAA")).class(Class::Table),
    checked(&[0x1C7], b"GEM", "atari", is_atari).class(Class::Table),
    checked(&[0x1C7], b"BGM", "atari", is_atari).class(Class::Table),
    checked(&[0x1C7], b"XGM", "atari", is_atari).class(Class::Table),
    checked(&[0x1C7], b"LNX", "atari", is_atari).class(Class::Table),
    checked(&[0x1C7], b"SWP", "atari", is_atari).class(Class::Table),
    checked(&[0x1C7], b"RAW", "atari", is_atari).class(Class::Table),
];

pub(super) fn rows() -> impl Iterator<Item = &'static Magic> {
    UDF.iter().chain(MEMBERS).chain(FILE_SYSTEMS).chain(TABLES).chain(WEAK)
}

pub(super) fn by_rule(window: &Window<'_>) -> Option<(Content, usize)> {
    let ufs = ufs_at(window).map(|at| (file_system("ufs"), at));
    ufs.or_else(|| suspended_at(window).map(|at| (SWSUSPEND, at)))
}

/// UFS: the magic is 1372 bytes into the superblock, which can be at four places.
fn ufs_at(window: &Window<'_>) -> Option<usize> {
    const PLACES: [usize; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
    const MAGICS: [u32; 6] = [0x1954_0119, 0x0001_1954, 0x0019_5612, 0x0009_5014, 0x0061_2195, 0x0523_1994];
    PLACES.iter().map(|place| place + 1372).find(|at| {
        let magic = window.from(*at);
        MAGICS.contains(&le32(magic, 0)) || MAGICS.contains(&be32(magic, 0))
    })
}

/// Whether the first [`HIBERNATION_REACH`] bytes of a device are marked as a hibernated system's image.
pub fn is_hibernation(head: &[u8]) -> bool {
    suspended_at(&Window { base: 0, bytes: head }).is_some()
}

/// How far from the start of a device the mark of a hibernated system may be.
pub const HIBERNATION_REACH: u64 = 64 << 10;

fn suspended_at(window: &Window<'_>) -> Option<usize> {
    let mut places = PAGES.iter().map(|page| page - 10);
    places.find(|at| SUSPENDED.iter().any(|magic| window.from(*at).starts_with(magic)))
}

/// bcachefs (`struct bch_sb`): the superblock records its sector, and the index and number of devices.
fn is_bcachefs(window: &Window<'_>, _: usize) -> bool {
    let superblock = window.from(4096);
    let (index, devices) = (byte(superblock, 122), byte(superblock, 123));
    le64(superblock, 104) == 8 && index < devices
}

/// UDF: one of the descriptors of the sequence, 2048 bytes each, is NSR02 or NSR03.
fn is_udf(window: &Window<'_>, _: usize) -> bool {
    (1..16).any(|descriptor| {
        let identifier = window.from(RECOGNITION + descriptor * 2048 + 1);
        identifier.starts_with(b"NSR02") || identifier.starts_with(b"NSR03")
    })
}

/// HFS: allocation blocks are whole sectors.
fn is_hfs(window: &Window<'_>) -> bool {
    let block = be32(window.from(SUPERBLOCK_1K), 20);
    block != 0 && block.is_multiple_of(512)
}

/// Whether an HFS volume contains an HFS+ one.
fn is_wrapper(window: &Window<'_>) -> bool {
    let embedded = window.from(SUPERBLOCK_1K + 124);
    embedded.starts_with(b"H+") || embedded.starts_with(b"HX")
}

fn is_scoutfs_meta(window: &Window<'_>, _: usize) -> bool {
    le64(window.from(SUPERBLOCK_64K), 48) & 1 != 0
}

/// Sun: the exclusive or of all words of the label is zero.
fn is_sun(window: &Window<'_>, _: usize) -> bool {
    (0..256).map(|word| be16(window.from(0), 2 * word)).fold(0, |sum, word| sum ^ word) == 0
}

/// Minix 1 and 2: zones of one block, large enough bitmaps, and no ext magic in its place (`probe_minix`).
/// The magic alone would match one GPT in some thousands, as GUIDs are at this position.
fn is_minix(window: &Window<'_>, field: fn(&[u8], usize) -> u16) -> bool {
    let superblock = window.from(SUPERBLOCK_1K);
    let [inodes, inode_blocks, zone_blocks, zone_size] =
        [0, 4, 6, 10].map(|at| u32::from(field(superblock, at)));
    inodes != 0 && zone_blocks != 0 && zone_size == 0 && inode_blocks * 8192 > inodes && is_not_ext(window)
}

/// Minix 3: both bitmaps exist, and zones are of one block.
fn is_minix3(window: &Window<'_>, _: usize) -> bool {
    let superblock = window.from(SUPERBLOCK_1K);
    le32(superblock, 0) != 0
        && le16(superblock, 6) != 0
        && le16(superblock, 8) != 0
        && le16(superblock, 12) == 0
        && is_not_ext(window)
}

fn is_not_ext(window: &Window<'_>) -> bool {
    !window.from(SUPERBLOCK_1K + 0x38).starts_with(b"\x53\xEF")
}

/// Atari: the first partition exists and ends on the disk (`VALID_PARTITION`, block/partitions/atari.c).
fn is_atari(window: &Window<'_>, _: usize) -> bool {
    let size = be32(window.from(0), 0x1C2);
    let (start, count) = (be32(window.from(0), 0x1CA), be32(window.from(0), 0x1CE));
    byte(window.from(0), 0x1C6) & 1 != 0
        && count != 0
        && start.checked_add(count).is_some_and(|end| end <= size)
}
