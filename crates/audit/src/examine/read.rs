//! Reading what a target holds, and devices that are unplugged meanwhile.

use std::path::Path;
use std::thread;
use std::time::Duration;

use straddle_device::shown::with_causes;
use straddle_device::{ReadError, Target};
use straddle_layout::{Problem, Stack, TableKind};

use crate::examine::{ExamineError, Options, sectors};

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

/// Refuses a device that the kernel no longer has. After a failed read, it may be removed a little later: it is
/// looked for `times`, each a tenth of a second after the last.
pub(crate) fn check_there(target: &Target, options: &Options, times: u32) -> Result<(), ExamineError> {
    let name = target.kernel_name.as_ref().filter(|_| options.open.sysroot.is_none());
    let Some((name, node)) = name.zip(target.node.as_ref()) else { return Ok(()) };
    for time in 0..times {
        if time > 0 {
            thread::sleep(Duration::from_millis(100));
        }
        if !Path::new("/sys/block").join(name).exists() {
            return Err(ExamineError::Gone(node.clone()));
        }
    }
    Ok(())
}
