//! One copy of a GUID partition table: a header and its array of entries.
//!
//! A [`GptCopy`] exists only if every check has passed; the first failed one is a [`Broken`] with its byte. Whatever
//! the header claims, at most 64 KiB of the array are held at a time and at most [`MAX_PARTITIONS`] entries are kept.
//! Entries may be larger than 128 bytes, headers larger than 92.

use straddle_device::fields::{array, le32, le64};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

use crate::MAX_PARTITIONS;
use crate::reader::Reader;
use crate::tables::format::gpt::{ENTRY_BYTES, HEADER_BYTES, MAX_ARRAY_BYTES, SIGNATURE, header, header_crc};

const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// Of the header, or of the array if the header is good.
    pub(crate) at: ByteOffset,
    pub(crate) flaw: String,
    /// The header's other copy, if there is a header at all.
    pub(crate) other: Option<Lba>,
    /// Intact, but with another position recorded, as on a part of another disk.
    pub(crate) is_of_other_disk: bool,
}

impl Broken {
    pub(crate) fn is_announced(&self) -> bool {
        self.other.is_some()
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
            Err(flaw) => Err(Broken { at: header.array.start(), flaw, other, is_of_other_disk: false }),
        }
    }
}

impl Header {
    pub(crate) fn read(reader: &Reader<'_>, block: BlockSize, lba: Lba) -> Result<Self, Broken> {
        let at = lba.to_bytes(block).unwrap_or(ByteOffset::new(u64::MAX));
        let broken = |flaw: String, other| Broken { at, flaw, other, is_of_other_disk: false };
        let unreadable = |why: String| broken(format!("the header cannot be read: {why}"), None);
        let mut signature = [0; SIGNATURE.len()];
        reader.read(at, &mut signature).map_err(unreadable)?;
        if signature != *SIGNATURE {
            return Err(broken("there is no \"EFI PART\" signature".to_owned(), None));
        }
        let mut bytes = vec![0; usize::try_from(block.get()).unwrap_or(CHUNK_BYTES)];
        reader.read(at, &mut bytes).map_err(unreadable)?;
        let other = Some(Lba::new(le64(&bytes, header::ALTERNATE_LBA)));
        check_crc(&bytes).map_err(|flaw| broken(flaw, other))?;
        let says = Lba::new(le64(&bytes, header::MY_LBA));
        if says != lba {
            let flaw = format!("the header is at LBA {lba}, but records LBA {says} as its position");
            return Err(Broken { is_of_other_disk: true, ..broken(flaw, other) });
        }
        Self::check(&bytes, block, lba, at, reader.end()).map_err(|flaw| broken(flaw, other))
    }

    fn check(
        bytes: &[u8],
        block: BlockSize,
        my_lba: Lba,
        at: ByteOffset,
        end: ByteOffset,
    ) -> Result<Self, String> {
        let lba_at = |at: usize| Lba::new(le64(bytes, at));
        let (first_usable, last_usable) = (lba_at(header::FIRST_USABLE), lba_at(header::LAST_USABLE));
        if last_usable < first_usable {
            return Err(format!(
                "the usable area ends (LBA {last_usable}) before it starts (LBA {first_usable})"
            ));
        }
        let (count, entry_size) = (le32(bytes, header::ENTRY_COUNT), le32(bytes, header::ENTRY_SIZE));
        let fits_a_chunk = usize::try_from(entry_size).is_ok_and(|size| size <= CHUNK_BYTES);
        if entry_size < ENTRY_BYTES || !entry_size.is_multiple_of(8) || !fits_a_chunk {
            return Err(format!("entries of {entry_size} bytes are not allowed"));
        }
        let array_bytes = u64::from(count) * u64::from(entry_size);
        match array_bytes {
            0 => return Err("the entry array has no entries".to_owned()),
            1..=MAX_ARRAY_BYTES => {}
            _ => return Err(format!("the entry array is too large ({array_bytes} bytes)")),
        }
        let array_span = lba_at(header::ENTRIES_LBA)
            .to_bytes(block)
            .and_then(|start| Span::new(start, ByteCount::new(array_bytes)))
            .filter(|span| span.end() <= end)
            .ok_or("the entry array is past the end of the disk")?;
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
    fn read(reader: &Reader<'_>, header: &Header) -> Result<Self, String> {
        let mut listing = Self::default();
        let mut crc = crc32fast::Hasher::new();
        let entry_size = usize::try_from(header.entry_size).unwrap_or(CHUNK_BYTES);
        let mut number = 0;
        let mut chunk = Vec::new();
        for piece in header.array.pieces(ByteCount::new((CHUNK_BYTES / entry_size * entry_size) as u64)) {
            chunk.resize(piece.len().in_memory(), 0);
            let unreadable = |why| format!("the entry array cannot be read: {why}");
            reader.read(piece.start(), &mut chunk).map_err(unreadable)?;
            crc.update(&chunk);
            let starts = (piece.start().get()..).step_by(entry_size);
            for (entry, start) in chunk.chunks_exact(entry_size).zip(starts) {
                number += 1;
                listing.add(number, ByteOffset::new(start), entry);
            }
        }
        same_crc("the entries", header.array_crc, crc.finalize())?;
        Ok(listing)
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

fn check_crc(header: &[u8]) -> Result<(), String> {
    let size = le32(header, header::HEADER_SIZE);
    let summed = usize::try_from(size).ok().and_then(|size| header.get(..size));
    let summed = summed.filter(|_| size >= HEADER_BYTES);
    let summed =
        summed.ok_or_else(|| format!("the recorded length of the header, {size} bytes, is not valid"))?;
    same_crc("the header", le32(header, header::HEADER_CRC), header_crc(summed))
}

fn same_crc(what: &str, stored: u32, computed: u32) -> Result<(), String> {
    if stored == computed {
        return Ok(());
    }
    Err(format!("CRC mismatch in {what}: stored {stored:08x}, computed {computed:08x}"))
}

/// Of `second`'s array. If one array is the beginning of the other, the first byte beyond the shorter one. `None` if
/// they are equal or cannot be read.
pub(crate) fn first_difference(reader: &Reader<'_>, first: &Header, second: &Header) -> Option<ByteOffset> {
    let common = Span::new(second.array.start(), first.array.len().min(second.array.len()))?;
    for piece in common.pieces(ByteCount::new(CHUNK_BYTES as u64)) {
        let [mut mine, mut theirs] = [(); 2].map(|()| vec![0; piece.len().in_memory()]);
        let into = piece.start().checked_since(common.start())?;
        reader.read(first.array.start().checked_add(into)?, &mut mine).ok()?;
        reader.read(piece.start(), &mut theirs).ok()?;
        if let Some(index) = mine.iter().zip(&theirs).position(|(a, b)| a != b) {
            return piece.start().checked_add(ByteCount::new(index as u64));
        }
    }
    (first.array.len() != second.array.len()).then_some(common.end())
}
