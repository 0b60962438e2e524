//! The master file table: records, their attributes, and where these have their data. A record or a block with a
//! wrong update sequence is not used, and of one volume no more than [`MAX_READ`] bytes are read.

use straddle_device::fields::{byte, has, le16, le32, le64};
use straddle_units::ByteCount;

use super::super::{bytes, unit};
use super::{CLUSTER_SECTORS, CLUSTER_SHIFTS_FROM, MAX_RECORD, MFT_CLUSTER, RECORD_SIZE, SECTOR_SIZE};
use crate::model::view::View;

/// Of one volume. A directory of a million files is searched in seven blocks of 4 KiB.
const MAX_READ: u64 = 256 * 1024;
/// `ATTR_LIST` of Windows has at most this.
const LONGEST_LIST: u64 = 64 * 1024;
/// The lower 48 bits of a reference are the record's number (`struct MFT_REF`).
const RECORD_NUMBER: u64 = 0xFFFF_FFFF_FFFF;

pub(super) mod record {
    /// `NTFS_FILE_SIGNATURE`.
    pub(in super::super) const MAGIC: &[u8] = b"FILE";
    /// `fix_off` and `fix_num`: the offset of the update sequence, and the number of its entries.
    pub(super) const FIX_AT: usize = 4;
    pub(super) const FIX_COUNT: usize = 6;
    /// Blocks of this size end with an update sequence number of two bytes (`SECTOR_SIZE` of fs/ntfs3).
    pub(super) const FIX_EVERY: usize = 512;
    /// `attr_off`: the first attribute.
    pub(super) const ATTRIBUTES_AT: usize = 0x14;
}

/// Type and length, 32 bits each, then the rest.
pub(super) mod attribute {
    /// `ATTR_LIST`: which records have the attributes that do not fit here.
    pub(in super::super) const LIST: u32 = 0x20;
    /// `ATTR_LABEL`, the volume's name.
    pub(in super::super) const LABEL: u32 = 0x60;
    pub(in super::super) const DATA: u32 = 0x80;
    /// `ATTR_ROOT` and `ATTR_ALLOC`: the root of an index, and its other blocks.
    pub(in super::super) const INDEX_ROOT: u32 = 0x90;
    pub(in super::super) const INDEX_BLOCKS: u32 = 0xA0;
    pub(super) const END: u32 = 0xFFFF_FFFF;
    pub(super) const LEN: usize = 4;
    pub(super) const NON_RESIDENT: usize = 8;
    /// In units of 16 bits.
    pub(super) const NAME_LEN: usize = 9;
    pub(super) const NAME_AT: usize = 0x0A;
    /// `flags`: the way it is compressed, or encrypted.
    pub(super) const FLAGS: usize = 0x0C;
    pub(super) const ENCODED: u16 = 0x40FF;
    /// `res.data_size` and `res.data_off`.
    pub(super) const DATA_LEN: usize = 0x10;
    pub(super) const DATA_AT: usize = 0x14;
    /// The first cluster of this part (`nres.svcn`).
    pub(super) const FIRST_CLUSTER: usize = 0x10;
    /// `nres.run_off`.
    pub(super) const RUNS_AT: usize = 0x20;
    /// `nres.data_size` and `nres.valid_size`: what follows the latter reads as zeros.
    pub(super) const SIZE: usize = 0x30;
    pub(super) const VALID: usize = 0x38;
    /// Resident attributes have the shortest header.
    pub(super) const MIN_LEN: usize = 0x18;
}

/// `struct ATTR_LIST_ENTRY`, which begins with the type.
mod listed {
    pub(super) const LEN: usize = 4;
    pub(super) const NAME_LEN: usize = 6;
    pub(super) const NAME_AT: usize = 7;
    pub(super) const RECORD: usize = 0x10;
    /// Without a name.
    pub(super) const MIN_LEN: usize = 0x1A;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The first one's number in the data.
    first: u64,
    count: u64,
    /// `None` for a hole, which reads as zeros.
    place: Option<u64>,
}

/// One record may not have room for all runs: this may be a part.
#[derive(Clone, Copy)]
pub(super) struct Attribute<'r>(pub(super) &'r [u8]);

pub(super) struct FileTable<'v, 'm> {
    view: &'v View<'m>,
    pub(super) cluster: u64,
    record: usize,
    runs: Vec<Run>,
    left: u64,
}

impl<'r> Attribute<'r> {
    pub(super) fn kind(self) -> u32 {
        le32(self.0, 0)
    }

    fn is(self, kind: u32, name: &[u8]) -> bool {
        let at = usize::from(le16(self.0, attribute::NAME_AT));
        let len = usize::from(byte(self.0, attribute::NAME_LEN)) * 2;
        self.kind() == kind && len == name.len() && (len == 0 || has(self.0, at, name))
    }

    pub(super) fn resident(self) -> Option<&'r [u8]> {
        if byte(self.0, attribute::NON_RESIDENT) != 0 {
            return None;
        }
        let len = usize::try_from(le32(self.0, attribute::DATA_LEN)).ok()?;
        self.0.get(usize::from(le16(self.0, attribute::DATA_AT))..)?.get(..len)
    }

    pub(super) fn runs(self) -> Vec<Run> {
        let mut runs = Vec::new();
        if byte(self.0, attribute::NON_RESIDENT) == 0 {
            return runs;
        }
        let mut rest = self.0.get(usize::from(le16(self.0, attribute::RUNS_AT))..).unwrap_or_default();
        let (mut first, mut place) = (le64(self.0, attribute::FIRST_CLUSTER), 0_u64);
        while let Some((run, after)) = run(rest, first, &mut place) {
            let Some(next) = first.checked_add(run.count) else { break };
            runs.push(run);
            (first, rest) = (next, after);
        }
        runs
    }

    /// Of all non-resident data and of those written, if this is their first part.
    pub(super) fn sizes(self) -> Option<(u64, u64)> {
        let is_first =
            byte(self.0, attribute::NON_RESIDENT) != 0 && le64(self.0, attribute::FIRST_CLUSTER) == 0;
        is_first.then(|| (le64(self.0, attribute::SIZE), le64(self.0, attribute::VALID)))
    }

    pub(super) fn is_encoded(self) -> bool {
        le16(self.0, attribute::FLAGS) & attribute::ENCODED != 0
    }
}

/// Decodes the run at the start of `bytes`: the number of clusters, and their distance from the `place` of the run
/// before. Its first cluster is `first` of the data. Also returns the bytes after it.
fn run<'b>(bytes: &'b [u8], first: u64, place: &mut u64) -> Option<(Run, &'b [u8])> {
    let (head, rest) = bytes.split_first()?;
    let (count, rest) = rest.split_at_checked(usize::from(head & 0xF))?;
    let (distance, rest) = rest.split_at_checked(usize::from(head >> 4))?;
    let count = number(count, 0).filter(|count| *count != 0)?;
    let run = if distance.is_empty() {
        Run { first, count, place: None }
    } else {
        let is_negative = distance.last().is_some_and(|last| *last >= 0x80);
        *place = place.wrapping_add(number(distance, if is_negative { u8::MAX } else { 0 })?);
        Run { first, count, place: Some(*place) }
    };
    Some((run, rest))
}

/// A little-endian number of up to eight bytes, filled up with `fill`; `None` if it has none or more.
fn number(bytes: &[u8], fill: u8) -> Option<u64> {
    let mut all = [fill; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (!bytes.is_empty()).then(|| u64::from_le_bytes(all))
}

pub(super) fn attributes(record: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = record.get(usize::from(le16(record, record::ATTRIBUTES_AT))..).unwrap_or_default();
    std::iter::from_fn(move || {
        let len = usize::try_from(le32(rest, attribute::LEN)).ok()?;
        if le32(rest, 0) == attribute::END || len < attribute::MIN_LEN {
            return None;
        }
        let (this, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(Attribute(this))
    })
}

/// `None` for another magic, or a torn write.
pub(super) fn restored(mut block: Vec<u8>, magic: &[u8]) -> Option<Vec<u8>> {
    let at = usize::from(le16(&block, record::FIX_AT));
    let count = usize::from(le16(&block, record::FIX_COUNT));
    if !has(&block, 0, magic) || count.checked_sub(1)? != block.len() / record::FIX_EVERY {
        return None;
    }
    let sequence = block.get(at..)?.get(..2 * count)?.to_vec();
    let (stamp, own) = sequence.split_at_checked(2)?;
    for (sector, own) in block.chunks_exact_mut(record::FIX_EVERY).zip(own.chunks_exact(2)) {
        let end = sector.last_chunk_mut::<2>().filter(|end| end[..] == *stamp)?;
        end.copy_from_slice(own);
    }
    Some(block)
}

pub(super) fn cluster(boot: &[u8]) -> Option<ByteCount> {
    let sector = unit(u64::from(le16(boot, SECTOR_SIZE)))?;
    let sectors = match byte(boot, CLUSTER_SECTORS) {
        shift @ CLUSTER_SHIFTS_FROM.. => 1 << (u8::MAX - shift + 1),
        number => u64::from(number),
    };
    unit(sector.checked_mul(sectors)?.get())
}

impl<'v, 'm> FileTable<'v, 'm> {
    pub(super) fn open(view: &'v View<'m>, boot: &[u8]) -> Option<Self> {
        let cluster = cluster(boot)?;
        let size = match byte(boot, RECORD_SIZE).cast_signed() {
            clusters @ 1.. => cluster.checked_mul(u64::from(clusters.unsigned_abs()))?,
            log => ByteCount::new(1_u64.checked_shl(u32::from(log.unsigned_abs()))?),
        };
        let size = unit(size.get()).filter(|size| size.get() <= MAX_RECORD)?;
        // `mkntfs` and Windows write the records that every volume has in one piece.
        let first = Run { first: 0, count: MAX_RECORD, place: Some(le64(boot, MFT_CLUSTER)) };
        let record = usize::try_from(size.get()).ok()?;
        Some(Self { view, cluster: cluster.get(), record, runs: vec![first], left: MAX_READ })
    }

    pub(super) fn follow(&mut self) -> Option<()> {
        let first = self.record(0)?;
        let own: Vec<Run> = data_runs(&first).collect();
        if !own.is_empty() {
            self.runs = own;
        }
        // Further runs are in records that the previous ones place.
        for other in self.listed(&first, 0, (attribute::DATA, &[])).unwrap_or_default() {
            if let Some(record) = self.record(other) {
                self.runs.extend(data_runs(&record));
            }
        }
        Some(())
    }

    pub(super) fn record(&mut self, number: u64) -> Option<Vec<u8>> {
        let at = number.checked_mul(u64::try_from(self.record).ok()?)?;
        let runs = std::mem::take(&mut self.runs);
        let record = self.mapped(&runs, at, self.record);
        self.runs = runs;
        restored(record?, record::MAGIC)
    }

    /// The parts of the attributes with this type and name, from the record and those that its list names, each with
    /// its bytes. `None` if not all can be read.
    pub(super) fn parts(&mut self, number: u64, (kind, name): (u32, &[u8])) -> Option<Vec<Vec<u8>>> {
        let record = self.record(number)?;
        let of = |record: &[u8]| -> Vec<Vec<u8>> {
            attributes(record).filter(|one| one.is(kind, name)).map(|one| one.0.to_vec()).collect()
        };
        let mut parts = of(&record);
        for other in self.listed(&record, number, (kind, name))? {
            parts.extend(of(&self.record(other)?));
        }
        Some(parts)
    }

    pub(super) fn first_part(&mut self, number: u64, of: (u32, &[u8])) -> Option<Vec<u8>> {
        let (kind, name) = of;
        let in_record = |record: &[u8]| {
            let mut all = attributes(record).filter(|one| one.is(kind, name));
            all.find(|one| one.resident().is_some() || one.sizes().is_some()).map(|one| one.0.to_vec())
        };
        let record = self.record(number)?;
        if let Some(first) = in_record(&record) {
            return Some(first);
        }
        // Lists are sorted: the first record is the right one.
        self.listed(&record, number, of)?.into_iter().find_map(|other| in_record(&self.record(other)?))
    }

    fn listed(&mut self, record: &[u8], number: u64, (kind, name): (u32, &[u8])) -> Option<Vec<u64>> {
        let Some(list) = attributes(record).find(|one| one.kind() == attribute::LIST) else {
            return Some(Vec::new());
        };
        let list = self.content(list)?;
        let mut found = Vec::new();
        let mut rest = list.as_slice();
        while rest.len() >= listed::MIN_LEN {
            let len = usize::from(le16(rest, listed::LEN));
            let (this, after) = rest.split_at_checked(len).filter(|_| len >= listed::MIN_LEN)?;
            let name_len = usize::from(byte(this, listed::NAME_LEN)) * 2;
            let name_at = usize::from(byte(this, listed::NAME_AT));
            let is_named = name_len == name.len() && (name_len == 0 || has(this, name_at, name));
            let other = le64(this, listed::RECORD) & RECORD_NUMBER;
            if le32(this, 0) == kind && is_named && other != number && !found.contains(&other) {
                found.push(other);
            }
            rest = after;
        }
        Some(found)
    }

    fn content(&mut self, list: Attribute<'_>) -> Option<Vec<u8>> {
        if let Some(data) = list.resident() {
            return Some(data.to_vec());
        }
        let (size, _) = list.sizes().filter(|(size, _)| *size <= LONGEST_LIST)?;
        self.mapped(&list.runs(), 0, usize::try_from(size).ok()?)
    }

    pub(super) fn mapped(&mut self, runs: &[Run], at: u64, len: usize) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        while data.len() < len {
            let here = at.checked_add(u64::try_from(data.len()).ok()?)?;
            let (number, within) = (here.checked_div(self.cluster)?, here.checked_rem(self.cluster)?);
            let holds = |run: &&Run| number.checked_sub(run.first).is_some_and(|past| past < run.count);
            let run = runs.iter().find(holds)?;
            let past = number - run.first;
            let room = (run.count - past).saturating_mul(self.cluster) - within;
            let step = usize::try_from(room).unwrap_or(usize::MAX).min(len - data.len());
            match run.place {
                None => data.resize(data.len() + step, 0),
                Some(place) => {
                    let from = place.checked_add(past)?.checked_mul(self.cluster)?.checked_add(within)?;
                    self.left = self.left.checked_sub(step as u64)?;
                    data.extend(bytes(self.view, from, step)?);
                }
            }
        }
        Some(data)
    }
}

fn data_runs(record: &[u8]) -> impl Iterator<Item = Run> + '_ {
    attributes(record).filter(|one| one.is(attribute::DATA, &[])).flat_map(Attribute::runs)
}
