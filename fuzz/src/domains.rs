//! Descriptions of virtual machines.

use straddle_device::domain::{Domain, Storage};

/// A domain's XML.
pub fn domain(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let domain = match Domain::parse(text) {
        Ok(domain) => domain,
        Err(error) => {
            let lines = text.matches('\n').count() as u64 + 1;
            assert!((1..=lines).contains(&error.line) && error.at <= text.len() as u64, "{error}");
            return;
        }
    };
    assert!(!domain.name.is_empty() && domain.disks.len() <= data.len());
    for disk in &domain.disks {
        assert!(disk.backing.iter().all(|path| path.is_absolute()));
        if let Storage::Path { path, .. } = &disk.storage {
            assert!(path.is_absolute());
        }
        if let Some(shown) = disk.shown {
            let physical = shown.physical.get();
            assert!(physical.is_power_of_two() && physical >= shown.logical.get());
        }
    }
}
