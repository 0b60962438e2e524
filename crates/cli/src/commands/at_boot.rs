//! `straddle realign DISK --at-boot`: moves partitions before the root file system is mounted.
//!
//! The law of this module: while data move, the partitions that move are not listed, and no boot loader finds
//! its files in them. A move is prepared only if everything that is read before the move can go on, from the
//! boot code to the initramfs, is elsewhere. When the machine starts, whatever fails before the first write
//! lets it start as before; it never goes on with partitions in the kernel that the table does not have.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use straddle_device::Options;
use straddle_device::sysfs::{Directory, partitions};
use straddle_examine::boot::{BootFiles, boot_files, hibernated};
use straddle_examine::{Depth, Present};
use straddle_repair::realign::{ELSEWHERE, JournalPlace, MoveError, Realign, Run};
use straddle_repair::{Change, Target};

use super::realign::carry_on;
use super::saved::LARGEST_PLAN;
use crate::exit::{Exit, RefusedError};
use crate::input;
use crate::output::{self, plural, quote_path};

/// Where everything is that the initramfs needs, under the same path in both.
const HOME: &str = "/var/lib/straddle/at-boot";
/// What the last start did.
const LOG: &str = "/run/initramfs/straddle.log";
/// Every file that is installed elsewhere has this line.
const OURS: &str = "# Installed by 'straddle realign --at-boot'; '--at-boot=cancel' removes it.";
/// How often, and with what pauses, the kernel is asked to read a table that it does not have.
const REREADS: (u32, Duration) = (20, Duration::from_millis(500));

/// A program that makes the initramfs, and what is installed for it.
struct Generator {
    program: &'static str,
    arguments: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
}

const GENERATORS: [Generator; 2] = [
    Generator {
        program: "update-initramfs",
        arguments: &["-u", "-k", "all"],
        files: &[
            ("/etc/initramfs-tools/hooks/straddle", include_str!("at_boot/initramfs-hook")),
            ("/etc/initramfs-tools/scripts/init-premount/straddle", include_str!("at_boot/initramfs-script")),
        ],
    },
    Generator {
        program: "dracut",
        arguments: &["--force", "--regenerate-all"],
        files: &[
            ("/usr/lib/dracut/modules.d/90straddle/module-setup.sh", include_str!("at_boot/dracut-setup")),
            (
                "/usr/lib/dracut/modules.d/90straddle/straddle-at-boot.sh",
                include_str!("at_boot/dracut-script"),
            ),
        ],
    },
];

impl Generator {
    /// The one of this system.
    fn find() -> Option<&'static Self> {
        GENERATORS.iter().find(|one| one.path().is_some())
    }

    fn path(&self) -> Option<PathBuf> {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .iter()
            .map(|folder| Path::new(folder).join(self.program))
            .find(|path| path.exists())
    }

    fn command(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }

    /// Makes every initramfs again.
    fn run(&self) -> Result<()> {
        let program = self.path().with_context(|| format!("{} is not installed", self.program))?;
        let status = Command::new(program).args(self.arguments).status().context(self.program)?;
        anyhow::ensure!(status.success(), "{} failed ({status})", self.command());
        Ok(())
    }

    fn install(&self) -> Result<()> {
        for (path, text) in self.files {
            let path = Path::new(path);
            if path.exists() && !is_ours(path) {
                return Err(RefusedError(format!("{}: exists and is not straddle's", path.display())).into());
            }
            write(path, text.as_bytes(), 0o755)?;
        }
        Ok(())
    }

    fn remove(&self) -> Result<bool> {
        let mut is_found = false;
        for (path, _) in self.files {
            let path = Path::new(path);
            if is_ours(path) {
                fs::remove_file(path).with_context(|| path.display().to_string())?;
                is_found = true;
                // Only a folder that is empty goes, which is that of dracut's module.
                if let Some(folder) = path.parent().filter(|folder| folder.ends_with("90straddle")) {
                    let _ = fs::remove_dir(folder);
                }
            }
        }
        Ok(is_found)
    }
}

fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().nth(1) == Some(OURS))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
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
    write().with_context(|| path.display().to_string())
}

/// Installs what moves the partitions of `disk` at the next start.
pub(super) fn prepare(disk: &Path, realign: &Realign, present: &Present) -> Result<Exit> {
    let name = disk.display().to_string();
    let refuse = |why: String| Err(RefusedError(format!("{name}: not at boot: {why}")).into());
    let sys = match sysfs_of(disk) {
        Some(sys) => sys,
        None => return refuse("it is not a whole disk".to_owned()),
    };
    if let Some(why) = obstacle(realign, present, &sys)? {
        return refuse(why);
    }
    let Some(generator) = Generator::find() else {
        return refuse("neither initramfs-tools nor dracut is installed".to_owned());
    };
    let home = Path::new(HOME);
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = fs::read(&program).with_context(|| program.display().to_string())?;
    let stable = stable_name(disk);
    let installed = write(&home.join("straddle"), &program, 0o755)
        .and_then(|()| write(&home.join("plan.json"), (realign.to_json()? + "\n").as_bytes(), 0o600))
        .and_then(|()| write(&home.join("disk"), format!("{}\n", stable.display()).as_bytes(), 0o644))
        .and_then(|()| generator.install())
        .and_then(|()| generator.run());
    if let Err(error) = installed {
        let _ = fs::remove_dir_all(home);
        let _ = generator.remove();
        return Err(error.context(format!("{name}: nothing is prepared; run {} again", generator.command())));
    }
    let (moved, bytes) = realign.trips();
    let mut out = output::stdout();
    writeln!(
        out,
        "{}: prepared: at the next start, before the root file system is mounted, {} of data in {} will be moved",
        output::printable(&name),
        bytes,
        plural(moved, "partition")
    )?;
    writeln!(out, "  a power cut is resumed by the next start; nothing else starts meanwhile")?;
    writeln!(out, "  if the disk has changed until then, nothing is written and it starts as before")?;
    writeln!(out, "  the result: straddle check {}", quote_path(disk))?;
    writeln!(out, "  to remove it: straddle realign {} --at-boot=cancel", quote_path(disk))?;
    out.flush()?;
    Ok(Exit::Success)
}

/// The folder of a whole disk in sysfs.
fn sysfs_of(disk: &Path) -> Option<PathBuf> {
    let disk = fs::canonicalize(disk).ok()?;
    let is_device = fs::metadata(&disk).is_ok_and(|found| found.file_type().is_block_device());
    let sys = Path::new("/sys/block").join(disk.file_name()?);
    (is_device && sys.exists()).then_some(sys)
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

/// Why the machine could not start while the partitions are being moved; `None` if it can.
fn obstacle(realign: &Realign, present: &Present, sys: &Path) -> Result<Option<String>> {
    if let Some(why) = realign.blocks_start(present.medium(), present.stack())? {
        return Ok(Some(why));
    }
    let entries = &realign.plan().table().partitions;
    let moving = entries.iter().filter(|entry| matches!(entry.change, Change::Moved { .. }));
    let moving: Vec<u32> = moving.map(|entry| entry.number).collect();
    Ok(boot_files(sys, &moving).map(|files| match files {
        BootFiles::Unknown(path) => format!("it is not clear on which disk {} is", path.display()),
        BootFiles::In(path, number) => format!(
            "{} is in partition {number}, and the boot loader cannot read it while it moves: {ELSEWHERE}, or give \
             /boot a partition that is aligned",
            path.display()
        ),
    }))
}

/// Removes what [`prepare`] installed.
pub(super) fn cancel(disk: &Path) -> Result<Exit> {
    let home = Path::new(HOME);
    if !home.exists() {
        anyhow::bail!("{}: nothing is prepared", disk.display());
    }
    for generator in &GENERATORS {
        if generator.remove()? {
            generator.run()?;
        }
    }
    fs::remove_dir_all(home).with_context(|| HOME.to_owned())?;
    let mut out = output::stdout();
    writeln!(
        out,
        "{}: nothing will be moved at the next start",
        output::printable(&disk.display().to_string())
    )?;
    out.flush()?;
    Ok(Exit::Success)
}

/// What the initramfs runs: resumes an unfinished move, or begins the one that was prepared.
pub(super) fn now(disk: &Path) -> Result<Exit> {
    let mut begun = None;
    let ended = moved(disk, &mut begun);
    let (text, exit) = match &ended {
        Ok((text, exit)) => (text.clone(), *exit),
        Err(error) => (format!("the partitions were not moved: {error:#}"), Exit::Failed),
    };
    let text = match begun.map(|realign| agree(disk, &realign)) {
        None | Some(Ok(())) => text,
        Some(Err(why)) => {
            let text = format!("{text}; {why:#}");
            output::complain(&format!("{}: {text}: starting again", disk.display()));
            std::thread::sleep(Duration::from_secs(5));
            // Going on would mount partitions that are elsewhere by now.
            fs::write("/proc/sysrq-trigger", "b").context("cannot start again: turn the machine off")?;
            text
        }
    };
    output::complain(&format!("{}: {text}", disk.display()));
    write(Path::new(LOG), format!("{}\n{text}\n", disk.display()).as_bytes(), 0o644)?;
    Ok(exit)
}

/// Moves, and returns what was done in words. `begun` is the plan of which something may have been written.
fn moved(disk: &Path, begun: &mut Option<Realign>) -> Result<(String, Exit)> {
    let path = Path::new(HOME).join("plan.json");
    let realign = Realign::from_json(&input::text(&path, LARGEST_PLAN)?)?;
    let mut target = Target::open(disk, None)?;
    match Run::find(&mut target, None) {
        Ok(mut run) => {
            *begun = Some(run.realign().clone());
            let is_back = run.is_turned()? || run.is_unbegun()?;
            let exit = carry_on(run, disk, is_back)?;
            let what = if is_back {
                "the old layout is back"
            } else {
                "the move is complete, after an interruption"
            };
            return Ok((what.to_owned(), exit));
        }
        Err(MoveError::Nothing) => {}
        Err(error) => return Err(error.into()),
    }
    if realign.is_done(&target)? {
        let text = format!(
            "the partitions are where they should be; remove the hook: straddle realign {} --at-boot=cancel",
            quote_path(disk)
        );
        return Ok((text, Exit::Success));
    }
    if let Some(why) = hibernated() {
        return Err(RefusedError(why).into());
    }
    let mut id = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut id))?;
    let run = realign.begin(&mut target, JournalPlace::Inside, id)?;
    *begun = Some(realign.clone());
    let exit = carry_on(run, disk, false)?;
    Ok(("the move is complete".to_owned(), exit))
}

/// Makes sure that the kernel lists the partitions that move where the table has them, or not at all if it
/// has none.
fn agree(disk: &Path, realign: &Realign) -> Result<()> {
    let Some(sys) = sysfs_of(disk) else { return Ok(()) };
    let entries = &realign.plan().table().partitions;
    let moves = |number: u32| {
        entries.iter().any(|entry| entry.number == number && matches!(entry.change, Change::Moved { .. }))
    };
    for _ in 0..REREADS.0 {
        let present = Present::to_change(disk, &Options::default(), Depth::Table)?;
        let start = |p: &straddle_layout::Partition| (p.number, p.span.start().get());
        let mut table: Vec<(u32, u64)> =
            present.stack().partitions.iter().map(start).filter(|(number, _)| moves(*number)).collect();
        table.sort_unstable();
        let listed = partitions(&Directory::new(sys.clone()));
        let listed = listed.iter().map(|p| (p.number, p.span.start().get()));
        let listed: Vec<(u32, u64)> = listed.filter(|(number, _)| moves(*number)).collect();
        if table == listed {
            return Ok(());
        }
        let file = fs::File::open(disk)?;
        let _ = straddle_device::ioctl::reread_partitions(&file);
        std::thread::sleep(REREADS.1);
    }
    anyhow::bail!("the kernel does not list the partitions of the table")
}

/// What the last start did to one of `targets`, or to any disk if that is empty.
pub(super) fn note(targets: &[PathBuf]) -> Option<String> {
    let log = fs::read_to_string(LOG).ok()?;
    let (disk, text) = log.split_once('\n')?;
    let disk_path = fs::canonicalize(disk).ok();
    let same = |target: &PathBuf| disk_path.is_some() && fs::canonicalize(target).ok() == disk_path;
    let is_meant = targets.is_empty() || targets.iter().any(same);
    is_meant.then(|| format!("{disk}: at the last start: {}", text.trim_end()))
}
