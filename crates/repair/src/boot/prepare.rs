//! Preparing a move, and cancelling it.
//!
//! Invariants: nothing is installed unless the machine can start while its partitions are being moved;
//! what is installed in part is removed again.

use std::fs;
use std::path::{Path, PathBuf};

use crate::boot::installed::{GENERATORS, Generator, write};
use crate::boot::needed::check_boot_files;
use crate::boot::{BootError, HOME, System, sysfs_of};
use crate::realign::{ASLEEP, ELSEWHERE, Journal, Realign, Reference, hibernated, starts_grub};
use crate::{Change, Present};

impl System {
    /// Installs what moves the partitions of `disk` at the next boot: `realign`, made from what is `present`
    /// there, and `program`, which the hooks run with the arguments `realign DISK --at-boot=now`.
    ///
    /// # Errors
    ///
    /// [`BootError`]; nothing is prepared, but for [`BootError::MayMove`].
    pub fn prepare(
        &self,
        disk: &Path,
        realign: &Realign,
        present: &Present,
        program: &Path,
    ) -> Result<(), BootError> {
        let sys = sysfs_of(disk).ok_or(BootError::NotADisk)?;
        check_start(realign, present, &sys)?;
        self.install(&stable_name(disk), realign, program)
    }

    /// Installs everything, or nothing if the initramfs can be made without it. What is prepared for another disk stays.
    pub(crate) fn install(&self, disk: &Path, realign: &Realign, program: &Path) -> Result<(), BootError> {
        if let Some(other) = self.prepared().filter(|other| !is_same(other, disk)) {
            return Err(BootError::AnotherDisk(other));
        }
        let generator = Generator::find(self).ok_or(BootError::NoGenerator)?;
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
        // It may have made the initramfs of one kernel before it failed at another's.
        if is_made && removed.and_then(|_| generator.run(self)).is_err() {
            return Err(BootError::MayMove { command: generator.command(), source: Box::new(error) });
        }
        let _ = fs::remove_dir_all(home);
        Err(BootError::Removed(Box::new(error)))
    }

    /// The disk for which a move is prepared.
    fn prepared(&self) -> Option<PathBuf> {
        let name = fs::read_to_string(self.home().join("disk")).ok()?;
        Some(PathBuf::from(name.trim_end_matches('\n')))
    }

    /// Removes what [`prepare`](Self::prepare) installed.
    ///
    /// # Errors
    ///
    /// [`BootError::NotPrepared`], [`BootError::AnotherDisk`], or why something of it is still there: then it has to be
    /// cancelled again.
    pub fn cancel(&self, disk: &Path) -> Result<(), BootError> {
        let home = self.home();
        if !home.exists() {
            return Err(BootError::NotPrepared);
        }
        if let Some(other) = self.prepared().filter(|other| !is_same(other, disk)) {
            return Err(BootError::AnotherDisk(other));
        }
        for generator in &GENERATORS {
            // The hooks may be gone, and still be in an initramfs: as long as the plan is there, none was made without
            // them.
            if generator.remove(self)? || generator.is_here(self) {
                generator.run(self)?;
            }
        }
        let failed = |source| BootError::File { path: HOME.into(), what: "remove", source };
        fs::remove_dir_all(home).map_err(failed)
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}

/// Checks that the machine can start while the partitions are being moved, as far as the disk shows it.
fn check_start(realign: &Realign, present: &Present, sys: &Path) -> Result<(), BootError> {
    let blocked = |why: String| Err(BootError::Blocked(why));
    if let Journal::Elsewhere { .. } = realign.journal {
        return blocked("there is no room for the journal on the disk itself".to_owned());
    }
    if let Some(number) = hibernated(present.stack()) {
        return blocked(format!("partition {number}: {ASLEEP}"));
    }
    for (number, reference) in &realign.references {
        let what = match reference {
            Reference::ActivePartition if starts_grub(present.medium())? => continue,
            Reference::ActivePartition => "the boot code of the disk starts it",
            Reference::Grub { .. } | Reference::GrubElsewhere | Reference::BiosBoot => {
                "GRUB's core image is in it"
            }
            Reference::Lilo => "LILO reads kernels by their sectors",
            Reference::Syslinux { .. } => "SYSLINUX is in it",
            Reference::EfiBootEntries => "the firmware reads the boot loader from it",
            _ => continue,
        };
        return blocked(format!(
            "partition {number}: {what}, and the machine cannot boot from it during the move: {ELSEWHERE}"
        ));
    }
    check_boot_files(sys, &moving(realign))
}

pub(crate) fn moving(realign: &Realign) -> Vec<u32> {
    let entries = realign.plan.table.partitions.iter();
    entries.filter(|entry| matches!(entry.change, Change::Moved { .. })).map(|entry| entry.number).collect()
}

/// A name of the disk that does not depend on the order in which disks are found.
fn stable_name(disk: &Path) -> PathBuf {
    let real = fs::canonicalize(disk).unwrap_or_else(|_| disk.to_owned());
    let names = fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut same: Vec<PathBuf> =
        names.filter(|name| fs::canonicalize(name).is_ok_and(|found| found == real)).collect();
    same.sort();
    same.into_iter().next().unwrap_or(real)
}
