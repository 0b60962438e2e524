//! What the host provides: the guest's kernel, and the library that is preloaded into it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::guest::job::GuestError;

/// The guest's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) path: PathBuf,
}

impl Kernel {
    /// Finds User-Mode Linux: in `LINUX_UML`, or as `linux.uml` or `linux` in the search path.
    pub fn find() -> Result<Self, GuestError> {
        let named = std::env::var_os("LINUX_UML").filter(|name| !name.is_empty());
        let name = named.clone().unwrap_or_else(|| "linux.uml".into());
        let found = search(Path::new(&name));
        let missing = || GuestError::Host {
            what: match named {
                Some(_) => format!("LINUX_UML names {}, which is not a program", Path::new(&name).display()),
                None => {
                    "linux.uml (User-Mode Linux) was not found in PATH; the lab runs it as its guest".into()
                }
            },
            fix: "install it (apt-get install user-mode-linux), or set LINUX_UML to a kernel built for \
                  ARCH=um"
                .into(),
        };
        found.map(|path| Self { path }).ok_or_else(missing)
    }
}

fn search(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

pub(crate) struct Library {
    contents: &'static [u8],
    file: OnceLock<File>,
}

pub(crate) static CLOCK_LIBRARY: Library =
    Library { contents: include_bytes!(concat!(env!("OUT_DIR"), "/clock.so")), file: OnceLock::new() };
/// What a guest in the host's time needs: how its kernel traces its processes, and where its memory is.
pub(crate) static REAL_TIME_LIBRARY: Library =
    Library { contents: include_bytes!(concat!(env!("OUT_DIR"), "/real_time.so")), file: OnceLock::new() };

impl Library {
    /// Returns a file that child processes can open, by this path and with this descriptor. It has no name, so no
    /// mount can prevent its use.
    pub(crate) fn file(&'static self) -> Result<(PathBuf, BorrowedFd<'static>), GuestError> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let made =
                    self.make().map_err(GuestError::io("cannot keep the clock of the guest in memory"))?;
                self.file.get_or_init(|| made)
            }
        };
        Ok((PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), file.as_fd()))
    }

    fn make(&self) -> io::Result<File> {
        // Deliberately not close-on-exec.
        let mut file = File::from(rustix::fs::memfd_create("straddle-clock", MemfdFlags::ALLOW_SEALING)?);
        file.write_all(self.contents)?;
        // Guests inherit it, and the next guest is started with it.
        let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&file, all)?;
        Ok(file)
    }
}

/// Messages of the console when the host lacks something: the message, what is missing, and the fix.
const KNOWN: [(&str, &str, &str); 7] = [
    (
        "ptrace: Operation not permitted",
        "the guest is not permitted to trace its processes (ptrace)",
        "to allow this, use sysctl kernel.yama.ptrace_scope=1 or, in a container, --cap-add SYS_PTRACE or a \
         seccomp profile that allows ptrace",
    ),
    (
        "PTRACE_TRACEME failed",
        "the guest is not permitted to trace its processes (ptrace)",
        "to allow this, use sysctl kernel.yama.ptrace_scope=1 or, in a container, a seccomp profile that \
         allows ptrace",
    ),
    (
        "straddle-clock: too many open files",
        "the guest's kernel has reached this shell's limit on open files (ulimit -n)",
        "raise the limit to 4096 or more (ulimit -n 4096)",
    ),
    (
        "straddle-clock: cannot write the record of events",
        "the --events file could not be written",
        "check whether its disk is full",
    ),
    (
        "setup_physmem - mapping",
        "this machine cannot allocate that much memory for the guest",
        "use a smaller --mem, or raise the memory limit of this shell (ulimit -v unlimited)",
    ),
    ("Out of memory", "the guest has run out of memory", "use a larger --mem"),
    ("deadlocked on memory", "the guest has run out of memory", "use a larger --mem"),
];

const PANIC: &str = "Kernel panic - not syncing: ";
const LAST_LINES: usize = 4;

/// Explains why the guest ended before its script, from the way its kernel ended and from its console.
pub(crate) fn diagnose(how: String, console: &str) -> GuestError {
    if let Some((_, what, fix)) = KNOWN.iter().find(|(sign, ..)| console.contains(sign)) {
        return GuestError::Host { what: (*what).into(), fix: (*fix).into() };
    }
    // The panic message is followed by a stack trace, which only kernel developers can read.
    let (before, after) = console.split_once(PANIC).unwrap_or((console, ""));
    let why = after.lines().next().unwrap_or_default().trim();
    let how = if why.is_empty() { how } else { format!("its kernel panicked: {why}") };
    let is_reporting = |line: &&str| !line.is_empty() && !line.contains("[<");
    let lines: Vec<&str> = before.lines().map(str::trim).filter(is_reporting).collect();
    let console = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
    GuestError::Died { how, console }
}

#[cfg(test)]
mod tests {
    use super::diagnose;

    #[test]
    fn a_panic_becomes_a_sentence_without_a_stack() {
        let console = "Freeing unused memory\nfirst process: no shell\n\
            Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\nCPU: 0 PID: 1\n\
            Call Trace:\n [<60046010>] ? um_set_signals+0x36/0x3e\n";
        let message = diagnose("its kernel was killed by signal 6".into(), console).to_string();
        assert_eq!(
            message,
            "the guest stopped before its script finished (its kernel panicked: Attempted to kill init! \
             exitcode=0x00000100); its console ended with: Freeing unused memory | first process: no shell"
        );
    }

    #[test]
    fn what_the_host_lacks_is_named_with_what_to_do() {
        for (sign, what) in [
            ("straddle-clock: too many open files", "ulimit -n"),
            ("Out of memory: Killed process 17", "--mem"),
            ("check_ptrace: PTRACE_TRACEME failed", "seccomp"),
        ] {
            let message = diagnose("its kernel exited with 97".into(), &format!("a\n{sign}\nb")).to_string();
            assert!(message.contains(what) && message.lines().count() == 1, "{message}");
        }
    }
}
