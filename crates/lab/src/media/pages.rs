//! Contents in memory: pages of 4 KiB, of which only those exist that were written with other bytes than zeroes. A
//! mapped file would take memory for what is only read, and a file in memory a system call for each request.

use std::collections::HashMap;
use std::ops::Range;

const PAGE: usize = 4096;
/// The pages of a table: 2 MiB of contents.
const PAGES: usize = 512;
const TABLE_BYTES: u64 = (PAGES * PAGE) as u64;

type Page = Box<[u8; PAGE]>;

/// A table of pages; absent ones are zeroes.
#[derive(Debug)]
struct PageTable {
    pages: Box<[Option<Page>]>,
    /// How many there are.
    used: usize,
}

/// The pages that are freed before memory is given back to the system: 64 MiB.
const MANY: usize = 16 << 10;

/// The contents of a drive, by the number of their table.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    tables: HashMap<u64, PageTable>,
    /// How many pages were freed since memory was given back.
    freed: usize,
}

struct PagePart {
    table: u64,
    page: usize,
    within: Range<usize>,
    of_span: Range<usize>,
}

/// Divides a span at the bounds of pages.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = PagePart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        // Below 2 MiB, so it fits.
        let in_table = usize::try_from(at % TABLE_BYTES).ok()?;
        let start = in_table % PAGE;
        let taken = (length - done).min(PAGE - start);
        let of_span = done..done + taken;
        done += taken;
        (taken > 0).then(|| PagePart {
            table: at / TABLE_BYTES,
            page: in_table / PAGE,
            within: start..start + taken,
            of_span,
        })
    })
}

impl Pages {
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) {
        for part in parts(offset, buffer.len()) {
            let into = &mut buffer[part.of_span];
            match self.tables.get(&part.table).and_then(|table| table.pages[part.page].as_ref()) {
                Some(page) => into.copy_from_slice(&page[part.within]),
                None => into.fill(0),
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for part in parts(offset, data.len()) {
            let table = self.tables.entry(part.table);
            let table = table.or_insert_with(|| PageTable { pages: vec![None; PAGES].into(), used: 0 });
            let page = table.pages[part.page].get_or_insert_with(|| {
                table.used += 1;
                Box::new([0; PAGE])
            });
            page[part.within].copy_from_slice(&data[part.of_span]);
        }
    }

    /// Makes the span read as zeroes, and frees the pages that it covers.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let whole = offset.div_ceil(TABLE_BYTES)..end / TABLE_BYTES;
        if whole.start >= whole.end {
            self.clear(offset, end);
        } else {
            self.clear(offset, whole.start * TABLE_BYTES);
            self.clear(whole.end * TABLE_BYTES, end);
            self.freed += if whole.end - whole.start > self.tables.len() as u64 {
                let removed = self.tables.extract_if(|table, _| whole.contains(table));
                removed.map(|(_, table)| table.used).sum::<usize>()
            } else {
                whole.filter_map(|table| self.tables.remove(&table)).map(|table| table.used).sum()
            };
        }
        // The allocator would keep it.
        if self.freed >= MANY {
            self.freed = 0;
            trim();
        }
    }

    /// Clears the bytes from `start` to `end`, which lie in at most two tables.
    fn clear(&mut self, start: u64, end: u64) {
        for part in parts(start, usize::try_from(end - start).unwrap_or_default()) {
            let Some(table) = self.tables.get_mut(&part.table) else { continue };
            let page = &mut table.pages[part.page];
            if part.within.len() < PAGE {
                page.iter_mut().for_each(|page| page[part.within.clone()].fill(0));
            } else if page.take().is_some() {
                (table.used, self.freed) = (table.used - 1, self.freed + 1);
                if table.used == 0 {
                    self.tables.remove(&part.table);
                    // A table is as large as a page.
                    self.freed += 1;
                }
            }
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        let pages = self.tables.values().map(|table| table.pages.iter().flatten().count());
        assert_eq!(pages.clone().sum::<usize>(), self.tables.values().map(|table| table.used).sum::<usize>());
        pages.sum()
    }
}

/// Returns freed memory to the system.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "a function of the C library without a safe wrapper")]
fn trim() {
    // SAFETY: malloc_trim(3) takes no pointer, and may be called at any time by any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
const fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: usize = PAGES * PAGE;
    const SIZE: usize = 5 * TABLE;

    /// An operation on the contents: where, how much, and the byte that is written; zero clears.
    fn operation() -> impl Strategy<Value = (usize, usize, u8)> {
        let near = prop_oneof![Just(0), Just(PAGE), Just(TABLE), 0..SIZE];
        let length = prop_oneof![1..9_usize, 1..3 * PAGE, 1..3 * TABLE];
        (near, length, 0..4_u8).prop_map(|(at, length, byte)| {
            let at = at.min(SIZE - 1);
            (at, length.min(SIZE - at), byte)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn pages_hold_what_an_array_holds(operations in prop::collection::vec(operation(), 1..20)) {
            let (mut pages, mut plain) = (Pages::default(), vec![0_u8; SIZE]);
            for (at, length, byte) in operations {
                let span = at..at + length;
                plain[span.clone()].fill(byte);
                match byte {
                    0 => pages.zero(at as u64, length as u64),
                    _ => pages.write(at as u64, &plain[span.clone()]),
                }
                let around = span.start.saturating_sub(PAGE)..(span.end + PAGE).min(plain.len());
                let mut read = vec![9; around.len()];
                pages.read(around.start as u64, &mut read);
                prop_assert!(read == plain[around]);
            }
            let mut read = vec![9; plain.len()];
            pages.read(0, &mut read);
            prop_assert!(read == plain);
            // No page is missing, and one that is only zeroes may remain only where it was cleared in parts.
            prop_assert!(plain.chunks(PAGE).filter(|page| page.iter().any(|byte| *byte != 0)).count() <= pages.count());
        }
    }

    #[test]
    fn cleared_pages_take_no_memory_and_neither_do_reads() {
        let mut pages = Pages::default();
        pages.read(1 << 60, &mut [1; 10_000]);
        assert_eq!(pages.count(), 0);
        pages.write(1 << 60, &[1; 10_000]);
        assert_eq!(pages.count(), 3);
        pages.zero((1 << 60) + 1, 8191);
        assert_eq!(pages.count(), 2, "the page between");
        pages.zero(1 << 40, u64::MAX - (1 << 40));
        assert_eq!(pages.count(), 0);
        assert!(pages.tables.is_empty());
    }
}
