//! The tables of device-mapper devices: DM_TABLE_STATUS of `linux/dm-ioctl.h`. Keys that the kernel prints
//! are blanked before a table is returned, and the buffer that held them is overwritten.

use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, opcode};

use super::{IoctlError, Meant, call};

const WHAT: &str = "DM_TABLE_STATUS";

/// `sizeof(struct dm_ioctl)`.
const HEADER: usize = 312;
/// Offsets of `version` (three numbers), `data_size`, `data_start`, `target_count`, `flags`, `dev`.
const VERSION: usize = 0;
const DATA_SIZE: usize = 12;
const DATA_START: usize = 16;
const TARGET_COUNT: usize = 20;
const FLAGS: usize = 28;
const DEV: usize = 40;

/// `sizeof(struct dm_target_spec)`, and the offsets of `length`, `next`, `target_type`.
const SPEC: usize = 40;
const LENGTH: usize = 8;
const NEXT: usize = 20;
const TYPE: std::ops::Range<usize> = 24..40;

/// Every minor version from 0 on supports the request.
const MAJOR_VERSION: u32 = 4;
/// DM_SECURE_DATA_FLAG: the kernel wipes its copy of the answer, which for dm-crypt may hold a key.
const SECURE_DATA: u32 = 1 << 15;
/// DM_STATUS_TABLE_FLAG: return the table, not the status.
const STATUS_TABLE: u32 = 1 << 4;
/// DM_BUFFER_FULL_FLAG: the answer did not fit.
const BUFFER_FULL: u32 = 1 << 8;
/// DM_NOFLUSH_FLAG: do not flush anything for the answer.
const NOFLUSH: u32 = 1 << 11;

const DM_TABLE_STATUS: Opcode = opcode::read_write::<[u8; HEADER]>(0xfd, 12);

const FIRST_BUFFER: usize = 16 * 1024;
const LARGEST_BUFFER: usize = 1024 * 1024;

pub(crate) const MAX_TARGETS: usize = 4096;

/// As `dmsetup table` prints it, without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableLine {
    /// In sectors of 512 bytes, as the length.
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) kind: String,
    /// With `-` for every key.
    pub(crate) parameters: String,
}

impl TableLine {
    pub(crate) fn new(start: u64, length: u64, kind: &str, parameters: &str) -> Self {
        Self { start, length, kind: kind.to_owned(), parameters: without_keys(kind, parameters) }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim().splitn(4, ' ');
        let (start, length) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self::new(start, length, words.next()?, words.next().unwrap_or_default()))
    }
}

/// Replaces by `-` the key of crypt, and in integrity's options with a key, everything after the algorithm.
fn without_keys(kind: &str, parameters: &str) -> String {
    const WITH_KEY: [&str; 3] = ["internal_hash:", "journal_crypt:", "journal_mac:"];
    let blanked = parameters.split_whitespace().enumerate().map(|(index, word)| match kind {
        "crypt" if index == 1 => "-".to_owned(),
        "integrity" if WITH_KEY.iter().any(|option| word.starts_with(option)) => {
            let mut parts = word.splitn(3, ':');
            let (option, algorithm) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let key = if parts.next().is_some() { ":-" } else { "" };
            format!("{option}:{algorithm}{key}")
        }
        _ => word.to_owned(),
    });
    blanked.collect::<Vec<String>>().join(" ")
}

/// `control` is /dev/mapper/control. Needs `CAP_SYS_ADMIN`.
pub(crate) fn table(control: impl AsFd, major: u32, minor: u32) -> Result<Vec<TableLine>, IoctlError> {
    let control = control.as_fd();
    let mut size = FIRST_BUFFER;
    loop {
        let mut buffer = request(size, major, minor);
        // SAFETY: DM_TABLE_STATUS takes a dm_ioctl whose `data_size` is the size of the whole buffer, which
        // is the slice's length. It reads and writes within that, and every byte value is valid.
        let answer = unsafe {
            call(control, Meant::BlockOrCharacter, WHAT, DM_TABLE_STATUS, Some(buffer.as_mut_slice()))
        };
        let full = number(&buffer, FLAGS).is_some_and(|flags| flags & BUFFER_FULL != 0);
        let lines = answer.map(|_| lines(&buffer));
        // A dm-crypt table contains its key.
        buffer.fill(0);
        std::hint::black_box(&buffer);
        match lines {
            Ok(_) if full && size < LARGEST_BUFFER => size *= 8,
            Ok(_) if full => {
                let source = io::Error::other("the table is too long");
                return Err(IoctlError::Os { what: WHAT, source });
            }
            other => return other,
        }
    }
}

fn request(size: usize, major: u32, minor: u32) -> Vec<u8> {
    let mut buffer = vec![0; size.max(HEADER)];
    let mut put = |at: usize, value: u32| buffer[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(VERSION, MAJOR_VERSION);
    put(DATA_SIZE, u32::try_from(size).unwrap_or(u32::MAX));
    put(DATA_START, u32::try_from(HEADER).unwrap_or(u32::MAX));
    put(FLAGS, STATUS_TABLE | NOFLUSH | SECURE_DATA);
    // huge_encode_dev, include/linux/kdev_t.h.
    let dev = u64::from((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12));
    buffer[DEV..DEV + 8].copy_from_slice(&dev.to_ne_bytes());
    buffer
}

fn number(buffer: &[u8], at: usize) -> Option<u32> {
    buffer.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

fn long(buffer: &[u8], at: usize) -> Option<u64> {
    buffer.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// Not copied, because it may contain a key.
fn text(field: &[u8]) -> Cow<'_, str> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end])
}

/// Up to the first malformed line.
fn lines(buffer: &[u8]) -> Vec<TableLine> {
    let count = number(buffer, TARGET_COUNT).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let start = number(buffer, DATA_START).and_then(|start| usize::try_from(start).ok());
    let data = start.and_then(|start| buffer.get(start..)).unwrap_or(&[]);
    // In an answer, `next` counts from the first target.
    let next = |at: &usize| number(data, at + NEXT).and_then(|next| usize::try_from(next).ok());
    let starts = std::iter::successors(Some(0), |at| next(at).filter(|next| next > at));
    let line = |at: usize| {
        let spec = data.get(at..)?;
        let parameters = text(spec.get(SPEC..)?);
        Some(TableLine::new(long(spec, 0)?, long(spec, LENGTH)?, &text(&spec[TYPE]), &parameters))
    };
    starts.map_while(line).take(count.min(MAX_TARGETS)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_request_is_that_of_the_kernel() {
        assert_eq!(DM_TABLE_STATUS, 0xc138_fd0c);
        let buffer = request(FIRST_BUFFER, 253, 0x1_23);
        assert_eq!(long(&buffer, DEV), Some(0x10_fd23));
    }

    #[test]
    fn keys_are_blanked() {
        let line = |text| TableLine::parse(text).unwrap().parameters;
        let key = "5f".repeat(64);
        let crypt = format!("0 100 crypt aes-xts-plain64 {key} 0 8:1 32768 1 sector_size:4096");
        assert_eq!(line(&crypt), "aes-xts-plain64 - 0 8:1 32768 1 sector_size:4096");
        let ring = "0 100 crypt aes-xts-plain64 :64:logon:cryptsetup:abc-d0 0 8:1 32768";
        assert_eq!(line(ring), "aes-xts-plain64 - 0 8:1 32768");
        let integrity = "0 9 integrity 8:1 0 32 J 2 internal_hash:hmac(sha256):c0ffee block_size:4096";
        assert_eq!(line(integrity), "8:1 0 32 J 2 internal_hash:hmac(sha256):- block_size:4096");
        assert_eq!(
            line("0 9 integrity 8:1 0 4 J 1 internal_hash:crc32c"),
            "8:1 0 4 J 1 internal_hash:crc32c"
        );
    }

    /// Builds an answer with these lines, laid out as the kernel does.
    fn answer(lines: &[(u64, u64, &str, &str)]) -> Vec<u8> {
        let mut buffer = request(FIRST_BUFFER, 253, 0);
        buffer[TARGET_COUNT..TARGET_COUNT + 4]
            .copy_from_slice(&u32::try_from(lines.len()).unwrap().to_ne_bytes());
        let mut at = HEADER;
        for (start, length, kind, parameters) in lines {
            buffer[at..at + 8].copy_from_slice(&start.to_ne_bytes());
            buffer[at + LENGTH..at + LENGTH + 8].copy_from_slice(&length.to_ne_bytes());
            buffer[at + TYPE.start..at + TYPE.start + kind.len()].copy_from_slice(kind.as_bytes());
            buffer[at + SPEC..at + SPEC + parameters.len()].copy_from_slice(parameters.as_bytes());
            let next = (at + SPEC + parameters.len() + 1 - HEADER).next_multiple_of(8);
            buffer[at + NEXT..at + NEXT + 4].copy_from_slice(&u32::try_from(next).unwrap().to_ne_bytes());
            at = HEADER + next;
        }
        buffer
    }

    #[test]
    fn an_answer_is_read() {
        let read = lines(&answer(&[(0, 2048, "linear", "8:1 2048"), (2048, 8, "error", "")]));
        let expected = [TableLine::new(0, 2048, "linear", "8:1 2048"), TableLine::new(2048, 8, "error", "")];
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn no_answer_panics(mut buffer in proptest::collection::vec(any::<u8>(), 0..2048), count in 0u32..9, start in 0u32..600) {
            if buffer.len() > 24 {
                buffer[DATA_START..DATA_START + 4].copy_from_slice(&start.to_ne_bytes());
                buffer[TARGET_COUNT..TARGET_COUNT + 4].copy_from_slice(&count.to_ne_bytes());
            }
            prop_assert!(lines(&buffer).len() <= 9);
        }
    }
}
