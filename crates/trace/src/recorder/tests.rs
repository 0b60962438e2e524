//! Recordings, read back.

use proptest::prelude::*;

use super::*;
use crate::format::How;
use crate::format::blkparse::operation as operation_of_letters;
use crate::origin::{Partition, Recorded};
use crate::reader::Reader;
use crate::record::Record;

const SDB: u32 = 8 << 20 | 16;
const SDC: u32 = 8 << 20 | 32;

fn drive(volume: &str) -> Recorded {
    Recorded { volume: volume.to_owned(), capacity: Some(1 << 30), ..Recorded::default() }
}

fn origin() -> Origin {
    let partition = Partition { device: "/dev/sdc1".to_owned(), start: 32_256, length: 1 << 20 };
    Origin {
        recorder: Some("straddle 0.1.0".to_owned()),
        clock: Some("mono".to_owned()),
        drives: vec![drive("sdb"), Recorded { partition: Some(partition), ..drive("sdc") }],
        requests: None,
        lost_events: None,
    }
}

fn recorder() -> Recorder<Vec<u8>> {
    Recorder::new(Vec::new(), origin(), &[SDB, SDC], Nanos::new(5), Duration::new(7, 8)).unwrap()
}

fn happened(event: Event, time: u64, operation: Operation, sector: u64, bytes: u32) -> Happened {
    Happened {
        event,
        time: Nanos::new(time),
        device: SDB,
        marks: Marks::of(operation),
        sector,
        bytes,
        error: 0,
        process: 42,
        name: Some(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        processor: 1,
    }
}

fn read(bytes: &[u8], event: Event) -> (Vec<Record>, Vec<String>, Option<Origin>) {
    let mut reader = Reader::new(bytes, "recorded", &How { event, ..How::default() });
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push(record);
    }
    (records, reader.volumes().to_vec(), reader.origin().cloned())
}

#[test]
fn both_times_of_a_request_are_read_back_with_the_names_of_the_drives() {
    let mut recorder = recorder();
    recorder.add(happened(Event::Issue, 1000, Operation::WriteFua, 63, 4096)).unwrap();
    recorder.add(happened(Event::Complete, 3000, Operation::WriteFua, 63, 4096)).unwrap();
    let other =
        Happened { device: SDC, processor: 0, ..happened(Event::Issue, 2000, Operation::Flush, 0, 0) };
    recorder.add(other).unwrap();
    recorder.finish(3).unwrap();
    assert_eq!(recorder.asked().requests.count(), 2);
    let bytes = recorder.into_inner();
    let (records, volumes, read_origin) = read(&bytes, Event::Issue);
    assert_eq!(volumes, ["sdb", "sdc"]);
    let seen: Vec<_> =
        records.iter().map(|one| (one.volume, one.time.get(), one.operation, one.offset)).collect();
    assert_eq!(seen, [(0, 1000, Operation::WriteFua, 63 * 512), (1, 2000, Operation::Flush, 0)]);
    assert_eq!(read_origin, Some(Origin { requests: Some(2), lost_events: Some(3), ..origin() }));
    let (done, _, _) = read(&bytes, Event::Complete);
    assert_eq!((done.len(), done[0].time.get()), (1, 3000));
}

#[test]
fn what_was_not_finished_is_cut_off() {
    let mut recorder = recorder();
    recorder.add(happened(Event::Issue, 1000, Operation::Read, 8, 512)).unwrap();
    recorder.add(happened(Event::Issue, 2000, Operation::Read, 8, 512)).unwrap();
    recorder.settle(Nanos::new(1500)).unwrap();
    let (records, _, origin) = read(&recorder.into_inner(), Event::Issue);
    assert_eq!((records.len(), origin.unwrap().is_cut_off()), (1, true));
}

#[test]
fn a_process_is_named_when_its_name_is_new() {
    let names = |processes: &[(u32, &[u8; 16])]| {
        let mut recorder = recorder();
        for (time, (process, name)) in (10..).zip(processes) {
            let issue = happened(Event::Issue, time, Operation::Read, 8, 512);
            recorder.add(Happened { process: *process, name: Some(**name), ..issue }).unwrap();
        }
        recorder.settle(Nanos::new(u64::MAX)).unwrap();
        let bytes = recorder.into_inner();
        [b"aaaaaaaaaaaaaaaa", b"bbbbbbbbbbbbbbbb"]
            .map(|name| bytes.windows(16).filter(|some| some == name).count())
    };
    let (a, b) = (b"aaaaaaaaaaaaaaaa", b"bbbbbbbbbbbbbbbb");
    assert_eq!(names(&[(1, a), (1, a), (2, b), (1, a)]), [1, 1]);
    // It has become another program; and process 257 shares its place with process 1.
    assert_eq!(names(&[(1, a), (1, b), (1, a)]), [2, 1]);
    assert_eq!(names(&[(1, a), (257, b), (1, a)]), [2, 1]);
}

#[test]
fn letters_mean_what_they_do_in_the_text_formats() {
    for letters in [
        "R", "RA", "RSM", "W", "WS", "WFS", "FWFS", "FWS", "D", "DS", "FF", "F", "FS", "FN", "N", "NS", "DE",
        "",
    ] {
        for sectors in [0, 8] {
            let marks = Marks::of_letters(letters.as_bytes(), sectors);
            let bytes = u32::try_from(sectors * 512).unwrap();
            let ours = format::operation(marks.0, bytes).filter(|_| marks.0 & format::DEVICE_COMMAND == 0);
            let theirs = match operation_of_letters(letters) {
                // A request without sectors is a flush if it has the letter, and otherwise none.
                _ if sectors == 0 && letters.starts_with('F') => Some(Operation::Flush),
                Some(Operation::Discard) => Some(Operation::Discard),
                _ if sectors == 0 => None,
                // Zeroes are written without data, which text formats do not count.
                None => Some(Operation::Write),
                Some(Operation::Flush) => continue,
                known => known,
            };
            assert_eq!(ours, theirs, "{letters} of {sectors} sectors");
        }
        let padded = [letters.as_bytes(), &[0, b'x', 0]].concat();
        assert_eq!(Marks::of_letters(&padded, 8), Marks::of_letters(letters.as_bytes(), 8));
    }
}

proptest! {
    #[test]
    fn late_events_are_put_in_order_and_none_is_lost(
        times in prop::collection::vec((0_u64..5000, 0_u32..4, 1_u32..64), 1..200), settled in 0_u64..6000,
    ) {
        let mut recorder = recorder();
        for (index, (time, processor, sectors)) in times.iter().enumerate() {
            if index == times.len() / 2 {
                // What is settled does not come later.
                recorder.settle(Nanos::new(settled)).unwrap();
            }
            let time = if index >= times.len() / 2 { time + settled } else { *time };
            let event = happened(Event::Issue, time, Operation::Write, time, sectors * 512);
            recorder.add(Happened { processor: *processor, ..event }).unwrap();
        }
        recorder.finish(0).unwrap();
        let bytes = recorder.asked().requests.write_bytes;
        let (records, _, _) = read(&recorder.into_inner(), Event::Issue);
        prop_assert_eq!(records.len(), times.len());
        prop_assert!(records.windows(2).all(|pair| pair[0].time <= pair[1].time));
        prop_assert_eq!(records.iter().map(|record| record.length).sum::<u64>(), bytes);
    }

    #[test]
    fn damaged_recordings_never_panic(at in prop::collection::vec((0_usize..2000, any::<u8>()), 1..30), cut in 0_usize..2000) {
        let mut recorder = recorder();
        for time in 0..20 {
            recorder.add(happened(Event::Issue, time, Operation::Write, 63, 4096)).unwrap();
        }
        recorder.finish(0).unwrap();
        let mut bytes = recorder.into_inner();
        let length = bytes.len();
        at.iter().for_each(|(at, byte)| bytes[at % length] = *byte);
        for some in [&bytes[..], &bytes[..cut % length]] {
            let how = How::default();
            let mut reader = Reader::new(some, "damaged", &how);
            while let Ok(Some(_)) = reader.next_record() {}
            let _ = reader.origin();
        }
    }
}
