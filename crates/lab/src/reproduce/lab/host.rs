//! Runs jobs on this machine's own kernel and a real device: the same scripts and figures, in real time.
//!
//! Invariants: a device is used only if its owner has given it up by name and nothing else uses it. It stays locked,
//! and after each job nothing of it is mounted. One job runs at a time.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};
use straddle_device::claim::{Claim, LockError, take};
use straddle_device::live::Machine as LiveMachine;
use straddle_units::io::Counters;

use crate::guest::{GuestError, Measured, Partition, PartitionTable};
use crate::reproduce::experiment::SECTOR;
use crate::reproduce::lab::job::{Ended, Job, LabError, Machine};

/// How long udev may take to create a partition's node, and what was killed to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(50);

/// This machine, and the device given up to it.
pub struct Host<'a> {
    device: PathBuf,
    sector: u64,
    stop: &'a AtomicBool,
    turn: Mutex<()>,
    /// The device, locked. Not opened with O_EXCL, which would prevent creating and mounting its partitions.
    _claimed: (File, Claim),
}

impl<'a> Host<'a> {
    /// Uses `device`, whose contents are lost. Setting `stop` ends the running script.
    pub fn new(device: &Path, stop: &'a AtomicBool) -> Result<Self, LabError> {
        let failure = |what: &str| LabError::Failed(format!("{}: {what}", device.display()));
        let path = device.canonicalize().map_err(LabError::on(device))?;
        let kind = fs::metadata(&path).map_err(LabError::on(device))?.file_type();
        if !kind.is_block_device() {
            return Err(failure("is not a block device (losetup -P makes one from a file)"));
        }
        let name = path.file_name().unwrap_or_default();
        let queue = Path::new("/sys/block").join(name).join("queue/logical_block_size");
        let sector = fs::read_to_string(queue).map_err(|_| failure("is not a whole disk"))?;
        let sector =
            sector.trim().parse().map_err(|_| failure("the logical sector size of this disk is unknown"))?;
        if !rustix::process::geteuid().is_root() {
            return Err(failure("only root may make and mount file systems on this disk"));
        }
        let claimed = claim(&path)?;
        Ok(Self { device: path, sector, stop, turn: Mutex::new(()), _claimed: claimed })
    }

    /// Returns the device's size in bytes; 0 if the kernel does not report it.
    fn size(&self) -> u64 {
        let name = self.device.file_name().unwrap_or_default();
        let text = fs::read_to_string(Path::new("/sys/block").join(name).join("size")).unwrap_or_default();
        text.trim().parse::<u64>().map_or(0, |sectors| sectors.saturating_mul(SECTOR))
    }

    fn partition(&self) -> PathBuf {
        let name = self.device.to_string_lossy();
        let separator = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
        PathBuf::from(format!("{name}{separator}1"))
    }

    /// Waits for the partition's node.
    fn partition_at(&self, start: u64, partition: Partition) -> Result<PathBuf, LabError> {
        let failure = |what: String| LabError::Failed(format!("{}: {what}", self.device.display()));
        if !start.is_multiple_of(self.sector) {
            return Err(failure(format!(
                "byte {start} is not a multiple of the {}-byte logical sector",
                self.sector
            )));
        }
        let first = start / self.sector;
        let ends_on_it = |size: &u64| start.checked_add(*size).is_some_and(|end| end <= self.size());
        let size = partition.size.filter(ends_on_it).map(|size| format!(", size={}", size / self.sector));
        let size = size.unwrap_or_default();
        let script = match partition.table {
            PartitionTable::Gpt => format!("label: gpt\nfirst-lba: {}\nstart={first}{size}\n", first.min(34)),
            PartitionTable::Mbr => format!("label: dos\nstart={first}{size}, type=83\n"),
        };
        let run = |program: &str, words: &[&str], input: &str| run(program, words, input, &self.device);
        // Otherwise signatures left by an earlier job would be found again.
        run("wipefs", &["-q", "-a"], "")?;
        run("sfdisk", &["-q", "--wipe", "always", "--wipe-partitions", "always"], &script)?;
        let node = self.partition();
        let is_there = || fs::metadata(&node).is_ok_and(|found| found.file_type().is_block_device());
        if !in_time(is_there) {
            return Err(failure(format!("the partition {} did not appear", node.display())));
        }
        Ok(node)
    }
}

fn claim(path: &Path) -> Result<(File, Claim), LabError> {
    let in_use = |by: String| LabError::InUse { path: path.to_owned(), by };
    let open = |flags: OFlags| {
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(path)
    };
    // With O_EXCL, opening fails if anything in the kernel holds it (mounts, arrays, other programs).
    match open(OFlags::EXCL) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let uses = LiveMachine::read(None).uses(path);
            let unknown = || "another layer or program is using the disk".to_owned();
            return Err(in_use(if uses.is_empty() { unknown() } else { uses.join("; ") }));
        }
        Err(error) => return Err(LabError::on(path)(error)),
    }
    let file = open(OFlags::empty()).map_err(LabError::on(path))?;
    match take(&file, path) {
        Ok(claim) => Ok((file, claim)),
        Err(LockError::Io(error)) => Err(LabError::on(path)(error)),
        Err(error) => Err(in_use(error.to_string())),
    }
}

impl LabError {
    fn on(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = path.display().to_string();
        move |source| Self::Io { doing, source }
    }
}

fn run(program: &str, words: &[&str], input: &str, device: &Path) -> Result<(), LabError> {
    use std::io::Write;
    let doing = || format!("{}: {program}", device.display());
    let failed = |source| LabError::Io { doing: doing(), source };
    let mut command = Command::new(program);
    command.args(words).arg(device).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that reads no input may have exited already.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(LabError::Failed(format!("{}: {}", doing(), said.trim())))
    }
}

struct Folder(crate::guest::RunFolder);

impl Folder {
    fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What was killed in the middle of a write holds the file system until the write is over.
        in_time(|| {
            let mut umount = Command::new("umount");
            let ran = umount.arg("-q").arg(self.join("mount")).stderr(Stdio::null()).status();
            ran.is_err() || !self.0.has_mount()
        });
    }
}

/// Ends a script and all that it runs, and waits for it: a tool that goes on would write to the device.
fn end(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // The script has not been waited for yet, so its number is not another's.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    in_time(|| group.is_none_or(|group| rustix::process::test_kill_process_group(group).is_err()));
    Ok(())
}

/// Returns whether this becomes true within [`PATIENCE`].
fn in_time(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        match (is_so(), begun.elapsed() > PATIENCE) {
            (true, _) => return true,
            (false, true) => return false,
            (false, false) => std::thread::sleep(MOMENT),
        }
    }
}

impl Machine for Host<'_> {
    fn device(&self) -> Option<&Path> {
        Some(&self.device)
    }

    fn run(&self, job: &Job) -> Result<Ended, LabError> {
        let failed = |source| LabError::Io { doing: "running the script".to_owned(), source };
        let _turn = self.turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.stop.load(Ordering::Relaxed) {
            return Err(GuestError::Interrupted.into());
        }
        let begun = Instant::now();
        let [drive] = &job.drives[..] else {
            return Err(LabError::Failed("a job on a real device can use only one drive".to_owned()));
        };
        let partition = drive.partition;
        let node = partition.start.map(|start| self.partition_at(start, partition)).transpose()?;
        let folder = Folder(crate::guest::RunFolder::new(&std::env::temp_dir()).map_err(failed)?);
        fs::create_dir(folder.join("mount")).map_err(failed)?;
        let task = &job.task;
        for (name, text) in [("library", &*task.library), ("script", &task.script), ("results", "")] {
            fs::write(folder.join(name), text).map_err(failed)?;
        }
        let output = fs::File::create(folder.join("output")).map_err(failed)?;
        let mut command = Command::new("bash");
        command.arg(folder.join("script")).args(&task.arguments).envs(task.environment.iter().cloned());
        command
            .env("DISK", &self.device)
            .env("MNT", folder.join("mount"))
            .env("RESULTS", folder.join("results"))
            .env("BASH_ENV", folder.join("library"))
            .envs(node.map(|node| ("PART", node)))
            .envs(task.input.iter().map(|input| ("INPUT", input)))
            .envs(task.output.iter().map(|output| ("OUTPUT", output)));
        command.current_dir(folder.0.path());
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        // Of its own, so that what it runs ends with it.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if self.stop.load(Ordering::Relaxed) {
                end(&mut child).map_err(failed)?;
                return Err(GuestError::Interrupted.into());
            }
            std::thread::sleep(MOMENT);
        };
        let text = |name: &str| {
            fs::read(folder.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let seconds = begun.elapsed().as_secs_f64();
        let results = text("results").map_err(failed)?;
        Ok(Ended {
            status: status.code().unwrap_or(128),
            measures: results.lines().filter_map(Measured::parse).map(Into::into).collect(),
            output: text("output").map_err(failed)?,
            virtual_seconds: seconds,
            wall_seconds: seconds,
            requests: 0,
            counters: vec![Counters::default()],
            charges: format!("none: measured on {} in real time", self.device.display()),
        })
    }
}
