//! Files that a power failure or a restart would take with it.
//!
//! The law of this module: it names a file as lost only if the kernel says that its file system is in memory,
//! and the target is not in memory too. Memory below a device (zram, scsi_debug) is not recognised.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::target::Target;

/// The types of file systems in memory and their names (statfs(2), linux/magic.h).
const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// Returns the kind of file system in memory that `file` is on, or would be made on. `None` if it is on
/// another one, and if `target` would be lost with it: a file in memory, a loop device that shows one, or a
/// simulated disk.
///
/// # Errors
///
/// If the file system cannot be examined.
pub fn in_memory_only(file: &Path, target: &Target<'_>) -> io::Result<Option<&'static str>> {
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = if file.exists() { file } else { folder };
    let Some(kind) = in_memory(place)? else { return Ok(None) };
    let is_lost_too = match (&target.identity().kernel_name, target.path()) {
        (Some(name), _) => {
            backing_file(name).is_some_and(|file| in_memory(&file).is_ok_and(|it| it.is_some()))
        }
        (None, Some(image)) => in_memory(image)?.is_some(),
        // A simulated disk exists in this process only.
        (None, None) => true,
    };
    Ok(Some(kind).filter(|_| !is_lost_too))
}

fn in_memory(path: &Path) -> io::Result<Option<&'static str>> {
    let found = rustix::fs::statfs(path)?.f_type;
    Ok(IN_MEMORY.iter().find(|(kind, _)| *kind == found).map(|(_, name)| *name))
}

/// The file that a loop device shows, by the device's name. The node of a device does not say where its bytes
/// are: it is in memory itself (devtmpfs).
fn backing_file(name: &str) -> Option<PathBuf> {
    let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    Some(PathBuf::from(backing.trim_end())).filter(|file| file.is_file())
}
