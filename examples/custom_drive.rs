//! Describes a drive in TOML and writes to it, aligned and misaligned. `straddle bench random-write
//! drive:./FILE.toml` does the same from the command line.
//!
//!     cargo run --example custom_drive

use std::error::Error;

use straddle_drive::Profile;
use straddle_measure::bench::{Host, Modelled, Pattern, Silent, Workload, run};

/// The profile, which extends a shipped one.
const PROFILE: &str = include_str!("custom_drive.toml");

/// Returns how many sectors the drive had to read to complete 100 writes of 16 KiB at `offset` bytes past its
/// boundaries.
pub(crate) fn reads_caused(offset: u64) -> Result<u64, Box<dyn Error>> {
    let profile = Profile::parse("custom", PROFILE, &[])?;
    let mut drive = Modelled::new("custom", &profile);
    let workload = Workload { count: Some(100), size: 16384, offset, ..Pattern::RANDOM_WRITE.into() };
    let samples = run(&mut drive, &workload, Host::default(), &mut Silent)?;
    Ok(samples.counters.map_or(0, |counters| counters.rmw_reads))
}

fn main() -> Result<(), Box<dyn Error>> {
    for offset in [0, 4096, 8192] {
        println!(
            "{offset:5} bytes past a boundary: {} sectors read to complete 100 writes",
            reads_caused(offset)?
        );
    }
    Ok(())
}
