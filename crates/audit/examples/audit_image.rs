//! Audits a disk image and prints its findings:
//!
//!     cargo run --example audit_image -- disk.img

use std::error::Error;
use std::path::Path;

use straddle_audit::examine::{Examined, Examiner, Options};

/// Examines the disk image in `path`: everything misaligned, damaged or worth knowing.
pub(crate) fn audit(path: &Path) -> Result<Examined, Box<dyn Error>> {
    Ok(Examiner::new(Options::default()).examine(path)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: audit_image IMAGE")?;
    for finding in audit(Path::new(&path))?.findings() {
        println!("{} {:?}: {}", finding.rule.code, finding.severity, finding.message);
    }
    Ok(())
}
