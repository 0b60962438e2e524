//! Marks at the end of a medium: members of firmware RAIDs, and of DRBD. (The reader of md finds its own.)
//!
//! The nearest marks of a whole disk are tried before its start, all others only if the start shows nothing.
//! Positions, in sectors of 512 bytes, and magics: util-linux, libblkid/src/superblocks/*_raid.c and drbd.c.

use straddle_device::fields::{be32, byte, has, le16, le32};
use straddle_units::{ByteCount, ByteOffset, KERNEL_SECTOR, Span};

use crate::model::content::{Class, Content, Named, VolumeKind};
use crate::reader::Reader;

/// A sector `backs` sectors before the end is a mark of `content` if `confirm` accepts it.
struct Mark {
    backs: &'static [u64],
    content: Content,
    confirm: fn(&[u8]) -> bool,
}

const fn mark(backs: &'static [u64], content: Content, confirm: fn(&[u8]) -> bool) -> Mark {
    Mark { backs, content, confirm }
}

const DRBD: Content = Content::Volume(VolumeKind::Drbd);

const fn array(name: &'static str) -> Content {
    Content::Named(Named { name, class: Class::Array })
}

const SECTOR: usize = 512;

/// Marks that partitions have too.
const ANYWHERE: [Mark; 1] = [mark(&[8], DRBD, |sector| {
    // Versions 8, 8.4 when not closed cleanly, and 9.
    matches!(be32(sector, 60), 0x8374_026B..=0x8374_026D)
})];

/// Marks that only whole disks have.
const DISKS: [Mark; 9] = [
    mark(&[1, 257], array("ddf_raid_member"), is_ddf),
    mark(&[2], array("isw_raid_member"), |sector| has(sector, 0, b"Intel Raid ISM Cfg Sig. ")),
    mark(&[1], array("lsi_mega_raid_member"), |sector| has(sector, 0, b"$XIDE$")),
    mark(&[1], array("via_raid_member"), is_via),
    mark(&[1], array("silicon_medley_raid_member"), is_silicon),
    mark(&[2], array("nvidia_raid_member"), |sector| has(sector, 0, b"NVIDIA")),
    Mark {
        backs: &[63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087],
        content: array("promise_fasttrack_raid_member"),
        confirm: |sector| has(sector, 0, b"Promise Technology, Inc."),
    },
    mark(&[11], array("hpt45x_raid_member"), |sector| matches!(le32(sector, 0), 0x5A78_16F3 | 0x5A78_16FD)),
    mark(&[1], array("adaptec_raid_member"), |sector| {
        be32(sector, 0) == 0x37FC_4D1E && has(sector, 256, b"DPTM")
    }),
];

/// The magic has only two bytes.
const LAST: [Mark; 1] = [mark(&[1], array("jmicron_raid_member"), is_jmicron)];

/// Most marks of whole disks are nearer: all but some of Promise's.
const NEAR: u64 = 257;

pub(super) fn near(reader: &Reader<'_>, span: Span) -> Option<Content> {
    marks(reader, span, true, |back| back <= NEAR).next().map(|(content, _)| content)
}

pub(super) fn identify(reader: &Reader<'_>, span: Span, is_disk: bool) -> Option<Content> {
    let is_asked = move |back| !is_disk || back > NEAR;
    marks(reader, span, is_disk, is_asked).next().map(|(content, _)| content)
}

pub(super) fn all<'r>(
    reader: &'r Reader<'_>,
    span: Span,
    is_disk: bool,
) -> impl Iterator<Item = (Content, Span)> + 'r {
    marks(reader, span, is_disk, |_| true)
}

/// Read together: how far back the first sector is, and how many there are.
const TOGETHER: [(u64, u64); 2] = [(16, 16), (257, 3)];

fn marks<'r>(
    reader: &'r Reader<'_>,
    span: Span,
    is_disk: bool,
    is_asked: impl Fn(u64) -> bool + 'r,
) -> impl Iterator<Item = (Content, Span)> + 'r {
    let sectors = KERNEL_SECTOR.blocks_floor(span.len()).get();
    let place = move |back: u64| -> Option<ByteOffset> {
        let sector = sectors.checked_sub(back).filter(|_| sectors >= 128)?;
        span.start().checked_add(ByteCount::new(sector * KERNEL_SECTOR.get()))
    };
    let read = move |back: u64, count: u64| {
        let want = usize::try_from(count).unwrap_or(0) * SECTOR;
        let written = place(back).filter(|at| !reader.medium().is_hole(*at, ByteCount::new(want as u64)));
        written.map(|at| reader.read_up_to(at, want, span.end())).unwrap_or_default()
    };
    let together = TOGETHER.map(|(back, count)| match is_disk && is_asked(back) {
        true => read(back, count),
        false => Vec::new(),
    });
    let sector = move |back: u64| {
        let read_before = TOGETHER.iter().zip(&together).find_map(|((first, count), bytes)| {
            let into = first.checked_sub(back).filter(|into| into < count)?;
            let from = usize::try_from(into).ok()? * SECTOR;
            bytes.get(from..from + SECTOR)
        });
        read_before.map_or_else(|| read(back, 1), <[u8]>::to_vec)
    };
    let rows = DISKS.iter().chain(&LAST).filter(move |_| is_disk).chain(&ANYWHERE);
    let found = move |(mark, back): (&Mark, u64)| {
        let sector = sector(back);
        let at = Span::new(place(back)?, KERNEL_SECTOR.bytes())?;
        (sector.len() == SECTOR && (mark.confirm)(&sector)).then_some((mark.content, at))
    };
    let places = rows.flat_map(|mark| mark.backs.iter().map(move |back| (mark, *back)));
    places.filter(move |(_, back)| is_asked(*back)).filter_map(found)
}

fn is_ddf(sector: &[u8]) -> bool {
    matches!(be32(sector, 0), 0xDE11_DE11 | 0x11DE_11DE)
}

/// VIA: a version up to 2, and a checksum of the first 50 bytes.
fn is_via(sector: &[u8]) -> bool {
    let sum = sector.iter().take(50).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    has(sector, 0, b"\x55\xAA") && byte(sector, 2) <= 2 && byte(sector, 50) == sum
}

/// Silicon Image: one of eight disks, and a checksum of the words before it.
fn is_silicon(sector: &[u8]) -> bool {
    let words = (0..0x13E).step_by(2).map(|at| le16(sector, at));
    let sum = words.fold(0_u16, u16::wrapping_add);
    le32(sector, 0x60) == 0x2F00_0000 && byte(sector, 0x116) < 8 && le16(sector, 0x13E) == sum.wrapping_neg()
}

/// JMicron: the sum of the words in its 128 bytes is zero or one.
fn is_jmicron(sector: &[u8]) -> bool {
    let sum = (0..128).step_by(2).map(|at| le16(sector, at)).fold(0_u16, u16::wrapping_add);
    has(sector, 0, b"JM") && sum <= 1
}

/// Every content that a mark at the end can show.
#[cfg(test)]
pub(super) fn contents() -> impl Iterator<Item = Content> {
    ANYWHERE.iter().chain(&DISKS).chain(&LAST).map(|mark| mark.content)
}
