//! The fingerprint by which a plan recognises its disk.
//!
//! Invariant: the hash covers only what makes up the present table, so a boot loader or a file system may write
//! elsewhere without invalidating the plan.

use crate::relocate::is_title;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use straddle_device::fields::{has, le32, le64};
use straddle_device::hex::encode as hex;
use straddle_device::{Medium, ReadError};
use straddle_layout::format::{gpt, mbr};
use straddle_layout::{Role, Stack};
use straddle_units::{BlockSize, ByteCount, ByteOffset, Lba, LbaCount, Span};

/// The state of a disk when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Its size in bytes.
    #[serde(rename = "size_bytes")]
    pub size: ByteCount,
    /// Its logical sector size in bytes.
    #[serde(rename = "sector_bytes")]
    pub sector: BlockSize,
    /// Its serial number; absent if it reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The SHA-256 hash of the bytes that make up its partition table.
    pub table: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Structure {
    BootSector,
    ExtendedBootRecord,
    GptHeader,
    GptEntries,
}

impl Structure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BootSector => "the boot sector",
            Self::ExtendedBootRecord => "an extended boot record",
            Self::GptHeader => "a GPT header",
            Self::GptEntries => "the entries of a GPT",
        }
    }

    /// What of `found` makes up the table: neither boot code, nor data where a header would be.
    pub(crate) fn table(self, found: &[u8]) -> &[u8] {
        match self {
            Self::BootSector => found.get(mbr::ENTRIES_AT..).unwrap_or_default(),
            Self::GptHeader if !has(found, 0, gpt::SIGNATURE) => &[],
            _ => found,
        }
    }
}

impl Fingerprint {
    /// Takes the fingerprint of `medium`, on which `stack` was read.
    pub fn of(
        medium: &dyn Medium,
        stack: &Stack,
        block: BlockSize,
        serial: Option<String>,
    ) -> Result<Self, ReadError> {
        let mut hash = Sha256::new();
        for (_, span) in structures(medium, stack, block)? {
            hash.update(span.start().get().to_le_bytes());
            hash.update(span.len().get().to_le_bytes());
            let mut bytes = bytes_of(medium, span)?;
            // A journal's title where there was nothing is not a table: a move that is cut off as it begins
            // must not make this another disk.
            if is_title(&bytes) {
                bytes.fill(0);
            }
            hash.update(bytes);
        }
        Ok(Self { size: medium.len(), sector: block, serial, table: hex(&hash.finalize()) })
    }
}

pub(crate) fn bytes_of(medium: &dyn Medium, span: Span) -> Result<Vec<u8>, ReadError> {
    let len = span.len().in_memory();
    if ByteOffset::new(medium.len().get()) < span.end() {
        return Err(ReadError::PastEnd { at: span.start(), want: len, len: medium.len().get() });
    }
    bytes_at(medium, span.start(), len)
}

pub(crate) fn bytes_at(medium: &dyn Medium, at: ByteOffset, len: usize) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; len];
    medium.read_at(at, &mut bytes)?;
    Ok(bytes)
}

pub(crate) fn holds(medium: &dyn Medium, at: ByteOffset, bytes: &[u8]) -> Result<bool, ReadError> {
    Ok(bytes_at(medium, at, bytes.len())? == bytes)
}

pub(crate) fn gpt_header(medium: &dyn Medium, block: BlockSize, lba: Lba) -> Option<Vec<u8>> {
    let sector = bytes_of(medium, Span::of_blocks(lba, LbaCount::new(1), block)?).ok()?;
    has(&sector, 0, gpt::SIGNATURE).then_some(sector)
}

/// `None` if it is larger than any reader accepts.
pub(crate) fn gpt_array(header: &[u8], block: BlockSize) -> Option<Span> {
    let (count, size) = (le32(header, gpt::header::ENTRY_COUNT), le32(header, gpt::header::ENTRY_SIZE));
    let len = u64::from(count) * u64::from(size);
    let start = Lba::new(le64(header, gpt::header::ENTRIES_LBA)).to_bytes(block)?;
    Span::new(start, ByteCount::new(len)).filter(|_| len <= gpt::MAX_ARRAY_BYTES)
}

pub(crate) fn structures(
    medium: &dyn Medium,
    stack: &Stack,
    block: BlockSize,
) -> Result<Vec<(Structure, Span)>, ReadError> {
    let mut found: Vec<(Structure, Span)> = Vec::new();
    let mut add = |structure: Structure, span: Option<Span>| {
        let is_known = |span: Span| found.iter().any(|(_, known)| *known == span);
        let new = span.filter(|span| span.end().get() <= medium.len().get() && !is_known(*span));
        found.extend(new.map(|span| (structure, span)));
    };
    let mut blocks = vec![block];
    blocks.extend((stack.block != block).then_some(stack.block));
    for block in blocks {
        let one = |lba: Lba| Span::of_blocks(lba, LbaCount::new(1), block);
        add(Structure::BootSector, one(Lba::new(0)));
        let last = block.blocks_floor(medium.len()).last_lba().unwrap_or_default();
        let mut others = Vec::new();
        for lba in [Lba::new(1), last] {
            let Some(span) = one(lba).filter(|span| span.end().get() <= medium.len().get()) else {
                continue;
            };
            add(Structure::GptHeader, Some(span));
            let header = bytes_of(medium, span)?;
            if has(&header, 0, gpt::SIGNATURE) {
                add(Structure::GptEntries, gpt_array(&header, block));
                others.push(Lba::new(le64(&header, gpt::header::ALTERNATE_LBA)));
            }
        }
        for other in others {
            add(Structure::GptHeader, one(other));
        }
        for partition in &stack.partitions {
            match partition.role {
                Role::Extended => add(Structure::ExtendedBootRecord, one(partition.start)),
                Role::Logical { ebr } => add(Structure::ExtendedBootRecord, one(ebr)),
                Role::Primary => {}
            }
        }
    }
    Ok(found)
}
