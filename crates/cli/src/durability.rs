//! Warns of a journal or backup in memory (a live system, /dev/shm): a power failure takes it, and leaves the disk.
//!
//! Sources: statfs(2) and linux/magic.h for the types of file systems, proc(5) for `/proc/self/mountinfo`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::output;

const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
const OVERLAY: i64 = 0x794c_7630;

/// `what` the file is, and `instead` of it, what to give with which option.
pub(crate) fn warn((what, instead): (&str, &str), file: &Path, target: &Path) {
    let (file_at, target_at) = (existing(file), existing(target));
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    let Some(kind) = in_memory(&file_at) else { return };
    // What is lost with the target is not needed after it.
    if device(&file_at) == device(&target_at) || in_memory(&target_at).is_some() {
        return;
    }
    output::complain(&format!(
        "warning: {}: the {what} {kind}, and so could be lost in a power failure or restart; use a {instead}",
        file.display()
    ));
}

/// Returns the path, or of what is missing the folder that it would be in.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn in_memory(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.file_type().is_block_device() {
        return None;
    }
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    let name = |kind| IN_MEMORY.iter().find(|(one, _)| *one == kind).map(|(_, name)| *name);
    if kind != OVERLAY {
        return name(kind).map(|name| format!("would be in memory only ({name})"));
    }
    let Some(upper) = upper_layer(path).and_then(|upper| rustix::fs::statfs(&upper).ok()) else {
        return Some("may be in memory only (an overlay whose upper layer cannot be found)".to_owned());
    };
    name(upper.f_type).map(|name| format!("would be in memory only (overlay on {name})"))
}

/// The folder where the overlay that a path is on puts new files.
fn upper_layer(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // `36 35 98:0 /root /point options optional… - kind source options`; the last of those above one another.
    let point = |line: &str| PathBuf::from(line.split(' ').nth(4).unwrap_or_default().replace("\\040", " "));
    let above = mounts.lines().filter(|line| path.starts_with(point(line)));
    let line = above.max_by_key(|line| point(line).components().count())?;
    let upper = line.split([' ', ',']).find_map(|option| option.strip_prefix("upperdir="))?;
    Some(PathBuf::from(upper.replace("\\040", " ")))
}
