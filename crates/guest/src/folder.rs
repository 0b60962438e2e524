//! A run's own folder: what the guest finds there, and what it leaves.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::job::{GuestError, Job, Measured};

/// The longest path of a socket is 108 bytes; leave some for its name.
const LONGEST_PATH: usize = 90;

const INIT: &str = include_str!("../init/init");

/// When the folder's files were modified, as far as the guest can see: 2023-11-14.
const AGE: Duration = Duration::from_secs(1_700_000_000);

/// Names within the folder.
pub(crate) const CLOCK: &str = "clock";

/// The folder; it goes with everything in it when this is dropped.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new(job: &Job) -> Result<Self, GuestError> {
        let usual = std::env::temp_dir();
        // The guest's kernel mounts its own /dev before it looks for its first process in the folder.
        let hidden = usual.starts_with("/dev");
        let fits = !hidden && usual.as_os_str().len() <= LONGEST_PATH;
        let parent = if fits { usual } else { PathBuf::from("/tmp") };
        let failed =
            |source| GuestError::io(format!("making a folder for the guest in {}", parent.display()))(source);
        let folder = tempfile::Builder::new().prefix("straddle-").tempdir_in(&parent).map_err(failed)?;
        let this = Self { folder };
        let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        for (name, text, executable) in [
            ("init", INIT, true),
            ("library", &job.library, false),
            ("script", &job.script, true),
            ("job", &description(job, &current), false),
            ("results", "", false),
        ] {
            this.write(name, text, executable).map_err(failed)?;
        }
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A socket that the guest will connect to.
    pub(crate) fn listen(&self, name: &str) -> Result<UnixListener, GuestError> {
        UnixListener::bind(self.path().join(name)).map_err(GuestError::io("making a socket for the guest"))
    }

    /// The script's exit status; `None` where the guest ended before it.
    pub(crate) fn status(&self) -> Option<i32> {
        std::fs::read_to_string(self.path().join("status")).ok()?.trim().parse().ok()
    }

    /// What the script has measured: lines of a name and a number.
    pub(crate) fn measures(&self) -> Vec<Measured> {
        let text = std::fs::read_to_string(self.path().join("results")).unwrap_or_default();
        let measure = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some(Measured { name: name.to_owned(), value: value.parse().ok()? })
        };
        text.lines().filter_map(measure).collect()
    }

    fn write(&self, name: &str, text: &str, executable: bool) -> io::Result<()> {
        let mut file = File::create(self.path().join(name))?;
        file.write_all(text.as_bytes())?;
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        // The guest sees this time, and every run must look the same to it.
        file.set_modified(SystemTime::UNIX_EPOCH + AGE)
    }
}

/// What `init` has to know, as assignments of bash.
fn description(job: &Job, current: &Path) -> String {
    let mut text = String::new();
    let path = |path: &Option<PathBuf>| path.as_deref().map_or(String::new(), quoted);
    let arguments: Vec<String> = job.arguments.iter().map(|argument| quoted(Path::new(argument))).collect();
    let letters: Vec<String> = (0..job.drives.len()).map(|index| letter(index).to_string()).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "CURRENT={}", quoted(current));
    let _ = writeln!(text, "export INPUT={} OUTPUT={}", path(&job.input), path(&job.output));
    let _ = writeln!(text, "ARGUMENTS=({})", arguments.join(" "));
    let _ = writeln!(text, "LETTERS=({})", letters.join(" "));
    let _ = writeln!(text, "declare -A STARTS SIZES");
    for (index, drive) in job.drives.iter().enumerate() {
        let start = drive.start.map_or("none".to_owned(), |start| start.to_string());
        let size = drive.size.map_or(String::new(), |size| size.to_string());
        let _ = writeln!(text, "STARTS[{0}]={start} SIZES[{0}]={size}", letter(index));
    }
    for (name, value) in &job.environment {
        let _ = writeln!(text, "export {name}={}", quoted(Path::new(value)));
    }
    text
}

fn letter(index: usize) -> char {
    u8::try_from(index).map_or('z', |index| char::from(b'a' + index.min(25)))
}

/// As one word of the shell. What is no UTF-8 loses what cannot be said; such a path is then not found, and said so.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
