//! Block traces, and DiskSim's parameter sets.

use std::io::{self, Read};

use straddle_drive::{Drive, Profile, disksim};
use straddle_trace::{Account, Options, Order, Reader, UNITS, replay, unpacked};

/// Traces with more requests or bytes are only parsed, not replayed: the model's time is not a property of
/// the parsers.
const REPLAYED: u64 = 256;
const REPLAYED_BYTES: u64 = 16 << 20;
/// The most that is read of a packed trace.
const UNPACKED: u64 = 1 << 20;

/// The figures of a trace, packed or not, are those of its requests one by one.
fn counted(data: &[u8]) {
    let Ok(input) = unpacked(data) else { return };
    let mut reader = Reader::new(input.take(UNPACKED), "fuzz", None).ordered(Order::Any);
    let mut account = Account::new();
    if account.read(&mut reader).is_err() {
        return;
    }
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
    let (mut reader, mut count, mut bytes, mut before) = (Reader::new(data, "fuzz", None), 0, 0_u64, None);
    loop {
        match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => {
                count += 1;
                assert!(before.is_none_or(|(line, arrival)| line < record.line && arrival <= record.arrival));
                before = Some((record.line, record.arrival));
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
    let profile = Profile::open("wd10ears").expect("it is shipped");
    let options = Options { shift: u64::from(flags >> 1) * 512, wrap: flags & 1 != 0, ..Options::default() };
    let mut done = 0;
    match replay(&profile, &mut Reader::new(data, "fuzz", None), &options, &mut |_| done += 1) {
        Ok(replayed) => assert_eq!((replayed.requests, done), (count, count)),
        Err(error) => assert!(error.to_string().starts_with("fuzz")),
    }
}

/// The `.diskspecs`, the `.model`, the `.seek` and the `.parv`, then requests as in `drive`, separated by
/// zero bytes.
pub fn disksim(data: &[u8]) {
    let mut parts = data.splitn(5, |byte| *byte == 0);
    let mut text = || parts.next().map(|part| String::from_utf8_lossy(part).into_owned());
    let files = [("diskspecs", text()), ("model", text()), ("seek", text()), ("parv", text())];
    let read = |name: &str| {
        assert!(!name.contains('/'), "no other folder is looked into");
        let ending = name.rsplit('.').next().unwrap_or_default();
        let file = files.iter().find(|(known, _)| *known == ending).and_then(|(_, text)| text.clone());
        file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    match disksim::import("fuzz", &read) {
        Ok(profile) => crate::drive::requests(Drive::new(&profile), parts.next().unwrap_or_default()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
