//! Modelled drives: a profile from arbitrary text, and a few arbitrary requests to the resulting drive.

use straddle_drive::{Drive, Profile};
use straddle_units::io::{Completion, Nanos, Operation, Request};
use straddle_units::{ByteCount, ByteOffset};

/// Bytes of a request in the input.
const REQUEST: usize = 8;
/// The largest number of requests used.
const REQUESTS: usize = 32;
/// The longest request, in logical sectors.
const SECTORS: u64 = 128;
/// More events than these few requests can cause, even with one sector per track.
const EVENTS: u32 = 200_000;

/// The text up to the first zero byte is the profile. Every eight bytes after it are a request: the
/// operation, the pause before it, its length, and its place, in thirds of the capacity.
pub fn drive(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let profile = match Profile::parse("fuzz", text, &[]) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    profile.misreports();
    requests(Drive::new(&profile), data.get(end + 1..).unwrap_or_default());
}

pub(crate) fn requests(mut drive: Drive, data: &[u8]) {
    let (mut done, mut refused, mut submitted) = (Vec::new(), 0, 0);
    let mut events = EVENTS;
    for (id, bytes) in (0..).zip(data.chunks_exact(REQUEST).take(REQUESTS)) {
        let request = request(&drive, id, bytes);
        let at = drive.now() + Nanos::new(1 << (bytes[1] % 32));
        while drive.next_event().is_some_and(|next| next <= at) {
            step(&mut drive, &mut done, &mut events);
        }
        match drive.submit(at, request, &mut done) {
            Ok(()) => submitted += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    while drive.next_event().is_some() {
        step(&mut drive, &mut done, &mut events);
    }
    assert_eq!((drive.outstanding(), done.len()), (0, submitted), "{refused} refused");
    assert!(done.is_sorted_by_key(|completion| completion.at));
    let counters = drive.counters();
    assert_eq!(counters.rmw_reads == 0, counters.rmw_read_bytes == 0);
}

fn step(drive: &mut Drive, done: &mut Vec<Completion>, events: &mut u32) {
    let Some(next) = drive.next_event() else { return };
    assert!(
        next >= drive.now() && *events > 0,
        "at {}, {next} is next; {} outstanding",
        drive.now(),
        drive.outstanding()
    );
    *events -= 1;
    drive.advance(next, done);
}

fn request(drive: &Drive, id: u64, bytes: &[u8]) -> Request {
    let (capacity, logical) = (drive.claims().capacity, drive.claims().logical_sector);
    let operation = match bytes[0] % 8 {
        0..=1 => Operation::Read,
        2..=4 => Operation::Write,
        5 => Operation::WriteFua,
        6 => Operation::Discard,
        _ => return Request::flush(id),
    };
    let length = u64::from(bytes[2]) % SECTORS * logical;
    let near = u64::from(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])) % 4096;
    // Sometimes past the end, or not whole sectors.
    let offset = capacity / logical / 3 * u64::from(bytes[3] % 4) * logical
        + near * (logical / if bytes[3] > 250 { 2 } else { 1 });
    Request::new(id, operation, ByteOffset::new(offset), ByteCount::new(length))
}
