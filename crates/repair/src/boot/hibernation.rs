//! Whether a hibernated system waits to be resumed.
//!
//! Invariants: a hibernated system has the old table and open file systems in memory, and would write to the
//! old places. Unless it is certain that there is none, nothing is moved.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use straddle_layout::{HIBERNATION_REACH, is_hibernation};

use super::System;

/// Why something may be hibernated; `None` if nothing is.
pub(crate) fn suspected(system: &System) -> Option<String> {
    let list = |folder: &str| fs::read_dir(system.path(folder)).into_iter().flatten().flatten();
    let commands = fs::read_to_string(system.path("/proc/cmdline")).unwrap_or_default();
    let more = list("/etc/cmdline.d").filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let more: Vec<String> = more.collect();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // initramfs-tools exports these to its scripts.
    let settings = Settings::of(&format!("{commands} {}", more.join(" ")));
    let settings = Settings {
        is_off: settings.is_off || variable("noresume").is_some(),
        has_offset: settings.has_offset || variable("resume_offset").is_some(),
        device: settings.device.or_else(|| variable("resume")),
    };
    if settings.is_off {
        return None;
    }

    const HELP: &str = "add noresume to the kernel's command line";
    let mut names = list("/sys/firmware/efi/efivars").map(|entry| entry.file_name());
    if names.any(|name| name.to_string_lossy().starts_with("HibernateLocation-")) {
        let what = "the firmware has a record of a hibernated system";
        return Some(format!("{what}: resume it and shut it down, or {HELP}"));
    }
    if settings.has_offset {
        return Some(format!("a hibernated system may be in a swap file: {HELP}"));
    }
    let mut devices = list("/sys/class/block").map(|entry| Path::new("/dev").join(entry.file_name()));
    if let Some(device) = devices.find(|device| is_suspended(&system.path(device)) == Some(true)) {
        return Some(format!("{} holds a hibernated system: resume it and shut it down", device.display()));
    }
    let device = settings.device.filter(|device| device != "none")?;
    if path_of(system, &device).is_some_and(|path| is_suspended(&path).is_some()) {
        return None;
    }
    Some(format!("a hibernated system may be in {device}, which cannot be read yet: {HELP}"))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    is_off: bool,
    has_offset: bool,
    device: Option<String>,
}

impl Settings {
    fn of(line: &str) -> Self {
        let mut settings = Self::default();
        for word in line.split_ascii_whitespace() {
            match word.split_once('=') {
                None if word == "noresume" => settings.is_off = true,
                Some(("resume_offset", _)) => settings.has_offset = true,
                Some(("resume", device)) => settings.device = Some(device.to_owned()),
                _ => {}
            }
        }
        settings
    }
}

/// The device of a `resume=`; `None` if it is missing.
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

/// Whether the device holds the image of a hibernated system; `None` if it cannot be read.
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
        let of = |device: Option<&str>, is_off, has_offset| Settings {
            is_off,
            has_offset,
            device: device.map(str::to_owned),
        };
        assert_eq!(Settings::of("quiet root=/dev/sda1\n"), of(None, false, false));
        assert_eq!(Settings::of("resume=UUID=1-2 resume_offset=8 x"), of(Some("UUID=1-2"), false, true));
        assert_eq!(Settings::of("noresume resume=/dev/sda2"), of(Some("/dev/sda2"), true, false));
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
