//! Counts what the writes of traces do to units of 4 KiB and 16 KiB: `cargo run --release --example count -- FILE…`.

use std::fs::File;

use straddle_trace::{Account, How, Input, Reader};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let how = How { timed: false, ..How::default() };
    let mut account = Account::new();
    for path in std::env::args().skip(1) {
        account.read(Reader::open(Input::File(File::open(&path)?), &path, &how)?, None)?;
    }
    let writes = account.total().writes;
    for unit in [8, 32] {
        if let Some(effect) = writes.effects(unit).map(|effects| effects.started_at(0)) {
            let (requests, misaligned) = (effect.requests, effect.misaligned);
            println!("units of {} KiB: {misaligned} of {requests} writes are misaligned", unit / 2);
        }
    }
    Ok(())
}
