//! The file that holds an image, with a cache of pages of its tables.

use std::sync::{Mutex, PoisonError};

use straddle_units::ByteOffset;

use super::{Format, ImageError};
use crate::medium::{Medium, ReadError};

/// 512 entries of eight bytes.
const PAGE: u64 = 4096;

/// Two levels of tables, a bitmap, and the previous one of each.
const PAGES: usize = 6;

/// The longest permitted name of a backing file of qcow2 and QED, in bytes.
pub(super) const MAX_NAME: u32 = 1023;

struct Page {
    number: u64,
    bytes: Vec<u8>,
}

pub(super) struct Host {
    format: Format,
    medium: Box<dyn Medium>,
    /// The most recently used page comes first.
    pages: Mutex<Vec<Page>>,
}

impl Host {
    pub(super) fn new(format: Format, medium: Box<dyn Medium>) -> Self {
        Self { format, medium, pages: Mutex::new(Vec::new()) }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn len(&self) -> u64 {
        self.medium.len().get()
    }

    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), ImageError> {
        self.medium.read_at(ByteOffset::new(at), buf).map_err(|source| self.failed(source))
    }

    pub(super) fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N], ImageError> {
        let mut bytes = [0; N];
        let mut rest = bytes.as_mut_slice();
        let mut here = at;
        while !rest.is_empty() {
            let copied = self.with_page(here / PAGE, |page| {
                let from = usize::try_from(here % PAGE).unwrap_or(usize::MAX);
                let have = page.get(from..).unwrap_or_default();
                let copied = have.len().min(rest.len());
                rest[..copied].copy_from_slice(&have[..copied]);
                copied
            })?;
            if copied == 0 {
                let len = self.len();
                return Err(self.failed(ReadError::PastEnd { at: ByteOffset::new(at), want: N, len }));
            }
            rest = &mut rest[copied..];
            here = here.saturating_add(copied as u64);
        }
        Ok(bytes)
    }

    pub(super) fn backing_name(&self, at: u64, len: u32, stated_at: u64) -> Result<Vec<u8>, ImageError> {
        if len > MAX_NAME {
            let what = format!(
                "the name of the backing file is {len} bytes long, but at most {MAX_NAME} are allowed"
            );
            return Err(self.damaged(stated_at, what));
        }
        self.vec(at, u64::from(len))
    }

    pub(super) fn vec(&self, at: u64, len: u64) -> Result<Vec<u8>, ImageError> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.read(at, &mut bytes).map(|()| bytes)
    }

    pub(super) fn be32(&self, at: u64) -> Result<u32, ImageError> {
        self.bytes(at).map(u32::from_be_bytes)
    }

    pub(super) fn be64(&self, at: u64) -> Result<u64, ImageError> {
        self.bytes(at).map(u64::from_be_bytes)
    }

    pub(super) fn le32(&self, at: u64) -> Result<u32, ImageError> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    pub(super) fn le64(&self, at: u64) -> Result<u64, ImageError> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    pub(super) fn damaged(&self, at: impl TryInto<u64>, what: impl Into<String>) -> ImageError {
        ImageError::Damaged { format: self.format, at: byte(at), what: what.into() }
    }

    pub(super) fn unsupported(&self, at: impl TryInto<u64>, what: impl Into<String>) -> ImageError {
        ImageError::Unsupported { format: self.format, at: byte(at), what: what.into() }
    }

    /// Fails at this byte or field if a structure is wrong.
    pub(super) fn damaged_if<W: Into<String>>(
        &self,
        is_wrong: bool,
        at: impl TryInto<u64>,
        what: impl FnOnce() -> W,
    ) -> Result<(), ImageError> {
        if is_wrong { Err(self.damaged(at, what())) } else { Ok(()) }
    }

    pub(super) fn unsupported_if(
        &self,
        is_unknown: bool,
        at: impl TryInto<u64>,
        what: impl FnOnce() -> String,
    ) -> Result<(), ImageError> {
        if is_unknown { Err(self.unsupported(at, what())) } else { Ok(()) }
    }

    fn failed(&self, source: ReadError) -> ImageError {
        ImageError::Read { format: self.format, source: Box::new(source) }
    }

    fn with_page<T>(&self, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<T, ImageError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        match pages.iter().position(|page| page.number == number) {
            Some(0) => {}
            Some(index) => pages[..=index].rotate_right(1),
            None => {
                let at = number.saturating_mul(PAGE);
                let have = self.len().saturating_sub(at).min(PAGE);
                let bytes = self.vec(at, have)?;
                pages.truncate(PAGES - 1);
                pages.insert(0, Page { number, bytes });
            }
        }
        Ok(read(pages.first().map_or(&[], |page| page.bytes.as_slice())))
    }
}

fn byte(at: impl TryInto<u64>) -> ByteOffset {
    ByteOffset::new(at.try_into().unwrap_or(u64::MAX))
}
