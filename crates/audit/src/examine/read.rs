//! Reading what a target holds, and telling devices that are unplugged meanwhile.

use std::path::Path;
use std::thread;
use std::time::Duration;

use straddle_device::shown::with_causes;
use straddle_device::{ReadError, Target};
use straddle_layout::{Problem, Stack, TableKind};

use crate::examine::{Options, sectors};

/// Reads what a target holds: its table, or the kernel's list of partitions if the table cannot be read or is
/// of a kind that only the kernel knows.
pub(crate) fn read(target: &mut Target, options: &straddle_device::Options) -> Result<Stack, ReadError> {
    let block = sectors::known(target, options);
    let listed = target.kernel_partitions.as_deref().unwrap_or_default();
    let by_kernel = || straddle_layout::kernel_stack(listed, target.topology.logical.value());
    let Some(medium) = &target.medium else { return Ok(by_kernel()) };
    match straddle_layout::read_all(medium.as_ref(), block, options.logical) {
        Ok(stack) if matches!(stack.kind, TableKind::None | TableKind::Foreign(_)) && !listed.is_empty() => {
            Ok(by_kernel())
        }
        Ok(stack) => Ok(stack),
        // The table cannot be read, but the disk's sizes and the kernel's list are known.
        Err(ReadError::Io { at, source }) => {
            let mut stack = by_kernel();
            stack.problems.push(Problem::Unreadable { number: None, at, why: source.to_string() });
            Ok(stack)
        }
        Err(error) if listed.is_empty() => Err(error),
        Err(error) => {
            target.remarks.push(with_causes(&error));
            Ok(by_kernel())
        }
    }
}

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
