//! MBR ("dos") tables: four primary entries, and a chain of extended boot records (EBRs) in a container.
//!
//! Tables are read as in Linux (block/partitions/msdos.c), including the numbers: only an entry of size 0 is
//! empty, whatever its type. Every EBR is read at most once, and at most [`MAX_PARTITIONS`] of them.

use std::collections::BTreeSet;

use straddle_device::fields::{array, byte, has, le32};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::model::stack::{Attributes, MAX_PARTITIONS, Partition, PartitionType, Problem, Role, Structure};
use crate::model::types::{PROTECTIVE, is_extended};
use crate::reader::Reader;
use crate::signature;
use crate::tables::check;
use crate::tables::format::mbr::{ACTIVE, DISK_ID_AT, ENTRIES_AT, ENTRY_BYTES, SIGNATURE};
pub(crate) use crate::tables::format::mbr::{SECTOR_BYTES, SIGNATURE_AT};

/// 1 to 4 belong to the MBR, used or not.
const FIRST_LOGICAL: u32 = 5;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    status: u8,
    pub(crate) id: u8,
    pub(crate) start: Lba,
    count: LbaCount,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Self {
        Self {
            status: byte(bytes, 0),
            id: byte(bytes, 4),
            start: Lba::new(u64::from(le32(bytes, 8))),
            count: LbaCount::new(u64::from(le32(bytes, 12))),
        }
    }

    fn is_used(&self) -> bool {
        self.count != LbaCount::new(0)
    }

    pub(crate) fn is_container(&self) -> bool {
        self.is_used() && is_extended(self.id)
    }

    pub(crate) fn span(&self, block: BlockSize) -> Option<Span> {
        Span::of_blocks(self.start, self.count, block)
    }

    pub(crate) fn first_record(&self, reader: &Reader<'_>, span: Span, block: BlockSize) -> bool {
        let Some(ebr) = read_table(reader, span.start()) else { return false };
        let is_inside = |entry: &Self| {
            let start = self.start.checked_add(LbaCount::new(entry.start.get()));
            let listed = start.and_then(|start| Span::of_blocks(start, entry.count, block));
            entry.start > Lba::new(0) && listed.is_some_and(|listed| span.contains(listed))
        };
        let mut listed = ebr.entries.iter().take(2).filter(|entry| entry.is_used()).peekable();
        ebr.has_valid_status() && listed.peek().is_some() && listed.all(is_inside)
    }

    /// In a table at `base`. With 32-bit fields it is never `None`.
    fn partition(&self, number: u32, base: Lba, role: Role, block: BlockSize) -> Option<Partition> {
        let start = base.checked_add(LbaCount::new(self.start.get()))?;
        Some(Partition {
            role,
            kind: PartitionType::Mbr(self.id),
            attributes: Attributes { bootable: self.status == ACTIVE, ..Attributes::default() },
            ..Partition::at(number, start, self.count, block)?
        })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Mbr {
    pub(crate) entries: [Entry; 4],
    pub(crate) disk_id: [u8; 4],
}

impl Mbr {
    pub(crate) fn parse(sector: &[u8]) -> Option<Self> {
        has(sector, SIGNATURE_AT, SIGNATURE).then(|| Self {
            entries: std::array::from_fn(|i| {
                Entry::parse(sector.get(ENTRIES_AT + i * ENTRY_BYTES..).unwrap_or(&[]))
            }),
            disk_id: array(sector, DISK_ID_AT),
        })
    }

    pub(crate) fn entry_at(slot: usize) -> ByteOffset {
        ByteOffset::new(u64::try_from(ENTRIES_AT + slot * ENTRY_BYTES).unwrap_or(0))
    }

    /// A boot sector has code or text there.
    pub(crate) fn has_valid_status(&self) -> bool {
        self.entries.iter().all(|entry| matches!(entry.status, 0 | ACTIVE))
    }

    /// Linux requires LBA 1 (`pmbr_part_valid`, efi.c).
    pub(crate) fn protective(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == PROTECTIVE && entry.start == Lba::new(1))
    }

    pub(crate) fn protective_anywhere(&self) -> Option<usize> {
        self.protective().or_else(|| self.entries.iter().position(|entry| entry.id == PROTECTIVE))
    }

    pub(crate) fn ordinary(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.is_used() && entry.id != PROTECTIVE)
    }

    /// Those that show where partitions begin. The entry of type 0 of a hybrid ISO image begins with the MBR.
    pub(crate) fn placed(&self) -> impl Iterator<Item = &Entry> {
        self.ordinary().map(|(_, entry)| entry).filter(|entry| entry.id != 0 || entry.start > Lba::new(0))
    }

    pub(crate) fn has_ordinary(&self) -> bool {
        self.ordinary().next().is_some()
    }

    /// By number: those with a type (`is_pmbr_valid`, efi.c).
    pub(crate) fn hybrid(&self, block: BlockSize) -> Vec<(u32, Span)> {
        let numbered = |(slot, entry): (usize, &Entry)| {
            Some((u32::try_from(slot).ok()?.checked_add(1)?, entry.span(block)?))
        };
        self.ordinary().filter(|(_, entry)| entry.id != 0).filter_map(numbered).collect()
    }

    /// After the MBR and on the disk, unlike boot code read as entries.
    pub(crate) fn is_sensible(&self, block: BlockSize, len: ByteCount) -> bool {
        let end = ByteOffset::new(len.get());
        self.has_valid_status()
            && self.placed().all(|entry| {
                entry.start > Lba::new(0) && entry.span(block).is_some_and(|span| span.end() <= end)
            })
    }

    pub(crate) fn partitions(&self, reader: &Reader<'_>, block: BlockSize) -> (Vec<Partition>, Vec<Problem>) {
        let mut walk = Walk {
            reader,
            block,
            next: FIRST_LOGICAL,
            seen: BTreeSet::from([Lba::new(0)]),
            logical: Vec::new(),
            problems: Vec::new(),
        };
        let mut partitions: Vec<Partition> = Vec::new();
        for ((_, entry), number) in self.entries.iter().enumerate().zip(1..) {
            if !entry.is_used() || entry.id == PROTECTIVE {
                continue;
            }
            let role = if entry.is_container() { Role::Extended } else { Role::Primary };
            partitions.extend(entry.partition(number, Lba::new(0), role, block));
            if entry.is_container() {
                walk.container(entry);
            }
        }
        partitions.append(&mut walk.logical);
        let record = |lba: &Lba| Some((Structure::Record, Span::of_blocks(*lba, LbaCount::new(1), block)?));
        let own = Span::first(block.bytes());
        let structures = std::iter::once((Structure::Mbr, own))
            .chain(walk.seen.iter().filter(|lba| **lba != Lba::new(0)).filter_map(record));
        walk.problems.extend(check::inside(&partitions, structures));
        (partitions, walk.problems)
    }

    /// A byte that shows the block size: a signature at the start of a primary partition, or a container's first EBR.
    pub(crate) fn evidence(&self, reader: &Reader<'_>, block: BlockSize) -> Option<ByteOffset> {
        self.placed().find_map(|entry| {
            let span = entry.span(block)?;
            let shown = if entry.is_container() {
                read_table(reader, span.start()).is_some_and(|ebr| ebr.has_valid_status())
            } else {
                signature::identify(reader, span).is_some()
            };
            shown.then_some(span.start())
        })
    }
}

fn read_table(reader: &Reader<'_>, at: ByteOffset) -> Option<Mbr> {
    let mut sector = [0; SECTOR_BYTES];
    reader.read(at, &mut sector).ok()?;
    Mbr::parse(&sector)
}

struct Walk<'a> {
    reader: &'a Reader<'a>,
    block: BlockSize,
    next: u32,
    /// The MBR and the EBRs read so far, in all chains.
    seen: BTreeSet<Lba>,
    logical: Vec<Partition>,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    /// Partitions count from their EBR, the link to the next from the container.
    fn container(&mut self, container: &Entry) {
        let (mut at, mut size) = (container.start, container.count);
        // Points to the EBR at `at`; for the first EBR, the MBR.
        let mut from = ByteOffset::ZERO;
        loop {
            let Some(offset) = self.place(at) else {
                let to = at.to_bytes(self.block).unwrap_or(ByteOffset::new(u64::MAX));
                return self.problems.push(Problem::EbrOutOfRange { at: from, to });
            };
            if self.seen.contains(&at) {
                return self.problems.push(Problem::EbrLoop { at: from });
            }
            if self.seen.len() > MAX_PARTITIONS || self.logical.len() >= MAX_PARTITIONS {
                return self.problems.push(Problem::TooManyPartitions { at: offset });
            }
            self.seen.insert(at);
            let Some(ebr) = read_table(self.reader, offset) else {
                return self.problems.push(Problem::EbrBadSignature { at: offset });
            };
            self.list(&ebr, (at, size), offset, container);
            let Some(link) = ebr.entries.iter().find(|entry| entry.is_container()) else { return };
            let Some(next) = container.start.checked_add(LbaCount::new(link.start.get())) else { return };
            // As in Linux, a link out of the container is followed as long as it is on the disk.
            if link.start.get() >= container.count.get()
                && let Some(to) = self.place(next)
            {
                self.problems.push(Problem::EbrOutOfRange { at: offset, to });
            }
            (at, size, from) = (next, link.count, offset);
        }
    }

    fn place(&self, at: Lba) -> Option<ByteOffset> {
        let offset = at.to_bytes(self.block)?;
        let end = offset.checked_add(ByteCount::new(u64::try_from(SECTOR_BYTES).ok()?))?;
        (end <= self.reader.end()).then_some(offset)
    }

    /// `size` blocks are meant for the EBR. The third and fourth entries are often garbage: as in Linux, they count
    /// only if they are in those blocks and in the container.
    fn list(&mut self, ebr: &Mbr, (at, size): (Lba, LbaCount), offset: ByteOffset, container: &Entry) {
        let area = Span::of_blocks(container.start, container.count, self.block);
        for (slot, entry) in ebr.entries.iter().enumerate() {
            if !entry.is_used() || entry.is_container() {
                continue;
            }
            let role = Role::Logical { ebr: at };
            let Some(partition) = entry.partition(self.next, at, role, self.block) else { continue };
            let inside = area.is_some_and(|area| area.contains(partition.span));
            let end = entry.start.checked_add(entry.count);
            let fits = end.is_some_and(|end| end.get() <= size.get());
            if slot >= 2 && !(inside && fits) {
                continue;
            }
            if self.logical.len() >= MAX_PARTITIONS {
                return;
            }
            if !inside {
                self.problems.push(Problem::EbrOutOfRange { at: offset, to: partition.span.start() });
            }
            self.logical.push(partition);
            self.next += 1;
        }
    }
}
