//! Devices that are unplugged while they are being read.

use std::path::Path;
use std::thread;
use std::time::Duration;

use straddle_device::Target;

use crate::examine::Options;

/// Returns the device's node if the kernel no longer has the device.
pub(crate) fn gone<'a>(target: &'a Target, options: &Options) -> Option<&'a Path> {
    let name = target.kernel_name.as_ref().filter(|_| options.open.sysroot.is_none())?;
    let is_there = Path::new("/sys/block").join(name).exists();
    target.node.as_deref().filter(|_| !is_there)
}

/// As [`gone`], for a device whose reads fail: retries for half a second, as the kernel may still be removing
/// it.
pub(crate) fn gone_soon<'a>(target: &'a Target, options: &Options) -> Option<&'a Path> {
    const PAUSE: Duration = Duration::from_millis(100);
    target.kernel_name.as_ref().filter(|_| options.open.sysroot.is_none())?;
    (0..5).find_map(|_| {
        gone(target, options).or_else(|| {
            thread::sleep(PAUSE);
            None
        })
    })
}
