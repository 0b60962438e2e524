//! A recording: the buffers of all processors, read until it ends.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Serialize;
use straddle_units::io::{Nanos, nanos};

use crate::tracefs::RecordError;
use crate::tracefs::instance::{Buffer, EVENTS, Instance, Subject, failed};
use crate::tracefs::page::{Decoder, Missed, PageLayout, walk};
use crate::{Asked, Recorder};

/// The clock of the events: CLOCK_MONOTONIC, as blktrace's.
pub const CLOCK: &str = "mono";
const PAUSE: Duration = Duration::from_millis(50);
/// The most pages of a processor that are read before those of others.
const TURN: usize = 1024;
/// With this many pages of a processor in a round, there is no pause.
const BUSY: usize = 16;
/// How late an event may come to its buffer after its time was taken.
const LATE: Nanos = Nanos::new(100_000_000);
const TICK: Duration = Duration::from_secs(1);

/// How to record.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For how long; `None` until stopped.
    pub limit: Option<Duration>,
    /// The kernel's buffer of each processor, in KiB.
    pub buffer: u64,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RecordingEnd")]
pub enum Why {
    /// The time limit was reached.
    Time,
    /// The recording was stopped.
    Stopped,
    /// The device was removed.
    Gone,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Since it began.
    pub elapsed: Duration,
    /// What has been asked of the device.
    pub asked: &'a Asked,
    /// Events that the kernel had no room for, as far as the pages say.
    pub lost: u64,
}

/// A recording that ended.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Ended {
    /// Why the recording ended.
    #[serde(rename = "ended")]
    pub why: Why,
    /// The duration of the recording, in nanoseconds.
    #[serde(rename = "elapsed_ns", serialize_with = "nanos")]
    #[schemars(with = "Nanos")]
    pub elapsed: Duration,
    /// The number of events that did not fit in the kernel's buffers, and so are missing from the file.
    #[serde(rename = "lost_events")]
    pub lost: u64,
}

/// Records a device; `recorder`, begun at [`clock`]'s time, is not finished. `tell` is called each second.
pub fn record<W: Write>(
    subject: &Subject,
    options: &Options,
    recorder: &mut Recorder<W>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Result<Ended, RecordError> {
    Session::new(Instance::new()?, subject, options)?.run(recorder, stop, tell)
}

/// Returns the present time by the clock of recordings, and since 1970.
pub fn clock() -> (Nanos, Duration) {
    (now(), std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default())
}

fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let whole = u64::try_from(now.tv_sec).unwrap_or_default().saturating_mul(1_000_000_000);
    Nanos::new(whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default()))
}

struct Session<'s> {
    // Dropped before the instance, which the kernel does not remove while they are open.
    buffers: Vec<Buffer>,
    instance: Instance,
    subject: &'s Subject,
    limit: Option<Duration>,
    pages: PageLayout,
    decoder: Decoder,
    page: Vec<u8>,
    missed: u64,
}

impl<'s> Session<'s> {
    fn new(instance: Instance, subject: &'s Subject, options: &Options) -> Result<Self, RecordError> {
        instance.set("trace_clock", CLOCK)?;
        instance.set("buffer_size_kb", &options.buffer.to_string())?;
        for event in EVENTS {
            instance.event_format(event)?;
            instance.set(&format!("events/block/{event}/filter"), &subject.filter())?;
        }
        let (path, text) = instance.page_format()?;
        let pages = PageLayout::of(&text).map_err(|source| RecordError::Format { path, source })?;
        let [(path, issue), (_, complete)] =
            [instance.event_format(EVENTS[0])?, instance.event_format(EVENTS[1])?];
        let decoder =
            Decoder::of(&issue, &complete).map_err(|source| RecordError::Format { path, source })?;
        let buffers = instance.buffers()?;
        let (limit, page) = (options.limit, vec![0; pages.size()]);
        Ok(Self { buffers, instance, subject, limit, pages, decoder, page, missed: 0 })
    }

    fn run<W: Write>(
        &mut self,
        recorder: &mut Recorder<W>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Ended, RecordError> {
        self.instance.enable(true)?;
        let begun = Instant::now();
        let mut tick = begun + TICK;
        let why = loop {
            let before = now();
            let pages = self.round(recorder)?;
            recorder.settle(before.saturating_sub(LATE)).map_err(RecordError::Write)?;
            let left = self.limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break Why::Time;
            }
            if stop.load(Ordering::Relaxed) {
                break Why::Stopped;
            }
            if Instant::now() >= tick {
                tick += TICK;
                if !self.subject.is_there() {
                    break Why::Gone;
                }
                // A recorder that is killed leaves what it had until then.
                recorder.flush().map_err(RecordError::Write)?;
                tell(&Progress { elapsed: begun.elapsed(), asked: recorder.asked(), lost: self.missed });
            }
            if pages < BUSY {
                thread::sleep(left.map_or(PAUSE, |left| left.min(PAUSE)));
            }
        };
        let elapsed = begun.elapsed();
        self.instance.enable(false)?;
        // With the events off, the buffers become empty.
        while self.round(recorder)? > 0 {}
        let lost = self.instance.lost(&self.buffers)?.max(self.missed);
        Ok(Ended { why, elapsed, lost })
    }

    /// Returns the most pages of one processor.
    fn round<W: Write>(&mut self, recorder: &mut Recorder<W>) -> Result<usize, RecordError> {
        let Self { buffers, pages, decoder, page, missed, .. } = self;
        let mut most = 0;
        for Buffer { processor, file, path } in buffers {
            let mut count = 0;
            while count < TURN {
                let read = match file.read(page) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(source) => return Err(failed(path.clone())(source)),
                };
                count += 1;
                let mut written = Ok(());
                let walked = walk(page.get(..read).unwrap_or_default(), pages, |time, data| {
                    if let (Some(happened), Ok(())) = (decoder.event(*processor, time, data), &written) {
                        written = recorder.add(happened);
                    }
                });
                written.map_err(RecordError::Write)?;
                *missed +=
                    match walked.map_err(|source| RecordError::Page { processor: *processor, source })? {
                        Missed::None => 0,
                        Missed::Some => 1,
                        Missed::Count(count) => count,
                    };
            }
            most = most.max(count);
        }
        Ok(most)
    }
}
