//! Block traces, and DiskSim's parameter sets.

use std::io;

use straddle_drive::{Drive, Profile, disksim};
use straddle_trace::{Options, Reader, replay};

/// Traces with more requests or bytes are only parsed, not replayed: the model's time is not a property of
/// the parsers.
const REPLAYED: u64 = 256;
const REPLAYED_BYTES: u64 = 16 << 20;

/// The lowest bit of the first byte selects wrapping; its other bits are a shift in sectors. The rest is a
/// trace.
pub fn trace(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
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
