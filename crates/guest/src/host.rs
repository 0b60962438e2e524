//! What the host has to offer: the guest's kernel, and the library that is put before it.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::MemfdFlags;

use crate::job::GuestError;

static CLOCK: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.so"));

/// The guest's kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    path: PathBuf,
}

impl Kernel {
    /// Finds User-Mode Linux: in `LINUX_UML`, or as `linux.uml` or `linux` in the search path.
    pub fn find() -> Result<Self, GuestError> {
        let named = std::env::var_os("LINUX_UML").filter(|name| !name.is_empty());
        let name = named.clone().unwrap_or_else(|| "linux.uml".into());
        let found = search(Path::new(&name));
        let missing = || GuestError::Host {
            what: match named {
                Some(_) => format!("LINUX_UML names {}, which is no program", Path::new(&name).display()),
                None => "no linux.uml in the search path: the lab's guest is User-Mode Linux".into(),
            },
            cure: "apt-get install user-mode-linux, or set LINUX_UML to a kernel built for ARCH=um".into(),
        };
        found.map(|path| Self { path }).ok_or_else(missing)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn search(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The library as a file that children can open: it has no name, so that no mount can forbid its use.
pub(crate) fn clock_library() -> Result<PathBuf, GuestError> {
    static LIBRARY: OnceLock<File> = OnceLock::new();
    if LIBRARY.get().is_none() {
        let make = || {
            // Not closed on exec, on purpose.
            let mut file = File::from(rustix::fs::memfd_create("straddle-clock", MemfdFlags::empty())?);
            file.write_all(CLOCK)?;
            Ok(file)
        };
        let file = make().map_err(GuestError::io("keeping the guest's clock in memory"))?;
        // Somebody else may have been faster; one is as good as the other.
        let _ = LIBRARY.set(file);
    }
    let file = LIBRARY.get().map_or(-1, AsRawFd::as_raw_fd);
    Ok(PathBuf::from(format!("/proc/self/fd/{file}")))
}

/// What the end of the console means, where it is known; otherwise what is there.
pub(crate) fn diagnose(how: String, console: &str) -> GuestError {
    let known = [
        (
            "ptrace: Operation not permitted",
            "the guest may not trace its processes (ptrace is forbidden here)",
            "allow it: sysctl kernel.yama.ptrace_scope=1, or in a container --cap-add SYS_PTRACE or a seccomp profile that has ptrace",
        ),
        (
            "PTRACE_TRACEME failed",
            "the guest may not trace its processes (ptrace is forbidden here)",
            "allow it: sysctl kernel.yama.ptrace_scope=1, or in a container a seccomp profile that has ptrace",
        ),
        ("Out of memory", "the guest has run out of its memory", "give it more with --mem"),
    ];
    for (sign, what, cure) in known {
        if console.contains(sign) {
            return GuestError::Host { what: what.into(), cure: cure.into() };
        }
    }
    let lines: Vec<&str> = console.lines().collect();
    let console = lines[lines.len().saturating_sub(15)..].join("\n");
    GuestError::Died { how, console }
}
