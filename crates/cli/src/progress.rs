//! A progress bar on stderr for long work, and signals that end it.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use straddle_measure::bench::{Progress, float};
use straddle_units::ByteCount;

/// Work that ends sooner gets no bar.
const PATIENCE: Duration = Duration::from_secs(1);

const STEPS: f64 = 1000.0;

/// A bar that appears on stderr once the work takes more than a second, if stderr is a terminal.
pub struct Bar {
    begun: Instant,
    /// `None` if stderr is not a terminal.
    bar: Option<ProgressBar>,
    at: Option<u64>,
    what: String,
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Bar {
    /// Begins the time after which the bar appears.
    pub fn new() -> Self {
        let bar = io::stderr().is_terminal().then(ProgressBar::hidden);
        Self { begun: Instant::now(), bar, at: None, what: String::new() }
    }
}

impl Progress for Bar {
    fn advance(&mut self, share: f64) {
        let Some(bar) = &mut self.bar else { return };
        let at = whole(share * STEPS);
        if self.at == Some(at) {
            return;
        }
        let elapsed = self.begun.elapsed();
        if self.at.is_none() {
            if elapsed < PATIENCE {
                return;
            }
            let style = ProgressStyle::with_template("{bar:24} {percent} %, {wide_msg}");
            *bar = ProgressBar::with_draw_target(Some(whole(STEPS)), ProgressDrawTarget::stderr())
                .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        self.at = Some(at);
        // This assumes a constant pace. The share is above 0, as some work is done.
        let left = elapsed.as_secs_f64() * (1.0 - share) / share.max(1.0 / STEPS);
        let what = if self.what.is_empty() { String::new() } else { format!(", {}", self.what) };
        let left = if at == 0 { String::new() } else { format!("{left:.0} s left") };
        bar.set_message(format!("{left}{what}").trim_start_matches(", ").to_owned());
        bar.set_position(at);
    }

    fn tell(&mut self, what: &str) {
        if self.what != what {
            what.clone_into(&mut self.what);
            // Make the next `advance` redraw, even if the position does not change.
            self.at = self.at.map(|_| u64::MAX);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

pub(crate) struct Watcher {
    bar: Bar,
    stop: Arc<AtomicBool>,
    what: String,
    /// When the first report came, and the bytes done by then.
    first: Option<(Instant, u64)>,
}

impl Watcher {
    pub(crate) fn start(what: &'static str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        on_interrupt(&stop).context("cannot install the Ctrl-C handler")?;
        let mut bar = Bar::new();
        bar.tell(what);
        Ok(Self { bar, stop, what: what.to_owned(), first: None })
    }

    pub(crate) fn enter(&mut self, what: &str) {
        if self.what != what {
            self.bar = Bar::new();
            self.bar.tell(what);
            (self.what, self.first) = (what.to_owned(), None);
        }
    }

    /// Takes a report; breaks at the first one after an interrupt.
    pub(crate) fn look(&mut self, progress: straddle_repair::relocate::Progress) -> ControlFlow<()> {
        let (done, total) = (progress.done.get(), progress.total.get().max(1));
        let (begun, before) = *self.first.get_or_insert((Instant::now(), done));
        let elapsed = begun.elapsed().as_secs();
        if let Some(rate) = done.saturating_sub(before).checked_div(elapsed) {
            let unit = if rate >> 20 > 0 { 20 } else { 10 };
            self.bar.tell(&format!("{}, {}/s", self.what, ByteCount::new(rate >> unit << unit)));
        }
        self.bar.advance(float(done) / float(total));
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn whole(steps: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to STEPS, and cut to that")]
    let whole = steps.clamp(0.0, STEPS) as u64;
    whole
}

/// Sets `stop` on the first Ctrl-C, SIGTERM or SIGHUP; a second one ends this process at once. If SIGHUP is
/// ignored (nohup), it stays ignored.
pub fn on_interrupt(stop: &Arc<AtomicBool>) -> std::io::Result<()> {
    for signal in ending() {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Returns SIGINT and SIGTERM, and SIGHUP unless this process was started with it ignored, as by nohup(1).
pub fn ending() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

/// Reads the mask SigIgn in /proc/self/status, whose lowest bit is signal 1, SIGHUP.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
