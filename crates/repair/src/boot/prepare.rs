//! Preparing a move at boot, and cancelling it.
//!
//! Invariants: nothing is installed unless the machine can start while its partitions are being moved; what cannot be
//! found out counts as needed for that. A partial installation is removed again. Only files of its own, marked in
//! their second line, are replaced and removed. A file is written whole or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use straddle_device::sysfs::{Attributes as _, Directory, partitions};

use super::{BootError, HOME, System, sysfs_of};
use crate::realign::{ASLEEP, ELSEWHERE, Journal, Realign, Reference, hibernated, starts_grub};
use crate::{Present, Situation};

impl System {
    /// Installs what moves the partitions of `disk` at the next boot: `realign`, made from what is `present`
    /// there, and `program`, which the hooks run with the arguments `realign DISK --at-boot=now`. After an
    /// error nothing is prepared, except for [`BootError::MayMove`].
    pub fn prepare(
        &self,
        disk: &Path,
        realign: &Realign,
        present: &Present,
        program: &Path,
    ) -> Result<(), BootError> {
        let sys = sysfs_of(disk).ok_or_else(|| blocked("not a whole disk"))?;
        check_start(realign, present, &sys)?;
        self.install(&stable_name(disk), realign, program)
    }

    pub(crate) fn install(&self, disk: &Path, realign: &Realign, program: &Path) -> Result<(), BootError> {
        self.check_disk(disk)?;
        let generator = GENERATORS.iter().find(|one| one.path(self).is_some());
        let generator =
            generator.ok_or_else(|| blocked("neither initramfs-tools nor dracut is installed"))?;
        generator.check(self)?;
        let plan = realign.to_json().map_err(BootError::Store)? + "\n";
        let unread = |source| BootError::File { path: program.to_owned(), what: "read", source };
        let program = fs::read(program).map_err(unread)?;
        let home = self.home();
        let installed = write(&home.join("straddle"), &program, 0o755)
            .and_then(|()| write(&home.join("plan.json"), plan.as_bytes(), 0o600))
            .and_then(|()| write(&home.join("disk"), format!("{}\n", disk.display()).as_bytes(), 0o644))
            .and_then(|()| generator.install(self));
        let (error, is_made) = match installed {
            Err(error) => (error, false),
            Ok(()) => match generator.run(self) {
                Err(error) => (error, true),
                Ok(()) => return Ok(()),
            },
        };
        let removed = generator.remove(self);
        // One kernel's initramfs may have been made before another's failed.
        if is_made && removed.and_then(|_| generator.run(self)).is_err() {
            return Err(BootError::MayMove { command: generator.command(), source: Box::new(error) });
        }
        let _ = fs::remove_dir_all(home);
        Err(BootError::Removed(Box::new(error)))
    }

    fn check_disk(&self, disk: &Path) -> Result<(), BootError> {
        let Ok(name) = fs::read_to_string(self.home().join("disk")) else { return Ok(()) };
        let prepared = PathBuf::from(name.trim_end_matches('\n'));
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if real(&prepared) == real(disk) { Ok(()) } else { Err(BootError::AnotherDisk(prepared)) }
    }

    /// Removes what [`prepare`](Self::prepare) installed. After an error other than
    /// [`BootError::NotPrepared`] and [`BootError::AnotherDisk`], it has to be cancelled again.
    pub fn cancel(&self, disk: &Path) -> Result<(), BootError> {
        let home = self.home();
        if !home.exists() {
            return Err(BootError::NotPrepared);
        }
        self.check_disk(disk)?;
        for generator in &GENERATORS {
            // The hooks may be gone, and still be in an initramfs.
            if generator.remove(self)? || generator.path(self).is_some() {
                generator.run(self)?;
            }
        }
        let failed = |source| BootError::File { path: HOME.into(), what: "remove", source };
        fs::remove_dir_all(home).map_err(failed)
    }
}

fn check_start(realign: &Realign, present: &Present, sys: &Directory) -> Result<(), BootError> {
    if let Journal::Elsewhere { .. } = realign.journal {
        return Err(blocked("the disk itself has no room for the journal"));
    }
    let Situation { medium, stack, .. } = present.situation();
    if let Some(number) = hibernated(stack) {
        return Err(blocked(format!("partition {number}: {ASLEEP}")));
    }
    for (number, reference) in &realign.references {
        let what = match reference {
            Reference::ActivePartition if starts_grub(medium)? => continue,
            Reference::ActivePartition => "the boot code of the disk boots from that partition",
            Reference::Grub { .. } | Reference::GrubElsewhere | Reference::BiosBoot => {
                "that partition holds GRUB's core image"
            }
            Reference::Lilo => "LILO reads the kernels in that partition by their sector numbers",
            Reference::Syslinux { .. } => "that partition holds SYSLINUX",
            Reference::EfiBootEntries => "the firmware reads the boot loader from that partition",
            _ => continue,
        };
        return Err(blocked(format!(
            "the machine could not boot during the move of partition {number}, because {what}; {ELSEWHERE}"
        )));
    }
    check_boot_files(sys, &moving(realign))
}

pub(super) fn moving(realign: &Realign) -> Vec<u32> {
    let entries = realign.plan.table.partitions.iter();
    entries.filter(|entry| entry.is_moved()).map(|entry| entry.number).collect()
}

/// A name of the disk that does not depend on the order in which disks are found.
fn stable_name(disk: &Path) -> PathBuf {
    let real = fs::canonicalize(disk).unwrap_or_else(|_| disk.to_owned());
    let names = fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|entry| entry.path());
    let same = names.filter(|name| fs::canonicalize(name).is_ok_and(|found| found == real));
    same.min().unwrap_or(real)
}

const FOLDERS: [&str; 5] = ["/boot", "/boot/grub", "/boot/grub2", "/boot/efi", "/efi"];

fn check_boot_files(disk: &Directory, moving: &[u32]) -> Result<(), BootError> {
    let listed = partitions(disk).into_iter().filter(|one| moving.contains(&one.number));
    let listed: Vec<_> = listed.map(|one| (one.number, disk.text(&format!("{}/dev", one.name)))).collect();
    for folder in FOLDERS.map(PathBuf::from).into_iter().filter(|path| path.exists()) {
        let name = folder.display();
        let unknown = || blocked(format!("the disk that holds {name} is unknown"));
        let below = below(&folder).ok_or_else(unknown)?;
        let holds = |device: &Option<String>| device.as_ref().is_none_or(|device| below.contains(device));
        if let Some((number, _)) = listed.iter().find(|(_, device)| holds(device)) {
            return Err(blocked(format!(
                "{name} is in partition {number}, which the boot loader cannot read during the move; \
                 {ELSEWHERE}, or move /boot to an aligned partition"
            )));
        }
    }
    Ok(())
}

fn blocked(why: impl Into<String>) -> BootError {
    BootError::Blocked(why.into())
}

/// The devices (as `8:1`) below all mappings and arrays under the file system of `path`, if known.
fn below(path: &Path) -> Option<BTreeSet<String>> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (number, kind, source) = mount_of(&mounts, &path)?;
    let tops = match kind {
        "btrfs" => btrfs_devices(source)?,
        _ if number.starts_with("0:") => vec![number_of(Path::new(source))?],
        _ => vec![number.to_owned()],
    };
    let mut found = BTreeSet::new();
    for top in tops {
        leaves(&top, &mut found)?;
    }
    Some(found)
}

/// The device number, type and source of the last mount that holds `path` (proc(5), mountinfo).
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str, &'a str)> {
    let mount = |line: &'a str| {
        let (fields, rest) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(2);
        let (number, point) = (fields.next()?, fields.nth(1)?);
        let mut rest = rest.split(' ');
        let (kind, source) = (rest.next()?, rest.next()?);
        // Blanks and the like are in octal, so that a path with them matches no other.
        path.starts_with(point).then_some((point.len(), (number, kind, source)))
    };
    mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len).map(|(_, mount)| mount)
}

fn number_of(device: &Path) -> Option<String> {
    let name = fs::canonicalize(device).ok()?.file_name()?.to_owned();
    Directory::new(Path::new("/sys/class/block").join(name)).text("dev")
}

fn btrfs_devices(source: &str) -> Option<Vec<String>> {
    let name = fs::canonicalize(source).ok()?.file_name()?.to_owned();
    let systems = fs::read_dir("/sys/fs/btrfs").ok()?.flatten();
    let devices = systems.map(|system| system.path().join("devices")).find(|all| all.join(&name).exists())?;
    let devices = Directory::new(devices);
    devices.list("").iter().map(|name| devices.text(&format!("{name}/dev"))).collect()
}

fn leaves(number: &str, found: &mut BTreeSet<String>) -> Option<()> {
    let device = Directory::new(Path::new("/sys/dev/block").join(number));
    let slaves = device.list("slaves");
    if slaves.is_empty() {
        found.insert(number.to_owned());
        return device.path().exists().then_some(());
    }
    slaves.iter().try_for_each(|slave| leaves(&device.text(&format!("slaves/{slave}/dev"))?, found))
}

const OURS: &str = "# Installed by 'straddle realign --at-boot'; '--at-boot=cancel' removes it.";

pub(crate) struct Generator {
    program: &'static str,
    arguments: &'static [&'static str],
    hooks: &'static [(&'static str, &'static str)],
    /// Only for the hooks.
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

    pub(crate) fn check(&self, system: &System) -> Result<(), BootError> {
        let mut paths = self.hooks.iter().map(|(path, _)| system.path(path));
        let foreign = paths.find(|path| fs::symlink_metadata(path).is_ok() && !is_ours(path));
        foreign.map_or(Ok(()), |path| Err(BootError::Foreign(path)))
    }

    pub(crate) fn install(&self, system: &System) -> Result<(), BootError> {
        self.hooks.iter().try_for_each(|(path, text)| write(&system.path(path), text.as_bytes(), 0o755))
    }

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

/// Replaces a file, durably.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const MOUNTS: &str = "\
22 1 254:1 / / rw,noatime shared:1 - ext4 /dev/vda1 rw
23 22 254:2 / /boot rw - ext4 /dev/vda2 rw
24 22 0:22 /@home /home rw shared:3 master:1 - btrfs /dev/vdb1 rw
25 23 254:3 / /boot rw - ext4 /dev/vda3 rw
";

    #[test]
    fn the_innermost_and_last_mount_holds_a_path() {
        let of = |path| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(of("/etc"), ("254:1", "ext4", "/dev/vda1"));
        assert_eq!(of("/bootstrap"), ("254:1", "ext4", "/dev/vda1"));
        assert_eq!(of("/boot/grub"), ("254:3", "ext4", "/dev/vda3"));
        assert_eq!(of("/home/x"), ("0:22", "btrfs", "/dev/vdb1"));
    }
}
