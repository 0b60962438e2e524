//! Files that a command writes besides its output: plans, pages, drawings, traces.
//!
//! Invariants: a file goes where its name says, as with coreutils, fio and hyperfine. What is there is replaced; `-`
//! is standard output; the command's own inputs and block devices are refused. What is written at once goes to a
//! temporary file beside it, which then takes its name, so that a full disk leaves the former file. What is written
//! piece by piece is written in place, so that a run that ends early leaves what it had.
//!
//! Journals and backups of disks are made elsewhere, with more care: by `crates/repair` and `crates/measure`.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};
use straddle_device::FileId;

use crate::exit::refuse;
use crate::output;

static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes that this command reads a file, which then is not replaced.
pub fn note_read(path: &Path) {
    if let Ok(mut read) = READ.lock() {
        read.push(path.to_owned());
    }
}

/// Names of standard output. Opened as a file, it would be cut off where it is one.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// The name that later commands find a file by: standard output has none.
pub(crate) fn named(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| !is_stdout(path))
}

/// Checks before a long run that `path` may be written: it is neither a block device nor one of the inputs, and the
/// user has the permissions.
pub fn check(path: &Path, inputs: &[&Path]) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    let failed = || format!("{}: cannot write", path.display());
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder_of(path);
            let may =
                fs::metadata(folder).and_then(|_| Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?));
            return may.with_context(failed);
        }
        Err(error) => return Err(error).with_context(failed),
    };
    if found.file_type().is_block_device() {
        return refuse(format!("{}: is a block device; choose a file for the output", path.display()));
    }
    let read = READ.lock().map(|read| read.clone()).unwrap_or_default();
    let mut inputs = inputs.iter().copied().chain(read.iter().map(PathBuf::as_path));
    let own = FileId::of(&found);
    let is_same = |input: &&Path| fs::metadata(input).is_ok_and(|input| FileId::of(&input) == own);
    if let Some(input) = inputs.find(is_same).filter(|_| found.is_file()) {
        return refuse(format!(
            "{}: is the same file as the input {}; choose another output file",
            path.display(),
            input.display()
        ));
    }
    if found.is_dir() {
        bail!("{}: cannot write: it is a directory", path.display());
    }
    access(path, Access::WRITE_OK).map_err(io::Error::from).with_context(failed)
}

/// Writes `contents` to `path`, whole or not at all where it is a regular file.
pub fn write(path: &Path, contents: &[u8], inputs: &[&Path]) -> Result<()> {
    check(path, inputs)?;
    let written = match fs::metadata(path).ok() {
        _ if is_stdout(path) => in_place(path, contents),
        None if fs::symlink_metadata(path).is_ok() => in_place(path, contents),
        // A new file of this name would have another owner, and no other names.
        Some(found) if !found.is_file() || found.nlink() > 1 || !is_own(&found) => in_place(path, contents),
        found => replaced(path, contents, found.as_ref()),
    };
    written.with_context(|| format!("{}: cannot write", path.display()))
}

fn is_own(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

fn in_place(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::of(path);
    file.write_all(contents)?;
    file.finish()
}

fn replaced(path: &Path, contents: &[u8], found: Option<&Metadata>) -> io::Result<()> {
    // What a link leads to is replaced, not the link.
    let path = if found.is_some() { path.canonicalize()? } else { path.to_owned() };
    // The user's umask applies.
    let mut builder = tempfile::Builder::new();
    let made =
        builder.prefix(".straddle-").permissions(Permissions::from_mode(0o666)).tempfile_in(folder_of(&path));
    let mut made = match made {
        // Files in a folder may be written where none may be made.
        Err(error) if found.is_some() && error.kind() == io::ErrorKind::PermissionDenied => {
            return in_place(&path, contents);
        }
        made => made.map_err(|error| io::Error::from(error.kind()))?,
    };
    if let Some(found) = found {
        // Not every file system has permissions.
        let _ = made.as_file().set_permissions(found.permissions());
    }
    made.as_file_mut().write_all(contents)?;
    made.as_file().sync_all()?;
    made.persist(&path).map(drop).map_err(|error| error.error)
}

/// A file that is written piece by piece. It is opened, and so emptied, with the first, so that what fails before
/// leaves the former file.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
enum Open {
    File(File),
    Output(io::Stdout),
}

impl OutputFile {
    /// Refused if [`check`] refuses.
    pub fn begin(path: &Path, inputs: &[&Path]) -> Result<Self> {
        check(path, inputs)?;
        Ok(Self::of(path))
    }

    fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), open: None }
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None if is_stdout(&self.path) => Open::Output(io::stdout()),
            None => Open::File(File::create(&self.path)?),
        };
        Ok(self.open.insert(open))
    }

    /// Cuts a file to this many bytes. A pipe keeps what it got.
    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self.opened()? {
            Open::File(file) if file.metadata()?.is_file() => file.set_len(bytes),
            _ => Ok(()),
        }
    }

    /// Ends it. Without a piece it is empty.
    pub fn finish(mut self) -> io::Result<()> {
        self.opened()?;
        self.flush()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.opened()? {
            Open::File(file) => file.write(bytes),
            // The reader of the output may leave when it has seen enough.
            Open::Output(out) => output::unless_closed(out.write_all(bytes)).map(|()| bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.open {
            Some(Open::File(file)) => file.flush(),
            Some(Open::Output(out)) => output::unless_closed(out.flush()),
            None => Ok(()),
        }
    }
}

/// Makes a file that must not exist yet, for what could not be made again.
pub(crate) fn new(path: &Path) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        return refuse(format!("{}: already exists; choose another name", path.display()));
    }
    made.with_context(|| format!("{}: cannot create it", path.display()))
}

/// Checks that [`new`] could make a file, and makes none.
pub(crate) fn may_make(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return refuse(format!("{}: already exists; choose another name", path.display()));
    }
    check(path, &[]).map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => anyhow::Error::from(error).context(format!("{}: cannot create it", path.display())),
        Err(error) => error,
    })
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::RefusedError;

    fn listing(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn whatever_is_there_is_replaced_and_keeps_its_permissions_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("page.html"), dir.path().join("link"));
        write(&path, b"one", &[]).unwrap();
        fs::write(dir.path().join("plain"), "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&path), mode(&dir.path().join("plain")));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("page.html", &link).unwrap();
        for contents in [&b"two"[..], b"\xff\0\x01"] {
            write(&link, contents, &[]).unwrap();
            assert_eq!((fs::read(&path).unwrap(), mode(&path)), (contents.to_vec(), 0o640));
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // A file of two names keeps both, and a link that leads nowhere leads somewhere then.
        let hard = dir.path().join("hard");
        fs::hard_link(&path, &hard).unwrap();
        write(&hard, b"three", &[]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        std::os::unix::fs::symlink("new", dir.path().join("dangling")).unwrap();
        write(&dir.path().join("dangling"), b"four", &[]).unwrap();
        assert_eq!(fs::read(dir.path().join("new")).unwrap(), b"four");
        assert_eq!(listing(dir.path()), ["dangling", "hard", "link", "new", "page.html", "plain"]);
    }

    #[test]
    fn inputs_by_any_name_and_folders_are_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (input, link) = (dir.path().join("input"), dir.path().join("link"));
        fs::write(&input, "input").unwrap();
        std::os::unix::fs::symlink("input", &link).unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        for path in [&input, &link] {
            assert!(write(path, b"", &[&other, &input]).unwrap_err().is::<RefusedError>());
            assert!(OutputFile::begin(path, &[&input]).unwrap_err().is::<RefusedError>());
        }
        assert_eq!(fs::read(&input).unwrap(), b"input");
        assert!(
            write(dir.path(), b"", &[]).is_err() && write(&dir.path().join("no/file"), b"", &[]).is_err()
        );
        assert!(
            new(&input).unwrap_err().is::<RefusedError>()
                && may_make(&link).unwrap_err().is::<RefusedError>()
        );
        may_make(&dir.path().join("new")).unwrap();
        assert!(may_make(&dir.path().join("no/new")).unwrap_err().to_string().ends_with("cannot create it"));
        assert_eq!(listing(dir.path()), ["input", "link", "other"]);
    }

    #[test]
    fn a_failed_try_leaves_the_former_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        fs::write(&path, "former").unwrap();
        write(&path, b"", &[&path]).unwrap_err();
        assert_eq!(
            (fs::read(&path).unwrap(), listing(dir.path())),
            (b"former".to_vec(), vec!["page.html".to_owned()])
        );
        let mut piecewise = OutputFile::begin(&path, &[]).unwrap();
        piecewise.flush().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"former");
        piecewise.write_all(b"some of it").unwrap();
        piecewise.cut(4).unwrap();
        drop(piecewise);
        assert_eq!(
            (fs::read(&path).unwrap(), listing(dir.path())),
            (b"some".to_vec(), vec!["page.html".to_owned()])
        );
    }
}
