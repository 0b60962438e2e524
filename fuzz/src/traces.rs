//! Block traces.

use std::fs::File;
use std::io::{Cursor, Read, Write};

use straddle_drive::Profile;
use straddle_trace::{
    Account, Columns, Format, How, Input, Options, Reader, Target, UNITS, Window, Writer, replay, unpacked,
};
use straddle_units::io::Nanos;

/// Traces with more requests or bytes are only parsed, not replayed: the model's time is not a property of
/// the parsers.
const REPLAYED: u64 = 256;
const REPLAYED_BYTES: u64 = 16 << 20;
/// The most that is read of a packed trace.
const UNPACKED: u64 = 1 << 20;

fn any() -> How {
    How::default()
}

/// The figures of a trace, packed or not, are those of its requests one by one; written as comma-separated values it has
/// the same.
fn counted(data: &[u8]) {
    let Ok(input) = unpacked(data) else { return };
    let reader = Reader::new(input.take(UNPACKED), "fuzz", &any());
    let mut account = Account::new();
    let mut writer = Writer::new(Target::Csv, Vec::new(), "csv").expect("in memory");
    let mut is_written = true;
    let read = account.read_with(reader, None, &mut |records, volumes| {
        is_written &= writer.write(records, volumes).is_ok();
        Ok(())
    });
    if read.is_err() {
        return;
    }
    figures(&account);
    if is_written {
        let (csv, _) = writer.finish().expect("in memory");
        let mut again = Account::new();
        again.read(Reader::new(csv.as_slice(), "csv", &any()), None).expect("what was written");
        assert!(again.volumes().eq(account.volumes()));
    }
}

/// What is left behind a window is no more than without it.
fn merged(data: &[u8], how: &How) {
    let window = Window { within: Nanos::new(1_000_000), units: vec![1, 8, 2048], start: 63 };
    let mut account = Account::new();
    if account.read(Reader::new(data, "fuzz", how), Some(&window)).is_err() {
        return;
    }
    let total = account.total();
    for coalesced in &total.coalesced {
        let alone =
            total.writes.effects(coalesced.unit).expect("it is one of the sizes").started_at(window.start);
        assert!(u128::from(coalesced.written) <= alone.touched && coalesced.partial <= coalesced.written);
    }
}

fn figures(account: &Account) {
    let total = account.total();
    for histogram in [&total.reads, &total.writes, &total.discards] {
        for unit in UNITS {
            let effects = histogram.effects(unit).expect("it is one of the sizes");
            let (_, best) = effects.best();
            for effect in [effects.started_at(0), effects.started_at(63), best] {
                assert_eq!((effect.requests, effect.sectors), (histogram.requests(), histogram.sectors()));
                assert!(effect.straddling <= effect.misaligned && effect.misaligned <= effect.requests);
                assert!(effect.partial <= 2 * effect.requests && best.partial <= effect.partial);
                assert!(effect.touched * u128::from(unit) >= effect.sectors);
            }
        }
        let sectors = histogram.effects(1).expect("it is one of the sizes").started_at(0);
        assert_eq!((sectors.touched, sectors.partial), (histogram.sectors(), 0));
    }
}

/// The lowest bit of the first byte selects wrapping; its other bits are a shift in sectors. The rest is a
/// trace.
pub fn trace(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    counted(data);
    let usual = How::default();
    let (mut reader, mut count, mut bytes, mut before) = (Reader::new(data, "fuzz", &usual), 0, 0_u64, None);
    loop {
        match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => {
                count += 1;
                assert!(before.is_none_or(|arrival| arrival <= record.arrival));
                before = Some(record.arrival);
                bytes = bytes.saturating_add(record.length);
            }
            Err(error) => {
                assert!(error.to_string().starts_with("fuzz"));
                break;
            }
        }
    }
    if count > REPLAYED || bytes > REPLAYED_BYTES {
        return;
    }
    merged(data, &any());
    let profile = Profile::open("wd10ears").expect("it is shipped");
    let options = Options { shift: u64::from(flags >> 1) * 512, wrap: flags & 1 != 0, ..Options::default() };
    let mut done = 0;
    match replay(&profile, &mut Reader::new(data, "fuzz", &usual), &options, &mut |_| done += 1) {
        Ok(replayed) => assert_eq!((replayed.requests, done + replayed.ignored), (count, count)),
        Err(error) => assert!(error.to_string().starts_with("fuzz")),
    }
}

/// The first byte selects how the rest is read: as text with columns by number or as blktrace's files, of which the
/// second byte says where the second one begins, in records.
pub fn mapped_trace(data: &[u8]) {
    let [kind, at, data @ ..] = data else { return };
    if kind & 1 == 0 {
        let map: Columns =
            "time=1:us,op=2:0/1/2/3,offset=3:sectors,length=4,volume=6".parse().expect("a map");
        let how = How { columns: map, format: Some(Format::Csv), ..any() };
        let mut account = Account::new();
        if account.read(Reader::new(data, "fuzz", &how), None).is_ok() {
            figures(&account);
        }
        return;
    }
    let (first, second) = data.split_at((usize::from(*at) * 48).min(data.len()));
    let input = |part: &[u8]| Input::Stream(Box::new(Cursor::new(part.to_vec())));
    let files = vec![("a".to_owned(), input(first)), ("b".to_owned(), input(second))];
    let mut merged = Account::new();
    let read = Reader::merged(files, "fuzz", &any()).and_then(|reader| merged.read(reader, None));
    let mut untimed = Account::new();
    let how = How { timed: false, format: Some(Format::Blktrace), ..any() };
    let mut count = |part: &&[u8]| untimed.read(Reader::new(*part, "fuzz", &how), None).map(drop);
    let alone = [first, second].iter().try_for_each(&mut count);
    if read.is_ok() {
        figures(&merged);
        assert!(alone.is_err() || untimed.volumes().eq(merged.volumes()));
    }
}

/// The bytes are a Parquet file, in which all columns have their usual names.
pub fn table(data: &[u8]) {
    let open = |how: &How| {
        let path = std::env::temp_dir().join(format!("straddle-fuzz-{}", std::process::id()));
        File::create(&path).and_then(|mut file| file.write_all(data)).expect("a file");
        let file = File::open(&path).expect("a file");
        std::fs::remove_file(&path).expect("it is there");
        Reader::open(Input::File(file), "fuzz", how)
    };
    let accounts = [false, true].map(|timed| {
        let how = How { timed, format: Some(Format::Parquet), ..any() };
        let mut account = Account::new();
        open(&how).and_then(|reader| account.read(reader, None)).is_ok().then_some(account)
    });
    if let [Some(plain), Some(timed)] = &accounts {
        figures(plain);
        assert!(plain.volumes().eq(timed.volumes()));
    }
}
