//! Whether a file outlasts a power failure.
//!
//! The law of this module: a file is called durable only if everything that it stands on, as far as it can be
//! followed, is neither in memory nor unknown. An overlay is followed to its upper layer, where new files go, a
//! loop device to its file. What cannot be followed is unknown. Memory below other devices (zram, scsi_debug)
//! is not recognised.
//!
//! Sources: statfs(2) and linux/magic.h for the types of file systems, proc(5) for `/proc/self/mountinfo` and
//! `/proc/self/fdinfo`, `ovl_show_options` of the kernel's fs/overlayfs for the options of an overlay.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::live::unescape;
use crate::sysfs;

/// File systems in memory.
const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
const OVERLAY: i64 = 0x794c_7630;
/// A union of directories that does not report where new files go.
const AUFS: i64 = 0x6175_6673;

/// Options of an overlay that synchronises nothing, of kernels since 5.10 and newer ones.
const UNSYNCHRONISED: [&str; 2] = ["volatile", "fsync=volatile"];

/// The greatest number of layers that are followed. The kernel stacks two overlays; loop devices add more.
const MOST_LAYERS: usize = 12;

/// Whether what is written to a file outlasts a power failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It does, as far as can be seen.
    Durable,
    /// It does not: it is in memory. Holds what it is on: `tmpfs`, `overlay on tmpfs`.
    InMemory(String),
    /// Not known. Holds the reason.
    Unknown(String),
}

/// Returns the durability of the file, folder or block device at `path`; that of the folder where it would be
/// made if there is none.
pub fn durability(path: &Path) -> Durability {
    Place::of(path).durability
}

/// Returns the durability of `file` if a power failure may take it and leave `target`, which needs it
/// afterwards; `None` if it is durable, or lost only together with the target.
pub fn at_risk(file: &Path, target: &Path) -> Option<Durability> {
    let file = Place::of(file);
    if file.durability == Durability::Durable {
        return None;
    }
    let target = Place::of(target);
    let is_lost_too = match target.durability {
        Durability::Durable => false,
        Durability::InMemory(_) => true,
        // Whatever the file system is on, it holds both.
        Durability::Unknown(_) => {
            file.mounted.first().is_some_and(|mounted| target.mounted.contains(mounted))
        }
    };
    (!is_lost_too).then_some(file.durability)
}

/// What a file stands on.
struct Place {
    durability: Durability,
    /// The file systems that were passed, from the top, as `major:minor`.
    mounted: Vec<String>,
}

impl Place {
    fn of(path: &Path) -> Self {
        let here = Path::new(".");
        let mut above = path.ancestors().map(|path| if path.as_os_str().is_empty() { here } else { path });
        let path = above.find(|path| path.exists()).unwrap_or(here);
        let mut mounted = Vec::new();
        let durability = follow(path, MOST_LAYERS, &mut mounted).unwrap_or_else(Durability::Unknown);
        Self { durability, mounted }
    }
}

/// Follows what exists at `path` down through at most `layers` layers; an error is the reason why that fails.
fn follow(path: &Path, layers: usize, mounted: &mut Vec<String>) -> Result<Durability, String> {
    let layers = layers.checked_sub(1).ok_or("too many layers, or layers in a circle")?;
    let failed = |error: rustix::io::Errno| format!("{}: {}", path.display(), io::Error::from(error));
    // Opened for its place only: nothing is read from a device.
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode).is_block_device() {
        return behind(found.st_rdev, layers, mounted);
    }
    let kind = rustix::fs::fstatfs(&file).map_err(failed)?.f_type;
    if let Some((_, name)) = IN_MEMORY.iter().find(|(one, _)| *one == kind) {
        return Ok(Durability::InMemory((*name).to_owned()));
    }
    let mount = Mount::of(&file);
    mounted.extend(mount.as_ref().map(|mount| mount.device.clone()));
    match kind {
        OVERLAY => {
            let mount = mount.ok_or("an overlay that /proc/self/mountinfo does not show")?;
            let upper = mount.upper()?;
            Ok(above("overlay", follow(&upper, layers, mounted)?))
        }
        AUFS => Err("aufs".to_owned()),
        _ => behind(found.st_dev, layers, mounted),
    }
}

/// Follows the block device with this number, or that of a file system.
fn behind(number: u64, layers: usize, mounted: &mut Vec<String>) -> Result<Durability, String> {
    let device = sysfs::of_number(number);
    // A partition of a loop device is in its folder.
    let file = ["loop/backing_file", "../loop/backing_file"]
        .iter()
        .find_map(|attribute| fs::read_to_string(device.join(attribute)).ok());
    match file {
        Some(file) => Ok(above("a loop device", follow(Path::new(file.trim_end()), layers, mounted)?)),
        None => Ok(Durability::Durable),
    }
}

fn above(what: &str, below: Durability) -> Durability {
    match below {
        Durability::InMemory(kind) => Durability::InMemory(format!("{what} on {kind}")),
        below => below,
    }
}

/// A mounted file system.
#[derive(Debug)]
struct Mount {
    /// The number of its device, as `major:minor`.
    device: String,
    /// The options of the file system, as the kernel prints them.
    options: String,
}

impl Mount {
    /// The one that an open file is on; `None` if the kernel does not show it.
    fn of(file: &OwnedFd) -> Option<Self> {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        // A name that is not UTF-8 leads nowhere, so that its layer is unknown.
        let mounts = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").ok()?).into_owned();
        mounts.lines().find_map(|line| Self::from_line(line, id))
    }

    /// Reads `36 35 98:0 /root /point options optional… - kind source options`, if its first number is `id`.
    fn from_line(line: &str, id: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let is_meant = words.next() == Some(id);
        let device = words.nth(1).filter(|_| is_meant)?.to_owned();
        let options = words.skip_while(|word| *word != "-").nth(3)?.to_owned();
        Some(Self { device, options })
    }

    /// The folder where an overlay puts new files; an error if that is not known here.
    fn upper(&self) -> Result<PathBuf, String> {
        // Commas of a name are escaped.
        let mut options = self.options.split(',');
        if options.clone().any(|option| UNSYNCHRONISED.contains(&option)) {
            return Err("an overlay that was mounted as volatile: it synchronises nothing".to_owned());
        }
        let upper = options.find_map(|option| option.strip_prefix("upperdir="));
        let upper = unescape(upper.ok_or("an overlay without an upper layer")?);
        // The kernel may print the name as it was given to mount(8), with backslashes before colons and commas.
        let given = PathBuf::from(upper.to_string_lossy().replace('\\', ""));
        // A relative name counts from where mount(8) was run.
        let found = [&upper, &given].into_iter().find(|upper| upper.is_absolute() && upper.is_dir());
        found
            .cloned()
            .ok_or_else(|| format!("the upper layer of an overlay, {}, is not found", upper.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "65 32 0:41 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/l,upperdir=/a\\040b\\054c,workdir=/w";

    #[test]
    fn the_mount_is_found_by_its_number() {
        let mount = Mount::from_line(LINE, "65").unwrap();
        assert_eq!(mount.device, "0:41");
        assert_eq!(mount.options, "rw,lowerdir=/l,upperdir=/a\\040b\\054c,workdir=/w");
        assert!(Mount::from_line(LINE, "6").is_none());
        for cut in 0..LINE.len() - "rw,lowerdir=/l,upperdir=/a\\040b\\054c,workdir=/w".len() {
            assert!(Mount::from_line(&LINE[..cut], "65").is_none(), "{cut}");
        }
    }

    #[test]
    fn an_upper_layer_is_found_under_its_name_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        fs::create_dir(folder.path().join("a b,c")).unwrap();
        let upper = |options: &str| {
            let mount = Mount { device: "0:41".to_owned(), options: options.to_owned() };
            mount.upper()
        };
        for name in ["a\\040b\\054c", "a\\040b\\134\\054c"] {
            let found = upper(&format!("rw,upperdir={path}/{name},workdir=/w"));
            assert_eq!(found, Ok(folder.path().join("a b,c")), "{name}");
        }
        for options in ["rw", "rw,lowerdir=/", "rw,upperdir=.", "rw,upperdir=/no/such/folder"] {
            assert!(upper(options).is_err(), "{options}");
        }
        for option in UNSYNCHRONISED {
            assert!(upper(&format!("rw,upperdir={path},{option}")).is_err());
        }
    }

    #[test]
    fn a_file_that_is_not_there_has_the_place_of_its_folder() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            return crate::skip::skipped("there is no /dev/shm");
        };
        let new = folder.path().join("not/made/yet");
        assert!(matches!(durability(&new), Durability::InMemory(_)), "{:?}", durability(&new));
        assert_eq!(at_risk(&new, &folder.path().join("target")), None);
    }
}
