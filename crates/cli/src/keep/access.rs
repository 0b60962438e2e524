//! Who may use a file that replaces another one: nobody who could not use the former one.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, Gid, Uid, XattrFlags};
use rustix::io::Errno;

/// The access control list of a file (acl(5), xattr(7)).
const LIST: &str = "system.posix_acl_access";
/// The most bytes of an extended attribute (Linux, limits.h: `XATTR_SIZE_MAX`).
const LONGEST_LIST: usize = 64 << 10;

/// Gives `file` the owner, the group and the permissions of the one at `path`, as far as this user may. What of them
/// cannot be kept is left out: it would be of another user. So are the set-user-ID and set-group-ID bits, which would
/// give the new contents to the user who set them.
pub(super) fn keep(file: &File, path: &Path, former: &Metadata) -> io::Result<()> {
    let list = list_of(path)?;
    let own = file.metadata()?;
    // Only root may give a file away; the group of a file may be any one of its owner's.
    if own.gid() != former.gid() {
        let _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(former.gid())));
    }
    if own.uid() != former.uid() {
        let _ = rustix::fs::fchown(file, Some(Uid::from_raw(former.uid())), None);
    }
    let own = file.metadata()?;
    let has_group = own.gid() == former.gid();
    let has_list = match &list {
        // The list says the same of all users but the owner.
        Some(list) if has_group => rustix::fs::fsetxattr(file, LIST, list, XattrFlags::empty()).is_ok(),
        _ => false,
    };
    if !has_list {
        // A folder gives a new file its own list.
        if let Err(error) = rustix::fs::fremovexattr(file, LIST) {
            // Some file systems refuse what they do not have (ntfs-3g).
            match rustix::fs::fgetxattr(file, LIST, &mut [0; LONGEST_LIST][..]) {
                Ok(_) => return Err(error.into()),
                Err(error) => absent(error)?,
            }
        }
    }
    let mode = former.mode() & 0o777;
    let mode = match list {
        // The bits of the group are the most that the list allows anybody.
        Some(_) if !has_list => mode & 0o700,
        _ if !has_group => {
            let both = (mode >> 3) & mode & 0o007;
            (mode & 0o700) | (both << 3) | both
        }
        _ => mode,
    };
    match file.set_permissions(Permissions::from_mode(mode)) {
        // The file stays as it was made, its owner's alone, where the file system or its server refuses (bindfs, NFS).
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        kept => kept,
    }
}

fn list_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut list = vec![0; LONGEST_LIST];
    match rustix::fs::getxattr(path, LIST, &mut list[..]) {
        Ok(length) => {
            list.truncate(length);
            Ok(Some(list))
        }
        Err(error) => absent(error).map(|()| None),
    }
}

/// Succeeds if the error means that there is no list, or that the file system has none.
fn absent(error: Errno) -> io::Result<()> {
    if matches!(error, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) { Ok(()) } else { Err(error.into()) }
}

/// Whether anybody may read a file. A device is not public.
pub(crate) fn is_public(path: &Path) -> bool {
    let is_open = fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o444 == 0o444);
    is_open && list_of(path).is_ok_and(|list| list.is_none())
}

/// Whether this user may write to a file, and anybody may.
pub(super) fn is_writable(path: &Path, found: &Metadata) -> bool {
    found.mode() & 0o222 != 0 && rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Whether a name is a link that another user made, who may lead it elsewhere at any time.
pub(crate) fn is_anothers_link(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink() && found.uid() != own && found.uid() != 0)
}
