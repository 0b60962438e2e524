//! Running a process and measuring it from outside.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::samples::Samples;

/// Warm-up rounds that are not counted: caches fill, and the processor's clock rises.
const WARM_UP: usize = 2;

/// A command to be measured.
pub(crate) struct Arm {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    dir: Option<PathBuf>,
}

impl Arm {
    pub(crate) fn new(name: &'static str, program: &Path, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self { name, program: program.to_owned(), words, dir: None }
    }

    /// This command, run in `dir`.
    pub(crate) fn within(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Whether the program is installed; prints a message if not.
    pub(crate) fn is_there(&self) -> bool {
        let there = self.program.exists();
        if !there {
            eprintln!("SKIPPED: {} is not installed", self.program.display());
        }
        there
    }

    /// Runs it once; returns its duration and its peak of resident memory in bytes.
    fn run(&self) -> Result<(Duration, u64)> {
        let mut command = Command::new(&self.program);
        command.args(&self.words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot run {}", self.program.display()))?;
        let (status, peak) = wait(child.id())?;
        let took = begun.elapsed();
        // straddle exits with 1 if there are findings.
        match status {
            0 | 1 => Ok((took, peak)),
            status => bail!("{} ended with {status}", self.name),
        }
    }
}

/// Runs the arms in turn, with a different one first in each round.
pub(crate) fn interleave(arms: &[Arm], rounds: usize) -> Result<Vec<Samples>> {
    let mut samples: Vec<Samples> = arms.iter().map(|arm| Samples::new(arm.name)).collect();
    for round in 0..rounds + WARM_UP {
        for turn in 0..arms.len() {
            let index = (round + turn) % arms.len();
            let (took, peak) = arms[index].run()?;
            if round >= WARM_UP {
                samples[index].add(took, peak);
            }
        }
    }
    Ok(samples)
}

/// Runs a command to its end; returns its output and its processor time in seconds, user and system.
pub(crate) fn run_measured(command: &mut Command) -> Result<(String, f64)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut text = String::new();
    child.stdout.take().context("piped")?.read_to_string(&mut text)?;
    let (code, usage) = waited(child.id())?;
    if code != 0 {
        bail!("{:?} ended with {code}", command.get_program());
    }
    let seconds = |time: libc::timeval| {
        Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0)).as_secs_f64()
            + Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)).as_secs_f64()
    };
    Ok((text, seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

/// Waits for a child; returns its exit status and its peak of resident memory in bytes. The peak is never
/// less than what this process held when it started the child.
pub(crate) fn wait(child: u32) -> Result<(i32, u64)> {
    let (code, usage) = waited(child)?;
    // Linux counts in KiB (getrusage(2)).
    Ok((code, u64::try_from(usage.ru_maxrss)? * 1024))
}

/// Waits for a child; returns its exit status and resource usage. The standard library's wait does not report
/// the usage.
#[allow(unsafe_code, reason = "wait4 has no safe form")]
fn waited(child: u32) -> Result<(i32, libc::rusage)> {
    let pid = libc::pid_t::try_from(child)?;
    let mut status = 0;
    // SAFETY: a rusage is plain integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables that live until the call returns.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited != pid {
        return Err(std::io::Error::last_os_error()).context("cannot wait for a process");
    }
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    Ok((code, usage))
}
