//! One copy of a GUID partition table: a header and its array of entries.
//!
//! A [`GptCopy`] exists only if every check has passed; the first failed one is a [`Flaw`] with its byte. Whatever
//! the header claims, at most 64 KiB of the array are held at a time and at most [`MAX_PARTITIONS`] entries are kept.
//! Entries may be larger than 128 bytes, headers larger than 92.

use straddle_device::fields::{array, le32, le64};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::MAX_PARTITIONS;
use crate::reader::{Fault, Reader};
use crate::tables::format::gpt::{ENTRY_BYTES, HEADER_BYTES, MAX_ARRAY_BYTES, SIGNATURE, header, header_crc};

const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    #[error("the header cannot be read: {0}")]
    Unreadable(Fault),
    #[error("there is no \"EFI PART\" signature")]
    NoSignature,
    #[error("the recorded length of the header, {0} bytes, is not valid")]
    HeaderSize(u32),
    #[error("CRC mismatch in the header: stored {stored:08x}, computed {computed:08x}")]
    HeaderCrc { stored: u32, computed: u32 },
    #[error("the header is at LBA {stands}, but records LBA {says} as its position")]
    MyLba { says: Lba, stands: Lba },
    #[error("the usable area ends (LBA {last}) before it starts (LBA {first})")]
    Usable { first: Lba, last: Lba },
    #[error("entries of {0} bytes are not allowed")]
    EntrySize(u32),
    #[error("the entry array has no entries")]
    NoEntries,
    #[error("the entry array is too large ({0} bytes)")]
    ArrayAbsurd(u64),
    #[error("the entry array is past the end of the disk")]
    ArrayPastEnd,
    #[error("the entry array cannot be read: {0}")]
    ArrayUnreadable(Fault),
    #[error("CRC mismatch in the entries: stored {stored:08x}, computed {computed:08x}")]
    ArrayCrc { stored: u32, computed: u32 },
}

#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// Of the header, or of the array if the header is good.
    pub(crate) at: ByteOffset,
    pub(crate) flaw: Flaw,
    /// The header's other copy, if there is a header at all.
    pub(crate) other: Option<Lba>,
}

impl Broken {
    pub(crate) fn is_announced(&self) -> bool {
        self.other.is_some()
    }

    /// Intact, but with another position recorded, as on a part of another disk.
    pub(crate) fn is_of_other_disk(&self) -> bool {
        matches!(self.flaw, Flaw::MyLba { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) block: BlockSize,
    pub(crate) at: ByteOffset,
    pub(crate) my_lba: Lba,
    pub(crate) alternate: Lba,
    pub(crate) first_usable: Lba,
    pub(crate) last_usable: Lba,
    pub(crate) disk_guid: [u8; 16],
    /// Entirely on the medium, at most [`MAX_ARRAY_BYTES`].
    pub(crate) array: Span,
    pub(crate) entry_size: u32,
    pub(crate) array_crc: u32,
}

/// Bytes after the first 128 are undefined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawEntry {
    pub(crate) number: u32,
    pub(crate) at: ByteOffset,
    pub(crate) bytes: [u8; 128],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) used: Vec<RawEntry>,
    /// The first used entry that was left out.
    pub(crate) cut_at: Option<ByteOffset>,
}

#[derive(Clone, Debug)]
pub(crate) struct GptCopy {
    pub(crate) header: Header,
    pub(crate) listing: Listing,
}

impl GptCopy {
    pub(crate) fn read(reader: &Reader<'_>, block: BlockSize, lba: Lba) -> Result<Self, Broken> {
        let header = Header::read(reader, block, lba)?;
        let other = Some(header.alternate);
        match Listing::read(reader, &header) {
            Ok(listing) => Ok(Self { header, listing }),
            Err(flaw) => Err(Broken { at: header.array.start(), flaw, other }),
        }
    }
}

impl Header {
    pub(crate) fn read(reader: &Reader<'_>, block: BlockSize, lba: Lba) -> Result<Self, Broken> {
        let at = lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX));
        let unreadable = |fault| Broken { at, flaw: Flaw::Unreadable(fault), other: None };
        let mut signature = [0; SIGNATURE.len()];
        reader.read(at, &mut signature).map_err(unreadable)?;
        if signature != *SIGNATURE {
            return Err(Broken { at, flaw: Flaw::NoSignature, other: None });
        }
        let mut bytes = vec![0; usize::try_from(block.get()).unwrap_or(CHUNK_BYTES)];
        reader.read(at, &mut bytes).map_err(unreadable)?;
        let other = Some(Lba::new(le64(&bytes, header::ALTERNATE_LBA)));
        Self::check(&bytes, block, lba, at, reader).map_err(|flaw| Broken { at, flaw, other })
    }

    fn check(
        bytes: &[u8],
        block: BlockSize,
        lba: Lba,
        at: ByteOffset,
        reader: &Reader<'_>,
    ) -> Result<Self, Flaw> {
        let lba_at = |at: usize| Lba::new(le64(bytes, at));
        let size = le32(bytes, header::HEADER_SIZE);
        let summed = usize::try_from(size).ok().and_then(|size| bytes.get(..size));
        let summed = summed.filter(|_| size >= HEADER_BYTES).ok_or(Flaw::HeaderSize(size))?;
        let (stored, computed) = (le32(bytes, header::HEADER_CRC), header_crc(summed));
        if stored != computed {
            return Err(Flaw::HeaderCrc { stored, computed });
        }
        let my_lba = lba_at(header::MY_LBA);
        if my_lba != lba {
            return Err(Flaw::MyLba { says: my_lba, stands: lba });
        }
        let (first_usable, last_usable) = (lba_at(header::FIRST_USABLE), lba_at(header::LAST_USABLE));
        if last_usable < first_usable {
            return Err(Flaw::Usable { first: first_usable, last: last_usable });
        }
        let (count, entry_size) = (le32(bytes, header::ENTRY_COUNT), le32(bytes, header::ENTRY_SIZE));
        let fits_a_chunk = usize::try_from(entry_size).is_ok_and(|size| size <= CHUNK_BYTES);
        if entry_size < ENTRY_BYTES || !entry_size.is_multiple_of(8) || !fits_a_chunk {
            return Err(Flaw::EntrySize(entry_size));
        }
        let array_bytes = u64::from(count) * u64::from(entry_size);
        match array_bytes {
            0 => return Err(Flaw::NoEntries),
            1..=MAX_ARRAY_BYTES => {}
            _ => return Err(Flaw::ArrayAbsurd(array_bytes)),
        }
        let array_span = lba_at(header::ENTRIES_LBA)
            .to_bytes(block)
            .and_then(|start| Span::new(start, ByteCount::new(array_bytes)))
            .filter(|span| span.end() <= reader.end())
            .ok_or(Flaw::ArrayPastEnd)?;
        Ok(Self {
            block,
            at,
            my_lba,
            alternate: lba_at(header::ALTERNATE_LBA),
            first_usable,
            last_usable,
            disk_guid: array(bytes, header::DISK_GUID),
            array: array_span,
            entry_size,
            array_crc: le32(bytes, header::ENTRIES_CRC),
        })
    }

    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.disk_guid == other.disk_guid
            && (self.first_usable, self.last_usable) == (other.first_usable, other.last_usable)
            && (self.entry_size, self.array_crc) == (other.entry_size, other.array_crc)
            && self.array.len() == other.array.len()
    }

    pub(crate) fn usable(&self) -> Option<Span> {
        let count = self.last_usable.checked_since(self.first_usable)?.get().checked_add(1)?;
        Span::of_blocks(self.first_usable, LbaCount::new(count), self.block)
    }
}

impl Listing {
    fn read(reader: &Reader<'_>, header: &Header) -> Result<Self, Flaw> {
        let mut listing = Self::default();
        let mut crc = crc32fast::Hasher::new();
        let entry_size = usize::try_from(header.entry_size).unwrap_or(CHUNK_BYTES);
        let mut number = 0;
        each_chunk(reader, header.array, CHUNK_BYTES / entry_size * entry_size, |at, chunk| {
            crc.update(chunk);
            let starts = (at.get()..).step_by(entry_size);
            for (entry, start) in chunk.chunks_exact(entry_size).zip(starts) {
                number += 1;
                listing.add(number, ByteOffset::new(start), entry);
            }
            true
        })
        .map_err(Flaw::ArrayUnreadable)?;
        match crc.finalize() {
            computed if computed == header.array_crc => Ok(listing),
            computed => Err(Flaw::ArrayCrc { stored: header.array_crc, computed }),
        }
    }

    /// An entry is in use if its type is not the zero GUID.
    fn add(&mut self, number: u32, at: ByteOffset, entry: &[u8]) {
        if self.cut_at.is_some() || entry.starts_with(&[0; 16]) {
            return;
        }
        if self.used.len() < MAX_PARTITIONS {
            self.used.push(RawEntry { number, at, bytes: array(entry, 0) });
        } else {
            self.cut_at = Some(at);
        }
    }
}

fn each_chunk(
    reader: &Reader<'_>,
    span: Span,
    piece: usize,
    mut visit: impl FnMut(ByteOffset, &[u8]) -> bool,
) -> Result<(), Fault> {
    let mut left = usize::try_from(span.len().get()).map_err(|_| Fault::PastEnd)?;
    let mut chunk = vec![0; left.min(piece)];
    let starts = (span.start().get()..span.end().get()).step_by(chunk.len().max(1));
    for at in starts.map(ByteOffset::new) {
        chunk.truncate(left);
        left -= chunk.len();
        reader.read(at, &mut chunk)?;
        if !visit(at, &chunk) {
            break;
        }
    }
    Ok(())
}

/// Of `second`'s array. If one array is the beginning of the other, the first byte beyond the shorter one. `None` if
/// they are equal or cannot be read.
pub(crate) fn first_difference(reader: &Reader<'_>, first: &Header, second: &Header) -> Option<ByteOffset> {
    let common = Span::new(second.array.start(), first.array.len().min(second.array.len()))?;
    let mut mine = vec![0; CHUNK_BYTES];
    let mut found = None;
    let compared = each_chunk(reader, common, CHUNK_BYTES, |at, theirs| {
        let mine = &mut mine[..theirs.len()];
        let place = at.checked_since(common.start()).and_then(|o| first.array.start().checked_add(o));
        if place.is_none_or(|place| reader.read(place, mine).is_err()) {
            return false;
        }
        let differs = mine.iter().zip(theirs).position(|(a, b)| a != b);
        found = differs.and_then(|i| at.checked_add(ByteCount::new(u64::try_from(i).ok()?)));
        found.is_none()
    });
    compared.ok()?;
    let longer = first.array.len() != second.array.len();
    found.or(longer.then_some(common.end()))
}
