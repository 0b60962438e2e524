//! A page of the kernel's ring buffer (`kernel/trace/ring_buffer.c`): events, each with the time since the one before it.
//! The first word of each has its type in five bits, and a time in 27.
//!
//! | type | event |
//! |---|---|
//! | 0 | its length is in the next four bytes, and counts them |
//! | 1–28 | its data are four times as many bytes |
//! | 29 | no event: the end of the page, or a gap of the length in the next four bytes |
//! | 30 | the time goes on by the next four bytes, shifted by 27, and the time |
//! | 31 | the same as an absolute time, without its highest five bits |

use straddle_units::io::Nanos;

use crate::tracefs::error::PageError;
use crate::tracefs::layout::PageLayout;

/// Bits of a time in the first word.
const TIME_BITS: u32 = 27;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits of a time that an absolute one lacks.
const HIGHEST: u64 = 0xf8 << 56;
/// The bits of `commit` for the number of bytes, and its flags (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`).
const COMMIT: u64 = (1 << TIME_BITS) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Events that were overwritten before this page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    None,
    /// The page does not give their number.
    Some,
    /// This number.
    Count(u64),
}

/// Calls `each` with the time and the data of every event of a page.
pub fn walk(
    page: &[u8],
    layout: &PageLayout,
    mut each: impl FnMut(Nanos, &[u8]),
) -> Result<Missed, PageError> {
    let mut time = layout.time.number(page).ok_or(PageError::Short { bytes: page.len() })?;
    let commit = layout.commit.number(page).ok_or(PageError::Short { bytes: page.len() })?;
    let length = usize::try_from(commit & COMMIT).unwrap_or(usize::MAX);
    let end = layout.data.checked_add(length).filter(|end| *end <= page.len());
    let end = end.ok_or(PageError::Long { bytes: commit & COMMIT })?;
    let data = page.get(..end).unwrap_or_default();
    let mut at = layout.data;
    while at < end {
        let wrong = PageError::Event { byte: at };
        let (kind, delta) = split(word(data, at).ok_or(wrong)?);
        let from = at + 4;
        let next = || word(data, from).ok_or(wrong);
        let mut event = None;
        let behind = match kind {
            PADDING if delta == 0 => break,
            PADDING => from.checked_add(next()? as usize),
            TIME_EXTEND => {
                time = time.wrapping_add(u64::from(next()?) << TIME_BITS);
                Some(from + 4)
            }
            TIME_STAMP => {
                time = (u64::from(next()?) << TIME_BITS | u64::from(delta)) & !HIGHEST | time & HIGHEST;
                Some(from + 4)
            }
            0 => {
                let behind = from.checked_add(next()? as usize);
                event = Some(from + 4);
                behind
            }
            words => {
                event = Some(from);
                Some(from + 4 * words as usize)
            }
        };
        if kind != TIME_STAMP {
            time = time.wrapping_add(delta.into());
        }
        let behind = behind.filter(|behind| *behind <= end && *behind > at).ok_or(wrong)?;
        if let Some(from) = event {
            each(Nanos::new(time), data.get(from..behind).ok_or(wrong)?);
        }
        at = behind;
    }
    Ok(missed(page, commit, end))
}

fn missed(page: &[u8], commit: u64, end: usize) -> Missed {
    if commit & MISSED == 0 {
        return Missed::None;
    }
    let stored =
        || page.get(end..end.checked_add(size_of::<usize>())?)?.try_into().ok().map(usize::from_ne_bytes);
    match stored().filter(|_| commit & MISSED_STORED != 0) {
        Some(count) => Missed::Count(count as u64),
        None => Missed::Some,
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Splits the first word of an event into its type and its time: C lays bits out in the order of bytes.
const fn split(word: u32) -> (u32, u32) {
    if cfg!(target_endian = "little") {
        (word & 0x1f, word >> 5)
    } else {
        (word >> TIME_BITS, word & ((1 << TIME_BITS) - 1))
    }
}
