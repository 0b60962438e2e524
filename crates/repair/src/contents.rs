//! Partition contents that depend on the drive's logical sector size.
//!
//! The law of this module: a layer is refused if Linux, or the system that it is made for, would not accept
//! it in sectors of the new size. Contents that cannot be seen are reported, and refused if their sector size
//! would change.
//!
//! Linux reads and writes nothing smaller than a logical sector. A file system whose smallest unit is smaller
//! does not mount (`sb_set_blocksize`, block/bdev.c; `xfs_readsb`, fs/xfs/xfs_mount.c: "device supports %u
//! byte sectors (not %u)"; `fat_fill_super`, fs/fat/inode.c, and `exfat_calibrate_blocksize`,
//! fs/exfat/super.c: "logical sector size too small for device"). dm-verity (`verity_ctr`) and bcache
//! (`read_super`) with smaller blocks cannot be set up; dm-integrity is judged by the same rule. Larger units
//! do no harm there. FAT, exFAT and NTFS count in the sectors of the drive that they were made on, and
//! firmware and Windows insist on that size. Linux, however, mounts them with larger sectors, NTFS with a
//! warning. Device-mapper requires what it maps to begin on a sector (`device_area_is_invalid`,
//! drivers/md/dm-table.c).

use straddle_device::Medium;
use straddle_layout::layer::{Facts, FileSystem, Layer, Luks};
use straddle_layout::view::View;
use straddle_layout::{Content, FsKind, Role, Stack, read_layers};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba};

use crate::error::PlanError;

/// Checks that everything in the partitions of `stack` can be used in sectors of `new`; returns remarks for
/// the user.
pub(crate) fn check(medium: &dyn Medium, stack: &Stack, new: BlockSize) -> Result<Vec<String>, PlanError> {
    let drive = View::of_drive(medium);
    let mut notes = Vec::new();
    for partition in stack.partitions.iter().filter(|p| p.role != Role::Extended) {
        let Some(layer) = read_layers(&drive, partition.span, Some(stack.block)) else { continue };
        let mut judge = Judge { old: stack.block, new, notes: Vec::new() };
        judge.layer(&layer).map_err(|why| {
            PlanError::CannotConvert(format!(
                "partition {} depends on {}-byte sectors: {why}",
                partition.number, stack.block
            ))
        })?;
        notes.extend(judge.notes.into_iter().map(|note| format!("partition {}: {note}", partition.number)));
    }
    Ok(notes)
}

struct Judge {
    old: BlockSize,
    new: BlockSize,
    notes: Vec<String>,
}

impl Judge {
    /// Checks that the layer, and every layer above it, can be used; an error says why not.
    fn layer(&mut self, layer: &Layer) -> Result<(), String> {
        let kind = layer.kind;
        match &layer.facts {
            Facts::FileSystem(fs) => self.file_system(kind, fs)?,
            Facts::Luks(luks) => self.luks(luks)?,
            Facts::Md(md) => {
                self.starts("the data of the RAID member", ByteOffset::new(md.data_offset.get()))?;
                self.at_least("the RAID has chunks", md.chunk)?;
                self.unseen("RAID", layer);
            }
            Facts::Pv(pv) => {
                self.starts("the first extent of the LVM volume", pv.data_start)?;
                self.at_least("the LVM group has extents", pv.extent_size)?;
            }
            Facts::Lv(lv) => {
                for at in lv.segments.iter().filter_map(|segment| segment.on_pv) {
                    self.starts(&format!("a segment of the logical volume {}", layer.name), at)?;
                }
                self.unseen(&format!("logical volume {}", layer.name), layer);
            }
            Facts::Mapped(mapped) => {
                self.at_least(&format!("{kind} has blocks"), mapped.block.unwrap_or_default())?;
                if let Some(payload) = mapped.payload {
                    self.starts(&format!("the payload of {kind}"), payload)?;
                }
                self.unseen(kind.name(), layer);
            }
            Facts::Table(table) if table.block != self.new => {
                return Err(format!("a partition table in it counts in {}-byte sectors", table.block));
            }
            Facts::Table(_) => {}
            Facts::Opaque => self.notes.push(format!("what {kind} makes of other sectors is not known here")),
        }
        layer.children.iter().try_for_each(|child| self.layer(child))
    }

    fn file_system(&self, kind: Content, fs: &FileSystem) -> Result<(), String> {
        let own = kind.file_system().filter(|kind| kind.has_boot_sector());
        if let Some((kind, sector)) = own.zip(fs.sector) {
            if sector == self.new.bytes() {
                return Ok(());
            }
            let who = if self.new.bytes() > sector && kind != FsKind::Ntfs { "Linux" } else { "Windows" };
            return Err(format!(
                "{kind} was made with sectors of {}, and {who} wants the drive's",
                bytes(sector)
            ));
        }
        let smallest = match fs.ashift {
            Some(shift) => ByteCount::new(1_u64.checked_shl(shift).unwrap_or(u64::MAX)),
            None => fs.sector.unwrap_or(fs.block),
        };
        let what = if fs.sector.is_some() { "sectors" } else { "blocks" };
        self.at_least(&format!("{kind} has {what}"), smallest)?;
        self.at_least(&format!("{kind} has log sectors"), fs.log_sector.unwrap_or_default())
    }

    fn luks(&mut self, luks: &Luks) -> Result<(), String> {
        if let Some(payload) = luks.payload {
            self.starts("the payload of LUKS", payload)?;
        }
        // The mapping's sectors are LUKS's or the drive's, whichever are larger.
        if luks.sector_size >= self.new.bytes().max(self.old.bytes()) {
            return Ok(());
        }
        if self.new > self.old {
            return Err(format!(
                "LUKS{} encrypts in sectors of {}, so that its mapping would have others than what is in it was made for, which is not seen",
                luks.version,
                bytes(luks.sector_size)
            ));
        }
        self.notes.push("the mapping of LUKS will have smaller sectors than it had".to_owned());
        Ok(())
    }

    /// Checks that `size`, unless it is zero, is at least one sector.
    fn at_least(&self, what: &str, size: ByteCount) -> Result<(), String> {
        if size == ByteCount::ZERO || size >= self.new.bytes() {
            return Ok(());
        }
        Err(format!("{what} of {}, smaller than a sector of {}", bytes(size), bytes(self.new.bytes())))
    }

    /// Checks that `at` is the start of a sector.
    fn starts(&self, what: &str, at: ByteOffset) -> Result<(), String> {
        match Lba::from_bytes_exact(at, self.new) {
            Some(_) => Ok(()),
            None => Err(format!("{what} starts at byte {at}, which is not a multiple of {}", self.new)),
        }
    }

    /// Notes that nothing was read from the layer's payload.
    fn unseen(&mut self, what: &str, layer: &Layer) {
        if layer.children.is_empty() {
            self.notes
                .push(format!("what is on the {what} is not seen, and may depend on the size of sectors"));
        }
    }
}

fn bytes(size: ByteCount) -> String {
    format!("{} bytes", size.get())
}
