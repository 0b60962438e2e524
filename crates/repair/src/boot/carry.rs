//! Carrying out a prepared move in the initramfs.
//!
//! Invariants: whatever ends a move, the kernel lists the partitions that move where the table has them, or not at
//! all; otherwise the machine reboots. The result is recorded. A hibernated system has the old table and open file
//! systems in memory, and would write to the old places: nothing is moved unless there certainly is none.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use straddle_device::shown::with_causes;
use straddle_device::sysfs::partitions;
use straddle_device::{Options, ioctl};
use straddle_layout::{HIBERNATION_REACH, is_hibernation};

use super::prepare::{moving, write};
use super::{BootError, LOG, System, sysfs_of};
use crate::apply::ApplyError;
use crate::realign::{JournalPlace, Listing, MoveError, Outcome, Realign, Run, Watch};
use crate::{Depth, Present, Target};

/// How often the kernel is asked to reread the table, and the pauses between.
const REREADS: (u32, Duration) = (20, Duration::from_millis(500));
/// How long the reason for a reboot is shown.
const PAUSE: Duration = Duration::from_secs(5);

/// Receives what a move at boot has to say.
pub struct Console<'c> {
    /// Receives the progress, and may stop the moves at a safe point.
    pub watch: Watch<'c>,
    /// Receives the list of what could not be read.
    pub list: Listing<'c>,
    /// Receives why the machine reboots, before it does.
    pub restart: &'c mut dyn FnMut(&str),
}

/// How a move at boot ended. `unreadable` is the number of areas that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the texts document the variants")]
pub enum Ended {
    AlreadyDone,
    Complete {
        is_resumed: bool,
        unreadable: usize,
    },
    /// A rollback that had begun earlier.
    Back {
        unreadable: usize,
    },
    Paused,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyDone => "the partitions have been moved; --at-boot=cancel removes the hook",
            Self::Complete { is_resumed: false, .. } => "the move is complete",
            Self::Complete { is_resumed: true, .. } => "the move was interrupted and is now complete",
            Self::Back { .. } => "the old layout is restored",
            Self::Paused => "the move was interrupted at a safe point; the next boot will resume it",
        })?;
        match self {
            Self::Complete { unreadable, .. } | Self::Back { unreadable } if *unreadable > 0 => {
                write!(f, "; areas that could not be read: {unreadable}")
            }
            _ => Ok(()),
        }
    }
}

impl System {
    /// Resumes an unfinished move of `disk`, or begins the prepared one, whose journal is named `id`. Reboots if the
    /// kernel does not list the table's partitions afterwards. [`BootError::NotMoved`]: nothing was written.
    pub fn carry_out(
        &self,
        disk: &Path,
        id: [u8; 16],
        console: &mut Console<'_>,
    ) -> Result<Ended, BootError> {
        let mut begun = None;
        let ended = self.moved(disk, id, console, &mut begun);
        let ended = match begun {
            None => ended.map_err(|error| BootError::NotMoved(Box::new(error))),
            Some(realign) => agree_or_restart(disk, &realign, &ended, console).and(ended),
        };
        let log = format!("{}\n{}\n", disk.display(), described(&ended));
        let recorded = write(&self.path(LOG), log.as_bytes(), 0o644);
        ended.and_then(|ended| recorded.map(|()| ended))
    }

    /// `begun` is the plan of which something may have been written.
    fn moved(
        &self,
        disk: &Path,
        id: [u8; 16],
        console: &mut Console<'_>,
        begun: &mut Option<Realign>,
    ) -> Result<Ended, BootError> {
        let realign = self.plan()?;
        let mut target = Target::open(disk, None)?;
        match Run::find(&mut target, None) {
            Ok(mut run) => {
                let realign = begun.insert(run.realign().clone()).clone();
                let unfinished = |error: MoveError| BootError::Unfinished(Box::new(error.into()));
                let is_back = run.is_turned().map_err(unfinished)?;
                let outcome = finished(run, is_back, console);
                return ended(outcome, &realign, &target, (true, is_back));
            }
            Err(MoveError::Nothing) => {}
            Err(error) => return Err(error.into()),
        }
        if realign.is_done(&target)? {
            return Ok(Ended::AlreadyDone);
        }
        if let Some(why) = suspected(self) {
            return Err(BootError::Hibernated(why));
        }
        let run = realign.begin(&mut target, JournalPlace::Inside, id)?;
        *begun = Some(realign.clone());
        let outcome = finished(run, false, console);
        ended(outcome, &realign, &target, (false, false))
    }

    fn plan(&self) -> Result<Realign, BootError> {
        let path = self.home().join("plan.json");
        let read = fs::read_to_string(&path);
        let text = read.map_err(|source| BootError::File { path, what: "read", source })?;
        Ok(Realign::from_json(&text)?)
    }
}

fn described(ended: &Result<Ended, BootError>) -> String {
    ended.as_ref().map_or_else(|error| with_causes(error), Ended::to_string)
}

fn finished(run: Run<'_>, is_back: bool, console: &mut Console<'_>) -> Result<Outcome, MoveError> {
    match is_back {
        true => run.roll_back_listing(console.watch, console.list),
        false => run.finish_listing(console.watch, console.list),
    }
}

fn ended(
    outcome: Result<Outcome, MoveError>,
    realign: &Realign,
    target: &Target<'_>,
    (is_resumed, is_back): (bool, bool),
) -> Result<Ended, BootError> {
    let complete = |unreadable| match is_back {
        true => Ended::Back { unreadable },
        false => Ended::Complete { is_resumed, unreadable },
    };
    match outcome {
        Ok(Outcome::Complete(bad)) => Ok(complete(bad.len())),
        Ok(Outcome::Paused) => Ok(Ended::Paused),
        // The table is written, and the kernel is asked again later.
        Err(MoveError::Apply(ApplyError::Kernel(_))) => Ok(complete(0)),
        Err(error) => {
            let is_done = matches!(realign.is_done(target), Ok(true));
            let error = Box::new(error.into());
            Err(if is_done { BootError::EndedBadly(error) } else { BootError::Unfinished(error) })
        }
    }
}

fn agree_or_restart(
    disk: &Path,
    realign: &Realign,
    ended: &Result<Ended, BootError>,
    console: &mut Console<'_>,
) -> Result<(), BootError> {
    let Err(error) = agree(disk, realign) else { return Ok(()) };
    (console.restart)(&format!("{}; {}", described(ended), with_causes(&error)));
    std::thread::sleep(PAUSE);
    // A boot would mount partitions that are elsewhere by now.
    fs::write("/proc/sysrq-trigger", "b").map_err(BootError::NoRestart)?;
    Err(error)
}

/// Has the kernel list the partitions that move where the table has them, or not at all if it has none.
fn agree(disk: &Path, realign: &Realign) -> Result<(), BootError> {
    let Some(sys) = sysfs_of(disk) else { return Ok(()) };
    let moving = moving(realign);
    for _ in 0..REREADS.0 {
        let present = Present::to_change(disk, &Options::default(), Depth::Contents)?;
        let table = present.situation().stack.partitions.iter().map(|p| (p.number, p.span.start()));
        let mut table: Vec<_> = table.filter(|(number, _)| moving.contains(number)).collect();
        table.sort_unstable();
        let listed = partitions(&sys).into_iter().map(|p| (p.number, p.span.start()));
        if listed.filter(|(number, _)| moving.contains(number)).eq(table) {
            return Ok(());
        }
        if let Ok(file) = File::open(disk) {
            let _ = ioctl::reread_partitions(&file);
        }
        std::thread::sleep(REREADS.1);
    }
    Err(BootError::NotListed)
}

/// Why something may be hibernated; `None` if nothing is.
pub(crate) fn suspected(system: &System) -> Option<String> {
    let list = |folder: &str| fs::read_dir(system.path(folder)).into_iter().flatten().flatten();
    let more = list("/etc/cmdline.d").map(|entry| entry.path());
    let files = [system.path("/proc/cmdline")].into_iter().chain(more);
    let lines: Vec<String> = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let line = lines.join(" ");
    // initramfs-tools exports these to its scripts.
    let exported = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let setting = |name: &str| setting(&line, name).map(str::to_owned).or_else(|| exported(name));
    if line.split_ascii_whitespace().any(|word| word == "noresume") || exported("noresume").is_some() {
        return None;
    }

    const HELP: &str = "add noresume to the kernel's command line";
    let mut names = list("/sys/firmware/efi/efivars").map(|entry| entry.file_name());
    if names.any(|name| name.to_string_lossy().starts_with("HibernateLocation-")) {
        let what = "the firmware has a record of a hibernated system";
        return Some(format!("{what}; resume that system and shut it down, or {HELP}"));
    }
    if setting("resume_offset").is_some() {
        return Some(format!("a swap file may hold a hibernated system; if it does not, {HELP}"));
    }
    let mut devices = list("/sys/class/block").map(|entry| Path::new("/dev").join(entry.file_name()));
    if let Some(device) = devices.find(|device| is_suspended(&system.path(device)) == Some(true)) {
        return Some(format!(
            "{} holds a hibernated system; resume that system and shut it down",
            device.display()
        ));
    }
    let device = setting("resume").filter(|device| device != "none")?;
    if path_of(system, &device).is_some_and(|path| is_suspended(&path).is_some()) {
        return None;
    }
    Some(format!("{device}, which cannot be read yet, may hold a hibernated system; if it does not, {HELP}"))
}

fn setting<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn path_of(system: &System, device: &str) -> Option<PathBuf> {
    let path = match device.split_once('=') {
        Some(("UUID", uuid)) => Path::new("/dev/disk/by-uuid").join(uuid),
        Some(("LABEL", label)) => Path::new("/dev/disk/by-label").join(label),
        Some(("PARTUUID", uuid)) => Path::new("/dev/disk/by-partuuid").join(uuid),
        _ => PathBuf::from(device),
    };
    let path = system.path(path);
    path.exists().then_some(path)
}

/// `None` if it cannot be read.
fn is_suspended(device: &Path) -> Option<bool> {
    let file = File::open(device).ok()?;
    let mut head = Vec::new();
    let read = file.take(HIBERNATION_REACH).read_to_end(&mut head);
    let is_marked = is_hibernation(&head);
    (is_marked || (read.is_ok() && !head.is_empty())).then_some(is_marked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let of = |line| (setting(line, "resume"), setting(line, "resume_offset"));
        assert_eq!(of("quiet root=/dev/sda1\n"), (None, None));
        assert_eq!(of("resume=UUID=1-2 resume_offset=8 x"), (Some("UUID=1-2"), Some("8")));
        assert_eq!(of("noresume resume=/dev/sda1 resume=/dev/sda2"), (Some("/dev/sda2"), None));
    }

    #[test]
    fn an_image_is_seen_at_the_end_of_the_first_page() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(is_suspended(file.path()), None, "too short to be read");
        file.as_file().set_len(65536).unwrap();
        file.as_file().write_all_at(b"SWAPSPACE2", 4086).unwrap();
        assert_eq!(is_suspended(file.path()), Some(false));
        for mark in [&b"S1SUSPEND\0"[..], b"LINHIB0001", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"] {
            file.as_file().write_all_at(mark, 4086).unwrap();
            assert_eq!(is_suspended(file.path()), Some(true), "{mark:?}");
        }
    }
}
