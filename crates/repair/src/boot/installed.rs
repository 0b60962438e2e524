//! What is installed: the plan, the program, and the hooks of the program that makes the initramfs.
//!
//! Invariants: only files of its own, which say so in their second line, are replaced and removed. A file is
//! written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BootError, System};

/// Every hook has this line.
const OURS: &str = "# Installed by 'straddle realign --at-boot'; '--at-boot=cancel' removes it.";

/// A program that makes the initramfs, and what is installed for it.
pub(crate) struct Generator {
    program: &'static str,
    arguments: &'static [&'static str],
    hooks: &'static [(&'static str, &'static str)],
    /// A folder that is only for the hooks.
    folder: Option<&'static str>,
}

pub(crate) const GENERATORS: [Generator; 2] = [
    Generator {
        program: "update-initramfs",
        arguments: &["-u", "-k", "all"],
        hooks: &[
            ("/etc/initramfs-tools/hooks/straddle", include_str!("../../hooks/initramfs-hook")),
            (
                "/etc/initramfs-tools/scripts/init-premount/straddle",
                include_str!("../../hooks/initramfs-script"),
            ),
        ],
        folder: None,
    },
    Generator {
        program: "dracut",
        arguments: &["--force", "--regenerate-all"],
        hooks: &[
            (
                "/usr/lib/dracut/modules.d/90straddle/module-setup.sh",
                include_str!("../../hooks/dracut-setup"),
            ),
            (
                "/usr/lib/dracut/modules.d/90straddle/straddle-at-boot.sh",
                include_str!("../../hooks/dracut-script"),
            ),
        ],
        folder: Some("/usr/lib/dracut/modules.d/90straddle"),
    },
];

impl Generator {
    pub(crate) fn find(system: &System) -> Option<&'static Self> {
        GENERATORS.iter().find(|one| one.path(system).is_some())
    }

    /// The path of the program, if it is installed.
    pub(crate) fn path(&self, system: &System) -> Option<PathBuf> {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .map(|folder| system.path(folder).join(self.program))
            .find(|path| path.exists())
    }

    pub(crate) fn command(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }

    pub(crate) fn run(&self, system: &System) -> Result<(), BootError> {
        let failed = |source| BootError::Run { program: self.program, source };
        let program = self.path(system).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let status = Command::new(program).args(self.arguments).status().map_err(failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(BootError::Generator { command: self.command(), status }),
        }
    }

    /// Refuses if another program's file is in the place of a hook.
    pub(crate) fn check(&self, system: &System) -> Result<(), BootError> {
        let mut paths = self.hooks.iter().map(|(path, _)| system.path(path));
        let foreign = paths.find(|path| fs::symlink_metadata(path).is_ok() && !is_ours(path));
        foreign.map_or(Ok(()), |path| Err(BootError::Foreign(path)))
    }

    pub(crate) fn install(&self, system: &System) -> Result<(), BootError> {
        self.hooks.iter().try_for_each(|(path, text)| write(&system.path(path), text.as_bytes(), 0o755))
    }

    /// Removes the hooks; false if there were none.
    pub(crate) fn remove(&self, system: &System) -> Result<bool, BootError> {
        let mut is_found = false;
        for path in self.hooks.iter().map(|(path, _)| system.path(path)).filter(|path| is_ours(path)) {
            let removed = fs::remove_file(&path);
            removed.map_err(|source| BootError::File { path, what: "remove", source })?;
            is_found = true;
        }
        if let Some(folder) = self.folder.filter(|_| is_found) {
            // It stays if something else is in it.
            let _ = fs::remove_dir(system.path(folder));
        }
        Ok(is_found)
    }
}

fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().nth(1) == Some(OURS))
}

/// Writes a file, durably, and puts it in the place of an older one.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), BootError> {
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = path.with_extension("new");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|source| BootError::File { path: path.to_owned(), what: "write", source })
}
