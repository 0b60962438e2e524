//! Measures what misaligned writes cost on a modelled drive, in virtual time:
//!
//!     cargo run --example bench_model -- wd10ears

use std::error::Error;

use straddle_drive::Profile;
use straddle_measure::bench::{Host, Modelled, Pattern, Silent, Sweep, WarmUp, Workload, sweep};

/// Runs 300 random 4 KiB writes at each of three distances from a sector boundary, each on a new drive.
pub(crate) fn measure(drive: &str) -> Result<Sweep, Box<dyn Error>> {
    let profile = Profile::open(drive)?;
    let workload = Workload { count: Some(300), ..Pattern::RANDOM_WRITE.into() };
    let fresh = || Modelled::new(drive, &profile);
    Ok(sweep(fresh, &workload, &[0, 1, 7], Host::default(), WarmUp::Runs(0), &mut Silent)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let drive = std::env::args().nth(1).unwrap_or_else(|| "wd10ears".to_owned());
    let sweep = measure(&drive)?;
    for arm in sweep.arms() {
        let ratio = sweep.ratio(arm).value;
        println!("offset {}: {:6.1} writes/s, {ratio:.2} times the time of the best", arm.offset, arm.iops());
    }
    Ok(())
}
