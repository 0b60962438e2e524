//! Audits a disk image and prints its findings:
//!
//!     cargo run --example audit_image -- disk.img

use std::error::Error;
use std::path::Path;

use straddle_audit::{Context, Finding};
use straddle_device::Options;

/// Everything that is misaligned, damaged or worth knowing on the disk in `path`.
pub(crate) fn audit(path: &Path) -> Result<Vec<Finding>, Box<dyn Error>> {
    let mut target = straddle_device::open(path, &Options::default())?;
    let medium = target.medium.as_deref().ok_or("its bytes cannot be read")?;
    let stack = straddle_layout::read_all(medium, None, None)?;
    target.topology.adopt_table_block(stack.block);
    let name = path.display().to_string();
    Ok(straddle_audit::run(&Context {
        target: &name,
        file: &name,
        is_image: true,
        kind: target.kind,
        size: target.size,
        topology: &target.topology,
        model: None,
        stack: &stack,
        container: target.container.as_ref(),
        disagreements: &[],
        page: None,
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: audit_image IMAGE")?;
    for finding in audit(Path::new(&path))? {
        println!("{} {:?}: {}", finding.rule.code, finding.severity, finding.message);
    }
    Ok(())
}
