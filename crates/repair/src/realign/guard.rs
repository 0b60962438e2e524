//! Physical sectors that are written in part, and restored if a power cut tears one.
//!
//! A drive that emulates 512-byte sectors writes 4096 bytes for one of them; a power failure may destroy all eight:
//! the table, a boot sector, and what is beside them.
//!
//! Invariant: a physical sector is restored only if none of its sectors has a possible content. Another program
//! changes only some of them, so what it has written is never overwritten.

use serde::{Deserialize, Serialize};
use straddle_device::Medium;
use straddle_units::{Boundary, ByteCount, ByteOffset, Span};

use super::boot::{Site, sites};
use super::{Realign, logical};
use crate::document::hexadecimal;
use crate::encode::Step;
use crate::fingerprint::bytes_of;
use crate::foresee::lay_over;
use crate::plan::{Change, Entry, Slot};

const UNIT: usize = 512;
/// The partition table of an MBR, with its signature.
const ENTRIES: std::ops::Range<usize> = 446..512;
/// Larger ones would take too much of the journal.
const MAX_PHYSICAL: ByteCount = ByteCount::new(4096);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guard {
    pub(super) at: u64,
    #[serde(with = "hexadecimal")]
    pub(super) was: Vec<u8>,
    /// From, and to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) free: Vec<(usize, usize)>,
}

impl Guard {
    /// What cannot be read now is not guarded.
    pub(super) fn of_table(
        disk: &dyn Medium,
        blocks: Boundary,
        spans: impl Iterator<Item = Span>,
    ) -> Vec<Self> {
        let guard = |block: Span| {
            Some(Self { at: block.start().get(), was: bytes_of(disk, block).ok()?, free: Vec::new() })
        };
        blocks_of(disk.len(), blocks, spans).into_iter().filter_map(guard).collect()
    }

    pub(super) fn of_boot_sectors(disk: &dyn Medium, realign: &Realign) -> Vec<Self> {
        boot_blocks(realign).into_iter().filter_map(|block| Self::after(disk, realign, block)).collect()
    }

    /// Guards extended boot records as they are when all data are in their new places (`is_new`) or in their
    /// old, present ones. The rest of a sector, which may be in use, is guarded only against a read error.
    pub(super) fn of_records(
        disk: &dyn Medium,
        realign: &Realign,
        records: &[(u64, &[u8])],
        is_new: bool,
    ) -> Vec<Self> {
        let span =
            |(at, bytes): &(u64, &[u8])| Span::new(ByteOffset::new(*at), ByteCount::new(bytes.len() as u64));
        let blocks = blocks_of(disk.len(), realign.blocks, records.iter().filter_map(span));
        let guard = |block| {
            let mut guard =
                if is_new { Self::after(disk, realign, block) } else { Self::before(disk, realign, block) }?;
            // They are written next, in any case.
            guard.was = guard.with(records);
            Some(guard)
        };
        blocks.into_iter().filter_map(guard).collect()
    }

    fn after(disk: &dyn Medium, realign: &Realign, block: Span) -> Option<Self> {
        let (plan, at) = (&realign.plan, block.start().get());
        let mut was = bytes_of(disk, block).ok()?;
        let mut kept = Vec::new();
        for entry in &plan.table.partitions {
            let new = plan.span(entry);
            let Some((new, inside)) = new.zip(new.and_then(|new| block.common(new))) else { continue };
            match origin(realign, entry) {
                Some(old) => {
                    let skipped = inside.start().checked_since(new.start())?;
                    let source = Span::new(old.start().checked_add(skipped)?, inside.len())?;
                    lay_over(&mut was, at, &bytes_of(disk, source).ok()?, inside.start().get());
                    kept.push(inside);
                }
                None => kept.extend(matches!(entry.slot, Slot::Logical { .. }).then_some(inside)),
            }
        }
        let fields: Vec<Span> = sites_in(realign).flat_map(|(site, _, new)| site.fields(new)).collect();
        Self::keeping(block, was, &kept, &fields)
    }

    fn before(disk: &dyn Medium, realign: &Realign, block: Span) -> Option<Self> {
        let plan = &realign.plan;
        let moves = |number: u32| plan.table.entry(number).is_some_and(logical::moves);
        let is_kept = |entry: &&Entry| matches!(entry.slot, Slot::Logical { .. }) || moves(entry.number);
        let spans = plan.before.iter().filter(|entry| entry.slot != Slot::Extended).filter(is_kept);
        let kept: Vec<Span> =
            spans.filter_map(|entry| plan.span(entry)).filter_map(|span| block.common(span)).collect();
        Self::keeping(block, bytes_of(disk, block).ok()?, &kept, &[])
    }

    fn keeping(block: Span, was: Vec<u8>, kept: &[Span], fields: &[Span]) -> Option<Self> {
        let at = block.start();
        let within = |place: ByteOffset| usize::try_from(place.checked_since(at)?.get()).ok();
        let range = |span: Span| Some((within(span.start())?, within(span.end())?));
        let fields = fields.iter().filter_map(|field| field.common(block));
        let free = block.gaps(kept.iter().copied()).into_iter().chain(fields).filter_map(range).collect();
        Some(Self { at: at.get(), was, free })
    }

    pub(super) fn span(&self) -> Option<Span> {
        Span::new(ByteOffset::new(self.at), ByteCount::new(self.was.len() as u64))
    }

    fn with(&self, changes: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = self.was.clone();
        for (at, change) in changes {
            lay_over(&mut bytes, self.at, change, *at);
        }
        bytes
    }

    /// Restores the first of `states` if the sector is unreadable, or no part is as in one of them.
    pub(super) fn mended(&self, disk: &dyn Medium, states: &[Vec<(u64, &[u8])>]) -> Option<Step> {
        let at = ByteOffset::new(self.at);
        let states: Vec<Vec<u8>> = states.iter().map(|changes| self.with(changes)).collect();
        let mut found = vec![0; self.was.len()];
        let is_torn = disk.read_at(at, &mut found).is_err() || !self.is_possible(&found, &states);
        let new = states.into_iter().next().filter(|_| is_torn)?;
        Some(Step::Write { at: self.at, old: found, new, what: "a physical sector".to_owned() })
    }

    fn is_possible(&self, found: &[u8], states: &[Vec<u8>]) -> bool {
        let is_free = |byte: &usize| self.free.iter().any(|(from, to)| (from..to).contains(&byte));
        let sectors = (0..found.len()).step_by(UNIT);
        let mut kept = sectors
            .map(|from| (from..found.len().min(from + UNIT)).filter(|byte| !is_free(byte)).collect())
            .filter(|kept: &Vec<usize>| !kept.is_empty())
            .peekable();
        // The drive itself reports a torn sector of 512 bytes.
        if found.len() <= UNIT || kept.peek().is_none() {
            return true;
        }
        // Of an MBR, another program may have changed the boot code only.
        let entries = |bytes: &[u8]| bytes.get(ENTRIES).map(<[u8]>::to_vec);
        if self.at == 0 && states.iter().any(|state| entries(state) == entries(found)) {
            return true;
        }
        let is =
            |state: &Vec<u8>, kept: &[usize]| kept.iter().all(|byte| state.get(*byte) == found.get(*byte));
        kept.any(|kept| states.iter().any(|state| is(state, &kept)))
    }
}

pub(super) fn boot_blocks(realign: &Realign) -> Vec<Span> {
    let written = sites_in(realign).filter_map(|(site, _, new)| site.span(new));
    blocks_of(realign.plan.disk.size, realign.blocks, written)
}

pub(super) fn fields(realign: &Realign) -> Vec<Span> {
    sites_in(realign).flat_map(|(site, old, _)| site.fields(old)).collect()
}

fn sites_in(realign: &Realign) -> impl Iterator<Item = (Site, ByteOffset, ByteOffset)> {
    let plan = &realign.plan;
    let found = realign.references.iter().filter_map(move |(number, reference)| {
        let entry = plan.table.entry(*number)?;
        let (old, new) = (origin(realign, entry)?.start(), plan.span(entry)?.start());
        Some(sites(reference)?.into_iter().map(move |site| (site, old, new)))
    });
    found.flatten()
}

fn origin(realign: &Realign, entry: &Entry) -> Option<Span> {
    match entry.change {
        Change::Moved { from, sectors } if logical::moves(entry) => {
            Span::of_blocks(from, sectors, realign.plan.block())
        }
        _ => None,
    }
}

fn blocks_of(size: ByteCount, blocks: Boundary, spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let around = |span: Span| Span::between(blocks.floor(span.start())?, blocks.ceil(span.end())?);
    let spans = spans.filter(|_| blocks.size() <= MAX_PHYSICAL).filter_map(around);
    let found = spans.flat_map(|span| span.pieces(blocks.size()));
    let mut found: Vec<Span> = found.filter(|block| Span::first(size).contains(*block)).collect();
    found.sort_unstable_by_key(|block| block.start());
    found.dedup();
    found
}
