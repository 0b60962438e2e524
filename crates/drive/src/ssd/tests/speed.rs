//! The speed of the model. Run with `cargo test --release -p straddle-drive -- --ignored --nocapture speed`.

use super::*;
use straddle_units::io::SplitMix64;
use straddle_units::{ByteCount, ByteOffset};

/// 4 KiB random writes at queue depth 32 on a full 32 GB drive: the most expensive load for the model. The
/// first rounds use up the spare superblocks; the last rounds, in the steady state, are the result.
#[test]
#[ignore = "measures; meaningful only in a release build on a quiet machine"]
fn random_writes_to_a_full_drive() {
    let capacity = 32_000_000_000 / 4096 * 4096;
    let file = FlashFile {
        page_bytes: 32768,
        pages_per_block: 256,
        dies: 16,
        channels: 8,
        buffer_bytes: 16 << 20,
        over_provisioning: 0.145,
        start: FlashStart::InOrder,
        ..small()
    };
    let parameters = SsdParameters::new(&file, capacity).unwrap();
    let mut ssd = Ssd::new(&parameters, link());
    let (mut done, mut random, mut id) = (Vec::new(), SplitMix64::new(1), 0);
    let mut submit = |ssd: &mut Ssd, at| {
        let unit = random.below(capacity / 4096);
        ssd.submit(
            at,
            Request::new(id, Operation::Write, ByteOffset::new(unit * 4096), ByteCount::new(4096)),
        );
        id += 1;
    };
    (0..32).for_each(|_| submit(&mut ssd, Time::ZERO));
    let (mut best, mut before) = (0.0_f64, ssd.record.counters);
    for round in 0..30 {
        let (begun, mut completed) = (std::time::Instant::now(), 0_u32);
        while completed < 500_000 {
            let at = ssd.next_event().unwrap();
            ssd.advance(at, &mut done);
            for _ in done.drain(..) {
                completed += 1;
                submit(&mut ssd, at);
            }
        }
        let rate = f64::from(completed) / begun.elapsed().as_secs_f64() / 1e6;
        let (host, collected) = (
            ssd.record.counters.host_write_bytes - before.host_write_bytes,
            ssd.record.counters.gc_write_bytes - before.gc_write_bytes,
        );
        #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
        let per_byte = collected as f64 / host as f64;
        println!(
            "round {round}: {rate:.3} million writes a second, {per_byte:.2} bytes collected for each written"
        );
        before = ssd.record.counters;
        if round >= 20 {
            best = best.max(rate);
        }
    }
    println!("best of the last ten rounds: {best:.3} million writes a second");
    ssd.assert_consistent();
}
