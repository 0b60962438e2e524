//! The other files of an image. Only files that the user named are opened, if their names match those in an image.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use straddle_units::ByteCount;

use super::host::Host;
use super::{Below, Format, ImageError, Missing, Opened, open, open_as};
use crate::medium::{FileMedium, Medium};
use crate::target::open_for_reading;

/// The longest chain of files below an image.
pub const MAX_DEPTH: u32 = 16;

const MAX_SHOWN: usize = 255;

struct Entry {
    path: PathBuf,
    medium: OnceLock<Arc<FileMedium>>,
}

/// The files that may be opened besides the image.
#[derive(Default)]
pub struct Allowed {
    files: Vec<Entry>,
}

impl Allowed {
    /// Takes the files at `paths`, which must exist. An error comes with the path of the file that failed.
    pub fn new(paths: &[PathBuf]) -> Result<Self, (PathBuf, io::Error)> {
        let entry = |path: &PathBuf| match fs::canonicalize(path) {
            Ok(path) => Ok(Entry { path, medium: OnceLock::new() }),
            Err(error) => Err((path.clone(), error)),
        };
        Ok(Self { files: paths.iter().map(entry).collect::<Result<_, _>>()? })
    }
}

/// The files that an image may open, and the folder that its relative names start from.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    allowed: &'a Allowed,
    folder: &'a Path,
    depth: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) by: Format,
    pub(super) role: &'static str,
    pub(super) name: &'a [u8],
}

impl Named<'_> {
    pub(super) fn shown(&self) -> String {
        if self.name.is_empty() {
            return "(without a name)".to_owned();
        }
        let text = String::from_utf8_lossy(self.name);
        let mut shown: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
        if text.chars().nth(MAX_SHOWN).is_some() {
            shown.push('…');
        }
        shown
    }

    pub(super) fn missing(&self) -> Missing {
        Missing { role: self.role, name: self.shown() }
    }
}

type NamedMedium<'a> = (Box<dyn Medium>, &'a Path);

impl<'a> Access<'a> {
    /// Creates the access of the image at `image`, whose folder its relative names start from.
    pub fn new(image: &'a Path, allowed: &'a Allowed) -> Self {
        Self { allowed, folder: image.parent().unwrap_or(Path::new("")), depth: 0 }
    }

    fn open_file(&self, named: &Named<'_>) -> Result<Option<NamedMedium<'a>>, ImageError> {
        let Some(entry) = self.find(named.name) else { return Ok(None) };
        let failed =
            |source| ImageError::Open { format: named.by, role: named.role, name: named.shown(), source };
        let medium = match entry.medium.get() {
            Some(medium) => medium.clone(),
            None => {
                let opened = Arc::new(open_regular(&entry.path).map_err(failed)?);
                entry.medium.get_or_init(|| opened).clone()
            }
        };
        Ok(Some((Box::new(medium), &entry.path)))
    }

    pub(super) fn open_host(&self, named: &Named<'_>) -> Result<Result<Host, Missing>, ImageError> {
        let opened = self.open_file(named)?;
        Ok(opened.map(|(medium, _)| Host::new(named.by, medium)).ok_or_else(|| named.missing()))
    }

    pub(super) fn open_below(&self, named: &Named<'_>, format: Option<Format>) -> Result<Below, ImageError> {
        let Some((medium, path)) = self.open_file(named)? else { return Ok(Below::Missing(named.missing())) };
        let (role, name) = (named.role, named.shown());
        if self.depth >= MAX_DEPTH {
            return Err(ImageError::TooDeep { format: named.by, role, name });
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let access = Access { allowed: self.allowed, folder, depth: self.depth + 1 };
        let opened = match format {
            Some(format) => open_as(format, medium, &access),
            None => open(medium, &access),
        };
        match opened {
            Ok(Opened::Raw(medium)) => Ok(Below::Open { role, name, medium }),
            Ok(Opened::Image(image)) => Ok(Below::Open { role, name, medium: image }),
            // A loop is reported once, not at each level of the chain.
            Err(error @ ImageError::TooDeep { .. }) => Err(error),
            Err(error) => Err(ImageError::Other { format: named.by, role, name, source: Box::new(error) }),
        }
    }

    pub(super) fn open_first(
        &self,
        format: Format,
        role: &'static str,
        names: &[String],
    ) -> Result<Below, ImageError> {
        let known = names.iter().find(|name| self.find(name.as_bytes()).is_some());
        let name = known.or_else(|| names.iter().find(|name| !name.is_empty()));
        let name = name.map_or(&b""[..], |name| name.as_bytes());
        self.open_below(&Named { by: format, role, name }, Some(format))
    }

    fn find(&self, name: &[u8]) -> Option<&'a Entry> {
        if self.allowed.files.is_empty() || name.is_empty() {
            return None;
        }
        let path = self.folder.join(OsStr::from_bytes(name));
        let path = fs::canonicalize(path).ok()?;
        self.allowed.files.iter().find(|entry| entry.path == path)
    }
}

fn open_regular(path: &Path) -> io::Result<FileMedium> {
    let regular = |metadata: fs::Metadata| match metadata.is_file() {
        true => Ok(metadata),
        false => Err(io::Error::other("not a regular file")),
    };
    // Checked before opening, which some devices act on, and after, as the path may have been replaced.
    regular(fs::metadata(path)?)?;
    let file = open_for_reading(path)?;
    let metadata = regular(file.metadata()?)?;
    Ok(FileMedium::new(file, ByteCount::new(metadata.len())))
}

pub(super) fn from_windows(path: &str) -> String {
    path.replace('\\', "/")
}
