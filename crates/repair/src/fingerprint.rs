//! The fingerprint by which a plan recognises its disk.
//!
//! Invariants: the hash covers everything that makes up the present table and nothing else. A
//! boot loader or a file system may write elsewhere without invalidating the plan.

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

/// A disk as it was when the plan was made.
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
    /// SHA-256 of the bytes that make up its table.
    pub table: String,
}

/// A structure of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Structure {
    /// The first sector, with the MBR or the protective MBR.
    BootSector,
    /// A record of the chain of logical partitions.
    ExtendedBootRecord,
    /// A place where a GPT header is, or would be.
    GptHeader,
    /// The entries of a GPT.
    GptEntries,
}

impl Structure {
    /// Its name, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BootSector => "the boot sector",
            Self::ExtendedBootRecord => "an extended boot record",
            Self::GptHeader => "a GPT header",
            Self::GptEntries => "the entries of a GPT",
        }
    }

    /// The bytes of `found`, the contents of its place, that make up the table: boot code does not, nor what is where
    /// a header would be.
    pub(crate) fn table(self, found: &[u8]) -> &[u8] {
        match self {
            Self::BootSector => found.get(mbr::ENTRIES_AT..).unwrap_or_default(),
            Self::GptHeader if !has(found, 0, gpt::SIGNATURE) => &[],
            _ => found,
        }
    }
}

/// The largest array of entries, in bytes: the layout crate accepts none that is larger.
pub(crate) const LARGEST_ARRAY: u64 = 8 << 20;

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
            // What a journal wrote where there was nothing is not a table: a move that begins and is cut off must not make
            // this another disk.
            if is_title(&bytes) {
                bytes.fill(0);
            }
            hash.update(bytes);
        }
        Ok(Self { size: medium.len(), sector: block, serial, table: hex(&hash.finalize()) })
    }
}

pub(crate) fn bytes_of(medium: &dyn Medium, span: Span) -> Result<Vec<u8>, ReadError> {
    let len = usize::try_from(span.len().get()).unwrap_or(usize::MAX);
    if ByteOffset::new(medium.len().get()) < span.end() {
        return Err(ReadError::PastEnd { at: span.start(), want: len, len: medium.len().get() });
    }
    let mut bytes = vec![0; len];
    medium.read_at(span.start(), &mut bytes)?;
    Ok(bytes)
}

/// Whether the medium has these bytes at byte `at`.
pub(crate) fn holds(medium: &dyn Medium, at: ByteOffset, bytes: &[u8]) -> Result<bool, ReadError> {
    let mut found = vec![0; bytes.len()];
    medium.read_at(at, &mut found)?;
    Ok(found == bytes)
}

/// Returns the spans of the present table's structures, and of those that a GPT would have.
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
        let mut headers = vec![Lba::new(1), last];
        for at in 0..2 {
            let Some(span) = one(headers[at]).filter(|span| span.end().get() <= medium.len().get()) else {
                continue;
            };
            add(Structure::GptHeader, Some(span));
            let header = bytes_of(medium, span)?;
            if !has(&header, 0, gpt::SIGNATURE) {
                continue;
            }
            let array = u64::from(le32(&header, gpt::header::ENTRY_COUNT))
                .saturating_mul(u64::from(le32(&header, gpt::header::ENTRY_SIZE)));
            if array <= LARGEST_ARRAY {
                let start = Lba::new(le64(&header, gpt::header::ENTRIES_LBA)).to_bytes(block);
                let entries = start.and_then(|start| Span::new(start, ByteCount::new(array)));
                add(Structure::GptEntries, entries);
            }
            headers.push(Lba::new(le64(&header, gpt::header::ALTERNATE_LBA)));
        }
        for other in headers.into_iter().skip(2) {
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
