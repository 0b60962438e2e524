//! Targets that are claimed for writing.
//!
//! Invariants: what may be written is found by this crate, not named by the caller. A target
//! whose contents stay is claimed for a [`Scope`], and its areas lie in that scope ([`Surveyed`]). A target
//! whose contents are lost was created here, or was named by two paths that lead to the same file
//! ([`GivenUp`]); its areas lie within its size ([`Overwritable`]). That the caller's user gave both paths is
//! the caller's to ensure.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use straddle_device::FileId;
use straddle_units::{ByteCount, ByteOffset, Span};

use crate::real::area::{self, AreaError, Areas};
use crate::real::open::{Access, Io, OpenError, Opened};
use crate::real::others::Others;

/// The part of a target that a measurement may use. Its contents are preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Unpartitioned space.
    FreeSpace,
    /// The whole target.
    Whole,
}

/// Checks that `again` names `path` too, and that nothing uses it: what is going to write over it is another program.
///
/// # Errors
///
/// As when it is opened to be overwritten.
pub fn check_given_up(path: &Path, again: &Path, io: Io) -> Result<(), OpenError> {
    GivenUp::named(path, again, io).map(drop)
}

/// A target that is open for writing and that no other process uses. From now on, other processes that open
/// it are detected.
#[derive(Debug)]
pub struct Claimed {
    pub(crate) opened: Opened,
    pub(crate) others: Result<Others, (PathBuf, io::Error)>,
    scope: Scope,
}

impl Claimed {
    /// Opens and locks `path`, for use within `scope`.
    pub fn open(path: &Path, scope: Scope, io: Io) -> Result<Self, OpenError> {
        let access = if scope == Scope::FreeSpace { Access::Share } else { Access::Claim };
        let opened = Opened::open(path, access, io)?;
        // Flushes earlier writes of other programs, so that they are not measured.
        let unusable = |source| OpenError::Unusable { path: path.to_owned(), source };
        opened.file.sync_all().map_err(unusable)?;
        let mut others = Others::of(&opened, access);
        if let Ok(others) = &mut others {
            // Finds processes that opened the target between the check in `Opened::open` and the start of the
            // watch.
            let users = others.users();
            if !users.is_empty() {
                return Err(OpenError::InUse { path: path.to_owned(), by: users.join("; ") });
            }
        }
        Ok(Self { opened, others, scope })
    }

    /// The target.
    pub const fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Finds areas in the scope, in ascending order and without overlap.
    pub fn survey(self, wanted: Areas) -> Result<Surveyed, AreaError> {
        let given = match self.scope {
            Scope::FreeSpace => area::free(&self.opened)?,
            Scope::Whole => whole(&self.opened),
        };
        let areas = area::spread(&given, wanted);
        if areas.is_empty() {
            let path = self.opened.path.clone();
            return Err(match self.scope {
                Scope::FreeSpace => AreaError::Full { path },
                Scope::Whole => AreaError::TooSmall { path, size: self.opened.size },
            });
        }
        Ok(Surveyed { claimed: self, areas })
    }
}

/// A claimed target, and the areas of it that may be written.
#[derive(Debug)]
pub struct Surveyed {
    pub(crate) claimed: Claimed,
    areas: Vec<Span>,
}

impl Surveyed {
    /// The target.
    pub const fn opened(&self) -> &Opened {
        &self.claimed.opened
    }

    /// The areas, in ascending order and without overlap.
    pub fn areas(&self) -> &[Span] {
        &self.areas
    }
}

/// A file that was created for a measurement. Dropping this value removes it.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    id: FileId,
}

impl Made {
    /// Creates a file of `size` bytes, which must not exist yet. All of it is written and flushed, so that no
    /// request has to allocate blocks first.
    pub fn create(path: &Path, size: u64) -> io::Result<Self> {
        const BLOCK: usize = 1 << 20;
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let made = Self { path: path.to_owned(), id: FileId::of_open(&file)? };
        let block = vec![0x5A; BLOCK];
        let mut left = size;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            file.write_all(&block[..part])?;
            left -= part as u64;
        }
        file.sync_all()?;
        Ok(made)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.id.remove(&self.path);
    }
}

/// A target whose contents may be lost: it was made for the measurement, or named by two paths. No other
/// process uses it.
#[derive(Debug)]
pub struct GivenUp(Claimed);

impl GivenUp {
    /// Opens and locks the file that was made.
    pub fn made(made: &Made, io: Io) -> Result<Self, OpenError> {
        let claimed = Claimed::open(&made.path, Scope::Whole, io)?;
        // Its name may be that of another file by now.
        if claimed.opened.id != made.id {
            return Err(OpenError::Replaced { path: made.path.clone() });
        }
        Ok(Self(claimed))
    }

    /// Opens and locks `path`, whose contents the user gives up by naming the target again. This checks only
    /// that both paths lead to the same file or device; the caller must take `again` from the user.
    pub fn named(path: &Path, again: &Path, io: Io) -> Result<Self, OpenError> {
        let id = |path| fs::metadata(path).ok().map(|found| FileId::of(&found));
        let named = id(again).filter(|named| Some(*named) == id(path));
        let Some(named) = named else {
            return Err(OpenError::NotNamed { path: path.to_owned(), again: again.to_owned() });
        };
        let claimed = Claimed::open(path, Scope::Whole, io)?;
        if claimed.opened.id != named {
            return Err(OpenError::Replaced { path: path.to_owned() });
        }
        Ok(Self(claimed))
    }

    /// The target.
    pub const fn opened(&self) -> &Opened {
        &self.0.opened
    }

    /// Finds areas anywhere on the target, in `regions` pieces. 0 uses the whole target.
    pub fn survey(self, regions: u32) -> Result<Overwritable, AreaError> {
        let opened = self.opened();
        let areas = area::spread(&whole(opened), Areas { regions, bytes: u64::MAX });
        if areas.is_empty() {
            return Err(AreaError::TooSmall { path: opened.path.clone(), size: opened.size });
        }
        Ok(Overwritable { given_up: self, areas })
    }
}

/// A target whose contents may be lost, and the areas of it that may be overwritten.
#[derive(Debug)]
pub struct Overwritable {
    given_up: GivenUp,
    areas: Vec<Span>,
}

impl Overwritable {
    /// The target.
    pub const fn opened(&self) -> &Opened {
        self.given_up.opened()
    }

    /// The areas, in ascending order, without overlap and within the target's size.
    pub fn areas(&self) -> &[Span] {
        &self.areas
    }

    pub(crate) fn into_parts(self) -> (Opened, Vec<Span>) {
        (self.given_up.0.opened, self.areas)
    }
}

fn whole(opened: &Opened) -> Vec<Span> {
    Span::new(ByteOffset::ZERO, ByteCount::new(opened.size)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_file_is_given_up_only_while_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("new.img"), folder.path().join("victim"));
        let made = Made::create(&path, 4 << 20).unwrap();
        assert!(Made::create(&path, 4 << 20).is_err());
        assert!(GivenUp::made(&made, Io::Buffered).is_ok());
        fs::write(&victim, vec![7; 4 << 20]).unwrap();
        fs::rename(&victim, &path).unwrap();
        let error = GivenUp::made(&made, Io::Buffered).unwrap_err();
        assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
        drop(made);
        assert_eq!(fs::read(&path).unwrap(), vec![7; 4 << 20]);
    }

    #[test]
    fn a_made_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        drop(Made::create(&folder.path().join("new.img"), 1).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn contents_are_given_up_by_naming_the_target_twice() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("disk.img"), folder.path().join("other.img"));
        for path in [&path, &other] {
            fs::write(path, vec![7; 4 << 20]).unwrap();
        }
        for again in [&other, &folder.path().join("missing")] {
            let error = GivenUp::named(&path, again, Io::Buffered).unwrap_err();
            assert!(matches!(error, OpenError::NotNamed { .. }), "{error}");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(GivenUp::named(&path, &link, Io::Buffered).is_ok());
    }
}
