//! What contents need of the logical sectors of what they are on.
//!
//! Invariants: it alone decides that, for `check` and for `plan --convert-table`. Nothing is reported on top of a
//! layer that does not fit.
//!
//! Linux reads and writes nothing smaller than a logical sector:
//!
//! | content | needs | otherwise |
//! |---|---|---|
//! | ext2, ext3, ext4 | block >= sector | "bad block size" (`sb_min_blocksize`, fs/ext4/super.c) |
//! | XFS | sector and log sector >= sector | "device supports %u byte sectors (not %u)" (fs/xfs/xfs_mount.c) |
//! | FAT, exFAT | sector >= sector | "logical sector size too small for device" (fs/fat/inode.c, fs/exfat/super.c) |
//! | NTFS | cluster >= sector | "cluster size is less than media sector size" (fs/ntfs3/super.c) |
//! | NILFS2 | block >= sector | "blocksize %d too small for device" (fs/nilfs2/the_nilfs.c) |
//! | ISO 9660 | block (2048) >= sector | "unsupported/invalid hardware sector size" (fs/isofs/inode.c) |
//! | other file systems, swap | block >= sector | `sb_set_blocksize` fails (block/bdev.c) |
//! | ZFS | 2^ashift >= sector | its writes are refused |
//! | LUKS, LVM | data begin and end on a sector | "not aligned to h/w logical block size" (drivers/md/dm-table.c) |
//! | LUKS2 | the device is whole encryption sectors | "Device size is not multiple of sector_size" (dm-crypt.c) |
//! | md | data begin on a sector | "request not aligned to the logical block size" (drivers/scsi/sd.c) |
//! | dm-integrity | block of 512, or >= sector | the same, for what is between |
//! | dm-verity | data block >= sector | "Invalid data device block size" (drivers/md/dm-verity-target.c) |
//! | bcache | block >= sector | "Superblock block size smaller than device block size" (bcache/super.c) |
//! | bcache with a cache | block >= the cache's | "Couldn't attach …: block size less than set's block size" (the same) |
//! | partition table | counts in sectors | no partitions are found |
//!
//! Tried on loop devices and on scsi_debug with sectors of 4096 bytes: Linux 6.1 (all but exFAT, NTFS by
//! ntfs3, and ZFS), 6.18 (ext, XFS, Btrfs, EROFS, SquashFS), cryptsetup 2.6.1, LVM 2.03.16, mdadm 4.2.
//! NTFS-3G 2022.10.3 mounts NTFS with larger clusters too. Windows mounts FAT, exFAT and NTFS only if their
//! sectors are the drive's (`FatMountVolume`, fastfat/fsctrl.c in Microsoft's Windows-driver-samples).

use straddle_device::DeviceKind;
use straddle_device::shown::is_hidden;
use straddle_device::topology::Source;
use straddle_layout::layer::{Facts, FileSystem, Layer};
use straddle_layout::{Content, FsKind, Problem};
use straddle_units::{BlockSize, ByteCount, ByteOffset};

use crate::Context;
use crate::catalogue::{self as rules, Code, Severity};
use crate::finding::{Cause, Command, Finding, Fix, Risk, Subject};
use crate::shell::operand;
use crate::way::{self, Step};
use crate::{fix, reformat};

/// Who refuses contents that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Linux,
    /// It wants the drive's sectors in FAT, exFAT and NTFS.
    Windows,
    /// cryptsetup: the device does not consist of whole encryption sectors.
    Length,
    /// Linux: the cache to be used has larger blocks.
    Cache,
    /// Databases write with `O_DIRECT`.
    Page,
}

/// Why a layer does not fit the sectors of what it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    refusal: Refusal,
    /// The end of a sentence.
    why: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// A layer that does not fit.
#[derive(Clone, Debug)]
pub struct Unfit<'a> {
    pub layer: &'a Layer,
    pub misfit: Misfit,
    path: Vec<Step>,
    /// The layer below whose sectors are larger than the drive's.
    larger: Option<String>,
}

/// Returns the layers that do not fit, `layer` or above it, where `layer` is on sectors of size `sectors`.
pub fn unfit(layer: &Layer, sectors: BlockSize) -> Vec<Unfit<'_>> {
    let mut found = Vec::new();
    Walk { page: None, found: &mut found }.layer(layer, sectors, &[], None);
    found
}

/// The size of the sectors of the space that a layer provides, where it is on sectors of size `sectors`.
pub fn sectors_above(layer: &Layer, sectors: BlockSize) -> BlockSize {
    let own = match &layer.facts {
        Facts::Luks(luks) => Some(luks.sector_size),
        Facts::Mapped(mapped) => mapped.block,
        Facts::Md(_) | Facts::Pv(_) | Facts::Lv(_) | Facts::FileSystem(_) => None,
        Facts::Table(_) | Facts::Opaque => None,
    };
    let own = own.and_then(|size| BlockSize::new(size.get()).ok());
    // The kernel, or another target, knows the other disks.
    layer.logical.unwrap_or(own.map_or(sectors, |own| own.max(sectors)))
}

struct Walk<'a, 'f> {
    page: Option<ByteCount>,
    found: &'f mut Vec<Unfit<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn layer(&mut self, layer: &'a Layer, sectors: BlockSize, below: &[Step], larger: Option<&str>) {
        let mut path = below.to_vec();
        path.push(Step::of(layer));
        if let Some(misfit) = misfit(layer, sectors).or_else(|| page(layer, sectors, self.page)) {
            self.found.push(Unfit { layer, misfit, path, larger: larger.map(str::to_owned) });
            return;
        }
        let provided = sectors_above(layer, sectors);
        let grown = path.last().filter(|_| provided > sectors).map(|step| step.called.clone());
        let larger = grown.as_deref().or(larger);
        for child in &layer.children {
            let mut under = path.clone();
            if let Facts::Table(table) = &layer.facts {
                let on = table.partitions.iter().find(|p| p.span.start() == child.below.start());
                under.extend(on.map(|partition| Step::partition(partition.number)));
            }
            self.layer(child, provided, &under, larger);
        }
    }
}

fn misfit(layer: &Layer, sectors: BlockSize) -> Option<Misfit> {
    let kind = layer.kind;
    let not =
        |verb: &'static str| move |what: String| linux(format!("{what}, so Linux cannot {verb} it here"));
    match &layer.facts {
        Facts::FileSystem(fs) => file_system(kind, fs, sectors),
        Facts::Luks(luks) if luks.is_refused(layer.below.len().floor_to(BlockSize::B512.bytes())) => {
            let rest = luks.uses(layer.below.len()).and_then(|used| layer.below.len().checked_sub(used));
            let why = format!(
                "its device ends {} bytes into a {}-byte encryption sector, so cryptsetup cannot open it",
                rest.unwrap_or_default().get(),
                luks.sector_size.get()
            );
            Some(Misfit { refusal: Refusal::Length, why })
        }
        Facts::Luks(luks) => starts("its payload", luks.payload?, sectors).map(not("open")),
        Facts::Md(md) => {
            starts("its data", ByteOffset::new(md.data_offset.get()), sectors).map(not("read or write"))
        }
        Facts::Pv(pv) => starts("its first extent", pv.data_start, sectors).map(not("activate")),
        Facts::Lv(lv) => {
            let of = |segment: &straddle_layout::layer::Segment| {
                let at = segment.on_pv?;
                let end = at.checked_add(segment.span.len()).filter(|_| segment.stripes <= 1);
                starts("a segment", at, sectors).or_else(|| starts("the end of a segment", end?, sectors))
            };
            lv.segments.iter().find_map(of).map(not("activate"))
        }
        Facts::Mapped(mapped) => {
            let block = mapped.block.unwrap_or_default();
            let is_stacked = kind == Content::Volume(straddle_layout::VolumeKind::Integrity)
                && block == BlockSize::B512.bytes();
            let small = small("blocks", block, sectors).filter(|_| !is_stacked);
            let misplaced = || starts("its payload", mapped.payload?, sectors);
            small.or_else(misplaced).map(not("activate")).or_else(|| of_cache(block, mapped.cache?))
        }
        Facts::Table(table) if table.block != sectors => Some(linux(format!(
            "its table uses {}-byte sectors, but the device's logical sectors are {} bytes, so Linux finds \
             no partitions",
            table.block, sectors
        ))),
        Facts::Table(_) | Facts::Opaque => None,
    }
}

fn of_cache(block: ByteCount, cache: ByteCount) -> Option<Misfit> {
    (block < cache).then(|| Misfit {
        refusal: Refusal::Cache,
        why: format!(
            "its {}-byte blocks are smaller than the cache set's {}-byte blocks, so Linux cannot attach it",
            block.get(),
            cache.get()
        ),
    })
}

fn linux(why: String) -> Misfit {
    Misfit { refusal: Refusal::Linux, why }
}

fn file_system(kind: Content, fs: &FileSystem, sectors: BlockSize) -> Option<Misfit> {
    let Some(kind) = kind.file_system() else {
        let what = small("blocks", fs.block, sectors)?;
        return Some(linux(format!("{what}, so Linux cannot mount it here")));
    };
    let ashift = fs.ashift.map(|shift| ByteCount::new(1_u64.checked_shl(shift).unwrap_or(u64::MAX)));
    let mount = "Linux cannot mount it here";
    let (unit, size, verb) = match kind {
        FsKind::Xfs | FsKind::Vfat | FsKind::Exfat => ("sectors", fs.sector, mount),
        FsKind::Ntfs => ("clusters", fs.cluster, mount),
        FsKind::Zfs => ("minimum writes", ashift, "ZFS cannot write to it here"),
        FsKind::Swap => ("pages", Some(fs.block), "Linux cannot use it here"),
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 | FsKind::Jbd => ("blocks", Some(fs.block), mount),
        FsKind::Btrfs | FsKind::F2fs | FsKind::Nilfs2 => ("blocks", Some(fs.block), mount),
        FsKind::Jfs | FsKind::Reiserfs => ("blocks", Some(fs.block), mount),
        FsKind::Iso9660 | FsKind::Squashfs | FsKind::Erofs => ("blocks", Some(fs.block), mount),
    };
    let of_log = || small("log sectors", fs.log_sector.filter(|_| kind == FsKind::Xfs)?, sectors);
    if let Some(what) = size.and_then(|size| small(unit, size, sectors)).or_else(of_log) {
        return Some(linux(format!("{what}, so {verb}")));
    }
    let other = fs.sector.filter(|sector| kind.has_boot_sector() && *sector != sectors.bytes())?;
    let why = format!(
        "its sectors are {} bytes, but the device's logical sectors are {sectors} bytes, so Windows cannot \
         mount it here (Linux can)",
        other.get()
    );
    Some(Misfit { refusal: Refusal::Windows, why })
}

fn page(layer: &Layer, sectors: BlockSize, page: Option<ByteCount>) -> Option<Misfit> {
    let is_one =
        matches!(layer.facts, Facts::FileSystem(_)) && !layer.kind.is_swap() && !layer.kind.is_only_read();
    let page = page.filter(|page| is_one && *page < sectors.bytes())?;
    let why = format!(
        "a {}-byte page is smaller than the {sectors}-byte logical sector, so Linux refuses to write it with \
         O_DIRECT",
        page.get()
    );
    Some(Misfit { refusal: Refusal::Page, why })
}

/// A size of zero is not known.
fn small(what: &str, size: ByteCount, sectors: BlockSize) -> Option<String> {
    (size != ByteCount::ZERO && size < sectors.bytes())
        .then(|| format!("its {}-byte {what} are smaller than the {sectors}-byte logical sector", size.get()))
}

fn starts(what: &str, at: ByteOffset, sectors: BlockSize) -> Option<String> {
    (!at.get().is_multiple_of(sectors.get()))
        .then(|| format!("{what} is at byte {at}, inside a {sectors}-byte logical sector"))
}

/// Also removes findings with the same cause.
pub(crate) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let disk = context.stack.layer.iter().map(|layer| (Subject::Disk, layer, None));
    let partitions = context.stack.partitions.iter().filter_map(|partition| {
        let step = Some(Step::partition(partition.number));
        Some((Subject::Partition(partition.number), partition.layer.as_ref()?, step))
    });
    let sectors = context.topology.logical.value();
    for (subject, layer, step) in disk.chain(partitions) {
        let mut found = Vec::new();
        Walk { page: context.page, found: &mut found }.layer(layer, sectors, step.as_slice(), None);
        for unfit in found {
            add(context, subject, layer, unfit, findings);
        }
    }
}

fn add(context: &Context<'_>, subject: Subject, root: &Layer, unfit: Unfit<'_>, findings: &mut Vec<Finding>) {
    let sectors = context.topology.logical.value();
    let is_for_larger = match &unfit.layer.facts {
        Facts::FileSystem(fs) => fs.sector.is_some_and(|sector| sector > sectors.bytes()),
        Facts::Table(table) => table.block > sectors,
        _ => false,
    };
    // An undeclared image may be that of a drive with such sectors.
    if is_for_larger && *context.topology.logical.source() == Source::Assumed {
        return;
    }
    let severity = match unfit.misfit.refusal {
        Refusal::Windows if is_for_larger => Severity::Warning,
        _ => Severity::Error,
    };
    let on = unfit.larger.as_ref().map_or(String::new(), |layer| format!(" ({layer} has such sectors)"));
    let message = format!("{}: {}{on}", way::label(&unfit.path), unfit.misfit);
    let is_known =
        |other: &Finding| other.rule == rules::UNFIT && other.subject == subject && other.layer == unfit.path;
    if findings.iter().any(is_known) {
        return;
    }
    let (fix, alternative) = fixes(context, subject, &unfit);
    let (layer, at) = (unfit.path, unfit.layer.drive);
    let finding = Finding::new(rules::UNFIT, subject, message).fixed_by(fix);
    let mut finding = Finding { severity, layer, at, alternative, ..finding };
    let same = [
        Code::LUKS_SECTOR_SMALL,
        Code::FS_BLOCK_SMALL,
        Code::FS_BLOCK_BELOW_UNIT,
        Code::ASHIFT_SMALL,
        Code::PAGE_STRADDLES,
        Code::PAGE_NOT_ATOMIC,
    ];
    findings.retain(|other| {
        !(other.subject == subject
            && other.layer.starts_with(&finding.layer)
            && same.contains(&other.rule.code))
    });
    if unfit.misfit.refusal == Refusal::Length {
        let is_end =
            |other: &&mut Finding| other.subject == subject && other.rule.code == Code::END_STRADDLES;
        findings.iter_mut().filter(is_end).for_each(|end| end.follows = vec![Cause::of(&finding)]);
    }
    // Where the table is right, so is what it leads to.
    let is_other = |problem: &Problem| matches!(problem, Problem::OtherBlockSize { .. });
    if context.stack.problems.iter().any(is_other) && self::unfit(root, context.stack.block).is_empty() {
        finding.follows = vec![Cause { code: Code::OTHER_SECTOR_SIZE, subject: Subject::Disk, target: None }];
    }
    findings.push(finding);
}

const FITS_ALL: BlockSize = BlockSize::B512;

fn fixes(context: &Context<'_>, subject: Subject, unfit: &Unfit<'_>) -> (Fix, Option<Fix>) {
    let sectors = context.topology.logical.value();
    match unfit.misfit.refusal {
        Refusal::Length => of_length(context, subject, unfit),
        Refusal::Page => (
            Fix::advice(format!("use pages of at least {sectors} bytes, or a drive with smaller sectors")),
            None,
        ),
        Refusal::Cache => (
            Fix::advice(
                "use a cache on a device with 512-byte sectors (make-bcache --block 512 -C), or copy the \
                 contents to a new backing device with the cache's block size (make-bcache --block)",
            ),
            None,
        ),
        Refusal::Windows => {
            let own = match &unfit.layer.facts {
                Facts::FileSystem(fs) => fs.sector.unwrap_or_default().get(),
                _ => FITS_ALL.get(),
            };
            let advice = format!(
                "use a drive or an adapter with {own}-byte logical sectors, or, on Linux, copy the files to \
                 a new file system"
            );
            (Fix::advice(advice), again(context, unfit))
        }
        Refusal::Linux => smaller_sectors(context, unfit),
    }
}

fn smaller_sectors(context: &Context<'_>, unfit: &Unfit<'_>) -> (Fix, Option<Fix>) {
    let is_stacked = matches!(context.kind, DeviceKind::Md | DeviceKind::DeviceMapper);
    let first = match &unfit.larger {
        Some(layer) => format!("recreate {layer} with 512-byte sectors, on disks with 512-byte sectors"),
        None if is_stacked => {
            "move it to devices with 512-byte logical sectors (lsblk -o NAME,LOG-SEC)".to_owned()
        }
        None => "use a drive, an adapter or a virtual disk with 512-byte logical sectors".to_owned(),
    };
    let (options, then) = match &unfit.layer.facts {
        Facts::FileSystem(_) => ("", "copy the files to a new file system"),
        Facts::Table(_) => ("--partscan ", "copy the contents of the partitions"),
        _ => {
            let advice =
                format!("{first}, or use a loop device with such sectors (losetup --sector-size 512)");
            return (Fix::advice(advice), None);
        }
    };
    let options = format!("{options}--sector-size {FITS_ALL} ");
    let summary = format!("{first}; or read it through a loop device with such sectors, and {then}");
    (by_loop(context, unfit, &options, unfit.layer.below.len(), summary), again(context, unfit))
}

fn again(context: &Context<'_>, unfit: &Unfit<'_>) -> Option<Fix> {
    let kind = unfit.layer.kind.file_system()?;
    let Facts::FileSystem(fs) = &unfit.layer.facts else { return None };
    // Where partitions overlap, it would be made over another one.
    if fs.is_hibernated || unfit.larger.is_some() || !context.stack.problems.is_empty() {
        return None;
    }
    reformat::for_sectors(kind, fs, unfit.layer.below.len(), context.topology.logical.value())
}

/// The container uses none of the rest of the last sector.
fn of_length(context: &Context<'_>, subject: Subject, unfit: &Unfit<'_>) -> (Fix, Option<Fix>) {
    let Facts::Luks(luks) = &unfit.layer.facts else { return (Fix::advice("extend the device"), None) };
    let used = luks.uses(unfit.layer.below.len()).unwrap_or_default();
    let summary = format!(
        "resize the device to a multiple of {} bytes; or open it unchanged through a loop device of that \
         size",
        luks.sector_size.get()
    );
    let by_loop = by_loop(context, unfit, "", used, summary);
    let partition = match subject {
        Subject::Partition(number) if unfit.path.len() == 2 => context.partition(number),
        _ => None,
    };
    let is_whole = context.topology.physical.value().is_multiple_of(luks.sector_size);
    let placed = partition.filter(|_| is_whole).and_then(|partition| fix::relocate(context, partition));
    match placed.filter(|fix| !fix.commands.is_empty()) {
        Some(placed) => (placed, Some(by_loop)),
        None => (by_loop, None),
    }
}

/// Over the first `len` bytes of what a layer is on.
fn by_loop(context: &Context<'_>, unfit: &Unfit<'_>, options: &str, len: ByteCount, summary: String) -> Fix {
    let is_first = unfit.path.iter().filter(|step| !step.is_partition()).count() == 1;
    let known = unfit.layer.drive.filter(|_| is_first && !context.target.contains(is_hidden));
    let limit = format!("--sizelimit {} ", len.get());
    let (place, device, replace) = match known {
        Some(ByteOffset::ZERO) if len == context.size => (String::new(), operand(context.target), ""),
        Some(start) => (format!("--offset {start} {limit}"), operand(context.target), ""),
        None => {
            let limit = if unfit.layer.below.len() == len { String::new() } else { limit };
            (limit, "DEVICE".to_owned(), "; replace DEVICE with the device that holds it")
        }
    };
    let line = format!("losetup --find --show {options}{place}{device}");
    Fix {
        summary,
        commands: vec![Command::other("losetup", line)],
        risk: Some(Risk::Safe),
        caution: Some(format!(
            "the command prints the name of the loop device; losetup --detach removes it{replace}"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use straddle_layout::VolumeKind;
    use straddle_layout::layer::{Luks, Lv, Mapped, Md, Segment};
    use straddle_units::Span;

    use super::*;

    fn layer(kind: Content, facts: Facts, children: Vec<Layer>) -> Layer {
        let below = Span::first(ByteCount::new(1 << 30));
        Layer { children, ..Layer::new(kind, facts, below, Some(ByteOffset::ZERO)) }
    }

    fn block(size: u64) -> BlockSize {
        BlockSize::new(size).unwrap()
    }

    fn fits(layer: &Layer, sectors: u64) -> bool {
        unfit(layer, block(sectors)).is_empty()
    }

    #[test]
    fn a_unit_is_a_sector_or_more() {
        let all = [512, 1024, 2048, 4096, 8192, 16384];
        for kind in [FsKind::Ext4, FsKind::Btrfs, FsKind::Nilfs2, FsKind::Swap, FsKind::Iso9660, FsKind::Xfs]
        {
            for size in all {
                let bytes = ByteCount::new(size);
                let sector = (kind == FsKind::Xfs).then_some(bytes);
                let fs =
                    FileSystem { block: ByteCount::new(16384).max(bytes), sector, ..FileSystem::default() };
                let fs = if sector.is_none() { FileSystem { block: bytes, ..fs } } else { fs };
                let one = layer(kind.into(), Facts::FileSystem(fs), Vec::new());
                for sectors in all {
                    assert_eq!(fits(&one, sectors), size >= sectors, "{kind}: {size} on {sectors}");
                }
            }
        }
    }

    #[test]
    fn windows_wants_the_sectors_of_the_drive() {
        for kind in [FsKind::Vfat, FsKind::Exfat, FsKind::Ntfs] {
            for (sector, cluster, sectors, refusal) in [
                (512, 4096, 512, None),
                (4096, 4096, 4096, None),
                (4096, 4096, 512, Some(Refusal::Windows)),
                (512, 512, 4096, Some(Refusal::Linux)),
                // NTFS of larger clusters is mounted by Linux.
                (512, 4096, 4096, Some(if kind == FsKind::Ntfs { Refusal::Windows } else { Refusal::Linux })),
            ] {
                let (block, cluster) = (ByteCount::new(cluster), Some(ByteCount::new(cluster)));
                let sector = Some(ByteCount::new(sector));
                let fs = FileSystem { block, sector, cluster, ..FileSystem::default() };
                let one = layer(kind.into(), Facts::FileSystem(fs), Vec::new());
                let found = unfit(&one, BlockSize::new(sectors).unwrap());
                assert_eq!(
                    found.first().map(|unfit| unfit.misfit.refusal),
                    refusal,
                    "{kind} {sector:?} on {sectors}"
                );
            }
        }
    }

    #[test]
    fn layers_pass_their_sectors_on() {
        let xfs = || {
            let sector = Some(ByteCount::new(512));
            let fs = FileSystem { block: ByteCount::new(4096), sector, ..FileSystem::default() };
            layer(FsKind::Xfs.into(), Facts::FileSystem(fs), Vec::new())
        };
        let luks = |size| {
            let luks = Luks { version: 2, sector_size: ByteCount::new(size), ..Luks::default() };
            layer(VolumeKind::Luks.into(), Facts::Luks(luks), vec![xfs()])
        };
        assert!(fits(&luks(512), 512) && !fits(&luks(4096), 512) && !fits(&luks(512), 4096));
        // The kernel knows the other members.
        let md = |logical| Layer {
            logical,
            ..layer(VolumeKind::Md.into(), Facts::Md(Md::default()), vec![xfs()])
        };
        assert!(fits(&md(None), 512) && !fits(&md(None), 4096));
        assert!(!fits(&md(Some(block(4096))), 512) && fits(&md(Some(block(512))), 512));
        let larger = unfit(&md(Some(block(4096))), block(512)).remove(0).larger;
        assert!(larger.is_some_and(|name| name.contains("md")));
        // What is on something that does not fit is not asked about.
        let bcache = Mapped { block: Some(ByteCount::new(1024)), ..Mapped::default() };
        let bcache = layer(VolumeKind::Bcache.into(), Facts::Mapped(bcache), vec![xfs()]);
        let found = unfit(&bcache, block(4096));
        assert!(found.len() == 1 && found[0].layer.kind == VolumeKind::Bcache.into());
    }

    #[test]
    fn volumes_begin_and_end_on_sectors() {
        let lv = |on_pv, len| {
            let span = Span::first(ByteCount::new(len));
            let (kind, stripe_size) = ("striped".to_owned(), ByteCount::ZERO);
            let segment =
                Segment { span, kind, stripes: 1, stripe_size, on_pv: Some(ByteOffset::new(on_pv)) };
            layer(Content::LogicalVolume, Facts::Lv(Lv { segments: vec![segment] }), Vec::new())
        };
        for (on_pv, len, is_right) in [
            (1 << 20, 4096, true),
            (1 << 20, 1024, false),
            ((1 << 20) + 1024, 4096, false),
            (1 << 20, 5120, false),
        ] {
            assert_eq!(fits(&lv(on_pv, len), 4096), is_right, "{on_pv} {len}");
            assert!(fits(&lv(on_pv, len), 512));
        }
        for (size, is_right) in [(512, true), (1024, false), (2048, false), (4096, true)] {
            let mapped = Mapped { block: Some(ByteCount::new(size)), ..Mapped::default() };
            let one = layer(VolumeKind::Integrity.into(), Facts::Mapped(mapped), Vec::new());
            assert_eq!(fits(&one, 4096), is_right, "dm-integrity, {size}");
        }
    }
}
