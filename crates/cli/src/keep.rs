//! Writes files that a command was asked for besides its output: plans, pictures, pages, traces.
//!
//! The law of this module: such a file is written whole or not at all, but for what is added to later (`begun`). It never
//! replaces anything else: not a disk, not an image that the command works on, nor anything that is not text. What is an
//! open file of this process, such as standard output, is written to as that, by whatever name.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tempfile::NamedTempFile;

use crate::exit::RefusedError;

/// Bytes examined of a file that would be replaced.
const LOOKED_AT: u64 = 64 << 10;
/// The most links that a name may lead through.
const MOST_LINKS: usize = 40;

/// What a file of this kind may replace, besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Nothing.
    Text,
    /// A table in Parquet.
    Parquet,
    /// A recording.
    Recording,
}

/// Writes `contents` to a temporary file, which then replaces `path`. Refused if [`may_replace`] refuses.
pub(crate) fn write(path: &Path, contents: &[u8], inputs: &[&Path]) -> Result<()> {
    begun(path, contents, inputs).map(drop)
}

/// As [`write`], and returns the file, which may be added to.
pub(crate) fn begun(path: &Path, contents: &[u8], inputs: &[&Path]) -> Result<File> {
    let mut pending = Pending::begin(path, inputs, Over::Text)?;
    let written = pending.write_all(contents).and_then(|()| pending.commit());
    written.with_context(|| format!("{}: cannot write", path.display()))
}

/// As [`write`], for a file whose first line is always the same: nothing else is replaced.
pub(crate) fn write_over(path: &Path, contents: &[u8], inputs: &[&Path], first_line: &str) -> Result<()> {
    let is_full = |present: Metadata| present.is_file() && present.len() > 0;
    if !is_open(path)? && fs::metadata(path).is_ok_and(is_full) {
        let mut head = Vec::new();
        let len = u64::try_from(first_line.len())?;
        let read = File::open(path).and_then(|file| file.take(len).read_to_end(&mut head));
        read.with_context(|| format!("{}: cannot read", path.display()))?;
        if head != first_line.as_bytes() {
            return refused(
                path,
                "would be overwritten, and holds something else: name a file that does not exist",
            );
        }
    }
    write(path, contents, inputs)
}

/// A file that is written piece by piece, and then replaces another one or none.
pub(crate) enum Pending {
    /// A temporary file, the place that it is for, and what is there.
    Made(Box<NamedTempFile>, PathBuf, Option<Permissions>),
    /// An open file of this process, a pipe or a terminal.
    Direct(File),
}

impl Pending {
    /// Begins a file for `path`. Refused if [`may_replace`] refuses.
    pub(crate) fn begin(path: &Path, inputs: &[&Path], over: Over) -> Result<Self> {
        may_replace_over(path, inputs, over)?;
        let failure = || format!("{}: cannot write", path.display());
        if let Some(open) = descriptor(path).with_context(failure)? {
            return Ok(Self::Direct(open.into()));
        }
        let begun = match fs::metadata(path).ok() {
            // A pipe or a terminal has no contents to lose.
            Some(present) if !present.is_file() => {
                OpenOptions::new().write(true).open(path).map(Self::Direct)
            }
            present => made(path, present.as_ref()).map(|(made, path)| {
                Self::Made(Box::new(made), path, present.map(|present| present.permissions()))
            }),
        };
        begun.with_context(failure)
    }

    /// Cuts the file to this many bytes. A pipe keeps what it got.
    pub(crate) fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => {
                made.as_file_mut().set_len(bytes)?;
                made.as_file_mut().seek(io::SeekFrom::Start(bytes)).map(|_| ())
            }
            Self::Direct(_) => Ok(()),
        }
    }

    /// Puts the file in its place, and returns it.
    pub(crate) fn commit(self) -> io::Result<File> {
        match self {
            Self::Made(made, path, permissions) => persist(*made, &path, permissions),
            Self::Direct(file) => Ok(file),
        }
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Made(made, ..) => made.write(bytes),
            Self::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Made(made, ..) => made.flush(),
            Self::Direct(file) => file.flush(),
        }
    }
}

/// A file that is written by its name, by others, and then replaces another one or none.
pub(crate) struct Aside {
    /// The file, if it does not become the one that was asked for.
    copied: Option<NamedTempFile>,
    pending: Pending,
}

impl Aside {
    /// Begins a file for `path`. Refused if [`may_replace`] refuses.
    pub(crate) fn begin(path: &Path, inputs: &[&Path]) -> Result<Self> {
        let pending = Pending::begin(path, inputs, Over::Text)?;
        let copied = match pending {
            Pending::Made(..) => None,
            Pending::Direct(_) => Some(NamedTempFile::with_prefix(".straddle-")?),
        };
        Ok(Self { copied, pending })
    }

    /// Where it is written. It has no contents yet.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        match (&self.copied, &self.pending) {
            (Some(file), _) => std::path::absolute(file.path()),
            (None, Pending::Made(made, ..)) => std::path::absolute(made.path()),
            (None, Pending::Direct(_)) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Puts the file in its place.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        if let Some(file) = self.copied {
            io::copy(&mut File::open(file.path())?, &mut self.pending)?;
        }
        self.pending.commit().map(drop)
    }
}

/// Whether a name stands for an open file of this process.
pub(crate) fn is_open(path: &Path) -> Result<bool> {
    let open = descriptor(path).with_context(|| format!("{}: cannot write", path.display()))?;
    Ok(open.is_some())
}

/// Which open file of this process a name stands for, if it stands for one: `/dev/stdout`, `/dev/fd/7`, a link to either.
fn descriptor(path: &Path) -> io::Result<Option<OwnedFd>> {
    let own = PathBuf::from(format!("/proc/{}/fd", std::process::id()));
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Ok(parent) = parent.canonicalize() else { return Ok(None) };
        if parent == own
            && let Some(number) = name.to_str().and_then(|name| name.parse().ok())
        {
            return duplicate(number).map(Some);
        }
        match fs::read_link(parent.join(name)) {
            Ok(leads) => path = parent.join(leads),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Another descriptor of the same open file, with the same position in it.
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    match number {
        1 => io::stdout().as_fd().try_clone_to_owned(),
        2 => io::stderr().as_fd().try_clone_to_owned(),
        _ => {
            let own = pidfd_open(getpid(), PidfdFlags::empty())?;
            Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
        }
    }
}

/// Makes a temporary file beside `path`, and returns the place that it is for.
fn made(path: &Path, present: Option<&Metadata>) -> io::Result<(NamedTempFile, PathBuf)> {
    // Replace the target of a symbolic link, not the link.
    let path: PathBuf = if present.is_some() { path.canonicalize()? } else { path.to_owned() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The user's umask applies to a new file.
    let usual = Permissions::from_mode(0o666);
    // The error of a folder that does not exist would name the temporary file.
    std::fs::metadata(folder)?;
    let made = tempfile::Builder::new().prefix(".straddle-").permissions(usual).tempfile_in(folder)?;
    Ok((made, path))
}

fn persist(made: NamedTempFile, path: &Path, permissions: Option<Permissions>) -> io::Result<File> {
    made.as_file().sync_all()?;
    if let Some(permissions) = permissions {
        made.as_file().set_permissions(permissions)?;
    }
    let file = made.persist(path).map_err(|error| error.error)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// Checks that `path` may be overwritten: it does not exist, is a pipe or a terminal, or is a text file and
/// not one of `inputs`, whatever its name.
pub(crate) fn may_replace(path: &Path, inputs: &[&Path]) -> Result<()> {
    may_replace_over(path, inputs, Over::Text)
}

fn may_replace_over(path: &Path, inputs: &[&Path], over: Over) -> Result<()> {
    let Ok(present) = fs::metadata(path) else { return Ok(()) };
    let is_same = |input: &&Path| {
        fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (present.dev(), present.ino()))
    };
    if present.file_type().is_block_device() {
        return refused(path, "is a device and would be overwritten: name a file that does not exist");
    }
    if let Some(input) = inputs.iter().copied().find(is_same) {
        let text =
            format!("would be overwritten, and is {}: name a file that does not exist", input.display());
        return refused(path, &text);
    }
    if !present.is_file() || is_open(path)? {
        return Ok(());
    }
    if is_output(&present) {
        return refused(path, "the output goes there: name another file, or /dev/stdout");
    }
    if !is_ours(path, over).with_context(|| format!("{}: cannot read", path.display()))? {
        return refused(
            path,
            "would be overwritten, and holds something else: name a file that does not exist",
        );
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> Result<()> {
    Err(RefusedError(format!("{}: {why}", path.display())).into())
}

/// Whether standard output or standard error go to this file.
fn is_output(present: &Metadata) -> bool {
    let is_same = |seen: io::Result<rustix::fs::Stat>| {
        seen.is_ok_and(|seen| (seen.st_dev, seen.st_ino) == (present.dev(), present.ino()))
    };
    is_same(rustix::fs::fstat(io::stdout()).map_err(Into::into))
        || is_same(rustix::fs::fstat(io::stderr()).map_err(Into::into))
}

/// Whether the file may have been written by this program: its first 64 KiB are text, or it is of the kind that may be
/// replaced.
fn is_ours(path: &Path, over: Over) -> io::Result<bool> {
    let mut head = Vec::new();
    // What has become a pipe since is not waited for.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    (&mut file).take(LOOKED_AT).read_to_end(&mut head)?;
    let is_text = match std::str::from_utf8(&head) {
        Ok(text) => !text.contains('\0'),
        // The last character may be cut off.
        Err(error) => head.len() as u64 == LOOKED_AT && error.error_len().is_none() && !head.contains(&0),
    };
    Ok(is_text
        || match over {
            Over::Text => false,
            Over::Recording => straddle_trace::is_recording(&head),
            Over::Parquet => is_parquet(&mut file)?,
        })
}

/// Whether a file begins and ends as a table in Parquet.
fn is_parquet(file: &mut File) -> io::Result<bool> {
    const MAGIC: &[u8; 4] = b"PAR1";
    let (mut first, mut last) = ([0; 4], [0; 4]);
    file.rewind()?;
    file.read_exact(&mut first)?;
    file.seek(io::SeekFrom::End(-4))?;
    file.read_exact(&mut last)?;
    Ok(&first == MAGIC && &last == MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_and_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("plan.json"), dir.path().join("link"));
        write(&path, b"one", &[]).unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&plain));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("plan.json", &link).unwrap();
        write(&link, b"two", &[]).unwrap();
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(listing(dir.path()), ["link", "plain", "plan.json"]);
    }

    #[test]
    fn nothing_else_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let text = dir.path().join("text");
        fs::write(&text, "target").unwrap();
        let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
        fs::hard_link(&text, &hard).unwrap();
        std::os::unix::fs::symlink(&text, &soft).unwrap();
        for (path, inputs) in
            [(&disk, vec![]), (&text, vec![text.as_path()]), (&hard, vec![&text]), (&soft, vec![&text])]
        {
            let error = write(path, b"plan", &inputs).unwrap_err();
            assert!(error.is::<RefusedError>(), "{error:#}");
        }
        assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20]);
        assert_eq!(fs::read(&text).unwrap(), b"target");
    }

    #[test]
    fn a_key_is_no_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("luks.key");
        // None of these bytes begins a character in UTF-8, and none is zero.
        let key: Vec<u8> = (0..32_u8).map(|at| at.wrapping_mul(167) | 0x81).collect();
        fs::write(&path, &key).unwrap();
        assert!(write(&path, b"page", &[]).unwrap_err().is::<RefusedError>());
        assert_eq!(fs::read(&path).unwrap(), key);
        // A long text that is cut inside a character.
        let long = "\u{e4}".repeat(50_000);
        fs::write(&path, format!("x{long}")).unwrap();
        write(&path, b"page", &[]).unwrap();
    }

    #[test]
    fn only_a_file_of_the_same_kind_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.fio");
        write_over(&path, b"; ours\none", &[], "; ours").unwrap();
        write_over(&path, b"; ours\ntwo", &[], "; ours").unwrap();
        for other in ["; our", "notes\n", "\n; ours"] {
            fs::write(&path, other).unwrap();
            assert!(write_over(&path, b"; ours\n", &[], "; ours").unwrap_err().is::<RefusedError>());
            assert_eq!(fs::read_to_string(&path).unwrap(), other);
        }
    }

    /// By any name, and from where it is: what is written before and after stays.
    #[test]
    fn an_open_file_is_written_to_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("log"), dir.path().join("link"));
        for append in [true, false] {
            fs::write(&path, "a log\n").unwrap();
            let mut log = OpenOptions::new().write(true).append(append).open(&path).unwrap();
            log.seek(io::SeekFrom::End(0)).unwrap();
            let number = std::os::fd::AsRawFd::as_raw_fd(&log);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(format!("/dev/fd/{number}"), &link).unwrap();
            let names = [
                format!("/dev/fd/{number}"),
                format!("/proc/self/fd/{number}"),
                format!("/dev/../proc/self/fd/{number}"),
                format!("/proc/thread-self/../../fd/{number}"),
                link.to_str().unwrap().to_owned(),
            ];
            let mut expected = "a log\n".to_owned();
            for name in &names {
                write(Path::new(name), b"page\n", &[]).unwrap();
                let mut pending = Pending::begin(Path::new(name), &[], Over::Text).unwrap();
                pending.write_all(b"more\n").unwrap();
                pending.commit().unwrap();
                let aside = Aside::begin(Path::new(name), &[]).unwrap();
                fs::write(aside.path().unwrap(), "aside\n").unwrap();
                aside.commit().unwrap();
                log.write_all(b"line\n").unwrap();
                expected.push_str("page\nmore\naside\nline\n");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
            assert_eq!(listing(dir.path()), ["link", "log"]);
        }
    }

    /// A file that is only open for reading, and another way to the same folder, are no way round.
    #[test]
    fn other_ways_to_a_file_are_names_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk.img");
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let open = File::open(&disk).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&open);
        let root = format!("/proc/self/root{}", disk.display());
        for name in [format!("/dev/fd/{number}"), root, format!("/proc/1/root{}", disk.display())] {
            assert!(write(Path::new(&name), b"page", &[]).is_err(), "{name}");
            assert!(Aside::begin(Path::new(&name), &[]).is_err() || name.contains("/fd/"), "{name}");
            assert_eq!(fs::read(&disk).unwrap(), vec![0; 1 << 20], "{name}");
        }
        let made = format!("/proc/self/root{}", dir.path().join("new").display());
        write(Path::new(&made), b"page", &[]).unwrap();
        assert_eq!(listing(dir.path()), ["disk.img", "new"]);
    }

    #[test]
    fn only_its_own_kind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let table = [&b"PAR1"[..], &[0xFF, 0, 0xFE], b"PAR1"].concat();
        fs::write(&path, &table).unwrap();
        for over in [Over::Text, Over::Recording] {
            assert!(Pending::begin(&path, &[], over).is_err());
        }
        Pending::begin(&path, &[], Over::Parquet).map(drop).unwrap();
        for other in [&b"PAR1\xFF\x00random"[..], b"PAR\x00"] {
            fs::write(&path, other).unwrap();
            assert!(Pending::begin(&path, &[], Over::Parquet).is_err());
        }
    }

    #[test]
    fn a_file_that_is_written_aside_is_put_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        fs::write(&path, "before").unwrap();
        let aside = Aside::begin(&path, &[]).unwrap();
        fs::write(aside.path().unwrap(), "after").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        aside.commit().unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), listing(dir.path())),
            (b"after".to_vec(), vec!["trace".to_owned()])
        );
        drop(Aside::begin(&path, &[]).unwrap());
        assert_eq!(listing(dir.path()), ["trace"]);
    }

    #[test]
    fn what_cannot_be_stored_leaves_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no folder").join("plan.json");
        assert!(write(&path, b"x", &[]).is_err());
        assert!(write(Path::new("/dev/full"), b"x", &[]).is_err());
        write(Path::new("/dev/null"), b"x", &[]).unwrap();
    }
}
